//! A connection as both ends see it, and the rules for its windows.

use super::tcp::Tcp;
use super::{Allowed, Judged};
use perhop_units::{Duration, Instant};
use perhop_wire::tcp::flags::{ACK, FIN, RST, SYN};

/// Nobody takes up a connection that was silent so long for the same, nor has a new one forgotten so soon.
const SILENT: Duration = Duration::from_secs(29);
/// A SYN with another number is believed for certain after a silence this long.
const QUIET: Duration = Duration::from_millis(1_000);
/// Two segments in a SYN/ACK: Linux sends at most half of the largest window that it has seen at once.
const FIRST_SEGMENTS: u32 = 2;

/// A segment on its way: which end sends it, as it was, its window as it is.
pub(super) struct Pass<'a> {
    pub from: usize,
    pub was: &'a Tcp,
    pub is: u16,
    pub lowered: bool,
}

/// What one end has sent, and what it was let send.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Its SYN, which opened the connection.
    syn: Option<Tcp>,
    /// End of what it has sent, and of what a probe of a single octet may have been.
    sent: Option<(u32, u32)>,
    fin: bool,
    /// Newest acknowledgment of its data, the window in it before and after, and whether in a SYN.
    newest: Option<(u32, u16, u16, bool)>,
    /// Right edge that stands for it, and, once limiting has begun, where it must stay.
    edge: Option<u32>,
    limited: Option<u32>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    ends: [End; 2],
    /// Both ends have said at some time how their windows are scaled.
    said: [bool; 2],
    /// Where each end's numbers were last.
    reached: [Option<u32>; 2],
    signed: bool,
    /// Everything since the handshake was seen and believed.
    pub certain: bool,
    heard: Instant,
    /// When a segment passed whose numbers its receiver looks at: what is far off keeps no connection.
    alive: Instant,
    known: bool,
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether one lies no more than `most` behind the other.
fn are_near(a: u32, b: u32, most: u32) -> bool {
    a.wrapping_sub(b) <= most || b.wrapping_sub(a) <= most
}

fn later(a: Option<u32>, b: u32) -> u32 {
    a.filter(|a| before(b, *a)).unwrap_or(b)
}

impl Connection {
    pub fn new(now: Instant) -> Self {
        Self {
            ends: [End::default(); 2],
            said: [false; 2],
            reached: [None; 2],
            signed: false,
            certain: false,
            heard: now,
            alive: now,
            known: false,
        }
    }

    pub fn judge(
        &mut self,
        now: Instant,
        allowed: Option<&Allowed>,
        p: &Pass<'_>,
        judged: &mut Judged,
    ) -> Result<(), String> {
        self.follow(now, p);
        if p.was.has(SYN) {
            self.said[p.from] = true;
        }
        self.signed |= p.was.signed;
        if p.was.signed && !self.is_of_now(p) {
            // Whether it tells anything about the connection nobody knows.
            self.certain = false;
        }
        let Some(allowed) = allowed else {
            self.ends[1 - p.from].newest = None;
            self.certain = false;
            return if p.lowered { Err("a flow without a policy was limited".into()) } else { Ok(()) };
        };
        if p.lowered {
            self.may_be_lowered(allowed, p)?;
        }
        if self.certain && !self.signed && p.was.has(ACK) {
            self.acknowledged(allowed, p, judged)
        } else {
            Ok(())
        }
    }

    /// Whether a segment's receiver looks at its numbers, for all that is known.
    fn is_of_now(&self, p: &Pass<'_>) -> bool {
        let near = |end: usize, number: u32| {
            self.ends[end].sent.is_none_or(|(sent, _)| are_near(sent, number, 1 << 16))
        };
        near(p.from, p.was.end()) && (!p.was.has(ACK) || near(1 - p.from, p.was.ack))
    }

