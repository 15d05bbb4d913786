//! When segments passed, to tell how long their acknowledgments take.
//!
//! A stamp is the end of a segment and the time it passed. Few are kept for each direction: when all are in use, what
//! passes is not stamped, and its acknowledgment gives no sample. Unless acknowledgments are of more segments at once than there
//! are stamps: then the last is of the newest segment, and what is acknowledged between two gives a sample if they passed so
//! shortly one after the other that it does not matter which it is of. Karn's rule in its strict form: an acknowledgment that
//! covers anything seen twice gives no sample either, because it may have waited for the hole to be filled. There the
//! echoed clock of RFC 7323 helps: it names the copy that arrived.

use crate::sequence::{after, before, later, octets};
use crate::waiting::Prompt;

/// Stamps of one direction.
pub(crate) const STAMPS: usize = 4;

/// Bits of the number of stamps and the gaps between them.
const LEN_AND_GAPS: u8 = 0x3f;
const _: () =
    assert!((2 << (STAMPS + 1)) - 3 <= LEN_AND_GAPS as usize, "a gap for each stamp and one behind");
/// Bits of [`Stamps::len_gaps_clock`] above that: a clock value has passed, and `echo` is one.
const CLOCK: u8 = 0x40;
/// … and later ones may have passed since.
const CLOCK_LATER: u8 = 0x80;

/// Octets that may have passed elsewhere: an acknowledgment of more than that beyond what was seen is not believed.
const UNSEEN: u32 = 1 << 16;

/// Bits of [`Stamps::marks`].
mod mark {
    /// Data or a SYN were seen, so `sent_end` counts.
    pub const SENT: u8 = 1;
    /// An acknowledgment was seen, so `acked` counts.
    pub const ACKED: u8 = 2;
    /// Something up to `dirty_end` was seen twice.
    pub const DIRTY: u8 = 4;
    /// A clock value waits for its echo.
    pub const ECHO: u8 = 8;
    /// … and belongs to data, so that its echo does not wait for anything but the path.
    pub const ECHO_OF_DATA: u8 = 16;
    /// An acknowledgment covered all stamps and more at once.
    pub const AT_ONCE: u8 = 32;
    /// The first stamp is that of a SYN.
    pub const OPENS: u8 = 64;
    /// The sender was idle before what is under way.
    pub const IDLE: u8 = 128;
}

/// What is remembered of one direction's segments.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Stamps {
    ends: [u32; STAMPS],
    /// µs, modulo 2³².
    times: [u32; STAMPS],
    /// End of what was sent.
    sent_end: u32,
    /// Highest acknowledgment number, and when it passed, µs modulo 2³².
    acked: u32,
    acked_at: u32,
    dirty_end: u32,
    /// Clock value that waits for its echo, and when it passed. While none does, the newest that has passed, unless
    /// [`CLOCK_LATER`] ones have.
    echo: u32,
    echo_at: u32,
    /// How many stamps there are, and gaps; bit i: there is data without a stamp before the segment of stamp i; bit `len`:
    /// behind the last one. As these bits below a one at bit `len + 1`, less 2; above, [`CLOCK`] and [`CLOCK_LATER`].
    len_gaps_clock: u8,
    marks: u8,
    /// How late acknowledgments are that do not wait.
    pub prompt: Prompt,
}

/// What a segment turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// New, all of it.
    New,
    /// Seen before, in whole or in part, or behind something that came later.
    Again,
    /// A keep-alive or a probe of a closed window.
    Ignored,
}

/// What an acknowledgment turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// Acknowledges `octets` anew; with the time since the newest segment that it covers passed, if that is known.
    New {
        /// Octets.
        octets: u32,
        /// µs.
        sample: Option<u32>,
        /// Time since the first copy of the newest segment that it covers passed, µs, where no sample is to be had because
        /// something passed twice: it is the latency at most. `None` too where an earlier copy may have passed unseen.
        at_most: Option<u32>,
        /// How much earlier than that one the segments passed that it covers, on the average, µs.
        spread: u32,
        /// Time since the one before, µs; 0 where that is not known.
        apart_us: u32,
        /// Whether the sender was idle before it sent what is acknowledged.
        idle: bool,
    },
    /// The same number again.
    Again,
    /// A lower number than before.
    Old,
}

/// What an echoed clock value tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echoed {
    /// µs from a segment with data to its acknowledgment.
    OfData(u32),
    /// µs from a bare acknowledgment to what was sent next: the path's latency at least.
    OfAck(u32),
}

