//! Keep-alive (RFC 2748 §3.9, §4.6): a PEP sends one at a random time between a quarter and three quarters of the timer, a
//! PDP answers it, and whoever hears nothing for longer than the timer takes the connection for lost.

use super::jitter::Jitter;
use perhop_units::{Duration, Instant};

/// Of one connection.
#[derive(Clone, Debug)]
pub(crate) struct KeepAlive {
    /// The least of all timers, s; 0 = none.
    seconds: u16,
    /// When the last message came.
    heard: Instant,
    /// At a PEP: when it sends the next.
    due: Option<Instant>,
}

impl KeepAlive {
    pub(crate) fn new(now: Instant) -> Self {
        Self { seconds: 0, heard: now, due: None }
    }

    fn timer(&self) -> Option<Duration> {
        (self.seconds > 0).then(|| Duration::from_secs(self.seconds.into()))
    }

    /// A client was accepted with this timer, s: the least of all counts, and 0 is infinite.
    pub(crate) fn limit(&mut self, seconds: u16) {
        if seconds > 0 && (self.seconds == 0 || seconds < self.seconds) {
            self.seconds = seconds;
        }
    }

    /// The PEP sends its next one from now on; one that is due sooner stays.
    pub(crate) fn arm(&mut self, now: Instant, jitter: &mut Jitter) {
        if let Some(timer) = self.timer() {
            let at = jitter.within(now, timer);
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// Whether one is due; the next is set.
    pub(crate) fn take_due(&mut self, now: Instant, jitter: &mut Jitter) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
            self.arm(now, jitter);
        }
        is_due
    }

    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When nothing has been heard for too long.
    pub(crate) fn lost_at(&self) -> Option<Instant> {
        self.timer().map(|timer| self.heard + timer + Duration(1))
    }

    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.lost_at()).min()
    }
}
