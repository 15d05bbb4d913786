//! Rules 1 to 9, each shown by what packets and readers see.

use super::{Desk, delete, patch, put, to_port};
use crate::support::{LAN, router_of};
use perhop_model::{Credentials, Transaction};
use perhop_packet::Batch;
use perhop_reason::Code;
use perhop_units::Dscp;
use serde_json::{Value, json};

/// The outcome of the first operation.
fn outcome(reply: &Value) -> &str {
    reply["ops"][0]["outcome"].as_str().unwrap_or("none")
}

#[test]
fn rule_1_the_final_state_counts_whatever_the_order() {
    let ops = [
        put("filter", "f", to_port(7, "video")),
        put(
            "class",
            "wan/video",
            json!({ "port": "wan", "parent": "wan/media", "guarantee": { "ppm": 500_000 } }),
        ),
        put("class", "wan/media", json!({ "port": "wan", "guarantee": { "rate": 4_000_000 } })),
        delete("class", "wan/bulk"),
    ];
    let mut specs = Vec::new();
    for turn in 0..ops.len() {
        let mut ops = ops.to_vec();
        ops.rotate_left(turn);
        let mut desk = Desk::new();
        desk.commit("file", Value::Array(ops));
        let page = desk.page(json!({}));
        let objects = page["objects"].as_array().expect("a list").iter();
        specs.push(objects.map(|o| (o["name"].clone(), o["spec"].clone())).collect::<Vec<_>>());
        desk.send(7, 100);
        desk.pass_ms(5);
        assert_eq!((desk.left().len(), desk.class_packets("wan/video")), (1, 1));
    }
    assert!(specs.windows(2).all(|w| w[0] == w[1]));
}

#[test]
fn rule_1_a_key_at_most_once_and_all_errors_at_once() {
    let mut desk = Desk::new();
    let twice = json!([put("filter", "f", to_port(1, "voice")), put("filter", "f", to_port(1, "voice"))]);
    assert_eq!(desk.refused(Code::Malformed, "cli", twice)["errors"][0]["op"], 1);
    let state = desk.state();
    let request = desk.request(
        "cli",
        json!([
            put("class", "wan/a", json!({ "port": "wan", "wieght": 3 })),
            put("class", "wan/b", json!({ "port": "wan", "weight": 0 })),
            put("filter", "c", to_port(1, "nothing")),
            patch("sla", "none", json!({})),
            delete("class", "wan/rest"),
        ]),
    );
    let reply = desk.ask(&request);
    let errors = reply["errors"].as_array().expect("a list");
    let mut found: Vec<_> = errors.iter().map(|e| (e["op"].as_u64(), e["code"].as_str())).collect();
    found.sort_unstable();
    let expected = [
        (Some(0), Some("unknown_field")),
        (Some(1), Some("out_of_range")),
        (Some(2), Some("bad_reference")),
        (Some(3), Some("not_found")),
        (Some(4), Some("not_owner")),
    ];
    assert_eq!(found, expected);
    assert_eq!(state, desk.state());
}

/// Sends one packet to port 7 and names the class that took it.
fn class_of(desk: &mut Desk) -> &'static str {
    let classes = ["wan/voice", "wan/bulk", "wan/rest"];
    let before = classes.map(|c| desk.class_packets(c));
    desk.send(7, 100);
    desk.pass_ms(5);
    assert_eq!(desk.left().len(), 1);
    let at = (0..3).find(|i| desk.class_packets(classes[*i]) > before[*i]);
    classes[at.expect("one of them")]
}

#[test]
fn rule_2_filters_match_by_tier_then_priority_then_name() {
    let mut desk = Desk::new();
    let filter = |name: &str, tier: u8, priority: u32, class: &str| {
        let mut spec = to_port(7, class);
        (spec["tier"], spec["priority"]) = (json!(tier), json!(priority));
        put("filter", name, spec)
    };
    assert_eq!(class_of(&mut desk), "wan/rest");
    desk.commit("cli", json!([filter("m", 1, 5, "bulk")]));
    assert_eq!(class_of(&mut desk), "wan/bulk");
    // A name that comes before decides only between equals.
    desk.commit("cli", json!([filter("z", 1, 4, "voice"), filter("a", 1, 6, "rest")]));
    assert_eq!(class_of(&mut desk), "wan/voice");
    desk.commit("cli", json!([filter("z", 1, 5, "voice"), filter("a", 2, 0, "rest")]));
    assert_eq!(class_of(&mut desk), "wan/bulk");
    desk.commit("cli", json!([filter("b", 1, 5, "voice")]));
    assert_eq!(class_of(&mut desk), "wan/voice");
    // The tier comes first, also of another owner's filter.
    desk.commit("api:a", json!([filter("y", 0, u32::MAX, "rest")]));
    assert_eq!(class_of(&mut desk), "wan/rest");
    desk.commit("api:a", json!([delete("filter", "y")]));
    assert_eq!(class_of(&mut desk), "wan/voice");
}

