//! The measurement stamp: the last 16 bytes of every payload the laboratory sends.
//!
//! Layout, network byte order: magic (2), stream (2), index (4), sending instant in ns (8). Sixteen bytes, because the
//! smallest speech payload (G.729, 20 B) must hold it without growing: the packet sizes of a codec stay true.

use perhop_units::Instant;

/// Length of a stamp in bytes.
pub const STAMP_LEN: usize = 16;

/// First two bytes of a stamp, "Ph".
const MAGIC: [u8; 2] = *b"Ph";

/// What a receiver needs to know of a packet's sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which stream of the run.
    pub stream: u16,
    /// Position in the stream, from 0.
    pub index: u32,
    /// When it left, on the run's clock.
    pub sent: Instant,
}

impl Stamp {
    /// The stamp as bytes.
    pub fn to_bytes(self) -> [u8; STAMP_LEN] {
        let mut bytes = [0; STAMP_LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..4].copy_from_slice(&self.stream.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.index.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes
    }

    /// The stamp at the end of `payload`, `None` if the payload is too short or ends in something else.
    pub fn at_end_of(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_LEN] = payload.last_chunk()?;
        let [m0, m1, s0, s1, i0, i1, i2, i3, t @ ..] = *bytes;
        ([m0, m1] == MAGIC).then(|| Self {
            stream: u16::from_be_bytes([s0, s1]),
            index: u32::from_be_bytes([i0, i1, i2, i3]),
            sent: Instant(u64::from_be_bytes(t)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_foreign_bytes_are_refused() {
        let stamp = Stamp { stream: 0x0102, index: 0x0304_0506, sent: Instant(0x0708_090a_0b0c_0d0e) };
        let bytes = stamp.to_bytes();
        assert_eq!(bytes, [0x50, 0x68, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(Stamp::at_end_of(&bytes), Some(stamp));
        assert_eq!(Stamp::at_end_of(&[&[9; 4][..], &bytes].concat()), Some(stamp));
        assert_eq!(Stamp::at_end_of(&bytes[1..]), None);
        assert_eq!(Stamp::at_end_of(&[0; 20]), None);
    }
}
