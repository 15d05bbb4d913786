//! Completing transport checksums that the sender left to its card.

use perhop_wire::{Layout, checksum, dissect};

/// Computes the UDP or TCP checksum of a whole datagram afresh. `false` when the frame has none to complete.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    dissect(frame).is_ok_and(|layout| complete_at(frame, &layout))
}

/// Completes the checksum that a virtio-net header describes (`VIRTIO_NET_HDR_F_NEEDS_CSUM`): everything from `start` on is summed up,
/// with what the field at `offset` behind it holds already. Inside a tunnel that is the inner packet's; a sum of the outer one was
/// computed for the inner one as it will be. `false` when the field is not in the frame.
pub(crate) fn complete_from(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let at = start + offset;
    if at + 2 > frame.len() {
        return false;
    }
    let value = match checksum::Sum::ZERO.bytes(&frame[start..]).checksum() {
        // 0 says of a datagram that it has no checksum, and means the same as this elsewhere.
        0 => 0xffff,
        value => value,
    };
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    true
}

/// Completes a checksum that is begun: its field holds the sum of the pseudo-header, as a sender leaves it whose card is to
/// finish it, and nothing beside the frame says so. A checksum that happens to be that number comes out the same.
pub(crate) fn complete_begun(frame: &mut [u8]) -> bool {
    let Ok(layout) = dissect(frame) else { return false };
    let Some(field) = Field::of(frame, &layout) else { return false };
    let begun = !field.pseudo_header.checksum();
    let at = field.at;
    begun.to_be_bytes() == frame[at..at + 2] && complete_at(frame, &layout)
}

/// The same for a frame, or a packet without its link's header, that was dissected already. `false` also when the frame is
/// not what `layout` says.
pub fn complete_at(frame: &mut [u8], layout: &Layout) -> bool {
    let Some(Field { at, covered, pseudo_header }) = Field::of(frame, layout) else { return false };
    frame[at..at + 2].fill(0);
    let mut value = pseudo_header.bytes(&frame[covered]).checksum();
    if value == 0 && layout.protocol == 17 {
        value = 0xffff;
    }
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    true
}

/// The checksum field of a whole datagram: where it is, what it covers, and what goes before that.
struct Field {
    at: usize,
    covered: std::ops::Range<usize>,
    pseudo_header: checksum::Sum,
}

impl Field {
    fn of(frame: &[u8], layout: &Layout) -> Option<Self> {
        let at = match layout.protocol {
            6 => 16,
            17 => 6,
            _ => return None,
        };
        if layout.l4_offset == 0 || layout.fragment != perhop_wire::layout::Fragment::Whole {
            return None;
        }
        let (l3, l4) = (layout.l3_offset as usize, layout.l4_offset as usize);
        let end = l3 + layout.ip_len as usize;
        let addresses = if layout.ip_version == 4 { 20 } else { 40 };
        if end > frame.len() || l4 < l3 + addresses || l4 + at + 2 > end {
            return None;
        }
        let len = end - l4;
        let pseudo_header = if layout.ip_version == 4 {
            let address = |o: usize| [frame[o], frame[o + 1], frame[o + 2], frame[o + 3]];
            checksum::pseudo_header_v4(address(l3 + 12), address(l3 + 16), layout.protocol, len as u16)
        } else {
            let address = |o: usize| {
                let mut a = [0u8; 16];
                a.copy_from_slice(&frame[o..o + 16]);
                a
            };
            checksum::pseudo_header_v6(address(l3 + 8), address(l3 + 24), layout.protocol, len as u32)
        };
        Some(Self { at: l4 + at, covered: l4..end, pseudo_header })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram of eleven bytes of data, with this checksum.
    fn datagram(checksum: u16) -> Vec<u8> {
        let mut frame = vec![0u8; 14 + 20 + 8 + 11];
        frame[12..14].copy_from_slice(&[0x08, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 39, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let header = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame[34..40].copy_from_slice(&[0x13, 0x88, 0x13, 0x89, 0, 19]);
        frame[40..42].copy_from_slice(&checksum.to_be_bytes());
        frame[42..].copy_from_slice(b"hello world");
        frame
    }

    /// TCP in VXLAN, as a host leaves it whose card is to finish the inner checksum: the outer one is that of what will be.
    #[test]
    fn the_inner_checksum_of_a_tunnel_is_completed_and_the_outer_one_is_right_then() {
        let inner =
            perhop_wire::build::tcp4([10, 0, 0, 1], [10, 0, 0, 2]).ports(1, 2).payload(b"odd bytes").build();
        let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
        let whole = perhop_wire::build::udp4([192, 0, 2, 1], [192, 0, 2, 2])
            .ports(5_000, 4_789)
            .payload(&vxlan)
            .build();
        let l4 = 14 + 20 + 8 + 8 + 14 + 20;
        let mut begun = whole.clone();
        let len = (inner.len() - 34) as u16;
        let pseudo = !checksum::pseudo_header_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, len).checksum();
        begun[l4 + 16..l4 + 18].copy_from_slice(&pseudo.to_be_bytes());
        assert_ne!(begun, whole);
        let mut completed = begun.clone();
        assert!(complete_from(&mut completed, l4, 16));
        assert_eq!(completed, whole);
        // Of what is not there nothing is written.
        for (start, offset) in [(whole.len(), 0), (whole.len() - 1, 0), (l4, whole.len()), (65_535, 65_535)] {
            let mut frame = begun.clone();
            assert!(!complete_from(&mut frame, start, offset));
            assert_eq!(frame, begun);
        }
    }

    #[test]
    fn a_begun_checksum_is_completed_and_any_other_is_left_alone() {
        // Words of the pseudo-header: 0a00 0001 0a00 0002 0011 0013.
        let begun = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 0x0011 + 0x0013;
        let mut frame = datagram(begun);
        assert!(complete_begun(&mut frame));
        let sum = checksum::pseudo_header_v4([10, 0, 0, 1], [10, 0, 0, 2], 17, 19).bytes(&frame[34..]);
        assert!(sum.is_valid());
        let whole = frame.clone();
        for other in [0, begun + 1, begun.swap_bytes(), u16::from_be_bytes([whole[40], whole[41]])] {
            let mut frame = datagram(other);
            assert!(!complete_begun(&mut frame));
            assert_eq!(frame, datagram(other));
        }
        for len in 0..whole.len() {
            assert!(!complete_begun(&mut datagram(begun)[..len]), "{len} bytes");
        }
    }
}
