use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn sample(stamps: &mut Stamps, ack: u32, now: u32) -> Option<u32> {
    match stamps.acknowledged(ack, now) {
        Acked::New { sample, .. } => sample,
        _ => None,
    }
}

fn at_most(stamps: &mut Stamps, ack: u32, now: u32) -> Option<u32> {
    match stamps.acknowledged(ack, now) {
        Acked::New { sample: None, at_most, .. } => at_most,
        _ => None,
    }
}

/// A direction whose SYN at 999 has been acknowledged, at time 0.
fn open() -> Stamps {
    let mut s = Stamps::default();
    assert_eq!(s.sent(999, 1000, 0, false), Sent::New);
    assert_eq!(sample(&mut s, 1000, 50), Some(50), "the handshake is a sample");
    s
}

#[test]
fn the_newest_covered_segment_counts() {
    let mut s = open();
    for i in 0..3u32 {
        assert_eq!(s.sent(1000 + i * 100, 1100 + i * 100, 10 * i, false), Sent::New);
    }
    assert_eq!(sample(&mut s, 1200, 500), Some(490), "a delayed acknowledgment");
    assert_eq!(s.acknowledged(1200, 510), Acked::Again);
    assert_eq!(s.acknowledged(1100, 510), Acked::Old);
    assert_eq!(sample(&mut s, 1300, 600), Some(580));
}

#[test]
fn what_was_seen_twice_gives_no_sample_until_it_is_behind() {
    let mut s = open();
    s.sent(1000, 1100, 0, false);
    s.sent(1100, 1200, 1, false);
    // Overlap, not just an equal number.
    assert_eq!(s.sent(1050, 1100, 200, false), Sent::Again);
    assert_eq!(sample(&mut s, 1100, 300), None);
    s.sent(1200, 1300, 310, false);
    assert_eq!(sample(&mut s, 1200, 320), Some(319));
    // The hole is filled: what came behind it measured the hole.
    s.sent(1300, 1400, 400, false);
    assert_eq!(s.sent(1200, 1300, 500, false), Sent::Again);
    assert_eq!(sample(&mut s, 1400, 900), None);
    s.sent(1400, 1500, 950, false);
    assert_eq!(sample(&mut s, 1500, 1000), Some(50));
}

#[test]
fn keep_alives_probes_and_late_copies_do_not_count() {
    let mut s = open();
    s.sent(1000, 1100, 0, false);
    assert_eq!(sample(&mut s, 1100, 10), Some(10));
    assert_eq!(s.sent(1099, 1100, 20, false), Sent::Ignored);
    assert_eq!(s.sent(1100, 1101, 30, true), Sent::Ignored);
    assert_eq!(s.sent(1000, 1100, 40, false), Sent::Again);
    s.sent(1100, 1200, 50, false);
    assert_eq!(sample(&mut s, 1200, 60), Some(10), "a copy of what was acknowledged hides nothing");
}

#[test]
fn when_all_stamps_are_in_use_only_exact_ends_count() {
    let mut s = open();
    for i in 0..8u32 {
        s.sent(1000 + i * 100, 1100 + i * 100, i, false);
    }
    assert_eq!(sample(&mut s, 1400, 100), Some(97), "the last stamp");
    assert_eq!(sample(&mut s, 1700, 110), None, "covers what has no stamp");
    s.sent(1800, 1900, 120, false);
    assert_eq!(sample(&mut s, 1850, 200), None, "between a segment without stamp and one with");
    assert_eq!(sample(&mut s, 1900, 210), Some(90));
}

#[test]
fn where_more_is_acknowledged_at_once_the_newest_has_the_last_stamp() {
    let mut s = open();
    let round = |s: &mut Stamps, from: u32, at: u32, apart: u32| {
        for i in 0..8 {
            s.sent(from + i * 100, from + i * 100 + 100, at + i * apart, false);
        }
    };
    round(&mut s, 1000, 0, 1);
    assert_eq!(sample(&mut s, 1700, 100), None, "of one without a stamp");
    round(&mut s, 1800, 200, 1);
    assert_eq!(sample(&mut s, 2400, 310), Some(310 - 205), "between the third and the last");
    assert_eq!(sample(&mut s, 2600, 320), Some(320 - 207), "the last");
    round(&mut s, 2600, 400, 10);
    assert_eq!(sample(&mut s, 3200, 550), None, "two that are too far apart");
    // One by one again: the first ones have the stamps.
    assert_eq!(sample(&mut s, 3400, 560), Some(560 - 470));
    round(&mut s, 3400, 600, 1);
    assert_eq!(sample(&mut s, 3500, 700), Some(100));
    assert_eq!(sample(&mut s, 3600, 700), Some(99));
    round(&mut s, 4200, 700, 1);
    assert_eq!(
        [3700, 4200, 4300, 4600].map(|ack| sample(&mut s, ack, 800)),
        [Some(198), Some(193), Some(100), None]
    );
}

