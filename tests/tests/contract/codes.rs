//! Every code, provoked from outside; each rejection leaves the state byte-equal (see [`Desk::refused`]).

use super::{Desk, delete, patch, put, to_port};
use perhop_contract::{Limits, QUEUE_LIMIT};
use perhop_model::{Claim, Credentials, Role, Speaks, Transaction};
use perhop_reason::Code;
use perhop_units::Instant;
use serde_json::{Value, json};

fn only(owner: &str) -> Credentials {
    Credentials::writer(owner.parse().expect("an owner"))
}

/// Path of the first error.
fn path(reply: &Value) -> &str {
    reply["errors"][0]["path"].as_str().expect("a text")
}

#[test]
fn code_malformed() {
    let mut desk = Desk::new();
    let reply = desk.refused(Code::Malformed, "cli", json!([put("class", "wan/x", json!({ "port": 7 }))]));
    assert_eq!(path(&reply), "class/wan/x.port");
    desk.refused(Code::Malformed, "cli", json!([]));
    let twice = json!([put("filter", "f", to_port(1, "voice")), delete("filter", "f")]);
    assert_eq!(desk.refused(Code::Malformed, "cli", twice)["errors"][0]["op"], 1);
    let graph = json!([{ "op": "replace_graph", "text": "flows :: Flows(;" }]);
    desk.refused(Code::Malformed, "cli", graph);
    // What is not even a transaction does not reach the router.
    for text in ["", "{}", "[1]", "{\"txn_id\": \"1\"}"] {
        assert!(serde_json::from_str::<Transaction>(text).is_err(), "{text}");
    }
}

#[test]
fn code_unknown_field() {
    let mut desk = Desk::new();
    let ops = json!([put("class", "wan/x", json!({ "port": "wan", "wieght": 3 }))]);
    let reply = desk.refused(Code::UnknownField, "cli", ops);
    assert!(path(&reply).starts_with("class/wan/x"), "{reply}");
    desk.refused(Code::UnknownField, "file", json!([patch("port", "wan", json!({ "mtu": 1500 }))]));
    // In the envelope too: a misspelt condition must not be passed over.
    let mut request = desk.request("cli", json!([delete("filter", "x")]));
    request["if_revison"] = json!(1);
    let error = serde_json::from_value::<Transaction>(request).expect_err("misspelt").to_string();
    assert!(error.starts_with("unknown field"), "{error}");
}

#[test]
fn code_unknown_kind() {
    let mut desk = Desk::new();
    let request = desk.request("cli", json!([put("tunnel", "t", json!({}))]));
    let error = serde_json::from_value::<Transaction>(request).expect_err("no such kind").to_string();
    // What the server tells this refusal by.
    assert!(error.contains("unknown variant `tunnel`") && error.contains("abr_policy"), "{error}");
}

#[test]
fn code_out_of_range() {
    let mut desk = Desk::new();
    let ops = json!([put("class", "wan/x", json!({ "port": "wan", "weight": 0, "tier": 16 }))]);
    let reply = desk.refused(Code::OutOfRange, "cli", ops);
    let weight =
        reply["errors"].as_array().expect("a list").iter().find(|e| e["path"] == "class/wan/x.weight");
    let weight = weight.expect("an error at the weight");
    assert_eq!((&weight["value"], &weight["allowed"]), (&json!(0), &json!("1 to 1000000")));
    let mut op = put("filter", "f", to_port(1, "voice"));
    op["ttl_ms"] = json!(0);
    desk.refused(Code::OutOfRange, "cli", json!([op]));
    let mut op = delete("class", "wan/voice");
    op["drain_ms"] = json!(60_001);
    desk.refused(Code::OutOfRange, "file", json!([op]));
    let mut request = desk.request("cli", json!([delete("filter", "f")]));
    request["confirm_within_ms"] = json!(0);
    desk.refused_as(only("cli"), Code::OutOfRange, &request);
}

