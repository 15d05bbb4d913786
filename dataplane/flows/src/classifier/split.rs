//! The tuple space of one place: tables by mask.
//!
//! Source: the merging of tuples after J. Daly et al., "TupleMerge: fast software packet processing for online packet
//! classification", IEEE/ACM Transactions on Networking 27(4), 2019.

use super::entry::Entry;
use super::key::Packed;
use super::relax::relax;
use super::rule::Pattern;
use super::secret::Secret;
use super::space::{Limit, MAX_CHAIN, Search};
use super::table::{Found, Lines, bound};

/// A table of a coarser mask takes a rule in while the chain is shorter than this: the merging of tuples.
const MERGE_CHAIN: usize = 8;

/// What the visit to one table found, for `explain`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub rules: usize,
    pub compared: usize,
    /// Number of the rule.
    pub matched: Option<u32>,
}

/// Rules that are compared under one mask (or a finer one, in the chain).
#[derive(Clone, Debug)]
struct Table<const A: usize> {
    mask: Packed<A>,
    /// Rank of the first rule inside, or less.
    best: u64,
    /// Rules taken out since the first of them that had `best`.
    best_gone: usize,
    lines: Lines,
}

/// Tables in the order of their best rules.
#[derive(Clone, Debug)]
pub(crate) struct Split<const A: usize> {
    tables: Vec<Table<A>>,
    secret: Secret,
}

