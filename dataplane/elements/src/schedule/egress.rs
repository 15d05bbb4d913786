//! # Synopsis
//! [`Egress`] is the way out through a port: finds each packet's leaf, and schedules with a [`ClassTree`].
//!
//! # Ports
//! Input 0: packets for the port. Output 0: the same packets in the tree's order, at the port's pace; to `ToPort`.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `port` (or first) | port | | required | ports of the router |
//! | `rate` | rate until a change names one | bit/s | 0 | 0 (unlimited) … 10¹² |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//! | `less` | size | byte a packet that the line does not carry | 0 | 0 … 64 |
//! | `minimum` | size | byte, least of a packet on the line with `overhead` | 0 | 0 … 1,514 |
//! | `cells` | `atm` | packets go in ATM cells | none | |
//! | `frame` | size | byte | 1514 | 64 … 65,536 |
//! | `limit` | packets, size or duration | | 100 ms | holds at least one largest frame |
//! | `ring_time` | duration | ns | 0 | 0 … 100 ms |
//! | `catchup` | duration | ns | 0 | 0 … 100 ms |
//!
//! # Behaviour
//! The leaf is that of (contract, class); failing this of (no contract, class); failing this the port's default leaf.
//! Built from graph text the tree has one leaf, `default`, in slot 0: a bounded FIFO. Classes come with an
//! [`EgressChange`], which changes the tree, the table of leaves and the rate between two batches, so that no packet is
//! sorted by one generation into the leaves of another. Large changes are done in turns of bounded work: classes are
//! added before that moment, given their new parameters and removed after it. Afterwards the element is to be woken.
//!
//! Of several workers one has the port. In the others the element hands every packet to that one as it is
//! ([`Egress::hand_over`]), and drops what finds no room in the ring (`ring_full`).
//!
//! # Counters
//! Those of [`super::Pump`] and [`super::class_tree`]; `default_leaf`: packets for which only the default leaf was left. Where the
//! port is another worker's only `handed_over`: packets that it got.
//!
//! # Invariants
//! Packets of one leaf leave in order of arrival. A change loses or reorders nothing in leaves it does not name.
//!
//! # Example
//! `FromPort(lan) -> Egress(wan, rate = 10 Mbit/s) -> ToPort(wan)`
//!
//! # Source
//! None: see [`super::class_tree`].

use super::class_tree::{
    ClassTree, FreedSlot, LeafParams, NodeIndex, NodeParams, NodeSpec, TreeChange, TreeLink,
};
use super::pump::Pump;
use super::transmitter::{Transmitter, TransmitterConfig};
use crate::plumbing::adapter::as_any;
use crate::queue::Wait;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_element::{
    ArgError, Args, BuildCx, CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex,
    Reader, TimerId,
};
use perhop_packet::{Batch, ClassId, Handover, LeafId, PortId, SlaId};
use perhop_ring::Producer;
use perhop_units::{Bytes, Duration, Framing, Instant, QueueLimit, Rate};
use std::sync::Arc;

/// Which leaf a packet goes to. Immutable once shared; a change brings a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafMap {
    by_class: Vec<LeafId>,
    by_sla: HashMap<(SlaId, ClassId), LeafId, FixedState>,
    default: LeafId,
}

impl LeafMap {
    /// Everything goes to `default` ([`LeafId::NONE`]: is dropped as without class).
    pub fn new(default: LeafId) -> Self {
        Self { by_class: Vec::new(), by_sla: HashMap::default(), default }
    }

    /// Sends packets of `class` (of contract `sla`, or of none and of contracts that have no own leaf) to `leaf`. A later
    /// entry for the same key replaces an earlier one.
    pub fn insert(&mut self, sla: Option<SlaId>, class: ClassId, leaf: LeafId) {
        match sla {
            Some(sla) => {
                self.by_sla.insert((sla, class), leaf);
            }
            None => {
                if self.by_class.len() <= class.index() {
                    self.by_class.resize(class.index() + 1, LeafId::NONE);
                }
                self.by_class[class.index()] = leaf;
            }
        }
    }

