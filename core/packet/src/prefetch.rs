//! Cache prefetch.

/// Asks the processor to bring all cache lines of `value` near, of which there should be few. Never faults; a hint only.
#[inline(always)]
pub fn prefetch_whole<T>(value: &T) {
    for at in (0..size_of::<T>()).step_by(64) {
        // SAFETY: `at` is inside the value, and a byte of it is only asked for, not read.
        prefetch(unsafe { &*std::ptr::from_ref(value).cast::<std::mem::MaybeUninit<u8>>().add(at) });
    }
}

/// Asks the processor to bring the first cache line of `value` near. Never faults; a hint only.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `_mm_prefetch` has no architectural effect and accepts any address; this one is valid besides.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