#[test]
fn rule_2_the_order_of_a_files_list_becomes_priorities() {
    let list = |first: &str, second: &str| {
        let filter = |class: &str| {
            format!(
                "[[filter]]\nname = \"{}\"\nclass = \"{class}\"\nmatch = {{ protocol = \"udp\", dst_ports = 7 }}\n",
                class
            )
        };
        format!("{}{}{}", super::FILE, filter(first), filter(second))
    };
    for (first, second) in [("voice", "bulk"), ("bulk", "voice")] {
        let mut desk = Desk { router: router_of(&list(first, second)), next: 100 };
        assert_eq!(class_of(&mut desk), format!("wan/{first}"));
    }
}

/// More filters at once than a settled flow's verdict is tested against one by one.
#[test]
fn rule_2_a_change_of_many_filters_reaches_settled_flows() {
    let mut desk = Desk::new();
    desk.commit("cli", json!([put("filter", "settled", to_port(7, "bulk"))]));
    for turn in 0..2 {
        assert_eq!(class_of(&mut desk), "wan/bulk");
        let mut many: Vec<Value> =
            (0..40).map(|i| put("filter", &format!("a{turn}-{i}"), to_port(100 + i, "rest"))).collect();
        many.insert(20, put("filter", "before", to_port(7, "voice")));
        desk.commit("cli", Value::Array(many));
        assert_eq!(class_of(&mut desk), "wan/voice");
        let gone = (0..40).map(|i| delete("filter", &format!("a{turn}-{i}")));
        desk.commit("cli", gone.chain([delete("filter", "before")]).collect());
    }
}

/// Nothing waits for a timer of the old generation.
#[test]
fn rule_3_what_a_change_lets_go_leaves_at_once() {
    let mut desk = Desk::new();
    let slow = json!({ "ceiling": { "rate": 8_000 } });
    desk.commit("file", json!([patch("class", "wan/rest", slow)]));
    (0..30).for_each(|_| desk.send(8, 1000));
    desk.pass_ms(5);
    assert!(desk.left().len() < 10, "the ceiling holds");
    desk.commit("file", json!([patch("class", "wan/rest", json!({ "ceiling": null }))]));
    desk.pass_ms(30);
    assert_eq!(desk.backlog()["wan/rest"], 0);
    // The same of a port that becomes faster.
    desk.left();
    desk.commit("file", json!([patch("class", "wan/voice", json!({ "guarantee": { "rate": 0 } }))]));
    desk.commit("file", json!([patch("port", "wan", json!({ "rate": 16_000 }))]));
    (0..10).for_each(|_| desk.send(8, 1000));
    desk.pass_ms(5);
    desk.commit("file", json!([patch("port", "wan", json!({ "rate": 10_000_000 }))]));
    desk.pass_ms(2_000);
    assert_eq!(desk.left().len(), 10);
}

#[test]
fn rule_3_all_or_nothing() {
    let mut desk = Desk::new();
    let ops = json!([
        put("filter", "good", to_port(7, "voice")),
        patch("class", "wan/voice", json!({ "guarantee": { "rate": 11_000_000 } })),
    ]);
    desk.refused(Code::NoCapacity, "file", ops);
    assert_eq!(class_of(&mut desk), "wan/rest");
    assert!(desk.object("filter", "good").is_none());
}

