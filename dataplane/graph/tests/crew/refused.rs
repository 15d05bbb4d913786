//! What several workers do not do is refused, and says so.

use super::world::World;
use crate::contract::desk::put;
use perhop_model::{Kind, Op, Outcome};
use perhop_reason::Code;
use serde_json::json;

#[test]
fn what_several_workers_cannot_do_together_is_refused_and_one_does_it() {
    let asked = || {
        let class = put(Kind::Class, "p1/ef", json!({ "port": "p1" }));
        let admission = json!({ "class": "ef", "admission": { "cap": 1_000_000 } });
        let graph = Op::ReplaceGraph { text: String::new(), reset: vec!["*".to_owned()] };
        [vec![class, put(Kind::Detector, "rtp", admission)], vec![graph]]
    };
    for workers in [1, 2] {
        let mut world = World::new(workers, &[0, 10_000_000], 1);
        for ops in asked() {
            let reply = world.submit(ops);
            if workers == 1 {
                assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
                continue;
            }
            let codes: Vec<Code> = reply.errors.iter().map(|e| e.code).collect();
            assert_eq!(codes, [Code::Unsupported], "{:?}", reply.errors);
            assert!(reply.errors[0].message.contains("workers = 1"), "{}", reply.errors[0].message);
        }
    }
}
