//! # Synopsis
//! `Flows(limits)` finds each packet's connection, its verdict (filter, contract, profile, class) and whether it
//! belongs to a recognised real-time flow.
//!
//! # Ports
//! One input, one output. Every packet that comes in goes out, in order, but for those that admission drops.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `connections` | integer | entries | 131072 | 16 … 4194304 |
//! | `undecided` | integer | flows | 16384 | 8 … 1048576 |
//! | `calls` | integer | flows | 8192 | 0 … 1048576 |
//! | `fragments` | integer | datagrams | 4096 | 4 … 1048576 |
//! | `events` | integer | events | 4096 | 1 … 1048576 |
//! | `stateless` | integer | packets a batch | 256 | 0 … 256 |
//! | `default` | logical class | | none | |
//! | `realtime` | logical class | | no detection | |
//! | `udp_idle`, `tcp_idle`, `tcp_closing`, `other_idle`, `single_idle` | integer | s | 30, 300, 10, 30, 2 | 1 … 86400 |
//!
//! Rules, code point classes, contracts and detection come as a [`FlowsChange`] and change while packets flow.
//!
//! # Behaviour
//! The key of a connection is forwarding domain, VLAN tags and 5-tuple, whichever endpoint sends. Each direction caches
//! up to four verdicts by in-port and by the DSCP, TCP flag and fragment bits that some filter looks at. A verdict older
//! than the last change is tested against the changes since: up to 1,024 of them, and at times 2,048, by their addresses, the
//! last 16 exactly. It is made anew only when one seems to concern it, or there were more.
//!
//! The class is, in this order: the real-time class, if the flow is recognised and its filter allows that (a filter that
//! names a class does not unless it says so); the filter's class; the class of the code point, if the port or the
//! filter trusts it; the default class. The contract is the filter's, else that of the source's longest prefix, else
//! the destination's.
//!
//! With admission ([`crate::admission`]) a recognised flow is real-time only while it is admitted; what is refused or
//! dropped goes its ordinary way, or is dropped as `not_admitted`. A later fragment of such a flow goes its ordinary way.
//!
//! A later fragment gets what the first fragment of its datagram got; when that has not been seen it is classified
//! without ports. Packets that are not IP, or were not parsed, get the default class.
//!
//! When the table is full, a new connection takes the place of one that is not recognised and is either of a single packet
//! 100 ms ago (UDP without a sign of media) or silent for `single_idle` (everything but TCP beyond its handshake; what has
//! shown a sign of media in both directions: 20 s), or, when the new one was turned away just before, of a single packet, or of
//! one direction and silent for 100 ms. An eighth of the table is for UDP alone: what is not UDP and has the other seven takes
//! the place of its like only. Four are looked at; when none of them may go, the
//! packet is classified by itself (without detection), and beyond `stateless` of those in one batch gets the default
//! class; it is never dropped.
//!
//! A connection is forgotten after its protocol's silence; one of a single packet after `single_idle` while the table is
//! more than three quarters full, so that a flood of made-up addresses does not keep calls out for long.
//!
//! # Counters
//! `connections` (gauge), `created`, `expired`, `displaced`, `hits`, `revalidated`, `classified`, `table_full_stateless`,
//! `stateless_over_budget`, `overflow_full`, `moved`, `not_ip`, `fragments_followed`, `fragments_orphaned`,
//! `fragments_displaced`, `detected`, `ended`, `contradicted`, `undecided` (gauge), `undecided_evicted`,
//! `calls` (gauge), `calls_unmeasured`, `call_ends_missed` (packets of calls of which is not known what became of them),
//! `events_lost`; `connections_handed_over` to other workers with their buckets, and
//! `connections_taken_over`. Of admission:
//! `flows_offered`, `flows_admitted`, `flows_refused`, `flows_dropped`, `flows_expired`, `admission_full` and
//! `turned_packets` (packets), `intervals`, `intervals_over_cap`, `flows_admitted_now` and `admitted_bps` (gauges).
//!
//! # Invariants
//! A cached verdict equals what a linear scan over the rules would say now. No allocation per packet. TCP is never
//! recognised as real-time. Packets are neither held, reordered nor changed, and dropped by admission alone.
//!
//! # Example
//! `flows :: Flows(connections = 100000, default = be, realtime = ef)`
//!
//! # Source
//! RFC 2475 §2.3.1 (classifiers), RFC 2663 §2.3 (sessions), RFC 3550 (RTP); see [`crate::realtime`] for
//! detection.

