//! Commits that wait for their confirmation (rule 7): what others may do meanwhile, and what taking back restores.

use super::desk::{Desk, api, delete, filter, key, patch, put, soft};
use perhop_model::{EventKind, Kind, Op, Outcome, Owner, TxnId};
use perhop_reason::Code;
use perhop_units::Duration;
use serde_json::json;

/// Commits `ops`, to be confirmed within `seconds`.
fn pending(desk: &mut Desk, owner: Owner, seconds: u64, ops: Vec<Op>) -> TxnId {
    let mut t = desk.txn(owner, ops);
    t.confirm_within_ms = Some(seconds * 1000);
    let reply = desk.run(t);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    reply.txn_id
}

fn guarantee(rate: u64) -> serde_json::Value {
    json!({"guarantee": {"rate": rate}})
}

#[test]
fn a_confirmed_commit_stays() {
    let mut desk = Desk::furnished();
    let txn_id = pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    // Not by another owner.
    assert_eq!(desk.refused(api("a"), vec![Op::Confirm { txn_id }])[0].1, Code::NotFound);
    let plans = desk.plans.len();
    desk.commit(Owner::File, vec![Op::Confirm { txn_id }]);
    assert_eq!((desk.plans.len(), desk.control.next_wakeup()), (plans, None));
    desk.pass(Duration::from_secs(10));
    assert!(desk.names(None).contains(&"filter:f".to_owned()));
}

#[test]
fn confirming_and_changing_again_is_one_transaction() {
    let mut desk = Desk::furnished();
    let txn_id = pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    desk.commit(Owner::File, vec![Op::Confirm { txn_id }, put(Kind::Filter, "f", filter("rest", 2))]);
    desk.pass(Duration::from_secs(10));
    assert_eq!(desk.spec(Kind::Filter, "f")["class"], json!("rest"));
}

#[test]
fn a_confirmation_named_twice_is_refused() {
    let mut desk = Desk::furnished();
    let first = pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "g", filter("voice", 1))]);
    let confirm = Op::Confirm { txn_id: first };
    assert_eq!(desk.refused(Owner::File, vec![confirm.clone(), confirm])[0].1, Code::Malformed);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.control.objects().len(), 3, "both are taken back");
}

#[test]
fn nothing_may_lean_on_what_may_be_taken_back() {
    let mut desk = Desk::furnished();
    let video = json!({"port": "wan"});
    pending(&mut desk, Owner::File, 5, vec![put(Kind::Class, "wan/video", video)]);
    let leaning = || vec![put(Kind::Filter, "tv", filter("video", 1))];
    assert_eq!(desk.refused(api("a"), leaning())[0].1, Code::PendingConfirm);
    // What has nothing to do with it goes through.
    desk.commit(api("a"), vec![put(Kind::Filter, "calls", filter("voice", 1))]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.refused(api("a"), leaning())[0].1, Code::BadReference);
}

#[test]
fn nor_use_capacity_that_would_have_to_be_given_back() {
    let mut desk = Desk::furnished();
    desk.commit(Owner::File, vec![patch(Kind::Class, "wan/voice", guarantee(8_000_000))]);
    pending(&mut desk, Owner::File, 5, vec![patch(Kind::Class, "wan/voice", guarantee(1_000_000))]);
    let errors = desk.refused(Owner::File, vec![patch(Kind::Class, "wan/rest", guarantee(3_000_000))]);
    assert_eq!(errors[0].1, Code::PendingConfirm);
    desk.commit(Owner::File, vec![patch(Kind::Class, "wan/rest", guarantee(2_000_000))]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.spec(Kind::Class, "wan/voice")["guarantee"], json!({"rate": 8_000_000}));
}

#[test]
fn several_may_be_taken_back_together() {
    let mut desk = Desk::furnished();
    let third = json!({"port": "wan", "guarantee": {"rate": 0}});
    desk.commit(
        Owner::File,
        vec![
            patch(Kind::Class, "wan/voice", guarantee(6_000_000)),
            patch(Kind::Class, "wan/rest", guarantee(4_000_000)),
            put(Kind::Class, "wan/third", third),
        ],
    );
    pending(&mut desk, Owner::File, 5, vec![patch(Kind::Class, "wan/voice", guarantee(2_000_000))]);
    pending(&mut desk, Owner::File, 9, vec![patch(Kind::Class, "wan/rest", guarantee(1_000_000))]);
    // Either alone would leave room for 3 Mbit/s, both together leave none.
    let errors = desk.refused(Owner::File, vec![patch(Kind::Class, "wan/third", guarantee(3_000_000))]);
    assert_eq!(errors[0].1, Code::PendingConfirm);
}

