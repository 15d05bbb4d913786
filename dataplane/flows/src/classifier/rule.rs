//! Rules: what they compare and what they say.

use super::key::{Key, Packed, field, halves};
use ipnet::IpNet;
use perhop_packet::{ClassId, FilterId, PortId, ProfileId, SlaId};
use std::net::IpAddr;
use std::sync::Arc;

/// An inclusive range of transport ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// First.
    pub first: u16,
    /// Last, at least `first`.
    pub last: u16,
}

impl PortRange {
    /// One port.
    pub const fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }
    /// Whether `port` is inside.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// An octet compared under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Masked {
    /// Expected value; bits outside the mask are 0.
    pub value: u8,
    /// Bits compared.
    pub mask: u8,
}

impl Masked {
    /// Whether `octet` agrees.
    pub const fn matches(self, octet: u8) -> bool {
        octet & self.mask == self.value
    }
}

/// What a rule compares; an absent field matches everything.
///
/// A port range matches UDP and TCP packets with their header only, TCP flags match TCP packets with their header
/// only: a later fragment has neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// Port the packet came in by.
    pub in_port: Option<PortId>,
    /// Outer VLAN identifier; 0 = untagged.
    pub vlan: Option<u16>,
    /// Source prefix.
    pub src: Option<IpNet>,
    /// Destination prefix; the same family as `src`.
    pub dst: Option<IpNet>,
    /// Transport protocol number.
    pub protocol: Option<u8>,
    /// Source ports.
    pub src_ports: Option<PortRange>,
    /// Destination ports.
    pub dst_ports: Option<PortRange>,
    /// Code point (0 … 63) under a mask of six bits.
    pub dscp: Option<Masked>,
    /// TCP flags under a mask.
    pub tcp_flags: Option<Masked>,
    /// `true`: only fragments; `false`: only whole datagrams.
    pub fragment: Option<bool>,
}

impl Match {
    /// Whether `key` agrees in every field: the meaning of a rule, field by field. The tuple search is tested
    /// against it.
    pub fn matches(&self, key: &Key) -> bool {
        let port = |range: Option<PortRange>, pick: fn((u16, u16)) -> u16| match (range, key.ports) {
            (None, _) => true,
            (Some(range), Some(ports)) => range.contains(pick(ports)),
            (Some(_), None) => false,
        };
        self.in_port.is_none_or(|p| p == key.in_port)
            && self.vlan.is_none_or(|v| v == key.vlan)
            && self.src.is_none_or(|net| net.contains(&key.src))
            && self.dst.is_none_or(|net| net.contains(&key.dst))
            && self.protocol.is_none_or(|p| p == key.protocol)
            && port(self.src_ports, |p| p.0)
            && port(self.dst_ports, |p| p.1)
            && self.dscp.is_none_or(|m| m.matches(key.dscp))
            && self.tcp_flags.is_none_or(|m| key.tcp_flags.is_some_and(|flags| m.matches(flags)))
            && self.fragment.is_none_or(|f| f == key.fragment)
    }
}

/// What a rule says about the packets it matches. An id that is none is as good as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Action {
    /// Logical class.
    pub class: Option<ClassId>,
    /// Contract.
    pub sla: Option<SlaId>,
    /// Conditioner.
    pub profile: Option<ProfileId>,
    /// Whether the code point chooses the class (when `class` is absent) although the port does not trust it.
    pub trust_dscp: bool,
    /// Whether detection may move the flow to the real-time class; `None`: only when `class` is absent.
    pub realtime: Option<bool>,
}

impl Action {
    /// Whether detection may move the flow.
    pub fn promotable(&self) -> bool {
        self.realtime.unwrap_or(self.class.is_none())
    }
}

/// What a packet's first rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The rule.
    pub id: FilterId,
    /// Its consequence.
    pub action: Action,
}

/// A rule. First match by (tier, priority, name), each ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its identity; never reused.
    pub id: FilterId,
    /// Compared first.
    pub tier: u8,
    /// Compared second.
    pub priority: u32,
    /// Compared last.
    pub name: Arc<str>,
    /// Condition.
    pub matches: Match,
    /// Consequence.
    pub action: Action,
}

impl Rule {
    /// What rules are ordered by.
    pub fn order(&self) -> (u8, u32, &str) {
        (self.tier, self.priority, &self.name)
    }

