//! From words to a frame.

use super::words::{At, End, Words, protocol_name};
use super::{DescribeError, Described};
use perhop_units::Dscp;
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::{Layout, checksum, dissect, icmpv4, icmpv6, protocol, rtp, tcp};
use std::net::IpAddr;

const DEFAULT_LEN: u32 = 200;
/// UDP header, or the part of another protocol's header that is made up.
const SHORT_HEADER: u32 = 8;

/// The packet that the words describe.
pub(super) fn make(words: Words) -> Result<Described, Vec<DescribeError>> {
    let mut errors = Vec::new();
    let mut miss = |column: usize, message: String, hint: &str| {
        errors.push(DescribeError { column, message, hint: Some(hint.to_owned()) });
    };
    let Words { protocol, src, dst, in_port, .. } = &words;
    if in_port.is_none() {
        miss(words.end, "the port it comes in by is missing".to_owned(), "add in=PORT");
    }
    if protocol.is_none() {
        miss(words.end, "the protocol is missing".to_owned(), "add udp, tcp, icmp or a number");
    }
    let (Some(src), Some(dst)) = (src, dst) else {
        miss(words.end, "the address pair is missing".to_owned(), "add SOURCE>DESTINATION");
        return Err(errors);
    };
    if src.value.ip.is_ipv4() != dst.value.ip.is_ipv4() {
        let what = "source and destination are of different families".to_owned();
        miss(dst.column, what, "write both as IPv4 or both as IPv6");
    }
    let (Some(protocol), Some(in_port)) = (protocol, in_port) else { return Err(errors) };
    // People say icmp in IPv6 too.
    let v6 = dst.value.ip.is_ipv6();
    let number = if v6 && protocol.value == protocol::ICMPV4 { protocol::ICMPV6 } else { protocol.value };
    errors.extend(contradictions(&words, number, [src, dst]));
    let shortest = shortest(&words, number, v6);
    let len = words.numbers.get("len").map_or(DEFAULT_LEN.max(shortest), |l| l.value);
    if len < shortest {
        let hint = Some(format!("at least {shortest} bytes"));
        let message = format!("len {len} does not hold the headers");
        errors.push(DescribeError { column: words.numbers["len"].column, message, hint });
    }
    if !errors.is_empty() {
        errors.sort_by_key(|e| e.column);
        return Err(errors);
    }
    let frame = frame(&words, number, src.value, dst.value, len);
    // What was built here is well formed; should it not be, the explanation says that it is not.
    let layout = dissect(&frame).unwrap_or_default();
    let number_of = |key| words.numbers.get(key).map(|n: &At<u32>| n.value);
    Ok(Described {
        in_port: in_port.value.clone(),
        in_column: in_port.column,
        layout,
        frame,
        src: src.value.ip,
        dst: dst.value.ip,
        dscp: words.dscp.unwrap_or(Dscp::BE),
        ttl: number_of("ttl").unwrap_or(64) as u8,
        dont_fragment: v6 || words.numbers.contains_key("df"),
    })
}

fn is_later(words: &Words) -> bool {
    words.fragment.is_some_and(|(offset, _)| offset > 0)
}

fn has_rtp(words: &Words) -> Option<usize> {
    ["rtp", "pt", "ssrc", "seq", "ts"].iter().find_map(|k| words.numbers.get(k)).map(|n| n.column)
}

/// Words that do not go together.
fn contradictions(words: &Words, number: u8, ends: [&At<End>; 2]) -> Vec<DescribeError> {
    let mut errors = Vec::new();
    let mut say = |column: usize, message: String, hint: Option<&str>| {
        errors.push(DescribeError { column, message, hint: hint.map(str::to_owned) });
    };
    let with_ports = [protocol::UDP, protocol::TCP].contains(&number);
    let name = protocol_name(number);
    for end in ends {
        match (with_ports, end.value.port) {
            (false, Some(port)) => say(end.column, format!("{name} has no ports, but {port} is given"), None),
            (true, None) if !is_later(words) => {
                say(end.column, format!("{name} needs a port"), Some("write it after the address with :"));
            }
            _ => {}
        }
    }
    if let Some(column) = has_rtp(words).filter(|_| number != protocol::UDP || is_later(words)) {
        say(column, "RTP needs a UDP header before it".to_owned(), None);
    }
    if let Some(flags) = words.flags.as_ref().filter(|_| number != protocol::TCP) {
        say(flags.column, format!("{name} has no flags"), None);
    }
    let icmp = [protocol::ICMPV4, protocol::ICMPV6].contains(&number);
    for key in ["type", "code"] {
        if let Some(n) = words.numbers.get(key).filter(|_| !icmp) {
            say(n.column, format!("{name} has no {key}"), None);
        }
    }
    let v4 = ends[0].value.ip.is_ipv4();
    let alien = if v4 { protocol::ICMPV6 } else { u8::MAX };
    if number == alien {
        let column = words.protocol.as_ref().map_or(1, |p| p.column);
        say(column, "icmpv6 is not sent in IPv4".to_owned(), Some("write icmp"));
    }
    if let Some(df) = words.numbers.get("df").filter(|_| !v4) {
        say(df.column, "df is for IPv4".to_owned(), Some("in IPv6 routers never fragment"));
    }
    errors
}

