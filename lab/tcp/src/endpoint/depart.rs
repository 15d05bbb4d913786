//! Segments out, in this order: reset, SYN, what is lost, new data, what may be lost, window probe, acknowledgment.

use super::arrive::stamp;
use super::{Endpoint, State};
use crate::congestion::Congestion;
use crate::recovery::Phase;
use crate::segment::SegmentOut;
use perhop_units::{Duration, Instant};
use perhop_wire::Ecn;
use perhop_wire::tcp::{Repr, flags};
use perhop_wire::tcp_options::{self, SackBlocks};

/// Why no new data was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// There is none, or it waits for more or for the peer's window.
    Elsewhere,
    /// The congestion window is full.
    ByCongestion,
}

impl Endpoint {
    /// The next segment to send, after acting on timers that have expired. To be called until it returns `None`.
    pub fn poll_output(&mut self, now: Instant) -> Option<SegmentOut> {
        self.expire(now);
        let segment = self.next_segment(now);
        match &segment {
            Some(segment) => {
                self.counters.segments_sent += 1;
                self.counters.bytes_sent += u64::from(segment.payload_len);
                self.counters.retransmits += u64::from(segment.retransmission);
            }
            None => {
                self.drained = true;
                self.arm_persist(now);
            }
        }
        segment
    }

    fn next_segment(&mut self, now: Instant) -> Option<SegmentOut> {
        if let Some((seq, ack)) = self.pending.reset.take() {
            return Some(self.reset(seq, ack));
        }
        match self.state {
            State::Closed | State::Listen => return None,
            _ if self.pending.syn => return Some(self.syn(now)),
            State::SynSent => return None,
            // Not established yet: the peer's SYN may have to be acknowledged again.
            _ if self.send.una == self.send.iss => {
                return self.pending.ack.then(|| self.bare(now, self.send.max));
            }
            _ => {}
        }
        if let Some((start, end)) = self.lost() {
            return Some(self.again(now, start, end));
        }
        match self.new_data(now) {
            Ok(segment) => return Some(segment),
            Err(held) => {
                let full = self.window.in_slow_start() && self.window.cwnd < 2 * self.send.flight();
                self.limited = held == Held::ByCongestion || full;
            }
        }
        if let Some((start, end)) = self.unsure() {
            return Some(self.again(now, start, end));
        }
        if std::mem::take(&mut self.pending.probe) {
            self.counters.probes += 1;
            // An old number without data: unacceptable, so that the peer answers with its window.
            return Some(self.bare(now, self.send.una - 1));
        }
        if std::mem::take(&mut self.pending.tail)
            && let Some((start, end)) =
                self.recovery.rack.as_ref().and_then(|rack| rack.tail(self.payload_limit()))
        {
            self.recovery.probe = Some((end, true));
            return Some(self.again(now, start, end));
        }
        self.pending.ack.then(|| self.bare(now, self.send.max))
    }

    /// What is to be sent again without doubt.
    fn lost(&mut self) -> Option<(u64, u64)> {
        let (una, max, mss) = (self.send.una, self.send.max, self.payload_limit());
        if let Some(rack) = &self.recovery.rack {
            let gap = rack.next_lost(mss)?;
            let room = std::mem::take(&mut self.recovery.forced) || self.has_room(gap.1 - gap.0);
            return (room && (gap.0 == una || gap.0 < self.send.edge)).then_some(gap);
        }
        if std::mem::take(&mut self.recovery.forced) && una < max {
            let first = self.recovery.board.next_lost(una, max, mss);
            return Some(first.unwrap_or((una, max.min(una + mss))));
        }
        let repairing = matches!(self.recovery.phase, Phase::Sack | Phase::Loss);
        if !repairing || !self.has_room(mss) {
            return None;
        }
        let gap = self.recovery.board.next_lost(una, max, mss)?;
        // Not beyond a window that has shrunk, except for the first segment, which keeps the connection alive.
        (gap.0 == una || gap.0 < self.send.edge).then_some(gap)
    }

    /// NextSeg rules 3 and 4 of RFC 6675: what may be lost, when there is nothing better to send.
    fn unsure(&mut self) -> Option<(u64, u64)> {
        let mss = self.payload_limit();
        if self.recovery.phase != Phase::Sack || self.recovery.rack.is_some() || !self.has_room(mss) {
            return None;
        }
        let (una, max) = (self.send.una, self.send.max);
        let board = &mut self.recovery.board;
        board.next_unsure(una, max, mss).or_else(|| board.rescue(una, max, mss))
    }

    fn has_room(&self, len: u64) -> bool {
        self.recovery.pipe + len <= self.allowance()
    }

