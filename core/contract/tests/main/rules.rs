//! Rules 1 to 9.

use super::desk::{Desk, api, delete, filter, key, n, patch, put, soft};
use perhop_contract::{DEFAULT_DRAIN, Input, KEPT_TRANSACTIONS};
use perhop_model::{
    Given, Kind, Mode, ObjectState, Op, OpOutcome, Outcome, Owner, StateQuery, Status, TxnId,
};
use perhop_reason::Code;
use perhop_units::Duration;
use serde_json::json;

#[test]
fn rule_1_validated_against_the_final_state() {
    let mut desk = Desk::new();
    // Everything refers to something that comes later in the list: the order is irrelevant.
    desk.commit(
        Owner::File,
        vec![
            put(Kind::Filter, "calls", filter("voice", 1)),
            put(Kind::Class, "wan/voice", json!({"port": "wan", "guarantee": {"ppm": 100_000}})),
            put(Kind::Port, "wan", json!({"rate": 10_000_000})),
        ],
    );
    // A circle of shares that each op alone would break is judged as a whole: 8 + 2 becomes 2 + 8.
    let class = |g: u64| json!({"port": "wan", "guarantee": {"rate": g}});
    desk.commit(
        Owner::File,
        vec![put(Kind::Class, "wan/voice", class(8_000_000)), put(Kind::Class, "wan/rest", class(2_000_000))],
    );
    desk.commit(
        Owner::File,
        vec![put(Kind::Class, "wan/rest", class(8_000_000)), put(Kind::Class, "wan/voice", class(2_000_000))],
    );
    // Something and what it refers to go together.
    desk.commit(Owner::File, vec![delete(Kind::Class, "wan/voice"), delete(Kind::Filter, "calls")]);
}

#[test]
fn rule_1_a_key_at_most_once() {
    let mut desk = Desk::furnished();
    let twice = vec![
        put(Kind::Class, "wan/voice", json!({"port": "wan"})),
        delete(Kind::Filter, "none"),
        delete(Kind::Class, "wan/voice"),
    ];
    let errors = desk.refused(Owner::File, twice);
    assert_eq!(errors, [(Some(2), Code::Malformed, "class/wan/voice".to_owned())]);
    let confirm = Op::Confirm { txn_id: TxnId([9; 16]) };
    assert_eq!(desk.refused(Owner::File, vec![confirm.clone(), confirm]).len(), 2);
}

