//! Cutting superframes back into the frames that they stand for.
//!
//! A sender whose card cuts segments (TSO), a virtual machine, or a device below a port that merges what arrives (GRO, LRO)
//! hands over one frame of up to 64 KiB for many. The kernel says beside it how long each is. Headers are those of the whole,
//! with the length, the position in the stream, flags and checksums of the part, as a card does it. In a tunnel (VXLAN, GENEVE,
//! GRE, IP in IP) it is the innermost packet that is cut; the headers around it are those of each part, too.
//!
//! Source: Linux include/uapi/linux/virtio_net.h; RFC 9293 §3.1 for the flags; segmentation-offloads.rst; RFC 7348 §5, RFC 8926
//! §3, RFC 2784, RFC 2890 and RFC 2003 for the tunnels.

use crate::checksum;
use perhop_wire::layout::Fragment;
use perhop_wire::{Layout, Malformed, checksum as sum, dissect, dissect_packet, protocol};

/// `struct virtio_net_hdr`: flags, segmentation type, then `hdr_len`, `gso_size`, `csum_start` and `csum_offset`.
pub(crate) const HEADER: usize = 10;
/// Of its flags: the checksum is to be completed, and `csum_start` is where the transport's header begins.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;
const TYPE: usize = 1;
const SIZE: usize = 4;
const TRANSPORT: usize = 6;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// The sender has reduced its window: only the first segment says so (RFC 3168 §6.1.2).
const ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// IP packets in each other, at most.
const MOST_LAYERS: usize = 4;
/// Protocol numbers (IANA) of tunnels.
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
/// Ethernet in GRE (RFC 7637 §3.2).
const BRIDGED: [u8; 2] = [0x65, 0x58];

/// An IP packet in the superframe: all of them end together.
#[derive(Clone, Copy, Debug)]
struct Layer {
    /// Where the frame or packet begins that `layout` counts from.
    base: usize,
    layout: Layout,
}

impl Layer {
    fn l3(&self) -> usize {
        self.base + usize::from(self.layout.l3_offset)
    }

    fn l4(&self) -> usize {
        self.base + usize::from(self.layout.l4_offset)
    }

    fn end(&self) -> usize {
        self.l3() + usize::from(self.layout.ip_len)
    }

    fn is_v4(&self) -> bool {
        self.layout.ip_version == 4
    }

    /// The packet inside whose transport begins at `transport`, or that carries it further in.
    fn inner(&self, frame: &[u8], transport: usize) -> Option<Layer> {
        let bytes = &frame[..self.end()];
        let of = |base: usize, read: fn(&[u8]) -> Result<Layout, Malformed>| {
            let layout = read(bytes.get(base..)?).ok()?;
            let inner = Layer { base, layout };
            let is_whole = layout.l4_offset != 0 && layout.fragment == Fragment::Whole;
            (is_whole && inner.end() == self.end() && inner.l4() <= transport).then_some(inner)
        };
        let l4 = self.l4();
        match self.layout.protocol {
            IPV4_IN_IP | IPV6_IN_IP => of(l4, dissect_packet),
            GRE => {
                let [flags, version, kind @ ..] = *bytes.get(l4..)?.first_chunk::<4>()?;
                // Checksums and sequence numbers (RFC 2890) differ in each part.
                let has_key = flags & 0x20 != 0;
                if flags & !0x20 != 0 || version != 0 {
                    return None;
                }
                let within = l4 + 4 + if has_key { 4 } else { 0 };
                of(within, if kind == BRIDGED { dissect } else { dissect_packet })
            }
            protocol::UDP => {
                let header = l4 + 8;
                // VXLAN's header has 8 bytes; GENEVE's as well, and options, in words, as its first byte says.
                let options = usize::from(*bytes.get(header)? & 0x3f) * 4;
                let places = [header + 8, header + 8 + options];
                places
                    .iter()
                    .find_map(|base| of(*base, dissect))
                    .or_else(|| places.iter().chain([&header]).find_map(|base| of(*base, dissect_packet)))
            }
            _ => None,
        }
    }
}

/// Whether the header in front of a frame says that it stands for several.
#[inline]
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    bytes.get(TYPE).is_some_and(|kind| kind & !ECN != 0)
}

