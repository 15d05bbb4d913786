//! Policies of the TCP rate control from outside: JSON in, segments through a whole router.

use super::{Desk, delete, patch, put};
use crate::support::{LAN, WAN, mac};
use perhop_abr::{AbrPolicyId, FlowState, LimitedBy, PolicyCounters};
use perhop_model::Name;
use perhop_reason::Code;
use perhop_wire::tcp::flags::{ACK, SYN};
use perhop_wire::tcp_options::Repr as Options;
use perhop_wire::{build, dissect};
use serde_json::{Value, json};

/// Octets of data in a full segment, and the IP length of its packet.
const MSS: u32 = 1_460;
const FULL: u64 = 1_500;
/// From the router to the receiver and back.
const RTT_MS: u64 = 100;
/// What the receiver offers, without scaling.
const OFFERED: u16 = 60_000;

/// A transfer from 10.0.0.2 (`lan`) to 10.1.0.2 (`wan`), one segment a round trip.
struct Transfer {
    port: u16,
    seq: u32,
}

impl Transfer {
    /// The handshake, seen by the router.
    fn open(desk: &mut Desk, port: u16) -> Self {
        let transfer = Self { port, seq: 1_000 };
        let options = || Options { mss: Some(MSS as u16), ..Options::default() };
        transfer.up(desk, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = options()));
        desk.pass_ms(RTT_MS);
        transfer.down(desk, |f| f.flags(SYN | ACK).seq_ack(4_999, 1_000).tcp(|t| t.options = options()));
        transfer.up(desk, |f| f.flags(ACK).seq_ack(1_000, 5_000));
        transfer
    }

    fn up(&self, desk: &mut Desk, with: impl FnOnce(build::FrameBuilder) -> build::FrameBuilder) {
        let frame = build::tcp4([10, 0, 0, 2], [10, 1, 0, 2]).macs(mac(0x12), mac(1)).ports(self.port, 80);
        assert!(desk.router.receive(LAN, &with(frame).build()));
    }

    /// The window with which a segment of the receiver leaves the router.
    fn down(&self, desk: &mut Desk, with: impl FnOnce(build::FrameBuilder) -> build::FrameBuilder) -> u32 {
        let frame = build::tcp4([10, 1, 0, 2], [10, 0, 0, 2]).macs(mac(0x22), mac(2)).ports(80, self.port);
        desk.router.sent.clear();
        assert!(desk.router.receive(WAN, &with(frame.window(OFFERED)).build()));
        desk.pass_ms(1);
        let sent = desk.router.sent.iter().find(|s| s.port == LAN).expect("it leaves");
        let at = usize::from(dissect(sent.frame()).expect("well formed").l4_offset);
        u32::from(u16::from_be_bytes([sent.frame()[at + 14], sent.frame()[at + 15]]))
    }

    /// A segment of data, a round trip later its acknowledgment. The window that the sender is told.
    fn round(&mut self, desk: &mut Desk) -> u32 {
        let seq = self.seq;
        self.up(desk, |f| f.flags(ACK).seq_ack(seq, 5_000).payload_len(MSS as usize));
        desk.pass_ms(RTT_MS);
        self.seq += MSS;
        let ack = self.seq;
        self.down(desk, |f| f.flags(ACK).seq_ack(5_000, ack))
    }

    /// The mean of the windows of so many round trips; the first few, until the edge has come to rest, do not count.
    fn mean(&mut self, desk: &mut Desk) -> u32 {
        for _ in 0..50 {
            self.round(desk);
        }
        (0..20).map(|_| self.round(desk)).sum::<u32>() / 20
    }
}

/// The window that `rate` needs: what fits into a round trip, as data.
fn needed(rate: u64) -> u32 {
    (rate * RTT_MS / 8_000 * u64::from(MSS) / FULL) as u32
}

/// Within a segment of what the rate needs, a millisecond more of latency included.
fn assert_limited(window: u32, rate: u64) {
    let needed = needed(rate);
    assert!(window.abs_diff(needed) < MSS, "{window}, not {needed}");
}

fn limit(desk: &mut Desk, rate: u64) {
    let spec = json!({ "match": { "dst": "10.1.0.0/16" }, "rate": rate, "local": true });
    desk.commit("cli", json!([put("abr_policy", "up", spec)]));
}

