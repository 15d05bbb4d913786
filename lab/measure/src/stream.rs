//! Packets of a stream by the numbers their source gave them.
//!
//! A source goes on numbering while its host is stopped, so the number of a packet is not its place among those sent.

use crate::recording::{Jump, Membership, PacketRecord, StreamRecord};
use perhop_quality::Codec;
use perhop_units::Instant;

impl StreamRecord {
    /// A stream of which nothing was sent yet.
    pub fn new(of: Membership, number: u16, codec: Option<Codec>) -> Self {
        Self { of, number, codec, packets: Vec::new(), jumps: Vec::new(), duplicates: 0 }
    }

    /// Adds the packet that its source numbered `index`; numbers rise.
    pub fn sent(&mut self, index: u32, packet: PacketRecord) {
        let position = self.packets.len();
        let next = self.jumps.last().map_or((0, 0), |jump| (jump.position, jump.index));
        if u64::from(index) != u64::from(next.1) + (position - next.0) as u64 {
            self.jumps.push(Jump { position, index });
        }
        self.packets.push(packet);
    }

    /// The packet that its source numbered `index`, O(log jumps); `None` if it was never sent.
    pub fn packet(&self, index: u32) -> Option<&PacketRecord> {
        self.packets.get(self.position(index)?)
    }

    /// Books an arrival, or one more copy; `false` when no such packet was sent. O(log jumps).
    pub fn arrived(&mut self, index: u32, at: Instant) -> bool {
        let position = self.position(index);
        match position.and_then(|position| self.packets.get_mut(position)) {
            Some(packet) if packet.arrived == Instant::FAR_FUTURE => packet.arrived = at,
            Some(_) => self.duplicates += 1,
            None => return false,
        }
        true
    }

    fn position(&self, index: u32) -> Option<usize> {
        let behind = self.jumps.partition_point(|jump| jump.index <= index);
        let (first, number) = match behind.checked_sub(1).and_then(|i| self.jumps.get(i)) {
            Some(jump) => (jump.position, jump.index),
            None => (0, 0),
        };
        let position = first + (index - number) as usize;
        let end = self.jumps.get(behind).map_or(self.packets.len(), |jump| jump.position);
        (position < end).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Toward;

    #[test]
    fn arrivals_find_their_packets_behind_numbers_that_were_never_sent() {
        let of = Membership { traffic: 0, pair: 0, toward: Toward::Second };
        for numbers in [&[0, 1, 2][..], &[3, 4, 9, 10, 20], &[0, 5]] {
            let mut stream = StreamRecord::new(of, 0, None);
            for index in numbers {
                let sent = Instant(u64::from(*index));
                let packet = PacketRecord { sent, arrived: Instant::FAR_FUTURE, len: 100, rtp_timestamp: 0 };
                stream.sent(*index, packet);
            }
            for index in 0..30 {
                let was_sent = numbers.contains(&index);
                assert_eq!(stream.packet(index).map(|p| p.sent), was_sent.then_some(Instant(index.into())));
                assert_eq!(stream.arrived(index, Instant(u64::from(index) + 7)), was_sent);
            }
            assert!(stream.packets.iter().all(|p| p.arrived.since(p.sent).as_nanos() == 7));
            assert_eq!(stream.duplicates, 0);
            assert!(stream.arrived(numbers[0], Instant(99)));
            assert_eq!((stream.duplicates, stream.packets.len()), (1, numbers.len()));
        }
    }
}
