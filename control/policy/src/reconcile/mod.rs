//! Makes a router have what the policy wants of it: a part of the router's agent, with a session of its own for the owner
//! `api:policy`.
//!
//! ```text
//!              objects                 differs               committed
//!   Unknown ─────────────► Same ─────────────────► Owing ───────────────► Same
//!      ▲                    │ ▲                    │  ▲ │
//!      │                    │ └── objects: same ───┘  │ └── wanted: Asked ── refused ──► Owing
//!      └── gone, restarted ─┴── from any ────────────────┘
//! ```
//!
//! What is wanted and what the router has are compared as sets, so it does not matter how either came about: a change that was
//! missed, a router that restarted, somebody else's hand. The difference is one transaction.
//!
//! What the router refuses of it is put into *quarantine*, object by object, and tried again later, at twice the time each time;
//! the rest goes without. A refusal that names no operation halves the transaction until it is clear whose fault it is. A filter
//! whose profile or contract is not wanted is not wanted either.
//!
//! Changes come with numbers: [`Reconciler::take`] takes those that follow what it has, and otherwise says from where it must be
//! told again. What it has ([`Reconciler::known`]) is all that a journal keeps: with it the next instance begins.

mod agent;
mod part;
mod quarantine;

pub use agent::{Input, Output, PolicyAgent, Said};
pub use quarantine::Quarantined;

use crate::compile::Wanted;
use perhop_model::{ErrorItem, Key, Kind, MAX_OPS, Name, Object, ObjectState, Op, Owner, Spec, Status};
use perhop_units::{Duration, Instant};
use quarantine::Quarantine;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Name of the client that objects of the policy belong to.
pub const CLIENT: &str = "policy";
/// How often it asks whether the router has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Objects that a router is told to have at most.
pub const MAX_OBJECTS: usize = 4_000_000;

/// The kinds that a policy has in a router, in the order in which they refer to each other.
const KINDS: [Kind; 4] = [Kind::Class, Kind::Profile, Kind::Sla, Kind::Filter];

/// Whether a policy has objects of this kind.
pub fn is_of_policy(key: &Key) -> bool {
    KINDS.contains(&key.kind)
}

/// The owner of what a policy has in a router.
pub fn owner() -> Owner {
    #[expect(clippy::expect_used, reason = "a constant that is a name")]
    Owner::Api(Name::new(CLIENT).expect("a name"))
}

/// What a router is to have, as far as is known: what a journal keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Number of the last change.
    pub seq: u64,
    /// The edition that it is of.
    pub edition: u64,
    /// The objects.
    pub wanted: Wanted,
}

/// What a router is to have from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// All of it.
    Whole(Known),
    /// What changed.
    Changes {
        /// It follows this change.
        after: u64,
        /// Number of its last change, at least `after`.
        seq: u64,
        /// The edition that it is of.
        edition: u64,
        /// Objects that are to be so, or not to be any more.
        changes: Vec<(Key, Option<Spec>)>,
    },
}

/// Changes that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// Some are missing before them: those behind `have` are to be told again, or all of it.
    #[error("changes behind {have} are missing")]
    Gap {
        /// The last that is known.
        have: u64,
    },
    /// They are of objects that a policy does not have, or too many.
    #[error("they name objects that a policy does not have, or more than {MAX_OBJECTS}")]
    Foreign,
}

/// Where a router stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Number of the last change that is known.
    pub seq: u64,
    /// The edition that it is of.
    pub edition: u64,
    /// Whether the router has all of it but what is in quarantine.
    pub converged: bool,
    /// Objects that somebody else had changed, and that were put right again, so far.
    pub drift: u64,
    /// Objects that the router refuses.
    pub quarantined: Vec<Quarantined>,
    /// Filters that are not wanted because their profile or contract is not.
    pub orphans: u64,
    /// Why it refused last.
    pub last_error: Option<ErrorItem>,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The router has all of this edition but what is in quarantine.
    Converged {
        /// The edition.
        edition: u64,
        /// Number of its last change.
        seq: u64,
    },
    /// Somebody else had changed so many objects.
    Drift {
        /// How many.
        objects: usize,
    },
    /// The router refuses this.
    Quarantined(Quarantined),
}

/// See the module.
#[derive(Debug)]
pub struct Reconciler {
    owner: Owner,
    known: Known,
    /// Own objects of the router; none = it is not known what it has.
    found: Option<Wanted>,
    /// Own objects as they were after the last transaction; none = nothing was committed or seen yet.
    left: Option<Wanted>,
    /// Keys that may differ: all others have been compared.
    differing: BTreeSet<Key>,
    quarantine: Quarantine,
    /// What the transaction on its way says of each operation.
    asked: Vec<(Key, Option<Spec>)>,
    /// Operations of the next transaction at most.
    most: usize,
    pause: Option<Instant>,
    look: Instant,
    drift: u64,
    last_error: Option<ErrorItem>,
    told: Option<(u64, u64)>,
    notices: Vec<Notice>,
}

