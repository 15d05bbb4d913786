//! From objects to changes.

use super::change::Change;
use super::edge::EdgePort;
use super::moved::MovedFrom;
use super::numbers::Numbers;
use super::places::{Gone, Places};
use super::routes::KernelRoutes;
use super::tree::{Freed, PortTree};
use crate::lang::{Built, build, parse};
use crate::swap::SwapError;
use perhop_abr::AbrPolicyId;
use perhop_contract::{
    DEFAULT_DRAIN, Draft, Draining, GraphRequest, Planner, RESET_ALL, Trees, touched_ports,
};
use perhop_element::{BuildCx, Registry};
use perhop_elements::meter::{SrTcmConfig, TrTcmConfig, TswTcmConfig};
use perhop_elements::police::{
    Action, ConditionerChange, Excess, FlowLimit, MAX_IDS, MeterSpec as Meter, OutOfProfile,
    ProfileSpec as Profile, RealtimeSpec, SlaSpec as Sla, SlaTraffic,
};
use perhop_elements::route::{NeighbourUpdate, PortInfo, RouteEntry, Rule};
use perhop_elements::schedule::{ClassCounters, EgressChange, LeafMap};
use perhop_model::{
    ClassSpec, ColorAction, DetectorSpec, ErrorItem, ExcessPolicy, Kind, MeterSpec, Name, ProfileSpec,
    SlaPolicy, SlaSpec, Spec,
};
use perhop_packet::{ClassId, FilterId, PortId, ProfileId, SlaId};
use perhop_reason::Code;
use perhop_units::{Bytes, Color, Duration, Instant, Rate};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

/// Why a conditioner has an entry for every number.
const NUMBERED: &str = "what a draft has is limited so that numbers, with those that rest, fit the tables";

/// Plans the changes of one router. Its ports are fixed while it runs.
pub struct RouterPlanner {
    pub(super) registry: Registry,
    pub(super) ports: Vec<EdgePort>,
    pub(super) numbers: Numbers,
    pub(super) trees: Vec<PortTree>,
    places: Places,
    /// Tables of leaves as last sent, by port.
    leaf_maps: Vec<Option<Arc<LeafMap>>>,
    pub(super) filters: super::filters::Filters,
    pub(super) abr: super::abr::Policies,
    pub(super) routes: super::routes::Routes,
    graph: Option<crate::lang::Graph>,
    /// Versions of the states of the running graph's elements, by name; of the first graph found out when needed.
    versions: OnceLock<BTreeMap<String, u32>>,
    /// Text of the graph the router made for itself.
    own_graph: String,
    /// Workers that take its changes, and whether flows go from one to another.
    workers: usize,
    adaptive: bool,
}

impl std::fmt::Debug for RouterPlanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterPlanner").field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// Addressed elements that start empty and must be told everything.
#[derive(Clone, Debug, Default)]
struct Fresh {
    flows: bool,
    conditioner: bool,
    route: bool,
    egress: Vec<PortId>,
}

impl RouterPlanner {
    /// A planner for a router with these ports, in the order of their [`PortId`]s.
    pub fn new(ports: Vec<EdgePort>, registry: Registry) -> Self {
        let tree = |p: &EdgePort| {
            let name = Name::new(&p.name).expect("a port is an object, and objects have names");
            PortTree::new(name, p.spec.rate, p.spec.framing())
        };
        let trees: Vec<PortTree> = ports.iter().map(tree).collect();
        let numbers = Numbers::new(ports.iter().map(|p| p.name.as_str()), MAX_IDS);
        assert_eq!(numbers.cx.ports.len(), ports.len(), "each port is an object with a name of its own");
        Self {
            registry,
            numbers,
            ports,
            leaf_maps: vec![None; trees.len()],
            trees,
            places: Places::default(),
            filters: super::filters::Filters::default(),
            abr: super::abr::Policies::new(),
            routes: super::routes::Routes::default(),
            graph: None,
            versions: OnceLock::new(),
            own_graph: String::new(),
            workers: 1,
            adaptive: false,
        }
    }

