//! What the leaf of a tree of classes asks of a discipline that drops early: packets one by one, and what was lost.

use perhop_element::{Cx, Discipline};
use perhop_packet::Packet;
use perhop_units::Instant;

/// Packets a discipline has dropped and marked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Dropped because there was no room.
    pub(crate) full: u64,
    /// Dropped before that.
    pub(crate) early: u64,
    /// Frame bytes of both.
    pub(crate) bytes: u64,
    /// Marked instead of dropped.
    pub(crate) marked: u64,
}

/// A discipline as the queue of a leaf.
pub(crate) trait InLeaf: Discipline {
    /// Offers one packet; it or others may be dropped.
    fn put(&mut self, cx: &mut Cx<'_>, packet: Packet);

    /// Takes the packet that goes next. Others may be dropped before it.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet>;

    /// Takes a packet about which nothing is decided and nothing counted: the oldest, of flows that of one of them.
    fn evict(&mut self) -> Option<Packet>;

    /// When the packet at the head came, if packets are stamped.
    fn head_since(&self) -> Option<Instant>;

    /// Takes over a packet of a predecessor, even above the bound.
    fn keep(&mut self, packet: Packet);

    /// What was lost so far.
    fn losses(&self) -> Losses;
}
