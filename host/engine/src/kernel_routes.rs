//! What the kernel's routes and rules mean to a router: its ports' ways, what is left to the kernel, and what cannot be
//! followed.
//!
//! | the kernel has | the router does |
//! |---|---|
//! | a route by a port | forwards by that port |
//! | a route past the ports | hands the packet to the kernel |
//! | a route by ports and past them | forwards by the ports |
//! | a route of a port without carrier | answers unreachable, unless the kernel passes over such routes |
//! | a route that adds a header (`encap`) by a port | answers unreachable: the header is the kernel's to make |
//! | a rule by address, port, protocol, type of service or arrival | follows it |
//! | a rule by mark, user, interface of departure, tunnel | follows it as for a packet without any of them |

use crate::early_drop::is_macvlan_on;
use crate::prepare::Device;
use perhop_elements::route::{Arrival, Fib, NextHop, Origin, RouteEntry, RouteKind, Rule, Then};
use perhop_graph::router::KernelRoutes;
use perhop_netlink::{
    FibRoute, LinkInfo, Mirror, PolicyAction, PolicyRule, RouteKey, RouteKind as KernelKind, RouteTable,
    RouteWay,
};
use perhop_packet::PortId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Which port each interface is, and how the kernel's tables are asked: what a translation depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translation {
    ports: BTreeMap<u32, PortId>,
    /// Ports without link addresses.
    bare: BTreeSet<PortId>,
    /// Of IPv4 and IPv6: the tables that rules lead to; `None`: as the kernel begins, local before main.
    tables: [Option<BTreeSet<u32>>; 2],
    /// The rules, as the router has them.
    pub(crate) rules: Vec<Rule>,
    /// What is not followed, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// Interface numbers of ports, and of macvlan interfaces above them, to whose addresses the ports listen.
pub(crate) fn ports_by_index(mirror: &Mirror, devices: &[Device]) -> BTreeMap<u32, PortId> {
    let index = |device: &Device| mirror.link(&device.device).map(|link| link.index);
    let ports: BTreeMap<u32, PortId> =
        devices.iter().enumerate().filter_map(|(i, d)| Some((index(d)?, PortId(i as u16)))).collect();
    let above = mirror.links().values().filter_map(|link| {
        let port = ports.get(&link.peer_index.filter(|lower| is_macvlan_on(link, *lower))?)?;
        Some((link.index, *port))
    });
    // What is a port itself is that port, whatever it is above.
    let mut all: BTreeMap<u32, PortId> = above.collect();
    all.extend(&ports);
    all
}

impl Translation {
    /// For these ports, in a namespace as the mirror has it.
    pub(crate) fn new(mirror: &Mirror, ports: BTreeMap<u32, PortId>, bare: BTreeSet<PortId>) -> Self {
        let mut new = Self { ports, bare, ..Self::default() };
        for v6 in [false, true] {
            let of: Vec<&PolicyRule> = mirror.rules().iter().filter(|rule| rule.v6 == v6).collect();
            if is_usual(&of) {
                // The default table comes after the main one, which would hide it otherwise.
                let is_there = |route: &FibRoute| {
                    route.table == FibRoute::DEFAULT_TABLE && route.dest.addr().is_ipv6() == v6
                };
                let last = of.iter().find(|rule| rule.is_for_all(FibRoute::DEFAULT_TABLE));
                if last.is_some() && mirror.routes().of_table(FibRoute::DEFAULT_TABLE).any(|r| is_there(&r)) {
                    let plain = |rule: &&PolicyRule| !rule.is_for_all(FibRoute::LOCAL_TABLE);
                    let rules: Vec<Rule> =
                        of.iter().copied().filter(plain).map(|r| new.rule(r, mirror)).collect();
                    new.rules.extend(rules);
                }
                continue;
            }
            let rules: Vec<Rule> = of.iter().map(|rule| new.rule(rule, mirror)).collect();
            let mut tables = BTreeSet::new();
            for rule in &rules {
                match &rule.then {
                    Then::Table { table, .. } => drop(tables.insert(*table)),
                    Then::TableOfPort(of) => tables.extend(of.iter().flatten()),
                    _ => {}
                }
            }
            new.tables[usize::from(v6)] = Some(tables);
            new.rules.extend(rules);
        }
        new
    }

