//! Chains of nf_tables that forwarded packets meet.

use super::rules::{Rule, acts, is_harmless};
use super::{Bypassed, Does, Interfaces};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::nft::guard::PREFIX;
use crate::nft::message::{Attributes, Listed, Message, Socket, Verb, each, family, find, number};
use netlink_packet_core::NLM_F_CREATE;
use std::collections::BTreeMap;

const PRE_ROUTING: u32 = 0;
const FORWARD: u32 = 2;
const POST_ROUTING: u32 = 4;
/// Of the families with an interface's own hooks.
const NETDEV_INGRESS: u32 = 0;
const NETDEV_EGRESS: u32 = 1;
const INET_INGRESS: u32 = 5;
const POLICY_DROP: u32 = 0;

/// Family, table, chain.
type Name = (u8, String, String);

/// Chains of others in a namespace that translate, filter or change what is forwarded between the interfaces.
///
/// # Errors
/// [`NetlinkError::Kernel`]; a kernel without nf_tables has no chains, which is no error.
pub(super) fn bypassed(namespace: &Namespace, ports: &Interfaces) -> Result<Vec<Bypassed>, NetlinkError> {
    let mut socket = match namespace.run(Socket::open)? {
        Err(NetlinkError::Kernel { errno: libc::EPROTONOSUPPORT, .. }) => return Ok(Vec::new()),
        socket => socket?,
    };
    let operation = "list the packet filter's chains";
    let listed = socket.list(operation, Verb::GetChain, |chain| base_chain(chain, ports));
    let chains = match listed {
        Err(NetlinkError::Kernel {
            errno: libc::EINVAL | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT, ..
        }) => Vec::new(),
        listed => listed?,
    };
    if chains.is_empty() {
        return Ok(Vec::new());
    }
    let mut rules: BTreeMap<Name, Vec<Rule<Name>>> = BTreeMap::new();
    for (name, rule) in
        socket.list("list the packet filter's rules", Verb::GetRule, |rule| of_rule(rule, ports))?
    {
        rules.entry(name).or_default().push(rule);
    }
    let told = |chain: BaseChain| Bypassed {
        place: format!("{} {} {}", family_name(chain.name.0), chain.name.1, chain.name.2),
        does: chain.does,
    };
    Ok(chains.into_iter().filter(|chain| chain.drops || acts(&chain.name, &rules)).map(told).collect())
}

struct BaseChain {
    name: Name,
    does: Does,
    /// What no rule takes.
    drops: bool,
}

/// A chain that forwarded packets meet.
fn base_chain(chain: &Listed<'_>, ports: &Interfaces) -> Option<BaseChain> {
    let (table, name) = (chain.text(1)?, chain.text(3)?);
    let at = chain.attribute(4)?;
    let hook = find(at, 1).and_then(number)?;
    let translates = chain.text(7) == Some("nat");
    let counts = match chain.family {
        family::INET | family::IPV4 | family::IPV6 if hook <= POST_ROUTING => {
            // Addresses are translated at both ends; at the hook of forwarding nothing is of that type.
            matches!(hook, PRE_ROUTING | FORWARD | POST_ROUTING)
        }
        family::INET => hook == INET_INGRESS && is_of(at, ports),
        family::NETDEV => matches!(hook, NETDEV_INGRESS | NETDEV_EGRESS) && is_of(at, ports),
        _ => false,
    };
    if !counts || table.starts_with(PREFIX) {
        return None;
    }
    let drops = chain.attribute(5).and_then(number) == Some(POLICY_DROP);
    let does = if translates { Does::Translates } else { Does::Filters };
    Some(BaseChain { name: (chain.family, table.to_owned(), name.to_owned()), does, drops })
}

/// Whether a chain of some interfaces is of one of ours.
fn is_of(hook: &[u8], ports: &Interfaces) -> bool {
    let several = find(hook, 4).unwrap_or_default();
    find(hook, 3).into_iter().chain(each(several, 1)).any(|name| ports.have_name(name))
}

