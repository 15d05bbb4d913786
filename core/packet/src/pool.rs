//! The buffer pool and the packet handle.
//!
//! One page-aligned arena of 2,048-byte buffers (each with 256 bytes of headroom, so that it can be registered as an
//! AF_XDP umem) and one array of slots beside it. A depot behind a mutex holds free slots; each thread keeps a small
//! cache and exchanges 64 slots at a time with the depot, so the common path takes no lock. Any thread may free.

use crate::{DropReason, Meta, prefetch, prefetch_whole};
use std::alloc::{Layout as MemoryLayout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of one buffer, headroom included.
pub const BUFFER_LEN: usize = 2048;
/// Bytes kept free in front of a received frame.
pub const HEADROOM: usize = 256;
/// Slots moved between a thread's cache and the depot at once.
const EXCHANGE: usize = 64;
/// A thread's cache gives back above this many.
const CACHE_MAX: usize = 192;
const PAGE: usize = 4096;

/// Book-keeping of one buffer. Public to the crate only; users hold [`Packet`].
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Link of the list that holds the packet.
    pub(crate) next: Option<NonNull<Slot>>,
    pool: NonNull<Inner>,
    buffer: NonNull<u8>,
    offset: u16,
    pub(crate) len: u16,
    index: u32,
    pub(crate) meta: Meta,
}

#[derive(Debug)]
struct Depot {
    free: Vec<NonNull<Slot>>,
    /// Set when the last [`Pool`] handle is gone; the last buffer home frees the arena.
    closed: bool,
    handles: usize,
}

#[derive(Debug)]
struct Inner {
    depot: Mutex<Depot>,
    arena: NonNull<u8>,
    slots: NonNull<Slot>,
    capacity: usize,
    leaked: AtomicU64,
    exhausted: AtomicU64,
}

/// A handle to a pool; clones share it. The memory lives until the last handle and the last packet are gone.
#[derive(Debug)]
pub struct Pool {
    inner: NonNull<Inner>,
}

// SAFETY: `Inner` is only reached through atomics and the depot's mutex; slots are owned by whoever took them.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolCounters {
    /// Buffers in all.
    pub capacity: u64,
    /// Buffers in the shared depot now (thread caches and packets hold the others).
    pub in_depot: u64,
    /// Packets that were dropped implicitly: a defect.
    pub leaked: u64,
    /// Allocations refused because nothing was free.
    pub exhausted: u64,
}

struct Cache {
    pools: Vec<(NonNull<Inner>, Vec<NonNull<Slot>>)>,
}

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache { pools: Vec::new() }) };
}

impl Cache {
    #[inline]
    fn of(&mut self, inner: NonNull<Inner>) -> &mut Vec<NonNull<Slot>> {
        let found = self.pools.iter().position(|(p, _)| *p == inner);
        let at = match found {
            Some(at) => at,
            None => {
                self.pools.push((inner, Vec::with_capacity(CACHE_MAX + EXCHANGE)));
                self.pools.len() - 1
            }
        };
        &mut self.pools[at].1
    }

