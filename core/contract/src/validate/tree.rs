//! Link-sharing trees: depth, names, defaults, and whether the guarantees fit.

use super::queues::MAX_FLOW_QUEUES;
use super::{At, MAX_DEPTH, fields::queue, schedulers};
use crate::store::Draft;
use perhop_model::{
    AllocationSpec, ClassSpec, ErrorItem, Key, Kind, Name, QueueKind, QueueSpec, Scheduler, Spec,
};
use perhop_reason::Code;
use perhop_units::{Rate, Share};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Rate of a port; 0 = unlimited.
pub fn port_rate(draft: &Draft<'_>, name: &Name) -> Rate {
    match draft.find(&Key { kind: Kind::Port, name: name.clone() }).map(|e| &*e.spec) {
        Some(Spec::Port(p)) => p.rate,
        _ => Rate::ZERO,
    }
}

/// How the classes of a port share it.
pub fn port_scheduler(draft: &Draft<'_>, name: &Name) -> Scheduler {
    match draft.find(&Key { kind: Kind::Port, name: name.clone() }).map(|e| &*e.spec) {
        Some(Spec::Port(p)) => p.scheduler,
        _ => Scheduler::Tree,
    }
}

/// The queue of a port: of all that waits there, where there are no classes or they share it.
pub fn port_queue(draft: &Draft<'_>, name: &Name) -> QueueSpec {
    match draft.find(&Key { kind: Kind::Port, name: name.clone() }).map(|e| &*e.spec) {
        Some(Spec::Port(p)) => p.queue.unwrap_or_default(),
        _ => QueueSpec::default(),
    }
}

/// Defaults that nobody named: of every port with classes of which none says `default`, the fittest leaf
/// ([`ClassSpec::fitness_as_default`]), of several the last by name. By port.
/// O(n log n).
pub fn implied_defaults<'d>(draft: &'d Draft<'_>) -> BTreeMap<&'d Name, &'d Name> {
    let parents: BTreeSet<&Name> = draft.classes().filter_map(|(_, c, _)| c.parent.as_ref()).collect();
    let named: BTreeSet<&Name> =
        draft.classes().filter(|(_, c, _)| c.default).map(|(_, c, _)| &c.port).collect();
    let leaves = draft.classes().filter(|(n, c, _)| !parents.contains(n) && !named.contains(&c.port));
    let mut fittest = BTreeMap::new();
    for (name, class, _) in leaves {
        let fitness = (class.fitness_as_default(), name);
        let best = fittest.entry(&class.port).or_insert(fitness);
        *best = fitness.max(*best);
    }
    fittest.into_iter().map(|(port, (_, name))| (port, name)).collect()
}

/// Children of one node: a port's root, or a class.
type Node<'d> = (&'d Name, Option<&'d Name>);

/// Ports that change themselves, or whose classes or allocations do. A tree and its table of leaves depend on nothing
/// else: ids of contracts and logical classes stay as long as something refers to them. O(changes · log n).
pub fn touched_ports<'d>(draft: &'d Draft<'_>) -> BTreeSet<&'d Name> {
    let mut ports = reshaped_ports(draft);
    for (_, before, after) in draft.changed(Kind::Allocation) {
        for entry in [before, after].into_iter().flatten() {
            if let Spec::Allocation(a) = &*entry.spec {
                ports.extend(draft.class(&a.class).map(|c| &c.port));
            }
        }
    }
    ports
}

/// Ports that change themselves, or whose classes do. O(changes · log n).
pub fn reshaped_ports<'d>(draft: &'d Draft<'_>) -> BTreeSet<&'d Name> {
    let mut ports: BTreeSet<&Name> = draft.changed(Kind::Port).map(|(key, ..)| &key.name).collect();
    for (_, before, after) in draft.changed(Kind::Class) {
        for entry in [before, after].into_iter().flatten() {
            if let Spec::Class(c) = &*entry.spec {
                ports.insert(&c.port);
            }
        }
    }
    ports
}

