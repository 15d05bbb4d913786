//! Which rule a packet meets first: pruned tuple search over flat tables, in two copies that control edits in turns.
//!
//! Rules are gathered by the pair of their prefixes, each cut to one of five lengths, so that a packet has 25 places to
//! look at most. A sieve says which of them can be, a directory which there are and the best rank in each: places are
//! searched best first, until none can be better. A place is a list of a few rules in order, or a tuple space of its own,
//! where a rule is hashed by what it compares (a port range by the bits all its ports share) and compared in full.
//!
//! A [`RuleBook`] belongs to control. It makes each change in a copy of the rules that no worker holds, which the
//! workers then take between two batches; the copy they leave is brought up to date with the next change.
//!
//! Limits: [`MAX_TABLES`] tables that a packet may have to visit and [`MAX_CHAIN`] rules that may be compared in each; a
//! rule beyond is refused. Which rules meet in a line depends on the book's secret, see [`RuleBook::keyed`].

mod book;
mod candidates;
pub mod classbench;
mod delta;
mod entry;
mod key;
mod place;
mod refusal;
mod relax;
mod rule;
mod secret;
mod sieve;
mod space;
mod split;
mod table;
mod uses;

pub use book::{Changed, RuleBook};
pub use delta::{Delta, DeltaLog};
pub use key::Key;
pub(crate) use key::{Packed, outer_vlan};
pub use refusal::RuleError;
pub use rule::{Action, Hit, Masked, Match, PortRange, Rule};
pub use space::{MAX_CHAIN, MAX_TABLES};
pub use uses::AuxMask;

use book::Edit;
use entry::Entry;
use key::PackedKey;
use rule::Patterns;
use secret::Secret;
use space::{Limit, Lookup, Space};
use std::sync::Arc;

/// A set of rules as workers search it. Made and changed by a [`RuleBook`]; a copy takes as much memory again.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    v4: Space<1>,
    v6: Space<4>,
    /// By number; what is not needed for every packet.
    rules: Vec<Option<Arc<Rule>>>,
    len: usize,
    aux: AuxMask,
}

/// What one table said about a key.
#[derive(Clone, Debug)]
pub struct TableVisit {
    /// Rules in the table.
    pub rules: usize,
    /// Rules of the chain that were compared.
    pub compared: usize,
    /// The first of them that matched.
    pub matched: Option<Rule>,
}

/// A search in stages, for many keys by turns: each stage asks for the memory that the next one reads.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    key: Option<PackedKey>,
    lookup: Lookup,
}

impl Classifier {
    /// A classifier of `rules`.
    ///
    /// # Errors
    /// The first rule that is wrong or beyond a limit.
    pub fn build(rules: impl IntoIterator<Item = Rule>) -> Result<Arc<Self>, RuleError> {
        Ok(RuleBook::of(rules)?.into_classifier())
    }

    /// What the rule says that `key` meets first. Allocates nothing.
    #[inline]
    pub fn classify(&self, key: &Key) -> Option<Hit> {
        match key.pack() {
            PackedKey::V4(key) => self.v4.find(&key, &self.rules).map(Entry::hit),
            PackedKey::V6(key) => self.v6.find(&key, &self.rules).map(Entry::hit),
        }
    }

    /// First of four stages that together do what [`Classifier::classify`] does; no rules may change in between.
    #[inline]
    pub fn begin(&self, key: &Key, search: &mut Staged) {
        let key = key.pack();
        match &key {
            PackedKey::V4(key) => self.v4.begin(key, &mut search.lookup),
            PackedKey::V6(key) => self.v6.begin(key, &mut search.lookup),
        }
        search.key = Some(key);
    }

    /// Second stage.
    #[inline]
    pub fn advance(&self, search: &mut Staged) {
        match &search.key {
            Some(PackedKey::V4(_)) => self.v4.advance(&mut search.lookup),
            Some(PackedKey::V6(_)) => self.v6.advance(&mut search.lookup),
            None => {}
        }
    }

    /// Third stage.
    #[inline]
    pub fn approach(&self, search: &Staged) {
        match &search.key {
            Some(PackedKey::V4(key)) => self.v4.approach(key, &search.lookup),
            Some(PackedKey::V6(key)) => self.v6.approach(key, &search.lookup),
            None => {}
        }
    }

