//! Facts of the world: the kernel's routes, neighbours, links and addresses, followed on a thread of their own.

use crate::early_drop::{EarlyDrops, is_macvlan_on, past, ports_of};
use crate::prepare::Device;
use crate::prepared::Saved;
use crate::socket_plan::SocketPlan;
use crate::told::{ToControl, World};
use crate::wait::MAX_PORTS;
use crossbeam_channel::Sender;
use perhop_elements::route::{
    NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteEntry, RouteKind,
};
use perhop_io::{DevicePort, clock};
use perhop_netlink::mirror::Refreshed;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{
    FibRoute, LinkInfo, Mirror, Namespace, NeighbourState as Kernel, NetlinkError, RouteKind as KernelKind,
};
use perhop_packet::PortId;
use perhop_units::Duration;
use perhop_wire::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

type StdDuration = std::time::Duration;

/// Longest sleep: how soon a stop or a lost port is noticed.
const NAP: StdDuration = StdDuration::from_millis(100);
/// A burst of changes is over when nothing came for this long,
const QUIET: StdDuration = StdDuration::from_millis(5);
/// but is passed on after this at the latest.
const BURST: Duration = Duration(100_000_000);

/// What the control thread and this one share.
#[derive(Debug)]
pub(crate) struct FactsLine {
    pub(crate) stop: AtomicBool,
    /// Of each port, one more than the number of its last socket that failed; 0 when none has.
    lost: [AtomicU32; MAX_PORTS],
    /// Sockets opened again.
    pub(crate) opened: AtomicU32,
    /// Set to let the thread panic.
    #[cfg(test)]
    pub(crate) broken: AtomicBool,
}

impl Default for FactsLine {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            lost: std::array::from_fn(|_| AtomicU32::new(0)),
            opened: AtomicU32::new(0),
            #[cfg(test)]
            broken: AtomicBool::new(false),
        }
    }
}

impl FactsLine {
    /// The port's socket of this number failed: another one is wanted if it is still the last.
    pub(crate) fn lose(&self, port: PortId, number: u32) {
        if let Some(lost) = self.lost.get(port.index()) {
            lost.fetch_max(number.saturating_add(1), Ordering::AcqRel);
        }
    }

    fn has_lost(&self, port: usize, number: u32) -> bool {
        self.lost.get(port).is_some_and(|lost| lost.load(Ordering::Acquire) > number)
    }
}

/// Follows the kernel.
pub(crate) struct Facts {
    namespace: Namespace,
    mirror: Mirror,
    devices: Vec<Device>,
    plan: SocketPlan,
    saved: Arc<Saved>,
    /// Interface index that each port's open socket is bound to.
    bound: Vec<Option<u32>>,
    /// Number of each port's last socket, the one the router started with being 0.
    numbers: Vec<u32>,
    /// Why each port could not be opened, as it was last told.
    refusals: Vec<Option<String>>,
    infos: Vec<PortInfo>,
    routes: Vec<RouteEntry>,
    neighbours: BTreeMap<(PortId, IpAddr), NeighbourState>,
    early_drops: EarlyDrops,
    /// How often all routes were gone through.
    #[cfg(test)]
    built: std::cell::Cell<u32>,
}

impl Facts {
    /// Reads everything once. The ports' sockets are open.
    pub(crate) fn open(
        namespace: Namespace,
        devices: Vec<Device>,
        plan: SocketPlan,
        saved: Arc<Saved>,
    ) -> Result<(Self, World), NetlinkError> {
        let mirror = Mirror::open_in(&namespace)?;
        let mut facts = Self {
            bound: Vec::new(),
            numbers: vec![0; devices.len()],
            refusals: vec![None; devices.len()],
            #[cfg(test)]
            built: std::cell::Cell::new(0),
            infos: Vec::new(),
            routes: Vec::new(),
            neighbours: BTreeMap::new(),
            early_drops: EarlyDrops::new(!plan.promiscuous),
            namespace,
            mirror,
            devices,
            plan,
            saved,
        };
        facts.bound = facts.indices();
        let mut world = facts.changes(None);
        world.indices = facts.bound.clone();
        facts.drop_early();
        Ok((facts, world))
    }

