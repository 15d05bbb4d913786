//! What an element may do to the world.

use crate::end::Ends;
use crate::{DelayTrace, NodeCounters, PacketEnd};
use perhop_packet::{Batch, DropReason, Handover, Meta, NO_MEDIA, Packet, Pool, PortId};
use perhop_ring::Producer;
use perhop_units::Instant;
use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// Index of an input or output of an element.
pub type PortIndex = u8;

/// An element's place in the driver's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One of an element's timers, 0 … [`TimerId::COUNT`] − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u8);

impl TimerId {
    /// The timer of elements that need only one.
    pub const MAIN: Self = Self(0);
    /// Timers an element has.
    pub const COUNT: usize = 4;
}

/// A request to tell a packet's sender why it did not arrive. The packet itself is dropped with the matching reason;
/// the router's ICMP element answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// TTL or hop limit ran out.
    TtlExpired,
    /// No route.
    NetUnreachable,
    /// A route says so: that the host is unreachable (IPv4), or that there is no route (IPv6), as Linux answers.
    Unreachable,
    /// The next hop does not answer.
    HostUnreachable,
    /// Administratively prohibited.
    Prohibited,
    /// Too big for the next link of this MTU (bytes).
    TooBig {
        /// MTU of the next link.
        mtu: u32,
    },
}

/// State shared by all elements of one driver, reached through [`Cx`].
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) pool: Pool,
    pub(crate) rng: Pcg64Mcg,
    /// Packets that left the graph by a port, waiting for the driver's owner.
    pub(crate) transmit: Vec<Batch>,
    /// Packets each port can take now; `u32::MAX` in virtual time.
    pub(crate) room: Vec<u32>,
    /// Packets to be answered by ICMP, with the reason.
    pub(crate) rejects: Vec<(Packet, Reject)>,
    /// Packets for this machine (the kernel or a simulated host), by receiving port.
    pub(crate) local: Batch,
    pub(crate) timers: Vec<(TimerId, Instant)>,
    /// Of packets of measured calls.
    pub(crate) ends: Ends,
    /// While packets are traced.
    pub(crate) trace: Option<Box<DelayTrace>>,
}

/// An element's window on the world during one call.
#[derive(Debug)]
pub struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) slots: &'a mut [Batch],
    pub(crate) counters: &'a mut NodeCounters,
    pub(crate) world: &'a mut World,
}

