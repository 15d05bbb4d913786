//! The connection table: one entry a connection, both directions.
//!
//! A slab of entries of three cache lines, an open-addressing index over it, and a timing wheel through it. All
//! memory is reserved when the table is made and touched as it fills; nothing is allocated afterwards.

mod entry;
mod fragment;
mod index;
mod key;
mod knocks;
mod relocate;
mod wheel;

pub(crate) use entry::{Entry, Finding, NONE, Verdict, elapsed_ms};
pub(crate) use fragment::{FragmentKey, FragmentTable, Told};
pub(crate) use key::{FlowKey, Oriented};
pub(crate) use wheel::TICK_MS;

use foldhash::SharedSeed;
use index::Index;
use knocks::Knocks;
use perhop_packet::prefetch;
use perhop_units::{Duration, Instant};
use perhop_wire::protocol;
use std::ops::Range;
use wheel::{SLOTS, Wheel};

/// Entries looked at when one must be given up.
const SAMPLE: usize = 4;
/// A UDP connection of one packet is kept this long in a full table, ms: longer than from one packet of a call to the
/// next.
const SINGLE_KEPT_MS: u64 = 100;
/// A connection of both directions on which signalling was seen is kept this long in a full table, ms: longer than from
/// one keepalive to the next (RFC 8445 §11: 15 s).
const SIGNALLING_KEPT_MS: u64 = 20_000;
/// Packets of a TCP connection that is not yet more than a handshake.
const HANDSHAKE: u64 = 3;
/// One place in so many is kept for UDP: what detection looks at.
const RESERVED_PART: usize = 8;

/// Silence after which a connection is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP.
    pub udp: Duration,
    /// TCP.
    pub tcp: Duration,
    /// TCP after FIN or RST.
    pub tcp_closing: Duration,
    /// Everything else.
    pub other: Duration,
    /// Connections of a single packet, while the table is more than three quarters full: a flood of made-up addresses
    /// must not keep calls out.
    pub single: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            udp: Duration::from_secs(30),
            tcp: Duration::from_secs(300),
            tcp_closing: Duration::from_secs(10),
            other: Duration::from_secs(30),
            single: Duration::from_secs(2),
        }
    }
}

impl Timeouts {
    /// In milliseconds for `entry`, of which a recognised half lives at least `realtime_ms`; `crowded` when the table
    /// is.
    pub(crate) fn of_ms(&self, entry: &Entry, realtime_ms: u64, crowded: bool) -> u64 {
        let single = crowded && entry.halves[0].packets + entry.halves[1].packets <= 1;
        let idle = match entry.key.protocol() {
            _ if single => self.single,
            protocol::UDP => self.udp,
            protocol::TCP if entry.closing => self.tcp_closing,
            protocol::TCP => self.tcp,
            _ => self.other,
        };
        let ms = idle.as_nanos() / 1_000_000;
        if entry.halves.iter().any(|h| h.realtime) { ms.max(realtime_ms) } else { ms }
    }

    /// Silence in milliseconds after which `entry` may give its place in a full table to another; `None`: never. What is
    /// recognised stays. A flood can make up any packets of one direction, so those alone never keep a place for long; a
    /// TCP connection beyond its handshake stays, and signalling of both directions for a while. That other has come `again`,
    /// or is new.
    fn spare_ms(&self, entry: &Entry, again: bool) -> Option<u64> {
        let packets = entry.halves[0].packets + entry.halves[1].packets;
        let answered = entry.halves.iter().all(|h| h.packets > 0);
        let single_ms = self.single.as_nanos() / 1_000_000;
        match entry.key.protocol() {
            _ if entry.halves.iter().any(|h| h.realtime) => None,
            _ if packets <= 1 && again => Some(0),
            protocol::UDP if packets <= 1 && !entry.evidence.any() => Some(SINGLE_KEPT_MS.min(single_ms)),
            _ if !answered && again => Some(SINGLE_KEPT_MS.min(single_ms)),
            protocol::TCP if answered && packets > HANDSHAKE && !entry.closing => None,
            protocol::UDP if answered && entry.evidence.any() => Some(SIGNALLING_KEPT_MS.max(single_ms)),
            _ => Some(single_ms),
        }
    }
}

