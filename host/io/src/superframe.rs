//! Cutting superframes back into the frames that they stand for.
//!
//! A sender whose card cuts segments (TSO), a virtual machine, or a device below a port that merges what arrives (GRO, LRO)
//! hands over one frame of up to 64 KiB for many. The kernel says beside it how long each is. Headers are those of the whole,
//! with the length, the position in the stream, flags and checksums of the part, as a card does it.
//!
//! Source: Linux include/uapi/linux/virtio_net.h; RFC 9293 §3.1 for the flags; segmentation-offloads.rst.

use crate::checksum;
use perhop_wire::{checksum as sum, dissect};

/// `struct virtio_net_hdr`: flags, segmentation type, then `hdr_len`, `gso_size`, `csum_start` and `csum_offset`.
pub(crate) const HEADER: usize = 10;
const TYPE: usize = 1;
const SIZE: usize = 4;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// The sender has reduced its window: only the first segment says so (RFC 3168 §6.1.2).
const ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A superframe, and how much of it has been cut off.
#[derive(Debug, Default)]
pub(crate) struct Superframe {
    /// Its bytes; kept for the next one.
    frame: Vec<u8>,
    /// The frame that was cut last.
    part: Vec<u8>,
    l3: usize,
    l4: usize,
    /// Where payload begins.
    payload: usize,
    end: usize,
    /// Payload of each frame but the last, bytes.
    size: usize,
    is_v4: bool,
    is_tcp: bool,
    /// How much payload has been cut off, bytes.
    done: usize,
    /// How many frames have been.
    parts: u16,
}

