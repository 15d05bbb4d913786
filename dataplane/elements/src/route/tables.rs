//! Routes and rules as they are kept beside the packets' path, and the [`Fib`] that is made of them.
//!
//! A change costs what it changes: the prefix's slots in a trie, one entry of a map, and the pointers that the old and the
//! new [`Fib`] do not share.

use super::fib::{Action, Fib, Limited, NextHop, Origin, Route, RouteKind, View};
use super::policy::Rule;
use super::trie::{Growing, MAX_VALUE, Match};
use hashbrown::HashMap;
use ipnet::IpNet;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Routes and rules of a router.
#[derive(Debug)]
pub struct Tables {
    /// By number; the main one is always there.
    tables: BTreeMap<u32, Table>,
    rules: [Arc<[Rule]>; 2],
    ways: Ways,
    /// Destinations with routes that found no room here, by table.
    left_out: BTreeSet<(u32, IpNet)>,
    /// Those whose routes are here and found no room where packets look.
    unseen: BTreeSet<(u32, IpNet)>,
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Routes of one table that are limited to sources or types of service: the others of them are left out.
    pub const MAX_LIMITED: usize = 1024;
    /// Tables: routes of others are left out.
    pub const MAX_TABLES: usize = 256;

    /// No route, no rule.
    pub fn new() -> Self {
        let tables = BTreeMap::from([(Fib::MAIN, Table::new())]);
        Self {
            tables,
            rules: [Arc::new([]), Arc::new([])],
            ways: Ways::new(),
            left_out: BTreeSet::new(),
            unseen: BTreeSet::new(),
        }
    }

