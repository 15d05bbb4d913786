//! A vector of packets that travels between elements.

use crate::{Packet, prefetch};

/// Packets handed over together. Elements are given at most [`Batch::MAX`] at a time; capacity for that many is
/// allocated once. Packets still inside when a batch is dropped are released, not leaked.
#[derive(Debug)]
pub struct Batch {
    packets: Vec<Packet>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// The most packets an element is given at once.
    pub const MAX: usize = 256;

    /// An empty batch with room for [`Batch::MAX`].
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(Self::MAX) }
    }
    /// Packets inside.
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether none is inside.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Whether [`Batch::MAX`] are inside.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= Self::MAX
    }
    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.packets.push(packet);
    }
    /// Takes the last packet.
    pub fn pop(&mut self) -> Option<Packet> {
        self.packets.pop()
    }
    /// Takes all packets in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.packets.drain(..)
    }
    /// Takes the first `n` packets (or all, when fewer) in order.
    pub fn drain_first(&mut self, n: usize) -> std::vec::Drain<'_, Packet> {
        let n = n.min(self.packets.len());
        self.packets.drain(..n)
    }
    /// Moves everything from `other` to the end of this batch.
    pub fn append(&mut self, other: &mut Batch) {
        self.packets.append(&mut other.packets);
    }
    /// The packets.
    pub fn as_slice(&self) -> &[Packet] {
        &self.packets
    }
    /// The packets, to be changed in place.
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        &mut self.packets
    }
    /// Iterates in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.packets.iter()
    }
    /// Iterates in order, mutably.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.packets.iter_mut()
    }
    /// Asks for the memory of packets that another processor has worked on: metadata and the beginning of the frame. O(n).
    pub fn prefetch(&self) {
        self.packets.iter().for_each(Packet::prefetch_meta);
        self.packets.iter().filter_map(|p| p.frame().first()).for_each(prefetch);
    }
    /// Returns every buffer to its pool.
    pub fn release_all(&mut self) {
        crate::pool::release_all(&mut self.packets.drain(..));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release_all();
    }
}
