//! The rule language of [`super::IpClassifier`]: text to test.

use ipnet::IpNet;
use perhop_packet::Packet;
use perhop_units::Dscp;
use perhop_wire::{Fragment, Layout, ethertype, protocol};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use thiserror::Error;

/// The most words of one rule.
const MAX_WORDS: usize = 64;

/// A condition on a packet's headers: alternatives (`or`) of tests that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    alternatives: Vec<Vec<Term>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Dst,
    Either,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    AnyIp,
    IpVersion(u8),
    Ethertype(u16),
    Protocol(u8),
    Icmp,
    Port(Side, RangeInclusive<u16>),
    Net(Side, Net),
    Dscp(u8),
    Ecn(u8),
    Vlan(u16),
    Length(RangeInclusive<u16>),
    Fragment,
}

/// A prefix ready to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    V4 { bits: u32, mask: u32 },
    V6 { bits: u128, mask: u128 },
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Nothing there.
    #[error("an empty rule; write - for everything")]
    Empty,
    /// Not a word of the language.
    #[error("{0:?} is not a word of the rule language")]
    UnknownWord(String),
    /// A word that needs another behind it.
    #[error("something is missing behind {0:?}")]
    Incomplete(String),
    /// Not a port or range of ports.
    #[error("{0:?} is not a port or a range of ports, 0 to 65535")]
    BadPort(String),
    /// Not an address or prefix.
    #[error("{0:?} is not an address or prefix")]
    BadPrefix(String),
    /// Not a number in range.
    #[error("{text:?} is not a number from 0 to {max}")]
    BadNumber {
        /// What was given.
        text: String,
        /// The largest number allowed here.
        max: u16,
    },
    /// Not a code point.
    #[error("{0:?} is not a DSCP")]
    BadDscp(String),
    /// More words than a rule may have.
    #[error("a rule of more than {MAX_WORDS} words")]
    TooLong,
}

/// The words of the language, for messages.
pub(super) const WORDS: &str = "-, ip, ip4, ip6, arp, tcp, udp, icmp, proto N, [src|dst] port N[-N], \
     [src|dst] [host|net] PREFIX, dscp X, ecn N, vlan N, len N[-N], fragment; joined by spaces, not, or";

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words: Vec<_> = text.split_whitespace().collect();
        match words[..] {
            [] => return Err(RuleError::Empty),
            ["-" | "any"] => return Ok(Self { alternatives: vec![vec![]] }),
            _ if words.len() > MAX_WORDS => return Err(RuleError::TooLong),
            _ => {}
        }
        let alternatives: Result<Vec<_>, _> =
            words.split(|w| matches!(*w, "or" | "||")).map(conjunction).collect();
        Ok(Self { alternatives: alternatives? })
    }
}

fn conjunction(mut words: &[&str]) -> Result<Vec<Term>, RuleError> {
    let mut terms = Vec::new();
    let mut negated = false;
    while let Some((word, rest)) = words.split_first() {
        words = rest;
        match *word {
            "and" | "&&" if !terms.is_empty() && !negated => {}
            "not" | "!" => negated = !negated,
            word => {
                let test = test(word, &mut words)?;
                terms.push(Term { negated, test });
                negated = false;
                continue;
            }
        }
        if words.is_empty() {
            return Err(RuleError::Incomplete((*word).to_owned()));
        }
    }
    if terms.is_empty() { Err(RuleError::Empty) } else { Ok(terms) }
}