    /// Other rules; they are sorted by priority, those of one priority stay in order. None of a family: its main table
    /// decides.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        let (mut v6, mut v4): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| rule.v6);
        for (slot, rules) in self.rules.iter_mut().zip([&mut v4, &mut v6]) {
            rules.sort_by_key(|rule| rule.priority);
            *slot = std::mem::take(rules).into();
        }
    }

    /// Replaces all routes of one origin. O(routes).
    pub fn replace(&mut self, origin: Origin, routes: Vec<Route>) {
        let others: Vec<Route> = self.routes().filter(|route| route.origin != origin).collect();
        let rules = std::mem::take(&mut self.rules);
        *self = Self { rules, ..Self::new() };
        for route in others.into_iter().chain(routes) {
            let (table, dest) = (route.table, route.dest.trunc());
            self.add(route);
            self.settle(table, dest);
        }
    }

    /// Replaces the routes of one origin to one destination in one table: all of them are in `routes`. O(1) but for the
    /// slots of the destination.
    pub fn set(
        &mut self,
        (table, dest, origin): (u32, IpNet, Origin),
        routes: impl IntoIterator<Item = Route>,
    ) {
        let dest = dest.trunc();
        self.left_out.remove(&(table, dest));
        if let Some(of) = self.tables.get_mut(&table) {
            of.remove(dest, origin, &mut self.ways);
        }
        routes.into_iter().for_each(|route| self.add(Route { table, dest, origin, ..route }));
        self.settle(table, dest);
        let is_empty = |of: &Table| of.routes.is_empty() && of.limited.is_empty();
        if table != Fib::MAIN && self.tables.get(&table).is_some_and(is_empty) {
            self.tables.remove(&table);
        }
    }

    fn add(&mut self, route: Route) {
        let key = (route.table, route.dest.trunc());
        if !self.take(route) {
            self.left_out.insert(key);
        }
    }

    /// Whether there is room for the route.
    fn take(&mut self, route: Route) -> bool {
        let Route { table, dest, from, tos, kind, metric, origin } = route;
        let dest = dest.trunc();
        if !self.tables.contains_key(&table) && self.tables.len() >= Self::MAX_TABLES {
            return false;
        }
        let table = self.tables.entry(table).or_insert_with(Table::new);
        let is_limited = tos != 0 || from.is_some_and(|from| from.prefix_len() > 0);
        if is_limited && table.limited.len() >= Self::MAX_LIMITED {
            return false;
        }
        let Some(way) = self.ways.hold(kind, origin) else { return false };
        if is_limited {
            let mut limited = table.limited.to_vec();
            limited.push(Limited { dest, from, tos, metric, way });
            let shorter = |net: IpNet| u8::MAX - net.prefix_len();
            limited.sort_by_key(|l| {
                (shorter(l.dest), l.from.map_or(u8::MAX, shorter), u8::MAX - l.tos, l.metric)
            });
            table.limited = limited.into();
        } else {
            let new = Candidate { metric, way };
            let rank = |c: Candidate| (self.ways.get(c.way).1, c.metric);
            match table.routes.entry(dest) {
                Entry::Vacant(none) => drop(none.insert(Candidates::One(new))),
                Entry::Occupied(mut some) => {
                    let mut list = some.get().list().to_vec();
                    // Behind its equals: the first given wins.
                    list.insert(list.partition_point(|c| rank(*c) <= rank(new)), new);
                    some.insert(Candidates::Several(list.into()));
                }
            }
        }
        true
    }

    /// Writes what wins for a destination to where packets find it.
    fn settle(&mut self, table: u32, dest: IpNet) {
        let Some(of) = self.tables.get_mut(&table) else { return };
        let unseen = &mut self.unseen;
        unseen.remove(&(table, dest));
        if !of.settle(dest, |shorter| unseen.contains(&(table, shorter))) {
            unseen.insert((table, dest));
        }
    }

    /// All routes, by table and destination. Those to one destination in the order in which they win.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.tables.iter().flat_map(move |(table, of)| {
            let plain =
                of.routes.iter().flat_map(|(dest, all)| all.list().iter().map(move |c| (*dest, None, 0, *c)));
            let limited = of
                .limited
                .iter()
                .map(|l| (l.dest, l.from, l.tos, Candidate { metric: l.metric, way: l.way }));
            plain.chain(limited).map(move |(dest, from, tos, Candidate { metric, way })| {
                let (kind, origin) = self.ways.get(way);
                Route { table: *table, dest, from, tos, kind: kind.clone(), metric, origin }
            })
        })
    }

    /// The table for packets.
    pub fn fib(&mut self) -> Arc<Fib> {
        self.ways.refresh();
        let view = |(id, table): (&u32, &Table)| View {
            id: *id,
            v4: table.v4.snapshot(),
            v6: table.v6.snapshot(),
            defaults: table.defaults,
            limited: table.limited.clone(),
        };
        let main = view((&Fib::MAIN, &self.tables[&Fib::MAIN]));
        let others = self.tables.iter().filter(|(id, _)| **id != Fib::MAIN).map(view).collect();
        let plain = self.rules.iter().all(|rules| rules.is_empty()) && main.limited.is_empty();
        let count = |table: &Table| table.routes.len() + table.limited.len();
        let made = &self.ways.made;
        Arc::new(Fib {
            main,
            others,
            rules: self.rules.clone(),
            plain,
            actions: made.actions.clone(),
            origins: made.origins.clone(),
            members: made.members.clone(),
            next_hops: made.next_hops.clone(),
            routes: self.tables.values().map(count).sum(),
            refused: self.left_out.union(&self.unseen).count(),
        })
    }
}

/// One table.
#[derive(Debug)]
struct Table {
    /// Routes for all packets to a destination.
    routes: BTreeMap<IpNet, Candidates>,
    v4: Growing,
    v6: Growing,
    defaults: [u32; 2],
    limited: Arc<[Limited]>,
}

/// A route to some destination; small, because there are many.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    metric: u32,
    way: u32,
}

/// Routes to one destination, the one that wins first.
#[derive(Debug)]
enum Candidates {
    One(Candidate),
    Several(Box<[Candidate]>),
}

impl Candidates {
    fn list(&self) -> &[Candidate] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

impl Table {
    fn new() -> Self {
        let (v4, v6) = (Growing::new(), Growing::new());
        Self { routes: BTreeMap::new(), v4, v6, defaults: [0; 2], limited: Arc::new([]) }
    }

    fn remove(&mut self, dest: IpNet, origin: Origin, ways: &mut Ways) {
        let goes = |way: u32, ways: &Ways| ways.get(way).1 == origin;
        if self.limited.iter().any(|l| l.dest == dest && goes(l.way, ways)) {
            let (gone, stay): (Vec<_>, Vec<_>) =
                self.limited.iter().cloned().partition(|l| l.dest == dest && goes(l.way, ways));
            gone.iter().for_each(|l| ways.release(l.way));
            self.limited = stay.into();
        }
        let Some(all) = self.routes.get(&dest) else { return };
        let (gone, stay): (Vec<_>, Vec<_>) = all.list().iter().partition(|c| goes(c.way, ways));
        gone.iter().for_each(|c: &Candidate| ways.release(c.way));
        match stay[..] {
            [] => drop(self.routes.remove(&dest)),
            [one] => drop(self.routes.insert(dest, Candidates::One(one))),
            _ => drop(self.routes.insert(dest, Candidates::Several(stay.into()))),
        }
    }

