//! Guarantees, shares and limits of whole trees on a line in virtual time.

use super::*;
use crate::testbed::{Gone, Line};
use perhop_units::Instant;
use proptest::prelude::*;

/// The line of these tests, and the largest frame.
const LINE: Rate = Rate::from_mbit(8);
const FRAME: u16 = 1500;

fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

/// Frame bytes of a class that began to leave in a span.
fn bytes_of(line: &mut Line, class: &str, from: Instant, to: Instant) -> u64 {
    let class = line.class(class);
    let inside = |p: &&Gone| p.class == class && p.at >= from && p.at < to;
    line.gone().iter().filter(inside).map(|p| p.len).sum()
}

/// Keeps classes backlogged: tops each up to what the line sends in 20 ms, every 10 ms.
fn keep_full(line: &mut Line, classes: &[&str], len: u16, until: Instant) {
    while line.now() < until {
        for class in classes {
            while line.report(&format!("backlog_bytes_{class}")) < 20_000 {
                line.send(class, len);
            }
        }
        line.run_until((line.now() + Duration::from_millis(10)).min(until));
    }
}

/// A curve in kbit/s and ms, as text.
fn text_of((m1, d, m2): (u64, u64, u64)) -> String {
    format!("{m1}kbit/s:{d}ms:{m2}kbit/s")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every leaf that has packets from some time on gets its curve from then, within one largest packet of the line:
    /// whatever others do, whatever the shape of the curves and the order of beginnings.
    #[test]
    fn every_backlogged_leaf_gets_its_service_curve(
        // Each below a fourth of the line in the first and second piece.
        curves in prop::array::uniform4((0u64..2000, 1u64..60, 10u64..2000)),
        begins in prop::array::uniform4(0u64..150),
        lens in prop::array::uniform4(60u16..=FRAME),
        shares in prop::array::uniform4(100u64..2000),
        nested: bool,
    ) {
        let names = ["a", "b", "c", "d"];
        let rt: Vec<String> = curves.iter().map(|c| text_of(*c)).collect();
        let ls: Vec<String> = shares.iter().map(|s| format!("{s}kbit/s")).collect();
        let parents = if nested { "root root p p p" } else { "root root root root root" };
        let text = format!(
            "a p b c d, parent = {parents}, rate = 8 Mbit/s, rt = {} - {} {} {}, ls = {} 1Mbit/s {} {} {}, \
             limit = 4000packets, frame = 1500 B",
            rt[0], rt[1], rt[2], rt[3], ls[0], ls[1], ls[2], ls[3],
        );
        let mut line = Line::new("Hfsc", &text, 1);
        let mut order: Vec<usize> = (0..4).collect();
        order.sort_by_key(|n| begins[*n]);
        for n in order {
            line.run_until(ms(begins[n]));
            // As much as the line sends in 300 ms: none runs empty before that.
            for _ in 0..300_000 / u64::from(lens[n]) {
                line.send(names[n], lens[n]);
            }
        }
        line.run_until(ms(300));
        for n in 0..4 {
            let class = line.class(names[n]);
            let (m1, d, m2) = curves[n];
            let curve =
                Curve { m1: Rate::from_kbit(m1), d: Duration::from_millis(d), m2: Rate::from_kbit(m2) };
            let mut sent = line.gone().iter().filter(|p| p.class == class);
            let slack = LINE.time_for(Bytes(u64::from(FRAME))) + Duration(10);
            let mut service = 0;
            loop {
                // What leaves next must be finished by the time its curve has it, and a packet.
                let gone = sent.next();
                let len = u64::from(lens[n]);
                service += service_of(len);
                let due = Placed::new(curve, ms(begins[n]).0, 0).reaches(service).saturating_add(slack.0);
                let Some(gone) = gone else {
                    prop_assert!(due + LINE.time_for(Bytes(len)).0 >= ms(300).0, "{} is late", names[n]);
                    break;
                };
                let finished = gone.at + LINE.time_for(Bytes(len));
                prop_assert!(finished.0 <= due, "{}: {:?} after {}", names[n], finished, due);
            }
        }
    }

    /// In any interval no more than the limit and two packets, while others come and go.
    #[test]
    fn an_upper_limit_is_never_exceeded(
        limit in 200u64..6000,
        len in 200u16..=FRAME,
        loads in prop::collection::vec((0usize..3, 1usize..40, 0u64..60_000), 5..40),
    ) {
        let text = format!(
            "x in y, parent = root root in, rate = 8 Mbit/s, ls = 1Mbit/s 4Mbit/s 4Mbit/s, \
             ul = - {limit}kbit/s -, limit = 4000packets, frame = 1500 B"
        );
        let mut line = Line::new("Hfsc", &text, 1);
        for (kind, count, micros) in loads {
            let name = if kind == 0 { "x" } else { "y" };
            (0..count).for_each(|_| line.send(name, len));
            line.run_for(Duration::from_micros(micros));
        }
        line.run_for(Duration::from_secs(60));
        let class = line.class("y");
        let sent: Vec<_> = line.gone().iter().filter(|p| p.class == class).collect();
        for (first, from) in sent.iter().enumerate() {
            let mut bytes = 0;
            for to in &sent[first..] {
                bytes += to.len;
                let allowed = Rate::from_kbit(limit).bytes_in(to.at.since(from.at)).0 + 2 * u64::from(FRAME);
                prop_assert!(bytes <= allowed, "{} B from {:?} to {:?}", bytes, from.at, to.at);
            }
        }
        prop_assert_eq!(line.held(), 0, "nothing is forgotten");
    }
}