/// What a rule does to a packet between the interfaces, if it does something.
fn of_rule(rule: &Listed<'_>, ports: &Interfaces) -> Option<(Name, Rule<Name>)> {
    let (table, chain) = (rule.text(1)?, rule.text(2)?);
    let mut what = None;
    let mut asked = None;
    for expression in each(rule.attribute(4)?, 1) {
        let name = find(expression, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name))?;
        let data = find(expression, 2).unwrap_or_default();
        // An interface that is compared with right after it was asked for.
        let key = asked.take();
        match name {
            b"meta" if find(data, 3).is_none() => asked = find(data, 2).and_then(number),
            b"cmp" if is_of_others(key, data, ports) => return None,
            b"immediate" => match verdict(data) {
                Verdict::Acts => what = Some(Rule::Acts),
                Verdict::GoesTo(other) => {
                    what = what.or(Some(Rule::GoesTo((rule.family, table.to_owned(), other.to_owned()))));
                }
                Verdict::None => {}
            },
            _ if acts_by_itself(name, data) => what = Some(Rule::Acts),
            _ => {}
        }
    }
    Some(((rule.family, table.to_owned(), chain.to_owned()), what?))
}

/// `NFT_META_IIF`, `NFT_META_OIF` and the names of these.
const META_INDICES: [u32; 2] = [4, 5];
const META_NAMES: [u32; 2] = [6, 7];

/// Whether a comparison is with an interface that is none of ours.
fn is_of_others(key: Option<u32>, data: &[u8], ports: &Interfaces) -> bool {
    const EQUAL: u32 = 0;
    let Some(value) = find(data, 3).and_then(|data| find(data, 1)) else { return false };
    if find(data, 2).and_then(number) != Some(EQUAL) {
        return false;
    }
    match key {
        Some(key) if META_NAMES.contains(&key) => !ports.have_name(value),
        Some(key) if META_INDICES.contains(&key) => {
            value.try_into().is_ok_and(|index| !ports.have_index(u32::from_ne_bytes(index)))
        }
        _ => false,
    }
}

enum Verdict<'a> {
    Acts,
    GoesTo(&'a str),
    /// Goes on, or is accepted.
    None,
}

/// What an `immediate` expression says.
fn verdict(data: &[u8]) -> Verdict<'_> {
    let Some(verdict) = find(data, 2).and_then(|data| find(data, 2)) else { return Verdict::None };
    let chain = find(verdict, 2).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
    let chain = chain.and_then(|name| std::str::from_utf8(name).ok());
    match (find(verdict, 1).and_then(number).map(|code| code as i32), chain) {
        (_, Some(chain)) => Verdict::GoesTo(chain),
        // To go on, to return, to accept.
        (Some(-5..=-1 | 1), None) => Verdict::None,
        _ => Verdict::Acts,
    }
}