fn id(desk: &Desk, name: &str) -> AbrPolicyId {
    let (control, _) = desk.router.halves();
    let name = Name::new(name).expect("a name");
    control.planner().abr_policies().find(|(n, _)| **n == name).expect("there is one").1
}

fn counters(desk: &Desk, name: &str) -> PolicyCounters {
    let id = id(desk, name);
    desk.router.halves().1.abr().expect("the edge graph has one").policy_counters(id)
}

fn flows(desk: &Desk) -> Vec<FlowState> {
    let abr = desk.router.halves().1.abr().expect("the edge graph has one");
    abr.flows(0..abr.slots()).collect()
}

fn confirmed_within(desk: &mut Desk, ms: u64, ops: Value) {
    let mut request = desk.request("cli", ops);
    request["confirm_within_ms"] = json!(ms);
    assert_eq!(desk.ask(&request)["outcome"], "committed");
}

#[test]
fn a_policy_put_into_a_running_router_holds_flows_at_its_rate() {
    let mut desk = Desk::new();
    let mut before = Transfer::open(&mut desk, 1_000);
    assert_eq!(before.round(&mut desk), u32::from(OFFERED), "without a policy windows are left alone");
    limit(&mut desk, 2_000_000);
    let mut transfer = Transfer::open(&mut desk, 1_001);
    let window = transfer.mean(&mut desk);
    assert_limited(window, 2_000_000);
    let flow = flows(&desk).into_iter().find(|f| f.rewritten > 0).expect("a limited flow");
    // It sends less than it may.
    assert_eq!((flow.policy, flow.limited_by), (id(&desk, "up"), LimitedBy::Congestion));
    let counted = counters(&desk, "up");
    assert_eq!((counted.packets, counted.bytes), (70, 70 * FULL));
    assert_eq!(before.round(&mut desk), u32::from(OFFERED), "its handshake was not seen by the element");
    // A rate that changes is followed by the flow that is there, which then has it alone.
    desk.pass_ms(10_000);
    desk.commit("cli", json!([patch("abr_policy", "up", json!({ "rate": 1_000_000 }))]));
    let window = transfer.mean(&mut desk);
    assert_limited(window, 1_000_000);
    desk.commit("cli", json!([delete("abr_policy", "up")]));
    assert_eq!(transfer.round(&mut desk), u32::from(OFFERED));
}

#[test]
fn a_put_of_a_policy_as_it_was_read_is_unchanged() {
    let mut desk = Desk::new();
    limit(&mut desk, 2_000_000);
    let read = desk.object("abr_policy", "up").expect("there");
    assert_eq!(read["spec"]["latency"], json!({ "type": "average", "up_ppm": 2_000, "down_ppm": 600_000 }));
    assert_eq!((&read["spec"]["idle"], &read["spec"]["weight"]), (&json!(5_000_000_000_u64), &json!(1)));
    let again = desk.commit("cli", json!([put("abr_policy", "up", read["spec"].clone())]));
    assert_eq!(again["ops"][0]["outcome"], "unchanged");
    assert_eq!(desk.object("abr_policy", "up"), Some(read));
}

#[test]
fn rule_3_a_refused_policy_leaves_the_flows_as_they_were() {
    let mut desk = Desk::new();
    limit(&mut desk, 2_000_000);
    let mut transfer = Transfer::open(&mut desk, 1_000);
    let window = transfer.mean(&mut desk);
    let ops = json!([
        patch("abr_policy", "up", json!({ "rate": 500_000 })),
        put("abr_policy", "wrong", json!({ "match": { "class": "nothing" } })),
    ]);
    desk.refused(Code::BadReference, "cli", ops);
    assert!(transfer.mean(&mut desk).abs_diff(window) <= MSS);
}