    /// Interfaces past the ports that the kernel's routes lead to: what goes there is the kernel's to forward, if it does.
    pub(crate) fn past_ports(&self) -> Option<String> {
        let ports = ports_of(&self.mirror, &self.devices);
        let led_to: BTreeSet<u32> =
            self.mirror.routes().iter().flat_map(|route| past(route, &ports)).collect();
        let links = led_to.iter().filter_map(|index| self.mirror.links().get(index));
        let names: Vec<String> =
            links.filter(|link| link.name != "lo").map(|link| format!("\"{}\"", link.name)).collect();
        let is_off = |version| {
            sysctl::read(&self.namespace, version, "all", "forwarding").is_ok_and(|value| value == 0)
        };
        let off: Vec<&str> =
            [(IpVersion::V4, "net.ipv4.ip_forward"), (IpVersion::V6, "net.ipv6.conf.all.forwarding")]
                .into_iter()
                .filter_map(|(version, key)| is_off(version).then_some(key))
                .collect();
        let and = if off.is_empty() {
            String::new()
        } else {
            format!(", which does not: {} is 0", off.join(" and "))
        };
        (!names.is_empty()).then(|| {
            format!(
                "what the kernel's routes send to {} is the kernel's to forward, as these are no ports{and}",
                names.join(", ")
            )
        })
    }

    /// Runs until told to stop. Ports whose interface could not send when the router started are down until it can.
    pub(crate) fn run(mut self, line: &Arc<FactsLine>, control: &Sender<ToControl>) {
        for i in (0..self.bound.len()).filter(|i| self.bound[*i].is_none()) {
            let _ = control.send(ToControl::PortGone(PortId(i as u16)));
        }
        while !line.stop.load(Ordering::Acquire) {
            #[cfg(test)]
            assert!(!line.broken.load(Ordering::Acquire), "out of luck");
            let changed = match self.gather() {
                Ok(changed) => changed,
                Err(error) => {
                    tracing::warn!(%error, "cannot follow the kernel's tables; trying again");
                    std::thread::sleep(NAP);
                    continue;
                }
            };
            for i in 0..self.devices.len() {
                if line.has_lost(i, self.numbers[i]) {
                    self.bound[i] = None;
                }
            }
            self.turn(changed, line, control);
        }
    }

    /// Tells what has changed. Ports that could not be opened are tried again even when nothing has; tables are gone
    /// through only when they changed.
    fn turn(&mut self, changed: Refreshed, line: &FactsLine, control: &Sender<ToControl>) {
        if !changed.any() && self.bound.iter().all(Option::is_some) {
            return;
        }
        let opened = self.follow_ports(line, control);
        if opened || changed.any() {
            self.drop_early();
        }
        if !changed.any() {
            return;
        }
        let mut world = self.changes(Some(changed));
        world.indices = self.indices();
        if !world.is_empty() {
            let _ = control.send(ToControl::World(Box::new(world)));
        }
    }

    /// Waits for a change and for the end of the burst it begins. Neighbours do not wait: packets do, for them.
    fn gather(&mut self) -> Result<Refreshed, NetlinkError> {
        let mut all = self.mirror.refresh(NAP)?;
        if all.routes || all.addresses {
            // The host must hear what comes to a new address.
            self.drop_early();
        }
        let begin = clock::monotonic();
        while (all.routes || all.links || all.addresses) && clock::monotonic().since(begin) < BURST {
            let more = self.mirror.refresh(QUIET)?;
            if !more.any() {
                break;
            }
            all = Refreshed {
                links: all.links | more.links,
                addresses: all.addresses | more.addresses,
                routes: all.routes | more.routes,
                neighbours: all.neighbours | more.neighbours,
                resynchronised: all.resynchronised | more.resynchronised,
            };
        }
        Ok(all)
    }

    fn drop_early(&mut self) {
        let ports = ports_of(&self.mirror, &self.devices);
        if let Err(error) = self.saved.protect(&ports) {
            tracing::error!(%error, "the kernel may forward packets of a port a second time");
        }
        self.plan.follow(&self.mirror, &ports);
        self.early_drops.follow(&self.namespace, &self.mirror, (&self.devices, &ports));
    }

    /// Interface index of each port whose interface is there and able to send.
    fn indices(&self) -> Vec<Option<u32>> {
        self.devices
            .iter()
            .map(|d| {
                // A TUN interface that is switched off is not opened again: it would be gone in between.
                let able = |l: &&LinkInfo| l.running || self.plan.is_tun(d);
                self.mirror.link(&d.device).filter(able).map(|l| l.index)
            })
            .collect()
    }

