//! What a filter is as rules of u32: which words of a packet are compared, and in which bucket of which table it is found.
//!
//! The tables of one family, asked in this order:
//!
//! ```text
//!   root ─► low octet of the destination, 256 buckets ─► bits 8…1 of the destination port, 256 buckets: one address, one port
//!        ─► list: all other flows, one after the other
//!        ─► code points of classes
//! ```
//!
//! So what a packet and a change cost grows with the number of flows by a 65,536th of it, as far as they are of one address and one
//! port. Media streams have even ports, which is why the lowest bit is left out.

use ipnet::IpNet;
use perhop_model::{FilterMatch, PortRange};
use perhop_netlink::tc::{U32Chain, U32Key};

/// Family of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn chain(self) -> U32Chain {
        match self {
            Self::V4 => U32Chain { priority: 1, protocol: 0x0800 },
            Self::V6 => U32Chain { priority: 2, protocol: 0x86dd },
        }
    }

    /// The table by destinations.
    pub(super) fn by_destination(self) -> u16 {
        [1, 3][self as usize]
    }

    /// The list.
    pub(super) fn list(self) -> u16 {
        [2, 4][self as usize]
    }

    /// The table by ports behind one bucket of that by destinations.
    pub(super) fn by_port(self, bucket: u8) -> u16 {
        [0x100, 0x200][self as usize] + u16::from(bucket)
    }

    /// Offset of the word with the end of the destination, from the IP header.
    pub(super) fn destination_at(self) -> i16 {
        [16, 36][self as usize]
    }

    /// Offset of the word with the ports, of a header without options.
    pub(super) fn ports_at(self) -> i16 {
        [20, 40][self as usize]
    }
}

/// Bits of the destination's last word, and of the ports', that choose a bucket.
pub(super) const DESTINATION_BITS: u32 = 0x0000_00ff;
pub(super) const PORT_BITS: u32 = 0x0000_01fe;

/// A rule without its consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) family: Family,
    /// Buckets of destination and port; `None` = it is in the list.
    pub(super) hashed: Option<(u8, u8)>,
    pub(super) keys: Vec<U32Key>,
}

/// The rules of a filter: one for each family that it may be of.
///
/// # Errors
/// What of it u32 cannot compare, in words.
pub(super) fn rules(matches: &FilterMatch) -> Result<Vec<Rule>, &'static str> {
    if matches.in_port.is_some() {
        return Err("by which interface packets come in cannot be compared: leave it out of the scope");
    }
    if matches.vlan.is_some() || matches.tcp_flags.is_some() || matches.fragment.is_some() {
        return Err("VLANs, TCP flags and fragments cannot be compared");
    }
    let ported = matches.src_ports.is_some() || matches.dst_ports.is_some();
    if ported && matches.protocol.is_none() {
        return Err("ports are of a protocol: say which");
    }
    let of = |family| rule(family, matches);
    match matches.src.or(matches.dst) {
        Some(IpNet::V4(_)) => Ok(vec![of(Family::V4)?]),
        Some(IpNet::V6(_)) => Ok(vec![of(Family::V6)?]),
        None => Family::BOTH.into_iter().map(of).collect(),
    }
}

fn rule(family: Family, matches: &FilterMatch) -> Result<Rule, &'static str> {
    let mut keys = Vec::new();
    for (net, source) in [(matches.src, true), (matches.dst, false)] {
        match net {
            Some(IpNet::V4(net)) if source => keys.push(U32Key::ipv4_source(net)),
            Some(IpNet::V4(net)) => keys.push(U32Key::ipv4_destination(net)),
            Some(IpNet::V6(net)) if source => keys.extend(U32Key::ipv6_source(net)),
            Some(IpNet::V6(net)) => keys.extend(U32Key::ipv6_destination(net)),
            None => {}
        }
    }
    if let Some(protocol) = matches.protocol {
        keys.push(match family {
            Family::V4 => U32Key::ipv4_protocol(protocol),
            Family::V6 => U32Key { offset: 4, mask: 0x0000_ff00, value: u32::from(protocol) << 8 },
        });
    }
    if let Some(dscp) = matches.dscp {
        let shift = [18, 22][family as usize];
        keys.push(U32Key {
            offset: 0,
            mask: u32::from(dscp.mask) << shift,
            value: u32::from(dscp.value) << shift,
        });
    }
    let ports = [(matches.src_ports, 16), (matches.dst_ports, 0)];
    if family == Family::V4 && ports.iter().any(|(range, _)| range.is_some()) {
        // Ports are where they are looked for, and in the first fragment only.
        keys.push(U32Key::ipv4_plain_header());
        keys.push(U32Key { offset: 4, mask: 0x0000_1fff, value: 0 });
    }
    for (range, shift) in ports {
        let Some(range) = range else { continue };
        let mask = block(range)
            .ok_or("a range of ports must be a block: 2, 4, 8, … ports from a multiple of that")?;
        let (mask, value) = (u32::from(mask) << shift, u32::from(range.first) << shift);
        keys.push(U32Key { offset: i32::from(family.ports_at()), mask, value });
    }
    Ok(Rule { family, hashed: hashed(matches), keys })
}

/// The mask of a range that is a block.
fn block(range: PortRange) -> Option<u16> {
    let size = u32::from(range.last) - u32::from(range.first) + 1;
    let is_block = size.is_power_of_two() && u32::from(range.first).is_multiple_of(size);
    is_block.then(|| (0_u32.wrapping_sub(size)) as u16)
}

