//! Chains of nf_tables that forwarded packets meet.

use super::rules::{Rule, acts, is_harmless};
use super::{Bypassed, Does, Interfaces};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::nft::guard::PREFIX;
use crate::nft::message::{Attributes, Listed, Message, Socket, Verb, each, family, find, number};
use netlink_packet_core::NLM_F_CREATE;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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

/// Which change of all tables of a namespace was the last, where that can be known.
pub(super) fn generation(namespace: &Namespace) -> Option<u32> {
    let mut socket = namespace.run(Socket::open).ok()?.ok()?;
    let read = |answer: &Listed<'_>| answer.attribute(1).and_then(number);
    socket.list("ask for the last change of the packet filter", Verb::GetGeneration, read).ok()?.pop()
}

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
    let mut found = flowtables(&mut socket, ports)?;
    if chains.is_empty() {
        return Ok(found);
    }
    let dormant = socket.list("list the packet filter's tables", Verb::GetTable, |table| {
        let flags = table.attribute(2).and_then(number)?;
        (flags & DORMANT != 0).then_some((table.family, table.text(1)?.to_owned()))
    })?;
    let is_awake =
        |chain: &BaseChain| !dormant.iter().any(|(f, table)| (*f, table) == (chain.name.0, &chain.name.1));
    let listed: Vec<(u8, Vec<u8>)> =
        socket.list("list the packet filter's rules", Verb::GetRule, |rule| {
            Some((rule.family, rule.attributes.to_vec()))
        })?;
    let listed = || listed.iter().map(|(family, attributes)| Listed { family: *family, attributes });
    let mut sets = Sets::new();
    for set in listed().flat_map(|rule| sets_of(&rule)) {
        if let Entry::Vacant(place) = sets.entry(set) {
            let elements = elements(&mut socket, place.key())?;
            place.insert(elements);
        }
    }
    let mut rules: BTreeMap<Name, Vec<Rule<Name>>> = BTreeMap::new();
    for (name, said) in listed().filter_map(|rule| of_rule(&rule, ports, &sets)) {
        rules.entry(name).or_default().extend(said);
    }
    let told = |chain: BaseChain| Bypassed {
        place: format!("{} {} {}", family_name(chain.name.0), chain.name.1, chain.name.2),
        does: chain.does,
    };
    let acting = chains.into_iter().filter(|chain| chain.drops || acts(&chain.name, &rules));
    found.extend(acting.filter(is_awake).map(told));
    Ok(found)
}

/// `NFT_TABLE_F_DORMANT`: its chains are nowhere.
const DORMANT: u32 = 1;

