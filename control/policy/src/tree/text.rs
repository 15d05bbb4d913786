//! Values of parameters.

use crate::model::Action;
use ipnet::IpNet;
use perhop_model::{FilterMatch, MaskedByte, Name, PortRange};
use perhop_units::Dscp;

/// The octet of a code point: its six bits are the upper ones.
fn octet_of(dscp: Dscp) -> u8 {
    dscp.get() << 2
}

fn octet(text: &str) -> Option<u8> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u8::from_str_radix(hex, 16).ok())
}

pub(super) fn action_text(action: &Action, default: Option<&Name>) -> Option<String> {
    Some(match action {
        Action::Pass => "pass".into(),
        Action::Drop => "drop".into(),
        Action::Mark { dscp } => format!("mark {:#04x}", octet_of(*dscp)),
        Action::Class { class, dscp: None } | Action::Shape { class } => format!("class {class}"),
        Action::Demote => format!("class {}", default?),
        Action::Class { .. } => return None,
    })
}

pub(super) fn action(text: &str) -> Option<Action> {
    match text.split_once(' ') {
        None if text == "pass" => Some(Action::Pass),
        None if text == "drop" => Some(Action::Drop),
        Some(("mark", value)) => {
            let value = octet(value.trim())?;
            Dscp::new(value >> 2).filter(|_| value & 3 == 0).map(|dscp| Action::Mark { dscp })
        }
        Some(("class", class)) => {
            Name::new(class.trim()).ok().map(|class| Action::Class { class, dscp: None })
        }
        _ => None,
    }
}

pub(super) fn prefix(text: &str) -> Option<Option<IpNet>> {
    if text == "0" {
        return Some(None);
    }
    let address = text.parse().map(|address: std::net::IpAddr| IpNet::from(address));
    address.ok().or_else(|| text.parse().ok()).map(|net: IpNet| Some(net.trunc()))
}

pub(super) fn ports(text: &str) -> Option<Option<PortRange>> {
    if text == "0" {
        return Some(None);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(Some(PortRange { first, last }))
}

fn ports_text(ports: Option<PortRange>) -> String {
    match ports {
        None => "0".into(),
        Some(ports) if ports.first == ports.last => ports.first.to_string(),
        Some(ports) => format!("{}-{}", ports.first, ports.last),
    }
}

pub(super) fn protocol(text: &str) -> Option<Option<u8>> {
    text.parse::<u8>().ok().map(|number| Some(number).filter(|number| *number != 0))
}

pub(super) fn tos(text: &str) -> Option<Option<MaskedByte>> {
    if text == "0" {
        return Some(None);
    }
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xfc"));
    let (value, mask) = (octet(value)?, octet(mask)?);
    let is_whole = value & 3 == 0 && mask & 3 == 0 && value & !mask == 0;
    is_whole.then_some(Some(MaskedByte { value: value >> 2, mask: mask >> 2 }))
}

/// A condition as parameters; `None` if it says more than they can.
pub(super) fn condition(matches: &FilterMatch) -> Option<super::Parameters> {
    let FilterMatch { in_port: _, vlan, src, dst, protocol, src_ports, dst_ports, dscp, tcp_flags, fragment } =
        matches;
    let is_more = vlan.is_some() || tcp_flags.is_some() || fragment.is_some();
    // Port 0 alone, and protocol 0, are what stands for any.
    let is_any = |ports: &Option<PortRange>| ports.is_some_and(|ports| ports.last == 0);
    if is_more || is_any(src_ports) || is_any(dst_ports) || *protocol == Some(0) {
        return None;
    }
    let net = |net: &Option<IpNet>| net.map_or("0".to_owned(), |net| net.to_string());
    let tos = dscp.map_or("0".to_owned(), |d| format!("{:#04x}/{:#04x}", d.value << 2, d.mask << 2));
    let texts = [
        ("dst", net(dst)),
        ("dst_port", ports_text(*dst_ports)),
        ("src", net(src)),
        ("src_port", ports_text(*src_ports)),
        ("protocol", protocol.unwrap_or(0).to_string()),
        ("tos", tos),
    ];
    Some(texts.into())
}
