//! Policy rules: which routing table decides about which packets (ip-rule(8)).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use netlink_packet_core::Nla;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::route::FibRoute;

/// What follows when a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyAction {
    /// This table decides, unless it has no route.
    Table(u32),
    /// The table of the layer-3 controller (VRF) that the packet came in by.
    TableOfController,
    /// On to the rule of this priority.
    GoTo(u32),
    /// On to the next rule.
    Nothing,
    /// Dropped without a word.
    Blackhole,
    /// Refused with destination unreachable.
    Unreachable,
    /// Refused with administratively prohibited.
    Prohibit,
    /// A kind that is not known here.
    Other(u8),
}

/// One policy rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    /// Whether it is about IPv6.
    pub v6: bool,
    /// The lower come first.
    pub priority: u32,
    /// Whether it matches what it otherwise would not.
    pub inverted: bool,
    /// Source addresses.
    pub from: Option<IpNet>,
    /// Destination addresses.
    pub to: Option<IpNet>,
    /// Name of the interface the packet came in by.
    pub arrives: Option<String>,
    /// Name of the interface that a socket is bound to.
    pub leaves: Option<String>,
    /// Mark and its mask.
    pub mark: Option<(u32, u32)>,
    /// Type of service, without the two lowest bits; 0: any.
    pub tos: u8,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Transport protocol.
    pub protocol: Option<u8>,
    /// Source ports.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub dest_ports: Option<RangeInclusive<u16>>,
    /// Users whose sockets it is about.
    pub users: Option<RangeInclusive<u32>>,
    /// Routes of prefixes no longer than this count as none.
    pub suppress: Option<u8>,
    /// Attributes of the kernel that are not known here, by number: what the rule asks is not known either.
    pub unknown: Vec<u16>,
    /// What follows.
    pub action: PolicyAction,
}

/// `FRA_*` of linux/fib_rules.h that the library does not name.
const TUNNEL: u16 = 12;
const SUPPRESS_GROUP: u16 = 13;
const DSCP: u16 = 25;
const SOURCE_PORT_MASK: u16 = 28;
const DEST_PORT_MASK: u16 = 29;
const DSCP_MASK: u16 = 30;
/// "No suppression", as the kernel writes it.
const NONE: u32 = u32::MAX;

impl PolicyRule {
    /// Reads a rule message; `None` for families other than IPv4 and IPv6.
    pub(crate) fn from_message(message: &RuleMessage) -> Option<Self> {
        let header = &message.header;
        let v6 = match header.family {
            AddressFamily::Inet => false,
            AddressFamily::Inet6 => true,
            _ => return None,
        };
        let mut rule = Self {
            inverted: header.flags.contains(RuleFlags::Invert),
            tos: header.tos,
            ..Self::for_all(v6, 0, PolicyAction::Nothing)
        };
        let (mut table, mut go_to, mut of_controller) = (u32::from(header.table), 0, false);
        let (mut mark, mut mask) = (0, 0);
        let (mut from, mut to) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Source(ip) => from = Some(*ip),
                RuleAttribute::Destination(ip) => to = Some(*ip),
                RuleAttribute::Iifname(name) => rule.arrives = Some(name.clone()),
                RuleAttribute::Oifname(name) => rule.leaves = Some(name.clone()),
                RuleAttribute::Goto(priority) => go_to = *priority,
                RuleAttribute::Priority(priority) => rule.priority = *priority,
                RuleAttribute::FwMark(value) => mark = *value,
                RuleAttribute::FwMask(value) => mask = *value,
                RuleAttribute::Table(value) => table = *value,
                RuleAttribute::L3MDev(on) => of_controller = *on,
                RuleAttribute::UidRange(range) => rule.users = Some(range.start..=range.end),
                RuleAttribute::IpProtocol(protocol) => rule.protocol = Some(u8::from(*protocol)),
                RuleAttribute::SourcePortRange(range) => rule.source_ports = Some(range.start..=range.end),
                RuleAttribute::DestinationPortRange(range) => rule.dest_ports = Some(range.start..=range.end),
                RuleAttribute::SuppressPrefixLen(length) => rule.suppress = u8::try_from(*length).ok(),
                RuleAttribute::TunId(0) | RuleAttribute::SuppressIfGroup(NONE) => {}
                RuleAttribute::TunId(_) => rule.unknown.push(TUNNEL),
                RuleAttribute::SuppressIfGroup(_) => rule.unknown.push(SUPPRESS_GROUP),
                // Whose they are, and accounting.
                RuleAttribute::Protocol(_) | RuleAttribute::Realm(_) => {}
                RuleAttribute::Other(nla) => {
                    let mut value = vec![0; nla.value_len()];
                    nla.emit_value(&mut value);
                    match (nla.kind(), value[..].as_ref()) {
                        (DSCP, [dscp]) => rule.dscp = Some(*dscp),
                        // Masks that leave all of it.
                        (SOURCE_PORT_MASK | DEST_PORT_MASK, [0xff, 0xff]) | (DSCP_MASK, [0x3f]) => {}
                        (kind, _) => rule.unknown.push(kind),
                    }
                }
                _ => rule.unknown.push(0),
            }
        }
        let any = if v6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
        let net = |ip: Option<IpAddr>, length: u8| {
            if length == 0 { Some(None) } else { IpNet::new(ip.unwrap_or(any), length).ok().map(Some) }
        };
        rule.from = net(from, header.src_len)?;
        rule.to = net(to, header.dst_len)?;
        rule.mark = (mask != 0).then_some((mark, mask));
        rule.action = match header.action {
            _ if of_controller => PolicyAction::TableOfController,
            RuleAction::ToTable => PolicyAction::Table(table),
            RuleAction::Goto => PolicyAction::GoTo(go_to),
            RuleAction::Nop | RuleAction::Unspec => PolicyAction::Nothing,
            RuleAction::Blackhole => PolicyAction::Blackhole,
            RuleAction::Unreachable => PolicyAction::Unreachable,
            RuleAction::Prohibit => PolicyAction::Prohibit,
            other => PolicyAction::Other(other.into()),
        };
        Some(rule)
    }

    /// Whether it asks for nothing and leads to this table, as the rules that the kernel starts with do.
    pub fn is_for_all(&self, table: u32) -> bool {
        *self == Self::for_all(self.v6, self.priority, PolicyAction::Table(table))
    }

    /// One that asks for nothing.
    fn for_all(v6: bool, priority: u32, action: PolicyAction) -> Self {
        Self {
            v6,
            priority,
            inverted: false,
            from: None,
            to: None,
            arrives: None,
            leaves: None,
            mark: None,
            tos: 0,
            dscp: None,
            protocol: None,
            source_ports: None,
            dest_ports: None,
            users: None,
            suppress: None,
            unknown: Vec::new(),
            action,
        }
    }
}

