//! One port's classes as a tree: slots, parameters, edits, leaf table.

use super::leaf::leaf_params;
use super::moved::Moved;
use super::places::Places;
use super::rule::{self, Ruled, Told};
use super::slots::Slots;
use perhop_contract::{Draft, Trees, port_queue, port_rate, port_scheduler};
use perhop_elements::schedule::{
    Bound, ClassCounters, ClassTree, Egress, EgressChange, FreedSlot, LeafMap, MAX_RULED, NodeIndex,
    NodeParams, NodeSpec, RuleSpec, TreeChange, TreeEdit, TreeError, TreeErrorKind, TreeLink,
};
use perhop_model::{ClassSpec, ErrorItem, Key, Kind, Name, QueueSpec, Scheduler};
use perhop_packet::{ClassId, LeafId, PortId, SlaId};
use perhop_reason::Code;
use perhop_units::{Bytes, Framing, Instant, QueueLimit, Rate};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The longest queue of a class that shares the limit of its port, in packets.
pub(super) const MAX_SHARED: QueueLimit = QueueLimit::Packets(1_000_000);

/// What one class object comes to.
#[derive(Clone, Debug)]
struct Wanted {
    /// Object id: a class made again under its name is another class.
    id: u64,
    parent: Option<Name>,
    params: NodeParams,
    /// What only some laws want to know.
    told: Told,
}

/// Identity of a slot: a class that changes its parent or its being a leaf gets a new slot.
type SlotKey = (u64, Option<u64>, bool);

/// Whose a slot is.
#[derive(Clone, Debug)]
struct Holder {
    name: Name,
    id: u64,
    parent: Option<u32>,
}

/// The planner's picture of one port's tree.
#[derive(Clone, Debug)]
pub struct PortTree {
    name: Name,
    framing: (u32, Framing),
    /// Last said to the tree; before, what the port begins with.
    rate: Rate,
    slots: Slots<SlotKey>,
    /// Parameters last sent, by slot.
    sent: BTreeMap<u32, NodeParams>,
    /// Class object behind each slot that is not free.
    owners: BTreeMap<u32, Holder>,
    /// Slots that their class left, until the worker watches them no more; with the class object.
    moving: BTreeMap<u32, (Name, u64)>,
    /// The law last sent; none: the tree's own.
    rule: Option<RuleSpec>,
    /// Which tree of the port this is: slots are numbered anew in each.
    generation: u32,
    /// Slots of earlier trees that still drain, by tree and slot, with the class object's id.
    former: BTreeMap<(u32, u32), u64>,
}

/// A worker's word that a leaf of a tree is free, or that a whole tree is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Port.
    pub port: PortId,
    /// Which tree of the port.
    pub generation: u32,
    /// Its slot; `None`: the tree is gone and whatever was left in it is free.
    pub slot: Option<u32>,
    /// What its class counted in the slot.
    pub counters: ClassCounters,
    /// The slot is not free by this, but the worker watches it no more: its class had left it.
    pub left: bool,
}

impl Freed {
    pub(super) fn slot(port: PortId, generation: u32, slot: FreedSlot) -> Self {
        Self { port, generation, slot: Some(slot.index.0), counters: slot.counters, left: false }
    }

    pub(super) fn tree(port: PortId, generation: u32) -> Self {
        Self { port, generation, slot: None, counters: ClassCounters::default(), left: false }
    }

    pub(super) fn left(port: PortId, generation: u32, slot: NodeIndex) -> Self {
        Self { left: true, ..Self::slot(port, generation, FreedSlot::unused(slot)) }
    }
}

impl PortTree {
    /// A port whose tree has only the default leaf, and this rate until a plan says another. `framing` as
    /// [`perhop_model::PortSpec::framing`] gives it.
    pub fn new(name: Name, rate: Rate, framing: (u32, Framing)) -> Self {
        Self {
            name,
            framing,
            rate,
            slots: Slots::from_number(Egress::DEFAULT_LEAF.0 + 1),
            sent: BTreeMap::new(),
            owners: BTreeMap::new(),
            moving: BTreeMap::new(),
            rule: None,
            generation: 0,
            former: BTreeMap::new(),
        }
    }

