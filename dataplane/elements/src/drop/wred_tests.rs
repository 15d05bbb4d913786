use super::super::af_precedence;
use super::*;
use crate::drop::RedVerdict;
use crate::plumbing::UdpFrame;
use crate::queue::fifo::laws::{calls, check};
use crate::testbed::Line;
use perhop_element::testkit::args;
use perhop_element::{BuildCx, Discipline};
use perhop_packet::Batch;
use perhop_units::{Bytes, Color, Dscp, Duration, Instant};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const ALL: [Color; COLORS] = [Color::Green, Color::Yellow, Color::Red];

fn red() -> RedConfig {
    RedConfig {
        min: Bytes(5_000),
        max: Bytes(15_000),
        max_p: Probability(u32::MAX / 10),
        weight_log2: 1,
        gentle: true,
        ecn: false,
        byte_mode: false,
        mean: Bytes(1_000),
        rate: Rate::from_mbit(8),
    }
}

fn averages() -> impl Strategy<Value = Averages> {
    prop_oneof![Just(Averages::Total), Just(Averages::Coupled), Just(Averages::Decoupled)]
}

/// Curves that never spare a worse colour more.
fn config() -> impl Strategy<Value = WredConfig> {
    let three = |most: u64| prop::array::uniform3(1..most);
    (three(20_000), three(20_000), prop::array::uniform3(any::<u32>()), 1u8..12, any::<bool>(), averages())
        .prop_map(|(mut min, mut span, mut p, weight_log2, gentle, averages)| {
            min.sort_unstable_by(|a, b| b.cmp(a));
            span.sort_unstable_by(|a, b| b.cmp(a));
            p.sort_unstable();
            let curve = |n: usize| RedConfig {
                min: Bytes(min[n]),
                max: Bytes(min[n] + span[n]),
                max_p: Probability(p[n]),
                weight_log2,
                gentle,
                ..red()
            };
            WredConfig { curves: std::array::from_fn(curve), averages, by_dscp: false }
        })
}

/// Nothing, early, forced.
fn severity(verdict: RedVerdict) -> u8 {
    match verdict {
        RedVerdict::Keep => 0,
        RedVerdict::Mark | RedVerdict::DropEarly => 1,
        RedVerdict::DropForced => 2,
    }
}

proptest! {
    /// Whatever has happened before: by the averages, and by verdicts of the same random bits at equal counts.
    #[test]
    fn a_worse_colour_is_never_spared_more(
        config in config(),
        steps in prop::collection::vec((0usize..3, 40u64..1500, any::<u32>(), any::<bool>()), 1..200),
    ) {
        let mut state = WredState::new(config);
        let mut inside: Vec<(Color, Bytes)> = vec![];
        for (n, (color, len, random, leaves)) in steps.into_iter().enumerate() {
            let now = Instant(n as u64 * 100_000);
            // Decoupled averages are equal only where all colours have the same: three packets at once.
            let together = config.averages == Averages::Decoupled;
            let colors = if together { &ALL[..] } else { &ALL[color..=color] };
            for color in colors {
                state.decide(now, *color, Bytes(len), false, u32::MAX);
                state.taken(*color, Bytes(len));
                inside.push((*color, Bytes(len)));
            }
            if leaves {
                for (color, len) in inside.drain(..colors.len()) {
                    state.left(now, color, len);
                }
            }
            let chances = ALL.map(|color| state.probability(color));
            prop_assert!(chances.is_sorted(), "{:?}", chances);
            // Counts begin anew, the averages stay.
            let mut fresh = state.without_counts();
            let verdicts = ALL.map(|color| severity(fresh.judge(color, Bytes(len), random)));
            prop_assert!(verdicts.is_sorted(), "{:?} of {}", verdicts, random);
        }
    }

    /// With RIO, green packets fare the same with and without the others.
    #[test]
    fn what_is_out_of_profile_does_not_harm_what_is_in_it(
        config in config(),
        coupled: bool,
        steps in prop::collection::vec((0usize..3, 40u64..1500, any::<u32>()), 1..300),
    ) {
        let averages = if coupled { Averages::Coupled } else { Averages::Decoupled };
        let config = WredConfig { averages, ..config };
        let (mut both, mut alone) = (WredState::new(config), WredState::new(config));
        let mut green = 0;
        for (n, (color, len, random)) in steps.into_iter().enumerate() {
            let (now, len) = (Instant(n as u64 * 50_000), Bytes(len));
            let verdict = both.decide(now, ALL[color], len, false, random);
            if severity(verdict) == 0 {
                both.taken(ALL[color], len);
            }
            if color == 0 {
                prop_assert_eq!(alone.decide(now, Color::Green, len, false, random), verdict);
                if severity(verdict) == 0 {
                    alone.taken(Color::Green, len);
                    green += len.0;
                }
                if green > 9_000 {
                    both.left(now, Color::Green, Bytes(3_000));
                    alone.left(now, Color::Green, Bytes(3_000));
                    green -= 3_000;
                }
            }
        }
    }

    /// Each average follows the recurrence over the bytes that it is of.
    #[test]
    fn averages_are_of_the_right_bytes(
        averages in averages(),
        steps in prop::collection::vec((0usize..3, 40u64..1500), 1..200),
    ) {
        let config = WredConfig { curves: [red(); 3], averages, by_dscp: false };
        let mut state = WredState::new(config);
        let (mut waiting, mut theory) = ([0u64; 3], [0f64; 3]);
        for (color, len) in steps {
            for (n, average) in theory.iter_mut().enumerate() {
                let (part, bytes): (bool, u64) = match averages {
                    Averages::Total => (true, waiting.iter().sum()),
                    Averages::Coupled => (color <= n, waiting[..=n].iter().sum()),
                    Averages::Decoupled => (color == n, waiting[n]),
                };
                if part {
                    *average += (bytes as f64 - *average) / 2.0;
                }
            }
            state.decide(Instant(0), ALL[color], Bytes(len), false, u32::MAX);
            state.taken(ALL[color], Bytes(len));
            waiting[color] += len;
            for (n, average) in theory.iter().enumerate() {
                prop_assert!((state.average(n).0 as f64 - average).abs() < 1.01, "{} {:?}", n, theory);
            }
        }
    }

    #[test]
    fn wred_reports_what_it_does(config in config(), calls in calls(), ecn: bool, overhead in 0u32..20) {
        let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(20_000)), rate: Rate::from_mbit(1), overhead };
        let curves = config.curves.map(|c| RedConfig { ecn, ..c });
        check(Wred::new(WredConfig { curves, ..config }, queue), &calls);
    }
}

