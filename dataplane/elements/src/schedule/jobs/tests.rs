//! Proportions and bounds of delay and loss under overload.

use super::*;
use crate::queue::fifo::laws::{calls, check_any_order};
use crate::testbed::{Gone, Line};
use perhop_element::testkit::args;
use perhop_packet::DropReason;
use perhop_units::{Bytes, Instant};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Poisson arrivals of mixed sizes on 8 Mbit/s: `load` is each class's part of it, in per cent.
fn load(line: &mut Line, seed: u64, load: &[u64], millis: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut uniform = move || (f64::from(rng.next_u32()) + 1.0) / 4_294_967_297.0;
    let mean = 0.4 * 100.0 + 0.4 * 500.0 + 0.2 * 1500.0;
    let mut next: Vec<f64> = vec![0.0; load.len()];
    while let Some(class) = (0..next.len()).min_by(|a, b| next[*a].total_cmp(&next[*b])) {
        let at = next[class];
        if at > millis as f64 * 1e6 {
            break;
        }
        line.run_until(Instant(at as u64));
        let size = match uniform() {
            u if u < 0.4 => 100,
            u if u < 0.8 => 500,
            _ => 1500,
        };
        line.send(NAMES[class], size);
        // One byte is a microsecond.
        next[class] += -uniform().ln() * mean * 1e3 * 100.0 / load[class] as f64;
    }
    line.run_until(Instant(millis * 1_000_000));
}

fn of(line: &mut Line, class: &str, from_ms: u64) -> Vec<Gone> {
    let class = line.class(class);
    let gone = line.gone().iter();
    gone.filter(|p| p.class == class && p.at.0 >= from_ms * 1_000_000).copied().collect()
}

fn mean_ms(packets: &[Gone]) -> f64 {
    packets.iter().map(|p| p.waited.0 as f64 / 1e6).sum::<f64>() / packets.len() as f64
}

fn longest(packets: &[Gone]) -> Duration {
    packets.iter().map(|p| p.waited).max().unwrap_or_default()
}

/// Part of packets lost.
fn loss(line: &Line, class: &str) -> f64 {
    let (sent, lost) = (line.report(&format!("packets_{class}")), line.report(&format!("dropped_{class}")));
    let waits = line.report(&format!("backlog_packets_{class}"));
    lost as f64 / (sent + lost + waits) as f64
}

#[test]
fn delays_and_losses_keep_their_proportions_at_once() {
    for (seed, loads) in [(1, [40, 40, 40]), (2, [20, 30, 80]), (3, [80, 30, 20]), (4, [60, 20, 60])] {
        let text = "a b c, rate = 8 Mbit/s, delays = 1 2 4, losses = 4 2 1, limit = 200 ms";
        let mut line = Line::new("Jobs", text, 1);
        load(&mut line, seed, &loads, 12_000);
        let delays = NAMES.map(|name| mean_ms(&of(&mut line, name, 2_000)));
        let losses = NAMES.map(|name| loss(&line, name));
        for n in 0..2 {
            let (delay, loss) = (delays[n + 1] / delays[n], losses[n] / losses[n + 1]);
            assert!((delay - 2.0).abs() < 0.1, "seed {seed}: delays {delays:?} ms");
            assert!((loss - 2.0).abs() < 0.2, "seed {seed}: losses {losses:?}");
        }
    }
}

#[test]
fn a_bound_that_can_be_kept_is_kept_without_loss() {
    let text =
        "a b c, rate = 8 Mbit/s, delays = - 1 2, bounds = 8ms - -, loss_bounds = 0% - -, limit = 100 ms";
    let mut line = Line::new("Jobs", text, 1);
    load(&mut line, 3, &[15, 60, 50], 6_000);
    let voice = of(&mut line, "a", 0);
    // A packet of another class is on the line, and turns are by packets.
    assert!(longest(&voice) <= Duration::from_micros(8_000 + 2 * 1_500), "{:?}", longest(&voice));
    assert_eq!((line.report("dropped_a"), line.report("over_loss_a")), (0, 0));
    let ratio = mean_ms(&of(&mut line, "c", 1_000)) / mean_ms(&of(&mut line, "b", 1_000));
    assert!((ratio - 2.0).abs() < 0.3, "{ratio}");
    assert!(line.report("dropped_b") + line.report("dropped_c") > 500);
}

