//! Filters that come and go by the hundred under load, one transaction each: as in the measurements of P-6.4.6, four
//! streams of packets of 128 B, one within its profile, one far beyond, and two that filters move between both profiles.
//!
//! In virtual time a change takes none, so every packet must leave when it would have left without any change. What a
//! change takes of a worker is bounded by what it does: one slice, however many filters there are, and no packet is
//! classified anew because of filters that do not concern it.

use crate::support::{LAN, commit, delete, put, router_of};
use perhop_graph::router::VirtualRouter;
use perhop_model::{Credentials, Kind, Op, Outcome, Owner};
use perhop_units::Instant;
use perhop_wire::build;
use serde_json::json;

/// A link that is nearly full: the streams take 2.2 Mbit/s of it and what is beside them 7.4.
const FILE: &str = r#"
[[port]]
name = "lan"
rate = "1 Gbit/s"
[[port]]
name = "wan"
rate = "10 Mbit/s"

[[class]]
name = "rest"
port = "wan"
default = true
queue = { limit = "1000 packets" }

[[profile]]
name = "within"
meter = { type = "token_bucket", cir = "5 Mbit/s", cbs = "15 kB" }
green = { do = "mark", dscp = "AF11" }
red = { do = "mark", dscp = "AF13" }
shared = true
[[profile]]
name = "beyond"
meter = { type = "token_bucket", cir = "50 kbit/s", cbs = "1500 B" }
green = { do = "mark", dscp = "AF21" }
red = { do = "mark", dscp = "AF23" }
shared = true
"#;
/// Filters of a step.
const FILTERS: usize = 750;
const STREAMS: u16 = 4;
/// 128 B at 500 kbit/s, and 1000 B at 7.2 Mbit/s (IP).
const STREAM_NS: u64 = 2_048_000;
const BESIDE_NS: u64 = 1_111_111;
/// Between two transactions.
const CHANGE_NS: u64 = 1_000_000;
const PORT: u16 = 6_000;

/// A packet that left: when, stream, number, code point.
type Left = (Instant, u16, u32, u8);

fn frame(stream: u16, seq: u32) -> Vec<u8> {
    let mut payload = vec![0; if stream < STREAMS { 100 } else { 972 }];
    payload[..4].copy_from_slice(&seq.to_be_bytes());
    build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
        .macs(crate::support::mac(0x12), crate::support::mac(1))
        .ports(5_000, PORT + stream)
        .payload(&payload)
        .build()
}

/// A filter before those of the streams that matches nobody.
fn nobody(n: usize, profile: &str) -> Op {
    let dst = format!("192.0.{}.{}/32", n / 250, n % 250);
    let matches = json!({ "dst": dst, "protocol": 17, "dst_ports": { "first": PORT, "last": PORT + 9 } });
    put(
        Kind::Filter,
        &format!("f{n}"),
        json!({ "priority": n, "match": matches, "class": "rest", "profile": profile }),
    )
}

/// The filter of a stream.
fn stream(stream: u16, profile: &str) -> Op {
    let port = PORT + stream;
    let matches = json!({ "protocol": 17, "dst_ports": { "first": port, "last": port } });
    put(
        Kind::Filter,
        &format!("stream{stream}"),
        json!({ "priority": 100_000, "match": matches, "class": "rest", "profile": profile }),
    )
}

/// 750 filters below one profile, 750 below the other, 750 more below the first, and all of them removed; two streams
/// change their profile every 100 changes.
fn transactions() -> Vec<Op> {
    let add = |n: usize| nobody(n, if n / FILTERS == 1 { "beyond" } else { "within" });
    let mut ops: Vec<Op> = (0..3 * FILTERS).map(add).collect();
    ops.extend((0..3 * FILTERS).map(|n| delete(Kind::Filter, &format!("f{n}"))));
    for (turn, at) in (50..ops.len()).step_by(100).enumerate() {
        let profile = ["beyond", "within"][turn / 2 % 2];
        ops.insert(at + turn, stream(2 + turn as u16 % 2, profile));
    }
    ops
}

/// A router and the load it carries.
struct Load {
    router: VirtualRouter,
    /// When the next packet of each stream is due.
    due: [u64; STREAMS as usize + 1],
    sent: [u32; STREAMS as usize + 1],
    left: Vec<Left>,
}

