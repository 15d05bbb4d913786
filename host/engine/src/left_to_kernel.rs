//! What of a router's packets the kernel is to see, as those who keep the others from it are told.
//!
//! | the route | the kernel |
//! |---|---|
//! | to this host, to all, to groups | takes it |
//! | past the ports | forwards it |
//! | by ports, and past them as well | gets none of it: the router sends all of it by its ports |
//! | by ports, nowhere | gets none of it |

use crate::early_drop::past;
use ipnet::IpNet;
use perhop_io::af_xdp::{HostTraffic, MAX_HOST_PREFIXES};
use perhop_io::early_drop::Prefix;
use perhop_netlink::nft::{Duty, Selector, Shared};
use perhop_netlink::{FibRoute, Mirror, PolicyAction, PolicyRule, RouteKey, RouteKind, RouteTable, RouteWay};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Most destinations with ways by ports and past them, and past them inside of those. With more, the kernel's part of them is
/// sent twice.
const MAX_SHARED: usize = 256;

/// Whose a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This host takes it.
    Host,
    /// The kernel forwards it.
    Past,
    /// Ours, and the kernel would forward a part of it.
    Shared,
    Ours,
}

pub(crate) fn whose(way: &RouteWay, ports: &[u32]) -> Whose {
    match way.kind {
        RouteKind::Local | RouteKind::Anycast | RouteKind::Broadcast | RouteKind::Multicast => Whose::Host,
        RouteKind::Unicast => {
            let usable = way.next_hops.iter().any(|hop| !hop.unusable);
            let mut of_port = way.next_hops.iter().filter(|hop| !usable || !hop.unusable);
            let by_port = of_port.any(|hop| ports.contains(&hop.ifindex));
            match (by_port, past(way, ports).next().is_some()) {
                (true, true) => Whose::Shared,
                (false, true) => Whose::Past,
                (_, false) => Whose::Ours,
            }
        }
        _ => Whose::Ours,
    }
}

/// What becomes of packets to a destination: of all of them, or by source and type of service.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    host: bool,
    past: bool,
    shared: bool,
    ours: bool,
    /// By a port, with a header that the kernel would add.
    encapsulated: bool,
}

impl Uses {
    fn of(ways: &[Arc<RouteWay>], ports: &[u32]) -> Self {
        let mut uses = Self::default();
        for way in ways {
            match whose(way, ports) {
                Whose::Host => uses.host = true,
                Whose::Past => uses.past = true,
                Whose::Shared => uses.shared = true,
                Whose::Ours => uses.ours = true,
            }
            let mut by_port = way.next_hops.iter().filter(|hop| ports.contains(&hop.ifindex));
            uses.encapsulated |= way.kind == RouteKind::Unicast && by_port.any(|hop| hop.encapsulated);
            // Routes behind one that is for all packets count only as long as that leads nowhere.
            let leads = way.next_hops.is_empty() || way.next_hops.iter().any(|hop| !hop.unusable);
            if way.tos == 0 && way.from.is_none() && leads {
                break;
            }
        }
        uses
    }

    /// Whether the kernel forwards some of it, and nobody else does.
    fn is_past_only(self) -> bool {
        self.past && !self.ours && !self.shared
    }
}

/// Destinations that are not, or not only, the router's, by table.
#[derive(Debug, Default)]
pub(crate) struct LeftToKernel {
    uses: BTreeMap<RouteKey, Uses>,
    ports: Option<Vec<u32>>,
    /// What there is too much of, as it was last said.
    too_many_to_tell: Cell<bool>,
    too_many_shared: Cell<bool>,
}

/// Says it when it has become so.
fn warn_once(is: &Cell<bool>, now: bool, text: &str) {
    if !is.replace(now) && now {
        tracing::warn!("{text}");
    }
}

impl LeftToKernel {
    /// Follows routes that changed, or all of them when the ports' interfaces did.
    pub(crate) fn follow(&mut self, routes: &RouteTable, changed: &BTreeSet<RouteKey>, ports: &[u32]) {
        if self.ports.as_deref() == Some(ports) {
            return changed.iter().for_each(|key| self.put(routes, *key, ports));
        }
        self.uses.clear();
        self.ports = Some(ports.to_vec());
        let mut last = None;
        for key in routes.iter().map(|route| (route.table, route.dest)) {
            if last.replace(key) != Some(key) {
                self.put(routes, key, ports);
            }
        }
    }

