//! What a plan contains.

use super::*;
use crate::lang::parse;
use crate::router::registry;
use perhop_contract::{Entry, Index, Limits, Objects, validate};
use perhop_element::{Args, Cx, Element, ElementType, PortCount, PortIndex};
use perhop_model::{Key, Owner, PortSpec};
use perhop_packet::Batch;
use serde_json::{Value, json};
use std::any::Any;

/// A planner, and the objects it has planned.
pub(in crate::router) struct Bench {
    pub(in crate::router) planner: RouterPlanner,
    objects: Objects,
    index: Index,
    /// Objects that validation, check and plan of the latest change have looked at.
    visits: u64,
}

impl Bench {
    pub(in crate::router) fn new(ports: &[&str]) -> Self {
        let spec = json!({"rate": 10_000_000});
        let port = |name: &&str| EdgePort {
            name: (*name).to_owned(),
            spec: serde_json::from_value::<PortSpec>(spec.clone()).expect("a port"),
        };
        let planner = RouterPlanner::new(ports.iter().map(port).collect(), registry());
        let mut bench = Self { planner, objects: Objects::new(), index: Index::default(), visits: 0 };
        let puts: Vec<_> = ports.iter().map(|p| (Kind::Port, *p, Some(spec.clone()))).collect();
        bench.plan(&puts);
        bench
    }

    /// Plans these objects (`None`: deleted).
    pub(in crate::router) fn plan(&mut self, ops: &[(Kind, &str, Option<Value>)]) -> Change {
        let before = self.objects.clone();
        let index = self.index.clone();
        let mut draft = Draft::indexed(&before, &index);
        for (n, (kind, name, spec)) in ops.iter().enumerate() {
            let key = Key { kind: *kind, name: Name::new(name).expect("a name") };
            let id = before.get(&key).map_or((before.len() + n) as u64, |e| e.id);
            let entry = spec.as_ref().map(|spec| {
                let spec = Arc::new(Spec::from_value(*kind, &spec.clone()).expect("a specification"));
                Arc::new(Entry { owner: Owner::File, id, version: 1, expires_at_ns: None, spec })
            });
            draft.set(key, entry);
        }
        let ops = draft.changes().keys().cloned().zip(0..).collect();
        let mut errors = validate(&draft, &ops, &Limits::default());
        errors.extend(self.planner.check(&draft, None));
        assert!(errors.is_empty(), "{:?}", errors.first());
        let change = self.planner.plan(Instant::ZERO, &draft, &[], None);
        self.visits = draft.visits();
        for (key, entry) in draft.into_changes() {
            self.index.update(&key, self.objects.get(&key), entry.as_ref());
            match entry {
                Some(entry) => self.objects.insert(key, entry),
                None => self.objects.remove(&key),
            };
        }
        change
    }
}

fn class(port: &str, weight: u32) -> Option<Value> {
    Some(json!({"port": port, "weight": weight}))
}

#[test]
fn only_ports_that_something_changes_for_are_told() {
    let mut bench = Bench::new(&["a", "b", "c"]);
    let ports = |change: &Change| -> Vec<u16> { change.egress.iter().map(|(port, _)| port.0).collect() };
    let both = [(Kind::Class, "a/x", class("a", 1)), (Kind::Class, "b/x", class("b", 1))];
    assert_eq!(ports(&bench.plan(&both)), [0, 1]);
    let change = bench.plan(&[(Kind::Class, "b/x", class("b", 2))]);
    assert_eq!(ports(&change), [1]);
    assert_eq!(change.egress[0].1.tree.edits().len(), 1);
    let allocation = json!({"class": "a/x", "guarantee": 1_000_000});
    assert_eq!(ports(&bench.plan(&[(Kind::Allocation, "a", Some(allocation))])), [0]);
    assert_eq!(ports(&bench.plan(&[(Kind::Allocation, "a", None)])), [0]);
    assert_eq!(ports(&bench.plan(&[(Kind::Port, "c", Some(json!({"rate": 9_000_000})))])), [2]);
    // What a tree knows nothing of.
    let trusts = json!({"rate": 9_000_000, "trust_dscp": true});
    assert!(ports(&bench.plan(&[(Kind::Port, "c", Some(trusts))])).is_empty());
    let marked = json!({"port": "b", "weight": 2, "dscp": [46]});
    assert!(ports(&bench.plan(&[(Kind::Class, "b/x", Some(marked))])).is_empty());
    let sla = json!({"rate": 1_000_000, "prefixes": ["10.0.0.0/24"]});
    assert!(ports(&bench.plan(&[(Kind::Sla, "s", Some(sla))])).is_empty());
    // From one port to another; and a table of leaves that changes without the tree.
    assert_eq!(ports(&bench.plan(&[(Kind::Class, "b/x", class("c", 1))])), [1, 2]);
    let named = json!({"port": "c", "weight": 1, "logical": "y"});
    let change = bench.plan(&[(Kind::Class, "b/x", Some(named))]);
    assert_eq!((ports(&change), change.egress[0].1.tree.edits().len()), (vec![2], 0));
}