#[test]
fn code_bad_reference() {
    let mut desk = Desk::new();
    let reply = desk.refused(Code::BadReference, "cli", json!([put("filter", "f", to_port(1, "nothing"))]));
    assert_eq!(path(&reply), "filter/f.class");
    desk.refused(Code::BadReference, "cli", json!([put("class", "x", json!({ "port": "dsl" }))]));
    // Private to its owner unless it says otherwise.
    desk.commit("api:a", json!([put("profile", "mine", json!({}))]));
    desk.refused(Code::BadReference, "api:b", json!([put("filter", "f", json!({ "profile": "mine" }))]));
    desk.commit("api:a", json!([patch("profile", "mine", json!({ "shared": true }))]));
    desk.commit("api:b", json!([put("filter", "f", json!({ "profile": "mine", "class": "voice" }))]));
}

#[test]
fn code_not_found() {
    let mut desk = Desk::new();
    desk.refused(Code::NotFound, "cli", json!([patch("class", "wan/x", json!({ "weight": 2 }))]));
    let renew = json!({ "op": "renew", "keys": [{ "kind": "class", "name": "wan/x" }], "ttl_ms": 9 });
    desk.refused(Code::NotFound, "cli", json!([renew]));
    desk.refused(Code::NotFound, "cli", json!([{ "op": "confirm", "txn_id": "0".repeat(32) }]));
}

#[test]
fn code_exists() {
    let mut desk = Desk::new();
    let mut op = put("class", "wan/voice", json!({ "port": "wan" }));
    op["if_version"] = json!(0);
    desk.refused(Code::Exists, "file", json!([op]));
    // The logical name of a port's class is its own.
    let again = json!([put("class", "wan/second", json!({ "port": "wan", "logical": "voice" }))]);
    desk.refused(Code::Exists, "cli", again);
}

#[test]
fn code_in_use() {
    let mut desk = Desk::new();
    desk.commit("cli", json!([put("filter", "calls", to_port(1, "voice"))]));
    let reply = desk.refused(Code::InUse, "file", json!([delete("class", "wan/voice")]));
    assert_eq!(path(&reply), "class/wan/voice");
    // Both at once is no harm, but another owner's filter must go first.
    desk.commit("cli", json!([delete("filter", "calls")]));
    desk.commit("file", json!([delete("class", "wan/voice")]));
}

#[test]
fn code_not_owner() {
    let mut desk = Desk::new();
    let ops = json!([patch("class", "wan/voice", json!({ "weight": 3 })), delete("class", "wan/rest")]);
    assert_eq!(
        desk.refused(Code::NotOwner, "api:a", ops.clone())["errors"].as_array().map(Vec::len),
        Some(2)
    );
    // An admin may, by force; it is written down.
    let mut request = desk.request("api:a", json!([patch("class", "wan/voice", json!({ "weight": 3 }))]));
    request["force"] = json!(true);
    let reply = desk.ask_as(Credentials::ADMIN, &request);
    assert_eq!(reply["outcome"], "committed");
    assert_eq!(desk.last_event()["forced"], true);
    assert_eq!(desk.object("class", "wan/voice").expect("there")["owner"], "file");
}

#[test]
fn code_forbidden() {
    let mut desk = Desk::new();
    let request = desk.request("api:a", json!([put("filter", "f", to_port(1, "voice"))]));
    let reader = Credentials { role: Role::Read, speaks: Speaks::ForAll };
    desk.refused_as(reader, Code::Forbidden, &request);
    desk.refused_as(only("api:b"), Code::Forbidden, &request);
    let mut forced = desk.request("api:a", json!([delete("class", "wan/rest")]));
    forced["force"] = json!(true);
    desk.refused_as(only("api:a"), Code::Forbidden, &forced);
    // Having been refused to a stranger says nothing to the owner.
    assert_eq!(desk.ask(&request)["outcome"], "committed");
}

#[test]
fn code_fenced() {
    let mut desk = Desk::new();
    let claim = Claim::new("agent".parse().expect("an owner"), 7);
    desk.router.control().claim(Instant::ZERO, &only("agent"), &claim).expect("the first instance");
    let mut old = desk.request("agent", json!([put("filter", "f", to_port(1, "voice"))]));
    old["fence"] = json!(6);
    desk.refused_as(only("agent"), Code::Fenced, &old);
    assert_eq!(
        desk.router.control().claim(Instant::ZERO, &only("agent"), &Claim { fence: 6, ..claim }),
        Err(Code::Fenced)
    );
    let mut new = desk.request("agent", json!([put("filter", "f", to_port(1, "voice"))]));
    new["fence"] = json!(7);
    assert_eq!(desk.ask(&new)["outcome"], "committed");
}

