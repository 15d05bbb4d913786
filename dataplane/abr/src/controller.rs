//! The machine: what happens to a segment, and what happens with time. The same in a router and on an end host.

use crate::connection::{Connection, Untouchable, mark};
use crate::counters::Counters;
use crate::hold::Pacing;
use crate::latency::Sampled;
use crate::policies::{Facts, NO_POLICY, Policies, PolicyCounters};
use crate::segment::Segment;
use crate::settings::{AbrPolicyId, Floor, Latency, LimitedBy, Settings};
use crate::stamps::{Acked, Echoed, Sent};
use crate::state::FlowState;
use crate::table::{Found, Locator, Table};
use crate::window::{Bound, Offer, optimal};
use perhop_units::{Bytes, Duration, Instant, Rate};
use perhop_wire::Layout;
use perhop_wire::layout::set_tcp_window;
use perhop_wire::tcp::flags;
use std::ops::Range;
use std::sync::Arc;

/// A connection is kept this long after its last word, for a last acknowledgment that must be sent again.
const LINGER_MS: u32 = 10_000;
/// Silence after which a connection is forgotten; one that was never answered sooner.
const SILENT_MS: u32 = 300_000;
const UNANSWERED_MS: u32 = 30_000;
/// The longest between two looks at a connection.
const LOOK_MS: u64 = 10_000;
/// Largest segment believed of a connection whose handshake was not seen: what is longer may be several in one frame.
const SEEN_MSS: u32 = 1_460;
/// Flows that are paced at once.
const PACED: usize = 4_096;

/// State of the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Right, and kept right.
    Complete,
    /// A network card will complete it: it holds the pseudo-header's part and is not touched.
    Partial,
}

/// What is to become of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Goes on.
    Pass,
    /// Goes on at this time, see [`crate::Held`].
    HoldUntil(Instant),
}

/// A segment on its way through.
struct Passing<'a> {
    segment: &'a Segment,
    slot: u32,
    /// Direction of the packet, and of the data that it acknowledges.
    direction: usize,
    acked: usize,
    at: Instant,
    now_us: u32,
    now_ms: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    table: Table,
    policies: Policies,
    pacing: Pacing,
    counters: Counters,
}

impl Controller {
    /// For at most `connections` connections, keyed by `seed`. Reserves all memory it will use.
    pub fn new(connections: usize, settings: Arc<Settings>, seed: u64) -> Self {
        Self {
            table: Table::new(connections, seed),
            policies: Policies::new(settings),
            pacing: Pacing::new(PACED.min(2 * connections)),
            counters: Counters::default(),
        }
    }

    /// Takes another key for its hash. Only before the first segment.
    pub fn rekey(&mut self, seed: u64) {
        self.table.rekey(seed);
    }

