//! The kernel's links, addresses, routes and neighbours, kept up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::address::InterfaceAddress;
use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::link::LinkInfo;
use crate::monitor::{Change, Monitor, Update};
use crate::namespace::Namespace;
use crate::neighbour::Neighbour;
use crate::route::FibRoute;
use crate::route_table::{RouteKey, RouteTable};
use crate::rule::PolicyRule;

/// Updates taken per call of [`Mirror::refresh`]; bounds the time of one call.
const UPDATES_PER_REFRESH: usize = 4096;

/// What one [`Mirror::refresh`] found changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Some link changed.
    pub links: bool,
    /// Some address changed.
    pub addresses: bool,
    /// Some route changed: [`Mirror::take_changed_routes`] says which.
    pub routes: bool,
    /// Some policy rule changed.
    pub rules: bool,
    /// Some neighbour changed.
    pub neighbours: bool,
    /// Updates had been lost, and all tables were read anew.
    pub resynchronised: bool,
}

impl Refreshed {
    fn everything(&mut self) {
        *self = Self {
            links: true,
            addresses: true,
            routes: true,
            rules: true,
            neighbours: true,
            resynchronised: true,
        };
    }

    /// Whether anything changed.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Tables that have changed in a way no update tells.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    routes: bool,
    rules: bool,
}

/// A copy of a namespace's tables: one dump at the start, then updates.
///
/// All of it follows its updates one by one. Routes are listed again once after
/// each burst that may have taken some away in silence, as the kernel does when
/// a link goes down, an address goes or a next-hop object changes: O(routes).
#[derive(Debug)]
pub struct Mirror {
    netlink: Netlink,
    monitor: Monitor,
    links: BTreeMap<u32, LinkInfo>,
    addresses: Vec<InterfaceAddress>,
    routes: RouteTable,
    /// Destinations whose routes changed since they were last asked for.
    changed_routes: BTreeSet<RouteKey>,
    rules: Vec<PolicyRule>,
    /// The last call failed: nothing here is known to be right.
    behind: bool,
    neighbours: BTreeMap<(u32, IpAddr), Neighbour>,
}

