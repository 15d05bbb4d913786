//! Fragmentation of IPv4 packets.
//!
//! Takes a packet, whole or itself a fragment, and makes pieces that fit a link. The first piece keeps all options,
//! later ones those whose copied flag is set.
//!
//! Source: RFC 791 §3.2 (example procedure) and §3.1 (options), RFC 1812 §4.2.2.7.

use super::MIN_FRAME_LEN;
use perhop_element::Cx;
use perhop_packet::{Meta, NO_MEDIA, Packet};
use perhop_wire::{Fragment, Layout, checksum};

/// The smallest MTU a link for IPv4 may have (RFC 791 §3.2); smaller ones are taken as this.
pub(super) const MIN_MTU: u32 = 68;

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Makes the fragments of `packet`; false if there are not enough buffers for all.
pub(super) fn cut(cx: &mut Cx<'_>, packet: &Packet, mtu: u32, pieces: &mut Vec<Packet>) -> bool {
    let l3 = usize::from(packet.meta().layout.l3_offset);
    let Some((link, ip)) = packet.frame().split_at_checked(l3) else { return false };
    let Some(mut fragments) = Fragments::new(ip, mtu) else { return false };
    let room = packet.len().min(l3 + fragments.mtu);
    while !fragments.is_done() {
        let Some(mut piece) = cx.make() else { return false };
        // The original may have used headroom that a new buffer keeps free.
        if !piece.resize(room) {
            pieces.push(piece);
            return false;
        }
        piece.frame_mut()[..l3].copy_from_slice(link);
        let written = l3 + fragments.next(&mut piece.frame_mut()[l3..]).unwrap_or(0);
        if written < MIN_FRAME_LEN {
            piece.resize(MIN_FRAME_LEN);
            piece.frame_mut()[written..].fill(0);
        } else {
            piece.resize(written);
        }
        let media = if pieces.is_empty() { packet.meta().media } else { NO_MEDIA };
        let layout = layout_of(piece.frame(), &packet.meta().layout);
        *piece.meta_mut() = Meta { layout, media, ..*packet.meta() };
        pieces.push(piece);
    }
    true
}

/// Gives the fragments of one packet in order.
#[derive(Clone, Debug)]
struct Fragments<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// Options of later fragments, padded.
    copied: [u8; 40],
    copied_len: usize,
    /// Flags and offset of the original.
    field: u16,
    done: usize,
    mtu: usize,
}

impl<'a> Fragments<'a> {
    /// Prepares to cut the IPv4 packet at the front of `bytes` for `mtu`. `None` if that is no IPv4 packet.
    fn new(bytes: &'a [u8], mtu: u32) -> Option<Self> {
        let fixed = bytes.first_chunk::<20>()?;
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let header = bytes.get(..header_len).filter(|h| h.len() >= 20)?;
        let payload = bytes.get(header_len..total)?;
        let mut copied = [0; 40];
        let copied_len = copy_options(&header[20..], &mut copied);
        let field = u16::from_be_bytes([fixed[6], fixed[7]]);
        let mtu = mtu.max(MIN_MTU) as usize;
        Some(Self { header, payload, copied, copied_len, field, done: 0, mtu })
    }

    /// Whether all has been written.
    fn is_done(&self) -> bool {
        self.done >= self.payload.len()
    }

    /// Writes the next fragment to the front of `out`, which must hold the MTU; its length, or `None` after the last.
    fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let left = self.payload.get(self.done..).filter(|left| !left.is_empty())?;
        let header_len = if self.done == 0 { self.header.len() } else { 20 + self.copied_len };
        let room = self.mtu - header_len;
        let (data, last) = if left.len() <= room { (left, true) } else { (&left[..room & !7], false) };
        let total = header_len + data.len();
        let packet = out.get_mut(..total)?;
        packet[..20].copy_from_slice(&self.header[..20]);
        if self.done == 0 {
            packet[20..header_len].copy_from_slice(&self.header[20..]);
        } else {
            packet[20..header_len].copy_from_slice(&self.copied[..self.copied_len]);
        }
        packet[0] = 0x40 | (header_len / 4) as u8;
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        let offset = (self.field & OFFSET_MASK) + (self.done / 8) as u16;
        let more = if last { self.field & MORE_FRAGMENTS } else { MORE_FRAGMENTS };
        packet[6..8].copy_from_slice(&(more | offset & OFFSET_MASK).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..header_len]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[header_len..].copy_from_slice(data);
        self.done += data.len();
        Some(total)
    }
}