    /// Allows fewer numbers for logical class names than a conditioner has room for; before the first graph.
    #[must_use]
    pub fn with_class_names(mut self, limit: u32) -> Self {
        self.numbers.classes = super::classes::Classes::new(limit);
        self
    }

    /// Plans for so many workers: what they cannot do together is refused.
    #[must_use]
    pub fn with_workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Plans for workers whose flows go from one to another: what does not go along is refused.
    #[must_use]
    pub fn with_adaptive(mut self, adaptive: bool) -> Self {
        self.adaptive = adaptive;
        self
    }

    /// Files filters in an order that `seed` decides, so that nobody who does not know it can choose filters that packets find
    /// late; before the first filter.
    #[must_use]
    pub fn with_filter_seed(mut self, seed: u64) -> Self {
        self.filters = super::filters::Filters::keyed(seed);
        self
    }

    /// Chooses among several next hops of a route as `seed` says: one of the router's own, the same for all of its workers;
    /// before the first route.
    #[must_use]
    pub fn with_path_seed(mut self, seed: u64) -> Self {
        self.routes = super::routes::Routes::with_path_seed(seed);
        self
    }

    /// The names this router's first graph may use.
    pub fn build_cx(&mut self) -> &mut BuildCx {
        &mut self.numbers.cx
    }

    /// The element types.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The ports.
    pub fn ports(&self) -> &[EdgePort] {
        &self.ports
    }

    /// The logical class with an id; of an id that is free, the one that had it last. `None` above all ids given so
    /// far. O(1).
    pub fn class_name(&self, id: ClassId) -> Option<&str> {
        self.numbers.classes.name(id)
    }

    /// The contract with an id.
    pub fn sla_name(&self, id: SlaId) -> Option<&Name> {
        self.numbers.slas.name_of(id.0)
    }

    /// The profile with an id.
    pub fn profile_name(&self, id: ProfileId) -> Option<&Name> {
        self.numbers.profiles.name_of(id.0)
    }

    /// The filter with an id.
    pub fn filter_name(&self, id: FilterId) -> Option<&Name> {
        self.filters.name_of(id)
    }

    /// The policy of the TCP rate control with an id.
    pub fn abr_policy_name(&self, id: AbrPolicyId) -> Option<&Name> {
        self.abr.name_of(id)
    }

    /// Id numbers of policies of the TCP rate control, by name.
    pub fn abr_policies(&self) -> impl Iterator<Item = (&Name, AbrPolicyId)> {
        self.abr.iter()
    }

    /// The class object behind a leaf of a port, with its object id.
    pub fn leaf_class(&self, port: PortId, leaf: u32) -> Option<(&Name, u64)> {
        self.trees.get(port.index())?.class_of(leaf)
    }

    /// The trees' pictures, by port.
    pub fn trees(&self) -> &[PortTree] {
        &self.trees
    }

    /// Id numbers by name: contracts, then profiles.
    pub fn conditioned(
        &self,
    ) -> (impl Iterator<Item = (&Name, SlaId)>, impl Iterator<Item = (&Name, ProfileId)>) {
        (
            self.numbers.slas.iter().map(|(n, id)| (n, SlaId(id))),
            self.numbers.profiles.iter().map(|(n, id)| (n, ProfileId(id))),
        )
    }

    /// What a class object counted in places that are free: to be added to what it counts in those it has, as long as
    /// one of them is not free or it exists. O(log n).
    pub fn counted_before(&self, id: u64) -> ClassCounters {
        self.places.counted(id)
    }

    /// A drained leaf is free, or a replaced tree is gone. Gives the class objects that are gone for good.
    pub fn freed(&mut self, freed: &Freed) -> Vec<Gone> {
        let Self { trees, places, .. } = self;
        let Some(tree) = trees.get_mut(freed.port.index()) else { return Vec::new() };
        assert!(freed.generation <= tree.generation(), "a tree is told which one it is by its planner");
        match freed.slot {
            Some(slot) if freed.left => {
                tree.left(freed.generation, slot);
                Vec::new()
            }
            Some(slot) => {
                let id = tree.freed(freed.generation, slot);
                id.and_then(|id| places.freed(id, &freed.counters)).into_iter().collect()
            }
            None => {
                let ids = tree.tree_gone(freed.generation).into_iter();
                ids.filter_map(|id| places.freed(id, &ClassCounters::default())).collect()
            }
        }
    }

