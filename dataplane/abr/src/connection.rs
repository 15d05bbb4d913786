//! What is kept of a connection: both directions in 256 bytes.

use crate::latency::Filter;
use crate::policies::NO_POLICY;
use crate::segment::Segment;
use crate::settings::{LimitedBy, Policy};
use crate::stamps::Stamps;
use crate::waiting::Waiting;
use crate::window::{DEFAULT_MSS, DEFAULT_MSS_V6, LEAST_MSS, Window};
use perhop_wire::tcp::flags;

/// End of a list through the connections.
pub(crate) const NONE: u32 = u32::MAX;
/// A window shift not seen yet, and one that was not offered.
const UNSEEN: u8 = 0xff;
const NOT_OFFERED: u8 = 0xfe;
/// A SYN is that of the connection as long as no more octets than this are known to have been sent behind it.
const LATE_SYN: u32 = 1 << 16;
/// Bytes of options in every segment once both ends have agreed on time-stamps.
const TIMESTAMPS_LEN: u16 = 12;

/// Bits of [`Connection::kind`]; those for each direction are shifted by it.
mod kind {
    pub const SEEN: u16 = 1;
    pub const TIMESTAMPS: u16 = 1 << 2;
    pub const FIN: u16 = 1 << 4;
    pub const CLOSED: u16 = 1 << 6;
    pub const V6: u16 = 1 << 8;
    pub const MD5: u16 = 1 << 9;
    pub const AUTHENTICATED: u16 = 1 << 10;
    pub const MULTIPATH: u16 = 1 << 11;
    pub const CLOSING: u16 = 1 << 12;
    pub const FLIPPED: u16 = 1 << 13;
    pub const USED: u16 = 1 << 14;
}

/// Bits of [`Connection::marks`]; the rest is [`LimitedBy`].
pub(crate) mod mark {
    /// Takes part in the sharing.
    pub const LIVE: u8 = 1;
    /// Its acknowledgments are held back at times.
    pub const PACED: u8 = 2;
    /// Low bit of what limits it.
    pub const LIMITED: u32 = 2;
}

/// Why windows of a connection are left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untouchable {
    Md5,
    Authenticated,
    Multipath,
}

impl Untouchable {
    /// Why a segment must be left alone, whatever is known of its connection.
    #[inline]
    pub const fn of(segment: &Segment) -> Option<Self> {
        let options = &segment.options;
        if options.md5 {
            Some(Self::Md5)
        } else if options.authenticated {
            Some(Self::Authenticated)
        } else if options.multipath && segment.has(flags::ACK) {
            // A SYN alone only asks for it.
            Some(Self::Multipath)
        } else {
            None
        }
    }
}

/// One direction's data: how it is measured and limited, apart from the stamps.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Half {
    /// Latency from here to the receiver and back.
    pub latency: Filter,
    pub window: Window,
    /// When data last passed.
    pub data_ms: u32,
    pub rewritten: u32,
    /// Segments seen again; no more are counted than fit.
    pub retransmissions: u16,
    /// What its receiver waits before it acknowledges.
    pub waiting: Waiting,
    /// Number of its policy.
    pub policy: u16,
    /// Of what the policy was chosen by.
    pub digest: u16,
}

/// See the module. Direction 0 is the one from the lower endpoint.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Connection {
    /// Number in the router's connection table, or more of the hash.
    pub number: u32,
    /// Hash of the endpoints.
    pub identity: u32,
    /// Next in the list of those looked at together, or of the free ones.
    pub next: u32,
    /// When a packet last passed; when closing began.
    pub seen_ms: u32,
    /// Shift of the windows sent in each direction.
    shift: [u8; 2],
    pub marks: [u8; 2],
    /// Low bits of the policies' generation at the choice.
    pub generation: [u8; 2],
    kind: u16,
    pub halves: [Half; 2],
    pub stamps: [Stamps; 2],
}

const _: () = assert!(size_of::<Connection>() == 256, "the limit of the specification");

impl Connection {
    /// A connection of which nothing is known. `reverse`: the router's table calls direction `direction` the reverse.
    pub fn new(number: u32, identity: u32, direction: usize, reverse: bool, v6: bool, now_ms: u32) -> Self {
        let mss = if v6 { DEFAULT_MSS_V6 } else { DEFAULT_MSS };
        let half = Half {
            latency: Filter::default(),
            window: Window::new(mss, header_len(v6)),
            data_ms: 0,
            rewritten: 0,
            retransmissions: 0,
            waiting: Waiting::default(),
            policy: NO_POLICY,
            digest: 0,
        };
        let flipped = if (direction == 1) != reverse { kind::FLIPPED } else { 0 };
        let v6 = if v6 { kind::V6 } else { 0 };
        Self {
            number,
            identity,
            next: NONE,
            seen_ms: now_ms,
            shift: [UNSEEN; 2],
            marks: [0; 2],
            generation: [0; 2],
            kind: kind::USED | flipped | v6,
            halves: [half; 2],
            stamps: [Stamps::default(); 2],
        }
    }

