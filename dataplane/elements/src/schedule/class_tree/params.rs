//! What a class is told to be, and the check that all classes together are possible.

use crate::drop::{Averages, BlueConfig, COLORS, CoDelConfig, FqCoDelConfig, PieConfig, WfqConfig, wfq};
use perhop_packet::DropReason;
use perhop_units::{Bytes, Duration, Framing, Probability, QueueLimit, Rate};
use std::collections::HashMap;
use std::sync::Arc;
use thiserror::Error;

/// Slot of a class, chosen by the caller, dense from 0. The slot of a leaf is also its
/// [`perhop_packet::LeafId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// Most levels of classes: a path from a top-level class to a leaf has at most this many.
pub const MAX_DEPTH: u8 = 8;
/// Tiers are 0 … `TIERS − 1`.
pub const TIERS: u8 = 16;
/// Most slots of one tree.
pub const MAX_NODES: u32 = 1 << 20;
/// Largest weight of a class over the smallest among its siblings.
pub const MAX_WEIGHT_RATIO: u32 = 1_000;
/// Most queues for flows in one leaf.
pub const MAX_FLOWS: u32 = 65_536;
/// Largest burst: 500 MB.
pub const MAX_BURST: u64 = 500_000_000;

/// The link below a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLink {
    /// Its rate; zero = unlimited or unknown.
    pub rate: Rate,
    /// Largest frame, in bytes, without `overhead_bytes`. Longer ones are forwarded, and charged in full.
    pub max_frame: u32,
    /// Bytes added to each frame when it is charged.
    pub overhead_bytes: u32,
    /// What the link makes of a frame with them.
    pub framing: Framing,
}

impl TreeLink {
    /// A link that carries full-size Ethernet frames (1,514 bytes without FCS).
    pub const fn ethernet(rate: Rate) -> Self {
        Self { rate, max_frame: 1514, overhead_bytes: 0, framing: Framing::PLAIN }
    }

    /// Bytes charged for the largest frame.
    pub const fn max_cost(&self) -> u64 {
        self.charge(self.max_frame as u64)
    }

    /// Bytes charged for a frame of `len`.
    #[inline]
    pub const fn charge(&self, len: u64) -> u64 {
        self.framing.of(len + self.overhead_bytes as u64)
    }

    /// Bytes charged for `frames` of `bytes` together; where the link frames them, as if all were equally long.
    pub const fn charge_all(&self, bytes: u64, frames: u64) -> u64 {
        self.framing.of_all(bytes, frames, self.overhead_bytes as u64)
    }

    /// The burst a class gets that names none: two of the largest frames or 10 ms of `rate`, whichever is more.
    pub fn default_burst(&self, rate: Rate) -> Bytes {
        let ten_ms = rate.bytes_in(perhop_units::Duration::from_millis(10)).0;
        Bytes(ten_ms.max(2 * self.max_cost()).min(MAX_BURST))
    }
}

/// Queue of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafParams {
    /// When it is full. A time is counted at the rate the class can at least get: its guarantee, or when it has none
    /// the lower of ceiling and link rate; never less than two of the largest frames. Bytes count frame and overhead.
    pub limit: QueueLimit,
    /// How it drops before it is full.
    pub kind: LeafKind,
}

/// How a leaf's queue drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeafKind {
    /// Arrivals to a full queue.
    #[default]
    Fifo,
    /// Before that as well. Few classes do, and their parameters are many.
    Early(Arc<EarlyDrop>),
}

impl LeafKind {
    /// Why packets are dropped before the queue is full: of RED those that are dropped by force among them.
    pub fn early(&self) -> DropReason {
        match self {
            Self::Fifo => DropReason::CoDel,
            Self::Early(early) => match &**early {
                EarlyDrop::Red { .. } | EarlyDrop::Wred { .. } => DropReason::RedEarly,
                EarlyDrop::CoDel(_) | EarlyDrop::FqCoDel(_) | EarlyDrop::Wfq(_) => DropReason::CoDel,
                EarlyDrop::Pie(_) => DropReason::Pie,
                EarlyDrop::Blue(_) => DropReason::Blue,
            },
        }
    }

