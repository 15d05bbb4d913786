//! The window that holds a flow at its rate.
//!
//! `Wnd = δ + rate × payload ratio × RTT`: whole segments of it are written, and what the sender had under way less than the
//! rate needs, for as long as it lasted, is credit (δ) for later; what it had more is taken from it. So the mean of what is
//! under way is what the rate needs, whatever a sender makes of a window: whole segments, parts of them, or one part at a
//! time; and whatever the window scale adds to a segment. Source: S. Reddy, chapters 4 and 5, who counts what windows are
//! short of and not what is sent.
//!
//! The source carries δ from one acknowledgment to the next. But where a window shrinks by a segment one acknowledgment
//! lets nothing go, and where it grows one lets two segments go at once: with every change there is one moment less in a
//! round trip at which the flow sends, and nothing spreads what has met. So a window is kept for a round trip, from the
//! acknowledgment that changed it to that of the first segment it let go.

use crate::sequence::{before, later, octets};
use perhop_units::{Duration, Instant};

/// The fastest rate that is reckoned with, bit/s (17 Tbit/s): products stay in their integers.
pub(crate) const MAX_RATE_BPS: u64 = 1 << 44;
/// Segment size of a connection whose handshake said nothing (RFC 9293 §3.7.1), and for IPv6 (RFC 8200 §5).
pub(crate) const DEFAULT_MSS: u16 = 536;
pub(crate) const DEFAULT_MSS_V6: u16 = 1220;
/// Nobody sends smaller segments on purpose, so a smaller option is not believed.
pub(crate) const LEAST_MSS: u16 = 64;

/// What a flow needs on its way: `rate` bit/s at IP length, of which `ratio` (Q0.16) is data, for `rtt` 1/64 µs. In
/// 1/256 octet, rounded down.
#[inline]
pub(crate) fn optimal(rate_bps: u64, ratio: u16, rtt_parts: u64) -> u64 {
    // 8 bits an octet, 2¹⁶ of the ratio, 64 · 10⁶ parts a second, 2⁸ parts an octet: 2²³ · 5⁶ altogether.
    let product = u128::from(rate_bps.min(MAX_RATE_BPS) * u64::from(ratio)) * u128::from(rtt_parts);
    u64::try_from(product >> 23).unwrap_or(u64::MAX) / 15_625
}

/// While a window grows: most acknowledgments that give no more after one that did. One and two take turns, so it grows by
/// two fifths in a round trip.
const PAUSES: u32 = 2;
/// Bits of the sequence number at which a round trip ends, in eighths of a segment and modulo: an acknowledgment of a part of
/// a segment counts as what it is. What is farther than half of the modulus, 64 segments at least, ends it early.
const END_BITS: u32 = 11;
const END_MASK: u32 = (1 << END_BITS) - 1;
/// Set since a part of a segment passed, above the end and two bits for the pauses.
const PART: u32 = 1 << (END_BITS + 2);
/// Where the credit begins.
const CREDIT_SHIFT: u32 = END_BITS + 3;
/// Bits of the 1/256 octet that a credit does without: it reaches 128 KiB, two of the largest segments.
const COARSE_BITS: u32 = 8;

/// The farthest from its rate that a window is taken to be for what is owed, 1/256 octet (8 MiB).
const MAX_OFF: i64 = i32::MAX as i64;
/// The most segments that are owed to a flow, or back by it, for what windows of whole segments differ from what is wanted, which is
/// one at a time: what two round trips can give, two segments each. More is owed only for a time in which a receiver waited:
/// what the rate has in it, as far as a credit reaches. No later acknowledgment takes that away but by what it settles.
const MOST_OWED: i64 = 4;
/// Unit of what was not used of a round trip's windows: 2¹⁰ octet·µs, up to 2 MB for a second.
const UNUSED_SHIFT: u32 = 10;

/// Windows of fewer segments get no room behind holes: without three acknowledgments behind a hole nothing is sent again before
/// a time-out, and a few segments too many are a queue.
const ROOM_FROM: u64 = 16;