    /// Keeps a free slot, and gives some back when there are too many.
    #[inline]
    fn keep(&mut self, inner: NonNull<Inner>, slot: NonNull<Slot>) {
        let mine = self.of(inner);
        mine.push(slot);
        if mine.len() > CACHE_MAX {
            let keep = mine.len() - EXCHANGE;
            give_back(inner, mine.drain(keep..));
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (inner, slots) in self.pools.drain(..) {
            // An empty list keeps nothing alive: its pool may be gone.
            if !slots.is_empty() {
                give_back(inner, slots);
            }
        }
    }
}

/// Returns slots to the depot; frees the arena when the pool is closed and complete.
fn give_back(inner: NonNull<Inner>, slots: impl IntoIterator<Item = NonNull<Slot>>) {
    // SAFETY: a pool lives while any of its slots is away from the depot, and the caller holds some (or holds a
    // handle; then `closed` is false and nothing is freed).
    let shared = unsafe { inner.as_ref() };
    let mut depot = shared.depot.lock().unwrap_or_else(PoisonError::into_inner);
    depot.free.extend(slots);
    let done = depot.closed && depot.free.len() == shared.capacity;
    drop(depot);
    if done {
        // SAFETY: no handle and no slot is out any more, so nobody else can reach `inner`.
        unsafe { free_arena(inner) };
    }
}

/// # Safety
/// Nothing may refer to the pool or its slots any more.
unsafe fn free_arena(inner: NonNull<Inner>) {
    // SAFETY: made by `Box::into_raw` in `Pool::new`, freed once by the contract of this function.
    let owned = unsafe { Box::from_raw(inner.as_ptr()) };
    // SAFETY: both blocks were allocated in `Pool::new` with these layouts.
    unsafe {
        dealloc(owned.arena.as_ptr(), arena_layout(owned.capacity));
        dealloc(owned.slots.as_ptr().cast(), slots_layout(owned.capacity));
    }
}

fn arena_layout(capacity: usize) -> MemoryLayout {
    MemoryLayout::from_size_align(capacity * BUFFER_LEN, PAGE).expect("capacity is bounded by MAX_CAPACITY")
}

fn slots_layout(capacity: usize) -> MemoryLayout {
    MemoryLayout::array::<Slot>(capacity).expect("capacity is bounded by MAX_CAPACITY")
}

/// Free slots whose memory is asked for before they are taken: one buffer, and one slot further down.
const FETCH_BUFFER: usize = 4;
const FETCH_SLOT: usize = 8;

/// Brings the slots and buffers that will be taken next near: in a large pool they have left the cache.
#[inline]
fn fetch_ahead(free: &[NonNull<Slot>]) {
    let Some(near) = free.len().checked_sub(FETCH_BUFFER) else { return };
    // SAFETY: a free slot is initialised and nobody else's; its buffer lies in the arena, longer than the headroom.
    unsafe {
        let buffer = free[near].as_ref().buffer;
        prefetch(buffer.add(HEADROOM).as_ref());
    }
    if let Some(far) = free.len().checked_sub(FETCH_SLOT) {
        fetch_slot(free[far]);
    }
}

const _: () = assert!(size_of::<Slot>() == 128, "a slot is two cache lines");

/// Asks for both cache lines of a slot.
#[inline]
fn fetch_slot(slot: NonNull<Slot>) {
    // SAFETY: slots live as long as their pool, which the caller keeps alive; only addresses are used.
    unsafe {
        prefetch(slot.as_ref());
        prefetch(slot.cast::<u8>().add(64).as_ref());
    }
}

impl Pool {
    /// The largest pool: 4 Mi buffers (8 GiB).
    pub const MAX_CAPACITY: usize = 1 << 22;

    /// A pool of `capacity` buffers, clamped to 1 … [`Pool::MAX_CAPACITY`]. Memory is zeroed and touched lazily by
    /// the kernel.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, Self::MAX_CAPACITY);
        let (arena_layout, slots_layout) = (arena_layout(capacity), slots_layout(capacity));
        // SAFETY: both layouts have non-zero size because capacity ≥ 1.
        let (arena, slots) =
            unsafe { (alloc_zeroed(arena_layout), alloc_zeroed(slots_layout).cast::<Slot>()) };
        let Some(arena) = NonNull::new(arena) else { handle_alloc_error(arena_layout) };
        let Some(slots) = NonNull::new(slots) else { handle_alloc_error(slots_layout) };
        let inner = Box::new(Inner {
            depot: Mutex::new(Depot { free: Vec::with_capacity(capacity), closed: false, handles: 1 }),
            arena,
            slots,
            capacity,
            leaked: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
        });
        let inner = NonNull::from(Box::leak(inner));
        // SAFETY: just allocated, not shared yet.
        let mut depot = unsafe { inner.as_ref() }.depot.lock().unwrap_or_else(PoisonError::into_inner);
        for index in (0..capacity).rev() {
            // SAFETY: index < capacity, so both pointers stay inside their blocks; the slot is written whole before
            // it is used.
            let slot = unsafe {
                let slot = slots.add(index);
                slot.write(Slot {
                    next: None,
                    pool: inner,
                    buffer: arena.add(index * BUFFER_LEN),
                    offset: HEADROOM as u16,
                    len: 0,
                    index: index as u32,
                    meta: Meta::default(),
                });
                slot
            };
            depot.free.push(slot);
        }
        drop(depot);
        Self { inner }
    }

    fn shared(&self) -> &Inner {
        // SAFETY: this handle keeps the pool alive.
        unsafe { self.inner.as_ref() }
    }

