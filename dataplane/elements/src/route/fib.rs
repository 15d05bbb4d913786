//! The forwarding table that packets meet: prefixes of one or several tables, and the rules that choose among these.
//!
//! It is made by [`Tables`](super::Tables), shared and never changed: a change is a new one, which shares what has not
//! changed with the old, and a swap of pointers. Without rules, and without routes that ask for more than a destination,
//! a look-up is one walk of a trie; otherwise the rules are gone through in order, as the kernel does.
//!
//! Source: RFC 1812 §5.2.4.3 (longest match, metrics), RFC 8043 §4 (source-dependent routes), ip-rule(8).

use super::policy::{Asked, Rule, Then};
use super::trie::Trie;
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
    /// Longest packet for this route, where it says less than its port, in bytes; 0: as the port.
    pub mtu: u32,
}

impl NextHop {
    /// With the port's own longest packet.
    pub const fn new(via: Option<IpAddr>, port: PortId) -> Self {
        Self { via, port, mtu: 0 }
    }

    /// Longest packet by this way over a port whose longest is `port`.
    pub fn longest(&self, port: u32) -> u32 {
        if self.mtu == 0 { port } else { port.min(self.mtu) }
    }
}

/// What a route does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Forwards to one of these; several share flows evenly, one listed twice takes twice its share. None at all is
    /// as [`RouteKind::Unreachable`]; those past [`Fib::MAX_NEXT_HOPS`] are not used.
    Unicast {
        /// The next hops.
        next_hops: Arc<[NextHop]>,
    },
    /// An address of this machine.
    Local,
    /// The kernel forwards it: the way leads past the ports.
    Kernel,
    /// Drops without a word.
    Blackhole,
    /// Drops; the sender is told that the network is unreachable.
    Unreachable,
    /// Drops; the sender is told that it is prohibited.
    Prohibit,
    /// A broadcast address of a link: for this machine, never forwarded (RFC 2644).
    Broadcast,
    /// As if this table had no route: the next rule decides.
    Throw,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The table it is in.
    pub table: u32,
    /// Destinations; host bits do not matter.
    pub dest: IpNet,
    /// Sources that it is limited to.
    pub from: Option<IpNet>,
    /// Type of service that it is limited to (bits 2 to 4 of the octet); 0: none.
    pub tos: u8,
    /// What happens to packets for them.
    pub kind: RouteKind,
    /// Of routes with equal destination and origin the lowest wins, then the first given.
    pub metric: u32,
    /// Who asks for it.
    pub origin: Origin,
}

impl RouteKind {
    /// Forwards to this next hop.
    pub fn by(hop: NextHop) -> Self {
        Self::Unicast { next_hops: [hop].into() }
    }
}

impl Route {
    /// A route of the kernel's main table, for all packets to `dest`.
    pub fn new(dest: IpNet, kind: RouteKind) -> Self {
        let (table, origin) = (Fib::MAIN, Origin::Kernel);
        Self { table, dest, from: None, tos: 0, kind, metric: 0, origin }
    }
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
    /// As [`RouteKind::Kernel`].
    Kernel,
    /// As [`RouteKind::Broadcast`].
    Broadcast,
    /// As [`RouteKind::Blackhole`].
    Blackhole,
    /// As [`RouteKind::Unreachable`].
    Unreachable,
    /// As [`RouteKind::Prohibit`].
    Prohibit,
    /// As [`RouteKind::Throw`].
    Throw,
}

/// What a look-up found, to be told to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What happens.
    pub action: Action,
    /// Destination of the route that decided; none where no route or a rule did.
    pub dest: Option<IpNet>,
    /// Who asked for that route.
    pub origin: Origin,
    /// The table it is in.
    pub table: u32,
    /// The rule that decided, as `ip rule` writes it; none where there are no rules.
    pub rule: Option<Arc<str>>,
}

/// A route that asks for more than a destination.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    pub(super) dest: IpNet,
    pub(super) from: Option<IpNet>,
    pub(super) tos: u8,
    pub(super) metric: u32,
    pub(super) way: u32,
}

/// One table as packets meet it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) id: u32,
    pub(super) v4: Trie,
    pub(super) v6: Trie,
    /// The ways of the two default routes, which no trie holds: to change one costs nothing.
    pub(super) defaults: [u32; 2],
    /// Longer destinations first, then longer sources.
    pub(super) limited: Arc<[Limited]>,
}

/// A forwarding table.
#[derive(Clone, Debug)]
pub struct Fib {
    pub(super) main: View,
    pub(super) others: Box<[View]>,
    /// Of IPv4 and of IPv6, in order; both empty: the main table decides.
    pub(super) rules: [Arc<[Rule]>; 2],
    /// Whether a destination in the main table decides everything.
    pub(super) plain: bool,
    /// What each way does; way 0 is "no route".
    pub(super) actions: Arc<[Action]>,
    pub(super) origins: Arc<[Origin]>,
    pub(super) members: Arc<[u32]>,
    pub(super) next_hops: Arc<[NextHop]>,
    pub(super) routes: usize,
    pub(super) refused: usize,
}

impl Fib {
    /// Next hops of one route that are used.
    pub const MAX_NEXT_HOPS: usize = 256;
    /// The kernel's main table, where route objects are as well.
    pub const MAIN: u32 = 254;

    /// A table of these routes and no rules.
    pub fn build(routes: Vec<Route>) -> Arc<Self> {
        let mut tables = super::Tables::new();
        tables.replace(Origin::Kernel, routes);
        tables.fib()
    }