const TREE: &str = "voice data web bulk, parent = root root data data, rate = 8 Mbit/s, \
                    rt = 1Mbit/s:10ms:500kbit/s - - -, ls = 1Mbit/s 7Mbit/s 4Mbit/s 2Mbit/s, limit = 100packets";

/// Shares of a second, within 1 % of it.
fn shares(line: &mut Line, classes: &[(&str, f64)], from: Instant) {
    let to = from + Duration::from_secs(1);
    let whole: u64 = line.gone().iter().filter(|p| p.at >= from && p.at < to).map(|p| p.len).sum();
    assert!(whole.abs_diff(1_000_000) < 4_000, "the line is full: {whole}");
    for (class, share) in classes {
        let part = bytes_of(line, class, from, to) as f64 / whole as f64;
        assert!((part - share).abs() < 0.01, "{class}: {part:.4} instead of {share:.4}");
    }
}

#[test]
fn what_is_left_is_shared_along_the_tree() {
    let mut line = Line::new("Hfsc", TREE, 1);
    keep_full(&mut line, &["voice", "web", "bulk"], 700, ms(1500));
    shares(&mut line, &[("voice", 1.0 / 8.0), ("web", 7.0 / 12.0), ("bulk", 7.0 / 24.0)], ms(400));
    // Web rests: its sibling gets it, not voice.
    line.run_for(Duration::from_secs(1));
    let from = line.now();
    keep_full(&mut line, &["voice", "bulk"], 1400, from + Duration::from_millis(1300));
    shares(&mut line, &[("voice", 1.0 / 8.0), ("bulk", 7.0 / 8.0)], from + Duration::from_millis(200));
}

#[test]
fn rate_and_delay_are_guaranteed_apart() {
    let mut line = Line::new("Hfsc", TREE, 1);
    // Every 20 ms a packet of 200 bytes: 80 kbit/s, within 10 ms by the first piece.
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
    // 200 bytes at 1 Mbit/s are 1.6 ms; and a packet of 1.5 ms was on the line.
    assert!(longest <= Some(Duration::from_micros(3_100)), "{longest:?}");
}

#[test]
fn nobody_pays_for_what_was_left_over() {
    let mut line = Line::new("Hfsc", "x y, rate = 8 Mbit/s, ls = 2Mbit/s 6Mbit/s, limit = 100packets", 1);
    // Alone, x has four times its share for a second.
    keep_full(&mut line, &["x"], 1000, ms(1000));
    keep_full(&mut line, &["x", "y"], 1000, ms(2200));
    shares(&mut line, &[("x", 0.25), ("y", 0.75)], ms(1020));
}

