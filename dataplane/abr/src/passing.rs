//! A segment on its way through: what it tells, and what is done to its window.

use crate::connection::{Connection, Untouchable, mark};
use crate::counters::Counters;
use crate::hold::{LONGEST, Spell};
use crate::latency::{PARTS_SHIFT, Sampled};
use crate::policies::{Facts, NO_POLICY, Policies};
use crate::segment::{Checksum, Segment};
use crate::sequence::{after, octets};
use crate::settings::{Floor, Latency, LimitedBy};
use crate::spacing;
use crate::stamps::{Acked, Echoed, Sent};
use crate::window::{Bound, Offer, Times, optimal, room_behind_holes};
use perhop_units::{Bytes, Duration, Instant, Rate};
use perhop_wire::Layout;
use perhop_wire::layout::set_tcp_window;
use perhop_wire::tcp::flags;

/// Largest segment believed of a connection whose handshake was not seen: what is longer may be several in one frame.
const SEEN_MSS: u32 = 1_460;

/// The most that a link is believed to add to a packet, bytes.
const MAX_OVERHEAD: u32 = 65_535;

/// The longest time from the first copy of a segment to its acknowledgment that is believed to bound the latency where nothing
/// better is known, µs: a first time-out is 1 s (RFC 6298 §2), and half a second is for the path on one side. After a second
/// time-out, 3 s and more behind the first copy, a window for such a latency would hold nothing: it would be for tens of
/// times the rate, and be shown as controlled.
const MOST_AT_MOST_US: u32 = 1_500_000;

/// Farther beyond an acknowledgment than anything that is sent: half of the number space.
const BEYOND: u32 = u32::MAX >> 1;

/// What a sender is late at least that does not use the room it has, beyond the latency to it, µs: data may wait on their way to
/// here.
const LEAST_IDLE_US: u32 = 20_000;

/// Round trips at its rate for which a flow that had to send something again is taken for one that loses on the way: losses of
/// 0.05 % come as often with windows of 64 segments.
const LOSSY_ROUNDS: u64 = 32;

/// See the module.
pub(crate) struct Passing<'a> {
    pub segment: &'a Segment,
    pub facts: &'a Facts,
    pub layout: &'a Layout,
    /// Direction of the packet, and of the data that it acknowledges.
    pub direction: usize,
    pub acked: usize,
    pub at: Instant,
    pub now_us: u32,
    pub now_ms: u32,
    /// Whether what a sender had under way less than its rate needs is owed to it.
    pub credit: bool,
    /// Whether acknowledgments are spread over the round trip.
    pub spread: bool,
    /// When the acknowledgment before should have gone by the rate, where that is known.
    pub due: Option<Instant>,
}

/// What an acknowledgment acknowledges anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    pub octets: u32,
    /// Since the new one before, µs.
    pub apart_us: u32,
    /// What of that its receiver waited for, µs.
    pub waited_us: u32,
}