    /// Puts `settings` into force and returns the old ones. Flows find their policies again with their next data; without
    /// policies everything is forgotten. O(policies).
    pub fn replace(&mut self, settings: Arc<Settings>) -> Arc<Settings> {
        let old = self.policies.replace(settings);
        if self.policies.is_empty() {
            self.counters.ended += self.table.len() as u64;
            self.table.clear();
            self.pacing.clear();
            self.policies.forget_flows();
        }
        old
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        self.policies.settings()
    }
    /// Whether there is no policy, so that no segment need be shown.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.policies.is_empty()
    }
    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// The counters, for what happens to held packets.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
    /// What policy `id` has done.
    pub fn policy_counters(&self, id: AbrPolicyId) -> PolicyCounters {
        self.policies.counters(id)
    }
    /// Connections now.
    pub fn connections(&self) -> usize {
        self.table.len()
    }
    /// Slots, free ones included: all are below.
    pub fn slots(&self) -> u32 {
        self.table.slots()
    }
    /// The flows that belong to a policy in the slots of `range`. O(length of the range).
    pub fn flows(&self, range: Range<u32>) -> impl Iterator<Item = FlowState> + '_ {
        let range = range.start..range.end.min(self.slots());
        let used = range.filter_map(|slot| self.table.connection(slot).map(|c| (slot, c)));
        used.flat_map(|(slot, c)| [0, 1].map(|direction| FlowState::of(slot, c, direction, &self.policies)))
            .flatten()
    }

    /// Brings near what the search for connection `number` begins with.
    #[inline]
    pub fn prefetch_number(&self, number: u32) {
        self.table.prefetch_number(number);
    }
    /// Brings connection `number` near.
    #[inline]
    pub fn prefetch_connection(&self, number: u32) {
        self.table.prefetch_connection(number);
    }

    /// A packet passes at `at`: is measured, counted, and its window lowered if need be. Only the window and the
    /// checksum of `frame` ever change.
    pub fn segment(
        &mut self,
        at: Instant,
        locator: Locator,
        facts: &Facts,
        layout: &Layout,
        frame: &mut [u8],
        checksum: Checksum,
    ) -> Verdict {
        let Some(segment) = Segment::read(frame, layout) else { return Verdict::Pass };
        let Some(ends) = self.table.ends(frame, layout) else { return Verdict::Pass };
        self.counters.segments += 1;
        let now_ms = at.as_nanos() / 1_000_000;
        let reset = segment.has(flags::RST);
        let slot = match self.table.find(locator, ends, layout.ip_version == 6, now_ms, !reset) {
            Found::Known(slot) => slot,
            Found::Made(slot) => {
                self.counters.created += 1;
                self.table.park(slot, now_ms, self.look_ms());
                slot
            }
            Found::Nothing => return Verdict::Pass,
            Found::Full => match self.table.spare(now_ms) {
                None => {
                    self.counters.table_full += 1;
                    return Verdict::Pass;
                }
                Some(slot) => {
                    self.counters.evicted += u64::from(self.table.connection(slot).is_some());
                    self.counters.created += 1;
                    self.forget(slot);
                    self.table.displace(slot, locator, ends, layout.ip_version == 6, now_ms);
                    slot
                }
            },
        };
        let direction = ends.direction;
        let passing = Passing {
            segment: &segment,
            slot,
            direction,
            acked: 1 - direction,
            at,
            now_us: (at.as_nanos() / 1_000) as u32,
            now_ms: now_ms as u32,
        };
        if reset {
            if self.table.connection_mut(slot).believes_reset(direction, &segment) {
                self.counters.ended += 1;
                self.forget(slot);
            }
            return Verdict::Pass;
        }
        if segment.has(flags::SYN) {
            self.synchronise(&passing);
        }
        self.table.connection_mut(slot).note(direction, &segment, passing.now_ms);
        self.data(&passing, facts, frame, layout);
        let mut verdict = Verdict::Pass;
        if segment.has(flags::ACK) {
            let new = self.measure(&passing);
            verdict = self.limit(&passing, new, layout, frame, checksum);
        }
        if self.table.connection_mut(slot).closes(direction, &segment, passing.now_ms) {
            self.leave_both(slot);
        }
        verdict
    }

    /// A SYN: another connection between the same endpoints begins anew, and what it says counts.
    fn synchronise(&mut self, p: &Passing<'_>) {
        if self.table.connection_mut(p.slot).is_another(p.direction, p.segment) {
            self.leave_both(p.slot);
            self.counters.ended += 1;
            self.counters.created += 1;
            let c = self.table.connection_mut(p.slot);
            c.begin_again(p.now_ms);
        }
        self.table.connection_mut(p.slot).handshake(p.direction, p.segment);
    }

    /// What a segment takes up of the sequence numbers.
    #[inline]
    fn data(&mut self, p: &Passing<'_>, facts: &Facts, frame: &[u8], layout: &Layout) {
        let Self { table, policies, counters, .. } = self;
        let c = table.connection_mut(p.slot);
        let (d, segment) = (p.direction, p.segment);
        let clock = segment.options.timestamps.map(|(value, _)| value);
        if segment.payload == 0 && segment.flags & (flags::SYN | flags::FIN) == 0 {
            if let Some(value) = clock {
                c.stamps[d].note_clock(value, false, p.now_us);
            }
            return;
        }
        match c.stamps[d].sent(segment.seq, segment.seq_end(), p.now_us, c.is_shut(p.acked)) {
            Sent::Ignored => return,
            Sent::New => {}
            Sent::Again => {
                c.halves[d].retransmissions = c.halves[d].retransmissions.saturating_add(1);
                counters.retransmissions += 1;
                if let Some(value) = clock {
                    c.stamps[d].note_clock(value, true, p.now_us);
                }
            }
        }
        if c.has(p.acked, mark::PACED) {
            // It may have to wait behind held acknowledgments.
            c.stamps[d].unstamp_newest();
        }
        choose(c, policies, d, facts, frame, layout);
        if segment.payload == 0 {
            return;
        }
        if !c.knows_mss() {
            c.halves[d].window.raise_mss(segment.payload.min(SEEN_MSS) as u16, segment.headers);
        }
        let half = &mut c.halves[d];
        half.data_ms = p.now_ms;
        let overhead = policies.policy(half.policy).map_or(0, |policy| policy.overhead);
        half.window.passed(segment.payload, segment.headers + overhead);
        let id = half.policy;
        if let Some(counters) = policies.counters_mut(id) {
            counters.packets += 1;
            counters.bytes += u64::from(layout.ip_len);
        }
        // Until it was answered it may be made up.
        if !c.has(d, mark::LIVE) && c.stamps[d].acked().is_some() {
            c.marks[d] |= mark::LIVE;
            policies.join(id);
        }
    }

    /// What an acknowledgment tells about the latency. Whether it is new.
    #[inline]
    fn measure(&mut self, p: &Passing<'_>) -> Option<u32> {
        let Self { table, policies, counters, .. } = self;
        let c = table.connection_mut(p.slot);
        let stamps = &mut c.stamps[p.acked];
        let (new, sample) = match stamps.acknowledged(p.segment.ack, p.now_us) {
            Acked::New { octets, sample } => (Some(octets), sample),
            Acked::Again | Acked::Old => (None, None),
        };
        let echoed = p.segment.options.timestamps.and_then(|(_, echo)| {
            stamps.clock_echoed(echo, new.is_some(), p.now_us).filter(|_| sample.is_none())
        });
        if sample.is_none() && echoed.is_none() {
            return new;
        }
        let policy = policies
            .policy(c.halves[p.acked].policy)
            .or_else(|| policies.policy(c.halves[p.direction].policy));
        let how = policy.map_or(Latency::PUBLISHED, |policy| policy.latency);
        let other_us = c.halves[p.direction].latency.us();
        let filter = &mut c.halves[p.acked].latency;
        let sampled = match (sample, echoed) {
            (Some(us), _) | (None, Some(Echoed::OfData(us))) => filter.sample(&how, p.now_us, us, other_us),
            (None, Some(Echoed::OfAck(us))) => match filter.bound(&how, p.now_us, us, other_us) {
                // It was not shorter: no news.
                Sampled::Refused => return new,
                sampled => sampled,
            },
            (None, None) => return new,
        };
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

    /// Lowers the window of an acknowledgment, of `new` octets unless it repeats an earlier one.
    #[inline]
    fn limit(
        &mut self,
        p: &Passing<'_>,
        new: Option<u32>,
        layout: &Layout,
        frame: &mut [u8],
        checksum: Checksum,
    ) -> Verdict {
        let Self { table, policies, pacing, counters } = self;
        let c = table.connection_mut(p.slot);
        let (o, segment) = (p.acked, p.segment);
        let flow = p.slot << 1 | o as u32;
        let Some(terms) = Terms::of(c, policies, counters, p) else {
            return follow(c, pacing, counters, flow, p);
        };
        let stamps = &c.stamps[o];
        let offer = Offer {
            ack: segment.ack,
            field: segment.window,
            shift: terms.shift,
            sent_end: stamps.sent_end(),
            allow_shrink: terms.allow_shrink,
        };
        let half = &mut c.halves[o];
        let mut spell = None;
        if let Some(octets) = new {
            let ratio = half.window.ratio();
            let on_its_way = optimal(terms.share_bps, ratio, terms.left_parts) >> 8;
            let sent_end = offer.sent_end.unwrap_or(segment.ack);
            let used_up =
                half.window.limit() != 0 && half.window.is_used_up(sent_end, on_its_way.min(1 << 30) as u32);
            let bound = half.window.advance(optimal(terms.share_bps, ratio, terms.rtt_parts), &offer);
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
                if terms.pace && octets > 0 && !segment.has(flags::SYN) {
                    spell = Some(spell_of(terms.share_bps, half.window.mss(), ratio, octets));
                }
            }
            c.set_limited_by(o, by);
        }
        let half = &mut c.halves[o];
        if half.window.limit() != 0 {
            let field = half.window.field(&offer);
            if field < segment.window {
                write_window(frame, layout, field, checksum);
                half.rewritten = half.rewritten.saturating_add(1);
                counters.rewritten += 1;
                if let Some(counters) = policies.counters_mut(half.policy) {
                    counters.rewritten += 1;
                }
            }
        }
        let Some(spell) = spell else { return follow(c, pacing, counters, flow, p) };
        match pacing.space(flow, p.at, spell) {
            Some(until) => {
                c.marks[o] |= mark::PACED;
                hold(until, counters, p)
            }
            None => Verdict::Pass,
        }
    }

    /// Looks at connections whose turn has come, `budget` at most; whether there are more.
    pub fn tick(&mut self, now: Instant, budget: usize) -> bool {
        let now_ms = now.as_nanos() / 1_000_000;
        for _ in 0..budget {
            let Some(slot) = self.table.next_due(now_ms) else { return false };
            match self.look(slot, now_ms as u32) {
                Some(in_ms) => self.table.park(slot, now_ms, in_ms),
                None => {
                    self.counters.ended += 1;
                    self.forget(slot);
                    self.table.reclaim(slot);
                }
            }
        }
        true
    }

    /// When [`Controller::tick`] has something to do.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.table.next_look_ms().map(|ms| Instant(ms * 1_000_000))
    }

    /// How long until a new connection is looked at: no longer than a flow of it may be silent.
    fn look_ms(&self) -> u64 {
        self.policies.shortest_idle().map_or(LOOK_MS, |idle| idle.as_nanos() / 1_000_000).clamp(1, LOOK_MS)
    }

    /// Takes flows that are silent out of the sharing. When to look again, ms; `None`: the connection is over.
    fn look(&mut self, slot: u32, now_ms: u32) -> Option<u64> {
        let mut next = self.look_ms();
        let Self { table, policies, .. } = self;
        let c = table.connection_mut(slot);
        let silent = now_ms.wrapping_sub(c.seen_ms);
        let kept = if c.is_closing() {
            LINGER_MS
        } else if c.is_answered() {
            SILENT_MS
        } else {
            UNANSWERED_MS
        };
        if silent >= kept {
            return None;
        }
        next = next.min(u64::from(kept - silent));
        for d in 0..2 {
            if !c.has(d, mark::LIVE) {
                continue;
            }
            let id = c.halves[d].policy;
            let idle =
                policies.policy(id).map_or(Duration::ZERO, |policy| policy.idle).as_nanos() / 1_000_000;
            let age = u64::from(now_ms.wrapping_sub(c.halves[d].data_ms));
            if age >= idle {
                c.marks[d] &= !mark::LIVE;
                c.set_limited_by(d, LimitedBy::None);
                policies.leave(id);
            } else {
                next = next.min(idle - age);
            }
        }
        Some(next.max(1))
    }

    /// Takes both flows of a connection out of the sharing.
    fn leave_both(&mut self, slot: u32) {
        let c = self.table.connection_mut(slot);
        for d in 0..2 {
            if c.has(d, mark::LIVE) {
                self.policies.leave(c.halves[d].policy);
            }
            if c.has(d, mark::PACED) {
                self.pacing.forget(slot << 1 | d as u32);
            }
            c.marks[d] = 0;
        }
    }

    fn forget(&mut self, slot: u32) {
        self.leave_both(slot);
        self.table.end(slot);
    }
}

