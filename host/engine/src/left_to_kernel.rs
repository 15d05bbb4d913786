//! What of a router's packets the kernel is to see, as those who keep the others from it are told.
//!
//! | the route | the kernel |
//! |---|---|
//! | to this host, to all, to groups | takes it |
//! | past the ports | forwards it |
//! | by ports, and past them as well | gets none of it: the router sends all of it by its ports |
//! | by ports, nowhere | gets none of it |

use crate::early_drop::past;
use perhop_io::af_xdp::{HostTraffic, MAX_HOST_PREFIXES};
use perhop_io::early_drop::Prefix;
use perhop_netlink::nft::{Duty, Selector, Shared};
use perhop_netlink::{FibRoute, Mirror, PolicyAction, PolicyRule, RouteKey, RouteKind, RouteTable, RouteWay};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most destinations with ways by ports and past them, and past them inside of those. With more, the kernel's part of them is
/// sent twice.
const MAX_SHARED: usize = 256;

/// Whose a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// This host takes it.
    Host,
    /// The kernel forwards it.
    Past,
    /// Ours, and the kernel would forward a part of it.
    Shared,
    Ours,
}

fn whose(way: &RouteWay, ports: &[u32]) -> Whose {
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

/// Destinations that are not, or not only, the router's, by table.
#[derive(Debug, Default)]
pub(crate) struct LeftToKernel {
    host: BTreeSet<RouteKey>,
    past: BTreeSet<RouteKey>,
    shared: BTreeSet<RouteKey>,
    /// Those of what goes past the ports that are ours for some packets.
    sometimes: BTreeSet<RouteKey>,
    ports: Option<Vec<u32>>,
}

impl LeftToKernel {
    /// Follows routes that changed, or all of them when the ports' interfaces did.
    pub(crate) fn follow(&mut self, routes: &RouteTable, changed: &BTreeSet<RouteKey>, ports: &[u32]) {
        if self.ports.as_deref() == Some(ports) {
            return changed.iter().for_each(|key| self.put(routes, *key, ports));
        }
        *self = Self { ports: Some(ports.to_vec()), ..Self::default() };
        let mut last = None;
        for key in routes.iter().map(|route| (route.table, route.dest)) {
            if last.replace(key) != Some(key) {
                self.put(routes, key, ports);
            }
        }
    }

    fn put(&mut self, routes: &RouteTable, key: RouteKey, ports: &[u32]) {
        // Routes behind one that is for all packets count only as long as that leads nowhere.
        let ways = routes.of(key);
        let wins = |way: &RouteWay| {
            let leads = way.next_hops.is_empty() || way.next_hops.iter().any(|hop| !hop.unusable);
            way.tos == 0 && way.from.is_none() && leads
        };
        let end = ways.iter().position(|way| wins(way)).map_or(ways.len(), |at| at + 1);
        let all: Vec<Whose> = ways[..end].iter().map(|way| whose(way, ports)).collect();
        let is_past = all.contains(&Whose::Past);
        let is_also = is_past && all.iter().any(|whose| matches!(whose, Whose::Ours | Whose::Shared));
        for (set, is) in [
            (&mut self.host, all.contains(&Whose::Host)),
            (&mut self.past, is_past),
            (&mut self.shared, all.contains(&Whose::Shared)),
            (&mut self.sometimes, is_also),
        ] {
            if is {
                set.insert(key);
            } else {
                set.remove(&key);
            }
        }
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
        all.extend(self.past.iter().map(|(_, dest)| prefix(*dest)));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn of_host(&self, mirror: &Mirror) -> Vec<Prefix> {
        let addresses = mirror.addresses().iter().map(|a| whole(a.address.addr()));
        self.host.iter().map(|(_, dest)| prefix(*dest)).chain(addresses).collect()
    }

    /// Tells the programs of AF_XDP ports, which know packets by the most specific prefix of their destination: what is the
    /// router's inside of what goes past its ports they must know too. What may be either's they take, and where there is too
    /// much to tell, everything that goes past the ports: the router has to drop that. O(routes) when anything goes past the
    /// ports.
    pub(crate) fn tell(&self, host: &HostTraffic, mirror: &Mirror) {
        let mut sees = self.of_host(mirror);
        let mut covers: BTreeSet<ipnet::IpNet> =
            self.past.difference(&self.sometimes).map(|(_, dest)| *dest).collect();
        let mut takes = BTreeSet::new();
        let mut is_whole = true;
        if !covers.is_empty() {
            for FibRoute { dest, table, .. } in mirror.routes().iter() {
                let key = (table, dest);
                let is_past = self.past.contains(&key) && !self.sometimes.contains(&key);
                if !is_past && !self.host.contains(&key) && covered(dest, &covers) {
                    takes.insert(prefix(dest));
                }
                if takes.len() > MAX_HOST_PREFIXES as usize {
                    is_whole = false;
                    break;
                }
            }
        }
        if is_whole {
            covers.retain(|dest| !takes.contains(&prefix(*dest)));
            sees.extend(covers.into_iter().map(prefix));
            if host.set(&sees, &takes.into_iter().collect::<Vec<_>>()).is_ok() {
                return;
            }
        }
        tracing::warn!(
            "AF_XDP ports keep from the kernel what its routes send past the ports: there are too many"
        );
        if let Err(error) = host.set(&self.of_host(mirror), &[]) {
            tracing::warn!(%error, "AF_XDP ports keep packets to some addresses of this host from it");
        }
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
        let is_past = |key: &RouteKey| key.1.addr().is_ipv6() == rule.v6;
        // What it leads to matters, or what it keeps from what comes behind.
        let leads_past = match rule.action {
            PolicyAction::Table(table) if !rule.inverted && rule.arrives.as_deref() != Some("lo") => {
                self.past.iter().any(|key| key.0 == table && is_past(key))
            }
            PolicyAction::Nothing => false,
            _ => self.past.iter().any(is_past),
        };
        if is_clear || !leads_past {
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
        let ports = self.ports.as_deref().unwrap_or_default();
        let mut ways: BTreeMap<ipnet::IpNet, BTreeSet<u32>> = BTreeMap::new();
        for key in &self.shared {
            let of = ways.entry(key.1).or_default();
            of.extend(routes.of(*key).iter().flat_map(|way| past(way, ports).collect::<Vec<_>>()));
        }
        let covers: BTreeSet<ipnet::IpNet> = ways.keys().copied().collect();
        if !covers.is_empty() {
            let inside = self.past.iter().filter(|(_, dest)| covered(*dest, &covers));
            let inside: Vec<ipnet::IpNet> = inside.map(|(_, dest)| *dest).collect();
            for dest in inside {
                ways.entry(dest).or_default();
            }
        }
        if ways.len() > MAX_SHARED {
            tracing::warn!("routes lead by ports and past them, to more destinations than can be watched");
            return Vec::new();
        }
        let mut all: Vec<Shared> =
            ways.into_iter().map(|(to, by)| Shared { to, not_by: by.into_iter().collect() }).collect();
        all.sort_by_key(|way| u8::MAX - way.to.prefix_len());
        all
    }

    /// Destinations with ways by ports and past them, and the numbers of the interfaces past them.
    pub(crate) fn shared(&self, routes: &RouteTable) -> Option<(usize, ipnet::IpNet, BTreeSet<u32>)> {
        let ports = self.ports.as_deref().unwrap_or_default();
        let (_, first) = self.shared.first()?;
        let of = |key: &RouteKey| routes.of(*key).iter().flat_map(|way| past(way, ports).collect::<Vec<_>>());
        Some((self.shared.len(), *first, self.shared.iter().flat_map(of).collect()))
    }
}

/// Whether a prefix lies in one of these, or is one.
fn covered(dest: ipnet::IpNet, covers: &BTreeSet<ipnet::IpNet>) -> bool {
    (0..=dest.prefix_len())
        .rev()
        .any(|bits| ipnet::IpNet::new(dest.addr(), bits).is_ok_and(|wider| covers.contains(&wider.trunc())))
}

fn prefix(dest: ipnet::IpNet) -> Prefix {
    (dest.network(), dest.prefix_len())
}

/// An address as a prefix.
pub(crate) fn whole(ip: IpAddr) -> Prefix {
    (ip, if ip.is_ipv4() { 32 } else { 128 })
}