/// An element whose state is of the version that its argument says.
struct Stateful(u32);

impl Element for Stateful {
    fn type_name(&self) -> &'static str {
        "Stateful"
    }
    fn version(&self) -> u32 {
        self.0
    }
    fn push(&mut self, cx: &mut Cx<'_>, _: PortIndex, batch: &mut Batch) {
        cx.emit_all(0, batch);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

const STATEFUL: ElementType = ElementType {
    name: "Stateful",
    synopsis: "has state of a version",
    inputs: PortCount::Between(0, 1),
    outputs: PortCount::Between(0, 1),
    build: |args: &Args, _| match args.require("version", Some(0)) {
        Ok(version) => Ok(Box::new(Stateful(version))),
        Err(e) => Err(vec![e]),
    },
    sample: |_| "1".to_owned(),
};

#[test]
fn a_graph_with_state_of_another_version_is_refused_unless_reset() {
    let registry = Registry::new(registry().types().iter().copied().chain([STATEFUL]));
    let mut planner = RouterPlanner::new(Vec::new(), registry);
    planner.set_graph(parse("a :: Stateful(1); b :: Stateful(7);").expect("a graph"));
    let objects = Objects::new();
    let draft = Draft::new(&objects);
    let request = |text: &str, reset: &[&str]| GraphRequest {
        text: text.to_owned(),
        reset: reset.iter().map(|r| (*r).to_owned()).collect(),
        op: 3,
    };
    let errors =
        |planner: &RouterPlanner, text: &str, reset: &[&str]| -> Vec<(Option<usize>, Code, String)> {
            let errors = planner.check(&draft, Some(&request(text, reset)));
            errors.into_iter().map(|e| (e.op, e.code, e.message)).collect()
        };
    let other = "a :: Stateful(2); b :: Stateful(7); c :: Stateful(9);";
    let refused = errors(&planner, other, &[]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((refused[0].0, refused[0].1), (Some(3), Code::Malformed));
    assert!(
        refused[0].2.contains("element a has state of version 1, the new one of version 2"),
        "{refused:?}"
    );
    assert_eq!(errors(&planner, other, &["b"]).len(), 1);
    assert_eq!(errors(&planner, other, &["a"]), []);
    assert_eq!(errors(&planner, other, &[RESET_ALL]), []);
    // What runs then is what counts next.
    let change = planner.plan(Instant::ZERO, &draft, &[], Some(&request(other, &["a"])));
    assert!(change.graph.is_some());
    assert_eq!(errors(&planner, other, &[]), []);
    let refused = errors(&planner, "a :: Stateful(1); c :: Counter();", &[]);
    assert!(refused.len() == 2 && refused[1].2.contains("list it in reset"), "{refused:?}");
}

/// How many of each kind.
struct Scale {
    ports: usize,
    filters: usize,
    contracts: usize,
}

/// Classes of a port, in both scales: what shares a link is looked at together.
const CLASSES_EACH: usize = 100;

impl Scale {
    fn class(i: usize) -> (Kind, String, Value) {
        let port = format!("p{:03}", i / CLASSES_EACH);
        let spec =
            json!({"port": port, "logical": format!("c{}", i % CLASSES_EACH), "guarantee": {"rate": 50_000}});
        (Kind::Class, format!("{port}/c{:05}", i % CLASSES_EACH), spec)
    }
    fn filter(i: usize) -> (Kind, String, Value) {
        let dst = format!("10.{}.{}.1/32", i / 200, i % 200);
        let class = format!("c{}", i % CLASSES_EACH);
        (Kind::Filter, format!("f{i:05}"), json!({"priority": i, "class": class, "match": {"dst": dst}}))
    }
    fn contract(i: usize) -> (Kind, String, Value) {
        let prefix = format!("172.{}.{}.0/24", i / 200, i % 200);
        (Kind::Sla, format!("s{i:05}"), json!({"rate": 1_000_000, "prefixes": [prefix]}))
    }
    fn profile(i: usize) -> (Kind, String, Value) {
        (
            Kind::Profile,
            format!("p{i:05}"),
            json!({"meter": {"type": "token_bucket", "cir": 1000 + i, "cbs": 1500}}),
        )
    }
    fn objects(&self) -> Vec<(Kind, String, Value)> {
        let classes = (0..self.ports * CLASSES_EACH).map(Self::class);
        let filters = (0..self.filters).map(Self::filter);
        let contracts = (0..self.contracts).flat_map(|i| [Self::contract(i), Self::profile(i)]);
        classes.chain(filters).chain(contracts).collect()
    }
    fn bench(&self) -> Bench {
        let ports: Vec<String> = (0..self.ports).map(|p| format!("p{p:03}")).collect();
        Bench::new(&ports.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn refer(objects: &[(Kind, String, Value)], keep: bool) -> Vec<(Kind, &str, Option<Value>)> {
    objects.iter().map(|(kind, name, spec)| (*kind, name.as_str(), keep.then(|| spec.clone()))).collect()
}

/// Looks at the objects of a whole scale, then at those of single changes: by kind of change.
fn visits(scale: &Scale) -> (u64, Vec<(&'static str, u64)>) {
    let mut bench = scale.bench();
    let all = scale.objects();
    bench.plan(&refer(&all, true));
    let mut together = bench.visits;
    let mut single = Vec::new();
    let with = |(kind, name, mut spec): (Kind, String, Value), field: &str, value: Value| {
        spec[field] = value;
        (kind, name, spec)
    };
    let detector = (Kind::Detector, "rtp".to_owned(), json!({"class": "c99"}));
    for (what, object) in [
        ("class", with(Scale::class(7), "weight", json!(9))),
        ("guarantee", with(Scale::class(8), "guarantee", json!({"rate": 60_000}))),
        ("new class", (Kind::Class, "p000/new".to_owned(), json!({"port": "p000"}))),
        ("filter", with(Scale::filter(7), "priority", json!(1_000_000))),
        ("new filter", with(Scale::filter(9_999), "class", json!("c5"))),
        ("contract", with(Scale::contract(7), "rate", json!(2_000_000))),
        ("profile", with(Scale::profile(7), "red", json!({"do": "pass"}))),
        (
            "allocation",
            (Kind::Allocation, "a".to_owned(), json!({"class": "p000/c00009", "guarantee": 70_000})),
        ),
    ] {
        bench.plan(&refer(&[object], true));
        single.push((what, bench.visits));
    }
    bench.plan(&[(Kind::Filter, "f00003", None)]);
    single.push(("no filter", bench.visits));
    bench.plan(&[(Kind::Profile, "p00003", None)]);
    single.push(("no profile", bench.visits));
    bench.plan(&[(Kind::Allocation, "a", None)]);
    single.push(("no allocation", bench.visits));
    bench.plan(&refer(&[detector], true));
    bench.plan(&[(Kind::Detector, "rtp", None)]);
    let mut gone = refer(&all, false);
    gone.retain(|(_, name, _)| !["f00003", "p00003"].contains(name));
    gone.extend([(Kind::Class, "p000/new", None), (Kind::Filter, "f09999", None)]);
    bench.plan(&gone);
    together = together.max(bench.visits);
    assert_eq!(bench.objects.len(), scale.ports);
    (together, single)
}

#[test]
fn a_change_costs_what_it_concerns_not_what_there_is() {
    let small = visits(&Scale { ports: 2, filters: 50, contracts: 20 });
    let large = visits(&Scale { ports: 100, filters: 5_000, contracts: 2_000 });
    for ((what, small), (_, large)) in small.1.iter().zip(&large.1) {
        // Allocations and classes look at their port, the rest at nothing else.
        assert_eq!(small, large, "{what}");
        let few = ["filter", "contract", "profile"].iter().any(|kind| what.contains(kind));
        let most = if few { 8 } else { 3_000 };
        assert!(*large <= most, "{what}: {large}");
    }
    // All at once: in proportion.
    let objects = 100 * CLASSES_EACH + 5_000 + 2 * 2_000;
    assert!(large.0 < 60 * objects as u64, "{} for {objects} objects", large.0);
}