#[test]
fn a_limit_leaves_the_line_to_others_or_idle() {
    let text = "x y, rate = 8 Mbit/s, ls = 4Mbit/s 4Mbit/s, ul = 1Mbit/s -, limit = 100packets";
    let mut line = Line::new("Hfsc", text, 1);
    keep_full(&mut line, &["x", "y"], 500, ms(1300));
    shares(&mut line, &[("x", 0.125), ("y", 0.875)], ms(200));
    line.run_until(ms(2500));
    let from = line.now();
    keep_full(&mut line, &["x"], 500, from + Duration::from_millis(1200));
    let bytes =
        bytes_of(&mut line, "x", from + Duration::from_millis(100), from + Duration::from_millis(1100));
    assert!(bytes.abs_diff(125_000) < 1_250, "{bytes}");
}

#[test]
fn a_share_not_given_is_that_of_the_guarantee() {
    let text = "x y, rate = 8 Mbit/s, rt = 1Mbit/s, limit = 100packets";
    let mut line = Line::new("Hfsc", text, 1);
    keep_full(&mut line, &["x", "y"], 500, ms(1300));
    shares(&mut line, &[("x", 0.5), ("y", 0.5)], ms(200));
    let by = (line.report("by_guarantee_x"), line.report("by_share_x"));
    assert!(by.0 > 200 && by.1 > 500, "{by:?}");
}

#[test]
fn a_successor_goes_on() {
    let mut line = Line::new("Hfsc", TREE, 1);
    line.run_until(ms(5_000));
    for class in ["voice", "web", "bulk"] {
        (0..50).for_each(|_| line.send(class, 1000));
    }
    line.run_for(Duration::from_millis(20));
    line.replace("Hfsc", TREE);
    line.run_for(Duration::from_millis(130));
    assert_eq!((line.gone().len(), line.held()), (150, 0));
    // The guarantee began anew when it was taken over, not at the beginning of time: others were served as well.
    let (voice, after) = (line.class("voice"), &line.gone()[22..62]);
    assert!(after.iter().filter(|p| p.class == voice).count() < 15);
}

#[test]
fn curves_are_checked_against_each_other() {
    let message = |text: &str| -> Vec<(String, String)> {
        let text = perhop_element::testkit::args(text);
        let errors = build(&text, &mut BuildCx::default()).err().unwrap_or_default();
        errors.into_iter().map(|e| (e.key.unwrap_or_default(), e.message)).collect()
    };
    let one = |text: &str, key: &str, part: &str| {
        let all = message(text);
        assert!(all.len() == 1 && all[0].0 == key && all[0].1.contains(part), "{text}: {all:?}");
    };
    assert_eq!(message("a b, rate = 8 Mbit/s, rt = 4Mbit/s"), []);
    // At 10 ms, where the first piece ends, and for ever, where the second is.
    one(
        "a b, rate = 8 Mbit/s, rt = 5Mbit/s:10ms:1Mbit/s 4Mbit/s",
        "rt",
        "11250 B are guaranteed in the first 10 ms, the line sends 10000 B",
    );
    one("a b, rate = 8 Mbit/s, rt = 1Mbit/s:10ms:5Mbit/s 4Mbit/s", "rt", "1.01 s");
    one("a b, rate = 8 Mbit/s, rt = 2Mbit/s -, ls = 1Mbit/s, ul = 1Mbit/s -", "ul", "ul of a");
    one(
        "p a b, parent = root p p, rate = 8 Mbit/s, rt = - 1Mbit/s 1Mbit/s, ls = 1Mbit/s, ul = 1900kbit/s - -",
        "ul",
        "ul of p",
    );
    one("a b, rate = 8 Mbit/s, rt = 1Mbit/s -", "ls", "b has no ls");
    one("p a, parent = root p, rate = 8 Mbit/s, rt = 1Mbit/s 1Mbit/s", "rt", "rt of p: it has children");
    one("a, rate = 8 Mbit/s, ls = 9Mbit/s", "ls", "out of range");
    one("a, rate = 8 Mbit/s, ls = 1Mbit/s:1ms", "ls", "2 parts");
    one("a, rate = 8 Mbit/s, ls = 10bit/s", "ls", "100000th");
    one("a b, rate = 8 Mbit/s, ls = 1Mbit/s, parent = b root", "parent", "not a class before it");
    one("a a, rate = 8 Mbit/s, ls = 1Mbit/s", "classes", "not the name of another class");
    one("a b, rate = 8 Mbit/s, ls = 1Mbit/s, limit = 1packet 2", "limit", "limit = 2");
}
