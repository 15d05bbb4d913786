//! What several workers do not do is refused, and says so.

use super::world::World;
use crate::support::put;
use perhop_model::{Kind, Op, Outcome};
use perhop_reason::Code;
use serde_json::json;

#[test]
fn another_graph_is_refused_by_several_workers_and_taken_by_one() {
    for workers in [1, 2] {
        let mut world = World::new(workers, &[0, 10_000_000], 1);
        world.commit(vec![put(Kind::Class, "p1/ef", json!({ "port": "p1" }))]);
        let reply = world.submit(vec![Op::ReplaceGraph { text: String::new(), reset: vec!["*".to_owned()] }]);
        if workers == 1 {
            assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
            continue;
        }
        let codes: Vec<Code> = reply.errors.iter().map(|e| e.code).collect();
        assert_eq!(codes, [Code::Unsupported], "{:?}", reply.errors);
        assert!(reply.errors[0].message.contains("workers = 1"), "{}", reply.errors[0].message);
    }
}