/// The window of a flow that loses on the way, and so has fewer octets under way than its rate needs (`optimal`, 1/256
/// octet): what has arrived behind a hole takes up the window as well until the hole is filled, though nothing of it is under
/// way. Three times what is under way lasts for a segment that is lost twice; more than double the rate's need is never given,
/// and nothing (0) beyond the need to a flow that is close to it. `seen`: what is under way beyond here, `right` parts of the
/// round trip's `rtt`.
pub(crate) fn room_behind_holes(optimal: u64, mss: u16, seen: u32, right: u64, rtt: u64) -> u32 {
    // Far from the sender what is under way cannot be told from what waits.
    if optimal < (u64::from(mss) << 8) * ROOM_FROM || right < rtt / 4 || right == 0 {
        return 0;
    }
    let (needed, most) = (optimal >> 8, u64::from(u32::MAX >> 2));
    let under_way = u64::from(seen) * rtt / right;
    let is_close = under_way > needed - needed / 8;
    if is_close { 0 } else { (3 * under_way).min(2 * needed).min(most) as u32 }
}

/// An acknowledgment whose window may be limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Its number.
    pub ack: u32,
    /// Window field and its shift.
    pub field: u16,
    /// Shift.
    pub shift: u8,
    /// End of the data that passed towards the receiver, if any did.
    pub sent_end: Option<u32>,
    /// Whether the right edge may move left.
    pub allow_shrink: bool,
    /// What of the data that was let go has not passed yet, on the average, octets.
    pub on_its_way: u32,
    /// Least window of a flow that loses on the way, see [`room_behind_holes`].
    pub room: u32,
    /// Whether what is owed counts.
    pub credit: bool,
    /// Whether it opens the connection. Linux never sends more at once than half of the largest window it has seen, and
    /// takes that for the segment size: so the first has two segments.
    pub opens: bool,
}

impl Offer {
    /// The receiver's own window in octets.
    #[inline]
    pub const fn own(&self) -> u32 {
        (self.field as u32) << self.shift
    }
}

/// Times of a flow, µs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The round trip, and what of it is between an acknowledgment and the data that it lets go.
    pub rtt_us: u32,
    pub left_us: u32,
    /// Between the new acknowledgment and the one before.
    pub apart_us: u32,
    /// For how long the receiver waited for a second segment with this acknowledgment, if it is of one and the sender had no room to
    /// send another; 0 otherwise. What others wait is in the round trip, by its mean.
    pub waited_us: u32,
}

/// What bounds the window that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The receiver's own.
    Receiver,
    /// The rate.
    Rate,
    /// The rate needs less than one segment.
    Floor,
}

/// State of one direction's window.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Window {
    /// Limit in octets as of the last new acknowledgment, repeated with others; 0: not limited now.
    limit: u32,
    /// Right edge of the windows that passed.
    edge: u32,
    /// Credit in octets in the upper 18 bits, with its sign; [`PART`]; then how many of the next acknowledgments give no more to
    /// a window that grows; in the lower 11 bits where the round trip ends in which the window is kept.
    credit_and_round: u32,
    /// What was not used of the windows of the round trip, in units of [`UNUSED_SHIFT`].
    unused: i32,
    /// Data per IP length of data packets, Q0.16.
    ratio: u16,
    /// Largest segment, options taken off.
    mss: u16,
}

impl Window {
    /// For segments of at most `mss` octets behind `headers` bytes.
    pub fn new(mss: u16, headers: u32) -> Self {
        let mss = mss.max(LEAST_MSS);
        Self { ratio: share(u32::from(mss), headers), mss, ..Self::default() }
    }

