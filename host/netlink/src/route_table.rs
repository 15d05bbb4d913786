//! A copy of the kernel's routes that follows its messages, one by one.
//!
//! Of routes to one destination in one table the first that fits a packet wins, as in the kernel: IPv4 keeps those of equal type
//! of service and metric in the order they were put there; IPv6 joins those with gateways to one of several next hops. A listing
//! leaves out IPv6 routes of equal metric that stand between two that are joined, so such a one is known only when it is put there
//! while somebody listens. Nothing goes by it before the joined one has less next hops, or none: then all are listed anew.
//! Millions share a few ways, so each is kept once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ipnet::IpNet;

use crate::monitor::RouteChange;
use crate::nexthop::NextHops;
use crate::route::{FibRoute, NextHop, RouteKind, RouteWay};

/// A table and a destination in it.
pub type RouteKey = (u32, IpNet);

/// Routes to one destination, mostly one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ways {
    One(Arc<RouteWay>),
    Several(Box<[Arc<RouteWay>]>),
}

impl Ways {
    fn list(&self) -> &[Arc<RouteWay>] {
        match self {
            Self::One(way) => std::slice::from_ref(way),
            Self::Several(ways) => ways,
        }
    }
}

/// The routes of an entry, as they win.
fn routes<'a>(((table, dest), ways): (&'a RouteKey, &'a Ways)) -> impl Iterator<Item = FibRoute> + 'a {
    ways.list().iter().map(|way| FibRoute { dest: *dest, table: *table, way: way.clone() })
}

/// The routes of all tables.
#[derive(Debug, Default)]
pub struct RouteTable {
    routes: BTreeMap<RouteKey, Ways>,
    /// Each way that a route has, once.
    known: HashSet<Arc<RouteWay>>,
    next_hops: NextHops,
}

/// Ways that no route has are let go when there is no room for another, from this many on.
const SLACK: usize = 1024;

impl RouteTable {
    /// All routes, by table and destination; those to one destination as they win.
    pub fn iter(&self) -> impl Iterator<Item = FibRoute> {
        self.routes.iter().flat_map(routes)
    }

    /// The routes of one table.
    pub fn of_table(&self, table: u32) -> impl Iterator<Item = FibRoute> {
        let first = (table, IpNet::V4(ipnet::Ipv4Net::default()));
        let of = self.routes.range(first..).take_while(move |(key, _)| key.0 == table);
        of.flat_map(routes)
    }

    /// The routes to one destination in one table, as they win.
    pub fn of(&self, key: RouteKey) -> &[Arc<RouteWay>] {
        self.routes.get(&key).map_or(&[], Ways::list)
    }

    /// From now on routes that name next-hop objects lead where these do.
    pub(crate) fn resolve_by(&mut self, next_hops: NextHops) {
        self.next_hops = next_hops;
    }

    /// Takes a whole listing; the keys of what has changed.
    pub(crate) fn replace(&mut self, listing: Vec<FibRoute>) -> BTreeSet<RouteKey> {
        let before = std::mem::take(&mut self.routes);
        for FibRoute { dest, table, way } in listing {
            let way = self.keep(way);
            // The kernel lists them in its order.
            let mut list = self.of((table, dest)).to_vec();
            list.push(way);
            self.put((table, dest), list);
        }
        self.let_go();
        let same = |a: &[Arc<RouteWay>], b: &[Arc<RouteWay>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
        };
        let is_new = |(key, ways): &(&RouteKey, &Ways)| {
            before.get(*key).is_none_or(|old| !same(old.list(), ways.list()))
        };
        let changed = self.routes.iter().filter(is_new).map(|(key, _)| *key);
        let gone = before.keys().filter(|key| !self.routes.contains_key(*key)).copied();
        changed.chain(gone).collect()
    }

