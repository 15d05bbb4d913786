//! The codes of a router, each provoked.
//!
//! Three of them do not arise in the control machine itself: `unknown_kind` is found when a request is read (a kind is a
//! closed type behind that), `unsupported` is what a planner says of what its data plane cannot do, and `backend_failed`
//! what one of a fallible backend says.

use super::desk::{Desk, api, delete, filter, key, n, patch, put};
use perhop_contract::{Input, Limits};
use perhop_model::{
    Claim, Credentials, ErrorItem, Given, Kind, Mode, Name, Op, Outcome, Owner, Put, Role, Speaks,
    Transaction, TxnId,
};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use serde_json::json;

fn one(errors: Vec<(Option<usize>, Code, String)>) -> (Code, String) {
    assert_eq!(errors.len(), 1, "{errors:?}");
    let (_, code, path) = errors.into_iter().next().expect("one");
    (code, path)
}

#[test]
fn every_code_has_a_test_named_after_it() {
    let source = include_str!("codes.rs");
    for code in Code::ALL.iter().filter(|code| code.is_of_routers()) {
        assert!(source.contains(&format!("fn code_{}()", code.name())), "{code}");
    }
}

#[test]
fn code_malformed() {
    let mut desk = Desk::furnished();
    let errors =
        desk.refused(Owner::File, vec![put(Kind::Class, "x", json!({"port": "wan", "weight": "heavy"}))]);
    assert_eq!(one(errors), (Code::Malformed, "class/x.weight".to_owned()));
    assert_eq!(one(desk.refused(Owner::File, vec![])).0, Code::Malformed);
    let errors = desk.refused(Owner::File, vec![patch(Kind::Class, "wan/voice", json!([1]))]);
    assert_eq!(one(errors).0, Code::Malformed);
    let graph = || Op::ReplaceGraph { text: "a :: B();".to_owned(), reset: vec![] };
    assert_eq!(one(desk.refused(Owner::File, vec![graph(), graph()])).0, Code::Malformed);
}

#[test]
fn code_unknown_field() {
    let mut desk = Desk::furnished();
    let errors = desk.refused(Owner::File, vec![put(Kind::Port, "lan", json!({"rat": 1}))]);
    assert_eq!(one(errors).0, Code::UnknownField);
    let errors = desk.refused(Owner::File, vec![patch(Kind::Port, "wan", json!({"rat": 1}))]);
    assert_eq!(one(errors).0, Code::UnknownField);
}

#[test]
fn code_unknown_kind() {
    let request = json!({"txn_id": "00000000000000000000000000000001", "owner": "cli", "fence": 0, "mode": "commit",
        "ops": [{"op": "put", "kind": "tunnel", "name": "t", "spec": {}}]});
    let error = serde_json::from_value::<Transaction>(request).expect_err("no such kind").to_string();
    assert!(error.contains("unknown variant `tunnel`"), "{error}");
    assert!("tunnel".parse::<Kind>().expect_err("no such kind").contains("kinds are port, class"));
}

#[test]
fn code_out_of_range() {
    let mut desk = Desk::furnished();
    let t = desk.txn(Owner::File, vec![put(Kind::Port, "lan", json!({"rate": 5, "overhead": 1000}))]);
    let reply = desk.run(t);
    let rate = reply.errors.iter().find(|e| e.path == "port/lan.rate").expect("an error at the rate");
    assert_eq!((rate.code, &rate.value), (Code::OutOfRange, &Some(json!(5))));
    assert_eq!(rate.allowed.as_deref(), Some("8000 to 1000000000000"));
    assert_eq!(reply.errors.len(), 2);
    let mut t = desk.txn(Owner::File, vec![delete(Kind::Filter, "x")]);
    t.confirm_within_ms = Some(0);
    assert_eq!(one(desk.refused_as(Credentials::ADMIN, t)).0, Code::OutOfRange);
    let errors = desk.refused(Owner::File, vec![super::desk::soft(Kind::Filter, "f", filter("voice", 1), 0)]);
    assert_eq!(one(errors).0, Code::OutOfRange);
}

