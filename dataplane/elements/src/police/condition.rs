//! What a conditioner does for one profile, contract or class, and the tables that hold it.

use crate::meter::{ColorCounters, SrTcm, SrTcmConfig, TokenBucket, TrTcm, TrTcmConfig};
use perhop_packet::{ClassId, ProfileId, SlaId};
use perhop_units::{Bytes, Color, Dscp, Instant, Rate};
use std::collections::BTreeMap;
use thiserror::Error;

/// Ids 0 … MAX_IDS − 1 fit each table.
pub const MAX_IDS: u32 = 1 << 18;
/// Entries allocated together.
const CHUNK: usize = 64;

/// The meter of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterSpec {
    /// Everything keeps the colour it has.
    None,
    /// Green or red.
    TokenBucket {
        /// What the bucket earns.
        rate: Rate,
        /// What it holds.
        burst: Bytes,
    },
    /// RFC 2697.
    SrTcm(SrTcmConfig),
    /// RFC 2698.
    TrTcm(TrTcmConfig),
}

/// What a profile does to packets of one colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    #[default]
    Pass,
    /// Drop as `policed`.
    Drop,
    /// Write a code point.
    Remark(Dscp),
    /// Put into a logical class.
    SetClass(ClassId),
}

/// A customer's conditioner at an ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// How packets are coloured.
    pub meter: MeterSpec,
    /// What then happens, by [`Color`] as index.
    pub actions: [Action; 3],
}

/// What a contract does with traffic above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfProfile {
    /// As if it were within.
    Ok,
    /// Drop as `sla_policy`.
    Drop,
    /// Clear the code point and put into the default class.
    Demote,
}

/// Which packets of its customer a contract meters and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlaTraffic {
    /// Recognised real-time traffic only; the rest is best effort and never charged.
    #[default]
    Recognised,
    /// Everything.
    Every,
}

/// A customer's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlaSpec {
    /// Contracted rate at IP length.
    pub rate: Rate,
    /// Contracted burst.
    pub burst: Bytes,
    /// Code point of traffic within the contract; `None` leaves it.
    pub dscp: Option<Dscp>,
    /// What happens to the rest.
    pub policy: OutOfProfile,
    /// Which packets it concerns.
    pub traffic: SlaTraffic,
}

/// What a class does with recognised real-time traffic above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Drop as `policed`.
    Drop,
    /// Clear the code point and put into the default class.
    Demote,
}

/// The policer of promoted real-time traffic of one logical class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealtimeSpec {
    /// The class's rate at IP length.
    pub rate: Rate,
    /// Its burst.
    pub burst: Bytes,
    /// What happens to the rest.
    pub excess: Excess,
}

/// Packets and bytes (IP length) of one table entry. For contracts and classes green is within, red above the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConditionCounters {
    /// By colour, as metered.
    pub colors: ColorCounters,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets put into the default class.
    pub demoted_packets: u64,
    /// Their bytes.
    pub demoted_bytes: u64,
}

impl ConditionCounters {
    pub(super) fn dropped(&mut self, len: Bytes) {
        self.dropped_packets += 1;
        self.dropped_bytes += len.0;
    }

    pub(super) fn demoted(&mut self, len: Bytes) {
        self.demoted_packets += 1;
        self.demoted_bytes += len.0;
    }
}

/// A profile's state.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    meter: MeterState,
    pub(super) actions: [Action; 3],
    pub(super) counters: ConditionCounters,
}

#[derive(Clone, Copy, Debug)]
enum MeterState {
    None,
    TokenBucket(TokenBucket),
    SrTcm(SrTcm),
    TrTcm(TrTcm),
}

impl Profile {
    fn new(spec: ProfileSpec) -> Self {
        let meter = match spec.meter {
            MeterSpec::None => MeterState::None,
            MeterSpec::TokenBucket { rate, burst } => MeterState::TokenBucket(TokenBucket::new(rate, burst)),
            MeterSpec::SrTcm(config) => MeterState::SrTcm(SrTcm::new(config)),
            MeterSpec::TrTcm(config) => MeterState::TrTcm(TrTcm::new(config)),
        };
        Self { meter, actions: spec.actions, counters: ConditionCounters::default() }
    }

    #[inline]
    pub(super) fn meter(&mut self, now: Instant, len: Bytes, pre: Color) -> Color {
        let color = match &mut self.meter {
            MeterState::None => pre,
            MeterState::TokenBucket(m) => m.meter(now, len),
            MeterState::SrTcm(m) => m.meter(now, len, pre),
            MeterState::TrTcm(m) => m.meter(now, len, pre),
        };
        self.counters.colors.count(color, len);
        color
    }
}

/// A contract's state.
#[derive(Clone, Debug)]
pub(super) struct Sla {
    pub(super) bucket: TokenBucket,
    pub(super) dscp: Option<Dscp>,
    pub(super) policy: OutOfProfile,
    pub(super) traffic: SlaTraffic,
    pub(super) counters: ConditionCounters,
}

/// A class policer's state.
#[derive(Clone, Debug)]
pub(super) struct RealtimeClass {
    pub(super) bucket: TokenBucket,
    pub(super) excess: Excess,
    pub(super) counters: ConditionCounters,
}

/// Continues a replaced entry.
pub(super) trait Adopt {
    /// Takes over counters, and tokens as far as the own bursts allow. A meter of another kind starts full.
    fn adopt(&mut self, old: &Self, now: Instant);
    /// The entry's counters.
    fn totals(&self) -> &ConditionCounters;
}

impl Adopt for Profile {
    fn adopt(&mut self, old: &Self, now: Instant) {
        match (&mut self.meter, &old.meter) {
            (MeterState::TokenBucket(new), MeterState::TokenBucket(old)) => new.adopt(old, now),
            (MeterState::SrTcm(new), MeterState::SrTcm(old)) => new.adopt(old, now),
            (MeterState::TrTcm(new), MeterState::TrTcm(old)) => new.adopt(old, now),
            _ => {}
        }
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}
impl Adopt for Sla {
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.bucket.adopt(&old.bucket, now);
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}
impl Adopt for RealtimeClass {
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.bucket.adopt(&old.bucket, now);
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}

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
        let entry = spec.map(|s| Sla {
            bucket: TokenBucket::new(s.rate, s.burst),
            dscp: s.dscp,
            policy: s.policy,
            traffic: s.traffic,
            counters: ConditionCounters::default(),
        });
        self.slas.set("sla", id.0, entry)
    }

    /// Sets or removes the real-time policer of a logical class.
    ///
    /// # Errors
    /// The id is [`MAX_IDS`] or more.
    pub fn realtime(&mut self, id: ClassId, spec: Option<RealtimeSpec>) -> Result<(), IdTooLarge> {
        let entry = spec.map(|s| RealtimeClass {
            bucket: TokenBucket::new(s.rate, s.burst),
            excess: s.excess,
            counters: ConditionCounters::default(),
        });
        self.classes.set("class", id.0, entry)
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
}

impl Tables {
    pub(super) fn commit(&mut self, now: Instant, change: &mut ConditionerChange) {
        change.profiles.commit(now, &mut self.profiles);
        change.slas.commit(now, &mut self.slas);
        change.classes.commit(now, &mut self.classes);
        if let Some(class) = change.default_class {
            self.default_class = class;
        }
    }
}