mod admit;
mod apart;
mod change;
mod detect;
mod ends;
mod relocate;
#[cfg(test)]
mod tests;
mod verdict;

pub use admit::AdmissionReport;
pub use change::FlowsChange;
pub use relocate::Departure;
pub(crate) use verdict::judge;

use crate::admission::{Admission, Books};
use crate::calls::{Assumed, CallSlab};
use crate::classifier::{Classifier, Delta, DeltaLog, Key, Staged};
use crate::event::{EventQueue, FlowEvent};
use crate::realtime::UndecidedSlab;
use crate::settings::Settings;
use crate::table::{ConnectionTable, FlowKey, Oriented, Timeouts, Verdict};
use perhop_element::{CounterSink, Cx, Element, ElementState, PacketEnd, PortIndex, TimerId};
use perhop_packet::{Batch, ClassId, Meta, Packet};
use perhop_units::{Duration, Instant};
use perhop_wire::{Fragment, protocol};
use std::any::Any;
use std::sync::Arc;

/// Limits and time-outs, fixed for the life of the element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowsConfig {
    /// Most connections.
    pub connections: usize,
    /// Most flows under observation by detection and not recognised yet.
    pub undecided: usize,
    /// Most recognised RTP flows whose quality is measured.
    pub calls: usize,
    /// What their rating assumes.
    pub assumed: Assumed,
    /// Most fragmented datagrams followed at once.
    pub fragments: usize,
    /// How long a first fragment is remembered.
    pub fragment_timeout: Duration,
    /// Most events waiting to be fetched.
    pub events: usize,
    /// Packets of one batch classified without an entry when the table is full.
    pub stateless: u32,
    /// Silence after which connections are forgotten.
    pub timeouts: Timeouts,
    /// Key of the hash; `None`: drawn from the world's random numbers with the first packet.
    pub seed: Option<u64>,
}

impl Default for FlowsConfig {
    fn default() -> Self {
        Self {
            connections: 131_072,
            undecided: 16_384,
            calls: 8_192,
            assumed: Assumed::default(),
            fragments: 4_096,
            fragment_timeout: Duration::from_secs(30),
            events: 4_096,
            stateless: Batch::MAX as u32,
            timeouts: Timeouts::default(),
            seed: None,
        }
    }
}

