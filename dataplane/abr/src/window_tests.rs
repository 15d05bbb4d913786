use super::*;
use crate::stamps::{Acked, Stamps};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MSS: u16 = 1460;

fn offer(ack: u32) -> Offer {
    Offer {
        ack,
        field: u16::MAX,
        shift: 0,
        sent_end: None,
        on_its_way: 0,
        allow_shrink: false,
        credit: true,
        opens: false,
    }
}

/// What a sender makes of a window that is no multiple of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    /// Whole segments only.
    Whole,
    /// A part of a segment whenever there is room for one.
    Parts,
    /// One part at a time (Minshall's variant of RFC 896, Linux).
    OnePart,
}

const ROUND_US: u32 = 900_000;

/// Settles near a sender whose data have passed up to the edge, a round trip after the acknowledgment before.
fn settle(window: &mut Window, wanted: u64, ack: u32) {
    let offer = Offer { sent_end: Some(window.edge), ..offer(ack) };
    let times = Times { rtt_us: ROUND_US, left_us: 0, apart_us: ROUND_US };
    window.settle(wanted, 0, &offer, &times);
}

/// A sender that always has data, a path that takes a round trip of [`ROUND_US`], and the window at a place on it.
struct Flow {
    sender: Sender,
    mss: u32,
    shift: u8,
    /// From an acknowledgment to the data that it lets go.
    left_us: u32,
    /// Where its numbers begin.
    isn: u32,
    window: Window,
    stamps: Stamps,
    now_us: u32,
    /// When something passes the window's place: data up to a number, or the acknowledgment of them.
    events: BinaryHeap<Reverse<(u32, u32, bool)>>,
    /// End of what the sender has sent, and of its last part of a segment.
    next: u32,
    end_of_part: u32,
    acknowledged: u32,
}

impl Flow {
    /// With so many segments sent at once.
    fn new(sender: Sender, mss: u16, shift: u8, segments: u32) -> Self {
        let window = Window { limit: (segments - 1) * u32::from(mss), ..Window::new(mss, 40) };
        let mss = u32::from(mss);
        let mut flow = Self {
            sender,
            mss,
            shift,
            left_us: 0,
            isn: 0,
            window,
            stamps: Stamps::default(),
            now_us: 0,
            events: BinaryHeap::new(),
            next: 0,
            end_of_part: 0,
            acknowledged: 0,
        };
        for _ in 0..segments {
            flow.send(mss);
        }
        flow
    }
    /// So far from the sender, there and back.
    fn at(self, left_us: u32) -> Self {
        Self { left_us, ..self }
    }

    /// With numbers that begin there.
    fn numbered(self, isn: u32) -> Self {
        Self { isn, ..self }
    }

    fn send(&mut self, len: u32) {
        self.next += len;
        self.events.push(Reverse((self.now_us + self.left_us, self.next, true)));
    }

    /// The next thing passes. Whether it is an acknowledgment.
    fn pass(&mut self, wanted: u64) -> bool {
        let Reverse((now_us, number, is_data)) =
            self.events.pop().expect("there is always something under way");
        self.now_us = now_us;
        if is_data {
            let seq_end = self.isn.wrapping_add(number);
            let seq = self.stamps.sent_end().unwrap_or(self.isn);
            self.stamps.sent(seq, seq_end, now_us, false);
            let new = octets(seq, seq_end);
            self.window.came(new, new, self.stamps.since_acked_us(now_us));
            self.events.push(Reverse((now_us + ROUND_US - self.left_us, number, false)));
            return false;
        }
        self.acknowledge(number, wanted);
        true
    }

