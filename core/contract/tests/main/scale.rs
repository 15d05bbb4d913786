//! A hundred thousand operations at once. No clock is looked at: what is quadratic would not end.

use super::desk::{Desk, api, delete, filter, put, soft};
use perhop_contract::ERRORS_MAX;
use perhop_model::{Kind, MAX_OPS, Op, Outcome, Owner};
use perhop_reason::Code;
use perhop_units::Duration;
use serde_json::json;

#[test]
fn as_many_filters_as_fit_come_expire_and_are_refused_together() {
    let mut desk = Desk::furnished();
    let name = |i: usize| format!("f{i}");
    let ops = (0..MAX_OPS).map(|i| soft(Kind::Filter, &name(i), filter("voice", i as u32), 1_000)).collect();
    let reply = desk.commit(api("a"), ops);
    assert_eq!(reply.ops.len(), MAX_OPS);
    // One deletion breaks them all and is told so.
    let t = desk.txn(Owner::File, vec![delete(Kind::Class, "wan/voice")]);
    let errors = desk.run(t).errors.clone();
    let (last, said) = errors.split_last().expect("many");
    assert!(said.len() == ERRORS_MAX && said.iter().all(|e| e.code == Code::InUse && e.op == Some(0)));
    assert!(last.code == Code::InUse && last.message.starts_with(&format!("{} more", MAX_OPS - ERRORS_MAX)));
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.control.objects().len(), 3);
}

#[test]
fn a_wide_tree_with_an_allocation_for_every_class() {
    let mut desk = Desk::furnished();
    let half = 9_998;
    let mut ops: Vec<Op> = (0..half)
        .map(|i| {
            let parent = format!("wan/c{}", i / 60);
            let class = match i < 200 {
                true => json!({"port": "wan", "guarantee": {"rate": 20_000}}),
                false => json!({"port": "wan", "parent": parent, "queue": {"limit": {"packets": 9}}}),
            };
            put(Kind::Class, &format!("wan/c{i}"), class)
        })
        .collect();
    ops.extend((0..half).map(|i| {
        let guarantee = if i < 200 { 20_000 } else { 1 };
        put(Kind::Allocation, &format!("a{i}"), json!({"class": format!("wan/c{i}"), "guarantee": guarantee}))
    }));
    desk.commit(Owner::File, ops);
    // Every child too large for its parent: all are told.
    let large = (200..half).map(|i| {
        put(Kind::Allocation, &format!("a{i}"), json!({"class": format!("wan/c{i}"), "guarantee": 20_000}))
    });
    let t = desk.txn(Owner::File, large.collect());
    let reply = desk.run(t);
    assert_eq!(reply.outcome, Outcome::Rejected);
    assert!(reply.errors.len() > 160 && reply.errors.iter().all(|e| e.code == Code::NoCapacity));
    // And in the other direction: all at once away again.
    let mut ops: Vec<Op> = (0..half).map(|i| delete(Kind::Class, &format!("wan/c{i}"))).collect();
    ops.extend((0..half).map(|i| delete(Kind::Allocation, &format!("a{i}"))));
    desk.commit(Owner::File, ops);
}