    /// Closes ports whose interface went, opens those that came. Whether any was opened.
    fn follow_ports(&mut self, line: &FactsLine, control: &Sender<ToControl>) -> bool {
        let before = self.numbers.clone();
        for (i, index) in self.indices().into_iter().enumerate() {
            let id = PortId(i as u16);
            if self.bound[i] == index {
                continue;
            }
            if self.bound[i].take().is_some() {
                let _ = control.send(ToControl::PortGone(id));
            }
            let Some(index) = index else { continue };
            match self.reopen(i) {
                Ok(socket) => {
                    self.bound[i] = Some(index);
                    self.refusals[i] = None;
                    self.numbers[i] += 1;
                    line.opened.fetch_add(1, Ordering::AcqRel);
                    let _ = control.send(ToControl::PortBack(id, self.numbers[i], Box::new(socket)));
                }
                // The interface may be going again; the next change or turn tries once more.
                Err(error) => self.refused(i, &error),
            }
        }
        self.numbers != before
    }

    /// Says why a port stays down, once as long as the reason is the same. That it cannot be written down how the
    /// interface was is for somebody to mend; other reasons pass.
    fn refused(&mut self, i: usize, error: &crate::EngineError) {
        let why = Some(error.to_string());
        if self.refusals[i] == why {
            return;
        }
        self.refusals[i] = why;
        let port = &self.devices[i].port;
        match error {
            crate::EngineError::StateFile { .. } => tracing::warn!(port, %error, "port stays down"),
            _ => tracing::info!(port, %error, "port stays down"),
        }
    }

    fn reopen(&self, i: usize) -> Result<DevicePort, crate::EngineError> {
        let device = &self.devices[i];
        // A new interface of the old name has its own switches.
        self.saved.adopt(self.mirror.netlink(), device)?;
        let (socket, why) = self.plan.open(&self.namespace, device)?;
        if let Some(why) = why {
            tracing::warn!("{why}");
        }
        Ok(socket)
    }

    /// What differs from what was last told, in the tables that changed; `None`: all of everything.
    fn changes(&mut self, changed: Option<Refreshed>) -> World {
        let mut world = World::default();
        if changed.is_none_or(|c| c.links || c.addresses || c.resynchronised) {
            let infos = self.port_infos();
            if changed.is_none() || infos != self.infos {
                world.ports = Some(infos.clone());
                self.infos = infos;
            }
        }
        if changed.is_none_or(needs_routes) {
            let routes = self.route_entries();
            if changed.is_none() || routes != self.routes {
                world.routes = Some(routes.clone());
                self.routes = routes;
            }
        }
        if changed.is_none_or(|c| c.neighbours || c.links || c.resynchronised) {
            world.neighbours = self.neighbour_updates();
        }
        world
    }

    fn port_infos(&self) -> Vec<PortInfo> {
        let info = |d: &Device| {
            let Some(link) = self.mirror.link(&d.device) else {
                return PortInfo { mtu: 1500, ..PortInfo::default() };
            };
            let mine = self.mirror.addresses().iter().filter(|a| a.ifindex == link.index && !a.tentative);
            let mut addresses: Vec<_> = mine.map(|a| a.address).collect();
            addresses.sort();
            let above = self.mirror.links().values().filter(|l| is_macvlan_on(l, link.index));
            let more_macs = above.filter_map(|l| l.mac.map(MacAddr)).collect();
            PortInfo { mac: MacAddr(link.mac.unwrap_or_default()), more_macs, mtu: link.mtu, addresses }
        };
        self.devices.iter().map(info).collect()
    }

    fn ports_by_index(&self) -> BTreeMap<u32, PortId> {
        let index = |d: &Device| self.mirror.link(&d.device).map(|l| l.index);
        let ports: BTreeMap<u32, PortId> = self
            .devices
            .iter()
            .enumerate()
            .filter_map(|(i, d)| Some((index(d)?, PortId(i as u16))))
            .collect();
        let above = self.mirror.links().values().filter_map(|link| {
            let port = ports.get(&link.peer_index.filter(|lower| is_macvlan_on(link, *lower))?)?;
            Some((link.index, *port))
        });
        above
            .collect::<Vec<_>>()
            .into_iter()
            .chain(ports.iter().map(|(index, port)| (*index, *port)))
            .collect()
    }

