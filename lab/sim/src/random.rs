//! Random streams: one for each entity, so that adding one changes nothing for the others.

use perhop_units::mix;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Streams below this number belong to directions of links.
pub(crate) const TRANSPORT: u64 = 1 << 32;
/// Those of disciplines, one for each direction of a link.
pub(crate) const DISCIPLINES: u64 = 2 << 32;
/// Those of routers, one for each node.
pub(crate) const ROUTERS: u64 = 3 << 32;
/// Those of agents, one for each node.
pub(crate) const AGENTS: u64 = 4 << 32;

/// Those of controllers, one for each node: which of their messages are lost or late.
pub(crate) const CONTROLLERS: u64 = 5 << 32;

/// The stream of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream `number` of a repetition.
    pub(crate) fn new(seed: u64, repetition: u32, number: u64) -> Self {
        // The second word: neighbouring seeds are spread over the whole state.
        let mut word = seed ^ (u64::from(repetition) << 40) ^ number.wrapping_mul(mix::GAMMA);
        mix::next(&mut word);
        Self(Pcg64Mcg::seed_from_u64(mix::next(&mut word)))
    }

    /// The seed of somebody who has random numbers of his own: as independent of other streams, repetitions and seeds as
    /// this stream is.
    pub(crate) fn seed(seed: u64, repetition: u32, number: u64) -> u64 {
        Self::new(seed, repetition, number).0.next_u64()
    }

    /// 32 random bits.
    pub(crate) fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn seeds_of_entities_repetitions_and_runs_differ() {
        let mut seeds = BTreeSet::new();
        for seed in 0..16 {
            for repetition in 0..16 {
                for group in [0, TRANSPORT, DISCIPLINES, ROUTERS, AGENTS, CONTROLLERS] {
                    seeds.extend((0..8).map(|i| Stream::seed(seed, repetition, group + i)));
                }
            }
        }
        assert_eq!(seeds.len(), 16 * 16 * 6 * 8);
    }
}