/// Receivers that acknowledge a frame put together from many segments, and paths that thin acknowledgments out.
#[test]
fn one_acknowledgment_of_many_segments_gives_samples() {
    for (window, at_once) in [(10u32, 10u32), (12, 6), (32, 5), (32, 8), (48, 16), (64, 44)] {
        let mut s = open();
        let (mut sent, mut acked, mut now, mut samples) = (0, 0, 0u32, 0);
        let mut times = VecDeque::new();
        for _ in 0..300 {
            while sent < acked + window {
                s.sent(1000 + sent * 100, 1100 + sent * 100, now, false);
                times.push_back(now);
                (sent, now) = (sent + 1, now + 100);
            }
            let passed = times.drain(..at_once as usize).next_back().expect("some are under way");
            acked += at_once;
            now = now.max(passed + 900_000);
            if let Some(sample) = sample(&mut s, 1000 + acked * 100, now) {
                assert!(sample.abs_diff(now - passed) <= (now - passed) / 16, "{sample} {}", now - passed);
                samples += 1;
            }
        }
        assert!(samples >= 300 * at_once / window / 3, "{window} {at_once}: {samples} samples of 300");
    }
}

#[test]
fn a_part_of_a_large_frame_counts_from_its_time() {
    let mut s = open();
    s.sent(1000, 15_600, 5, false);
    assert_eq!(sample(&mut s, 2460, 105), Some(100));
    assert_eq!(sample(&mut s, 15_600, 155), Some(150));
}

#[test]
fn taken_up_in_mid_life() {
    let mut s = Stamps::default();
    assert_eq!(s.acknowledged(5000, 1), Acked::unmeasured(0));
    s.sent(5000, 5100, 10, false);
    assert_eq!(sample(&mut s, 5100, 60), Some(50));
    // Data before any acknowledgment, and one that is older than it.
    let mut s = Stamps::default();
    s.sent(5000, 5100, 10, false);
    assert_eq!(sample(&mut s, 4900, 20), None);
    assert_eq!(sample(&mut s, 5050, 25), None, "the segment may have begun earlier for all that is known");
    assert_eq!(sample(&mut s, 5100, 60), Some(50));
    // An acknowledgment of what did not pass here.
    assert_eq!(sample(&mut s, 9000, 70), None);
    assert_eq!(s.sent(9000, 9100, 80, false), Sent::New);
    assert_eq!(sample(&mut s, 9100, 90), Some(10));
}

#[test]
fn of_what_passed_twice_the_first_copy_counts_if_it_was_seen() {
    // A SYN, and what is acknowledged with it.
    for last in [1000, 1100] {
        let mut s = Stamps::default();
        s.sent(999, 1000, 0, false);
        s.opens();
        s.sent(999, 1000, 1_000, false);
        s.sent(1000, 1100, 1_010, false);
        assert_eq!(at_most(&mut s, last, 1_050), Some(if last == 1000 { 1_050 } else { 40 }));
    }
    // Taken up with a segment that may have passed before, elsewhere or unseen; what comes behind it has not.
    for acknowledgment_first in [false, true] {
        let mut s = Stamps::default();
        if acknowledgment_first {
            s.acknowledged(5000, 0);
        }
        for now in [0, 300] {
            s.sent(5000, 5100, now, false);
        }
        s.sent(5100, 5200, 310, false);
        assert_eq!(at_most(&mut s, 5100, 320), None);
        assert_eq!(
            at_most(&mut s, 5200, 330),
            None,
            "nothing passed twice any more, so it is a sample or nothing"
        );
        s.sent(5200, 5300, 400, false);
        s.sent(5200, 5300, 500, false);
        assert_eq!(at_most(&mut s, 5300, 520), Some(120));
    }
    // Something before it was not seen, so it may not have been either; and a SYN that is late opens nothing.
    let mut s = open();
    s.sent(1100, 1200, 100, false);
    s.sent(1100, 1200, 200, false);
    assert_eq!(at_most(&mut s, 1200, 250), None);
    let mut s = Stamps::default();
    s.acknowledged(5000, 0);
    for now in [0, 300] {
        s.sent(5000, 5100, now, false);
        s.opens();
    }
    assert_eq!(at_most(&mut s, 5100, 320), None);
}