    #[inline]
    const fn is(&self, bits: u16) -> bool {
        self.kind & bits != 0
    }

    /// Whether it stands for a connection.
    #[inline]
    pub const fn is_used(&self) -> bool {
        self.is(kind::USED)
    }
    /// Gives the place up; the lists still hold it.
    pub fn end(&mut self) {
        self.kind &= !kind::USED;
    }
    /// Whether the router's table calls direction `direction` the reverse.
    pub const fn is_reverse(&self, direction: usize) -> bool {
        (direction == 1) != self.is(kind::FLIPPED)
    }
    /// Whether packets of this direction, and none of the other, have passed.
    pub const fn is_seen_only_in(&self, direction: usize) -> bool {
        self.is(kind::SEEN << direction) && !self.is(kind::SEEN << (1 - direction))
    }
    /// Whether packets of both directions have passed.
    pub const fn is_answered(&self) -> bool {
        self.is(kind::SEEN) && self.is(kind::SEEN << 1)
    }
    /// Whether both ends have said that they are done and heard it of each other.
    pub const fn is_closing(&self) -> bool {
        self.is(kind::CLOSING)
    }
    /// Whether the windows sent in this direction were last seen shut.
    #[inline]
    pub const fn is_shut(&self, direction: usize) -> bool {
        self.is(kind::CLOSED << direction)
    }
    #[inline]
    pub const fn has(&self, direction: usize, mark: u8) -> bool {
        self.marks[direction] & mark != 0
    }
    /// What limits the flow of this direction.
    pub const fn limited_by(&self, direction: usize) -> LimitedBy {
        LimitedBy::from_bits(self.marks[direction] >> mark::LIMITED)
    }
    pub fn set_limited_by(&mut self, direction: usize, by: LimitedBy) {
        let low = (1 << mark::LIMITED) - 1;
        self.marks[direction] = self.marks[direction] & low | (by as u8) << mark::LIMITED;
    }

    /// Why its windows must not be rewritten.
    #[inline]
    pub const fn untouchable(&self) -> Option<Untouchable> {
        if !self.is(kind::MD5 | kind::AUTHENTICATED | kind::MULTIPATH) {
            return None;
        }
        Some(if self.is(kind::MD5) {
            Untouchable::Md5
        } else if self.is(kind::AUTHENTICATED) {
            Untouchable::Authenticated
        } else {
            Untouchable::Multipath
        })
    }

    /// Shift of the window in `segment` of `direction`; `None` while the handshake that would say it was not seen.
    /// Scaling is on only if both ends offered it (RFC 7323 §2.2), and never in a SYN.
    #[inline]
    pub fn shift(&self, direction: usize, segment: &Segment, policy: &Policy) -> Option<u8> {
        if segment.has(flags::SYN) {
            return Some(0);
        }
        self.agreed_shift(direction).or_else(|| policy.assume_shift.map(|shift| shift.min(14)))
    }

    /// Shift of the windows that `direction` sends, behind the handshake; `None` while that was not seen.
    #[inline]
    fn agreed_shift(&self, direction: usize) -> Option<u8> {
        match (self.shift[direction], self.shift[1 - direction]) {
            (UNSEEN, _) | (_, UNSEEN) => None,
            (NOT_OFFERED, _) | (_, NOT_OFFERED) => Some(0),
            (shift, _) => Some(shift),
        }
    }

    /// Whether a SYN opens another connection between the same endpoints: its number is not the one known. One shortly before
    /// what has been sent since, with the same scale, is that of this connection, late: a new one begins behind (RFC 6528).
    pub fn is_another(&self, direction: usize, segment: &Segment) -> bool {
        let first = segment.seq.wrapping_add(1);
        let (sent, acked) = (self.stamps[direction].sent_end(), self.stamps[direction].acked());
        let Some(known) = self.stamps[direction].known() else { return false };
        let scale = self.shift[direction];
        // Once all is said nothing of it can be late that counts.
        let late = !self.is_closing()
            && known.wrapping_sub(first) <= LATE_SYN
            && (scale == UNSEEN || scale == segment.options.shift.unwrap_or(NOT_OFFERED));
        !late && ![acked, sent].contains(&Some(first))
    }

    /// Whether a SYN comes from an end that was not heard before, of a connection whose other end was. After a silence it opens
    /// another: two ends that open at once (RFC 9293 §3.5) do so within a round trip, and say everything again in their
    /// SYN/ACKs.
    pub fn is_opened_anew(&self, direction: usize, segment: &Segment) -> bool {
        !segment.has(flags::ACK) && self.is_seen_only_in(1 - direction)
    }

