//! One class of the tree: queue, estimator and counters.

use super::config::{CbqConfig, ClassConfig};
use super::estimator::Estimator;
use crate::drop::{RedConfig, RedState};
use crate::queue::FifoQueue;
use perhop_element::{CounterSink, Cx};
use perhop_packet::{DropReason, Packet};
use perhop_units::{Bytes, Instant, QueueLimit, Rate};

/// RED counts in packets; this many units are one.
const UNITS: u64 = 256;

/// What happened to a class so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets sent.
    pub packets: u64,
    /// Their frame bytes.
    pub bytes: u64,
    /// Packets after which the class had used more than its share.
    pub overlimit: u64,
    /// Packets sent, by it or a class below, with the share of a class above it.
    pub borrows: u64,
    /// Suspensions.
    pub delays: u64,
    /// Times it was found without a lender, suspended already or not.
    pub over_actions: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// A node of the tree.
#[derive(Debug)]
pub struct Class {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) borrow: Option<usize>,
    /// 0 for leaves, otherwise one more than the deepest child's.
    pub(super) depth: u32,
    pub(super) estimator: Estimator,
    /// Suspended: the tick that ends it.
    pub(super) asleep: Option<Instant>,
    pub(super) queue: FifoQueue,
    /// Its packets are in a queue of somebody else's, and there are some.
    pub(super) elsewhere: bool,
    red: Option<RedState>,
    /// Bytes it earns in a round.
    pub(super) quantum: i64,
    /// Bytes it may still send in its turn.
    pub(super) allowance: i64,
    pub(super) counters: ClassCounters,
}

impl Class {
    /// A class as configured, without depth and quantum.
    pub fn new(config: &CbqConfig, class: &ClassConfig, parent: usize) -> Self {
        Self {
            name: class.name.clone(),
            parent: Some(parent),
            borrow: class.borrow.then_some(parent),
            depth: 0,
            estimator: Estimator::new(&config.estimator(class)),
            asleep: None,
            queue: FifoQueue::new(QueueLimit::Packets(class.limit), class.share, config.overhead),
            elsewhere: false,
            red: class.red.then(|| RedState::new(red_config(config, class))),
            quantum: 0,
            allowance: 0,
            counters: ClassCounters::default(),
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> ClassCounters {
        self.counters
    }

    /// Whether packets of it wait.
    pub(super) fn has_packets(&self) -> bool {
        self.elsewhere || !self.queue.is_empty()
    }

    /// Offers a packet to the queue.
    pub(super) fn offer(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        if let Some(red) = &mut self.red {
            let queued = Bytes(self.queue.len() as u64 * UNITS);
            let capable = packet.meta().layout.is_ecn_capable();
            let verdict = red.decide(cx.now(), queued, Bytes(UNITS), capable, cx.random());
            packet = match verdict.carry_out(packet, DropReason::RedEarly) {
                Ok(packet) => packet,
                Err((packet, reason)) => return self.refuse(cx, packet, reason),
            };
        }
        self.queue.lasted(cx.now());
        if let Err(packet) = self.queue.offer(packet) {
            self.refuse(cx, packet, DropReason::QueueFull);
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) {
        self.counters.dropped += 1;
        cx.drop(packet, reason);
    }

    /// Takes the oldest packet.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.queue.lasted(now);
        let packet = self.queue.pop()?;
        if self.queue.is_empty()
            && let Some(red) = &mut self.red
        {
            red.became_idle(now);
        }
        Some(packet)
    }

    /// Takes over packets, estimate and counters of the same class of a predecessor.
    pub(super) fn adopt(&mut self, old: &mut Self) {
        self.queue.adopt(&mut old.queue);
        self.estimator.adopt(&old.estimator);
        self.asleep = old.asleep;
        self.counters = old.counters;
        if let (Some(red), Some(old)) = (&mut self.red, &old.red) {
            red.adopt(old);
        }
    }

    /// Reports under the class's name; a class with children has no queue of its own.
    pub(super) fn report(&self, sink: &mut dyn CounterSink) {
        let Class { name, counters: c, .. } = self;
        let mut counter = |what: &str, value| sink.counter(&format!("{what}_{name}"), value);
        counter("overlimit", c.overlimit);
        counter("borrows", c.borrows);
        if self.depth > 0 {
            return;
        }
        counter("packets", c.packets);
        counter("bytes", c.bytes);
        counter("delays", c.delays);
        counter("over_actions", c.over_actions);
        counter("dropped", c.dropped);
        sink.gauge(&format!("backlog_bytes_{name}"), self.queue.frame_bytes());
        sink.gauge(&format!("backlog_packets_{name}"), self.queue.len() as u64);
    }
}

/// RED of a class, in 256ths of a packet.
fn red_config(config: &CbqConfig, class: &ClassConfig) -> RedConfig {
    let limit = u64::from(class.limit) * UNITS;
    let part = |p: perhop_units::Probability| Bytes((limit * u64::from(p.0)) >> 32);
    let packet_time = class.share.time_for(Bytes(u64::from(class.packet))).0.max(1);
    // A slow class sees few packets: its average must follow them faster.
    let weight = match packet_time {
        20_000_000.. => 6,
        3_333_000.. => 7,
        _ => 9,
    };
    RedConfig {
        min: part(config.red.min),
        max: part(config.red.max),
        max_p: config.red.max_p,
        weight_log2: config.red.weight.unwrap_or(weight),
        gentle: false,
        ecn: config.red.ecn,
        byte_mode: false,
        mean: Bytes(UNITS),
        rate: Rate((u128::from(UNITS) * 8_000_000_000 / u128::from(packet_time)).max(1) as u64),
    }
}
