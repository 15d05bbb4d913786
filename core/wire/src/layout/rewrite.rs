//! Rewriting what a router rewrites, with layout and checksums kept in step (RFC 1624).

use super::Layout;
use crate::field::chunk_mut;
use crate::{TtlExpired, ipv4, ipv6, protocol, tcp, vlan};
use perhop_units::Dscp;

/// Writes `dscp` into the IPv4 TOS octet (with the header checksum) or the IPv6 traffic class, keeping the ECN bits,
/// and into `layout.tos`. Does nothing to a frame that is not IP. O(1).
#[inline]
pub fn set_dscp(frame: &mut [u8], layout: &mut Layout, dscp: Dscp) {
    set_tos(frame, layout, dscp.get() << 2 | layout.tos & 0b11);
}

/// Marks congestion experienced (RFC 3168 §5): turns ECT(0) or ECT(1) into CE and returns true; returns true as well
/// if the packet is CE already, and false, changing nothing, if its transport does not support ECN. O(1).
#[inline]
pub fn set_ecn_ce(frame: &mut [u8], layout: &mut Layout) -> bool {
    let capable = layout.is_ecn_capable();
    if capable {
        set_tos(frame, layout, layout.tos | 0b11);
    }
    capable
}

#[inline]
fn set_tos(frame: &mut [u8], layout: &mut Layout, tos: u8) {
    let l3 = usize::from(layout.l3_offset);
    match layout.ip_version {
        4 => {
            let Some(header) = chunk_mut(frame, l3) else { return };
            ipv4::ViewMut::over(header).set_tos(tos);
        }
        6 => {
            let Some(start) = chunk_mut(frame, l3) else { return };
            ipv6::ViewMut::over(start).set_traffic_class(tos);
        }
        _ => return,
    }
    layout.tos = tos;
}

/// Takes one from the TTL (with the header checksum) or hop limit. Does nothing to a frame that is not IP. O(1).
///
/// # Errors
/// [`TtlExpired`] if it is 0 or 1; nothing is changed then.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], layout: &Layout) -> Result<(), TtlExpired> {
    let l3 = usize::from(layout.l3_offset);
    match layout.ip_version {
        4 => chunk_mut(frame, l3).map_or(Ok(()), |header| ipv4::ViewMut::over(header).decrement_ttl()),
        6 => chunk_mut(frame, l3).map_or(Ok(()), |start| ipv6::ViewMut::over(start).decrement_hop_limit()),
        _ => Ok(()),
    }
}

/// Writes the TCP window field, before scaling, and updates the checksum; true if `layout` is of a TCP segment with
/// its header. O(1).
#[inline]
pub fn set_tcp_window(frame: &mut [u8], layout: &Layout, window: u16) -> bool {
    let l4 = usize::from(layout.l4_offset);
    if layout.protocol != protocol::TCP || l4 == 0 {
        return false;
    }
    let Some(header) = chunk_mut(frame, l4) else { return false };
    tcp::ViewMut::over(header).set_window(window);
    true
}

/// Writes the priority code point `pcp` (0–7, higher bits ignored) of the outer VLAN tag; true if there is one. O(1).
#[inline]
pub fn set_vlan_pcp(frame: &mut [u8], layout: &Layout, pcp: u8) -> bool {
    let tag = frame.get_mut(14..).filter(|_| layout.vlan_tags != 0);
    let Some(Ok(mut tag)) = tag.map(vlan::ViewMut::new_checked) else { return false };
    tag.set_pcp(pcp);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::layout::dissect;
    use crate::layout::dissect::tests::base;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rewriting_equals_building_anew(
            kind in 0u8..5, tags in 0u16..3, dscp in (0u8..64, 0u8..64), ecn in 0u8..4, ttl: u8, window: (u16, u16),
        ) {
            let mut old = base(kind);
            for vid in 0..tags {
                old = old.vlan(vid + 1, 3);
            }
            let (before, after) = (Dscp::new(dscp.0).unwrap(), Dscp::new(dscp.1).unwrap());
            let old = old.dscp(before).ecn(Ecn::from_octet(ecn)).ttl(ttl).window(window.0);
            let mut frame = old.build();
            let mut layout = dissect(&frame).unwrap();
            set_dscp(&mut frame, &mut layout, after);
            let marked = set_ecn_ce(&mut frame, &mut layout);
            let lived = decrement_ttl(&mut frame, &layout).is_ok();
            let clamped = set_tcp_window(&mut frame, &layout, window.1);
            prop_assert_eq!((marked, lived, clamped), (ecn != 0, ttl > 1, kind == 2 || kind == 3));
            let new = old.dscp(after).ecn(if marked { Ecn::Ce } else { Ecn::NotEct }).window(window.1);
            let new = new.ttl(if lived { ttl - 1 } else { ttl });
            prop_assert_eq!(&frame, &new.build());
            prop_assert_eq!(dissect(&frame), Ok(layout));
        }
    }

    proptest! {
        #[test]
        fn no_frame_and_no_foreign_layout_panics(
            mut frame in proptest::collection::vec(any::<u8>(), 0..100), kind in 0u8..5,
        ) {
            let _ = dissect(&frame);
            let mut layout = dissect(&base(kind).vlan(1, 1).build()).unwrap();
            set_dscp(&mut frame, &mut layout, Dscp::EF);
            set_ecn_ce(&mut frame, &mut layout);
            let _ = decrement_ttl(&mut frame, &layout);
            set_tcp_window(&mut frame, &layout, 1);
            set_vlan_pcp(&mut frame, &layout, 1);
        }
    }

    #[test]
    fn priority_of_the_outer_tag() {
        let mut frame = base(0).vlan(7, 1).vlan(8, 2).build();
        let layout = dissect(&frame).unwrap();
        assert!(set_vlan_pcp(&mut frame, &layout, 6));
        assert_eq!(frame, base(0).vlan(7, 6).vlan(8, 2).build());
        assert!(!set_vlan_pcp(&mut frame, &Layout::default(), 6));
    }
}
