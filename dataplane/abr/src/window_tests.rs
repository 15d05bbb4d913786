use super::*;
use proptest::prelude::*;

const MSS: u16 = 1460;

fn offer(ack: u32) -> Offer {
    Offer {
        ack,
        field: u16::MAX,
        shift: 0,
        sent_end: None,
        on_its_way: 0,
        room: 0,
        allow_shrink: false,
        credit: true,
        opens: false,
    }
}

const ROUND_US: u32 = 900_000;

/// Settles near a sender whose data have passed up to the edge, a round trip after the acknowledgment before.
fn settle(window: &mut Window, wanted: u64, ack: u32) {
    let offer = Offer { sent_end: Some(window.edge), ..offer(ack) };
    let times = Times { rtt_us: ROUND_US, left_us: 0, apart_us: ROUND_US, waited_us: 0 };
    window.settle(wanted, 0, &offer, &times);
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
    /// Never raised, never zero, a repeated number repeats its window, the edge stands; whatever the rate and the times do.
    #[test]
    fn laws_of_the_written_window(
        start: u32, mss in 64u16.., shift in 0u8..=14,
        steps in proptest::collection::vec(
            (
                prop_oneof![0u32..40_000, 0u32..1 << 30], any::<u16>(), any::<bool>(),
                prop_oneof![0u64..1 << 30, any::<u64>()], any::<[u32; 4]>(),
            ),
            1..60,
        ),
    ) {
        let mut window = Window::new(mss, 40);
        let (mut ack, mut edge) = (start, None);
        for (by, own, repeat, wanted, [rtt_us, left_us, apart_us, payload]) in steps {
            ack = ack.wrapping_add(by);
            let offer = Offer { field: own, shift, sent_end: Some(ack.wrapping_add(100)), ..offer(ack) };
            window.came(payload, payload >> 1, rtt_us);
            window.settle(wanted, by, &offer, &Times { rtt_us, left_us, apart_us, waited_us: 0 });
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
                // It moves left when the receiver's own does, and never otherwise, but for what a scale cannot say.
                let coarse = if 1 << shift > mss { (1 << shift) - 1 } else { 0 };
                prop_assert!(!before(right.wrapping_add(coarse), edge) || field == own);
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

#[test]
fn a_flow_that_loses_gets_room_behind_holes_until_it_is_close_to_its_rate() {
    let needs = |segments: u64| segments * 1460 << 8;
    let room =
        |segments, under_way: u32| room_behind_holes(needs(segments), MSS, under_way * 1460, 1, 1) / 1460;
    assert_eq!([0, 10, 30, 40, 80, 87].map(|n| room(100, n)), [0, 30, 90, 120, 200, 200]);
    assert_eq!([88, 100, 300].map(|n| room(100, n)), [0, 0, 0], "close to its rate");
    assert_eq!((room(16, 10), room(15, 10)), (30, 0), "a window of a few segments");
    // Half of what is under way is on the other side; from far nothing can be told.
    assert_eq!(room_behind_holes(needs(100), MSS, 20 * 1460, 1, 2) / 1460, 120);
    assert_eq!(room_behind_holes(needs(100), MSS, 20 * 1460, 1, 5), 0);
    assert_eq!(
        room_behind_holes(u64::MAX, MSS, u32::MAX, u64::from(u32::MAX), u64::from(u32::MAX)),
        u32::MAX >> 2
    );
    // The window grows by no more than is acknowledged, stands until the flow comes close, and then shrinks with what is acknowledged.
    let mut window = Window::new(MSS, 40);
    let lossy = |ack: u32, room: u32| Offer { shift: 4, room: room * 1460, ..offer(ack) };
    let mut limits = vec![];
    for (i, room) in [0, 0, 120, 120, 120, 120, 0, 0].into_iter().enumerate() {
        let ack = i as u32 * 14_600;
        window.advance(needs(100), 14_600, &lossy(ack, room));
        window.field(&lossy(ack, room));
        limits.push(window.limit() / 1460);
    }
    assert_eq!(limits, [100, 100, 110, 120, 120, 120, 110, 100]);
}

/// A scale whose unit is more than what an acknowledgment acknowledges.
#[test]
fn a_lower_rate_takes_hold_at_any_scale() {
    for (mss, shift) in [(MSS, 7), (MSS, 10), (MSS, 11), (MSS, 12), (MSS, 14), (536, 10), (536, 11)] {
        let step = u64::from(mss).max(1 << shift);
        let mut window = Window::new(mss, 40);
        let mut ack = 0u32;
        window.advance(40 * step << 8, 0, &Offer { shift, ..offer(ack) });
        window.field(&Offer { shift, ..offer(ack) });
        let most = (40 * step) as u32;
        let mut acknowledged = 0;
        while acknowledged < 4 * most {
            (ack, acknowledged) = (ack + u32::from(mss), acknowledged + u32::from(mss));
            let offer = Offer { shift, sent_end: Some(ack + most), ..offer(ack) };
            window.advance(4 * step << 8, u32::from(mss), &offer);
            window.field(&offer);
        }
        assert!(u64::from(window.limit()) <= 5 * step, "{mss}, {shift}: {}", window.limit());
    }
}

#[path = "window_loop_tests.rs"]
mod closed_loop;