/// Finds the policy of a flow, when what it depends on has changed.
#[inline]
fn choose(
    c: &mut Connection,
    policies: &mut Policies,
    d: usize,
    facts: &Facts,
    frame: &[u8],
    layout: &Layout,
) {
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

/// Under which terms a flow is limited.
struct Terms {
    share_bps: u64,
    shift: u8,
    rtt_parts: u64,
    /// Latency towards the sender.
    left_parts: u64,
    allow_shrink: bool,
    pace: bool,
}

impl Terms {
    /// The terms for the window in a segment; `None`, counted, when it is left alone.
    #[inline]
    fn of(c: &mut Connection, policies: &Policies, counters: &mut Counters, p: &Passing<'_>) -> Option<Self> {
        let id = c.halves[p.acked].policy;
        let policy = match policies.policy(id) {
            Some(policy) if id != NO_POLICY => policy,
            _ => {
                counters.bypassed_not_matched += 1;
                return None;
            }
        };
        let share_bps = if c.has(p.acked, mark::LIVE) { policies.share(id) } else { policies.next_share(id) };
        if share_bps == 0 {
            c.halves[p.acked].window.release();
            return None;
        }
        if let Some(why) = c.untouchable() {
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
            return None;
        }
        Some(Self {
            share_bps,
            shift,
            rtt_parts: u64::from(right) + u64::from(left),
            left_parts: u64::from(left),
            allow_shrink: policy.allow_shrink,
            pace: policy.floor == Floor::Pace,
        })
    }
}

/// Time that the rate needs for what an acknowledgment of `octets` lets the sender send.
fn spell_of(share_bps: u64, mss: u16, ratio: u16, octets: u32) -> Duration {
    let segments = u64::from(octets.div_ceil(u32::from(mss)).max(1));
    let on_the_wire = (u64::from(mss) << 16).div_ceil(u64::from(ratio.max(1)));
    Rate(share_bps).time_for(Bytes(segments.saturating_mul(on_the_wire)))
}

/// A packet that is not held for itself goes behind those that are.
#[inline]
fn follow(
    c: &mut Connection,
    pacing: &mut Pacing,
    counters: &mut Counters,
    flow: u32,
    p: &Passing<'_>,
) -> Verdict {
    if !c.has(p.acked, mark::PACED) {
        return Verdict::Pass;
    }
    match pacing.follow(flow, p.at) {
        Some(until) => hold(until, counters, p),
        None => {
            if c.limited_by(p.acked) != LimitedBy::Floor {
                c.marks[p.acked] &= !mark::PACED;
                pacing.forget(flow);
            }
            Verdict::Pass
        }
    }
}

fn hold(until: Instant, counters: &mut Counters, p: &Passing<'_>) -> Verdict {
    if until <= p.at {
        return Verdict::Pass;
    }
    counters.held += 1;
    Verdict::HoldUntil(until)
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
