//! The contract of a running router, as a stranger's client meets it over the Unix socket.

use super::http::Http;
use super::router::{UNCONFIRMED_MS, World};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn transaction(id: u32, owner: &str, ops: Value) -> Value {
    json!({ "txn_id": format!("{id:032x}"), "owner": owner, "fence": 0, "mode": "commit", "ops": ops })
}

fn put(name: &str, spec: Value) -> Value {
    json!({ "op": "put", "kind": "class", "name": name, "spec": spec })
}

fn key(object: &Value) -> (String, String) {
    (object["kind"].as_str().unwrap().to_owned(), object["name"].as_str().unwrap().to_owned())
}

fn commit(http: &mut Http, transaction: &Value) -> Value {
    let (status, reply) = http.submit(transaction);
    assert_eq!((status, reply["outcome"].as_str()), (200, Some("committed")), "{reply}");
    reply
}

/// Reads all pages of a query.
fn objects(http: &mut Http, query: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = http.read(&format!("/v1/state?{query}{cursor}"));
        all.extend(page["objects"].as_array().unwrap().iter().cloned());
        let Some(next) = page["cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn pages_are_of_one_revision_while_transactions_go_on() {
    let Some(world) = World::new("pages") else { return };
    let _running = world.start();
    let (mut http, mut other) = (world.http(), world.http());
    let many: Vec<Value> = (0..20).map(|i| put(&format!("c{i:02}"), json!({ "port": "wan" }))).collect();
    commit(&mut http, &transaction(1, "api:pages", many.into()));
    let expected: Vec<_> = objects(&mut http, "limit=10000").iter().map(key).collect();
    let mut seen = Vec::new();
    let first = http.read("/v1/state?limit=4");
    let mut page = first.clone();
    for id in 2.. {
        assert_eq!((&page["revision"], &page["epoch"]), (&first["revision"], &first["epoch"]));
        assert_eq!(page["digests"], first["digests"]);
        let of_page = page["objects"].as_array().unwrap();
        assert!(of_page.len() <= 4);
        seen.extend(of_page.iter().map(key));
        let Some(cursor) = page["cursor"].as_str().map(str::to_owned) else { break };
        // Before, between and behind what was read: comes, goes, changes.
        let ops = json!([
            put(&format!("a{id}"), json!({ "port": "wan" })),
            put(&format!("z{id}"), json!({ "port": "wan" })),
            { "op": "delete", "kind": "class", "name": format!("c{:02}", 21 - id), "drain_ms": 0 },
        ]);
        commit(&mut other, &transaction(id, "api:pages", ops));
        page = http.read(&format!("/v1/state?limit=4&cursor={cursor}"));
    }
    assert_eq!(seen, expected);
    let sorted: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(sorted.len(), seen.len());

    // A pinned revision is not kept for ever; the client is told to begin again.
    let cursor = first["cursor"].as_str().unwrap();
    for id in 100..120 {
        commit(
            &mut other,
            &transaction(id, "api:pages", json!([put("b", json!({ "port": "wan", "weight": id }))])),
        );
        other.read("/v1/state?limit=1");
    }
    let (status, body) = http.ask("GET", &format!("/v1/state?limit=4&cursor={cursor}"), "");
    assert_eq!((status, body["errors"][0]["code"].as_str()), (409, Some("stale_revision")), "{body}");
    let (status, body) = http.ask("GET", "/v1/state?cursor=nonsense", "");
    assert_eq!((status, body["errors"][0]["code"].as_str()), (422, Some("malformed")), "{body}");
}

#[test]
fn what_was_read_is_unchanged_when_it_is_put() {
    let Some(world) = World::new("unchanged") else { return };
    let _running = world.start();
    let mut http = world.http();
    // Of every kind one that leaves as much as it can to defaults.
    let of = |kind: &str, spec: Value| json!({ "op": "put", "kind": kind, "name": "x", "spec": spec });
    let made = json!([
        of("class", json!({ "port": "wan", "guarantee": { "rate": 100_000 } })),
        of("profile", json!({ "meter": { "type": "token_bucket", "cir": 1_000_000, "cbs": 3_000 } })),
        of("sla", json!({ "prefixes": ["10.7.0.0/16"], "rate": 64_000 })),
        of("filter", json!({ "class": "ef", "profile": "x", "match": {} })),
        of("route", json!({ "dest": "10.8.0.0/16", "port": "wan" })),
    ]);
    commit(&mut http, &transaction(1, "cli", made));
    let before = http.read("/v1/state");
    for owner in before["digests"].as_object().unwrap().keys() {
        let own = objects(&mut http, &format!("owner={owner}"));
        assert_eq!(before["digests"][owner]["objects"].as_u64(), Some(own.len() as u64));
        assert_eq!(before["digests"][owner]["sha256"].as_str().map(str::len), Some(64));
        let puts: Vec<Value> = own
            .iter()
            .map(|o| json!({ "op": "put", "kind": o["kind"], "name": o["name"], "spec": o["spec"] }))
            .collect();
        let id = 10 + owner.len() as u32;
        let reply = commit(&mut http, &transaction(id, owner, puts.into()));
        let outcomes = reply["ops"].as_array().unwrap();
        assert!(outcomes.iter().all(|o| o["outcome"] == "unchanged"), "{owner}: {reply}");
        let set: Vec<Value> =
            own.iter().map(|o| json!({ "kind": o["kind"], "name": o["name"], "spec": o["spec"] })).collect();
        let kinds: BTreeSet<&str> = own.iter().map(|o| o["kind"].as_str().unwrap()).collect();
        let replace = json!([{ "op": "replace_owned", "kinds": kinds, "objects": set }]);
        let reply = commit(&mut http, &transaction(100 + id, owner, replace));
        assert_eq!(reply["revision"], before["revision"], "{owner}");
    }
    let after = http.read("/v1/state");
    assert_eq!(before, after);
}

#[test]
fn a_digest_is_of_what_an_owner_has_and_of_nothing_else() {
    let Some(world) = World::new("digest") else { return };
    let _running = world.start();
    let mut http = world.http();
    let digests = |http: &mut Http| http.read("/v1/state?limit=1")["digests"].clone();
    commit(&mut http, &transaction(1, "cli", json!([put("a", json!({ "port": "wan", "weight": 2 }))])));
    let first = digests(&mut http);
    commit(&mut http, &transaction(2, "cli", json!([put("a", json!({ "port": "wan", "weight": 3 }))])));
    let second = digests(&mut http);
    assert_ne!(first["cli"], second["cli"]);
    assert_eq!(first["file"], second["file"]);
    // The same again under another id and version.
    commit(&mut http, &transaction(3, "cli", json!([{ "op": "delete", "kind": "class", "name": "a" }])));
    assert_eq!(digests(&mut http)["cli"], Value::Null);
    commit(&mut http, &transaction(4, "cli", json!([put("a", json!({ "port": "wan", "weight": 2 }))])));
    assert_eq!(digests(&mut http), first);
}

#[test]
fn events_go_on_where_a_reader_stopped() {
    let Some(world) = World::new("events") else { return };
    let _running = world.start();
    let mut http = world.http();
    for id in 1..=3 {
        commit(
            &mut http,
            &transaction(id, "cli", json!([put("a", json!({ "port": "wan", "weight": 1 + id }))])),
        );
    }
    let mut all = world.http().events("/v1/events", "");
    let mut committed = Vec::new();
    let mut seq = 0;
    while committed.len() < 3 {
        let event = all.next();
        seq += 1;
        assert_eq!(event["seq"].as_u64(), Some(seq), "one by one from 1: {event}");
        if event["type"] == "committed" && event["owner"] == "cli" {
            committed.push(event);
        }
    }
    // What comes while it reads.
    commit(&mut http, &transaction(4, "cli", json!([put("a", json!({ "port": "wan", "weight": 9 }))])));
    let live = loop {
        let event = all.next();
        if event["type"] == "committed" {
            break event;
        }
    };
    assert_eq!(live["txn_id"], format!("{:032x}", 4));
    let after = committed[1]["seq"].as_u64().unwrap();
    for (uri, more) in [
        (format!("/v1/events?after={after}"), String::new()),
        ("/v1/events".to_owned(), format!("last-event-id: {after}\r\n")),
    ] {
        let next = world.http().events(&uri, &more).next();
        assert_eq!(next["seq"].as_u64(), Some(after + 1));
    }
    // A number of another start of the router: this one is told from its beginning.
    let first = world.http().events(&format!("/v1/events?after={}", u64::MAX), "").next();
    assert_eq!(first["seq"], 1);
    // Only what a reader wants, from what was and from what comes.
    let mut mine = world.http().events("/v1/events?type=committed,expired&owner=api:mine", "");
    commit(&mut http, &transaction(5, "cli", json!([put("a", json!({ "port": "wan", "weight": 8 }))])));
    commit(&mut http, &transaction(6, "api:mine", json!([put("m", json!({ "port": "wan" }))])));
    let first = mine.next();
    assert_eq!((first["owner"].as_str(), first["type"].as_str()), (Some("api:mine"), Some("committed")));
    let mut soft = put("m", json!({ "port": "wan" }));
    soft["ttl_ms"] = 1.into();
    commit(&mut http, &transaction(7, "cli", json!([put("a", json!({ "port": "wan", "weight": 7 }))])));
    commit(&mut http, &transaction(8, "api:mine", json!([soft])));
    assert_eq!(mine.next()["txn_id"], format!("{:032x}", 8));
    let expired = mine.next();
    assert_eq!((&expired["type"], &expired["owners"]), (&json!("expired"), &json!(["api:mine"])));
    let (status, body) = http.ask("GET", "/v1/events?type=committed,comitted", "");
    assert_eq!((status, body["errors"][0]["code"].as_str()), (422, Some("out_of_range")), "{body}");
}

/// The ring holds 8,192 events.
#[test]
fn a_reader_whom_the_ring_overran_gets_a_gap() {
    let Some(world) = World::new("gap") else { return };
    let _running = world.start();
    let mut http = world.http();
    let mut slow = world.http().events("/v1/events", "");
    assert_eq!(slow.next()["seq"], 1);
    for id in 1..=8_400 {
        let ops = json!([put("a", json!({ "port": "wan", "weight": 1 + id % 2 }))]);
        commit(&mut http, &transaction(id, "cli", ops));
    }
    let mut late = world.http().events("/v1/events?after=1", "");
    let gap = late.next();
    assert_eq!((gap["type"].as_str(), gap["from"].as_u64()), (Some("gap"), Some(2)), "{gap}");
    let to = gap["to"].as_u64().unwrap();
    assert!(to > 2);
    assert_eq!(late.next()["seq"].as_u64(), Some(to + 1), "and goes on behind it");
}

#[test]
fn counters_are_found_by_kind_name_and_id_and_never_fall() {
    let Some(world) = World::new("counters") else { return };
    let _running = world.start();
    let mut http = world.http();
    let rows = |http: &mut Http, query: &str| {
        http.read(&format!("/v1/counters{query}"))["rows"].as_array().unwrap().clone()
    };
    let mut before = rows(&mut http, "");
    for _ in 0..5 {
        world.traffic();
        let now = rows(&mut http, "");
        // Elements, pool and driver are the machine's and no objects; they hold gauges as well.
        for row in
            before.iter().filter(|r| !["element", "pool", "driver"].contains(&r["kind"].as_str().unwrap()))
        {
            let same =
                |r: &&Value| r["kind"] == row["kind"] && r["name"] == row["name"] && r["id"] == row["id"];
            let Some(later) = now.iter().find(same) else { panic!("{row} is gone") };
            for (name, value) in row["counters"].as_object().unwrap() {
                let (was, is) = (value.as_u64().unwrap(), later["counters"][name].as_u64().unwrap());
                assert!(is >= was, "{} {} {name}: {was}, then {is}", row["kind"], row["name"]);
            }
        }
        before = now;
    }
    let lan = rows(&mut http, "?kind=port&name=lan");
    assert_eq!((lan.len(), lan[0]["name"].as_str()), (1, Some("lan")));
    assert!(lan[0]["counters"]["rx_packets"].as_u64() >= Some(100), "{lan:?}");
    assert_eq!(lan[0]["counters"]["rate_bps"], Value::Null, "a rate is no counter");
    let classes = rows(&mut http, "?kind=class");
    assert!(classes.len() >= 2 && classes.iter().all(|r| r["kind"] == "class"));
    let rest = classes.iter().find(|r| r["name"] == "rest").unwrap();
    assert_eq!(rows(&mut http, &format!("?id={}&kind=class", rest["id"])), std::slice::from_ref(rest));
    // An id is never used again: what is made anew counts anew.
    commit(&mut http, &transaction(1, "cli", json!([put("a", json!({ "port": "wan" }))])));
    let old = rows(&mut http, "?kind=class&name=a")[0]["id"].as_u64().unwrap();
    let gone = json!([{ "op": "delete", "kind": "class", "name": "a", "drain_ms": 0 }]);
    commit(&mut http, &transaction(2, "cli", gone));
    commit(&mut http, &transaction(3, "cli", json!([put("a", json!({ "port": "wan" }))])));
    let new = rows(&mut http, "?kind=class&name=a");
    assert!(new.iter().any(|r| r["id"].as_u64().unwrap() > old), "{new:?}");
    assert_eq!(rows(&mut http, "?kind=class&name=none"), [Value::Null; 0]);
}

/// What a running router can be made to say; the other codes' statuses are tested with a router that is told to.
#[test]
fn every_rejection_has_its_code_and_status() {
    let Some(world) = World::new("codes") else { return };
    let _running = world.start();
    let mut http = world.http();
    let id = std::cell::Cell::new(1_000);
    let by = |owner: &str, ops: Value| {
        id.set(id.get() + 1);
        transaction(id.get(), owner, ops)
    };
    let with = |field: &str, value: Value, ops: Value| {
        let mut t = by("cli", ops);
        t[field] = value;
        t
    };
    let a = || json!([put("a", json!({ "port": "wan" }))]);
    let made = commit(
        &mut http,
        &transaction(
            1,
            "cli",
            json!([put("a", json!({ "port": "wan" })), put("b", json!({ "port": "wan", "parent": "a" })),]),
        ),
    );
    let version = made["ops"][0]["version"].as_u64().unwrap();
    let (status, _) = http.ask("POST", "/v1/claim", r#"{"owner":"agent","fence":5}"#);
    assert_eq!(status, 200);
    for (status, code, t) in [
        (422, "malformed", by("cli", json!([]))),
        (422, "unknown_field", by("cli", json!([put("c", json!({ "port": "wan", "wieght": 1 }))]))),
        (422, "unknown_kind", by("cli", json!([{ "op": "put", "kind": "clas", "name": "c", "spec": {} }]))),
        (422, "out_of_range", with("confirm_within_ms", 0.into(), a())),
        (422, "bad_reference", by("cli", json!([put("c", json!({ "port": "wam" }))]))),
        (422, "not_found", by("cli", json!([{ "op": "patch", "kind": "class", "name": "c", "fields": {} }]))),
        (
            409,
            "exists",
            by(
                "cli",
                json!([{ "op": "put", "kind": "class", "name": "a", "spec": { "port": "wan" }, "if_version": 0 }]),
            ),
        ),
        (409, "in_use", by("cli", json!([{ "op": "delete", "kind": "class", "name": "a" }]))),
        (403, "not_owner", by("api:x", json!([{ "op": "delete", "kind": "class", "name": "b" }]))),
        (409, "fenced", by("agent", a())),
        (
            409,
            "stale_version",
            by("cli", json!([{ "op": "delete", "kind": "class", "name": "b", "if_version": version + 7 }])),
        ),
        (409, "stale_revision", with("if_revision", 999_999.into(), a())),
        (409, "txn_id_reused", transaction(1, "cli", a())),
        (
            422,
            "no_capacity",
            by(
                "cli",
                json!([put("c", json!({ "port": "wan", "guarantee": { "rate": 9_000_000_000_u64 } }))]),
            ),
        ),
        (
            422,
            "unsupported",
            by(
                "file",
                json!([{ "op": "patch", "kind": "port", "name": "lan", "fields": { "device": "wan7" } }]),
            ),
        ),
    ] {
        let revision = http.read("/v1/state?limit=1")["revision"].clone();
        let (got, reply) = http.submit(&t);
        let codes: Vec<&str> =
            reply["errors"].as_array().unwrap().iter().map(|e| e["code"].as_str().unwrap()).collect();
        assert!(got == status && codes.contains(&code), "{code} {status}: {got} {reply}");
        assert_eq!(http.read("/v1/state?limit=1")["revision"], revision, "{code} changes nothing");
    }
    // Commits that wait for their confirmation.
    let trial =
        with("confirm_within_ms", UNCONFIRMED_MS.into(), json!([put("t0", json!({ "port": "wan" }))]));
    commit(&mut http, &trial);
    let (status, reply) = http.submit(&by("cli", json!([put("t0", json!({ "port": "wan", "weight": 3 }))])));
    assert_eq!((status, reply["errors"][0]["code"].as_str()), (409, Some("pending_confirm")), "{reply}");
    for i in 1..4 {
        let ops = json!([put(&format!("t{i}"), json!({ "port": "wan" }))]);
        commit(&mut http, &with("confirm_within_ms", UNCONFIRMED_MS.into(), ops));
    }
    let fifth =
        with("confirm_within_ms", UNCONFIRMED_MS.into(), json!([put("t5", json!({ "port": "wan" }))]));
    let (status, reply) = http.submit(&fifth);
    assert_eq!((status, reply["errors"][0]["code"].as_str()), (422, Some("limit_reached")), "{reply}");
    let confirm = by("cli", json!([{ "op": "confirm", "txn_id": trial["txn_id"] }]));
    commit(&mut http, &confirm);
    commit(&mut http, &fifth_again(&fifth));
    world.as_reader_it_is_forbidden();
}

/// A refused transaction is answered alike when it is repeated, so a second try needs an id of its own.
fn fifth_again(refused: &Value) -> Value {
    let mut again = refused.clone();
    again["txn_id"] = format!("{:032x}", 77).into();
    again
}

#[test]
fn a_repeated_transaction_is_answered_again() {
    let Some(world) = World::new("replay") else { return };
    let _running = world.start();
    let mut http = world.http();
    let t = transaction(1, "cli", json!([put("a", json!({ "port": "wan" }))]));
    let first = commit(&mut http, &t);
    let mut second = commit(&mut world.http(), &t);
    assert_eq!(second["replayed"], true);
    second["replayed"] = false.into();
    assert_eq!(first, second);
}

#[test]
fn the_limits_of_a_running_router_are_those_of_the_manual() {
    let Some(world) = World::new("limits") else { return };
    let _running = world.start_with(&["--limit", "api.connections=7"]);
    let manual = std::fs::read_to_string(super::root().join("docs/api.md")).unwrap();
    let page = world.http().read("/v1/limits");
    let rows = page["rows"].as_array().unwrap();
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(manual.contains(&format!("| `{name}` |")), "docs/api.md does not tell {name}");
    }
    let told = manual.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name));
    for name in told.filter(|name| name.contains('.') || name.starts_with("kept_") || *name == "owners") {
        assert!(rows.iter().any(|r| r["name"] == name), "{name} is told but not served");
    }
    let connections = rows.iter().find(|r| r["name"] == "api.connections").unwrap();
    assert_eq!(connections["limit"], 7);
    let wrong = super::perhop(&["router", "run", "none.toml", "--limit", "api.connections=0"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("2 to 10000"), "{}", wrong.err);
}