    /// Follows one message. `false`: it does not fit what is here, and the routes must be listed anew.
    pub(crate) fn apply(&mut self, change: RouteChange, route: FibRoute) -> bool {
        let key = (route.table, route.dest);
        let way = self.keep(route.way);
        let mut list = self.of(key).to_vec();
        let fits = if route.dest.addr().is_ipv4() {
            apply_v4(&mut list, change, way)
        } else {
            apply_v6(&mut list, change, way)
        };
        self.put(key, list);
        self.let_go();
        fits
    }

    fn put(&mut self, key: RouteKey, mut list: Vec<Arc<RouteWay>>) {
        match list.len() {
            0 => drop(self.routes.remove(&key)),
            1 => drop(self.routes.insert(key, Ways::One(list.remove(0)))),
            _ => drop(self.routes.insert(key, Ways::Several(list.into()))),
        }
    }

    /// The one that is kept of ways like this.
    pub(crate) fn keep(&mut self, way: Arc<RouteWay>) -> Arc<RouteWay> {
        let way = match way.object.and_then(|id| self.next_hops.of(id)) {
            // The message has what the kernel looks at, if it has it.
            Some(hops) if way.next_hops.is_empty() && !hops.is_empty() => {
                Arc::new(RouteWay { next_hops: hops, ..(*way).clone() })
            }
            Some(hops) if hops.is_empty() => {
                Arc::new(RouteWay { kind: RouteKind::Blackhole, ..(*way).clone() })
            }
            _ => way,
        };
        if let Some(known) = self.known.get(&way) {
            return known.clone();
        }
        self.known.insert(way.clone());
        way
    }

    fn let_go(&mut self) {
        if self.known.len() >= self.known.capacity() && self.known.len() > SLACK {
            self.known.retain(|way| Arc::strong_count(way) > 1);
        }
    }
}

/// Whether two are the same but for what the state of links makes of them.
fn is_same(a: &RouteWay, b: &RouteWay) -> bool {
    let hop = |a: &NextHop, b: &NextHop| (a.via, a.ifindex, a.weight) == (b.via, b.ifindex, b.weight);
    let hops = || {
        a.next_hops.len() == b.next_hops.len() && a.next_hops.iter().zip(&b.next_hops).all(|(a, b)| hop(a, b))
    };
    let of = |way: &RouteWay| (way.kind, way.metric, way.tos, way.from, way.object);
    of(a) == of(b) && (a.object.is_some() || hops())
}

fn apply_v4(list: &mut Vec<Arc<RouteWay>>, change: RouteChange, way: Arc<RouteWay>) -> bool {
    let rank = |way: &RouteWay| (u8::MAX - way.tos, way.metric);
    let first = list.partition_point(|other| rank(other) < rank(&way));
    let end = list.partition_point(|other| rank(other) <= rank(&way));
    match change {
        RouteChange::Added => list.insert(first, way),
        RouteChange::Appended => list.insert(end, way),
        RouteChange::Replaced if first < end => list[first] = way,
        RouteChange::Replaced => return false,
        RouteChange::Deleted => match list.iter().position(|other| is_same(other, &way)) {
            Some(at) => drop(list.remove(at)),
            None => return false,
        },
    }
    true
}