/// Drops of each colour at constant averages are Bernoulli trials with the published chance: χ² over all points of the
/// three curves.
#[test]
fn the_drop_curve_of_each_colour_passes_a_chi_square_test() {
    const SEED: u64 = 41;
    const TRIALS: u32 = 8_000;
    let curves = [(20_000, 40_000, 0.02), (10_000, 20_000, 0.05), (5_000, 10_000, 0.10)];
    let config = WredConfig {
        curves: curves.map(|(min, max, p)| RedConfig {
            min: Bytes(min),
            max: Bytes(max),
            max_p: Probability((p * 4_294_967_296.0) as u32),
            ..red()
        }),
        averages: Averages::Total,
        by_dscp: false,
    };
    let mut rng = Pcg64Mcg::seed_from_u64(SEED);
    let (mut chi, mut df, mut never) = (0.0, 0.0, 0);
    for average in (1_250u64..80_000).step_by(1_250) {
        let mut state = WredState::new(config);
        state.taken(Color::Green, Bytes(average));
        for _ in 0..80 {
            state.decide(Instant(0), Color::Green, Bytes(1_000), false, u32::MAX);
        }
        for (n, (min, max, p)) in curves.iter().enumerate() {
            let (a, lo, hi) = (average as f64, *min as f64, *max as f64);
            let theory = match a {
                _ if a < lo => 0.0,
                _ if a < hi => p * (a - lo) / (hi - lo),
                _ => (p + (1.0 - p) * (a - hi) / hi).min(1.0),
            };
            let mut hits = 0u32;
            for _ in 0..TRIALS {
                // Of a copy, which has dropped nothing yet.
                let mut trial = state.without_counts();
                hits += u32::from(trial.judge(ALL[n], Bytes(1_000), rng.next_u32()) != RedVerdict::Keep);
            }
            let expected = theory * f64::from(TRIALS);
            if expected < 10.0 {
                assert!(f64::from(hits) < expected + 20.0, "seed {SEED}: {hits} drops, theory {expected}");
                never += 1;
            } else if expected > f64::from(TRIALS) - 10.0 {
                assert!(f64::from(TRIALS - hits) < 30.0, "seed {SEED}: {hits} drops, theory {expected}");
            } else {
                let off = f64::from(hits) - expected;
                chi += off * off / (expected * (1.0 - theory));
                df += 1.0;
            }
        }
    }
    assert!(never > 5 && df > 50.0, "{never} {df}");
    // Upper 10⁻⁴ quantile of χ² (Wilson and Hilferty).
    let v: f64 = 2.0 / (9.0 * df);
    let limit = df * (1.0 - v + 3.719 * v.sqrt()).powi(3);
    assert!(chi < limit, "seed {SEED}: χ² = {chi:.1} ≥ {limit:.1} with {df} degrees");
}

/// Offers the three AF1 precedences in turn at 1.5 times the rate for two seconds.
fn overload(settings: &str, ecn: u8) -> Line {
    let mut line = Line::new("Shaper", settings, 5);
    for n in 0..3_000 {
        let dscp = [Dscp::AF11, Dscp::AF12, Dscp::AF13][n % 3];
        line.push("", &UdpFrame { ip_len: 986, dscp, ecn, ..UdpFrame::default() });
        line.run_for(Duration(666_667));
    }
    line.run_for(Duration::from_secs(1));
    line
}

