//! The places that a key has, the one with the best rule first.

use super::sieve::PAIRS;
use super::table::Found;

/// The places of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates {
    found: [Found; PAIRS],
    len: usize,
    /// The best two; most searches need no more.
    best: [Found; 2],
    /// How many have been searched, and the last of them.
    searched: usize,
    last: Found,
    /// There are others that are not remembered: prefixes that share tags by chance.
    pub more: bool,
}

impl Default for Candidates {
    fn default() -> Self {
        Self {
            found: [Found::NEVER; PAIRS],
            len: 0,
            best: [Found::NEVER; 2],
            searched: 0,
            last: Found::NEVER,
            more: false,
        }
    }
}

impl Candidates {
    #[inline]
    pub fn clear(&mut self) {
        (self.len, self.best, self.searched, self.more) = (0, [Found::NEVER; 2], 0, false);
    }

    #[inline]
    pub fn note(&mut self, place: Found, is: bool) {
        if self.len == PAIRS {
            self.more |= is;
            return;
        }
        self.found[self.len] = place;
        self.len += usize::from(is);
        let place = if is { place } else { Found::NEVER };
        let [first, second] = self.best;
        self.best = [first.min(place), second.min(first.max(place))];
    }

    /// The number of the place with the best rule; without places it is nobody's.
    #[inline]
    pub fn first(&self) -> u32 {
        self.best[0].number()
    }

    /// The next place with the best rule, unless nothing there can be better than `bound`.
    #[inline]
    pub fn next(&mut self, bound: u32) -> Option<u32> {
        let now = match self.best.get(self.searched) {
            Some(now) => *now,
            None => {
                let later = |place: &Found| if *place > self.last { *place } else { Found::NEVER };
                self.found[..self.len].iter().map(later).fold(Found::NEVER, Found::min)
            }
        };
        if now == Found::NEVER || now.bound() > bound {
            return None;
        }
        (self.searched, self.last) = (self.searched + 1, now);
        Some(now.number())
    }
}
