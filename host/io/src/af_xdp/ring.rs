//! Rings that are shared with the kernel: one side puts entries in, the other takes them out.
//!
//! Both ends count up without bound, modulo 2³²; the place of an entry is its number modulo the ring's size. Who puts in
//! stores its count after the entries (release), who takes out reads that count before them (acquire), and the other way
//! round for places that are free again.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`, `net/xdp/xsk_queue.h`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of a ring, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped, once; the ring that points into it goes with it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Where things are in a ring's memory, bytes from its begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
}

impl Offsets {
    /// As the kernel says it (`XDP_MMAP_OFFSETS`).
    pub(super) fn of(o: &libc::xdp_ring_offset) -> Self {
        Self {
            producer: o.producer as usize,
            consumer: o.consumer as usize,
            flags: o.flags as usize,
            entries: o.desc as usize,
        }
    }
}

/// Types without padding that any bytes are a value of: the kernel writes them.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// One ring, seen from either end.
#[derive(Debug)]
pub(super) struct Ring<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the mapping belongs to this value alone; nothing in it refers to the thread that made it.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps the ring of `size` entries, a power of two, that a socket has at `page_offset`.
    ///
    /// # Errors
    /// The socket has no such ring, or is bound already.
    pub(super) fn map(fd: &OwnedFd, page_offset: libc::off_t, o: Offsets, size: u32) -> io::Result<Self> {
        Self::mapped(fd.as_raw_fd(), libc::MAP_SHARED | libc::MAP_POPULATE, page_offset, o, size)
    }

    fn mapped(
        fd: libc::c_int,
        flags: libc::c_int,
        page_offset: libc::off_t,
        o: Offsets,
        size: u32,
    ) -> io::Result<Self> {
        let len = o.entries + size as usize * size_of::<T>();
        let counts = [o.producer, o.consumer, o.flags];
        let inside = counts.iter().all(|at| at % align_of::<AtomicU32>() == 0 && at + 4 <= o.entries);
        if !size.is_power_of_two() || !inside || !o.entries.is_multiple_of(align_of::<T>()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: a new mapping of `len` bytes wherever there is room; the result is checked.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, page_offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(at) = NonNull::new(at.cast::<u8>()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        // SAFETY: all four lie inside the mapping, aligned, as was checked against its length above.
        unsafe {
            Ok(Self {
                _mapping: Mapping { at, len },
                producer: at.add(o.producer).cast(),
                consumer: at.add(o.consumer).cast(),
                flags: at.add(o.flags).cast(),
                entries: at.add(o.entries).cast(),
                size,
            })
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`; shared with the kernel and never accessed otherwise.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// Whether the kernel wants to be told that there is something for it.
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        // SAFETY: the masked number is below `size`, and the mapping holds so many entries.
        unsafe { self.entries.add((number & (self.size - 1)) as usize) }
    }
}

/// The end that puts in.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Number of the next entry; those before may not be published yet.
    next: u32,
    /// The other end's count when last looked at.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn new(ring: Ring<T>) -> Self {
        Self { next: ring.producer().load(Ordering::Relaxed), taken: 0, ring }
    }

    /// Entries that [`Producer::push`] takes now.
    pub(super) fn free(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size - self.next.wrapping_sub(self.taken).min(self.ring.size)
    }

    /// Puts one in; `false` when the ring is full. The other end sees it after [`Producer::publish`].
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.next.wrapping_sub(self.taken) >= self.ring.size && self.free() == 0 {
            return false;
        }
        // SAFETY: the other end has given this place back (its count was read with Acquire) and does not look at it
        // before it is published.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the other end what was put in.
    pub(super) fn publish(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the other end has not taken.
    pub(super) fn waiting(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The end that takes out.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Number of the next entry; places before it may not be given back yet.
    next: u32,
    /// The other end's count when last looked at.
    there: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(ring: Ring<T>) -> Self {
        let next = ring.consumer().load(Ordering::Relaxed);
        Self { ring, next, there: next }
    }

    /// Whether there is an entry.
    pub(super) fn has_any(&self) -> bool {
        self.there != self.next || self.ring.producer().load(Ordering::Acquire) != self.next
    }

    /// Takes one out. Its place is free for the other end after [`Consumer::give_back`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.there == self.next {
            self.there = self.ring.producer().load(Ordering::Acquire);
            if self.there == self.next {
                return None;
            }
        }
        // SAFETY: the other end has published this entry (its count was read with Acquire) and does not touch it until
        // it is given back; any bytes are a value of `T`.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of what was taken back.
    pub(super) fn give_back(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// Both ends of one ring, over memory that is mapped twice, with counts that begin shortly before they wrap.
    fn ends(size: u32, begin: u32) -> (Producer<u64>, Consumer<u64>) {
        // SAFETY: plain system call with a terminated name; the result is checked.
        let raw = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(raw >= 0);
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::ftruncate(raw, 1 << 16) }, 0);
        let map = || Ring::map(&fd, 0, OFFSETS, size).unwrap();
        let first = map();
        first.producer().store(begin, Ordering::Relaxed);
        first.consumer().store(begin, Ordering::Relaxed);
        let mut producer = Producer::new(map());
        assert_eq!(producer.free(), size);
        (producer, Consumer::new(map()))
    }

    #[test]
    fn a_full_ring_takes_no_more_and_unpublished_entries_are_not_seen() {
        let (mut producer, mut consumer) = ends(4, u32::MAX - 1);
        for i in 0..4 {
            assert!(producer.push(i));
        }
        assert!(!producer.push(4) && producer.free() == 0 && !consumer.has_any());
        assert_eq!(consumer.pop(), None);
        producer.publish();
        assert!(consumer.has_any() && producer.waiting() == 4);
        assert_eq!((consumer.pop(), consumer.pop()), (Some(0), Some(1)));
        assert!(!producer.push(4), "not given back yet");
        consumer.give_back();
        assert_eq!((producer.free(), producer.waiting()), (2, 2));
        assert!(producer.push(4) && producer.push(5) && !producer.push(6));
    }

    #[test]
    fn entries_arrive_once_and_in_order_at_another_thread() {
        const COUNT: u64 = 200_000;
        let (mut producer, mut consumer) = ends(64, u32::MAX - 1000);
        let sender = std::thread::spawn(move || {
            let mut i = 0;
            while i < COUNT {
                while i < COUNT && producer.push(i) {
                    i += 1;
                }
                producer.publish();
                std::thread::yield_now();
            }
        });
        let mut wanted = 0;
        while wanted < COUNT {
            while let Some(i) = consumer.pop() {
                assert_eq!(i, wanted);
                wanted += 1;
            }
            consumer.give_back();
            std::thread::yield_now();
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(), None);
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        for bad in [
            Offsets { producer: 190, ..OFFSETS },
            Offsets { flags: 192, ..OFFSETS },
            Offsets { entries: 196, ..OFFSETS },
        ] {
            let error = Ring::<u64>::map(&fd, 0, bad, 64).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        assert!(Ring::<u64>::map(&fd, 0, OFFSETS, 48).is_err(), "not a power of two");
    }
}