impl Load {
    fn new() -> Self {
        let mut router = router_of(FILE);
        let filters = (0..STREAMS).map(|s| stream(s, if s == 1 { "beyond" } else { "within" })).collect();
        let reply = commit(&mut router, Owner::Cli, 2, filters);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        let start = router.now().0;
        let due = std::array::from_fn(|s| start + s as u64 * 300_000);
        Self { router, due, sent: [0; STREAMS as usize + 1], left: Vec::new() }
    }

    /// Packets until `end`.
    fn run_until(&mut self, end: u64) {
        loop {
            let next = (0..self.due.len()).min_by_key(|s| self.due[*s]).filter(|s| self.due[*s] < end);
            let Some(s) = next else { break };
            self.router.run_until(Instant(self.due[s]));
            assert!(self.router.receive(LAN, &frame(s as u16, self.sent[s])), "the pool is large enough");
            self.sent[s] += 1;
            self.due[s] += if s < STREAMS.into() { STREAM_NS } else { BESIDE_NS };
        }
        self.router.run_until(Instant(end));
        self.collect();
    }

    fn collect(&mut self) {
        for sent in std::mem::take(&mut self.router.sent) {
            let layout = perhop_wire::dissect(sent.frame()).expect("well formed");
            let at = usize::from(layout.payload_offset);
            let seq = u32::from_be_bytes(sent.frame()[at..at + 4].try_into().expect("four bytes"));
            self.left.push((sent.at, layout.dst_port - PORT, seq, sent.frame()[15] >> 2));
        }
    }

    /// Everything leaves; each stream whole and in order.
    fn finish(mut self) -> Vec<Left> {
        let end = self.router.now().0 + 2_000_000_000;
        self.router.run_until(Instant(end));
        self.collect();
        for (s, sent) in self.sent.iter().enumerate() {
            let seqs = self.left.iter().filter(|l| usize::from(l.1) == s).map(|l| l.2);
            assert!(seqs.eq(0..*sent), "stream {s}: each of {sent} packets once, in order");
        }
        self.left
    }

    fn classified(&mut self) -> u64 {
        self.router.worker().flows().expect("the edge graph has them").flow_counters().classified
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "how long a worker stands still is told, not judged")]
fn filters_added_one_by_one_under_load_delay_nothing() {
    let transactions = transactions();
    let mut load = Load::new();
    let start = load.router.now().0;
    let mut gaps = Vec::new();
    for (n, op) in transactions.iter().enumerate() {
        load.run_until(start + n as u64 * CHANGE_NS);
        let moves = matches!(op, Op::Put(put) if put.given.key().name.as_str().starts_with("stream"));
        let before = load.classified();
        let t = crate::support::transaction(Owner::Cli, 100 + n as u128, vec![op.clone()]);
        let request = load.router.request(Credentials::ADMIN, t);
        let mut slices = 0;
        loop {
            let begin = std::time::Instant::now();
            if !load.router.step() {
                break;
            }
            gaps.push(begin.elapsed());
            slices += 1;
        }
        let reply = load.router.reply(request).expect("answered once settled");
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        assert_eq!(slices, 1, "change {n}");
        // Each stream sends in the time of three changes: all have asked the new rules.
        load.run_until(start + (n as u64 + 1) * CHANGE_NS);
        let anew = load.classified() - before;
        assert!(n < 3 || moves || anew <= 1, "{anew} packets classified anew by change {n}");
    }
    let end = load.router.now().0;
    let disturbed = load.finish();

    let mut quiet = Load::new();
    quiet.run_until(end);
    let undisturbed = quiet.finish();
    let leave = |l: &[Left]| l.iter().map(|l| (l.0, l.1, l.2)).collect::<Vec<_>>();
    assert!(
        leave(&disturbed) == leave(&undisturbed),
        "every packet leaves when it would have left without changes"
    );
    let marks = |l: &[Left], s: u16| l.iter().filter(|l| l.1 == s).map(|l| l.3).collect::<Vec<_>>();
    for s in [0, 1] {
        assert!(
            marks(&disturbed, s) == marks(&undisturbed, s),
            "profiles that stay meter as without changes"
        );
    }
    for s in [2, 3] {
        let (af11, af23) = (10, 22);
        assert!(
            [af11, af23].iter().all(|mark| marks(&disturbed, s).contains(mark)),
            "stream {s} went between profiles"
        );
    }
    gaps.sort();
    println!(
        "{} changes, {} packets; a worker stood still for {:?} in the median and {:?} at the longest",
        gaps.len(),
        disturbed.len(),
        gaps[gaps.len() / 2],
        gaps[gaps.len() - 1]
    );
}