impl Passing<'_> {
    /// What a segment takes up of the sequence numbers.
    #[inline]
    pub fn data(&self, c: &mut Connection, policies: &mut Policies, counters: &mut Counters, frame: &[u8]) {
        let (d, segment) = (self.direction, self.segment);
        // A value far in the future would pass for the newest, so that of none behind it the echo would count.
        let clock = segment.options.timestamps.filter(|_| c.is_near(d, segment)).map(|(value, _)| value);
        if segment.payload == 0 && segment.flags & (flags::SYN | flags::FIN) == 0 {
            if let Some(value) = clock
                && c.stamps[d].note_clock(value, false, self.now_us)
            {
                let edge = c.halves[self.acked].window.limited_edge();
                c.stamps[d].put_aside(edge.unwrap_or(segment.ack.wrapping_add(BEYOND)));
            }
            return;
        }
        if !c.stamps[d].can_be_sent(segment.seq_end(), c.most_under_way(d)) {
            return;
        }
        let known = c.stamps[d].sent_end();
        match c.stamps[d].sent(segment.seq, segment.seq_end(), self.now_us, c.is_shut(self.acked)) {
            Sent::Ignored => return,
            Sent::New => {
                if let Some(value) = clock {
                    c.stamps[d].clock_passed(value);
                }
            }
            Sent::Again => {
                c.halves[d].retransmissions = c.halves[d].retransmissions.saturating_add(1);
                counters.retransmissions += 1;
                if let Some(value) = clock {
                    c.stamps[d].note_clock(value, true, self.now_us);
                }
            }
        }
        if let Some(known) = known {
            let after_us = c.stamps[d].since_acked_us(self.now_us);
            c.halves[d].window.came(segment.payload, octets(known, segment.seq_end()), after_us);
            if c.stamps[d].acked() == Some(known) && self.is_late(c, after_us) {
                c.stamps[d].ends_idleness();
            }
        }
        if c.has(self.acked, mark::PACED) {
            // It may have to wait behind held acknowledgments.
            c.stamps[d].unstamp_newest();
        }
        if segment.has(flags::SYN) && known.is_none() {
            c.stamps[d].opens();
        }
        self.choose(c, policies, frame);
        if segment.payload == 0 {
            return;
        }
        if !c.knows_mss() {
            let acked = c.stamps[d].acked();
            let mss = segment.payload.min(SEEN_MSS) as u16;
            c.halves[d].window.raise_mss(mss, segment.headers, acked);
        }
        let half = &mut c.halves[d];
        half.data_ms = self.now_ms;
        let overhead = policies.policy(half.policy).map_or(0, |policy| policy.overhead.min(MAX_OVERHEAD));
        half.window.passed(segment.payload, segment.headers + overhead);
        let id = half.policy;
        if let Some(counters) = policies.counters_mut(id) {
            counters.packets += 1;
            counters.bytes += u64::from(self.layout.ip_len);
        }
        // Until it was answered it may be made up.
        if !c.has(d, mark::LIVE) && c.stamps[d].acked().is_some() {
            c.marks[d] |= mark::LIVE;
            policies.join(id);
        }
    }

    /// Whether data come so long after an acknowledgment let them go that their sender did not have them then. Queues on the way to
    /// here may be as long as the path.
    fn is_late(&self, c: &Connection, after_us: u32) -> bool {
        let [right_us, left_us] = [self.direction, self.acked].map(|d| c.halves[d].latency.us());
        let least_us = LEAST_IDLE_US.max(right_us.saturating_add(left_us));
        // Acknowledgments that are held back leave later than they pass.
        after_us.saturating_sub(left_us) > least_us && !c.has(self.direction, mark::PACED)
    }

    /// Whether data that echo the clock of an acknowledgment needed that one to be let go: their sender had used up what it was let
    /// send before, so it did not wait for anything but the acknowledgment, unless it had no more just then.
    fn was_awaited(&self, c: &Connection) -> bool {
        let edge = c.stamps[self.acked].aside();
        edge.is_some_and(|edge| after(self.segment.seq_end(), edge))
            && !c.stamps[self.direction].is_recovering()
            // Acknowledgments that are held back leave later than they pass.
            && !c.has(self.direction, mark::PACED)
    }

    /// What an acknowledgment tells about the latency. What it acknowledges anew.
    #[inline]
    pub fn measure(&self, c: &mut Connection, policies: &Policies, counters: &mut Counters) -> Option<New> {
        let stamps = &mut c.stamps[self.acked];
        let acked = stamps.acknowledged(self.segment.ack, self.now_us);
        let (mut new, sample, at_most, spread, was_idle) = match acked {
            Acked::New { octets, sample, at_most, spread, apart_us, idle } => {
                (Some(New { octets, apart_us, waited_us: 0 }), sample, at_most, spread, idle)
            }
            Acked::Again | Acked::Old => (None, None, None, 0, false),
        };
        let echoed = self.segment.options.timestamps.and_then(|(_, echo)| {
            stamps.clock_echoed(echo, new.is_some(), self.now_us).filter(|_| sample.is_none())
        });
        let echoed = echoed.map(|echoed| echoed.within(at_most));
        // Of the side towards a sender that hears no data there may never be anything better.
        let at_most = at_most.filter(|us| *us <= MOST_AT_MOST_US && c.halves[self.acked].latency.us() == 0);
        if sample.is_none() && echoed.is_none() && at_most.is_none() {
            return new;
        }
        let policy = policies
            .policy(c.halves[self.acked].policy)
            .or_else(|| policies.policy(c.halves[self.direction].policy));
        let how = policy.map_or(Latency::PUBLISHED, |policy| policy.latency);
        let other_us = c.halves[self.direction].latency.us();
        let awaited = new.is_none() && self.was_awaited(c);
        let stamps = &mut c.stamps[self.acked];
        let half = &mut c.halves[self.acked];
        let mut lone = false;
        if let (Some(New { octets, apart_us, waited_us }), Some(rtt_us)) = (&mut new, sample)
            && half.latency.us() != 0
        {
            // A little beyond a whole segment does not have a receiver acknowledge it at once.
            let mss = u32::from(half.window.mss());
            let segments = octets.saturating_add(mss / 2) / mss;
            let above_us = rtt_us.saturating_sub(half.latency.us());
            // For what a sender does not send, though it may, a receiver waits in vain: that is the sender's time, neither the
            // window's nor the path's.
            let has_room = stamps.sent_end().is_some_and(|sent_end| half.window.has_room(sent_end));
            let idle = was_idle || has_room && apart_us.saturating_sub(other_us) > LEAST_IDLE_US;
            if !idle {
                *waited_us = half.waiting.sample(&mut stamps.prompt, segments, above_us, spread);
            }
            lone = idle && segments <= 1;
        }
        let filter = &mut half.latency;
        let sampled = match (sample, echoed) {
            (Some(us), _) | (None, Some(Echoed::OfData(us))) if !lone => {
                filter.sample(&how, self.now_us, us, other_us)
            }
            // There may be more in it than the path.
            (Some(us), _) | (None, Some(Echoed::OfData(us))) => filter.bound(&how, self.now_us, us, other_us),
            (None, Some(Echoed::OfAck(us))) => filter.echo(&how, self.now_us, us, other_us, awaited),
            (None, None) => match at_most {
                Some(us) => filter.bound(&how, self.now_us, us, other_us),
                None => return new,
            },
        };
        if sampled == Sampled::Refused && (lone || matches!(echoed, Some(Echoed::OfAck(_)))) {
            // It is not shorter, so it is no news.
            return new;
        }
        match sampled {
            Sampled::Taken => counters.samples += 1,
            Sampled::Refused => counters.samples_refused += 1,
            Sampled::Reinitialised => {
                counters.samples += 1;
                counters.reinitialised += 1;
            }
        }
        new
    }

    /// Lowers the window of an acknowledgment, of something `new` unless it repeats an earlier one. For how long the sender may
    /// send what it lets it, if the policy paces and a window cannot express it.
    #[inline]
    pub fn limit(
        &self,
        new: Option<New>,
        c: &mut Connection,
        policies: &mut Policies,
        counters: &mut Counters,
        frame: &mut [u8],
        checksum: Checksum,
    ) -> Option<Spell> {
        let (o, segment) = (self.acked, self.segment);
        let terms = Terms::of(c, policies, counters, self)?;
        let stamps = &c.stamps[o];
        let mut offer = Offer {
            ack: segment.ack,
            field: segment.window,
            shift: terms.shift,
            sent_end: stamps.sent_end(),
            on_its_way: 0,
            room: 0,
            allow_shrink: terms.allow_shrink,
            credit: self.credit,
            opens: segment.has(flags::SYN),
        };
        let half = &mut c.halves[o];
        let paced = terms.span.filter(|_| !segment.has(flags::SYN));
        let mut spell =
            paced.map(|slack| Spell { time: Duration::ZERO, gap: Duration::ZERO, slack, longest: LONGEST });
        if let Some(New { octets: acked, apart_us, waited_us }) = new {
            let ratio = half.window.ratio();
            let sent_end = offer.sent_end.unwrap_or(segment.ack);
            let on_its_way = optimal(terms.share_bps, ratio, terms.left_parts) >> 8;
            offer.on_its_way = on_its_way.min(1 << 30) as u32;
            let used_up = half.window.limit() != 0 && half.window.is_used_up(sent_end, offer.on_its_way);
            let mut optimal = optimal(terms.share_bps, ratio, terms.rtt_parts);
            let time = || time_of(terms.share_bps, ratio, acked);
            let us = |parts: u64| u32::try_from(parts >> PARTS_SHIFT).unwrap_or(u32::MAX);
            let (rtt_us, left_us) = (us(terms.rtt_parts), us(terms.left_parts));
            let times = Times { rtt_us, left_us, apart_us, waited_us };
            let lately = ((optimal >> 8) * LOSSY_ROUNDS).min(1 << 30) as u32;
            if half.retransmissions > 0 && stamps.has_repaired_within(lately) {
                offer.room = terms.room(optimal, half.window.mss(), octets(segment.ack, sent_end));
            }
            let step = u32::from(half.window.mss()).max(1 << terms.shift);
            let spread = self.spread && paced.is_none() && !segment.has(flags::SYN);
            if let Some(window) = spread.then(|| spacing::window(optimal, step, &times)).flatten() {
                optimal = u64::from(window) << 8;
                offer.credit = false;
            } else if let Some(due) = self.due.filter(|_| spread && self.credit) {
                half.window.owe_time(optimal, (self.at, due + time()), &times);
            } else if self.credit && paced.is_none() {
                // What is held here is under way as well.
                half.window.settle(optimal, acked, &offer, &times);
            }
            let bound = half.window.advance(optimal, acked, &offer);
            let by = match bound {
                Bound::Receiver => LimitedBy::Receiver,
                Bound::Floor => LimitedBy::Floor,
                Bound::Rate if used_up && !stamps.is_recovering() => LimitedBy::Abr,
                Bound::Rate => LimitedBy::Congestion,
            };
            if bound == Bound::Floor {
                counters.floor_limited += 1;
                if let Some(counters) = policies.counters_mut(half.policy) {
                    counters.floor_limited += 1;
                }
            }
            if acked > 0
                && !segment.has(flags::SYN)
                && (paced.is_some() || (terms.pace && bound == Bound::Floor))
            {
                let slack = paced.unwrap_or(Duration::ZERO);
                spell = Some(Spell { time: time(), gap: Duration::ZERO, slack, longest: LONGEST });
            } else if acked > 0 && spread {
                let bare = segment.payload == 0 && !segment.has(flags::FIN) && !stamps.is_recovering();
                let even = spacing::spell(time(), acked, (step, half.window.limit()), &times);
                // Data, and what tells of a loss, are not held for what they acknowledge.
                spell = Some(if bare { even } else { Spell { longest: Duration::ZERO, ..even } });
            }
            c.set_limited_by(o, by);
        }
        let half = &mut c.halves[o];
        if half.window.limit() != 0 {
            let field = half.window.field(&offer);
            if field < segment.window {
                write_window(frame, self.layout, field, checksum);
                half.rewritten = half.rewritten.saturating_add(1);
                counters.rewritten += 1;
                if let Some(counters) = policies.counters_mut(half.policy) {
                    counters.rewritten += 1;
                }
            }
        }
        spell
    }

    /// Finds the policy of a flow, when what it depends on has changed.
    #[inline]
    fn choose(&self, c: &mut Connection, policies: &mut Policies, frame: &[u8]) {
        let (d, facts, layout) = (self.direction, self.facts, self.layout);
        let generation = policies.generation();
        let digest = facts.digest(layout.tos >> 2, generation);
        let half = &mut c.halves[d];
        if half.digest == digest && c.generation[d] == generation as u8 {
            return;
        }
        let id = policies.choose(facts, frame, layout);
        let old = std::mem::replace(&mut half.policy, id);
        half.digest = digest;
        c.generation[d] = generation as u8;
        if c.has(d, mark::LIVE) && old != id {
            policies.leave(old);
            policies.join(id);
        }
    }
}