    /// The congestion window with what recovery and limited transmit add to it.
    fn allowance(&self) -> u64 {
        let extra = match self.recovery.phase {
            Phase::NewReno => self.recovery.inflation.0,
            // RFC 3042; with SACK the pipe is smaller instead.
            Phase::Open if self.config.limited_transmit && !self.agreed.sack => {
                u64::from(self.recovery.duplicates.min(2)) * self.agreed.mss
            }
            _ => 0,
        };
        self.window.cwnd + extra
    }

    /// New data and the FIN, if every window allows it (RFC 9293 §3.8.6.2.1 and §3.7.4).
    fn new_data(&mut self, now: Instant) -> Result<SegmentOut, Held> {
        let max = self.send.max;
        if max >= self.send.limit() {
            return Err(Held::Elsewhere);
        }
        let idle = self.send.flight() == 0;
        let room = self.send.edge.saturating_sub(max);
        let waiting = self.send.end - max;
        let full = self.payload_limit();
        let len = waiting.min(full).min(room);
        let fin = self.send.finished && len == waiting && room > len;
        if len == 0 && !fin {
            return Err(Held::Elsewhere);
        }
        let last = len == waiting;
        let worthwhile = len >= full
            || fin
            || (last && (idle || self.send.finished || !self.config.nagle))
            || 2 * len >= self.send.max_window
            || self.pending.probe;
        if !worthwhile {
            return Err(Held::Elsewhere);
        }
        if idle {
            self.control.resumed(now);
            self.restart_after_idle(now);
        } else if !self.pending.tail && !self.has_room(len.max(1)) {
            return Err(Held::ByCongestion);
        }
        self.pending.probe = false;
        if std::mem::take(&mut self.pending.tail) {
            self.recovery.probe = Some((max + len + u64::from(fin), false));
        }
        self.rtt.sent(max + len + u64::from(fin), now);
        let mut segment = self.data(now, max, max + len + u64::from(fin));
        if self.agreed.ecn && len > 0 {
            segment.ecn = Ecn::Ect0;
            if std::mem::take(&mut self.marks.announce) {
                segment.header.flags |= flags::CWR;
            }
        }
        self.send.max += len + u64::from(fin);
        Ok(segment)
    }

    /// RFC 5681 §4.1
    fn restart_after_idle(&mut self, now: Instant) {
        if self.config.restart_after_idle && now.since(self.last_sent) > self.rtt.timeout() {
            let initial = u64::from(self.config.initial_window) * self.agreed.mss;
            self.window.cwnd = self.window.cwnd.min(initial);
        }
    }

    /// Sends `[start, end)` again.
    fn again(&mut self, now: Instant, start: u64, end: u64) -> SegmentOut {
        self.rtt.retransmitted();
        self.recovery.board.retransmitted(end);
        if let Some(undo) = &mut self.recovery.undo {
            undo.retransmitted(now);
        }
        if start == self.send.una {
            self.timers.retransmit = now + self.rtt.timeout();
        }
        let mut segment = self.data(now, start, end);
        segment.retransmission = true;
        segment
    }

    /// A segment with the numbers `[start, end)`.
    fn data(&mut self, now: Instant, start: u64, end: u64) -> SegmentOut {
        let payload_end = end.min(self.send.end);
        let payload_len = payload_end.saturating_sub(start);
        let mut bits = flags::ACK;
        if payload_len > 0 && payload_end == self.send.end {
            bits |= flags::PSH;
        }
        if self.send.finished && end > self.send.end {
            bits |= flags::FIN;
        }
        self.last_sent = now;
        self.timers.persist = Instant::FAR_FUTURE;
        if self.timers.retransmit == Instant::FAR_FUTURE {
            self.timers.retransmit = now + self.rtt.timeout();
        }
        if let Some(rack) = &mut self.recovery.rack {
            rack.sent(now, start, end);
            self.recovery.pipe = rack.pipe();
            self.arm_tail_probe(now);
        } else if self.recovery.phase != Phase::NewReno || start >= self.send.max {
            self.recovery.pipe += end - start;
        }
        self.recovery.prr.sent(end - start);
        SegmentOut {
            header: self.header(now, start, bits),
            payload_offset: self.send.offset(start),
            payload_len: payload_len as u32,
            ecn: Ecn::NotEct,
            retransmission: false,
        }
    }

    /// A segment without payload.
    fn bare(&mut self, now: Instant, seq: u64) -> SegmentOut {
        SegmentOut {
            header: self.header(now, seq, flags::ACK),
            payload_offset: self.send.offset(seq),
            payload_len: 0,
            ecn: Ecn::NotEct,
            retransmission: false,
        }
    }

