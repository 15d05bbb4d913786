//! The reconciler as a part of an agent.

use super::{KINDS, LOOK, Notice, Reconciler};
use perhop_agent::{Look, Part, Readings};
use perhop_model::{ErrorItem, Kind, ObjectState, Op};
use perhop_units::{Duration, Instant};

impl<N: From<Notice>> Part<N> for Reconciler {
    fn kinds(&self) -> &[Kind] {
        &KINDS
    }

    fn is_forced(&self) -> bool {
        false
    }

    fn objects(&mut self, now: Instant, objects: &[ObjectState]) {
        self.see(objects);
        self.look = now + LOOK;
    }

    /// The counters say nothing to it: it looks because a reading tells the session whether the router has changed.
    fn readings(&mut self, _now: Instant, _readings: &Readings) {}

    fn gone(&mut self, _now: Instant) {
        self.lose(false);
    }

    fn restarted(&mut self, _now: Instant) {
        self.lose(true);
    }

    fn tick(&mut self, _now: Instant, _look: Look) {
        let now = (self.known.edition, self.known.seq);
        if self.is_converged() && self.told != Some(now) {
            self.told = Some(now);
            self.notices.push(Notice::Converged { edition: now.0, seq: now.1 });
        }
    }

    fn next_wakeup(&self, _look: Look) -> Option<Instant> {
        None
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.look)
    }

    fn looked(&mut self, now: Instant) {
        self.look = now + LOOK;
    }

    fn next_wish(&self) -> Option<Instant> {
        if self.found.is_none() || !self.asked.is_empty() || self.differing.is_empty() {
            return None;
        }
        let is_free = self.differing.iter().any(|key| !self.quarantine.has(key));
        let due = if is_free { Some(Instant(0)) } else { self.quarantine.next() };
        due.map(|due| self.pause.map_or(due, |pause| pause.max(due)))
    }

    fn owes(&self) -> bool {
        !self.is_converged()
    }

    fn wants(&mut self, now: Instant) -> Vec<Op> {
        self.next(now)
    }

    fn committed(&mut self, now: Instant) {
        self.pause = None;
        self.done(now);
    }

    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        self.failed(now, pause, errors);
    }

    fn notices(&mut self) -> Vec<N> {
        std::mem::take(&mut self.notices).into_iter().map(N::from).collect()
    }
}
