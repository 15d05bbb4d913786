//! Which rule a packet meets first: tuple search, with copies that share what did not change.
//!
//! Rules are grouped by the mask they compare under; a group is a hash table, so a search costs one probe a group
//! whatever the number of rules. A port range is hashed by the bits all its ports share and compared in full in the
//! chain. Groups are visited in the order of their best rule, and the search ends when no later group can be better.
//!
//! Limits: [`MAX_TABLES`] groups an address family and [`MAX_CHAIN`] rules a masked value; a rule beyond is refused.

pub mod classbench;
mod delta;
mod key;
mod pages;
mod rule;
mod space;

pub use delta::{Delta, DeltaLog};
pub use key::Key;
pub(crate) use key::outer_vlan;
pub use rule::{Action, Masked, Match, PortRange, Rule};
pub use space::{MAX_CHAIN, MAX_TABLES};

use key::Packed;
use pages::Pages;
use perhop_packet::FilterId;
use rule::Compiled;
use space::{Limit, Space};
use std::sync::Arc;
use thiserror::Error;

/// Why a set of rules was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// One prefix is IPv4, the other IPv6: no packet can match.
    #[error("rule {name}: source and destination prefix are of different address families")]
    FamilyMismatch {
        /// The rule.
        name: Arc<str>,
    },
    /// A range whose last port is below its first.
    #[error("rule {name}: port range {first}-{last} is empty")]
    EmptyRange {
        /// The rule.
        name: Arc<str>,
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// A masked value with bits outside its mask, or a code point mask of more than six bits.
    #[error("rule {name}: {field} value {value:#04x} has bits outside its mask {mask:#04x}")]
    BitsOutsideMask {
        /// The rule.
        name: Arc<str>,
        /// Field.
        field: &'static str,
        /// Value.
        value: u8,
        /// Mask.
        mask: u8,
    },
    /// An id that is in use already, or reserved.
    #[error("rule {name}: id {id} is in use or reserved", id = .id.0)]
    Duplicate {
        /// The rule.
        name: Arc<str>,
        /// Its id.
        id: FilterId,
    },
    /// A rule to be removed that is not there.
    #[error("no rule has id {id}", id = .id.0)]
    Unknown {
        /// The id.
        id: FilterId,
    },
    /// More than [`MAX_TABLES`] groups.
    #[error(
        "rule {name}: it would need one more than the limit of {MAX_TABLES} different combinations of masks"
    )]
    TooManyTables {
        /// The rule.
        name: Arc<str>,
    },
    /// More than [`MAX_CHAIN`] rules under one masked value.
    #[error("rule {name}: more than {MAX_CHAIN} rules overlap in everything but their port ranges")]
    ChainTooLong {
        /// The rule.
        name: Arc<str>,
    },
    /// More rules than [`Classifier::MAX_RULES`].
    #[error("rule {name}: the limit of {limit} rules is reached", limit = Classifier::MAX_RULES)]
    TooManyRules {
        /// The rule.
        name: Arc<str>,
    },
}

/// How many rules look at the bits that differ between packets of one flow: what a cached verdict depends on
/// besides the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    dscp: [u32; 6],
    flags: [u32; 8],
    fragment: u32,
    trust: u32,
}

impl Uses {
    fn count(&mut self, rule: &Rule, step: impl Fn(&mut u32)) {
        let m = &rule.matches;
        for (bit, n) in self.dscp.iter_mut().enumerate() {
            if m.dscp.is_some_and(|d| d.mask >> bit & 1 != 0) {
                step(n);
            }
        }
        for (bit, n) in self.flags.iter_mut().enumerate() {
            if m.tcp_flags.is_some_and(|f| f.mask >> bit & 1 != 0) {
                step(n);
            }
        }
        // Ports and flags are unknown in later fragments only, which are never cached.
        if m.fragment.is_some() {
            step(&mut self.fragment);
        }
        if rule.action.trust_dscp {
            step(&mut self.trust);
        }
    }

    fn masks(&self) -> AuxMask {
        let bits = |counts: &[u32]| counts.iter().enumerate().map(|(i, n)| u8::from(*n > 0) << i).sum();
        AuxMask {
            dscp: if self.trust > 0 { 0x3f } else { bits(&self.dscp) },
            flags: bits(&self.flags),
            fragment: self.fragment > 0,
        }
    }
}

