//! Packet buffers that grow with the world: a pool of fixed size is laid out whole, which small worlds need not pay.

use perhop_packet::{Packet, Pool};

/// Buffers of the first pool.
const FIRST: usize = 1 << 12;
/// Most pools: each has twice the buffers of the one before.
const POOLS: u32 = 9;

/// Pools, each twice as large as the one before; a packet knows its own.
pub(crate) struct Buffers {
    pools: Vec<Pool>,
    /// Most buffers of all pools together.
    most: usize,
    refused: u64,
}

impl Buffers {
    /// Buffers for at most `most` packets, or 2 million.
    pub(crate) fn new(most: Option<usize>) -> Self {
        let most = most.unwrap_or(FIRST * ((1 << POOLS) - 1));
        Self { pools: vec![Pool::new(FIRST.min(most))], most, refused: 0 }
    }

    /// The pool for routers and disciplines, which make few packets of their own.
    pub(crate) fn first(&self) -> &Pool {
        &self.pools[0]
    }

    /// An empty packet; `None` when there are as many as there may be.
    #[inline]
    pub(crate) fn alloc(&mut self) -> Option<Packet> {
        // The first pool is the one whose memory is warm.
        for pool in &self.pools {
            if let Some(packet) = pool.alloc() {
                return Some(packet);
            }
        }
        self.grow()
    }

    #[cold]
    fn grow(&mut self) -> Option<Packet> {
        let next = FIRST << self.pools.len();
        let have: usize = self.pools.iter().map(|pool| pool.counters().capacity as usize).sum();
        if have >= self.most {
            self.refused += 1;
            return None;
        }
        self.pools.push(Pool::new(next.min(self.most - have)));
        self.pools.last()?.alloc()
    }

    /// A copy of a packet with its metadata.
    pub(crate) fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.alloc()?;
        if !copy.set_frame(packet.frame()) {
            copy.release();
            return None;
        }
        *copy.meta_mut() = *packet.meta();
        Some(copy)
    }

    /// Buffers in use.
    pub(crate) fn used(&self) -> u64 {
        let used = |pool: &Pool| {
            pool.flush_thread_cache();
            let counters = pool.counters();
            counters.capacity - counters.in_depot
        };
        self.pools.iter().map(used).sum()
    }

    /// Packets that could not be made.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Instant;

    #[test]
    fn pools_are_added_until_there_are_enough() {
        let mut buffers = Buffers::new(Some(FIRST + 10));
        let mut packets: Vec<Packet> = (0..FIRST + 10).map_while(|_| buffers.alloc()).collect();
        assert_eq!(packets.len(), FIRST + 10);
        assert!(buffers.alloc().is_none());
        assert_eq!((buffers.used(), buffers.refused()), ((FIRST + 10) as u64, 1));
        for packet in packets.drain(..) {
            packet.release();
        }
        assert_eq!(buffers.used(), 0);
    }

    #[test]
    fn a_copy_has_the_frame_and_the_metadata() {
        let mut buffers = Buffers::new(Some(2));
        let mut packet = buffers.alloc().expect("there is room");
        assert!(packet.set_frame(&[1, 2, 3]));
        packet.meta_mut().received_at = Instant(7);
        let copy = buffers.copy(&packet).expect("there is room");
        assert_eq!((copy.frame(), copy.meta().received_at), (&[1, 2, 3][..], Instant(7)));
        assert!(buffers.copy(&packet).is_none());
        copy.release();
        packet.release();
    }
}