    fn put(&mut self, routes: &RouteTable, key: RouteKey, ports: &[u32]) {
        let uses = Uses::of(routes.of(key), ports);
        if uses.host || uses.past || uses.shared || uses.encapsulated {
            self.uses.insert(key, uses);
        } else {
            self.uses.remove(&key);
        }
    }

    /// Destinations of which this holds.
    fn keys(&self, holds: impl Fn(&Uses) -> bool) -> impl Iterator<Item = &RouteKey> {
        self.uses.iter().filter(move |(_, uses)| holds(uses)).map(|(key, _)| key)
    }

    /// Of all routes of a mirror.
    pub(crate) fn of(mirror: &Mirror, ports: &[u32]) -> Self {
        let mut new = Self::default();
        new.follow(mirror.routes(), &BTreeSet::new(), ports);
        new
    }

    /// Prefixes of which the kernel is to see packets, with the addresses that have no route yet, sorted.
    pub(crate) fn prefixes(&self, mirror: &Mirror) -> Vec<Prefix> {
        let mut all = self.of_host(mirror);
        all.extend(self.keys(|uses| uses.past).map(|(_, dest)| prefix(*dest)));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn of_host(&self, mirror: &Mirror) -> Vec<Prefix> {
        let addresses = mirror.addresses().iter().map(|a| whole(a.address.addr()));
        self.keys(|uses| uses.host).map(|(_, dest)| prefix(*dest)).chain(addresses).collect()
    }

    /// Tells the programs of AF_XDP ports, which know packets by the most specific prefix of their destination: what is the
    /// router's inside of what goes past its ports they must know too. What may be either's they take, and where there is too
    /// much to tell, everything that goes past the ports: the router has to drop that. O(routes) when anything goes past the
    /// ports.
    pub(crate) fn tell(&self, host: &HostTraffic, mirror: &Mirror) {
        let own = self.of_host(mirror);
        let covers: BTreeSet<IpNet> = self.keys(|uses| uses.is_past_only()).map(|(_, dest)| *dest).collect();
        if let Some(takes) = self.ours_inside(mirror.routes(), &covers) {
            let past = covers.into_iter().map(prefix).filter(|prefix| !takes.contains(prefix));
            let sees: Vec<Prefix> = own.iter().copied().chain(past).collect();
            if host.set(&sees, &takes.into_iter().collect::<Vec<_>>()).is_ok() {
                self.too_many_to_tell.set(false);
                return;
            }
        }
        let text =
            "AF_XDP ports keep from the kernel what its routes send past the ports: there are too many";
        warn_once(&self.too_many_to_tell, true, text);
        if let Err(error) = host.set(&own, &[]) {
            tracing::warn!(%error, "AF_XDP ports keep packets to some addresses of this host from it");
        }
    }

    /// What the router has inside of `covers`; `None`: more than can be told.
    fn ours_inside(&self, routes: &RouteTable, covers: &BTreeSet<IpNet>) -> Option<BTreeSet<Prefix>> {
        let mut ours = BTreeSet::new();
        if covers.is_empty() {
            return Some(ours);
        }
        for FibRoute { dest, table, .. } in routes.iter() {
            let is_kernels = self.uses.get(&(table, dest)).is_some_and(|u| u.host || u.is_past_only());
            if !is_kernels && covered(dest, covers) {
                ours.insert(prefix(dest));
            }
            if ours.len() > MAX_HOST_PREFIXES as usize {
                return None;
            }
        }
        Some(ours)
    }

    /// What a guard is to know. `skipped` are ports whose routes the kernel passes over.
    pub(crate) fn duty(&self, mirror: &Mirror, skipped: Vec<u32>) -> Duty {
        let ports = self.ports.clone().unwrap_or_default();
        let unclear = mirror.rules().iter().filter_map(|rule| self.unclear(rule, mirror, &ports)).collect();
        Duty { shared: self.ways_of_shared(mirror.routes()), ports, skipped, unclear }
    }

    /// Packets for which the kernel may come to another way by this rule than its packet filter does, which asks as if they
    /// came from this host and had no transport ports.
    fn unclear(&self, rule: &PolicyRule, mirror: &Mirror, ports: &[u32]) -> Option<Selector> {
        let is_clear = rule.arrives.is_none()
            && rule.source_ports.is_none()
            && rule.dest_ports.is_none()
            && rule.action != PolicyAction::TableOfController
            && rule.unknown.is_empty();
        if is_clear {
            return None;
        }
        let mut past = self.keys(|uses| uses.past).filter(|key| key.1.addr().is_ipv6() == rule.v6);
        // What it leads to matters, or what it keeps from what comes behind.
        let leads_past = match rule.action {
            PolicyAction::Table(table) if !rule.inverted && rule.arrives.as_deref() != Some("lo") => {
                past.any(|key| key.0 == table)
            }
            PolicyAction::Nothing => false,
            _ => past.next().is_some(),
        };
        if !leads_past {
            return None;
        }
        let any = if rule.v6 { "::/0" } else { "0.0.0.0/0" }.parse().ok();
        if rule.inverted {
            return Some(Selector { to: any, ..Selector::default() });
        }
        let arrives = rule.arrives.as_deref().and_then(|name| mirror.link(name));
        let is_port = arrives.is_some_and(|link| ports.contains(&link.index));
        let leads = arrives.is_some_and(|link| {
            link.loopback || mirror.links().values().any(|port| port.controller == Some(link.index))
        });
        if rule.arrives.is_some() && !is_port && !leads {
            return None;
        }
        let arrives_on = arrives.map(|link| link.index).filter(|_| is_port);
        Some(Selector { arrives_on, from: rule.from, to: rule.to.or(any) })
    }

    fn ways_of_shared(&self, routes: &RouteTable) -> Vec<Shared> {
        let mut ways: BTreeMap<IpNet, BTreeSet<u32>> = BTreeMap::new();
        for key in self.keys(|uses| uses.shared) {
            ways.entry(key.1).or_default().extend(self.past_ports(routes, *key));
        }
        let covers: BTreeSet<IpNet> = ways.keys().copied().collect();
        if covers.is_empty() {
            return Vec::new();
        }
        for (_, dest) in self.keys(|uses| uses.past).filter(|(_, dest)| covered(*dest, &covers)) {
            ways.entry(*dest).or_default();
        }
        let too_many = ways.len() > MAX_SHARED;
        let text = "routes lead by ports and past them, to more destinations than can be watched";
        warn_once(&self.too_many_shared, too_many, text);
        if too_many {
            return Vec::new();
        }
        let mut all: Vec<Shared> =
            ways.into_iter().map(|(to, by)| Shared { to, not_by: by.into_iter().collect() }).collect();
        all.sort_by_key(|way| u8::MAX - way.to.prefix_len());
        all
    }

    /// Interfaces that are no ports to which the routes of a destination lead.
    fn past_ports(&self, routes: &RouteTable, key: RouteKey) -> BTreeSet<u32> {
        let ports = self.ports.as_deref().unwrap_or_default();
        routes.of(key).iter().flat_map(|way| past(way, ports)).collect()
    }

    /// Interfaces that are no ports to which any routes lead.
    pub(crate) fn past_interfaces(&self, routes: &RouteTable) -> BTreeSet<u32> {
        self.keys(|uses| uses.past || uses.shared).flat_map(|key| self.past_ports(routes, *key)).collect()
    }

    /// Destinations that get a header on their way by a port: how many, and the first.
    pub(crate) fn encapsulating(&self) -> Option<(usize, IpNet)> {
        let mut all = self.keys(|uses| uses.encapsulated);
        let (_, first) = all.next()?;
        Some((1 + all.count(), *first))
    }

    /// Destinations with ways by ports and past them: how many, the first, and the numbers of the interfaces past them.
    pub(crate) fn shared(&self, routes: &RouteTable) -> Option<(usize, IpNet, BTreeSet<u32>)> {
        let all: Vec<&RouteKey> = self.keys(|uses| uses.shared).collect();
        let (_, first) = all.first()?;
        Some((all.len(), *first, all.iter().flat_map(|key| self.past_ports(routes, **key)).collect()))
    }
}

/// Whether a prefix lies in one of these, or is one.
fn covered(dest: IpNet, covers: &BTreeSet<IpNet>) -> bool {
    (0..=dest.prefix_len())
        .rev()
        .any(|bits| IpNet::new(dest.addr(), bits).is_ok_and(|wider| covers.contains(&wider.trunc())))
}

fn prefix(dest: IpNet) -> Prefix {
    (dest.network(), dest.prefix_len())
}

/// An address as a prefix.
pub(crate) fn whole(ip: IpAddr) -> Prefix {
    (ip, if ip.is_ipv4() { 32 } else { 128 })
}
