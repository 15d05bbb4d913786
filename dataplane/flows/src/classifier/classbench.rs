//! Rule sets and header traces in the format of ClassBench, for tests and measurements.
//!
//! Source: D. E. Taylor, J. S. Turner, "ClassBench: a packet classification benchmark", IEEE/ACM Transactions on
//! Networking 15(3), 2007. A rule is a line `@SRC DST FIRST : LAST FIRST : LAST PROTOCOL/MASK [FLAGS/MASK]`, the first
//! line being the best; a header is `SRC DST SRC_PORT DST_PORT PROTOCOL …` in decimal. The flags column is passed over.

use super::key::Key;
use super::rule::{Action, Match, PortRange, Rule};
use ipnet::{IpNet, Ipv4Net};
use perhop_packet::{FilterId, PortId};
use perhop_wire::protocol;
use std::net::{IpAddr, Ipv4Addr};
use thiserror::Error;

/// A line that is not of the format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {field} is missing or malformed")]
pub struct ClassBenchError {
    /// From 1.
    pub line: usize,
    /// Which part of it.
    pub field: &'static str,
}

/// The rules of `text`: identity and priority are the number of the line, from 0. Empty lines are passed over.
///
/// # Errors
/// The first line that is not a rule.
pub fn rules(text: &str) -> Result<Vec<Rule>, ClassBenchError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| rule(at, line).map_err(|field| ClassBenchError { line: at + 1, field })).collect()
}

/// The headers of `text`, as the keys of whole packets that came in untagged by port 0.
///
/// # Errors
/// The first line that is not a header.
pub fn headers(text: &str) -> Result<Vec<Key>, ClassBenchError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| header(line).map_err(|field| ClassBenchError { line: at + 1, field })).collect()
}

/// The key of an IPv4 packet with known ports where its protocol has them.
pub fn key(src: u32, dst: u32, src_port: u16, dst_port: u16, protocol: u8) -> Key {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP);
    Key {
        in_port: PortId(0),
        vlan: 0,
        src: IpAddr::V4(Ipv4Addr::from_bits(src)),
        dst: IpAddr::V4(Ipv4Addr::from_bits(dst)),
        protocol,
        ports: has_ports.then_some((src_port, dst_port)),
        dscp: 0,
        tcp_flags: (protocol == protocol::TCP).then_some(0),
        fragment: false,
    }
}

/// A key inside `rule`: `draw` gives a number below its argument, which is at least 1. Rules without a protocol are met
/// by TCP.
pub fn key_inside(rule: &Match, mut draw: impl FnMut(u64) -> u64) -> Key {
    let mut address = |net: Option<IpNet>| {
        let net = match net {
            Some(IpNet::V4(net)) => net,
            _ => Ipv4Net::default(),
        };
        let size = 1u64 << (32 - net.prefix_len());
        net.network().to_bits() + draw(size) as u32
    };
    let (src, dst) = (address(rule.src), address(rule.dst));
    let mut port = |range: Option<PortRange>| {
        let range = range.unwrap_or(PortRange { first: 0, last: u16::MAX });
        range.first + draw(u64::from(range.last - range.first) + 1) as u16
    };
    let (src_port, dst_port) = (port(rule.src_ports), port(rule.dst_ports));
    key(src, dst, src_port, dst_port, rule.protocol.unwrap_or(protocol::TCP))
}

/// The rule under other addresses: the bits of `flip` turned in the network part of its IPv4 source and destination, so
/// that rules moved together keep the prefixes they have in common.
pub fn elsewhere(rule: &Match, flip: [u32; 2]) -> Match {
    let flipped = |net: IpNet, flip: u32| match net {
        IpNet::V4(old) => {
            let address = Ipv4Addr::from_bits(old.addr().to_bits() ^ flip);
            Ipv4Net::new(address, old.prefix_len()).map_or(net, |new| IpNet::V4(new.trunc()))
        }
        IpNet::V6(_) => net,
    };
    let src = rule.src.map(|net| flipped(net, flip[0]));
    let dst = rule.dst.map(|net| flipped(net, flip[1]));
    Match { src, dst, ..*rule }
}