    /// Writes what wins for a destination; `false`: there is no room for it.
    fn settle(&mut self, dest: IpNet, is_unseen: impl Fn(IpNet) -> bool) -> bool {
        let way = self.routes.get(&dest).map_or(0, |all| all.list()[0].way);
        let length = dest.prefix_len();
        if length == 0 {
            self.defaults[usize::from(dest.addr().is_ipv6())] = way;
            return true;
        }
        let cover = || {
            (1..length).rev().find_map(|length| {
                let shorter = IpNet::new(dest.addr(), length).ok()?.trunc();
                let all = self.routes.get(&shorter).filter(|_| !is_unseen(shorter))?;
                Some(Match { value: all.list()[0].way, length })
            })
        };
        let cover = if way == 0 { cover() } else { None };
        let (trie, key) = match dest.addr() {
            IpAddr::V4(a) => (&mut self.v4, &a.octets()[..]),
            IpAddr::V6(a) => (&mut self.v6, &a.octets()[..]),
        };
        if way == 0 {
            trie.unset(key, length, cover);
            return true;
        }
        trie.set(key, length, way)
    }
}

/// What routes do, each once.
#[derive(Debug)]
struct Ways {
    numbers: HashMap<(RouteKind, Origin), u32, foldhash::fast::FixedState>,
    /// What each does, and for how many routes. Way 0 is "no route".
    all: Vec<(RouteKind, Origin, u32)>,
    free: Vec<u32>,
    /// Whether `made` is of other ways.
    stale: bool,
    made: Made,
}

/// Ways as packets meet them.
#[derive(Debug)]
struct Made {
    actions: Arc<[Action]>,
    origins: Arc<[Origin]>,
    members: Arc<[u32]>,
    next_hops: Arc<[NextHop]>,
}

impl Ways {
    fn new() -> Self {
        Self {
            numbers: HashMap::default(),
            all: vec![(RouteKind::Throw, Origin::Kernel, 1)],
            free: Vec::new(),
            stale: false,
            made: Made {
                actions: Arc::new([Action::NoRoute]),
                origins: Arc::new([Origin::Kernel]),
                members: Arc::new([]),
                next_hops: Arc::new([]),
            },
        }
    }

    fn get(&self, way: u32) -> (&RouteKind, Origin) {
        let (kind, origin, _) = &self.all[way as usize];
        (kind, *origin)
    }

    /// The number of a way, for one more route; none is left beyond [`MAX_VALUE`].
    fn hold(&mut self, kind: RouteKind, origin: Origin) -> Option<u32> {
        let key = (kind, origin);
        if let Some(way) = self.numbers.get(&key) {
            self.all[*way as usize].2 += 1;
            return Some(*way);
        }
        let new = (key.0.clone(), origin, 1);
        let way = match self.free.pop() {
            Some(way) => {
                self.all[way as usize] = new;
                way
            }
            None if self.all.len() > MAX_VALUE as usize => return None,
            None => {
                self.all.push(new);
                self.all.len() as u32 - 1
            }
        };
        self.numbers.insert(key, way);
        self.stale = true;
        Some(way)
    }

    fn release(&mut self, way: u32) {
        let (kind, origin, held) = &mut self.all[way as usize];
        *held -= 1;
        if *held == 0 {
            self.numbers.remove(&(kind.clone(), *origin));
            *kind = RouteKind::Throw;
            self.free.push(way);
            self.stale = true;
        }
    }

