//! The law of a scheduling discipline: which leaf of a tree sends next. Whoever has the queues tells it of what comes and
//! goes: [`super::leaves`] as a discipline of its own, [`super::class_tree`] in the tree of a port.

use perhop_packet::DropReason;
use perhop_units::{Duration, Instant};
use std::fmt::Debug;

/// What waits in a leaf at one moment, for laws that follow waiting times. Bytes are those on the line, overhead included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Of all packets.
    pub(super) bytes: u64,
    /// Of the next one; 0: there is none.
    pub(super) head: u64,
    /// How long the next one has waited.
    pub(super) waited: Duration,
}

/// Why a packet has to go unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// All classes together hold too much.
    Full,
    /// Not all that have bounds can be in time.
    Late,
}

impl Loss {
    pub(super) fn reason(self) -> DropReason {
        match self {
            Self::Full => DropReason::QueueFull,
            Self::Late => DropReason::CoDel,
        }
    }
}

/// Decides which leaf of a tree sends next. Lengths are in bytes, the line's overhead included; classes are numbered as
/// the law was told them.
pub(super) trait Law: Debug + Send + 'static {
    /// Whether it goes by how long packets have waited: they are stamped when they come, and before it is asked anything,
    /// [`Law::see`] tells it of every leaf.
    fn follows_waits(&self) -> bool {
        false
    }

    /// Whether leaves share a buffer of which it decides who loses: after each change, [`Law::loses`] is asked.
    fn shares_buffer(&self) -> bool {
        false
    }

    /// Goes on with what class `of` of a predecessor has used, in a class that has nothing to send yet.
    fn adopt(&mut self, now: Instant, class: usize, old: &Self, of: usize) {
        let _ = (now, class, old, of);
    }

    /// A packet of `len` bytes comes to a leaf, before it is known whether it finds room.
    fn arrives(&mut self, now: Instant, leaf: usize, len: u64) {
        let _ = (now, leaf, len);
    }

    /// Says what waits in a leaf now.
    fn see(&mut self, leaf: usize, waiting: Waiting) {
        let _ = (leaf, waiting);
    }

    /// An idle leaf got a packet of `len` bytes.
    fn became_active(&mut self, now: Instant, leaf: usize, len: u64) {
        let _ = (now, leaf, len);
    }

    /// The leaf that may send now, if one may.
    fn choose(&mut self, now: Instant) -> Option<usize>;

    /// The chosen leaf sent `len` bytes that had come at `came`, if they are stamped; the length of its next packet.
    fn sent(&mut self, now: Instant, leaf: usize, len: u64, next: Option<u64>, came: Instant);

    /// The chosen leaf has nothing to send after all.
    fn withdrawn(&mut self, now: Instant, leaf: usize) {
        self.sent(now, leaf, 0, None, now);
    }

    /// A leaf lost a packet of `len` bytes.
    fn lost(&mut self, leaf: usize, len: u64) {
        let _ = (leaf, len);
    }

    /// The leaf whose oldest packet is to be dropped, and why, while all leaves hold so many packets, of so many bytes. To
    /// be asked until it names none.
    fn loses(&mut self, packets: u64, bytes: u64) -> Option<(usize, Loss)> {
        let _ = (packets, bytes);
        None
    }

    /// When a leaf may send, after [`Law::choose`] found none. O(1).
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}