    /// The rules for a packet alone.
    fn may_be_lowered(&self, allowed: &Allowed, p: &Pass<'_>) -> Result<(), String> {
        let broken = if !p.was.has(ACK) || p.was.has(RST) {
            "it acknowledges nothing"
        } else if p.is >= p.was.window {
            "the window was raised"
        } else if p.is == 0 {
            "the window was shut"
        } else if p.was.signed || self.certain && self.signed {
            "it is signed"
        } else if p.was.has(SYN) && !allowed.limit_syn_ack {
            "a SYN/ACK is not to be limited"
        } else if !p.was.has(SYN) && self.said != [true; 2] && allowed.assume_shift.is_none() {
            "nobody knows how its window is scaled"
        } else {
            return Ok(());
        };
        Err(broken.into())
    }

    /// Notes what is sent, and whether the connection can still be followed.
    fn follow(&mut self, now: Instant, p: &Pass<'_>) {
        let silent = now.since(self.heard);
        let fresh = !self.known || silent >= QUIET;
        let forgotten = now.since(self.alive) >= SILENT;
        (self.heard, self.known) = (now, true);
        if self.is_of_now(p) || p.was.has(SYN) {
            self.alive = now;
        }
        let (was, mut opened) = (p.was, false);
        if was.has(SYN)
            && self.ends[p.from].syn.is_none_or(|syn| syn.seq != was.seq || syn.payload != was.payload)
        {
            let answers = was.has(ACK)
                && self.certain
                && self.ends[p.from].sent.is_none()
                && self.ends[1 - p.from].syn.is_some_and(|syn| was.ack == syn.end());
            if !answers {
                // A number close to the old ones may be taken for a part of the old connection.
                let near = self.reached[p.from].is_some_and(|old| are_near(old, was.seq, (1 << 20) - 1));
                let certain = fresh && !near && !was.has(ACK);
                *self = Self { ends: [End::default(); 2], signed: false, certain, ..*self };
                opened = true;
            }
        } else if was.has(SYN) && self.ends[1 - p.from].newest.is_some() {
            // It comes again, late.
            self.certain &=
                self.ends[p.from].newest.is_none_or(|(number, ..)| number == was.seq.wrapping_add(1));
        }
        self.reached[p.from] = Some(was.end());
        if was.has(SYN) && self.ends[p.from].syn.is_some_and(|syn| syn.shift != was.shift) {
            // The same number with another scale: of which connection it is nobody knows.
            self.certain = false;
        }
        if was.has(RST) || forgotten && !opened {
            self.certain = false;
        }
        if !self.certain {
            return;
        }
        let complete = self.ends.iter().all(|end| end.syn.is_some());
        let window =
            if complete { u32::from(u16::MAX) << self.shift(1 - p.from) } else { u32::from(u16::MAX) };
        let end = &mut self.ends[p.from];
        if was.has(SYN) && !complete {
            end.syn = Some(*was);
        }
        if was.payload == 0 && !was.has(SYN) && !was.has(FIN) {
            return;
        }
        let (sent, most) = match end.sent {
            None if was.has(SYN) => (was.end(), was.end()),
            None => {
                self.certain = false;
                return;
            }
            Some((sent, most)) => {
                let known = end.newest.map_or(sent, |(number, ..)| number);
                let ahead = was.end().wrapping_sub(known) as i32;
                if ahead > 0 && ahead as u32 > window {
                    // Beyond every window; whether a little beyond is believed is a matter of opinion.
                    self.certain &= ahead as u32 > window.saturating_add(1 << 17) && ahead < 1 << 30;
                    return;
                }
                self.certain &= ahead > -(1 << 30);
                let probe = was.end().wrapping_sub(was.seq) == 1;
                (if probe { sent } else { later(Some(sent), was.end()) }, later(Some(most), was.end()))
            }
        };
        end.sent = Some((sent, most));
        end.fin |= was.has(FIN);
        if self.ends.iter().all(|end| end.fin) {
            self.certain = false;
        }
    }

    /// Scale of the windows that `end` sends.
    fn shift(&self, end: usize) -> u8 {
        let shift = |end: usize| self.ends[end].syn.and_then(|syn| syn.shift);
        if shift(1 - end).is_some() { shift(end).unwrap_or(0) } else { 0 }
    }