/// Whether an expression drops or changes packets, or may, whatever stands around it.
fn acts_by_itself(name: &[u8], data: &[u8]) -> bool {
    match name {
        // These write only where they have a source.
        b"payload" => find(data, 5).is_some(),
        b"exthdr" => find(data, 7).is_some(),
        b"lookup" => find(data, 3).and_then(number) == Some(0),
        b"target" => {
            let target = find(data, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
            !target.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(is_harmless)
        }
        b"meta" | b"ct" | b"cmp" | b"bitwise" | b"byteorder" | b"range" | b"counter" | b"limit"
        | b"quota" | b"connlimit" | b"log" | b"fib" | b"rt" | b"hash" | b"numgen" | b"socket" | b"osf"
        | b"xfrm" | b"tunnel" | b"inner" | b"dynset" | b"objref" | b"notrack" | b"match" | b"last" => false,
        _ => true,
    }
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

fn family_name(of: u8) -> &'static str {
    match of {
        family::IPV4 => "ip",
        family::IPV6 => "ip6",
        family::NETDEV => "netdev",
        _ => "inet",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::bypassed;
    use crate::connection::Netlink;
    use crate::namespace::Namespace;
    use crate::user_namespace::is_privileged_for_net;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// A namespace of its own, where there are the rights for it.
    pub(crate) fn namespace_for(test: &str) -> Option<Namespace> {
        if is_privileged_for_net() {
            return Some(Namespace::create().unwrap());
        }
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "netns"));
        assert!(!required, "{test} needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
        eprintln!("SKIPPED {test}: needs CAP_NET_ADMIN and CAP_SYS_ADMIN");
        None
    }

    /// Has `nft` read a file.
    fn load(namespace: &Namespace, text: &str) -> bool {
        let mut command = Command::new("nft");
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let run = || {
            let mut child = command.spawn().ok()?;
            child.stdin.take()?.write_all(text.as_bytes()).ok()?;
            Some(child.wait().ok()?.success())
        };
        namespace.run(run).unwrap().unwrap_or_default()
    }

    #[test]
    fn chains_that_do_something_to_forwarded_packets_are_found() {
        let name = "chains_that_do_something_to_forwarded_packets_are_found";
        let Some(namespace) = namespace_for(name) else { return };
        Netlink::open_in(&namespace).unwrap().create_veth("lan", "far", None).unwrap();
        // What a firewall is, and what of it the router's packets would have met.
        let cases = [
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; }\n\
              chain out { type nat hook output priority 100; redirect; } }",
                &[][..],
            ),
            (
                "table inet f { chain i { type filter hook input priority 0; policy drop; ct state established accept; }\n\
              chain f { type filter hook forward priority 0; counter accept; log prefix \"x\"; } }",
                &[],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; policy drop; } }",
                &["inet f f filters"],
            ),
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; masquerade; } }",
                &["ip nat post translates"],
            ),
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; oifname \"wg0\" masquerade; } }",
                &[],
            ),
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; oifname != \"wg0\" masquerade; } }",
                &["ip nat post translates"],
            ),
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; oif \"lo\" masquerade; } }",
                &[],
            ),
            (
                "table ip nat { chain post { type nat hook postrouting priority 100; oif \"lan\" snat to 192.0.2.1; } }",
                &["ip nat post translates"],
            ),
            (
                "table ip nat { chain pre { type nat hook prerouting priority -100; iifname \"l*\" tcp dport 80 dnat to 10.0.0.2; } }",
                &["ip nat pre translates"],
            ),
            (
                "table inet f { chain bogons { ip saddr 192.0.2.0/24 drop; }\n\
              chain pre { type filter hook prerouting priority -300; jump bogons; } }",
                &["inet f pre filters"],
            ),
            (
                "table inet f { chain pre { type filter hook prerouting priority -150; tcp dport 22 meta mark set 7; notrack; } }",
                &[],
            ),
            (
                "table inet f { chain post { type filter hook postrouting priority -150; \
              tcp flags syn tcp option maxseg size set rt mtu; } }",
                &["inet f post filters"],
            ),
            (
                "table ip6 f { chain post { type filter hook postrouting priority -150; ip6 dscp set cs0; } }",
                &["ip6 f post filters"],
            ),
            (
                "table inet f { chain a { drop; }\n\
              chain f { type filter hook forward priority 0; tcp dport vmap { 22 : jump a }; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; ip daddr 10.0.0.1 reject; } }",
                &["inet f f filters"],
            ),
            (
                "table netdev f { chain lan { type filter hook ingress device \"lan\" priority 0; udp dport 9 drop; }\n\
              chain far { type filter hook ingress device \"far\" priority 0; udp dport 9 drop; } }",
                &["netdev f lan filters"],
            ),
            (
                "table netdev f { chain e { type filter hook egress devices = { far, lan } priority 0; udp dport 9 drop; } }",
                &["netdev f e filters"],
            ),
            (
                "table inet f { chain i { type filter hook ingress device \"lan\" priority 0; udp dport 9 drop; } }",
                &["inet f i filters"],
            ),
            ("table bridge f { chain f { type filter hook forward priority 0; policy drop; } }", &[]),
        ];
        if !load(&namespace, "flush ruleset") {
            return eprintln!("SKIPPED {name}: there is no nft");
        }
        for (text, expected) in cases {
            assert!(load(&namespace, &format!("flush ruleset\n{}", text.replace("} }", "}\n}"))), "{text}");
            let found: Vec<String> =
                bypassed(&namespace, &["lan"]).unwrap().iter().map(ToString::to_string).collect();
            let same =
                found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
            assert!(same, "{text}: {found:?}");
        }
    }
}