impl Superframe {
    /// Takes a frame with its header. `false` if it is none that is to be cut, or none that makes sense.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> bool {
        self.end = 0;
        let Some((head, frame)) = bytes.split_first_chunk::<HEADER>() else { return false };
        let (kind, size) = (head[TYPE] & !ECN, u16::from_ne_bytes([head[SIZE], head[SIZE + 1]]));
        let Ok(layout) = dissect(frame) else { return false };
        let (l3, l4) = (usize::from(layout.l3_offset), usize::from(layout.l4_offset));
        let (is_v4, is_tcp) = (layout.ip_version == 4, layout.protocol == 6);
        let fits = match kind {
            TCP_V4 => is_tcp && is_v4,
            TCP_V6 => is_tcp && layout.ip_version == 6,
            UDP => layout.protocol == 17,
            _ => false,
        };
        let end = l3 + usize::from(layout.ip_len);
        let least = if is_tcp { 20 } else { 8 };
        let whole = layout.fragment == perhop_wire::layout::Fragment::Whole;
        if !fits || !whole || size == 0 || l4 <= l3 || end > frame.len() || l4 + least > end {
            return false;
        }
        let transport = if is_tcp { usize::from(frame[l4 + 12] >> 4) * 4 } else { least };
        let payload = l4 + transport;
        if transport < least || payload >= end {
            return false;
        }
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        (self.l3, self.l4, self.payload, self.end) = (l3, l4, payload, end);
        (self.size, self.is_v4, self.is_tcp) = (usize::from(size), is_v4, is_tcp);
        (self.done, self.parts) = (0, 0);
        true
    }

    /// Whether there is more to cut off.
    pub(crate) fn has_more(&self) -> bool {
        self.payload + self.done < self.end
    }

    /// Forgets what is left of it.
    pub(crate) fn drop_rest(&mut self) {
        self.end = 0;
    }

    /// Cuts the next frame off.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        if !self.has_more() {
            return None;
        }
        let Self { l3, l4, payload, .. } = *self;
        let from = payload + self.done;
        let to = (from + self.size).min(self.end);
        let is_last = to == self.end;
        let part = &mut self.part;
        part.clear();
        part.extend_from_slice(&self.frame[..payload]);
        part.extend_from_slice(&self.frame[from..to]);
        // Not longer than the whole, whose length is of 16 bits.
        let ip_len = (part.len() - l3) as u16;
        if self.is_v4 {
            part[l3 + 2..l3 + 4].copy_from_slice(&ip_len.to_be_bytes());
            let id = u16::from_be_bytes([part[l3 + 4], part[l3 + 5]]).wrapping_add(self.parts);
            part[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            part[l3 + 10..l3 + 12].fill(0);
            let header = usize::from(part[l3] & 0xf) * 4;
            let checksum = sum::of(&part[l3..l3 + header]);
            part[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            part[l3 + 4..l3 + 6].copy_from_slice(&(ip_len - 40).to_be_bytes());
        }
        if self.is_tcp {
            let at = l4 + 4;
            let sequence = u32::from_be_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
            // A window is below 2³¹ bytes, a superframe below 2¹⁶.
            part[at..at + 4].copy_from_slice(&sequence.wrapping_add(self.done as u32).to_be_bytes());
            let flags = &mut part[l4 + 13];
            *flags &= if is_last { 0xff } else { !(FIN | PSH) };
            *flags &= if self.parts == 0 { 0xff } else { !CWR };
        } else {
            let length = (part.len() - l4) as u16;
            part[l4 + 4..l4 + 6].copy_from_slice(&length.to_be_bytes());
        }
        checksum::complete(part);
        (self.done, self.parts) = (to - payload, self.parts.wrapping_add(1));
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_wire::build::{tcp4, udp4, udp6};
    use proptest::prelude::*;

    fn with_header(kind: u8, size: u16, frame: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[TYPE] = kind;
        bytes[SIZE..SIZE + 2].copy_from_slice(&size.to_ne_bytes());
        bytes.extend_from_slice(frame);
        bytes
    }

    fn cut(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut superframe = Superframe::default();
        superframe.take(bytes).then(|| std::iter::from_fn(|| superframe.next().map(<[u8]>::to_vec)).collect())
    }

    /// Payload, and whether checksums are right: completing them again changes nothing.
    fn checked(frame: &[u8]) -> Vec<u8> {
        let layout = dissect(frame).expect("a good frame");
        let mut again = frame.to_vec();
        assert!(checksum::complete(&mut again) && again == frame, "the transport's checksum");
        let l3 = layout.l3_offset as usize;
        if layout.ip_version == 4 {
            assert_eq!(sum::of(&frame[l3..l3 + 20]), 0, "the header's checksum");
        }
        assert_eq!(l3 + layout.ip_len as usize, frame.len());
        frame[layout.payload_offset as usize..].to_vec()
    }

    proptest! {
        #[test]
        fn parts_are_the_whole_in_order(len in 1_usize..9_000, size in 1_u16..1_500, flags in any::<u8>(), v6 in any::<bool>()) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let (frame, kind) = if v6 {
                (udp6([1; 16], [2; 16]).payload(&payload).build(), UDP)
            } else {
                let mut frame = tcp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&payload).build();
                frame[14 + 20 + 13] = flags;
                (frame, TCP_V4 | ECN)
            };
            let parts = cut(&with_header(kind, size, &frame)).expect("one to cut");
            prop_assert_eq!(parts.len(), len.div_ceil(usize::from(size)));
            let payloads: Vec<Vec<u8>> = parts.iter().map(|part| checked(part)).collect();
            prop_assert!(payloads[..parts.len() - 1].iter().all(|p| p.len() == usize::from(size)));
            prop_assert_eq!(payloads.concat(), payload);
            if !v6 {
                let first = u32::from_be_bytes(frame[38..42].try_into().expect("four"));
                for (i, part) in parts.iter().enumerate() {
                    let sequence = u32::from_be_bytes(part[38..42].try_into().expect("four"));
                    prop_assert_eq!(sequence.wrapping_sub(first) as usize, i * usize::from(size));
                    let wanted = flags
                        & if i + 1 == parts.len() { 0xff } else { !(FIN | PSH) }
                        & if i == 0 { 0xff } else { !CWR };
                    prop_assert_eq!(part[47], wanted);
                }
            }
        }

        #[test]
        fn anything_is_cut_or_refused(kind in 0_u8..8, size in any::<u16>(), mut frame in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..80, byte in any::<u8>()) {
            let _ = cut(&with_header(kind, size, &frame));
            frame = tcp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&[7; 60]).build();
            frame[at] = byte;
            let _ = cut(&with_header(kind, size, &frame));
            let _ = cut(&frame[..at]);
        }
    }

    #[test]
    fn a_long_frame_that_nobody_has_merged_is_none() {
        let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&[0; 3_000]).build();
        assert_eq!(cut(&with_header(0, 0, &frame)), None);
        assert_eq!(cut(&with_header(TCP_V4, 1_000, &frame)), None, "no TCP");
        assert_eq!(cut(&with_header(UDP, 0, &frame)), None);
    }
}