/// As `ip rule` writes it.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.priority)?;
        if self.inverted {
            write!(f, "not ")?;
        }
        match self.from {
            Some(from) => write!(f, "from {from}")?,
            None => write!(f, "from all")?,
        }
        let range = |r: &RangeInclusive<u16>| {
            if r.start() == r.end() { r.start().to_string() } else { format!("{}-{}", r.start(), r.end()) }
        };
        let words = [
            self.to.map(|to| format!("to {to}")),
            (self.tos != 0).then(|| format!("tos {:#04x}", self.tos)),
            self.dscp.map(|dscp| format!("dscp {dscp}")),
            self.mark.map(|(mark, mask)| {
                if mask == u32::MAX {
                    format!("fwmark {mark:#x}")
                } else {
                    format!("fwmark {mark:#x}/{mask:#x}")
                }
            }),
            self.arrives.as_ref().map(|name| format!("iif {name}")),
            self.leaves.as_ref().map(|name| format!("oif {name}")),
            self.users.as_ref().map(|users| format!("uidrange {}-{}", users.start(), users.end())),
            self.protocol.map(|number| format!("ipproto {number}")),
            self.source_ports.as_ref().map(|r| format!("sport {}", range(r))),
            self.dest_ports.as_ref().map(|r| format!("dport {}", range(r))),
        ];
        for word in words.into_iter().flatten() {
            write!(f, " {word}")?;
        }
        for number in &self.unknown {
            write!(f, " attribute-{number}")?;
        }
        match self.action {
            PolicyAction::Table(FibRoute::LOCAL_TABLE) => write!(f, " lookup local"),
            PolicyAction::Table(FibRoute::MAIN_TABLE) => write!(f, " lookup main"),
            PolicyAction::Table(FibRoute::DEFAULT_TABLE) => write!(f, " lookup default"),
            PolicyAction::Table(table) => write!(f, " lookup {table}"),
            PolicyAction::TableOfController => write!(f, " lookup [l3mdev-table]"),
            PolicyAction::GoTo(priority) => write!(f, " goto {priority}"),
            PolicyAction::Nothing => write!(f, " nop"),
            PolicyAction::Blackhole => write!(f, " blackhole"),
            PolicyAction::Unreachable => write!(f, " unreachable"),
            PolicyAction::Prohibit => write!(f, " prohibit"),
            PolicyAction::Other(number) => write!(f, " action {number}"),
        }?;
        self.suppress.map_or(Ok(()), |length| write!(f, " suppress_prefixlength {length}"))
    }
}

impl Netlink {
    /// All policy rules, IPv4 and IPv6, in the kernel's order.
    ///
    /// # Errors
    /// [`NetlinkError::Unstable`] when they change all the time.
    pub fn rules(&self) -> Result<Vec<PolicyRule>, NetlinkError> {
        let mut rules = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            let message = RouteNetlinkMessage::GetRule(message);
            let listed = self.dump("list policy rules", "", &message, |answer| match answer {
                RouteNetlinkMessage::NewRule(m) => PolicyRule::from_message(&m),
                _ => None,
            });
            match listed {
                Ok(listed) => rules.extend(listed),
                // A kernel without policy rules for this family has none.
                Err(NetlinkError::Kernel { errno: libc::EAFNOSUPPORT | libc::EOPNOTSUPP, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }
}
