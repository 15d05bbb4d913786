//! # Synopsis
//! `Steer()` sends each packet to the worker that has its flow.
//!
//! # Ports
//! Input 0: dissected frames (`meta.parsed`) of the ports of this worker. Output 0: those whose flow this worker has.
//!
//! # Configuration
//! None in graph text. Which worker this is, what map it goes by and the rings to the others come from whoever runs the
//! workers ([`Steer::join`]); until then everything passes.
//!
//! # Behaviour
//! A flow is a connection with both its directions: addresses, protocol, ports and VLAN tags hash to one of [`crate::BUCKETS`]
//! buckets, and the [`BucketMap`] says which worker has the bucket. Pieces of a fragmented datagram go by addresses,
//! protocol and tags alone, the first one too, so that all of them meet. What is not IP stays where it came in. A packet
//! of another worker's bucket is put into the ring to that worker, where it goes on behind that worker's `Steer`; if the
//! ring is full, it is dropped (`ring_full`). Packets keep their order, towards each worker too.
//!
//! # Counters
//! `steered`: packets handed to other workers; those for which there was no room are in `dropped_ring_full`.
//!
//! # Invariants
//! The two directions of a connection have one bucket. Of two packets of one bucket the earlier arrives first.
//!
//! # Example
//! `FromPort(lan) -> Steer() -> Flows() -> ToPort(wan)`
//!
//! # Source
//! Toeplitz-like steering by receive side scaling, with a symmetric key: both directions of a connection share state.

use crate::buckets::{BucketCounts, BucketMap};
use perhop_element::{
    ArgError, Args, BuildCx, CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader,
};
use perhop_packet::{Batch, DropReason, Handover, Packet};
use perhop_ring::Producer;
use std::any::Any;
use std::sync::Arc;

/// What a [`Steer`] knows of the workers.
#[derive(Debug)]
struct Crew {
    map: Arc<BucketMap>,
    me: usize,
    /// Where what comes in is counted, if somebody wants to know.
    counts: Option<Arc<BucketCounts>>,
    /// To each worker, this one too.
    to: Vec<Lane>,
    /// Of the packets at hand.
    workers: Vec<u8>,
}

/// The way to a worker.
#[derive(Debug)]
struct Lane {
    /// There is none to this worker itself, nor to one that cannot be reached.
    ring: Option<Producer<Handover>>,
    staged: Vec<Packet>,
}

/// The element.
#[derive(Debug, Default)]
pub struct Steer {
    crew: Option<Crew>,
    /// Bits of workers whose rings got something.
    rung: u32,
    steered: u64,
}

impl Steer {
    /// Lets everything pass.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes by `map` from now on, as worker `me`, with a ring to each other worker by its number. A worker without a ring is
    /// one that cannot be reached: its packets are dropped.
    pub fn join(&mut self, map: Arc<BucketMap>, me: usize, rings: Vec<Option<Producer<Handover>>>) {
        let lane = |ring| Lane { ring, staged: Vec::with_capacity(Batch::MAX) };
        let mut to: Vec<Lane> = rings.into_iter().map(lane).collect();
        to.resize_with(to.len().max(me + 1), || lane(None));
        to[me].ring = None;
        self.crew = Some(Crew { map, me, counts: None, to, workers: Vec::with_capacity(Batch::MAX) });
    }

    /// Counts from now on what comes in at the ports of this worker, by bucket. Behind [`Steer::join`].
    pub fn count(&mut self, counts: Arc<BucketCounts>) {
        if let Some(crew) = &mut self.crew {
            crew.counts = Some(counts);
        }
    }

    /// Bits of the workers whose rings got something since the last call.
    #[inline]
    pub fn take_rung(&mut self) -> u32 {
        std::mem::take(&mut self.rung)
    }
}

impl Crew {
    /// The worker of a packet.
    #[inline(always)]
    fn worker(&self, packet: &Packet) -> usize {
        let Some(bucket) = self.map.bucket(packet.frame(), &packet.meta().layout) else { return self.me };
        if let Some(counts) = &self.counts {
            counts.count(self.me, bucket);
        }
        self.map.worker(bucket)
    }
}

impl Element for Steer {
    fn type_name(&self) -> &'static str {
        "Steer"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        let Some(crew) = &mut self.crew else { return cx.emit_all(0, batch) };
        // First where all of them go: hashes that do not wait for each other, and no branch that nobody can foretell.
        let mut workers = std::mem::take(&mut crew.workers);
        workers.extend(batch.iter().map(|packet| crew.worker(packet) as u8));
        for (packet, worker) in batch.drain().zip(workers.drain(..)) {
            match crew.to.get_mut(usize::from(worker)) {
                Some(lane) => lane.staged.push(packet),
                None => cx.drop(packet, DropReason::RingFull),
            }
        }
        crew.workers = workers;
        for (worker, lane) in crew.to.iter_mut().enumerate().filter(|(_, lane)| !lane.staged.is_empty()) {
            let staged = lane.staged.drain(..);
            match &mut lane.ring {
                Some(ring) => {
                    let put = cx.hand_over(ring, staged);
                    self.steered += put as u64;
                    self.rung |= u32::from(put > 0) << worker;
                }
                None if worker == crew.me => staged.for_each(|packet| batch.push(packet)),
                None => staged.for_each(|packet| cx.drop(packet, DropReason::RingFull)),
            }
        }
        cx.emit_all(0, batch);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("steered", self.steered);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(crate) const TYPE: ElementType = ElementType {
    name: "Steer",
    synopsis: "Sends each packet to the worker that has its flow.",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build,
    sample: |_| String::new(),
};

fn build(args: &Args, _cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    Reader::new(args).finish(Box::new(Steer::new()) as _)
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