    /// An empty packet with [`HEADROOM`] bytes in front, default metadata; `None` when the pool is exhausted
    /// (counted). O(1), no lock in the common case.
    #[inline]
    pub fn alloc(&self) -> Option<Packet> {
        let slot = CACHE
            .try_with(|cache| {
                let mut cache = cache.borrow_mut();
                let mine = cache.of(self.inner);
                if mine.is_empty() {
                    self.refill(mine);
                }
                let slot = mine.pop();
                fetch_ahead(mine);
                slot
            })
            .ok()
            .flatten();
        let Some(mut slot) = slot else {
            self.shared().exhausted.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // SAFETY: a slot taken from a free list belongs to nobody else.
        unsafe {
            let slot = slot.as_mut();
            slot.offset = HEADROOM as u16;
            slot.len = 0;
            slot.meta = Meta::default();
        }
        Some(Packet { slot })
    }

    /// A packet holding `frame`; `None` when the pool is exhausted or the frame does not fit.
    pub fn packet(&self, frame: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc()?;
        if packet.set_frame(frame) {
            return Some(packet);
        }
        packet.release();
        None
    }

    #[cold]
    fn refill(&self, mine: &mut Vec<NonNull<Slot>>) {
        let mut depot = self.shared().depot.lock().unwrap_or_else(PoisonError::into_inner);
        let keep = depot.free.len().saturating_sub(EXCHANGE);
        mine.extend(depot.free.drain(keep..));
    }

    /// Current counters.
    pub fn counters(&self) -> PoolCounters {
        let shared = self.shared();
        let in_depot = shared.depot.lock().unwrap_or_else(PoisonError::into_inner).free.len() as u64;
        PoolCounters {
            capacity: shared.capacity as u64,
            in_depot,
            leaked: shared.leaked.load(Ordering::Relaxed),
            exhausted: shared.exhausted.load(Ordering::Relaxed),
        }
    }

    /// Returns the calling thread's cached buffers to the depot, so that [`Pool::counters`] tells how many are out.
    pub fn flush_thread_cache(&self) {
        let slots = CACHE.try_with(|cache| std::mem::take(cache.borrow_mut().of(self.inner)));
        if let Ok(slots) = slots {
            give_back(self.inner, slots);
        }
    }

    /// All buffers, one behind the other by [`Packet::buffer_index`]: page-aligned, each [`BUFFER_LEN`] long, where they
    /// are until the last handle and the last packet are gone. For whoever has a card or the kernel write into buffers,
    /// which must be those of packets that it holds.
    pub fn memory(&self) -> NonNull<[u8]> {
        let shared = self.shared();
        NonNull::slice_from_raw_parts(shared.arena, shared.capacity * BUFFER_LEN)
    }

    /// Whether `packet` came from this pool.
    pub fn owns(&self, packet: &Packet) -> bool {
        // SAFETY: the packet's slot is live.
        unsafe { packet.slot.as_ref() }.pool == self.inner
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        self.shared().depot.lock().unwrap_or_else(PoisonError::into_inner).handles += 1;
        Self { inner: self.inner }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut depot = self.shared().depot.lock().unwrap_or_else(PoisonError::into_inner);
        depot.handles -= 1;
        if depot.handles > 0 {
            return;
        }
        drop(depot);
        let cached = CACHE.try_with(|cache| {
            let pools = &mut cache.borrow_mut().pools;
            pools.iter().position(|(p, _)| *p == self.inner).map(|at| pools.swap_remove(at).1)
        });
        let cached = cached.ok().flatten().unwrap_or_default();
        // No handle is left, so only buffers away from the depot keep the arena. Closing and giving back happen
        // under one lock: whoever completes the depot frees the arena.
        let mut depot = self.shared().depot.lock().unwrap_or_else(PoisonError::into_inner);
        depot.closed = true;
        depot.free.extend(cached);
        let done = depot.free.len() == self.shared().capacity;
        drop(depot);
        if done {
            // SAFETY: last handle, and every slot is home.
            unsafe { free_arena(self.inner) };
        }
    }
}

/// One packet: sole owner of a pooled buffer, one word wide.
#[must_use = "a packet ends in release(), an output or cx.drop()"]
#[derive(Debug)]
pub struct Packet {
    slot: NonNull<Slot>,
}

// SAFETY: a packet is the only handle to its slot and buffer; the pool behind it is `Sync`.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` gives only shared access to plain data.
unsafe impl Sync for Packet {}

impl Packet {
    pub(crate) fn into_slot(self) -> NonNull<Slot> {
        ManuallyDrop::new(self).slot
    }