    /// Largest segment, octets.
    #[inline]
    pub const fn mss(&self) -> u16 {
        self.mss
    }
    /// Data per IP length, Q0.16.
    #[inline]
    pub const fn ratio(&self) -> u16 {
        self.ratio
    }
    /// Limit last written, octets; 0: none.
    pub const fn limit(&self) -> u32 {
        self.limit
    }
    /// Right edge of the windows that passed, while they are limited.
    #[inline]
    pub fn limited_edge(&self) -> Option<u32> {
        (self.limit != 0).then_some(self.edge)
    }
    /// Credit, 1/256 octet; below 0 what was used beyond what is wanted.
    pub const fn credit(&self) -> i32 {
        self.credit_and_round as i32 >> CREDIT_SHIFT << COARSE_BITS
    }
    /// How many of the next acknowledgments give no more to a window that grows.
    const fn pauses(&self) -> u32 {
        self.credit_and_round >> END_BITS & 3
    }
    /// The same after another acknowledgment.
    const fn next_pause(&self, odd: bool) -> u32 {
        match self.pauses() {
            0 if odd => 1,
            0 => PAUSES,
            left => left - 1,
        }
    }
    /// So many octets of the sequence in units of [`END_BITS`].
    const fn eighths(&self, octets: u32) -> u32 {
        octets >> (self.mss.ilog2() - 3)
    }
    /// Whether `ack` is not beyond the end of the round trip in which the window is kept.
    const fn is_kept(&self, ack: u32) -> bool {
        let ahead = self.credit_and_round.wrapping_sub(self.eighths(ack)) & END_MASK;
        ahead <= END_MASK / 2
    }
    /// Sets the credit, 1/256 octet, cut off at 128 KiB and rounded to what it is kept in.
    fn owe(&mut self, credit: i64) {
        let most = (1 << (31 - CREDIT_SHIFT)) - 1;
        let credit = ((credit + (1 << (COARSE_BITS - 1))) >> COARSE_BITS).clamp(-most, most) as i32;
        self.credit_and_round =
            (credit << CREDIT_SHIFT) as u32 | self.credit_and_round & ((1 << CREDIT_SHIFT) - 1);
    }
    /// The window is kept until more than `octets` beyond `ack` are acknowledged.
    fn keep(&mut self, ack: u32, octets: u32) {
        let most = (END_MASK / 2) << (self.mss.ilog2() - 3);
        let end = self.eighths(ack.wrapping_add(octets.min(most))) & END_MASK;
        self.credit_and_round = self.credit_and_round & !(PART - 1) | end;
        self.unused = 0;
    }
    /// The window may change with the next acknowledgment, but give no more with the next `pauses`.
    fn go_on(&mut self, ack: u32, pauses: u32) {
        let end = self.eighths(ack).wrapping_sub(1) & END_MASK;
        self.credit_and_round = self.credit_and_round & !(PART - 1) | pauses << END_BITS | end;
        self.unused = 0;
    }
    /// Larger segments are in use than was known; `acked` is acknowledged. The round trip was counted in the smaller ones, so
    /// it ends.
    pub fn raise_mss(&mut self, mss: u16, headers: u32, acked: Option<u32>) {
        if mss > self.mss {
            let Self { limit, edge, credit_and_round, .. } = *self;
            *self = Self { limit, edge, credit_and_round, ..Self::new(mss, headers) };
            self.go_on(acked.unwrap_or(edge), self.pauses());
        }
    }

    /// Data of `payload` octets behind `headers` bytes passes, possibly several segments in one frame; average of
    /// weight 1/8 for a full segment, and by its bytes for a shorter one.
    #[inline]
    pub fn passed(&mut self, payload: u32, headers: u32) {
        let mss = u32::from(self.mss);
        let segments = if payload <= mss { 1 } else { payload.div_ceil(mss) };
        let seen = share(payload, segments.saturating_mul(headers));
        let (bytes, full) = (payload.saturating_add(headers), mss.saturating_add(headers));
        let step =
            (i64::from(seen) - i64::from(self.ratio)) * i64::from(bytes.min(full)) / i64::from(8 * full);
        self.ratio = (i64::from(self.ratio) + step) as u16;
    }

    /// Stops limiting.
    pub fn release(&mut self) {
        (self.limit, self.credit_and_round) = (0, 0);
    }

