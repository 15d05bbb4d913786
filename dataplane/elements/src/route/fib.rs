//! The forwarding table: longest-prefix match for IPv4 and IPv6.
//!
//! Each family has one trie of fixed strides: 16 bits at the root, 8 bits below. A prefix that ends inside a stride is
//! written into every slot it covers, and a new node starts as a copy of the slot it replaces, so that a look-up
//! never goes back: at most 3 dependent loads for IPv4 and 15 for IPv6 (7 for a /64). A table is built once, outside
//! the packet path, shared and never changed; a change is a new table and a swap of pointers.
//!
//! Source: RFC 1812 §5.2.4.3 (longest match, metrics), V. Srinivasan and G. Varghese, "Fast address lookups using
//! controlled prefix expansion", ACM TOCS 17(1), 1999.

use hashbrown::HashMap;
use ipnet::IpNet;
use perhop_packet::PortId;
use std::net::IpAddr;
use std::sync::Arc;

/// Who asks for a route. Routes of objects win over the kernel's for the same destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A route object of the router's configuration.
    Object,
    /// The kernel's table, whoever filled it.
    Kernel,
}

/// One way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The gateway, of either family; `None`: the destination itself is on the link.
    pub via: Option<IpAddr>,
    /// The port towards it.
    pub port: PortId,
}

/// What a route does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Forwards to one of these; several share flows evenly, one listed twice takes twice its share. None at all is
    /// as [`RouteKind::Unreachable`]; those past [`Fib::MAX_NEXT_HOPS`] are not used.
    Unicast {
        /// The next hops.
        next_hops: Vec<NextHop>,
    },
    /// An address of this machine.
    Local,
    /// Drops without a word.
    Blackhole,
    /// Drops; the sender is told that the network is unreachable.
    Unreachable,
    /// Drops; the sender is told that it is prohibited.
    Prohibit,
    /// A broadcast address of a link: for this machine, never forwarded (RFC 2644).
    Broadcast,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations; host bits do not matter.
    pub dest: IpNet,
    /// What happens to packets for them.
    pub kind: RouteKind,
    /// Of routes with equal destination and origin the lowest wins, then the first given.
    pub metric: u32,
    /// Who asks for it.
    pub origin: Origin,
}

/// The outcome of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No route.
    NoRoute,
    /// This next hop, as an index into [`Fib::next_hops`].
    Hop(u32),
    /// One of `count` next hops, whose indices start at `first` in [`Fib::member`].
    Group {
        /// First member.
        first: u32,
        /// Members, at least 2.
        count: u16,
    },
    /// As [`RouteKind::Local`].
    Local,
    /// As [`RouteKind::Broadcast`].
    Broadcast,
    /// As [`RouteKind::Blackhole`].
    Blackhole,
    /// As [`RouteKind::Unreachable`].
    Unreachable,
    /// As [`RouteKind::Prohibit`].
    Prohibit,
}

/// A forwarding table.
#[derive(Debug)]
pub struct Fib {
    v4: Trie,
    v6: Trie,
    /// Slot value − 1 = index into `routes`; `actions[0]` is "no route".
    actions: Vec<Action>,
    routes: Vec<Route>,
    next_hops: Vec<NextHop>,
    members: Vec<u32>,
    refused: usize,
}

impl Fib {
    /// Next hops of one route that are used.
    pub const MAX_NEXT_HOPS: usize = 256;
    /// Nodes of 1 KiB a family may have.
    pub const MAX_NODES: usize = 1 << 18;

    /// Builds a table. Of several routes to one destination the best is kept, see [`Route::metric`]. Routes that would
    /// need more than [`Fib::MAX_NODES`] are left out and counted ([`Fib::refused`]). O(routes × log routes), and
    /// writes up to 2¹⁶ slots a prefix shorter than /16; not for the packet path.
    pub fn build(mut routes: Vec<Route>) -> Arc<Self> {
        for route in &mut routes {
            route.dest = route.dest.trunc();
        }
        // Shorter prefixes first: the trie's fill relies on it.
        routes.sort_by_key(|r| (r.dest.prefix_len(), r.dest, r.origin, r.metric));
        routes.dedup_by(|later, kept| later.dest == kept.dest);
        let mut fib = Self {
            v4: Trie::new(),
            v6: Trie::new(),
            actions: vec![Action::NoRoute],
            routes: Vec::with_capacity(routes.len()),
            next_hops: Vec::new(),
            members: Vec::new(),
            refused: 0,
        };
        let mut known = HashMap::with_hasher(foldhash::fast::FixedState::default());
        for route in routes {
            let value = fib.actions.len() as u32;
            let length = usize::from(route.dest.prefix_len());
            let fits = match route.dest.addr() {
                IpAddr::V4(a) => fib.v4.insert(&a.octets(), length, value),
                IpAddr::V6(a) => fib.v6.insert(&a.octets(), length, value),
            };
            if !fits {
                fib.refused += 1;
                continue;
            }
            let action = fib.action_of(&route.kind, &mut known);
            fib.actions.push(action);
            fib.routes.push(route);
        }
        assert!(fib.actions.len() < CHILD as usize, "a slot has one bit less for a route than a number");
        assert_eq!(fib.actions.len(), fib.routes.len() + 1, "a slot's number is that of its route, plus one");
        Arc::new(fib)
    }

