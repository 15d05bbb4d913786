use super::*;
use perhop_units::Duration;
use proptest::prelude::*;

const TIMED: Latency = Latency::Timed { up: Duration::from_secs(120), down: 2_576_980_378 };
const MINIMUM: Latency = Latency::Minimum { window: Duration::from_secs(10) };

#[test]
fn published_weights() {
    let mut f = Filter::default();
    assert_eq!(f.sample(&Latency::PUBLISHED, 0, 100_000, 0), Sampled::Taken);
    assert_eq!(f.us(), 100_000, "the first sample is the latency");
    f.sample(&Latency::PUBLISHED, 1, 110_000, 0);
    assert_eq!(f.us(), 100_020, "0.002 of what it is longer");
    f.sample(&Latency::PUBLISHED, 2, 90_020, 0);
    assert_eq!(f.us(), 94_020, "0.6 of what it is shorter");
}

#[test]
fn samples_that_cannot_be_are_refused() {
    let mut f = Filter::default();
    for how in [Latency::PUBLISHED, TIMED, MINIMUM] {
        assert_eq!(f.sample(&how, 0, 0, 0), Sampled::Refused);
        assert_eq!(f.sample(&how, 0, 60_000_001, 0), Sampled::Refused);
        assert_eq!(f.parts(), 0);
    }
    assert_eq!(f.sample(&Latency::PUBLISHED, 0, 60_000_000, 0), Sampled::Taken);
    assert_eq!(f.us(), 60_000_000);
}

#[test]
fn a_longer_path_is_recognised_after_three_round_trips_and_a_queue_is_not() {
    for how in [Latency::PUBLISHED, TIMED] {
        let mut f = Filter::default();
        f.sample(&how, 0, 100_000, 20_000);
        // Steady at 300 ms from second 1 on: 3 round trips are 960 ms.
        let stepped = (0..40).map(|i| 1_000_000 + i * 50_000).find(|now| {
            f.sample(&how, *now, 300_000 + now / 50_000 % 5 * 1_000, 20_000) == Sampled::Reinitialised
        });
        let at = stepped.expect("it is recognised");
        assert!((1_960_000..=2_010_000).contains(&at), "{at}");
        assert!((300_000..=301_000).contains(&f.us()), "{}", f.us());
        // A queue that comes and goes, and one that grows.
        let mut f = Filter::default();
        f.sample(&how, 0, 100_000, 20_000);
        for i in 0..400u32 {
            let wave = if i % 12 == 0 { 110_000 } else { 400_000 };
            assert_eq!(f.sample(&how, i * 50_000, wave, 20_000), Sampled::Taken);
        }
        let mut f = Filter::default();
        f.sample(&how, 0, 100_000, 20_000);
        for i in 0..40u32 {
            assert_eq!(f.sample(&how, i * 50_000, 130_000 + i * 10_000, 20_000), Sampled::Taken, "{i}");
        }
        assert!(f.us() < 120_000, "{}", f.us());
    }
}

#[test]
fn the_timed_average_does_not_depend_on_the_number_of_samples() {
    // exp(-60/120) of the difference is left after a minute, however many samples there were.
    for gap_us in [1_000u32, 50_000, 1_000_000] {
        let mut f = Filter::default();
        f.sample(&TIMED, 0, 100_000, 0);
        for i in 1..=60_000_000 / gap_us {
            f.sample(&TIMED, i * gap_us, 108_000, 0);
        }
        let expected = 108_000.0 - 8_000.0 * (-0.5f64).exp();
        assert!((f64::from(f.us()) - expected).abs() < 12.0, "{} {expected}", f.us());
    }
}

#[test]
fn the_minimum_forgets() {
    let mut f = Filter::default();
    f.sample(&MINIMUM, 0, 40_000, 0);
    for i in 1..300u32 {
        f.sample(&MINIMUM, i * 100_000, 60_000, 0);
        let now_s = f64::from(i) / 10.0;
        if now_s < 5.0 {
            assert_eq!(f.us(), 40_000, "at least half the window back");
        }
        if now_s > 10.0 {
            assert_eq!(f.us(), 60_000, "at most the whole");
        }
    }
    f.sample(&MINIMUM, 31_000_000, 20_000, 0);
    assert_eq!(f.us(), 20_000, "shorter at once");
}

#[test]
fn a_bound_only_lowers() {
    let mut f = Filter::default();
    assert_eq!(f.bound(&Latency::PUBLISHED, 0, 5_000, 0), Sampled::Taken);
    assert_eq!(f.bound(&Latency::PUBLISHED, 1, 9_000, 0), Sampled::Refused);
    f.bound(&Latency::PUBLISHED, 2, 3_000, 0);
    assert_eq!(f.us(), 3_800);
}

proptest! {
    #[test]
    fn the_exponential_is_close(part in 0u64..1 << 40, whole in 1u64..1 << 40) {
        let exact = -(-(part as f64) / whole as f64).exp_m1();
        let ours = f64::from(one_less_exp(part, whole)) / 4294967296.0;
        prop_assert!((ours - exact).abs() < 1.0 / f64::from(1 << 22), "{} {}", ours, exact);
        // Small arguments keep their relative precision, or slow filters would stand still.
        if part > whole >> 20 {
            prop_assert!((ours - exact).abs() <= exact / 512.0);
        }
    }

    /// Whatever comes, the result lies between the shortest and the longest sample.
    #[test]
    fn the_latency_lies_within_the_samples(
        samples in proptest::collection::vec((0u32..2_000_000, 1u32..60_000_000), 1..200), kind in 0u8..3, start: u32,
    ) {
        let how = [Latency::PUBLISHED, TIMED, MINIMUM][usize::from(kind)];
        let mut f = Filter::default();
        let (mut now, mut low, mut high) = (start, u32::MAX, 0);
        for (gap, rtt) in samples {
            now = now.wrapping_add(gap);
            prop_assert!(f.sample(&how, now, rtt, 1_000) != Sampled::Refused);
            (low, high) = (low.min(rtt), high.max(rtt));
            prop_assert!(f.us() + 1 >= low && f.us() <= high, "{} {} {}", low, f.us(), high);
        }
    }
}