#[test]
fn code_bad_reference() {
    let mut desk = Desk::furnished();
    let errors = desk.refused(Owner::File, vec![put(Kind::Filter, "f", json!({"sla": "gold"}))]);
    assert_eq!(one(errors), (Code::BadReference, "filter/f.sla".to_owned()));
    // Another owner's profile is private unless it says otherwise; a class is shared unless it says otherwise.
    desk.commit(
        api("a"),
        vec![put(Kind::Profile, "mine", json!({})), put(Kind::Profile, "ours", json!({"shared": true}))],
    );
    let errors = desk.refused(api("b"), vec![put(Kind::Filter, "f", json!({"profile": "mine"}))]);
    assert_eq!(one(errors), (Code::BadReference, "filter/f.profile".to_owned()));
    desk.commit(api("b"), vec![put(Kind::Filter, "f", json!({"profile": "ours", "class": "voice"}))]);
    // A class in the tree of another port is no parent.
    desk.commit(Owner::File, vec![put(Kind::Port, "lan", json!({}))]);
    let child = json!({"port": "lan", "parent": "wan/voice"});
    let errors = desk.refused(Owner::File, vec![put(Kind::Class, "lan/a", child)]);
    assert_eq!(one(errors), (Code::BadReference, "class/lan/a.parent".to_owned()));
    let circle = vec![
        put(Kind::Class, "p", json!({"port": "wan", "parent": "q"})),
        put(Kind::Class, "q", json!({"port": "wan", "parent": "p"})),
    ];
    assert!(desk.refused(Owner::File, circle).iter().all(|e| e.1 == Code::BadReference));
}