    fn action_of(&mut self, kind: &RouteKind, known: &mut KnownHops) -> Action {
        let next_hops = match kind {
            RouteKind::Unicast { next_hops } => next_hops,
            RouteKind::Local => return Action::Local,
            RouteKind::Broadcast => return Action::Broadcast,
            RouteKind::Blackhole => return Action::Blackhole,
            RouteKind::Unreachable => return Action::Unreachable,
            RouteKind::Prohibit => return Action::Prohibit,
        };
        let first = self.members.len();
        for hop in next_hops.iter().take(Self::MAX_NEXT_HOPS) {
            let all = &mut self.next_hops;
            let index = *known.entry(*hop).or_insert_with(|| {
                all.push(*hop);
                all.len() as u32 - 1
            });
            self.members.push(index);
        }
        match self.members[first..] {
            [] => Action::Unreachable,
            [one] => {
                self.members.truncate(first);
                Action::Hop(one)
            }
            ref several => Action::Group { first: first as u32, count: several.len() as u16 },
        }
    }

    /// What happens to packets for an IPv4 address. O(1): at most 3 loads.
    #[inline]
    pub fn lookup_v4(&self, dst: [u8; 4]) -> Action {
        self.actions[self.v4.lookup(&dst) as usize]
    }

    /// What happens to packets for an IPv6 address. O(1): at most 15 loads.
    #[inline]
    pub fn lookup_v6(&self, dst: &[u8; 16]) -> Action {
        self.actions[self.v6.lookup(dst) as usize]
    }

    /// What happens to packets for an address.
    pub fn lookup(&self, dst: IpAddr) -> Action {
        match dst {
            IpAddr::V4(a) => self.lookup_v4(a.octets()),
            IpAddr::V6(a) => self.lookup_v6(&a.octets()),
        }
    }

    /// The route that decides about `dst`, to be explained to a person.
    pub fn route_to(&self, dst: IpAddr) -> Option<&Route> {
        let value = match dst {
            IpAddr::V4(a) => self.v4.lookup(&a.octets()),
            IpAddr::V6(a) => self.v6.lookup(&a.octets()),
        };
        self.routes.get((value as usize).checked_sub(1)?)
    }

    /// The next hop a flow takes in a group of `count` from `first`: always the same for one `hash`.
    #[inline]
    pub fn member(&self, first: u32, count: u16, hash: u32) -> u32 {
        // Scales the hash to 0 … count − 1 without a division.
        let offset = (u64::from(hash) * u64::from(count)) >> 32;
        self.members[first as usize + offset as usize]
    }

    /// All next hops in use, each once; [`Action::Hop`] indexes here.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// The routes in use, shorter prefixes first.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Routes left out because the table is full.
    pub fn refused(&self) -> usize {
        self.refused
    }
}

type KnownHops = HashMap<NextHop, u32, foldhash::fast::FixedState>;

/// Set in a slot that holds the index of a node, clear in one that holds a value.
const CHILD: u32 = 1 << 31;

#[derive(Debug)]
struct Trie {
    root: Box<[u32]>,
    nodes: Vec<[u32; 256]>,
}

impl Trie {
    fn new() -> Self {
        Self { root: vec![0; 1 << 16].into_boxed_slice(), nodes: Vec::new() }
    }

    #[inline]
    fn lookup<const N: usize>(&self, key: &[u8; N]) -> u32 {
        let mut slot = self.root[usize::from(u16::from_be_bytes([key[0], key[1]]))];
        let mut at = 2;
        // Ends: a node at the last octet has only values, because no prefix is longer than the key.
        while slot & CHILD != 0 {
            slot = self.nodes[(slot ^ CHILD) as usize][usize::from(key[at])];
            at += 1;
        }
        slot
    }

    /// Writes a prefix; those before must not be longer. `false`: no node is left for it.
    fn insert(&mut self, key: &[u8], length: usize, value: u32) -> bool {
        let start = usize::from(u16::from_be_bytes([key[0], key[1]]));
        if length <= 16 {
            let slots = &mut self.root[start..start + (1 << (16 - length))];
            debug_assert!(slots.iter().all(|slot| slot & CHILD == 0), "longer prefixes come later");
            slots.fill(value);
            return true;
        }
        let Some(mut node) = Self::child(&mut self.nodes, &mut self.root[start]) else { return false };
        let (mut at, mut end) = (2, 24);
        while length > end {
            let mut slot = self.nodes[node][usize::from(key[at])];
            let Some(below) = Self::child(&mut self.nodes, &mut slot) else { return false };
            self.nodes[node][usize::from(key[at])] = slot;
            node = below;
            at += 1;
            end += 8;
        }
        let start = usize::from(key[at]);
        let slots = &mut self.nodes[node][start..start + (1 << (end - length))];
        debug_assert!(slots.iter().all(|slot| slot & CHILD == 0), "longer prefixes come later");
        slots.fill(value);
        true
    }