    fn acknowledge(&mut self, number: u32, wanted: u64) {
        let ack = self.isn.wrapping_add(number);
        let Acked::New { octets: new, apart_us, .. } = self.stamps.acknowledged(ack, self.now_us) else {
            return;
        };
        let sent_end = self.stamps.sent_end().expect("data");
        let on_its_way = ((wanted >> 8) * u64::from(self.left_us) / u64::from(ROUND_US)) as u32;
        let offer = Offer { shift: self.shift, sent_end: Some(sent_end), on_its_way, ..offer(ack) };
        let times = Times { rtt_us: ROUND_US, left_us: self.left_us, apart_us };
        self.window.settle(wanted, new, &offer, &times);
        self.window.advance(wanted, new, &offer);
        self.acknowledged = number;
        let edge = number + (u32::from(self.window.field(&offer)) << self.shift);
        while self.next < edge {
            let len = (edge - self.next).min(self.mss);
            if len < self.mss {
                match self.sender {
                    Sender::Whole => break,
                    Sender::OnePart if self.end_of_part > number => break,
                    Sender::OnePart | Sender::Parts => self.end_of_part = self.next + len,
                }
            }
            self.send(len);
        }
    }

    /// Segments that the sender has under way.
    fn under_way(&self) -> usize {
        self.events.len()
    }

    /// Until the first segment that was not sent yet is acknowledged; the most segments that one acknowledgment let go, and
    /// how many did not let go one.
    fn round_trip(&mut self, wanted: u64) -> (usize, u32) {
        let (end, mut most, mut other) = (self.next, 0, 0);
        while self.acknowledged < end {
            let before = self.under_way();
            if self.pass(wanted) {
                let sent = self.under_way() + 1 - before;
                most = most.max(sent);
                other += u32::from(sent != 1);
            }
        }
        (most, other)
    }

    /// Octets a round trip that get through, after a while.
    fn carried(mut self, wanted: u32) -> f64 {
        let mut until = |rounds: u32| {
            while self.now_us < rounds * ROUND_US {
                self.pass(u64::from(wanted) << 8);
            }
            (self.now_us, self.acknowledged)
        };
        let (begin, end) = (until(20), until(520));
        f64::from(end.1 - begin.1) * f64::from(ROUND_US) / f64::from(end.0 - begin.0)
    }
}

/// Table 3 of the specification's reconstruction of the published theory: what a sender that rounds down to whole
/// segments gets of 24 kbit/s, for 64 latencies from 0.910 to 1.100 s.
#[test]
fn rounding_down_costs_what_the_theory_says() {
    for (mss, least, most, mean) in [
        (256, 0.779, 0.863, 0.821),
        (536, 0.746, 0.929, 0.841),
        (1024, 0.642, 0.960, 0.740),
        (1452, 0.487, 0.970, 0.736),
    ] {
        let ratio = share(mss, 40);
        let utilisation: Vec<f64> = (0..64)
            .map(|i| {
                let rtt_us = 910_000 + 190_000 * i / 63;
                let window = optimal(24_000, ratio, rtt_us << 6) >> 8;
                let used = window as u32 / mss * mss;
                f64::from(used) / (rtt_us as f64 / 1e6) / 3000.0
            })
            .collect();
        let close =
            |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 0.0015, "mss {mss}: {ours} {theirs}");
        close(utilisation.iter().copied().fold(1.0, f64::min), least);
        close(utilisation.iter().copied().fold(0.0, f64::max), most);
        close(utilisation.iter().sum::<f64>() / 64.0, mean);
    }
}

#[test]
fn the_window_of_the_published_test_bed() {
    // 6000 B/s, 1460 of 1500 bytes, 0.9 s: 5256 octets, 3.6 segments.
    let wanted = optimal(48_000, share(1460, 40), 900_000 << 6);
    assert!((5255 << 8..=5256 << 8).contains(&wanted), "{wanted}");
    let mut window = Window::new(MSS, 40);
    let segments: Vec<u32> = (0..10u32)
        .map(|i| {
            // An acknowledgment of everything, once a round trip.
            settle(&mut window, wanted, i * 5840);
            assert_eq!(window.advance(wanted, 5840, &offer(i * 5840)), Bound::Rate);
            window.field(&offer(i * 5840));
            window.limit() / u32::from(MSS)
        })
        .collect();
    // 3.6 on the average: the first in four that gets the credit is the second.
    assert_eq!(segments, [3, 4, 3, 4, 3, 4, 4, 3, 4, 3]);
    // A ratio that is not a sum of powers of two is cut off below 2⁻¹⁶.
    assert_eq!(share(1460, 40), (1460 * 65_536 / 1500) as u16);
}

