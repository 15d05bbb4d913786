//! A flood of made-up 5-tuples through the demo's router file: tables stay within their limits, and calls as they are.

use crate::support::{LAN, WAN, connect, mac};
use perhop_element::Element;
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Op, Outcome, Owner};
use perhop_packet::Batch;
use perhop_routerfile::RouterFile;
use perhop_tests::properties::transaction::transaction;
use perhop_units::{Dscp, Instant};
use perhop_wire::{build, checksum, dissect};
use rand::Rng;
use rand_pcg::Pcg64;
use std::collections::BTreeMap;

const EDGE: &str = include_str!("../../examples/edge.toml");
/// Packets of one batch, and time from one batch to the next: 10⁶ packets a second.
const BATCH: u64 = 200;
const BATCH_NS: u64 = 200_000;
const PACKET_NS: u64 = 20_000_000;
const MS: u64 = 1_000_000;
/// Limits that the edge graph leaves as the element has them.
const UNDECIDED: u64 = 16_384;
const CALLS: u64 = 8_192;
const WAITING: u64 = 2_048;
/// From so many seconds in `PERHOP_SOAK_SECONDS` on the flood lasts for ten.
const LONG_SOAK_S: u64 = 300;
/// Calls that are under way, and those that begin during the flood.
const ESTABLISHED: u16 = 10;
const NEW: u16 = 10;

/// The frames of the flood: every one of another 5-tuple.
struct Flood {
    random: Pcg64,
    v4: Vec<u8>,
    v6: Vec<u8>,
}

impl Flood {
    fn new(seed: u64) -> Self {
        let v4 = build::udp4([10, 0, 0, 2], [10, 1, 0, 2]).macs(mac(0x12), mac(1)).payload_len(32).build();
        let v6 = build::udp6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2], [0x2001, 0xdb8, 1, 0, 0, 0, 0, 2]);
        let v6 = v6.macs(mac(0x12), mac(1)).payload_len(32).build();
        Self { random: Pcg64::new(u128::from(seed), 5), v4, v6 }
    }

    /// The next frame: every fourth over IPv6; every second with a first byte of RTP, and half of those with sequence
    /// numbers near each other; every sixteenth to a host that is not there.
    fn frame(&mut self) -> &[u8] {
        let bits = [(); 4].map(|()| self.random.next_u64().to_le_bytes());
        let [tuple, payload, fields, choice] = bits;
        let (frame, l4) = if choice[0] % 4 == 0 { (&mut self.v6, 54) } else { (&mut self.v4, 34) };
        let far = if choice[1] % 16 == 0 { choice[2] } else { 2 };
        if l4 == 34 {
            frame[26..30].copy_from_slice(&tuple[..4]);
            // Neither multicast nor this machine's.
            frame[26] = 11 + frame[26] % 100;
            frame[33] = far.max(2);
            frame[24..26].fill(0);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            frame[30..34].copy_from_slice(&tuple[..4]);
            frame[53] = far.max(2);
        }
        frame[l4..l4 + 4].copy_from_slice(&tuple[4..]);
        let at = l4 + 8;
        frame[at..at + 8].copy_from_slice(&payload);
        frame[at + 8..at + 16].copy_from_slice(&fields);
        if choice[3] % 2 == 0 {
            frame[at] = 0x80;
            frame[at + 1] = choice[4] % 35;
            if choice[3] % 4 == 0 {
                frame[at + 2] = 0;
            }
        }
        frame
    }
}

fn call(number: u16, seq: u16) -> Vec<u8> {
    let ssrc = 0xabcd_0000 + u32::from(number);
    let payload = crate::support::rtp(8, seq, u32::from(seq) * 160, ssrc, &[0x55; 160]);
    build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
        .macs(mac(0x12), mac(1))
        .ports(20_000 + 2 * number, 30_000 + 2 * number)
        .payload(&payload)
        .build()
}

fn router(connections: u32) -> VirtualRouter {
    let (file, diagnostics) = RouterFile::read("edge.toml", EDGE);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let mut router =
        VirtualRouter::with_connections(EdgePort::of_objects(&file.objects), connections, 16_384, 1)
            .expect("the graph builds");
    let objects = file.objects.clone();
    let ops = vec![Op::replace_owned(&RouterFile::KINDS, objects)];
    let reply = router.submit(Credentials::ADMIN, transaction(Owner::File, 1, ops)).expect("an answer");
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    connect(&mut router);
    router
}

/// Counters of the flows element and of routing.
fn counters(router: &mut VirtualRouter) -> BTreeMap<String, u64> {
    let mut list: Vec<(String, u64)> = Vec::new();
    router.worker().flows().expect("the graph has one").counters(&mut list);
    router.worker().route().expect("the graph has one").counters(&mut list);
    list.into_iter().collect()
}

/// What a call has seen: packets sent, and those that left by each class, in order.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: u16,
    left: BTreeMap<u16, Dscp>,
}

