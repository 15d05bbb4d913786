//! A bounded first-in first-out queue: the plain structure inside [`super::Fifo`], RED and the leaves of trees.

use super::LengthRange;
use perhop_packet::{Meta, Packet, PacketList};
use perhop_units::{Bytes, Instant, QueueLimit, Rate};

/// The longest queue in packets; longer limits are clamped.
pub const MAX_PACKETS: u32 = 1 << 22;

/// A [`QueueLimit`] at the rate of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Packets(u32),
    Bytes(u64),
    /// As bytes, but an empty queue takes any packet: at a low rate the time may be shorter than one packet's own.
    Time(u64),
}

/// Drop-tail queue bounded by packets, bytes or time. Bytes are frame length plus the link's overhead per packet.
/// O(1) everywhere; allocates nothing.
#[derive(Debug)]
pub struct FifoQueue {
    list: PacketList,
    bound: Bound,
    overhead: u32,
    /// See [`FifoQueue::stamp`].
    stamp: u32,
    /// Nobody looks as a rule.
    range: Option<Box<LengthRange>>,
}

impl FifoQueue {
    /// An empty queue. `rate` turns a limit in time into bytes; `overhead` is what the link adds to each frame, in
    /// bytes. A packet limit is clamped to 1 … [`MAX_PACKETS`].
    pub fn new(limit: QueueLimit, rate: Rate, overhead: u32) -> Self {
        let mut queue = Self {
            list: PacketList::new(),
            bound: Bound::Packets(1),
            overhead,
            stamp: u32::MAX,
            range: None,
        };
        queue.set_limit(limit, rate, overhead);
        queue
    }

    /// Changes the bound. Packets already inside stay, even above the new bound.
    pub fn set_limit(&mut self, limit: QueueLimit, rate: Rate, overhead: u32) {
        self.overhead = overhead;
        self.bound = match limit {
            QueueLimit::Packets(n) => Bound::Packets(n.clamp(1, MAX_PACKETS)),
            QueueLimit::Bytes(n) => Bound::Bytes(n.0),
            QueueLimit::Time(ns) => Bound::Time(rate.bytes_in(ns).0),
        };
    }

    /// A number its owner has given it, where offering a packet finds it without looking elsewhere; [`u32::MAX`] at first.
    #[inline]
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Gives it a number.
    pub fn set_stamp(&mut self, stamp: u32) {
        self.stamp = stamp;
    }

    /// Whether a frame of `frame_len` bytes may be appended.
    #[inline]
    pub fn has_room(&self, frame_len: usize) -> bool {
        let after = || self.bytes().0 + frame_len as u64 + u64::from(self.overhead);
        let bounded = match self.bound {
            Bound::Packets(n) => self.list.len() < n as usize,
            Bound::Bytes(n) => after() <= n,
            Bound::Time(n) => self.list.is_empty() || after() <= n,
        };
        bounded && self.list.len() < MAX_PACKETS as usize
    }

    /// Appends `packet`, or gives it back when there is no room.
    ///
    /// # Errors
    /// The packet itself.
    #[inline]
    pub fn offer(&mut self, packet: Packet) -> Result<(), Packet> {
        if !self.has_room(packet.len()) {
            return Err(packet);
        }
        self.list.push_back(packet);
        Ok(())
    }