#[test]
fn rule_1_a_patch_replaces_a_value_by_one_of_another_kind_and_merges_one_of_the_same() {
    let mut desk = Desk::furnished();
    let class = |queue, guarantee| json!({"port": "wan", "queue": queue, "guarantee": guarantee});
    let red = |max| json!({"red": {"min_ppm": 1000, "max_ppm": max, "max_p_ppm": 50_000, "ecn": false}});
    let queue = json!({"limit": {"time": 30_000_000}, "kind": red(200_000)});
    desk.commit(Owner::File, vec![put(Kind::Class, "wan/x", class(queue, json!({"rate": 1_000_000})))]);
    let spec = |desk: &Desk, kind, name: &str| {
        serde_json::to_value(&*desk.control.objects()[&key(kind, name)].spec).expect("plain data")
    };
    for (fields, at, wanted) in [
        (json!({"queue": {"limit": {"packets": 40}}}), "/queue/limit", json!({"packets": 40})),
        (json!({"queue": {"limit": {"bytes": 40_000}}}), "/queue/limit", json!({"bytes": 40_000})),
        (
            json!({"queue": {"limit": {"bytes": null, "time": 9_000_000}}}),
            "/queue/limit",
            json!({"time": 9_000_000}),
        ),
        (json!({"queue": {"kind": {"red": {"max_ppm": 300_000}}}}), "/queue/kind", red(300_000)),
        (json!({"queue": {"kind": "fifo"}}), "/queue/kind", json!("fifo")),
        (
            json!({"queue": {"kind": {"codel": {"target": 7_000_000}}}}),
            "/queue/kind",
            json!({"codel": {"target": 7_000_000, "interval": 100_000_000, "ecn": true}}),
        ),
        (
            json!({"queue": {"kind": {"codel": {"ecn": false}}}}),
            "/queue/kind",
            json!({"codel": {"target": 7_000_000, "interval": 100_000_000, "ecn": false}}),
        ),
        (
            json!({"queue": {"kind": {"wred": {"red": {"min_ppm": 0, "max_ppm": 9, "max_p_ppm": 800_000}}}}}),
            "/queue/kind/wred/red",
            json!({"min_ppm": 0, "max_ppm": 9, "max_p_ppm": 800_000}),
        ),
        (
            json!({"queue": {"kind": {"wred": {"average": "coupled"}}}}),
            "/queue/kind/wred/red/max_ppm",
            json!(9),
        ),
        (json!({"queue": {"kind": red(400_000)}}), "/queue/kind", red(400_000)),
        (json!({"guarantee": {"ppm": 50_000}}), "/guarantee", json!({"ppm": 50_000})),
        (json!({"ceiling": {"rate": 5_000_000}}), "/ceiling", json!({"rate": 5_000_000})),
        (json!({"ceiling": {"ppm": 500_000}}), "/ceiling", json!({"ppm": 500_000})),
    ] {
        desk.commit(Owner::File, vec![patch(Kind::Class, "wan/x", fields.clone())]);
        let spec = spec(&desk, Kind::Class, "wan/x");
        assert_eq!(spec.pointer(at), Some(&wanted), "{fields}");
    }
    assert_eq!(spec(&desk, Kind::Class, "wan/x").pointer("/queue/limit"), Some(&json!({"time": 9_000_000})));
    // Two kinds at once are none.
    let both = json!({"queue": {"limit": {"packets": 4, "bytes": 9000}}});
    let errors = desk.refused(Owner::File, vec![patch(Kind::Class, "wan/x", both)]);
    assert_eq!(errors[0].1, Code::Malformed);
    // Kinds that a field names: a meter, and what is done with a colour.
    let two_rates =
        json!({"type": "trtcm", "cir": 1000, "cbs": 1500, "pir": 2000, "pbs": 3000, "aware": true});
    let profile = json!({"meter": two_rates, "yellow": {"do": "mark", "dscp": 46}});
    desk.commit(Owner::File, vec![put(Kind::Profile, "p", profile)]);
    let one_rate = json!({"type": "token_bucket", "cir": 1000, "cbs": 1500});
    for (fields, at, wanted) in [
        (json!({"meter": {"pir": 4000}}), "/meter/pir", json!(4000)),
        (json!({"meter": {"type": "trtcm", "pir": 5000}}), "/meter/cbs", json!(1500)),
        (json!({"meter": one_rate}), "/meter", one_rate),
        (json!({"yellow": {"do": "drop"}}), "/yellow", json!({"do": "drop"})),
    ] {
        desk.commit(Owner::File, vec![patch(Kind::Profile, "p", fields.clone())]);
        let spec = spec(&desk, Kind::Profile, "p");
        assert_eq!(spec.pointer(at), Some(&wanted), "{fields}");
    }
    // A condition is no such value: its fields are merged, also when each has but one.
    desk.commit(
        Owner::File,
        vec![put(Kind::Filter, "m", json!({"class": "voice", "match": {"src": "10.0.0.0/8"}}))],
    );
    desk.commit(Owner::File, vec![patch(Kind::Filter, "m", json!({"match": {"dst": "10.1.0.0/16"}}))]);
    let merged = spec(&desk, Kind::Filter, "m");
    assert_eq!(merged.pointer("/match/src"), Some(&json!("10.0.0.0/8")));
    assert_eq!(merged.pointer("/match/dst"), Some(&json!("10.1.0.0/16")));
}

