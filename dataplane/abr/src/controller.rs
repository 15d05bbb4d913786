//! The machine: what happens to a segment, and what happens with time. The same in a router and on an end host.

use crate::connection::{Connection, mark};
use crate::counters::Counters;
use crate::hold::{Pacing, Spell};
use crate::live::LiveFlows;
use crate::passing::Passing;
use crate::policies::{Facts, Policies, PolicyCounters, endpoints};
use crate::segment::{Checksum, Segment};
use crate::settings::{AbrPolicyId, LimitedBy, Settings};
use crate::state::FlowState;
use crate::table::{Ends, Found, Locator, Table};
use perhop_units::{Duration, Instant};
use perhop_wire::Layout;
use perhop_wire::tcp::flags;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// A connection is kept this long after its last word, for a last acknowledgment that must be sent again.
const LINGER_MS: u32 = 10_000;
/// Silence after which a connection is forgotten; one that was never answered sooner.
const SILENT_MS: u32 = 300_000;
const UNANSWERED_MS: u32 = 30_000;
/// A SYN with another number does not touch a connection whose ends were heard so short a time ago, ms: they would not
/// believe it either (RFC 5961 §4).
const LIVELY_MS: u32 = 1_000;
/// The longest between two looks at a connection.
const LOOK_MS: u64 = 10_000;
/// Flows that are paced at once.
const PACED: usize = 4_096;

/// What is to become of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Goes on.
    Pass,
    /// Goes on at this time, see [`crate::Held`].
    HoldUntil(Instant),
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    table: Table,
    policies: Policies,
    pacing: Pacing,
    counters: Counters,
    /// Lower and other endpoint of the connection in each slot, where nobody else knows them.
    ends: Option<Vec<Option<(SocketAddr, SocketAddr)>>>,
    /// Whether what senders had under way less than their rates need is owed to them.
    credit: bool,
    /// Whether acknowledgments are spread over the round trip.
    spread: bool,
}

impl Controller {
    /// For at most `connections` connections, keyed by `seed`. Reserves all memory it will use.
    pub fn new(connections: usize, settings: Arc<Settings>, seed: u64) -> Self {
        Self {
            table: Table::new(connections, seed),
            policies: Policies::new(settings),
            pacing: Pacing::new(PACED.min(2 * connections)),
            counters: Counters::default(),
            ends: None,
            credit: true,
            spread: false,
        }
    }

    /// Whether what a sender had under way less than its rate needs, because windows are of whole segments, is added to later
    /// windows, and what it had more is taken off (it is). Without that
    /// flows get up to a segment a round trip less than their rate: for comparison with the source, chapter 5.3.
    pub fn set_credit(&mut self, credit: bool) {
        self.credit = credit;
    }
    /// Whether acknowledgments are held so that what they let go is spread over the round trip (they are not).
    pub fn set_spread(&mut self, spread: bool) {
        self.spread = spread;
        let most = if spread { usize::MAX } else { PACED };
        self.pacing.set_capacity(most.min(2 * self.table.capacity()));
    }
    /// Whether they are.
    pub fn spread(&self) -> bool {
        self.spread
    }
    /// Whether windows have credit.
    pub fn credit(&self) -> bool {
        self.credit
    }

    /// Remembers each connection's endpoints from now on, for [`FlowState::ends`]: 64 bytes for each that there may be.
    #[must_use]
    pub fn remembering_ends(mut self) -> Self {
        self.ends = Some(vec![None; self.table.capacity()]);
        self
    }

    /// Takes another key for its hash. Only before the first segment.
    pub fn rekey(&mut self, seed: u64) {
        self.table.rekey(seed);
    }

    /// Divides what policies have between the flows of all controllers that count in `live`, of which this is one. To be
    /// called before the first segment.
    pub fn share_with_others(&mut self, live: Arc<LiveFlows>) {
        self.policies.share_with_others(live);
    }