impl Mirror {
    /// Reads all tables of `namespace` and subscribes to their changes.
    ///
    /// # Errors
    /// Those of [`Netlink::open_in`] and of the listings.
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        // Subscribe first: nothing is lost between the dump and the updates.
        let monitor = Monitor::open_in(namespace)?;
        let mut mirror = Self {
            netlink: Netlink::open_in(namespace)?,
            monitor,
            links: BTreeMap::new(),
            addresses: Vec::new(),
            routes: RouteTable::default(),
            changed_routes: BTreeSet::new(),
            rules: Vec::new(),
            behind: false,
            neighbours: BTreeMap::new(),
        };
        mirror.reload()?;
        mirror.changed_routes = BTreeSet::new();
        Ok(mirror)
    }

    /// The connection that the mirror reads with, for changes and probes.
    pub fn netlink(&self) -> &Netlink {
        &self.netlink
    }

    /// Links by index.
    pub fn links(&self) -> &BTreeMap<u32, LinkInfo> {
        &self.links
    }

    /// The link named `name`. O(links).
    pub fn link(&self, name: &str) -> Option<&LinkInfo> {
        self.links.values().find(|link| link.name == name)
    }

    /// Addresses of all links.
    pub fn addresses(&self) -> &[InterfaceAddress] {
        &self.addresses
    }

    /// Routes of all tables.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// Destinations whose routes changed since the last call, in their tables.
    pub fn take_changed_routes(&mut self) -> BTreeSet<RouteKey> {
        std::mem::take(&mut self.changed_routes)
    }

    /// Policy rules, those of IPv4 first, in the kernel's order.
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// Neighbours by interface index and address.
    pub fn neighbours(&self) -> &BTreeMap<(u32, IpAddr), Neighbour> {
        &self.neighbours
    }

    /// Waits up to `timeout` for a change, applies everything that is there,
    /// and says what changed. Zero polls.
    ///
    /// # Errors
    /// When the socket fails or a listing does; the tables are then as they
    /// were at the last success or newer, and the next call may succeed.
    pub fn refresh(&mut self, timeout: Duration) -> Result<Refreshed, NetlinkError> {
        let mut changed = Refreshed::default();
        if self.behind {
            changed.everything();
        }
        let result = self.refresh_into(timeout, &mut changed);
        self.behind = result.is_err();
        result.map(|()| changed)
    }

    fn refresh_into(&mut self, mut wait: Duration, changed: &mut Refreshed) -> Result<(), NetlinkError> {
        let mut lost = Lost::default();
        for _ in 0..UPDATES_PER_REFRESH {
            let Some(update) = self.monitor.recv_timeout(wait)? else { break };
            wait = Duration::ZERO;
            self.apply(update, changed, &mut lost);
        }
        if changed.resynchronised {
            self.reload()?;
        } else {
            if lost.routes {
                changed.routes |= self.list_routes()?;
            }
            if lost.rules {
                self.rules = self.netlink.rules()?;
            }
        }
        Ok(())
    }

    /// Whether any is another.
    fn list_routes(&mut self) -> Result<bool, NetlinkError> {
        let next_hops = self.netlink.next_hops()?;
        let routes = &mut self.routes;
        // Before the routes that name them.
        routes.resolve_by(next_hops);
        let shared = |route: FibRoute| FibRoute { way: routes.keep(route.way), ..route };
        let listing = self.netlink.routes_by(shared)?;
        let changed = self.routes.replace(listing);
        let any = !changed.is_empty();
        self.changed_routes.extend(changed);
        Ok(any)
    }

    fn reload(&mut self) -> Result<(), NetlinkError> {
        self.links = self.netlink.links()?.into_iter().map(|link| (link.index, link)).collect();
        self.addresses = self.netlink.addresses()?;
        self.list_routes()?;
        self.rules = self.netlink.rules()?;
        let neighbours = self.netlink.neighbours()?;
        self.neighbours = neighbours.into_iter().map(|n| ((n.ifindex, n.ip), n)).collect();
        Ok(())
    }

    fn apply(&mut self, update: Update, changed: &mut Refreshed, lost: &mut Lost) {
        match update {
            Update::Link(mut link) => {
                let before = self.links.get(&link.index);
                // Updates do not carry the speed.
                link.speed_mbit = before.and_then(|old| old.speed_mbit);
                // Routes follow the state of a link without a word.
                lost.routes |= before.is_none_or(|b| (b.up, b.running) != (link.up, link.running));
                changed.links = true;
                self.links.insert(link.index, link);
            }
            Update::LinkGone(index, _) => {
                self.links.remove(&index);
                self.addresses.retain(|a| a.ifindex != index);
                self.neighbours.retain(|key, _| key.0 != index);
                (changed.links, changed.addresses, changed.neighbours) = (true, true, true);
                (lost.routes, lost.rules) = (true, true);
            }
            Update::Route(change, route) => {
                changed.routes = true;
                self.changed_routes.insert((route.table, route.dest));
                lost.routes |= !self.routes.apply(change, route);
            }
            Update::NextHops => lost.routes = true,
            Update::Rules => {
                changed.rules = true;
                lost.rules = true;
            }
            Update::Neighbour(change, neighbour) => {
                let key = (neighbour.ifindex, neighbour.ip);
                match change {
                    Change::Set => self.neighbours.insert(key, neighbour),
                    Change::Deleted => self.neighbours.remove(&key),
                };
                changed.neighbours = true;
            }
            Update::Address(change, address) => {
                let same =
                    |a: &InterfaceAddress| (a.ifindex, a.address) == (address.ifindex, address.address);
                self.addresses.retain(|a| !same(a));
                if change == Change::Set {
                    self.addresses.push(address);
                }
                changed.addresses = true;
                lost.routes |= change == Change::Deleted;
            }
            Update::Overrun => changed.everything(),
        }
    }
}

impl AsFd for Mirror {
    /// For waiting together with other descriptors; call [`Mirror::refresh`]
    /// with zero until nothing changes when it is readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
