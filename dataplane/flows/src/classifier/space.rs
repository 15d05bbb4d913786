//! The rules of one address family: places by prefix pair, in them lists or tuple spaces of their own.
//!
//! Rules are gathered by the prefixes of both addresses, each cut to one of five lengths: a [`Place`]. One directory
//! leads to places and says the least rank in each, so that a packet's places (one a pair of lengths at most) are
//! searched in the order of their best rule, until none can be better than what was found. Few rules of one place are a
//! list in order; more are split into tables by what else they compare ([`Split`]).
//!
//! Source: V. Srinivasan, S. Suri, G. Varghese, "Packet classification using tuple space search", SIGCOMM 1999.

use super::candidates::Candidates;
use super::entry::Entry;
use super::key::Packed;
use super::place::{LIST, NO_SPLIT, Place, hash};
use super::rule::{Pattern, Rule};
use super::secret::Secret;
use super::sieve::{PAIRS, Sieve, Steps, Words, each_bit, pair, steps_of, steps_of_pair, words};
use super::split::{Split, Visit};
use super::table::{Found, Lines, bound};
use perhop_packet::prefetch;
use std::cmp::Ordering;
use std::sync::Arc;

/// Tables one address family may have for one packet. A packet of a new flow visits each once at worst.
pub const MAX_TABLES: usize = 512;
/// Rules that may share one masked value of one table.
pub const MAX_CHAIN: usize = 64;

/// A limit of [`Space`] that a rule would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Tables,
    Chain,
}

/// All rules by number, for what their entries leave out.
pub(crate) type Names = [Option<Arc<Rule>>];

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Space<const A: usize> {
    directory: Lines,
    places: Vec<Place<A>>,
    free_places: Vec<u32>,
    splits: Vec<Split<A>>,
    free_splits: Vec<u32>,
    entries: Vec<Entry<A>>,
    free_entries: Vec<u32>,
    sieve: Sieve,
    /// Rules taken out since the sieve was made.
    stale: usize,
    /// Most tables of a place, by pair of steps; a place that is a list counts as one. Found anew with the sieve.
    tables: [usize; PAIRS],
    secret: Secret,
}

/// Rules taken out that the sieve may remember at least.
const STALE: usize = 1_024;

impl<const A: usize> Default for Space<A> {
    fn default() -> Self {
        Self::new(Secret::default())
    }
}

/// A search: the best so far, among `entries`.
pub(crate) struct Search<'k, 'a, const A: usize> {
    pub key: &'k Packed<A>,
    pub names: &'k Names,
    pub entries: &'a [Entry<A>],
    pub best: Option<&'a Entry<A>>,
    /// Nothing above this can be better.
    pub bound: u32,
}

/// A search in stages, each of which asks for the memory that the next one reads.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    hashes: [u64; PAIRS],
    len: usize,
    places: Candidates,
}

impl Default for Lookup {
    fn default() -> Self {
        Self { hashes: [0; PAIRS], len: 0, places: Candidates::default() }
    }
}

impl<'k, 'a, const A: usize> Search<'k, 'a, A> {
    #[inline]
    fn new(key: &'k Packed<A>, names: &'k Names, entries: &'a [Entry<A>]) -> Self {
        Self { key, names, entries, best: None, bound: u32::MAX }
    }

    /// Compares with a rule; whether it matches.
    #[inline]
    pub fn compare(&mut self, number: u32) -> bool {
        let entry = &self.entries[number as usize];
        let matches = entry.matches(self.key);
        if matches && self.best.is_none_or(|b| before(entry, b, self.names)) {
            self.best = Some(entry);
            self.bound = bound(entry.rank());
        }
        matches
    }
}

impl<const A: usize> Space<A> {
    /// No rules.
    pub fn new(secret: Secret) -> Self {
        Self {
            directory: Lines::default(),
            places: Vec::new(),
            free_places: Vec::new(),
            splits: Vec::new(),
            free_splits: Vec::new(),
            entries: Vec::new(),
            free_entries: Vec::new(),
            sieve: Sieve::default(),
            stale: 0,
            tables: [0; PAIRS],
            secret,
        }
    }