/// Counters of the element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module documentation lists them")]
pub struct FlowsCounters {
    pub created: u64,
    pub expired: u64,
    pub displaced: u64,
    pub hits: u64,
    pub revalidated: u64,
    pub classified: u64,
    pub table_full_stateless: u64,
    pub stateless_over_budget: u64,
    pub overflow_full: u64,
    pub moved: u64,
    pub not_ip: u64,
    pub fragments_followed: u64,
    pub fragments_orphaned: u64,
    pub fragments_displaced: u64,
    pub detected: u64,
    pub ended: u64,
    pub contradicted: u64,
    pub handed_over: u64,
    pub taken_over: u64,
    pub ends_missed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Flows {
    pub(crate) config: FlowsConfig,
    pub(crate) classifier: Arc<Classifier>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: DeltaLog,
    pub(crate) table: ConnectionTable,
    pub(crate) undecided: UndecidedSlab,
    pub(crate) admission: Books,
    /// Whether the packet at hand is to be dropped, and places in the batch of those that are.
    turns_away: bool,
    turned_away: Vec<u8>,
    pub(crate) calls: CallSlab,
    /// This worker's number among those of the router.
    me: u8,
    /// Ends of packets of calls: being looked at, and for other workers.
    heard: Vec<PacketEnd>,
    foreign: Vec<PacketEnd>,
    events: EventQueue,
    counters: FlowsCounters,
    /// Changes with the settings of detection, so that counts made under others are not mixed in.
    epoch: u8,
    keyed: bool,
    armed: bool,
    stateless_left: u32,
    masks: AuxMasks,
    /// Where flows are shared with other workers and may go to them.
    buckets: Option<Box<relocate::Buckets>>,
    /// Searches that begin before their packet is looked at, one for each of a chunk.
    searches: Box<[Staged]>,
}

/// What goes into `aux`, by whether the in-port's code points are trusted.
#[derive(Clone, Copy, Debug, Default)]
struct AuxMasks {
    dscp: [u8; 2],
    flags: u8,
    fragment: u8,
}

/// Connections whose look-up runs side by side.
const CHUNK: usize = 32;
/// Entries looked at by one push and by one timer.
const SWEEP_PUSH: usize = 64;
const SWEEP_WAKE: usize = 2_048;
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    oriented: Oriented,
    hash: u64,
    ok: bool,
    /// Its search among the rules has begun, because the connection seems to be new.
    is_searched: bool,
}

/// What is written into a packet.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    verdict: Verdict,
    connection: u32,
    reverse: bool,
    realtime: bool,
}

impl Flows {
    /// An element with `classifier` and `settings`. Reserves all memory it will use.
    pub fn new(config: FlowsConfig, classifier: Arc<Classifier>, settings: Arc<Settings>) -> Self {
        let seed = config.seed.unwrap_or(0);
        let table =
            ConnectionTable::new(config.connections.max(1), config.fragments, config.fragment_timeout, seed);
        let mut flows = Self {
            table,
            undecided: UndecidedSlab::new(config.undecided),
            admission: Books::Own(Admission::new(2 * config.connections.max(1))),
            turns_away: false,
            turned_away: Vec::with_capacity(Batch::MAX),
            calls: CallSlab::new(config.calls),
            me: 0,
            heard: Vec::new(),
            foreign: Vec::new(),
            events: EventQueue::new(config.events),
            counters: FlowsCounters::default(),
            log: DeltaLog::default(),
            epoch: 0,
            keyed: config.seed.is_some(),
            armed: false,
            stateless_left: 0,
            masks: AuxMasks::default(),
            buckets: None,
            searches: vec![Staged::default(); CHUNK].into(),
            config,
            classifier,
            settings,
        };
        flows.refresh_masks();
        let admission = flows.settings.admission.clone();
        flows.admission_set(Instant::ZERO, admission.as_ref());
        flows
    }

    /// Puts a prepared change into force. O(deltas), at most [`DeltaLog::AT_ONCE`] of them. Returns what was replaced, so that the caller
    /// can drop it where that does not delay packets.
    pub fn commit(&mut self, now: Instant, change: FlowsChange) -> FlowsChange {
        let mut old = FlowsChange::default();
        if let Some(classifier) = change.classifier {
            if change.deltas.is_empty() {
                // Nobody said what is different.
                self.log.push(Delta::All);
            }
            old.classifier = Some(std::mem::replace(&mut self.classifier, classifier));
        }
        if let Some(settings) = change.settings {
            let rtp = |s: &Settings| s.detector.as_ref().map(|d| (d.rtp, d.stages));
            self.epoch = self.epoch.wrapping_add(u8::from(rtp(&settings) != rtp(&self.settings)));
            self.admission_set(now, settings.admission.as_ref());
            old.settings = Some(std::mem::replace(&mut self.settings, settings));
        }
        if change.deltas.len() > DeltaLog::AT_ONCE {
            // To note them would take longer than flows need to be searched for.
            self.log.push(Delta::All);
        } else {
            for delta in &change.deltas {
                self.log.push(*delta);
            }
        }
        old.deltas = change.deltas;
        self.refresh_masks();
        old
    }