#[test]
fn clocks_tell_the_copies_apart() {
    let mut s = open();
    s.sent(1000, 1100, 0, false);
    s.sent(1000, 1100, 1_000, false);
    s.note_clock(77, true, 1_000);
    assert_eq!(s.clock_echoed(70, false, 1_100), None, "an older echo");
    assert_eq!(s.clock_echoed(77, false, 1_150), None, "nothing new is acknowledged");
    assert_eq!(s.clock_echoed(77, true, 1_200), Some(Echoed::OfData(200)));
    assert_eq!(s.clock_echoed(77, true, 1_300), None, "once");
    let mut s = open();
    s.note_clock(5, false, 10);
    s.note_clock(6, false, 11);
    assert_eq!(s.clock_echoed(5, false, 30), Some(Echoed::OfAck(20)));
    s.note_clock(6, false, 40);
    assert_eq!(s.clock_echoed(8, false, 50), None, "overtaken");
}

#[test]
fn what_is_put_aside_with_an_acknowledgment_is_there_when_it_is_echoed() {
    let mut s = open();
    assert!(s.note_clock(5, false, 0));
    s.put_aside(77_000);
    assert!(!s.note_clock(6, false, 1), "another waits");
    assert_eq!(s.clock_echoed(5, false, 50), Some(Echoed::OfAck(50)));
    assert_eq!(s.aside(), Some(77_000));
    for i in 0..4u32 {
        s.sent(1000 + i * 100, 1100 + i * 100, 60, false);
        assert_eq!(s.aside(), None, "its place is for a stamp");
    }
}

/// A clock that did not tick between two segments does not tell them apart.
#[test]
fn of_segments_with_the_same_clock_value_none_gives_a_sample() {
    let mut s = open();
    s.note_clock(77, false, 0);
    assert_eq!(s.clock_echoed(77, false, 60), Some(Echoed::OfAck(60)));
    // A sender whose clock ticks every 10 ms; the path takes 9 ms; it sends again after 8.9 ms what was not lost.
    assert_eq!(s.sent(1000, 1100, 100_000, false), Sent::New);
    s.clock_passed(78);
    assert_eq!(s.sent(1000, 1100, 108_900, false), Sent::Again);
    s.note_clock(78, true, 108_900);
    let most = at_most(&mut s, 1100, 109_000);
    assert_eq!(most, Some(9_000));
    assert_eq!(s.clock_echoed(78, true, 109_000).map(|e| e.within(most)), None, "which copy?");
    // The second copy has a value of its own, the third has not.
    s.sent(1100, 1200, 110_000, false);
    s.clock_passed(79);
    for (value, now) in [(80, 120_000), (80, 128_900)] {
        s.sent(1100, 1200, now, false);
        s.note_clock(value, true, now);
    }
    assert_eq!(s.clock_echoed(80, true, 129_000), None, "which of two?");
    // Later data have the same value as a further copy.
    let mut s = open();
    s.sent(1000, 1100, 0, false);
    s.clock_passed(5);
    s.note_clock(6, true, 100);
    s.sent(1100, 1200, 200, false);
    s.clock_passed(7);
    s.note_clock(7, true, 300);
    assert_eq!(s.clock_echoed(7, true, 310), None);
    // Of which it is not known, until another value has passed.
    s.note_clock(7, true, 320);
    assert_eq!(s.clock_echoed(7, true, 330), None);
    s.note_clock(8, true, 340);
    assert_eq!(s.clock_echoed(8, true, 440), Some(Echoed::OfData(100)));
}

#[test]
fn of_acknowledgments_with_the_same_clock_value_the_first_counts() {
    let mut s = open();
    // The path takes 9 ms, and data let go at 0 and 8 ms are on their way.
    for (value, now) in [(5, 0), (5, 8_000)] {
        s.note_clock(value, false, now);
    }
    assert_eq!(s.clock_echoed(5, false, 9_000), Some(Echoed::OfAck(9_000)));
    s.note_clock(5, false, 16_000);
    assert_eq!(s.clock_echoed(5, false, 17_000), None, "it was let go at 8 ms");
    // Likewise where the first passed while another value waited.
    for (value, now) in [(6, 20_000), (7, 28_000)] {
        s.note_clock(value, false, now);
    }
    assert_eq!(s.clock_echoed(6, false, 29_000), Some(Echoed::OfAck(9_000)));
    s.note_clock(7, false, 36_000);
    assert_eq!(s.clock_echoed(7, false, 37_000), None);
    s.note_clock(8, false, 40_000);
    assert_eq!(s.clock_echoed(8, false, 49_000), Some(Echoed::OfAck(9_000)));
}