impl Reconciler {
    /// Begins with what is known, perhaps nothing, for objects of `owner`.
    pub fn new(owner: Owner, known: Known) -> Self {
        Self {
            owner,
            known,
            found: None,
            left: None,
            differing: BTreeSet::new(),
            quarantine: Quarantine::default(),
            asked: Vec::new(),
            most: MAX_OPS,
            pause: None,
            look: Instant(0),
            drift: 0,
            last_error: None,
            told: None,
            notices: Vec::new(),
        }
    }

    /// What is known: to be kept after each [`Reconciler::take`].
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Takes what the router is to have. O(changes · log) for changes, O(objects · log) for all of it.
    ///
    /// # Errors
    /// [`NotTaken`]; nothing is taken then. Changes that are known already are no error.
    pub fn take(&mut self, news: News) -> Result<(), NotTaken> {
        match news {
            News::Whole(known) => {
                if known.wanted.len() > MAX_OBJECTS || !known.wanted.keys().all(is_of_policy) {
                    return Err(NotTaken::Foreign);
                }
                let before = std::mem::replace(&mut self.known, known);
                for (key, _) in crate::diff::between(&before.wanted, &self.known.wanted) {
                    self.touch(key);
                }
            }
            News::Changes { after, seq, edition, changes } => {
                if seq <= self.known.seq {
                    return Ok(());
                }
                if after > self.known.seq || after < self.known.seq && !changes.is_empty() {
                    return Err(NotTaken::Gap { have: self.known.seq });
                }
                let more = self.known.wanted.len() + changes.len() > MAX_OBJECTS;
                if more || !changes.iter().all(|(key, _)| is_of_policy(key)) {
                    return Err(NotTaken::Foreign);
                }
                (self.known.seq, self.known.edition) = (seq, edition);
                for (key, spec) in changes {
                    match spec {
                        Some(spec) => drop(self.known.wanted.insert(key.clone(), spec)),
                        None => drop(self.known.wanted.remove(&key)),
                    }
                    self.touch(key);
                }
            }
        }
        Ok(())
    }

    /// Where it stands. O(filters · log).
    pub fn report(&self) -> Report {
        let filters = self.known.wanted.keys().filter(|key| key.kind == Kind::Filter);
        let orphans = filters.filter(|key| self.wanted(key).is_none()).count() as u64;
        Report {
            seq: self.known.seq,
            edition: self.known.edition,
            converged: self.is_converged(),
            drift: self.drift,
            quarantined: self.quarantine.all().collect(),
            orphans,
            last_error: self.last_error.clone(),
        }
    }

    fn is_converged(&self) -> bool {
        self.found.is_some()
            && self.asked.is_empty()
            && self.differing.iter().all(|key| self.quarantine.has(key))
    }

    /// What is wanted of an object, filters without their profile apart.
    fn wanted(&self, key: &Key) -> Option<&Spec> {
        let spec = self.known.wanted.get(key)?;
        let there = |kind, name: &Option<Name>| {
            name.as_ref().is_none_or(|name| self.known.wanted.contains_key(&Key { kind, name: name.clone() }))
        };
        match spec {
            Spec::Filter(filter)
                if !(there(Kind::Profile, &filter.profile) && there(Kind::Sla, &filter.sla)) =>
            {
                None
            }
            spec => Some(spec),
        }
    }

    /// An object may differ from now on; what the router refused of it before counts no more.
    fn touch(&mut self, key: Key) {
        self.quarantine.release(&key);
        // With a profile or a contract its filters come and go.
        if matches!(key.kind, Kind::Profile | Kind::Sla) {
            let refers = |spec: &Spec| match spec {
                Spec::Filter(filter) => {
                    filter.profile.as_ref() == Some(&key.name) || filter.sla.as_ref() == Some(&key.name)
                }
                _ => false,
            };
            // They are called as it, or by its name and theirs: only those are looked at.
            let own = Key { kind: Kind::Filter, name: key.name.clone() };
            let own = self.known.wanted.get_key_value(&own);
            let inside = format!("{}/", key.name);
            let first = Name::new(&inside).map(|name| Key { kind: Kind::Filter, name });
            let below = first.ok().into_iter().flat_map(|first| self.known.wanted.range(first..));
            let below = below.take_while(|(other, _)| {
                other.kind == Kind::Filter && other.name.as_str().starts_with(&inside)
            });
            let wanted = own.into_iter().chain(below);
            let filters: Vec<Key> =
                wanted.filter(|(_, spec)| refers(spec)).map(|(other, _)| other.clone()).collect();
            for filter in filters {
                self.quarantine.release(&filter);
                self.compare(filter);
            }
        }
        self.compare(key);
    }