/// Three more verdicts for each direction.
pub(crate) type Overflow = [[Verdict; 3]; 2];

/// See the module.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    entries: Vec<Entry>,
    free: u32,
    live: usize,
    /// Places of connections that went to another table, until their turn in the wheel comes.
    departed: usize,
    /// Of the live ones, those that are not UDP.
    others: usize,
    capacity: usize,
    index: Index,
    wheel: Wheel,
    overflow: Vec<Overflow>,
    overflow_free: Vec<u32>,
    overflow_capacity: usize,
    /// Where the next look for an entry to give up begins.
    hand: usize,
    knocks: Knocks,
    seed: u64,
    shared: SharedSeed,
    pub fragments: FragmentTable,
}

impl ConnectionTable {
    /// A table of at most `capacity` connections and `fragments` datagrams, keyed by `seed`.
    pub fn new(capacity: usize, fragments: usize, fragment_timeout: Duration, seed: u64) -> Self {
        let overflow_capacity = (capacity / 16).max(16);
        Self {
            entries: Vec::with_capacity(capacity),
            free: NONE,
            live: 0,
            departed: 0,
            others: 0,
            capacity,
            index: Index::new(capacity),
            wheel: Wheel::new(),
            overflow: Vec::with_capacity(overflow_capacity),
            overflow_free: Vec::with_capacity(overflow_capacity),
            overflow_capacity,
            hand: 0,
            knocks: Knocks::new(),
            seed,
            shared: SharedSeed::from_u64(seed.rotate_left(32)),
            fragments: FragmentTable::new(fragments, fragment_timeout),
        }
    }

    /// Takes another key for the hash. Only for an empty table.
    pub fn rekey(&mut self, seed: u64) {
        debug_assert!(self.live == 0, "entries are found by the old key");
        self.seed = seed;
        self.shared = SharedSeed::from_u64(seed.rotate_left(32));
    }

    /// Whether more than three quarters are in use.
    pub fn crowded(&self) -> bool {
        self.live > self.capacity / 4 * 3
    }

    /// Connections inside.
    pub fn len(&self) -> usize {
        self.live
    }