    /// Puts `settings` into force and returns the old ones. Flows find their policies again with their next data; without
    /// policies everything is forgotten. O(policies).
    pub fn replace(&mut self, settings: Arc<Settings>) -> Arc<Settings> {
        let old = self.policies.replace(settings);
        if self.policies.is_empty() {
            self.counters.ended += self.table.len() as u64;
            self.table.clear();
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
            .map(|flow| FlowState { ends: self.ends_of(&flow), ..flow })
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
        let (reset, acked) = (segment.has(flags::RST), 1 - ends.direction);
        let make = !reset && !self.is_idle();
        let Some(slot) = self.place(locator, ends, frame, layout, at, make) else {
            return self.untouched(ends.flow(acked), at);
        };
        if reset {
            if self.table.connection_mut(slot).believes_reset(ends.direction, &segment) {
                self.counters.ended += 1;
                self.forget(slot);
            }
            return self.untouched(ends.flow(acked), at);
        }
        let silent_ms = (now_ms as u32).wrapping_sub(self.table.connection_mut(slot).seen_ms);
        if segment.has(flags::SYN)
            && !self.synchronise(slot, ends.direction, &segment, now_ms as u32, silent_ms)
        {
            return self.untouched(ends.flow(acked), at);
        }
        let passing = Passing {
            segment: &segment,
            facts,
            layout,
            direction: ends.direction,
            acked,
            at,
            now_us: (at.as_nanos() / 1_000) as u32,
            now_ms: now_ms as u32,
            credit: self.credit,
            spread: self.spread,
            due: self.spread.then(|| self.pacing.due(ends.flow(acked))).flatten(),
        };
        let Self { table, policies, pacing, counters, .. } = self;
        let c = table.connection_mut(slot);
        let acknowledges = segment.has(flags::ACK) && c.stamps[acked].can_be_acknowledged(segment.ack);
        let is_of_now = (acknowledges || !segment.has(flags::ACK)) && c.is_near(ends.direction, &segment);
        if is_of_now {
            c.note(ends.direction, &segment, passing.now_ms);
        }
        passing.data(c, policies, counters, frame);
        let mut spell = None;
        if acknowledges {
            let new = passing.measure(c, policies, counters);
            spell = passing.limit(new, c, policies, counters, frame, checksum);
        }
        let mut verdict = Verdict::Pass;
        if spell.is_some() || c.has(acked, mark::PACED) {
            verdict = behind(pace(c, pacing, &passing, ends, spell), counters);
        }
        if is_of_now && c.closes(ends.direction, &segment, passing.now_ms) {
            self.leave_both(slot);
        }
        verdict
    }

    /// What becomes of a segment of which nothing is learnt: it stays behind what is held of its flow.
    fn untouched(&mut self, flow: u64, at: Instant) -> Verdict {
        behind(self.pacing.follow(flow, at), &mut self.counters)
    }

    /// The slot of a packet's connection, made if `make` and there is room.
    #[inline]
    fn place(
        &mut self,
        locator: Locator,
        ends: Ends,
        frame: &[u8],
        layout: &Layout,
        at: Instant,
        make: bool,
    ) -> Option<u32> {
        let now_ms = at.as_nanos() / 1_000_000;
        let v6 = layout.ip_version == 6;
        let slot = match self.table.find(locator, ends, v6, now_ms, make) {
            Found::Known(slot) => return Some(slot),
            Found::Nothing => return None,
            Found::Made(slot) => {
                self.table.park(slot, now_ms, self.look_ms());
                slot
            }
            Found::Full => {
                let Some(slot) = self.table.spare(now_ms) else {
                    self.counters.table_full += 1;
                    return None;
                };
                self.counters.evicted += u64::from(self.table.connection(slot).is_some());
                self.forget(slot);
                self.table.displace(slot, locator, ends, v6, now_ms);
                slot
            }
        };
        self.counters.created += 1;
        if let Some(known) = self.ends.as_mut().and_then(|all| all.get_mut(slot as usize)) {
            *known = endpoints(frame, layout).map(|(src, dst)| {
                let (src, dst) =
                    (SocketAddr::new(src, layout.src_port), SocketAddr::new(dst, layout.dst_port));
                if ends.direction == 0 { (src, dst) } else { (dst, src) }
            });
        }
        for direction in 0..2 {
            // Of a predecessor with the same endpoints packets may be held still.
            if self.pacing.follow(ends.flow(direction), at).is_some() {
                self.table.connection_mut(slot).marks[direction] |= mark::PACED;
            }
        }
        Some(slot)
    }

    fn ends_of(&self, flow: &FlowState) -> Option<(SocketAddr, SocketAddr)> {
        let (low, high) = (*self.ends.as_ref()?.get(flow.slot as usize)?)?;
        let c = self.table.connection(flow.slot)?;
        Some(if c.is_reverse(0) == flow.reverse { (low, high) } else { (high, low) })
    }

    /// A SYN: another connection between the same endpoints begins anew, and what it says counts; unless the one there is
    /// too lively to be over, then it is `false`.
    fn synchronise(
        &mut self,
        slot: u32,
        direction: usize,
        segment: &Segment,
        now_ms: u32,
        silent_ms: u32,
    ) -> bool {
        let c = self.table.connection_mut(slot);
        let lively = silent_ms < LIVELY_MS;
        if c.is_another(direction, segment) || !lively && c.is_opened_anew(direction, segment) {
            if lively && c.is_established() && !c.is_closing() {
                return false;
            }
            self.leave_both(slot);
            self.counters.ended += 1;
            self.counters.created += 1;
            self.table.connection_mut(slot).begin_again(now_ms);
        }
        self.table.connection_mut(slot).handshake(direction, segment);
        true
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
            c.marks[d] &= mark::PACED;
        }
    }

    fn forget(&mut self, slot: u32) {
        self.leave_both(slot);
        self.table.end(slot);
    }
}

/// When a packet goes that lets the sender send for a spell, or that is behind such a one; `None`: at once.
fn pace(
    c: &mut Connection,
    pacing: &mut Pacing,
    p: &Passing<'_>,
    ends: Ends,
    spell: Option<Spell>,
) -> Option<Instant> {
    let flow = ends.flow(p.acked);
    if let Some(spell) = spell
        && let Some(until) = pacing.space(flow, p.at, spell)
    {
        let until = Some(until).filter(|until| *until > p.at);
        // What is spread is not held for long, and seldom where nothing has met.
        let marked = if p.spread && until.is_none() { 0 } else { mark::PACED };
        c.marks[p.acked] = c.marks[p.acked] & !mark::PACED | marked;
        return until;
    }
    let until = pacing.follow(flow, p.at);
    if until.is_none() && (p.spread || c.limited_by(p.acked) != LimitedBy::Floor) {
        c.marks[p.acked] &= !mark::PACED;
        if !p.spread {
            pacing.forget(flow);
        }
    }
    until
}

fn behind(until: Option<Instant>, counters: &mut Counters) -> Verdict {
    let Some(until) = until else { return Verdict::Pass };
    counters.held += 1;
    Verdict::HoldUntil(until)
}