#[test]
fn code_stale_version() {
    let mut desk = Desk::new();
    let version = desk.object("class", "wan/voice").expect("there")["version"].clone();
    let mut op = patch("class", "wan/voice", json!({ "weight": 3 }));
    op["if_version"] = version;
    desk.commit("file", json!([op]));
    op["fields"]["weight"] = json!(4);
    desk.refused(Code::StaleVersion, "file", json!([op]));
    let mut gone = delete("filter", "none");
    gone["if_version"] = json!(3);
    desk.refused(Code::StaleVersion, "file", json!([gone]));
}

#[test]
fn code_stale_revision() {
    let mut desk = Desk::new();
    let revision = desk.page(json!({}))["revision"].clone();
    let ask = |desk: &mut Desk, name: &str| {
        let mut request = desk.request("cli", json!([put("filter", name, to_port(1, "voice"))]));
        request["if_revision"] = revision.clone();
        request
    };
    let first = ask(&mut desk, "f");
    assert_eq!(desk.ask(&first)["outcome"], "committed");
    let second = ask(&mut desk, "g");
    desk.refused_as(only("cli"), Code::StaleRevision, &second);
}

#[test]
fn code_txn_id_reused() {
    let mut desk = Desk::new();
    let request = desk.request("cli", json!([put("filter", "f", to_port(1, "voice"))]));
    desk.ask(&request);
    let mut other = request.clone();
    other["note"] = json!("another");
    desk.refused_as(only("cli"), Code::TxnIdReused, &other);
    assert_eq!(desk.ask(&request)["replayed"], true, "the first answer stands");
}

#[test]
fn code_pending_confirm() {
    let mut desk = Desk::new();
    let mut request = desk.request("file", json!([patch("class", "wan/voice", json!({ "weight": 9 }))]));
    request["confirm_within_ms"] = json!(1000);
    assert_eq!(desk.ask(&request)["outcome"], "committed");
    let mut other = desk.request("cli", json!([patch("class", "wan/voice", json!({ "weight": 2 }))]));
    other["force"] = json!(true);
    desk.refused_as(Credentials::ADMIN, Code::PendingConfirm, &other);
    desk.pass_ms(1000);
    assert_eq!(desk.last_event()["type"], "reverted");
    other["txn_id"] = json!("f".repeat(32));
    assert_eq!(desk.ask_as(Credentials::ADMIN, &other)["outcome"], "committed");
}

#[test]
fn code_no_capacity() {
    let mut desk = Desk::new();
    let class =
        |rate: u64| json!([put("class", "wan/x", json!({ "port": "wan", "guarantee": { "rate": rate } }))]);
    let reply = desk.refused(Code::NoCapacity, "cli", class(8_000_001));
    let error = &reply["errors"][0];
    assert_eq!((&error["limit"], &error["free"]), (&json!(10_000_000), &json!(8_000_000)), "{reply}");
    desk.commit("cli", class(8_000_000));
    // Nor may the port shrink below what it has promised.
    desk.refused(Code::NoCapacity, "file", json!([patch("port", "wan", json!({ "rate": 9_000_000 }))]));
}

#[test]
fn code_limit_reached() {
    let mut desk = Desk::new();
    let most = Limits::default().others;
    let contract = |i| json!({ "kind": "sla", "name": format!("s{i}"), "spec": { "rate": 1_000_000 } });
    let objects: Vec<Value> = (0..=most).map(contract).collect();
    let ops = json!([{ "op": "replace_owned", "kinds": ["sla"], "objects": objects }]);
    let reply = desk.refused(Code::LimitReached, "cli", ops);
    assert_eq!(reply["errors"][0]["limit"], json!(most));
    // No more than four commits wait for their confirmation.
    for i in 0..5 {
        let mut request = desk.request("cli", json!([put("filter", &format!("f{i}"), to_port(i, "voice"))]));
        request["confirm_within_ms"] = json!(1000);
        if i < 4 {
            assert_eq!(desk.ask(&request)["outcome"], "committed");
        } else {
            desk.refused_as(only("cli"), Code::LimitReached, &request);
        }
    }
}