#[test]
fn drop_precedences_of_af_lose_in_their_order() {
    let kinds = [
        "wred, min = 30packets 15packets 5packets, max = 60packets 30packets 15packets",
        "rio, min = 30packets 5packets, max = 60packets 15packets, max_p = 2% 60%",
        "rio, average = decoupled, min = 30packets 10packets 5packets, max = 60packets 20packets 10packets",
    ];
    for kind in kinds {
        let settings =
            format!("8 Mbit/s, discipline = {kind}, precedence = dscp, weight = 6, limit = 1000 packets");
        let line = overload(&settings, 0);
        let lost =
            NAMES.map(|name| line.report(&format!("early_{name}")) + line.report(&format!("forced_{name}")));
        let offered = NAMES.map(|name| line.report(&format!("packets_{name}")));
        assert_eq!(offered, [1000; 3], "{kind}");
        assert!(
            lost[0] < 40 && lost[0] <= lost[1] && lost[1] <= lost[2] && lost[2] > 500,
            "{kind}: {lost:?}"
        );
        assert_eq!(line.gone().len() as u64, 3_000 - lost.iter().sum::<u64>(), "{kind}");
        // With marks instead, packets are lost only beyond the upper thresholds.
        let marked = overload(&settings, 2);
        let early: u64 = NAMES.iter().map(|name| marked.report(&format!("early_{name}"))).sum();
        let marks: u64 = NAMES.iter().map(|name| marked.report(&format!("marked_{name}"))).sum();
        let seen = marked.gone().iter().filter(|p| p.tos & 3 == 3).count();
        assert_eq!((early, marks), (0, seen as u64), "{kind}");
        assert!(marks > 0, "{kind}");
    }
}

#[test]
fn a_successor_knows_what_waits_of_each_colour() {
    let queue = FifoConfig { limit: QueueLimit::Packets(9), rate: Rate::ZERO, overhead: 4 };
    let config = |by_dscp| WredConfig { curves: [red(); 3], averages: Averages::Coupled, by_dscp };
    for (by_dscp, expected) in [(true, [200, 104, 104]), (false, [408, 0, 0])] {
        let pool = perhop_packet::Pool::new(4);
        let mut old = Wred::new(config(true), FifoConfig { overhead: 0, ..queue });
        for dscp in [Dscp::AF11, Dscp::AF12, Dscp::AF13, Dscp::BE] {
            let ip_len = if dscp == Dscp::BE { 78 } else { 86 };
            let frame = UdpFrame { ip_len, dscp, ..UdpFrame::default() }.to_vec();
            let mut packet = pool.packet(&frame).expect("four");
            packet.meta_mut().layout = perhop_wire::dissect(&frame).expect("UDP");
            old.queue.offer(packet).expect("room");
        }
        let mut next = Wred::new(config(by_dscp), queue);
        assert!(next.import_state(old.export_state().expect("state")).is_ok());
        assert_eq!(next.state.waiting(), expected);
        let mut out = Batch::new();
        next.drain(&mut out);
        out.release_all();
    }
}

#[test]
fn lists_have_one_two_or_three_values_in_order() {
    let build = crate::shape::types().into_iter().find(|t| t.name == "Shaper").expect("registered").build;
    let messages = |text: &str| {
        let text = format!("8 Mbit/s, discipline = wred, {text}");
        let errors = build(&args(&text), &mut BuildCx::default()).err().unwrap_or_default();
        errors.into_iter().map(|e| e.message).collect::<Vec<_>>()
    };
    assert_eq!(messages("min = 3 kB, max = 9 kB"), [""; 0]);
    assert_eq!(messages("min = 3kB 2kB, max = 9kB 8kB 7kB, max_p = 1% 50%"), [""; 0]);
    assert_eq!(messages(""), ["min is missing", "max is missing"]);
    assert_eq!(messages("min = 3kB 4kB, max = 9 kB"), ["min of yellow would spare it more than green"]);
    assert_eq!(messages("min = 3kB, max = 9kB 8kB 3kB"), ["max = 3000 B of red is not above min"]);
    assert_eq!(
        messages("min = 3kB, max = 9kB, max_p = 5% 2% 1%"),
        ["max_p of yellow would spare it more than green"]
    );
    assert_eq!(messages("min = 3kB 2kB 1kB 1kB, max = 9 kB"), ["min has 4 values"]);
}

#[test]
fn af_code_points_have_three_precedences() {
    for class in 1..=4u8 {
        for (n, color) in ALL.iter().enumerate() {
            assert_eq!(af_precedence(8 * class + 2 * (n as u8 + 1)), Some(*color));
        }
    }
    let named = (0..64).filter(|dscp| af_precedence(*dscp).is_some()).count();
    assert_eq!(named, 12);
}
