//! Against a model with plain queues, and the promises to sparse and to greedy flows.

use super::*;
use crate::drop::flow_hash::hash_of;
use crate::drop::{CoDelState, EarlyState, HeadVerdict};
use crate::plumbing::UdpFrame;
use crate::queue::fifo::laws::{calls, check_any_order};
use crate::testbed::Line;
use perhop_units::{Bytes, Duration};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// A shaper of 1000 bytes a ms.
fn line(settings: &str) -> Line {
    Line::new("Shaper", &format!("8 Mbit/s, discipline = fq_codel, {settings}"), 3)
}

fn push(line: &mut Line, flow: u16, len: u16, ecn: u8) {
    line.push("", &UdpFrame { ip_len: len - 14, src_port: flow, ecn, ..UdpFrame::default() });
}

/// Packets, CoDel and credits of a flow.
type ModelFlow = (VecDeque<(u16, u64, u64)>, CoDelState, i64);

/// RFC 8290 §4 word by word over plain queues: a packet is its number, time and bytes.
struct Model {
    config: FqCoDelConfig,
    limit: usize,
    queues: BTreeMap<u16, ModelFlow>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    dropped: Vec<u16>,
}

impl Model {
    fn enqueue(&mut self, flow: u16, packet: (u16, u64, u64)) {
        let fresh = || (VecDeque::new(), CoDelState::new(self.config.codel), 0);
        let quantum = i64::from(self.config.quantum);
        let (queue, _, credits) = self.queues.entry(flow).or_insert_with(fresh);
        queue.push_back(packet);
        if !self.new.contains(&flow) && !self.old.contains(&flow) {
            *credits = quantum;
            self.new.push_back(flow);
        }
        let total: usize = self.queues.values().map(|(q, ..)| q.len()).sum();
        if total > self.limit {
            let bytes = |queue: &VecDeque<(u16, u64, u64)>| queue.iter().map(|p| p.2).sum::<u64>();
            let most = self.queues.values().map(|(q, ..)| bytes(q)).max().expect("one came");
            let (queue, ..) =
                self.queues.values_mut().find(|(q, ..)| bytes(q) == most).expect("it is the most");
            let half = queue.len().div_ceil(2).min(self.config.batch as usize);
            self.dropped.extend(queue.drain(..half).map(|p| p.0));
        }
    }

