//! What an acknowledgment does to the sender: RFC 9293 §3.10.7.4 (fifth step), RFC 5681, 6582, 6675, 6937, 3168.

use super::Endpoint;
use crate::congestion::{Acked, Congestion, Reduction};
use crate::event::Event;
use crate::recovery::{Arrival, DUP_THRESHOLD, Inflation, Phase, Prr, deflated};
use crate::segment::Segment;
use crate::sequence::near;
use perhop_units::{Duration, Instant};
use perhop_wire::tcp::flags;

/// What the steps need to know about one acknowledgment.
#[derive(Clone, Copy)]
struct News {
    now: Instant,
    /// Numbers newly acknowledged in order.
    acked: u64,
    /// Bytes among them.
    bytes: u64,
    /// Bytes newly known to have arrived, in order or not.
    delivered: u64,
    duplicate: bool,
    marked: bool,
    /// The peer reports a duplicate (RFC 2883).
    duplicate_told: bool,
    sample: Option<Duration>,
}

/// Whether the first block of an acknowledgment up to `ack` reports a duplicate (RFC 2883 §4): it lies below, or in the second.
fn is_report(ack: u64, blocks: &[(u32, u32)]) -> bool {
    let Some((left, right)) = blocks.first().map(|(left, right)| (near(ack, *left), near(ack, *right)))
    else {
        return false;
    };
    let around = blocks.get(1).map(|(left, right)| (near(ack, *left), near(ack, *right)));
    left < right && (right <= ack || around.is_some_and(|(from, until)| from <= left && right <= until))
}

impl Endpoint {
    /// An acknowledgment up to `ack`, which lies between SND.UNA and SND.NXT.
    pub(super) fn acknowledge(&mut self, now: Instant, segment: &Segment, seq: u64, ack: u64) {
        let outstanding = self.send.flight() > 0;
        let acked = ack - self.send.una;
        let mut delivered = acked;
        let arrival = Arrival { now, echo: self.echoed(now, segment) };
        let (mut sample, mut bytes) = (None, 0);
        if acked > 0 {
            let before = self.acked_offset();
            self.send.una = ack;
            bytes = self.acked_offset() - before;
            self.counters.bytes_acked += bytes;
            delivered -= self.recovery.board.advance(ack);
            if let Some(rack) = &mut self.recovery.rack {
                rack.advance(&arrival, ack);
            }
            self.retries = 0;
            let echo = self.echo_age(now, segment);
            let shown = echo.filter(|age| *age < 1 << 31).map(|age| Duration::from_millis(age.into()));
            sample = self.rtt.acked(ack, now, echo).or(shown);
        }
        let blocks = segment.header.options.sack.as_slice();
        let mut sacked = 0;
        if self.agreed.sack && !blocks.is_empty() {
            sacked = self.recovery.board.update(ack, self.send.max, blocks);
            delivered += sacked;
        }
        let mut spurious = acked > 0
            && self.recovery.phase != Phase::Open
            && arrival
                .echo
                .is_some_and(|echo| self.recovery.undo.as_ref().is_some_and(|undo| undo.is_older(echo)));
        let duplicate_told = self.recovery.rack.is_some() && is_report(ack, blocks);
        let probe_told = duplicate_told
            && self.recovery.probe.is_some_and(|(end, again)| again && near(end, blocks[0].1) == end);
        if let Some(rack) = &mut self.recovery.rack {
            if sacked > 0 {
                rack.arrived(&arrival, self.recovery.board.news(), self.send.end);
            }
            // What a probe repeated tells nothing of how far the path reorders, as kernels have it.
            if duplicate_told && !probe_told {
                rack.duplicate(ack, self.send.max);
            }
            if duplicate_told {
                spurious |= self.recovery.undo.as_mut().is_some_and(|undo| undo.duplicate());
            }
        } else if !self.recovery.board.is_clear() {
            self.recovery.board.judge(self.agreed.mss);
        }
        let window = u64::from(segment.header.window) << self.agreed.peer_shift;
        let moved = self.send.update_window(seq, ack, window);
        // Whoever answers is alive, even with a closed window (RFC 9293 §3.8.6.1).
        self.unanswered = 0;
        if window == 0 {
            self.retries = 0;
        } else {
            self.probes = 0;
        }
        let duplicate = acked == 0
            && outstanding
            && if self.agreed.sack { sacked > 0 } else { segment.span() == 0 && !moved };
        let marked = self.agreed.ecn && segment.has(flags::ECE);
        if spurious {
            self.take_back();
        } else if self.recovery.undo.as_ref().is_some_and(|undo| undo.until <= ack) {
            self.recovery.undo = None;
        }
        let repeated = acked == 0 && segment.span() == 0 && blocks.is_empty() && !moved;
        self.answer_tail_probe(ack, probe_told, repeated);
        self.react(&News { now, acked, bytes, delivered, duplicate, marked, duplicate_told, sample });
        if self.wants_room && self.send.room() >= self.agreed.mss.min(u64::from(self.config.send_buffer)) {
            self.wants_room = false;
            self.events.add(Event::Writable);
        }
    }