#[test]
fn a_class_with_children_is_no_class_for_packets() {
    let mut desk = Desk::furnished();
    let child = |name: &str| put(Kind::Class, name, json!({"port": "wan", "parent": "wan/voice"}));
    // What refers to the class, old or new, is refused; the leaves below are named.
    let both =
        vec![child("wan/voice/calls"), child("wan/voice/video"), put(Kind::Filter, "f", filter("voice", 1))];
    let reply = desk.try_ops(api("a"), both);
    assert_eq!(reply.errors.len(), 1, "{reply:?}");
    assert_eq!((reply.errors[0].code, reply.errors[0].path.as_str()), (Code::BadReference, "filter/f.class"));
    assert!(reply.errors[0].message.ends_with(": \"calls\", \"video\""), "{}", reply.errors[0].message);
    let red = json!({"meter": {"type": "token_bucket", "cir": 9_000, "cbs": 9_000}, "red": {"do": "class", "class": "voice"}});
    let profile = vec![child("wan/voice/calls"), put(Kind::Profile, "p", red)];
    assert_eq!(one(desk.refused(api("a"), profile)), (Code::BadReference, "profile/p.red.class".to_owned()));
    let detector = vec![child("wan/voice/calls"), put(Kind::Detector, "d", json!({"class": "voice"}))];
    assert_eq!(one(desk.refused(api("a"), detector)), (Code::BadReference, "detector/d.class".to_owned()));
    // The first child of a class in use is at fault; one that bears the name itself is welcome.
    desk.commit(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    let errors = desk.refused(api("b"), vec![child("wan/voice/calls")]);
    assert_eq!(one(errors), (Code::InUse, "class/wan/voice/calls".to_owned()));
    desk.commit(api("b"), vec![child("wan/voice/calls"), child("wan/voice/voice")]);
    // Whoever takes that one away leaves only a class with children behind.
    let errors = desk.refused(api("b"), vec![delete(Kind::Class, "wan/voice/voice")]);
    assert_eq!(one(errors), (Code::InUse, "class/wan/voice/voice".to_owned()));
    desk.commit(
        api("b"),
        vec![delete(Kind::Class, "wan/voice/voice"), delete(Kind::Class, "wan/voice/calls")],
    );
}

#[test]
fn code_not_found() {
    let mut desk = Desk::furnished();
    assert_eq!(one(desk.refused(Owner::File, vec![patch(Kind::Class, "x", json!({}))])).0, Code::NotFound);
    let renew = Op::Renew { keys: Some(vec![key(Kind::Class, "x")]), ttl_ms: 5 };
    assert_eq!(one(desk.refused(Owner::File, vec![renew])).0, Code::NotFound);
    let confirm = Op::Confirm { txn_id: TxnId([1; 16]) };
    assert_eq!(one(desk.refused(Owner::File, vec![confirm])), (Code::NotFound, "txn_id".to_owned()));
}

#[test]
fn code_exists() {
    let mut desk = Desk::furnished();
    let given = Given::read(Kind::Class, n("wan/voice"), json!({"port": "wan"}), None);
    let new = Op::Put(Put { given, if_version: Some(0) });
    assert_eq!(one(desk.refused(Owner::File, vec![new])).0, Code::Exists);
    let again = json!({"port": "wan", "logical": "voice"});
    let errors = desk.refused(Owner::File, vec![put(Kind::Class, "wan/other", again)]);
    assert!(errors.iter().all(|e| e.1 == Code::Exists), "{errors:?}");
    let same_device = put(Kind::Port, "lan", json!({"device": "wan"}));
    assert!(desk.refused(Owner::File, vec![same_device]).iter().all(|e| e.1 == Code::Exists));
    // One allocation a class.
    let allocation =
        |name: &str| put(Kind::Allocation, name, json!({"class": "wan/voice", "guarantee": 1_000_000}));
    desk.commit(Owner::Agent, vec![allocation("x")]);
    let errors = desk.refused(api("a"), vec![allocation("y")]);
    assert_eq!(one(errors), (Code::Exists, "allocation/y.class".to_owned()));
}

#[test]
fn code_in_use() {
    let mut desk = Desk::furnished();
    desk.commit(
        api("a"),
        vec![put(Kind::Filter, "f", filter("voice", 1)), put(Kind::Sla, "s", json!({"rate": 9_000}))],
    );
    desk.commit(api("a"), vec![put(Kind::Filter, "g", json!({"sla": "s"}))]);
    // The deletion is at fault, whether the class is meant by its logical name or by its key.
    let errors = desk.refused(Owner::File, vec![delete(Kind::Filter, "x"), delete(Kind::Class, "wan/voice")]);
    assert_eq!(errors, [(Some(1), Code::InUse, "class/wan/voice".to_owned())]);
    assert_eq!(one(desk.refused(api("a"), vec![delete(Kind::Sla, "s")])), (Code::InUse, "sla/s".to_owned()));
    assert!(
        desk.refused(Owner::File, vec![delete(Kind::Port, "wan")])
            .iter()
            .all(|e| e.1 == Code::InUse && e.0 == Some(0))
    );
    // So is a change that takes the name away or hides the object.
    let renamed = patch(Kind::Class, "wan/voice", json!({"logical": "speech"}));
    assert_eq!(one(desk.refused(Owner::File, vec![renamed])).0, Code::InUse);
    desk.commit(
        Owner::Agent,
        vec![put(Kind::Allocation, "x", json!({"class": "wan/voice", "guarantee": 9_000}))],
    );
    let hidden = patch(Kind::Class, "wan/voice", json!({"shared": false}));
    assert_eq!(one(desk.refused(Owner::File, vec![hidden])), (Code::InUse, "class/wan/voice".to_owned()));
}

#[test]
fn code_not_owner() {
    let mut desk = Desk::furnished();
    let ops = vec![
        put(Kind::Class, "wan/voice", json!({"port": "wan"})),
        patch(Kind::Class, "wan/rest", json!({"weight": 2})),
        delete(Kind::Port, "wan"),
    ];
    let errors = desk.refused(api("a"), ops);
    assert!(errors.len() == 3 && errors.iter().all(|e| e.1 == Code::NotOwner), "{errors:?}");
    let renew = Op::Renew { keys: Some(vec![key(Kind::Class, "wan/voice")]), ttl_ms: 5 };
    assert_eq!(one(desk.refused(api("a"), vec![renew])).0, Code::NotOwner);
    // An admin's force goes through, leaves the object with its owner, and is logged.
    let mut t = desk.txn(api("a"), vec![patch(Kind::Class, "wan/voice", json!({"weight": 7}))]);
    t.force = true;
    assert_eq!(desk.run(t).outcome, Outcome::Committed);
    let voice = &desk.control.objects()[&key(Kind::Class, "wan/voice")];
    assert_eq!((&voice.owner, voice.id), (&Owner::File, 2));
    let last = desk.control.events().after(desk.control.events().latest() - 1, 1);
    let logged = matches!(&last[0].kind, perhop_model::EventKind::Committed { forced: true, .. });
    assert!(logged, "{last:?}");
}

#[test]
fn who_manages_an_object_changes_its_rate_and_nothing_else_of_it() {
    let mut desk = Desk::furnished();
    let managed = json!({"rate": 4_000_000, "peak": 9_000_000, "managed_by": "agent"});
    desk.commit(api("a"), vec![put(Kind::AbrPolicy, "pool", managed)]);
    desk.commit(Owner::File, vec![patch(Kind::Port, "wan", json!({"managed_by": "agent"}))]);
    let rates = || {
        let policy = json!({"rate": 3_000_000, "min": 0, "refused": "no_capacity"});
        vec![patch(Kind::AbrPolicy, "pool", policy), patch(Kind::Port, "wan", json!({"rate": 900_000_000}))]
    };
    desk.commit(Owner::Agent, rates());
    let pool = &desk.control.objects()[&key(Kind::AbrPolicy, "pool")];
    assert_eq!((&pool.owner, pool.version), (&api("a"), desk.control.revision()));
    let last = desk.control.events().after(desk.control.events().latest() - 1, 1);
    assert!(matches!(&last[0].kind, perhop_model::EventKind::Committed { forced: false, .. }), "{last:?}");
    // Nobody else may, and the manager nothing else: neither of these objects nor of others.
    let errors = desk.refused(api("b"), rates());
    assert!(errors.len() == 2 && errors.iter().all(|e| e.1 == Code::NotOwner), "{errors:?}");
    let more = vec![
        patch(Kind::AbrPolicy, "pool", json!({"rate": 1_000_000, "peak": 1_000_000})),
        patch(Kind::Port, "wan", json!({"managed_by": null})),
        patch(Kind::Class, "wan/voice", json!({"weight": 2})),
    ];
    let errors = desk.refused(Owner::Agent, more);
    assert!(errors.len() == 3 && errors.iter().all(|e| e.1 == Code::NotOwner), "{errors:?}");
    let all = vec![delete(Kind::AbrPolicy, "pool"), put(Kind::Port, "wan", json!({"rate": 800_000_000}))];
    let errors = desk.refused(Owner::Agent, all);
    assert!(errors.len() == 2 && errors.iter().all(|e| e.1 == Code::NotOwner), "{errors:?}");
    // The owner takes it back.
    desk.commit(Owner::File, vec![patch(Kind::Port, "wan", json!({"managed_by": null}))]);
    let one_more = patch(Kind::Port, "wan", json!({"rate": 700_000_000}));
    assert_eq!(one(desk.refused(Owner::Agent, vec![one_more])), (Code::NotOwner, "port/wan".to_owned()));
}

#[test]
fn a_client_speaks_for_the_owners_that_its_patterns_cover() {
    let mut desk = Desk::furnished();
    let patterns = ["agent", "api:site-*"].map(|p| p.parse().expect("a pattern"));
    let who = Credentials { role: Role::Write, speaks: Speaks::ForThese(patterns.into()) };
    for (owner, may) in [(Owner::Agent, true), (api("site-1"), true), (api("a"), false), (Owner::Cli, false)]
    {
        let claim = Claim::new(owner.clone(), 1);
        assert_eq!(desk.control.claim(Instant::ZERO, &who, &claim).is_ok(), may, "{owner}");
        let mut t = desk.txn(owner.clone(), vec![put(Kind::Filter, "f", filter("voice", 1))]);
        (t.fence, t.mode) = (1, Mode::Check);
        assert_eq!(desk.run_as(who.clone(), t).outcome == Outcome::Checked, may, "{owner}");
    }
}

#[test]
fn code_forbidden() {
    let mut desk = Desk::furnished();
    let ops = || vec![put(Kind::Filter, "f", filter("voice", 1))];
    let t = desk.txn(api("a"), ops());
    assert_eq!(
        one(desk.refused_as(Credentials { role: Role::Read, speaks: Speaks::ForAll }, t.clone())).0,
        Code::Forbidden
    );
    let stranger = Credentials::writer(api("b"));
    assert_eq!(one(desk.refused_as(stranger.clone(), t.clone())).0, Code::Forbidden);
    // Somebody else's attempt under this id is no answer to its owner.
    let own = Credentials::writer(api("a"));
    assert_eq!(desk.run_as(own.clone(), t.clone()).outcome, Outcome::Committed);
    // Nor does it tell the stranger what the owner was answered.
    assert_eq!(desk.run_as(stranger.clone(), t).errors[0].code, Code::Forbidden);
    let mut forced = desk.txn(api("a"), vec![delete(Kind::Port, "wan")]);
    forced.force = true;
    assert_eq!(one(desk.refused_as(own, forced)).0, Code::Forbidden);
    let claim = Claim::new(api("a"), 3);
    assert_eq!(desk.control.claim(desk.now, &stranger, &claim), Err(Code::Forbidden));
    // Reading may ask, but asking fences nobody out.
    let mut t = desk.txn(api("a"), vec![put(Kind::Filter, "g", filter("voice", 1))]);
    (t.mode, t.fence) = (Mode::Check, u64::MAX);
    let reader = Credentials { role: Role::Read, speaks: Speaks::ForAll };
    assert_eq!(desk.run_as(reader, t).outcome, Outcome::Checked);
    desk.commit(api("a"), vec![put(Kind::Filter, "g", filter("voice", 1))]);
}

#[test]
fn code_fenced() {
    let mut desk = Desk::furnished();
    let mut t = desk.txn(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    t.fence = 5;
    desk.run(t);
    let mut old = desk.txn(api("a"), vec![delete(Kind::Filter, "f")]);
    old.fence = 4;
    assert_eq!(one(desk.refused_as(Credentials::ADMIN, old)).0, Code::Fenced);
    let claim = |fence| Claim::new(api("a"), fence);
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim(4)), Err(Code::Fenced));
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim(9)), Ok(()));
    let mut between = desk.txn(api("a"), vec![delete(Kind::Filter, "f")]);
    between.fence = 8;
    assert_eq!(one(desk.refused_as(Credentials::ADMIN, between)).0, Code::Fenced);
    // Other owners have fences of their own.
    desk.commit(api("b"), vec![put(Kind::Filter, "g", filter("voice", 1))]);
}