proptest! {
    /// How many stamps there are, their gaps and the clock's bits are kept beside each other.
    #[test]
    fn packed_bits_come_back(len in 0usize..=STAMPS, gaps in 0u8..32, clock: u8) {
        let gaps = gaps & ((2 << len) - 1);
        let mut s = Stamps { len_gaps_clock: clock, ..Stamps::default() };
        s.keep(len, gaps);
        prop_assert_eq!((s.len(), s.gaps()), (len, gaps));
        prop_assert_eq!(s.len_gaps_clock & !LEN_AND_GAPS, clock & !LEN_AND_GAPS);
    }
}

#[test]
fn what_leaves_later_has_no_stamp() {
    let mut s = open();
    s.sent(1000, 1100, 0, false);
    s.sent(1100, 1200, 10, false);
    s.unstamp_newest();
    assert_eq!(sample(&mut s, 1200, 100), None);
    s.sent(1200, 1300, 110, false);
    assert_eq!(sample(&mut s, 1300, 130), Some(20));
}

#[test]
fn idleness_ends_with_the_next_acknowledgment() {
    let idle = |s: &mut Stamps, ack| matches!(s.acknowledged(ack, 500), Acked::New { idle: true, .. });
    let mut s = open();
    s.sent(1000, 1100, 300, false);
    s.ends_idleness();
    s.sent(1100, 1200, 301, false);
    assert_eq!([1000, 1100, 1200].map(|ack| idle(&mut s, ack)), [false, true, false]);
}

/// The rule without limits on memory: every segment remembered.
#[derive(Default)]
struct Ledger {
    sent: VecDeque<(u32, u32, u32, bool)>,
}

proptest! {
    /// Whatever is sent and acknowledged: a sample is that of the newest covered segment, and nothing covered was seen
    /// twice. The numbers wrap.
    #[test]
    fn samples_are_right(
        start in (u32::MAX - 3000)..u32::MAX,
        steps in proptest::collection::vec((0u8..10, 1u32..600, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut stamps = Stamps::default();
        let mut ledger = Ledger::default();
        let (mut end, mut acked, mut now) = (start, start, 0u32);
        stamps.sent(start.wrapping_sub(1), start, 0, false);
        stamps.acknowledged(start, 1);
        for (kind, len, index) in steps {
            now += 7;
            match kind {
                0..=4 => {
                    let to = end.wrapping_add(len + 1);
                    stamps.sent(end, to, now, false);
                    ledger.sent.push_back((end, to, now, false));
                    end = to;
                }
                5 if !ledger.sent.is_empty() => {
                    let at = index.index(ledger.sent.len());
                    let again = ledger.sent[at];
                    prop_assert_eq!(stamps.sent(again.0, again.1, now, false), Sent::Again);
                    ledger.sent[at].3 = true;
                }
                _ if !ledger.sent.is_empty() => {
                    let at = index.index(ledger.sent.len());
                    let (from, to, ..) = ledger.sent[at];
                    // Whole segments, or a part of the last one.
                    let ack = if kind == 9 && to.wrapping_sub(from) > 1 { to.wrapping_sub(1) } else { to };
                    if ack == acked {
                        continue;
                    }
                    let covered: Vec<_> =
                        ledger.sent.iter().copied().filter(|s| before(s.0, ack)).collect();
                    let newest = covered.last().expect("the one that was chosen");
                    match stamps.acknowledged(ack, now) {
                        Acked::New { octets, sample, .. } => {
                            prop_assert_eq!(octets, ack.wrapping_sub(acked));
                            if let Some(sample) = sample {
                                // Between two stamps to a sixteenth.
                                let exact = now - newest.2;
                                prop_assert!(sample.abs_diff(exact) <= exact.max(sample) / 16);
                                prop_assert!(covered.iter().all(|s| !s.3 || !after(s.1, acked)));
                            }
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                    acked = ack;
                    ledger.sent.retain(|s| after(s.1, ack));
                }
                _ => {}
            }
        }
    }
}