    /// The leaf of packets that match nothing else.
    pub fn default_leaf(&self) -> LeafId {
        self.default
    }

    /// The leaf for (contract, class), and whether only the default was left. O(1).
    #[inline]
    pub fn find(&self, sla: SlaId, class: ClassId) -> (LeafId, bool) {
        if sla.is_some()
            && !self.by_sla.is_empty()
            && let Some(leaf) = self.by_sla.get(&(sla, class))
        {
            return (*leaf, false);
        }
        match self.by_class.get(class.index()) {
            Some(leaf) if leaf.is_some() => (*leaf, false),
            _ => (self.default, true),
        }
    }
}

/// Settings of an [`Egress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressConfig {
    /// The port it feeds.
    pub port: PortId,
    /// The link.
    pub link: TreeLink,
    /// See [`TransmitterConfig::catchup`].
    pub catchup: Duration,
    /// See [`TransmitterConfig::ring_time`].
    pub ring_time: Duration,
    /// Queue of the default leaf.
    pub limit: QueueLimit,
}

impl EgressConfig {
    /// Ethernet at `rate`, everything else at its default.
    pub fn new(port: PortId, rate: Rate) -> Self {
        Self {
            port,
            link: TreeLink::ethernet(rate),
            catchup: Duration::ZERO,
            ring_time: Duration::ZERO,
            limit: LeafParams::default().limit,
        }
    }
}

/// A change of an egress, prepared outside the packet thread and best dropped there too.
#[derive(Debug)]
pub struct EgressChange {
    /// The tree it is meant for: see [`Egress::generation`].
    pub generation: u32,
    /// What happens to the tree. A [`super::TreeEdit::Rate`] in it also sets the line's rate.
    pub tree: TreeChange,
    /// The new table of leaves; after the commit, the old one.
    pub leaf_map: Arc<LeafMap>,
}

/// The element.
pub struct Egress {
    pump: Pump,
    leaf_map: Arc<LeafMap>,
    default_leaf: u64,
    generation: u32,
    /// To the worker that has the port, if that is another.
    away: Option<Away>,
}

/// The way to the worker that has the port.
struct Away {
    ring: Producer<Handover>,
    packets: u64,
    rung: bool,
}

/// What an egress hands to its successor.
struct EgressState {
    port: PortId,
    generation: u32,
    pump: ElementState,
    leaf_map: Arc<LeafMap>,
    default_leaf: u64,
}

impl Egress {
    const DROPS: TimerId = TimerId(1);

    /// Slot of the leaf `default` in an egress made by [`Egress::new`].
    pub const DEFAULT_LEAF: NodeIndex = NodeIndex(0);

    /// An egress whose tree has the one leaf `default`.
    pub fn new(config: EgressConfig) -> Self {
        let queue = Some(LeafParams { limit: config.limit, ..LeafParams::default() });
        let params = NodeParams { queue, ..NodeParams::leaf(None) };
        let spec = NodeSpec { index: Self::DEFAULT_LEAF, name: Arc::from("default"), params };
        let tree = ClassTree::with_classes(config.link, Instant::ZERO, &[spec]);
        Self::with_tree(config, tree, Arc::new(LeafMap::new(LeafId(Self::DEFAULT_LEAF.0))))
    }

    /// An egress with a tree of its own.
    pub fn with_tree(config: EgressConfig, tree: ClassTree, leaf_map: Arc<LeafMap>) -> Self {
        let transmitter = Transmitter::new(TransmitterConfig {
            rate: config.link.rate,
            overhead_bytes: config.link.overhead_bytes,
            framing: config.link.framing,
            catchup: config.catchup,
            ring_time: config.ring_time,
        });
        let pump = Pump::named("Egress", Box::new(tree), transmitter, Some(config.port));
        Self { pump, leaf_map, default_leaf: 0, generation: 0, away: None }
    }