#[test]
fn what_is_refused_raises_no_fence() {
    let mut desk = Desk::furnished();
    let f = |class: &str| vec![put(Kind::Filter, "f", filter(class, 1))];
    let own = Credentials::writer(api("a"));
    // Each refused at another step: by the credentials, as a whole, in its operations, by the data plane.
    let mut refused = desk.txn(api("a"), f("voice"));
    refused.fence = 7;
    let stranger = Credentials { role: Role::Admin, speaks: Speaks::For(api("b")) };
    desk.refused_as(stranger, refused);
    for (ops, if_revision) in [(f("voice"), Some(99)), (Vec::new(), None), (f("nothing"), None)] {
        let mut refused = desk.txn(api("a"), ops);
        (refused.fence, refused.if_revision) = (8, if_revision);
        desk.refused_as(own.clone(), refused);
    }
    desk.control.planner().refuse.borrow_mut().push(ErrorItem {
        op: None,
        path: String::new(),
        code: Code::Unsupported,
        message: "not here".to_owned(),
        value: None,
        allowed: None,
        limit: None,
        free: None,
    });
    let mut refused = desk.txn(api("a"), f("voice"));
    refused.fence = 9;
    desk.refused_as(own.clone(), refused);
    desk.control.planner().refuse.borrow_mut().clear();
    // A check of the running instance's successor, and of somebody who may change things.
    let mut check = desk.txn(api("a"), f("voice"));
    (check.mode, check.fence) = (Mode::Check, 10);
    assert_eq!(desk.run_as(own, check).outcome, Outcome::Checked);
    desk.commit(api("a"), f("voice"));
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &Claim::new(api("a"), 1)), Ok(()));
    // What is committed raises it, even when nothing is left to do.
    let mut same = desk.txn(api("a"), f("voice"));
    same.fence = 3;
    desk.run(same);
    let claim = Claim::new(api("a"), 2);
    assert_eq!(desk.control.claim(desk.now, &Credentials::ADMIN, &claim), Err(Code::Fenced));
}

