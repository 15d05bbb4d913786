//! What a plan contains.

use super::*;
use crate::control::Objects;
use crate::router::registry;
use perhop_model::{Owner, PortSpec};
use serde_json::{Value, json};

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
