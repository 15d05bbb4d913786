//! The receive sequence space (RFC 9293 §3.3.1): reassembly, the window offered, acknowledgments due, SACK blocks.
//!
//! ```text
//!        read       readable        holes and ranges         edge
//!   -----------|---------------|------------------------------|
//!            read             nxt                       highest number offered
//! ```
//! The window never shrinks: a number once offered is accepted. The silly window is avoided as RFC 9293 §3.8.6.2.2
//! says: the edge moves by half the buffer or a segment at least.

use crate::ranges::Ranges;
use crate::segment::Placed;
use perhop_units::Instant;
use perhop_wire::tcp_options::SackBlocks;

/// State of the receiving direction. Numbers are unwrapped (see `sequence`).
#[derive(Debug)]
pub(crate) struct ReceiveSpace {
    /// Number of the peer's SYN.
    pub(crate) irs: u64,
    /// RCV.NXT.
    pub(crate) nxt: u64,
    /// Number of the next byte the application reads.
    read: u64,
    /// Right edge of the window offered.
    pub(crate) edge: u64,
    capacity: u64,
    /// Our window shift, applied to everything but SYNs.
    pub(crate) shift: u8,
    /// Number of the peer's FIN, once it is known.
    fin: Option<u64>,
    held: Ranges,
    /// Where the last segments beyond the gap were put, latest first (RFC 2018 §4).
    recent: [u64; 4],
    /// A duplicate that is to be reported (RFC 2883).
    duplicate: Option<(u64, u64)>,
    /// TS.Recent and when it was taken (RFC 7323 §4.3).
    pub(crate) stamp: u32,
    pub(crate) stamp_at: Instant,
    /// Last.ACK.sent.
    pub(crate) acked: u64,
    /// Segments received since the last acknowledgment.
    pub(crate) unacked_segments: u8,
}

/// What a segment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Where its payload went.
    pub(crate) placed: Placed,
    /// It, or others that it joined, became readable.
    pub(crate) advanced: bool,
    /// The peer's FIN was reached.
    pub(crate) finished: bool,
    /// It must be acknowledged at once: out of order, into a hole, or not acceptable (RFC 5681 §4.2).
    pub(crate) urgent: bool,
}

impl ReceiveSpace {
    pub(crate) fn new(capacity: u32, shift: u8, ranges: u16) -> Self {
        Self {
            irs: 0,
            nxt: 0,
            read: 0,
            edge: 0,
            capacity: capacity.into(),
            shift,
            fin: None,
            held: Ranges::new(ranges),
            recent: [0; 4],
            duplicate: None,
            stamp: 0,
            stamp_at: Instant::ZERO,
            acked: 0,
            unacked_segments: 0,
        }
    }

    /// The peer's SYN has number `irs`.
    pub(crate) fn start(&mut self, irs: u64) {
        self.irs = irs;
        self.nxt = irs + 1;
        self.read = irs + 1;
        self.edge = irs + 1;
        self.acked = irs + 1;
    }

    /// Bytes that may be read.
    pub(crate) fn readable(&self) -> u64 {
        self.fin.map_or(self.nxt, |fin| self.nxt.min(fin)) - self.read
    }