/// Guarantees below one node.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// What the node has; none of a port without a rate.
    whole: Option<Rate>,
    /// Of classes without an allocation.
    own: Rate,
    /// Of allocations as they were made.
    allocated: Rate,
}

impl Sums {
    fn all(&self) -> Rate {
        self.own.saturating_add(self.allocated)
    }

    /// What an allocation comes to: where the node has become less, all of its allocations give the same part.
    fn scaled(&self, rate: Rate) -> Rate {
        let left = self.whole.map_or(Rate(u64::MAX), |whole| whole.saturating_sub(self.own));
        if self.allocated <= left {
            return rate;
        }
        let scaled = u128::from(rate.0) * u128::from(left.0) / u128::from(self.allocated.0.max(1));
        Rate(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Children of each node of a port, by parent.
type Children<'d> = BTreeMap<Option<&'d Name>, Vec<(&'d Name, &'d ClassSpec)>>;

/// Classes and what is laid over them, by name.
///
/// An allocation belongs to somebody else than the class below it. It is checked when it is made; when the file or the
/// rate of a port leaves less than was allocated since, the allocations of a node are scaled down as shares would be, until
/// their owner makes others.
pub struct Trees<'d> {
    draft: &'d Draft<'d>,
    /// Of ports with allocations, once one was looked at.
    children: RefCell<BTreeMap<&'d Name, Children<'d>>>,
    sums: RefCell<BTreeMap<Node<'d>, Sums>>,
}

impl<'d> Trees<'d> {
    /// The classes and allocations of a draft.
    pub fn new(draft: &'d Draft<'_>) -> Self {
        Self { draft, children: RefCell::default(), sums: RefCell::default() }
    }

    /// The allocation of a class; of several, which is an error, the first by name.
    fn allocation(&self, class: &Name) -> Option<(&'d Key, &'d AllocationSpec)> {
        self.draft.allocations_of(class).first().copied()
    }

    /// Guarantee of a class, allocation included: the rate its children's shares refer to. `depth` is 0 for
    /// callers outside. O(classes of the port) once for each port with allocations, then O(depth · log n).
    pub fn guarantee(&self, name: &Name, depth: usize) -> Rate {
        let Some(c) = self.draft.class(name) else { return Rate::ZERO };
        if let Some((_, allocation)) = self.allocation(name)
            && let Some(rate) = allocation.guarantee
        {
            return self.below_ceiling(c, allocation, self.sums(c, depth).scaled(rate));
        }
        match (c.guarantee, &c.parent) {
            (Share::Rate(r), _) => r,
            (share, Some(parent)) if depth < MAX_DEPTH => share.of(self.guarantee(parent, depth + 1)),
            (share, _) => share.of(port_rate(self.draft, &c.port)),
        }
    }

    /// An allocation without a ceiling guarantees no more than the class's own ceiling.
    fn below_ceiling(&self, c: &ClassSpec, allocation: &AllocationSpec, rate: Rate) -> Rate {
        if allocation.ceiling.is_some() {
            return rate;
        }
        let ceiling = c.ceiling.map(|s| s.of(port_rate(self.draft, &c.port))).filter(|c| *c > Rate::ZERO);
        ceiling.map_or(rate, |ceiling| rate.min(ceiling))
    }

    /// Ceiling of a class on a port of `rate`, allocation included.
    pub fn ceiling(&self, name: &Name, c: &ClassSpec, rate: Rate) -> Option<Rate> {
        let allocation = self.allocation(name).map(|(_, a)| a);
        let allocated = allocation.and_then(|a| Some((a.ceiling?, a.guarantee)));
        let scaled = allocated.map(|(ceiling, guarantee)| match guarantee {
            // A ceiling of 0 would be none.
            Some(_) if ceiling > Rate::ZERO => {
                let sums = self.draft.class(name).map(|c| self.sums(c, 0));
                sums.map_or(ceiling, |sums| sums.scaled(ceiling).max(Rate(1)))
            }
            _ => ceiling,
        });
        scaled.or_else(|| c.ceiling.map(|s| s.of(rate)).filter(|c| *c > Rate::ZERO))
    }

    /// Sums of the node that a class is below.
    fn sums(&self, c: &'d ClassSpec, depth: usize) -> Sums {
        self.sums_of((&c.port, c.parent.as_ref()), depth)
    }

    fn sums_of(&self, node: Node<'d>, depth: usize) -> Sums {
        if let Some(sums) = self.sums.borrow().get(&node) {
            return *sums;
        }
        let (port, parent) = node;
        let whole = match parent {
            Some(parent) if depth < MAX_DEPTH => Some(self.guarantee(parent, depth + 1)),
            Some(_) => None,
            None => Some(port_rate(self.draft, port)).filter(|rate| *rate > Rate::ZERO),
        };
        let mut sums = Sums { whole, own: Rate::ZERO, allocated: Rate::ZERO };
        let mut children = self.children.borrow_mut();
        let children = children.entry(port).or_insert_with(|| {
            let mut by_parent = Children::new();
            for (name, c, _) in self.draft.classes_on(port) {
                by_parent.entry(c.parent.as_ref()).or_default().push((name, c));
            }
            by_parent
        });
        for (name, c) in children.get(&parent).into_iter().flatten() {
            match self.allocation(name).and_then(|(_, a)| Some(self.below_ceiling(c, a, a.guarantee?))) {
                Some(rate) => sums.allocated = sums.allocated.saturating_add(rate),
                None => sums.own = sums.own.saturating_add(c.guarantee.of(whole.unwrap_or_default())),
            }
        }
        if depth < MAX_DEPTH {
            self.sums.borrow_mut().insert(node, sums);
        }
        sums
    }

    /// Whether the chain of parents ends within [`MAX_DEPTH`].
    fn ends(&self, name: &Name) -> bool {
        let mut current = name;
        for _ in 0..MAX_DEPTH {
            match self.draft.class(current).and_then(|c| c.parent.as_ref()) {
                Some(p) => current = p,
                None => return true,
            }
        }
        false
    }
}

pub(super) fn trees(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let trees = Trees::new(draft);
    one_allocation_each(draft, ops, errors);
    allocations_below_ceilings(&trees, ops, errors);
    for port in touched_ports(draft) {
        tree(&trees, port, ops, errors);
    }
}

/// One port's tree.
fn tree(trees: &Trees<'_>, port: &Name, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let draft = trees.draft;
    let classes = draft.classes_on(port);
    let parents: BTreeSet<&Name> = classes.iter().filter_map(|(_, c, _)| c.parent.as_ref()).collect();
    let mut nodes: BTreeMap<Node<'_>, Vec<&Name>> = BTreeMap::new();
    let mut defaults: BTreeMap<&Name, &Name> = BTreeMap::new();
    let mut leaves: BTreeMap<(&Name, Option<&Name>, &str), &Name> = BTreeMap::new();
    let mut flow_queues = 0;
    let scheduler = port_scheduler(draft, port);
    if !classes.is_empty() {
        let key = Key { kind: Kind::Port, name: port.clone() };
        let mut at = At { key: &key, op: ops.get(&key).copied(), errors: &mut *errors };
        schedulers::port(&mut at, scheduler, port_rate(draft, port), classes.len());
    }
    for (name, c, _) in &classes {
        let key = Key { kind: Kind::Class, name: (*name).clone() };
        let mut at = At { key: &key, op: ops.get(&key).copied(), errors: &mut *errors };
        if !place_and_rates(&mut at, trees, name, c) {
            continue;
        }
        let is_leaf = !parents.contains(name);
        schedulers::class(&mut at, scheduler, c, is_leaf);
        if is_leaf {
            queue(&mut at, &c.queue, port_rate(draft, &c.port));
            if let QueueKind::FqCodel { flows, .. } | QueueKind::Wfq { flows, .. } = c.queue.kind {
                flow_queues += u64::from(flows);
                if flow_queues > MAX_FLOW_QUEUES {
                    too_many_flow_queues(&mut at, &c.queue.kind, flows, flow_queues);
                }
            }
            let slot = (&c.port, c.sla.as_ref(), c.logical_name(name));
            if let Some(other) = leaves.insert(slot, name) {
                clash(&mut at, ops, other, "logical", "has the same logical name on this port");
            }
        }
        if c.default {
            if !is_leaf {
                at.error("default", Code::OutOfRange, "only a leaf can be the default".to_owned());
            }
            if let Some(other) = defaults.insert(&c.port, name) {
                clash(&mut at, ops, other, "default", "is the default of this port");
            }
        }
        nodes.entry((&c.port, c.parent.as_ref())).or_default().push(name);
    }
    for (node, children) in nodes {
        fits(trees, ops, errors, node, &children);
    }
}

/// A leaf whose queues for flows are more than its port may have, with those before it.
fn too_many_flow_queues(at: &mut At<'_>, kind: &QueueKind, flows: u32, all: u64) {
    let why = format!("the flow queues of this port are {all} up to here, more than {MAX_FLOW_QUEUES}");
    let kind = if matches!(kind, QueueKind::Wfq { .. }) { "wfq" } else { "fq_codel" };
    let item = at.error(&format!("queue.kind.{kind}.flows"), Code::LimitReached, why);
    item.value = Some(flows.into());
    item.limit = Some(MAX_FLOW_QUEUES);
    item.free = Some((MAX_FLOW_QUEUES + u64::from(flows)).saturating_sub(all));
}

/// Two classes want what only one can have: the newcomer is at fault, whichever comes first by name.
fn clash(at: &mut At<'_>, ops: &BTreeMap<Key, usize>, other: &Name, field: &str, what: &str) {
    let other = Key { kind: Kind::Class, name: other.clone() };
    if at.op.is_none() && ops.contains_key(&other) {
        let why = format!("{} {what}", at.key);
        At { key: &other, op: ops.get(&other).copied(), errors: &mut *at.errors }.error(
            field,
            Code::Exists,
            why,
        );
    } else {
        at.error(field, Code::Exists, format!("{other} {what}"));
    }
}

/// What a class says of its place and its rates. `false`: it has no place at all.
fn place_and_rates(at: &mut At<'_>, trees: &Trees<'_>, name: &Name, c: &ClassSpec) -> bool {
    let rate = port_rate(trees.draft, &c.port);
    if rate.0 == 0 && matches!(c.guarantee, Share::Ppm(p) if p > 0) && c.parent.is_none() {
        let why = format!("a share needs a rate, and port {:?} has none", c.port.as_str());
        at.error("guarantee", Code::OutOfRange, why);
    }
    if let Some(p) = &c.parent {
        if let Some(parent) = trees.draft.class(p)
            && parent.port != c.port
        {
            let why = format!("class {:?} is on port {:?}", p.as_str(), parent.port.as_str());
            at.error("parent", Code::BadReference, why);
        }
        if !trees.ends(name) {
            let why = format!("the chain of parents is a circle or deeper than {MAX_DEPTH}");
            at.error("parent", Code::BadReference, why);
            return false;
        }
    }
    let g = trees.guarantee(name, 0);
    if let Some(ceiling) = trees.ceiling(name, c, rate).filter(|c| *c < g) {
        let why = format!("ceiling = {} bit/s is below the guarantee of {} bit/s", ceiling.0, g.0);
        at.error("ceiling", Code::OutOfRange, why).limit = Some(g.0);
    }
    true
}

fn one_allocation_each(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let changed = draft.changes().values().flatten().filter_map(|e| match &*e.spec {
        Spec::Allocation(a) => Some(&a.class),
        _ => None,
    });
    for class in changed.collect::<BTreeSet<_>>() {
        let mut allocations = draft.allocations_of(class).into_iter().map(|(key, _)| key);
        let Some(first) = allocations.next() else { continue };
        for key in allocations {
            // The newcomer is at fault, whichever comes first by name.
            let (at_fault, other) = if ops.contains_key(key) { (key, first) } else { (first, key) };
            let mut at = At { key: at_fault, op: ops.get(at_fault).copied(), errors: &mut *errors };
            at.error("class", Code::Exists, format!("{other} is of class {:?} already", class.as_str()));
        }
    }
}

/// An allocation that is changed and has no ceiling of its own stays below that of its class.
fn allocations_below_ceilings(trees: &Trees<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    for (key, entry) in trees.draft.changes() {
        let Some(Spec::Allocation(a)) = entry.as_deref().map(|entry| &*entry.spec) else { continue };
        let (Some(rate), Some(c)) = (a.guarantee, trees.draft.class(&a.class)) else { continue };
        let most = trees.below_ceiling(c, a, rate);
        if most < rate {
            let mut at = At { key, op: ops.get(key).copied(), errors };
            let why =
                format!("guarantee = {} bit/s is above the ceiling of its class, {} bit/s", rate.0, most.0);
            at.error("guarantee", Code::OutOfRange, why).limit = Some(most.0);
        }
    }
}

/// The guarantees below a node must not exceed it: those of classes never, allocations when they are made or raised. Every
/// change that makes them is told, or the node itself.
fn fits(
    trees: &Trees<'_>,
    ops: &BTreeMap<Key, usize>,
    errors: &mut Vec<ErrorItem>,
    (port, parent): Node<'_>,
    children: &[&Name],
) {
    let draft = trees.draft;
    // The names of the draft, which live as long as it.
    let Some(c) = children.first().and_then(|name| draft.class(name)) else { return };
    let sums = trees.sums(c, 0);
    let Some(whole) = sums.whole else { return };
    if sums.all() <= whole {
        return;
    }
    let what = parent.map_or_else(|| format!("port {port}"), |p| format!("class {p}"));
    let mut culprits: Vec<(Key, Rate)> = children.iter().filter_map(|c| raised(trees, c)).collect();
    let sum = if sums.own > whole {
        let class = |name: &Name| Key { kind: Kind::Class, name: name.clone() };
        let own = |name: &&&Name| trees.allocation(name).is_none_or(|(_, a)| a.guarantee.is_none());
        let changed = children.iter().filter(own).map(|name| (class(name), trees.guarantee(name, 0)));
        culprits = changed.filter(|(key, _)| ops.contains_key(key)).collect();
        if culprits.is_empty() {
            let allocation = parent.and_then(|p| trees.allocation(p)).map(|(key, _)| key);
            let changed = allocation.filter(|key| ops.contains_key(*key)).cloned();
            let node = parent.map_or_else(|| Key { kind: Kind::Port, name: port.clone() }, class);
            culprits.push((changed.unwrap_or(node), Rate::ZERO));
        }
        sums.own
    } else {
        sums.all()
    };
    for (key, mine) in culprits {
        let field = if key.kind == Kind::Port { "rate" } else { "guarantee" };
        let mut at = At { key: &key, op: ops.get(&key).copied(), errors: &mut *errors };
        let why = format!(
            "the guarantees inside {what} add up to {} bit/s, more than its {} bit/s",
            sum.0, whole.0
        );
        let item = at.error(field, Code::NoCapacity, why);
        let (value, limit) = if mine > Rate::ZERO { (mine, whole) } else { (whole, sum) };
        item.value = Some(value.0.into());
        item.limit = Some(limit.0);
        item.free = Some(whole.saturating_sub(sum.saturating_sub(mine)).0);
    }
}

/// The allocation of a class if it is new or higher than before.
fn raised(trees: &Trees<'_>, class: &Name) -> Option<(Key, Rate)> {
    let (key, allocation) = trees.allocation(class)?;
    let rate = allocation.guarantee?;
    trees.draft.changes().get(key)?;
    let before = trees.draft.before(key).and_then(|entry| match &*entry.spec {
        Spec::Allocation(before) if before.class == *class => before.guarantee,
        _ => None,
    });
    before.is_none_or(|before| before < rate).then(|| (key.clone(), rate))
}