#[test]
fn code_unsupported() {
    let mut desk = Desk::new();
    // The ports of a running router are what they are.
    desk.refused(Code::Unsupported, "file", json!([patch("port", "wan", json!({ "overhead": 4 }))]));
    desk.refused(Code::Unsupported, "cli", json!([put("port", "dsl", json!({ "rate": 1_000_000 }))]));
}

#[test]
fn code_overload() {
    let mut desk = Desk::new();
    // Nobody applies what is asked for, as when a worker is stuck.
    let mut asked = Vec::new();
    for i in 0..QUEUE_LIMIT + 2 {
        let request = desk.request("cli", json!([put("filter", "f", to_port(i as u16, "voice"))]));
        let t: Transaction = serde_json::from_value(request).expect("a transaction");
        asked.push(desk.router.request(only("cli"), t));
    }
    desk.router.settle();
    let replies: Vec<_> =
        asked.iter().map(|r| desk.router.reply(*r).expect("everything is answered")).collect();
    let (last, others) = replies.split_last().expect("many");
    let last = serde_json::to_value(&**last).expect("plain data");
    assert_eq!((&last["errors"][0]["code"], &last["retry_after_ms"]), (&json!("overload"), &json!(100)));
    assert!(others.iter().all(|r| r.errors.is_empty()));
}

/// This backend reserves everything first and cannot fail; one that can says so through the planner.
#[test]
fn code_backend_failed() {
    use perhop_contract::{Control, Draft, Draining, GraphRequest, Input, Output, Planner};
    use perhop_model::{ErrorItem, Outcome};
    struct Kernel;
    impl Planner for Kernel {
        type Change = ();
        fn check(&self, _: &Draft<'_>, _: Option<&GraphRequest>) -> Vec<ErrorItem> {
            let item = json!({ "op": 0, "path": "filter/f", "code": "backend_failed", "message": "ENOMEM of the kernel" });
            vec![serde_json::from_value(item).expect("an error")]
        }
        fn plan(
            &mut self,
            _: perhop_units::Instant,
            _: &Draft<'_>,
            _: &[Draining],
            _: Option<&GraphRequest>,
        ) {
            panic!("what was refused is not planned");
        }
    }
    let mut control = Control::new(1, Kernel, Limits::default());
    let request = Desk::new().request("cli", json!([put("filter", "f", json!({}))]));
    let transaction = Box::new(serde_json::from_value(request).expect("a transaction"));
    let now = perhop_units::Instant::ZERO;
    control.handle_input(now, Input::Request { request: 1, who: only("cli"), transaction });
    let Some(Output::Reply { reply, .. }) = control.poll_output() else { panic!("an answer") };
    assert_eq!((reply.outcome, reply.errors[0].code), (Outcome::Rejected, Code::BackendFailed));
    assert!(control.objects().is_empty() && control.revision() == 0);
}

#[test]
fn code_shutting_down() {
    let mut desk = Desk::new();
    let early = desk.request("cli", json!([put("filter", "f", to_port(1, "voice"))]));
    let waiting = desk.request("cli", json!([put("filter", "g", to_port(2, "voice"))]));
    let ask = |desk: &mut Desk, request: &Value| {
        let t = serde_json::from_value(request.clone()).expect("a transaction");
        desk.router.request(only("cli"), t)
    };
    let (early, waiting) = (ask(&mut desk, &early), ask(&mut desk, &waiting));
    desk.stop();
    desk.router.settle();
    assert_eq!(desk.router.reply(waiting).expect("answered").errors[0].code, Code::ShuttingDown);
    // What was on its way is finished first.
    assert!(desk.router.reply(early).expect("answered").errors.is_empty());
    desk.refused(Code::ShuttingDown, "cli", json!([delete("filter", "f")]));
    // Forwarding goes on.
    desk.send(1, 100);
    desk.pass_ms(10);
    assert_eq!(desk.left().len(), 1);
}
