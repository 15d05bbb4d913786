//! The router's contract from outside: JSON in, JSON out, packets through a whole router. One test a rule at least,
//! one test a code, named after it.

mod abr;
mod codes;
mod rules;

use crate::support::{LAN, WAN, mac, router_of};
use perhop_contract::Input;
use perhop_graph::router::VirtualRouter;
use perhop_model::{Credentials, StateQuery, Transaction};
use perhop_reason::Code;
use perhop_units::{Dscp, Duration};
use perhop_wire::{build, dissect};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// 10 Mbit/s towards `wan`, three classes, customers' contract and profile, detection.
const FILE: &str = r#"
[[port]]
name = "lan"
[[port]]
name = "wan"
rate = "10 Mbit/s"
headroom = "0 %"
overhead = 0
[[class]]
name = "wan/voice"
port = "wan"
guarantee = "2 Mbit/s"
tier = 0
queue = "1 s"
[[class]]
name = "wan/bulk"
port = "wan"
queue = "10 s"
[[class]]
name = "wan/rest"
port = "wan"
default = true
queue = "10 s"
"#;

/// A router and a client of it.
pub struct Desk {
    pub router: VirtualRouter,
    next: u64,
}

impl Desk {
    pub fn new() -> Self {
        Self { router: router_of(FILE), next: 100 }
    }

    /// A transaction of `owner` with an id of its own.
    pub fn request(&mut self, owner: &str, ops: Value) -> Value {
        self.next += 1;
        json!({ "txn_id": format!("{:032x}", self.next), "owner": owner, "fence": 0, "mode": "commit", "ops": ops })
    }

    pub fn ask_as(&mut self, who: Credentials, request: &Value) -> Value {
        let text = request.to_string();
        let t: Transaction = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
        let reply = self.router.submit(who, t).expect("a virtual router answers");
        serde_json::to_value(&*reply).expect("plain data")
    }

    /// As a client that speaks for its owner only and may not force.
    pub fn ask(&mut self, request: &Value) -> Value {
        let owner = request["owner"].as_str().expect("a text").parse().expect("an owner");
        self.ask_as(Credentials::writer(owner), request)
    }

    pub fn commit(&mut self, owner: &str, ops: Value) -> Value {
        let request = self.request(owner, ops);
        let reply = self.ask(&request);
        assert_eq!(reply["outcome"], "committed", "{reply}");
        reply
    }

    /// What must be rejected with this code alone, leave the state byte for byte, and not come into events.
    pub fn refused_as(&mut self, who: Credentials, code: Code, request: &Value) -> Value {
        let (state, events) = (self.state(), self.events());
        let reply = self.ask_as(who, request);
        assert_eq!(reply["outcome"], "rejected", "{reply}");
        let errors = reply["errors"].as_array().expect("a list");
        assert!(!errors.is_empty() && errors.iter().all(|e| e["code"] == code.name()), "{code}: {reply}");
        assert!(errors.iter().all(|e| e["message"].as_str().is_some_and(|m| m.len() > 8)), "{reply}");
        assert_eq!((self.state(), self.events()), (state, events), "a refused transaction left a trace");
        reply
    }

    pub fn refused(&mut self, code: Code, owner: &str, ops: Value) -> Value {
        let request = self.request(owner, ops);
        let who = Credentials::writer(owner.parse().expect("an owner"));
        self.refused_as(who, code, &request)
    }

    /// `GET /v1/state`, as bytes.
    pub fn state(&mut self) -> Vec<u8> {
        crate::support::state_bytes(&mut self.router)
    }

    pub fn page(&mut self, query: Value) -> Value {
        let query: StateQuery = serde_json::from_value(query).expect("a query");
        serde_json::to_value(self.router.control().state(&query).expect("a first page")).expect("plain data")
    }

    pub fn object(&mut self, kind: &str, name: &str) -> Option<Value> {
        let page = self.page(json!({ "kind": kind, "prefix": name, "limit": 10_000 }));
        page["objects"].as_array().expect("a list").iter().find(|o| o["name"] == name).cloned()
    }

    /// `GET /v1/events?after=0`.
    pub fn events(&mut self) -> Vec<Value> {
        let events = self.router.control().events().after(0, usize::MAX);
        events.iter().map(|e| serde_json::to_value(e).expect("plain data")).collect()
    }

    pub fn last_event(&mut self) -> Value {
        self.events().pop().expect("there was one")
    }

    /// A UDP packet of `len` payload bytes comes in by `lan` for a port behind `wan`.
    pub fn send(&mut self, port: u16, len: usize) {
        let frame = build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
            .macs(mac(0x12), mac(1))
            .ports(5_000, port)
            .payload_len(len)
            .build();
        assert!(self.router.receive(LAN, &frame));
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.router.run_for(Duration::from_millis(ms));
    }

    /// Destination ports and code points of what has left by `wan` since the last call.
    pub fn left(&mut self) -> Vec<(u16, Dscp)> {
        let sent = std::mem::take(&mut self.router.sent);
        sent.iter()
            .filter(|s| s.port == WAN)
            .map(|s| {
                let layout = dissect(s.frame()).expect("well formed");
                (layout.dst_port, Dscp::from_octet(layout.tos))
            })
            .collect()
    }

    /// Packets waiting, by class.
    pub fn backlog(&mut self) -> BTreeMap<String, u64> {
        let egress = self.router.worker().egress(WAN).expect("a port");
        egress.tree().iter().map(|c| (c.name.to_owned(), c.backlog_packets)).collect()
    }

    /// Packets that a class has sent so far.
    pub fn class_packets(&mut self, class: &str) -> u64 {
        let egress = self.router.worker().egress(WAN).expect("a port");
        egress.tree().iter().filter(|c| c.name == class && !c.draining).map(|c| c.counters.packets).sum()
    }

    /// Packets that the element with this name dropped.
    pub fn dropped(&mut self, element: &str) -> u64 {
        let driver = self.router.worker().driver();
        driver.counters(driver.find(element).expect("in the edge graph")).map_or(0, |c| c.dropped)
    }

    pub fn stop(&mut self) {
        let now = self.router.now();
        self.router.control().handle_input(now, Input::Shutdown);
    }
}

pub fn put(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "op": "put", "kind": kind, "name": name, "spec": spec })
}

pub fn patch(kind: &str, name: &str, fields: Value) -> Value {
    json!({ "op": "patch", "kind": kind, "name": name, "fields": fields })
}

pub fn delete(kind: &str, name: &str) -> Value {
    json!({ "op": "delete", "kind": kind, "name": name })
}

/// A filter for UDP to one port.
pub fn to_port(port: u16, class: &str) -> Value {
    json!({ "class": class, "match": { "protocol": 17, "dst_ports": { "first": port, "last": port } } })
}

/// Every rule and every code has a test of its name here.
#[test]
fn every_rule_and_every_code_has_a_test() {
    let (rules, codes) = (include_str!("rules.rs"), include_str!("codes.rs"));
    for code in Code::ALL.iter().filter(|code| code.is_of_routers()) {
        assert!(codes.contains(&format!("#[test]\nfn code_{}() {{", code.name())), "{code}");
    }
    for rule in 1..=9 {
        assert!(rules.contains(&format!("#[test]\nfn rule_{rule}_")), "rule {rule}");
    }
}
