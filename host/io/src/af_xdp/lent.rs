//! Packets whose buffers the kernel has.

use perhop_packet::{BUFFER_LEN, Packet, Pool};

/// Packets of one pool that are lent to the kernel, by the index of their buffer. The kernel names a buffer by its place
/// in the pool's memory.
#[derive(Debug)]
pub(super) struct Lent {
    pool: Pool,
    packets: Vec<Option<Packet>>,
}

impl Lent {
    /// None lent yet. Eight bytes for each buffer of the pool.
    pub(super) fn new(pool: Pool) -> Self {
        let count = pool.memory().len() / BUFFER_LEN;
        Self { pool, packets: (0..count).map(|_| None).collect() }
    }

    /// Lends a packet; gives the place of its frame. A packet of another pool comes back.
    pub(super) fn lend(&mut self, packet: Packet) -> Result<u64, Packet> {
        let index = packet.buffer_index() as usize;
        let at = index * BUFFER_LEN + packet.headroom();
        match self.packets.get_mut(index) {
            Some(place) if self.pool.owns(&packet) && place.is_none() => {
                *place = Some(packet);
                Ok(at as u64)
            }
            _ => Err(packet),
        }
    }

    /// Takes the packet back in whose buffer `place` is. `None` when it was not lent.
    pub(super) fn take(&mut self, place: u64) -> Option<Packet> {
        let index = usize::try_from(place).ok()? / BUFFER_LEN;
        self.packets.get_mut(index)?.take()
    }

    /// The kernel has let go: all packets end.
    pub(super) fn release(&mut self) {
        self.packets.iter_mut().filter_map(Option::take).for_each(Packet::release);
        self.pool.flush_thread_cache();
    }

    /// The kernel may write into the buffers at any time: they and the pool stay for good. Gives how many.
    pub(super) fn abandon(&mut self) -> usize {
        let mut lost = 0;
        for packet in self.packets.iter_mut().filter_map(Option::take) {
            std::mem::forget(packet);
            lost += 1;
        }
        std::mem::forget(self.pool.clone());
        lost
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_packet::HEADROOM;

    #[test]
    fn a_lent_packet_comes_back_once_by_any_place_in_its_buffer() {
        let (pool, other) = (Pool::new(4), Pool::new(4));
        let mut lent = Lent::new(pool.clone());
        let packet = pool.packet(&[1, 2, 3]).expect("free");
        let index = u64::from(packet.buffer_index());
        let place = lent.lend(packet).expect("of this pool");
        assert_eq!(place, index * 2048 + HEADROOM as u64);
        let packet = lent.take(index * 2048 + 2047).expect("lent");
        assert_eq!(packet.frame(), [1, 2, 3]);
        packet.release();
        assert!(lent.take(place).is_none());
        assert!(lent.take(4 * 2048).is_none() && lent.take(u64::MAX).is_none());
        let foreign = other.packet(&[4]).expect("free");
        lent.lend(foreign).expect_err("of another pool").release();
    }

    #[test]
    fn all_lent_packets_end_with_the_table() {
        let pool = Pool::new(3);
        let mut lent = Lent::new(pool.clone());
        for _ in 0..3 {
            assert!(lent.lend(pool.alloc().expect("free")).is_ok());
        }
        assert!(pool.alloc().is_none());
        drop(lent);
        assert_eq!(pool.counters().in_depot, 3);
    }

    #[test]
    fn abandoned_buffers_are_never_used_again() {
        let pool = Pool::new(3);
        let mut lent = Lent::new(pool.clone());
        assert!(lent.lend(pool.alloc().expect("free")).is_ok());
        assert_eq!(lent.abandon(), 1);
        drop(lent);
        pool.flush_thread_cache();
        assert_eq!(pool.counters().in_depot, 2);
    }
}