/// A superframe, and how much of it has been cut off.
#[derive(Debug, Default)]
pub(crate) struct Superframe {
    /// Its bytes; kept for the next one.
    frame: Vec<u8>,
    /// The frame that was cut last.
    part: Vec<u8>,
    /// IP packets in each other, the outermost first.
    layers: Vec<Layer>,
    /// Where payload begins.
    payload: usize,
    end: usize,
    /// Payload of each frame but the last, bytes.
    size: usize,
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
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let (kind, size) = (head[TYPE] & !ECN, half(SIZE));
        let transport = (head[0] & NEEDS_CHECKSUM != 0).then(|| usize::from(half(TRANSPORT)));
        let Some(layer) = self.read_layers(frame, transport) else { return false };
        let (is_v4, is_tcp) = (layer.is_v4(), layer.layout.protocol == protocol::TCP);
        let fits = match kind {
            TCP_V4 => is_tcp && is_v4,
            TCP_V6 => is_tcp && !is_v4,
            UDP => layer.layout.protocol == protocol::UDP,
            _ => false,
        };
        let (l4, end) = (layer.l4(), layer.end());
        let least = if is_tcp { 20 } else { 8 };
        if !fits || size == 0 || end > frame.len() || l4 + least > end {
            return false;
        }
        let header = if is_tcp { usize::from(frame[l4 + 12] >> 4) * 4 } else { least };
        let payload = l4 + header;
        if header < least || payload >= end {
            return false;
        }
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        (self.payload, self.end, self.size) = (payload, end, usize::from(size));
        (self.done, self.parts) = (0, 0);
        true
    }

    /// Finds the IP packets in each other down to the one whose transport begins at `transport`, or of the outermost alone;
    /// the innermost.
    fn read_layers(&mut self, frame: &[u8], transport: Option<usize>) -> Option<Layer> {
        self.layers.clear();
        let layout = dissect(frame).ok()?;
        let is_whole = layout.ip_version != 0 && layout.l4_offset != 0 && layout.fragment == Fragment::Whole;
        let mut layer = is_whole.then_some(Layer { base: 0, layout })?;
        self.layers.push(layer);
        while let Some(transport) = transport.filter(|at| *at != layer.l4()) {
            if self.layers.len() == MOST_LAYERS {
                return None;
            }
            layer = layer.inner(frame, transport)?;
            self.layers.push(layer);
        }
        Some(layer)
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
        let from = self.payload + self.done;
        let to = (from + self.size).min(self.end);
        let is_last = to == self.end;
        let part = &mut self.part;
        part.clear();
        part.extend_from_slice(&self.frame[..self.payload]);
        part.extend_from_slice(&self.frame[from..to]);
        if let Some(layer) = self.layers.last()
            && layer.layout.protocol == protocol::TCP
        {
            let at = layer.l4() + 4;
            let sequence = u32::from_be_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
            // A window is below 2³¹ bytes, a superframe below 2¹⁶.
            part[at..at + 4].copy_from_slice(&sequence.wrapping_add(self.done as u32).to_be_bytes());
            let flags = &mut part[at + 9];
            *flags &= if is_last { 0xff } else { !(FIN | PSH) };
            *flags &= if self.parts == 0 { 0xff } else { !CWR };
        }
        // From inside, as checksums outside are of what is inside.
        for (i, layer) in self.layers.iter().enumerate().rev() {
            shorten(part, layer, self.parts, i + 1 == self.layers.len());
        }
        (self.done, self.parts) = (to - self.payload, self.parts.wrapping_add(1));
        Some(part)
    }
}

