//! Counting allocations.
//!
//! A program that wants the count makes [`CountingAllocator`] its global allocator. Counting costs one increment of a
//! thread's own memory an allocation; code that allocates nothing pays nothing.
#![allow(unsafe_code, reason = "an allocator is unsafe to implement; nothing else of this crate is")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Another allocator, the system's without one, with a count of what each thread asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator<A = System>(pub A);

/// What one thread has asked of the allocator so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Blocks allocated or grown, monotonic.
    pub count: u64,
    /// Bytes allocated minus bytes freed by this thread; negative when it frees what others allocated.
    pub bytes: i64,
}

/// The calling thread's allocations so far; zero for ever unless [`CountingAllocator`] is the global allocator. O(1).
pub fn allocations() -> Allocations {
    Allocations { count: COUNT.get(), bytes: BYTES.get() }
}

impl Allocations {
    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { count: self.count.wrapping_sub(before.count), bytes: self.bytes.wrapping_sub(before.bytes) }
    }
}

/// Notes `bytes` more or fewer. The cells need no destructor, so they work until a thread's very end.
#[inline]
fn note(count: u64, bytes: i64) {
    let _ = COUNT.try_with(|c| c.set(c.get().wrapping_add(count)));
    let _ = BYTES.try_with(|b| b.set(b.get().wrapping_add(bytes)));
}

// SAFETY: every call is passed on with the arguments given, and its answer returned unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller's promises are those the other asks for.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: as above; the block came from there.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, new_size as i64 - layout.size() as i64);
        // SAFETY: as above; the block came from there.
        unsafe { self.0.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator(System);

    #[test]
    fn blocks_and_bytes_are_counted_by_thread() {
        let before = allocations();
        let block = std::hint::black_box(vec![1u8; 1000]);
        let held = allocations().since(before);
        assert_eq!(held, Allocations { count: 1, bytes: 1000 });
        drop(block);
        assert_eq!(allocations().since(before), Allocations { count: 1, bytes: 0 });
    }

    #[test]
    fn growing_counts_and_zeroed_memory_too() {
        let before = allocations();
        let mut v: Vec<u8> = std::hint::black_box(Vec::with_capacity(10));
        v.reserve_exact(100);
        let zeroed = std::hint::black_box(vec![0u64; 8]);
        let held = allocations().since(before);
        assert_eq!(held, Allocations { count: 3, bytes: 164 });
        drop((v, zeroed));
    }
}