#[test]
fn code_stale_version() {
    let mut desk = Desk::furnished();
    desk.commit(Owner::File, vec![patch(Kind::Class, "wan/voice", json!({"weight": 2}))]);
    let fields = json!({"weight": 3});
    let at = |v| Op::Patch {
        kind: Kind::Class,
        name: n("wan/voice"),
        fields: fields.clone(),
        if_version: Some(v),
    };
    assert_eq!(one(desk.refused(Owner::File, vec![at(1)])).0, Code::StaleVersion);
    desk.commit(Owner::File, vec![at(2)]);
    let gone = Op::Delete { kind: Kind::Class, name: n("x"), if_version: Some(2), drain_ms: None };
    assert_eq!(one(desk.refused(Owner::File, vec![gone])).0, Code::StaleVersion);
}

#[test]
fn code_stale_revision() {
    let mut desk = Desk::furnished();
    let mut t = desk.txn(Owner::File, vec![delete(Kind::Filter, "x")]);
    t.if_revision = Some(0);
    assert_eq!(one(desk.refused_as(Credentials::ADMIN, t.clone())).0, Code::StaleRevision);
    let mut t = desk.txn(Owner::File, vec![put(Kind::Filter, "x", filter("voice", 1))]);
    t.if_revision = Some(1);
    assert_eq!(desk.run(t).outcome, Outcome::Committed);
}