    /// O(ways), when one has come or gone.
    fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let (mut members, mut next_hops) = (Vec::new(), Vec::new());
        let mut known: HashMap<NextHop, u32, foldhash::fast::FixedState> = HashMap::default();
        let mut action = |(kind, _, held): &(RouteKind, Origin, u32)| {
            if *held == 0 {
                return Action::NoRoute;
            }
            let hops = match kind {
                RouteKind::Unicast { next_hops } => next_hops,
                RouteKind::Local => return Action::Local,
                RouteKind::Kernel => return Action::Kernel,
                RouteKind::Broadcast => return Action::Broadcast,
                RouteKind::Blackhole => return Action::Blackhole,
                RouteKind::Unreachable => return Action::Unreachable,
                RouteKind::Prohibit => return Action::Prohibit,
                RouteKind::Throw => return Action::Throw,
            };
            let first = members.len();
            for hop in hops.iter().take(Fib::MAX_NEXT_HOPS) {
                members.push(*known.entry(*hop).or_insert_with(|| {
                    next_hops.push(*hop);
                    next_hops.len() as u32 - 1
                }));
            }
            match members[first..] {
                [] => Action::Unreachable,
                [one] => {
                    members.truncate(first);
                    Action::Hop(one)
                }
                ref several => Action::Group { first: first as u32, count: several.len() as u16 },
            }
        };
        let mut actions: Vec<Action> = self.all.iter().map(&mut action).collect();
        actions[0] = Action::NoRoute;
        let origins = self.all.iter().map(|way| way.1).collect();
        self.made =
            Made { actions: actions.into(), origins, members: members.into(), next_hops: next_hops.into() };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, Asked, Then};
    use super::*;
    use perhop_packet::PortId;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn hop(n: u16) -> NextHop {
        NextHop::new(Some(Ipv4Addr::new(10, 0, 0, n as u8).into()), PortId(n))
    }

    fn kinds() -> impl Strategy<Value = RouteKind> {
        prop_oneof![
            proptest::collection::vec(0u16..6, 0..4)
                .prop_map(|hops| RouteKind::Unicast { next_hops: hops.into_iter().map(hop).collect() }),
            Just(RouteKind::Local),
            Just(RouteKind::Kernel),
            Just(RouteKind::Blackhole),
            Just(RouteKind::Unreachable),
            Just(RouteKind::Prohibit),
            Just(RouteKind::Broadcast),
            Just(RouteKind::Throw),
        ]
    }

    /// A packet that has nothing but a destination.
    fn about(dst: IpAddr) -> Asked {
        let src = if dst.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        Asked { src, dst, in_port: PortId::NONE, tos: 0, protocol: 0, ports: [0; 2] }
    }

    /// A rule for all packets of one family.
    fn to_table(v6: bool, priority: u32, table: u32) -> Rule {
        Rule {
            v6,
            priority,
            inverted: false,
            never: false,
            from: None,
            to: None,
            arrives: Arrival::Anywhere,
            tos: 0,
            dscp: None,
            protocol: None,
            source_ports: None,
            dest_ports: None,
            then: Then::Table { table, suppress: None },
            said: "".into(),
        }
    }