    fn route_entries(&self) -> Vec<RouteEntry> {
        #[cfg(test)]
        self.built.set(self.built.get() + 1);
        let ports = self.ports_by_index();
        let mut skipping: BTreeMap<u32, bool> = BTreeMap::new();
        let mut skips = |index| *skipping.entry(index).or_insert_with(|| self.skips_without_carrier(index));
        let mut entries: Vec<_> =
            self.mirror.routes().iter().filter_map(|r| route_entry(r, &ports, &mut skips)).collect();
        let tun = |port: PortId| self.devices.get(port.index()).is_some_and(|d| self.plan.is_tun(d));
        entries.iter_mut().for_each(|entry| to_other_end(entry, tun));
        entries
    }

    /// Whether the kernel passes over routes of an interface as long as that has no carrier (`ignore_routes_with_linkdown`).
    fn skips_without_carrier(&self, index: u32) -> bool {
        let link = self.mirror.links().get(&index);
        link.is_some_and(|link| {
            let key = "ignore_routes_with_linkdown";
            sysctl::read(&self.namespace, IpVersion::V4, &link.name, key).is_ok_and(|value| value != 0)
        })
    }

    fn neighbour_updates(&mut self) -> Vec<NeighbourUpdate> {
        let ports = self.ports_by_index();
        let mut now = BTreeMap::new();
        for ((index, ip), n) in self.mirror.neighbours() {
            let Some(port) = ports.get(index) else { continue };
            let state = match (n.state, n.mac) {
                (Kernel::Stale, Some(mac)) => NeighbourState::Stale(MacAddr(mac)),
                (Kernel::Failed, _) => NeighbourState::Failed,
                (state, Some(mac)) if state.is_usable() => NeighbourState::Reachable(MacAddr(mac)),
                _ => continue,
            };
            now.insert((*port, *ip), state);
        }
        for (i, device) in self.devices.iter().enumerate().filter(|(_, d)| self.plan.is_tun(d)) {
            if self.mirror.link(&device.device).is_some() {
                let state = NeighbourState::Reachable(MacAddr::default());
                now.extend(OTHER_END.map(|ip| ((PortId(i as u16), ip), state)));
            }
        }
        let mut updates: Vec<NeighbourUpdate> = now
            .iter()
            .filter(|(key, state)| self.neighbours.get(*key) != Some(*state))
            .map(|((port, ip), state)| NeighbourUpdate { port: *port, ip: *ip, state: *state })
            .collect();
        let gone = self.neighbours.keys().filter(|key| !now.contains_key(*key));
        updates.extend(gone.map(|(port, ip)| NeighbourUpdate {
            port: *port,
            ip: *ip,
            state: NeighbourState::Removed,
        }));
        self.neighbours = now;
        updates
    }
}

/// Routes are those of ports, which the links say.
fn needs_routes(changed: Refreshed) -> bool {
    changed.routes || changed.links || changed.resynchronised
}

/// What a route of the kernel means to the router; `None` for those that mean nothing to forwarding: other tables (policy
/// rules are not followed), limited to a type of service, multicast, or without any next hop in use.
fn route_entry(
    r: &FibRoute,
    ports: &BTreeMap<u32, PortId>,
    skips: &mut dyn FnMut(u32) -> bool,
) -> Option<RouteEntry> {
    if ![FibRoute::MAIN_TABLE, FibRoute::LOCAL_TABLE, DEFAULT_TABLE].contains(&r.table) || r.tos != 0 {
        return None;
    }
    let kind = match r.kind {
        KernelKind::Local | KernelKind::Anycast => RouteKind::Local,
        KernelKind::Broadcast => RouteKind::Broadcast,
        KernelKind::Blackhole => RouteKind::Blackhole,
        KernelKind::Unreachable => RouteKind::Unreachable,
        KernelKind::Prohibit => RouteKind::Prohibit,
        KernelKind::Unicast => unicast(r, ports, skips)?,
        _ => return None,
    };
    // The kernel looks into the local table before the main one, whatever the metric.
    let metric = if r.table == FibRoute::LOCAL_TABLE { 0 } else { r.metric.saturating_add(1) };
    Some(RouteEntry { dest: r.dest, kind, metric, origin: Origin::Kernel })
}

/// Table 253, `default`, which the kernel looks into last.
const DEFAULT_TABLE: u32 = 253;