impl Cx<'_> {
    /// The time, the same during one call.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// 32 uniform random bits from the world's seeded stream.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.world.rng.next_u32()
    }

    /// Sends a packet out of output `port`; delivered after the call. An output the graph left unconnected drops
    /// ([`DropReason::Unconnected`]).
    #[inline]
    pub fn emit(&mut self, port: PortIndex, packet: Packet) {
        match self.slots.get_mut(port as usize) {
            Some(slot) => {
                self.counters.emitted += 1;
                slot.push(packet);
            }
            None => self.drop(packet, DropReason::Unconnected),
        }
    }

    /// Sends a whole batch out of output `port`.
    #[inline]
    pub fn emit_all(&mut self, port: PortIndex, batch: &mut Batch) {
        match self.slots.get_mut(port as usize) {
            Some(slot) => {
                self.counters.emitted += batch.len() as u64;
                if slot.is_empty() {
                    std::mem::swap(slot, batch);
                } else {
                    slot.append(batch);
                }
            }
            None => {
                for packet in batch.drain() {
                    self.drop(packet, DropReason::Unconnected);
                }
            }
        }
    }

    /// Ends a packet for a reason.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.counters.dropped += 1;
        self.counters.drops[reason.index()] += 1;
        self.world.ends.note(self.now, &packet, Some(reason));
        packet.release();
    }

    /// Ends a packet for `reason` and asks for an ICMP error to its sender. Counts as dropped here; the answer is
    /// made by the ICMP element.
    pub fn reject(&mut self, packet: Packet, reason: DropReason, reject: Reject) {
        self.counters.dropped += 1;
        self.counters.drops[reason.index()] += 1;
        self.world.ends.note(self.now, &packet, Some(reason));
        self.world.rejects.push((packet, reject));
    }

    /// Ends a packet on purpose: replaced by its fragments, absorbed by a sink.
    #[inline]
    pub fn consume(&mut self, packet: Packet) {
        self.counters.consumed += 1;
        packet.release();
    }

    /// Hands packets to another worker of this router by `ring`. They count as consumed here, and are received there by the
    /// element that goes on with them; those for which there is no room are dropped (`ring_full`). How many went.
    #[inline]
    pub fn hand_over(
        &mut self,
        ring: &mut Producer<Handover>,
        mut packets: impl ExactSizeIterator<Item = Packet>,
    ) -> usize {
        let put = ring.push_batch(&mut packets.by_ref().map(Handover::from));
        for packet in packets {
            self.drop(packet, DropReason::RingFull);
        }
        self.counters.consumed += put as u64;
        put
    }

    /// Hands a packet to this machine: the kernel, or a simulated host. Counts as consumed.
    pub fn deliver_local(&mut self, packet: Packet) {
        self.counters.consumed += 1;
        self.world.ends.note(self.now, &packet, None);
        self.world.local.push(packet);
    }

    /// Hands a packet to the transmitter of a router port. Counts as consumed.
    #[inline]
    pub fn transmit(&mut self, port: PortId, packet: Packet) {
        match self.world.transmit.get_mut(port.index()) {
            Some(out) => {
                self.counters.consumed += 1;
                if let Some(room) = self.world.room.get_mut(port.index()) {
                    *room = room.saturating_sub(1);
                }
                if let Some(trace) = &mut self.world.trace {
                    trace.depart(port, &packet);
                }
                self.world.ends.note(self.now, &packet, None);
                out.push(packet);
            }
            None => self.drop(packet, DropReason::PortDown),
        }
    }

    /// Packets router port `port` can take now.
    #[inline]
    pub fn port_room(&self, port: PortId) -> u32 {
        self.world.room.get(port.index()).copied().unwrap_or(0)
    }

    /// An empty new packet, counted as made; `None` when the pool is exhausted.
    pub fn make(&mut self) -> Option<Packet> {
        let packet = self.world.pool.alloc()?;
        self.counters.made += 1;
        Some(packet)
    }

    /// A copy of `packet`, bytes and metadata, counted as made; `None` when the pool is exhausted. How a copy ends is not told
    /// to who measures calls.
    pub fn clone(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.make()?;
        if !copy.set_frame(packet.frame()) {
            self.counters.made -= 1;
            copy.release();
            return None;
        }
        *copy.meta_mut() = Meta { media: NO_MEDIA, ..*packet.meta() };
        Some(copy)
    }

    /// Takes what became of packets of measured calls since the last call, for who measures them; how many more there were than
    /// are kept.
    pub fn take_ends(&mut self, into: &mut Vec<PacketEnd>) -> u64 {
        self.world.ends.take(into)
    }

    /// Takes the packets other elements rejected, for the ICMP element. They count as neither received nor made
    /// here: the rejecting element has booked them as dropped.
    pub fn take_rejects(&mut self, into: &mut Vec<(Packet, Reject)>) {
        into.append(&mut self.world.rejects);
    }

    /// Wakes this element's [`TimerId::MAIN`] at `at` (or earlier). An earlier pending time stays in force.
    #[inline]
    pub fn timer_at(&mut self, at: Instant) {
        self.world.timers.push((TimerId::MAIN, at));
    }

    /// Wakes this element's timer `timer` at `at` (or earlier).
    #[inline]
    pub fn timer_at_id(&mut self, timer: TimerId, at: Instant) {
        self.world.timers.push((timer, at));
    }
}