    /// The port it feeds.
    pub fn port(&self) -> PortId {
        self.pump.port().unwrap_or(PortId::NONE)
    }

    /// Which tree of its port this is. Slots are numbered anew in each tree, so whoever names a slot later names its tree
    /// too. It moves with the tree's state; 0 for the first.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Says which tree of its port this is.
    pub fn set_generation(&mut self, generation: u32) {
        self.generation = generation;
    }

    /// Gives every packet from now on to the worker that has the port, by `ring`; the tree here stays empty. To be called
    /// before the first packet.
    pub fn hand_over(&mut self, ring: Producer<Handover>) {
        self.away = Some(Away { ring, packets: 0, rung: false });
    }

    /// Whether another worker has the port.
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Whether the worker that has the port got something since the last call.
    #[inline]
    pub fn take_rung(&mut self) -> bool {
        self.away.as_mut().is_some_and(|away| std::mem::take(&mut away.rung))
    }

    /// Packets and frame bytes sent.
    pub fn sent(&self) -> (u64, u64) {
        self.pump.sent()
    }

    /// See [`Pump::log_waits`].
    pub fn log_waits(&mut self) {
        self.pump.log_waits();
    }

    /// See [`Pump::take_waits`].
    pub fn take_waits(&mut self) -> Vec<Wait> {
        self.pump.take_waits()
    }

    /// See [`ClassTree::length_range`].
    pub fn length_range(&mut self, now: Instant, class: NodeIndex) -> Option<[u64; 2]> {
        self.tree_mut().length_range(now, class)
    }

    /// The tree.
    pub fn tree(&self) -> &ClassTree {
        self.pump.discipline().expect("an egress schedules with a class tree")
    }

    fn tree_mut(&mut self) -> &mut ClassTree {
        self.pump.discipline_mut().expect("an egress schedules with a class tree")
    }

    /// The line.
    pub fn transmitter(&self) -> &Transmitter {
        self.pump.transmitter()
    }

    /// The table of leaves.
    pub fn leaf_map(&self) -> &Arc<LeafMap> {
        &self.leaf_map
    }

    /// Charges the line for a frame of `len` bytes that the kernel sent itself.
    pub fn debit(&mut self, now: Instant, len: u32) {
        self.pump.transmitter_mut().debit(now, len);
    }

    /// Takes up to `budget` steps of a change that no packet notices. `true` when it may be flipped.
    pub fn stage(&mut self, now: Instant, change: &mut EgressChange, budget: usize) -> bool {
        self.tree_mut().stage(now, &mut change.tree, budget)
    }

    /// The moment of the change, one step: packets that arrive from now on are sorted by the new table of leaves, and the
    /// line has its new rate. [`Egress::finish`] follows.
    pub fn flip(&mut self, now: Instant, change: &mut EgressChange) {
        self.tree_mut().flip(now, &mut change.tree);
        std::mem::swap(&mut self.leaf_map, &mut change.leaf_map);
        // With classes the leaf of a tree without any gets no packets.
        let in_use = self.leaf_map.default_leaf() == LeafId(Self::DEFAULT_LEAF.0);
        self.tree_mut().set_in_use(Self::DEFAULT_LEAF, in_use);
        if let Some(rate) = change.tree.rate() {
            self.pump.change_rate(now, rate);
        }
    }

    /// Takes up to `budget` steps of what the flip left. `true` when all classes are as they are to be. Wake the element
    /// ([`TimerId::MAIN`]) afterwards.
    pub fn finish(&mut self, now: Instant, change: &mut EgressChange, budget: usize) -> bool {
        self.tree_mut().finish(now, &mut change.tree, budget)
    }

    /// The whole change at once. Wake the element ([`TimerId::MAIN`]) afterwards.
    pub fn commit(&mut self, now: Instant, change: &mut EgressChange) {
        self.flip(now, change);
        self.finish(now, change, usize::MAX);
    }

