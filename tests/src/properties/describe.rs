//! Packets described in words.

use perhop_graph::router::Described;
use perhop_wire::{Fragment, dissect, protocol};

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
    assert!(packet.unknown_port(["lan", "wan"]).column >= 1);
    // What is printed names both ends, and described anew gives the same addresses and ports.
    if l.fragment == Fragment::Whole && l.vlan_tags == 0 {
        let printed = packet.to_string();
        let words = printed.split(',').next().unwrap_or_default();
        if let Ok(again) = Described::parse(&format!("in=x {words}")) {
            assert_eq!((again.src, again.dst), (packet.src, packet.dst), "{printed}");
            // Type and code of ICMP, which stand in the place of ports, are not printed.
            if [protocol::UDP, protocol::TCP].contains(&l.protocol) {
                let ports = (again.layout.src_port, again.layout.dst_port);
                assert_eq!(ports, (l.src_port, l.dst_port), "{printed}");
            }
        }
    }
}