/// A change of many slices: packets between them see all of the old or all of the new, and the answer comes last.
#[test]
fn rule_3_no_batch_sees_two_generations_and_the_reply_comes_last() {
    let mut desk = Desk::new();
    let mut ops = vec![put("filter", "f", to_port(7, "x0"))];
    ops.extend((0..500).map(|i| put("class", &format!("wan/x{i}"), json!({ "port": "wan" }))));
    let request = desk.request("cli", Value::Array(ops));
    let t: Transaction = serde_json::from_value(request).expect("a transaction");
    let number = desk.router.request(Credentials::ADMIN, t);
    let generations = |desk: &mut Desk| {
        let mut batch = Batch::new();
        for _ in 0..64 {
            let frame = perhop_wire::build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
                .macs(crate::support::mac(0x12), crate::support::mac(1))
                .ports(5_000, 7)
                .payload_len(100)
                .build();
            batch.push(desk.router.pool().packet(&frame).expect("a buffer"));
        }
        let now = desk.router.now();
        desk.router.worker().receive(now, LAN, &mut batch);
        let backlog = desk.backlog();
        let taken =
            |desk: &mut Desk, class: &str| desk.class_packets(class) + backlog.get(class).unwrap_or(&0);
        (taken(desk, "wan/rest"), taken(desk, "wan/x0"))
    };
    let (mut slices, mut seen) = (0, vec![(0, 0)]);
    while desk.router.step() {
        slices += 1;
        assert_eq!(desk.router.reply(number).map(|r| r.revision), None, "answered before the worker has it");
        seen.push(generations(&mut desk));
    }
    assert!(slices > 4, "{slices} slices");
    let reply = desk.router.reply(number).expect("answered");
    assert_eq!(serde_json::to_value(reply.outcome).expect("plain data"), "committed");
    let kinds: Vec<bool> = seen
        .windows(2)
        .map(|w| match (w[1].0 - w[0].0, w[1].1 - w[0].1) {
            (64, 0) => false,
            (0, 64) => true,
            mixed => panic!("a batch was split: {mixed:?}"),
        })
        .collect();
    assert!(kinds.is_sorted() && !kinds[0] && kinds[kinds.len() - 1], "{kinds:?}");
}

/// A profile for packets to port 7: green code point AF11, red CS1.
fn metered(desk: &mut Desk, cir: u64, cbs: u64) {
    let profile = json!({
        "meter": { "type": "token_bucket", "cir": cir, "cbs": cbs },
        "green": { "do": "mark", "dscp": 10 }, "red": { "do": "mark", "dscp": 8 },
    });
    let mut filter = to_port(7, "bulk");
    filter["profile"] = json!("p");
    desk.commit("cli", json!([put("profile", "p", profile), put("filter", "f", filter)]));
}

#[test]
fn rule_4_untouched_objects_keep_queues_tokens_and_counters() {
    let mut desk = Desk::new();
    metered(&mut desk, 8_000, 3_000);
    for _ in 0..40 {
        desk.send(7, 1000);
        desk.send(8, 1000);
    }
    let (backlog, sent) = (desk.backlog(), desk.class_packets("wan/bulk"));
    assert!(backlog["wan/bulk"] > 10 && backlog["wan/rest"] > 10);
    let counters = |desk: &mut Desk| {
        let (control, worker) = desk.router.halves();
        let (_, mut profiles) = control.planner().conditioned();
        let (_, id) = profiles.next().expect("one");
        worker.conditioner().and_then(|c| c.profile_counters(id)).expect("counted").colors.packets
    };
    let colors = counters(&mut desk);
    assert_eq!(colors[0] + colors[2], 40);
    // Everything around them changes.
    desk.commit(
        "api:a",
        json!([
            put("profile", "q", json!({ "meter": { "type": "token_bucket", "cir": 9_000, "cbs": 2_000 } })),
            put("sla", "s", json!({ "rate": 1_000_000, "prefixes": ["192.0.2.0/24"] })),
            put("filter", "g", to_port(9, "voice")),
            put("class", "wan/new", json!({ "port": "wan" })),
        ]),
    );
    desk.commit("file", json!([patch("class", "wan/voice", json!({ "weight": 5 }))]));
    assert_eq!(
        (desk.backlog()["wan/bulk"], desk.backlog()["wan/rest"]),
        (backlog["wan/bulk"], backlog["wan/rest"])
    );
    assert_eq!((desk.class_packets("wan/bulk"), counters(&mut desk)), (sent, colors));
    // The bucket was empty and is: what comes now is red.
    desk.router.sent.clear();
    desk.send(7, 1000);
    assert_eq!(counters(&mut desk)[2], colors[2] + 1);
}

