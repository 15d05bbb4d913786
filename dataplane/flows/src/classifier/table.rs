//! A hash table of small numbers: six to a cache line, with a tag and a bound each.

use perhop_packet::{equal_lanes, prefetch};

/// Numbers of one line.
const SLOTS: usize = 6;
/// Where a line counts, behind its tags, how many numbers were sent on to the next one because it was full.
const SENT_ON: usize = 6;
/// Numbers a line has on average when the table grows.
const FULL: usize = 2;
/// The tag of a place that holds nothing.
const EMPTY: u16 = 0;

/// One cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Line {
    /// Parts of the hash by which places are told apart; behind them [`SENT_ON`], and one that is not used.
    tags: [u16; 8],
    bounds: [u32; SLOTS],
    numbers: [u32; SLOTS],
}

const NOTHING: Line = Line { tags: [EMPTY; 8], bounds: [0; SLOTS], numbers: [0; SLOTS] };

/// A number and the least rank behind it, as [`bound`] gives it. In the order of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found(u64);

impl Found {
    /// After every other.
    pub const NEVER: Self = Self(u64::MAX);

    #[inline]
    pub fn new(bound: u32, number: u32) -> Self {
        Self(u64::from(bound) << 32 | u64::from(number))
    }

    #[inline]
    pub fn bound(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub fn number(self) -> u32 {
        self.0 as u32
    }
}

/// A rank of 40 bits as one of 32 that is never out of order, and exact below 2²⁶.
#[inline]
pub(crate) fn bound(rank: u64) -> u32 {
    let shift = (64 - 26_u32).saturating_sub(rank.leading_zeros());
    (shift << 25) + (rank >> shift) as u32
}

/// Numbers by hash, several for one hash if need be. Lines are visited in order until one has sent nothing on, or as far as
/// any number lies from its own.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// A power of two of them.
    lines: Vec<Line>,
    len: usize,
    /// Most lines between a number's own and that in which it has been since the table grew. Lines that have sent something on
    /// may follow each other all the way round; whoever looks ends here.
    reach: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::of(1)
    }
}

#[inline]
fn tag(hash: u64) -> u16 {
    (hash as u16).max(EMPTY + 1)
}

impl Lines {
    /// Empty lines, a power of two of them.
    fn of(lines: usize) -> Self {
        Self { lines: vec![NOTHING; lines], len: 0, reach: 0 }
    }

    /// Numbers inside.
    pub fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub fn reach(&self) -> usize {
        self.reach
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.lines.len() - 1)
    }

    /// Asks for the memory in which `hash` is looked for.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[self.home(hash)]);
    }

    /// The number under `hash` if there is one at most, and whether there is one. `None`: ask [`Lines::each`].
    #[inline]
    pub fn only(&self, hash: u64) -> Option<(Found, bool)> {
        let line = &self.lines[self.home(hash)];
        let same = line.same(tag(hash));
        if line.tags[SENT_ON] != 0 || same & same.wrapping_sub(1) != 0 {
            return None;
        }
        let at = same.trailing_zeros() as usize % 8 % SLOTS;
        Some((Found::new(line.bounds[at], line.numbers[at]), same != 0))
    }

    /// Gives every number under `hash`, and rarely another.
    #[inline]
    pub fn each(&self, hash: u64, mut see: impl FnMut(Found)) {
        let (tag, last) = (tag(hash), self.lines.len() - 1);
        let home = self.home(hash);
        for at in home..=home + self.reach {
            let line = &self.lines[at & last];
            let mut same = line.same(tag);
            while same != 0 {
                let i = same.trailing_zeros() as usize % 8 % SLOTS;
                see(Found::new(line.bounds[i], line.numbers[i]));
                same &= same - 1;
            }
            if line.tags[SENT_ON] == 0 {
                return;
            }
        }
    }

    /// How many numbers [`Lines::each`] gives.
    pub fn count(&self, hash: u64) -> usize {
        let mut count = 0;
        self.each(hash, |_| count += 1);
        count
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = Found> {
        let inside = |line: &Line, i: &usize| line.tags[*i] != EMPTY;
        self.lines.iter().flat_map(move |line| {
            (0..SLOTS).filter(move |i| inside(line, i)).map(|i| Found::new(line.bounds[i], line.numbers[i]))
        })
    }

    /// Adds a number, wherever there is room; `hash_of` gives the hash of any number inside, for growing.
    pub fn insert(&mut self, hash: u64, new: Found, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.lines.len() * FULL {
            let lines = self.lines.len() * 2;
            let old = std::mem::replace(self, Self::of(lines));
            old.iter().for_each(|n| self.put(hash_of(n.number()), n));
        }
        self.put(hash, new);
    }

    fn put(&mut self, hash: u64, new: Found) {
        let (home, last) = (self.home(hash), self.lines.len() - 1);
        for at in home.. {
            let line = &mut self.lines[at & last];
            if let Some(free) = line.free() {
                (line.tags[free], line.bounds[free], line.numbers[free]) =
                    (tag(hash), new.bound(), new.number());
                self.len += 1;
                self.reach = self.reach.max(at - home);
                return;
            }
            line.tags[SENT_ON] = line.tags[SENT_ON].saturating_add(1);
        }
    }

    /// Says anew what is behind `new`'s number, which is under `hash`.
    pub fn rebound(&mut self, hash: u64, new: Found) {
        if let Some((at, i)) = self.place(hash, new.number()) {
            self.lines[at].bounds[i] = new.bound();
        }
    }

    /// Takes out `number`, which is under `hash`.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let Some((found, i)) = self.place(hash, number) else { return };
        self.lines[found].tags[i] = EMPTY;
        self.len -= 1;
        let last = self.lines.len() - 1;
        let mut at = self.home(hash);
        while at != found {
            let sent_on = &mut self.lines[at].tags[SENT_ON];
            // A count that was too large for its place is not known any more.
            *sent_on -= u16::from(*sent_on < u16::MAX);
            at = (at + 1) & last;
        }
    }

    fn place(&self, hash: u64, number: u32) -> Option<(usize, usize)> {
        let (tag, last) = (tag(hash), self.lines.len() - 1);
        let home = self.home(hash);
        for at in (home..=home + self.reach).map(|at| at & last) {
            let line = &self.lines[at];
            if let Some(i) = (0..SLOTS).find(|i| line.tags[*i] == tag && line.numbers[*i] == number) {
                return Some((at, i));
            }
            if line.tags[SENT_ON] == 0 {
                break;
            }
        }
        None
    }
}