#[test]
fn rule_1_all_errors_are_returned() {
    let mut desk = Desk::furnished();
    let errors = desk.refused(
        Owner::File,
        vec![
            put(Kind::Class, "wan/a", json!({"port": "wan", "wieght": 3})),
            put(Kind::Class, "wan/b", json!({"port": "wan", "weight": 0, "tier": 99})),
            put(Kind::Class, "wan/c", json!({"port": "nowhere"})),
            put(Kind::Filter, "f", filter("a", 1)),
            put(Kind::Filter, "g", filter("nothing", 1)),
            patch(Kind::Sla, "absent", json!({})),
        ],
    );
    let mut found: Vec<_> =
        errors.iter().map(|(op, code, _)| (op.expect("each has its operation"), *code)).collect();
    found.sort();
    let expected = [
        (0, Code::UnknownField),
        (1, Code::OutOfRange),
        (1, Code::OutOfRange),
        (2, Code::BadReference),
        // Not op 3: class "a" would exist if its own error were mended.
        (4, Code::BadReference),
        (5, Code::NotFound),
    ];
    assert_eq!(found, expected, "{errors:?}");
}

#[test]
fn rule_2_a_put_filter_keeps_its_place_in_the_order() {
    // The order itself, (tier, priority, name), is the classifier's; here: the three keys of it are kept as given.
    let mut desk = Desk::furnished();
    let spec = json!({"tier": 3, "priority": 4_000_000_000_u64, "class": "voice"});
    desk.commit(Owner::File, vec![put(Kind::Filter, "a", spec)]);
    let read = desk.spec(Kind::Filter, "a");
    assert_eq!((&read["tier"], &read["priority"]), (&json!(3), &json!(4_000_000_000_u64)));
    let errors = desk.refused(Owner::File, vec![put(Kind::Filter, "b", json!({"tier": 256}))]);
    assert_eq!(errors[0].1, Code::Malformed);
}

#[test]
fn rule_3_all_or_nothing() {
    let mut desk = Desk::furnished();
    let errors = desk.refused(
        Owner::File,
        vec![put(Kind::Filter, "good", filter("voice", 1)), put(Kind::Filter, "bad", filter("none", 2))],
    );
    assert_eq!(errors.len(), 1);
    // An id is not spent on what did not happen.
    let reply = desk.commit(Owner::File, vec![put(Kind::Filter, "good", filter("voice", 1))]);
    let highest = desk.control.objects().values().map(|e| e.id).max();
    assert_eq!((Some(reply.ops[0].id), reply.ops[0].id), (highest, 4));
}

#[test]
fn rule_3_the_reply_follows_the_last_worker() {
    let mut desk = Desk::furnished();
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "f", filter("voice", 1))]);
    let first = desk.ask(t);
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "g", filter("voice", 1))]);
    let second = desk.ask(t);
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "h", filter("none", 1))]);
    let third = desk.ask(t);
    assert!(!desk.replies.contains_key(&first) && desk.open.len() == 1, "only one change is on its way");
    // A ticket that is not the one in flight says nothing.
    desk.feed(Input::Applied { ticket: 99 });
    assert!(!desk.replies.contains_key(&first));
    desk.now += Duration::from_millis(3);
    let (ticket, plan) = desk.open.pop_front().expect("one is open");
    assert_eq!(plan.changed, [(key(Kind::Filter, "f"), true)]);
    desk.feed(Input::Applied { ticket });
    let reply = desk.replies[&first].clone();
    assert_eq!(reply.committed_ns - reply.received_ns, 3_000_000);
    assert!(!desk.replies.contains_key(&second) && !desk.replies.contains_key(&third));
    desk.applied();
    let (second, third) = (&desk.replies[&second], &desk.replies[&third]);
    assert_eq!(second.revision, reply.revision + 1);
    assert_eq!(second.generation, reply.generation + 1);
    assert_eq!(third.outcome, Outcome::Rejected);
}

