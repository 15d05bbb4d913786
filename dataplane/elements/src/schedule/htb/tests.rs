//! Ceilings, shares against water-filling, priorities and lenders, on a line in virtual time.

use super::*;
use crate::testbed::{Gone, Line};
use perhop_units::Instant;
use proptest::prelude::*;

fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

/// Keeps classes backlogged: tops each up to what the line sends in 20 ms, every 10 ms.
fn keep_full(line: &mut Line, classes: &[(&str, u16)], until: Instant) {
    while line.now() < until {
        for (class, len) in classes {
            while line.report(&format!("backlog_bytes_{class}")) < 20_000 {
                line.send(class, *len);
            }
        }
        line.run_until((line.now() + Duration::from_millis(10)).min(until));
    }
}

/// kbit/s of a class in a second, by what began to leave.
fn kbit(line: &mut Line, class: &str, from: Instant) -> f64 {
    let (class, to) = (line.class(class), from + Duration::from_secs(1));
    let inside = |p: &&Gone| p.class == class && p.at >= from && p.at < to;
    line.gone().iter().filter(inside).map(|p| p.len).sum::<u64>() as f64 * 8.0 / 1000.0
}

/// What each of some leaves of the line gets, all of them greedy: its rate, then what is left by priority, among equals in
/// proportion to quanta up to the ceilings.
fn water_fill(leaves: &[(f64, f64, u8, f64)], line: f64) -> Vec<f64> {
    let mut gets: Vec<f64> = leaves.iter().map(|l| l.0).collect();
    let mut left = line - gets.iter().sum::<f64>();
    for priority in 0..8 {
        loop {
            let open: Vec<usize> = (0..leaves.len())
                .filter(|n| leaves[*n].2 == priority && gets[*n] < leaves[*n].1 - 1e-9)
                .collect();
            let quanta: f64 = open.iter().map(|n| leaves[*n].3).sum();
            if open.is_empty() || left < 1e-9 {
                break;
            }
            // As much for each quantum as the one that is full first can take.
            let step =
                open.iter().map(|n| (leaves[*n].1 - gets[*n]) / leaves[*n].3).fold(left / quanta, f64::min);
            for n in open {
                gets[n] += step * leaves[n].3;
                left -= step * leaves[n].3;
            }
        }
    }
    gets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Within 1 % of the line over a second: 10 kB. A ceiling allows its bucket and one packet besides its rate, so the
    /// bucket has 8 kB here; with 12 kB a leaf may rightly be 108 kbit above, which is 1.35 %.
    #[test]
    fn greedy_leaves_get_what_water_filling_says(
        leaves in prop::collection::vec((100u64..2000, 0u64..6000, 0u8..3, 200u16..=1500), 2..5),
    ) {
        let names = ["a", "b", "c", "d"];
        let list = |f: &dyn Fn(usize) -> String| (0..leaves.len()).map(f).collect::<Vec<_>>().join(" ");
        let ceil = |n: usize| (leaves[n].0 + leaves[n].1).min(8000);
        let text = format!(
            "{}, rate = 8 Mbit/s, rates = {}, ceils = {}, priority = {}, frame = 1500 B, limit = 1000packets, \
             cbursts = 8kB",
            names[..leaves.len()].join(" "),
            list(&|n| format!("{}kbit/s", leaves[n].0)),
            list(&|n| format!("{}kbit/s", ceil(n))),
            list(&|n| leaves[n].2.to_string()),
        );
        let mut line = Line::new("Htb", &text, 1);
        let classes: Vec<_> = names.iter().zip(&leaves).map(|(name, l)| (*name, l.3)).collect();
        keep_full(&mut line, &classes, ms(1500));
        let fluid: Vec<_> = (0..leaves.len())
            .map(|n| {
                let rate = leaves[n].0 as f64;
                (rate, ceil(n) as f64, leaves[n].2, rate)
            })
            .collect();
        let theory = water_fill(&fluid, 8000.0);
        for (n, expected) in theory.iter().enumerate() {
            let got = kbit(&mut line, names[n], ms(450));
            prop_assert!((got - expected).abs() < 80.0, "{}: {} instead of {:?}", names[n], got, theory);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// In any interval no more than the ceiling, its burst and one packet.
    #[test]
    fn a_ceiling_is_never_exceeded(
        rate in 100u64..2000,
        above in 0u64..3000,
        burst in 1500u64..9000,
        len in 200u16..=1500,
        loads in prop::collection::vec((0usize..3, 1usize..40, 0u64..60_000), 5..40),
    ) {
        let ceil = rate + above;
        let text = format!(
            "x in y z, parent = root root in in, rate = 8 Mbit/s, rates = 1Mbit/s 4Mbit/s {rate}kbit/s 100kbit/s, \
             ceils = - {ceil}kbit/s {ceil}kbit/s -, cbursts = 9kB {burst}B {burst}B 9kB, limit = 4000packets, \
             frame = 1500 B"
        );
        let text = text.replace("4Mbit/s", &format!("{}kbit/s", rate + 100)).replace(
            &format!("- {ceil}kbit/s {ceil}"),
            &format!("- {}kbit/s {ceil}", ceil + 100),
        );
        let mut line = Line::new("Htb", &text, 1);
        for (kind, count, micros) in loads {
            (0..count).for_each(|_| line.send(["x", "y", "z"][kind], len));
            line.run_for(Duration::from_micros(micros));
        }
        line.run_for(Duration::from_secs(60));
        prop_assert_eq!(line.held(), 0, "nothing is forgotten");
        let (y, z) = (line.class("y"), line.class("z"));
        for (both, ceil) in [(false, ceil), (true, ceil + 100)] {
            let sent: Vec<_> =
                line.gone().iter().filter(|p| p.class == y || both && p.class == z).collect();
            for (first, from) in sent.iter().enumerate() {
                let mut bytes = 0;
                for to in &sent[first..] {
                    bytes += to.len;
                    let time = to.at.since(from.at);
                    // Leaves within their own rates send whatever their parent has: two full buckets of 3,000 B.
                    let within = if both { 6_000 } else { 0 };
                    let allowed = Rate::from_kbit(ceil).bytes_in(time).0 + burst + u64::from(len) + within;
                    prop_assert!(bytes <= allowed, "{} B from {:?} to {:?}", bytes, from.at, to.at);
                }
            }
        }
    }
}

const TREE: &str = "voice data web bulk, parent = root root data data, rate = 8 Mbit/s, \
                    rates = 1Mbit/s 7Mbit/s 4Mbit/s 2Mbit/s, frame = 1500 B, limit = 100packets";

#[test]
fn a_sibling_borrows_before_a_cousin() {
    let mut line = Line::new("Htb", TREE, 1);
    keep_full(&mut line, &[("voice", 700), ("web", 700), ("bulk", 700)], ms(1500));
    // 1 Mbit/s of data is left over, shared by quanta: 2 : 1.
    for (class, expected) in [("voice", 1000.0), ("web", 4667.0), ("bulk", 2333.0)] {
        let got = kbit(&mut line, class, ms(400));
        assert!((got - expected).abs() < 80.0, "{class}: {got}");
    }
    // Web rests: what data has is bulk's.
    line.run_for(Duration::from_secs(1));
    let from = line.now();
    keep_full(&mut line, &[("voice", 700), ("bulk", 700)], from + Duration::from_millis(1300));
    for (class, expected) in [("voice", 1000.0), ("bulk", 7000.0)] {
        let got = kbit(&mut line, class, from + Duration::from_millis(200));
        assert!((got - expected).abs() < 80.0, "{class}: {got}");
    }
    assert!(line.report("borrows_bulk") > 300 && line.report("lends_data") > 100);
}

#[test]
fn lower_numbers_borrow_first_and_wait_less() {
    let text = TREE.replace("7Mbit/s", "6Mbit/s");
    let text = format!("{text}, priority = 0 0 2 1, ceils = 2Mbit/s - - -");
    let mut line = Line::new("Htb", &text, 1);
    keep_full(&mut line, &[("voice", 200), ("web", 1500), ("bulk", 1500)], ms(1500));
    // Voice up to its ceiling; bulk and web have theirs.
    for (class, expected) in [("voice", 2000.0), ("web", 4000.0), ("bulk", 2000.0)] {
        let got = kbit(&mut line, class, ms(400));
        assert!((got - expected).abs() < 80.0, "{class}: {got}");
    }
    // Within its rate a packet of voice waits for the one on the line and for others that are within theirs.
    let mut line = Line::new("Htb", &text, 1);
    while line.now() < ms(2000) {
        line.send("voice", 200);
        for class in ["web", "bulk"] {
            while line.report(&format!("backlog_packets_{class}")) < 40 {
                line.send(class, 1500);
            }
        }
        line.run_for(Duration::from_millis(20));
    }
    let voice = line.class("voice");
    let longest = line.gone().iter().filter(|p| p.class == voice).map(|p| p.waited).max();
    assert!(longest <= Some(Duration::from_micros(1_500)), "{longest:?}");
}

#[test]
fn nobody_is_late_or_early_alone() {
    let text = "x, rate = 8 Mbit/s, rates = 1Mbit/s, ceils = 1Mbit/s, cbursts = 1500B, frame = 1500 B, limit = 100packets";
    let mut line = Line::new("Htb", text, 1);
    (0..100).for_each(|_| line.send("x", 1000));
    line.run_for(Duration::from_secs(2));
    // A full bucket is two packets (the second overdraws it by 500 B), then one each 8 ms, to the ns.
    let at: Vec<_> = line.gone().iter().map(|p| p.at.0).collect();
    assert_eq!(at.len(), 100);
    assert_eq!(at[..4], [0, 1_000_000, 4_000_000, 12_000_000]);
    assert!(at[2..].windows(2).all(|w| w[1] - w[0] == 8_000_000));
}

#[test]
fn a_successor_goes_on() {
    let mut line = Line::new("Htb", TREE, 1);
    for class in ["voice", "web", "bulk"] {
        (0..50).for_each(|_| line.send(class, 1000));
    }
    line.run_for(Duration::from_millis(20));
    line.replace("Htb", TREE);
    line.run_for(Duration::from_millis(130));
    assert_eq!((line.gone().len(), line.held()), (150, 0));
}

#[test]
fn rates_are_checked_against_each_other() {
    let one = |text: &str, key: &str, part: &str| {
        let text = perhop_element::testkit::args(text);
        let all = build(&text, &mut BuildCx::default()).err().unwrap_or_default();
        let fits = all.len() == 1 && all[0].key.as_deref() == Some(key) && all[0].message.contains(part);
        assert!(fits, "{text:?}: {all:?}");
    };
    one("a b, rate = 8 Mbit/s, rates = 5Mbit/s", "rates", "the children of the line have 10 Mbit/s");
    one(
        "p a b, parent = root p p, rate = 8 Mbit/s, rates = 3Mbit/s 2Mbit/s 2Mbit/s",
        "rates",
        "children of p",
    );
    one("a, rate = 8 Mbit/s, rates = 5Mbit/s, ceils = 4Mbit/s", "ceils", "ceiling of a");
    one("a, rate = 8 Mbit/s, rates = 5Mbit/s, priority = 8", "priority", "out of range");
    one("a, rate = 8 Mbit/s, rates = 5Mbit/s, bursts = 100B", "bursts", "out of range");
    one("a, rate = 8 Mbit/s", "rates", "rates is missing");
    one("a b, rate = 8 Mbit/s, rates = 1Mbit/s 2Mbit/s 3Mbit/s", "rates", "3 values");
}