#[test]
fn too_many_unconfirmed_commits_are_refused() {
    let mut desk = Desk::furnished();
    for i in 0..perhop_contract::MAX_PENDING {
        pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, &format!("f{i}"), filter("voice", 1))]);
    }
    let mut t = desk.txn(Owner::File, vec![put(Kind::Filter, "more", filter("voice", 1))]);
    t.confirm_within_ms = Some(1);
    let errors = desk.refused_as(perhop_model::Credentials::ADMIN, t);
    assert_eq!(errors[0].1, Code::LimitReached);
}

#[test]
fn soft_state_does_not_expire_under_what_may_come_back() {
    let mut desk = Desk::furnished();
    desk.commit(api("a"), vec![soft(Kind::Profile, "p", json!({}), 2_000)]);
    desk.commit(api("a"), vec![put(Kind::Filter, "f", json!({"profile": "p"}))]);
    pending(&mut desk, api("a"), 5, vec![delete(Kind::Filter, "f")]);
    // Gone, the profile would leave the filter without its reference if that came back.
    desk.pass(Duration::from_secs(3));
    assert!(desk.names(None).contains(&"profile:p".to_owned()));
    desk.pass(Duration::from_secs(2));
    assert!(desk.names(None).contains(&"filter:f".to_owned()));
    desk.commit(api("a"), vec![delete(Kind::Filter, "f")]);
    let end = desk.now + Duration::from_secs(5);
    desk.sleep_until(end);
    assert!(!desk.names(None).contains(&"profile:p".to_owned()));
}

#[test]
fn what_comes_back_has_a_new_identity() {
    let mut desk = Desk::furnished();
    pending(&mut desk, Owner::File, 5, vec![delete(Kind::Class, "wan/voice")]);
    desk.pass(Duration::from_secs(5));
    let back = &desk.control.objects()[&key(Kind::Class, "wan/voice")];
    // Id 2 is the draining class.
    assert_eq!((back.id, back.version, desk.control.revision()), (4, 3, 3));
    let reply = desk.commit(Owner::File, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    assert_eq!(reply.ops[0].id, 5);
}

#[test]
fn taking_back_is_told() {
    let mut desk = Desk::furnished();
    let txn_id = pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    desk.pass(Duration::from_secs(5));
    let events = desk.control.events().after(2, 10);
    assert_eq!(events[0].kind, EventKind::Reverted { owner: Owner::File, txn_id, revision: 3 });
}

#[test]
fn the_graph_is_taken_back_too() {
    let graph = |text: &str| Op::ReplaceGraph { text: text.to_owned(), reset: Vec::new() };
    let mut desk = Desk::furnished();
    pending(&mut desk, Owner::File, 5, vec![graph("a :: Discard();")]);
    assert_eq!(desk.refused(Owner::File, vec![graph("b :: Discard();")])[0].1, Code::PendingConfirm);
    desk.pass(Duration::from_secs(5));
    // Before it there was the router's own graph.
    let last = desk.plans.last().and_then(|p| p.graph.clone()).expect("a graph was planned");
    assert_eq!(last.text, "");
    desk.commit(Owner::File, vec![graph("c :: Discard();")]);
    pending(&mut desk, Owner::File, 5, vec![graph("d :: Discard();")]);
    desk.pass(Duration::from_secs(5));
    let last = desk.plans.last().and_then(|p| p.graph.clone()).expect("a graph was planned");
    assert_eq!(last.text, "c :: Discard();");
    assert_eq!(desk.control.graph().map(|g| g.text.as_str()), Some("c :: Discard();"));
}

#[test]
fn a_deadline_that_passes_while_a_change_is_on_its_way_is_kept_right_behind_it() {
    let mut desk = Desk::furnished();
    pending(&mut desk, Owner::File, 5, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "g", filter("voice", 1))]);
    desk.ask(t);
    desk.now += Duration::from_secs(6);
    assert_eq!(desk.control.next_wakeup(), None, "nothing can be done before the workers have applied");
    desk.applied();
    assert_eq!(desk.names(None).iter().filter(|n| n.starts_with("filter")).count(), 1);
}
