//! What the scenarios do not try.

use super::world::{World, header, session, token};
use perhop_broker::ledger::Request;
use serde_json::{Value, json};

const SESSIONS: &str = "/quality-on-demand/v1/sessions";

fn uri(session: &Value) -> String {
    format!("{SESSIONS}/{}", session["sessionId"].as_str().unwrap())
}

#[test]
fn a_refusal_names_link_class_asked_free_and_code_and_has_to_be_deleted() {
    let world = World::new();
    let mut body = session();
    body["qosProfile"] = json!("huge");
    let refused = world.create(&body);
    assert_eq!(
        (&refused["qosStatus"], &refused["statusInfo"]),
        (&json!("UNAVAILABLE"), &json!("NETWORK_TERMINATED"))
    );
    let refusal = &refused["refusal"];
    let expected = json!({ "code": "no_capacity", "link": "west/wan", "class": "voice", "asked_bps": 5_000_000,
        "free_bps": 1_000_000, "message": refusal["message"] });
    assert_eq!(*refusal, expected);
    assert_eq!(world.ask_as("app", "GET", &uri(&refused), None).body, refused);
    assert_eq!(world.ask_as("app", "POST", SESSIONS, Some(&session())).status, 409, "it is in the way");
    assert_eq!(world.ask_as("app", "DELETE", &uri(&refused), None).status, 204);
    assert_eq!(world.ask_as("app", "GET", &uri(&refused), None).status, 404);
    world.create(&session());
}

#[test]
fn a_session_is_a_reservation_of_both_directions_with_its_packets() {
    let world = World::new();
    let made = world.create(&session());
    let rows = world.wait(world.domain.look(|ledger| ledger.of_owner("app", 0, 10))).unwrap();
    let bps: Vec<u64> = rows.iter().map(|row| row.bps).collect();
    assert_eq!(bps, [100_000, 100_000]);
    let flow: Value = serde_json::from_str(&rows[0].flow).unwrap();
    let packets = json!([
        { "src": "10.1.0.2/32", "dst": "10.2.0.0/25", "protocol": 6, "src_ports": [5_004, 5_005], "dst_ports": [5_004, 5_004] },
        { "src": "10.1.0.2/32", "dst": "10.2.0.0/25", "protocol": 17, "src_ports": [5_004, 5_005], "dst_ports": [5_004, 5_004] },
    ]);
    assert_eq!(flow["packets"], packets);
    assert_eq!(world.ask_as("app", "DELETE", &uri(&made), None).status, 204);
    assert!(world.wait(world.domain.look(|ledger| ledger.of_owner("app", 0, 10))).unwrap().is_empty());
    assert_eq!(world.ask_as("app", "DELETE", &uri(&made), None).status, 404);
}

#[test]
fn a_sink_hears_of_every_change_and_a_session_that_is_over_can_be_looked_at() {
    let world = World::new();
    let heard = |status: &str, why: Option<&str>| {
        let data = world.event().body["data"].clone();
        assert_eq!((data["qosStatus"].as_str(), data["statusInfo"].as_str()), (Some(status), why), "{data}");
    };
    let mut body = session();
    body["sink"] = json!(world.sink());
    body["duration"] = json!(1);
    let short = world.create(&body);
    // The first is not taken at once, and comes again: so they may come in either order.
    let two = [world.event(), world.event()].map(|event| event.body["data"]["statusInfo"].clone());
    assert!(two.contains(&Value::Null) && two.contains(&json!("DURATION_EXPIRED")), "{two:?}");
    let over = world.ask_as("app", "GET", &uri(&short), None).body;
    assert_eq!(
        (&over["qosStatus"], &over["statusInfo"]),
        (&json!("UNAVAILABLE"), &json!("DURATION_EXPIRED"))
    );
    assert_eq!(over["duration"], 1);

    // It had its time, so it is in nobody's way. This one is released by an operator.
    body["duration"] = json!(600);
    let released = world.create(&body);
    heard("AVAILABLE", None);
    let id = world.wait(world.domain.look(|ledger| ledger.of_owner("app", 0, 1)[0].id)).unwrap();
    world
        .wait(world.domain.change_client(
            "test",
            perhop_broker::ledger::ClientChange::Put(perhop_serve::controller::local_client()),
        ))
        .unwrap();
    world.wait(world.domain.ask("local", Request::Release { id })).unwrap();
    heard("UNAVAILABLE", Some("NETWORK_TERMINATED"));
    let gone = world.ask_as("app", "GET", &uri(&released), None).body;
    assert_eq!(
        (&gone["statusInfo"], &gone["refusal"]["code"]),
        (&json!("NETWORK_TERMINATED"), &json!("forbidden"))
    );
    assert_eq!(world.ask_as("app", "DELETE", &uri(&released), None).status, 204);
    world.no_event();
}

#[test]
fn sinks_inside_the_network_are_refused() {
    let world = World::new();
    for sink in ["https://10.0.0.1/x", "http://127.0.0.1/x", "https://[::1]/x", "nowhere"] {
        let mut body = session();
        body["sink"] = json!(sink);
        let answer = world.ask_as("app", "POST", SESSIONS, Some(&body));
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("INVALID_SINK")), "{sink}");
    }
}

#[test]
fn every_answer_has_the_same_shape_and_the_correlator() {
    let world = World::new();
    let bearer = format!("Bearer {}", token("app"));
    let long = "x".repeat(70_000);
    for (method, uri, body, status, code) in [
        ("GET", "/quality-on-demand/v1/nothing", None, 404, "NOT_FOUND"),
        ("GET", "/qos-profiles/v2/qos-profiles/voice", None, 404, "NOT_FOUND"),
        ("PUT", SESSIONS, None, 405, "METHOD_NOT_ALLOWED"),
        ("POST", SESSIONS, Some("{"), 400, "INVALID_ARGUMENT"),
        ("POST", SESSIONS, Some(long.as_str()), 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let headers = [("authorization", bearer.as_str()), ("x-correlator", "c-1")];
        let answer = world.ask(method, uri, &headers, body);
        let shown = (answer.status, answer.body["status"].as_u64(), answer.body["code"].as_str());
        assert_eq!(shown, (status, Some(status.into()), Some(code)), "{method} {uri}: {}", answer.body);
        assert_eq!(header(&answer.headers, "x-correlator"), Some("c-1"), "{method} {uri}");
    }
}

#[test]
fn both_versions_are_the_same_and_a_number_of_another_kind_is_not_found() {
    let world = World::new();
    let made = world.create(&session());
    let id = made["sessionId"].as_str().unwrap();
    for version in perhop_serve::controller::camara::VERSIONS {
        let uri = format!("/quality-on-demand/{version}/sessions/{id}");
        assert_eq!(world.ask_as("app", "GET", &uri, None).body, made);
    }
    let mut digits: Vec<char> = id.chars().collect();
    let last = digits.len() - 1;
    digits[last] = if digits[last] == '0' { '1' } else { '0' };
    let guessed: String = digits.into_iter().collect();
    let answer = world.ask_as("app", "GET", &format!("{SESSIONS}/{guessed}"), None);
    assert_eq!(answer.status, 404, "a nonce that is not its own");
}
