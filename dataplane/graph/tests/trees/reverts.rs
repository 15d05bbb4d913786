//! A class whose deletion is taken back: it comes back as another, beside what the deleted one still holds.

use super::{World, delete, put};
use perhop_model::{Credentials, Kind, Op, Outcome};
use perhop_units::Duration;
use serde_json::json;

fn class(name: &str, weight: u32, default: bool) -> Op {
    let queue = json!({"limit": {"packets": 100}});
    let spec = json!({"port": "wan", "parent": "p", "weight": weight, "default": default, "queue": queue});
    put(Kind::Class, name, spec)
}

/// A class of weight 22, beside an idle one of `idle`, has sent 30 of 35 packets when it is deleted for a millisecond; it
/// may drain for 100 ms, which are 12 packets. Which of them and of those that came to the new one have left then, and
/// what is told of the deleted one.
fn deleted_for_a_moment(idle: u32) -> (Vec<u32>, Vec<(String, u64)>) {
    let mut w = World::new();
    w.replace_graph(&super::wire("q"));
    let parent = put(Kind::Class, "p", json!({"port": "wan"}));
    w.commit(vec![parent, class("c", 22, true), class("idle", idle, false)]);
    w.send(0..35);
    w.router.run_for(Duration::from_millis(240));
    assert_eq!(w.sent().len(), 30);
    let mut transaction = w.transaction(vec![delete("c", 100)]);
    transaction.confirm_within_ms = Some(1);
    let reply = w.router.submit(Credentials::ADMIN, transaction).expect("answered");
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    w.router.run_for(Duration::from_millis(1));
    w.send(100..150);
    w.router.run_for(Duration::from_millis(99));
    (w.sent().split_off(30), w.drained())
}

#[test]
fn a_deleted_class_drains_beside_the_one_that_came_back_by_turns_as_long_as_weights_make_them() {
    // Turns of 33,308 bytes, which are 33 packets: the deleted class ends its own, which began with the packet behind the
    // one that found the line idle, and the new one's outlasts the drain.
    let (sent, drained) = deleted_for_a_moment(1);
    assert_eq!(sent, (30..34).chain(100..108).collect::<Vec<_>>());
    assert_eq!(drained, [("c".to_owned(), 1)]);
    // Turns of one frame: two classes of the same weight leave one by one, or two where a turn has room for it.
    let (sent, drained) = deleted_for_a_moment(22);
    let deleted = |n: &&u32| **n < 100;
    assert_eq!(sent.iter().filter(deleted).copied().collect::<Vec<_>>(), (30..35).collect::<Vec<_>>());
    assert_eq!(sent.len(), 12);
    assert_eq!(drained, [("c".to_owned(), 0)]);
}