    /// The key of the hash, for tables beside this one.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.seed, &self.shared)
    }

    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Brings the likely entry's first line and the line of half `half` near. `false`: there is no entry.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64, half: usize) -> bool {
        let entry = self.index.guess(hash).and_then(|n| self.entries.get(n as usize));
        if let Some(entry) = entry {
            prefetch(&entry.key);
            prefetch(&entry.halves[half & 1]);
        }
        entry.is_some()
    }

    /// Brings all of a place near.
    pub fn prefetch_place(&self, n: u32) {
        if let Some(entry) = self.entries.get(n as usize) {
            prefetch(&entry.key);
            entry.halves.iter().for_each(prefetch);
        }
    }

    /// Whether the likely entry's half `half` is recognised, and its slot in the memory of detection.
    #[inline]
    pub fn likely_slot(&self, hash: u64, half: usize) -> Option<(bool, u32)> {
        let half = &self.entries.get(self.index.guess(hash)? as usize)?.halves[half & 1];
        Some((half.realtime, half.undecided))
    }

    #[inline]
    pub fn find(&self, hash: u64, key: &FlowKey) -> Option<u32> {
        self.index.find(hash, |n| self.entries[n as usize].key == *key)
    }

    #[inline]
    pub fn entry(&self, n: u32) -> Option<&Entry> {
        self.entries.get(n as usize).filter(|e| e.live)
    }

    #[inline]
    pub fn entry_mut(&mut self, n: u32) -> &mut Entry {
        &mut self.entries[n as usize]
    }

    /// Whether only a place of its like is left for a connection of `key`: an eighth of the table is for UDP alone.
    fn is_beyond_share(&self, key: &FlowKey) -> bool {
        key.protocol() != protocol::UDP && self.others >= self.capacity - self.capacity / RESERVED_PART
    }

    /// Whether so many more connections of any kind have a place.
    #[inline]
    pub fn takes(&self, more: usize) -> bool {
        self.live + more <= self.capacity - self.capacity / RESERVED_PART
    }

    /// Adds a connection opened by endpoint `opener`; `None` when full, or full for what is not UDP.
    pub fn insert(
        &mut self,
        now: Instant,
        hash: u64,
        key: FlowKey,
        opener: u8,
        timeouts: &Timeouts,
    ) -> Option<u32> {
        if self.is_beyond_share(&key) {
            return None;
        }
        let now_ms = now.as_nanos() / 1_000_000;
        let entry = Entry::new(key, opener, now_ms as u32);
        // The first look comes early, to find single packets should the table be crowded then.
        let timeout_ms = timeouts.of_ms(&entry, 0, true);
        let n = self.place(now)?;
        self.entries[n as usize] = entry;
        self.others += usize::from(key.protocol() != protocol::UDP);
        self.index.insert(hash, n);
        self.link(n, now_ms, timeout_ms);
        Some(n)
    }

    /// A place that is not in the wheel, counted as live; what is in it is of no meaning. `None` when there is none.
    fn place(&mut self, now: Instant) -> Option<u32> {
        let taken = self.live + self.departed;
        debug_assert!(self.free != NONE || taken == self.entries.len(), "no place is lost, or has two uses");
        let n = if self.free != NONE {
            let n = self.free;
            debug_assert!(!self.entries[n as usize].live, "a place that is free has no connection");
            self.free = self.entries[n as usize].next;
            n
        } else if self.entries.len() < self.capacity {
            self.entries.push(Entry::new(FlowKey::default(), 0, 0));
            (self.entries.len() - 1) as u32
        } else {
            return None;
        };
        if self.live == 0 {
            // An empty wheel has stood still.
            self.wheel.tick = self.wheel.tick.max(now.as_nanos() / 1_000_000 / TICK_MS);
        }
        self.live += 1;
        Some(n)
    }

    /// Adds a connection to a full table in the place of another: of the next few the one that was silent longest, if
    /// it may go; what is not UDP and has its share already takes the place of its like only. `gone` is told which goes. `None` when all of them are worth more; the next packet of the connection
    /// is then worth more than any that is the only one of its own. The place keeps its turn in the wheel, which comes
    /// late at worst.
    pub fn displace(
        &mut self,
        now: Instant,
        hash: u64,
        key: FlowKey,
        opener: u8,
        timeouts: &Timeouts,
        gone: impl FnOnce(u32, &Entry),
    ) -> Option<u32> {
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let again = self.knocks.again(hash);
        let of_its_like = self.is_beyond_share(&key);
        let len = self.entries.len();
        let next_few = (0..SAMPLE.min(len)).map(|i| (self.hand + i) % len);
        let silent = next_few
            .map(|at| (self.entries[at].idle_ms(now_ms), at))
            .filter(|(idle, at)| {
                let entry = &self.entries[*at];
                let like = !of_its_like || entry.key.protocol() != protocol::UDP;
                entry.live && like && timeouts.spare_ms(entry, again).is_some_and(|ms| u64::from(*idle) >= ms)
            })
            .max();
        self.hand = (self.hand + SAMPLE) % len.max(1);
        let (_, at) = silent?;
        let n = at as u32;
        gone(n, &self.entries[at]);
        let old = self.entries[at].key;
        self.others -= usize::from(old.protocol() != protocol::UDP);
        self.others += usize::from(key.protocol() != protocol::UDP);
        let old = self.hash(&old);
        self.index.remove(old, n);
        let entry = &mut self.entries[at];
        if entry.overflow != NONE {
            self.overflow_free.push(entry.overflow);
        }
        *entry = Entry { next: entry.next, ..Entry::new(key, opener, now_ms) };
        self.index.insert(hash, n);
        Some(n)
    }

    fn link(&mut self, n: u32, now_ms: u64, in_ms: u64) {
        let slot = self.wheel.slot(now_ms, in_ms);
        self.entries[n as usize].next = self.wheel.heads[slot];
        self.wheel.heads[slot] = n;
    }

    /// Looks at up to `budget` entries whose time to be looked at has come. `look` says after how many milliseconds
    /// to look again; `None` removes the entry. Returns whether there is more to do now.
    pub fn sweep(
        &mut self,
        now: Instant,
        budget: usize,
        mut look: impl FnMut(u32, &mut Entry) -> Option<u64>,
    ) -> bool {
        let now_ms = now.as_nanos() / 1_000_000;
        let now_tick = now_ms / TICK_MS;
        let mut left = budget;
        if self.live == 0 {
            self.wheel.tick = self.wheel.tick.max(now_tick);
            return false;
        }
        if now_tick > self.wheel.tick + SLOTS as u64 {
            // Everything is due; one round suffices.
            self.wheel.tick = now_tick - SLOTS as u64;
        }
        while self.wheel.tick <= now_tick {
            let slot = (self.wheel.tick % SLOTS as u64) as usize;
            while self.wheel.heads[slot] != NONE {
                if left == 0 {
                    return true;
                }
                left -= 1;
                let n = self.wheel.heads[slot];
                let entry = &mut self.entries[n as usize];
                self.wheel.heads[slot] = entry.next;
                if !entry.live {
                    entry.next = self.free;
                    self.free = n;
                    self.departed -= 1;
                    continue;
                }
                match look(n, entry) {
                    Some(in_ms) => self.link(n, now_ms, in_ms),
                    None => self.free_entry(n),
                }
            }
            self.wheel.tick += 1;
        }
        // The tick that is running stays open: entries are put behind it only.
        self.wheel.tick = now_tick;
        false
    }

    /// When [`ConnectionTable::sweep`] has something to do; `None` when the table is empty.
    pub fn next_sweep(&self) -> Option<Instant> {
        (self.live > 0).then(|| Instant((self.wheel.tick + 1) * TICK_MS * 1_000_000))
    }

    fn free_entry(&mut self, n: u32) {
        let key = self.entries[n as usize].key;
        let hash = self.hash(&key);
        self.index.remove(hash, n);
        let entry = &mut self.entries[n as usize];
        debug_assert!(entry.live, "a place is freed once");
        entry.live = false;
        entry.next = self.free;
        self.free = n;
        self.live -= 1;
        self.others -= usize::from(key.protocol() != protocol::UDP);
        debug_assert!(self.others <= self.live, "each connection that is not UDP is one");
        let overflow = std::mem::replace(&mut entry.overflow, NONE);
        if overflow != NONE {
            self.overflow_free.push(overflow);
        }
    }

    /// The overflow verdicts of a connection.
    pub fn overflow(&self, n: u32) -> Option<&Overflow> {
        self.overflow.get(self.entries[n as usize].overflow as usize)
    }

    /// The overflow verdicts of a connection, made when there are none; `None` when no slot is left.
    pub fn overflow_mut(&mut self, n: u32) -> Option<&mut Overflow> {
        let entry = &mut self.entries[n as usize];
        if entry.overflow == NONE {
            let slot = match self.overflow_free.pop() {
                Some(slot) => slot,
                None if self.overflow.len() < self.overflow_capacity => {
                    self.overflow.push(Overflow::default());
                    (self.overflow.len() - 1) as u32
                }
                None => return None,
            };
            self.overflow[slot as usize] = Overflow::default();
            entry.overflow = slot;
        }
        self.overflow.get_mut(entry.overflow as usize)
    }

    /// Live entries among the numbers `range`. O(length of the range).
    pub fn iter_in(&self, range: Range<u32>) -> impl Iterator<Item = (u32, &Entry)> {
        let end = (range.end as usize).min(self.entries.len());
        let entries = self.entries.get(range.start as usize..end).unwrap_or_default();
        (range.start..).zip(entries).filter(|(_, e)| e.live)
    }

    /// Entries, dead ones included: all numbers are below.
    pub fn slots(&self) -> u32 {
        self.entries.len() as u32
    }
}
