//! A packet on its way between two threads.

use crate::Packet;

/// A packet in a ring: one word, released and not leaked when the way ends before it has arrived.
#[derive(Debug)]
pub struct Handover(Option<Packet>);

impl Handover {
    /// The packet has arrived.
    #[inline]
    pub fn take(mut self) -> Option<Packet> {
        self.0.take()
    }
}

impl From<Packet> for Handover {
    #[inline]
    fn from(packet: Packet) -> Self {
        Self(Some(packet))
    }
}

impl Drop for Handover {
    #[inline]
    fn drop(&mut self) {
        if let Some(packet) = self.0.take() {
            packet.release();
        }
    }
}

const _: () = assert!(size_of::<Handover>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn a_packet_whose_way_ends_goes_home_and_one_that_arrives_is_itself() {
        let pool = Pool::new(2);
        let of = |frame: &[u8]| Handover::from(pool.packet(frame).unwrap());
        drop(of(&[1]));
        let packet = of(&[2]).take().unwrap();
        assert_eq!(packet.frame(), [2]);
        packet.release();
        pool.flush_thread_cache();
        assert_eq!((pool.counters().in_depot, pool.counters().leaked), (2, 0));
    }
}
