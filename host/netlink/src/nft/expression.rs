//! What a rule compares and does: the few expressions that are needed here.

use super::message::{Attributes, family};
use ipnet::IpNet;
use std::net::IpAddr;

/// Types of addresses, of the kernel's own routes (`RTN_…`).
const LOCAL: u32 = 2;
const BROADCAST: u32 = 3;
const ANYCAST: u32 = 4;
const MULTICAST: u32 = 5;
/// Types of destinations that the kernel keeps for itself.
pub(crate) const OWN: [u32; 4] = [LOCAL, BROADCAST, ANYCAST, MULTICAST];

/// The register that everything is compared in.
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;
const META_PROTOCOL: u32 = 1;
const META_MARK: u32 = 3;
const META_IN_INTERFACE: u32 = 4;
const META_OUT_INTERFACE: u32 = 5;
const META_FAMILY: u32 = 15;
const FIB_OUT_INTERFACE: u32 = 1;
const FIB_ADDRESS_TYPE: u32 = 3;
/// Where the destination leads, by the packet's mark too.
const FIB_BY_DESTINATION: u32 = 1 << 1 | 1 << 2;

/// What becomes of a packet that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    Drop,
    /// Rules behind this chain go on.
    Accept,
    /// Goes through another chain, and never back.
    GoTo(&'a str),
}

fn expression(name: &str, data: Attributes) -> Attributes {
    Attributes::new().text(1, name).nested(2, data)
}

fn is_equal(value: u32) -> Attributes {
    compare(EQUAL, &value.to_ne_bytes())
}

fn meta(key: u32) -> Attributes {
    expression("meta", Attributes::new().number(1, REGISTER).number(2, key))
}

fn fib(result: u32) -> Attributes {
    let data = Attributes::new().number(1, REGISTER).number(2, result).number(3, FIB_BY_DESTINATION);
    expression("fib", data)
}

/// A packet that arrived on the interface of this number.
pub(crate) fn arrived_on(index: u32) -> [Attributes; 2] {
    [meta(META_IN_INTERFACE), is_equal(index)]
}

/// A packet that leaves by the interface of this number.
pub(crate) fn leaves_by(index: u32) -> [Attributes; 2] {
    [meta(META_OUT_INTERFACE), is_equal(index)]
}

/// A packet that the kernel's routes send to the interface of this number; 0: nowhere.
pub(crate) fn leads_to(index: u32) -> [Attributes; 2] {
    [fib(FIB_OUT_INTERFACE), is_equal(index)]
}

/// A packet to an address of this type.
pub(crate) fn is_to(kind: u32) -> [Attributes; 2] {
    [fib(FIB_ADDRESS_TYPE), is_equal(kind)]
}

fn compare(how: u32, value: &[u8]) -> Attributes {
    let data = Attributes::new().bytes(1, value);
    expression("cmp", Attributes::new().number(1, REGISTER).number(2, how).nested(3, data))
}

/// A frame with this mark.
pub(crate) fn marked(mark: u32) -> [Attributes; 2] {
    [meta(META_MARK), is_equal(mark)]
}

/// A frame of this protocol.
pub(crate) fn meta_protocol(ethertype: u16) -> [Attributes; 2] {
    [meta(META_PROTOCOL), compare(EQUAL, &ethertype.to_be_bytes())]
}

/// An octet of the network header, or of the transport header.
fn octet(of_network: bool, offset: u32) -> Attributes {
    let base = if of_network { 1 } else { 2 };
    let data = Attributes::new().number(1, REGISTER).number(2, base).number(3, offset).number(4, 1);
    expression("payload", data)
}

/// A frame with this octet there.
pub(crate) fn payload_is(of_network: bool, offset: u32, value: u8) -> [Attributes; 2] {
    [octet(of_network, offset), compare(EQUAL, &[value])]
}

/// A frame with an octet there from the one to the other.
pub(crate) fn payload_within(of_network: bool, offset: u32, [least, most]: [u8; 2]) -> [Attributes; 3] {
    [octet(of_network, offset), compare(AT_LEAST, &[least]), compare(AT_MOST, &[most])]
}

/// The frame is sent by the interface of this number instead.
pub(crate) fn forward_to(index: u32) -> [Attributes; 2] {
    let value = Attributes::new().bytes(1, &index.to_ne_bytes());
    let load = Attributes::new().number(1, REGISTER).nested(2, value);
    [expression("immediate", load), expression("fwd", Attributes::new().number(1, REGISTER))]
}

/// Where a packet's addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// A packet with an address of this network there.
pub(crate) fn is_within(side: Side, net: IpNet) -> Vec<Attributes> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (family, first) = if net.addr().is_ipv4() { (family::IPV4, 12) } else { (family::IPV6, 8) };
    let mut all = vec![meta(META_FAMILY), compare(EQUAL, &[family])];
    if net.prefix_len() == 0 {
        return all;
    }
    let (address, mask) = (octets(net.network()), octets(net.netmask()));
    let length = address.len() as u32;
    let offset = if side == Side::Source { first } else { first + length };
    let load = Attributes::new().number(1, REGISTER).number(2, 1).number(3, offset).number(4, length);
    let value = |bytes: &[u8]| Attributes::new().bytes(1, bytes);
    let masked = Attributes::new()
        .number(1, REGISTER)
        .number(2, REGISTER)
        .number(3, length)
        .nested(4, value(&mask))
        .nested(5, value(&vec![0; mask.len()]));
    all.extend([expression("payload", load), expression("bitwise", masked), compare(EQUAL, &address)]);
    all
}

/// Ends a rule.
pub(crate) fn verdict(verdict: Verdict<'_>) -> Attributes {
    let (code, chain): (i32, _) = match verdict {
        Verdict::Drop => (0, None),
        Verdict::Accept => (1, None),
        Verdict::GoTo(chain) => (-4, Some(chain)),
    };
    let inner = Attributes::new().number(1, code as u32);
    let inner = chain.map_or(inner.clone(), |chain| inner.text(2, chain));
    let data = Attributes::new().nested(2, inner);
    expression("immediate", Attributes::new().number(1, VERDICT_REGISTER).nested(2, data))
}

/// The rule's attribute: its expressions, in order.
pub(crate) fn rule(expressions: impl IntoIterator<Item = Attributes>) -> Attributes {
    expressions.into_iter().fold(Attributes::new(), |all, one| all.nested(1, one))
}