impl Acked {
    /// Of which nothing else is known.
    const fn unmeasured(octets: u32) -> Self {
        Self::New { octets, sample: None, at_most: None, spread: 0, apart_us: 0, idle: false }
    }
}

impl Echoed {
    /// The same, where the latency is known to be `at_most` so many µs: the copy whose clock is echoed may have waited at the
    /// receiver for what passed later.
    pub fn within(self, at_most: Option<u32>) -> Self {
        let least = |us: u32| at_most.map_or(us, |most| us.min(most));
        match self {
            Self::OfData(us) => Self::OfData(least(us)),
            Self::OfAck(us) => Self::OfAck(least(us)),
        }
    }
}

impl Stamps {
    /// End of what was sent, if anything was.
    pub fn sent_end(&self) -> Option<u32> {
        self.is(mark::SENT).then_some(self.sent_end)
    }

    /// Highest acknowledgment number, if there was one.
    pub fn acked(&self) -> Option<u32> {
        self.is(mark::ACKED).then_some(self.acked)
    }

    /// Where this direction is: what is acknowledged or, before that is heard of, the end of what was sent.
    pub fn known(&self) -> Option<u32> {
        self.acked().or(self.sent_end())
    }

    /// Time since the highest acknowledgment passed, µs.
    pub fn since_acked_us(&self, now_us: u32) -> u32 {
        now_us.wrapping_sub(self.acked_at)
    }

    /// Whether what is not acknowledged yet includes something seen twice.
    pub fn is_recovering(&self) -> bool {
        self.is(mark::DIRTY)
    }

    /// Whether something was seen twice that is not more than `octets` behind what is acknowledged.
    #[inline]
    pub fn has_repaired_within(&self, octets: u32) -> bool {
        self.is_recovering() || self.acked.wrapping_sub(self.dirty_end) <= octets
    }

    /// The gaps below a one at bit `len + 1`.
    #[inline]
    const fn len_and_gaps(&self) -> u8 {
        (self.len_gaps_clock & LEN_AND_GAPS) + 2
    }

    #[inline]
    const fn len(&self) -> usize {
        self.len_and_gaps().ilog2() as usize - 1
    }

    #[inline]
    const fn gaps(&self) -> u8 {
        self.len_and_gaps() ^ 2 << self.len()
    }

    #[inline]
    fn keep(&mut self, len: usize, gaps: u8) {
        self.len_gaps_clock = self.len_gaps_clock & !LEN_AND_GAPS | ((2 << len | gaps) - 2);
    }

    #[inline]
    const fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether a segment that ends at `seq_end` can be of this connection, of which `most` octets may be under way. What is
    /// further away its receiver does not take either.
    #[inline]
    pub fn can_be_sent(&self, seq_end: u32, most: u32) -> bool {
        let Some(known) = self.known() else { return true };
        octets(known, seq_end) <= most.saturating_add(UNSEEN) || !after(seq_end, known)
    }

    /// Whether a segment that ends at `seq_end` is no farther on either side than `most` octets from what is acknowledged.
    #[inline]
    pub fn is_near(&self, seq_end: u32, most: u32) -> bool {
        let Some(known) = self.known() else { return true };
        let most = most.saturating_add(UNSEEN);
        seq_end.wrapping_sub(known) <= most || known.wrapping_sub(seq_end) <= most
    }

    /// Whether `ack` can be an acknowledgment of this connection: of nothing that is far beyond what was sent.
    #[inline]
    pub fn can_be_acknowledged(&self, ack: u32) -> bool {
        !self.is(mark::SENT) || octets(self.sent_end, ack) <= UNSEEN
    }

    /// A segment from `seq` to `seq_end` (not empty) passes. `closed`: the receiver's window was last seen shut.
    #[inline]
    pub fn sent(&mut self, seq: u32, seq_end: u32, now_us: u32, closed: bool) -> Sent {
        let one = seq_end.wrapping_sub(seq) == 1;
        if one && (closed && self.is(mark::SENT) || self.is(mark::ACKED) && seq_end == self.acked) {
            return Sent::Ignored;
        }
        if !self.is(mark::SENT) {
            self.marks |= mark::SENT;
            self.sent_end = seq;
            // Where in the number space the receiver stands is not known yet.
            self.keep(self.len(), 1);
            if self.is(mark::ACKED) && before(seq, self.acked) {
                // Taken up in mid-life with a segment that is on its way a second time.
                self.sent_end = self.acked;
            }
        }
        let again = before(seq, self.sent_end);
        if again && (after(seq_end, self.acked) || !self.is(mark::ACKED)) {
            let clean = !self.is(mark::DIRTY);
            self.dirty_end = if clean { seq_end } else { later(self.dirty_end, seq_end) };
            self.marks |= mark::DIRTY;
        }
        if after(seq_end, self.sent_end) {
            if seq != self.sent_end {
                self.keep(self.len(), self.gaps() | 1 << self.len());
            }
            self.sent_end = seq_end;
            self.stamp(seq_end, now_us);
        }
        if again { Sent::Again } else { Sent::New }
    }