    /// Last stage: what the rule says that the key of [`Classifier::begin`] meets first. Allocates nothing.
    #[inline]
    pub fn finish(&self, search: &mut Staged) -> Option<Hit> {
        debug_assert!(search.key.is_some(), "each search begins, and is finished once");
        match search.key.take()? {
            PackedKey::V4(key) => self.v4.finish(&key, &self.rules, &mut search.lookup).map(Entry::hit),
            PackedKey::V6(key) => self.v6.finish(&key, &self.rules, &mut search.lookup).map(Entry::hit),
        }
    }

    /// The same by comparing with every rule, field by field: what [`Classifier::classify`] is tested against.
    /// O(rules).
    pub fn linear(&self, key: &Key) -> Option<&Rule> {
        self.rules().filter(|r| r.matches.matches(key)).min_by(|a, b| a.order().cmp(&b.order()))
    }

    /// The tables `key` visits: rules inside, rules compared, rule matched there.
    pub fn explain(&self, key: &Key) -> Vec<TableVisit> {
        let mut visits = Vec::new();
        let rule = |slot: u32| self.rules.get(slot as usize)?.as_deref().cloned();
        let mut tell = |v: split::Visit| {
            visits.push(TableVisit {
                rules: v.rules,
                compared: v.compared,
                matched: v.matched.and_then(rule),
            });
        };
        match key.pack() {
            PackedKey::V4(key) => self.v4.explain(&key, &self.rules, &mut tell),
            PackedKey::V6(key) => self.v6.explain(&key, &self.rules, &mut tell),
        }
        visits
    }

    /// All rules, in no order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter_map(|r| r.as_deref())
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most tables that an IPv4 and an IPv6 packet may have to visit.
    pub fn tables(&self) -> (usize, usize) {
        (self.v4.tables(), self.v6.tables())
    }

    /// Longest chain of the IPv4 and of the IPv6 space. O(rules × chain).
    pub fn longest_chains(&self) -> (usize, usize) {
        (self.v4.longest_chain(), self.v6.longest_chain())
    }

    /// Bytes that are searched; rules as they were given, of which both copies share one, come on top.
    pub fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// What a cached verdict depends on besides connection and in-port.
    pub fn aux_mask(&self) -> AuxMask {
        self.aux
    }

    /// No rules.
    fn new(secret: Secret) -> Self {
        Self { v4: Space::new(secret), v6: Space::new(secret), ..Self::default() }
    }

    /// Makes one change.
    ///
    /// # Errors
    /// The limit a new rule would break; nothing was changed.
    fn apply(&mut self, edit: &Edit) -> Result<(), Limit> {
        let (slot, rule) = (edit.slot, &*edit.rule);
        let at = slot as usize;
        let Patterns { v4, v6 } = Patterns::of(&rule.matches);
        if !edit.inserts {
            v4.iter().for_each(|p| self.v4.remove(slot, p, &self.rules));
            v6.iter().for_each(|p| self.v6.remove(slot, p, &self.rules));
            debug_assert!(self.rules[at].is_some(), "a rule that is taken out is in this copy");
            self.rules[at] = None;
            self.len -= 1;
            return Ok(());
        }
        self.rules.resize(self.rules.len().max(at + 1), None);
        debug_assert!(self.rules[at].is_none(), "a number is one rule's: edits come in their order");
        self.rules[at] = Some(Arc::clone(&edit.rule));
        let mut done = v4.map_or(Ok(()), |p| self.v4.insert(Entry::new(rule, slot, &p), &p, &self.rules));
        if let (Ok(()), Some(p)) = (done, &v6) {
            done = self.v6.insert(Entry::new(rule, slot, p), p, &self.rules);
            if let (Err(_), Some(p)) = (done, &v4) {
                self.v4.remove(slot, p, &self.rules);
            }
        }
        match done {
            Ok(()) => self.len += 1,
            Err(_) => self.rules[at] = None,
        }
        done
    }
}

#[cfg(test)]
pub(crate) mod tests;