#[test]
fn code_txn_id_reused() {
    let mut desk = Desk::furnished();
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "x", filter("voice", 1))]);
    desk.run(t.clone());
    let other = Transaction { ops: vec![delete(Kind::Filter, "x")], ..t.clone() };
    assert_eq!(one(desk.refused_as(Credentials::ADMIN, other)).0, Code::TxnIdReused);
    assert!(desk.run(t).replayed, "the misuse did not replace the answer");
}

#[test]
fn code_pending_confirm() {
    let mut desk = Desk::furnished();
    let mut t = desk.txn(Owner::File, vec![patch(Kind::Class, "wan/voice", json!({"weight": 9}))]);
    t.confirm_within_ms = Some(1_000);
    desk.run(t);
    let mut other = desk.txn(api("a"), vec![patch(Kind::Class, "wan/voice", json!({"weight": 1}))]);
    other.force = true;
    let errors = desk.refused_as(Credentials::ADMIN, other);
    assert_eq!(errors, [(Some(0), Code::PendingConfirm, "class/wan/voice".to_owned())]);
}

#[test]
fn code_no_capacity() {
    let mut desk = Desk::furnished();
    let t = desk.txn(
        Owner::File,
        vec![put(Kind::Class, "wan/video", json!({"port": "wan", "guarantee": {"rate": 9_000_000}}))],
    );
    let reply = desk.run(t);
    let e = &reply.errors[0];
    assert_eq!((e.code, e.path.as_str()), (Code::NoCapacity, "class/wan/video.guarantee"));
    assert_eq!(
        (e.value.clone(), e.limit, e.free),
        (Some(json!(9_000_000)), Some(10_000_000), Some(8_000_000))
    );
    // The agent's allocations count, and the port's rate is what they share.
    let more = put(Kind::Allocation, "a", json!({"class": "wan/voice", "guarantee": 10_000_001}));
    let errors = desk.refused(Owner::Agent, vec![more]);
    assert_eq!(one(errors), (Code::NoCapacity, "allocation/a.guarantee".to_owned()));
    let errors = desk.refused(Owner::File, vec![patch(Kind::Port, "wan", json!({"rate": 1_000_000}))]);
    assert_eq!(one(errors).0, Code::NoCapacity);
    // Children share their parent's guarantee.
    let child = |g: u64| json!({"port": "wan", "parent": "wan/voice", "guarantee": {"rate": g}, "dscp": []});
    let ops = vec![put(Kind::Class, "wan/v1", child(1_500_000)), put(Kind::Class, "wan/v2", child(600_000))];
    let errors = desk.refused(Owner::File, ops);
    assert!(errors.len() == 2 && errors.iter().all(|e| e.1 == Code::NoCapacity), "{errors:?}");
}