/// Reads one test that starts with `word`, taking more from `words` as needed.
fn test(word: &str, words: &mut &[&str]) -> Result<Test, RuleError> {
    let mut next = || match words.split_first() {
        Some((first, rest)) => {
            *words = rest;
            Ok(*first)
        }
        None => Err(RuleError::Incomplete(word.to_owned())),
    };
    Ok(match word {
        "ip" => Test::AnyIp,
        "ip4" | "ipv4" => Test::IpVersion(4),
        "ip6" | "ipv6" => Test::IpVersion(6),
        "arp" => Test::Ethertype(ethertype::ARP),
        "tcp" => Test::Protocol(protocol::TCP),
        "udp" => Test::Protocol(protocol::UDP),
        "icmp" => Test::Icmp,
        "fragment" => Test::Fragment,
        "proto" => Test::Protocol(number(next()?, 255)? as u8),
        "ecn" => Test::Ecn(number(next()?, 3)? as u8),
        "vlan" => Test::Vlan(number(next()?, 4095)?),
        "len" => {
            let text = next()?;
            Test::Length(range(text).ok_or(RuleError::BadNumber { text: text.to_owned(), max: u16::MAX })?)
        }
        "dscp" => {
            let text = next()?;
            let dscp: Dscp = text.parse().map_err(|_| RuleError::BadDscp(text.to_owned()))?;
            Test::Dscp(dscp.get())
        }
        "port" => Test::Port(Side::Either, port(next()?)?),
        "host" | "net" => Test::Net(Side::Either, prefix(next()?)?),
        "src" | "dst" => {
            let side = if word == "src" { Side::Src } else { Side::Dst };
            match next()? {
                "port" => Test::Port(side, port(next()?)?),
                "host" | "net" => Test::Net(side, prefix(next()?)?),
                other => Test::Net(side, prefix(other)?),
            }
        }
        other => match prefix(other) {
            Ok(net) => Test::Net(Side::Either, net),
            Err(_) => return Err(RuleError::UnknownWord(other.to_owned())),
        },
    })
}

fn number(text: &str, max: u16) -> Result<u16, RuleError> {
    let bad = || RuleError::BadNumber { text: text.to_owned(), max };
    text.parse().ok().filter(|n| *n <= max).ok_or_else(bad)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some(low..=high)
}

fn port(text: &str) -> Result<RangeInclusive<u16>, RuleError> {
    range(text).ok_or_else(|| RuleError::BadPort(text.to_owned()))
}

fn prefix(text: &str) -> Result<Net, RuleError> {
    let net = match text.parse::<IpNet>() {
        Ok(net) => net,
        Err(_) => match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => return Err(RuleError::BadPrefix(text.to_owned())),
        },
    };
    Ok(match net.trunc() {
        IpNet::V4(n) => Net::V4 { bits: n.network().to_bits(), mask: n.netmask().to_bits() },
        IpNet::V6(n) => Net::V6 { bits: n.network().to_bits(), mask: n.netmask().to_bits() },
    })
}

impl Rule {
    /// Whether the packet, whose layout is valid, satisfies the rule. O(words).
    pub fn matches(&self, packet: &Packet) -> bool {
        self.matches_frame(packet.frame(), &packet.meta().layout)
    }

    /// Its tests, when it is one list of tests none of which is negated.
    pub(super) fn conjunction(&self) -> Option<impl Iterator<Item = &Test>> {
        match &self.alternatives[..] {
            [terms] if terms.iter().all(|t| !t.negated) => Some(terms.iter().map(|t| &t.test)),
            _ => None,
        }
    }

    /// As [`Rule::matches`], for a frame and its layout.
    pub fn matches_frame(&self, frame: &[u8], layout: &Layout) -> bool {
        self.alternatives.iter().any(|terms| terms.iter().all(|t| t.test.holds(frame, layout) != t.negated))
    }
}

impl Test {
    fn holds(&self, frame: &[u8], l: &Layout) -> bool {
        let ip = l.ip_version != 0;
        match self {
            Self::AnyIp => ip,
            Self::IpVersion(v) => l.ip_version == *v,
            Self::Ethertype(e) => l.ethertype == *e,
            Self::Protocol(p) => ip && l.protocol == *p,
            Self::Icmp => {
                matches!((l.ip_version, l.protocol), (4, protocol::ICMPV4) | (6, protocol::ICMPV6))
            }
            Self::Port(side, range) => {
                let has_ports = ip && l.l4_offset != 0 && matches!(l.protocol, protocol::TCP | protocol::UDP);
                has_ports && side.either(|src| range.contains(if src { &l.src_port } else { &l.dst_port }))
            }
            Self::Net(side, net) => side.either(|src| net.holds(frame, l, src)),
            Self::Dscp(d) => ip && l.tos >> 2 == *d,
            Self::Ecn(e) => ip && l.tos & 3 == *e,
            Self::Vlan(v) => l.vlan_tags > 0 && l.vlan[0] & 0xfff == *v,
            Self::Length(range) => ip && range.contains(&l.ip_len),
            Self::Fragment => l.fragment != Fragment::Whole,
        }
    }
}