#[test]
fn rule_4_untouched_objects_are_not_planned() {
    let mut desk = Desk::furnished();
    let before = desk.control.objects()[&key(Kind::Class, "wan/rest")].clone();
    desk.commit(Owner::File, vec![patch(Kind::Class, "wan/voice", json!({"weight": 3}))]);
    let plan = desk.plans.last().expect("a change was planned");
    assert_eq!(plan.changed, [(key(Kind::Class, "wan/voice"), true)]);
    assert!(plan.draining.is_empty());
    assert_eq!(desk.control.objects()[&key(Kind::Class, "wan/rest")], before);
    // A replacement in place keeps the identity and with it queue, tokens and counters.
    let voice = &desk.control.objects()[&key(Kind::Class, "wan/voice")];
    assert_eq!((voice.id, voice.version), (2, 2));
    // What changes nothing is not even sent to the workers.
    let plans = desk.plans.len();
    let reply = desk.commit(Owner::File, vec![patch(Kind::Class, "wan/voice", json!({"weight": 3}))]);
    assert_eq!((reply.ops[0].outcome, reply.ops[0].version), (OpOutcome::Unchanged, 2));
    assert_eq!((desk.plans.len(), desk.control.revision()), (plans, 2));
}

#[test]
fn rule_5_a_deleted_class_drains() {
    let mut desk = Desk::furnished();
    let drain = |ms| Op::Delete { kind: Kind::Class, name: n("wan/voice"), if_version: None, drain_ms: ms };
    desk.commit(Owner::File, vec![drain(Some(250))]);
    let draining = desk.plans.last().expect("planned").draining.clone();
    assert_eq!((draining[0].id, draining[0].until), (2, desk.now + Duration::from_millis(250)));
    let states =
        desk.control.state(&StateQuery { kind: Some(Kind::Class), ..StateQuery::default() }).expect("a page");
    let voice = states.objects.iter().find(|o| o.name.as_str() == "wan/voice").expect("still shown");
    assert_eq!(voice.status, Status::Draining);
    // Made again meanwhile it is another object; both are shown.
    desk.commit(Owner::File, vec![put(Kind::Class, "wan/voice", json!({"port": "wan"}))]);
    let query = StateQuery { prefix: Some("wan/v".to_owned()), ..StateQuery::default() };
    let ids: Vec<_> =
        desk.control.state(&query).expect("a page").objects.iter().map(|o| (o.id, o.status)).collect();
    assert_eq!(ids, [(2, Status::Draining), (4, Status::Active)]);
    desk.feed(Input::Drained { id: 2, dropped: 5 });
    assert_eq!(desk.control.state(&query).expect("a page").objects.len(), 1);
    desk.commit(Owner::File, vec![drain(None)]);
    assert_eq!(desk.plans.last().expect("planned").draining[0].until, desk.now + DEFAULT_DRAIN);
    assert_eq!(desk.refused(Owner::File, vec![drain(Some(60_001))])[0].1, Code::OutOfRange);
}