    /// Few distinct octets, so that prefixes nest and addresses hit them.
    fn octets<const N: usize>() -> impl Strategy<Value = [u8; N]> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(10), Just(11), Just(255), any::<u8>()], N)
            .prop_map(|v| v.try_into().expect("N octets"))
    }

    fn destinations() -> impl Strategy<Value = IpNet> {
        let v4 = (octets::<4>(), 0u8..=32)
            .prop_map(|(a, l)| IpNet::new(Ipv4Addr::from(a).into(), l).expect("length in range"));
        let v6 = (octets::<16>(), 0u8..=128)
            .prop_map(|(a, l)| IpNet::new(Ipv6Addr::from(a).into(), l).expect("length in range"));
        prop_oneof![v4, v6]
    }

    fn routes() -> impl Strategy<Value = Vec<Route>> {
        let from = proptest::option::weighted(0.2, destinations());
        let route = (destinations(), from, kinds(), 0u32..3, any::<bool>(), 0u32..2);
        let route = route.prop_map(|(dest, from, kind, metric, object, table)| {
            let table = Fib::MAIN + if object { 0 } else { table };
            let from = from.filter(|from| from.addr().is_ipv4() == dest.addr().is_ipv4());
            let origin = if object { Origin::Object } else { Origin::Kernel };
            Route { table, from, metric, origin, ..Route::new(dest, kind) }
        });
        proptest::collection::vec(route, 0..40)
    }

    /// Longest destination, then longest source, then objects (routes limited to sources do not ask), then metric, then
    /// order, by looking at every route.
    fn scan<'a>(routes: &'a [Route], table: u32, asked: &Asked) -> Option<&'a Route> {
        let fits = |r: &&Route| {
            r.table == table
                && r.dest.contains(&asked.dst)
                && r.from.is_none_or(|from| from.contains(&asked.src))
        };
        let source = |r: &Route| r.from.map_or(0, |from| from.prefix_len());
        let origin = |r: &Route| source(r) == 0 && r.origin != Origin::Object;
        routes
            .iter()
            .filter(fits)
            .min_by_key(|r| (std::cmp::Reverse((r.dest.prefix_len(), source(r))), origin(r), r.metric))
    }

    fn does(fib: &Fib, action: Action, kind: Option<&RouteKind>) -> bool {
        match (action, kind) {
            (Action::NoRoute, None | Some(RouteKind::Throw))
            | (Action::Local, Some(RouteKind::Local))
            | (Action::Kernel, Some(RouteKind::Kernel))
            | (Action::Broadcast, Some(RouteKind::Broadcast))
            | (Action::Blackhole, Some(RouteKind::Blackhole))
            | (Action::Unreachable, Some(RouteKind::Unreachable))
            | (Action::Prohibit, Some(RouteKind::Prohibit)) => true,
            (Action::Unreachable, Some(RouteKind::Unicast { next_hops })) => next_hops.is_empty(),
            (Action::Hop(h), Some(RouteKind::Unicast { next_hops })) => {
                **next_hops == [fib.next_hops()[h as usize]]
            }
            (Action::Group { first, count }, Some(RouteKind::Unicast { next_hops })) => {
                let step = (1u64 << 32) / u64::from(count);
                let hashes = (0..u64::from(count)).map(|i| (i * step + step / 2) as u32);
                let taken: Vec<_> =
                    hashes.map(|h| fib.next_hops()[fib.member(first, count, h) as usize]).collect();
                taken == **next_hops
            }
            _ => false,
        }
    }

    /// What a table made at once and one that got and lost each of its routes alone say of the same packets.
    fn check(list: &[Route], tables: &mut Tables, probes: &[Asked]) -> Result<(), TestCaseError> {
        let fib = tables.fib();
        for asked in probes {
            let main = scan(list, Fib::MAIN, asked).map(|r| &r.kind);
            let other = scan(list, Fib::MAIN + 1, asked).map(|r| &r.kind);
            let through = |kind: Option<&RouteKind>| kind.is_none_or(|kind| *kind == RouteKind::Throw);
            // The rules say: what the first network sends, the other table; then the main one.
            let first = asked.src.is_ipv4() && asked.in_port == PortId(3) && !through(other);
            let expected = if first { other } else { main };
            prop_assert!(does(&fib, fib.decide(asked), expected), "{asked:?}: expected {expected:?}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_longest_match_wins_in_the_table_that_a_rule_names(
            list in routes(), gone in routes(), sources in proptest::collection::vec(octets::<4>(), 4),
            v4 in proptest::collection::vec(octets::<4>(), 20), v6 in proptest::collection::vec(octets::<16>(), 20),
        ) {
            let edges = list.iter().flat_map(|r| [r.dest.network(), r.dest.broadcast(), r.dest.addr()]);
            let random = v4.into_iter().map(|a| IpAddr::from(Ipv4Addr::from(a)));
            let random = random.chain(v6.into_iter().map(|a| IpAddr::from(Ipv6Addr::from(a))));
            let from = list.iter().filter_map(|r| Some(r.from?.addr()));
            let from: Vec<IpAddr> = from.chain(sources.into_iter().map(|a| Ipv4Addr::from(a).into())).collect();
            let probes: Vec<Asked> = random.chain(edges).enumerate().map(|(i, dst)| {
                let of_family = from.iter().filter(|a| a.is_ipv4() == dst.is_ipv4()).nth(i % 3);
                let src = of_family.copied().unwrap_or(about(dst).src);
                Asked { src, in_port: PortId(3 + i as u16 % 2), ..about(dst) }
            }).collect();
            let rules = [
                Rule { arrives: Arrival::Ports([PortId(3)].into()), ..to_table(false, 5, Fib::MAIN + 1) },
                to_table(false, 9, Fib::MAIN),
            ];

            let mut at_once = Tables::new();
            at_once.set_rules(rules.to_vec());
            at_once.replace(Origin::Kernel, list.iter().filter(|r| r.origin == Origin::Kernel).cloned().collect());
            at_once.replace(Origin::Object, list.iter().filter(|r| r.origin == Origin::Object).cloned().collect());
            check(&list, &mut at_once, &probes)?;

            // The same by way of others, one destination at a time.
            let mut slowly = Tables::new();
            slowly.set_rules(rules.to_vec());
            for of in [&gone, &list] {
                for key in gone.iter().chain(&list).map(|r| (r.table, r.dest.trunc(), r.origin)) {
                    let those = of.iter().filter(|r| (r.table, r.dest.trunc(), r.origin) == key).cloned();
                    slowly.set(key, those.collect::<Vec<_>>());
                }
            }
            check(&list, &mut slowly, &probes)?;
            prop_assert_eq!(slowly.fib().routes(), at_once.fib().routes());
            prop_assert_eq!(slowly.ways.numbers.len(), at_once.ways.numbers.len(), "ways nobody takes are let go");
        }
    }

    #[test]
    fn next_hops_are_shared_between_routes_and_a_default_route_costs_no_slot() {
        let unicast = |dest: &str, hops: &[u16]| {
            let next_hops = hops.iter().copied().map(hop).collect();
            Route::new(dest.parse().unwrap(), RouteKind::Unicast { next_hops })
        };
        let mut tables = Tables::new();
        tables.replace(Origin::Kernel, vec![unicast("10.0.0.0/8", &[1]), unicast("11.0.0.0/8", &[2, 1])]);
        let fib = tables.fib();
        assert_eq!((fib.next_hops().len(), fib.refused(), fib.routes()), (2, 0, 2));
        assert_eq!(fib.plain_v4([12, 0, 0, 1]), Some(Action::NoRoute));
        let all: IpNet = "0.0.0.0/0".parse().unwrap();
        tables.set((Fib::MAIN, all, Origin::Kernel), [unicast("0.0.0.0/0", &[1])]);
        let with = tables.fib();
        assert_eq!(with.plain_v4([12, 0, 0, 1]), with.plain_v4([10, 0, 0, 1]));
        assert_eq!(fib.plain_v4([12, 0, 0, 1]), Some(Action::NoRoute), "the earlier one is as it was");
        tables.set((Fib::MAIN, all, Origin::Kernel), []);
        assert_eq!(tables.fib().plain_v4([12, 0, 0, 1]), Some(Action::NoRoute));
    }

    #[test]
    fn what_finds_no_room_is_counted_until_it_goes() {
        let mut tables = Tables::new();
        let route = |n: u32| {
            let dest = IpNet::new(Ipv4Addr::from(n << 8).into(), 24).unwrap();
            Route { from: Some("10.0.0.0/8".parse().unwrap()), ..Route::new(dest, RouteKind::Local) }
        };
        tables.replace(Origin::Kernel, (0..Tables::MAX_LIMITED as u32 + 2).map(route).collect());
        assert_eq!(tables.fib().refused(), 2);
        let last = route(Tables::MAX_LIMITED as u32 + 1).dest;
        tables.set((Fib::MAIN, last, Origin::Kernel), []);
        assert_eq!(tables.fib().refused(), 1);
    }

    #[test]
    fn a_route_for_some_sources_that_finds_no_room_hides_none_for_all() {
        let mut tables = Tables::new();
        let all = |dest: &str, kind| Route::new(dest.parse().unwrap(), kind);
        let some = |dest: &str| Route {
            from: Some("10.0.0.0/8".parse().unwrap()),
            ..all(dest, RouteKind::Blackhole)
        };
        let full = (0..Tables::MAX_LIMITED).map(|n| some(&format!("11.{}.{}.0/24", n / 256, n % 256)));
        let routes = full.chain([all("20.0.0.0/8", RouteKind::Prohibit), some("20.0.0.0/8")]);
        tables.replace(Origin::Kernel, routes.collect());
        assert_eq!(tables.fib().refused(), 1);
        let inner = all("20.1.0.0/16", RouteKind::Local);
        let key = (Fib::MAIN, inner.dest, Origin::Kernel);
        tables.set(key, [inner]);
        tables.set(key, []);
        let (src, dst) = ("12.0.0.1".parse().unwrap(), "20.1.0.1".parse().unwrap());
        let asked = Asked { src, dst, in_port: PortId(0), tos: 0, protocol: 17, ports: [0; 2] };
        assert_eq!(tables.fib().find(&asked).action, Action::Prohibit, "what covered it does again");
    }
}