    /// The kernel's routes are these now, and it has no rules. The change belongs to no transaction.
    pub fn set_kernel_routes(&mut self, routes: Vec<RouteEntry>) -> Change {
        self.set_kernel_tables(routes, Vec::new())
    }

    /// The kernel's routes and rules are these now. The change belongs to no transaction.
    pub fn set_kernel_tables(&mut self, routes: Vec<RouteEntry>, rules: Vec<Rule>) -> Change {
        Change::of_routes(self.routes.set_kernel(routes, rules))
    }

    /// Some of the kernel's routes have changed. The change belongs to no transaction, and costs what it changes.
    pub fn change_kernel_routes(&mut self, changes: Vec<KernelRoutes>) -> Change {
        Change::of_routes(self.routes.change_kernel(changes))
    }

    /// All routes that packets follow: those of the kernel, and those that are objects.
    pub fn routes(&self) -> impl Iterator<Item = RouteEntry> {
        self.routes.all()
    }

    /// The kernel's neighbours changed.
    pub fn neighbour_change(&mut self, neighbours: Vec<NeighbourUpdate>) -> Change {
        Change::of_routes(self.routes.set_neighbours(neighbours))
    }

    /// Addresses, MTUs or hardware addresses of ports changed.
    pub fn port_change(&mut self, ports: Vec<PortInfo>) -> Change {
        Change::of_routes(self.routes.set_ports(ports))
    }

    /// Ports cannot come, go or change their interface while the router runs.
    fn check_ports(&self, draft: &Draft<'_>) -> Vec<ErrorItem> {
        let mut errors = Vec::new();
        for (key, _, after) in draft.changed(Kind::Port) {
            let known = self.ports.iter().find(|p| p.name == key.name.as_str());
            let same = match (known, after.map(|e| &*e.spec)) {
                (Some(p), Some(Spec::Port(new))) => {
                    new.device_of(&p.name) == p.device()
                        && new.mode == p.spec.mode
                        && new.framing() == p.spec.framing()
                        && new.source_check == p.spec.source_check
                }
                (None, None) | (Some(_), None) => true,
                _ => false,
            };
            if !same {
                let why = "ports, their interfaces, mode, overhead, minimum_frame, cells and source_check are fixed while \
                           the router runs; restart it with the new file";
                errors.push(unsupported(format!("port/{}", key.name), why.to_owned()));
            }
        }
        errors
    }

    /// The classes that a new graph names.
    fn check_graph(&self, request: &GraphRequest) -> Result<BTreeSet<String>, Vec<ErrorItem>> {
        let wrong =
            |message| ErrorItem { op: Some(request.op), ..ErrorItem::new(Code::Malformed, "graph", message) };
        let built = self.built(request, BTreeMap::new());
        built.map(|(_, names)| names).map_err(|messages| messages.into_iter().map(wrong).collect())
    }

    /// The graph that is asked for, with numbers for the classes it names, and these names.
    fn built(
        &self,
        request: &GraphRequest,
        classes: BTreeMap<String, ClassId>,
    ) -> Result<(Built, BTreeSet<String>), Vec<String>> {
        let strings = |errors: Vec<crate::lang::GraphError>| -> Vec<String> {
            errors.iter().map(ToString::to_string).collect()
        };
        let text = if request.text.is_empty() { &self.own_graph } else { &request.text };
        let graph = parse(text).map_err(strings)?;
        let mut cx = BuildCx { classes, ..self.numbers.cx.clone() };
        let built = build(text, graph, &self.registry, &mut cx).map_err(strings)?;
        let lost = self.lost_states(&built, &request.reset);
        if !lost.is_empty() {
            return Err(lost.iter().map(ToString::to_string).collect());
        }
        Ok((built, cx.classes.into_keys().collect()))
    }