    fn rule(&mut self, rule: &PolicyRule, mirror: &Mirror) -> Rule {
        let by_name = |name: &str| {
            let link = mirror.link(name);
            let is_in =
                |port: &LinkInfo| port.name == name || link.is_some_and(|l| port.controller == Some(l.index));
            let of = self.ports.iter().filter(|(index, _)| mirror.links().get(*index).is_some_and(is_in));
            let ports: BTreeSet<PortId> = of.map(|(_, port)| *port).collect();
            Arrival::Ports(ports.into_iter().collect())
        };
        let is_loopback = |name: &str| mirror.link(name).is_some_and(|link| link.loopback);
        let arrives = match rule.arrives.as_deref() {
            None => Arrival::Anywhere,
            Some(name) if is_loopback(name) => Arrival::ThisMachine,
            Some(name) => by_name(name),
        };
        let marked = rule.mark.is_some_and(|(mark, mask)| mark & mask != 0);
        let unknown = !rule.unknown.is_empty() || matches!(rule.action, PolicyAction::Other(_));
        // What is there for packets without a mark holds for all that the router sees.
        if marked && !rule.inverted || unknown {
            let why =
                if marked { "the router sees no marks" } else { "the router does not know what it asks" };
            self.notes.push(format!("rule {rule}: is passed over, as {why}"));
        }
        let table_of_port = || {
            let most = self.ports.values().map(|port| port.index() + 1).max().unwrap_or(0);
            let mut tables = vec![None; most];
            for (index, port) in &self.ports {
                let controller = mirror.links().get(index).and_then(|link| link.controller);
                tables[port.index()] = controller.and_then(|index| mirror.links().get(&index)?.vrf_table);
            }
            Then::TableOfPort(tables.into())
        };
        let then = match rule.action {
            PolicyAction::Table(table) => Then::Table { table, suppress: rule.suppress },
            PolicyAction::TableOfController => table_of_port(),
            PolicyAction::GoTo(priority) => Then::GoTo(priority),
            PolicyAction::Blackhole => Then::Blackhole,
            PolicyAction::Unreachable => Then::Unreachable,
            PolicyAction::Prohibit => Then::Prohibit,
            _ => Then::Nothing,
        };
        // What is forwarded counts as the superuser's.
        let foreign = rule.users.as_ref().is_some_and(|users| !users.contains(&0));
        Rule {
            v6: rule.v6,
            priority: rule.priority,
            inverted: rule.inverted && !unknown,
            never: marked || unknown || foreign || rule.leaves.is_some(),
            from: rule.from,
            to: rule.to,
            arrives,
            tos: rule.tos,
            dscp: rule.dscp,
            protocol: rule.protocol,
            source_ports: rule.source_ports.clone(),
            dest_ports: rule.dest_ports.clone(),
            then,
            said: rule.to_string().into(),
        }
    }

    /// The router's table for one of the kernel's, if it is asked.
    fn table(&self, (table, dest): RouteKey) -> Option<u32> {
        match &self.tables[usize::from(dest.addr().is_ipv6())] {
            None if table == FibRoute::LOCAL_TABLE => Some(Fib::MAIN),
            None => [FibRoute::MAIN_TABLE, FibRoute::DEFAULT_TABLE].contains(&table).then_some(table),
            Some(asked) => asked.contains(&table).then_some(table),
        }
    }

    /// All routes.
    pub(crate) fn all(
        &self,
        routes: &RouteTable,
        skips: &mut dyn FnMut(u32, bool) -> bool,
    ) -> Vec<RouteEntry> {
        let mut known = Known::default();
        let entry = |route: FibRoute| {
            let table = self.table((route.table, route.dest))?;
            self.entry(table, &route, &mut known, skips)
        };
        routes.iter().filter_map(entry).collect()
    }