    /// The port.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The same port with another tree, which has only the default leaf. What the one before it holds drains on.
    pub fn empty(&self) -> Self {
        let mut former = self.former.clone();
        former.extend(self.owners.iter().map(|(slot, of)| ((self.generation, *slot), of.id)));
        Self {
            generation: self.generation + 1,
            former,
            ..Self::new(self.name.clone(), Rate::ZERO, self.framing)
        }
    }

    /// Which tree of the port this is.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    fn link(&self, rate: Rate) -> TreeLink {
        let (overhead_bytes, framing) = self.framing;
        TreeLink { overhead_bytes, framing, ..TreeLink::ethernet(rate) }
    }

    /// Class objects behind slots: (slot, name, object id).
    pub fn classes(&self) -> impl Iterator<Item = (u32, &Name, u64)> {
        self.owners.iter().map(|(slot, of)| (*slot, &of.name, of.id))
    }

    /// The class object behind a slot.
    pub fn class_of(&self, slot: u32) -> Option<(&Name, u64)> {
        self.owners.get(&slot).map(|of| (&of.name, of.id))
    }

    /// A worker says that a slot is free, of this tree or one before. Gives the id of the class object that had it.
    pub(super) fn freed(&mut self, generation: u32, slot: u32) -> Option<u64> {
        if generation != self.generation {
            return self.former.remove(&(generation, slot));
        }
        if self.sent.contains_key(&slot) {
            return None;
        }
        let of = self.owners.remove(&slot)?;
        self.release(slot);
        Some(of.id)
    }

    /// A worker watches a slot no more that its class had left.
    pub(super) fn left(&mut self, generation: u32, slot: u32) {
        if generation == self.generation && self.moving.remove(&slot).is_some() {
            self.release(slot);
        }
    }

    /// The number of a slot can be given again when it is free and nobody watches it.
    fn release(&mut self, slot: u32) {
        if !self.owners.contains_key(&slot) && !self.moving.contains_key(&slot) {
            self.slots.free(slot);
        }
    }

    /// A worker says that an earlier tree is gone with everything in it. Gives the ids of the class objects, one a slot.
    pub(super) fn tree_gone(&mut self, generation: u32) -> Vec<u64> {
        let of_it = self.former.range((generation, 0)..=(generation, u32::MAX));
        let slots: Vec<u32> = of_it.map(|((_, slot), _)| *slot).collect();
        slots.into_iter().filter_map(|slot| self.former.remove(&(generation, slot))).collect()
    }

    /// Whether slots that their classes left are of classes which the draft deletes. O(such slots · log n).
    pub(super) fn outlives(&self, draft: &Draft<'_>) -> bool {
        self.moving.values().any(|(name, id)| !exists(draft, name, *id))
    }

    /// What the tree cannot take.
    pub fn check(&self, draft: &Draft<'_>, trees: &Trees<'_>) -> Vec<ErrorItem> {
        let rate = port_rate(draft, &self.name);
        let wanted = self.wanted(draft, trees, rate);
        let index: BTreeMap<&Name, u32> = wanted.keys().zip(1..).collect();
        let specs: Vec<NodeSpec> = wanted
            .iter()
            .map(|(name, w)| NodeSpec {
                index: NodeIndex(index[name]),
                name: Arc::from(name.as_str()),
                params: NodeParams { parent: self.parent_index(w, &index), ..w.params.clone() },
            })
            .collect();
        match ClassTree::validate(&specs, &self.link(rate)) {
            Ok(()) => self.check_rule(port_scheduler(draft, &self.name), &wanted, &index, rate),
            Err(errors) => errors.into_iter().map(error_item).collect(),
        }
    }

    /// What the port's scheduler cannot take of a tree that is sound by itself.
    fn check_rule(
        &self,
        scheduler: Scheduler,
        wanted: &BTreeMap<Name, Wanted>,
        index: &BTreeMap<&Name, u32>,
        rate: Rate,
    ) -> Vec<ErrorItem> {
        if scheduler == Scheduler::Tree || wanted.is_empty() {
            return Vec::new();
        }
        // Those that drain need places as well, and the port's own leaf one.
        let places = wanted.len() + self.owners.len() + 1;
        if places > MAX_RULED {
            let why =
                format!("{} classes drain yet: with them there are too many at once", self.owners.len());
            let path = format!("port/{}.scheduler", self.name);
            return vec![ErrorItem {
                limit: Some(MAX_RULED as u64),
                ..ErrorItem::new(Code::LimitReached, &path, why)
            }];
        }
        let live = index.iter().map(|(name, n)| ((*name).clone(), *n)).collect();
        let (names, ruled) = ruled(wanted, &live);
        if scheduler == Scheduler::Hfsc { rule::check(&self.link(rate), &ruled, &names) } else { Vec::new() }
    }

    /// The law of the draft if it is another than that last sent. Slots that no class has any more are part of it.
    fn next_rule(
        &mut self,
        scheduler: Scheduler,
        wanted: &BTreeMap<Name, Wanted>,
        live: &BTreeMap<Name, u32>,
        limit: QueueLimit,
    ) -> Option<Option<RuleSpec>> {
        let scheduler = if wanted.is_empty() { Scheduler::Tree } else { scheduler };
        if scheduler == Scheduler::Tree && self.rule.is_none() {
            return None;
        }
        let rest: Vec<NodeIndex> = std::iter::once(Egress::DEFAULT_LEAF)
            .chain(
                self.owners.keys().filter(|slot| !self.sent.contains_key(slot)).map(|slot| NodeIndex(*slot)),
            )
            .collect();
        let spec = rule::spec(scheduler, &self.link(self.rate), limit, &ruled(wanted, live).1, &rest);
        (spec != self.rule).then(|| {
            self.rule.clone_from(&spec);
            spec
        })
    }

    fn parent_index(&self, w: &Wanted, index: &BTreeMap<&Name, u32>) -> Option<NodeIndex> {
        w.parent.as_ref().and_then(|p| index.get(p)).map(|n| NodeIndex(*n))
    }

    /// The classes of this port in the draft, by name.
    fn wanted(&self, draft: &Draft<'_>, trees: &Trees<'_>, rate: Rate) -> BTreeMap<Name, Wanted> {
        let link = self.link(rate);
        let mine = draft.classes_on(&self.name);
        let parents: BTreeSet<&Name> = mine.iter().filter_map(|(_, c, _)| c.parent.as_ref()).collect();
        let scheduler = port_scheduler(draft, &self.name);
        let mut out = BTreeMap::new();
        for (name, c, entry) in &mine {
            let guarantee = trees.guarantee(name, 0);
            let ceiling = trees.ceiling(name, c, rate).filter(|c| *c > Rate(0));
            let leaf = !parents.contains(name);
            let params = NodeParams {
                parent: None,
                guarantee: bound(guarantee, c.burst, &link),
                ceiling: ceiling.and_then(|r| bound(r, c.ceiling_burst, &link)),
                weight: c.weight,
                tier: c.tier,
                queue: leaf.then(|| leaf_params(&own_queue(&c.queue, scheduler))),
            };
            out.insert(
                (*name).clone(),
                Wanted { id: entry.id, parent: c.parent.clone(), params, told: Told::of(c) },
            );
        }
        out
    }

    /// Plans the way from what was last sent to the draft: the change of the tree, and the slots that classes leave for
    /// others. `all`: the graph is another, whose text may name the rate the port had when it was written. `ends`: until
    /// when deleted classes may drain, by object id.
    #[allow(clippy::too_many_arguments, reason = "they are what a plan is made of")]
    pub(super) fn plan(
        &mut self,
        draft: &Draft<'_>,
        all: bool,
        trees: &Trees<'_>,
        places: &mut Places,
        ends: &HashMap<u64, Instant>,
        class_id: &dyn Fn(&str) -> ClassId,
        sla_id: &dyn Fn(&Name) -> Option<SlaId>,
        default_end: Instant,
    ) -> (EgressChange, Vec<Moved>) {
        let rate = port_rate(draft, &self.name);
        let wanted = self.wanted(draft, trees, rate);
        let mut edits = Vec::new();
        if rate != self.rate || all {
            self.rate = rate;
            edits.push(TreeEdit::Rate(rate));
        }
        let live = self.place(&wanted, places, &mut edits);
        let (mut moved, deleted) = self.not_in(&live, draft);
        // Children before parents does not matter to the tree: a class goes with what is below it.
        for (slot, id) in deleted {
            self.sent.remove(&slot);
            let drain_until = ends.get(&id).copied().unwrap_or(default_end);
            edits.push(TreeEdit::Remove { index: NodeIndex(slot), drain_until });
        }
        self.find_below(&mut moved);
        let map = leaf_map(draft, &self.name, &live, class_id, sla_id);
        let generation = self.generation;
        let mut tree = TreeChange::prepare(edits);
        let limit = port_queue(draft, &self.name).limit;
        if let Some(rule) = self.next_rule(port_scheduler(draft, &self.name), &wanted, &live, limit) {
            tree = tree.ruled(rule.as_ref());
        }
        let change = EgressChange { generation, tree, leaf_map: Arc::new(map) };
        (change, moved)
    }

    /// Slots in use until now that no class of the draft is in any more: those their class has left for another, and those
    /// of deleted classes, also those that one of these had left before; with the object ids.
    fn not_in(&mut self, live: &BTreeMap<Name, u32>, draft: &Draft<'_>) -> (Vec<Moved>, BTreeMap<u32, u64>) {
        let in_use: BTreeSet<u32> = live.values().copied().collect();
        let gone = self.owners.iter().filter(|(s, _)| !in_use.contains(s) && self.sent.contains_key(s));
        let gone: BTreeMap<u32, (Name, u64)> = gone.map(|(s, of)| (*s, (of.name.clone(), of.id))).collect();
        let stale: Vec<SlotKey> =
            self.slots.iter().filter(|(_, n)| gone.contains_key(n)).map(|(k, _)| *k).collect();
        for key in stale {
            self.slots.retire(&key);
        }
        let left_before = self.moving.iter().filter(|(_, (name, id))| !exists(draft, name, *id));
        let mut deleted: BTreeMap<u32, u64> = left_before.map(|(slot, (_, id))| (*slot, *id)).collect();
        let mut moved = Vec::new();
        for (slot, (name, id)) in gone {
            if exists(draft, &name, id) {
                self.sent.remove(&slot);
                let watched = self.moving.insert(slot, (name, id));
                assert!(watched.is_none(), "a slot is left once, and not given again while it is watched");
                moved.push(Moved { index: NodeIndex(slot), below: Vec::new() });
            } else {
                deleted.insert(slot, id);
            }
        }
        (moved, deleted)
    }

    /// What is below slots that were left, of whatever class. O(slots · log moved), if there are any.
    fn find_below(&self, moved: &mut [Moved]) {
        if moved.is_empty() {
            return;
        }
        // They are in the order of their slots.
        for (slot, of) in &self.owners {
            let Some(parent) = of.parent else { continue };
            if let Ok(at) = moved.binary_search_by_key(&parent, |m| m.index.0) {
                moved[at].below.push(NodeIndex(*slot));
            }
        }
    }

    /// Gives every wanted class a slot, parents first, and says what is new or different.
    fn place(
        &mut self,
        wanted: &BTreeMap<Name, Wanted>,
        places: &mut Places,
        edits: &mut Vec<TreeEdit>,
    ) -> BTreeMap<Name, u32> {
        let mut order: Vec<&Name> = wanted.keys().collect();
        order.sort_by_key(|n| depth(wanted, n));
        let mut live: BTreeMap<Name, u32> = BTreeMap::new();
        for name in order {
            let w = &wanted[name];
            let parent_slot = w
                .parent
                .as_ref()
                .map(|p| live.get(p).copied().expect("a parent is of the same port, and parents come first"));
            let key = (w.id, parent_slot.map(u64::from), w.params.queue.is_some());
            let known = self.slots.find(&key).is_some();
            let slot = self.slots.give(key);
            live.insert(name.clone(), slot);
            let params = NodeParams { parent: parent_slot.map(NodeIndex), ..w.params.clone() };
            let index = NodeIndex(slot);
            if !known {
                let used = self.owners.contains_key(&slot) || self.moving.contains_key(&slot);
                assert!(!used, "a slot is given again when it is free and nobody watches it");
                edits.push(TreeEdit::Add { index, name: Arc::from(name.as_str()), params: params.clone() });
            } else if self.sent.get(&slot) != Some(&params) {
                edits.push(TreeEdit::Update { index, params: params.clone() });
            }
            self.sent.insert(slot, params);
            let holder = Holder { name: name.clone(), id: w.id, parent: parent_slot };
            if self.owners.insert(slot, holder).is_none() {
                places.taken(w.id);
            }
        }
        live
    }
}