    /// RED between a sixth and half of the limit, up to 10 %, with ECN.
    pub fn red() -> Self {
        let curve = Curve { min_ppm: 166_667, max_ppm: 500_000, max_p: Probability(u32::MAX / 10) };
        Self::from(EarlyDrop::Red { curve, ecn: true })
    }
}

impl From<EarlyDrop> for LeafKind {
    fn from(early: EarlyDrop) -> Self {
        Self::Early(Arc::new(early))
    }
}

/// How a queue drops before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyDrop {
    /// Random early detection on the average queue, gently.
    Red {
        /// By which average how many.
        curve: Curve,
        /// Marks ECN-capable packets instead of dropping them early.
        ecn: bool,
    },
    /// The same at three drop precedences ([`crate::drop::wred`]).
    Wred {
        /// Of green, yellow and red: thresholds never rise and probabilities never fall in this order.
        curves: [Curve; COLORS],
        /// What is averaged.
        averages: Averages,
        /// The precedence of an AF code point counts before the colour.
        by_dscp: bool,
        /// Marks ECN-capable packets instead of dropping them early.
        ecn: bool,
    },
    /// By the time that packets have waited ([`crate::drop::codel`]). Its `mtu` is the link's largest frame, whatever it
    /// says.
    CoDel(CoDelConfig),
    /// By a controller of the waiting time ([`crate::drop::pie`]).
    Pie(PieConfig),
    /// By overflow and idleness ([`crate::drop::blue`]).
    Blue(BlueConfig),
    /// CoDel in a queue for each flow ([`crate::drop::fq_codel`]). As to `mtu` as above.
    FqCoDel(FqCoDelConfig),
    /// A queue for each flow by weighted fair queueing ([`crate::drop::wfq`]).
    Wfq(WfqConfig),
}

/// Chance of being dropped by the average queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Average below which nothing is dropped, in parts per million of the limit.
    pub min_ppm: u32,
    /// Average at which the drop probability is `max_p`, in parts per million of the limit; above `min_ppm`.
    pub max_ppm: u32,
    /// Drop probability at `max_ppm`.
    pub max_p: Probability,
}

impl Default for LeafParams {
    /// 100 ms.
    fn default() -> Self {
        Self { limit: QueueLimit::Time(Duration(100_000_000)), kind: LeafKind::Fifo }
    }
}

/// A rate with its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// bit/s.
    pub rate: Rate,
    /// At least two of the largest frames, at most [`MAX_BURST`].
    pub burst: Bytes,
}

/// Everything a class can be told. Its parent and whether it is a leaf are fixed for the life of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeParams {
    /// The class above; `None` at the top.
    pub parent: Option<NodeIndex>,
    /// What it gets whatever others do; `None` = nothing.
    pub guarantee: Option<Bound>,
    /// What it never exceeds; `None` = the link.
    pub ceiling: Option<Bound>,
    /// Share of excess against its siblings, ≥ 1; at most [`MAX_WEIGHT_RATIO`] times the smallest of them.
    pub weight: u32,
    /// Order of guarantees among leaves, 0 (first) … 15.
    pub tier: u8,
    /// The queue of a leaf; `None` for a class with classes below.
    pub queue: Option<LeafParams>,
}

impl NodeParams {
    /// A leaf without guarantee or ceiling, weight 1, last tier.
    pub fn leaf(parent: Option<NodeIndex>) -> Self {
        Self {
            parent,
            guarantee: None,
            ceiling: None,
            weight: 1,
            tier: TIERS - 1,
            queue: Some(LeafParams::default()),
        }
    }

    /// As [`NodeParams::leaf`], for a class with classes below.
    pub fn interior(parent: Option<NodeIndex>) -> Self {
        Self { queue: None, ..Self::leaf(parent) }
    }

    /// The guaranteed rate, zero for none.
    pub fn guaranteed(&self) -> Rate {
        self.guarantee.map_or(Rate::ZERO, |b| b.rate)
    }
}