    fn dequeue(&mut self, now: u64) -> Option<u16> {
        let quantum = i64::from(self.config.quantum);
        loop {
            let flow = *self.new.front().or(self.old.front())?;
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let (queue, codel, credits) = self.queues.get_mut(&flow).expect("it came");
            if *credits <= 0 {
                *credits += quantum;
                list.pop_front();
                self.old.push_back(flow);
                continue;
            }
            let sent = loop {
                let Some((number, at, len)) = queue.pop_front() else {
                    codel.emptied();
                    break None;
                };
                let left = Bytes(queue.iter().map(|p| p.2).sum());
                match codel.judge(Instant(now), Duration(now - at), left) {
                    HeadVerdict::Send => break Some((number, len)),
                    HeadVerdict::Excess => self.dropped.push(number),
                }
            };
            let Some((number, len)) = sent else {
                list.pop_front();
                if is_new && !self.old.is_empty() {
                    self.old.push_back(flow);
                }
                continue;
            };
            *credits -= len as i64;
            if self.queues.values().all(|(q, ..)| q.is_empty()) {
                // Asked again at once, everybody is found idle.
                assert_eq!(self.dequeue(now), None);
            }
            return Some(number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random arrivals of a few flows: the same packets go in the same order. Two flows of different size never have
    /// equally many bytes, so that there is one longest queue.
    #[test]
    fn agrees_with_the_model(
        quantum in 100u32..3000,
        limit in 5u32..60,
        batch in 1u32..70,
        steps in prop::collection::vec((0u16..5, 1usize..12, 0u64..9), 1..60),
    ) {
        let codel = CoDelConfig {
            target: Duration::from_millis(2),
            interval: Duration::from_millis(9),
            mtu: Bytes(300),
            ecn: false,
        };
        let config = FqCoDelConfig { flows: 65_536, quantum, batch, codel };
        let mut model = Model {
            config,
            limit: limit as usize,
            queues: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            dropped: vec![],
        };
        let settings = format!(
            "flows = 65536, quantum = {quantum} B, limit = {limit} packets, batch = {batch}, target = 2 ms, \
             interval = 9 ms, mtu = 300 B, ecn = no"
        );
        let mut line = line(&settings);
        // Primes, of which no few sums meet; the number travels as the destination port.
        const LENS: [u16; 5] = [1009, 1103, 1201, 1301, 1409];
        let (mut number, mut order) = (0u16, vec![]);
        let mut busy_until = 0u64;
        let sends = |model: &mut Model, until: u64, order: &mut Vec<u16>, busy: &mut u64, lens: &[u16]| {
            while *busy <= until {
                let Some(sent) = model.dequeue(*busy) else { break };
                order.push(sent);
                *busy += u64::from(lens[usize::from(sent)]) * 1000;
            }
        };
        let mut lens = vec![];
        for (flow, packets, millis) in steps {
            for _ in 0..packets {
                let len = LENS[usize::from(flow)];
                lens.push(len);
                let now = line.now().0;
                sends(&mut model, now, &mut order, &mut busy_until, &lens);
                busy_until = busy_until.max(now);
                model.enqueue(flow, (number, now, u64::from(len)));
                let frame = UdpFrame { ip_len: len - 14, src_port: flow, ..UdpFrame::default() };
                line.push("", &frame);
                sends(&mut model, now, &mut order, &mut busy_until, &lens);
                number += 1;
            }
            line.run_for(Duration::from_millis(millis));
            let now = line.now().0;
            sends(&mut model, now, &mut order, &mut busy_until, &lens);
        }
        let ours: Vec<u64> = line.gone().iter().map(|p| p.len).collect();
        let theirs: Vec<u64> = order.iter().map(|n| u64::from(lens[usize::from(*n)])).collect();
        prop_assert_eq!(ours, theirs);
        prop_assert_eq!(line.report("dropped_packets"), model.dropped.len() as u64);
    }

    /// Whatever the sizes, flows that always have packets get the same bytes.
    #[test]
    fn greedy_flows_get_the_same_bytes(
        quantum in 64u32..4000,
        lens in prop::array::uniform4(60u16..1500),
        millis in 20u64..120,
    ) {
        let settings = format!("quantum = {quantum} B, limit = 8000 packets, target = 1 s, interval = 10 s");
        let mut line = line(&settings);
        for (flow, len) in lens.iter().enumerate() {
            // More than it can send in the time.
            for _ in 0..millis * 1000 / u64::from(*len) + 10 {
                push(&mut line, flow as u16, *len, 0);
            }
        }
        line.run_for(Duration::from_millis(millis));
        let mut bytes = [0u64; 4];
        // The first left before the others were there.
        for gone in &line.gone()[1..] {
            bytes[usize::from(gone.flow)] += gone.len;
        }
        let most = u64::from(*lens.iter().max().expect("four"));
        let apart = bytes.iter().max().expect("four") - bytes.iter().min().expect("four");
        prop_assert!(apart <= 2 * u64::from(quantum) + 2 * most, "{:?}", bytes);
    }

    #[test]
    fn fq_codel_reports_what_it_does(calls in calls(), flows in 1u32..9, batch in 1u32..5, overhead in 0u32..9) {
        let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(9_000)), rate: Rate::ZERO, overhead };
        let codel = CoDelConfig {
            target: Duration::from_micros(300),
            interval: Duration::from_millis(1),
            mtu: Bytes(100),
            ecn: true,
        };
        check_any_order(FqCoDel::new(FqCoDelConfig { flows, quantum: 300, batch, codel }, queue), &calls);
    }
}

#[test]
fn a_sparse_flow_passes_greedy_ones() {
    let mut line = line("limit = 1000 packets");
    for n in 0..1000u32 {
        // Ten flows with four times the rate, and one of a small packet every 50 ms: a turn of all takes 20.
        for flow in 0..4 {
            push(&mut line, 100 + ((n * 4 + flow) % 10) as u16, 1000, 0);
        }
        if n % 50 == 47 {
            push(&mut line, 1, 200, 0);
        }
        line.run_for(Duration::from_millis(1));
    }
    line.run_for(Duration::from_secs(2));
    let sparse: Vec<_> = line.gone().iter().filter(|p| p.flow == 1).collect();
    assert_eq!(sparse.len(), 20);
    // Nobody else is new: it waits for the packet on the line.
    let longest = sparse.iter().map(|p| p.waited).max();
    assert!(longest <= Some(Duration::from_millis(1)), "{longest:?}");
    assert!(line.report("at_head") > 0);
}

#[test]
fn the_longest_queue_loses_half_and_others_nothing() {
    let mut line = line("limit = 100 packets, batch = 16, target = 1 s, interval = 10 s");
    for flow in 0..10 {
        push(&mut line, 1 + flow, 500, 0);
    }
    for n in 0..91 {
        push(&mut line, 99, 1000, 0);
        assert_eq!(line.report("overflowed"), 0, "{n}");
    }
    push(&mut line, 99, 1000, 0);
    // Half of its 92 would be 46.
    assert_eq!((line.report("overflowed"), line.held()), (16, 85));
    assert_eq!(line.drops(DropReason::QueueFull), 16);
    line.run_for(Duration::from_secs(1));
    let small = line.gone().iter().filter(|p| p.len == 500).count();
    assert_eq!((small, line.gone().len()), (10, 86));
    assert_eq!((line.report("new_flows"), line.report("active_flows")), (11, 0));
}

#[test]
fn capable_packets_are_marked_and_none_of_them_is_lost() {
    for (settings, marks) in [("ecn = yes", true), ("ecn = no", false)] {
        let mut line = line(&format!("limit = 4000 packets, {settings}"));
        for n in 0..2000u16 {
            push(&mut line, n % 2, 1000, 2);
            line.run_for(Duration::from_micros(500));
        }
        line.run_for(Duration::from_secs(2));
        let seen = line.gone().iter().filter(|p| p.tos & 3 == 3).count() as u64;
        assert_eq!(line.report("marked"), seen);
        assert_eq!((seen > 10, line.report("at_head") > 10), (marks, !marks), "{settings}: {seen}");
        assert_eq!(line.drops(DropReason::CoDel), line.report("at_head"));
    }
}

#[test]
fn a_successor_keeps_packets_and_order_of_flows() {
    for next in ["flows = 1024", "flows = 7, quantum = 500 B"] {
        let mut line = line("flows = 1024");
        for n in 0..60u16 {
            push(&mut line, n % 6, 100 + n, 0);
        }
        line.run_for(Duration::from_millis(2));
        line.replace("Shaper", &format!("8 Mbit/s, discipline = fq_codel, {next}"));
        line.run_for(Duration::from_secs(1));
        assert_eq!(line.gone().len(), 60, "{next}");
        for flow in 0..6 {
            let lens: Vec<_> = line.gone().iter().filter(|p| p.flow == flow).map(|p| p.len).collect();
            assert!(lens.len() == 10 && lens.is_sorted(), "{next}: {lens:?}");
        }
    }
}

#[test]
fn the_hash_is_of_the_flow_and_the_key() {
    let pool = perhop_packet::Pool::new(4);
    let packet = |change: &dyn Fn(&mut UdpFrame)| {
        let mut frame = UdpFrame::default();
        change(&mut frame);
        let frame = frame.to_vec();
        let mut packet = pool.packet(&frame).expect("few");
        packet.meta_mut().layout = perhop_wire::dissect(&frame).expect("UDP");
        packet
    };
    let hash = |change: &dyn Fn(&mut UdpFrame), key| {
        let packet = packet(change);
        let hash = hash_of(&packet, key);
        packet.release();
        hash
    };
    let plain = hash(&|_| {}, 7);
    // Size, code point and ECN are not of the flow.
    assert_eq!(hash(&|f| (f.ip_len, f.ecn, f.dscp) = (900, 3, perhop_units::Dscp::EF), 7), plain);
    let others: [&dyn Fn(&mut UdpFrame); 4] =
        [&|f| f.src_port = 9, &|f| f.dst_port = 9, &|f| f.src[3] = 9, &|f| f.dst[0] = 9];
    for (n, change) in others.iter().enumerate() {
        assert_ne!(hash(change, 7), plain, "{n}");
    }
    assert_ne!(hash(&|_| {}, 8), plain);
    // Flows spread evenly: 4,096 over 64 queues, by χ² with 63 degrees of freedom at 10⁻⁴ (114.8).
    let mut queues = [0f64; 64];
    for n in 0..4096u16 {
        let hash = hash(&|f| (f.src_port, f.src[2]) = (n % 64, (n / 64) as u8), 41);
        queues[(hash >> 58) as usize] += 1.0;
    }
    let chi: f64 = queues.iter().map(|n| (n - 64.0) * (n - 64.0) / 64.0).sum();
    assert!(chi < 114.8, "key 41: χ² = {chi}");
}