#[test]
fn a_window_is_kept_for_a_round_trip() {
    let wanted = optimal(48_000, share(1460, 40), 900_000 << 6);
    let mut flow = Flow::new(Sender::Whole, MSS, 0, 3);
    // What it was short of at its beginning is made up for.
    for _ in 0..5 {
        flow.round_trip(wanted);
    }
    let (mut under_way, mut changes) = (0, 0);
    let rounds = 500;
    for _ in 0..rounds {
        let (most, other) = flow.round_trip(wanted);
        assert!(most <= 2);
        changes += other;
        let now = flow.under_way();
        under_way += now;
        assert!(now == 3 || now == 4, "{now}");
    }
    let mean = under_way as f64 / f64::from(rounds);
    assert!((mean - 3.6).abs() < 0.01, "{mean}");
    // 3, 4, 3, 4, 4: four changes in five round trips. With every acknowledgment it was 14 in the 18 of them.
    assert!((rounds * 3 / 5..=rounds).contains(&changes), "{changes}");
}

#[test]
fn a_window_grows_by_two_fifths_in_a_round_trip() {
    let wanted = optimal(4_800_000, share(1460, 40), 900_000 << 6);
    let mut flow = Flow::new(Sender::Whole, MSS, 7, 13);
    for _ in 0..6 {
        let before = flow.under_way();
        let (most, _) = flow.round_trip(wanted);
        assert!(most <= 2, "no burst");
        let (grown, part) = (flow.under_way() - before, before * 2 / 5);
        assert!((part..=part + 1).contains(&grown), "{before} and {grown}");
    }
}

#[test]
fn without_credit_the_window_is_always_rounded_down() {
    let wanted = optimal(48_000, share(1460, 40), 900_000 << 6);
    let mut window = Window::new(MSS, 40);
    for i in 0..10u32 {
        let offer = Offer { credit: false, ..offer(i * 5840) };
        assert_eq!(window.advance(wanted, 5840, &offer), Bound::Rate);
        assert_eq!((window.limit(), window.credit()), (3 * 1460, 0));
    }
}

#[test]
fn extremes_saturate() {
    assert_eq!(optimal(0, u16::MAX, u64::MAX), 0);
    assert!(optimal(u64::MAX, u16::MAX, 1 << 33) > 1 << 40);
    let mut window = Window::new(u16::MAX, 40);
    assert_eq!(window.advance(u64::MAX, 1460, &offer(0)), Bound::Receiver);
    assert_eq!(window.field(&offer(0)), u16::MAX);
}

