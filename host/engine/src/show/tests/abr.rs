//! Rows of the TCP rate control.

use super::*;
use perhop_wire::build::{FrameBuilder, tcp4};
use perhop_wire::tcp::flags::{ACK, SYN};
use perhop_wire::tcp_options::Repr as Options;

const ABR: &str = "in :: FromPort(lan); f :: Flows(connections = 256); c :: Conditioner(); a :: Abr(connections = 64); \
    q :: Egress(wan, rate = 100 Mbit/s); out :: ToPort(wan); in -> f -> c -> a -> q -> out;";
/// From the router to the receiver and back.
const RTT: Duration = Duration::from_millis(100);

fn policy(spec: Value) -> Op {
    put(Kind::AbrPolicy, "files", spec)
}

/// A router with a policy for everything at 2 Mbit/s.
fn rig() -> Rig {
    let mut rig = Rig::on(ABR);
    rig.commit(vec![policy(json!({ "rate": 2_000_000, "local": true }))]);
    rig
}

impl Rig {
    fn segment(&mut self, up: bool, port: u16, with: impl FnOnce(FrameBuilder) -> FrameBuilder) {
        let frame = if up {
            tcp4([10, 0, 0, 1], [10, 9, 0, 1]).ports(port, 80)
        } else {
            tcp4([10, 9, 0, 1], [10, 0, 0, 1]).ports(80, port)
        };
        let mut packet = self.forwarder.pool().packet(&with(frame).build()).unwrap();
        packet.meta_mut().received_at = self.now;
        let mut batch = Batch::new();
        batch.push(packet);
        self.forwarder.receive(self.now, PortId(0), &mut batch);
        self.turn();
    }

    /// A handshake and `segments` of data, each acknowledged after a round trip.
    fn transfer(&mut self, port: u16, segments: u32) {
        let options = || Options { mss: Some(1460), ..Options::default() };
        self.segment(true, port, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = options()));
        self.run_for(RTT);
        self.segment(false, port, |f| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = options()));
        self.segment(true, port, |f| f.flags(ACK).seq_ack(1000, 5000));
        for n in 0..segments {
            let seq = 1000 + n * 1460;
            self.segment(true, port, |f| f.flags(ACK).seq_ack(seq, 5000).payload_len(1460));
            self.run_for(RTT);
            self.segment(false, port, |f| f.flags(ACK).seq_ack(5000, seq + 1460).window(60_000));
        }
    }
}

#[test]
fn a_flow_is_shown_by_its_addresses_with_what_limits_it() {
    let mut rig = rig();
    assert_eq!(rig.show(What::Abr).rows, []);
    rig.transfer(40_000, 60);
    let rows = rig.show(What::Abr).rows;
    assert!(rows.len() == 2 && rows.iter().all(|row| row.kind == "abr" && row.id == rows[0].id));
    let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let (row, back) = (of("tcp 10.0.0.1:40000>10.9.0.1:80"), of("tcp 10.9.0.1:80>10.0.0.1:40000"));
    // The way back falls under the policy too, and carries no data.
    assert_eq!((back.facts["live"].as_str(), back.facts["policy"].as_str()), ("no", "files"));
    let facts: Vec<(&str, &str)> = row.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    // One segment a round trip is less than it may send.
    let gauges: Vec<&str> = row.gauges.iter().map(String::as_str).collect();
    assert_eq!(
        gauges.join(" "),
        "credit latency_receiver_us latency_sender_us latency_us mss rate_bps window"
    );
    assert_eq!(facts, [("limited_by", "congestion"), ("live", "yes"), ("policy", "files")]);
    for (name, value) in [
        ("rate_bps", 2_000_000),
        ("latency_us", 100_000),
        ("latency_sender_us", 0),
        ("latency_receiver_us", 100_000),
        ("mss", 1_460),
        ("retransmissions", 0),
    ] {
        assert_eq!(row.counter(name), value, "{name}");
    }
    // 2 Mbit/s in 100 ms are 25,000 B, of which 1460 in 1500 are data: 16.67 segments, 16 and what is left over.
    let (window, credit) = (row.counter("window"), row.counter("credit"));
    assert!(window == 16 * 1460 || window == 17 * 1460, "{window}");
    assert!(credit < 1460 && row.counter("rewritten") > 20, "{row:?}");
}

#[test]
fn policies_have_counters_that_go_on_and_gauges_that_are_shown_only() {
    let mut rig = rig();
    rig.transfer(40_000, 30);
    rig.transfer(40_001, 1);
    let row =
        |rows: Vec<Row>| rows.into_iter().find(|r| r.kind == "abr_policy" && r.name == "files").unwrap();
    let shown = row(rig.show(What::AbrPolicies).rows);
    let key = Key { kind: Kind::AbrPolicy, name: Name::new("files").unwrap() };
    assert_eq!((shown.id, shown.owner.as_str()), (rig.control.objects()[&key].id, "file"));
    for (name, value) in [
        ("flows", 2),
        ("share_bps", 1_000_000),
        ("rate_bps", 2_000_000),
        ("packets", 31),
        ("bytes", 31 * 1500),
    ] {
        assert_eq!(shown.counter(name), value, "{name}");
    }
    assert_eq!(row(rig.show(What::All).rows), shown);
    assert!(rig.show(What::All).rows.iter().all(|r| r.kind != "abr"), "flows are asked for by themselves");
    let counted = rig.counters(1).rows.into_iter().find(|r| r.kind == "abr_policy").unwrap();
    let names: Vec<&str> = counted.counters.keys().map(String::as_str).collect();
    assert_eq!(names, ["bytes", "floor_limited", "packets", "rewritten"]);
    assert!(counted.counters["rewritten"] > 10);
    // Counting goes on under a new rate.
    rig.commit(vec![policy(json!({ "rate": 50_000_000, "local": true }))]);
    let again = rig.counters(1).rows.into_iter().find(|r| r.kind == "abr_policy").unwrap();
    assert_eq!((again.id, again.counters), (counted.id, counted.counters));
}

#[test]
fn no_more_flows_are_shown_than_asked_for() {
    let mut rig = rig();
    for port in 0..9 {
        rig.transfer(40_000 + port, 1);
    }
    let all = rig.show(What::Abr).rows;
    assert_eq!(all.len(), 18, "both ways");
    for limit in [1, 4, 17] {
        assert_eq!(rig.try_show(What::Abr, limit).unwrap().rows, all[..limit], "{limit}");
    }
}

#[test]
fn the_page_of_flows_has_the_shape_of_every_page() {
    let mut rig = rig();
    rig.transfer(40_000, 1);
    let page = serde_json::to_value(rig.show(What::Abr)).unwrap();
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&page), ["at_ns", "epoch", "more", "revision", "rows", "total"]);
    assert_eq!(keys(&page["rows"][0]), ["counters", "facts", "gauges", "id", "kind", "name", "owner"]);
    assert_eq!(page["rows"][0]["facts"]["policy"], "files");
    assert!(page["rows"][0]["counters"].as_object().unwrap().values().all(Value::is_u64));
}

#[test]
fn a_router_without_the_element_has_nothing_to_show() {
    let mut rig = Rig::new();
    rig.commit(vec![policy(json!({ "rate": 2_000_000 }))]);
    rig.transfer(40_000, 1);
    assert_eq!(rig.show(What::Abr).rows, []);
    assert_eq!(rig.show(What::AbrPolicies).rows, []);
}