    /// Elements of the running graph whose state cannot move to their successors in `built`, but for those of `reset`.
    fn lost_states(&self, built: &Built, reset: &[String]) -> Vec<SwapError> {
        let Some(old) = &self.graph else { return Vec::new() };
        if reset.iter().any(|r| r == RESET_ALL) {
            return Vec::new();
        }
        let reset: BTreeSet<&str> = reset.iter().map(String::as_str).collect();
        let before: BTreeMap<&str, &str> =
            old.nodes.iter().map(|n| (n.name.as_str(), n.type_name.as_str())).collect();
        let versions = self.versions.get_or_init(|| self.versions_of(old));
        let mut lost = Vec::new();
        for (node, decl) in built.nodes.iter().zip(&built.graph.nodes) {
            let Some(running) = before.get(node.name.as_str()) else { continue };
            if reset.contains(node.name.as_str()) {
                continue;
            }
            let (name, new) = (node.name.clone(), decl.type_name.clone());
            if *running != new {
                lost.push(SwapError::OtherType { name, running: (*running).to_owned(), new });
                continue;
            }
            let new = node.element.version();
            if let Some(running) = versions.get(&name).copied().filter(|running| *running != new) {
                lost.push(SwapError::OtherVersion { name, running, new });
            }
        }
        lost
    }

    /// Versions of the states of a graph that was built before.
    fn versions_of(&self, graph: &crate::lang::Graph) -> BTreeMap<String, u32> {
        let text = graph.to_string();
        let built = parse(&text)
            .and_then(|graph| build(&text, graph, &self.registry, &mut self.numbers.cx.clone()))
            .map(|built| versions(&built));
        built.expect("a graph that runs was built of such a text")
    }

    /// The running graph as last planned. The first is the router's own, to which an empty request returns.
    pub fn set_graph(&mut self, graph: crate::lang::Graph) {
        if self.own_graph.is_empty() {
            self.own_graph = graph.to_string();
            self.numbers.classes.adopt(&self.numbers.cx.classes);
        }
        self.graph = Some(graph);
        self.versions = OnceLock::new();
    }

    /// The running graph.
    pub fn graph(&self) -> Option<&crate::lang::Graph> {
        self.graph.as_ref()
    }

    /// Which addressed elements of a new graph do not take the place of a running one.
    fn fresh(&self, graph: &crate::lang::Graph) -> Fresh {
        let carried = |node: &crate::lang::NodeDecl| {
            let old = self.graph.as_ref().and_then(|g| g.find(&node.name).map(|i| &g.nodes[i]));
            old.is_some_and(|o| o.type_name == node.type_name)
        };
        // A successor takes over connections but not rules and settings, which it gets again.
        let mut fresh = Fresh { flows: true, ..Fresh::default() };
        for node in graph.nodes.iter().filter(|n| !carried(n)) {
            match node.type_name.as_str() {
                "Conditioner" => fresh.conditioner = true,
                "Route" | "IcmpError" => fresh.route = true,
                _ => {}
            }
        }
        // A tree goes on only in an element of the same name at the same port.
        let egress = |graph: &crate::lang::Graph, node: &crate::lang::NodeDecl| {
            let of = graph.find(&node.name).map(|i| &graph.nodes[i]).filter(|n| n.type_name == "Egress")?;
            let port = &of.args.find("port", Some(0))?.value;
            self.numbers.cx.ports.get(port).copied().or_else(|| port.parse().ok().map(PortId))
        };
        let before = |n: &crate::lang::NodeDecl| egress(self.graph.as_ref()?, n);
        let kept: Vec<PortId> =
            graph.nodes.iter().filter_map(|n| egress(graph, n).filter(|p| before(n) == Some(*p))).collect();
        fresh.egress = (0..self.trees.len() as u16).map(PortId).filter(|p| !kept.contains(p)).collect();
        fresh
    }