proptest! {
    /// Law of the credit: what a sender has under way is on the average what is wanted, to a fiftieth; to a twentieth
    /// where one that uses parts of segments is far.
    #[test]
    fn the_mean_of_what_is_under_way_is_what_the_rate_needs(
        sender in prop_oneof![Just(Sender::Whole), Just(Sender::Parts), Just(Sender::OnePart)],
        mss in prop_oneof![500u16..9000, Just(65_483)], shift in 0u8..=9, segments in 1.2f64..30.0,
        left_us in prop_oneof![Just(0), 1..ROUND_US, Just(ROUND_US - 200)],
    ) {
        // Coarser steps make a window that is to shrink stand where it is.
        prop_assume!(4 << shift <= mss);
        let wanted = (f64::from(u32::from(mss).next_multiple_of(1 << shift)) * segments) as u32;
        prop_assume!(wanted + 3 * u32::from(mss) < u32::from(u16::MAX) << shift);
        let got = Flow::new(sender, mss, shift, 1).at(left_us).carried(wanted) / f64::from(wanted);
        // Far from the sender what parts of segments leave unused cannot be told from what data wait.
        let bound = if sender == Sender::Whole || left_us == 0 { 0.02 } else { 0.05 };
        prop_assert!((got - 1.0).abs() < bound, "{} of it", got);
    }

    /// Never raised, never zero, a repeated number repeats its window, the edge stands; whatever the rate does.
    #[test]
    fn laws_of_the_written_window(
        start: u32, mss in 64u16..9000, shift in 0u8..=14,
        steps in proptest::collection::vec((0u32..40_000, any::<u16>(), 0u64..1 << 30, any::<bool>()), 1..60),
    ) {
        let mut window = Window::new(mss, 40);
        let (mut ack, mut edge) = (start, None);
        for (by, own, wanted, repeat) in steps {
            ack = ack.wrapping_add(by);
            let offer = Offer { field: own, shift, sent_end: Some(ack.wrapping_add(100)), ..offer(ack) };
            window.advance(wanted, by, &offer);
            let field = window.field(&offer);
            prop_assert!(field <= own && (field == 0) == (own == 0));
            let octets = u32::from(field) << shift;
            prop_assert!(octets >= u32::from(mss).min(offer.own()));
            if repeat {
                prop_assert_eq!(window.field(&offer), field);
            }
            let right = ack.wrapping_add(octets);
            if let Some(edge) = edge {
                // It moves left when the receiver's own does, and never otherwise.
                prop_assert!(!before(right, edge) || field == own);
            } else {
                prop_assert!(octets >= 100.min(offer.own()), "data that passed lies outside");
            }
            edge = Some(edge.map_or(right, |edge| later(edge, right)));
        }
    }

    /// The oracle adds up bytes: of short segments as many as they have, of several in one frame as of one.
    #[test]
    fn the_mean_of_the_data_share_is_that_of_the_bytes(
        mss in 500u32..1460, headers in 40u32..80, segments in 1u32..40, short in 1u32..500,
    ) {
        let mut window = Window::new(1460, 40);
        let frame = mss * segments;
        for _ in 0..200 {
            window.passed(frame, headers);
            window.passed(short, headers);
        }
        let full = 1460 + headers;
        let parts = [(frame, frame.div_ceil(1460)), (short, 1)].map(|(payload, frames)| {
            let weight = f64::from((payload + headers).min(full));
            (f64::from(share(payload, headers * frames)) * weight, weight)
        });
        let exact = (parts[0].0 + parts[1].0) / (parts[0].1 + parts[1].1);
        // The last segment counts an eighth at most.
        let near = f64::from(share(frame, headers * frame.div_ceil(1460)).abs_diff(share(short, headers))) / 16.0;
        prop_assert!((f64::from(window.ratio()) - exact).abs() < near + 16.0, "{} {exact}", window.ratio());
    }
}

#[test]
fn senders_that_use_parts_of_segments_and_those_that_do_not_get_what_is_wanted() {
    for sender in [Sender::Whole, Sender::Parts, Sender::OnePart] {
        for shift in [0, 7, 10] {
            for left_us in [0, 100_000, 450_000, 899_800] {
                for wanted in [2_100, 2_920, 3_700, 5_256, 17_958] {
                    let got =
                        Flow::new(sender, MSS, shift, 1).at(left_us).carried(wanted) / f64::from(wanted);
                    let place = format!("{sender:?}, shift {shift}, {left_us} µs from the sender, {wanted}");
                    assert!((got - 1.0).abs() < 0.01, "{place}: {got}");
                }
            }
        }
    }
}

/// A rate is lowered for all flows at once. If they owed the same afterwards, they would send a segment more in the same
/// round trips ever after.
#[test]
fn flows_whose_rate_is_lowered_do_not_come_to_owe_the_same() {
    for (high, low) in [(5_840, 3_796), (4_380, 2_336), (5_840, 3_066), (14_600, 3_796), (4_380, 3_796)] {
        for shift in [0, 7] {
            let mut credits: Vec<i32> = (0..64)
                .map(|flow| {
                    let mut f =
                        Flow::new(Sender::Whole, MSS, shift, 1).numbered(0x3141_5927_u32.wrapping_mul(flow));
                    for _ in 0..300 {
                        f.pass(high << 8);
                    }
                    for _ in 0..4 {
                        f.round_trip(low << 8);
                    }
                    f.window.credit() >> 8
                })
                .collect();
            credits.sort_unstable();
            let tenth = i32::from(MSS) / 10;
            let together =
                credits.iter().map(|c| credits.iter().filter(|d| (*c..c + tenth).contains(*d)).count());
            let most = together.max().expect("there are flows");
            assert!(most <= 64 / 3, "{high} to {low}, shift {shift}: {most} owe the same of {credits:?}");
        }
    }
}