/// A class as [`super::ClassTree::validate`] sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its slot.
    pub index: NodeIndex,
    /// Its name, for messages.
    pub name: Arc<str>,
    /// The rest.
    pub params: NodeParams,
}

/// What is wrong with a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum TreeErrorKind {
    /// Two classes in one slot.
    #[error("its slot is taken by another class")]
    SlotTaken,
    /// Slot number too large.
    #[error("its slot number is too large")]
    SlotRange,
    /// The parent is not among the classes.
    #[error("its parent does not exist")]
    NoParent,
    /// The parent has a queue.
    #[error("its parent is a leaf")]
    ParentIsLeaf,
    /// The classes above form a circle.
    #[error("it is its own ancestor")]
    Cycle,
    /// Too many levels.
    #[error("it lies too deep in the tree")]
    TooDeep,
    /// The guarantees of its children exceed its own (bit/s).
    #[error("the guarantees of its classes exceed its own")]
    GuaranteesExceedParent,
    /// The top-level guarantees together exceed the link (bit/s). Reported at the last of them.
    #[error("the guarantees of all classes exceed the link")]
    GuaranteesExceedLink,
    /// The guarantee is above the ceiling (bit/s).
    #[error("its guarantee exceeds its ceiling")]
    GuaranteeAboveCeiling,
    /// A child is guaranteed more than this class may ever send (bit/s).
    #[error("a class below is guaranteed more than its ceiling")]
    CeilingBelowChild,
    /// A ceiling of nothing.
    #[error("its ceiling is zero")]
    ZeroCeiling,
    /// Burst out of range (bytes).
    #[error("the burst of its guarantee is out of range")]
    GuaranteeBurst,
    /// Burst out of range (bytes).
    #[error("the burst of its ceiling is out of range")]
    CeilingBurst,
    /// Weight zero.
    #[error("its weight is out of range")]
    Weight,
    /// Weight too large beside its siblings'.
    #[error("its weight is too large beside the smallest of its siblings")]
    WeightRatio,
    /// Tier above 15.
    #[error("its tier is out of range")]
    Tier,
    /// A queue in which a full-size packet could never wait (bytes or packets).
    #[error("its queue cannot hold one full-size packet")]
    QueueTooShort,
    /// RED's upper threshold is not above the lower one, or above the limit (parts per million).
    #[error("the thresholds of its queue are out of order")]
    RedThresholds,
    /// A drop precedence is spared more than a better one (parts per million).
    #[error("its queue spares a drop precedence more than a better one")]
    PrecedenceOrder,
    /// A time of its queue's drops is out of range (ns).
    #[error("a time of its queue is out of range")]
    DropTime,
    /// The number of flow queues is out of range.
    #[error("the number of its flow queues is out of range")]
    Flows,
}

/// One error of one class.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("class {node:?}: {kind}: {value}, allowed is {allowed}")]
pub struct TreeError {
    /// Name of the class.
    pub node: Arc<str>,
    /// What is wrong.
    pub kind: TreeErrorKind,
    /// The value given, in the unit the kind names.
    pub value: u64,
    /// What is allowed, in words.
    pub allowed: String,
}

/// Checks that `specs` together form a tree that keeps its promises on `link`. Pure; O(n · depth).
///
/// # Errors
/// Every violation found.
pub fn validate(specs: &[NodeSpec], link: &TreeLink) -> Result<(), Vec<TreeError>> {
    let mut check = Check { by_slot: HashMap::with_capacity(specs.len()), link, errors: Vec::new() };
    for spec in specs {
        if check.by_slot.insert(spec.index, spec).is_some() {
            check.fail(spec, TreeErrorKind::SlotTaken, spec.index.0.into(), "a free slot");
        }
        check.own_values(spec);
    }
    for spec in specs {
        check.place(spec);
    }
    check.sums(specs);
    if check.errors.is_empty() { Ok(()) } else { Err(check.errors) }
}

struct Check<'a> {
    by_slot: HashMap<NodeIndex, &'a NodeSpec>,
    link: &'a TreeLink,
    errors: Vec<TreeError>,
}

