//! Large pages for large blocks of memory.
//!
//! Tables of flows, trees of classes and pools of packets are read in an order that nobody can foretell, so with pages of 4 KiB nearly
//! every read also waits for a walk of the page tables, twice in a virtual machine. [`LargePages`] is an allocator that asks
//! the kernel for pages of 2 MiB for blocks of that size and more; the rest is the system's allocator's.
//!
//! It is a wish: where the kernel has no transparent large pages (`/sys/kernel/mm/transparent_hugepage/enabled` says
//! `never`) or none is free, the block has small ones. Blocks are touched by whoever uses them first, as with the system's allocator, so
//! what a program reserves and does not use takes no memory; the first touch of each 2 MiB waits for the kernel to clear
//! them, some tens of µs.
//!
//! Source: Linux `Documentation/admin-guide/mm/transhuge.rst`.

use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap_fixed, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{copy_nonoverlapping, null_mut};

/// A large page, bytes: where blocks begin, and from where on they are this allocator's own.
const LARGE: usize = 2 << 20;
/// The kernel's small pages, bytes, at most: ends of mappings are rounded up to it.
const SMALL: usize = 64 << 10;

/// The system's allocator for blocks below 2 MiB, mappings of their own with large pages for others.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

/// Whether a block has a mapping of its own. Depends on nothing but the layout, so that it is freed as it was allocated.
#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= LARGE
}

/// Bytes of the mapping of a block; `None`: more than there can be.
fn mapped(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(SMALL)
}

/// A mapping of zeros that begins with a large page; null when there is no memory.
#[cold]
fn map(size: usize) -> *mut u8 {
    let Some((length, longer)) = mapped(size).and_then(|n| Some((n, n.checked_add(LARGE)?))) else {
        return null_mut();
    };
    let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, wherever the kernel likes.
    let Ok(start) = (unsafe { mmap_anonymous(null_mut(), longer, read_write, private) }) else {
        return null_mut();
    };
    let start = start.cast::<u8>();
    let before = start.align_offset(LARGE);
    let block = start.wrapping_add(before);
    let after = longer - before - length;
    // SAFETY: both ends lie in the mapping just made, outside the block. What cannot be unmapped stays, unused.
    unsafe {
        if before > 0 {
            let _ = munmap(start.cast(), before);
        }
        if after > 0 {
            let _ = munmap(block.wrapping_add(length).cast(), after);
        }
        // A wish, see the module.
        let _ = madvise(block.cast(), length, Advice::LinuxHugepage);
    }
    block
}

/// Makes a mapping of `old` bytes one of `new`, other ones than before. Pages move and are not copied, so what was never touched
/// still takes no memory. Null when there is no memory; the block is then as it was.
///
/// # Safety
/// `block` is a mapping of [`map`] with [`mapped`] of `old` bytes.
unsafe fn remap(block: *mut u8, old: usize, new: usize) -> *mut u8 {
    let (Some(was), Some(is)) = (mapped(old), mapped(new)) else { return null_mut() };
    if is < was {
        // SAFETY: the end of the mapping, behind what is kept. What cannot be unmapped stays, unused.
        let _ = unsafe { munmap(block.wrapping_add(is).cast(), was - is) };
        return block;
    }
    let moved = map(new);
    if moved.is_null() {
        return moved;
    }
    // SAFETY: all of the old mapping moves to the beginning of the new one, which is at least as long and which nobody uses yet.
    if unsafe { mremap_fixed(block.cast(), was, was, MremapFlags::MAYMOVE, moved.cast()) }.is_ok() {
        return moved;
    }
    // Kernels before 6.17 refuse to move a mapping that has been grown before, and may have unmapped its goal by then.
    // SAFETY: nobody uses it.
    let _ = unsafe { munmap(moved.cast(), is) };
    let moved = map(new);
    if !moved.is_null() {
        // SAFETY: two mappings, the new one no shorter; the old one is then nobody's.
        unsafe {
            copy_nonoverlapping(block, moved, old);
            let _ = munmap(block.cast(), was);
        }
    }
    moved
}

