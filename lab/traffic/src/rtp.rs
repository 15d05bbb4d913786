//! The fixed RTP header of generated calls (RFC 3550 §5.1): version 2, no padding, extension or contributors.

/// Length of the header in bytes.
pub const RTP_HEADER_LEN: usize = 12;

/// The fields a generated call sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpHeader {
    /// First packet of a talk spurt.
    pub marker: bool,
    /// Payload type, 0 … 127.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Time stamp in units of the codec's clock.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl RtpHeader {
    /// The header as bytes; a payload type above 127 loses its top bit.
    pub fn to_bytes(self) -> [u8; RTP_HEADER_LEN] {
        let mut bytes = [0; RTP_HEADER_LEN];
        bytes[0] = 2 << 6;
        bytes[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes
    }

    /// Reads a header as [`RtpHeader::to_bytes`] writes it; `None` for anything else.
    pub fn from_start_of(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; RTP_HEADER_LEN] = datagram.first_chunk()?;
        let [first, second, q0, q1, t0, t1, t2, t3, s0, s1, s2, s3] = *bytes;
        (first == 2 << 6).then(|| Self {
            marker: second & 0x80 != 0,
            payload_type: second & 0x7f,
            sequence: u16::from_be_bytes([q0, q1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([s0, s1, s2, s3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_rfc() {
        let header = RtpHeader {
            marker: true,
            payload_type: 18,
            sequence: 0x0102,
            timestamp: 0x0304_0506,
            ssrc: 0x0708_090a,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [0x80, 0x92, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(RtpHeader::from_start_of(&bytes), Some(header));
        assert_eq!(RtpHeader::from_start_of(&bytes[..11]), None);
        assert_eq!(RtpHeader::from_start_of(&[0x40; 12]), None);
    }
}
