//! Flows that real-time detection has to look at: RTP that is recognised, and packets that could be RTP and never are.

use crate::traffic::HEADERS;
use perhop_wire::{MacAddr, build, rtp};
use std::net::Ipv4Addr;

/// Shortest frame: room for the RTP header.
pub const MIN_FRAME: usize = HEADERS + rtp::HEADER_LEN;

/// What the flows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// RTP whose sequence numbers and timestamps go on: recognised by its tenth packet, from then on known.
    Recognised,
    /// Packets that look like RTP, each of another source: detection looks at each and never comes to an end.
    Undecided,
}

/// Frames of flows that take turns, each packet with the header of its place in its flow.
#[derive(Debug)]
pub struct MediaSource {
    media: Media,
    frames: Vec<Vec<u8>>,
    next: usize,
    round: u32,
}

impl MediaSource {
    /// `flows` flows of frames of `frame_len` bytes without FCS, at least [`MIN_FRAME`], from host `macs.0` to the router's
    /// port `macs.1`.
    pub fn new(media: Media, flows: u32, frame_len: usize, macs: (MacAddr, MacAddr)) -> Self {
        let payload = vec![0x5a; frame_len.max(MIN_FRAME) - HEADERS];
        let frame = |i: u32| {
            let src = Ipv4Addr::from(10 << 24 | (i + 1));
            build::udp4(src, Ipv4Addr::new(198, 18, 0, 1))
                .macs(macs.0, macs.1)
                .ports(10_000, 20_000)
                .payload(&payload)
                .build()
        };
        Self { media, frames: (0..flows).map(frame).collect(), next: 0, round: 0 }
    }

    /// The next frame, as sent at `now_ns`.
    #[inline]
    pub fn frame(&mut self, now_ns: u64) -> &[u8] {
        if self.next == self.frames.len() {
            (self.next, self.round) = (0, self.round.wrapping_add(1));
        }
        let flow = self.next as u32;
        let frame = &mut self.frames[self.next];
        self.next += 1;
        let ssrc = match self.media {
            Media::Recognised => flow + 1,
            Media::Undecided => self.round.wrapping_mul(0x9e37_79b9) ^ flow,
        };
        let fields = rtp::Repr {
            payload_type: 96,
            sequence: self.round as u16,
            // A clock of 48 kHz: one that goes on between any two packets of a flow.
            timestamp: (now_ns / 1_000 * 48 / 1_000) as u32,
            ssrc,
            ..rtp::Repr::default()
        };
        fields.emit(&mut frame[HEADERS..HEADERS + rtp::HEADER_LEN]);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(media: Media) -> Vec<(u32, u16, u32)> {
        let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let mut source = MediaSource::new(media, 2, 124, macs);
        let frame = |at: u64| {
            let frame = source.frame(at * 1_000_000).to_vec();
            assert_eq!(frame.len(), 124);
            let view = rtp::View::new_checked(&frame[HEADERS..]).expect("RTP");
            (view.ssrc(), view.sequence(), view.timestamp())
        };
        (0..4).map(frame).collect()
    }

    #[test]
    fn recognised_flows_go_on_and_undecided_ones_never_do() {
        assert_eq!(headers(Media::Recognised), [(1, 0, 0), (2, 0, 48), (1, 1, 96), (2, 1, 144)]);
        let ssrcs: Vec<u32> = headers(Media::Undecided).iter().map(|header| header.0).collect();
        assert!(ssrcs[0] != ssrcs[2] && ssrcs[1] != ssrcs[3]);
    }
}