/// Makes the headers of one layer those of the frame as it is now, the `number`th of its superframe.
fn shorten(part: &mut [u8], layer: &Layer, number: u16, is_innermost: bool) {
    let (l3, l4) = (layer.l3(), layer.l4());
    // Not longer than the whole, whose length is of 16 bits.
    let ip_len = (part.len() - l3) as u16;
    if layer.is_v4() {
        part[l3 + 2..l3 + 4].copy_from_slice(&ip_len.to_be_bytes());
        let id = u16::from_be_bytes([part[l3 + 4], part[l3 + 5]]).wrapping_add(number);
        part[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
        part[l3 + 10..l3 + 12].fill(0);
        let header = usize::from(part[l3] & 0xf) * 4;
        let checksum = sum::of(&part[l3..l3 + header]);
        part[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        part[l3 + 4..l3 + 6].copy_from_slice(&(ip_len - 40).to_be_bytes());
    }
    let is_udp = layer.layout.protocol == protocol::UDP;
    if is_udp {
        let length = (part.len() - l4) as u16;
        part[l4 + 4..l4 + 6].copy_from_slice(&length.to_be_bytes());
    }
    // A tunnel without checksums has none in its parts (RFC 6935).
    if is_innermost || (is_udp && part[l4 + 6..l4 + 8] != [0, 0]) {
        let layout = Layout { ip_len, ..layer.layout };
        checksum::complete_at(&mut part[layer.base..], &layout);
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
            for tunneled in 0..5 {
                let (mut frame, transport) = tunnel(tunneled, &frame, true);
                let mut bytes = with_header(TCP_V4, size, &frame);
                bytes[0] = NEEDS_CHECKSUM;
                bytes[TRANSPORT..TRANSPORT + 2].copy_from_slice(&(transport as u16).to_ne_bytes());
                let _ = cut(&bytes);
                frame[at] = byte;
                bytes.splice(HEADER.., frame);
                let _ = cut(&bytes);
            }
        }
    }

    /// What a tunnel is made of: the frame, and where the inner transport begins in it.
    fn tunnel(kind: u8, inner: &[u8], checksum: bool) -> (Vec<u8>, usize) {
        let ip = &inner[14..];
        let geneve = [&[0x02, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 1, 9, 9, 9, 9][..], inner].concat();
        let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], inner].concat();
        let udp = |payload: &[u8]| udp6([3; 16], [4; 16]).ports(5, 4_789).payload(payload).build();
        let other = |protocol: u8, payload: &[u8]| {
            let mut frame = udp4([192, 0, 2, 1], [192, 0, 2, 2]).identification(9).payload(payload).build();
            // An IP header of another protocol, without the eight bytes of UDP.
            frame.drain(34..42);
            let length = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            frame[23] = protocol;
            frame[24..26].fill(0);
            let checksum = sum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            frame
        };
        let mut frame = match kind {
            0 => udp(&vxlan),
            1 => udp(&geneve),
            2 => other(GRE, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 7][..], inner].concat()),
            3 => other(GRE, &[&[0, 0, 8, 0][..], ip].concat()),
            _ => other(IPV4_IN_IP, ip),
        };
        if !checksum && kind < 2 {
            frame[14 + 40 + 6..14 + 40 + 8].fill(0);
        }
        let transport = frame.len() - ip.len() + 20;
        (frame, transport)
    }

    proptest! {
        /// Of each part the layers around it are taken off again, and their checksums and lengths looked at.
        #[test]
        fn in_a_tunnel_the_innermost_packet_is_cut(kind in 0_u8..5, sums in any::<bool>(), len in 1_usize..9_000, size in 1_u16..1_400) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let mut inner = tcp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&payload).build();
            // Nobody pads a frame inside a tunnel to what is the least on a wire.
            inner.truncate(14 + 20 + 20 + len);
            let (frame, transport) = tunnel(kind, &inner, sums);
            let mut bytes = with_header(TCP_V4, size, &frame);
            bytes[0] = NEEDS_CHECKSUM;
            bytes[TRANSPORT..TRANSPORT + 2].copy_from_slice(&(transport as u16).to_ne_bytes());
            let parts = cut(&bytes).expect("one to cut");
            prop_assert_eq!(parts.len(), len.div_ceil(usize::from(size)));
            let mut all = Vec::new();
            for part in &parts {
                let outer = dissect(part).expect("a good frame");
                prop_assert_eq!(usize::from(outer.l3_offset + outer.ip_len), part.len());
                if kind < 2 {
                    let mut again = part.clone();
                    let sum_at = usize::from(outer.l4_offset) + 6;
                    prop_assert_eq!(part[sum_at..sum_at + 2] != [0, 0], sums);
                    prop_assert!(checksum::complete(&mut again));
                    prop_assert!(!sums || again == *part, "the outer checksum");
                    prop_assert_eq!(&part[outer.l4_offset as usize + 4..][..2], &(outer.ip_len - 40).to_be_bytes());
                }
                let inside = [&inner[..14], &part[transport - 20..]].concat();
                all.extend(checked(&inside));
            }
            prop_assert_eq!(all, payload);
            // Where the transport is not said to begin in it, a tunnel is none.
            bytes[0] = 0;
            prop_assert_eq!(cut(&bytes), None);
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