impl Check<'_> {
    fn fail(&mut self, spec: &NodeSpec, kind: TreeErrorKind, value: u64, allowed: impl Into<String>) {
        self.errors.push(TreeError { node: spec.name.clone(), kind, value, allowed: allowed.into() });
    }

    fn own_values(&mut self, spec: &NodeSpec) {
        let p = &spec.params;
        if spec.index.0 >= MAX_NODES {
            self.fail(spec, TreeErrorKind::SlotRange, spec.index.0.into(), format!("0 to {}", MAX_NODES - 1));
        }
        if p.weight == 0 || p.weight > 1_000_000 {
            self.fail(spec, TreeErrorKind::Weight, p.weight.into(), "1 to 1000000");
        }
        if p.tier >= TIERS {
            self.fail(spec, TreeErrorKind::Tier, p.tier.into(), format!("0 to {}", TIERS - 1));
        }
        let bursts = 2 * self.link.max_cost()..=MAX_BURST;
        let range = format!("{} to {} B", bursts.start(), bursts.end());
        if let Some(g) = p.guarantee.filter(|g| g.rate.0 > 0 && !bursts.contains(&g.burst.0)) {
            self.fail(spec, TreeErrorKind::GuaranteeBurst, g.burst.0, range.clone());
        }
        if let Some(c) = p.ceiling {
            if !bursts.contains(&c.burst.0) {
                self.fail(spec, TreeErrorKind::CeilingBurst, c.burst.0, range);
            }
            if c.rate.0 == 0 {
                self.fail(spec, TreeErrorKind::ZeroCeiling, 0, "1 bit/s or more");
            } else if c.rate < p.guaranteed() {
                let allowed = format!("at most {} bit/s", c.rate.0);
                self.fail(spec, TreeErrorKind::GuaranteeAboveCeiling, p.guaranteed().0, allowed);
            }
        }
        match p.queue.as_ref().map(|q| q.limit) {
            Some(QueueLimit::Bytes(n)) if n < Bytes(self.link.max_cost()) => {
                let allowed = format!("{} B or more", self.link.max_cost());
                self.fail(spec, TreeErrorKind::QueueTooShort, n.0, allowed);
            }
            Some(QueueLimit::Packets(0) | QueueLimit::Time(Duration(0))) => {
                self.fail(spec, TreeErrorKind::QueueTooShort, 0, "1 or more");
            }
            _ => {}
        }
        if let Some(LeafParams { kind: LeafKind::Early(early), .. }) = &p.queue {
            self.early(spec, early);
        }
    }

    fn early(&mut self, spec: &NodeSpec, early: &EarlyDrop) {
        match early {
            EarlyDrop::Red { curve, .. } => self.curve(spec, curve),
            EarlyDrop::Wred { curves, .. } => {
                curves.iter().for_each(|curve| self.curve(spec, curve));
                for [better, worse] in [[curves[0], curves[1]], [curves[1], curves[2]]] {
                    if worse.min_ppm > better.min_ppm || worse.max_ppm > better.max_ppm {
                        let allowed = format!("at most {} to {} ppm", better.min_ppm, better.max_ppm);
                        self.fail(spec, TreeErrorKind::PrecedenceOrder, worse.max_ppm.into(), allowed);
                    }
                    if worse.max_p < better.max_p {
                        let allowed = "probabilities that never fall";
                        self.fail(spec, TreeErrorKind::PrecedenceOrder, worse.max_p.0.into(), allowed);
                    }
                }
            }
            EarlyDrop::CoDel(c) => self.codel(spec, c),
            EarlyDrop::Pie(p) if p.update == Duration::ZERO || p.target == Duration::ZERO => {
                self.fail(spec, TreeErrorKind::DropTime, 0, "above 0");
            }
            EarlyDrop::FqCoDel(c) => {
                self.codel(spec, &c.codel);
                if !(1..=MAX_FLOWS).contains(&c.flows) {
                    self.fail(spec, TreeErrorKind::Flows, c.flows.into(), format!("1 to {MAX_FLOWS}"));
                }
            }
            EarlyDrop::Wfq(c) => {
                if !(1..=wfq::MAX_FLOWS).contains(&c.flows) {
                    let allowed = format!("1 to {}", wfq::MAX_FLOWS);
                    self.fail(spec, TreeErrorKind::Flows, c.flows.into(), allowed);
                }
            }
            EarlyDrop::Pie(_) | EarlyDrop::Blue(_) => {}
        }
    }

    fn curve(&mut self, spec: &NodeSpec, curve: &Curve) {
        if !(curve.min_ppm < curve.max_ppm && curve.max_ppm <= 1_000_000) {
            let allowed = format!("{} to 1000000 ppm", curve.min_ppm.saturating_add(1));
            self.fail(spec, TreeErrorKind::RedThresholds, curve.max_ppm.into(), allowed);
        }
    }

    fn codel(&mut self, spec: &NodeSpec, c: &CoDelConfig) {
        if c.interval < c.target || c.interval == Duration::ZERO {
            let allowed = format!("{} ns or more, above 0", c.target.0);
            self.fail(spec, TreeErrorKind::DropTime, c.interval.0, allowed);
        }
    }

    fn place(&mut self, spec: &NodeSpec) {
        let mut depth = 1;
        let mut at = spec;
        while let Some(parent) = at.params.parent {
            let Some(above) = self.by_slot.get(&parent).copied() else {
                if depth == 1 {
                    self.fail(spec, TreeErrorKind::NoParent, parent.0.into(), "an existing class");
                }
                return;
            };
            if depth == 1 && above.params.queue.is_some() {
                self.fail(spec, TreeErrorKind::ParentIsLeaf, parent.0.into(), "a class without a queue");
            }
            if above.index == spec.index {
                self.fail(spec, TreeErrorKind::Cycle, spec.index.0.into(), "a tree");
                return;
            }
            depth += 1;
            if depth > MAX_DEPTH {
                self.fail(spec, TreeErrorKind::TooDeep, depth.into(), format!("at most {MAX_DEPTH} levels"));
                return;
            }
            at = above;
        }
    }

    fn sums(&mut self, specs: &[NodeSpec]) {
        let mut sums: HashMap<Option<NodeIndex>, (u128, u32)> = HashMap::new();
        for spec in specs {
            let entry = sums.entry(spec.params.parent).or_insert((0, u32::MAX));
            entry.0 += u128::from(spec.params.guaranteed().0);
            entry.1 = entry.1.min(spec.params.weight.max(1));
        }
        let saturate = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        for spec in specs {
            let p = &spec.params;
            let smallest = sums.get(&p.parent).map_or(1, |s| s.1);
            if p.weight / smallest > MAX_WEIGHT_RATIO {
                let allowed = format!("at most {}", u64::from(smallest) * u64::from(MAX_WEIGHT_RATIO));
                self.fail(spec, TreeErrorKind::WeightRatio, p.weight.into(), allowed);
            }
            let Some((below, _)) = sums.get(&Some(spec.index)).copied() else { continue };
            if below > u128::from(p.guaranteed().0) {
                let allowed = format!("at most {} bit/s", p.guaranteed().0);
                self.fail(spec, TreeErrorKind::GuaranteesExceedParent, saturate(below), allowed);
            }
            if let Some(c) = p.ceiling.filter(|c| below > u128::from(c.rate.0)) {
                let allowed = format!("at most {} bit/s", c.rate.0);
                self.fail(spec, TreeErrorKind::CeilingBelowChild, saturate(below), allowed);
            }
        }
        let top = sums.get(&None).map_or(0, |s| s.0);
        if self.link.rate.0 > 0
            && top > u128::from(self.link.rate.0)
            && let Some(last) =
                specs.iter().rfind(|s| s.params.parent.is_none() && s.params.guaranteed().0 > 0)
        {
            let allowed = format!("at most {} bit/s", self.link.rate.0);
            self.fail(last, TreeErrorKind::GuaranteesExceedLink, saturate(top), allowed);
        }
    }
}