/// The queue of a class. Where all classes share a limit, one that was not given a queue has none of its own.
fn own_queue(queue: &QueueSpec, scheduler: Scheduler) -> QueueSpec {
    let shared = scheduler == Scheduler::Jobs && *queue == QueueSpec::default();
    if shared { QueueSpec { limit: MAX_SHARED, ..*queue } } else { *queue }
}

/// Classes for a law, parents first, with their names; by name to slot.
fn ruled<'a>(
    wanted: &'a BTreeMap<Name, Wanted>,
    live: &BTreeMap<Name, u32>,
) -> (Vec<&'a Name>, Vec<Ruled<'a>>) {
    let mut names: Vec<&Name> = wanted.keys().collect();
    names.sort_by_key(|name| depth(wanted, name));
    let number: BTreeMap<&Name, usize> = names.iter().copied().zip(0..).collect();
    let class = |name: &&'a Name| {
        let w = &wanted[*name];
        let parent = w.parent.as_ref().and_then(|p| number.get(p)).copied();
        let index = NodeIndex(live[*name]);
        Ruled { index, parent, params: &w.params, told: w.told }
    };
    let classes = names.iter().map(class).collect();
    (names, classes)
}

/// Whether a class object is in the draft, on whatever port.
fn exists(draft: &Draft<'_>, name: &Name, id: u64) -> bool {
    draft.find(&Key { kind: Kind::Class, name: name.clone() }).is_some_and(|e| e.id == id)
}