#[test]
fn the_first_window_has_two_segments_however_low_the_rate() {
    let mut window = Window::new(MSS, 40);
    let opening = Offer { opens: true, shift: 0, ..offer(0) };
    assert_eq!((window.advance(100 << 8, 1, &opening), window.limit()), (Bound::Floor, 2 * 1460));
    assert_eq!(window.field(&opening), 2 * 1460);
    window.advance(100 << 8, 1460, &offer(1460));
    assert_eq!(window.limit(), 1460);
}

#[test]
fn a_receiver_that_offers_less_leaves_no_credit() {
    let mut window = Window::new(MSS, 40);
    window.advance(5256 << 8, 1460, &offer(0));
    window.field(&offer(0));
    settle(&mut window, 5256 << 8, 4000);
    assert_eq!(window.credit(), (5256 - 3 * 1460) << 8);
    let small = Offer { field: 10, ..offer(4000) };
    assert_eq!(window.advance(5256 << 8, 1460, &small), Bound::Receiver);
    assert_eq!((window.field(&small), window.credit()), (10, 0));
}

#[test]
fn below_one_segment_the_window_is_one_and_nothing_is_owed() {
    let mut window = Window::new(MSS, 40);
    for i in 0..5 {
        assert_eq!(window.advance(700 << 8, 1460, &offer(i * 1460)), Bound::Floor);
        assert_eq!((window.limit(), window.credit()), (1460, 0));
    }
    // Where a window can only be written in steps above the segment, the step is the least.
    for shift in 7..=14u8 {
        let (step, coarse) = (MSS.next_multiple_of(1 << shift), Offer { shift, ..offer(20_000) });
        let step = u32::from(step).max(1 << shift);
        let unit = u32::from(MSS).max(1 << shift);
        for wanted in [0, 1, step / 2, step - 1] {
            let mut window = Window::new(MSS, 40);
            assert_eq!(
                window.advance(u64::from(wanted) << 8, 1460, &coarse),
                Bound::Floor,
                "{shift} {wanted}"
            );
            assert_eq!(u32::from(window.field(&coarse)) << shift, step, "{shift} {wanted}");
        }
        // From there on it is rounded down to segments, and those up to what can be written.
        for wanted in [step, step + 1, 2 * step - 1, 2 * step, 5 * step + 7] {
            let mut window = Window::new(MSS, 40);
            assert_eq!(
                window.advance(u64::from(wanted) << 8, 1460, &coarse),
                Bound::Rate,
                "{shift} {wanted}"
            );
            let written = u32::from(window.field(&coarse)) << shift;
            assert!(written < wanted + (1 << shift), "{shift} {wanted}: {written}");
            assert!(written + unit + (1 << shift) > wanted, "{shift} {wanted}: {written}");
        }
    }
}

#[test]
fn a_lower_rate_waits_for_the_acknowledgments_unless_it_may_shrink() {
    let high = 14_600u64 << 8;
    let low = 2_920u64 << 8;
    let mut window = Window::new(MSS, 40);
    window.advance(high, 1460, &offer(0));
    window.field(&offer(0));
    let mut windows = vec![];
    for i in 1..10u32 {
        window.advance(low, 1460, &offer(i * 1460));
        let _ = window.field(&offer(i * 1460));
        windows.push(window.limit() / 1460);
    }
    assert_eq!(windows, [9, 8, 7, 6, 5, 4, 3, 2, 2], "one segment less with every segment acknowledged");
    let mut window = Window::new(MSS, 40);
    window.advance(high, 1460, &offer(0));
    window.advance(low, 1460, &Offer { allow_shrink: true, ..offer(1460) });
    assert_eq!(window.limit(), 2920);
}