    /// # Safety
    /// `slot` must come from [`Packet::into_slot`] and no other handle to it may exist.
    pub(crate) unsafe fn from_slot(slot: NonNull<Slot>) -> Self {
        Self { slot }
    }

    #[inline(always)]
    fn slot(&self) -> &Slot {
        // SAFETY: the handle owns a live slot.
        unsafe { self.slot.as_ref() }
    }
    #[inline(always)]
    fn slot_mut(&mut self) -> &mut Slot {
        // SAFETY: the handle owns a live slot, and `&mut self` is exclusive.
        unsafe { self.slot.as_mut() }
    }

    /// Metadata.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        &self.slot().meta
    }
    /// Metadata, mutable.
    #[inline(always)]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.slot_mut().meta
    }
    /// Frame length in bytes, from the Ethernet header, without FCS.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slot().len as usize
    }
    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.slot().len == 0
    }
    /// Bytes free in front of the frame.
    pub fn headroom(&self) -> usize {
        self.slot().offset as usize
    }
    /// Bytes free behind the frame.
    pub fn tailroom(&self) -> usize {
        BUFFER_LEN - self.headroom() - self.len()
    }
    /// The frame.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: offset + len ≤ BUFFER_LEN is kept by every method that changes them; the arena is zeroed, so all
        // bytes are initialised; the slot owns its buffer.
        unsafe {
            std::slice::from_raw_parts(slot.buffer.as_ptr().add(slot.offset as usize), slot.len as usize)
        }
    }
    /// Asks for the memory of the metadata.
    #[inline(always)]
    pub(crate) fn prefetch_meta(&self) {
        prefetch_whole(self.slot());
    }
    /// The frame, mutable.
    #[inline(always)]
    pub fn frame_mut(&mut self) -> &mut [u8] {
        let slot = self.slot_mut();
        // SAFETY: as in `frame`, and `&mut self` is exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(slot.buffer.as_ptr().add(slot.offset as usize), slot.len as usize)
        }
    }
    /// Metadata and frame together, both mutable.
    #[inline(always)]
    pub fn parts_mut(&mut self) -> (&mut Meta, &mut [u8]) {
        let slot = self.slot_mut();
        // SAFETY: as in `frame_mut`; the slot's metadata and the buffer are different memory.
        let frame = unsafe {
            std::slice::from_raw_parts_mut(slot.buffer.as_ptr().add(slot.offset as usize), slot.len as usize)
        };
        (&mut slot.meta, frame)
    }
    /// Replaces the frame; `false` (unchanged) when it is longer than the buffer behind the headroom.
    pub fn set_frame(&mut self, frame: &[u8]) -> bool {
        if frame.len() > BUFFER_LEN - HEADROOM {
            return false;
        }
        let slot = self.slot_mut();
        slot.offset = HEADROOM as u16;
        slot.len = frame.len() as u16;
        self.frame_mut().copy_from_slice(frame);
        true
    }
    /// Adds `n` bytes in front (content unspecified); `false` (unchanged) without room.
    pub fn grow_front(&mut self, n: usize) -> bool {
        if n > self.headroom() {
            return false;
        }
        let slot = self.slot_mut();
        slot.offset -= n as u16;
        slot.len += n as u16;
        true
    }
    /// Removes `n` bytes in front; `false` (unchanged) when the frame is shorter.
    pub fn shrink_front(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        let slot = self.slot_mut();
        slot.offset += n as u16;
        slot.len -= n as u16;
        true
    }
    /// Sets the length, growing (content unspecified) or shrinking at the end; `false` (unchanged) without room.
    pub fn resize(&mut self, len: usize) -> bool {
        if len > BUFFER_LEN - self.headroom() {
            return false;
        }
        self.slot_mut().len = len as u16;
        true
    }
    /// Index of the buffer in its pool.
    pub fn buffer_index(&self) -> u32 {
        self.slot().index
    }

    /// Ends the packet: its buffer goes back to the pool.
    #[inline]
    pub fn release(self) {
        free_slot(self.into_slot());
    }
}

