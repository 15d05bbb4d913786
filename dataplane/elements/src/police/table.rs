//! The tables of a conditioner and how they change.

use super::condition::{Adopt, Profile, RealtimeClass, Sla};
use super::live::{Contracts, Group, LiveFlows};
use super::shared::SharedBucket;
use super::spec::{ProfileSpec, RealtimeSpec, SlaSpec};
use perhop_packet::{ClassId, Meta, ProfileId, SlaId};
use perhop_units::Instant;
use std::collections::BTreeMap;
use thiserror::Error;

/// Ids 0 … MAX_IDS − 1 fit each table.
pub const MAX_IDS: u32 = 1 << 18;
/// Flows with a share of a contract or a limit of their own, in one conditioner.
pub const MAX_FLOWS: usize = 1 << 15;
/// Entries allocated together.
const CHUNK: usize = 64;

type Chunk<T> = Box<[Option<T>; CHUNK]>;

/// A dense table by id in chunks, so that it grows without moving entries.
#[derive(Debug)]
pub(super) struct Table<T> {
    chunks: Vec<Option<Chunk<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { chunks: (0..MAX_IDS as usize / CHUNK).map(|_| None).collect() }
    }
}

impl<T> Table<T> {
    #[inline]
    pub(super) fn entry_mut(&mut self, id: usize) -> Option<&mut T> {
        self.chunks.get_mut(id / CHUNK)?.as_mut()?[id % CHUNK].as_mut()
    }

    /// Asks for an entry's memory ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, id: usize) {
        if let Some(Some(chunk)) = self.chunks.get(id / CHUNK) {
            perhop_packet::prefetch_whole(&chunk[id % CHUNK]);
        }
    }

    pub(super) fn entry(&self, id: usize) -> Option<&T> {
        self.chunks.get(id / CHUNK)?.as_ref()?[id % CHUNK].as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter().flatten())
    }
}

/// New entries of one table with the memory they may need.
#[derive(Debug)]
struct TableChange<T> {
    entries: BTreeMap<u32, Option<T>>,
    chunks: BTreeMap<u32, Option<Chunk<T>>>,
}

impl<T> Default for TableChange<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), chunks: BTreeMap::new() }
    }
}

impl<T: Adopt> TableChange<T> {
    fn set(&mut self, kind: &'static str, id: u32, entry: Option<T>) -> Result<(), IdTooLarge> {
        if id >= MAX_IDS {
            return Err(IdTooLarge { kind, id });
        }
        if entry.is_some() {
            let chunk = id / CHUNK as u32;
            self.chunks.entry(chunk).or_insert_with(|| Some(Box::new(std::array::from_fn(|_| None))));
        }
        self.entries.insert(id, entry);
        Ok(())
    }

    /// Exchanges entries with `table`: what was there before is afterwards here.
    fn commit(&mut self, now: Instant, table: &mut Table<T>) {
        for (at, spare) in &mut self.chunks {
            let chunk = &mut table.chunks[*at as usize];
            if chunk.is_none() {
                *chunk = spare.take();
            }
        }
        for (id, entry) in &mut self.entries {
            let id = *id as usize;
            let Some(chunk) = &mut table.chunks[id / CHUNK] else { continue };
            let slot = &mut chunk[id % CHUNK];
            if let (Some(new), Some(old)) = (&mut *entry, &*slot) {
                new.adopt(old, now);
            }
            std::mem::swap(slot, entry);
        }
    }
}

/// An id that no table has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{kind} id {id} is above the limit of {} a conditioner", MAX_IDS - 1)]
pub struct IdTooLarge {
    /// Which table.
    pub kind: &'static str,
    /// The id.
    pub id: u32,
}

/// A change to a conditioner's tables, prepared beside the packet path: everything is allocated here, and what is
/// replaced is freed when this is dropped, so committing does neither. Committed once.
#[derive(Debug, Default)]
pub struct ConditionerChange {
    profiles: TableChange<Profile>,
    slas: TableChange<Sla>,
    classes: TableChange<RealtimeClass>,
    default_class: Option<ClassId>,
    /// Room for flows, should it be the first change that needs it.
    flows: Option<Box<LiveFlows>>,
}

impl ConditionerChange {
    /// Nothing changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets or (with `None`) removes a profile. A later call for the same id replaces an earlier one.
    ///
    /// # Errors
    /// The id is [`MAX_IDS`] or more.
    pub fn profile(&mut self, id: ProfileId, spec: Option<ProfileSpec>) -> Result<(), IdTooLarge> {
        self.profiles.set("profile", id.0, spec.map(Profile::new))
    }

    /// Sets or removes a contract.
    ///
    /// # Errors
    /// The id is [`MAX_IDS`] or more.
    pub fn sla(&mut self, id: SlaId, spec: Option<SlaSpec>) -> Result<(), IdTooLarge> {
        if spec.is_some_and(|s| s.shared_pct < 100) {
            self.need_flows();
        }
        self.slas.set("sla", id.0, spec.map(Sla::new))
    }

    /// Sets or removes the real-time policer of a logical class.
    ///
    /// # Errors
    /// The id is [`MAX_IDS`] or more.
    pub fn realtime(&mut self, id: ClassId, spec: Option<RealtimeSpec>) -> Result<(), IdTooLarge> {
        if spec.as_ref().is_some_and(|s| s.flow.is_some()) {
            self.need_flows();
        }
        self.classes.set("class", id.0, spec.map(RealtimeClass::new))
    }

    fn need_flows(&mut self) {
        self.flows.get_or_insert_with(|| Box::new(LiveFlows::new(MAX_FLOWS)));
    }

    /// Sets the class that demoted packets go to.
    pub fn default_class(&mut self, class: ClassId) {
        self.default_class = Some(class);
    }

    /// Number of entries it sets or removes: committing takes time proportional to this.
    pub fn len(&self) -> usize {
        self.profiles.entries.len() + self.slas.entries.len() + self.classes.entries.len()
    }

    /// Whether it changes no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Everything a conditioner knows.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) profiles: Table<Profile>,
    pub(super) slas: Table<Sla>,
    pub(super) classes: Table<RealtimeClass>,
    pub(super) default_class: ClassId,
    /// None until some flow needs a bucket.
    pub(super) flows: Option<Box<LiveFlows>>,
    /// Of the contract that was put last.
    pub(super) generation: u32,
    /// Packets with an id that its table does not have.
    pub(super) unknown_ids: u64,
}

impl Contracts for Table<Sla> {
    fn contract(&mut self, id: SlaId) -> Option<(&mut Group, &mut SharedBucket)> {
        self.entry_mut(id.index()).map(|sla| (&mut sla.group, &mut sla.bucket))
    }
}

impl Tables {
    /// Asks for the entries that a packet will need.
    #[inline]
    pub(super) fn prefetch(&self, meta: &Meta) {
        self.profiles.prefetch(meta.profile.index());
        self.slas.prefetch(meta.sla.index());
    }

    pub(super) fn commit(&mut self, now: Instant, change: &mut ConditionerChange) {
        change.profiles.commit(now, &mut self.profiles);
        for sla in change.slas.entries.values_mut().flatten() {
            // One that replaces another takes over that one's flows, generation and all.
            self.generation = self.generation.wrapping_add(1);
            sla.group.generation = self.generation;
        }
        if self.flows.is_none() {
            self.flows = change.flows.take();
        }
        change.slas.commit(now, &mut self.slas);
        change.classes.commit(now, &mut self.classes);
        if let Some(class) = change.default_class {
            self.default_class = class;
        }
    }
}
