//! Tuple space search over packed keys.
//!
//! Source: V. Srinivasan, S. Suri, G. Varghese, "Packet classification using tuple space search", SIGCOMM 1999; the
//! merging of tuples after J. Daly et al., "TupleMerge: fast software packet processing for online packet
//! classification", IEEE/ACM Transactions on Networking 27(4), 2019.

use super::pages::Pages;
use super::rule::{Compiled, Pattern};
use std::sync::Arc;

/// Tables one address family may have. A packet of a new flow visits each once at worst.
pub const MAX_TABLES: usize = 512;
/// Rules that may share one masked value of one table.
pub const MAX_CHAIN: usize = 64;
/// A table of a coarser mask takes a rule in while the chain is shorter than this: the merging of tuples.
const MERGE_CHAIN: usize = 8;

/// A limit of [`Space`] that a rule would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Tables,
    Chain,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Of the value under the table's mask; tells chains that share a bucket apart.
    hash: u64,
    order: u64,
    rule: Arc<Compiled>,
}

impl Entry {
    fn before(&self, other: &Self) -> bool {
        (self.order, &self.rule.rule.name) < (other.order, &other.rule.rule.name)
    }
}

/// Rules that are compared under one mask (or a finer one, in the chain).
#[derive(Clone, Debug)]
struct Table<const N: usize> {
    mask: [u64; N],
    /// Least tier and priority inside, or less.
    best: u64,
    /// A rule that had `best` has been taken out.
    best_is_low: bool,
    entries: Pages<Entry>,
}

/// What the visit to one table found, for `explain`.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub rules: usize,
    pub compared: usize,
    pub matched: Option<Arc<Compiled>>,
}

/// The rules of one address family.
#[derive(Clone, Debug)]
pub(crate) struct Space<const N: usize> {
    /// By `best`.
    tables: Vec<Arc<Table<N>>>,
    /// Which coarser mask a new table takes.
    relax: fn(&[u64; N]) -> [u64; N],
}

impl<const N: usize> Space<N> {
    pub fn new(relax: fn(&[u64; N]) -> [u64; N]) -> Self {
        Self { tables: Vec::new(), relax }
    }

    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The longest chain, for reports and tests. O(rules × chain).
    pub fn longest_chain(&self) -> usize {
        let chain =
            |t: &Table<N>, e: &Entry| t.entries.bucket(e.hash).iter().filter(|o| o.hash == e.hash).count();
        self.tables.iter().flat_map(|t| t.entries.iter().map(|e| chain(t, e))).max().unwrap_or(0)
    }

    /// The first rule by order that matches. One hash probe a table, best tables first, until no table can be better.
    #[inline]
    pub fn find(&self, key: &[u64; N]) -> Option<&Arc<Compiled>> {
        let mut best: Option<&Entry> = None;
        for table in &self.tables {
            if best.is_some_and(|b| b.order < table.best) {
                break;
            }
            let hash = hash(key, &table.mask);
            for entry in table.entries.bucket(hash) {
                if best.is_some_and(|b| !entry.before(b)) {
                    break;
                }
                if entry.hash == hash && matches(&entry.rule, key) {
                    best = Some(entry);
                    break;
                }
            }
        }
        best.map(|b| &b.rule)
    }

    /// As [`Space::find`], telling what each table said.
    pub fn explain(&self, key: &[u64; N], mut visit: impl FnMut(Visit)) {
        let mut best: Option<&Entry> = None;
        for table in &self.tables {
            if best.is_some_and(|b| b.order < table.best) {
                break;
            }
            let hash = hash(key, &table.mask);
            let mut compared = 0;
            let found = table.entries.bucket(hash).iter().filter(|e| e.hash == hash).find(|e| {
                compared += 1;
                matches(&e.rule, key)
            });
            visit(Visit {
                rules: table.entries.len(),
                compared,
                matched: found.map(|e| Arc::clone(&e.rule)),
            });
            if let Some(found) = found.filter(|f| best.is_none_or(|b| f.before(b))) {
                best = Some(found);
            }
        }
    }

    /// Adds a rule. [`Space::settle`] must follow before the next search.
    pub fn insert(&mut self, rule: &Arc<Compiled>, pattern: &Pattern<N>) -> Result<(), Limit> {
        let at = self.table_for(pattern)?;
        let table = Arc::make_mut(&mut self.tables[at]);
        table.best = table.best.min(rule.order);
        let entry =
            Entry { hash: hash(&pattern.value, &table.mask), order: rule.order, rule: Arc::clone(rule) };
        table.entries.insert(entry, |e| e.hash, Entry::before);
        Ok(())
    }