impl Side {
    /// Asks about the source, the destination or both.
    fn either(self, mut holds: impl FnMut(bool) -> bool) -> bool {
        match self {
            Self::Src => holds(true),
            Self::Dst => holds(false),
            Self::Either => holds(true) || holds(false),
        }
    }
}

impl Net {
    fn holds(&self, frame: &[u8], l: &Layout, src: bool) -> bool {
        let header = frame.get(usize::from(l.l3_offset)..).unwrap_or_default();
        match (self, l.ip_version) {
            (Self::V4 { bits, mask }, 4) => address(header, if src { 12 } else { 16 })
                .is_some_and(|a| u32::from_be_bytes(a) & mask == *bits),
            (Self::V6 { bits, mask }, 6) => address(header, if src { 8 } else { 24 })
                .is_some_and(|a| u128::from_be_bytes(a) & mask == *bits),
            _ => false,
        }
    }
}

fn address<const N: usize>(header: &[u8], at: usize) -> Option<[u8; N]> {
    header.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use proptest::prelude::*;

    fn matches(rule: &str, frame: &[u8]) -> bool {
        let layout = perhop_wire::dissect(frame).unwrap();
        rule.parse::<Rule>().unwrap_or_else(|e| panic!("{rule}: {e}")).matches_frame(frame, &layout)
    }

    #[test]
    fn words_mean_what_they_say() {
        let frame = UdpFrame { dscp: Dscp::EF, ecn: 1, ..UdpFrame::default() }.to_vec();
        for rule in [
            "-",
            "udp dst port 5006",
            "udp and src port 5000-5004",
            "port 5006",
            "src 10.0.0.0/8 dst host 10.1.0.2",
            "net 10.1.0.0/16",
            "10.0.0.1",
            "dscp EF ecn 1",
            "ip not tcp",
            "ip4 ! fragment",
            "proto 17 len 100",
            "tcp or dscp 46",
            "arp or icmp or not not udp",
        ] {
            assert!(matches(rule, &frame), "{rule}");
        }
        for rule in [
            "tcp",
            "udp src port 5006",
            "src 10.1.0.0/16",
            "dst ::/0",
            "ip6",
            "not udp",
            "vlan 1",
            "len 0-99",
            "icmp or arp",
            "fragment",
            "ecn 0",
        ] {
            assert!(!matches(rule, &frame), "{rule}");
        }
    }

    #[test]
    fn ipv6_and_arp() {
        let mut v6 = vec![0u8; 54];
        v6[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        v6[20] = 59;
        v6[22..24].copy_from_slice(&[0x20, 0x01]);
        assert!(matches("ip6 src 2001::/16 not dst 2001::/16", &v6));
        let mut arp = vec![0u8; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        arp[14..20].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        assert!(matches("arp", &arp) && !matches("ip or src 0.0.0.0/0", &arp));
    }

    #[test]
    fn errors_name_the_word() {
        let cases = [
            ("", RuleError::Empty),
            ("udp or", RuleError::Empty),
            ("tpc", RuleError::UnknownWord("tpc".into())),
            ("udp dst", RuleError::Incomplete("dst".into())),
            ("udp not", RuleError::Incomplete("not".into())),
            ("port 70000", RuleError::BadPort("70000".into())),
            ("port 9-8", RuleError::BadPort("9-8".into())),
            ("src 10.0.0.0/33", RuleError::BadPrefix("10.0.0.0/33".into())),
            ("vlan 4096", RuleError::BadNumber { text: "4096".into(), max: 4095 }),
            ("dscp 64", RuleError::BadDscp("64".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Rule>(), Err(expected), "{text}");
        }
        assert_eq!("udp ".repeat(65).parse::<Rule>(), Err(RuleError::TooLong));
    }

    proptest! {
        #[test]
        fn prefixes_agree_with_ipnet(address: u32, len in 0u8..=32, src: u32) {
            let net = ipnet::Ipv4Net::new(address.into(), len).unwrap();
            let frame = UdpFrame { src: src.to_be_bytes(), ..UdpFrame::default() }.to_vec();
            let ours = matches(&format!("src {net}"), &frame);
            prop_assert_eq!(ours, net.contains(&std::net::Ipv4Addr::from(src)));
        }

        #[test]
        fn any_text_is_a_rule_or_an_error(text in "[a-z0-9 ./:!-]{0,60}") {
            let _ = text.parse::<Rule>();
        }
    }
}