#[test]
fn rule_4_replaced_objects_keep_what_their_new_spec_still_allows() {
    let mut desk = Desk::new();
    metered(&mut desk, 8_000, 3_000);
    for _ in 0..20 {
        desk.send(7, 1000);
    }
    let (backlog, id) =
        (desk.backlog()["wan/bulk"], desk.object("class", "wan/bulk").expect("there")["id"].clone());
    // A smaller queue loses nothing that it holds; a larger burst brings no tokens with it.
    let small = json!({ "weight": 9, "tier": 3, "queue": { "limit": { "time": null, "packets": 5 } } });
    desk.commit("file", json!([patch("class", "wan/bulk", small)]));
    assert_eq!(desk.object("class", "wan/bulk").expect("there")["id"], id);
    assert_eq!(desk.backlog()["wan/bulk"], backlog);
    metered(&mut desk, 8_000, 9_000);
    desk.commit(
        "file",
        json!([patch("class", "wan/bulk", json!({ "queue": { "limit": { "packets": 100 } } }))]),
    );
    desk.send(7, 1000);
    desk.pass_ms(2_000);
    let left = desk.left();
    assert_eq!(left.len(), 21, "nothing was lost");
    assert_eq!(left[20].1, Dscp::CS1, "the bucket that was empty stays so");
    // It fills at its rate, to its new brim.
    desk.pass_ms(60_000);
    for _ in 0..10 {
        desk.send(7, 1000);
    }
    desk.pass_ms(100);
    assert_eq!(desk.left().iter().filter(|(_, dscp)| *dscp == Dscp::AF11).count(), 8);
}

#[test]
fn rule_5_a_deleted_class_takes_nothing_and_drains() {
    let mut desk = Desk::new();
    desk.commit("cli", json!([put("filter", "f", to_port(7, "bulk"))]));
    for _ in 0..50 {
        desk.send(7, 1000);
    }
    let id = desk.object("class", "wan/bulk").expect("there")["id"].clone();
    desk.commit("cli", json!([patch("filter", "f", json!({ "class": "voice" }))]));
    desk.commit("file", json!([delete("class", "wan/bulk")]));
    let shown = desk.object("class", "wan/bulk").expect("still shown");
    assert_eq!((&shown["status"], &shown["id"]), (&json!("draining"), &id));
    desk.send(7, 1000);
    desk.pass_ms(500);
    assert_eq!(desk.left().len(), 51, "none of its packets is lost, and the flow goes on elsewhere");
    assert!(desk.object("class", "wan/bulk").is_none());
    let event = desk.last_event();
    assert_eq!((&event["type"], &event["dropped"]), (&json!("drained"), &json!(0)));
    assert_eq!(event["key"], json!({ "kind": "class", "name": "wan/bulk" }));
    assert_eq!(desk.dropped("queue_wan"), 0);
}

#[test]
fn rule_5_what_has_not_left_in_time_is_dropped_and_counted() {
    let mut desk = Desk::new();
    desk.commit("cli", json!([put("filter", "f", to_port(7, "bulk"))]));
    for (drain_ms, most) in [(Some(20), 24), (None, 1216)] {
        let sent = most + 30;
        for _ in 0..sent {
            desk.send(7, 1000);
        }
        let before = desk.dropped("queue_wan");
        let mut gone = delete("class", "wan/bulk");
        if let Some(ms) = drain_ms {
            gone["drain_ms"] = json!(ms);
        }
        desk.commit("cli", json!([delete("filter", "f")]));
        desk.commit("file", json!([gone]));
        desk.pass_ms(3_000);
        // 1,042 bytes at 10 Mbit/s: 0.83 ms each.
        let (left, dropped) = (desk.left().len(), desk.dropped("queue_wan") - before);
        assert_eq!((left as u64 + dropped, left.abs_diff(most) < 20), (sent as u64, true), "{left}");
        let event = desk.last_event();
        assert_eq!((&event["type"], &event["dropped"]), (&json!("drained"), &json!(dropped)));
        desk.commit(
            "file",
            json!([put(
                "class",
                "wan/bulk",
                json!({ "port": "wan", "queue": { "limit": { "packets": 9000 } } })
            )]),
        );
        desk.commit("cli", json!([put("filter", "f", to_port(7, "bulk"))]));
    }
}