#[inline]
fn free_slot(slot: NonNull<Slot>) {
    // SAFETY: the caller gives up the only handle to a live slot; the pool lives while the slot is out.
    let inner = unsafe { slot.as_ref() }.pool;
    let kept = CACHE.try_with(|cache| cache.borrow_mut().keep(inner, slot));
    if kept.is_err() {
        give_back(inner, [slot]);
    }
}

/// Packets further on whose slots are asked for while earlier ones are freed.
const FREE_AHEAD: usize = 8;

/// Ends many packets: as [`Packet::release`] of each, in order.
pub(crate) fn release_all(packets: &mut std::vec::Drain<'_, Packet>) {
    let kept = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        while let Some(packet) = packets.next() {
            if let Some(later) = packets.as_slice().get(FREE_AHEAD - 1) {
                fetch_slot(later.slot);
            }
            let slot = packet.into_slot();
            // SAFETY: the only handle to a live slot was given up just now; the pool lives while the slot is out.
            let inner = unsafe { slot.as_ref() }.pool;
            cache.keep(inner, slot);
        }
    });
    if kept.is_err() {
        packets.for_each(Packet::release);
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: the slot is live, and the pool with it.
        let inner = unsafe { self.slot.as_ref().pool.as_ref() };
        inner.leaked.fetch_add(1, Ordering::Relaxed);
        free_slot(self.slot);
        if cfg!(debug_assertions) && !std::thread::panicking() {
            panic!(
                "packet leaked: it must end in release(), an output or cx.drop(.., {:?})",
                DropReason::Discarded
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, PacketList};

    #[test]
    fn an_exhausted_pool_refuses_and_recovers() {
        let pool = Pool::new(3);
        let mut batch = Batch::new();
        while let Some(p) = pool.alloc() {
            batch.push(p);
        }
        assert_eq!(batch.len(), 3);
        assert_eq!(pool.counters().exhausted, 1);
        batch.release_all();
        pool.flush_thread_cache();
        assert_eq!(pool.counters().in_depot, 3);
    }

    #[test]
    fn headroom_and_length_are_bounded() {
        let pool = Pool::new(1);
        let mut p = pool.packet(&[1, 2, 3]).expect("fits");
        assert_eq!((p.headroom(), p.len()), (HEADROOM, 3));
        assert!(!p.grow_front(HEADROOM + 1));
        assert!(p.grow_front(2));
        assert!(p.shrink_front(2));
        assert_eq!(p.frame(), &[1, 2, 3]);
        assert!(!p.resize(BUFFER_LEN));
        assert!(!p.set_frame(&[0; BUFFER_LEN]));
        p.release();
    }

    #[test]
    fn the_memory_holds_every_buffer_at_its_index() {
        let pool = Pool::new(5);
        let memory = pool.memory();
        assert_eq!((memory.len(), memory.addr().get() % PAGE), (5 * BUFFER_LEN, 0));
        let mut batch = Batch::new();
        while let Some(mut p) = pool.packet(&[7]) {
            assert!(p.grow_front(1));
            let at = memory.addr().get() + p.buffer_index() as usize * BUFFER_LEN + p.headroom();
            assert_eq!(p.frame().as_ptr().addr(), at);
            batch.push(p);
        }
        assert_eq!(batch.len(), 5);
        batch.release_all();
    }

    #[test]
    fn a_packet_freed_on_another_thread_comes_home() {
        let pool = Pool::new(8);
        let p = pool.alloc().expect("free");
        #[allow(clippy::disallowed_methods, reason = "the test needs a second thread")]
        std::thread::spawn(move || p.release()).join().expect("no panic");
        pool.flush_thread_cache();
        assert_eq!(pool.counters().in_depot, 8);
    }

    #[test]
    fn packets_outlive_the_last_handle() {
        let pool = Pool::new(4);
        let mut list = PacketList::new();
        for i in 0..4u8 {
            list.push_back(pool.packet(&[i]).expect("free"));
        }
        drop(pool);
        for i in 0..4u8 {
            let p = list.pop_front().expect("inside");
            assert_eq!(p.frame(), &[i]);
            p.release();
        }
        assert!(list.is_empty());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn an_implicit_drop_is_caught_and_counted() {
        let pool = Pool::new(1);
        let p = pool.alloc().expect("free");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(p)));
        assert!(caught.is_err());
        assert_eq!(pool.counters().leaked, 1);
        pool.flush_thread_cache();
        assert_eq!(pool.counters().in_depot, 1);
    }
}