    /// Data pass in a frame of `payload`, `new` octets of which had not passed before, so long after the acknowledgment before.
    #[inline]
    pub fn came(&mut self, payload: u32, new: u32, after_us: u32) {
        self.waste(i64::from(new) * i64::from(after_us));
        if self.credit_and_round & PART == 0 && !payload.is_multiple_of(u32::from(self.mss)) {
            self.credit_and_round |= PART;
        }
    }

    /// So many octet·µs of the window were not used, or fewer.
    #[inline]
    fn waste(&mut self, octet_us: i64) {
        let by = (octet_us + (1 << (UNUSED_SHIFT - 1))) >> UNUSED_SHIFT;
        self.unused = self.unused.saturating_add(by.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32);
    }

    /// An acknowledgment of `new` octets ends a time in which the path needed `optimal` 1/256 octets. What windows let it have
    /// under way less than the rate needs is owed, what they let it have more is owed back; and at the end of a round trip
    /// what the sender did not use of them. So its rate is what is wanted on the average, whatever it makes of a window that
    /// is no multiple of a segment: whole ones only, or parts of one, or one part at a time (Minshall's variant of RFC 896, in
    /// Linux). One that leaves a whole segment has nothing to send, or is held by its own window.
    ///
    /// An octet is unused from when the edge passes it to when it passes itself, less the time of that way. So over a round
    /// trip that is the mean of what is between the end of the data and the edge, less what is acknowledged times that way
    /// (Little's law), wherever on the path this is.
    #[inline]
    pub fn settle(&mut self, optimal: u64, new: u32, offer: &Offer, times: &Times) {
        let shift = offer.shift;
        let step = u32::from(self.mss).max(1 << shift);
        let let_send = self.written(self.limit, shift);
        // Of a window on its way to a new rate nothing is owed.
        let acknowledged = self.edge.wrapping_sub(let_send.max(self.limit));
        if self.limit == 0 || !self.is_kept(acknowledged) {
            return;
        }
        let [rtt_us, left_us, apart_us, waited_us] =
            [times.rtt_us.max(1), times.left_us, times.apart_us, times.waited_us].map(i64::from);
        let optimal = optimal.min(u64::from(u32::MAX) << 7) as i64;
        let rounded =
            if self.is_coarse(shift) { let_send % u32::from(self.mss) } else { let_send - self.limit };
        let [given, rounded, most] = [let_send, rounded, step].map(|octets| i64::from(octets) << 8);
        // A window that is farther off than that is on its way; and products with any time stay in their integers.
        let off = (optimal - given).clamp(-MAX_OFF, MAX_OFF);
        // Between two acknowledgments are a round trip and what the receiver waited with the later one, at most. In what is longer
        // nothing was under way for a part, because the sender was idle, or a queue made it long.
        let mut owed = off * apart_us.min(rtt_us + waited_us) / rtt_us;
        let unused = i64::from(octets(offer.sent_end.unwrap_or(offer.ack), self.edge)) * apart_us;
        self.waste(unused - i64::from(new) * left_us);
        if !self.is_kept(offer.ack) && !u32::from(self.mss).is_multiple_of(1 << shift) {
            owed += self.unused(rounded, most, (rtt_us, left_us));
        }
        let had = i64::from(self.credit());
        let credit = had + owed;
        if given - optimal > most + (256 << shift) && credit < -most / 2 {
            // The rate was lowered, nothing owed explains so large a window: what is left of the old one is not taken back.
            self.owe(phase(acknowledged, step));
        } else {
            let for_the_wait = optimal.min(MAX_OFF) * waited_us / rtt_us;
            let (least, most) = (-MOST_OWED * most, (MOST_OWED * most).max(for_the_wait).max(had));
            self.owe(credit.clamp(least, most));
        }
    }

    /// In place of what is settled: an acknowledgment passes at a time, and the rate has it at another, while the path needs
    /// `optimal` 1/256 octets. What the rate has in between is owed, or owed back if it is early.
    pub fn owe_time(&mut self, optimal: u64, (passes, due): (Instant, Instant), times: &Times) {
        let us = |time: Duration| i64::from(u32::try_from(time.as_nanos() / 1_000).unwrap_or(u32::MAX));
        let late_us = us(passes.since(due)) - us(due.since(passes));
        let optimal = i64::try_from(optimal).unwrap_or(i64::MAX).min(MAX_OFF);
        self.owe(optimal * late_us / i64::from(times.rtt_us.max(1)));
    }

