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

/// A link with a queue for flows with latencies of `paths` µs, whose rates together are 1.5 times the link's. Each keeps as much
/// under way as its rate needs by what `latency(flow, now, sample)` takes its latency for, µs. The queue after `seconds`, µs.
/// A fluid model: windows work from one round trip after they were written.
fn queue_of_an_overload(
    seconds: usize,
    paths: &[f64],
    mut latency: impl FnMut(usize, u32, u32) -> f64,
) -> f64 {
    const STEP_US: usize = 10_000;
    let mut windows: Vec<Vec<f64>> = vec![Vec::new(); paths.len()];
    let mut queues: Vec<f64> = Vec::new();
    for step in 0..seconds * 1_000_000 / STEP_US {
        let back = |us: f64| step.checked_sub(1 + us as usize / STEP_US);
        let last = queues.last().copied().unwrap_or(0.0);
        for (flow, path) in paths.iter().enumerate() {
            let sampled = back(path + last).map_or(0.0, |at| queues[at]) + path;
            let window = 1.5 / paths.len() as f64 * latency(flow, (step * STEP_US) as u32, sampled as u32);
            windows[flow].push(window);
        }
        let under_way = |flow: usize| windows[flow][back(paths[flow]).unwrap_or(0)];
        let load = |queue: f64| (0..paths.len()).map(|i| under_way(i) / (paths[i] + queue)).sum::<f64>();
        // The link is never idle, so what is served of all of it is exactly what the link has.
        let (mut low, mut high) = (0.0, 60_000_000.0);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if load(middle) > 1.0 { low = middle } else { high = middle }
        }
        queues.push(low);
    }
    *queues.last().expect("there were steps")
}

/// The positive feedback that the skimming is there to prevent (Reddy §4.3). What is left of it is the slow weight's; where every
/// path is another one, few flows are on trial at a time, so that queues tell them less.
#[test]
fn a_standing_queue_is_not_taken_for_a_longer_path() {
    let spread: Vec<f64> = (0..32).map(|i| 50_000.0 + f64::from(i) * 17_000.0).collect();
    for (paths, most) in [
        (&[300_000.0; 8][..], 1.02),
        (&[50_000.0, 600_000.0], 1.02),
        (&[300_000.0, 600_000.0], 1.02),
        (&spread, 1.5),
    ] {
        for seconds in [20, 60, 120] {
            let mut filters = vec![Filter::default(); paths.len()];
            let queue = queue_of_an_overload(seconds, paths, |flow, now, sample| {
                filters[flow].sample(&TIMED, now, sample, 0);
                f64::from(filters[flow].us())
            });
            let mut slow = vec![0.0; paths.len()];
            let by_the_weight = queue_of_an_overload(seconds, paths, |flow, _, sample| {
                let (sample, known) = (f64::from(sample), &mut slow[flow]);
                let weight = if sample > *known && *known > 0.0 { -(-0.01f64 / 120.0).exp_m1() } else { 1.0 };
                *known += weight * (sample - *known);
                *known
            });
            assert!(
                queue <= most * by_the_weight,
                "{} paths, {seconds} s: {queue} µs, by the slow weight {by_the_weight}",
                paths.len(),
            );
        }
    }
}

