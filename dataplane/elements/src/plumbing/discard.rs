//! # Synopsis
//! `Discard` ends packets on purpose.
//!
//! # Ports
//! Input 0: packets. No output.
//!
//! # Configuration
//! None.
//!
//! # Behaviour
//! Every packet is dropped as `discarded`.
//!
//! # Counters
//! None of its own.
//!
//! # Invariants
//! Holds nothing.
//!
//! # Example
//! `TimedSource(1 Mbit/s) -> Discard()`
//!
//! # Source
//! RFC 3290 §7.1.3 (absolute dropper).

use super::adapter::as_any;
use perhop_element::{Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason};

/// The element.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Element for Discard {
    fn type_name(&self) -> &'static str {
        "Discard"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            cx.drop(packet, DropReason::Discarded);
        }
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Discard",
    synopsis: "ends packets on purpose",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(0),
    build: |args, _| Reader::new(args).finish(Box::new(Discard) as _),
    sample: |_| String::new(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;

    #[test]
    fn everything_is_dropped_as_discarded() {
        let mut bench = Bench::new(Discard, 0);
        bench.push(&udp(100));
        let counters = bench.driver.counters(bench.node).unwrap();
        assert_eq!(counters.drops[DropReason::Discarded.index()], 1);
    }
}