    /// What was not used in a round trip that ends of windows that are `rounded` up to what their scale can say, 1/256 octet;
    /// all of that of a sender of whole segments. What is measured contains what data waited in queues before here,
    /// which must not widen windows: the farther the sender, the less of it is believed.
    #[inline]
    fn unused(&self, rounded: i64, most: i64, (rtt_us, left_us): (i64, i64)) -> i64 {
        if self.credit_and_round & PART == 0 {
            return rounded;
        }
        let unused = (i64::from(self.unused) << (UNUSED_SHIFT + 8)) / rtt_us;
        let right_us = rtt_us - left_us.min(rtt_us);
        let believed = rounded.max(most * right_us / rtt_us * right_us / rtt_us);
        unused.clamp(-believed, believed)
    }

    /// An acknowledgment of `new` octets passes while the path needs `optimal` 1/256 octets: sets the limit.
    #[inline]
    pub fn advance(&mut self, optimal: u64, new: u32, offer: &Offer) -> Bound {
        // A window that cannot be written to the segment is written to what can.
        let step = u32::from(self.mss).max(1 << offer.shift);
        let optimal = optimal.min(u64::from(u32::MAX) << 7);
        let mut least = (optimal / (u64::from(step) << 8)) as u32 * step;
        if u64::from(round_up(least, offer.shift)) << 8 > optimal {
            least = least.saturating_sub(step);
        }
        // Of an edge between two segments the sender uses the whole ones.
        let had = self.limit / step * step;
        let stays = self.limit > 0
            && offer.room == 0
            && self.is_kept(offer.ack)
            && (least..=least.saturating_add(2 * step)).contains(&had);
        let wanted = (optimal as i64 + if offer.credit { i64::from(self.credit()) } else { 0 }).max(0) as u64;
        let whole = match stays {
            true => had,
            false => {
                let whole = (wanted / (u64::from(step) << 8)) as u32 * step;
                whole.clamp(least, least.saturating_add(2 * step)).max(offer.room / step * step)
            }
        };
        // All at once, what a higher rate allows would leave in one burst; doubled, as in slow start, flows whose segments
        // keep together fill a queue that is long enough for their sum.
        let pauses = whole > self.limit && self.pauses() > 0;
        let most = match self.limit {
            0 => u32::MAX,
            limit if pauses => limit,
            limit => limit.saturating_add(step.max(new)),
        };
        let standing = self.standing_edge(offer).map_or(0, |edge| octets(offer.ack, edge));
        if self.limit == 0 {
            self.edge = offer.ack.wrapping_add(standing.min(offer.own()));
            self.owe(phase(offer.ack, step));
        }
        let least_limit = if offer.opens { 2 * step } else { step };
        let limit = whole.min(most / step * step).max(least_limit).max(standing);
        self.limit = limit;
        if offer.own() < limit {
            self.owe(0);
            self.go_on(offer.ack, 0);
            return Bound::Receiver;
        }
        if !stays {
            let usable = limit / step * step;
            // What is owed may ask for more than one acknowledgment may give, and what was used too much for less than stands.
            if offer.room > 0 {
                // Losses limit it.
                self.go_on(offer.ack, 0);
                self.owe(phase(offer.ack, step));
            } else if (least.max(1)..=whole).contains(&usable) {
                let under_way = offer.sent_end.map_or(had.saturating_sub(step), |end| octets(offer.ack, end));
                let under_way = under_way.saturating_add(offer.on_its_way).min(octets(offer.ack, self.edge));
                self.keep(offer.ack, under_way);
            } else if least > 0 && usable == whole + step {
                self.keep(offer.ack, 0);
            } else {
                // A window on its way to what it is to be goes on with the next acknowledgment. What was owed before ends with the
                // old rate, but for a wait: it makes the mean wait longer, and so windows, by more than one acknowledgment can.
                let pauses = if least == 0 { 0 } else { self.next_pause(usable / step % 2 == 1) };
                self.go_on(offer.ack, pauses);
                let for_a_wait =
                    usable < least && i64::from(self.credit()) > MOST_OWED * i64::from(step) << 8;
                if !for_a_wait {
                    self.owe(if least == 0 { 0 } else { phase(offer.ack, step) });
                }
            }
        }
        if !offer.credit {
            self.owe(0);
        }
        if least == 0 { Bound::Floor } else { Bound::Rate }
    }

