//! # Synopsis
//! `Conditioner([default])` meters, marks and polices each packet by its profile, contract and class.
//!
//! # Ports
//! Input 0: classified packets (`meta.profile`, `meta.sla`, `meta.class`, `meta.realtime`). Output 0: packets that
//! may go on.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `default` (1st) | class name | | none | where demoted packets go |
//!
//! The tables are set by transactions: [`ConditionerChange`], at most [`super::MAX_IDS`] ids a table.
//!
//! # Behaviour
//! In this order, each step only if the packet carries the id and the table has it:
//! 1. Profile: the meter colours the packet, then the colour's action passes it, drops it (`policed`), writes a code
//!    point or puts it into a logical class.
//! 2. Contract: concerns recognised real-time traffic, also what filters put into a class other than `default`, or
//!    everything of the customer ([`super::SlaTraffic`]). The contract's rate has two parts: `shared_pct` per cent are
//!    first come, first served, the rest is shared equally by the contract's live flows (a connection's direction each,
//!    live until silent for `flow_idle`). A packet is within the contract if its flow's bucket covers it, else if the
//!    common one does; without a live flow everything is common. Each part has the same part of the burst, but 3,000
//!    bytes at least. Within, the packet gets the contract's code point; above, the policy passes it alike, drops it
//!    (`sla_policy`) or demotes it: code point cleared, class set to `default`, no longer real-time.
//! 3. Class: recognised real-time traffic is policed, first each flow to its limit, if there is one: what is beyond is
//!    demoted; then all together to the class's rate. Within it the packet gets the class's code point, if there is
//!    one; the excess is dropped (`policed`) or demoted.
//!
//! A packet dropped by a step has still paid for the steps before. Length is the IP length, time `received_at`.
//! Several workers of one router condition by the same tables ([`Conditioner::share`]), so that a profile, a contract or a
//! class that is reached from all of them is metered as in one. A batch takes the tables with its first packet that carries
//! an id, for as long as it lasts; one without such packets does not touch them.
//! An id that its table does not have passes and is counted. At most [`super::MAX_FLOWS`] flows have buckets of their
//! own; a packet of a further one has only the common part of its contract and no limit, and is counted.
//!
//! # Counters
//! Totals over all entries: `profile_…`, `sla_…`, `class_…` with `dropped_packets`, `dropped_bytes`,
//! `demoted_packets`, `demoted_bytes`; `class_flow_limited_packets`; `flows` (gauge: with buckets of their own), `flows_full`
//! (packets), `unknown_ids`. By entry: [`Conditioner::profile_counters`] and its sisters.
//!
//! # Invariants
//! Order is kept. A change touches no token and no counter of an entry it does not name. Committing a change takes
//! time proportional to its entries, allocates and frees nothing.
//!
//! # Example
//! `FromPort(lan) -> Conditioner(default = be) -> ToPort(wan)`
//!
//! # Source
//! RFC 2475 §2.3.3 (traffic conditioners), RFC 3290 §4 to 6.

use super::condition::{Adopt, ConditionCounters};
use super::spec::{Action, Excess, OutOfProfile, SlaTraffic};
use super::table::{ConditionerChange, Table, Tables};
use crate::mark::mark;
use crate::meter::metered_len;
use crate::plumbing::adapter::as_any;
use crate::plumbing::set_class::read_class;
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, ClassId, DropReason, Meta, NO_CONNECTION, Packet, ProfileId, SlaId};
use perhop_units::{Bytes, Color, Dscp, Instant};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Packets further on whose entries are asked for while earlier ones are conditioned.
const ENTRIES_AHEAD: usize = 8;

/// The tables: this element's own, or those of all workers.
#[derive(Debug)]
enum Held {
    Own(Box<Tables>),
    Shared(Arc<Mutex<Tables>>),
}

impl Default for Held {
    fn default() -> Self {
        Self::Own(Box::default())
    }
}

/// How often a worker looks whether another is done with the tables before it sleeps: about the time of a batch.
const LOOKS: u32 = 1 << 12;