    /// What happens to packets for an IPv4 address, where that alone decides. O(1): at most 3 slots.
    #[inline]
    pub fn plain_v4(&self, dst: [u8; 4]) -> Option<Action> {
        let main = &self.main;
        let way = main.v4.value(&dst);
        self.plain.then(|| self.actions[if way == 0 { main.defaults[0] } else { way } as usize])
    }

    /// What happens to packets for an IPv6 address, where that alone decides. O(1): at most 15 slots.
    #[inline]
    pub fn plain_v6(&self, dst: &[u8; 16]) -> Option<Action> {
        let main = &self.main;
        let way = main.v6.value(dst);
        self.plain.then(|| self.actions[if way == 0 { main.defaults[1] } else { way } as usize])
    }

    /// What happens to a packet. O(rules + routes limited to sources or types of service).
    pub fn decide(&self, asked: &Asked) -> Action {
        let plain = match asked.dst {
            IpAddr::V4(a) => self.plain_v4(a.octets()),
            IpAddr::V6(a) => self.plain_v6(&a.octets()),
        };
        match plain {
            Some(Action::Throw) => Action::NoRoute,
            Some(action) => action,
            None => self.find(asked).action,
        }
    }

    /// What happens to a packet, and what decided that.
    pub fn find(&self, asked: &Asked) -> Found {
        let rules = &self.rules[usize::from(asked.dst.is_ipv6())];
        let none =
            Found { action: Action::NoRoute, dest: None, origin: Origin::Kernel, table: 0, rule: None };
        if rules.is_empty() {
            let found = self.main.find(self, asked);
            return found.filter(|f| f.action != Action::Throw).unwrap_or(none);
        }
        let mut at = 0;
        while let Some(rule) = rules.get(at) {
            at += 1;
            if !rule.matches(asked) {
                continue;
            }
            let by_rule = |action| Found { action, rule: Some(rule.said.clone()), ..none.clone() };
            let (table, suppress) = match &rule.then {
                Then::Table { table, suppress } => (*table, *suppress),
                Then::TableOfPort(of) => match of.get(asked.in_port.index()) {
                    Some(Some(table)) => (*table, None),
                    _ => continue,
                },
                // Rules are in order of priority: it only goes forward.
                Then::GoTo(priority) => {
                    let there = rules.partition_point(|rule| rule.priority < *priority);
                    if rules.get(there).is_some_and(|rule| rule.priority == *priority) {
                        at = at.max(there);
                    }
                    continue;
                }
                Then::Nothing => continue,
                Then::Blackhole => return by_rule(Action::Blackhole),
                Then::Unreachable => return by_rule(Action::Unreachable),
                Then::Prohibit => return by_rule(Action::Prohibit),
            };
            let found = self.table(table).and_then(|t| t.find(self, asked));
            let Some(found) = found.filter(|f| f.action != Action::Throw) else { continue };
            let length = found.dest.map_or(0, |dest| dest.prefix_len());
            // A route that refuses is never suppressed.
            let refuses = matches!(found.action, Action::Blackhole | Action::Unreachable | Action::Prohibit);
            if !refuses && suppress.is_some_and(|most| length <= most) {
                continue;
            }
            return Found { rule: Some(rule.said.clone()), ..found };
        }
        none
    }

    fn table(&self, id: u32) -> Option<&View> {
        if id == Self::MAIN { Some(&self.main) } else { self.others.iter().find(|t| t.id == id) }
    }

    /// The next hop a flow takes in a group of `count` from `first`: always the same for one `hash`.
    #[inline]
    pub fn member(&self, first: u32, count: u16, hash: u32) -> u32 {
        // Scales the hash to 0 … count − 1 without a division.
        let offset = (u64::from(hash) * u64::from(count)) >> 32;
        self.members[first as usize + offset as usize]
    }

    /// All next hops of a group.
    pub(super) fn members_of(&self, first: u32, count: u16) -> impl Iterator<Item = u32> {
        self.members[first as usize..][..usize::from(count)].iter().copied()
    }

    /// All next hops in use, each once; [`Action::Hop`] indexes here.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// How many destinations have a route.
    pub fn routes(&self) -> usize {
        self.routes
    }

    /// Routes left out because the table is full.
    pub fn refused(&self) -> usize {
        self.refused
    }
}

impl View {
    fn find(&self, fib: &Fib, asked: &Asked) -> Option<Found> {
        let (matched, all) = match asked.dst {
            IpAddr::V4(a) => (self.v4.find(&a.octets()), self.defaults[0]),
            IpAddr::V6(a) => (self.v6.find(&a.octets()), self.defaults[1]),
        };
        let (way, length) = matched.map_or((all, 0), |m| (m.value, m.length));
        let fits = |l: &&Limited| l.dest.prefix_len() >= length && l.fits(asked);
        let (way, length) =
            self.limited.iter().find(fits).map_or((way, length), |l| (l.way, l.dest.prefix_len()));
        let way = way as usize;
        (way != 0).then(|| Found {
            action: fib.actions[way],
            dest: IpNet::new(asked.dst, length).ok().map(|net| net.trunc()),
            origin: fib.origins[way],
            table: self.id,
            rule: None,
        })
    }
}

impl Limited {
    fn fits(&self, asked: &Asked) -> bool {
        let tos = self.tos == 0 || self.tos == asked.tos & TOS_MASK;
        tos && self.dest.contains(&asked.dst) && self.from.is_none_or(|from| from.contains(&asked.src))
    }
}

/// The bits of the octet that routes and old rules of IPv4 look at (`IPTOS_RT_MASK`).
pub(super) const TOS_MASK: u8 = 0x1c;