    /// The most tables that one packet may have to visit.
    pub fn tables(&self) -> usize {
        self.tables.iter().sum()
    }

    /// How far from its own line a place may lie.
    #[cfg(test)]
    pub fn reach(&self) -> usize {
        self.directory.reach()
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.directory.bytes()
            + self.places.capacity() * size_of::<Place<A>>()
            + self.splits.iter().map(Split::bytes).sum::<usize>()
            + self.entries.capacity() * size_of::<Entry<A>>()
            + self.sieve.bytes()
    }

    /// The longest chain, for reports and tests. O(rules × chain).
    pub fn longest_chain(&self) -> usize {
        let chain = |place: &Place<A>| match self.splits.get(place.split as usize) {
            Some(split) => split.longest_chain(&self.entries),
            None => usize::from(place.len),
        };
        self.places.iter().map(chain).max().unwrap_or(0)
    }

    /// The first rule by order that matches.
    #[inline]
    pub fn find<'a>(&'a self, key: &Packed<A>, names: &Names) -> Option<&'a Entry<A>> {
        let mut places = Candidates::default();
        self.each_hash(&words(&key.addresses), |_, hash| self.look(hash, &mut places));
        self.search_all(key, names, &mut places)
    }

    /// First stage of [`Space::find`]: where places may be.
    #[inline]
    pub fn begin(&self, key: &Packed<A>, lookup: &mut Lookup) {
        lookup.len = 0;
        self.each_hash(&words(&key.addresses), |_, hash| {
            self.directory.prefetch(hash);
            lookup.hashes[lookup.len] = hash;
            lookup.len += 1;
        });
    }

    /// Second stage: which places there are, and what the best of them compares.
    #[inline]
    pub fn advance(&self, lookup: &mut Lookup) {
        lookup.places.clear();
        for hash in &lookup.hashes[..lookup.len] {
            self.look(*hash, &mut lookup.places);
        }
        if let Some(place) = self.places.get(lookup.places.first() as usize) {
            prefetch(place);
        }
    }

    /// Third stage: the rule that the best place compares first.
    #[inline]
    pub fn approach(&self, key: &Packed<A>, lookup: &Lookup) {
        let Some(place) = self.places.get(lookup.places.first() as usize) else { return };
        match self.splits.get(place.split as usize) {
            Some(split) => split.prefetch(key),
            None => {
                let entry = place.likely(key).next().and_then(|number| self.entries.get(number as usize));
                entry.into_iter().for_each(prefetch);
            }
        }
    }

    /// Last stage: what [`Space::find`] gives.
    #[inline]
    pub fn finish<'a>(&'a self, key: &Packed<A>, names: &Names, lookup: &mut Lookup) -> Option<&'a Entry<A>> {
        self.search_all(key, names, &mut lookup.places)
    }

    /// Searches places from the best on.
    #[inline]
    fn search_all<'a>(
        &'a self,
        key: &Packed<A>,
        names: &Names,
        places: &mut Candidates,
    ) -> Option<&'a Entry<A>> {
        let mut search = Search::new(key, names, &self.entries);
        while let Some(number) = places.next(search.bound) {
            self.search(number, &mut search);
        }
        if places.more {
            self.search_rest(&mut search);
        }
        search.best
    }

    /// Searches all places whatever their best: for keys that have more than there is room to remember.
    #[cold]
    #[inline(never)]
    fn search_rest<'a>(&'a self, search: &mut Search<'_, 'a, A>) {
        self.each_hash(&words(&search.key.addresses), |_, hash| {
            self.directory.each(hash, |place| self.search(place.number(), search));
        });
    }

    /// As [`Space::find`], telling what each table said. Places that share tags by chance, which [`Space::find`] may visit
    /// besides, are left out.
    pub fn explain(&self, key: &Packed<A>, names: &Names, mut tell: impl FnMut(Visit)) {
        let mut search = Search::new(key, names, &self.entries);
        let words = words(&key.addresses);
        let mut places = Vec::new();
        self.each_hash(&words, |pair, hash| {
            self.directory.each(hash, |found| {
                let is = self.places[found.number() as usize].is_of(steps_of_pair(pair), &words);
                places.extend(is.then_some(found));
            });
        });
        places.sort_unstable();
        for found in places {
            if found.bound() > search.bound {
                break;
            }
            let place = &self.places[found.number() as usize];
            if let Some(split) = self.splits.get(place.split as usize) {
                split.explain(&mut search, &mut tell);
                continue;
            }
            let mut visit = Visit { rules: usize::from(place.len), compared: 0, matched: None };
            for number in place.likely(search.key) {
                visit.compared += 1;
                if search.compare(number) {
                    visit.matched = Some(self.entries[number as usize].slot());
                    break;
                }
            }
            tell(visit);
        }
    }

    /// The pairs that a packet may have rules for, and the hash of its place under each.
    #[inline]
    fn each_hash(&self, words: &Words, mut see: impl FnMut(usize, u64)) {
        each_bit(self.sieve.pairs(words), |pair| see(pair, hash::<A>(&self.secret, words, pair)));
    }

    /// Notes the places under `hash`, as many as there is room for.
    #[inline]
    fn look(&self, hash: u64, places: &mut Candidates) {
        match self.directory.only(hash) {
            Some((place, is)) => places.note(place, is),
            None => self.directory.each(hash, |place| places.note(place, true)),
        }
    }

    #[inline]
    fn search<'a>(&'a self, number: u32, search: &mut Search<'_, 'a, A>) {
        let place = &self.places[number as usize];
        if place.split != NO_SPLIT {
            return self.splits[place.split as usize].search(search);
        }
        for number in place.likely(search.key) {
            if search.compare(number) {
                return;
            }
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// The limit it would break; nothing was changed.
    pub fn insert(&mut self, entry: Entry<A>, pattern: &Pattern<A>, names: &Names) -> Result<(), Limit> {
        let steps = steps_of(&pattern.mask.addresses);
        let words = words(&pattern.value.addresses);
        let hash = hash::<A>(&self.secret, &words, pair(steps));
        let number = keep(&mut self.entries, &mut self.free_entries, entry);
        let done = match self.place(hash, steps, &words) {
            Some(place) => self.insert_at(place, number, hash, names),
            None if self.tables[pair(steps)] == 0 && self.tables() >= MAX_TABLES => Err(Limit::Tables),
            None => {
                self.found(steps, number, hash);
                Ok(())
            }
        };
        if done.is_err() {
            self.free_entries.push(number);
            return done;
        }
        if !self.sieve.add(steps, &words) {
            self.sift();
        }
        Ok(())
    }

    /// The place of prefixes.
    fn place(&self, hash: u64, steps: Steps, wanted: &Words) -> Option<u32> {
        let mut found = None;
        self.directory.each(hash, |place| {
            if self.places[place.number() as usize].is_of(steps, wanted) {
                found = Some(place.number());
            }
        });
        found
    }

    /// Makes a place for a first rule.
    fn found(&mut self, steps: Steps, number: u32, hash: u64) {
        let entry = &self.entries[number as usize];
        let new = Place::new(steps, number, entry);
        let best = bound(entry.rank());
        let place = keep(&mut self.places, &mut self.free_places, new);
        let (places, secret) = (&self.places, &self.secret);
        self.directory.insert(hash, Found::new(best, place), |n| places[n as usize].hash(secret));
        let most = &mut self.tables[pair(steps)];
        *most = (*most).max(1);
    }

    fn insert_at(&mut self, at: u32, number: u32, hash: u64, names: &Names) -> Result<(), Limit> {
        let place = &mut self.places[at as usize];
        let entry = &self.entries[number as usize];
        let pair = pair(place.steps);
        let room = MAX_TABLES - self.tables.iter().sum::<usize>() + self.tables[pair];
        let least = if place.split != NO_SPLIT {
            let split = &mut self.splits[place.split as usize];
            split.insert(number, &self.entries, room)?;
            split.best()
        } else if usize::from(place.len) < LIST {
            let list = place.list();
            let later = |n: &u32| before(entry, &self.entries[*n as usize], names);
            let at = list.iter().position(later).unwrap_or(list.len());
            place.put(at, number, entry);
            self.entries[place.list()[0] as usize].rank()
        } else {
            let mut split = Split::new(self.secret);
            for number in place.list().iter().chain([&number]) {
                split.insert(*number, &self.entries, room)?;
            }
            let best = split.best();
            place.split = keep(&mut self.splits, &mut self.free_splits, split);
            place.len = 0;
            best
        };
        if let Some(split) = self.splits.get(place.split as usize) {
            self.tables[pair] = self.tables[pair].max(split.tables());
        }
        self.directory.rebound(hash, Found::new(bound(least), at));
        Ok(())
    }

    /// Takes out the rule with number `slot`.
    pub fn remove(&mut self, slot: u32, pattern: &Pattern<A>, names: &Names) {
        let steps = steps_of(&pattern.mask.addresses);
        let words = words(&pattern.value.addresses);
        let hash = hash::<A>(&self.secret, &words, pair(steps));
        let Some(at) = self.place(hash, steps, &words) else { return };
        let place = &mut self.places[at as usize];
        let number = if place.split == NO_SPLIT {
            let list = place.list();
            let found = list.iter().position(|n| self.entries[*n as usize].slot() == slot);
            let Some(found) = found else { return };
            place.take(found)
        } else {
            let split = &mut self.splits[place.split as usize];
            let Some(number) = split.remove(slot, pattern, &self.entries) else { return };
            if split.len() <= LIST / 2 {
                let mut list: Vec<u32> = std::mem::replace(split, Split::new(self.secret)).iter().collect();
                let entry = |n: &u32| &self.entries[*n as usize];
                list.sort_unstable_by(|a, b| order(entry(a), entry(b), names));
                self.free_splits.push(place.split);
                place.split = NO_SPLIT;
                list.iter().enumerate().for_each(|(at, n)| place.put(at, *n, entry(n)));
            }
            number
        };
        self.free_entries.push(number);
        if place.len == 0 && place.split == NO_SPLIT {
            self.directory.remove(hash, at);
            self.free_places.push(at);
        } else {
            let least = match self.splits.get(place.split as usize) {
                Some(split) => split.best(),
                None => self.entries[place.list()[0] as usize].rank(),
            };
            self.directory.rebound(hash, Found::new(bound(least), at));
        }
        self.stale += 1;
        if self.stale > STALE.max(self.entries.len() / 2) {
            self.sift();
        }
    }

    /// Makes the sieve anew, and the count of tables.
    fn sift(&mut self) {
        loop {
            let mut sieve = self.sieve.anew();
            let mut fits = true;
            self.tables = [0; PAIRS];
            for place in self.directory.iter().map(|n| &self.places[n.number() as usize]) {
                fits &= sieve.add(place.steps, &place.words());
                let tables = self.splits.get(place.split as usize).map_or(1, Split::tables);
                let most = &mut self.tables[pair(place.steps)];
                *most = (*most).max(tables);
            }
            self.sieve = sieve;
            if fits {
                break;
            }
        }
        self.stale = 0;
    }
}

/// Puts `item` where there is room.
fn keep<T>(items: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    match free.pop() {
        Some(at) => {
            items[at as usize] = item;
            at
        }
        None => {
            items.push(item);
            (items.len() - 1) as u32
        }
    }
}

/// The order of two rules.
fn order<const A: usize>(a: &Entry<A>, b: &Entry<A>, names: &Names) -> Ordering {
    if before(a, b, names) { Ordering::Less } else { Ordering::Greater }
}

/// Whether `a` comes before `b`.
#[inline]
pub(crate) fn before<const A: usize>(a: &Entry<A>, b: &Entry<A>, names: &Names) -> bool {
    let (x, y) = (a.rank(), b.rank());
    if x != y { x < y } else { before_by_name(a.slot(), b.slot(), names) }
}

#[cold]
fn before_by_name(a: u32, b: u32, names: &Names) -> bool {
    let name = |slot: u32| names.get(slot as usize).and_then(|r| r.as_deref()).map(|r| &r.name);
    name(a) < name(b)
}