/// Takes the tables. What holds them is a batch of another worker, which is soon through.
fn take(tables: &Mutex<Tables>) -> MutexGuard<'_, Tables> {
    for _ in 0..LOOKS {
        match tables.try_lock() {
            Ok(taken) => return taken,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The element.
#[derive(Debug, Default)]
pub struct Conditioner {
    held: Held,
    /// Tells flows of this worker from those of others.
    worker: u32,
}

impl Conditioner {
    /// Empty tables: everything passes.
    pub fn new(default_class: ClassId) -> Self {
        Self { held: Held::Own(Box::new(Tables { default_class, ..Tables::default() })), worker: 0 }
    }

    /// Conditioners of so many other workers (up to 15) that go by the tables of this one from now on. What the tables count
    /// is told by this one alone, and only this one is told of changes.
    pub fn share(&mut self, others: usize) -> Vec<Self> {
        let tables = match std::mem::take(&mut self.held) {
            Held::Own(own) => Arc::new(Mutex::new(*own)),
            Held::Shared(tables) => tables,
        };
        let others = (1..=others as u32).map(|worker| Self { held: Held::Shared(tables.clone()), worker });
        let others = others.collect();
        self.held = Held::Shared(tables);
        others
    }

    fn with<R>(&self, read: impl FnOnce(&Tables) -> R) -> R {
        match &self.held {
            Held::Own(own) => read(own),
            Held::Shared(tables) => read(&take(tables)),
        }
    }

    /// Whether the tables' counters are told here.
    fn tells(&self) -> bool {
        self.worker == 0
    }

    /// Exchanges the entries `change` names with the tables; what was there is afterwards in `change`, to be freed
    /// elsewhere. Replaced entries keep counters and tokens, clamped to the new bursts. O(changed).
    pub fn commit(&mut self, now: Instant, change: &mut ConditionerChange) {
        match &mut self.held {
            Held::Own(own) => own.commit(now, change),
            Held::Shared(tables) => take(tables).commit(now, change),
        }
    }

    /// Counters of a profile; `None` if there is none.
    pub fn profile_counters(&self, id: ProfileId) -> Option<ConditionCounters> {
        self.tells().then(|| self.with(|t| t.profiles.entry(id.index()).map(|e| e.counters)))?
    }

    /// Counters of a contract.
    pub fn sla_counters(&self, id: SlaId) -> Option<ConditionCounters> {
        self.tells().then(|| self.with(|t| t.slas.entry(id.index()).map(|e| e.counters)))?
    }

    /// Live flows of a contract that shares a part of its rate equally, as of its last packet; 0 of another.
    pub fn sla_flows(&self, id: SlaId) -> Option<u32> {
        self.with(|t| t.slas.entry(id.index()).map(|e| e.bucket.flows()))
    }

    /// Counters of a class's real-time policer.
    pub fn class_counters(&self, id: ClassId) -> Option<ConditionCounters> {
        self.tells().then(|| self.with(|t| t.classes.entry(id.index()).map(|e| e.counters)))?
    }
}

/// Whether a packet carries something that the tables are asked for.
#[inline]
fn concerns(meta: &Meta) -> bool {
    meta.profile.is_some() || meta.sla.is_some() || meta.realtime
}

impl Tables {
    /// All three steps; the reason to drop, if any.
    #[inline]
    fn condition(
        &mut self,
        packet: &mut Packet,
        worker: u32,
        random: impl FnOnce() -> u32,
    ) -> Option<DropReason> {
        let len = metered_len(packet);
        let at = packet.meta().received_at;
        self.by_profile(packet, at, len, random)
            .or_else(|| self.by_sla(packet, at, len, worker))
            .or_else(|| self.by_class(packet, at, len, worker))
    }

    #[inline]
    fn by_profile(
        &mut self,
        packet: &mut Packet,
        at: Instant,
        len: Bytes,
        random: impl FnOnce() -> u32,
    ) -> Option<DropReason> {
        let meta = packet.meta_mut();
        if !meta.profile.is_some() {
            return None;
        }
        let Some(profile) = self.profiles.entry_mut(meta.profile.index()) else {
            self.unknown_ids += 1;
            return None;
        };
        meta.color = profile.meter(at, len, meta.color, random);
        match profile.actions[meta.color as usize] {
            Action::Pass => {}
            Action::SetClass(class, dscp) => {
                meta.class = class;
                if let Some(dscp) = dscp {
                    mark(packet, dscp);
                }
            }
            Action::Remark(dscp) => {
                mark(packet, dscp);
            }
            Action::Drop => {
                profile.counters.dropped(len);
                return Some(DropReason::Policed);
            }
        }
        None
    }

    #[inline]
    fn by_sla(&mut self, packet: &mut Packet, at: Instant, len: Bytes, worker: u32) -> Option<DropReason> {
        let meta = packet.meta();
        if !meta.sla.is_some() {
            return None;
        }
        let Some(sla) = self.slas.entry_mut(meta.sla.index()) else {
            self.unknown_ids += 1;
            return None;
        };
        let concerned = match sla.traffic {
            SlaTraffic::Every => true,
            SlaTraffic::Recognised => meta.realtime,
            SlaTraffic::Classified => {
                meta.realtime || (meta.class.is_some() && meta.class != self.default_class)
            }
        };
        if !concerned {
            return None;
        }
        let divided = sla.bucket.is_divided() && meta.connection != NO_CONNECTION;
        let (id, idle, key) = (meta.sla, sla.flow_idle, flow_key(meta, worker));
        let Self { slas, flows, .. } = self;
        let mut flow = None;
        if divided && let Some(flows) = flows {
            flow = flows.touch(at, key, idle, slas);
            if let Some(flow) = flow {
                flows.join(at, flow, id, idle, slas);
            }
        }
        let share = flow.zip(flows.as_mut()).and_then(|(flow, flows)| flows.flow_mut(flow));
        let sla = slas.entry_mut(id.index())?;
        let color = sla.bucket.meter(at, len, share.map(|f| &mut f.share));
        sla.counters.colors.count(color, len);
        match sla.policy {
            OutOfProfile::Drop if color == Color::Red => {
                sla.counters.dropped(len);
                return Some(DropReason::SlaPolicy);
            }
            OutOfProfile::Demote if color == Color::Red => {
                sla.counters.demoted(len);
                demote(packet, self.default_class);
            }
            _ => {
                if let Some(dscp) = sla.dscp {
                    mark(packet, dscp);
                }
            }
        }
        None
    }

    #[inline]
    fn by_class(&mut self, packet: &mut Packet, at: Instant, len: Bytes, worker: u32) -> Option<DropReason> {
        let meta = packet.meta();
        if !meta.realtime {
            return None;
        }
        // A class without a real-time policer is the usual case, not an unknown id.
        let port = meta.in_port;
        let Self { classes, slas, flows, .. } = self;
        let class = classes.entry_mut(meta.class.index())?;
        if let Some(limit) = class.flow.filter(|_| meta.connection != NO_CONNECTION)
            && let Some(flows) = flows
            && let Some(flow) = flows.touch(at, flow_key(meta, worker), limit.idle, slas)
            && !flows.flow_mut(flow).is_none_or(|f| f.is_within(at, len, &limit))
        {
            class.counters.colors.count(Color::Red, len);
            class.counters.flow_limited_packets += 1;
            class.counters.demoted(len);
            demote(packet, self.default_class);
            return None;
        }
        let color = class.meter(port, at, len);
        class.counters.colors.count(color, len);
        if color == Color::Green {
            if let Some(dscp) = class.dscp {
                mark(packet, dscp);
            }
            return None;
        }
        match class.excess {
            Excess::Drop => {
                class.counters.dropped(len);
                Some(DropReason::Policed)
            }
            Excess::Demote => {
                class.counters.demoted(len);
                demote(packet, self.default_class);
                None
            }
        }
    }
}

/// A connection's direction: each worker numbers its connections by itself, with fewer than 2²⁷ numbers.
fn flow_key(meta: &Meta, worker: u32) -> u32 {
    worker << 28 | meta.connection << 1 | meta.direction as u32
}

fn demote(packet: &mut Packet, class: ClassId) {
    mark(packet, Dscp::BE);
    let meta = packet.meta_mut();
    meta.class = class;
    meta.realtime = false;
}

impl Element for Conditioner {
    fn type_name(&self) -> &'static str {
        "Conditioner"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        match &mut self.held {
            Held::Own(own) => own.push(cx, batch, self.worker),
            Held::Shared(tables) if batch.iter().any(|packet| concerns(packet.meta())) => {
                take(tables).push(cx, batch, self.worker);
            }
            Held::Shared(_) => cx.emit_all(0, batch),
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        if self.tells() {
            self.with(|tables| tables.count(sink));
        }
    }

    /// Of tables that are shared nothing moves: a graph of several workers is not replaced.
    fn export_state(&mut self) -> Option<ElementState> {
        match &mut self.held {
            Held::Own(own) => Some(Box::new(std::mem::take(own))),
            Held::Shared(_) => None,
        }
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let Held::Own(own) = &mut self.held else { return Err(state) };
        let before = std::mem::replace(own, state.downcast::<Box<Tables>>().map(|tables| *tables)?);
        if before.default_class.is_some() {
            own.default_class = before.default_class;
        }
        Ok(())
    }

    as_any!();
}

impl Tables {
    fn push(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, worker: u32) {
        // With many customers each entry is a few cache misses; asking for some ahead lets the misses overlap.
        let mut packets = batch.drain();
        for packet in packets.as_slice().iter().take(ENTRIES_AHEAD) {
            self.prefetch(packet.meta());
        }
        while let Some(mut packet) = packets.next() {
            if let Some(later) = packets.as_slice().get(ENTRIES_AHEAD - 1) {
                self.prefetch(later.meta());
            }
            match self.condition(&mut packet, worker, || cx.random()) {
                None => cx.emit(0, packet),
                Some(reason) => cx.drop(packet, reason),
            }
        }
    }

    fn count(&self, sink: &mut dyn CounterSink) {
        totals("profile", &self.profiles, sink);
        totals("sla", &self.slas, sink);
        totals("class", &self.classes, sink);
        let limited = self.classes.iter().map(|c| c.counters.flow_limited_packets);
        sink.counter("class_flow_limited_packets", limited.sum());
        let flows = self.flows.as_deref();
        sink.gauge("flows", flows.map_or(0, |f| f.len() as u64));
        sink.counter("flows_full", flows.map_or(0, |f| f.full));
        sink.counter("unknown_ids", self.unknown_ids);
    }
}

fn totals<T: Adopt>(kind: &str, table: &Table<T>, sink: &mut dyn CounterSink) {
    let mut sum = [0; 4];
    for c in table.iter().map(Adopt::totals) {
        let figures = [c.dropped_packets, c.dropped_bytes, c.demoted_packets, c.demoted_bytes];
        sum.iter_mut().zip(figures).for_each(|(s, f)| *s += f);
    }
    let names = ["dropped_packets", "dropped_bytes", "demoted_packets", "demoted_bytes"];
    for (name, value) in names.into_iter().zip(sum) {
        sink.counter(&format!("{kind}_{name}"), value);
    }
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Conditioner",
    synopsis: "meters, marks and polices by profile, contract and class",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        let mut r = Reader::new(args);
        let given = r.text("default", Some(0)).is_some();
        let class = if given { read_class(&mut r, "default", Some(0), cx) } else { ClassId::NONE };
        r.finish(Box::new(Conditioner::new(class)) as _)
    },
    sample: |rng| if rng.next_u32() & 1 == 0 { String::new() } else { "be".to_owned() },
};

#[cfg(test)]
mod tests;
