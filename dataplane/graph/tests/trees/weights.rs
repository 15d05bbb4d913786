//! Weights at the top of a port's tree, where the leaf of a port without classes stays.

use super::{World, put};
use perhop_model::{Kind, Op};
use perhop_units::Duration;
use serde_json::json;

fn class(name: &str, weight: u32, default: bool) -> Op {
    let queue = json!({"limit": {"packets": 1000}});
    put(Kind::Class, name, json!({"port": "wan", "weight": weight, "default": default, "queue": queue}))
}

#[test]
fn large_weights_share_in_their_proportion_and_in_turns_no_longer_than_it_needs() {
    let mut w = World::new();
    w.replace_graph(&super::wire("q"));
    w.commit(vec![class("a", 5_000, true), class("b", 10_000, false)]);
    w.send(0..200);
    w.commit(vec![class("a", 5_000, false), class("b", 10_000, true)]);
    w.send(1_000..1_200);
    // 8.112 ms a packet; turns are 1,514 and 3,028 bytes, so some five packets a round.
    for packets in [6, 30, 150] {
        w.router.run_until(perhop_units::Instant::ZERO + Duration::from_micros(8_112 * packets + 5));
        let sent = w.sent();
        let a = sent.iter().filter(|n| **n < 1_000).count() as u64;
        assert_eq!(sent.len() as u64, packets + 1);
        assert!(a.abs_diff(packets / 3) <= 3, "{a} of {packets}");
    }
}
