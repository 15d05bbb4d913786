//! Keeps the kernel from forwarding what a router of ours forwards, without any switch of the kernel's own.
//!
//! A router on packet sockets sees a copy of each frame; the kernel's IP sees the other. With this guard the kernel takes
//! what is for itself (its own addresses, broadcast, multicast) and what its routes send to an interface that is no port of
//! the router; everything else that arrives on a port ends here, before routing, so that no error message is made of it.
//! `forwarding` stays as it is: neighbour advertisements go on to say that this is a router (RFC 4861 §4.4), and router
//! advertisements and redirects are heeded no more than before.
//!
//! | packet arrives on | and goes to | ends |
//! |---|---|---|
//! | a port | an address of this host, broadcast, multicast | no |
//! | a port | a port, or nowhere | before routing |
//! | a port | an interface that is no port | no: the kernel forwards it |
//! | a port | a port after its address was translated | where it would be forwarded |
//! | a port | another way than its rules can tell ([`Selector`], [`Duty::skipped`]) | where it would be forwarded by a port |
//! | a port | an interface that is no port, of a route by ports as well ([`Shared`]) | where it would be forwarded |
//!
//! What ends only where it would be forwarded has been through the kernel's routing: what that has to answer (hops used up, too
//! long), the sender hears twice.
//! | anything else | | no |

use super::expression::{
    OWN, Side, Verdict, arrived_on, is_to, is_within, leads_to, leaves_by, rule, verdict,
};
use super::message::{Attributes, Message, Socket, Verb, family};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};

/// The table that all guards are called by, with the router's name behind it.
pub(crate) const PREFIX: &str = "perhop-";
/// Of tables that end with the socket that made them (`NFT_TABLE_F_OWNER`).
pub(super) const TABLE_OWNER: u32 = 2;
const PREROUTING: u32 = 0;
const FORWARD: u32 = 2;
/// Before connection tracking (−200), which must not know what the kernel does not see, and before raw (−300).
const PRIORITY: i32 = -310;
pub(super) const ACCEPT: u32 = 1;
/// Longest name of a table (`NFT_NAME_MAXLEN`) without the zero.
const NAME_MAX: usize = 255;

/// Some network (RFC 2544 appendix C): in rules that are there to be tried.
const BENCHMARK: IpNet = IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(198, 18, 0, 0), 15));

const ARRIVAL: &str = "arrival";
const TRANSIT: &str = "transit";
const FORWARDED: &str = "forwarded";
const FROM_PORT: &str = "from-port";

/// The table of the router of this name.
pub(super) fn table_of(router: &str) -> String {
    let mut table = format!("{PREFIX}{router}");
    table.truncate((0..=NAME_MAX).rev().find(|at| table.is_char_boundary(*at)).unwrap_or(0));
    table
}

/// The empty table that says whose an interface is.
fn claim(port: u32) -> String {
    format!("{PREFIX}interface-{port}")
}

/// What a guard keeps from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duty {
    /// Interfaces that are ports, by number. Each is one guard's alone.
    pub ports: Vec<u32>,
    /// Those of the ports whose routes the kernel passes over for now, as they have no carrier: where it goes instead is not
    /// found by its rules, which look at routes whatever the state of their links.
    pub skipped: Vec<u32>,
    /// Packets whose way is not found by its rules, which ask for it as if packets came from this host.
    pub unclear: Vec<Selector>,
    /// Destinations with a way by ports and past them.
    pub shared: Vec<Shared>,
}

/// Packets that arrive on a port, or on any, from and to some network, or any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The port's number.
    pub arrives_on: Option<u32>,
    /// Of their source.
    pub from: Option<IpNet>,
    /// Of their destination.
    pub to: Option<IpNet>,
}

/// A destination, the more specific before the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Where packets go.
    pub to: IpNet,
    /// Interfaces that are no ports by which they must not leave, as the router sends them by its ports. None: the way past the
    /// ports is the only one.
    pub not_by: Vec<u32>,
}

/// The rules, as long as this value or the process lives.
#[derive(Debug)]
pub struct ForwardGuard {
    socket: Socket,
    table: String,
    duty: Duty,
}

impl ForwardGuard {
    /// A guard without ports for the router of this name.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`]: EEXIST when a guard of this name is there, EPERM without CAP_NET_ADMIN; EOPNOTSUPP,
    /// EPROTONOSUPPORT or EINVAL where the kernel lacks nf_tables, its `fib` expression or tables that have owners (5.12).
    pub fn open_in(namespace: &Namespace, router: &str) -> Result<Self, NetlinkError> {
        let table = table_of(router);
        let mut guard = Self { socket: namespace.run(Socket::open)??, table, duty: Duty::default() };
        let mut messages = vec![
            guard.table(&guard.table),
            guard.chain(ARRIVAL, Some(PREROUTING)),
            guard.chain(FORWARDED, Some(FORWARD)),
            guard.chain(TRANSIT, None),
            guard.chain(FROM_PORT, None),
        ];
        // That the kernel has every expression is found out now, not with the first port.
        let every = Selector { to: Some(BENCHMARK), ..Selector::default() };
        messages.extend(guard.rules(&Duty { unclear: vec![every], ..Duty::default() }));
        let own = guard.table.clone();
        guard.transact("make the table", &messages, &[&own])?;
        Ok(guard)
    }