/// Under which terms a flow is limited.
struct Terms {
    share_bps: u64,
    shift: u8,
    rtt_parts: u64,
    /// Latency towards the sender.
    left_parts: u64,
    allow_shrink: bool,
    pace: bool,
    /// The policy's, if the round trip is shorter.
    span: Option<Duration>,
}

impl Terms {
    /// See [`room_behind_holes`].
    fn room(&self, optimal: u64, mss: u16, seen: u32) -> u32 {
        room_behind_holes(optimal, mss, seen, self.rtt_parts - self.left_parts, self.rtt_parts)
    }

    /// The terms for the window in a segment; `None`, counted, when it is left alone.
    #[inline]
    fn of(c: &mut Connection, policies: &Policies, counters: &mut Counters, p: &Passing<'_>) -> Option<Self> {
        let id = c.halves[p.acked].policy;
        let policy = match policies.policy(id) {
            Some(policy) if id != NO_POLICY => policy,
            _ => {
                counters.bypassed_not_matched += 1;
                c.halves[p.acked].window.release();
                return None;
            }
        };
        let share_bps = if c.has(p.acked, mark::LIVE) { policies.share(id) } else { policies.next_share(id) };
        if share_bps == 0 {
            c.halves[p.acked].window.release();
            return None;
        }
        if let Some(why) = c.untouchable().or(Untouchable::of(p.segment)) {
            *match why {
                Untouchable::Md5 => &mut counters.bypassed_md5,
                Untouchable::Authenticated => &mut counters.bypassed_ao,
                Untouchable::Multipath => &mut counters.bypassed_mptcp,
            } += 1;
            return None;
        }
        let Some(shift) = c.shift(p.direction, p.segment, policy) else {
            counters.bypassed_unknown_shift += 1;
            return None;
        };
        let right = c.halves[p.acked].latency.parts();
        let left = c.halves[p.direction].latency.parts();
        let waited = u64::from(c.halves[p.acked].waiting.us()) << PARTS_SHIFT;
        let syn = p.segment.has(flags::SYN);
        if syn && !policy.limit_syn_ack {
            return None;
        }
        let known = if syn {
            right != 0
        } else if policy.local {
            right | left != 0
        } else {
            right != 0 && left != 0
        };
        if !known {
            counters.bypassed_no_latency += 1;
            if !syn {
                // As it passes, it must come again: a limit from the handshake does not hold any more.
                c.halves[p.acked].window.release();
            }
            return None;
        }
        let rtt_parts = u64::from(right) + u64::from(left) + waited;
        let pace = policy.floor == Floor::Pace;
        let least = (policy.span.as_nanos() / 1_000) << PARTS_SHIFT;
        let span = (pace && rtt_parts < least).then_some(policy.span);
        Some(Self {
            share_bps,
            shift,
            rtt_parts: if span.is_some() { least } else { rtt_parts },
            left_parts: u64::from(left),
            allow_shrink: policy.allow_shrink,
            pace,
            span,
        })
    }
}

/// Time that the rate needs for what an acknowledgment of `octets` lets the sender send: as much again. Of a window that was
/// rounded up to its scale senders use part of a segment too, so counting whole segments would hold them too long.
fn time_of(share_bps: u64, ratio: u16, octets: u32) -> Duration {
    Rate(share_bps).time_for(Bytes((u64::from(octets) << 16).div_ceil(u64::from(ratio.max(1)))))
}

/// Writes the window field, with the checksum if that is complete.
#[inline]
fn write_window(frame: &mut [u8], layout: &Layout, field: u16, checksum: Checksum) {
    match checksum {
        Checksum::Complete => {
            set_tcp_window(frame, layout, field);
        }
        Checksum::Partial => {
            let at = usize::from(layout.l4_offset) + 14;
            if let Some(bytes) = frame.get_mut(at..at + 2) {
                bytes.copy_from_slice(&field.to_be_bytes());
            }
        }
    }
}