/// As `fib6_add_rt2node` and `fib6_del_route` of the kernel do it, as far as their messages say.
///
/// Routes with gateways join to one of several next hops that stands where its first one does, and a message about one of them
/// names them all. Those that router advertisements bring join nothing, which no message says but by not naming the others.
fn apply_v6(list: &mut Vec<Arc<RouteWay>>, change: RouteChange, way: Arc<RouteWay>) -> bool {
    let joins = |way: &RouteWay| {
        way.kind == RouteKind::Unicast
            && way.object.is_none()
            && way.next_hops.iter().all(|hop| hop.via.is_some())
    };
    let has_key = |other: &RouteWay| (other.from, other.metric) == (way.from, way.metric);
    let equals = list.iter().filter(|other| has_key(other)).count();
    let are_of = |some: &RouteWay, all: &RouteWay| {
        let is_of =
            |hop: &NextHop| all.next_hops.iter().any(|h| (h.via, h.ifindex) == (hop.via, hop.ifindex));
        joins(some) && joins(all) && some.next_hops.iter().all(is_of)
    };
    let names = |other: &RouteWay| has_key(other) && (is_same(other, &way) || are_of(&way, other));
    // Where several could be meant, and where the others of a joined one stand among its equals, only a listing tells.
    match change {
        RouteChange::Deleted => {
            let mut named = (0..list.len()).filter(|&at| names(&list[at]));
            let (Some(at), None) = (named.next(), named.next()) else { return false };
            // Between joined ones others may stand that no listing shows: whoever began with one does not know of them.
            let shows_all = list[at].next_hops.len() < 2;
            if is_same(&list[at], &way) {
                list.remove(at);
                return shows_all;
            }
            let goes = |hop: &NextHop| {
                way.next_hops.iter().any(|gone| (gone.via, gone.ifindex) == (hop.via, hop.ifindex))
            };
            let stay: Vec<_> = list[at].next_hops.iter().filter(|hop| !goes(hop)).cloned().collect();
            if stay.is_empty() {
                list.remove(at);
            } else {
                list[at] = Arc::new(RouteWay { next_hops: stay, ..(*list[at]).clone() });
            }
            return false;
        }
        RouteChange::Replaced if equals > 0 => {
            let mut replaced =
                (0..list.len()).filter(|&at| has_key(&list[at]) && joins(&list[at]) == joins(&way));
            let (Some(at), None) = (replaced.next(), replaced.next()) else { return false };
            let shows_all = list[at].next_hops.len() < 2;
            list[at] = way;
            return shows_all;
        }
        RouteChange::Replaced | RouteChange::Added | RouteChange::Appended => {
            let is_old = |other: &RouteWay| has_key(other) && (is_same(other, &way) || are_of(other, &way));
            let old = list.iter().position(|other| is_old(other));
            list.retain(|other| !is_old(other));
            // Behind its equals. Those of other sources stand apart, in whatever order.
            let later = |other: &Arc<RouteWay>| other.from == way.from && other.metric > way.metric;
            let end = list.iter().position(later).unwrap_or(list.len());
            list.insert(old.unwrap_or(end), way);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(gateways: &[&str]) -> FibRoute {
        let hop = |gateway: &&str| NextHop {
            via: Some(gateway.parse().unwrap()),
            ifindex: 2,
            weight: 1,
            unusable: false,
            encapsulated: false,
        };
        let way = RouteWay {
            next_hops: gateways.iter().map(hop).collect(),
            object: None,
            kind: RouteKind::Unicast,
            metric: 1024,
            source_hint: None,
            from: None,
            tos: 0,
            mtu: None,
        };
        FibRoute { dest: "::/0".parse().unwrap(), table: 254, way: Arc::new(way) }
    }

    #[test]
    fn default_routes_of_two_advertising_routers_stand_apart_from_each_other_and_from_a_joined_one() {
        let (one, other) = (by(&["fe80::1"]), by(&["fe80::2"]));
        let mut table = RouteTable::default();
        // Messages of the kernel: what joins names the others, what an advertisement brought does not.
        assert!(table.apply(RouteChange::Added, one.clone()));
        assert!(table.apply(RouteChange::Added, other.clone()));
        assert_eq!(table.iter().collect::<Vec<_>>(), [one.clone(), other.clone()]);
        assert!(table.apply(RouteChange::Added, by(&["fe80::3"])));
        assert!(table.apply(RouteChange::Appended, by(&["fe80::4", "fe80::3"])));
        let joined = by(&["fe80::4", "fe80::3"]);
        assert_eq!(table.iter().collect::<Vec<_>>(), [one.clone(), other.clone(), joined.clone()]);
        // The first router's lifetime ends.
        assert!(table.apply(RouteChange::Deleted, one));
        assert_eq!(table.iter().collect::<Vec<_>>(), [other, joined]);
        // Where the rest of it stands among its equals is not said.
        assert!(!table.apply(RouteChange::Deleted, by(&["fe80::3"])));
    }
}