/// What a route past all ports sends is the kernel's to forward, like what is for this host. Beside ports other interfaces
/// do not count. Without a carrier a route of a port leads nowhere, and no wider route is asked instead, unless the kernel does
/// so: what is for a network whose cable is out must not go to the provider, and come back.
fn unicast(
    r: &FibRoute,
    ports: &BTreeMap<u32, PortId>,
    skips: &mut dyn FnMut(u32) -> bool,
) -> Option<RouteKind> {
    let usable: Vec<_> = r.next_hops.iter().filter(|h| !h.unusable).collect();
    if usable.is_empty() {
        let mut stay = r.next_hops.iter().filter(|hop| !skips(hop.ifindex)).peekable();
        stay.peek()?;
        let of_port = stay.any(|hop| ports.contains_key(&hop.ifindex));
        return Some(if of_port { RouteKind::Unreachable } else { RouteKind::Local });
    }
    let divisor = usable.iter().map(|h| h.weight.max(1)).fold(0, gcd);
    let mut next_hops = Vec::new();
    for hop in usable {
        let Some(port) = ports.get(&hop.ifindex) else { continue };
        let shares = (hop.weight.max(1) / divisor.max(1)).min(64);
        next_hops.extend((0..shares).map(|_| NextHop { via: hop.via, port: *port }));
    }
    Some(if next_hops.is_empty() { RouteKind::Local } else { RouteKind::Unicast { next_hops } })
}

