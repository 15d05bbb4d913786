//! # Synopsis
//! `Wrr` serves classes in turn, each as many packets as its weight: weighted round robin by packets.
//!
//! # Ports
//! A discipline; as the element `Wrr`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! As [`super::bands`], and
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `weights` | numbers, by spaces | packets a turn | 1 each | one a class, 1 … 1,000 |
//!
//! # Behaviour
//! In its turn a class sends up to its weight of packets, whatever their size: a class of large packets gets more of the
//! line than its weight says. Use [`super::drr`] where sizes differ. A class that runs empty forfeits the rest of its turn.
//!
//! # Counters
//! Those of [`super::bands`].
//!
//! # Invariants
//! Work conserving. Between two turns of a class that always has packets, every other class sends at most its weight, and
//! exactly that if it always has packets too. Order is kept inside a class.
//!
//! # Example
//! `Wrr(web bulk, weights = 3 1, rate = 10 Mbit/s)`
//!
//! # Source
//! Katevenis, Sidiropoulos and Courcoubetis, *Weighted round-robin cell multiplexing in a general-purpose ATM switch
//! chip*, IEEE JSAC 9(8), 1991, here with packets for cells.

use super::bands;
use super::drr::{self, Drr};
use perhop_element::{ElementType, PortCount};

pub(super) const TYPE: ElementType = ElementType {
    name: "Wrr",
    synopsis: "serves classes in turn, each as many packets as its weight",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        bands::build("Wrr", args, cx, |r, bands| {
            let weights = drr::weights(r, bands.len());
            Box::new(Drr::by_packets(bands, &weights))
        })
    },
    sample: |rng| {
        let (rate, weight) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 20);
        format!("ef af41 be, weights = 1 {weight} 2, rate = {rate} Mbit/s, limit = 20 packets")
    },
};

#[cfg(test)]
mod tests {
    use crate::testbed::Line;
    use perhop_units::Duration;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn turns_are_of_so_many_packets(
            weights in prop::array::uniform3(1usize..9),
            lens in prop::collection::vec(60u16..1500, 90),
        ) {
            let [a, b, c] = weights;
            let text = format!("x y z, weights = {a} {b} {c}, rate = 10 Mbit/s, limit = 1000 packets");
            let mut line = Line::new("Wrr", &text, 1);
            for (n, len) in lens.iter().enumerate() {
                line.send(["x", "y", "z"][n % 3], *len);
            }
            line.run_for(Duration::from_secs(1));
            let classes = ["x", "y", "z"].map(|name| line.class(name));
            let order: Vec<usize> =
                line.gone().iter().map(|p| classes.iter().position(|c| *c == p.class).expect("one")).collect();
            prop_assert_eq!(order.len(), 90);
            // The model: turns of up to a weight of packets, until all have gone.
            let (mut left, mut model) = ([30usize; 3], vec![]);
            while model.len() < 90 {
                for n in 0..3 {
                    let turn = weights[n].min(left[n]);
                    model.extend(std::iter::repeat_n(n, turn));
                    left[n] -= turn;
                }
            }
            prop_assert_eq!(order, model);
        }
    }
}
