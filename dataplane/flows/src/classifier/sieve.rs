//! Which pairs of prefix lengths a packet's two addresses may have rules for.
//!
//! A prefix is counted at the nearest of five lengths ([`Steps`]) that is not longer. For each address a table of sets: a
//! prefix's set has the steps of the other side that occur together with it. A packet needs the pairs of steps that are
//! in a set of its source and in one of its destination. Sets may have pairs too many (prefixes share sets by their hash,
//! removed rules leave theirs until the next sifting), never too few.
//!
//! Source: tuple pruning, V. Srinivasan, S. Suri, G. Varghese, "Packet classification using tuple space search", SIGCOMM
//! 1999, §5.

/// Lengths at which prefixes are counted; the first is 0.
pub(crate) const STEPS: usize = 5;
/// A bit a pair of steps: that of the destination, plus [`STEPS`] times that of the source.
pub(crate) type Pairs = u32;
/// Pairs there can be.
pub(crate) const PAIRS: usize = STEPS * STEPS;

/// Step of source and of destination.
pub(crate) type Steps = [u8; 2];

/// What is hashed of source and destination at each step.
pub(crate) type Words = [[u64; STEPS]; 2];

/// The number of a pair.
#[inline]
pub(crate) fn pair(steps: Steps) -> usize {
    usize::from(steps[0]) * STEPS + usize::from(steps[1])
}

/// The steps of a pair.
#[inline]
pub(crate) fn steps_of_pair(pair: usize) -> Steps {
    [(pair / STEPS) as u8, (pair % STEPS) as u8]
}

/// The numbers of the bits that are set, from the lowest on.
#[inline]
pub(crate) fn each_bit(mut bits: u32, mut see: impl FnMut(usize)) {
    while bits != 0 {
        see(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Where rules are counted that are compared under a mask of addresses.
pub(crate) fn steps_of<const A: usize>(mask: &[u64; A]) -> Steps {
    [0, 1].map(|side| {
        let (bits, lengths): (u32, [u32; STEPS]) = if A == 1 {
            ((mask[0] << (32 * side) >> 32).count_ones(), [0, 8, 16, 24, 32])
        } else {
            let [high, low] = [mask[2 * side % A], mask[(2 * side + 1) % A]];
            (high.count_ones() + low.count_ones(), [0, 32, 48, 64, 128])
        };
        lengths.iter().filter(|l| **l <= bits).count() as u8 - 1
    })
}

/// Words of addresses, or of a rule's prefixes up to their steps.
#[inline]
pub(crate) fn words<const A: usize>(addresses: &[u64; A]) -> Words {
    [0, 1].map(|side| {
        if A == 1 {
            let address = addresses[0] << (32 * side) >> 32;
            // The ones set prefixes of different lengths apart.
            [0, address >> 24 | 1 << 32, address >> 16 | 1 << 33, address >> 8 | 1 << 34, address | 1 << 35]
        } else {
            let (high, low) = (addresses[2 * side % A], addresses[(2 * side + 1) % A]);
            let whole = high ^ low.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32);
            [0, high >> 32, high >> 16 ^ 1 << 62, high, whole]
        }
    })
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    /// Of sources and of destinations; powers of two.
    sets: [Vec<u8>; 2],
    /// Sets that are not empty.
    used: [usize; 2],
    /// Pairs that occur.
    pairs: Pairs,
    /// Steps that occur.
    steps: [[bool; STEPS]; 2],
}

impl Default for Sieve {
    fn default() -> Self {
        Self { sets: [vec![0; 64], vec![0; 64]], used: [0; 2], pairs: 0, steps: [[false; STEPS]; 2] }
    }
}

/// Up to this many pairs, looking for all costs less than asking the sets.
const FEW: u32 = 2;

impl Sieve {
    /// An empty sieve for as many prefixes as this one has, twice as much, and some.
    #[must_use]
    pub fn anew(&self) -> Self {
        let room = |used: usize| vec![0; (8 * used).next_power_of_two().max(64)];
        Self { sets: self.used.map(room), ..Self::default() }
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.sets.iter().map(Vec::capacity).sum()
    }

    /// Adds a rule's prefixes. Whether there is room for them; without, another sieve must be made.
    #[must_use]
    pub fn add(&mut self, steps: Steps, words: &Words) -> bool {
        self.pairs |= 1 << pair(steps);
        for side in 0..2 {
            let (own, other) = (usize::from(steps[side]), steps[1 - side]);
            self.steps[side][own] = true;
            let at = slot(words[side][own], self.sets[side].len());
            let set = &mut self.sets[side][at];
            self.used[side] += usize::from(*set == 0);
            *set |= 1 << other;
        }
        (0..2).all(|side| self.used[side] * 4 <= self.sets[side].len())
    }

    /// The pairs that a packet may have rules for.
    #[inline]
    pub fn pairs(&self, words: &Words) -> Pairs {
        if self.pairs.count_ones() <= FEW {
            return self.pairs;
        }
        let (mut src, mut dst) = (0, 0);
        for (step, (source, destination)) in words[0].iter().zip(&words[1]).enumerate() {
            if self.steps[0][step] {
                let set = self.sets[0][slot(*source, self.sets[0].len())];
                src |= u32::from(set) << (STEPS * step);
            }
            if self.steps[1][step] {
                let set = self.sets[1][slot(*destination, self.sets[1].len())];
                dst |= SPREAD[usize::from(set) % SPREAD.len()] << step;
            }
        }
        src & dst & self.pairs
    }
}

/// Bit n to bit n · [`STEPS`].
pub(crate) const SPREAD: [u32; 1 << STEPS] = {
    let mut spread = [0; 1 << STEPS];
    let mut set = 0;
    while set < spread.len() {
        let mut n = 0;
        while n < STEPS {
            spread[set] |= ((set >> n & 1) as u32) << (n * STEPS);
            n += 1;
        }
        set += 1;
    }
    spread
};

#[inline]
fn slot(word: u64, sets: usize) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (sets - 1)
}