    /// The node behind `slot`, made if there is none yet.
    fn child(nodes: &mut Vec<[u32; 256]>, slot: &mut u32) -> Option<usize> {
        if *slot & CHILD == 0 {
            if nodes.len() >= Fib::MAX_NODES {
                return None;
            }
            nodes.push([*slot; 256]);
            *slot = CHILD | (nodes.len() as u32 - 1);
        }
        Some((*slot ^ CHILD) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn hop(n: u16) -> NextHop {
        NextHop { via: Some(Ipv4Addr::new(10, 0, 0, n as u8).into()), port: PortId(n) }
    }

    fn kinds() -> impl Strategy<Value = RouteKind> {
        prop_oneof![
            proptest::collection::vec(0u16..6, 0..4)
                .prop_map(|hops| RouteKind::Unicast { next_hops: hops.into_iter().map(hop).collect() }),
            Just(RouteKind::Local),
            Just(RouteKind::Blackhole),
            Just(RouteKind::Unreachable),
            Just(RouteKind::Prohibit),
            Just(RouteKind::Broadcast),
        ]
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
        let route =
            (destinations(), kinds(), 0u32..3, any::<bool>()).prop_map(|(dest, kind, metric, object)| {
                let origin = if object { Origin::Object } else { Origin::Kernel };
                Route { dest, kind, metric, origin }
            });
        proptest::collection::vec(route, 0..40)
    }

    /// Longest match, then objects, then metric, then order, by looking at every route.
    fn scan(routes: &[Route], dst: IpAddr) -> Option<&Route> {
        let matching = routes.iter().filter(|r| r.dest.contains(&dst));
        matching
            .min_by_key(|r| (std::cmp::Reverse(r.dest.prefix_len()), r.origin != Origin::Object, r.metric))
    }

    fn agrees(fib: &Fib, action: Action, expected: Option<&Route>) -> bool {
        match (action, expected.map(|r| &r.kind)) {
            (Action::NoRoute, None)
            | (Action::Local, Some(RouteKind::Local))
            | (Action::Broadcast, Some(RouteKind::Broadcast))
            | (Action::Blackhole, Some(RouteKind::Blackhole))
            | (Action::Unreachable, Some(RouteKind::Unreachable))
            | (Action::Prohibit, Some(RouteKind::Prohibit)) => true,
            (Action::Unreachable, Some(RouteKind::Unicast { next_hops })) => next_hops.is_empty(),
            (Action::Hop(h), Some(RouteKind::Unicast { next_hops })) => {
                *next_hops == [fib.next_hops()[h as usize]]
            }
            (Action::Group { first, count }, Some(RouteKind::Unicast { next_hops })) => {
                let step = (1u64 << 32) / u64::from(count);
                let hashes = (0..u64::from(count)).map(|i| (i * step + step / 2) as u32);
                let taken: Vec<_> =
                    hashes.map(|h| fib.next_hops()[fib.member(first, count, h) as usize]).collect();
                taken == *next_hops
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_longest_match_wins(list in routes(), v4 in proptest::collection::vec(octets::<4>(), 20),
                                  v6 in proptest::collection::vec(octets::<16>(), 20)) {
            let fib = Fib::build(list.clone());
            let edges = list.iter().flat_map(|r| [r.dest.network(), r.dest.broadcast(), r.dest.addr()]);
            let random = v4.into_iter().map(|a| IpAddr::from(Ipv4Addr::from(a)));
            let random = random.chain(v6.into_iter().map(|a| IpAddr::from(Ipv6Addr::from(a))));
            for dst in random.chain(edges) {
                let expected = scan(&list, dst);
                let action = fib.lookup(dst);
                prop_assert!(agrees(&fib, action, expected), "{dst}: {action:?}, expected {expected:?}");
                let named = fib.route_to(dst);
                prop_assert_eq!(named.map(|r| &r.kind), expected.map(|r| &r.kind));
            }
        }
    }

    #[test]
    fn next_hops_are_shared_between_routes() {
        let unicast = |dest: &str, hops: &[u16]| Route {
            dest: dest.parse().unwrap(),
            kind: RouteKind::Unicast { next_hops: hops.iter().copied().map(hop).collect() },
            metric: 0,
            origin: Origin::Kernel,
        };
        let fib = Fib::build(vec![unicast("10.0.0.0/8", &[1]), unicast("11.0.0.0/8", &[2, 1])]);
        assert_eq!(fib.next_hops().len(), 2);
        assert_eq!(fib.refused(), 0);
        assert_eq!(fib.lookup_v4([12, 0, 0, 1]), Action::NoRoute);
    }

    #[test]
    fn a_full_trie_refuses_and_keeps_what_it_has() {
        let mut trie = Trie::new();
        assert!(trie.insert(&[10, 0, 0, 0], 8, 7));
        trie.nodes.resize(Fib::MAX_NODES, [0; 256]);
        assert!(!trie.insert(&[10, 0, 1, 0], 24, 8));
        assert_eq!(trie.lookup(&[10, 0, 1, 1]), 7);
    }
}