    /// The table for a rule: the finest that may take it in without a long chain; else a new one, relaxed or exact;
    /// else, at the limit of tables, any whose chain has room.
    fn table_for(&mut self, pattern: &Pattern<N>) -> Result<usize, Limit> {
        let mut merged: Option<(u32, usize)> = None;
        let mut fallback: Option<(usize, usize)> = None;
        let relaxed = (self.relax)(&pattern.mask);
        let (mut has_relaxed, mut has_exact) = (false, false);
        for (at, table) in self.tables.iter().enumerate() {
            if table.mask.iter().zip(&pattern.mask).any(|(coarse, fine)| coarse & !fine != 0) {
                continue;
            }
            has_relaxed |= table.mask == relaxed;
            has_exact |= table.mask == pattern.mask;
            let hash = hash(&pattern.value, &table.mask);
            let chain = table.entries.bucket(hash).iter().filter(|e| e.hash == hash).count();
            let bits = table.mask.iter().map(|w| w.count_ones()).sum();
            if chain < MERGE_CHAIN && merged.is_none_or(|(b, _)| bits > b) {
                merged = Some((bits, at));
            }
            if chain < MAX_CHAIN && fallback.is_none_or(|(c, _)| chain < c) {
                fallback = Some((chain, at));
            }
        }
        if let Some((_, at)) = merged {
            return Ok(at);
        }
        if self.tables.len() < MAX_TABLES && !has_exact {
            let mask = if has_relaxed { pattern.mask } else { relaxed };
            self.tables.push(Arc::new(Table {
                mask,
                best: u64::MAX,
                best_is_low: false,
                entries: Pages::default(),
            }));
            return Ok(self.tables.len() - 1);
        }
        match fallback {
            Some((_, at)) => Ok(at),
            None if has_exact => Err(Limit::Chain),
            None => Err(Limit::Tables),
        }
    }

    /// Takes a rule out. [`Space::settle`] must follow before the next search.
    pub fn remove(&mut self, rule: &Compiled, pattern: &Pattern<N>) {
        let is = |e: &Entry| e.rule.rule.id == rule.rule.id;
        let at = self.tables.iter().position(|table| {
            let finer = table.mask.iter().zip(&pattern.mask).all(|(coarse, fine)| coarse & !fine == 0);
            finer && table.entries.bucket(hash(&pattern.value, &table.mask)).iter().any(is)
        });
        let Some(at) = at else { return };
        let table = Arc::make_mut(&mut self.tables[at]);
        let hash = hash(&pattern.value, &table.mask);
        table.entries.remove(hash, is);
        table.best_is_low |= table.best == rule.order;
        if table.entries.len() == 0 {
            self.tables.remove(at);
        }
    }

    /// Restores the order of tables after changes.
    pub fn settle(&mut self) {
        for table in self.tables.iter_mut().filter(|t| t.best_is_low) {
            let table = Arc::make_mut(table);
            table.best = table.entries.iter().map(|e| e.order).min().unwrap_or(u64::MAX);
            table.best_is_low = false;
        }
        self.tables.sort_by_key(|t| t.best);
    }
}

/// Whether `key` agrees with the rule in full.
#[inline]
fn matches<const N: usize>(rule: &Compiled, key: &[u64; N]) -> bool {
    // Only one of the two patterns has N words; the compiler drops the other arm.
    let masked = if N == 3 { agrees(rule.v4.as_ref(), key) } else { agrees(rule.v6.as_ref(), key) };
    masked && rule.ports_match(key[N - 2])
}

#[inline]
fn agrees<const M: usize>(pattern: Option<&Pattern<M>>, key: &[u64]) -> bool {
    pattern.is_some_and(|p| p.value.iter().zip(&p.mask).zip(key).all(|((v, m), k)| k & m == *v))
}

/// Mixes the masked words. Not keyed: rules come from the operator, and a packet can do no worse than meet the
/// longest chain.
#[inline]
fn hash<const N: usize>(key: &[u64; N], mask: &[u64; N]) -> u64 {
    let mut h = 0x9e37_79b9_7f4a_7c15_u64;
    for (k, m) in key.iter().zip(mask) {
        let product = u128::from(h ^ (k & m)) * 0xd6e8_feb8_6659_fd93_u128;
        h = (product as u64) ^ ((product >> 64) as u64) ^ h.rotate_left(23);
    }
    h
}
