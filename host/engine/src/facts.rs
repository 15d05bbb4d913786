//! Facts of the world: the kernel's routes, neighbours, links and addresses, followed on a thread of their own.

use crate::early_drop::{EarlyDrops, is_macvlan_on};
use crate::kernel_routes::{OTHER_END, Translation, ports_by_index};
use crate::left_to_kernel::LeftToKernel;
use crate::notes::{Beside, PassedBy};
use crate::own_traffic::OwnTraffic;
use crate::prepare::Device;
use crate::prepared::Saved;
use crate::socket_plan::SocketPlan;
use crate::told::{RouteNews, ToControl, World};
use crate::wait::MAX_PORTS;
use crossbeam_channel::Sender;
use perhop_elements::route::{NeighbourState, NeighbourUpdate, PortInfo, Sources};
use perhop_io::{DevicePort, clock};
use perhop_model::SourceCheck;
use perhop_netlink::mirror::Refreshed;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{
    FibRoute, LinkInfo, Mirror, Namespace, NeighbourState as Kernel, NetlinkError, RouteKey,
};
use perhop_packet::PortId;
use perhop_units::Duration;
use perhop_wire::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
    /// How the kernel's routes were last told, and those that changed since.
    translation: Translation,
    changed_routes: BTreeSet<RouteKey>,
    left: LeftToKernel,
    /// What leads this host's own packets through the router, where the kernel can have it.
    own_traffic: Option<OwnTraffic>,
    passed_by: PassedBy,
    notes: Vec<String>,
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
        (own_traffic, passed_by): (Option<OwnTraffic>, PassedBy),
    ) -> Result<(Self, World), NetlinkError> {
        let mirror = Mirror::open_in(&namespace)?;
        let mut facts = Self {
            bound: Vec::new(),
            numbers: vec![0; devices.len()],
            refusals: vec![None; devices.len()],
            #[cfg(test)]
            built: std::cell::Cell::new(0),
            infos: Vec::new(),
            translation: Translation::default(),
            changed_routes: BTreeSet::new(),
            left: LeftToKernel::default(),
            own_traffic,
            passed_by,
            notes: Vec::new(),
            neighbours: BTreeMap::new(),
            early_drops: EarlyDrops::new(!plan.promiscuous),
            namespace,
            mirror,
            devices,
            plan,
            saved,
        };
        facts.bound = facts.indices();
        // First, as what is told says what is left to the kernel.
        facts.drop_early();
        let mut world = facts.changes(None);
        world.indices = facts.bound.clone();
        Ok((facts, world))
    }

    /// How the router stands beside its kernel.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Self { namespace, mirror, left, translation, .. } = self;
        Beside { namespace, mirror, left, translation }.notes(&self.passed_by)
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
            if self.passed_by.look_again(&self.namespace, &self.devices) {
                let world =
                    World { notes: self.new_notes(true), indices: self.indices(), ..World::default() };
                if !world.is_empty() {
                    let _ = control.send(ToControl::World(Box::new(world)));
                }
            }
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
        if all.routes || all.addresses || all.links {
            // The host must hear what comes to a new address, and nothing that comes to a new interface above a port.
            self.drop_early();
        }
        let begin = clock::monotonic();
        while (all.routes || all.rules || all.links || all.addresses)
            && clock::monotonic().since(begin) < BURST
        {
            let more = self.mirror.refresh(QUIET)?;
            if !more.any() {
                break;
            }
            all = Refreshed {
                links: all.links | more.links,
                addresses: all.addresses | more.addresses,
                routes: all.routes | more.routes,
                rules: all.rules | more.rules,
                neighbours: all.neighbours | more.neighbours,
                resynchronised: all.resynchronised | more.resynchronised,
            };
        }
        Ok(all)
    }

    fn drop_early(&mut self) {
        let ports = self.ports();
        let changed = self.mirror.take_changed_routes();
        self.left.follow(self.mirror.routes(), &changed, &ports);
        self.changed_routes.extend(changed);
        let skips = |port: &u32| {
            let has_carrier = self.mirror.links().get(port).is_none_or(|link| link.running);
            !has_carrier && [false, true].into_iter().any(|v6| self.skips_without_carrier(*port, v6))
        };
        let skipped = ports.iter().copied().filter(skips).collect();
        if let Err(error) = self.saved.protect(self.left.duty(&self.mirror, skipped)) {
            tracing::error!(%error, "the kernel may forward packets of a port a second time");
        }
        self.plan.follow(&self.mirror, &self.left);
        if let Some(own) = &mut self.own_traffic {
            own.follow(&self.mirror, &self.devices, |port| self.bound[port].is_some());
        }
        let prefixes = self.left.prefixes(&self.mirror);
        self.early_drops.follow(&self.namespace, &self.mirror, &self.devices, prefixes);
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
        world.routes = self.route_news(changed);
        if world.routes.as_ref().is_some_and(RouteNews::may_be_noted) || changed.is_some_and(|c| c.rules) {
            world.notes = self.new_notes(changed.is_some());
        }
        if changed.is_none_or(|c| c.neighbours || c.links || c.resynchronised) {
            world.neighbours = self.neighbour_updates();
        }
        world
    }

    /// The notes, if they are others than were last told. Those that came are for the log, except at the start, where whoever
    /// starts the router has them.
    fn new_notes(&mut self, log: bool) -> Option<Vec<String>> {
        let notes = self.notes();
        if notes == self.notes {
            return None;
        }
        let new = notes.iter().filter(|note| log && !self.notes.contains(note));
        new.for_each(|note| tracing::warn!("{note}"));
        self.notes.clone_from(&notes);
        Some(notes)
    }

    fn port_infos(&self) -> Vec<PortInfo> {
        let ports = self.ports();
        let may_send = |ip: IpAddr| match ip {
            IpAddr::V4(a) => !a.is_loopback() && !a.is_link_local(),
            IpAddr::V6(a) => !a.is_loopback() && !a.is_unicast_link_local(),
        };
        let others = self.mirror.addresses().iter().filter(|a| !ports.contains(&a.ifindex) && !a.tentative);
        let mut elsewhere: Vec<_> = others.map(|a| a.address).filter(|net| may_send(net.addr())).collect();
        elsewhere.sort();
        let info = |d: &Device| {
            let Some(link) = self.mirror.link(&d.device) else {
                return PortInfo { mtu: 1500, ..PortInfo::default() };
            };
            let mine = self.mirror.addresses().iter().filter(|a| a.ifindex == link.index && !a.tentative);
            let mut addresses: Vec<_> = mine.map(|a| a.address).collect();
            addresses.sort();
            let above = self.mirror.links().values().filter(|l| is_macvlan_on(l, link.index));
            let more_macs = above.filter_map(|l| l.mac.map(MacAddr)).collect();
            let (mac, mtu) = (MacAddr(link.mac.unwrap_or_default()), link.mtu);
            let sources = self.sources(d);
            PortInfo { mac, more_macs, mtu, addresses, sources, elsewhere: Vec::new() }
        };
        let mut infos: Vec<PortInfo> = self.devices.iter().map(info).collect();
        // One has them for all.
        if let Some(first) = infos.first_mut() {
            first.elsewhere = elsewhere;
        }
        infos
    }

    /// Which sources a port takes; unless its file says otherwise those that the kernel would.
    fn sources(&self, device: &Device) -> [Sources; 2] {
        let filter =
            |name: &str| sysctl::read(&self.namespace, IpVersion::V4, name, "rp_filter").unwrap_or(0);
        match device.check {
            SourceCheck::Off => [Sources::All; 2],
            // What comes from this host itself has its addresses.
            SourceCheck::Kernel if self.plan.is_tun(device) => [Sources::All; 2],
            SourceCheck::Loose => [Sources::Routed; 2],
            SourceCheck::Strict => [Sources::ByPort; 2],
            SourceCheck::Kernel => match filter("all").max(filter(&device.device)) {
                0 => [Sources::All; 2],
                1 => [Sources::ByPort, Sources::All],
                _ => [Sources::Routed, Sources::All],
            },
        }
    }

    /// What is told of routes: all of them when it is another translation, else those that changed.
    fn route_news(&mut self, changed: Option<Refreshed>) -> Option<RouteNews> {
        let keys = std::mem::take(&mut self.changed_routes);
        let may_differ = |c: Refreshed| c.links || c.rules || c.resynchronised || in_default_table(&keys);
        let mut is_new = changed.is_none();
        if changed.is_none_or(may_differ) {
            let now = self.translation();
            is_new |= now != self.translation;
            self.translation = now;
        }
        let (routes, translation) = (self.mirror.routes(), &self.translation);
        let mut skipping: BTreeMap<(u32, bool), bool> = BTreeMap::new();
        let mut skips =
            |index, v6| *skipping.entry((index, v6)).or_insert_with(|| self.skips_without_carrier(index, v6));
        if is_new {
            #[cfg(test)]
            self.built.set(self.built.get() + 1);
            return Some(RouteNews::All(translation.all(routes, &mut skips), translation.rules.clone()));
        }
        let some = translation.some(routes, &keys, &mut skips);
        (!some.is_empty()).then_some(RouteNews::Some(some))
    }

    fn translation(&self) -> Translation {
        let bare = self.devices.iter().enumerate().filter(|(_, device)| self.plan.is_headerless(device));
        let bare = bare.map(|(i, _)| PortId(i as u16)).collect();
        Translation::new(&self.mirror, self.ports_by_index(), bare)
    }

    fn ports_by_index(&self) -> BTreeMap<u32, PortId> {
        ports_by_index(&self.mirror, &self.devices)
    }

    /// Numbers of the interfaces that are ports.
    fn ports(&self) -> Vec<u32> {
        self.ports_by_index().into_keys().collect()
    }

    /// Whether the kernel passes over routes of an interface as long as that has no carrier (`ignore_routes_with_linkdown`).
    fn skips_without_carrier(&self, index: u32, v6: bool) -> bool {
        let link = self.mirror.links().get(&index);
        link.is_some_and(|link| {
            let key = "ignore_routes_with_linkdown";
            let version = if v6 { IpVersion::V6 } else { IpVersion::V4 };
            sysctl::read(&self.namespace, version, &link.name, key).is_ok_and(|value| value != 0)
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
        for (i, device) in self.devices.iter().enumerate().filter(|(_, d)| self.plan.is_headerless(d)) {
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

/// Whether any is in the table whose rule counts only when it has routes.
fn in_default_table(keys: &BTreeSet<RouteKey>) -> bool {
    keys.iter().any(|(table, _)| *table == FibRoute::DEFAULT_TABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::Bench;
    use crate::prepared::Prepared;
    use perhop_netlink::Netlink;

    #[test]
    fn a_port_that_cannot_be_opened_costs_no_tables_and_changes_nothing_before_it_is_written_down() {
        let name =
            "a_port_that_cannot_be_opened_costs_no_tables_and_changes_nothing_before_it_is_written_down";
        let Some(bench) = Bench::new(name) else { return };
        let net = Netlink::open_in(&bench.namespace).unwrap();
        let devices = ["p0", "p1"].map(|p| Device::new(p, p)).to_vec();
        let directory = bench.scratch.join("state");
        let mut prepared = Prepared::new("absent", &directory, &bench.namespace, &devices).unwrap();
        let plan = SocketPlan {
            rx_slots: 64,
            tx_slots: 64,
            promiscuous: false,
            tun: Vec::new(),
            bare: Vec::new(),
            xdp: None,
        };
        let (mut facts, _) = Facts::open(
            bench.namespace.clone(),
            devices,
            plan,
            prepared.saved(),
            (None, PassedBy::default()),
        )
        .unwrap();
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
