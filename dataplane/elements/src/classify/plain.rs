//! Rules as a few comparisons without a branch: for those that ask for protocol, ports and code point, as most do.

use super::rule::{Rule, Side, Test};
use perhop_wire::{Layout, protocol};

/// What plain rules ask of a packet: version, protocol, TOS octet and three facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gist {
    bits: u64,
    src: u16,
    dst: u16,
}

const VERSION: u64 = 0xff;
const PROTOCOL_SHIFT: u32 = 8;
const TOS_SHIFT: u32 = 16;
const IP: u64 = 1 << 24;
const PORTS: u64 = 1 << 25;
const ICMP: u64 = 1 << 26;

impl Gist {
    #[inline]
    pub(super) fn of(l: &Layout) -> Self {
        let ip = l.ip_version != 0;
        let transport = l.protocol == protocol::TCP || l.protocol == protocol::UDP;
        let icmp = (l.ip_version == 4 && l.protocol == protocol::ICMPV4)
            | (l.ip_version == 6 && l.protocol == protocol::ICMPV6);
        let bits = u64::from(l.ip_version)
            | u64::from(l.protocol) << PROTOCOL_SHIFT
            | u64::from(l.tos) << TOS_SHIFT
            | u64::from(ip) * IP
            | u64::from(ip & transport & (l.l4_offset != 0)) * PORTS
            | u64::from(icmp) * ICMP;
        Self { bits, src: l.src_port, dst: l.dst_port }
    }
}

/// A rule that is a conjunction of such tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    mask: u64,
    value: u64,
    /// Least source port, and how many above it belong.
    src: (u16, u16),
    dst: (u16, u16),
}

impl Plain {
    /// The rule in this form; `None` when it asks for something else.
    pub(super) fn of(rule: &Rule) -> Option<Self> {
        let mut plain = Self { mask: 0, value: 0, src: (0, u16::MAX), dst: (0, u16::MAX) };
        for test in rule.conjunction()? {
            let (mask, value) = match test {
                Test::AnyIp => (IP, IP),
                Test::IpVersion(v) => (VERSION, u64::from(*v)),
                Test::Protocol(p) => (IP | 0xff << PROTOCOL_SHIFT, IP | u64::from(*p) << PROTOCOL_SHIFT),
                Test::Icmp => (ICMP, ICMP),
                Test::Dscp(d) => (IP | 0xfc << TOS_SHIFT, IP | u64::from(*d) << (TOS_SHIFT + 2)),
                Test::Ecn(e) => (IP | 0x03 << TOS_SHIFT, IP | u64::from(*e) << TOS_SHIFT),
                Test::Port(side, range) => {
                    let place = match side {
                        Side::Src => &mut plain.src,
                        Side::Dst => &mut plain.dst,
                        Side::Either => return None,
                    };
                    // Of two ranges for one port the second would need a place of its own.
                    if *place != (0, u16::MAX) {
                        return None;
                    }
                    *place = (*range.start(), range.end() - range.start());
                    (PORTS, PORTS)
                }
                _ => return None,
            };
            // Two tests of the same bits that cannot both hold.
            if (plain.value ^ value) & plain.mask & mask != 0 {
                return None;
            }
            plain.mask |= mask;
            plain.value |= value;
        }
        Some(plain)
    }

    #[inline]
    pub(super) fn matches(&self, gist: &Gist) -> bool {
        let within = |port: u16, (least, above): (u16, u16)| port.wrapping_sub(least) <= above;
        (gist.bits & self.mask == self.value) & within(gist.src, self.src) & within(gist.dst, self.dst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use perhop_units::Dscp;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_plain_rule_says_what_the_rule_says(
            (src_port, dst_port, dscp, ecn) in (0u16..8, 0u16..8, 0u8..4, 0u8..4),
            transport in prop::sample::select(vec![17u8, 6, 1, 47]),
            words in prop::collection::vec(prop::sample::select(vec![
                "ip", "ip4", "ip6", "udp", "tcp", "icmp", "proto 47", "dscp 0", "dscp 2", "ecn 1",
                "src port 3", "dst port 2-5", "src port 1-7", "dst port 0",
            ]), 1..5),
        ) {
            let mut frame = UdpFrame { src_port, dst_port, dscp: Dscp::new(dscp).unwrap(), ecn, ..UdpFrame::default() }.to_vec();
            frame[23] = transport;
            frame[24..26].fill(0);
            // The sum over the header with its field zero is what the field must make up for.
            let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            let Ok(layout) = perhop_wire::dissect(&frame) else { return Ok(()) };
            let rule: Rule = words.join(" ").parse().unwrap();
            if let Some(plain) = Plain::of(&rule) {
                prop_assert_eq!(plain.matches(&Gist::of(&layout)), rule.matches_frame(&frame, &layout), "{:?}", words);
            }
        }
    }

    #[test]
    fn the_usual_rules_are_plain_and_the_others_are_told_apart() {
        for text in ["-", "udp dst port 5004-5099", "tcp src port 80 dst port 443", "dscp EF ecn 0", "icmp"] {
            assert!(Plain::of(&text.parse().unwrap()).is_some(), "{text}");
        }
        for text in
            ["not udp", "port 5", "udp or tcp", "10.0.0.0/8", "len 5", "udp tcp", "dst port 1 dst port 2"]
        {
            assert!(Plain::of(&text.parse().unwrap()).is_none(), "{text}");
        }
    }
}