    /// Another connection between the same endpoints: nothing that was known counts.
    pub fn begin_again(&mut self, now_ms: u32) {
        let v6 = self.is(kind::V6);
        let fresh = Self::new(self.number, self.identity, 0, false, v6, now_ms);
        let flipped = self.kind & kind::FLIPPED;
        *self = Self { next: self.next, kind: fresh.kind | flipped, marks: self.marks, ..fresh };
    }

    /// Whether the number of `segment` is such as its receiver looks at: no farther from what was acknowledged, on either side,
    /// than may be under way (RFC 9293 §3.10.7.4).
    #[inline]
    pub fn is_near(&self, direction: usize, segment: &Segment) -> bool {
        self.stamps[direction].is_near(segment.seq_end(), self.most_under_way(direction))
    }

    /// Notes what every packet of `direction` shows whose numbers its receiver looks at.
    #[inline]
    pub fn note(&mut self, direction: usize, segment: &Segment, now_ms: u32) {
        self.kind |= kind::SEEN << direction;
        if !self.is(kind::CLOSING) {
            self.seen_ms = now_ms;
        }
        let shut = kind::CLOSED << direction;
        self.kind = if segment.window == 0 { self.kind | shut } else { self.kind & !shut };
        self.kind |= match Untouchable::of(segment) {
            Some(Untouchable::Md5) => kind::MD5,
            Some(Untouchable::Authenticated) => kind::AUTHENTICATED,
            Some(Untouchable::Multipath) => kind::MULTIPATH,
            None => 0,
        };
    }

    /// Notes what a SYN or SYN/ACK of `direction` says about the connection; what comes again after both tells nothing.
    pub fn handshake(&mut self, direction: usize, segment: &Segment) {
        if self.shift.iter().all(|shift| *shift != UNSEEN) {
            return;
        }
        let v6 = self.is(kind::V6);
        self.shift[direction] = segment.options.shift.unwrap_or(NOT_OFFERED);
        let stamps = kind::TIMESTAMPS << direction;
        self.kind =
            if segment.options.timestamps.is_some() { self.kind | stamps } else { self.kind & !stamps };
        let default = if v6 { DEFAULT_MSS_V6 } else { DEFAULT_MSS };
        let mut mss = segment.options.mss.unwrap_or(default).max(LEAST_MSS);
        let both = self.shift[1 - direction] != UNSEEN;
        if both {
            mss = mss.min(self.halves[0].window.mss());
        }
        let mut headers = header_len(v6);
        if both && self.is(kind::TIMESTAMPS) && self.is(kind::TIMESTAMPS << 1) {
            mss = mss.saturating_sub(TIMESTAMPS_LEN);
            headers += u32::from(TIMESTAMPS_LEN);
        }
        for half in &mut self.halves {
            half.window = Window::new(mss, headers);
        }
    }

    /// Whether the largest segment comes from a handshake.
    pub const fn knows_mss(&self) -> bool {
        self.shift[0] != UNSEEN || self.shift[1] != UNSEEN
    }

    /// Whether a RST of `direction` is one that its receiver believes: its number is the next that is expected, which is what
    /// was acknowledged last or, before that is heard of, the end of what was sent; or it answers a SYN (RFC 9293 §3.5.3,
    /// RFC 5961 §3).
    pub fn believes_reset(&self, direction: usize, segment: &Segment) -> bool {
        let (own, other) = (&self.stamps[direction], &self.stamps[1 - direction]);
        match (own.acked(), own.sent_end()) {
            // Nothing of this direction has been numbered yet: it answers what the other has sent.
            (None, None) => segment.has(flags::ACK) && other.sent_end() == Some(segment.ack),
            (acked, sent) => [acked, sent].contains(&Some(segment.seq)),
        }
    }

    /// Whether both ends have acknowledged the other's SYN, so that neither address is made up.
    pub fn is_established(&self) -> bool {
        self.is_answered() && self.stamps.iter().all(|stamps| stamps.acked().is_some())
    }

    /// The most that may be under way in this direction: all that a window can say.
    pub fn most_under_way(&self, direction: usize) -> u32 {
        u32::from(u16::MAX) << self.agreed_shift(1 - direction).unwrap_or(14)
    }

    /// Notes FINs; `true` when the last word has just been acknowledged.
    pub fn closes(&mut self, direction: usize, segment: &Segment, now_ms: u32) -> bool {
        if segment.has(flags::FIN) {
            self.kind |= kind::FIN << direction;
        }
        let heard =
            |at: usize| self.is(kind::FIN << at) && self.stamps[at].acked() == self.stamps[at].sent_end();
        let done = !self.is(kind::CLOSING) && self.is(kind::FIN) && heard(0) && heard(1);
        if done {
            self.kind |= kind::CLOSING;
            self.seen_ms = now_ms;
        }
        done
    }
}

/// Bytes of IP and TCP header without options.
const fn header_len(v6: bool) -> u32 {
    if v6 { 60 } else { 40 }
}
