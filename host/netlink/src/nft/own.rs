//! Leads what this host itself sends by an interface to another one, before it leaves.
//!
//! | frame that the kernel sends by a port | goes |
//! |---|---|
//! | IPv4, IPv6 | to the other interface |
//! | neighbour discovery and router discovery of IPv6 (RFC 4861) | on its way, as does ARP: it says where frames go at all |
//! | with the mark that the router's own sockets have | on its way |
//! | all else | on its way |

use super::expression::{
    Verdict, forward_to, marked, meta_protocol, payload_is, payload_within, rule, verdict,
};
use super::guard::{ACCEPT, TABLE_OWNER, table_of};
use super::message::{Attributes, Message, Socket, Verb, family};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};

/// `NF_NETDEV_EGRESS`.
const EGRESS: u32 = 1;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// Router and neighbour discovery: solicitations, advertisements, redirects.
const DISCOVERY: [u8; 2] = [133, 137];

/// A way that what leaves an interface is led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The interface's name.
    pub interface: String,
    /// Its number: another one of the same name has no rules.
    pub index: u32,
    /// The number of the interface that it leaves by instead.
    pub to: u32,
}

/// The rules, as long as this value or the process lives.
#[derive(Debug)]
pub struct OwnTraffic {
    socket: Socket,
    table: String,
    detours: Vec<Detour>,
}

impl OwnTraffic {
    /// No detour yet, for the router of this name.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when no socket can be made.
    pub fn open_in(namespace: &Namespace, router: &str) -> Result<Self, NetlinkError> {
        let socket = namespace.run(Socket::open)??;
        Ok(Self { socket, table: table_of(router), detours: Vec::new() })
    }

    /// These detours and no others, in one step. Frames with the `mark` are those that have been through the router.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`]: ENOENT when an interface is gone; EOPNOTSUPP, EPROTONOSUPPORT, EAFNOSUPPORT or EINVAL where the
    /// kernel has no rules for what leaves (5.16) or none that lead elsewhere. What was in force stays.
    pub fn lead(&mut self, detours: &[Detour], mark: u32) -> Result<(), NetlinkError> {
        if detours == self.detours {
            return Ok(());
        }
        // A chain goes with its interface, whatever is known of that here: the table is always made anew.
        let mut messages = vec![self.table(), self.message(Verb::DeleteTable, 0, self.named()), self.table()];
        for (i, Detour { interface, to, .. }) in detours.iter().enumerate() {
            let chain = format!("leaves-{i}");
            let hook = Attributes::new().number(1, EGRESS).number(2, 0).text(3, interface);
            let made = self.named().text(3, &chain).nested(4, hook).number(5, ACCEPT).text(7, "filter");
            messages.push(self.message(Verb::NewChain, NLM_F_CREATE, made));
            let discovery = meta_protocol(IPV6)
                .into_iter()
                .chain(payload_is(true, 6, ICMPV6))
                .chain(payload_within(false, 0, DISCOVERY))
                .chain([verdict(Verdict::Accept)]);
            let sent = rule(marked(mark).into_iter().chain([verdict(Verdict::Accept)]));
            let of = |protocol| rule(meta_protocol(protocol).into_iter().chain(forward_to(*to)));
            for rule in [sent, rule(discovery), of(IPV4), of(IPV6)] {
                let made = self.named().text(2, &chain).nested(4, rule);
                messages.push(self.message(Verb::NewRule, NLM_F_CREATE | NLM_F_APPEND, made));
            }
        }
        if detours.is_empty() {
            messages.truncate(2);
        }
        self.socket.transact(
            "lead this host's own packets through the router by the table",
            &self.table,
            &messages,
        )?;
        self.detours = detours.to_vec();
        Ok(())
    }

    fn named(&self) -> Attributes {
        Attributes::new().text(1, &self.table)
    }

    fn table(&self) -> Message {
        self.message(Verb::NewTable, NLM_F_CREATE, self.named().number(2, TABLE_OWNER))
    }

    fn message(&self, verb: Verb, flags: u16, attributes: Attributes) -> Message {
        Message { verb, family: family::NETDEV, flags, attributes }
    }
}
