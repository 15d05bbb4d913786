//! The connections: a bounded slab, found by the router's connection number or by the endpoints, and a timing wheel
//! through it. All memory is reserved when the table is made, but for the map of numbers, which grows with the highest
//! number seen.

use crate::connection::{Connection, NONE};
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use hashbrown::HashTable;
use perhop_packet::prefetch;
use perhop_wire::Layout;
use std::hash::Hasher;

/// Slots of the wheel, and the time of one.
const WHEEL: usize = 256;
pub(crate) const TICK_MS: u64 = 250;
/// The highest connection number that is mapped; others are found by their endpoints.
const MAX_NUMBERS: usize = 1 << 22;
/// Connections looked at when one must be given up.
const SAMPLE: usize = 4;
/// A connection that both ends have taken up keeps its place in a full table for this silence, ms.
const KEPT_MS: u32 = 10_000;

/// How a packet's connection is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locator {
    /// By its number in the router's connection table, confirmed by the endpoints because numbers are used again.
    Connection {
        /// Number.
        number: u32,
        /// Whether the table calls the packet's direction the reverse.
        reverse: bool,
    },
    /// By its endpoints alone.
    Endpoints,
}

/// The endpoints of a packet: a hash that is the same in both directions, and which of them sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub hash: u64,
    /// 0: the lower one.
    pub direction: usize,
}

impl Ends {
    /// Names the data of one direction.
    pub fn flow(self, direction: usize) -> u64 {
        self.hash & !1 | direction as u64
    }

    fn identity(self) -> u32 {
        (self.hash >> 32) as u32
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There.
    Known(u32),
    /// Made; it is not in the wheel yet.
    Made(u32),
    /// Not there, and none was to be made.
    Nothing,
    /// No room.
    Full,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Connection>,
    free: u32,
    used: usize,
    capacity: usize,
    /// Slot by connection number.
    numbers: Vec<u32>,
    index: HashTable<u32>,
    heads: Box<[u32; WHEEL]>,
    /// Next tick to be looked at.
    tick: u64,
    /// Connections in the wheel, ended ones included.
    parked: usize,
    hand: usize,
    seed: u64,
    shared: SharedSeed,
}

impl Table {
    pub fn new(capacity: usize, seed: u64) -> Self {
        let capacity = capacity.clamp(1, NONE as usize / 2);
        Self {
            slots: Vec::with_capacity(capacity),
            free: NONE,
            used: 0,
            capacity,
            numbers: Vec::new(),
            // Twice as many, so that taking out and putting in never makes it grow.
            index: HashTable::with_capacity(2 * capacity),
            heads: Box::new([NONE; WHEEL]),
            tick: 0,
            parked: 0,
            hand: 0,
            seed,
            shared: SharedSeed::from_u64(seed.rotate_left(32)),
        }
    }

    /// Takes another key for the hash. Only for an empty table.
    pub fn rekey(&mut self, seed: u64) {
        debug_assert!(self.parked == 0, "connections are found by the old key");
        self.seed = seed;
        self.shared = SharedSeed::from_u64(seed.rotate_left(32));
    }

    /// Forgets all connections.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.numbers.clear();
        self.index.clear();
        self.heads.fill(NONE);
        (self.free, self.used, self.parked, self.hand) = (NONE, 0, 0, 0);
    }

