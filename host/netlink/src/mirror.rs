//! The kernel's links, addresses, routes and neighbours, kept up to date.

use std::collections::BTreeMap;
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

/// Updates taken per call of [`Mirror::refresh`]; bounds the time of one call.
const UPDATES_PER_REFRESH: usize = 4096;

/// What one [`Mirror::refresh`] found changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Some link changed.
    pub links: bool,
    /// Some address changed.
    pub addresses: bool,
    /// Some route changed.
    pub routes: bool,
    /// Some neighbour changed.
    pub neighbours: bool,
    /// Updates had been lost, and all tables were read anew.
    pub resynchronised: bool,
}

impl Refreshed {
    /// Whether anything changed.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// A copy of a namespace's tables: one dump at the start, then updates.
///
/// Links, addresses and neighbours follow their updates one by one. Routes are
/// listed again once after each burst that may have changed them, because the
/// kernel does not announce every route that disappears: O(routes) per burst.
#[derive(Debug)]
pub struct Mirror {
    netlink: Netlink,
    monitor: Monitor,
    links: BTreeMap<u32, LinkInfo>,
    addresses: Vec<InterfaceAddress>,
    routes: Vec<FibRoute>,
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
            routes: Vec::new(),
            neighbours: BTreeMap::new(),
        };
        mirror.reload()?;
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
    pub fn routes(&self) -> &[FibRoute] {
        &self.routes
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
        let mut wait = timeout;
        for _ in 0..UPDATES_PER_REFRESH {
            let Some(update) = self.monitor.recv_timeout(wait)? else { break };
            wait = Duration::ZERO;
            self.apply(update, &mut changed);
        }
        if changed.resynchronised {
            self.reload()?;
        } else if changed.routes {
            self.routes = self.netlink.routes()?;
        }
        Ok(changed)
    }

    fn reload(&mut self) -> Result<(), NetlinkError> {
        self.links = self.netlink.links()?.into_iter().map(|link| (link.index, link)).collect();
        self.addresses = self.netlink.addresses()?;
        self.routes = self.netlink.routes()?;
        let neighbours = self.netlink.neighbours()?;
        self.neighbours = neighbours.into_iter().map(|n| ((n.ifindex, n.ip), n)).collect();
        Ok(())
    }

    fn apply(&mut self, update: Update, changed: &mut Refreshed) {
        match update {
            Update::Link(mut link) => {
                let before = self.links.get(&link.index);
                // Updates do not carry the speed.
                link.speed_mbit = before.and_then(|old| old.speed_mbit);
                // Routes follow the state of a link without a word.
                changed.routes |= before.is_none_or(|b| (b.up, b.running) != (link.up, link.running));
                changed.links = true;
                self.links.insert(link.index, link);
            }
            Update::LinkGone(index, _) => {
                self.links.remove(&index);
                self.addresses.retain(|a| a.ifindex != index);
                self.neighbours.retain(|key, _| key.0 != index);
                *changed = Refreshed {
                    links: true,
                    addresses: true,
                    routes: true,
                    neighbours: true,
                    resynchronised: changed.resynchronised,
                };
            }
            Update::Route(..) => changed.routes = true,
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
                changed.routes = true;
            }
            Update::Overrun => {
                *changed = Refreshed {
                    links: true,
                    addresses: true,
                    routes: true,
                    neighbours: true,
                    resynchronised: true,
                };
            }
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
