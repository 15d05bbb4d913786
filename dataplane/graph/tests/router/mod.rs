//! The contract's promises as the real planner and worker keep them.

mod classes;
mod state;

use crate::support::put;
use perhop_graph::router::{EdgeOptions, EdgePort, RouterPlanner, VirtualRouter, Worker, registry};
use perhop_model::{Credentials, Kind, Op, Outcome, Owner, Reply, Transaction, TxnId};
use perhop_packet::{Pool, PortId};
use perhop_units::{Duration, Rate};
use perhop_wire::build::udp4;
use serde_json::json;
use std::sync::Arc;

const LAN: PortId = PortId(0);

/// A router with the ports `lan` and `wan`, and who asks it.
pub struct Bench {
    pub router: VirtualRouter,
    next: u128,
}

impl Bench {
    /// Only ports; `wan` carries 10 Gbit/s.
    pub fn new() -> Self {
        Self::with(|planner| planner)
    }

    /// The same with a planner made differently.
    pub fn with(settings: impl FnOnce(RouterPlanner) -> RouterPlanner) -> Self {
        let spec = |rate: u64| json!({"rate": rate});
        let port = |name: &str, rate| EdgePort {
            name: name.to_owned(),
            spec: serde_json::from_value(spec(rate)).expect("a port"),
        };
        let (lan, wan) = (0, 10_000_000_000);
        let planner = RouterPlanner::new(vec![port("lan", lan), port("wan", wan)], registry());
        let router = VirtualRouter::with_planner(settings(planner), &EdgeOptions::exact(1024), 1024, 1);
        let mut bench = Self { router: router.expect("its own graph builds"), next: 1 };
        bench.commit(vec![put(Kind::Port, "lan", spec(lan)), put(Kind::Port, "wan", spec(wan))]);
        bench
    }

    /// Hands `ops` in as the owner `file`.
    pub fn submit(&mut self, ops: Vec<Op>) -> Arc<Reply> {
        let transaction = Transaction::new(TxnId(self.next.to_be_bytes()), Owner::File, ops);
        self.next += 1;
        self.router.submit(Credentials::ADMIN, transaction).expect("an answer")
    }

    /// [`Bench::submit`] that must succeed.
    pub fn commit(&mut self, ops: Vec<Op>) -> Arc<Reply> {
        let reply = self.submit(ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        reply
    }

    /// A packet of 1000 B (IP length) from `src` arrives at `lan`.
    pub fn send(&mut self, src: [u8; 4], dst: [u8; 4]) {
        let frame = udp4(src, dst).payload(&[0; 4]).ip_len(1000).build();
        assert!(self.router.receive(LAN, &frame), "a buffer is free");
    }
}

#[test]
fn a_port_has_its_rate_before_the_first_transaction() {
    let port = |name: &str, rate: u64| EdgePort {
        name: name.to_owned(),
        spec: serde_json::from_value(json!({"rate": rate})).expect("a port"),
    };
    let ports = vec![port("lan", 0), port("wan", 10_000_000)];
    let text = "FromPort(lan) -> Egress(wan, rate = 4 Mbit/s) -> ToPort(wan); \
                FromPort(wan) -> Egress(lan, rate = 5 Mbit/s) -> ToPort(lan);";
    let mut planner = RouterPlanner::new(ports.clone(), registry());
    let worker = Worker::new(text, &mut planner, Pool::new(64), 1).expect("it builds");
    let rate = |worker: &Worker, port| worker.egress(PortId(port)).expect("a way out").transmitter().rate();
    let both = [rate(&worker, 0), rate(&worker, 1)];
    assert_eq!(both, [Rate(5_000_000), Rate(10_000_000)], "without one, the graph's");
    let mut router = VirtualRouter::new(ports, 64, 1).expect("its own graph builds");
    assert_eq!([rate(router.worker(), 0), rate(router.worker(), 1)], [Rate::ZERO, Rate(10_000_000)]);
}

#[test]
fn a_port_charges_what_its_link_makes_of_a_frame() {
    for (keys, wire) in [
        (json!({}), 100),
        (json!({"overhead": 24}), 124),
        (json!({"overhead": -14}), 86),
        (json!({"overhead": 24, "minimum_frame": 200}), 200),
        (json!({"overhead": 24, "minimum_frame": 84}), 124),
        (json!({"overhead": 26, "cells": "atm"}), 3 * 53),
        (json!({"overhead": -4, "cells": "atm"}), 2 * 53),
    ] {
        let mut wan = json!({"rate": 8_000_000, "mode": "bridge"});
        wan.as_object_mut().expect("a table").extend(keys.as_object().expect("a table").clone());
        let port = |name: &str, spec| EdgePort {
            name: name.to_owned(),
            spec: serde_json::from_value(spec).expect("a port"),
        };
        let ports = vec![port("lan", json!({"mode": "bridge"})), port("wan", wan)];
        let mut router = VirtualRouter::new(ports, 64, 1).expect("its own graph builds");
        let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload_len(100 - 42).build();
        assert!(router.receive(LAN, &frame), "a buffer is free");
        let egress = router.worker().egress(PortId(1)).expect("a way out");
        assert_eq!(egress.transmitter().busy(), Duration::from_micros(wire), "{keys}");
        assert_eq!(egress.tree().link().charge(100), wire, "{keys}");
    }
}