/// Ten calls are established, then the flood comes for `ms`, and ten more calls begin in it. Gives how many packets each
/// of those took until it was recognised.
fn flood(connections: u32, ms: u64, seed: u64) -> Vec<Option<u16>> {
    let mut router = router(connections);
    let mut flood = Flood::new(seed);
    let mut calls = vec![Seen::default(); usize::from(ESTABLISHED + NEW)];
    let start = router.now().0;
    let begins = start + 500 * MS;
    let ends = begins + ms * MS;
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    let mut batch = Batch::new();
    let mut refused = 0u64;
    for step in 0..(ends - start) / BATCH_NS {
        let now = start + step * BATCH_NS;
        router.run_until(Instant(now));
        for (number, seen) in (0u16..).zip(&mut calls) {
            // New calls begin in the first third of the flood.
            let first = match number.checked_sub(ESTABLISHED) {
                None => start + u64::from(number) * 2 * MS,
                Some(n) => begins + ms * MS / 3 * u64::from(n) / u64::from(NEW) + 2 * MS,
            };
            if now >= first + u64::from(seen.sent) * PACKET_NS && now + 100 * MS < ends {
                assert!(router.receive(LAN, &call(number, seen.sent)), "a buffer for a call");
                seen.sent += 1;
            }
        }
        if now >= begins {
            for i in 0..BATCH {
                match router.pool().packet(flood.frame()) {
                    Some(mut packet) => {
                        packet.meta_mut().received_at = Instant(now + i * BATCH_NS / BATCH);
                        batch.push(packet);
                    }
                    None => refused += 1,
                }
            }
            router.worker().receive(Instant(now), LAN, &mut batch);
        }
        if step % 50 == 0 {
            let counters = counters(&mut router);
            for gauge in ["connections", "undecided", "calls", "waiting", "neighbours"] {
                let most = most.entry(gauge).or_default();
                *most = (*most).max(counters[gauge]);
            }
        }
        router.flow_events.clear();
        for sent in std::mem::take(&mut router.sent) {
            let layout = dissect(sent.frame()).expect("well formed");
            let number = layout.dst_port.wrapping_sub(30_000) / 2;
            if sent.port == WAN && layout.ip_len == 200 && number < ESTABLISHED + NEW {
                let at = usize::from(layout.payload_offset);
                let seq = u16::from_be_bytes([sent.frame()[at + 2], sent.frame()[at + 3]]);
                calls[usize::from(number)].left.insert(seq, Dscp::from_octet(layout.tos));
            }
        }
    }
    router.worker().check_conservation().expect("books balance");
    let end = counters(&mut router);
    println!(
        "{connections} connections, {ms} ms, seed {seed}: most {most:?}, {refused} without a buffer\n  {end:?}"
    );
    assert!(most["connections"] <= u64::from(connections), "{most:?}");
    assert!(most["undecided"] <= UNDECIDED && most["calls"] <= CALLS, "{most:?}");
    assert!(most["waiting"] <= WAITING, "{most:?}");
    assert_eq!(router.pool().counters().leaked, 0);
    let marked_from =
        |seen: &Seen| seen.left.iter().find(|(_, dscp)| **dscp == Dscp::EF).map(|(seq, _)| *seq);
    for (number, seen) in calls.iter().enumerate() {
        let Some(first) = marked_from(seen) else { continue };
        let marked = (first..seen.sent).filter(|seq| seen.left.get(seq) == Some(&Dscp::EF)).count();
        assert_eq!(marked, usize::from(seen.sent - first), "call {number}: every packet leaves as EF");
    }
    let established = &calls[..usize::from(ESTABLISHED)];
    assert!(
        established
            .iter()
            .all(|seen| marked_from(seen) == Some(9) && seen.left.len() == usize::from(seen.sent))
    );
    calls[usize::from(ESTABLISHED)..].iter().map(|seen| marked_from(seen).map(|seq| seq + 1)).collect()
}

/// 10⁶ random 5-tuples a second, one second of them (10 s in a long soak, as `make soak`
/// is): whatever the size of the table, nothing exceeds its limits, no call loses its class or a packet, and new
/// calls are recognised within twice the packets that they take without the flood.
#[test]
fn soak_a_flood_of_random_tuples() {
    let soak_s = std::env::var("PERHOP_SOAK_SECONDS").ok().and_then(|s| s.parse::<u64>().ok()).unwrap_or(0);
    let full = soak_s >= LONG_SOAK_S;
    let (ms, tables) = if full { (10_000, [16_384, 262_144]) } else { (1_000, [4_096, 65_536]) };
    for (seed, connections) in (1..).zip(tables) {
        let took = flood(connections, ms, seed);
        println!("  packets until a new call was recognised: {took:?}");
        assert!(took.iter().all(|n| n.is_some_and(|n| n <= 20)), "{took:?}");
    }
}