    /// What the ports' trees must be told, or (`all`) everything. What is as it was last sent is not sent.
    fn plan_egress(
        &mut self,
        now: Instant,
        draft: &Draft<'_>,
        draining: &[Draining],
        all: bool,
    ) -> (Vec<(PortId, EgressChange)>, Vec<MovedFrom>) {
        let (mut changes, mut left) = (Vec::new(), Vec::new());
        let touched = touched_ports(draft);
        if touched.is_empty() && !all {
            return (changes, left);
        }
        let trees = Trees::new(draft);
        let ends: HashMap<u64, Instant> = draining.iter().map(|d| (d.id, d.until)).collect();
        let Self { numbers, leaf_maps, places, .. } = self;
        places.delete(draft);
        for (i, tree) in self.trees.iter_mut().enumerate() {
            if all {
                leaf_maps[i] = None;
            } else if !touched.contains(tree.name()) && !tree.outlives(draft) {
                continue;
            }
            let port = PortId(i as u16);
            let (egress, moved) = tree.plan(
                draft,
                all,
                &trees,
                places,
                &ends,
                &|name| numbers.classes.id(name),
                &|name| numbers.sla(name),
                now + DEFAULT_DRAIN,
            );
            if !moved.is_empty() {
                left.push(MovedFrom { port, generation: egress.generation, slots: moved });
            }
            if egress.tree.edits().is_empty()
                && !egress.tree.is_ruled_anew()
                && leaf_maps[i].as_ref() == Some(&egress.leaf_map)
            {
                continue;
            }
            leaf_maps[i] = Some(egress.leaf_map.clone());
            changes.push((port, egress));
        }
        (changes, left)
    }

    /// What a conditioner must be told: what changed, or (`all`) everything.
    fn conditioner(&mut self, draft: &Draft<'_>, all: bool) -> Option<ConditionerChange> {
        let mut change = ConditionerChange::new();
        let mut any = false;
        let idle = flow_idle(draft);
        // How long a flow lives depends on the detector.
        let slas = all || draft.changed(Kind::Detector).next().is_some();
        let unchanged = [(Kind::Sla, slas), (Kind::Profile, all)]
            .into_iter()
            .filter_map(|(kind, again)| again.then_some(kind))
            .flat_map(|k| draft.of_kind(k))
            .filter(|(k, _)| !draft.changes().contains_key(*k))
            .map(|(k, e)| (k, Some(e)));
        for (key, entry) in draft.changes().iter().map(|(k, e)| (k, e.as_ref())).chain(unchanged) {
            let spec = entry.map(|e| &*e.spec);
            match key.kind {
                Kind::Sla => {
                    let id = match spec {
                        Some(_) => Some(self.numbers.slas.give(key.name.clone())),
                        None => self.numbers.slas.take(&key.name),
                    };
                    let sla = spec.and_then(|s| if let Spec::Sla(s) = s { Some(sla(s, idle)) } else { None });
                    if let Some(id) = id {
                        change.sla(SlaId(id), sla).expect(NUMBERED);
                        any = true;
                    }
                }
                Kind::Profile => {
                    let id = match spec {
                        Some(_) => Some(self.numbers.profiles.give(key.name.clone())),
                        None => self.numbers.profiles.take(&key.name),
                    };
                    let profile = spec.and_then(|s| match s {
                        Spec::Profile(p) => Some(profile(p, &self.numbers)),
                        _ => None,
                    });
                    if let Some(id) = id {
                        change.profile(ProfileId(id), profile).expect(NUMBERED);
                        any = true;
                    }
                }
                _ => {}
            }
        }
        if all || draft.touches(&[Kind::Detector, Kind::Class, Kind::Port, Kind::Allocation]) {
            any |= self.realtime_policers(draft, &mut change);
        }
        self.numbers.slas.release();
        self.numbers.profiles.release();
        any.then_some(change)
    }

