//! Moves of buckets, and what becomes of them: what the members that make them write down for each other.

use perhop_flows::{BUCKETS, BucketMap, Departure};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bucket that is to go from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketMove {
    /// Which, below [`BUCKETS`].
    pub bucket: usize,
    /// Who has it.
    pub from: usize,
    /// Who is to have it.
    pub to: usize,
}

/// What becomes of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody has said anything yet.
    Open,
    /// So many connections at most are ready.
    Promised(u32),
    /// It stays where it is.
    Stays,
}

/// Moves that are made at once. Shared by the members that make them and who asked for them.
#[derive(Debug)]
pub struct Relocation {
    pub(super) map: Arc<BucketMap>,
    pub(super) moves: Vec<BucketMove>,
    pub(super) members: usize,
    /// Members that have done their part.
    pub(super) over: AtomicUsize,
    table: Mutex<Table>,
}

/// Where members put down what others go on with.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) fates: Vec<Fate>,
    /// For whom, and what.
    pub(super) departures: Vec<(usize, Departure)>,
    pub(super) connections: u64,
}

impl Relocation {
    pub(super) fn new(map: Arc<BucketMap>, members: usize, moves: Vec<BucketMove>) -> Arc<Self> {
        assert!(moves.iter().all(|m| m.bucket < BUCKETS), "a flow has one of so many buckets");
        let fates = vec![Fate::Open; moves.len()];
        let table = Mutex::new(Table { fates, departures: Vec::new(), connections: 0 });
        Arc::new(Self { map, moves, members, over: AtomicUsize::new(0), table })
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all members have done their part.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) == self.members
    }

    /// The moves that were asked for, and whether each was made; all `false` before [`Relocation::is_over`].
    pub fn moves(&self) -> Vec<(BucketMove, bool)> {
        let made = |m: &BucketMove| self.is_over() && self.map.worker(m.bucket) == m.to;
        self.moves.iter().map(|m| (*m, made(m))).collect()
    }

    /// Connections that have gone.
    pub fn connections(&self) -> u64 {
        self.table().connections
    }

    /// The buckets that `member` is asked for.
    pub(super) fn asked_of(&self, member: usize) -> Option<[bool; BUCKETS]> {
        let mut buckets = [false; BUCKETS];
        let mine = self.moves.iter().filter(|m| m.from == member);
        mine.for_each(|m| buckets[m.bucket] = true);
        buckets.contains(&true).then_some(buckets)
    }
}