/// Flowtables with one of the ports.
fn flowtables(socket: &mut Socket, ports: &Interfaces) -> Result<Vec<Bypassed>, NetlinkError> {
    let listed = socket.list("list flowtables", Verb::GetFlowtable, |table| flowtable(table, ports));
    match listed {
        // A kernel without them.
        Err(NetlinkError::Kernel { errno: libc::EINVAL | libc::EOPNOTSUPP, .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

fn flowtable(table: &Listed<'_>, ports: &Interfaces) -> Option<Bypassed> {
    let devices = find(table.attribute(3)?, 3)?;
    let is_ours = each(devices, 1).any(|name| ports.have_name(name));
    let place = format!("{} {} flowtable {}", family_name(table.family), table.text(1)?, table.text(2)?);
    is_ours.then_some(Bypassed { place, does: Does::Forwards })
}

/// Elements of sets that say where a packet goes, or which interfaces it goes between.
type Sets = BTreeMap<Name, Vec<Element>>;

/// `NFT_SET_ELEM_INTERVAL_END`.
const INTERVAL_END: u32 = 1;

struct Element {
    key: Vec<u8>,
    /// It is where a range of keys is over, and not one of them.
    ends: bool,
    /// Of verdict maps.
    data: Vec<u8>,
}

/// The sets that must be known for what a rule does.
fn sets_of(rule: &Listed<'_>) -> Vec<Name> {
    let mut found = Vec::new();
    let mut of_interfaces = false;
    let Some((table, expressions)) = rule.text(1).zip(rule.attribute(4)) else { return found };
    for (name, data) in expressions_of(expressions) {
        if name == b"lookup" && (of_interfaces || is_verdict_map(data)) {
            let set = find(data, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
            let set = set.and_then(|name| std::str::from_utf8(name).ok());
            found.extend(set.map(|set| (rule.family, table.to_owned(), set.to_owned())));
        }
        of_interfaces = name == b"meta" && asked_of_interface(data).is_some();
    }
    found
}

fn elements(socket: &mut Socket, (family, table, set): &Name) -> Result<Vec<Element>, NetlinkError> {
    let of = Attributes::new().text(1, table).text(2, set);
    let lists =
        socket.list_of("list a set of the packet filter", (Verb::GetElements, *family, of), |list| {
            let element = |element| Element {
                key: find(element, 1).and_then(|key| find(key, 1)).unwrap_or_default().to_vec(),
                ends: find(element, 3).and_then(number).is_some_and(|flags| flags & INTERVAL_END != 0),
                data: find(element, 2).unwrap_or_default().to_vec(),
            };
            Some(each(list.attribute(3)?, 1).map(element).collect::<Vec<_>>())
        })?;
    Ok(lists.into_iter().flatten().collect())
}

fn expressions_of(expressions: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    each(expressions, 1).filter_map(|expression| {
        let name = find(expression, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name))?;
        Some((name, find(expression, 2).unwrap_or_default()))
    })
}

/// Whether a look into a set gives a verdict.
fn is_verdict_map(data: &[u8]) -> bool {
    find(data, 3).and_then(number) == Some(0)
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
        family::NETDEV => match hook {
            NETDEV_INGRESS => is_of(at, ports),
            NETDEV_EGRESS => ports.past_egress && is_of(at, ports),
            _ => false,
        },
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

/// What was asked for last, with which the next expression may compare.
#[derive(Clone, Copy)]
enum Asked {
    /// An interface's name.
    Name,
    /// An interface's number.
    Index,
    /// Whose address the destination is.
    Destination,
}

/// What a rule does to a packet between the interfaces: everything that it may do.
fn of_rule(rule: &Listed<'_>, ports: &Interfaces, sets: &Sets) -> Option<(Name, Vec<Rule<Name>>)> {
    let (table, chain) = (rule.text(1)?, rule.text(2)?);
    let mut all = Vec::new();
    let mut asked = None;
    // What is for this host is not forwarded, unless the rule sends it elsewhere.
    let mut is_local = false;
    for (name, data) in expressions_of(rule.attribute(4)?) {
        // What is compared with right after it was asked for.
        let key = asked.take();
        let mut says = |verdict: Verdict<'_>| match verdict {
            Verdict::Acts if is_local => {}
            Verdict::Acts => all.push(Rule::Acts),
            Verdict::GoesTo(other) => {
                all.push(Rule::GoesTo((rule.family, table.to_owned(), other.to_owned())));
            }
            Verdict::None => {}
        };
        match name {
            b"meta" if find(data, 3).is_none() => asked = asked_of_interface(data),
            b"fib" if asks_whose(data) => asked = Some(Asked::Destination),
            b"cmp" if is_of_others(key, data, ports) => return None,
            b"cmp" if is_for_this_host(key, data) => is_local = true,
            b"reject" if is_local => {}
            b"immediate" => says(verdict(find(data, 2).unwrap_or_default())),
            b"lookup" => {
                let set = find(data, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
                let set = set.and_then(|name| std::str::from_utf8(name).ok());
                let known = set.and_then(|set| sets.get(&(rule.family, table.to_owned(), set.to_owned())));
                match (known, key) {
                    (Some(elements), Some(key)) if !is_verdict_map(data) => {
                        let inverted = find(data, 5).and_then(number).is_some_and(|flags| flags & 1 != 0);
                        if !inverted && !may_have_ours(key, elements, ports) {
                            return None;
                        }
                    }
                    (Some(elements), _) => elements.iter().for_each(|e| says(verdict(&e.data))),
                    (None, _) if is_verdict_map(data) => all.push(Rule::Acts),
                    (None, _) => {}
                }
            }
            _ if acts_by_itself(name, data) => all.push(Rule::Acts),
            _ => {}
        }
    }
    Some(((rule.family, table.to_owned(), chain.to_owned()), all))
}

/// `NFT_META_IIF`, `NFT_META_OIF` and the names of these.
const META_INDICES: [u32; 2] = [4, 5];
const META_NAMES: [u32; 2] = [6, 7];

fn asked_of_interface(data: &[u8]) -> Option<Asked> {
    match find(data, 2).and_then(number)? {
        key if META_NAMES.contains(&key) => Some(Asked::Name),
        key if META_INDICES.contains(&key) => Some(Asked::Index),
        _ => None,
    }
}

/// `NFTA_FIB_F_DADDR` and no interface with it, `NFT_FIB_RESULT_ADDRTYPE`.
fn asks_whose(data: &[u8]) -> bool {
    const ADDRESS_TYPE: u32 = 3;
    const OF_DESTINATION: u32 = 2;
    find(data, 2).and_then(number) == Some(ADDRESS_TYPE)
        && find(data, 3).and_then(number) == Some(OF_DESTINATION)
}

fn is_ours(asked: Asked, value: &[u8], ports: &Interfaces) -> bool {
    match asked {
        Asked::Name => ports.have_name(value),
        Asked::Index => value.try_into().is_ok_and(|index| ports.have_index(u32::from_ne_bytes(index))),
        Asked::Destination => true,
    }
}

/// Whether one of our interfaces may be in a set; it counts as in it where the set is of more than interfaces.
fn may_have_ours(asked: Asked, elements: &[Element], ports: &Interfaces) -> bool {
    let length = match asked {
        Asked::Name => libc::IFNAMSIZ,
        Asked::Index => size_of::<u32>(),
        Asked::Destination => return true,
    };
    if elements.iter().any(|element| element.key.len() != length) {
        return true;
    }
    let has_ranges = elements.iter().any(|element| element.ends);
    match asked {
        // Names that begin alike.
        Asked::Name if has_ranges => ports.names.iter().any(|name| is_in_range(name, elements)),
        _ if has_ranges => true,
        _ => elements.iter().any(|element| is_ours(asked, &element.key, ports)),
    }
}

/// Whether the last beginning or end of a range up to a name is a beginning.
fn is_in_range(name: &str, elements: &[Element]) -> bool {
    let mut key = name.as_bytes().to_vec();
    key.resize(libc::IFNAMSIZ, 0);
    let before = elements.iter().filter(|element| element.key <= key);
    before.max_by_key(|element| (&element.key, !element.ends)).is_some_and(|element| !element.ends)
}

/// Whether a comparison is with what packets between our interfaces do not have.
fn is_of_others(key: Option<Asked>, data: &[u8], ports: &Interfaces) -> bool {
    const EQUAL: u32 = 0;
    let Some((key, value)) = key.zip(find(data, 3).and_then(|data| find(data, 1))) else { return false };
    find(data, 2).and_then(number) == Some(EQUAL) && !is_ours(key, value, ports)
}

fn is_for_this_host(key: Option<Asked>, data: &[u8]) -> bool {
    /// `RTN_LOCAL`.
    const LOCAL: u32 = 2;
    let value = find(data, 3).and_then(|data| find(data, 1));
    matches!(key, Some(Asked::Destination))
        && find(data, 2).and_then(number) == Some(0)
        && value == Some(&LOCAL.to_ne_bytes()[..])
}

enum Verdict<'a> {
    Acts,
    GoesTo(&'a str),
    /// Goes on, or is accepted.
    None,
}

/// What data say that are a verdict.
fn verdict(data: &[u8]) -> Verdict<'_> {
    let Some(verdict) = find(data, 2) else { return Verdict::None };
    let chain = find(verdict, 2).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
    let chain = chain.and_then(|name| std::str::from_utf8(name).ok());
    match (find(verdict, 1).and_then(number).map(|code| code as i32), chain) {
        (_, Some(chain)) => Verdict::GoesTo(chain),
        // To go on, to return, to accept.
        (Some(-5..=-1 | 1), None) => Verdict::None,
        _ => Verdict::Acts,
    }
}

/// `NFT_OBJECT_SYNPROXY`.
const SYNPROXY: u32 = 10;

/// Whether an expression drops or changes packets, or may, whatever stands around it.
fn acts_by_itself(name: &[u8], data: &[u8]) -> bool {
    match name {
        // These write only where they have a source.
        b"payload" => find(data, 5).is_some(),
        // What takes an option away has neither.
        b"exthdr" => find(data, 7).is_some() || find(data, 1).is_none(),
        b"objref" => find(data, 1).and_then(number) == Some(SYNPROXY),
        b"target" => {
            let target = find(data, 1).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
            !target.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(is_harmless)
        }
        b"meta" | b"ct" | b"cmp" | b"bitwise" | b"byteorder" | b"range" | b"counter" | b"limit"
        | b"quota" | b"connlimit" | b"log" | b"fib" | b"rt" | b"hash" | b"numgen" | b"socket" | b"osf"
        | b"xfrm" | b"tunnel" | b"inner" | b"dynset" | b"notrack" | b"match" | b"last" => false,
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
    use super::super::{Findings, Interfaces, bypassed};
    use crate::connection::Netlink;
    use crate::namespace::Namespace;
    use crate::nft::message::{Attributes, Listed, family};
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
    fn rules_are_read_again_when_they_have_changed() {
        let name = "rules_are_read_again_when_they_have_changed";
        let Some(namespace) = namespace_for(name) else { return };
        if !load(&namespace, "flush ruleset") {
            return eprintln!("SKIPPED {name}: there is no nft");
        }
        let drops = "table inet f { chain f { type filter hook forward priority 0; policy drop;\n}\n}";
        let none = bypassed(&namespace, &["lan"], true, &Default::default()).unwrap();
        assert_eq!(super::generation(&namespace), super::generation(&namespace));
        let before = super::generation(&namespace);
        assert!(before.is_some() && load(&namespace, drops));
        assert_ne!(super::generation(&namespace), before);
        let some = bypassed(&namespace, &["lan"], true, &none).unwrap();
        assert_eq!((none.all.len(), some.all.len()), (0, 1));
        // What has not changed is not read: what was found counts, whatever it says.
        let other = Findings { nft: Vec::new(), ..some.clone() };
        assert_eq!(bypassed(&namespace, &["lan"], true, &other).unwrap().all.len(), 0);
        assert!(load(&namespace, "table inet g"));
        assert_eq!(bypassed(&namespace, &["lan"], true, &other).unwrap().all, some.all);
    }

    #[test]
    fn a_flowtable_of_a_port_is_found() {
        let table = |device: &str| {
            let devices = Attributes::new().text(1, "far").text(1, device);
            let hook = Attributes::new().number(1, 0).number(2, 0).nested(3, devices);
            Attributes::new().text(1, "fw").text(2, "ft").nested(3, hook)
        };
        let ports = Interfaces { names: vec!["lan".to_owned()], indices: vec![7], past_egress: true };
        let told = |device: &str| {
            let attributes = table(device);
            let listed = Listed { family: family::INET, attributes: &attributes.0 };
            super::flowtable(&listed, &ports).map(|found| found.to_string())
        };
        assert_eq!(told("lan").as_deref(), Some("inet fw flowtable ft forwards known connections by itself"));
        assert_eq!(told("eth9"), None);
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
            (
                "table inet f { chain post { type filter hook postrouting priority -150; reset tcp option sack-perm; } }",
                &["inet f post filters"],
            ),
            (
                "table inet f { flags dormant; chain f { type filter hook forward priority 0; policy drop; } }",
                &[],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; \
              ct state vmap { established : accept, related : accept }; } }",
                &[],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; \
              ct state vmap { established : accept, invalid : drop }; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; oifname { \"wg0\", \"wg1\" } drop; } }",
                &[],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; oifname { \"wg0\", \"lan\" } drop; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; oifname != { \"wg0\", \"wg1\" } drop; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain p { type filter hook prerouting priority 0; fib daddr type local tcp dport 22 drop; } }",
                &[],
            ),
            (
                "table ip n { chain p { type nat hook prerouting priority -100; fib daddr type local tcp dport 80 dnat to 10.0.0.2; } }",
                &["ip n p translates"],
            ),
            (
                "table inet f { chain x { drop; }\n\
              chain p { type filter hook prerouting priority 0; fib daddr type local jump x; } }",
                &["inet f p filters"],
            ),
            (
                "table inet f { chain p { type filter hook prerouting priority 0; fib daddr type multicast drop; } }",
                &["inet f p filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; iifname { \"la*\", \"wg*\" } drop; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; iifname { \"wg*\", \"ppp*\" } drop; } }",
                &[],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; iif . oif { \"lan\" . \"far\" } drop; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; \
              ip saddr . iifname { 10.0.0.1 . \"lan\" } drop; } }",
                &["inet f f filters"],
            ),
            (
                "table inet f { chain f { type filter hook forward priority 0; \
              iifname . oifname { \"wan\" . \"lan\" } drop; } }",
                &["inet f f filters"],
            ),
        ];
        if !load(&namespace, "flush ruleset") {
            return eprintln!("SKIPPED {name}: there is no nft");
        }
        for (text, expected) in cases {
            assert!(load(&namespace, &format!("flush ruleset\n{}", text.replace("} }", "}\n}"))), "{text}");
            let found: Vec<String> = bypassed(&namespace, &["lan"], true, &Default::default())
                .unwrap()
                .all
                .iter()
                .map(ToString::to_string)
                .collect();
            let same =
                found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
            assert!(same, "{text}: {found:?}");
        }
        // What packet sockets send meets the rules of the interface that it leaves by.
        let leaving = "table netdev f { chain e { type filter hook egress device \"lan\" priority 0; udp dport 9 drop;\n}\n}";
        assert!(load(&namespace, &format!("flush ruleset\n{leaving}")));
        let found =
            |past_egress| bypassed(&namespace, &["lan"], past_egress, &Default::default()).unwrap().all.len();
        assert_eq!((found(true), found(false)), (1, 0));
    }
}
