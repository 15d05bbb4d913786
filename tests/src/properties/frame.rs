//! Whole frames: what a layout says lies inside the frame, and rewriting keeps frame and layout in step.

use perhop_units::Dscp;
use perhop_wire::{Fragment, Layout, dissect, ipv4, layout, protocol, tcp};

/// The layout of any frame is inside it, does not depend on what lies behind the IP packet, and stays right under every
/// rewrite; no rewrite panics on a frame that the layout does not belong to.
pub fn dissection(data: &[u8]) {
    let Ok(found) = dissect(data) else {
        rewrite(&mut data.to_vec(), &mut Layout::default(), data);
        return;
    };
    inside(&found, data.len());
    if found.ip_version != 0 {
        let end = usize::from(found.l3_offset) + usize::from(found.ip_len);
        assert_eq!(dissect(&data[..end]), Ok(found), "padding matters");
        let mut padded = data.to_vec();
        padded.resize(data.len() + 60, 0xa5);
        assert_eq!(dissect(&padded), Ok(found), "padding matters");
    }
    rewritten(data, found);
    // A layout of another frame: of one that is cut short, and of one whose bytes differ.
    for len in [0, data.len() / 2, data.len() - 1] {
        rewrite(&mut data[..len].to_vec(), &mut found.clone(), data);
    }
    let reversed: Vec<u8> = data.iter().rev().copied().collect();
    rewrite(&mut reversed.clone(), &mut found.clone(), data);
}

fn inside(l: &Layout, len: usize) {
    let (l3, l4, payload) =
        (usize::from(l.l3_offset), usize::from(l.l4_offset), usize::from(l.payload_offset));
    let end = l3 + usize::from(l.ip_len);
    assert!(l3 <= len && end <= len, "{l:?} in {len} bytes");
    assert_eq!(l3, 14 + 4 * usize::from(l.vlan_tags));
    assert!(l.vlan_tags <= 2 && l.vlan.iter().all(|v| *v < 4096));
    assert!(matches!(l.ip_version, 0 | 4 | 6));
    let least = match l.ip_version {
        4 => 20,
        6 => 40,
        _ => 0,
    };
    assert!(usize::from(l.ip_len) >= least);
    assert!(l4 == 0 || l4 >= l3 + least && l4 < end, "{l:?}");
    assert!(payload == 0 || l4 != 0 && payload >= l4 + 8 && payload <= end, "{l:?}");
    if l.fragment == Fragment::Later {
        assert_eq!((l.l4_offset, l.payload_offset, l.src_port, l.dst_port), (0, 0, 0, 0));
    }
    if l.fragment == Fragment::Whole {
        assert_eq!(l.fragment_id, 0);
    }
    if l.protocol != protocol::TCP {
        assert_eq!(l.tcp_flags, 0);
    }
}

/// The arguments of the rewrites, drawn from `choice`.
struct Choice {
    dscp: Dscp,
    window: u16,
    pcp: u8,
}

impl Choice {
    fn of(choice: &[u8]) -> Self {
        let at = |i: usize| choice.get(choice.len().wrapping_sub(i)).copied().unwrap_or(0);
        Self { dscp: Dscp::from_octet(at(1)), window: u16::from_be_bytes([at(2), at(3)]), pcp: at(4) }
    }
}

fn rewrite(frame: &mut [u8], l: &mut Layout, choice: &[u8]) {
    let choice = Choice::of(choice);
    layout::set_dscp(frame, l, choice.dscp);
    layout::set_ecn_ce(frame, l);
    let _ = layout::decrement_ttl(frame, l);
    layout::set_tcp_window(frame, l, choice.window);
    layout::set_vlan_pcp(frame, l, choice.pcp);
}

/// Every rewrite, one after the other, leaves a frame whose layout is what the rewrite says it is.
fn rewritten(data: &[u8], before: Layout) {
    let choice = Choice::of(data);
    let (mut frame, mut l) = (data.to_vec(), before);
    layout::set_dscp(&mut frame, &mut l, choice.dscp);
    assert_eq!(dissect(&frame), Ok(l), "set_dscp");
    if before.ip_version != 0 {
        assert_eq!(l, Layout { tos: choice.dscp.get() << 2 | before.tos & 3, ..before });
    }
    let capable = layout::set_ecn_ce(&mut frame, &mut l);
    assert_eq!(dissect(&frame), Ok(l), "set_ecn_ce");
    assert_eq!(capable, before.ip_version != 0 && before.tos & 3 != 0);
    let lived = layout::decrement_ttl(&mut frame, &l);
    assert_eq!(dissect(&frame), Ok(l), "decrement_ttl");
    if before.ip_version != 0 {
        let at = usize::from(l.l3_offset) + if l.ip_version == 4 { 8 } else { 7 };
        assert_eq!(lived.is_ok(), data[at] > 1);
        assert_eq!(frame[at], data[at] - u8::from(lived.is_ok()));
    }
    window(&mut frame, &l, choice.window);
    let tagged = layout::set_vlan_pcp(&mut frame, &l, choice.pcp);
    assert_eq!(tagged, before.vlan_tags > 0);
    assert_eq!(dissect(&frame), Ok(l), "set_vlan_pcp");
    if l.ip_version == 4 {
        let packet = &frame[usize::from(l.l3_offset)..];
        assert!(ipv4::View::new_checked(packet).is_ok(), "the header checksum is wrong");
    }
}

fn window(frame: &mut [u8], l: &Layout, window: u16) {
    let at = usize::from(l.l4_offset);
    let segment = usize::from(l.l3_offset) + usize::from(l.ip_len);
    let is_tcp = l.protocol == protocol::TCP && at != 0;
    if is_tcp {
        tcp::fill_checksum(&mut frame[at..segment], Default::default());
    }
    assert_eq!(layout::set_tcp_window(frame, l, window), is_tcp);
    assert_eq!(dissect(frame), Ok(*l), "set_tcp_window");
    if is_tcp {
        let view = tcp::View::new_checked(&frame[at..segment]).expect("dissected");
        assert_eq!(view.window(), window);
        assert!(view.checksum_is_valid(Default::default()), "the TCP checksum is wrong");
    }
}
