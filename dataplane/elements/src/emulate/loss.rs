//! # Synopsis
//! `Loss(probability)` drops packets at random, independently.
//!
//! # Ports
//! Input 0 and output 0: packets.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `probability` (1st) | probability | | required | 0 … 100 % |
//!
//! # Behaviour
//! Each packet is dropped (`emulated_loss`) with the given probability. Random bits come from the world's seeded
//! stream; none are drawn at 0.
//!
//! # Counters
//! None of its own: the drops are counted by reason.
//!
//! # Invariants
//! Order is kept; the same seed loses the same packets.
//!
//! # Example
//! `FromPort(lan) -> Loss(0.5 %) -> ToPort(wan)`
//!
//! # Source
//! None: an independent (Bernoulli) loss model.

use crate::plumbing::adapter::as_any;
use perhop_element::{Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason};
use perhop_units::Probability;

/// The element.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    probability: Probability,
}

impl Loss {
    /// Loses packets with `probability`.
    pub fn new(probability: Probability) -> Self {
        Self { probability }
    }
}

impl Element for Loss {
    fn type_name(&self) -> &'static str {
        "Loss"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        if self.probability == Probability::ZERO {
            return cx.emit_all(0, batch);
        }
        for packet in batch.drain() {
            if self.probability.happens(cx.random()) {
                cx.drop(packet, DropReason::EmulatedLoss);
            } else {
                cx.emit(0, packet);
            }
        }
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Loss",
    synopsis: "drops packets at random",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let probability = r.required_in("probability", Some(0), Probability::ZERO..=Probability::ONE);
        r.finish(Box::new(Loss::new(probability)) as _)
    },
    sample: |rng| format!("{} %", rng.next_u32() % 101),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;

    #[test]
    fn the_loss_rate_is_the_probability() {
        let (n, p, seed) = (20_000u32, 0.1, 5);
        let element = (TYPE.build)(&args("10 %"), &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 0, seed);
        // An unconnected output drops too, under another reason, so nothing piles up.
        for _ in 0..n / 200 {
            let mut batch = Batch::new();
            for _ in 0..200 {
                batch.push(bench.packet(&udp(40)));
            }
            bench.push_batch(0, &mut batch);
        }
        let lost = bench.driver.counters(bench.node).unwrap().drops[DropReason::EmulatedLoss.index()];
        // Five standard deviations of the binomial distribution.
        let (mean, sigma) = (f64::from(n) * p, (f64::from(n) * p * (1.0 - p)).sqrt());
        assert!((lost as f64 - mean).abs() < 5.0 * sigma, "{lost} of {n} with seed {seed}");
    }

    #[test]
    fn never_and_always() {
        for (p, arrive) in [(Probability::ZERO, 10), (Probability::ONE, 0)] {
            let mut bench = Bench::new(Loss::new(p), 1);
            (0..10).for_each(|_| bench.push(&udp(40)));
            assert_eq!(bench.arrived(0).len(), arrive);
        }
    }
}