#[test]
fn a_bound_that_cannot_be_kept_costs_packets_unless_they_are_worth_more() {
    let text = "a b c, rate = 8 Mbit/s, bounds = 8ms - -, limit = 4000packets";
    let mut line = Line::new("Jobs", text, 1);
    load(&mut line, 4, &[120], 5_000);
    let sent = of(&mut line, "a", 0);
    assert!(longest(&sent) <= Duration::from_micros(8_000 + 1_500), "{:?}", longest(&sent));
    assert!((loss(&line, "a") - 1.0 / 6.0).abs() < 0.05, "{}", loss(&line, "a"));
    assert_eq!(line.drops(DropReason::CoDel), line.report("dropped_a"));
    // The same, with a loss of 2 % at most: what waits grows.
    let mut line = Line::new("Jobs", &format!("{text}, loss_bounds = 2% - -"), 1);
    load(&mut line, 4, &[120], 2_000);
    assert!(loss(&line, "a") < 0.021 && line.report("over_loss_a") == 0, "{}", loss(&line, "a"));
    assert!(line.report("late_a") > 1_000);
}

#[test]
fn a_rate_is_kept_whatever_the_delays() {
    let text = "a b c, rate = 8 Mbit/s, delays = 100 1 -, losses = 1 9 1, rates = 2Mbit/s - 3Mbit/s, \
                limit = 200 ms";
    let mut line = Line::new("Jobs", text, 1);
    load(&mut line, 5, &[60, 60, 60], 6_000);
    for (class, least) in [("a", 2.0), ("c", 3.0)] {
        let bytes: u64 = of(&mut line, class, 1_000).iter().map(|p| p.len).sum();
        let mbit = bytes as f64 * 8.0 / 5.0 / 1e6;
        assert!(mbit > least - 0.05, "{class}: {mbit}");
    }
}

#[test]
fn a_successor_goes_on() {
    let text = "a b c, rate = 8 Mbit/s, delays = 1 2 4, limit = 200 ms";
    let mut line = Line::new("Jobs", text, 1);
    load(&mut line, 6, &[60, 60, 60], 1_000);
    let held = line.held();
    line.replace("Jobs", text);
    assert!(held > 100 && line.held() <= held);
    line.run_for(Duration::from_secs(1));
    assert_eq!(line.held(), 0);
    let at: Vec<_> = line.gone().iter().map(|p| (p.at.0, p.len)).collect();
    let gap = |w: &[(u64, u64)]| w[1].0 - w[0].0 - w[0].1 * 1000;
    assert!(at[1000..].windows(2).all(|w| gap(w) == 0), "the line never idles");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn jobs_reports_what_it_does(calls in calls(), bound_us in 1u64..5_000, bytes in 2_000u64..20_000, overhead in 0u32..9) {
        let text = args("a b");
        let mut r = Reader::new(&text);
        let tree = TreeNames::read_flat(&mut r, &mut BuildCx::default());
        let class = |bound| JobsClass {
            delay: Some(1),
            bound,
            loss: 1,
            loss_bound: None,
            rate: Rate::ZERO,
        };
        let classes = vec![class(None), class(Some(Duration::from_micros(bound_us)))];
        let jobs = Jobs::new(tree, Rate::from_mbit(8), QueueLimit::Bytes(Bytes(bytes)), overhead, classes);
        check_any_order(jobs, &calls);
    }
}

#[test]
fn ranges_are_told() {
    let errors = |text: &str| {
        let all = build(&args(text), &mut BuildCx::default()).err().unwrap_or_default();
        all.into_iter().filter_map(|e| e.key).collect::<Vec<_>>()
    };
    assert_eq!(errors("a b, rate = 8 Mbit/s"), [""; 0]);
    assert_eq!(
        errors("a b, rate = 8 Mbit/s, delays = 0 1, bounds = 61s -, losses = 0"),
        ["delays", "bounds", "losses", "losses"]
    );
    assert_eq!(errors("a b, rate = 8 Mbit/s, rates = 5Mbit/s 4Mbit/s"), ["rates"]);
    assert_eq!(errors("a b, rate = 8 Mbit/s, loss_bounds = 101%"), ["loss_bounds", "loss_bounds"]);
    assert_eq!(errors("a a, rate = 8 Mbit/s"), ["classes"]);
}