    /// The header of a segment of an established connection; whatever it is, it acknowledges.
    fn header(&mut self, now: Instant, seq: u64, mut bits: u8) -> Repr {
        self.pending.ack = false;
        self.timers.delayed_ack = Instant::FAR_FUTURE;
        self.receive.unacked_segments = 0;
        self.receive.acked = self.receive.nxt;
        if self.marks.echo {
            bits |= flags::ECE;
        }
        let sack = self.sack_blocks();
        self.receive.reported();
        Repr {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq: seq as u32,
            ack: self.receive.nxt as u32,
            flags: bits,
            window: self.receive.window_field(self.agreed.mss, false),
            urgent: 0,
            options: tcp_options::Repr {
                timestamps: self.agreed.timestamps.then(|| (stamp(now), self.receive.stamp)),
                sack,
                ..tcp_options::Repr::default()
            },
        }
    }

    /// SYN or SYN-ACK. The window of a SYN is not scaled (RFC 7323 §2.2).
    fn syn(&mut self, now: Instant) -> SegmentOut {
        self.pending.syn = false;
        self.pending.ack = false;
        let again = self.send.max > self.send.iss;
        self.send.max = self.send.iss + 1;
        let answer = self.state != State::SynSent;
        let end = self.send.max;
        if again {
            self.rtt.retransmitted()
        } else {
            self.rtt.sent(end, now)
        }
        self.timers.retransmit = now + self.rtt.timeout();
        let offer = |ours: bool, agreed: bool| if answer { agreed } else { ours };
        let mut bits = flags::SYN;
        if answer {
            bits |= flags::ACK;
        }
        if self.config.ecn && !answer && !self.syn_lost {
            bits |= flags::ECE | flags::CWR;
        } else if answer && self.agreed.ecn {
            bits |= flags::ECE;
        }
        let scaling = offer(self.config.window_scaling, self.agreed.scaling);
        let stamps = offer(self.config.timestamps, self.agreed.timestamps);
        let header = Repr {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq: self.send.iss as u32,
            ack: if answer { self.receive.nxt as u32 } else { 0 },
            flags: bits,
            window: self.receive.window_field(self.agreed.mss, true),
            urgent: 0,
            options: tcp_options::Repr {
                mss: Some(self.config.mss),
                window_scale: scaling.then_some(self.receive.shift),
                sack_permitted: offer(self.config.sack, self.agreed.sack),
                timestamps: stamps.then(|| (stamp(now), self.receive.stamp)),
                sack: SackBlocks::NONE,
            },
        };
        SegmentOut { header, payload_offset: 0, payload_len: 0, ecn: Ecn::NotEct, retransmission: again }
    }

    fn reset(&self, seq: u32, ack: Option<u32>) -> SegmentOut {
        let header = Repr {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq,
            ack: ack.unwrap_or(0),
            flags: flags::RST | if ack.is_some() { flags::ACK } else { 0 },
            ..Repr::default()
        };
        SegmentOut { header, payload_offset: 0, payload_len: 0, ecn: Ecn::NotEct, retransmission: false }
    }

    /// Payload of a full segment that also carries the SACK blocks due (RFC 6691: options count).
    fn payload_limit(&self) -> u64 {
        let mss = self.agreed.mss;
        if !self.agreed.sack || !self.receive.holds_ranges() {
            return mss;
        }
        // Two of padding, two of kind and length, eight for each block.
        mss - (4 + 8 * self.sack_blocks().as_slice().len() as u64)
    }

    /// The blocks that fit beside the other options: three beside time-stamps, else four (RFC 2018 §3).
    fn sack_blocks(&self) -> SackBlocks {
        match (self.agreed.sack, self.agreed.timestamps) {
            (false, _) => SackBlocks::NONE,
            (true, true) => self.receive.blocks(3),
            (true, false) => self.receive.blocks(4),
        }
    }

    /// Keeps a timer running while data waits for the peer's window (RFC 9293 §3.8.6.1).
    fn arm_persist(&mut self, now: Instant) {
        let waiting = self.is_synchronized() && self.send.max < self.send.limit() && self.send.flight() == 0;
        if !waiting {
            self.timers.persist = Instant::FAR_FUTURE;
        } else if self.timers.persist == Instant::FAR_FUTURE {
            let backed_off = self.rtt.timeout().saturating_mul(1 << self.probes.min(30));
            let most: Duration = self.config.rto.max;
            self.timers.persist = now + backed_off.min(most);
        }
    }
}
