//! Connections that go to another worker with their bucket, and all that is known of them.
//!
//! A worker that is to give buckets away looks for their connections beforehand, some at a time, and notes those that are
//! made meanwhile. Then, while no worker handles packets, it takes them out ([`Flows::depart`]) and the other takes them in
//! ([`Flows::arrive`]): entry, cached verdicts, what detection has seen, the measure of a call, and the place in admission's
//! books. Nothing is told, because for the flow nothing happens.
//!
//! Pieces of datagrams have a bucket of their own, without ports, and their connection has another one, with them. Both stay
//! where they are as long as a connection that pieces belong to can be there ([`Flows::keeps`]).

use super::Flows;
use crate::buckets::{BUCKETS, BucketMap};
use crate::calls::{Call, Way};
use crate::realtime::machine::Undecided;
use crate::table::{Entry, FlowKey, NONE, Overflow};
use perhop_packet::Meta;
use perhop_units::{Duration, Instant};
use std::sync::Arc;

/// Beyond the longest time-out an entry may be there for a round of the wheel that looks for silent ones.
const ROUND: Duration = Duration::from_secs(65);

/// What an element that shares its flows with others knows of buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    map: Arc<BucketMap>,
    /// Until when each stays because of pieces.
    kept: Box<[Instant; BUCKETS]>,
    leaving: Option<Leaving>,
}

/// Connections of buckets that are to go.
#[derive(Debug)]
struct Leaving {
    buckets: [bool; BUCKETS],
    /// Places of the table that were looked at.
    looked: u32,
    /// Numbers; some may be gone by now.
    found: Vec<u32>,
    /// How many were found, by bucket.
    counts: [u32; BUCKETS],
}

impl Leaving {
    fn note(&mut self, bucket: usize, n: u32) {
        if self.buckets[bucket] {
            self.counts[bucket] += 1;
            self.found.push(n);
        }
    }
}

/// Connections on their way from one [`Flows`] to another.
#[derive(Debug, Default)]
pub struct Departure {
    /// Of the rules that cached verdicts hold for.
    generation: u32,
    /// With the number in the books of the lower half. Overflow and slots are places in the lists below.
    entries: Vec<(u32, Entry)>,
    overflow: Vec<Overflow>,
    undecided: Vec<(Undecided, u32)>,
    calls: Vec<(Call, Way)>,
}

impl Departure {
    /// With room for so many connections.
    pub fn with_room(connections: usize) -> Self {
        Self { entries: Vec::with_capacity(connections), ..Self::default() }
    }

    /// Connections.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Buckets {
    /// A connection was made.
    pub(super) fn note(&mut self, key: &FlowKey, n: u32) {
        if let Some(leaving) = &mut self.leaving {
            leaving.note(self.map.bucket_of(key), n);
        }
    }

    /// A first piece of a datagram went by: its connection may be here until then.
    pub(super) fn note_piece(&mut self, meta: &Meta, frame: &[u8], until: Instant) {
        let whole = FlowKey::of(frame, &meta.layout, 0).map(|oriented| self.map.bucket_of(&oriented.key));
        for bucket in [whole, self.map.bucket(frame, &meta.layout)].into_iter().flatten() {
            let kept = &mut self.kept[bucket % BUCKETS];
            *kept = (*kept).max(until);
        }
    }
}

impl Flows {
    /// Shares flows by the buckets of `map` with others from now on, as worker `worker`. To be called before the first packet:
    /// the table is keyed by the map's seed, because connections may come before packets do.
    pub fn join_buckets(&mut self, map: Arc<BucketMap>, worker: usize) {
        let seed = map.seed_of(worker);
        self.table.rekey(seed);
        self.admission.seed(seed);
        self.keyed = true;
        let kept = Box::new([Instant::ZERO; BUCKETS]);
        self.buckets = Some(Box::new(Buckets { map, kept, leaving: None }));
    }

    /// Looks for the connections of `buckets` from now on, see [`Flows::look_for_leaving`].
    pub fn prepare_to_leave(&mut self, buckets: [bool; BUCKETS]) {
        let slots = self.table.slots();
        if let Some(known) = &mut self.buckets {
            // Buckets have about equally many; new ones come meanwhile.
            let going = buckets.iter().filter(|goes| **goes).count();
            let about = slots as usize * going / BUCKETS * 2 + 64;
            let (looked, counts) = (0, [0; BUCKETS]);
            known.leaving = Some(Leaving { buckets, looked, found: Vec::with_capacity(about), counts });
        }
    }

