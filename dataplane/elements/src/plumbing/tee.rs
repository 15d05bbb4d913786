//! # Synopsis
//! `Tee(n)` copies every packet to n outputs.
//!
//! # Ports
//! Input 0: packets. Output 0: the original. Outputs 1 … n − 1: copies.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `n` (1st) | number | outputs | 2 | 1 … 32 |
//!
//! # Behaviour
//! A copy has the same bytes and metadata and counts as made. When the pool is exhausted the copy is not made and
//! the original goes on.
//!
//! # Counters
//! `copies_missed` (copies not made for want of a buffer).
//!
//! # Invariants
//! Output 0 gives exactly what came in.
//!
//! # Example
//! `FromPort(lan) -> t :: Tee(2); t[0] -> ToPort(wan); t[1] -> Counter() -> Discard()`
//!
//! # Source
//! None: plumbing.

use super::adapter::{as_any, keep};
use perhop_element::{CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::Batch;

/// Most outputs of a [`Tee`].
const MAX_OUTPUTS: u8 = 32;

/// The element.
#[derive(Debug)]
pub struct Tee {
    outputs: u8,
    missed: u64,
}

impl Tee {
    /// A tee of `outputs`, at least one.
    pub fn new(outputs: u8) -> Self {
        Self { outputs: outputs.max(1), missed: 0 }
    }
}

impl Element for Tee {
    fn type_name(&self) -> &'static str {
        "Tee"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for output in 1..self.outputs {
            for packet in batch.iter() {
                match cx.clone(packet) {
                    Some(copy) => cx.emit(output, copy),
                    None => self.missed += 1,
                }
            }
        }
        cx.emit_all(0, batch);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("copies_missed", self.missed);
    }

    keep!(missed: u64);
    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Tee",
    synopsis: "copies every packet to n outputs",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, MAX_OUTPUTS),
    build: |args, _| {
        let mut r = Reader::new(args);
        let n = r.optional_in("n", Some(0), 2, 1..=MAX_OUTPUTS);
        r.finish(Box::new(Tee::new(n)) as _)
    },
    sample: |rng| (1 + rng.next_u32() % 4).to_string(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;

    #[test]
    fn every_output_sees_the_same_bytes() {
        let mut bench = Bench::new(Tee::new(3), 3);
        let frame = udp(77);
        bench.push(&frame);
        for i in 0..3 {
            let arrived = bench.arrived(i);
            assert_eq!(arrived.len(), 1);
            assert_eq!(arrived[0].1, frame);
        }
        assert_eq!(bench.driver.counters(bench.node).unwrap().made, 2);
    }
}