    /// The routes to some destinations.
    pub(crate) fn some(
        &self,
        routes: &RouteTable,
        keys: &BTreeSet<RouteKey>,
        skips: &mut dyn FnMut(u32, bool) -> bool,
    ) -> Vec<KernelRoutes> {
        let mut known = Known::default();
        let into: BTreeSet<RouteKey> =
            keys.iter().filter_map(|key| Some((self.table(*key)?, key.1))).collect();
        let each = |(table, dest): RouteKey| {
            // Local routes stand with those of the main table, as long as nothing comes between them.
            let merged = table == Fib::MAIN && self.tables[usize::from(dest.addr().is_ipv6())].is_none();
            let from = [merged.then_some(FibRoute::LOCAL_TABLE), Some(table)];
            let mut entries = Vec::new();
            for table_of in from.into_iter().flatten() {
                for way in routes.of((table_of, dest)) {
                    let route = FibRoute { dest, table: table_of, way: way.clone() };
                    entries.extend(self.entry(table, &route, &mut known, skips));
                }
            }
            KernelRoutes { table, dest, routes: entries }
        };
        into.into_iter().map(each).collect()
    }

    /// What a route means to the router; `None` for those that mean nothing to forwarding: multicast, or without any next hop
    /// in use.
    fn entry(
        &self,
        table: u32,
        r: &FibRoute,
        known: &mut Known,
        skips: &mut dyn FnMut(u32, bool) -> bool,
    ) -> Option<RouteEntry> {
        let v6 = r.dest.addr().is_ipv6();
        let key = (Arc::as_ptr(&r.way), v6);
        let kind = known.0.entry(key).or_insert_with(|| self.kind(r, skips)).clone()?;
        let metric = metric(r);
        Some(RouteEntry {
            table,
            dest: r.dest,
            from: r.from,
            tos: r.tos,
            kind,
            metric,
            origin: Origin::Kernel,
        })
    }

    fn kind(&self, r: &FibRoute, skips: &mut dyn FnMut(u32, bool) -> bool) -> Option<RouteKind> {
        Some(match r.kind {
            KernelKind::Local | KernelKind::Anycast => RouteKind::Local,
            KernelKind::Broadcast => RouteKind::Broadcast,
            KernelKind::Blackhole => RouteKind::Blackhole,
            KernelKind::Unreachable => RouteKind::Unreachable,
            KernelKind::Prohibit => RouteKind::Prohibit,
            KernelKind::Throw => RouteKind::Throw,
            KernelKind::Unicast => self.unicast(r, skips)?,
            _ => return None,
        })
    }

    /// What a route past all ports sends is the kernel's to forward, like what is for this host. Beside ports other interfaces
    /// do not count. Without a carrier a route of a port leads nowhere, and no wider route is asked instead, unless the kernel
    /// does so: what is for a network whose cable is out must not go to the provider, and come back.
    fn unicast(&self, r: &FibRoute, skips: &mut dyn FnMut(u32, bool) -> bool) -> Option<RouteKind> {
        let usable: Vec<_> = r.next_hops.iter().filter(|h| !h.unusable).collect();
        if usable.is_empty() {
            let mut stay =
                r.next_hops.iter().filter(|hop| !skips(hop.ifindex, r.dest.addr().is_ipv6())).peekable();
            stay.peek()?;
            let of_port = stay.any(|hop| self.ports.contains_key(&hop.ifindex));
            return Some(if of_port { RouteKind::Unreachable } else { RouteKind::Kernel });
        }
        let divisor = usable.iter().map(|h| h.weight.max(1)).fold(0, gcd);
        let mut next_hops = Vec::new();
        let mut encapsulated = false;
        for hop in usable {
            let Some(port) = self.ports.get(&hop.ifindex) else { continue };
            if hop.encapsulated {
                encapsulated = true;
                continue;
            }
            let shares = (hop.weight.max(1) / divisor.max(1)).min(64);
            // Next hops on interfaces without link headers are all the same one: destinations without number take the place of one neighbour.
            let other_end = OTHER_END[usize::from(r.dest.addr().is_ipv6())];
            let via = if self.bare.contains(port) { Some(other_end) } else { hop.via };
            let hop = NextHop { mtu: r.mtu.unwrap_or(0), ..NextHop::new(via, *port) };
            next_hops.extend((0..shares).map(|_| hop));
        }
        Some(match (next_hops.is_empty(), encapsulated) {
            (false, _) => RouteKind::Unicast { next_hops: next_hops.into() },
            (true, true) => RouteKind::Unreachable,
            (true, false) => RouteKind::Kernel,
        })
    }
}

