//! Segments as an endpoint takes and gives them: the header's fields, and where the payload lies in the stream.

use perhop_wire::Ecn;
use perhop_wire::tcp::{Repr, flags};

/// A segment that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Header and options.
    pub header: Repr,
    /// Bytes of payload.
    pub payload_len: u32,
    /// ECN field of its IP header.
    pub ecn: Ecn,
}

impl Segment {
    /// Whether all of `flags` are set.
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.header.flags & flags == flags
    }

    /// Sequence numbers it takes: payload, SYN, FIN (RFC 9293 §3.4).
    pub(crate) fn span(&self) -> u64 {
        u64::from(self.payload_len) + u64::from(self.has(flags::SYN)) + u64::from(self.has(flags::FIN))
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOut {
    /// Header and options.
    pub header: Repr,
    /// Place of the payload's first byte in the stream of all bytes written, from 0.
    pub payload_offset: u64,
    /// Bytes of payload.
    pub payload_len: u32,
    /// ECN field for its IP header.
    pub ecn: Ecn,
    /// Carries sequence numbers that were sent before.
    pub retransmission: bool,
}

#[allow(clippy::len_without_is_empty, reason = "no segment is empty")]
impl SegmentOut {
    /// Bytes of header, options and payload: the IP payload.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.len() + self.payload_len as usize
    }

    /// How the other end sees it when nothing changes it on the way.
    #[must_use]
    pub fn arrived(&self) -> Segment {
        Segment { header: self.header, payload_len: self.payload_len, ecn: self.ecn }
    }
}

/// What became of the payload of a segment: bytes `[skip, skip + len)` of it lie at `offset` in the stream of all
/// bytes received. The rest was there already, beyond the window, or refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Place in the stream, from 0.
    pub offset: u64,
    /// Bytes of the payload before the first one taken.
    pub skip: u32,
    /// Bytes taken.
    pub len: u32,
}

/// The answer to a segment that belongs to no connection (RFC 9293 §3.10.7.1): a reset, or nothing to a reset.
#[must_use]
pub fn refusal(segment: &Segment) -> Option<SegmentOut> {
    if segment.has(flags::RST) {
        return None;
    }
    let mut header =
        Repr { src_port: segment.header.dst_port, dst_port: segment.header.src_port, ..Repr::default() };
    if segment.has(flags::ACK) {
        header.seq = segment.header.ack;
        header.flags = flags::RST;
    } else {
        header.ack = segment.header.seq.wrapping_add(segment.span() as u32);
        header.flags = flags::RST | flags::ACK;
    }
    Some(SegmentOut { header, payload_offset: 0, payload_len: 0, ecn: Ecn::NotEct, retransmission: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_segment_is_refused_as_the_rfc_says() {
        let header = Repr { src_port: 1, dst_port: 2, seq: 100, flags: flags::SYN, ..Repr::default() };
        let syn = Segment { header, payload_len: 4, ecn: Ecn::NotEct };
        let reset = refusal(&syn).unwrap().header;
        assert_eq!((reset.src_port, reset.dst_port, reset.seq, reset.ack), (2, 1, 0, 105));
        assert_eq!(reset.flags, flags::RST | flags::ACK);
        let data = Segment { header: Repr { ack: 77, flags: flags::ACK, ..header }, ..syn };
        let reset = refusal(&data).unwrap();
        assert_eq!((reset.header.seq, reset.header.flags), (77, flags::RST));
        assert_eq!(refusal(&reset.arrived()), None);
    }
}
