//! Steering as an element.

use super::*;
use crate::buckets::BUCKETS;
use perhop_element::testkit::Bench;
use perhop_packet::PortId;
use perhop_ring::{Consumer, ring};
use perhop_wire::build::udp4;
use perhop_wire::{Fragment, Layout};
use proptest::prelude::*;

fn map(workers: usize) -> Arc<BucketMap> {
    Arc::new(BucketMap::new(workers, 7))
}

/// A bench of worker 0 of two, with the other's end of the ring.
fn bench(capacity: usize) -> (Bench, Consumer<Handover>) {
    let (to, from) = ring(capacity);
    let mut steer = Steer::new();
    steer.join(map(2), 0, vec![None, Some(to)]);
    (Bench::new(steer, 1), from)
}

fn push(bench: &mut Bench, frame: &[u8]) {
    let mut packet = bench.packet(frame);
    let (meta, frame) = packet.parts_mut();
    meta.layout = perhop_wire::dissect(frame).unwrap();
    meta.parsed = true;
    bench.push_packet(0, packet);
}

fn bucket(map: &BucketMap, frame: &[u8]) -> Option<usize> {
    map.bucket(frame, &perhop_wire::dissect(frame).unwrap())
}

fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    udp4(src, dst).ports(ports.0, ports.1).payload(&[1; 40]).build()
}

#[test]
fn every_flow_goes_to_one_worker_and_what_finds_no_room_is_dropped_for_a_reason() {
    let (mut bench, mut other) = bench(16);
    let map = map(2);
    let (mut mine, mut theirs) = (0, 0);
    for i in 0..200u8 {
        let frame = udp([10, 0, 0, i], [10, 1, 0, 1], (4000, 53));
        match map.worker(bucket(&map, &frame).unwrap()) {
            0 => mine += 1,
            _ => theirs += 1,
        }
        push(&mut bench, &frame);
    }
    assert!(mine > 60 && theirs > 60, "{mine} and {theirs} of 200");
    assert_eq!(bench.sink(0).arrived.len(), mine);
    assert_eq!(other.pop_batch(1000, drop), 16);
    let counters = bench.driver.counters(bench.node).unwrap();
    assert_eq!(counters.consumed, 16);
    assert_eq!(counters.drops[DropReason::RingFull.index()], theirs as u64 - 16);
    assert_eq!(bench.element::<Steer>().take_rung(), 0b10);
    assert_eq!(bench.element::<Steer>().take_rung(), 0);
}

#[test]
fn without_a_crew_everything_passes() {
    let mut bench = Bench::new(Steer::new(), 1);
    for i in 0..20 {
        push(&mut bench, &udp([10, 0, 0, i], [10, 1, 0, 1], (4000, 53)));
    }
    assert_eq!(bench.sink(0).arrived.len(), 20);
    assert_eq!(bench.sink(0).arrived[0].1.meta().in_port, PortId::NONE);
}

#[test]
fn pieces_of_a_datagram_meet_whatever_ports_the_first_one_shows() {
    let map = map(16);
    let frame = udp([10, 0, 0, 1], [10, 1, 0, 1], (4000, 53));
    let layout = perhop_wire::dissect(&frame).unwrap();
    let first = Layout { fragment: Fragment::First, ..layout };
    let later = Layout { fragment: Fragment::Later, src_port: 0, dst_port: 0, ..layout };
    assert_eq!(map.bucket(&frame, &first), map.bucket(&frame, &later));
    assert!(map.bucket(&frame, &first).is_some());
}

#[test]
fn the_key_decides_and_buckets_are_dealt_in_turn() {
    let frame = |i: u8| udp([10, 0, 0, i], [10, 1, 0, 1], (4000, 53));
    let (a, b) = (BucketMap::new(3, 1), BucketMap::new(3, 2));
    assert!((0..20).any(|i| bucket(&a, &frame(i)) != bucket(&b, &frame(i))));
    let mut buckets = [0; 3];
    (0..BUCKETS).for_each(|n| buckets[a.worker(n)] += 1);
    assert_eq!(buckets, [86, 85, 85]);
}

proptest! {
    #[test]
    fn both_directions_have_one_bucket(
        src in any::<[u8; 4]>(), dst in any::<[u8; 4]>(), a in any::<u16>(), b in any::<u16>(), seed in any::<u64>(),
    ) {
        let map = BucketMap::new(16, seed);
        let (there, back) = (udp(src, dst, (a, b)), udp(dst, src, (b, a)));
        prop_assert_eq!(bucket(&map, &there), bucket(&map, &back));
    }
}