    /// Moves the slots that became free since the last call to `into`.
    pub fn take_freed(&mut self, into: &mut Vec<FreedSlot>) {
        self.tree_mut().take_freed(into);
    }
}

impl Away {
    fn push(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let put = cx.hand_over(&mut self.ring, batch.drain());
        self.packets += put as u64;
        self.rung |= put > 0;
    }
}

impl Egress {
    /// A removed class ends at its time even while the port takes nothing.
    fn watch_drops(&self, cx: &mut Cx<'_>) {
        if let Some(at) = self.tree().next_drop() {
            cx.timer_at_id(Self::DROPS, at);
        }
    }
}

impl Element for Egress {
    fn type_name(&self) -> &'static str {
        "Egress"
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: PortIndex, batch: &mut Batch) {
        if let Some(away) = &mut self.away {
            return away.push(cx, batch);
        }
        for packet in batch.iter_mut() {
            let meta = packet.meta_mut();
            let (leaf, fallback) = self.leaf_map.find(meta.sla, meta.class);
            meta.leaf = leaf;
            self.default_leaf += u64::from(fallback);
        }
        self.pump.push(cx, port, batch);
        self.watch_drops(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        self.tree_mut().drop_overdue(cx);
        self.pump.wake(cx, timer);
        self.watch_drops(cx);
    }

    fn held(&self) -> u64 {
        self.pump.held()
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        if let Some(away) = &self.away {
            return sink.counter("handed_over", away.packets);
        }
        self.pump.counters(sink);
        sink.counter("default_leaf", self.default_leaf);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let pump = self.pump.export_state()?;
        let (leaf_map, default_leaf) = (self.leaf_map.clone(), self.default_leaf);
        let (port, generation) = (self.port(), self.generation);
        Some(Box::new(EgressState { port, generation, pump, leaf_map, default_leaf }))
    }

    /// Refused for another port: a queue does not change its way out.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let state = state.downcast::<EgressState>()?;
        if state.port != self.port() {
            return Err(state);
        }
        let EgressState { port, generation, pump, leaf_map, default_leaf } = *state;
        if let Err(pump) = self.pump.import_state(pump) {
            return Err(Box::new(EgressState { port, generation, pump, leaf_map, default_leaf }));
        }
        (self.generation, self.leaf_map, self.default_leaf) = (generation, leaf_map, default_leaf);
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.pump.drain(out);
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Egress",
    synopsis: "schedules a port's packets by its class tree at the port's pace",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| build(args, cx),
    sample: |rng| {
        let rate = 1 + rng.next_u32() % 100;
        let limit = 1 + rng.next_u32() % 100;
        format!("{}, rate = {rate} Mbit/s, limit = {limit} packets", rng.next_u32() % 4)
    },
};

