//! Packets described in words.

use perhop_graph::router::Described;
use perhop_wire::{Fragment, dissect};

/// A description that is taken is a well-formed frame whose layout says what the description says; errors are placed
/// inside the text.
pub fn description(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let packet = match Described::parse(text) {
        Ok(packet) => packet,
        Err(errors) => {
            assert!(!errors.is_empty());
            let columns = text.chars().count() + 1;
            assert!(errors.iter().all(|e| (1..=columns).contains(&e.column)), "{errors:?}");
            return;
        }
    };
    assert_eq!(dissect(&packet.frame), Ok(packet.layout));
    let l = packet.layout;
    assert_eq!(packet.src.is_ipv4(), packet.dst.is_ipv4());
    assert_eq!(l.ip_version, if packet.src.is_ipv4() { 4 } else { 6 });
    assert_eq!(l.tos >> 2, packet.dscp.get());
    let ttl_at = usize::from(l.l3_offset) + if l.ip_version == 4 { 8 } else { 7 };
    assert_eq!(packet.frame[ttl_at], packet.ttl);
    assert!(!packet.in_port.is_empty());
    assert_eq!(packet.unknown_port(["lan", "wan"]).column.min(1), 1);
    // What is printed names both ends, and described anew gives the same addresses and ports.
    if l.fragment == Fragment::Whole && l.vlan_tags == 0 {
        let printed = packet.to_string();
        let words: String = printed.split(',').next().unwrap_or_default().to_owned();
        let again = Described::parse(&format!("in=x {words}"));
        if let Ok(again) = again {
            assert_eq!((again.src, again.dst), (packet.src, packet.dst), "{printed}");
            assert_eq!((again.layout.src_port, again.layout.dst_port), (l.src_port, l.dst_port), "{printed}");
        }
    }
}