    /// The edge that the window must not fall short of. When limiting begins that is the end of the data seen: what the
    /// receiver offered beyond and nobody used is withdrawn once.
    #[inline]
    fn standing_edge(&self, offer: &Offer) -> Option<u32> {
        match self.limit {
            _ if offer.allow_shrink => None,
            0 => offer.sent_end,
            _ => Some(self.edge),
        }
    }

    /// The window field for an acknowledgment under the limit: the receiver's own or a lower one, never 0 unless its own
    /// is.
    #[inline]
    pub fn field(&mut self, offer: &Offer) -> u16 {
        let own = offer.own();
        let mut field = offer.field;
        let limit = if offer.opens { self.limit.max(2 * u32::from(self.mss)) } else { self.limit };
        if limit < own {
            field = (self.written(limit, offer.shift) >> offer.shift).clamp(1, u32::from(offer.field)) as u16;
        }
        let edge = offer.ack.wrapping_add(u32::from(field) << offer.shift);
        self.edge = later(self.edge, edge);
        field
    }

    /// Whether a field of this scale can say no single segment.
    const fn is_coarse(&self, shift: u8) -> bool {
        1 << shift > self.mss as u32
    }

    /// The window that is written for a limit. Rounded up to what the field can say: some senders round down to the segment
    /// again, which must not be lost. But where the field can say no single segment, acknowledgments of segments would move
    /// the edge on for ever, and a window that is to shrink would stay what it is; there it is rounded down, so that the edge
    /// may lie left of where it stands by less than a step of the scale, as it may for any receiver (RFC 7323 §2.4).
    #[inline]
    const fn written(&self, limit: u32, shift: u8) -> u32 {
        match limit >> shift {
            0 => 1 << shift,
            steps if self.is_coarse(shift) => steps << shift,
            _ => round_up(limit, shift),
        }
    }

    /// Whether there is room for a segment behind data up to `sent_end`. Of a window that is not limited nobody knows.
    #[inline]
    pub fn has_room(&self, sent_end: u32) -> bool {
        self.limit != 0 && !before(self.edge, sent_end.wrapping_add(u32::from(self.mss)))
    }

    /// Whether data up to `sent_end` use the window up to less than a segment and what is still on its way to here.
    #[inline]
    pub fn is_used_up(&self, sent_end: u32, on_its_way: u32) -> bool {
        let used = sent_end.wrapping_add(u32::from(self.mss)).wrapping_add(on_its_way);
        !before(used, self.edge)
    }
}

/// A window rounded up to what a field of this scale can say.
#[inline]
const fn round_up(limit: u32, shift: u8) -> u32 {
    limit.div_ceil(1 << shift) << shift
}

/// What is owed to a flow when its window arrives at a rate, 1/256 octet: anything below a step of `step`, another for each
/// flow. A change of rate comes to all flows at once, and they may begin together; if they owed the same they would grow by a
/// segment in the same round trip ever after. Numbers of acknowledgments begin at random (RFC 6528); they are spread by a
/// multiplication.
#[inline]
fn phase(ack: u32, step: u32) -> i64 {
    i64::from(ack.wrapping_mul(0x9e37_79b1) >> 8) * i64::from(step) >> 16
}

/// `data` per data and headers, Q0.16, below one.
#[inline]
fn share(data: u32, headers: u32) -> u16 {
    let whole = u64::from(data) + u64::from(headers);
    ((u64::from(data) << 16) / whole.max(1)).min(0xffff) as u16
}

const _: () = assert!(size_of::<Window>() == 20);

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
