//! Completing transport checksums that the sender left to its card.

use perhop_wire::{Layout, checksum, dissect};

/// Computes the UDP or TCP checksum of a whole datagram afresh. `false` when the frame has none to complete.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    dissect(frame).is_ok_and(|layout| complete_at(frame, &layout))
}

/// The same for a frame, or a packet without its link's header, that was dissected already. `false` also when the frame is
/// not what `layout` says.
pub fn complete_at(frame: &mut [u8], layout: &Layout) -> bool {
    let at = match layout.protocol {
        6 => 16,
        17 => 6,
        _ => return false,
    };
    if layout.l4_offset == 0 || layout.fragment != perhop_wire::layout::Fragment::Whole {
        return false;
    }
    let (l3, l4) = (layout.l3_offset as usize, layout.l4_offset as usize);
    let end = l3 + layout.ip_len as usize;
    let addresses = if layout.ip_version == 4 { 20 } else { 40 };
    if end > frame.len() || l4 < l3 + addresses || l4 + at + 2 > end {
        return false;
    }
    let len = end - l4;
    frame[l4 + at..l4 + at + 2].fill(0);
    let sum = if layout.ip_version == 4 {
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
    let mut value = sum.bytes(&frame[l4..end]).checksum();
    if value == 0 && layout.protocol == 17 {
        value = 0xffff;
    }
    frame[l4 + at..l4 + at + 2].copy_from_slice(&value.to_be_bytes());
    true
}