/// The bits of DSCP, TCP flags and fragment state that some rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxMask {
    /// DSCP bits.
    pub dscp: u8,
    /// TCP flags.
    pub flags: u8,
    /// Fragment state.
    pub fragment: bool,
}

/// A set of rules, never changed once made. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Classifier {
    v4: Space<3>,
    v6: Space<6>,
    by_id: Pages<Arc<Compiled>>,
    uses: Uses,
}

/// A changed classifier, and what changed, for verdicts that were cached before.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The new set.
    pub classifier: Arc<Classifier>,
    /// One entry a rule added or removed, or a single [`Delta::All`].
    pub deltas: Vec<Delta>,
}

impl Default for Classifier {
    fn default() -> Self {
        Self {
            v4: Space::new(relax_v4),
            v6: Space::new(relax_v6),
            by_id: Pages::default(),
            uses: Uses::default(),
        }
    }
}

impl Classifier {
    /// The most rules of one classifier.
    pub const MAX_RULES: usize = 1 << 20;

    /// A classifier of `rules`. O(rules × tables).
    ///
    /// # Errors
    /// The first rule that is wrong or beyond a limit.
    pub fn build(rules: impl IntoIterator<Item = Rule>) -> Result<Arc<Self>, RuleError> {
        let mut made = Self::default();
        for rule in rules {
            made.add(rule)?;
        }
        made.settle();
        Ok(Arc::new(made))
    }

    /// A classifier with `removed` taken out, then `added` put in; a changed rule is in both. What neither concerns
    /// is shared. O(changes × tables).
    ///
    /// # Errors
    /// The first change that is wrong or beyond a limit.
    pub fn with_changes(
        &self,
        added: impl IntoIterator<Item = Rule>,
        removed: &[FilterId],
    ) -> Result<Changed, RuleError> {
        let mut made = self.clone();
        let mut deltas = Vec::new();
        for id in removed {
            deltas.push(Delta::Rule(made.take(*id)?.rule.matches));
        }
        for rule in added {
            deltas.push(Delta::Rule(rule.matches));
            made.add(rule)?;
        }
        made.settle();
        // A verdict is cached under the bits that were looked at then; under other bits it means something else.
        if made.aux_mask() != self.aux_mask() || deltas.len() > DeltaLog::LEN {
            deltas = vec![Delta::All];
        }
        Ok(Changed { classifier: Arc::new(made), deltas })
    }

    /// The rule `key` meets first. O(tables), allocates nothing.
    #[inline]
    pub fn classify(&self, key: &Key) -> Option<&Rule> {
        let found = match key.pack() {
            Packed::V4(words) => self.v4.find(&words),
            Packed::V6(words) => self.v6.find(&words),
        };
        found.map(|c| &c.rule)
    }

    /// The same by comparing with every rule, field by field: what [`Classifier::classify`] is tested against.
    /// O(rules).
    pub fn linear(&self, key: &Key) -> Option<&Rule> {
        self.rules().filter(|r| r.matches.matches(key)).min_by(|a, b| a.order().cmp(&b.order()))
    }

    /// The tables `key` visits: rules inside, rules compared, rule matched there.
    pub fn explain(&self, key: &Key) -> Vec<TableVisit> {
        let mut visits = Vec::new();
        let mut visit = |v: space::Visit| {
            visits.push(TableVisit {
                rules: v.rules,
                compared: v.compared,
                matched: v.matched.map(|c| c.rule.clone()),
            });
        };
        match key.pack() {
            Packed::V4(words) => self.v4.explain(&words, &mut visit),
            Packed::V6(words) => self.v6.explain(&words, &mut visit),
        }
        visits
    }