    /// Moves waiting events to `into`, oldest first.
    pub fn take_events(&mut self, into: &mut Vec<FlowEvent>) {
        self.events.take(into);
    }

    /// The counters.
    pub fn flow_counters(&self) -> &FlowsCounters {
        &self.counters
    }

    /// The rules in force.
    pub fn classifier(&self) -> &Arc<Classifier> {
        &self.classifier
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }
}

/// What moves to a successor.
struct State {
    table: ConnectionTable,
    undecided: UndecidedSlab,
    admission: Books,
    calls: CallSlab,
    events: EventQueue,
    counters: FlowsCounters,
    log: DeltaLog,
    epoch: u8,
    keyed: bool,
}

impl Element for Flows {
    fn type_name(&self) -> &'static str {
        "Flows"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        let now = cx.now();
        if !self.keyed {
            self.keyed = true;
            let seed = u64::from(cx.random()) << 32 | u64::from(cx.random());
            self.table.rekey(seed);
            self.admission.seed(seed);
        }
        self.hear(cx);
        self.admission_tick(now);
        let more = self.sweep(now, SWEEP_PUSH);
        self.stateless_left = self.config.stateless;
        for (i, packets) in batch.as_mut_slice().chunks_mut(CHUNK).enumerate() {
            self.chunk(packets, i * CHUNK, now);
        }
        if self.turned_away.is_empty() {
            cx.emit_all(0, batch);
        } else {
            self.emit_admitted(cx, batch);
        }
        self.arm(cx, more && !self.armed);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.armed = false;
        self.hear(cx);
        self.admission_tick(cx.now());
        let more = self.sweep(cx.now(), SWEEP_WAKE);
        self.arm(cx, more);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        let c = &self.counters;
        sink.gauge("connections", self.table.len() as u64);
        sink.gauge("undecided", self.undecided.len() as u64);
        sink.gauge("calls", self.calls.len() as u64);
        for (name, value) in [
            ("created", c.created),
            ("expired", c.expired),
            ("displaced", c.displaced),
            ("hits", c.hits),
            ("revalidated", c.revalidated),
            ("classified", c.classified),
            ("table_full_stateless", c.table_full_stateless),
            ("stateless_over_budget", c.stateless_over_budget),
            ("overflow_full", c.overflow_full),
            ("moved", c.moved),
            ("not_ip", c.not_ip),
            ("fragments_followed", c.fragments_followed),
            ("fragments_orphaned", c.fragments_orphaned),
            ("fragments_displaced", c.fragments_displaced),
            ("detected", c.detected),
            ("ended", c.ended),
            ("contradicted", c.contradicted),
            ("connections_handed_over", c.handed_over),
            ("connections_taken_over", c.taken_over),
            ("undecided_evicted", self.undecided.evicted),
            ("calls_unmeasured", self.calls.unmeasured),
            ("call_ends_missed", c.ends_missed),
            ("events_lost", self.events.lost),
        ] {
            sink.counter(name, value);
        }
        self.admission_counters(sink);
    }

    /// The table moves whole, with its own limits; verdicts are checked against the successor's rules.
    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(
            FlowsConfig {
                connections: 1,
                undecided: 1,
                calls: 0,
                fragments: 1,
                events: 1,
                ..self.config.clone()
            },
            Arc::clone(&self.classifier),
            Arc::clone(&self.settings),
        );
        let old = std::mem::replace(self, empty);
        Some(Box::new(State {
            table: old.table,
            undecided: old.undecided,
            admission: old.admission,
            calls: old.calls,
            events: old.events,
            counters: old.counters,
            log: old.log,
            epoch: old.epoch,
            keyed: old.keyed,
        }))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let state = state.downcast::<State>()?;
        let State { table, undecided, calls, admission, events, counters, log, epoch, keyed } = *state;
        self.calls = calls;
        (self.table, self.undecided, self.events, self.counters) = (table, undecided, events, counters);
        self.admission = admission;
        (self.log, self.keyed, self.armed) = (log, keyed, false);
        self.epoch = epoch.wrapping_add(1);
        self.log.push(Delta::All);
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Flows {
    fn refresh_masks(&mut self) {
        let aux = self.classifier.aux_mask();
        self.masks = AuxMasks { dscp: [aux.dscp, 0x3f], flags: aux.flags, fragment: u8::from(aux.fragment) };
    }

    /// What a verdict is cached under.
    #[inline]
    fn aux(&self, meta: &Meta) -> u32 {
        let layout = &meta.layout;
        let dscp = layout.tos >> 2 & self.masks.dscp[usize::from(self.settings.trusts(meta.in_port))];
        let fragment = u32::from(layout.fragment as u8 & self.masks.fragment);
        u32::from(meta.in_port.0)
            | u32::from(dscp) << 16
            | fragment << 22
            | u32::from(layout.tcp_flags & self.masks.flags) << 24
    }

    /// One chunk: all hashes, then all entries on their way from memory, then what detection keeps of them, then the
    /// packets.
    fn chunk(&mut self, packets: &mut [Packet], first: usize, now: Instant) {
        let mut looks = [Look::default(); CHUNK];
        for (look, packet) in looks.iter_mut().zip(packets.iter()) {
            let meta = packet.meta();
            if !meta.parsed {
                continue;
            }
            let domain = self.settings.domain(meta.in_port);
            if let Some(oriented) = FlowKey::of(packet.frame(), &meta.layout, domain) {
                let hash = self.table.hash(&oriented.key);
                self.table.prefetch_index(hash);
                *look = Look { oriented, hash, ok: true, is_searched: false };
            }
        }
        // Where there is no room for them, new connections are searched for within a budget.
        let room = self.table.takes(packets.len());
        let mut searched = 0u32;
        for (i, (look, packet)) in looks.iter_mut().zip(packets.iter()).enumerate().filter(|(_, (l, _))| l.ok)
        {
            if self.table.prefetch_entry(look.hash, usize::from(look.oriented.swapped)) || !room {
                continue;
            }
            let meta = packet.meta();
            if let Some(key) = Key::of(packet.frame(), &meta.layout, meta.in_port) {
                self.classifier.begin(&key, &mut self.searches[i]);
                look.is_searched = true;
                searched |= 1 << i;
            }
        }
        let each = |mut bits: u32, see: &mut dyn FnMut(usize)| {
            while bits != 0 {
                see(bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        };
        each(searched, &mut |i| self.classifier.advance(&mut self.searches[i]));
        if self.settings.detector.is_some() {
            for look in looks[..packets.len()].iter().filter(|l| l.ok) {
                match self.table.likely_slot(look.hash, usize::from(look.oriented.swapped)) {
                    Some((true, slot)) => self.calls.prefetch(slot),
                    Some((false, slot)) => self.undecided.prefetch(slot),
                    None => {}
                }
            }
        }
        each(searched, &mut |i| self.classifier.approach(&self.searches[i]));
        for (i, (look, packet)) in looks.iter().zip(packets.iter_mut()).enumerate() {
            let (meta, frame) = packet.parts_mut();
            if look.ok {
                self.connected(meta, frame, (look, i), now);
                if std::mem::take(&mut self.turns_away) {
                    self.turned_away.push((first + i) as u8);
                }
            } else {
                self.unconnected(meta, frame, now);
            }
        }
    }

    /// A packet with a connection, found or made; the search that may have begun has number `at`.
    #[inline]
    fn connected(&mut self, meta: &mut Meta, frame: &[u8], (look, at): (&Look, usize), now: Instant) {
        let key = &look.oriented.key;
        let half = usize::from(look.oriented.swapped);
        let mut search = None;
        let n = match self.table.find(look.hash, key) {
            Some(n) => n,
            None => match self.table.insert(now, look.hash, *key, half as u8, &self.config.timeouts) {
                Some(n) => {
                    self.counters.created += 1;
                    self.note_made(key, n);
                    search = look.is_searched.then_some(at);
                    n
                }
                None => match self.displace(now, look, half) {
                    Some(n) => {
                        self.note_made(key, n);
                        n
                    }
                    None => return self.stateless(meta, frame),
                },
            },
        };
        let aux = self.aux(meta);
        let at_ms = (meta.received_at.as_nanos() / 1_000_000) as u32;
        let generation = self.log.generation();
        let entry = self.table.entry_mut(n);
        let h = &mut entry.halves[half];
        h.packets += 1;
        h.bytes += u64::from(meta.layout.ip_len);
        h.last_ms = at_ms;
        let usual = h.verdict;
        let known = usual.aux == aux && usual.is_valid();
        let recognised = h.realtime;
        let udp = meta.layout.protocol == protocol::UDP;
        let reverse = usize::from(entry.opener) != half;
        let verdict = if known && usual.stamp == generation {
            self.counters.hits += 1;
            usual
        } else if known && self.spares(usual.stamp, meta, frame) {
            self.counters.revalidated += 1;
            self.table.entry_mut(n).halves[half].verdict.stamp = generation;
            Verdict { stamp: generation, ..usual }
        } else {
            self.verdict((n, half), aux, meta, frame, search)
        };
        if meta.layout.tcp_flags & (FIN | RST | SYN) != 0 {
            self.table.entry_mut(n).closing = meta.layout.tcp_flags & (FIN | RST) != 0;
        }
        let realtime = if udp && (recognised || self.settings.detects(meta.in_port)) {
            self.detect(n, half, meta, frame, &verdict) && self.admits(n, half, meta, &verdict, recognised)
        } else {
            false
        };
        let outcome = Outcome { verdict, connection: n, reverse, realtime };
        self.write(meta, &outcome);
        if meta.layout.fragment == Fragment::First {
            self.note_fragment(meta, frame, &outcome);
        }
    }

    #[inline]
    fn note_made(&mut self, key: &FlowKey, n: u32) {
        if let Some(buckets) = &mut self.buckets {
            buckets.note(key, n);
        }
    }

    /// Writes what was found into the packet's metadata.
    #[inline]
    fn write(&self, meta: &mut Meta, outcome: &Outcome) {
        let v = &outcome.verdict;
        meta.connection = outcome.connection;
        meta.direction = if outcome.reverse {
            perhop_packet::Direction::Reverse
        } else {
            perhop_packet::Direction::Forward
        };
        meta.filter = v.filter;
        meta.sla = v.sla;
        meta.profile = v.profile;
        meta.class = v.class;
        meta.realtime = outcome.realtime && v.promotable();
        if meta.realtime {
            meta.class = self.promote_class().unwrap_or(v.class);
        }
    }

    fn promote_class(&self) -> Option<ClassId> {
        self.settings.detector.as_ref().map(|d| d.promote_class).filter(|c| c.is_some())
    }

    fn arm(&mut self, cx: &mut Cx<'_>, soon: bool) {
        let regular = || [self.table.next_sweep(), self.admission.next_tick()].into_iter().flatten().min();
        let next = if soon { Some(cx.now() + Duration::from_millis(1)) } else { regular() };
        if let Some(at) = next.filter(|_| !self.armed || soon) {
            self.armed = true;
            cx.timer_at(at);
        }
    }
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// The layout's fragment state as 0 (whole) or 1 is what the mask picks; a later fragment is never cached.
const _: () = assert!(Fragment::Whole as u8 == 0 && Fragment::First as u8 == 1);