/// Copies options that go into every fragment and pads them to a multiple of 4; returns their length.
fn copy_options(mut options: &[u8], out: &mut [u8; 40]) -> usize {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut len = 0;
    loop {
        match *options {
            [NO_OPERATION, ref rest @ ..] => options = rest,
            [kind, size, ..] if kind != END && size >= 2 && usize::from(size) <= options.len() => {
                let (option, rest) = options.split_at(usize::from(size));
                if kind & COPIED != 0 {
                    out[len..len + option.len()].copy_from_slice(option);
                    len += option.len();
                }
                options = rest;
            }
            _ => return len.next_multiple_of(4),
        }
    }
}

/// The layout of a fragment. One that ends inside its transport header counts as having none.
fn layout_of(frame: &[u8], original: &Layout) -> Layout {
    perhop_wire::dissect(frame).unwrap_or_else(|_| {
        let ip_len = frame.get(16..18).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
        Layout { ip_len, fragment: Fragment::Later, l4_offset: 0, payload_offset: 0, ..*original }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_wire::build::udp4;
    use perhop_wire::ipv4::View;
    use proptest::prelude::*;

    fn cut(packet: &[u8], mtu: u32) -> Vec<Vec<u8>> {
        let mut fragments = Fragments::new(packet, mtu).unwrap();
        let mut out = vec![];
        while !fragments.is_done() {
            let mut buffer = vec![0xee; 2000];
            let len = fragments.next(&mut buffer).unwrap();
            buffer.truncate(len);
            out.push(buffer);
        }
        assert_eq!(fragments.next(&mut [0; 100]), None);
        out
    }

    /// RFC 791 §3.2 by bytes: puts every payload at its offset and notes which bytes were written.
    fn reassemble(fragments: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut data = vec![None; 65_536];
        let mut end = None;
        for fragment in fragments {
            let view = View::new_checked(fragment).ok()?;
            let at = usize::from(view.fragment_offset());
            for (i, byte) in view.payload().iter().enumerate() {
                if data[at + i].replace(*byte).is_some() {
                    return None;
                }
            }
            if !view.more_fragments() && end.replace(at + view.payload().len()).is_some() {
                return None;
            }
        }
        data.truncate(end?);
        data.into_iter().collect()
    }

    /// No operation, record route (not copied), router alert and a security option (both copied), end.
    fn options() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let one = prop_oneof![
            Just(vec![1]),
            Just(vec![7, 7, 4, 0, 0, 0, 0]),
            Just(vec![148, 4, 0, 0]),
            Just(vec![130, 3, 9])
        ];
        proptest::collection::vec(one, 0..6)
    }

    proptest! {
        #[test]
        fn reassembly_gives_the_original(
            payload in proptest::collection::vec(any::<u8>(), 0..1700), options in options(),
            mtus in (0u32..1600, 60u32..600), identification: u16,
        ) {
            let all: Vec<u8> = options.concat();
            let kept: Vec<u8> = options.iter().filter(|o| o[0] & 0x80 != 0).flatten().copied().collect();
            let packet = udp4([10, 0, 0, 1], [10, 1, 0, 2]).payload(&payload).options(&all)
                .identification(identification.into()).build_ip();
            let original = View::new_checked(&packet).unwrap();
            let once = cut(&packet, mtus.0);
            // Fragments are cut again on a narrower link.
            let twice: Vec<_> = once.iter().flat_map(|f| cut(f, mtus.1)).collect();
            for (mtu, list) in [(mtus.0, &once), (mtus.1, &twice)] {
                let whole = reassemble(list);
                prop_assert_eq!(whole.as_deref(), Some(original.payload()));
                for fragment in list {
                    let view = View::new_checked(fragment).unwrap();
                    prop_assert!(fragment.len() as u32 <= mtu.max(MIN_MTU));
                    prop_assert!(!view.more_fragments() || view.payload().len() % 8 == 0);
                    prop_assert_eq!(view.identification(), identification);
                    prop_assert_eq!((view.src(), view.dst(), view.ttl()), (original.src(), original.dst(), 64));
                    if view.fragment_offset() == 0 {
                        prop_assert_eq!(view.options(), original.options());
                    } else {
                        prop_assert_eq!(&view.options()[..kept.len()], kept.as_slice());
                        prop_assert!(view.options()[kept.len()..].iter().all(|b| *b == 0));
                    }
                }
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), mtu: u32) {
            if let Some(mut fragments) = Fragments::new(&bytes, mtu) {
                let mut steps = 0;
                while fragments.next(&mut [0; 300]).is_some() {
                    steps += 1;
                    prop_assert!(steps < 200);
                }
            }
        }
    }

    #[test]
    fn pieces_are_as_large_as_the_link_allows() {
        let packet = udp4([1, 1, 1, 1], [2, 2, 2, 2]).payload_len(1472).build_ip();
        let lengths: Vec<_> = cut(&packet, 576).iter().map(Vec::len).collect();
        // 576 − 20 = 556, of which 552 are a multiple of 8.
        assert_eq!(lengths, [572, 572, 396]);
    }
}