    /// Has this duty from now on: in one step, no packet sees half of it.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`]; EEXIST when another guard in the namespace has one of them. What was in force stays.
    pub fn protect(&mut self, mut duty: Duty) -> Result<(), NetlinkError> {
        duty.ports.sort_unstable();
        duty.ports.dedup();
        if duty == self.duty {
            return Ok(());
        }
        let claims = |ports: &[u32], of: &[u32]| -> Vec<String> {
            ports.iter().filter(|port| !of.contains(port)).map(|port| claim(*port)).collect()
        };
        let (ports, before) = (&duty.ports, &self.duty.ports);
        let (taken, given) = (claims(ports, before), claims(before, ports));
        let table = Attributes::new().text(1, &self.table);
        let mut messages: Vec<Message> = taken.iter().map(|name| self.table(name)).collect();
        messages.extend(
            given.iter().map(|name| self.message(Verb::DeleteTable, 0, Attributes::new().text(1, name))),
        );
        messages.push(self.message(Verb::DeleteRule, 0, table));
        messages.extend(self.rules(&duty));
        let names: Vec<&str> = taken.iter().map(String::as_str).collect();
        self.transact("guard interfaces by the table", &messages, &names)?;
        self.duty = duty;
        Ok(())
    }

    /// Does it all, or says that one of the tables `made` is somebody else's: that is hidden behind a lack of rights.
    fn transact(
        &mut self,
        operation: &'static str,
        messages: &[Message],
        made: &[&str],
    ) -> Result<(), NetlinkError> {
        let error = match self.socket.transact(operation, &self.table, messages) {
            Err(error) if error.is_permission() => error,
            done => return done,
        };
        let names = self.socket.list("list the packet filter's tables", Verb::GetTable, |table| {
            Some((table.family, table.text(1)?.to_owned()))
        })?;
        let held = names.into_iter().find(|(of, name)| *of == family::INET && made.contains(&name.as_str()));
        let taken = |(_, object)| NetlinkError::Kernel {
            operation,
            object,
            errno: libc::EEXIST,
            detail: String::new(),
        };
        Err(held.map_or(error, taken))
    }

    /// A table of this guard's own.
    fn table(&self, name: &str) -> Message {
        let attributes = Attributes::new().text(1, name).number(2, TABLE_OWNER);
        self.message(Verb::NewTable, NLM_F_CREATE | NLM_F_EXCL, attributes)
    }

    /// All rules, for an empty table with its chains.
    fn rules(&self, Duty { ports, skipped, unclear, shared }: &Duty) -> Vec<Message> {
        let mut rules = Vec::new();
        for port in ports {
            let jump = |chain| rule(arrived_on(*port).into_iter().chain([verdict(Verdict::GoTo(chain))]));
            rules.push((ARRIVAL, jump(TRANSIT)));
            rules.push((FORWARDED, jump(FROM_PORT)));
        }
        let end = |matched: Vec<Attributes>, then| rule(matched.into_iter().chain([verdict(then)]));
        rules.extend(OWN.map(|kind| (TRANSIT, end(is_to(kind).into(), Verdict::Accept))));
        for Selector { arrives_on, from, to } in unclear {
            let mut matched: Vec<Attributes> = arrives_on.map(arrived_on).into_iter().flatten().collect();
            matched.extend(from.map(|net| is_within(Side::Source, net)).into_iter().flatten());
            matched.extend(to.map(|net| is_within(Side::Destination, net)).into_iter().flatten());
            rules.push((TRANSIT, end(matched, Verdict::Accept)));
        }
        for port in std::iter::once(&0).chain(ports).filter(|port| !skipped.contains(port)) {
            rules.push((TRANSIT, end(leads_to(*port).into(), Verdict::Drop)));
        }
        rules.extend(ports.iter().map(|port| (FROM_PORT, end(leaves_by(*port).into(), Verdict::Drop))));
        for Shared { to, not_by } in shared {
            let matched = is_within(Side::Destination, *to);
            for other in not_by {
                let leaves = leaves_by(*other).into_iter().chain(matched.clone()).collect();
                rules.push((FROM_PORT, end(leaves, Verdict::Drop)));
            }
            rules.push((FROM_PORT, end(matched, Verdict::Accept)));
        }
        let message = |(chain, rule)| {
            let attributes = Attributes::new().text(1, &self.table).text(2, chain).nested(4, rule);
            self.message(Verb::NewRule, NLM_F_CREATE | NLM_F_APPEND, attributes)
        };
        rules.into_iter().map(message).collect()
    }

    fn message(&self, verb: Verb, flags: u16, attributes: Attributes) -> Message {
        Message { verb, family: family::INET, flags, attributes }
    }

    /// A chain, at a hook of the kernel or for rules to go to.
    fn chain(&self, name: &str, hook: Option<u32>) -> Message {
        let mut attributes = Attributes::new().text(1, &self.table).text(3, name);
        if let Some(hook) = hook {
            let hook = Attributes::new().number(1, hook).number(2, PRIORITY as u32);
            attributes = attributes.nested(4, hook).number(5, ACCEPT).text(7, "filter");
        }
        self.message(Verb::NewChain, NLM_F_CREATE, attributes)
    }
}