/// What the agent allocated does not stand in the way of whoever owns ports and classes.
#[test]
fn allocations_give_way_to_a_slower_port_and_to_guarantees_of_the_file() {
    let mut desk = Desk::furnished();
    let class = |name: &str| put(Kind::Class, name, json!({"port": "wan", "dscp": []}));
    desk.commit(Owner::File, vec![class("wan/a"), class("wan/b")]);
    let allocate = |name: &str, rate: u64| {
        let spec = json!({"class": format!("wan/{name}"), "guarantee": rate, "ceiling": rate});
        put(Kind::Allocation, name, spec)
    };
    // 2 of 10 Mbit/s are the guarantee of wan/voice.
    desk.commit(Owner::Agent, vec![allocate("a", 6_000_000), allocate("b", 2_000_000)]);
    let in_force = |desk: &Desk| {
        let draft = perhop_contract::Draft::new(desk.control.objects());
        let trees = perhop_contract::Trees::new(&draft);
        ["wan/a", "wan/b"].map(|class| {
            let name = Name::new(class).unwrap();
            let ceiling = trees.ceiling(&name, draft.class(&name).unwrap(), Rate(1));
            (trees.guarantee(&name, 0).0, ceiling.unwrap().0)
        })
    };
    assert_eq!(in_force(&desk), [(6_000_000, 6_000_000), (2_000_000, 2_000_000)]);
    // A link of 4 Mbit/s leaves 2 for both, and both keep a quarter.
    desk.commit(Owner::File, vec![patch(Kind::Port, "wan", json!({"rate": 4_000_000}))]);
    assert_eq!(in_force(&desk), [(1_500_000, 1_500_000), (500_000, 500_000)]);
    // Allocations that are raised must fit; those that are lowered need not, nor what is as it was.
    assert_eq!(
        one(desk.refused(Owner::Agent, vec![allocate("b", 2_000_001)])),
        (Code::NoCapacity, "allocation/b.guarantee".to_owned())
    );
    desk.commit(Owner::Agent, vec![allocate("a", 3_000_000), allocate("b", 2_000_000)]);
    assert_eq!(in_force(&desk), [(1_200_000, 1_200_000), (800_000, 800_000)]);
    // The port is as fast as before: what was allocated holds again, until the file wants more for itself.
    desk.commit(Owner::File, vec![patch(Kind::Port, "wan", json!({"rate": 10_000_000}))]);
    assert_eq!(in_force(&desk), [(3_000_000, 3_000_000), (2_000_000, 2_000_000)]);
    let own = |rate: u64| {
        put(Kind::Class, "wan/own", json!({"port": "wan", "guarantee": {"rate": rate}, "dscp": []}))
    };
    desk.commit(Owner::File, vec![own(7_000_000)]);
    assert_eq!(in_force(&desk), [(600_000, 600_000), (400_000, 400_000)]);
    // What the file says itself has to fit, and the message names nothing that it does not say.
    assert_eq!(
        one(desk.refused(Owner::File, vec![own(9_000_000)])),
        (Code::NoCapacity, "class/wan/own.guarantee".to_owned())
    );
}

