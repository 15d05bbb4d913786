//! Counts what the kernel itself sends by an interface, which an AF_XDP socket does not see.
//!
//! A program on the interface's way out (tcx, Linux 6.6) adds up frames and bytes in memory that is shared with us. Frames
//! of AF_XDP and packet sockets that bypass the queueing discipline do not come by there.
//!
//! Source: Linux `include/uapi/linux/bpf.h` (`struct __sk_buff`).

use crate::af_packet::KernelSent;
use crate::bpf::{
    self, ATOMIC_ADD_64, Assembler, AttachPoint, CALL, IF_EQUAL_64, Instruction, LOAD, MOVE_64, Map,
    ProgramKind, SET_32, STORE_VALUE,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page: the kernel maps no less.
const LEN: usize = 4096;

/// The program on an interface, until dropped, and its counts.
#[derive(Debug)]
pub(super) struct KernelSentCount {
    /// Frames, then bytes.
    counts: NonNull<[AtomicU64; 2]>,
    told: KernelSent,
    _link: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone; nothing in it refers to the thread that made it.
unsafe impl Send for KernelSentCount {}

impl KernelSentCount {
    /// Begins to count.
    ///
    /// # Errors
    /// EINVAL before Linux 6.6.
    pub(super) fn new(index: u32) -> io::Result<Self> {
        let map: Map<u32, [u64; 2]> = Map::shared_array(c"perhop_sent")?;
        let program = bpf::load(ProgramKind::Classifier, c"perhop_sent", &program(map.number()))?;
        let link = bpf::attach(&program, index, AttachPoint::TcxEgress, 0)?;
        // SAFETY: a new mapping of the map's only page wherever there is room; the result is checked.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.descriptor().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let counts = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { counts, told: KernelSent::default(), _link: link })
    }

    /// Since the port was opened.
    pub(super) fn all(&self) -> KernelSent {
        // SAFETY: the mapping lives as long as `self`, is a page long and aligned to one; the kernel adds to both numbers
        // at once for all processors, and they are never accessed but by these atomics.
        let [packets, bytes] = unsafe { self.counts.as_ref() };
        KernelSent { packets: packets.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    /// Since the last call.
    pub(super) fn take(&mut self) -> KernelSent {
        let all = self.all();
        let before = std::mem::replace(&mut self.told, all);
        KernelSent { packets: all.packets - before.packets, bytes: all.bytes - before.bytes }
    }
}

impl Drop for KernelSentCount {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped, once.
        unsafe { libc::munmap(self.counts.as_ptr().cast(), LEN) };
    }
}

/// Offset in `struct __sk_buff`.
const LENGTH: i16 = 0;
const MAP_LOOKUP: i32 = 1;
/// On to the next program, and in the end to the card.
const NEXT: i32 = -1;

fn program(map: i32) -> Vec<Instruction> {
    let mut a = Assembler::<()>::default();
    a.add(LOAD, 6, 1, LENGTH, 0);
    a.add(STORE_VALUE, 10, 0, -4, 0);
    a.map(1, map);
    a.add(MOVE_64, 2, 10, 0, 0);
    a.add(bpf::ADD_64, 2, 0, 0, -4);
    a.add(CALL, 0, 0, 0, MAP_LOOKUP);
    a.jump(IF_EQUAL_64, 0, 0, ());
    a.add(SET_32, 1, 0, 0, 1);
    a.add(ATOMIC_ADD_64, 0, 1, 0, 0);
    a.add(ATOMIC_ADD_64, 0, 6, 8, 0);
    a.here(());
    a.end(NEXT);
    a.out
}