impl Line {
    /// A bit a place that has `tag`.
    #[inline]
    fn same(&self, tag: u16) -> u32 {
        equal_lanes(&self.tags, tag) & ((1 << SLOTS) - 1)
    }

    /// A place that holds nothing.
    fn free(&self) -> Option<usize> {
        self.tags[..SLOTS].iter().position(|t| *t == EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of pairs. Hashes are few, so that numbers share them and lines overflow.
        #[test]
        fn it_holds_what_a_list_holds(steps in proptest::collection::vec((any::<bool>(), 0..24u64), 0..400)) {
            let hash = |n: u64| (n % 6) << 32 | (n % 9);
            let mut list: Vec<(u64, Found)> = Vec::new();
            let mut lines = Lines::default();
            for (number, (insert, pick)) in steps.into_iter().enumerate() {
                if insert || list.is_empty() {
                    let new = Found::new(pick as u32, number as u32);
                    list.push((hash(pick), new));
                    let of = |n: u32| list.iter().find(|(_, m)| m.number() == n).unwrap().0;
                    lines.insert(hash(pick), new, of);
                } else if pick % 3 == 0 {
                    let at = pick as usize % list.len();
                    list[at].1 = Found::new(pick as u32 + 100, list[at].1.number());
                    lines.rebound(list[at].0, list[at].1);
                } else {
                    let (hash, gone) = list.swap_remove(pick as usize % list.len());
                    lines.remove(hash, gone.number());
                }
                prop_assert_eq!(lines.len(), list.len());
                for n in 0..24 {
                    let mut found = Vec::new();
                    lines.each(hash(n), |f| found.push(f));
                    if let Some((only, is)) = lines.only(hash(n)) {
                        prop_assert_eq!(found.as_slice(), if is { &[only][..] } else { &[] });
                    }
                    let same = |h: u64| tag(h) == tag(hash(n));
                    prop_assert!(list.iter().filter(|(h, _)| *h == hash(n)).all(|(_, m)| found.contains(m)));
                    prop_assert!(found.iter().all(|m| list.iter().any(|(h, l)| l == m && same(*h))));
                }
            }
            let mut all: Vec<Found> = lines.iter().collect();
            all.sort_unstable();
            let mut expected: Vec<Found> = list.iter().map(|(_, m)| *m).collect();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn bounds_keep_the_order_of_ranks(a in 0..1u64 << 40, near in -70_000..70_000i64) {
            let b = a.saturating_add_signed(near).min((1 << 40) - 1);
            for (a, b) in [(a, b), (a >> 13, b >> 13), (a >> 20, b >> 20)] {
                prop_assert!(bound(a.min(b)) <= bound(a.max(b)));
                prop_assert!(a == b || a.max(b) >= 1 << 26 || bound(a) != bound(b));
            }
        }
    }

    /// What is empty now has been full: every line has sent on something that is still there.
    #[test]
    fn a_search_ends_when_every_line_has_sent_something_on() {
        const LINES: u64 = 8;
        let hash = |number: u32| u64::from(number) % LINES << 32 | u64::from(number + 1);
        let mut lines = Lines::default();
        let mut next = [0; LINES as usize];
        let mut add = |lines: &mut Lines, home: u64| {
            let number = home as u32 + LINES as u32 * next[home as usize];
            next[home as usize] += 1;
            lines.insert(hash(number), Found::new(0, number), hash);
            number
        };
        // As many lines as that, empty again.
        let first: Vec<u32> = (0..=LINES).map(|n| add(&mut lines, n % LINES)).collect();
        first.iter().for_each(|number| lines.remove(hash(*number), *number));
        assert_eq!((lines.lines.len(), lines.len()), (LINES as usize, 0));
        for home in 0..LINES {
            let taken = lines.lines[home as usize].tags[..SLOTS].iter().filter(|t| **t != EMPTY).count();
            let full: Vec<u32> = (taken..SLOTS).map(|_| add(&mut lines, home)).collect();
            add(&mut lines, home);
            full.iter().for_each(|number| lines.remove(hash(*number), *number));
        }
        assert!(lines.lines.iter().all(|line| line.tags[SENT_ON] > 0), "it is the case meant");
        let nobody = u64::from(u16::MAX);
        assert_eq!((0..LINES).map(|home| lines.count(home << 32 | nobody)).sum::<usize>(), 0);
        lines.remove(nobody, 0);
        lines.rebound(nobody, Found::new(1, 0));
        assert!(lines.iter().all(|n| lines.count(hash(n.number())) == 1), "everything is found");
    }
}