    /// Takes the oldest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.list.pop_front()
    }

    /// Frame length of the oldest packet in bytes.
    #[inline]
    pub fn front_len(&self) -> Option<usize> {
        self.list.front_len()
    }

    /// Asks for the oldest packet's book-keeping, which [`FifoQueue::pop`] will need.
    #[inline]
    pub fn prefetch_head(&self) {
        self.list.prefetch_head();
    }

    /// Asks for that of the latest packet, which [`FifoQueue::offer`] will need.
    #[inline]
    pub fn prefetch_tail(&self) {
        self.list.prefetch_tail();
    }

    /// Metadata of the oldest packet.
    pub fn front_meta(&self) -> Option<&Meta> {
        self.list.front_meta()
    }

    /// Packets inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether none is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Frame bytes inside, without overhead.
    #[inline]
    pub fn frame_bytes(&self) -> u64 {
        self.list.frame_bytes()
    }

    /// Bytes inside as the limit counts them: frames plus overhead.
    #[inline]
    pub fn bytes(&self) -> Bytes {
        Bytes(self.list.frame_bytes() + self.list.len() as u64 * u64::from(self.overhead))
    }

    /// To be called before the queue changes at `now`, so that [`FifoQueue::length_range`] is exact.
    #[inline]
    pub fn lasted(&mut self, now: Instant) {
        if let Some(range) = &mut self.range {
            range.lasted(now, self.list.frame_bytes());
        }
    }

    /// Smallest and largest frame bytes inside since the last call; the first one begins.
    pub fn length_range(&mut self, now: Instant) -> [u64; 2] {
        let bytes = self.list.frame_bytes();
        self.range.get_or_insert_with(|| Box::new(LengthRange::new(now, bytes))).take(now, bytes)
    }

    /// Appends `packet` whatever the bound: what another queue had taken already is not refused here.
    pub(crate) fn keep(&mut self, packet: Packet) {
        self.list.push_back(packet);
    }

    /// The memory of lengths, which a successor of another type goes on with.
    pub(crate) fn range_mut(&mut self) -> &mut Option<Box<LengthRange>> {
        &mut self.range
    }

    /// Takes over everything inside `old`, in order, regardless of the own bound.
    pub fn adopt(&mut self, old: &mut Self) {
        self.adopt_each(old, |_| {});
    }

    /// The same; shows each packet to `each`.
    pub fn adopt_each(&mut self, old: &mut Self, mut each: impl FnMut(&Packet)) {
        while let Some(packet) = old.list.pop_front() {
            each(&packet);
            self.list.push_back(packet);
        }
        self.range = old.range.take().or(self.range.take());
    }

    /// Bytes of a packet as the limit counts them: its frame plus overhead.
    #[inline]
    pub fn cost(&self, packet: &Packet) -> Bytes {
        Bytes(packet.len() as u64 + u64::from(self.overhead))
    }

    /// Overhead per packet in bytes.
    pub fn overhead(&self) -> u32 {
        self.overhead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_packet::Pool;
    use perhop_units::{Bytes, Duration};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn limits() -> impl Strategy<Value = QueueLimit> {
        prop_oneof![
            (1u32..40).prop_map(QueueLimit::Packets),
            (0u64..20_000).prop_map(|n| QueueLimit::Bytes(Bytes(n))),
            (0u64..20_000_000).prop_map(|ns| QueueLimit::Time(Duration(ns))),
        ]
    }

    proptest! {
        #[test]
        fn keeps_order_and_bound(
            limit in limits(),
            overhead in 0u32..40,
            ops in prop::collection::vec(prop::option::of(1usize..1600), 1..200),
        ) {
            let pool = Pool::new(256);
            let rate = Rate::from_mbit(8); // one byte a µs
            let mut queue = FifoQueue::new(limit, rate, overhead);
            let mut model: VecDeque<u32> = VecDeque::new();
            let mut lens: VecDeque<usize> = VecDeque::new();
            for op in ops {
                let Some(len) = op else {
                    let packet = queue.pop();
                    prop_assert_eq!(packet.as_ref().map(Packet::buffer_index), model.pop_front());
                    lens.pop_front();
                    if let Some(p) = packet { p.release() }
                    continue;
                };
                let packet = pool.packet(&vec![0; len]).expect("256 are enough");
                let index = packet.buffer_index();
                let total: usize = lens.iter().map(|l| l + overhead as usize).sum();
                let after = (total + len + overhead as usize) as u64;
                let fits = match limit {
                    QueueLimit::Packets(n) => lens.len() < n as usize,
                    QueueLimit::Bytes(n) => after <= n.0,
                    QueueLimit::Time(ns) => lens.is_empty() || after <= ns.0 / 1000,
                };
                match queue.offer(packet) {
                    Ok(()) => {
                        prop_assert!(fits);
                        model.push_back(index);
                        lens.push_back(len);
                    }
                    Err(packet) => {
                        packet.release();
                        prop_assert!(!fits);
                    }
                }
                let total: usize = lens.iter().map(|l| l + overhead as usize).sum();
                prop_assert_eq!(queue.bytes(), Bytes(total as u64));
            }
        }
    }
}