#[test]
fn rule_5_a_moved_flow_is_counted() {
    let mut desk = Desk::new();
    desk.commit("cli", json!([put("filter", "f", to_port(7, "bulk"))]));
    let moved = |desk: &mut Desk| desk.router.worker().flows().expect("in the graph").flow_counters().moved;
    for port in [7, 8] {
        desk.send(port, 1000);
    }
    assert_eq!(moved(&mut desk), 0);
    desk.commit("cli", json!([patch("filter", "f", json!({ "class": "voice" }))]));
    for port in [7, 8, 7, 8] {
        desk.send(port, 1000);
    }
    assert_eq!(moved(&mut desk), 1, "the flow that moved, once");
}

#[test]
fn rule_6_same_bytes_same_reply() {
    let mut desk = Desk::new();
    let request = desk.request("cli", json!([put("filter", "f", to_port(7, "voice"))]));
    let bad = desk.request("cli", json!([put("filter", "g", to_port(7, "later"))]));
    let (mut first, mut refused) = (desk.ask(&request), desk.ask(&bad));
    desk.commit("cli", json!([delete("filter", "f"), put("class", "later", json!({ "port": "wan" }))]));
    for i in 0..200 {
        desk.commit("cli", json!([put("filter", "h", to_port(i, "voice"))]));
    }
    desk.pass_ms(600_000);
    let state = desk.state();
    (first["replayed"], refused["replayed"]) = (json!(true), json!(true));
    assert_eq!(desk.ask(&request), first, "answered again, not done again");
    assert_eq!(desk.ask(&bad), refused, "though it would be good now");
    assert_eq!(desk.state(), state);
    assert!(desk.object("filter", "f").is_none());
    // The id belongs to its owner.
    let mut other = desk.request("agent", json!([put("filter", "f", to_port(7, "voice"))]));
    other["txn_id"] = request["txn_id"].clone();
    assert_eq!(desk.ask(&other)["replayed"], false);
}

/// Octets that leave by `wan` in a second under load.
fn carried(desk: &mut Desk) -> usize {
    desk.router.sent.clear();
    for _ in 0..3_000 {
        desk.send(8, 1000);
    }
    desk.pass_ms(1_000);
    let octets = desk.router.sent.iter().map(|s| s.frame().len()).sum();
    desk.pass_ms(10_000);
    octets
}

#[test]
fn rule_7_unconfirmed_is_reverted_on_the_wire_too() {
    let mut desk = Desk::new();
    let state = desk.object("port", "wan").expect("there")["spec"].clone();
    assert_eq!(carried(&mut desk) * 8 / 100_000, 100);
    let mut request = desk.request("file", json!([patch("port", "wan", json!({ "rate": 20_000_000 }))]));
    request["confirm_within_ms"] = json!(60_000);
    desk.ask(&request);
    assert_eq!(carried(&mut desk) * 8 / 100_000, 200);
    let other = desk.request("file", json!([patch("port", "wan", json!({ "rate": 5_000_000 }))]));
    desk.refused_as(Credentials::ADMIN, Code::PendingConfirm, &other);
    desk.pass_ms(60_000);
    let event = desk.last_event();
    assert_eq!((&event["type"], &event["txn_id"]), (&json!("reverted"), &request["txn_id"]));
    assert_eq!(desk.object("port", "wan").expect("there")["spec"], state);
    assert_eq!(carried(&mut desk) * 8 / 100_000, 100);
}

#[test]
fn rule_7_what_is_confirmed_stays() {
    let mut desk = Desk::new();
    let mut request = desk.request("file", json!([patch("port", "wan", json!({ "rate": 20_000_000 }))]));
    request["confirm_within_ms"] = json!(1_000);
    desk.ask(&request);
    desk.pass_ms(999);
    let confirm = json!([{ "op": "confirm", "txn_id": request["txn_id"] }]);
    desk.refused(Code::NotFound, "api:a", confirm.clone());
    desk.commit("file", confirm);
    desk.pass_ms(10_000);
    assert_eq!(carried(&mut desk) * 8 / 100_000, 200);
    assert!(desk.events().iter().all(|e| e["type"] != "reverted"));
}