    /// What a packet gets that meets this rule first.
    pub fn hit(&self) -> Hit {
        Hit { id: self.id, action: self.action }
    }

    /// Tier and priority as one number.
    pub(crate) fn rank(&self) -> u64 {
        u64::from(self.tier) << 32 | u64::from(self.priority)
    }
}

/// Value and mask over packed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern<const A: usize> {
    pub value: Packed<A>,
    pub mask: Packed<A>,
}

/// What both address families compare of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patterns {
    /// Absent when the rule names IPv6 prefixes.
    pub v4: Option<Pattern<1>>,
    /// Absent when the rule names IPv4 prefixes.
    pub v6: Option<Pattern<4>>,
}

impl Patterns {
    /// Of a rule whose fields have been checked.
    pub fn of(m: &Match) -> Self {
        let mut place = (0, 0);
        if let Some(port) = m.in_port {
            set(&mut place, field::IN_PORT, u64::from(port.0), 0xffff);
        }
        if let Some(vlan) = m.vlan {
            set(&mut place, 0, u64::from(vlan), 0xffff);
        }
        let mut transport = (0, 0);
        if let Some(protocol) = m.protocol {
            set(&mut transport, field::PROTOCOL, u64::from(protocol), 0xff);
        }
        for (range, shift) in [(m.src_ports, field::SRC_PORT), (m.dst_ports, field::DST_PORT)] {
            if let Some(range) = range {
                // The part that every port of the range shares is hashed; the range itself is checked in the chain.
                let varying = range.first ^ range.last;
                let mask = if varying == 0 { 0xffff } else { !(u16::MAX >> varying.leading_zeros()) };
                set(&mut transport, shift, u64::from(range.first & mask), u64::from(mask));
                set(&mut transport, 0, field::HAS_PORTS, field::HAS_PORTS);
            }
        }
        if let Some(dscp) = m.dscp {
            set(&mut transport, field::DSCP, u64::from(dscp.value), u64::from(dscp.mask));
        }
        if let Some(flags) = m.tcp_flags {
            set(&mut transport, field::FLAGS, u64::from(flags.value), u64::from(flags.mask));
            set(&mut transport, 0, field::HAS_FLAGS, field::HAS_FLAGS);
        }
        if let Some(fragment) = m.fragment {
            set(&mut transport, 0, u64::from(fragment) * field::FRAGMENT, field::FRAGMENT);
        }
        let pattern4 = |(value, mask)| pattern([value], [mask], transport, place);
        let pattern6 = |(value, mask)| pattern(value, mask, transport, place);
        Self { v4: addresses_v4(m).map(pattern4), v6: addresses_v6(m).map(pattern6) }
    }
}

fn set(word: &mut (u64, u64), shift: u32, value: u64, mask: u64) {
    word.0 |= value << shift;
    word.1 |= mask << shift;
}

fn pattern<const A: usize>(
    value: [u64; A],
    mask: [u64; A],
    transport: (u64, u64),
    place: (u64, u64),
) -> Pattern<A> {
    Pattern {
        value: Packed { addresses: value, transport: transport.0, place: place.0 as u32 },
        mask: Packed { addresses: mask, transport: transport.1, place: place.1 as u32 },
    }
}

fn addresses_v4(m: &Match) -> Option<(u64, u64)> {
    let side = |net: Option<IpNet>| match net {
        None => Some((0, 0)),
        Some(IpNet::V4(net)) => {
            Some((u64::from(net.network().to_bits()), u64::from(net.netmask().to_bits())))
        }
        Some(IpNet::V6(_)) => None,
    };
    let (src, dst) = (side(m.src)?, side(m.dst)?);
    Some((src.0 << 32 | dst.0, src.1 << 32 | dst.1))
}

fn addresses_v6(m: &Match) -> Option<([u64; 4], [u64; 4])> {
    let side = |net: Option<IpNet>| match net {
        None => Some(([0; 2], [0; 2])),
        Some(IpNet::V6(net)) => Some((halves(IpAddr::V6(net.network())), halves(IpAddr::V6(net.netmask())))),
        Some(IpNet::V4(_)) => None,
    };
    let (src, dst) = (side(m.src)?, side(m.dst)?);
    Some(([src.0[0], src.0[1], dst.0[0], dst.0[1]], [src.1[0], src.1[1], dst.1[0], dst.1[1]]))
}
