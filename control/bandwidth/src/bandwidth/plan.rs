//! What rate a link has when: from its schedule, and from what was announced.

use perhop_units::{Duration, Instant, Rate};
use std::collections::BTreeMap;

/// Most announcements of one link that are still to come.
pub(crate) const MAX_ANNOUNCED: usize = 1_000;

/// A change of a link's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// After the agent's start; with a repetition, after the beginning of each.
    pub at: Duration,
    /// From then on.
    pub rate: Rate,
}

/// Changes that are known from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In order of time, no two at the same; with `repeat` all before its end.
    pub changes: Vec<Change>,
    /// Begins again after so long, above 0.
    pub repeat: Option<Duration>,
}

impl Schedule {
    /// The latest change at or before `t` after the start.
    fn last(&self, t: Duration) -> Option<Change> {
        let (begin, t) = self.round(t);
        let seen = self.changes.partition_point(|change| change.at <= t);
        let this = seen.checked_sub(1).map(|i| self.changes[i]);
        let of = |begin: Duration, change: Change| Change { at: begin + change.at, ..change };
        this.map(|change| of(begin, change)).or_else(|| {
            let before = Duration(begin.0.checked_sub(self.repeat?.0)?);
            self.changes.last().map(|change| of(before, *change))
        })
    }

    /// When the first change after `t` is.
    fn next(&self, t: Duration) -> Option<Duration> {
        let (begin, t) = self.round(t);
        let seen = self.changes.partition_point(|change| change.at <= t);
        match self.changes.get(seen) {
            Some(change) => Some(begin + change.at),
            None => Some(begin + self.repeat? + self.changes.first()?.at),
        }
    }

    /// The beginning of the repetition that `t` is in, and how far into it.
    fn round(&self, t: Duration) -> (Duration, Duration) {
        match self.repeat {
            Some(repeat) if repeat > Duration::ZERO => {
                let into = t.0 % repeat.0;
                (Duration(t.0 - into), Duration(into))
            }
            _ => (Duration::ZERO, t),
        }
    }
}

/// The rate of one link over time.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    start: Instant,
    /// Before the first change; `None`: nothing is known of it here.
    base: Option<Rate>,
    schedule: Schedule,
    announced: BTreeMap<Instant, Rate>,
}

impl Plan {
    pub(crate) fn new(start: Instant, base: Option<Rate>, schedule: Schedule) -> Self {
        Self { start, base, schedule, announced: BTreeMap::new() }
    }

    /// What was said or scheduled last for `t`.
    pub(crate) fn rate_at(&self, t: Instant) -> Option<Rate> {
        let scheduled = self.schedule.last(t.since(self.start));
        let scheduled = scheduled.map(|change| (self.start + change.at, change.rate));
        let announced = self.announced.range(..=t).next_back().map(|(at, rate)| (*at, *rate));
        match (scheduled, announced) {
            (Some((before, _)), Some((at, rate))) if at >= before => Some(rate),
            (Some((_, rate)), _) | (None, Some((_, rate))) => Some(rate),
            (None, None) => self.base,
        }
    }

    /// The lowest rate from `now` until `notice` later, both included.
    pub(crate) fn lowest(&self, now: Instant, notice: Duration) -> Option<Rate> {
        let ahead = self.changes_after(now).take_while(|at| *at <= now + notice);
        let later = ahead.filter_map(|at| self.rate_at(at));
        self.rate_at(now).into_iter().chain(later).min()
    }

    /// When [`Plan::lowest`] or [`Plan::rate_at`] may have another value than at `now`.
    pub(crate) fn next_step(&self, now: Instant, notice: Duration) -> Option<Instant> {
        let inside = self.changes_after(now).next()?;
        if inside > now + notice {
            return Some(Instant(inside.0 - notice.0));
        }
        let beyond = self.changes_after(now).find(|at| *at > now + notice);
        let beyond = beyond.map(|at| Instant(at.0 - notice.0));
        beyond.into_iter().chain([inside]).min()
    }

    /// Takes note of a change to come; `false` if too many are noted already.
    pub(crate) fn announce(&mut self, now: Instant, at: Instant, rate: Rate) -> bool {
        // Of what has been, the latest counts.
        let latest = self.announced.range(..=now).next_back().map(|(at, _)| *at);
        self.announced.retain(|at, _| *at > now || Some(*at) == latest);
        let takes = self.announced.len() < MAX_ANNOUNCED || self.announced.contains_key(&at);
        if takes {
            self.announced.insert(at, rate);
        }
        takes
    }

    /// The link was seen to change to `rate`: what was announced up to now, or announces this, has come true.
    pub(crate) fn seen(&mut self, now: Instant, rate: Rate) {
        let first = self.announced.range(now..).next().map(|(at, rate)| (*at, *rate));
        let early = first.filter(|(_, said)| *said == rate).map(|(at, _)| at);
        self.announced.retain(|at, _| *at > now && Some(*at) != early);
    }

