//! What comes in at the ports: frames in random order in more memory than the last-level cache holds.

use crate::router::port_mac;
use perhop_flows::{BUCKETS, BucketMap};
use perhop_graph::router::Placement;
use perhop_packet::PortId;
use perhop_wire::{MacAddr, build};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How packets are spread over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Load {
    /// Evenly.
    Even,
    /// Four fifths belong to flows of one worker.
    Skewed,
}

impl Load {
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Skewed => "skewed",
        }
    }
}

/// What frames of a port are made from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub load: Load,
    pub flows: u32,
    pub packet: usize,
    pub bytes: usize,
    pub seed: u64,
}

/// Frames of one port, side by side.
#[derive(Debug)]
pub struct Frames {
    memory: Vec<u8>,
    flow_of: Vec<u32>,
    /// Frames of each bucket.
    pub by_bucket: [u64; BUCKETS],
    len: usize,
    stride: usize,
    next: usize,
}

impl Frames {
    /// Frames that come in at `port` of `ports` and go to the others; `placement` is that of several workers, whoever
    /// forwards.
    pub fn new(shape: Shape, port: usize, ports: usize, placement: &Placement) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(shape.seed ^ (port as u64) << 32);
        // By worker: the first one's flows apart from those of the others.
        let mut flows: [Vec<(Vec<u8>, usize)>; 2] = Default::default();
        let mut number = 0u32;
        while flows.iter().map(Vec::len).sum::<usize>() < shape.flows as usize
            || flows.iter().any(Vec::is_empty)
        {
            number += 1;
            let to = (port + 1 + number as usize % (ports - 1)) % ports;
            let frame = frame(&mut random, [port, to], number, shape.packet);
            let layout = perhop_wire::dissect(&frame).unwrap_or_default();
            let bucket = placement.map().bucket(&frame, &layout).unwrap_or(0);
            flows[usize::from(placement.map().worker(bucket) != 0)].push((frame, bucket));
        }
        let stride = shape.packet.next_multiple_of(64);
        let count = (shape.bytes / stride).max(2 * shape.flows as usize);
        let (mut memory, mut flow_of) = (vec![0; count * stride], Vec::with_capacity(count));
        let firsts = flows[0].len();
        let mut by_bucket = [0; BUCKETS];
        for place in memory.chunks_exact_mut(stride) {
            let group = match shape.load {
                Load::Even => usize::from(random.random_range(0..flows[0].len() + flows[1].len()) >= firsts),
                Load::Skewed => usize::from(random.random_range(0..5) == 0),
            };
            let at = random.random_range(0..flows[group].len());
            let (frame, bucket) = &flows[group][at];
            place[..shape.packet].copy_from_slice(frame);
            by_bucket[bucket % BUCKETS] += 1;
            flow_of.push((port << 24 | (group * firsts + at)) as u32);
        }
        Self { memory, flow_of, by_bucket, len: shape.packet, stride, next: 0 }
    }

    /// The next frame with the number of its flow; after the last the first follows.
    #[inline]
    pub fn next(&mut self) -> (&[u8], u32) {
        let at = self.next;
        self.next = if at + 1 == self.flow_of.len() { 0 } else { at + 1 };
        (&self.memory[at * self.stride..][..self.len], self.flow_of[at])
    }
}

/// Places each bucket, the largest first, with the worker that has least so far: within 4/3 of the best there is (Graham,
/// Bounds on multiprocessing timing anomalies, 1969), and much nearer where no bucket is large.
pub fn place_best(loads: &[u64; BUCKETS], workers: usize, map: &BucketMap) {
    let mut order: Vec<usize> = (0..BUCKETS).collect();
    order.sort_by_key(|bucket| std::cmp::Reverse(loads[*bucket]));
    let mut sums = vec![0; workers];
    for bucket in order {
        let least = (0..workers).min_by_key(|worker| sums[*worker]).unwrap_or(0);
        sums[least] += loads[bucket];
        map.give(bucket, least);
    }
}

fn frame(random: &mut Pcg64Mcg, [from, to]: [usize; 2], number: u32, len: usize) -> Vec<u8> {
    let [_, a, b, c] = number.to_be_bytes();
    let payload: Vec<u8> = (42..len).map(|_| random.random()).collect();
    let host = |port: usize| [10 + port as u8, a, b, c];
    build::udp4(host(from), host(to))
        .macs(MacAddr([2, 0, 0, 0, 3, 1]), port_mac(PortId(from as u16)))
        .ports(random.random_range(1024..=65_535), random.random_range(1024..=65_535))
        .payload(&payload)
        .build()
}
