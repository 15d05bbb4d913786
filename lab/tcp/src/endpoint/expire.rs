//! Timers (RFC 6298 §5, RFC 9293 §3.8.6.1 and §3.6.1).

use super::{Endpoint, State};
use crate::congestion::Congestion;
use crate::event::Event;
use crate::recovery::{Inflation, Phase};
use crate::timers::expired;
use perhop_units::Instant;

impl Endpoint {
    /// Acts on every deadline that has come.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.timers.next().is_none_or(|next| now < next) {
            return;
        }
        if expired(&mut self.timers.delayed_ack, now) {
            self.pending.ack = true;
        }
        if expired(&mut self.timers.time_wait, now) {
            self.finish(None);
        }
        if expired(&mut self.timers.persist, now) {
            self.probe_window();
        }
        if expired(&mut self.timers.reorder, now) {
            self.look_for_loss(now);
        }
        if expired(&mut self.timers.tail, now) {
            self.probe_tail(now);
        }
        if expired(&mut self.timers.retransmit, now) {
            if self.send.una == self.send.iss { self.repeat_syn() } else { self.time_out(now) }
        }
    }

    /// The SYN or SYN-ACK was not answered.
    fn repeat_syn(&mut self) {
        if self.retries >= self.config.syn_retries {
            self.finish(Some(Event::TimedOut));
            return;
        }
        self.retries += 1;
        self.syn_lost = true;
        self.counters.timeouts += 1;
        self.rtt.back_off();
        self.rtt.retransmitted();
        self.pending.syn = true;
    }

    /// Everything in flight counts as lost; one segment is sent and the timeout doubles (RFC 6298 §5.4–5.7).
    fn time_out(&mut self, now: Instant) {
        if self.send.flight() == 0 {
            return;
        }
        if self.retries >= self.config.data_retries {
            self.finish(Some(Event::TimedOut));
            return;
        }
        self.retries += 1;
        self.counters.timeouts += 1;
        // A segment that the timer had sent again already does not reduce the threshold once more (RFC 5681 §3.1).
        if self.retries == 1 {
            if self.recovery.phase == Phase::Open {
                self.remember();
            }
            let before = self.window.ssthresh;
            let mut reduction = self.reduction();
            if matches!(self.recovery.phase, Phase::NewReno | Phase::Sack) {
                reduction.flight = self.send.flight();
            }
            self.control.timed_out(&mut self.window, &reduction);
            if self.recovery.phase != Phase::Open {
                self.window.ssthresh = self.window.ssthresh.min(before);
            }
        }
        self.window.cwnd = self.agreed.mss;
        let recovery = &mut self.recovery;
        recovery.phase = Phase::Loss;
        recovery.point = self.send.max;
        recovery.duplicates = 0;
        recovery.forced = true;
        recovery.inflation = Inflation::default();
        let distrust = self.retries > 1;
        recovery.board.timed_out(self.send.una, self.send.max, distrust);
        if let Some(rack) = &mut recovery.rack {
            rack.timed_out(now, self.rtt.smoothed(), distrust);
            recovery.probe = None;
            (self.timers.reorder, self.timers.tail) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        }
        self.recovery.pipe = self.pipe();
        self.marks.announce = self.agreed.ecn;
        self.marks.reduced_at = self.send.max;
        self.rtt.back_off();
        self.rtt.retransmitted();
    }

    /// The window stayed closed, or too small to be worth a segment.
    fn probe_window(&mut self) {
        if self.unanswered >= self.config.data_retries {
            self.finish(Some(Event::TimedOut));
            return;
        }
        if !matches!(self.state, State::Closed | State::TimeWait) {
            self.probes = self.probes.saturating_add(1);
            self.unanswered += 1;
            self.pending.probe = true;
        }
    }
}