    /// Recognised flows are policed to the rate of their class.
    fn realtime_policers(&mut self, draft: &Draft<'_>, change: &mut ConditionerChange) -> bool {
        let mut any = false;
        for entry in draft.changed(Kind::Detector).filter_map(|(_, before, _)| before) {
            if let Spec::Detector(d) = &*entry.spec {
                let id = self.numbers.class(&d.class);
                change.realtime(id, None).expect(NUMBERED);
                any = true;
            }
        }
        for (_, entry) in draft.of_kind(Kind::Detector) {
            let Spec::Detector(d) = &*entry.spec else { continue };
            let id = self.numbers.class(&d.class);
            let rate = d.rate.unwrap_or_else(|| class_rate(draft, d));
            let burst = |rate: Rate| Bytes(rate.bytes_in(Duration::from_millis(50)).0.max(6_000));
            let limited = rate.0 > 0 || d.flow_rate > Rate(0);
            // A class without a rate polices nothing but its flows.
            let rate = if rate.0 > 0 { rate } else { Rate::MOST };
            let spec = (d.enabled && limited).then(|| RealtimeSpec {
                rate,
                burst: burst(rate),
                flow: (d.flow_rate > Rate(0)).then(|| FlowLimit {
                    rate: d.flow_rate,
                    burst: burst(d.flow_rate),
                    idle: d.idle,
                }),
                excess: match d.excess {
                    ExcessPolicy::Drop => Excess::Drop,
                    ExcessPolicy::Demote => Excess::Demote,
                },
                dscp: d.dscp,
                ports: draft
                    .classes_called(d.class.as_str())
                    .into_iter()
                    .filter_map(|(_, class, _)| self.numbers.port(&class.port))
                    .collect(),
            });
            change.realtime(id, spec).expect(NUMBERED);
            any = true;
        }
        any
    }
}

/// What a detector's class may send by each port where that is limited: its ceiling, else its guarantee.
pub(super) fn class_rates<'d>(
    draft: &'d Draft<'_>,
    d: &DetectorSpec,
) -> impl Iterator<Item = (&'d Name, Rate)> {
    let trees = Trees::new(draft);
    let rate = move |(name, class, _): (&'d Name, &'d ClassSpec, _)| {
        let port = perhop_contract::port_rate(draft, &class.port);
        (&class.port, class.ceiling.map_or_else(|| trees.guarantee(name, 0), |share| share.of(port)))
    };
    draft.classes_called(d.class.as_str()).into_iter().map(rate).filter(|(_, rate)| *rate > Rate::ZERO)
}

/// The smallest of these on any port; 0 when it has none.
pub(super) fn class_rate(draft: &Draft<'_>, d: &DetectorSpec) -> Rate {
    class_rates(draft, d).map(|(_, rate)| rate).min().unwrap_or_default()
}

impl Planner for RouterPlanner {
    type Change = Change;

    fn check(&self, draft: &Draft<'_>, graph: Option<&GraphRequest>) -> Vec<ErrorItem> {
        if let Some(graph) = graph.filter(|_| self.workers > 1) {
            return vec![super::crew::refused::check(graph)];
        }
        let mut errors = self.check_ports(draft);
        if self.adaptive && self.workers > 1 {
            errors.extend(super::crew::refused::check_objects(draft));
        }
        if draft.touches(&[Kind::Class, Kind::Port, Kind::Allocation]) {
            let classes = Trees::new(draft);
            let touched = touched_ports(draft);
            let trees = self.trees.iter().filter(|t| touched.contains(t.name()));
            errors.extend(trees.flat_map(|t| t.check(draft, &classes)));
        }
        errors.extend(self.filters.check(draft, &self.numbers));
        let names = match graph.map(|request| self.check_graph(request)).transpose() {
            Ok(names) => names,
            Err(wrong) => {
                errors.extend(wrong);
                None
            }
        };
        errors.extend(self.numbers.classes.check(draft, names.as_ref()));
        errors
    }