    fn compare(&mut self, key: Key) {
        let Some(found) = &self.found else { return };
        if found.get(&key) == self.wanted(&key) {
            self.differing.remove(&key);
            self.quarantine.release(&key);
        } else {
            self.differing.insert(key);
        }
    }

    /// The router has these objects.
    fn see(&mut self, objects: &[ObjectState]) {
        let own = objects.iter().filter(|object| {
            object.owner == self.owner && KINDS.contains(&object.kind) && object.status == Status::Active
        });
        let key = |object: &ObjectState| Key { kind: object.kind, name: object.name.clone() };
        let found: Wanted = own.map(|object| (key(object), object.spec.clone())).collect();
        if let Some(left) = &self.left {
            let drifted = crate::diff::between(left, &found).len();
            if drifted > 0 {
                self.drift += drifted as u64;
                self.notices.push(Notice::Drift { objects: drifted });
            }
        }
        let all: BTreeSet<Key> = found.keys().chain(self.known.wanted.keys()).cloned().collect();
        let differs = |key: &Key| found.get(key) != self.wanted(key);
        self.differing = all.into_iter().filter(differs).collect();
        self.quarantine.keep(&self.differing);
        self.left = Some(found.clone());
        self.found = Some(found);
    }

    /// What the router has is not known any more; with `anew` it has forgotten what it had.
    fn lose(&mut self, anew: bool) {
        // Whether the transaction on its way was committed nobody knows: what it did is no drift.
        if anew || !self.asked.is_empty() {
            self.left = None;
        }
        (self.found, self.pause) = (None, None);
        self.asked.clear();
        self.differing.clear();
    }

    /// Operations of the next transaction: first what has never been refused, and only when nothing of it is left what is to be
    /// tried again, so that a lasting mistake of one object delays no other. New things come in the order in which they refer
    /// to each other, old things go the other way round: a transaction may be too small for all of them.
    fn next(&mut self, now: Instant) -> Vec<Op> {
        if self.found.is_none() || !self.asked.is_empty() || self.pause.is_some_and(|until| now < until) {
            return Vec::new();
        }
        let free = |key: &&Key| !self.quarantine.has(key);
        let mut keys: Vec<&Key> = self.differing.iter().filter(free).collect();
        if keys.is_empty() {
            keys = self.differing.iter().filter(|key| self.quarantine.is_due(key, now)).collect();
        }
        let rank = |kind: Kind| KINDS.iter().position(|own| *own == kind).unwrap_or(KINDS.len());
        let order = |key: &&Key| match self.wanted(key) {
            Some(_) => (false, rank(key.kind)),
            None => (true, KINDS.len() - rank(key.kind)),
        };
        keys.sort_by_key(order);
        let asked: Vec<(Key, Option<Spec>)> =
            keys.into_iter().take(self.most).map(|key| (key.clone(), self.wanted(key).cloned())).collect();
        let op = |(key, spec): &(Key, Option<Spec>)| match spec {
            Some(spec) => Op::put(Object::new(key.name.clone(), spec.clone())),
            None => Op::Delete { kind: key.kind, name: key.name.clone(), if_version: None, drain_ms: None },
        };
        let ops = asked.iter().map(op).collect();
        self.asked = asked;
        ops
    }

    fn done(&mut self, now: Instant) {
        self.most = self.most.saturating_mul(2).min(MAX_OPS);
        // What is in force now may be what others were refused for.
        if self.asked.iter().any(|(key, _)| self.quarantine.has(key)) {
            self.quarantine.wake(now);
        }
        for (key, spec) in std::mem::take(&mut self.asked) {
            for have in [&mut self.found, &mut self.left].into_iter().flatten() {
                match &spec {
                    Some(spec) => drop(have.insert(key.clone(), spec.clone())),
                    None => drop(have.remove(&key)),
                }
            }
            self.quarantine.release(&key);
            self.compare(key);
        }
    }

    fn failed(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        let asked = std::mem::take(&mut self.asked);
        self.last_error = errors.first().cloned().or(self.last_error.take());
        let passing = |error: &ErrorItem| quarantine::is_passing(error.code);
        if errors.is_empty() || errors.iter().any(passing) {
            self.pause = Some(now + pause);
            return;
        }
        let mut blamed: BTreeMap<&Key, &ErrorItem> = BTreeMap::new();
        for error in errors {
            if let Some((key, _)) = error.op.and_then(|op| asked.get(op)) {
                blamed.entry(key).or_insert(error);
            }
        }
        if blamed.is_empty() {
            // Nobody says whose fault it is.
            match &asked[..] {
                [(key, _)] => drop(blamed.insert(key, &errors[0])),
                all => self.most = (all.len() / 2).max(1),
            }
        }
        for (key, error) in blamed {
            let held = self.quarantine.hold(now, key.clone(), error.clone());
            self.notices.extend(held.map(Notice::Quarantined));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