fn depth(wanted: &BTreeMap<Name, Wanted>, name: &Name) -> usize {
    let mut depth = 0;
    let mut at = wanted.get(name);
    while let Some(parent) = at.and_then(|w| w.parent.as_ref()) {
        depth += 1;
        if depth > perhop_contract::MAX_DEPTH {
            break;
        }
        at = wanted.get(parent);
    }
    depth
}

fn bound(rate: Rate, burst: Bytes, link: &TreeLink) -> Option<Bound> {
    let least = Bytes(2 * link.max_cost());
    let burst = if burst == Bytes(0) { link.default_burst(rate) } else { burst.max(least) };
    (rate.0 > 0).then_some(Bound { rate, burst })
}

fn leaf_map(
    draft: &Draft<'_>,
    port: &Name,
    live: &BTreeMap<Name, u32>,
    class_id: &dyn Fn(&str) -> ClassId,
    sla_id: &dyn Fn(&Name) -> Option<SlaId>,
) -> LeafMap {
    let classes = draft.classes_on(port);
    let parents: BTreeSet<&Name> = classes.iter().filter_map(|(_, c, _)| c.parent.as_ref()).collect();
    let leaves: Vec<(&Name, &ClassSpec, u32)> =
        classes.iter().filter(|(n, _, _)| !parents.contains(n)).map(|(n, c, _)| (*n, *c, live[*n])).collect();
    let fittest = || leaves.iter().max_by_key(|(name, c, _)| (c.fitness_as_default(), *name));
    let default = leaves.iter().find(|(_, c, _)| c.default).or_else(fittest);
    let mut map = LeafMap::new(LeafId(default.map_or(Egress::DEFAULT_LEAF.0, |(_, _, slot)| *slot)));
    for (name, c, slot) in &leaves {
        let sla = c.sla.as_ref().map(|name| {
            sla_id(name)
                .expect("a contract that a class names is there, and has its number before trees are planned")
        });
        map.insert(sla, class_id(c.logical_name(name)), LeafId(*slot));
    }
    map
}

fn error_item(e: TreeError) -> ErrorItem {
    let code = match e.kind {
        TreeErrorKind::GuaranteesExceedParent | TreeErrorKind::GuaranteesExceedLink => Code::NoCapacity,
        _ => Code::OutOfRange,
    };
    ErrorItem {
        op: None,
        path: format!("class/{}", e.node),
        code,
        message: e.to_string(),
        value: Some(e.value.into()),
        allowed: Some(e.allowed),
        limit: None,
        free: None,
    }
}