    /// Data of a full segment.
    fn segment(&self) -> u32 {
        let syns = self.ends.iter().filter_map(|end| end.syn);
        let mss = syns.clone().map(|syn| syn.mss.unwrap_or(if syn.v6 { 1220 } else { 536 }).max(64)).min();
        let clocks = syns.filter(|syn| syn.clock).count() == 2;
        u32::from(mss.unwrap_or(64).saturating_sub(if clocks { 12 } else { 0 }).max(64))
    }

    /// The rules for what acknowledgments say one after the other.
    fn acknowledged(&mut self, allowed: &Allowed, p: &Pass<'_>, judged: &mut Judged) -> Result<(), String> {
        let (ack, syn) = (p.was.ack, p.was.has(SYN));
        let complete = self.ends.iter().all(|end| end.syn.is_some());
        let shift = if syn { 0 } else { self.shift(p.from) };
        let (own, got) = (u32::from(p.was.window) << shift, u32::from(p.is) << shift);
        let least = self.segment() * if syn { FIRST_SEGMENTS } else { 1 };
        let end = &mut self.ends[1 - p.from];
        let Some((sent, most)) = end.sent.filter(|_| complete) else {
            // It acknowledges what nobody has seen.
            self.certain = false;
            return Ok(());
        };
        if before(most, ack) {
            // Nobody believes it; unless it passed elsewhere.
            self.certain &= ack.wrapping_sub(most) > 1 << 17 && ack.wrapping_sub(most) < 1 << 30;
            return Ok(());
        }
        judged.followed += u64::from(p.lowered);
        judged.opened += u64::from(p.lowered && syn);
        if p.lowered && got < least {
            return Err(format!("{got} octets are less than {least}"));
        }
        let newest = end.newest;
        if newest.is_some_and(|(number, ..)| before(ack, number)) {
            return Ok(());
        }
        if let Some((number, field, written, opened)) = newest
            && number == ack
            && !syn
            && !opened
        {
            judged.repeated += u64::from(written < field);
            let repeats = if written < field { written.min(p.was.window) } else { field.min(p.was.window) };
            let right =
                if written < field || field == p.was.window { p.is == repeats } else { p.is >= repeats };
            if !right {
                return Err(format!("it repeats an acknowledgment whose window was {written} of {field}"));
            }
        }
        end.newest = Some((ack, p.was.window, p.is, syn));
        if syn && end.limited.is_some() {
            // A SYN/ACK that comes again, late, tells the other end nothing.
            return Ok(());
        }
        let stands = match end.limited {
            Some(edge) => Some(edge),
            None => end.edge.map(|edge| if before(edge, sent) { edge } else { sent }),
        };
        let stands = stands.map_or(0, |edge| if before(edge, ack) { 0 } else { edge.wrapping_sub(ack) });
        // A scale that can say no single segment cannot say every edge (RFC 7323 §2.4).
        let coarse = if 1 << shift > least { (1 << shift) - 1 } else { 0 };
        if !allowed.allow_shrink && got.saturating_add(coarse) < own.min(stands) {
            let when = if end.limited.is_some() { "stood" } else { "is needed for data" };
            return Err(format!("the right edge is {} octets left of where it {when}", stands - got));
        }
        if p.lowered && stands > 0 && got < stands + (1 << shift) {
            let count = if end.limited.is_some() { &mut judged.edges } else { &mut judged.begun };
            *count += 1;
        }
        let edge = ack.wrapping_add(got);
        if !syn && (end.limited.is_some() || p.lowered) {
            end.limited = Some(later(end.limited.filter(|_| !allowed.allow_shrink), edge));
        }
        // What the receiver itself takes back is not for others to keep.
        let its_own = ack.wrapping_add(own);
        let stood = later(end.edge.filter(|_| !allowed.allow_shrink), edge);
        end.edge = Some(if before(its_own, stood) { its_own } else { stood });
        Ok(())
    }
}