fn rule(at: usize, line: &str) -> Result<Rule, &'static str> {
    let mut words = line.trim().strip_prefix('@').ok_or("@")?.split_whitespace();
    let net = |text: Option<&str>| text.and_then(|t| t.parse::<IpNet>().ok());
    let src = net(words.next()).ok_or("the source prefix")?;
    let dst = net(words.next()).ok_or("the destination prefix")?;
    let mut ports = || {
        let (first, colon, last) = (words.next()?, words.next()?, words.next()?);
        let range = PortRange { first: first.parse().ok()?, last: last.parse().ok()? };
        (colon == ":" && range.first <= range.last).then_some(range)
    };
    let src_ports = ports().ok_or("the source ports")?;
    let dst_ports = ports().ok_or("the destination ports")?;
    let any = |range: PortRange| (range != PortRange { first: 0, last: u16::MAX }).then_some(range);
    let hex = |text: &str| u8::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let protocol = words.next().and_then(|word| {
        let (value, mask) = word.split_once('/')?;
        Some((hex(value)?, hex(mask)?))
    });
    let protocol = match protocol.ok_or("the protocol")? {
        (value, 0xff) => Some(value),
        (_, 0) => None,
        _ => return Err("the protocol's mask"),
    };
    let number = u32::try_from(at).map_err(|_| "the number of the line")?;
    Ok(Rule {
        id: FilterId(number),
        tier: 0,
        priority: number,
        name: format!("r{number}").into(),
        matches: Match {
            src: Some(src),
            dst: Some(dst),
            protocol,
            src_ports: any(src_ports),
            dst_ports: any(dst_ports),
            ..Match::default()
        },
        action: Action::default(),
    })
}

fn header(line: &str) -> Result<Key, &'static str> {
    let mut words = line.split_whitespace();
    let mut number = |field, most: u64| {
        let value = words.next().and_then(|w| w.parse::<u64>().ok()).filter(|n| *n <= most);
        value.ok_or(field)
    };
    let src = number("the source", u64::from(u32::MAX))? as u32;
    let dst = number("the destination", u64::from(u32::MAX))? as u32;
    let src_port = number("the source port", u64::from(u16::MAX))? as u16;
    let dst_port = number("the destination port", u64::from(u16::MAX))? as u16;
    Ok(key(src, dst, src_port, dst_port, number("the protocol", u64::from(u8::MAX))? as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_named() {
        let text = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 88\t0x06/0xFF\t0x0000/0x0200\n\n@1.2.3.4/32 5.6.7.8/32 1 : 1 2 : 2 0x00/0x00\n";
        let read = rules(text).unwrap();
        assert_eq!((read.len(), read[1].id), (2, FilterId(2)));
        let first = &read[0].matches;
        assert_eq!((first.protocol, first.src_ports), (Some(6), None));
        assert_eq!(first.dst_ports, Some(PortRange { first: 80, last: 88 }));
        assert_eq!(read[1].matches.protocol, None);
        for (text, field) in [
            ("10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF", "@"),
            ("@10.0.0.0/33 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF", "the source prefix"),
            ("@10.0.0.0/8 0.0.0.0/0 2 : 1 0 : 1 0x06/0xFF", "the source ports"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0x0F", "the protocol's mask"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1", "the protocol"),
        ] {
            assert_eq!(rules(text).unwrap_err(), ClassBenchError { line: 1, field }, "{text}");
        }
        let read = headers("167772161\t5\t6\t7\t17\t0\t3\n").unwrap();
        assert_eq!(read, [key(0x0a00_0001, 5, 6, 7, 17)]);
        assert_eq!(headers("1 2 3 65536 6").unwrap_err().field, "the destination port");
    }

    #[test]
    fn keys_drawn_from_a_rule_are_inside() {
        let text = "@10.1.2.0/23 192.0.2.7/32 5 : 9 80 : 80 0x11/0xFF\n@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
        for rule in rules(text).unwrap() {
            for step in 0..200u64 {
                let key = key_inside(&rule.matches, |below| step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % below);
                assert!(rule.matches.matches(&key), "{key:?}");
            }
            assert!(rule.matches.matches(&key_inside(&rule.matches, |below| below - 1)));
        }
    }
}