// SAFETY: small blocks are `System`'s in every call. Large ones are mappings of at least the size asked for, aligned to
// `LARGE`, which is no less than the alignment asked for; `is_large` of the same layout tells them apart again.
unsafe impl GlobalAlloc for LargePages {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promises are those `System` asks for.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_large(layout) {
            // SAFETY: as above; the block came from `System`.
            return unsafe { System.dealloc(block, layout) };
        }
        if let Some(length) = mapped(layout.size()) {
            // SAFETY: exactly what `map` left of its mapping, and nobody uses it any more.
            let _ = unsafe { munmap(block.cast(), length) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size, rounded up to the alignment, is no overflow.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: as above; the block came from `System`.
            (false, false) => unsafe { System.realloc(block, layout, new_size) },
            (true, true) if mapped(layout.size()) == mapped(new_size) => block,
            // SAFETY: the block came from `map`.
            (true, true) => unsafe { remap(block, layout.size(), new_size) },
            // SAFETY: two different blocks of at least as many bytes as are copied; the old one is freed as it was
            // allocated, and only when there is a new one.
            _ => unsafe {
                let moved = self.alloc(new);
                if !moved.is_null() {
                    copy_nonoverlapping(block, moved, layout.size().min(new_size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that is filled, grown and shrunk to each of these sizes, and what it holds compared.
    fn through(sizes: &[usize], align: usize) {
        let layout = |size| Layout::from_size_align(size, align).unwrap();
        let (mut size, mut block) = (sizes[0], null_mut::<u8>());
        for (n, next) in sizes.iter().copied().enumerate() {
            // SAFETY: layouts of more than no bytes; the block is always the last one returned, of `size` bytes.
            unsafe {
                block = match n {
                    0 => LargePages.alloc_zeroed(layout(next)),
                    _ => LargePages.realloc(block, layout(size), next),
                };
                assert!(!block.is_null() && block.align_offset(align) == 0, "{next}");
                let at = |i: usize| block.add(i);
                if n == 0 {
                    assert!((0..next).step_by(4096).all(|i| *at(i) == 0));
                } else {
                    let kept = size.min(next);
                    assert!((0..kept).step_by(997).all(|i| *at(i) == (i % 251) as u8), "{size} to {next}");
                }
                (0..next).for_each(|i| *at(i) = (i % 251) as u8);
            }
            size = next;
        }
        // SAFETY: as above.
        unsafe { LargePages.dealloc(block, layout(size)) };
    }

    #[test]
    fn blocks_keep_what_they_hold_from_small_to_large_and_back() {
        for align in [1, 64, 4096, LARGE] {
            through(&[100, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 5, 3 * LARGE + 6, LARGE, 4096, 8], align);
            through(&[5 * LARGE, 2 * LARGE, 9 * LARGE], align);
        }
    }

    #[test]
    fn large_blocks_begin_with_a_large_page_and_zeros() {
        for size in [LARGE, LARGE + 4097, 7 * LARGE] {
            let layout = Layout::from_size_align(size, 8).unwrap();
            for _ in 0..3 {
                // SAFETY: a layout of more than no bytes; freed with the same.
                unsafe {
                    let block = LargePages.alloc_zeroed(layout);
                    assert!(!block.is_null() && block.align_offset(LARGE) == 0);
                    assert!((0..size).all(|i| *block.add(i) == 0));
                    *block.add(size - 1) = 1;
                    LargePages.dealloc(block, layout);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_without_harm() {
        let layout = Layout::from_size_align(isize::MAX as usize - 4096, 8).unwrap();
        // SAFETY: a layout of more than no bytes; nothing is returned.
        assert!(unsafe { LargePages.alloc(layout) }.is_null());
        let small = Layout::from_size_align(64, 8).unwrap();
        // SAFETY: the block stays when it cannot be made larger, and is freed as it was allocated.
        unsafe {
            let block = LargePages.alloc(small);
            *block = 7;
            assert!(LargePages.realloc(block, small, layout.size()).is_null());
            assert_eq!(*block, 7);
            LargePages.dealloc(block, small);
        }
    }

    /// What the kernel says this process has in memory, KiB.
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_was_never_touched_takes_no_memory_when_a_block_grows_or_shrinks() {
        const PAGES: usize = 256;
        let layout = |pages| Layout::from_size_align(pages * LARGE, 8).unwrap();
        let before = resident_kib();
        // SAFETY: the block is always the last one returned, of as many pages as its layout says.
        unsafe {
            let mut block = LargePages.alloc(layout(PAGES));
            *block = 7;
            for (old, new) in [(PAGES, 2 * PAGES), (2 * PAGES, 3 * PAGES), (3 * PAGES, PAGES)] {
                block = LargePages.realloc(block, layout(old), new * LARGE);
                assert_eq!((*block, block.align_offset(LARGE)), (7, 0));
            }
            *block.add(PAGES * LARGE - 1) = 8;
            let grown = resident_kib().saturating_sub(before);
            LargePages.dealloc(block, layout(PAGES));
            // Two pages were touched; the rest of this limit is for what tests do meanwhile.
            assert!(grown < (PAGES * LARGE / 1024 / 4) as u64, "{grown} KiB");
        }
    }
}