#[test]
fn rule_4_a_policy_that_nothing_concerns_keeps_its_flows_and_counters() {
    let mut desk = Desk::new();
    limit(&mut desk, 2_000_000);
    let mut transfer = Transfer::open(&mut desk, 1_000);
    let window = transfer.mean(&mut desk);
    let (before, state) = (counters(&desk, "up"), flows(&desk));
    let filter =
        |priority: u32| json!({ "priority": priority, "match": { "protocol": 17 }, "class": "bulk" });
    for n in 0..4 {
        desk.commit("api:a", json!([
            put("filter", "f", filter(n)),
            put("sla", "s", json!({ "rate": 1_000_000 + n, "prefixes": ["192.0.2.0/24"] })),
            put("class", &format!("wan/x{n}"), json!({ "port": "wan" })),
            put("abr_policy", "beside", json!({ "priority": n, "match": { "filter": "f", "class": "bulk", "sla": "s" }, "rate": 9_000 })),
        ]));
    }
    desk.commit("api:a", json!([delete("abr_policy", "beside"), delete("filter", "f")]));
    assert_eq!((counters(&desk, "up"), flows(&desk)), (before, state));
    let next = transfer.round(&mut desk);
    assert!(next.abs_diff(window) <= MSS, "{next} after {window}");
}

#[test]
fn rule_4_a_replaced_graph_goes_on_with_policies_and_flows() {
    let mut desk = Desk::new();
    limit(&mut desk, 2_000_000);
    let mut transfer = Transfer::open(&mut desk, 1_000);
    let window = transfer.mean(&mut desk);
    let (before, state) = (counters(&desk, "up"), flows(&desk));
    let ports = desk.router.control().planner().ports().to_vec();
    let own = perhop_graph::router::edge_graph(&ports, &perhop_graph::router::EdgeOptions::exact(16_384));
    let counted = own.replace("flows -> condition", "extra :: Counter();\nflows -> extra -> condition");
    for text in [counted.as_str(), own.as_str(), ""] {
        desk.commit("cli", json!([{ "op": "replace_graph", "text": text }]));
        assert_eq!((counters(&desk, "up"), flows(&desk)), (before, state.clone()), "{text}");
    }
    let next = transfer.round(&mut desk);
    assert!(next.abs_diff(window) <= MSS, "{next} after {window}");
    // An element under another name is new: it has the policies, and takes flows that begin.
    let renamed = own.replace("abr ::", "pace ::").replace("-> abr ->", "-> pace ->");
    desk.commit("cli", json!([{ "op": "replace_graph", "text": renamed }]));
    assert_eq!(transfer.round(&mut desk), u32::from(OFFERED));
    let window = Transfer::open(&mut desk, 1_001).mean(&mut desk);
    assert_limited(window, 2_000_000);
}

#[test]
fn rule_7_an_unconfirmed_rate_is_taken_back_on_the_wire_too() {
    let mut desk = Desk::new();
    limit(&mut desk, 2_000_000);
    let mut transfer = Transfer::open(&mut desk, 1_000);
    transfer.mean(&mut desk);
    confirmed_within(&mut desk, 20_000, json!([patch("abr_policy", "up", json!({ "rate": 500_000 }))]));
    let window = transfer.mean(&mut desk);
    assert_limited(window, 500_000);
    desk.pass_ms(20_000);
    assert_eq!(desk.last_event()["type"], "reverted");
    assert_eq!(desk.object("abr_policy", "up").expect("there")["spec"]["rate"], 2_000_000);
    let window = transfer.mean(&mut desk);
    assert_limited(window, 2_000_000);
}

#[test]
fn a_policy_follows_the_filter_that_it_names() {
    let mut desk = Desk::new();
    let filter = |priority: u32| json!({ "priority": priority, "class": "bulk", "match": { "protocol": 6, "dst_ports": { "first": 80, "last": 80 } } });
    let policy = json!({ "match": { "filter": "web", "class": "bulk" }, "rate": 2_000_000, "local": true });
    desk.commit("cli", json!([put("filter", "web", filter(1)), put("abr_policy", "web", policy)]));
    let mut transfer = Transfer::open(&mut desk, 1_000);
    let window = transfer.mean(&mut desk);
    assert_limited(window, 2_000_000);
    // Replaced, it has another number in the router, and matches the same flows.
    desk.commit("cli", json!([put("filter", "web", filter(7))]));
    let next = transfer.round(&mut desk);
    assert!(next.abs_diff(window) <= MSS, "{next} after {window}");
    assert_eq!(counters(&desk, "web").packets, 71);
}