#[test]
fn rule_6_same_bytes_same_reply() {
    let mut desk = Desk::furnished();
    let t = desk.txn(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    let reply = desk.run(t.clone());
    let revision = desk.control.revision();
    desk.now += Duration::from_secs(3);
    let again = desk.run(t.clone());
    assert!(again.replayed && !reply.replayed);
    let same = perhop_model::Reply { replayed: false, ..(*again).clone() };
    assert_eq!((same, desk.control.revision()), ((*reply).clone(), revision));
    // A refusal is repeated too, even when the request would succeed now.
    let bad = desk.txn(api("a"), vec![put(Kind::Filter, "g", filter("later", 1))]);
    let refused = desk.run(bad.clone());
    desk.commit(api("b"), vec![put(Kind::Class, "wan/later", json!({"port": "wan"}))]);
    let again = desk.run(bad);
    assert_eq!((again.outcome, again.replayed), (Outcome::Rejected, true));
    assert_eq!(again.errors, refused.errors);
    // While the first is still on its way, its repetition waits and is answered from the same reply.
    let t = desk.txn(api("a"), vec![put(Kind::Filter, "h", filter("voice", 1))]);
    let (first, second) = (desk.ask(t.clone()), desk.ask(t));
    desk.applied();
    assert_eq!(desk.replies[&first].revision, desk.replies[&second].revision);
    assert!(desk.replies[&second].replayed);
}

#[test]
fn rule_6_another_owner_may_use_the_same_id() {
    let mut desk = Desk::furnished();
    let t = desk.txn(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    desk.run(t.clone());
    let other = perhop_model::Transaction {
        owner: api("b"),
        ops: vec![put(Kind::Filter, "g", filter("voice", 1))],
        ..t
    };
    assert_eq!(desk.run(other).outcome, Outcome::Committed);
}

#[test]
fn rule_6_a_check_is_not_kept() {
    let mut desk = Desk::furnished();
    let mut t = desk.txn(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    t.mode = Mode::Check;
    let before = desk.state_bytes();
    let checked = desk.run(t.clone());
    assert_eq!((checked.outcome, checked.ops[0].outcome), (Outcome::Checked, OpOutcome::Created));
    assert_eq!((desk.state_bytes(), checked.committed_ns), (before, 0));
    t.mode = Mode::Commit;
    let reply = desk.run(t);
    assert_eq!((reply.outcome, reply.replayed), (Outcome::Committed, false));
    assert_eq!(reply.ops, checked.ops, "a check says what the commit will do");
}

#[test]
fn rule_6_replies_are_kept_for_65536_transactions_and_10_minutes() {
    let mut desk = Desk::furnished();
    let first = desk.txn(api("a"), vec![delete(Kind::Filter, "none")]);
    desk.run(first.clone());
    // An hour later it is still among the latest 65,536.
    desk.now += Duration::from_secs(3600);
    for _ in 1..KEPT_TRANSACTIONS {
        desk.commit(api("a"), vec![delete(Kind::Filter, "none")]);
    }
    desk.replies.clear();
    assert!(desk.run(first.clone()).replayed);
    // One more, and both conditions are over.
    desk.commit(api("a"), vec![delete(Kind::Filter, "none")]);
    assert!(!desk.run(first).replayed);
}

#[test]
fn rule_7_unconfirmed_is_reverted() {
    let mut desk = Desk::furnished();
    let before = desk.spec(Kind::Class, "wan/voice");
    let ops = vec![
        patch(Kind::Class, "wan/voice", json!({"guarantee": {"rate": 3_000_000}})),
        put(Kind::Filter, "f", filter("voice", 1)),
    ];
    let mut t = desk.txn(Owner::File, ops);
    t.confirm_within_ms = Some(5_000);
    desk.run(t.clone());
    assert_eq!(desk.control.next_wakeup(), Some(desk.now + Duration::from_secs(5)));
    desk.pass(Duration::from_millis(4_999));
    assert_eq!(desk.control.objects().len(), 4);
    desk.pass(Duration::from_millis(1));
    assert_eq!((desk.spec(Kind::Class, "wan/voice"), desk.control.objects().len()), (before, 3));
    assert_eq!(desk.control.next_wakeup(), None);
    let confirm = vec![Op::Confirm { txn_id: t.txn_id }];
    assert_eq!(desk.refused(Owner::File, confirm)[0].1, Code::NotFound);
}

#[test]
fn rule_8_hard_state_stays_and_soft_state_ends() {
    let mut desk = Desk::furnished();
    desk.commit(
        api("a"),
        vec![
            put(Kind::Filter, "hard", filter("voice", 1)),
            soft(Kind::Filter, "soft", filter("voice", 1), 1_000),
        ],
    );
    let end = desk.now + Duration::from_secs(30 * 86_400);
    desk.sleep_until(end);
    assert_eq!(desk.names(Some(&api("a"))), ["filter:hard"]);
}

#[test]
fn rule_8_after_a_restart_owners_resynchronise_by_replace_owned() {
    let mut desk = Desk::furnished();
    desk.commit(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    let page =
        desk.control.state(&StateQuery { owner: Some(api("a")), ..StateQuery::default() }).expect("a page");
    let digest = page.digests["api:a"].clone();
    let written = |o: &ObjectState| serde_json::to_value(&o.spec).expect("plain data");
    let objects =
        page.objects.iter().map(|o| Given::read(o.kind, o.name.clone(), written(o), None)).collect();
    // A new epoch knows only what the file says, and no old transaction.
    let mut desk = Desk::furnished();
    let again = Op::ReplaceOwned { kinds: Kind::ALL.to_vec(), objects };
    desk.commit(api("a"), vec![again.clone()]);
    let page = desk.control.state(&StateQuery::default()).expect("a page");
    assert_eq!(page.digests["api:a"], digest);
    let reply = desk.commit(api("a"), vec![again]);
    assert_eq!(reply.ops[0].outcome, OpOutcome::Unchanged);
}

#[test]
fn rule_8_replace_owned_never_touches_another_owner() {
    let mut desk = Desk::furnished();
    desk.commit(
        api("a"),
        vec![put(Kind::Filter, "a1", filter("voice", 1)), put(Kind::Sla, "gold", json!({"rate": 1_000_000}))],
    );
    desk.commit(api("b"), vec![put(Kind::Filter, "b1", filter("voice", 1))]);
    let object = |name: &str| Given::read(Kind::Filter, n(name), filter("rest", 2), None);
    let replace = |objects| Op::ReplaceOwned { kinds: vec![Kind::Filter, Kind::Filter], objects };
    desk.commit(api("a"), vec![replace(vec![object("a2")])]);
    assert_eq!(desk.names(Some(&api("a"))), ["filter:a2", "sla:gold"], "only the kinds named");
    assert_eq!(desk.names(Some(&api("b"))), ["filter:b1"]);
    desk.commit(api("a"), vec![replace(Vec::new())]);
    assert_eq!(desk.names(Some(&api("a"))), ["sla:gold"]);
    assert_eq!(desk.names(Some(&api("b"))), ["filter:b1"]);
    let errors = desk.refused(api("a"), vec![replace(vec![object("b1")])]);
    assert_eq!(errors, [(Some(0), Code::NotOwner, "filter/b1".to_owned())]);
    let stranger = Given::read(Kind::Sla, n("x"), json!({"rate": 1_000_000}), None);
    assert_eq!(desk.refused(api("a"), vec![replace(vec![stranger])])[0].1, Code::Malformed);
    assert_eq!(desk.names(None).len(), 5);
}

#[test]
fn rule_9_the_request_queue_is_bounded() {
    let mut desk = Desk::furnished();
    let mut asked = Vec::new();
    for i in 0..=perhop_contract::QUEUE_LIMIT {
        let t = desk.txn(Owner::File, vec![put(Kind::Filter, &format!("f{i}"), filter("voice", 1))]);
        asked.push(desk.ask(t));
    }
    assert!(desk.replies.len() == 1 && desk.open.len() == 1);
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "late", filter("voice", 1))]);
    let refused = desk.ask(t.clone());
    let reply = desk.replies[&refused].clone();
    assert_eq!((reply.errors[0].code, reply.retry_after_ms), (Code::Overload, Some(100)));
    desk.applied();
    assert!(asked.iter().all(|r| desk.replies[r].outcome == Outcome::Committed));
    // The refusal was no answer to the transaction: it may be tried again under its id.
    assert_eq!(desk.run(t).outcome, Outcome::Committed);
}