fn build(args: &Args, cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let port = r.port("port", Some(0), cx);
    let rate = r.optional_in("rate", None, Rate::ZERO, Rate::ZERO..=Rate::MOST);
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256));
    let less = r.optional_in("less", None, Bytes(0), Bytes(0)..=Bytes(64));
    let minimum = r.optional_in("minimum", None, Bytes(0), Bytes(0)..=Bytes(1514));
    let cells = r.choice("cells", false, &[("atm", true)]);
    let framing = Framing::new(less.0 as u8, minimum.0 as u16, cells);
    let frame = r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536));
    let longest = Duration::from_millis(100);
    let ring_time = r.optional_in("ring_time", None, Duration::ZERO, Duration::ZERO..=longest);
    let catchup = r.optional_in("catchup", None, Duration::ZERO, Duration::ZERO..=longest);
    let limit = r.optional("limit", None).unwrap_or(LeafParams::default().limit);
    let link = TreeLink { rate, max_frame: frame.0 as u32, overhead_bytes: overhead.0 as u32, framing };
    let too_short = match limit {
        QueueLimit::Packets(n) => n == 0,
        QueueLimit::Bytes(n) => n < Bytes(link.max_cost()),
        QueueLimit::Time(ns) => ns == Duration(0),
    };
    if too_short {
        let allowed = format!("at least 1 packet, {} B or any time above 0", link.max_cost());
        r.fail("limit", "limit cannot hold one full-size packet".to_owned(), Some(allowed));
    }
    r.finish(Box::new(Egress::new(EgressConfig { port, link, catchup, ring_time, limit })) as _)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use crate::schedule::TreeEdit;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_packet::DropReason;
    use proptest::prelude::*;

    fn push(bench: &mut Bench, sla: SlaId, class: ClassId) {
        let mut packet = bench.packet(&udp(986));
        packet.meta_mut().sla = sla;
        packet.meta_mut().class = class;
        bench.push_packet(0, packet);
    }

    fn leaf(index: u32, name: &str, tier: u8) -> TreeEdit {
        TreeEdit::Add {
            index: NodeIndex(index),
            name: name.into(),
            params: NodeParams { tier, ..NodeParams::leaf(None) },
        }
    }

    #[test]
    fn without_classes_it_is_a_bounded_fifo_at_its_rate() {
        let mut cx = BuildCx::default();
        cx.ports.insert("wan".to_owned(), PortId(1));
        let built = (TYPE.build)(&args("wan, rate = 8 Mbit/s, limit = 5 packets"), &mut cx).expect("valid");
        let mut bench = Bench::with_seed(built, 1, 1);
        for _ in 0..10 {
            push(&mut bench, SlaId::NONE, ClassId(3));
        }
        bench.run_for(Duration::from_millis(100));
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0).collect();
        assert_eq!(times, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
        let drops = &bench.driver.counters(bench.node).expect("it exists").drops;
        assert_eq!(drops[DropReason::QueueFull.index()], 4);
    }

    #[test]
    fn bad_arguments_are_all_reported() {
        let mut cx = BuildCx::default();
        let errors =
            (TYPE.build)(&args("dmz, frame = 1 B, limit = 100 B, x = 1"), &mut cx).err().expect("invalid");
        let keys: Vec<_> = errors.iter().map(|e| e.key.clone().unwrap_or_default()).collect();
        assert_eq!(keys, ["port", "frame", "x"]);
    }

    #[test]
    fn a_full_port_stops_the_pump_until_it_is_woken() {
        let mut bench = Bench::new(Egress::new(EgressConfig::new(PortId(2), Rate(0))), 1);
        bench.driver.set_port_room(PortId(2), 0);
        push(&mut bench, SlaId::NONE, ClassId(0));
        assert!(bench.arrived(0).is_empty());
        assert_eq!(bench.driver.next_wakeup(), None, "the port wakes it, not a timer");
        bench.driver.set_port_room(PortId(2), 8);
        let (now, node) = (bench.now(), bench.node);
        bench.driver.wake(now, node, TimerId::MAIN);
        assert_eq!(bench.arrived(0).len(), 1);
    }

    #[test]
    fn the_leaf_is_found_by_contract_then_class_then_default() {
        let mut map = LeafMap::new(LeafId(9));
        map.insert(None, ClassId(1), LeafId(1));
        map.insert(Some(SlaId(4)), ClassId(1), LeafId(2));
        assert_eq!(map.find(SlaId(4), ClassId(1)), (LeafId(2), false));
        assert_eq!(map.find(SlaId(5), ClassId(1)), (LeafId(1), false));
        assert_eq!(map.find(SlaId::NONE, ClassId(1)), (LeafId(1), false));
        assert_eq!(map.find(SlaId(4), ClassId(0)), (LeafId(9), true));
        assert_eq!(map.find(SlaId::NONE, ClassId::NONE), (LeafId(9), true));
    }

    #[test]
    fn a_commit_flips_tree_map_and_rate_together_and_moves_nothing_queued() {
        let mut bench = Bench::new(Egress::new(EgressConfig::new(PortId(0), Rate(8_000_000))), 1);
        for _ in 0..4 {
            push(&mut bench, SlaId::NONE, ClassId(0));
        }
        let mut map = LeafMap::new(LeafId(0));
        map.insert(None, ClassId(0), LeafId(700));
        let edits = vec![
            leaf(700, "web", 15),
            TreeEdit::Remove { index: Egress::DEFAULT_LEAF, drain_until: Instant(2_500_001) },
            TreeEdit::Rate(Rate(16_000_000)),
        ];
        let mut change =
            EgressChange { generation: 0, tree: TreeChange::prepare(edits), leaf_map: Arc::new(map) };
        let (now, node) = (bench.now(), bench.node);
        let egress: &mut Egress = bench.element();
        assert!(!egress.stage(now, &mut change, 0));
        egress.commit(now, &mut change);
        assert_eq!(change.leaf_map.default_leaf(), LeafId(0), "the old table comes back");
        bench.driver.wake(now, node, TimerId::MAIN);
        push(&mut bench, SlaId::NONE, ClassId(0));
        bench.run_for(Duration::from_millis(50));
        assert_eq!(bench.arrived(0).len(), 5);
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0).collect();
        assert_eq!(times, [0, 500_000, 1_000_000, 1_500_000, 2_000_000]);
        let mut freed = Vec::new();
        bench.element::<Egress>().take_freed(&mut freed);
        let freed: Vec<_> =
            freed.iter().map(|f| (f.index, f.counters.packets, f.counters.dropped_class_removed)).collect();
        assert_eq!(freed, [(Egress::DEFAULT_LEAF, 4, 0)]);
    }

    #[test]
    fn a_removed_class_ends_at_its_time_though_the_port_takes_nothing() {
        let mut bench = Bench::new(Egress::new(EgressConfig::new(PortId(0), Rate(8_000_000))), 1);
        bench.driver.set_port_room(PortId(0), 0);
        for _ in 0..200 {
            push(&mut bench, SlaId::NONE, ClassId(0));
        }
        let held = bench.element::<Egress>().held();
        assert_eq!(held, 100, "100 ms");
        let until = Instant(5_000_000);
        let edits = vec![TreeEdit::Remove { index: Egress::DEFAULT_LEAF, drain_until: until }];
        let map = Arc::new(LeafMap::new(LeafId::NONE));
        let mut change = EgressChange { generation: 0, tree: TreeChange::prepare(edits), leaf_map: map };
        let (now, node) = (bench.now(), bench.node);
        bench.element::<Egress>().commit(now, &mut change);
        bench.driver.wake(now, node, TimerId::MAIN);
        bench.run_until(Instant(until.0 - 1));
        assert_eq!(bench.element::<Egress>().held(), held);
        bench.run_for(Duration::from_micros(10));
        assert_eq!(bench.element::<Egress>().held(), 0);
        let mut freed = Vec::new();
        bench.element::<Egress>().take_freed(&mut freed);
        let freed: Vec<_> = freed.iter().map(|f| (f.index, f.counters.dropped_class_removed)).collect();
        assert_eq!(freed, [(Egress::DEFAULT_LEAF, held)]);
    }

    fn set_rate(bench: &mut Bench, rate: u64) {
        let (now, node) = (bench.now(), bench.node);
        let egress: &mut Egress = bench.element();
        let (tree, leaf_map) =
            (TreeChange::prepare(vec![TreeEdit::Rate(Rate(rate))]), egress.leaf_map().clone());
        egress.commit(now, &mut EgressChange { generation: 0, tree, leaf_map });
        bench.driver.wake(now, node, TimerId::MAIN);
    }

    #[test]
    fn a_rate_that_falls_and_rises_again_neither_loses_nor_stalls_nor_bursts() {
        let mut bench = Bench::new(Egress::new(EgressConfig::new(PortId(0), Rate(10_000_000))), 1);
        // 100 ms at 10 Mbit/s, in a queue limited to 100 ms: ten times as much as fits at 1 Mbit/s.
        for _ in 0..125 {
            push(&mut bench, SlaId::NONE, ClassId(0));
        }
        bench.run_until(Instant(8_400_000));
        set_rate(&mut bench, 1_000_000);
        assert_eq!(bench.arrived(0).len(), 11);
        bench.run_until(Instant(28_000_000));
        set_rate(&mut bench, 10_000_000);
        bench.run_for(Duration::from_millis(200));
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0).collect();
        // The 11th has half its bits left at 8.4 ms: 4 ms more. Then 8 ms a packet: the 13th began at 20.4 ms and is 7.6 ms
        // long done at 28 ms, so 50 bytes are left, which take 40 µs.
        assert_eq!(times[10..15], [8_000_000, 12_400_000, 20_400_000, 28_040_000, 28_840_000]);
        assert_eq!(times.len(), 125, "nothing is lost");
        assert!(times[13..].windows(2).all(|w| w[1] - w[0] == 800_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A packet starts when the rates so far have sent exactly the bits before it, give or take a nanosecond.
        #[test]
        fn whatever_the_rate_was_the_line_sends_exactly_that(
            changes in prop::collection::vec((1u64..40_000_000, 5u32..37), 0..12),
        ) {
            let mut bench = Bench::new(Egress::new(EgressConfig { limit: QueueLimit::Packets(1000), ..EgressConfig::new(PortId(0), Rate(10_000_000)) }), 1);
            for _ in 0..100 {
                push(&mut bench, SlaId::NONE, ClassId(0));
            }
            let mut rates = vec![(0u64, 10_000_000u64)];
            for (gap, log) in changes {
                bench.run_for(Duration(gap));
                // From about 8 kbit/s to 100 Gbit/s.
                let rate = (1 << log) + 8_000;
                set_rate(&mut bench, rate);
                rates.push((bench.now().0, rate));
            }
            bench.run_for(Duration::from_millis(10));
            set_rate(&mut bench, 1_000_000);
            rates.push((bench.now().0, 1_000_000));
            bench.run_for(Duration::from_secs(10));
            let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0).collect();
            prop_assert_eq!(times.len(), 100);
            for (n, at) in times.into_iter().enumerate() {
                let ends = rates.iter().skip(1).map(|r| r.0).chain([u64::MAX]);
                let spans = rates.iter().zip(ends);
                let sent = |at: u64| -> u128 {
                    let bits = |((from, rate), end): (&(u64, u64), u64)| {
                        u128::from(at.min(end).saturating_sub(*from)) * u128::from(*rate)
                    };
                    spans.clone().map(bits).sum()
                };
                let before = n as u128 * 8_000 * 1_000_000_000;
                prop_assert!(sent(at + 1) >= before, "packet {} at {} is early", n, at);
                prop_assert!(at == 0 || sent(at - 1) <= before, "packet {} at {} is late", n, at);
            }
        }
    }

    #[test]
    fn state_moves_to_a_successor_with_every_packet() {
        let config = EgressConfig::new(PortId(0), Rate(8_000_000));
        let mut bench = Bench::new(Egress::new(config), 1);
        for _ in 0..4 {
            push(&mut bench, SlaId::NONE, ClassId(0));
        }
        let state = bench.element::<Egress>().export_state().expect("it has state");
        let mut next = Egress::new(config);
        assert!(next.import_state(Box::new(5u8)).is_err());
        let mut elsewhere = Egress::new(EgressConfig { port: PortId(1), ..config });
        let state = elsewhere.import_state(state).expect_err("another port");
        assert!(next.import_state(state).is_ok());
        assert_eq!(next.held(), 3);
        assert_eq!(bench.element::<Egress>().held(), 0);
        assert_eq!(next.transmitter().busy_until(), Instant(1_000_000));
        let mut out = Batch::new();
        next.drain(&mut out);
        assert_eq!((out.len(), next.held()), (3, 0));
        out.release_all();
    }
}