    /// Most connections.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Connections.
    pub fn len(&self) -> usize {
        self.used
    }
    /// Places, free ones included: all slots are below.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }
    /// The connection in a slot.
    pub fn connection(&self, slot: u32) -> Option<&Connection> {
        self.slots.get(slot as usize).filter(|c| c.is_used())
    }
    #[inline]
    pub fn connection_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.slots[slot as usize]
    }

    /// Brings near what the search by number begins with.
    #[inline]
    pub fn prefetch_number(&self, number: u32) {
        if let Some(slot) = self.numbers.get(number as usize) {
            prefetch(slot);
        }
    }
    /// Brings near the connection that has this number, very likely.
    #[inline]
    pub fn prefetch_connection(&self, number: u32) {
        let slot = self.numbers.get(number as usize).map_or(NONE, |slot| *slot);
        if let Some(connection) = self.slots.get(slot as usize) {
            prefetch(connection);
            prefetch(&connection.halves[1]);
            prefetch(&connection.stamps[0]);
            prefetch(&connection.stamps[1]);
        }
    }

    /// The endpoints of a packet; `None` when the frame is not what `layout` says.
    #[inline]
    pub fn ends(&self, frame: &[u8], layout: &Layout) -> Option<Ends> {
        let packet = frame.get(usize::from(layout.l3_offset)..)?;
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        let ports = u64::from(layout.src_port) << 16 | u64::from(layout.dst_port);
        let swapped = if layout.ip_version == 4 {
            let header = packet.first_chunk::<20>()?;
            let word =
                |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let src = u64::from(word(12)) << 16 | u64::from(layout.src_port);
            let dst = u64::from(word(16)) << 16 | u64::from(layout.dst_port);
            hasher.write_u64(src.min(dst));
            hasher.write_u64(src.max(dst));
            src > dst
        } else {
            let header = packet.first_chunk::<40>()?;
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&header[at..at + 16]);
                u128::from_be_bytes(octets)
            };
            let (src, dst) = (address(8), address(24));
            let swapped = (src, layout.src_port) > (dst, layout.dst_port);
            let (low, high) = if swapped { (dst, src) } else { (src, dst) };
            hasher.write_u128(low);
            hasher.write_u128(high);
            hasher.write_u64(if swapped { ports.rotate_left(16) & 0xffff_0000 | ports >> 16 } else { ports });
            swapped
        };
        Some(Ends { hash: hasher.finish(), direction: usize::from(swapped) })
    }

    /// The connection of a packet, made if `make` and there is none.
    #[inline]
    pub fn find(&mut self, locator: Locator, ends: Ends, v6: bool, now_ms: u64, make: bool) -> Found {
        if let Locator::Connection { number, .. } = locator
            && let Some(slot) = self.numbers.get(number as usize)
            && let Some(connection) = self.slots.get(*slot as usize)
            && connection.identity == ends.identity()
            && connection.is_used()
        {
            return Found::Known(*slot);
        }
        self.find_by_ends(locator, ends, v6, now_ms, make)
    }

    /// The slow way: by the endpoints. Where packets are routed between VLANs, the router's table has a number for each
    /// direction; then the second finds what the first has made. A connection that passes twice, under two numbers in
    /// the same direction, is two.
    fn find_by_ends(&mut self, locator: Locator, ends: Ends, v6: bool, now_ms: u64, make: bool) -> Found {
        let identity = ends.identity();
        let (number, reverse) = match locator {
            Locator::Connection { number, reverse } => (number, reverse),
            Locator::Endpoints => (ends.hash as u32, ends.direction == 1),
        };
        let slots = &self.slots;
        let found = self.index.find(spread(identity), |slot| {
            let c = &slots[*slot as usize];
            c.identity == identity
                && match locator {
                    Locator::Endpoints => c.number == number,
                    Locator::Connection { .. } => c.number == number || c.is_seen_only_in(1 - ends.direction),
                }
        });
        if let Some(slot) = found.copied() {
            self.map(locator, slot);
            return Found::Known(slot);
        }
        if !make {
            return Found::Nothing;
        }
        let fresh = Connection::new(number, identity, ends.direction, reverse, v6, now_ms as u32);
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize] = fresh;
            slot
        } else if self.slots.len() < self.capacity {
            self.slots.push(fresh);
            (self.slots.len() - 1) as u32
        } else {
            return Found::Full;
        };
        self.enter(slot, locator);
        Found::Made(slot)
    }

    /// Which connection to give up for another: of the next few the one that was silent longest, if it may go.
    pub fn spare(&mut self, now_ms: u64) -> Option<u32> {
        let len = self.slots.len();
        let age = |c: &Connection| (now_ms as u32).wrapping_sub(c.seen_ms);
        let next_few = (0..SAMPLE.min(len)).map(|i| (self.hand + i) % len);
        let silent = next_few
            .map(|at| (&self.slots[at], at))
            .map(|(c, at)| (c.is_used() && c.is_established(), age(c), at))
            .filter(|(worth, age, _)| !worth || *age >= KEPT_MS)
            .min_by_key(|(worth, age, _)| (*worth, u32::MAX - age));
        self.hand = (self.hand + SAMPLE) % len.max(1);
        silent.map(|(_, _, at)| at as u32)
    }

    /// Puts a new connection in the place of `slot`, which has been ended. The place keeps its turn in the wheel.
    pub fn displace(&mut self, slot: u32, locator: Locator, ends: Ends, v6: bool, now_ms: u64) {
        let (number, reverse) = match locator {
            Locator::Connection { number, reverse } => (number, reverse),
            Locator::Endpoints => (ends.hash as u32, ends.direction == 1),
        };
        let mut fresh = Connection::new(number, ends.identity(), ends.direction, reverse, v6, now_ms as u32);
        fresh.next = self.slots[slot as usize].next;
        self.slots[slot as usize] = fresh;
        self.enter(slot, locator);
    }

    fn enter(&mut self, slot: u32, locator: Locator) {
        self.used += 1;
        let slots = &self.slots;
        let hash = spread(slots[slot as usize].identity);
        self.index.insert_unique(hash, slot, |other| spread(slots[*other as usize].identity));
        self.map(locator, slot);
    }

    fn map(&mut self, locator: Locator, slot: u32) {
        if let Locator::Connection { number, .. } = locator
            && (number as usize) < MAX_NUMBERS
        {
            let number = number as usize;
            if number >= self.numbers.len() {
                self.numbers.resize((number + 1).next_power_of_two().max(1024), NONE);
            }
            self.numbers[number] = slot;
        }
    }

    /// Takes a connection out; its place comes free when its turn in the wheel comes.
    pub fn end(&mut self, slot: u32) {
        let connection = &mut self.slots[slot as usize];
        if !connection.is_used() {
            return;
        }
        connection.end();
        self.used -= 1;
        let hash = spread(connection.identity);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
    }

    /// Has `slot` looked at in `in_ms`, at most the wheel's length.
    pub fn park(&mut self, slot: u32, now_ms: u64, in_ms: u64) {
        if self.parked == 0 {
            // An empty wheel has stood still.
            self.tick = self.tick.max(now_ms / TICK_MS);
        }
        self.parked += 1;
        let due = (now_ms + in_ms).div_ceil(TICK_MS);
        let at = due.clamp(self.tick + 1, self.tick + WHEEL as u64 - 1) as usize % WHEEL;
        self.slots[slot as usize].next = self.heads[at];
        self.heads[at] = slot;
    }

    /// The next connection whose turn has come, taken out of the wheel; places of ended ones come free on the way.
    pub fn next_due(&mut self, now_ms: u64) -> Option<u32> {
        let now_tick = now_ms / TICK_MS;
        if self.parked == 0 {
            self.tick = self.tick.max(now_tick);
            return None;
        }
        // After a long pause everything is due; one round suffices.
        self.tick = self.tick.max(now_tick.saturating_sub(WHEEL as u64));
        while self.tick <= now_tick {
            let at = self.tick as usize % WHEEL;
            while self.heads[at] != NONE {
                let slot = self.heads[at];
                let connection = &mut self.slots[slot as usize];
                self.heads[at] = connection.next;
                self.parked -= 1;
                if connection.is_used() {
                    return Some(slot);
                }
                connection.next = self.free;
                self.free = slot;
            }
            if self.tick == now_tick {
                break;
            }
            self.tick += 1;
        }
        None
    }

    /// Puts the place of an ended connection that is not in the wheel among the free ones.
    pub fn reclaim(&mut self, slot: u32) {
        self.slots[slot as usize].next = self.free;
        self.free = slot;
    }

    /// When [`Table::next_due`] has something to do; `None` when there is nothing.
    pub fn next_look_ms(&self) -> Option<u64> {
        (self.parked > 0).then(|| (self.tick + 1) * TICK_MS)
    }
}

fn spread(identity: u32) -> u64 {
    // The table takes its tag from the top and its place from the bottom.
    u64::from(identity).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(identity)
}
