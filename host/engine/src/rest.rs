//! What a real-time thread leaves of its processor to others.
//!
//! Linux does not let threads of `SCHED_FIFO` keep ordinary ones from a processor for ever: what those lack of a twentieth of
//! each second it takes at one blow, 50 ms in which no packet moves (fair server of Linux 6.12 and later,
//! `Documentation/scheduler/sched-deadline.rst`; before, `sched_rt_runtime_us`). A thread that leaves them more than that in
//! small pieces is never interrupted.

use perhop_units::{Duration, Instant};

/// When to rest. Sleeping for want of work is rest as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    last: Instant,
    /// Time so far less [`Rest::SHARE`] times that of rests, ns; not below 0.
    owed_for_ns: u64,
}

impl Rest {
    /// Of so much time one part is rest.
    const SHARE: u64 = 16;
    /// A rest: about two sleepers' lateness, so that most of it is rest; and short enough that rings bridge it.
    pub(crate) const LENGTH: Duration = Duration(100_000);

    /// Awake since `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, owed_for_ns: 0 }
    }

    /// Whether a rest is due, at `now` or the last time there was one.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.go_on(now);
        // Without a bound an interruption would be followed by a row of rests.
        self.owed_for_ns = self.owed_for_ns.min(2 * Self::SHARE * Self::LENGTH.0);
        self.owed_for_ns >= Self::SHARE * Self::LENGTH.0
    }

    /// Others had the processor for so long of the time until `now`.
    pub(crate) fn took(&mut self, now: Instant, slept: Duration) {
        self.go_on(now);
        self.owed_for_ns = self.owed_for_ns.saturating_sub(slept.0.saturating_mul(Self::SHARE));
    }

    #[inline]
    fn go_on(&mut self, now: Instant) {
        self.owed_for_ns += now.since(self.last).0;
        self.last = self.last.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread whose turns and whose sleeps for want of work last so long, ns. What it slept, and what it rested besides.
    fn run(turn: u64, turns_a_sleep: u64, sleep: u64) -> (f64, f64) {
        let mut now = Instant(7);
        let mut rest = Rest::new(now);
        let (mut slept, mut rested) = (0, 0);
        for n in 0..1_000_000 {
            now += Duration(turn);
            if rest.is_due(now) {
                now += Rest::LENGTH;
                rest.took(now, Rest::LENGTH);
                rested += Rest::LENGTH.0;
            } else if n % turns_a_sleep == 0 {
                now += Duration(sleep);
                rest.took(now, Duration(sleep));
                slept += sleep;
            }
        }
        let all = now.since(Instant(7)).0 as f64;
        (slept as f64 / all, rested as f64 / all)
    }

    #[test]
    fn a_thread_that_never_sleeps_rests_for_more_than_a_twentieth() {
        for turn in [300, 1_000, 20_000, 100_000] {
            let (_, rested) = run(turn, u64::MAX, 0);
            assert!((0.06..0.07).contains(&rested), "{rested} with turns of {turn} ns");
        }
    }

    #[test]
    fn sleeps_for_want_of_work_are_rest() {
        let (slept, rested) = run(1_000, 50, 5_000);
        assert!(slept > 0.08 && rested == 0.0, "{slept} slept, {rested} rested");
        // What they lack is made up for.
        let (slept, rested) = run(1_000, 50, 2_000);
        assert!(
            (0.03..0.04).contains(&slept) && (0.06..0.07).contains(&(slept + rested)),
            "{slept}, {rested}"
        );
    }

    #[test]
    fn a_long_sleep_is_neither_debt_nor_credit() {
        let mut rest = Rest::new(Instant::ZERO);
        let awake = Instant(60_000_000_000);
        rest.took(awake, Duration(59_000_000_000));
        assert!(!rest.is_due(awake + Duration(1_599_000)));
        assert!(rest.is_due(awake + Duration(1_600_000)));
        // A clock that stands still, or a turn that ended before the one before it, changes nothing.
        assert!(rest.is_due(awake) && rest.is_due(awake + Duration(1_600_000)));
        rest.took(awake + Duration(1_700_000), Rest::LENGTH);
        assert!(!rest.is_due(awake + Duration(1_700_000)));
    }

    #[test]
    fn an_interruption_is_not_followed_by_a_row_of_rests() {
        let mut rest = Rest::new(Instant::ZERO);
        let mut now = Instant(50_000_000);
        let mut rests = 0;
        while rest.is_due(now) {
            now += Rest::LENGTH;
            rest.took(now, Rest::LENGTH);
            rests += 1;
        }
        assert!((1..=3).contains(&rests), "{rests}");
    }
}