/// The buckets of a flow to one address and one port.
fn hashed(matches: &FilterMatch) -> Option<(u8, u8)> {
    let dst = matches.dst.filter(|net| net.prefix_len() == net.max_prefix_len())?;
    let low = match dst {
        IpNet::V4(net) => net.addr().octets()[3],
        IpNet::V6(net) => net.addr().octets()[15],
    };
    let port = matches.dst_ports.filter(|range| range.first == range.last)?.first;
    Some((low, (u32::from(port) & PORT_BITS).wrapping_shr(1) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::MaskedByte;

    /// Whether a packet, from its IP header on, is what all keys want.
    fn is(rule: &Rule, packet: &[u8]) -> bool {
        rule.keys.iter().all(|key| {
            let at = key.offset as usize;
            let word = packet.get(at..at + 4).map_or(0, |w| u32::from_be_bytes(w.try_into().unwrap()));
            word & key.mask == key.value & key.mask
        })
    }

    fn packet_v4(dst: [u8; 4], protocol: u8, ports: (u16, u16), dscp: u8) -> Vec<u8> {
        let mut packet = vec![0x45, dscp << 2, 0, 60, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1];
        packet.extend(dst);
        packet.extend(ports.0.to_be_bytes());
        packet.extend(ports.1.to_be_bytes());
        packet
    }

    fn media() -> FilterMatch {
        FilterMatch {
            dst: Some("192.0.2.7/32".parse().unwrap()),
            protocol: Some(17),
            dst_ports: Some(PortRange { first: 5_004, last: 5_004 }),
            ..FilterMatch::default()
        }
    }

    #[test]
    fn a_flow_is_found_by_its_address_and_port() {
        let rules = rules(&media()).unwrap();
        assert_eq!((rules.len(), rules[0].hashed), (1, Some((7, (5_004 >> 1 & 0xff) as u8))));
        let rule = &rules[0];
        assert!(is(rule, &packet_v4([192, 0, 2, 7], 17, (9, 5_004), 46)));
        for other in [
            packet_v4([192, 0, 2, 8], 17, (9, 5_004), 46),
            packet_v4([192, 0, 2, 7], 6, (9, 5_004), 46),
            packet_v4([192, 0, 2, 7], 17, (5_004, 9), 46),
        ] {
            assert!(!is(rule, &other), "{other:?}");
        }
        let mut options = packet_v4([192, 0, 2, 7], 17, (9, 5_004), 46);
        options[0] = 0x46;
        assert!(!is(rule, &options), "the ports are elsewhere");
        let mut fragment = packet_v4([192, 0, 2, 7], 17, (9, 5_004), 46);
        fragment[7] = 1;
        assert!(!is(rule, &fragment), "there are no ports");
    }

    #[test]
    fn blocks_of_ports_and_code_points_are_compared_under_masks() {
        let matches = FilterMatch {
            dst_ports: Some(PortRange { first: 0x1000, last: 0x10ff }),
            dscp: Some(MaskedByte { value: 46, mask: 63 }),
            ..media()
        };
        let rule = rules(&matches).unwrap().remove(0);
        assert_eq!(rule.hashed, None);
        assert!(is(&rule, &packet_v4([192, 0, 2, 7], 17, (9, 0x10ff), 46)));
        assert!(!is(&rule, &packet_v4([192, 0, 2, 7], 17, (9, 0x1100), 46)));
        assert!(!is(&rule, &packet_v4([192, 0, 2, 7], 17, (9, 0x10ff), 45)));
    }

    #[test]
    fn without_addresses_a_filter_is_of_both_families_and_what_cannot_be_compared_is_said() {
        let any = FilterMatch { dst: None, ..media() };
        let families: Vec<Family> = rules(&any).unwrap().iter().map(|rule| rule.family).collect();
        assert_eq!(families, Family::BOTH);
        let port = |first, last| Some(PortRange { first, last });
        for wrong in [
            FilterMatch { in_port: Some("lan".parse().unwrap()), ..media() },
            FilterMatch { vlan: Some(3), ..media() },
            FilterMatch { protocol: None, ..media() },
            FilterMatch { dst_ports: port(5_000, 5_099), ..media() },
            FilterMatch { dst_ports: port(1, 2), ..media() },
        ] {
            assert!(rules(&wrong).is_err(), "{wrong:?}");
        }
        let all = FilterMatch { dst_ports: port(0, u16::MAX), ..media() };
        assert!(is(&rules(&all).unwrap()[0], &packet_v4([192, 0, 2, 7], 17, (9, 77), 0)));
    }

    #[test]
    fn words_of_ipv6_are_where_they_are() {
        let matches = FilterMatch {
            src: Some("2001:db8::/32".parse().unwrap()),
            dst: Some("2001:db8::107/128".parse().unwrap()),
            dscp: Some(MaskedByte { value: 46, mask: 63 }),
            ..media()
        };
        let rule = rules(&matches).unwrap().remove(0);
        assert_eq!((rule.family, rule.hashed.unwrap().0), (Family::V6, 7));
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        // Version 6, traffic class 46 << 2, payload of 20 octets of UDP.
        let mut packet = vec![0x6b, 0x80, 0, 0, 0, 20, 17, 64];
        packet.extend(address("2001:db8:5::1"));
        packet.extend(address("2001:db8::107"));
        packet.extend([0, 9]);
        packet.extend(5_004_u16.to_be_bytes());
        assert!(is(&rule, &packet));
        packet[6] = 6;
        assert!(!is(&rule, &packet));
    }
}