    fn plan(
        &mut self,
        now: Instant,
        draft: &Draft<'_>,
        draining: &[Draining],
        graph: Option<&GraphRequest>,
    ) -> Change {
        // Built for the names it uses, then with their numbers.
        let names = graph.map(|g| self.check_graph(g).expect("a graph has passed `check`, or ran before"));
        self.numbers.classes.enter(draft, names.clone());
        let built = graph.zip(names).map(|(g, names)| {
            let numbers = self.numbers.classes.numbers(&names);
            self.built(g, numbers).expect("what classes are called by number makes no graph wrong").0
        });
        let mut fresh = Fresh::default();
        if let Some(built) = &built {
            fresh = self.fresh(&built.graph);
            self.graph = Some(built.graph.clone());
            self.versions = OnceLock::from(versions(built));
        }
        let mut change =
            Change { conditioner: self.conditioner(draft, fresh.conditioner), ..Change::default() };
        for port in &fresh.egress {
            if let Some(tree) = self.trees.get_mut(port.index()) {
                *tree = tree.empty();
            }
        }
        (change.egress, change.left_slots) = self.plan_egress(now, draft, draining, built.is_some());
        (change.flows, change.unfit) = self.filters.plan(draft, &self.numbers, fresh.flows);
        change.abr = self.abr.plan(draft, &self.numbers, &self.filters, built.is_some());
        change.route = self.routes.plan(draft, &self.numbers, fresh.route);
        change.graph = built;
        self.numbers.classes.leave();
        change
    }
}

fn versions(built: &Built) -> BTreeMap<String, u32> {
    built.nodes.iter().map(|n| (n.name.clone(), n.element.version())).collect()
}

/// How long a flow that says nothing has its share of a contract: as long as it is taken for real-time.
fn flow_idle(draft: &Draft<'_>) -> Duration {
    let detector = draft.of_kind(Kind::Detector).find_map(|(_, entry)| match &*entry.spec {
        Spec::Detector(d) => Some(d.idle),
        _ => None,
    });
    detector.unwrap_or(Duration::from_secs(30))
}

fn sla(s: &SlaSpec, flow_idle: Duration) -> Sla {
    let rate = s.rate;
    let burst =
        if s.burst == Bytes(0) { rate.bytes_in(Duration::from_millis(20)).0.max(3_000) } else { s.burst.0 };
    Sla {
        rate,
        burst: Bytes(burst),
        shared_pct: s.shared_pct,
        flow_idle,
        dscp: s.dscp,
        policy: match s.policy {
            SlaPolicy::Ok => OutOfProfile::Ok,
            SlaPolicy::Drop => OutOfProfile::Drop,
            SlaPolicy::Demote => OutOfProfile::Demote,
        },
        traffic: SlaTraffic::Classified,
    }
}

fn profile(p: &ProfileSpec, numbers: &Numbers) -> Profile {
    let meter = match p.meter {
        MeterSpec::None => Meter::None,
        MeterSpec::TokenBucket { cir, cbs } => Meter::TokenBucket { rate: cir, burst: cbs },
        MeterSpec::Srtcm { cir, cbs, ebs, aware } => Meter::SrTcm(SrTcmConfig { cir, cbs, ebs, aware }),
        MeterSpec::Trtcm { cir, cbs, pir, pbs, aware } => {
            Meter::TrTcm(TrTcmConfig { cir, cbs, pir, pbs, aware })
        }
        MeterSpec::Tswtcm { cir, pir, window } => Meter::TswTcm(TswTcmConfig { ctr: cir, ptr: pir, window }),
    };
    let mut actions = [Action::Pass; 3];
    for (color, action) in [(Color::Green, &p.green), (Color::Yellow, &p.yellow), (Color::Red, &p.red)] {
        actions[color as usize] = match action {
            ColorAction::Pass => Action::Pass,
            ColorAction::Drop => Action::Drop,
            ColorAction::Mark { dscp } => Action::Remark(*dscp),
            ColorAction::Class { class: name, dscp } => Action::SetClass(numbers.class(name), *dscp),
        };
    }
    Profile { meter, actions }
}

fn unsupported(path: String, message: String) -> ErrorItem {
    ErrorItem::new(Code::Unsupported, path, message)
}

#[cfg(test)]
pub(super) mod tests;
