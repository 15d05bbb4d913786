use super::*;
use crate::sequence::after;
use proptest::prelude::*;
use std::collections::VecDeque;

const MSS: u16 = 1460;

fn offer(ack: u32) -> Offer {
    Offer { ack, field: u16::MAX, shift: 7, sent_end: None, allow_shrink: false, credit: true, opens: false }
}

/// The law of a sender that always has data: what it has sent and nobody acknowledged yet, one segment and one moment each.
/// Acknowledges the oldest, and sends what the window lets it. Segments let go by it.
fn one_more(window: &mut Window, wanted: u64, flight: &mut VecDeque<u32>, next: &mut u32) -> u32 {
    let ack = flight.pop_front().expect("there is always one under way");
    window.advance(wanted, u32::from(MSS), &offer(ack));
    let field = window.field(&offer(ack));
    let edge = ack.wrapping_add(u32::from(field) << 7);
    let mut sent = 0;
    while !before(edge, next.wrapping_add(u32::from(MSS))) {
        *next = next.wrapping_add(u32::from(MSS));
        flight.push_back(*next);
        sent += 1;
    }
    sent
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
            assert_eq!(window.advance(wanted, 5840, &offer(i * 5840)), Bound::Rate);
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
    let mut window = Window::new(MSS, 40);
    let mut next = 3 * u32::from(MSS);
    let mut flight: VecDeque<u32> = (1..=3).map(|i| i * u32::from(MSS)).collect();
    one_more(&mut window, wanted, &mut flight, &mut next);
    let (mut under_way, mut changes) = (0, 0);
    let rounds = 500;
    for _ in 0..rounds {
        let end = next;
        // Until the first segment sent in this round trip is acknowledged.
        while flight.front().is_some_and(|first| !after(*first, end)) {
            let sent = one_more(&mut window, wanted, &mut flight, &mut next);
            assert!(sent <= 2);
            changes += u32::from(sent != 1);
        }
        under_way += flight.len();
        assert!(flight.len() == 3 || flight.len() == 4, "{}", flight.len());
    }
    let mean = under_way as f64 / f64::from(rounds);
    assert!((mean - 3.6).abs() < 0.01, "{mean}");
    // 3, 4, 3, 4, 4: four changes in five round trips. With every acknowledgment it was 14 in the 18 of them.
    assert!((rounds * 3 / 5..=rounds).contains(&changes), "{changes}");
}

#[test]
fn a_window_grows_by_two_fifths_in_a_round_trip() {
    let wanted = optimal(4_800_000, share(1460, 40), 900_000 << 6);
    let mut window = Window { limit: 12 * u32::from(MSS), ..Window::new(MSS, 40) };
    let mut next = 12 * u32::from(MSS);
    let mut flight: VecDeque<u32> = (1..=12).map(|i| i * u32::from(MSS)).collect();
    for _ in 0..6 {
        let (before, end) = (flight.len(), next);
        while flight.front().is_some_and(|first| !after(*first, end)) {
            assert!(one_more(&mut window, wanted, &mut flight, &mut next) <= 2, "no burst");
        }
        let part = before * 2 / 5;
        assert!((part..=part + 1).contains(&(flight.len() - before)), "{before} to {}", flight.len());
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
    /// Law of the credit: what is written, in whole segments, is on the average what is wanted.
    #[test]
    fn the_mean_of_the_windows_is_what_the_rate_needs(
        mss in 64u16..9000, shift in 0u8..=14, segments in 1.0f64..40.0, steps in 1usize..400,
    ) {
        let unit = u32::from(mss).max(1 << shift);
        let wanted = (f64::from(unit) * segments * 256.0) as u64;
        let mut window = Window::new(mss, 40);
        let mut written = 0u64;
        let mut ack = 7u32;
        for _ in 0..steps {
            let offer = Offer { shift, ..offer(ack) };
            prop_assume!(u64::from(offer.own()) * 256 >= wanted + u64::from(unit) * 256);
            // All of the last window at once.
            prop_assert_eq!(window.advance(wanted, 41 * unit, &offer), Bound::Rate);
            let field = window.field(&offer);
            // What the sender makes of the field.
            let seen = u32::from(field) << shift;
            prop_assert_eq!(seen / unit * unit, window.limit() / unit * unit);
            written += u64::from(seen / unit * unit);
            prop_assert!(u64::from(window.credit()) < u64::from(unit) * 256);
            ack = ack.wrapping_add(unit);
        }
        prop_assert_eq!(written * 256 + u64::from(window.credit()), wanted * steps as u64);
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
fn a_part_of_a_segment_that_is_held_back_is_made_up_for_and_a_whole_one_is_not() {
    let limits = |unused: u32| {
        let wanted = u64::from(2 * u32::from(MSS)) << 8;
        let mut window = Window::new(MSS, 40);
        let sum: u32 = (0..600u32)
            .map(|i| {
                let ack = i * u32::from(MSS);
                let sent_end = window.edge.wrapping_sub(unused);
                let apart = 900_000 / (window.limit() / u32::from(MSS)).max(1);
                window.left_unused(sent_end, 0, 7, (apart, 900_000));
                window.advance(wanted, u32::from(MSS), &offer(ack));
                window.field(&offer(ack));
                window.limit() / u32::from(MSS)
            })
            .sum();
        f64::from(sum) / 600.0
    };
    assert!((limits(100) - 2.0).abs() < 0.02, "within a step of the window field");
    // Without 1,000 octets all the time.
    let mean = limits(1_000);
    assert!((mean - 2.0 - 1_000.0 / 1_460.0).abs() < 0.05, "{mean}");
    assert!((limits(u32::from(MSS)) - 2.0).abs() < 0.02, "it has nothing to send");
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
    assert!(window.credit() > 0);
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
    // A window that can only be written in steps above the segment.
    let coarse = Offer { shift: 12, ..offer(20_000) };
    assert_eq!(window.advance(700 << 8, 1460, &coarse), Bound::Floor);
    assert_eq!(window.field(&coarse), 1);
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
