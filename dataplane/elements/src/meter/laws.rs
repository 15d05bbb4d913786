//! Arrivals and laws shared by the meters' property tests.

use perhop_units::Color;
use proptest::prelude::*;

/// One packet of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) pre: Color,
}

/// Up to 60 packets with gaps from zero to 4 ms, many of them short.
pub(crate) fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![Just(0u64), 1u64..200, 1u64..100_000, 1u64..4_000_000];
    let color = prop_oneof![Just(Color::Green), Just(Color::Yellow), Just(Color::Red)];
    prop::collection::vec((gap, 1u64..1600, color), 1..60).prop_map(|list| {
        let mut at = 0;
        list.into_iter()
            .map(|(gap, len, pre)| {
                at += gap;
                Arrival { at, len, pre }
            })
            .collect()
    })
}

/// Whether bytes between any two arrivals, both included, are at most `rate` × t + `burst`.
pub(crate) fn bytes_within_envelope(list: &[Arrival], rate: u64, burst: u64) -> bool {
    (0..list.len()).all(|i| {
        let mut sum = 0;
        list[i..].iter().all(|a| {
            sum += i128::from(a.len) * 8_000_000_000;
            sum <= i128::from(rate) * i128::from(a.at - list[i].at) + i128::from(burst) * 8_000_000_000
        })
    })
}
