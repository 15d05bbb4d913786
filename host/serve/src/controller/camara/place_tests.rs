//! Placing sessions.

use super::*;
use crate::controller::camara::settings::Sinks;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn settings() -> CamaraSettings {
    let network = |prefix: &str, node: Option<&str>, device_prefix| Network {
        prefix: prefix.parse().expect("a prefix"),
        node: node.map(str::to_owned),
        device_prefix,
    };
    let networks = vec![
        network("10.1.0.0/24", Some("west"), None),
        network("2001:db8:1::/48", Some("west"), Some(64)),
        network("10.2.0.0/24", Some("east"), None),
        network("2001:db8:2::/48", Some("east"), None),
        network("10.3.0.0/24", None, None),
    ];
    CamaraSettings::new(networks, BTreeMap::new(), BTreeMap::new(), Sinks::default())
}

fn body(device: Value, server: Value, more: Value) -> CreateSession {
    let mut body =
        json!({ "device": device, "applicationServer": server, "qosProfile": "voice", "duration": 60 });
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    serde_json::from_value(body).expect("a body")
}

fn v4(public: &str) -> Value {
    json!({ "ipv4Address": { "publicAddress": public, "publicPort": 5_000 } })
}

fn placed(device: Value, server: Value, more: Value) -> Result<Placed, String> {
    place(&settings(), "app", &body(device, server, more)).map_err(|why| format!("{why:?}"))
}

fn profile(upstream_bps: Option<u64>, downstream_bps: Option<u64>) -> QosProfile {
    QosProfile {
        description: None,
        status: crate::controller::camara::ProfileStatus::Active,
        class: "voice".into(),
        upstream_bps,
        downstream_bps,
        min_duration_s: 1,
        max_duration_s: 60,
        priority: None,
        devices: Vec::new(),
    }
}

#[test]
fn a_session_is_from_the_devices_node_to_the_servers() {
    let of = || placed(v4("10.1.0.2"), json!({ "ipv4Address": "10.2.0.0/25" }), json!({})).expect("placed");
    let between = |from: &str, to: &str| Way::Between { from: from.into(), to: to.into() };
    let (way, bps, back, packets) = of().reserve(&profile(Some(5), Some(7)));
    assert_eq!((way, bps, back), (between("west", "east"), 5, Some(7)));
    let expected = json!([{ "src": "10.1.0.2/32", "dst": "10.2.0.0/25" }]);
    assert_eq!(json!(packets), expected);
    let (way, bps, back, packets) = of().reserve(&profile(None, Some(7)));
    assert_eq!((way, bps, back), (between("east", "west"), 7, None));
    assert_eq!(json!(packets), json!([{ "src": "10.2.0.0/25", "dst": "10.1.0.2/32" }]));
}

#[test]
fn the_address_that_the_domain_has_counts() {
    let server = json!({ "ipAddresses": ["10.2.0.9", "2001:db8:2::9"] });
    let both = json!({ "ipv4Address": { "publicAddress": "203.0.113.1", "privateAddress": "10.1.0.7" },
        "ipv6Address": "2001:db8:1:5::77" });
    let found = placed(both.clone(), server, json!({})).expect("placed").device;
    assert_eq!(found.address.to_string(), "10.1.0.7", "private, as the domain has it");
    assert_eq!(json!(found.shown), json!({ "ipv4Address": both["ipv4Address"] }), "one identifier");
    let found = placed(both, json!({ "ipv6Address": "2001:db8:2::/64" }), json!({})).expect("placed");
    assert_eq!(found.device.address.to_string(), "2001:db8:1:5::", "of the server's family");
    assert_eq!(json!(found.packets[0].src), json!("2001:db8:1:5::/64"), "a device has its prefix for itself");
}

#[test]
fn ports_become_alternatives_and_not_too_many() {
    let server = json!({ "ipAddresses": ["10.2.0.9", "10.2.0.10"] });
    let ports =
        json!({ "devicePorts": { "ports": [5_000, 5_001, 9] }, "applicationServerPorts": { "ports": [80] } });
    let placed_here = placed(v4("10.1.0.2"), server.clone(), ports).expect("placed");
    assert_eq!(placed_here.packets.len(), 2 * 2 * 2, "servers, ranges of the device, protocols");
    assert_eq!(
        json!(placed_here.packets[0]),
        json!({ "src": "10.1.0.2/32", "dst": "10.2.0.9/32", "protocol": 6, "src_ports": [9, 9], "dst_ports": [80, 80] })
    );
    let many: Vec<u16> = (1..=17).map(|n| n * 2).collect();
    let why =
        placed(v4("10.1.0.2"), server, json!({ "devicePorts": { "ports": many } })).expect_err("too many");
    assert!(why.contains("68 alternatives") && why.contains("at most 64"), "{why}");
}

#[test]
fn what_cannot_be_placed_is_said() {
    let server = json!({ "ipv4Address": "10.2.0.9" });
    for (device, server, code) in [
        (v4("10.9.0.1"), server.clone(), "IDENTIFIER_NOT_FOUND"),
        (v4("10.3.0.1"), server.clone(), "SERVICE_NOT_APPLICABLE"),
        (json!({ "phoneNumber": "+123456789" }), server.clone(), "UNSUPPORTED_IDENTIFIER"),
        (Value::Null, server.clone(), "MISSING_IDENTIFIER"),
        (v4("10.2.0.1"), server, "both behind east"),
        (v4("10.1.0.1"), json!({ "ipv4Address": "10.9.0.0/16" }), "is in no network"),
        (v4("10.1.0.1"), json!({ "ipv6Address": "2001:db8:2::9" }), "device's family"),
        (v4("10.1.0.1"), json!({ "ipAddresses": ["10.2.0.9", "10.1.0.9"] }), "several nodes"),
    ] {
        let why = placed(device.clone(), server.clone(), json!({})).expect_err("not placed");
        assert!(why.contains(code), "{device} {server}: {why}");
    }
}