#[test]
fn code_limit_reached() {
    let mut desk = Desk::with_limits(Limits { classes: 2, filters: 3, others: 1, ..Limits::default() });
    let ops = (0..4).map(|i| put(Kind::Filter, &format!("f{i}"), json!({}))).collect();
    let t = desk.txn(Owner::File, ops);
    let reply = desk.run(t);
    assert_eq!((reply.errors[0].code, reply.errors[0].limit), (Code::LimitReached, Some(3)));
    desk.commit(Owner::File, (0..3).map(|i| put(Kind::Filter, &format!("f{i}"), json!({}))).collect());
    assert_eq!(one(desk.refused(Owner::File, vec![put(Kind::Filter, "g", json!({}))])).0, Code::LimitReached);
}

#[test]
fn code_unsupported() {
    let mut desk = Desk::furnished();
    let fixed = ErrorItem::new(Code::Unsupported, "port/lan", "ports are fixed while the router runs");
    desk.control.planner().refuse.replace(vec![fixed.clone()]);
    let errors = desk.refused(Owner::File, vec![put(Kind::Port, "lan", json!({}))]);
    assert_eq!(one(errors), (Code::Unsupported, fixed.path));
}

#[test]
fn code_overload() {
    // More waiting requests than there is room for. (The other cause, more kept answers than an owner may have, is
    // tested where they are kept.)
    let mut desk = Desk::furnished();
    for i in 0..=perhop_contract::QUEUE_LIMIT {
        let t = desk.txn(Owner::File, vec![put(Kind::Filter, &format!("f{i}"), filter("voice", 1))]);
        desk.ask(t);
    }
    let t = desk.txn(api("a"), vec![delete(Kind::Filter, "none")]);
    let refused = desk.ask(t);
    let reply = &desk.replies[&refused];
    assert_eq!((reply.errors[0].code, reply.retry_after_ms), (Code::Overload, Some(100)));
}

#[test]
fn code_backend_failed() {
    let mut desk = Desk::furnished();
    let failed = ErrorItem {
        op: Some(0),
        path: "filter/f".to_owned(),
        code: Code::BackendFailed,
        message: "the kernel said ENOMEM".to_owned(),
        value: None,
        allowed: None,
        limit: None,
        free: None,
    };
    desk.control.planner().refuse.replace(vec![failed.clone()]);
    let errors = desk.refused(api("a"), vec![put(Kind::Filter, "f", filter("voice", 1))]);
    assert_eq!(one(errors), (Code::BackendFailed, failed.path));
}

#[test]
fn code_shutting_down() {
    let mut desk = Desk::furnished();
    let mut ask = |name: &str| {
        let t = desk.txn(Owner::File, vec![put(Kind::Filter, name, filter("voice", 1))]);
        desk.ask(t)
    };
    let (first, waiting) = (ask("a"), ask("b"));
    desk.feed(Input::Shutdown);
    assert_eq!(desk.replies[&waiting].errors[0].code, Code::ShuttingDown);
    let t = desk.txn(Owner::File, vec![put(Kind::Filter, "c", filter("voice", 1))]);
    let late = desk.ask(t);
    assert_eq!(desk.replies[&late].errors[0].code, Code::ShuttingDown);
    // What was on its way is finished and answered.
    desk.applied();
    assert_eq!(desk.replies[&first].outcome, Outcome::Committed);
}
