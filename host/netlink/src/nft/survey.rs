//! Rules of the packet filter that a router which forwards by itself passes by: what others have in the way of forwarded
//! packets.

use super::guard::PREFIX;
use super::legacy;
use super::message::{Attributes, Listed, Message, Socket, Verb, family, find, number};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use netlink_packet_core::NLM_F_CREATE;
use std::collections::BTreeSet;
use std::fmt;

const FORWARD: u32 = 2;
const POST_ROUTING: u32 = 4;
const POLICY_DROP: u32 = 0;

/// A chain of rules that forwarded packets would go through.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bypassed {
    /// Family and table, such as `ip nat`.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// Translates addresses, rather than to let packets through or not.
    pub translates: bool,
}

impl fmt::Display for Bypassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.translates { "translates addresses" } else { "filters what is forwarded" };
        write!(f, "{} {} {does}", self.table, self.chain)
    }
}

/// Chains in a namespace that translate addresses or filter what is forwarded: those that have rules, or drop what no rule
/// takes. Tables of our own are none. Rules that the older `iptables` programs made (`iptables-legacy`) are among them.
///
/// # Errors
/// [`NetlinkError::Kernel`]; a kernel without nf_tables has no chains, which is no error.
pub fn bypassed(namespace: &Namespace) -> Result<Vec<Bypassed>, NetlinkError> {
    let mut found = of_nf_tables(namespace)?;
    match legacy::bypassed(namespace) {
        Ok(older) => found.extend(older),
        // What was found is enough to know.
        Err(_) if !found.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn of_nf_tables(namespace: &Namespace) -> Result<Vec<Bypassed>, NetlinkError> {
    let mut socket = match namespace.run(Socket::open)? {
        Err(NetlinkError::Kernel { errno: libc::EPROTONOSUPPORT, .. }) => return Ok(Vec::new()),
        socket => socket?,
    };
    let operation = "list the packet filter's chains";
    let listed = socket.list(operation, Verb::GetChain, base_chain);
    let chains = match listed {
        Err(NetlinkError::Kernel {
            errno: libc::EINVAL | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT, ..
        }) => Vec::new(),
        listed => listed?,
    };
    if chains.is_empty() {
        return Ok(Vec::new());
    }
    let with_rules: BTreeSet<(u8, String, String)> = socket
        .list("list the packet filter's rules", Verb::GetRule, |rule| {
            Some((rule.family, rule.text(1)?.to_owned(), rule.text(2)?.to_owned()))
        })?
        .into_iter()
        .collect();
    let has_effect = |(chain, drops): &(BaseChain, bool)| {
        *drops || with_rules.contains(&(chain.0, chain.1.clone(), chain.2.clone()))
    };
    let told = |((family, table, chain, translates), _): (BaseChain, bool)| Bypassed {
        table: format!("{} {table}", name(family)),
        chain,
        translates,
    };
    let mut found: Vec<Bypassed> = chains.into_iter().filter(has_effect).map(told).collect();
    found.sort();
    Ok(found)
}

/// Family, table, name, and whether it translates addresses.
type BaseChain = (u8, String, String, bool);

/// A chain that forwarded packets meet, and whether it drops what no rule takes.
fn base_chain(chain: &Listed<'_>) -> Option<(BaseChain, bool)> {
    let (table, name) = (chain.text(1)?, chain.text(3)?);
    let hook = chain.attribute(4).and_then(|hook| find(hook, 1)).and_then(number)?;
    let is_ip = matches!(chain.family, family::INET | family::IPV4 | family::IPV6);
    let translates = chain.text(7) == Some("nat");
    // Chains at other places see packets of this host too and may be meant for those alone.
    let counts = (translates && matches!(hook, 0 | POST_ROUTING)) || (!translates && hook == FORWARD);
    if !is_ip || !counts || table.starts_with(PREFIX) {
        return None;
    }
    let drops = chain.attribute(5).and_then(number) == Some(POLICY_DROP);
    Some(((chain.family, table.to_owned(), name.to_owned(), translates), drops))
}

/// See [`crate::laboratory::drop_forwarded`].
pub(crate) fn drop_forwarded(namespace: &Namespace) -> Result<(), NetlinkError> {
    let (table, chain) = ("firewall", "forward");
    let message = |verb, attributes| Message { verb, family: family::INET, flags: NLM_F_CREATE, attributes };
    let hook = Attributes::new().number(1, FORWARD).number(2, 0);
    let chain = Attributes::new()
        .text(1, table)
        .text(3, chain)
        .nested(4, hook)
        .number(5, POLICY_DROP)
        .text(7, "filter");
    let messages =
        [message(Verb::NewTable, Attributes::new().text(1, table)), message(Verb::NewChain, chain)];
    namespace.run(Socket::open)??.transact("make the table", table, &messages)
}

fn name(of: u8) -> &'static str {
    match of {
        family::IPV4 => "ip",
        family::IPV6 => "ip6",
        _ => "inet",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::expression::{Verdict, rule, verdict};
    use super::*;
    use crate::user_namespace::is_privileged_for_net;
    use netlink_packet_core::NLM_F_APPEND;

    const NAT: &str = "nat";
    const FILTER: &str = "filter";

    fn message(verb: Verb, family: u8, attributes: Attributes) -> Message {
        Message { verb, family, flags: NLM_F_CREATE | NLM_F_APPEND, attributes }
    }

    fn chain(family: u8, (table, name): (&str, &str), (hook, kind): (u32, &str), policy: u32) -> Message {
        let at = Attributes::new().number(1, hook).number(2, 100);
        let attributes =
            Attributes::new().text(1, table).text(3, name).nested(4, at).number(5, policy).text(7, kind);
        message(Verb::NewChain, family, attributes)
    }

    /// A namespace of its own, where there are the rights for it.
    pub(in crate::nft) fn namespace_for(test: &str) -> Option<Namespace> {
        if is_privileged_for_net() {
            return Some(Namespace::create().unwrap());
        }
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "netns"));
        assert!(!required, "{test} needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
        eprintln!("SKIPPED {test}: needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
        None
    }

    #[test]
    fn hundreds_of_messages_are_one_transaction() {
        let Some(namespace) = namespace_for("hundreds_of_messages_are_one_transaction") else { return };
        let mut socket = namespace.run(Socket::open).unwrap().unwrap();
        let table =
            |n: u32| message(Verb::NewTable, family::INET, Attributes::new().text(1, &format!("t{n}")));
        let all: Vec<Message> = (0..3000).map(table).collect();
        socket.transact("make", "tables", &all).unwrap();
        let count = |socket: &mut Socket| {
            socket.list("list", Verb::GetTable, |table| table.text(1).map(|_| ())).unwrap().len()
        };
        assert_eq!(count(&mut socket), 3000);
        // The first that is refused ends it, and nothing of it holds.
        let mut again: Vec<Message> = (3000..4000).map(table).collect();
        again[500].flags = NLM_F_CREATE | netlink_packet_core::NLM_F_EXCL;
        again[500].attributes = Attributes::new().text(1, "t7");
        assert!(socket.transact("make", "tables", &again).unwrap_err().is_taken());
        assert_eq!(count(&mut socket), 3000);
        socket.transact("make", "tables", &[table(3000)]).unwrap();
        assert_eq!(count(&mut socket), 3001);
    }

    #[test]
    fn chains_that_do_something_to_forwarded_packets_are_found() {
        let Some(namespace) = namespace_for("chains_that_do_something_to_forwarded_packets_are_found") else {
            return;
        };
        assert_eq!(bypassed(&namespace).unwrap(), []);
        let mut socket = namespace.run(Socket::open).unwrap().unwrap();
        let table = |family, name: &str| message(Verb::NewTable, family, Attributes::new().text(1, name));
        let (own, accept) = (0, 1);
        let empty = [
            table(family::IPV4, NAT),
            table(family::INET, FILTER),
            chain(family::IPV4, (NAT, "post"), (POST_ROUTING, NAT), accept),
            chain(family::IPV4, (NAT, "out"), (3, NAT), accept),
            chain(family::INET, (FILTER, "input"), (1, FILTER), own),
            chain(family::INET, (FILTER, "forward"), (FORWARD, FILTER), accept),
        ];
        socket.transact("make", "rules", &empty).unwrap();
        assert_eq!(bypassed(&namespace).unwrap(), [], "none of them does anything to what is forwarded");
        let rule = |family, table: &str, chain: &str| {
            let accept = rule([verdict(Verdict::Accept)]);
            let attributes = Attributes::new().text(1, table).text(2, chain).nested(4, accept);
            message(Verb::NewRule, family, attributes)
        };
        let rules = [
            rule(family::IPV4, NAT, "post"),
            rule(family::IPV4, NAT, "out"),
            rule(family::INET, FILTER, "input"),
            chain(family::INET, (FILTER, "strict"), (FORWARD, FILTER), POLICY_DROP),
        ];
        socket.transact("make", "rules", &rules).unwrap();
        let found: Vec<String> = bypassed(&namespace).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["inet filter strict filters what is forwarded", "ip nat post translates addresses"]
        );
    }
}