    /// All rules, in no order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.by_id.iter().map(|c| &c.rule)
    }

    /// The rule with `id`.
    pub fn rule(&self, id: FilterId) -> Option<&Rule> {
        self.by_id.bucket(id_hash(id)).iter().map(|c| &c.rule).find(|r| r.id == id)
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tables of the IPv4 and of the IPv6 space.
    pub fn tables(&self) -> (usize, usize) {
        (self.v4.tables(), self.v6.tables())
    }

    /// Longest chain of the IPv4 and of the IPv6 space. O(rules × chain).
    pub fn longest_chains(&self) -> (usize, usize) {
        (self.v4.longest_chain(), self.v6.longest_chain())
    }

    /// What a cached verdict depends on besides connection and in-port.
    pub fn aux_mask(&self) -> AuxMask {
        self.uses.masks()
    }

    fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        check(&rule)?;
        let name = || Arc::clone(&rule.name);
        if !rule.id.is_some() || self.rule(rule.id).is_some() {
            return Err(RuleError::Duplicate { name: name(), id: rule.id });
        }
        if self.len() >= Self::MAX_RULES {
            return Err(RuleError::TooManyRules { name: name() });
        }
        let compiled = Arc::new(Compiled::new(rule));
        let refuse = |limit| match limit {
            Limit::Tables => RuleError::TooManyTables { name: Arc::clone(&compiled.rule.name) },
            Limit::Chain => RuleError::ChainTooLong { name: Arc::clone(&compiled.rule.name) },
        };
        if let Some(pattern) = &compiled.v4 {
            self.v4.insert(&compiled, pattern).map_err(refuse)?;
        }
        if let Some(pattern) = &compiled.v6 {
            self.v6.insert(&compiled, pattern).map_err(refuse)?;
        }
        self.uses.count(&compiled.rule, |n| *n += 1);
        self.by_id.insert(compiled, |c| id_hash(c.rule.id), |_, _| true);
        Ok(())
    }

    fn take(&mut self, id: FilterId) -> Result<Arc<Compiled>, RuleError> {
        let compiled =
            self.by_id.remove(id_hash(id), |c| c.rule.id == id).ok_or(RuleError::Unknown { id })?;
        if let Some(pattern) = &compiled.v4 {
            self.v4.remove(&compiled, pattern);
        }
        if let Some(pattern) = &compiled.v6 {
            self.v6.remove(&compiled, pattern);
        }
        self.uses.count(&compiled.rule, |n| *n -= 1);
        Ok(compiled)
    }

    fn settle(&mut self) {
        self.v4.settle();
        self.v6.settle();
    }
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

fn check(rule: &Rule) -> Result<(), RuleError> {
    let name = || Arc::clone(&rule.name);
    let m = &rule.matches;
    if let (Some(src), Some(dst)) = (m.src, m.dst)
        && src.addr().is_ipv4() != dst.addr().is_ipv4()
    {
        return Err(RuleError::FamilyMismatch { name: name() });
    }
    for range in [m.src_ports, m.dst_ports].into_iter().flatten() {
        if range.first > range.last {
            return Err(RuleError::EmptyRange { name: name(), first: range.first, last: range.last });
        }
    }
    for (field, masked, widest) in [("dscp", m.dscp, 0x3f), ("tcp_flags", m.tcp_flags, 0xff)] {
        if let Some(Masked { value, mask }) = masked
            && (value & !mask != 0 || mask & !widest != 0)
        {
            return Err(RuleError::BitsOutsideMask { name: name(), field, value, mask });
        }
    }
    Ok(())
}

fn id_hash(id: FilterId) -> u64 {
    u64::from(id.0)
}

/// A prefix length rounded down to whole octets (IPv4) or 16 bits (IPv6), as a mask of `width` bits.
fn relax_prefix(mask: u128, width: u32, step: u32) -> u128 {
    let len = mask.count_ones() / step * step;
    if len == 0 { 0 } else { (u128::MAX << (width - len)) & (u128::MAX >> (128 - width)) }
}

/// Port masks rounded down to 0, 8 or 16 bits; the rest as it is.
fn relax_transport(word: u64) -> u64 {
    let port = |mask: u16| -> u64 {
        match mask.leading_ones() {
            16 => 0xffff,
            8..=15 => 0xff00,
            _ => 0,
        }
    };
    let (src, dst) = ((word >> 48) as u16, (word >> 32) as u16);
    port(src) << 48 | port(dst) << 32 | word & 0xffff_ffff
}

fn relax_v4(mask: &[u64; 3]) -> [u64; 3] {
    let side = |m: u64| relax_prefix(u128::from(m), 32, 8) as u64;
    [side(mask[0] >> 32) << 32 | side(mask[0] & 0xffff_ffff), relax_transport(mask[1]), mask[2]]
}

fn relax_v6(mask: &[u64; 6]) -> [u64; 6] {
    let side = |hi: u64, lo: u64| relax_prefix(u128::from(hi) << 64 | u128::from(lo), 128, 16);
    let (src, dst) = (side(mask[0], mask[1]), side(mask[2], mask[3]));
    [(src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64, relax_transport(mask[4]), mask[5]]
}

#[cfg(test)]
pub(crate) mod tests;