/// The other end of a TUN interface, as a neighbour: it has no address of its own.
const OTHER_END: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Next hops on TUN interfaces are all the same one, so that destinations without number take the place of one neighbour.
fn to_other_end(entry: &mut RouteEntry, is_tun: impl Fn(PortId) -> bool) {
    let other_end = OTHER_END[usize::from(entry.dest.network().is_ipv6())];
    if let RouteKind::Unicast { next_hops } = &mut entry.kind {
        next_hops.iter_mut().filter(|hop| is_tun(hop.port)).for_each(|hop| hop.via = Some(other_end));
    }
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Bench;
    use crate::prepared::Prepared;
    use perhop_netlink::{Netlink, NextHop as KernelHop};

    fn route(kind: KernelKind, hops: &[(u32, u16, bool)]) -> FibRoute {
        FibRoute {
            dest: "10.1.0.0/16".parse().unwrap(),
            next_hops: hops
                .iter()
                .map(|(ifindex, weight, unusable)| KernelHop {
                    via: None,
                    ifindex: *ifindex,
                    weight: *weight,
                    unusable: *unusable,
                })
                .collect(),
            kind,
            table: FibRoute::MAIN_TABLE,
            metric: 7,
            source_hint: None,
            tos: 0,
        }
    }

    #[test]
    fn routes_of_the_kernel_become_routes_of_ports() {
        let ports = BTreeMap::from([(4, PortId(0)), (9, PortId(1))]);
        let hops = |r: &FibRoute| match route_entry(r, &ports, &mut |_| false).unwrap().kind {
            RouteKind::Unicast { next_hops } => next_hops.iter().map(|h| h.port.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(hops(&route(KernelKind::Unicast, &[(4, 6, false), (9, 3, false)])), [0, 0, 1], "6 : 3");
        assert_eq!(
            hops(&route(KernelKind::Unicast, &[(4, 1, true), (9, 1, false)])),
            [1],
            "without a dead link"
        );
        let past =
            route_entry(&route(KernelKind::Unicast, &[(77, 1, false)]), &ports, &mut |_| false).unwrap();
        assert_eq!(past.kind, RouteKind::Local, "past the ports: the kernel's");
        assert_eq!(hops(&route(KernelKind::Unicast, &[(4, 1, false), (77, 1, false)])), [0]);
        let out = route(KernelKind::Unicast, &[(4, 1, true)]);
        let kind = |route: &FibRoute, skips: bool| {
            route_entry(route, &ports, &mut |_| skips).map(|entry| entry.kind)
        };
        assert_eq!(kind(&out, false), Some(RouteKind::Unreachable), "no wider route");
        assert_eq!(kind(&out, true), None, "the kernel's switch says so");
        assert_eq!(kind(&route(KernelKind::Unicast, &[(77, 1, true)]), false), Some(RouteKind::Local));
        assert_eq!(kind(&route(KernelKind::Unicast, &[]), false), None);
        let mut both =
            route_entry(&route(KernelKind::Unicast, &[(4, 1, false), (9, 1, false)]), &ports, &mut |_| false)
                .unwrap();
        to_other_end(&mut both, |port| port == PortId(1));
        let via = [(0, None), (1, Some(OTHER_END[0]))].map(|(port, via)| NextHop { via, port: PortId(port) });
        assert_eq!(both.kind, RouteKind::Unicast { next_hops: via.to_vec() }, "TUN has one neighbour");
        assert!(kind(&route(KernelKind::Multicast, &[]), false).is_none());
        let elsewhere = FibRoute { table: 100, ..route(KernelKind::Local, &[]) };
        assert!(kind(&elsewhere, false).is_none());
        assert_eq!(route_entry(&route(KernelKind::Local, &[]), &ports, &mut |_| false).unwrap().metric, 8);
    }

    #[test]
    fn a_port_that_cannot_be_opened_costs_no_tables_and_changes_nothing_before_it_is_written_down() {
        let name =
            "a_port_that_cannot_be_opened_costs_no_tables_and_changes_nothing_before_it_is_written_down";
        let Some(bench) = Bench::new(name) else { return };
        let net = Netlink::open_in(&bench.namespace).unwrap();
        let devices = ["p0", "p1"].map(|p| Device { port: p.to_owned(), device: p.to_owned() }).to_vec();
        let directory = bench.scratch.join("state");
        let mut prepared = Prepared::new("absent", &directory, &bench.namespace, &devices).unwrap();
        let plan = SocketPlan { rx_slots: 64, tx_slots: 64, promiscuous: false, tun: Vec::new(), xdp: None };
        let (mut facts, _) = Facts::open(bench.namespace.clone(), devices, plan, prepared.saved()).unwrap();
        let (line, (to, from)) = (FactsLine::default(), crossbeam_channel::unbounded());
        let count = |kind: fn(&ToControl) -> bool| from.try_iter().filter(kind).count();
        let nothing = Refreshed::default();
        let links = Refreshed { links: true, ..nothing };

        // Another interface in the port's place, and no directory to write down how it was.
        net.delete_link("p1").unwrap();
        let end = std::time::Instant::now() + StdDuration::from_secs(20);
        while facts.indices()[1].is_some() {
            facts.mirror.refresh(NAP).unwrap();
            assert!(std::time::Instant::now() < end);
        }
        facts.turn(links, &line, &to);
        assert_eq!(count(|m| matches!(m, ToControl::PortGone(PortId(1)))), 1);
        net.create_veth("p1", "p1-peer", None).unwrap();
        sysctl::write(&bench.namespace, IpVersion::V4, "p1", "forwarding", 1).unwrap();
        net.set_up("p1").unwrap();
        net.set_up("p1-peer").unwrap();
        while facts.indices()[1].is_none() {
            facts.mirror.refresh(NAP).unwrap();
            assert!(std::time::Instant::now() < end);
        }
        let aside = bench.scratch.join("aside");
        std::fs::rename(&directory, &aside).unwrap();
        let built = facts.built.get();
        facts.turn(links, &line, &to);
        for _ in 0..10 {
            facts.turn(nothing, &line, &to);
            let forwards = sysctl::read(&bench.namespace, IpVersion::V4, "p1", "forwarding").unwrap();
            assert!(forwards == 1 && !net.offloads("p1").unwrap().is_off(), "changed and not written down");
        }
        assert_eq!(facts.built.get() - built, 1, "routes are gone through when links changed");
        assert_eq!(count(|m| matches!(m, ToControl::PortBack(..))), 0);
        assert!(facts.refusals[1].as_ref().unwrap().contains("state"), "{:?}", facts.refusals);

        std::fs::rename(&aside, &directory).unwrap();
        facts.turn(nothing, &line, &to);
        assert_eq!(count(|m| matches!(m, ToControl::PortBack(PortId(1), 1, _))), 1);
        assert!(facts.refusals[1].is_none() && net.offloads("p1").unwrap().is_off());
        prepared.put_back().unwrap();
        assert_eq!(sysctl::read(&bench.namespace, IpVersion::V4, "p1", "forwarding").unwrap(), 1);
        assert!(!net.offloads("p1").unwrap().is_off() && std::fs::read_dir(&directory).unwrap().count() == 0);
    }
}