/// What larger windows let out at once stands in a queue for a round trip or two.
#[test]
fn a_longer_path_that_has_to_be_filled_first_stays_known() {
    let mut f = Filter::default();
    f.sample(&TIMED, 0, 900_000, 0);
    let mut stepped = None;
    for i in 100..4_000u32 {
        let now = i * 10_000;
        let filling = stepped.map_or(0, |at: u32| 600_000u32.saturating_sub((now - at) / 6));
        if f.sample(&TIMED, now, 1_200_000 + filling, 0) == Sampled::Reinitialised {
            assert_eq!(stepped, None, "once");
            stepped = Some(now);
        }
    }
    assert!(stepped.is_some() && f.us().abs_diff(1_200_000) < 20_000, "{} {stepped:?}", f.us());
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

/// A filter that knows 40 ms, of which `echo(now in ms, sample in ms, awaited)` is asked in turn; the other side takes 20 ms.
fn asked(how: &Latency, echoes: impl IntoIterator<Item = (u32, u32, bool)>) -> (Filter, u32) {
    let (mut f, mut stepped) = (Filter::default(), 0);
    f.echo(how, 0, 40_000, 20_000, false);
    for (now, rtt, awaited) in echoes {
        let sampled = f.echo(how, now * 1_000, rtt * 1_000, 20_000, awaited);
        stepped += u32::from(sampled == Sampled::Reinitialised);
    }
    (f, stepped)
}

#[test]
fn echoes_that_were_awaited_show_a_longer_path_and_others_do_not() {
    let steady = |awaited| (1..100u32).map(move |i| (i * 100, 240 + i % 3, awaited));
    for how in [Latency::PUBLISHED, TIMED] {
        let (f, stepped) = asked(&how, steady(true));
        assert!(stepped == 1 && f.us().abs_diff(240_000) <= 1_000, "{stepped} {}", f.us());
        let (f, stepped) = asked(&how, steady(false));
        assert_eq!((f.us(), stepped), (40_000, 0), "pauses");
        // Shortly longer: a quarter is no step, and nothing is averaged.
        let (f, _) = asked(&how, (1..1_000).map(|i| (i * 100, 50, true)));
        assert_eq!(f.us(), 40_000);
        // One of them is short, whether it was awaited or not.
        let (f, stepped) =
            asked(&how, steady(true).enumerate().map(|(i, e)| if i % 7 == 0 { (e.0, 45, false) } else { e }));
        assert_eq!((f.us(), stepped), (40_000, 0));
        // Too far between to be a run; and not the same.
        let (f, stepped) = asked(&how, (1..100).map(|i| (i * 3_000, 240, true)));
        assert_eq!((f.us(), stepped), (40_000, 0));
        let (f, stepped) = asked(&how, (1..100u32).map(|i| (i * 100, 100 + i * i, true)));
        assert_eq!((f.us(), stepped), (40_000, 0));
    }
    assert_eq!(asked(&MINIMUM, steady(true)).0.us(), 40_000, "what it has no guard for it does not take");
    // Of a side of which nothing is known the first is the bound.
    let mut f = Filter::default();
    assert_eq!(f.echo(&TIMED, 0, 300_000, 0, false), Sampled::Taken);
    assert_eq!((f.echo(&TIMED, 1, 60_000_001, 0, true), f.us()), (Sampled::Refused, 300_000));
}

#[test]
fn a_longer_path_that_larger_windows_do_not_confirm_is_forgotten() {
    // From the step on, which is at 900 ms.
    let then = |from: u32, to: u32, rtt: u32, awaited: bool| {
        (1..10).map(|i| (i * 100, 240, true)).chain((from..to).map(move |i| (i * 100, rtt, awaited)))
    };
    let on_trial = asked(&TIMED, then(10, 10, 0, true));
    assert_eq!((on_trial.0.us(), on_trial.1), (240_000, 1));
    let (f, _) = asked(&TIMED, then(10, 19, 240, false));
    assert_eq!(f.us(), 240_000, "until the fourth round trip");
    let (f, _) = asked(&TIMED, then(10, 30, 240, false));
    assert_eq!(f.us(), 40_000, "the sender has room that it does not use");
    let (f, stepped) = asked(&TIMED, then(10, 30, 240, false).chain((30..50).map(|i| (i * 100, 240, true))));
    assert_eq!((f.us(), stepped), (240_000, 2), "which says nothing of later");
    let (f, _) = asked(&TIMED, then(600, 601, 240, true));
    assert_eq!(f.us(), 40_000, "it was silent meanwhile");
    let (f, stepped) = asked(&TIMED, then(10, 100, 440, true));
    assert_eq!((f.us(), stepped), (40_000, 1), "a queue that grows with the windows");
    let (f, _) = asked(&TIMED, then(10, 11, 45, false));
    assert_eq!(f.us(), 40_000, "it was not the path, at once");
    let (f, _) = asked(&TIMED, then(10, 100, 240, true));
    assert_eq!(f.us(), 240_000);
    // Acknowledgments of a receiver that waits come more rarely than round trips.
    let rarely = (1..20).map(|i| (i * 700, 240, true));
    assert_eq!(asked(&TIMED, rarely).0.us(), 240_000);
}

/// The queue before a router of senders whose rates are more than their link has.
#[test]
fn echoes_that_waited_in_a_standing_queue_do_not_lengthen_it() {
    for paths in [&[300_000.0; 8][..], &[50_000.0, 600_000.0], &[300_000.0, 600_000.0]] {
        let mut filters = vec![Filter::default(); paths.len()];
        let constant = queue_of_an_overload(60, paths, |flow, _, _| paths[flow]);
        let queue = queue_of_an_overload(60, paths, |flow, now, sample| {
            filters[flow].echo(&TIMED, now, sample, 0, true);
            f64::from(filters[flow].us())
        });
        assert!(queue <= 1.02 * constant, "{paths:?}: {queue} µs, {constant}");
    }
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
        samples in proptest::collection::vec((0u32..2_000_000, 1u32..60_000_000, any::<bool>()), 1..200),
        kind in 0u8..3, start: u32, echoes: bool,
    ) {
        let how = [Latency::PUBLISHED, TIMED, MINIMUM][usize::from(kind)];
        let mut f = Filter::default();
        let (mut now, mut low, mut high) = (start, u32::MAX, 0);
        for (gap, rtt, awaited) in samples {
            now = now.wrapping_add(gap);
            if echoes {
                f.echo(&how, now, rtt, 1_000, awaited);
            } else {
                prop_assert!(f.sample(&how, now, rtt, 1_000) != Sampled::Refused);
            }
            (low, high) = (low.min(rtt), high.max(rtt));
            prop_assert!(f.us() + 1 >= low && f.us() <= high, "{} {} {}", low, f.us(), high);
        }
    }
}