    /// What was sent last is a SYN. If it was seen first, nothing of this direction passed before it.
    pub fn opens(&mut self) {
        if !self.is(mark::ACKED) && self.len() == 1 {
            self.marks |= mark::OPENS;
        }
    }

    /// What was sent last came after a time in which nothing was under way and the sender had nothing to send.
    #[inline]
    pub fn ends_idleness(&mut self) {
        self.marks |= mark::IDLE;
    }

    #[inline]
    fn stamp(&mut self, seq_end: u32, now_us: u32) {
        let (mut at, mut gaps) = (self.len(), self.gaps());
        if at == STAMPS && !self.is(mark::AT_ONCE) {
            self.keep(at, gaps | 1 << STAMPS);
            return;
        }
        if at == STAMPS {
            // An acknowledgment of many segments is often of all.
            at -= 1;
            gaps |= 1 << at;
        }
        (self.ends[at], self.times[at]) = (seq_end, now_us);
        self.keep(at + 1, gaps);
    }

    /// Keeps the newest segment from giving a sample: it will leave later than it passed here.
    pub fn unstamp_newest(&mut self) {
        let len = self.len();
        if len > 0 && self.ends[len - 1] == self.sent_end {
            let below = (1u8 << (len - 1)) - 1;
            self.keep(len - 1, self.gaps() & below | 1 << (len - 1));
        }
    }

    /// Acknowledgment number `ack` passes.
    #[inline]
    pub fn acknowledged(&mut self, ack: u32, now_us: u32) -> Acked {
        if !self.is(mark::ACKED) {
            self.marks |= mark::ACKED;
            // What was in flight before counts as acknowledged up to here.
            self.acked = if self.len() > 0 { ack.wrapping_sub(1) } else { ack };
            self.acked_at = now_us;
            if self.len() == 0 {
                return Acked::unmeasured(0);
            }
        }
        if ack == self.acked {
            return Acked::Again;
        }
        if before(ack, self.acked) {
            return Acked::Old;
        }
        let octets = octets(self.acked, ack);
        let (apart_us, idle) = (self.since_acked_us(now_us), self.is(mark::IDLE));
        self.marks &= !mark::IDLE;
        (self.acked, self.acked_at) = (ack, now_us);
        if !self.is(mark::SENT) || after(ack, self.sent_end) {
            // It acknowledges what did not pass here.
            self.sent_end = ack;
            self.keep(0, 0);
            self.marks = self.marks & !(mark::DIRTY | mark::OPENS) | mark::SENT;
            return Acked::unmeasured(octets);
        }
        let (len, gaps) = (self.len(), self.gaps());
        let covered = self.ends[..len].iter().take_while(|end| !after(**end, ack)).count();
        let newest = if self.is(mark::DIRTY) {
            None
        } else if covered > 0 && self.ends[covered - 1] == ack {
            Some(self.times[covered - 1])
        } else if covered < len && gaps >> covered & 1 == 0 {
            // A part of the next one: of a frame that stands for several segments.
            Some(self.times[covered])
        } else if self.is(mark::AT_ONCE) && covered > 0 && covered < len {
            self.between(covered, ack, now_us)
        } else {
            None
        };
        // What is behind data that did not pass here may have passed elsewhere first, as they did.
        let unsure = gaps & ((1 << covered) - 1) & !u8::from(self.is(mark::OPENS));
        let at_most = (self.is(mark::DIRTY) && covered > 0 && self.ends[covered - 1] == ack && unsure == 0)
            .then(|| now_us.wrapping_sub(self.times[covered - 1]));
        self.marks &= !mark::OPENS;
        if covered == 1 && len > 1 && gaps & 2 == 0 && octets <= 2 * (self.ends[1].wrapping_sub(self.ends[0]))
        {
            // No more than two segments.
            self.marks &= !mark::AT_ONCE;
        } else if newest.is_none() && covered == STAMPS && !self.is(mark::DIRTY) {
            self.marks |= mark::AT_ONCE;
        }
        let spread = match newest {
            Some(at) if covered > 1 => {
                let earlier = self.times[..covered].iter().map(|time| u64::from(at.wrapping_sub(*time)));
                (earlier.sum::<u64>() / covered as u64) as u32
            }
            _ => 0,
        };
        if covered > 0 {
            self.ends.copy_within(covered..len, 0);
            self.times.copy_within(covered..len, 0);
        }
        self.keep(len - covered, if ack == self.sent_end { 0 } else { gaps >> covered });
        if self.is(mark::DIRTY) && !before(ack, self.dirty_end) {
            self.marks &= !mark::DIRTY;
        }
        Acked::New {
            octets,
            sample: newest.map(|at| now_us.wrapping_sub(at)),
            at_most,
            spread,
            apart_us,
            idle,
        }
    }