#[test]
fn rule_8_soft_state_ends_and_hard_state_stays() {
    let mut desk = Desk::new();
    let mut soft = put("filter", "soft", to_port(7, "voice"));
    soft["ttl_ms"] = json!(1_000);
    desk.commit("api:a", json!([soft, put("filter", "hard", to_port(9, "voice"))]));
    assert!(desk.object("filter", "soft").expect("there")["expires_at_ns"].is_u64());
    desk.pass_ms(900);
    assert_eq!(class_of(&mut desk), "wan/voice");
    desk.commit("api:a", json!([{ "op": "renew", "ttl_ms": 1_000 }]));
    desk.pass_ms(900);
    assert_eq!(class_of(&mut desk), "wan/voice");
    desk.pass_ms(200);
    assert_eq!(class_of(&mut desk), "wan/rest");
    let event = desk.last_event();
    assert_eq!(
        (&event["type"], &event["keys"]),
        (&json!("expired"), &json!([{ "kind": "filter", "name": "soft" }]))
    );
    desk.pass_ms(10_000_000);
    assert!(desk.object("filter", "hard").is_some());
}

#[test]
fn rule_8_after_a_restart_owners_resynchronise_by_replace_owned() {
    let mut desk = Desk::new();
    desk.commit(
        "agent",
        json!([
            put("class", "wan/video", json!({ "port": "wan", "guarantee": { "rate": 3_000_000 } })),
            put("filter", "f", to_port(7, "video")),
        ]),
    );
    let page = desk.page(json!({ "owner": "agent" }));
    let objects: Vec<Value> = page["objects"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|o| json!({ "kind": o["kind"], "name": o["name"], "spec": o["spec"] }))
        .collect();
    let again = json!([{ "op": "replace_owned", "kinds": ["class", "filter"], "objects": objects }]);
    assert_eq!(outcome(&desk.commit("agent", again.clone())), "unchanged");
    let (old, before) = (page["digests"]["agent"].clone(), desk.page(json!({}))["digests"]["file"].clone());
    // The file is all that a new router knows.
    let mut desk = Desk::new();
    assert_eq!(desk.page(json!({}))["digests"]["file"], before);
    assert_eq!(desk.page(json!({ "owner": "agent" }))["objects"], json!([]));
    desk.commit("agent", again);
    assert_eq!(desk.page(json!({}))["digests"]["agent"], old);
    assert_eq!(desk.page(json!({}))["digests"]["file"], before, "nobody else's objects are touched");
    desk.send(7, 100);
    desk.pass_ms(5);
    assert_eq!((desk.left().len(), desk.class_packets("wan/video")), (1, 1));
    let none = json!([{ "op": "replace_owned", "kinds": ["class", "filter"], "objects": [] }]);
    desk.commit("agent", none);
    assert_eq!(desk.page(json!({}))["digests"]["agent"], Value::Null);
    assert_eq!(class_of(&mut desk), "wan/rest");
}

#[test]
fn rule_9_the_queue_of_requests_is_bounded() {
    let mut desk = Desk::new();
    let mut ask = |i: u64| {
        let request = json!({ "txn_id": format!("{:032x}", 1_000_000 + i), "owner": "cli", "fence": 0,
            "mode": "commit", "ops": [put("filter", "f", to_port(i as u16, "voice"))] });
        let t: Transaction = serde_json::from_value(request.clone()).expect("a transaction");
        (desk.router.request(Credentials::ADMIN, t), request)
    };
    let asked: Vec<_> = (0..2_000).map(&mut ask).collect();
    desk.router.settle();
    let mut refused = Vec::new();
    for (number, request) in asked {
        let reply = desk.router.reply(number).expect("everybody is answered");
        if !reply.errors.is_empty() {
            assert_eq!((reply.errors[0].code, reply.retry_after_ms.is_some()), (Code::Overload, true));
            refused.push(request);
        }
    }
    assert!((900..1_100).contains(&refused.len()), "{}", refused.len());
    // Refused for want of room is not answered: the same may be asked again.
    assert_eq!(desk.ask(&refused[0])["outcome"], "committed");
}
