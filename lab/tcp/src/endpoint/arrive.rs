//! Segments in (RFC 9293 §3.10.7, with the checks of RFC 5961 and RFC 7323).

use super::{Endpoint, State};
use crate::config::STAMP_LEN;
use crate::event::Event;
use crate::recovery::Rack;
use crate::segment::{Placed, Segment};
use crate::sequence::{first, near, stamp_before};
use perhop_units::{Duration, Instant};
use perhop_wire::Ecn;
use perhop_wire::tcp::flags;

/// Segment size towards a peer that names none (RFC 9293 §3.7.1).
const DEFAULT_MSS: u16 = 536;
/// Smallest segment size believed: a smaller one would only burn packets.
const LEAST_MSS: u16 = 88;
/// Age at which a remembered time-stamp says nothing any more (RFC 7323 §5.5: 24 days).
const STAMP_LIFE: Duration = Duration::from_secs(24 * 86_400);
/// Challenge acknowledgments in a second (RFC 5961 §7).
const CHALLENGES: u8 = 10;

impl Endpoint {
    /// Takes a segment whose checksum is right and whose ports are ours. Returns where its payload belongs; whoever
    /// carries real bytes stores them there. The output must be drained before the next segment.
    ///
    /// # Panics
    /// In debug builds, if the output of the segment before was not drained.
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) -> Placed {
        debug_assert!(self.drained, "poll_output must return None before the next segment is handed in");
        self.drained = false;
        self.counters.segments_received += 1;
        match self.state {
            State::Closed => Placed::default(),
            State::Listen => {
                self.arrive_in_listen(now, segment);
                Placed::default()
            }
            State::SynSent => {
                self.arrive_in_syn_sent(now, segment);
                Placed::default()
            }
            _ => self.arrive(now, segment),
        }
    }

    /// §3.10.7.2
    fn arrive_in_listen(&mut self, now: Instant, segment: &Segment) {
        if segment.has(flags::RST) {
            return;
        }
        self.remote_port = segment.header.src_port;
        if segment.has(flags::ACK) {
            self.pending.reset = Some((segment.header.ack, None));
        } else if segment.has(flags::SYN) {
            self.take_syn(now, segment);
            self.state = State::SynReceived;
            self.pending.syn = true;
        }
    }

    /// §3.10.7.3
    fn arrive_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let ack = near(self.send.una, segment.header.ack);
        let acknowledged = segment.has(flags::ACK);
        if acknowledged && (ack <= self.send.iss || ack > self.send.max) {
            if !segment.has(flags::RST) {
                self.pending.reset = Some((segment.header.ack, None));
            }
            return;
        }
        if segment.has(flags::RST) {
            if acknowledged {
                self.finish(Some(Event::Reset));
            }
            return;
        }
        if !segment.has(flags::SYN) {
            return;
        }
        self.take_syn(now, segment);
        if acknowledged {
            self.send.update_window(self.receive.irs, ack, segment.header.window.into());
            self.establish(now, segment);
            self.pending.ack = true;
        } else {
            // Both open at once (§3.5, figure 8).
            self.state = State::SynReceived;
            self.pending.syn = true;
        }
    }

    /// Takes what the peer's SYN says.
    fn take_syn(&mut self, now: Instant, segment: &Segment) {
        let options = &segment.header.options;
        self.receive.start(first(segment.header.seq));
        let agreed = &mut self.agreed;
        agreed.sack = self.config.sack && options.sack_permitted;
        if self.config.timestamps
            && let Some((value, _)) = options.timestamps
        {
            agreed.timestamps = true;
            self.receive.stamp = value;
            self.receive.stamp_at = now;
        }
        match options.window_scale {
            Some(shift) if self.config.window_scaling => {
                agreed.scaling = true;
                agreed.peer_shift = shift.min(14);
            }
            _ => self.receive.shift = 0,
        }
        let marks = segment.header.flags & (flags::ECE | flags::CWR);
        let offered = if segment.has(flags::ACK) { flags::ECE } else { flags::ECE | flags::CWR };
        agreed.ecn = self.config.ecn && marks == offered && !(segment.has(flags::ACK) && self.syn_lost);
        let full = self.config.mss.min(options.mss.unwrap_or(DEFAULT_MSS).max(LEAST_MSS));
        agreed.mss = u64::from(full) - if agreed.timestamps { STAMP_LEN } else { 0 };
    }

    /// Our SYN is acknowledged and the peer's is known.
    fn establish(&mut self, now: Instant, segment: &Segment) {
        self.send.una = self.send.iss + 1;
        self.recovery.rack = (self.agreed.sack && self.config.rack).then(Rack::new);
        let echo = self.echo_age(now, segment);
        self.rtt.acked(self.send.una, now, echo);
        if self.state != State::FinWait1 {
            self.state = State::Established;
        }
        let segments = if self.syn_lost { 1 } else { u64::from(self.config.initial_window) };
        self.window.cwnd = segments * self.agreed.mss;
        if self.syn_lost {
            self.rtt.after_lost_syn();
        }
        self.retries = 0;
        self.timers.retransmit = Instant::FAR_FUTURE;
        self.pending.syn = false;
        self.events.add(Event::Established);
    }

    /// §3.10.7.4
    fn arrive(&mut self, now: Instant, segment: &Segment) -> Placed {
        let mut seq = near(self.receive.nxt, segment.header.seq);
        let mut span = segment.span();
        if self.send.una == self.send.iss && segment.has(flags::SYN) && seq == self.receive.irs {
            if !segment.has(flags::ACK) {
                self.pending.syn = true;
                return Placed::default();
            }
            // The answer to our SYN when both opened at once: its SYN is known already.
            (seq, span) = (seq + 1, span - 1);
        } else if !self.passes_checks(now, segment, seq, span) {
            return Placed::default();
        }
        if !segment.has(flags::ACK) {
            return Placed::default();
        }
        self.take_stamp(now, segment, seq);
        let ack = near(self.send.una, segment.header.ack);
        if self.send.una == self.send.iss {
            if ack != self.send.iss + 1 {
                self.pending.reset = Some((segment.header.ack, None));
                return Placed::default();
            }
            self.establish(now, segment);
        } else if ack > self.send.max || ack + self.send.max_window < self.send.una {
            // RFC 5961 §5.
            self.challenge(now);
            return Placed::default();
        }
        self.take_marks(segment);
        if ack >= self.send.una {
            self.acknowledge(now, segment, seq, ack);
            self.after_acknowledgment(now);
        }
        if span == 0 || !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            return Placed::default();
        }
        self.take_payload(now, segment, seq)
    }

    /// Time-stamp, window, RST and SYN checks: whether to go on with the segment.
    fn passes_checks(&mut self, now: Instant, segment: &Segment, seq: u64, span: u64) -> bool {
        let reset = segment.has(flags::RST);
        if self.agreed.timestamps && !reset {
            let fresh = segment.header.options.timestamps.map(|(value, _)| {
                !stamp_before(value, self.receive.stamp) || now.since(self.receive.stamp_at) > STAMP_LIFE
            });
            if fresh != Some(true) {
                self.counters.stamp_refused += 1;
                if fresh.is_some() {
                    self.answer_unacceptable(now, span);
                }
                return false;
            }
        }
        // With a closed window acknowledgments still count (§3.10.7.4).
        let at_closed_window = seq == self.receive.nxt && self.receive.edge <= self.receive.nxt;
        if !self.receive.accepts(seq, span) && !at_closed_window {
            self.counters.unacceptable += 1;
            if !reset {
                self.note_duplicate(segment, seq);
                self.answer_unacceptable(now, span);
                if self.state == State::TimeWait && segment.has(flags::FIN) {
                    self.timers.time_wait = now + self.config.time_wait;
                }
            }
            return false;
        }
        if reset {
            // RFC 5961 §3: only the exact number resets.
            if seq == self.receive.nxt {
                self.finish((self.state != State::TimeWait).then_some(Event::Reset));
            } else {
                self.challenge(now);
            }
            return false;
        }
        if segment.has(flags::SYN) {
            // RFC 5961 §4.
            self.challenge(now);
            return false;
        }
        true
    }

    /// TS.Recent (RFC 7323 §4.3).
    fn take_stamp(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if self.agreed.timestamps
            && let Some((value, _)) = segment.header.options.timestamps
            && seq <= self.receive.acked
            && !stamp_before(value, self.receive.stamp)
        {
            self.receive.stamp = value;
            self.receive.stamp_at = now;
        }
    }

    /// The receiver's part of ECN (RFC 3168 §6.1.3).
    fn take_marks(&mut self, segment: &Segment) {
        if segment.ecn == Ecn::Ce {
            self.counters.marks_received += 1;
        }
        if !self.agreed.ecn {
            return;
        }
        if segment.has(flags::CWR) {
            self.marks.echo = false;
        }
        if segment.ecn == Ecn::Ce && segment.payload_len > 0 {
            self.marks.echo = true;
        }
    }

    /// States that end with the acknowledgment of our FIN.
    fn after_acknowledgment(&mut self, now: Instant) {
        if !self.send.fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.finish(None),
            _ => {}
        }
    }

    /// What was there before is reported to a sender that finds loss by time.
    fn note_duplicate(&mut self, segment: &Segment, seq: u64) {
        if self.agreed.sack && self.config.rack && segment.payload_len > 0 {
            self.receive.note_duplicate(seq, segment.payload_len.into());
        }
    }

    /// Payload and FIN.
    fn take_payload(&mut self, now: Instant, segment: &Segment, seq: u64) -> Placed {
        self.note_duplicate(segment, seq);
        let fin = segment.has(flags::FIN);
        let receipt = self.receive.receive(seq, segment.payload_len.into(), fin);
        self.counters.bytes_received += u64::from(receipt.placed.len);
        if seq > self.receive.nxt {
            self.counters.out_of_order += 1;
            if segment.payload_len > 0 && receipt.placed.len == 0 {
                self.counters.ranges_full += 1;
            }
        }
        self.receive.unacked_segments = self.receive.unacked_segments.saturating_add(1);
        if receipt.urgent || self.receive.unacked_segments >= self.config.delayed_ack.segments {
            self.pending.ack = true;
        } else if self.timers.delayed_ack == Instant::FAR_FUTURE {
            self.timers.delayed_ack = now + self.config.delayed_ack.timeout;
        }
        if receipt.advanced {
            self.events.add(Event::Readable);
        }
        if receipt.finished {
            self.events.add(Event::Finished);
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                _ => self.enter_time_wait(now),
            }
        }
        receipt.placed
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.retransmit = Instant::FAR_FUTURE;
        self.timers.persist = Instant::FAR_FUTURE;
        self.timers.time_wait = now + self.config.time_wait;
    }

    /// An unacceptable segment is answered by an acknowledgment. Answers to segments without data are limited, so that
    /// two ends that refuse each other's acknowledgments fall silent.
    fn answer_unacceptable(&mut self, now: Instant, span: u64) {
        if span > 0 {
            self.pending.ack = true;
        } else {
            self.challenge(now);
        }
    }

    /// A challenge acknowledgment, limited in number (RFC 5961 §7).
    fn challenge(&mut self, now: Instant) {
        let (start, count) = &mut self.challenges;
        if now.since(*start) >= Duration::from_secs(1) {
            (*start, *count) = (now, 0);
        }
        if *count < CHALLENGES {
            *count += 1;
            self.counters.challenges += 1;
            self.pending.ack = true;
        } else {
            self.counters.challenges_withheld += 1;
        }
    }

    /// Age in ms of the time-stamp that the peer echoes.
    pub(super) fn echo_age(&self, now: Instant, segment: &Segment) -> Option<u32> {
        let (_, echo) = segment.header.options.timestamps.filter(|_| self.agreed.timestamps)?;
        Some(stamp(now).wrapping_sub(echo))
    }
}

/// Our time-stamp clock: ms.
pub(super) fn stamp(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