    /// When the segment that ends at `ack`, between the stamp before `next` and `next`, passed, if the two are no farther apart
    /// than a sixteenth of the sample: as far between as its number is.
    fn between(&self, next: usize, ack: u32, now_us: u32) -> Option<u32> {
        let (earlier, later) = (self.times[next - 1], self.times[next]);
        let apart = later.wrapping_sub(earlier);
        if apart > now_us.wrapping_sub(earlier) / 16 {
            return None;
        }
        let [behind, whole] = [ack, self.ends[next]].map(|end| u64::from(octets(self.ends[next - 1], end)));
        Some(earlier.wrapping_add((u64::from(apart) * behind / whole.max(1)) as u32))
    }

    /// The clock value of a segment passes. Whether it is known to be later than any that passed before: only then its echo tells
    /// of this segment, as clocks may tick more slowly than segments pass (RFC 7323 §5.4: once a second at least).
    #[inline]
    pub fn clock_passed(&mut self, value: u32) -> bool {
        if self.len_gaps_clock & CLOCK == 0 {
            self.len_gaps_clock |= CLOCK;
            self.echo = value;
            return true;
        }
        if !after(value, self.echo) {
            return false;
        }
        let sure = self.len_gaps_clock & CLOCK_LATER == 0;
        if self.is(mark::ECHO) {
            self.len_gaps_clock |= CLOCK_LATER;
        } else {
            self.len_gaps_clock &= !CLOCK_LATER;
            self.echo = value;
        }
        sure
    }

    /// Notes the clock value of a segment to wait for its echo, if it is a new one: of data seen twice in any case, of a bare
    /// acknowledgment when no other waits. Whether it waits now.
    #[inline]
    pub fn note_clock(&mut self, value: u32, of_data: bool, now_us: u32) -> bool {
        let waits = self.is(mark::ECHO);
        if of_data && waits && self.is(mark::ECHO_OF_DATA) && value == self.echo {
            // Which of the two is echoed nobody can say.
            self.marks &= !(mark::ECHO | mark::ECHO_OF_DATA);
            return false;
        }
        if !self.clock_passed(value) || !of_data && (waits || self.len() > 0) {
            return false;
        }
        self.marks = self.marks & !mark::ECHO_OF_DATA | mark::ECHO;
        if of_data {
            self.marks |= mark::ECHO_OF_DATA;
        }
        self.len_gaps_clock &= !CLOCK_LATER;
        (self.echo, self.echo_at) = (value, now_us);
        true
    }

    /// Keeps the right edge that stood before a bare acknowledgment whose clock value waits: there are no stamps then, so
    /// the place of the last one is free.
    #[inline]
    pub fn put_aside(&mut self, edge: u32) {
        self.ends[STAMPS - 1] = edge;
    }

    /// What was put aside before the acknowledgment that was echoed just now. `None` where there are stamps; without any the place was
    /// not used since, as the acknowledgment of data that had it would have ended the wait for the echo.
    #[inline]
    pub fn aside(&self) -> Option<u32> {
        (self.len() == 0).then_some(self.ends[STAMPS - 1])
    }

    /// An echoed clock value passes, of data with a `new` acknowledgment only.
    #[inline]
    pub fn clock_echoed(&mut self, echo: u32, new: bool, now_us: u32) -> Option<Echoed> {
        if !self.is(mark::ECHO) || before(echo, self.echo) {
            return None;
        }
        let of_data = self.is(mark::ECHO_OF_DATA);
        if of_data && !new && echo == self.echo {
            return None;
        }
        self.marks &= !(mark::ECHO | mark::ECHO_OF_DATA);
        if echo != self.echo {
            self.len_gaps_clock |= CLOCK_LATER;
            return None;
        }
        let sample = now_us.wrapping_sub(self.echo_at);
        Some(if of_data { Echoed::OfData(sample) } else { Echoed::OfAck(sample) })
    }
}

const _: () = assert!(size_of::<Stamps>() == 60);

#[cfg(test)]
#[path = "stamps_tests.rs"]
mod tests;
