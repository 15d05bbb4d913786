//! What a plan contains.

use super::*;
use crate::control::Objects;
use crate::lang::parse;
use crate::router::registry;
use perhop_element::{Args, Cx, Element, ElementType, PortCount, PortIndex};
use perhop_model::{Owner, PortSpec};
use perhop_packet::Batch;
use serde_json::{Value, json};
use std::any::Any;

/// A planner, and the objects it has planned.
struct Bench {
    planner: RouterPlanner,
    objects: Objects,
}

impl Bench {
    fn new(ports: &[&str]) -> Self {
        let spec = json!({"rate": 10_000_000});
        let port = |name: &&str| EdgePort {
            name: (*name).to_owned(),
            spec: serde_json::from_value::<PortSpec>(spec.clone()).expect("a port"),
        };
        let planner = RouterPlanner::new(ports.iter().map(port).collect(), registry());
        let mut bench = Self { planner, objects: Objects::new() };
        let puts: Vec<_> = ports.iter().map(|p| (Kind::Port, *p, Some(spec.clone()))).collect();
        bench.plan(&puts);
        bench
    }

    /// Plans these objects (`None`: deleted).
    fn plan(&mut self, ops: &[(Kind, &str, Option<Value>)]) -> Change {
        let before = self.objects.clone();
        let mut draft = Draft::new(&before);
        for (n, (kind, name, spec)) in ops.iter().enumerate() {
            let key = Key { kind: *kind, name: Name::new(*name).expect("a name") };
            let id = before.get(&key).map_or((before.len() + n) as u64, |e| e.id);
            let entry = spec.as_ref().map(|spec| {
                let spec = Arc::new(Spec::from_value(*kind, spec.clone()).expect("a specification"));
                Arc::new(Entry { owner: Owner::File, id, version: 1, expires_at_ns: None, spec })
            });
            draft.set(key, entry);
        }
        let errors = self.planner.check(&draft, None);
        assert!(errors.is_empty(), "{errors:?}");
        let change = self.planner.plan(Instant::ZERO, &draft, &[], None);
        self.objects = draft.materialise();
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
    assert_eq!(errors(&planner, "a :: Stateful(1); c :: Counter();", &[]).len(), 2);
}