impl<const A: usize> Split<A> {
    /// No rules.
    pub fn new(secret: Secret) -> Self {
        Self { tables: Vec::new(), secret }
    }

    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Rules inside.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|t| t.lines.len()).sum()
    }

    /// Rank of the first rule, or less.
    pub fn best(&self) -> u64 {
        self.tables.first().map_or(u64::MAX >> 24, |t| t.best)
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|t| t.lines.bytes() + size_of::<Table<A>>()).sum()
    }

    /// The longest chain. O(rules × chain).
    pub fn longest_chain(&self, entries: &[Entry<A>]) -> usize {
        let chain = |t: &Table<A>, n: Found| {
            t.lines.count(self.secret.hash_masked(&entries[n.number() as usize].words(), &t.mask))
        };
        self.tables.iter().flat_map(|t| t.lines.iter().map(|n| chain(t, n))).max().unwrap_or(0)
    }

    /// All rules inside.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.tables.iter().flat_map(|t| t.lines.iter().map(Found::number))
    }

    /// Asks for the memory that a search for `key` reads first.
    #[inline]
    pub fn prefetch(&self, key: &Packed<A>) {
        if let Some(table) = self.tables.first() {
            table.lines.prefetch(self.secret.hash_masked(key, &table.mask));
        }
    }

    /// Looks for better rules.
    #[inline(never)]
    pub fn search<'a>(&'a self, search: &mut Search<'_, 'a, A>) {
        for table in &self.tables {
            if bound(table.best) > search.bound {
                return;
            }
            table.lines.each(self.secret.hash_masked(search.key, &table.mask), |rule| {
                if rule.bound() <= search.bound {
                    search.compare(rule.number());
                }
            });
        }
    }

    /// As [`Split::search`], telling what each table said.
    pub fn explain<'a>(&'a self, search: &mut Search<'_, 'a, A>, mut tell: impl FnMut(Visit)) {
        for table in &self.tables {
            if bound(table.best) > search.bound {
                return;
            }
            let mut visit = Visit { rules: table.lines.len(), compared: 0, matched: None };
            let outside = search.best.take();
            table.lines.each(self.secret.hash_masked(search.key, &table.mask), |rule| {
                if rule.bound() <= search.bound {
                    visit.compared += 1;
                    search.compare(rule.number());
                }
            });
            visit.matched = search.best.map(Entry::slot);
            if let Some(outside) = outside {
                let better = search.best.is_some_and(|b| super::space::before(b, outside, search.names));
                search.best = if better { search.best } else { Some(outside) };
                search.bound = search.best.map_or(u32::MAX, |b| bound(b.rank()));
            }
            tell(visit);
        }
    }

    /// Adds a rule: to the finest table that may take it in without a long chain; else to a new one, relaxed or exact,
    /// of at most `room`; else to any whose chain has room.
    pub fn insert(&mut self, number: u32, entries: &[Entry<A>], room: usize) -> Result<(), Limit> {
        let entry = &entries[number as usize];
        let at = self.table_for(&entry.pattern(), room)?;
        let table = &mut self.tables[at];
        table.best = table.best.min(entry.rank());
        let mask = table.mask;
        let new = Found::new(bound(entry.rank()), number);
        let secret = self.secret;
        let of = |n: u32| secret.hash_masked(&entries[n as usize].words(), &mask);
        table.lines.insert(of(number), new, of);
        self.rise(at);
        Ok(())
    }

    fn table_for(&mut self, pattern: &Pattern<A>, room: usize) -> Result<usize, Limit> {
        let relaxed = relax(&pattern.mask);
        let mut merged: Option<(u32, usize)> = None;
        let mut fallback: Option<(usize, usize)> = None;
        let (mut has_relaxed, mut has_exact) = (false, false);
        for (at, table) in self.tables.iter().enumerate().filter(|(_, t)| t.mask.is_within(&pattern.mask)) {
            has_relaxed |= table.mask == relaxed;
            has_exact |= table.mask == pattern.mask;
            let bits = table.mask.ones();
            if merged.is_some_and(|(b, _)| bits <= b) {
                continue;
            }
            let hash = self.secret.hash_masked(&pattern.value, &table.mask);
            let chain = table.lines.count(hash);
            if chain < MERGE_CHAIN {
                merged = Some((bits, at));
            } else if chain < MAX_CHAIN && fallback.is_none_or(|(c, _)| chain < c) {
                fallback = Some((chain, at));
            }
        }
        if let Some((_, at)) = merged {
            return Ok(at);
        }
        if self.tables.len() < room && !has_exact {
            let mask = if has_relaxed { pattern.mask } else { relaxed };
            self.tables.push(Table { mask, best: u64::MAX, best_gone: 0, lines: Lines::default() });
            return Ok(self.tables.len() - 1);
        }
        match fallback {
            Some((_, at)) => Ok(at),
            None if has_exact => Err(Limit::Chain),
            None => Err(Limit::Tables),
        }
    }

    /// Takes out the rule with number `slot`; gives its entry's number.
    pub fn remove(&mut self, slot: u32, pattern: &Pattern<A>, entries: &[Entry<A>]) -> Option<u32> {
        let (at, hash, number) = self.tables.iter().enumerate().find_map(|(at, table)| {
            if !table.mask.is_within(&pattern.mask) {
                return None;
            }
            let hash = self.secret.hash_masked(&pattern.value, &table.mask);
            let mut found = None;
            table.lines.each(hash, |n| {
                if entries[n.number() as usize].slot() == slot {
                    found = Some(n.number());
                }
            });
            found.map(|number| (at, hash, number))
        })?;
        let table = &mut self.tables[at];
        table.lines.remove(hash, number);
        if table.lines.len() == 0 {
            self.tables.remove(at);
        } else if table.best_gone > 0 || entries[number as usize].rank() == table.best {
            // Looking for the new first rule is put off, so that it costs each change little.
            table.best_gone += 1;
            if table.best_gone * 4 > table.lines.len() {
                let ranks = table.lines.iter().map(|n| entries[n.number() as usize].rank());
                (table.best, table.best_gone) = (ranks.min().unwrap_or(0), 0);
                self.sink(at);
            }
        }
        Some(number)
    }

    /// Restores the order after a table's best has become better.
    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.tables[at].best < self.tables[at - 1].best {
            self.tables.swap(at, at - 1);
            at -= 1;
        }
    }

    /// Restores the order after a table's best has become worse.
    fn sink(&mut self, mut at: usize) {
        while at + 1 < self.tables.len() && self.tables[at + 1].best < self.tables[at].best {
            self.tables.swap(at, at + 1);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Match, Rule, RuleBook};
    use perhop_packet::FilterId;

    /// Whatever number a router has drawn, neighbours are taken, and lie near where they are looked for.
    #[test]
    fn neighbouring_addresses_are_taken_under_every_secret() {
        const RULES: u32 = 10_000;
        let rule = |n: u32| Rule {
            id: FilterId(n),
            tier: 0,
            priority: n,
            name: format!("host/{n}").into(),
            matches: Match {
                dst: Some(std::net::IpAddr::from((0x0a00_0000 | n).to_be_bytes()).into()),
                ..Match::default()
            },
            action: Action::default(),
        };
        for seed in [0, 88, 991, 1_135, 1_329] {
            let mut book = RuleBook::keyed(seed);
            book.change((0..RULES).map(rule).collect(), &[]).expect("none is refused");
            assert_eq!(book.classifier().len(), RULES as usize);
            let reach = book.classifier().v4.reach();
            assert!(reach <= 8, "{reach} lines with seed {seed}");
        }
    }
}