    /// Looks at up to `budget` places of the table. `true` when all connections that are to go are found, and those made from
    /// then on are noted too.
    pub fn look_for_leaving(&mut self, budget: u32) -> bool {
        let Some(Buckets { map, leaving: Some(leaving), .. }) = self.buckets.as_deref_mut() else {
            return true;
        };
        let end = leaving.looked.saturating_add(budget).min(self.table.slots());
        for (n, entry) in self.table.iter_in(leaving.looked..end) {
            leaving.note(map.bucket_of(&entry.key), n);
        }
        leaving.looked = end;
        end == self.table.slots()
    }

    /// Connections of a bucket that was prepared to go: no more than that.
    pub fn leaving(&self, bucket: usize) -> u32 {
        let leaving = self.buckets.as_ref().and_then(|known| known.leaving.as_ref());
        leaving.map_or(0, |leaving| leaving.counts[bucket % BUCKETS])
    }

    /// Whether a bucket can neither go from here nor come, because of connections with pieces of datagrams.
    pub fn keeps(&self, now: Instant, bucket: usize) -> bool {
        self.buckets.as_ref().is_some_and(|known| now < known.kept[bucket % BUCKETS])
    }

    /// Connections for which there is room.
    pub fn room(&self) -> usize {
        self.table.room()
    }

    /// Takes the connections of `buckets`, which were prepared to go, out into `into`. O(connections found).
    pub fn depart(&mut self, buckets: &[bool; BUCKETS], into: &mut Departure) {
        let Self { table, undecided, calls, admission, log, counters, buckets: known, .. } = self;
        let Some(Buckets { map, leaving: Some(leaving), .. }) = known.as_deref() else { return };
        into.generation = log.generation();
        for (at, n) in leaving.found.iter().copied().enumerate() {
            if let Some(next) = leaving.found.get(at + AHEAD) {
                table.prefetch_place(*next);
            }
            let goes = table.entry(n).is_some_and(|entry| buckets[map.bucket_of(&entry.key)]);
            let Some((mut entry, overflow)) = goes.then(|| table.take_out(n)).flatten() else { continue };
            counters.handed_over += 1;
            entry.overflow = overflow.map_or(NONE, |overflow| keep(&mut into.overflow, overflow));
            for half in 0..2 {
                let measured = entry.is_measured(half);
                let (h, owner) = (&mut entry.halves[half], n << 1 | half as u32);
                let slot = std::mem::replace(&mut h.undecided, NONE);
                let kept = if measured {
                    calls.take(slot, owner).map(|call| keep(&mut into.calls, call))
                } else {
                    undecided.take(slot, owner).map(|state| keep(&mut into.undecided, state))
                };
                h.undecided = kept.unwrap_or(NONE);
            }
            into.entries.push((admission.number(n << 1), entry));
        }
    }

    /// Takes connections in that left another worker. What finds no room is forgotten as if it had been silent; ask
    /// [`Flows::room`] before. Wake the element afterwards. O(connections).
    pub fn arrive(&mut self, now: Instant, from: &mut Departure) {
        let Departure { generation, entries, overflow, undecided, calls } = from;
        let current = *generation == self.log.generation();
        for (number, mut entry) in entries.drain(..) {
            let slots = entry.halves.map(|h| h.undecided);
            entry.halves.iter_mut().for_each(|h| h.undecided = NONE);
            let mut further = overflow.get(entry.overflow as usize).copied();
            if !current {
                // It went by other rules.
                further = None;
                entry.halves.iter_mut().for_each(|h| h.verdict.flags = 0);
            }
            let Some(n) = self.table.put_in(now, entry, further) else {
                self.counters.expired += 1;
                continue;
            };
            self.counters.taken_over += 1;
            for (half, slot) in slots.into_iter().enumerate() {
                let (slot, owner) = (slot as usize, n << 1 | half as u32);
                let here = if entry.is_measured(half) {
                    calls.get(slot).and_then(|call| self.calls.give(owner, *call))
                } else {
                    undecided.get(slot).and_then(|state| self.undecided.give(owner, *state))
                };
                self.table.entry_mut(n).halves[half].undecided = here.unwrap_or(NONE);
                self.admission.take_over(number | half as u32, owner);
            }
        }
    }

    /// Forgets what was found: buckets go nowhere now.
    pub fn stay(&mut self) {
        if let Some(known) = &mut self.buckets {
            known.leaving = None;
        }
    }

    /// The longest that a connection is here after its last packet.
    pub(super) fn longest_life(&self) -> Duration {
        let t = &self.config.timeouts;
        let detection = self.settings.detector.as_ref().map(|detector| detector.rtp.idle());
        let all = [t.udp, t.tcp, t.tcp_closing, t.other, self.config.fragment_timeout];
        all.into_iter().chain(detection).max().unwrap_or_default() + ROUND
    }
}

/// Entries that are on their way from memory meanwhile.
const AHEAD: usize = 8;

/// Puts something at the end of a list; its place.
fn keep<T>(list: &mut Vec<T>, what: T) -> u32 {
    list.push(what);
    (list.len() - 1) as u32
}
