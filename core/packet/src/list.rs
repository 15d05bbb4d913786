//! A FIFO of packets that needs no memory of its own.

use crate::{Packet, pool::Slot, prefetch};
use std::ptr::NonNull;

/// A singly linked FIFO threaded through the packets' own slots: O(1) at both ends, no allocation, 40 bytes when
/// empty. Dropping it releases its packets.
#[derive(Debug, Default)]
pub struct PacketList {
    head: Option<NonNull<Slot>>,
    tail: Option<NonNull<Slot>>,
    packets: usize,
    bytes: u64,
}

// SAFETY: the list owns its packets exactly as a `Vec<Packet>` would, and `Packet` is `Send`.
unsafe impl Send for PacketList {}

impl PacketList {
    /// An empty list.
    pub const fn new() -> Self {
        Self { head: None, tail: None, packets: 0, bytes: 0 }
    }
    /// Packets inside.
    pub const fn len(&self) -> usize {
        self.packets
    }
    /// Whether none is inside.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }
    /// Sum of frame lengths.
    pub const fn frame_bytes(&self) -> u64 {
        self.bytes
    }
    /// Appends a packet. Its frame length must not change while it is inside.
    #[inline]
    pub fn push_back(&mut self, packet: Packet) {
        self.bytes += packet.len() as u64;
        self.packets += 1;
        let mut slot = packet.into_slot();
        // SAFETY: `into_slot` gave us the only handle to a live slot.
        unsafe { slot.as_mut().next = None };
        match self.tail {
            // SAFETY: the tail is a slot this list owns.
            Some(mut tail) => unsafe { tail.as_mut().next = Some(slot) },
            None => self.head = Some(slot),
        }
        self.tail = Some(slot);
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let mut slot = self.head?;
        // SAFETY: the head is a slot this list owns.
        self.head = unsafe { slot.as_mut().next.take() };
        if self.head.is_none() {
            self.tail = None;
        }
        // SAFETY: unlinked above, so the handle made here is the only one.
        let packet = unsafe { Packet::from_slot(slot) };
        self.packets -= 1;
        self.bytes -= packet.len() as u64;
        Some(packet)
    }
    /// Frame length of the oldest packet.
    #[inline]
    pub fn front_len(&self) -> Option<usize> {
        // SAFETY: the head is a slot this list owns and lends out only through `&self`/`&mut self`.
        self.head.map(|slot| unsafe { slot.as_ref().len as usize })
    }
    /// Asks the processor to bring near what [`PacketList::pop_front`] reads.
    #[inline]
    pub fn prefetch_head(&self) {
        if let Some(slot) = self.head {
            // SAFETY: the head is a slot this list owns; only its address is used.
            prefetch(unsafe { slot.as_ref() });
        }
    }
    /// Asks the processor to bring near what [`PacketList::push_back`] writes besides the packet.
    #[inline]
    pub fn prefetch_tail(&self) {
        if let Some(slot) = self.tail {
            // SAFETY: the tail is a slot this list owns; only its address is used.
            prefetch(unsafe { slot.as_ref() });
        }
    }
    /// Metadata of the oldest packet.
    pub fn front_meta(&self) -> Option<&crate::Meta> {
        // SAFETY: as in `front_len`; the reference borrows the list.
        self.head.map(|slot| unsafe { &(*slot.as_ptr()).meta })
    }
}

impl Drop for PacketList {
    fn drop(&mut self) {
        while let Some(packet) = self.pop_front() {
            packet.release();
        }
    }
}
