//! The fixed RTP header of generated calls (RFC 3550 §5.1): version 2, no padding, extension or contributors.

use perhop_wire::rtp;

/// Length of the header in bytes.
pub const RTP_HEADER_LEN: usize = rtp::HEADER_LEN;

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
        let fields = rtp::Repr {
            marker: self.marker,
            payload_type: self.payload_type,
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.ssrc,
            ..rtp::Repr::default()
        };
        fields.emit(&mut bytes);
        bytes
    }

    /// Reads a header as [`RtpHeader::to_bytes`] writes it; `None` for anything else, RTP or not.
    pub fn from_start_of(datagram: &[u8]) -> Option<Self> {
        let view = rtp::View::new_checked(datagram).ok()?;
        let plain = view.csrc().len() == 0 && view.extension().is_none() && view.padding() == 0;
        plain.then(|| Self {
            marker: view.marker(),
            payload_type: view.payload_type(),
            sequence: view.sequence(),
            timestamp: view.timestamp(),
            ssrc: view.ssrc(),
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
        // With a contributing source, or an extension, or padding, it is RTP but none of ours.
        for first in [0x81, 0x90, 0xa0] {
            assert_eq!(RtpHeader::from_start_of(&[&[first][..], &[1; 40]].concat()), None);
        }
    }
}