/// What ways were found to mean, by their place in memory, which holds as long as the routes are lent.
#[derive(Default)]
struct Known(BTreeMap<(*const RouteWay, bool), Option<RouteKind>>);

/// The order in which routes count here: the kernel looks into the local table before the main one, whatever the metric.
fn metric(route: &FibRoute) -> u32 {
    if route.table == FibRoute::LOCAL_TABLE { 0 } else { route.metric.saturating_add(1) }
}

/// The kernel's own word for such a metric.
pub(crate) fn kernel_metric(metric: u32) -> u32 {
    metric.saturating_sub(1)
}

/// Whether the rules are those that the kernel starts with; one without rules has none.
fn is_usual(rules: &[&PolicyRule]) -> bool {
    let order = [FibRoute::LOCAL_TABLE, FibRoute::MAIN_TABLE, FibRoute::DEFAULT_TABLE];
    let number = rules.len();
    number == 0
        || (2..=3).contains(&number) && rules.iter().zip(order).all(|(rule, table)| rule.is_for_all(table))
}

/// The other end of an interface without link headers, as a neighbour: it has no address of its own.
pub(crate) const OTHER_END: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Bench;
    use crate::left_to_kernel::{Whose, whose};
    use perhop_elements::route::{Action, Asked, Tables};
    use perhop_netlink::NextHop as KernelHop;
    use perhop_netlink::sysctl::{self, IpVersion};

    fn way(kind: KernelKind, hops: &[(u32, u16, bool)]) -> RouteWay {
        let hop = |(ifindex, weight, unusable): &(u32, u16, bool)| KernelHop {
            via: None,
            ifindex: *ifindex,
            weight: *weight,
            unusable: *unusable,
            encapsulated: false,
        };
        RouteWay {
            next_hops: hops.iter().map(hop).collect(),
            object: None,
            kind,
            metric: 7,
            source_hint: None,
            from: None,
            tos: 0,
            mtu: None,
        }
    }

    fn route(way: RouteWay) -> FibRoute {
        FibRoute { dest: "10.1.0.0/16".parse().unwrap(), table: FibRoute::MAIN_TABLE, way: Arc::new(way) }
    }

    fn entry(on: &Translation, r: &FibRoute, skips: bool) -> Option<RouteEntry> {
        let table = on.table((r.table, r.dest))?;
        on.entry(table, r, &mut Known::default(), &mut |_, _| skips)
    }

    /// What the router leaves to the kernel, and what the kernel is told to leave to the router, is decided in two places.
    #[test]
    fn what_is_handed_to_the_kernel_is_what_the_kernel_is_told_to_forward() {
        let ports = BTreeMap::from([(4, PortId(0)), (9, PortId(1))]);
        let on = Translation { ports, ..Translation::default() };
        let hops: Vec<KernelHop> = (0..16)
            .map(|i| KernelHop {
                via: None,
                ifindex: [4, 9, 5, 6][i & 3],
                weight: 1,
                unusable: i & 4 != 0,
                encapsulated: i & 8 != 0,
            })
            .collect();
        let one = hops.iter().map(|hop| vec![*hop]);
        let two = hops.iter().flat_map(|a| hops.iter().map(|b| vec![*a, *b]));
        let kinds = [KernelKind::Unicast, KernelKind::Local, KernelKind::Blackhole, KernelKind::Unreachable];
        for (kind, next_hops) in
            kinds.into_iter().flat_map(|kind| one.clone().chain(two.clone()).map(move |h| (kind, h)))
        {
            let way = RouteWay { next_hops, ..way(kind, &[]) };
            let says = entry(&on, &route(way.clone()), false).map(|entry| entry.kind);
            let told = whose(&way, &[4, 9]);
            let fits = match says {
                Some(RouteKind::Kernel) => told == Whose::Past,
                Some(RouteKind::Local) => told == Whose::Host,
                Some(RouteKind::Unicast { .. } | RouteKind::Unreachable) => {
                    matches!(told, Whose::Ours | Whose::Shared)
                }
                Some(_) => told == Whose::Ours,
                None => false,
            };
            assert!(fits, "{way:?}: {says:?}, {told:?}");
        }
    }

    #[test]
    fn routes_of_the_kernel_become_routes_of_ports() {
        let ports = BTreeMap::from([(4, PortId(0)), (9, PortId(1))]);
        let on = Translation { ports, ..Translation::default() };
        let kind = |way: RouteWay, skips: bool| entry(&on, &route(way), skips).map(|entry| entry.kind);
        let hops = |hops: &[(u32, u16, bool)]| match kind(way(KernelKind::Unicast, hops), false) {
            Some(RouteKind::Unicast { next_hops }) => next_hops.iter().map(|h| h.port.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(hops(&[(4, 6, false), (9, 3, false)]), [0, 0, 1], "6 : 3");
        assert_eq!(hops(&[(4, 1, true), (9, 1, false)]), [1], "without a dead link");
        assert_eq!(hops(&[(4, 1, false), (77, 1, false)]), [0]);
        let past = way(KernelKind::Unicast, &[(77, 1, false)]);
        assert_eq!(kind(past, false), Some(RouteKind::Kernel), "past the ports: the kernel's");
        let out = way(KernelKind::Unicast, &[(4, 1, true)]);
        assert_eq!(kind(out.clone(), false), Some(RouteKind::Unreachable), "no wider route");
        assert_eq!(kind(out, true), None, "the kernel's switch says so");
        let gone = way(KernelKind::Unicast, &[(77, 1, true)]);
        assert_eq!(kind(gone, false), Some(RouteKind::Kernel));
        assert_eq!(kind(way(KernelKind::Unicast, &[]), false), None);
        assert_eq!(kind(way(KernelKind::Multicast, &[]), false), None);
        let mut adds = way(KernelKind::Unicast, &[(4, 1, false)]);
        adds.next_hops[0].encapsulated = true;
        assert_eq!(kind(adds, false), Some(RouteKind::Unreachable), "never without its header");

        let tun = Translation { bare: BTreeSet::from([PortId(1)]), ..on.clone() };
        let both = RouteWay { mtu: Some(1400), ..way(KernelKind::Unicast, &[(4, 1, false), (9, 1, false)]) };
        let via = [(0, None), (1, Some(OTHER_END[0]))];
        let via = via.map(|(port, via)| NextHop { mtu: 1400, ..NextHop::new(via, PortId(port)) });
        let found = entry(&tun, &route(both), false).unwrap().kind;
        assert_eq!(found, RouteKind::Unicast { next_hops: via.into() }, "TUN has one neighbour");

        let elsewhere = FibRoute { table: 100, ..route(way(KernelKind::Local, &[])) };
        assert!(entry(&on, &elsewhere, false).is_none());
        assert_eq!(entry(&on, &route(way(KernelKind::Local, &[])), false).unwrap().metric, 8);
    }

    /// Runs `ip`; what it says, or what the kernel answered.
    fn type_ip(bench: &Bench, words: &str) -> Result<String, String> {
        let mut command = std::process::Command::new("ip");
        let output =
            bench.namespace.run(|| command.args(words.split_whitespace()).output()).unwrap().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// What the kernel would do with a packet that arrives on `p0`.
    fn kernel_says(bench: &Bench, asked: &Asked) -> (String, String) {
        let Asked { src, dst, tos, protocol, ports: [from, to], .. } = asked;
        let family = if dst.is_ipv4() { "-4" } else { "-6" };
        let (tos, to_and_from) = (format!("tos {tos:#x}"), format!("sport {from} dport {to}"));
        // What is forwarded is the superuser's, what nobody asks for nobody's.
        let words = format!("{family} route get {dst} from {src} iif p0 uid 0 ipproto {protocol}");
        let words = format!("{words} {tos} {to_and_from}");
        let said = type_ip(bench, &words).unwrap_or_else(|error| error);
        let word_after = |name: &str| said.split_whitespace().skip_while(|word| *word != name).nth(1);
        let error = [
            ("none", "error -101", "Network is unreachable"),
            // In IPv6 they are one, and so is the answer to the sender (RFC 4443 §3.1, code 0).
            (if dst.is_ipv6() { "none" } else { "unreachable" }, "error -113", "No route to host"),
            ("prohibit", "error -13", "Permission denied"),
            ("blackhole", "error -22", "Invalid argument"),
        ];
        if let Some((what, ..)) = error.iter().find(|(_, v6, v4)| said.contains(v6) || said.contains(v4)) {
            return ((*what).to_owned(), said);
        }
        let what = match word_after("dev") {
            Some("p0" | "p1") => {
                format!("{} via {}", word_after("dev").unwrap(), word_after("via").unwrap_or("none"))
            }
            Some("lo") => "local".to_owned(),
            Some(_) => "past".to_owned(),
            None => "nothing".to_owned(),
        };
        (what, said)
    }

    fn router_says(fib: &Fib, asked: &Asked) -> String {
        let found = fib.find(asked);
        match found.action {
            Action::NoRoute | Action::Throw => "none".to_owned(),
            // A rule says that the network is unreachable, a route that the host is.
            Action::Unreachable if asked.dst.is_ipv6() || found.dest.is_none() => "none".to_owned(),
            Action::Unreachable => "unreachable".to_owned(),
            Action::Prohibit => "prohibit".to_owned(),
            Action::Blackhole => "blackhole".to_owned(),
            Action::Local | Action::Broadcast => "local".to_owned(),
            Action::Kernel => "past".to_owned(),
            Action::Hop(hop) => {
                let NextHop { via, port, .. } = fib.next_hops()[hop as usize];
                format!("p{} via {}", port.0, via.map_or("none".to_owned(), |via| via.to_string()))
            }
            Action::Group { .. } => "several".to_owned(),
        }
    }

    /// Random rules and routes: the router does with packets what the kernel would.
    #[test]
    fn rules_and_tables_are_followed_as_the_kernel_follows_them() {
        let Some(bench) = Bench::new("rules_and_tables_are_followed_as_the_kernel_follows_them") else {
            return;
        };
        let must = |words: &str| type_ip(&bench, words).unwrap_or_else(|error| panic!("{words}: {error}"));
        for key in ["all", "default", "p0", "p1"] {
            sysctl::write(&bench.namespace, IpVersion::V4, key, "rp_filter", 0).unwrap();
            sysctl::write(&bench.namespace, IpVersion::V6, key, "forwarding", 1).unwrap();
        }
        must("link add x0 type veth peer name x1");
        must("link set x0 up");
        must("link set x1 up");
        for (device, number) in [("p0", 0), ("p1", 1), ("x0", 2)] {
            must(&format!("addr add 10.{number}.0.1/24 dev {device}"));
            must(&format!("addr add fd0{number}::1/64 dev {device} nodad"));
        }
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut seen = BTreeMap::new();
        for round in 0..40 {
            let v6 = round % 2 == 1;
            let family = if v6 { "-6" } else { "-4" };
            let net = |n: u64| if v6 { format!("fd9{n}::/32") } else { format!("10.9{n}.0.0/16") };
            let host = |n: u64| if v6 { format!("fd9{n}::7") } else { format!("10.9{n}.0.7") };
            let mut undo = Vec::new();
            for _ in 0..5 {
                let pref = 100 + random(200);
                let mut words = vec![format!("pref {pref}")];
                if random(6) == 0 {
                    words.push("not".to_owned());
                }
                words.push(if random(2) == 0 {
                    format!("from {}", net(random(3)))
                } else {
                    "from all".to_owned()
                });
                let asks = [
                    format!("to {}", net(3 + random(3))),
                    format!("iif {}", ["p0", "p1", "x0", "lo"][random(4) as usize]),
                    "tos 0x10".to_owned(),
                    format!("ipproto {}", ["udp", "tcp"][random(2) as usize]),
                    "sport 5000-5004".to_owned(),
                    "dport 5060".to_owned(),
                    "fwmark 0x1".to_owned(),
                    "fwmark 0x0/0x7".to_owned(),
                    "oif p1".to_owned(),
                    "uidrange 0-10".to_owned(),
                    "uidrange 1000-2000".to_owned(),
                ];
                for _ in 0..random(3) {
                    words.push(asks[random(asks.len() as u64) as usize].clone());
                }
                words.push(match random(10) {
                    0 => "blackhole".to_owned(),
                    1 => "prohibit".to_owned(),
                    2 => "unreachable".to_owned(),
                    3 => format!("goto {}", pref + 50),
                    4 => "lookup main suppress_prefixlength 0".to_owned(),
                    5 => "lookup 101 suppress_prefixlength 16".to_owned(),
                    n => format!("lookup {}", [100, 101, 254, 253][n as usize % 4]),
                });
                let words = words.join(" ");
                if type_ip(&bench, &format!("{family} rule add {words}")).is_ok() {
                    undo.push(format!("{family} rule del {words}"));
                }
            }
            for _ in 0..8 {
                let gateway = 2 + random(3);
                let (device, number) = [("p0", 0), ("p1", 1), ("x0", 2)][random(3) as usize];
                let via =
                    if v6 { format!("fd0{number}::{gateway}") } else { format!("10.{number}.0.{gateway}") };
                let dest = if random(4) == 0 { "default".to_owned() } else { net(3 + random(3)) };
                let kind = ["blackhole", "unreachable", "prohibit", "throw"][random(4) as usize];
                let limit = match random(5) {
                    0 if v6 => format!("from {}", net(random(3))),
                    0 => "tos 0x10".to_owned(),
                    _ => String::new(),
                };
                // Beside a route of the same destination for other sources the kernel never finds one for all, but for the
                // default route; the router does.
                let dest = match (limit.starts_with("from"), dest.as_str()) {
                    (_, "default") => dest,
                    (true, _) => net(5),
                    (false, _) if v6 => net(3 + random(2)),
                    (false, _) => dest,
                };
                let way = match random(5) {
                    0 if limit.is_empty() => format!("{kind} {dest}"),
                    _ => format!("{dest} {limit} via {via} dev {device}"),
                };
                let table = [100, 101, 254, 253][random(4) as usize];
                let words = format!("{way} table {table} metric {}", 1 + random(9));
                if type_ip(&bench, &format!("{family} route add {words}")).is_ok() {
                    undo.push(format!("{family} route del {words}"));
                }
            }
            let mirror = Mirror::open_in(&bench.namespace).unwrap();
            let ports = ports_by_index(&mirror, &["p0", "p1"].map(|p| Device::new(p, p)));
            let translation = Translation::new(&mirror, ports, BTreeSet::new());
            let mut tables = Tables::new();
            tables.set_rules(translation.rules.clone());
            tables.replace(Origin::Kernel, translation.all(mirror.routes(), &mut |_, _| false));
            let fib = tables.fib();
            for probe in 0..12 {
                let asked = Asked {
                    src: host(random(4)).parse().unwrap(),
                    dst: if probe == 0 {
                        if v6 { "fd01::1" } else { "10.1.0.1" }.to_owned()
                    } else {
                        host(3 + random(4))
                    }
                    .parse()
                    .unwrap(),
                    in_port: PortId(0),
                    tos: [0, 0x10][random(2) as usize],
                    protocol: [17, 6][random(2) as usize],
                    ports: [4999 + random(3) as u16, 5059 + random(3) as u16],
                };
                let ((kernel, said), router) = (kernel_says(&bench, &asked), router_says(&fib, &asked));
                let tables = || {
                    let list = |what: &str| type_ip(&bench, &format!("{family} {what}")).unwrap();
                    format!("{}{}", list("rule"), list("route show table all"))
                };
                let found = fib.find(&asked);
                assert_eq!(router, kernel, "round {round}, {asked:?}: {said}{}{found:?}", tables());
                *seen.entry(kernel.split(' ').next().unwrap().to_owned()).or_insert(0) += 1;
            }
            undo.iter().rev().for_each(|words| drop(must(words)));
        }
        let all = ["blackhole", "local", "none", "p0", "p1", "past", "prohibit", "unreachable"];
        assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), all, "{seen:?}");
    }
}