    /// Reads up to `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> u64 {
        let taken = count.min(self.readable());
        self.read += taken;
        taken
    }

    /// Place in the stream of the next byte to read.
    pub(crate) fn read_offset(&self) -> u64 {
        self.read - (self.irs + 1).min(self.read)
    }

    /// Whether a segment of `span` numbers from `seq` on overlaps the window (RFC 9293 §3.4). One without any may lie
    /// at the right edge: a sender who has filled the window acknowledges from there.
    pub(crate) fn accepts(&self, seq: u64, span: u64) -> bool {
        if span == 0 {
            (self.nxt..=self.edge.max(self.nxt)).contains(&seq)
        } else {
            seq < self.edge && seq + span > self.nxt
        }
    }

    /// Takes `len` bytes from number `seq` on, and a FIN behind them.
    pub(crate) fn receive(&mut self, seq: u64, len: u64, fin: bool) -> Receipt {
        let limit = self.edge.min(self.fin.unwrap_or(u64::MAX));
        let start = seq.max(self.nxt);
        let end = (seq + len).min(limit);
        let in_order = seq <= self.nxt;
        let filled = !self.held.is_empty();
        let mut kept = true;
        if start < end {
            if in_order {
                self.nxt = end;
            } else {
                kept = self.held.insert(start, end).is_some();
                if kept {
                    self.remember(start);
                }
            }
        }
        let fin_at = seq + len;
        if fin && kept && self.fin.is_none() && fin_at <= self.edge && fin_at >= self.nxt {
            self.fin = Some(fin_at);
        }
        let advanced = in_order && start < end;
        if advanced && let Some((_, end)) = self.held.containing(self.nxt) {
            self.nxt = end;
        }
        if advanced {
            self.held.remove_below(self.nxt);
        }
        let finished = self.fin == Some(self.nxt);
        if finished {
            self.nxt += 1;
        }
        let placed = if kept && start < end {
            let offset = start - (self.irs + 1);
            Placed { offset, skip: (start - seq) as u32, len: (end - start) as u32 }
        } else {
            Placed::default()
        };
        Receipt { placed, advanced, finished, urgent: !advanced || filled || finished }
    }

    /// `len` bytes from `seq` on came: remembers what of them was there before, to report it.
    pub(crate) fn note_duplicate(&mut self, seq: u64, len: u64) {
        let end = seq + len;
        if seq < self.nxt {
            self.duplicate = Some((seq, end.min(self.nxt)));
        } else if let Some(range) = self.held.containing(seq) {
            self.duplicate = Some((seq, end.min(range.1)));
        }
    }

    /// The report was sent.
    pub(crate) fn reported(&mut self) {
        self.duplicate = None;
    }

    fn remember(&mut self, at: u64) {
        self.recent.rotate_right(1);
        self.recent[0] = at;
    }

    /// Whether something waits behind a gap.
    pub(crate) fn holds_ranges(&self) -> bool {
        !self.held.is_empty() || self.duplicate.is_some()
    }

    /// A duplicate to report, then the ranges held, the latest first (RFC 2018 §4), at most `most` and four.
    pub(crate) fn blocks(&self, most: usize) -> SackBlocks {
        let mut blocks = [(0, 0); 4];
        let mut count = 0;
        if !self.holds_ranges() {
            return SackBlocks::NONE;
        }
        let report = usize::from(self.duplicate.is_some());
        let mut add = |range: (u64, u64)| {
            let block = (range.0 as u32, range.1 as u32);
            if count < most.min(blocks.len()) && !blocks[report.min(count)..count].contains(&block) {
                blocks[count] = block;
                count += 1;
            }
        };
        self.duplicate.into_iter().for_each(&mut add);
        self.recent.iter().filter_map(|at| self.held.containing(*at)).for_each(&mut add);
        self.held.as_slice().iter().take(4).copied().for_each(&mut add);
        SackBlocks::new(&blocks[..count])
    }

    /// Edge that the buffer would allow.
    fn offer(&self) -> u64 {
        (self.read + self.capacity).max(self.edge)
    }

    /// The window field of a segment that leaves now, with the edge it offers. `syn`: the field is not scaled.
    pub(crate) fn window_field(&mut self, mss: u64, syn: bool) -> u16 {
        let offer = self.offer();
        let worthwhile = offer - self.edge >= mss.min(self.capacity / 2);
        let window = if worthwhile { offer } else { self.edge }.saturating_sub(self.nxt);
        let shift = if syn { 0 } else { self.shift };
        let field = (window >> shift).min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.nxt + (field << shift));
        field as u16
    }

    /// Whether reading has opened the window so far that the peer should know (RFC 9293 §3.8.6.2.2): by two segments
    /// or half the buffer, and to twice what it knows.
    pub(crate) fn wants_update(&self, mss: u64) -> bool {
        let offer = self.offer();
        offer - self.edge >= (2 * mss).min(self.capacity / 2)
            && offer.saturating_sub(self.nxt) >= 2 * self.edge.saturating_sub(self.nxt)
    }
}

/// The least shift with which a window of `capacity` bytes fits the field (RFC 7323 §2.3: at most 14).
pub(crate) fn shift_for(capacity: u32) -> u8 {
    (0..14).find(|shift| capacity >> shift <= u32::from(u16::MAX)).unwrap_or(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NXT: u64 = (1 << 32) + 1;

    fn space(capacity: u32) -> ReceiveSpace {
        let mut receive = ReceiveSpace::new(capacity, shift_for(capacity), 8);
        receive.start(NXT - 1);
        receive.window_field(100, false);
        receive
    }

    #[test]
    fn shifts_are_the_least_that_fit() {
        assert_eq!((shift_for(65_535), shift_for(65_536), shift_for(1 << 30)), (0, 1, 14));
    }

    #[test]
    fn data_out_of_order_waits_and_is_told_latest_first() {
        let mut receive = space(10_000);
        let out = receive.receive(NXT + 100, 100, false);
        assert!(out.urgent && !out.advanced);
        assert_eq!(out.placed, Placed { offset: 100, skip: 0, len: 100 });
        receive.receive(NXT + 300, 100, false);
        let block = |from: u64, to: u64| ((NXT + from) as u32, (NXT + to) as u32);
        assert_eq!(receive.blocks(4).as_slice(), [block(300, 400), block(100, 200)]);
        receive.receive(NXT + 500, 100, false);
        receive.receive(NXT + 120, 100, false);
        assert_eq!(receive.blocks(4).as_slice(), [block(100, 220), block(500, 600), block(300, 400)]);
        assert_eq!(receive.blocks(2).as_slice(), [block(100, 220), block(500, 600)]);
        let filled = receive.receive(NXT, 100, false);
        assert!(filled.advanced && filled.urgent);
        assert_eq!((receive.readable(), receive.nxt - NXT), (220, 220));
        // What was there already is skipped.
        let again = receive.receive(NXT + 200, 50, false);
        assert_eq!(again.placed, Placed { offset: 220, skip: 20, len: 30 });
    }

    #[test]
    fn a_fin_ends_the_stream_where_it_stands() {
        let mut receive = space(10_000);
        assert!(!receive.receive(NXT + 50, 50, true).finished);
        assert!(receive.receive(NXT, 80, false).finished);
        assert_eq!((receive.readable(), receive.nxt - NXT), (100, 101));
    }

    #[test]
    fn the_window_closes_without_shrinking_and_opens_in_worthwhile_steps() {
        let mut receive = space(1000);
        receive.receive(NXT, 950, false);
        assert_eq!(receive.window_field(100, false), 50);
        receive.take(60);
        assert_eq!(receive.window_field(100, false), 50);
        assert!(!receive.wants_update(100));
        receive.take(140);
        assert!(receive.wants_update(100));
        assert_eq!(receive.window_field(100, false), 250);
        // Beyond the edge nothing is taken.
        assert_eq!(receive.receive(NXT + 950, 400, false).placed.len, 250);
    }
}