/// IP length of the headers alone.
fn shortest(words: &Words, number: u8, v6: bool) -> u32 {
    let ip = if v6 { 40 } else { 20 };
    let fragment = if v6 && words.fragment.is_some() { 8 } else { 0 };
    let transport = match number {
        _ if is_later(words) => 0,
        protocol::TCP => tcp::HEADER_LEN as u32,
        _ => SHORT_HEADER,
    };
    let rtp = if has_rtp(words).is_some() { rtp::HEADER_LEN as u32 } else { 0 };
    ip + fragment + transport + rtp
}

fn frame(words: &Words, number: u8, src: End, dst: End, len: u32) -> Vec<u8> {
    let value = |key: &str, default: u32| words.numbers.get(key).map_or(default, |n| n.value);
    let mut b = builder(number, src.ip, dst.ip, words)
        .ports(src.port.unwrap_or(0), dst.port.unwrap_or(0))
        .dscp(words.dscp.unwrap_or(Dscp::BE))
        .ttl(value("ttl", 64) as u8)
        .identification(value("id", 1))
        .ip_len(len as u16);
    for vid in &words.vlan {
        b = b.vlan(*vid, 0);
    }
    if let Some(flags) = &words.flags {
        b = b.flags(flags.value);
    }
    if value("df", 0) > 0 {
        b = b.dont_fragment();
    }
    if let Some((offset, more)) = words.fragment {
        b = b.fragment(offset, more);
    }
    if has_rtp(words).is_some() {
        let header = rtp::Repr {
            payload_type: value("pt", 0) as u8,
            sequence: value("seq", 1) as u16,
            timestamp: value("ts", 160),
            ssrc: value("ssrc", 0x1234_5678),
            ..rtp::Repr::default()
        };
        let mut payload = vec![0; header.len()];
        header.emit(&mut payload);
        b = b.payload(&payload);
    }
    let mut frame = b.build();
    let known = [protocol::UDP, protocol::TCP, protocol::ICMPV4, protocol::ICMPV6];
    if !known.contains(&number)
        && let Ok(layout) = dissect(&frame)
    {
        set_protocol(&mut frame, &layout, number, words.fragment.is_some());
    }
    frame
}

fn builder(number: u8, src: IpAddr, dst: IpAddr, words: &Words) -> FrameBuilder {
    let icmp = |key: &str| words.numbers.get(key).map(|n| n.value as u8);
    let message = icmp("type").or(icmp("code"));
    let code = icmp("code").unwrap_or(0);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => match number {
            protocol::TCP => build::tcp4(src, dst),
            protocol::ICMPV4 => {
                let echo = build::icmp4_echo(src, dst, 1, 1);
                let kind = icmp("type").unwrap_or(8);
                match message {
                    Some(_) => echo.icmpv4(icmpv4::Repr::Other { kind, code, rest: [0; 4] }),
                    None => echo,
                }
            }
            _ => build::udp4(src, dst),
        },
        (src, dst) => {
            let wide = |ip| match ip {
                IpAddr::V6(ip) => ip,
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            };
            let (src, dst) = (wide(src), wide(dst));
            match number {
                protocol::TCP => build::tcp6(src, dst),
                protocol::ICMPV6 => {
                    let echo = build::icmp6_echo(src, dst, 1, 1);
                    let kind = icmp("type").unwrap_or(128);
                    match message {
                        Some(_) => echo.icmpv6(icmpv6::Repr::Other { kind, code, rest: [0; 4] }),
                        None => echo,
                    }
                }
                _ => build::udp6(src, dst),
            }
        }
    }
}

/// Makes a UDP packet one of another protocol: what was its UDP header is then payload.
fn set_protocol(frame: &mut [u8], layout: &Layout, number: u8, fragment: bool) {
    let ip = usize::from(layout.l3_offset);
    if layout.ip_version == 4 {
        frame[ip + 9] = number;
        frame[ip + 10..ip + 12].fill(0);
        let sum = checksum::of(&frame[ip..ip + 20]);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[if fragment { ip + 40 } else { ip + 6 }] = number;
    }
}