    fn changes_after(&self, now: Instant) -> impl Iterator<Item = Instant> + '_ {
        std::iter::successors(self.next_change(now), |at| self.next_change(*at))
    }

    fn next_change(&self, t: Instant) -> Option<Instant> {
        let scheduled = self.schedule.next(t.since(self.start)).map(|at| self.start + at);
        // Before the start nothing is due, and the first change may be at the start itself.
        let after = (std::ops::Bound::Excluded(t), std::ops::Bound::Unbounded);
        let announced = self.announced.range(after).next().map(|(at, _)| *at);
        [scheduled, announced].into_iter().flatten().min().filter(|at| *at > t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Instant = Instant(1_000);

    fn change(at: u64, rate: u64) -> Change {
        Change { at: Duration(at), rate: Rate(rate) }
    }

    fn plan(base: Option<u64>, changes: &[(u64, u64)], repeat: Option<u64>) -> Plan {
        let changes = changes.iter().map(|(at, rate)| change(*at, *rate)).collect();
        Plan::new(START, base.map(Rate), Schedule { changes, repeat: repeat.map(Duration) })
    }

    fn at(plan: &Plan, t: u64) -> Option<u64> {
        plan.rate_at(START + Duration(t)).map(|rate| rate.0)
    }

    #[test]
    fn a_repeated_schedule_goes_on_where_it_ended() {
        // The link of: high, after 20 low, after 40 high.
        let link = plan(Some(192), &[(20, 64), (30, 192)], Some(40));
        let seen: Vec<_> = [0, 19, 20, 29, 30, 40, 59, 60, 69, 70, 99, 100].map(|t| at(&link, t)).to_vec();
        assert_eq!(seen, [192, 192, 64, 64, 192, 192, 192, 64, 64, 192, 192, 64].map(Some));
        let end_low = plan(Some(192), &[(20, 64)], Some(40));
        assert_eq!([0, 20, 40, 59].map(|t| at(&end_low, t)), [192, 64, 64, 64].map(Some));
        assert_eq!(at(&plan(None, &[(20, 64)], None), 19), None);
    }

    #[test]
    fn a_decrease_counts_before_and_an_increase_when_it_is_there() {
        let link = plan(Some(192), &[(20, 64), (30, 192)], Some(40));
        let lowest = |t: u64| link.lowest(START + Duration(t), Duration(3)).map(|rate| rate.0);
        assert_eq!([16, 17, 20, 29, 30, 56, 57].map(lowest), [192, 64, 64, 64, 192, 192, 64].map(Some));
        let step = |t: u64| link.next_step(START + Duration(t), Duration(3)).map(|at| at.since(START).0);
        assert_eq!([0, 17, 20, 27, 30].map(step), [17, 20, 27, 30, 57].map(Some));
    }

    #[test]
    fn the_latest_announcement_or_change_counts() {
        let mut link = plan(Some(192), &[(20, 64)], None);
        assert!(link.announce(START, START + Duration(10), Rate(100)));
        assert!(link.announce(START, START + Duration(20), Rate(80)));
        assert_eq!([9, 10, 19, 20].map(|t| at(&link, t)), [192, 100, 100, 80].map(Some));
        // It came early, and true.
        link.seen(START + Duration(18), Rate(80));
        assert_eq!([18, 20].map(|t| at(&link, t)), [192, 64].map(Some));
        for i in 0..MAX_ANNOUNCED as u64 {
            assert!(link.announce(START, START + Duration(100 + i), Rate(1)), "{i}");
        }
        assert!(!link.announce(START, START + Duration(99), Rate(1)));
        assert!(link.announce(START, START + Duration(100), Rate(2)));
    }

    proptest! {
        /// The oracle looks at every instant.
        #[test]
        fn no_step_is_missed(
            changes in proptest::collection::btree_map(0u64..40, 1u64..9, 0..6),
            repeats: bool, notice in 0u64..50,
            announced in proptest::collection::btree_map(0u64..120, 1u64..9, 0..4),
        ) {
            let list: Vec<_> = changes.into_iter().collect();
            let mut link = plan(Some(5), &list, repeats.then_some(40));
            for (at, rate) in announced {
                link.announce(START, START + Duration(at), Rate(rate));
            }
            let notice = Duration(notice);
            let value = |t: u64| {
                let now = START + Duration(t);
                let slow = (0..=notice.0).filter_map(|d| link.rate_at(now + Duration(d))).min();
                (link.rate_at(now), slow)
            };
            let values: Vec<_> = (0..300).map(value).collect();
            for t in 0..150 {
                let now = START + Duration(t as u64);
                prop_assert_eq!(link.lowest(now, notice), values[t].1);
                let changes = (t + 1..values.len()).find(|later| values[*later] != values[t]);
                let step = link.next_step(now, notice);
                prop_assert!(step.is_none_or(|at| at > now));
                if let Some(changes) = changes {
                    let step = step.expect("something changes");
                    prop_assert!(step <= START + Duration(changes as u64), "{t}: {step:?} {changes}");
                }
            }
        }
    }
}