    fn react(&mut self, news: &News) {
        if news.duplicate {
            self.counters.duplicate_acks += 1;
            self.recovery.duplicates += 1;
        } else if news.acked > 0 {
            self.recovery.duplicates = 0;
        }
        let mut restart = news.acked > 0;
        if self.recovery.phase != Phase::Open && self.send.una >= self.recovery.point {
            self.leave_recovery(news);
        } else {
            match self.recovery.phase {
                Phase::Open => self.grow(news),
                Phase::NewReno => restart &= self.repair_newreno(news),
                Phase::Sack => {}
                Phase::Loss => self.grow(news),
            }
        }
        self.detect(news.now);
        if self.recovery.phase == Phase::Open && self.must_recover() {
            self.enter_recovery();
        }
        self.recovery.pipe = self.pipe();
        if self.recovery.phase == Phase::Sack && self.config.prr && news.delivered > 0 {
            let (pipe, mss) = (self.recovery.pipe, self.agreed.mss);
            let may_send = self.recovery.prr.acked(news.delivered, pipe, self.window.ssthresh, mss);
            self.window.cwnd = pipe + may_send;
        }
        if self.send.flight() == 0 {
            self.timers.retransmit = Instant::FAR_FUTURE;
        } else if restart {
            self.timers.retransmit = news.now + self.rtt.timeout();
        }
        if news.acked > 0 {
            self.arm_tail_probe(news.now);
        }
    }

    /// Lets the window grow, or reduces it for a congestion mark.
    fn grow(&mut self, news: &News) {
        if news.marked && self.recovery.phase == Phase::Open {
            if self.send.una > self.marks.reduced_at {
                self.reduce();
                self.window.cwnd = self.window.ssthresh;
                self.counters.ecn_reductions += 1;
            }
            return;
        }
        if news.bytes == 0 {
            return;
        }
        let after_timeout = self.recovery.phase == Phase::Loss;
        let ack = Acked {
            now: news.now,
            bytes: news.bytes,
            mss: self.agreed.mss,
            acked: self.send.una,
            sent: self.send.max,
            sample: news.sample,
            limited: self.limited || after_timeout,
            after_timeout,
        };
        self.control.acked(&mut self.window, &ack);
    }

    /// RFC 6582 §3.2 step 3 and RFC 5681 §3.2 step 4; whether the timer restarts.
    fn repair_newreno(&mut self, news: &News) -> bool {
        let mss = self.agreed.mss;
        if news.acked > 0 {
            self.recovery.inflation.partial(news.acked, mss);
            self.recovery.forced = true;
            !std::mem::replace(&mut self.recovery.partial, true)
        } else {
            if news.duplicate {
                self.recovery.inflation.duplicate(mss);
            }
            false
        }
    }

    fn leave_recovery(&mut self, news: &News) {
        let mss = self.agreed.mss;
        match self.recovery.phase {
            Phase::NewReno => {
                self.window.cwnd = deflated(self.window.ssthresh, self.send.flight(), mss);
            }
            Phase::Sack => self.window.cwnd = self.window.ssthresh,
            Phase::Loss => self.grow(news),
            Phase::Open => {}
        }
        self.recovery.finish(self.send.una);
        if let Some(rack) = &mut self.recovery.rack {
            if let Some(undo) = &mut self.recovery.undo {
                undo.until = self.send.max;
            }
            return rack.recovered(news.duplicate_told);
        }
        if !self.recovery.board.is_clear() {
            self.recovery.board.judge(mss);
        }
    }

    /// RFC 6582 §3.2 step 2; RFC 6675 §5.
    fn must_recover(&self) -> bool {
        let recovery = &self.recovery;
        if self.send.flight() == 0 {
            return false;
        }
        if let Some(rack) = &recovery.rack {
            rack.has_lost()
        } else if self.agreed.sack {
            recovery.duplicates >= DUP_THRESHOLD || recovery.board.is_lost(self.send.una)
        } else {
            recovery.duplicates >= DUP_THRESHOLD && self.send.una > recovery.point
        }
    }

    pub(super) fn enter_recovery(&mut self) {
        let flight = self.send.flight();
        self.remember();
        self.reduce();
        self.counters.fast_retransmits += 1;
        self.recovery.point = self.send.max;
        self.recovery.forced = true;
        self.recovery.partial = false;
        if self.agreed.sack {
            self.recovery.phase = Phase::Sack;
            self.recovery.board.enter(self.send.una);
            self.recovery.prr = Prr::enter(flight);
            if !self.config.prr {
                self.window.cwnd = self.window.ssthresh;
            }
        } else {
            self.recovery.phase = Phase::NewReno;
            self.window.cwnd = self.window.ssthresh;
            self.recovery.inflation = Inflation::enter(self.agreed.mss);
        }
    }

    /// Sets the threshold, once for what is in flight now, and remembers to say so (RFC 3168 §6.1.2).
    pub(super) fn reduce(&mut self) {
        let reduction = self.reduction();
        self.control.reduce(&mut self.window, &reduction);
        self.marks.announce = self.agreed.ecn;
        self.marks.reduced_at = self.send.max;
    }

    /// What is in flight by the window's leave: bytes sent by limited transmit exceed it (RFC 5681 §3.2).
    pub(super) fn reduction(&self) -> Reduction {
        Reduction { flight: self.send.flight().min(self.window.cwnd), mss: self.agreed.mss }
    }

    /// Bytes believed to be in the network.
    pub(super) fn pipe(&self) -> u64 {
        if let Some(rack) = &self.recovery.rack {
            return rack.pipe();
        }
        let board = &self.recovery.board;
        let by_board = match self.recovery.phase {
            Phase::NewReno => false,
            Phase::Open => self.config.limited_transmit,
            Phase::Sack | Phase::Loss => true,
        };
        if by_board && !board.is_clear() {
            board.pipe(self.send.una, self.send.max)
        } else {
            self.send.flight()
        }
    }
}
