//! Loss by time, tail loss probes (RFC 8985), and reductions that are taken back (RFC 4015).

use super::Endpoint;
use crate::recovery::{Phase, Undo};
use crate::segment::Segment;
use perhop_units::{Duration, Instant};

/// What a peer may wait with an acknowledgment of a single segment (RFC 8985 §7.2: TLP.max_ack_delay).
const ACK_DELAY: Duration = Duration::from_millis(200);
/// When a probe follows while no round-trip time is known (§7.2).
const UNKNOWN: Duration = Duration::from_secs(1);

impl Endpoint {
    /// When what caused an acknowledgment was sent, by the time-stamp echoed.
    pub(super) fn echoed(&self, now: Instant, segment: &Segment) -> Option<Instant> {
        let age = self.echo_age(now, segment).filter(|age| *age < 1 << 31)?;
        Some(Instant((now.as_nanos() / 1_000_000).saturating_sub(age.into()) * 1_000_000))
    }

    /// Finds what is lost by now, and notes when to look again.
    pub(super) fn detect(&mut self, now: Instant) {
        let recovering = self.recovery.phase != Phase::Open;
        if let Some(rack) = &mut self.recovery.rack {
            let again = rack.detect(now, self.rtt.smoothed(), recovering);
            self.timers.reorder = again.unwrap_or(Instant::FAR_FUTURE);
        }
    }

    /// Time has passed: what did not arrive by now is lost.
    pub(super) fn look_for_loss(&mut self, now: Instant) {
        self.detect(now);
        if self.recovery.phase == Phase::Open
            && self.recovery.rack.as_ref().is_some_and(|rack| rack.has_lost())
        {
            self.enter_recovery();
            if self.config.prr {
                let (pipe, mss) = (self.pipe(), self.agreed.mss);
                self.window.cwnd = pipe + self.recovery.prr.acked(0, pipe, self.window.ssthresh, mss);
            }
        }
        self.recovery.pipe = self.pipe();
    }

    /// Remembers how it is before a reduction.
    pub(super) fn remember(&mut self) {
        if self.recovery.rack.is_some() {
            self.recovery.undo = Some(Box::new(Undo::new(self.window, self.control.clone())));
        }
    }

    /// The last reduction was for nothing.
    pub(super) fn take_back(&mut self) {
        let Some(undo) = self.recovery.undo.take() else { return };
        self.counters.undone += 1;
        self.window.cwnd = self.window.cwnd.max(undo.window.cwnd);
        self.window.ssthresh = undo.window.ssthresh;
        self.control = undo.control;
        if self.recovery.phase != Phase::Open {
            self.recovery.finish(self.send.una);
        }
        if let Some(rack) = &mut self.recovery.rack {
            rack.forgive();
        }
    }

    /// §7.2: a probe follows the last segment after two round trips, unless loss is being repaired or told.
    pub(super) fn arm_tail_probe(&mut self, now: Instant) {
        let recovery = &self.recovery;
        let Some(rack) = &recovery.rack else { return };
        let quiet = recovery.phase == Phase::Open && !rack.has_sacked() && recovery.probe.is_none();
        self.timers.tail = Instant::FAR_FUTURE;
        if !quiet || rack.pipe() == 0 {
            return;
        }
        let single = if rack.pipe() <= self.agreed.mss { ACK_DELAY } else { Duration::ZERO };
        let wait = self.rtt.smoothed().map_or(UNKNOWN, |smoothed| smoothed.saturating_mul(2) + single);
        self.timers.tail = (now + wait).min(self.timers.retransmit);
    }

    /// §7.3: a new segment, or the last one again.
    pub(super) fn probe_tail(&mut self, now: Instant) {
        if self.send.flight() > 0 && self.recovery.phase == Phase::Open {
            self.counters.tail_probes += 1;
            self.pending.tail = true;
            self.timers.retransmit = now + self.rtt.timeout();
        }
    }

    /// §7.4: a probe that was sent before has repaired a loss, unless a report of it as a duplicate (`told`) or an acknowledgment that
    /// `repeated` its number without one says that it was for nothing.
    pub(super) fn answer_tail_probe(&mut self, ack: u64, told: bool, repeated: bool) {
        let Some((end, again)) = self.recovery.probe.filter(|(end, _)| ack >= *end) else { return };
        if !again || told || repeated && ack == end {
            self.recovery.probe = None;
        } else if ack > end {
            self.recovery.probe = None;
            if self.recovery.phase == Phase::Open {
                self.reduce();
                self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
            }
        }
    }
}
