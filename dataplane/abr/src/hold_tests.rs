use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn spell_of(time: Duration) -> Spell {
    Spell { time, gap: Duration::ZERO, slack: Duration::ZERO, longest: LONGEST }
}

#[test]
fn acknowledgments_go_one_spell_apart_once_the_sender_is_used_to_it() {
    let mut pacing = Pacing::new(4);
    let spell = spell_of(Duration::from_millis(300));
    // Each acknowledgment comes 100 ms after the last one went: the path's round trip.
    let mut now = Instant(MS);
    let mut gaps = vec![];
    for _ in 0..20 {
        let at = pacing.space(7, now, spell).expect("there is room");
        gaps.push((at.since(now)).as_nanos() / MS);
        now = at + Duration::from_millis(100);
    }
    assert_eq!(gaps[..3], [0, 20, 30], "it begins gently");
    assert!(gaps.windows(2).all(|g| g[0] <= g[1] && g[1] <= g[0] * 3 / 2 + 20));
    assert_eq!(gaps[12..], [200; 8], "300 ms from one to the next");
}

/// Acknowledgments that come late by less than the slack cost nothing: as many go as the rate has in the time.
#[test]
fn what_is_late_is_made_up_for_as_far_as_the_slack_reaches() {
    let spell =
        |slack: u64| Spell { slack: Duration::from_micros(slack), ..spell_of(Duration::from_micros(100)) };
    let last = |slack: u64, late: u64| {
        let mut pacing = Pacing::new(4);
        let mut now = Instant(MS);
        (0..1_000u64).fold(now, |_, i| {
            let at = pacing.space(7, now, spell(slack)).expect("there is room");
            // Every tenth waits for its sender.
            now = at + Duration::from_micros(20 + if i % 10 == 0 { late } else { 0 });
            at
        })
    };
    let took = |slack, late| last(slack, late).since(Instant(MS)).as_nanos() / 1_000;
    assert_eq!(took(0, 80), 999 * 100);
    assert_eq!(took(0, 580), 999 * 100 + 100 * 500);
    assert_eq!(took(1_000, 580), 999 * 100);
    // Beyond it what is lost is lost.
    assert_eq!(took(300, 580), 999 * 100 + 100 * 200);
}

#[test]
fn nothing_is_held_longer_than_a_time_out_allows() {
    let mut pacing = Pacing::new(4);
    let mut now = Instant(MS);
    for _ in 0..40 {
        let at = pacing.space(7, now, spell_of(Duration::from_secs(10))).expect("there is room");
        assert!(at.since(now) <= LONGEST);
        now = at + Duration::from_millis(1);
    }
}

#[test]
fn room_comes_free_when_what_was_held_has_gone() {
    let mut pacing = Pacing::new(2);
    let spell = spell_of(Duration::from_millis(50));
    for flow in [1, 2] {
        pacing.space(flow, Instant(MS), spell);
        pacing.space(flow, Instant(MS), spell);
    }
    assert_eq!(pacing.space(3, Instant(2 * MS), spell), None);
    assert_eq!(pacing.follow(1, Instant(2 * MS)), Some(Instant(21 * MS)));
    assert_eq!(pacing.space(3, Instant(50 * MS), spell), None, "it looked a moment ago");
    assert_eq!(pacing.space(3, Instant(200 * MS), spell), Some(Instant(200 * MS)));
    assert_eq!(pacing.follow(1, Instant(200 * MS)), None);
}

proptest! {
    /// Acknowledgments come as they like, of as many segments as they like: none waits longer than it may, they stay in their order,
    /// and where none had to go because it had waited long enough, no more is let go in any time than the rate has in it and in
    /// the slack, and no two are closer than the gap.
    #[test]
    fn acknowledgments_are_let_go_at_the_rate(
        steps in proptest::collection::vec((0u64..400, 1u64..4), 1..200),
        (segment_ms, slack, longest_ms) in (20u64..300, 0u64..4, 20u64..400),
    ) {
        let (mut pacing, mut now) = (Pacing::new(4), Instant(MS));
        let [segment, longest] = [segment_ms, longest_ms].map(Duration::from_millis);
        let slack = segment.saturating_mul(slack);
        let mut went: Vec<(Instant, Duration)> = vec![];
        for (gap, segments) in steps {
            now += Duration::from_millis(gap);
            let time = segment.saturating_mul(segments);
            let gap = Duration(segment.0 / 2);
            let at = pacing.space(7, now, Spell { time, gap, slack, longest }).expect("there is room");
            prop_assert!(at >= now && at.since(now) <= longest);
            let last = went.last().map_or(Instant::ZERO, |(at, _)| *at);
            prop_assert!(at >= last);
            if at.since(now) >= longest.min(FIRST) {
                // It may have had to go.
                went.clear();
            } else {
                prop_assert!(last == Instant::ZERO || at.since(last) >= gap);
            }
            went.push((at, time));
            let let_go = went.iter().rev().scan(Duration::ZERO, |sum, (before, time)| {
                let this = (*before, *sum);
                *sum = *sum + *time;
                Some(this)
            });
            for (before, sum) in let_go {
                prop_assert!(sum <= at.since(before) + slack, "{sum:?} in {:?}", at.since(before));
            }
        }
    }

    /// However long each is to be held, each flow's items come out in the order in which they went in, not before their
    /// time unless there is no room, and all of them.
    #[test]
    fn the_store_keeps_each_flows_order(
        capacity in 1usize..20,
        steps in proptest::collection::vec((0u64..4, 0u64..40, any::<bool>()), 1..200),
    ) {
        let mut pacing = Pacing::new(8);
        let mut held = Held::new(capacity);
        let mut out: Vec<(u64, u64)> = vec![];
        let mut now = Instant(MS);
        for (n, (flow, gap, spaced)) in steps.iter().enumerate() {
            now += Duration::from_millis(*gap);
            while let Some((flow, n, due)) = held.release(now) {
                prop_assert!(due <= now);
                out.push((flow, n));
            }
            let until = if *spaced { pacing.space(*flow, now, spell_of(Duration::from_millis(90))) } else { pacing.follow(*flow, now) };
            match until.filter(|until| *until > now) {
                Some(until) => out.extend(held.push(until, (*flow, n as u64, until)).map(|(flow, n, _)| (flow, n))),
                None => out.push((*flow, n as u64)),
            }
            prop_assert!(held.len() <= capacity);
        }
        while let Some((flow, n, _)) = held.pop() {
            out.push((flow, n));
        }
        prop_assert_eq!(out.len(), steps.len());
        for flow in 0..4 {
            let order: Vec<u64> = out.iter().filter(|(f, _)| *f == flow).map(|(_, n)| *n).collect();
            prop_assert!(order.is_sorted(), "{:?}", order);
        }
    }
}
