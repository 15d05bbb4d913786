//! Routes: those of the kernel, and those that are objects.

use super::numbers::Numbers;
use ipnet::IpNet;
use perhop_contract::Draft;
use perhop_elements::route::{
    Fib, NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteChange, RouteEntry, RouteKind,
    Rule, Tables,
};
use perhop_model::{Kind, RouteKind as ObjectKind, RouteSpec, Spec};
use perhop_packet::PortId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// All routes of the kernel to one destination in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoutes {
    /// The table.
    pub table: u32,
    /// The destination.
    pub dest: IpNet,
    /// Its routes; none when they are gone.
    pub routes: Vec<RouteEntry>,
}

/// What the route element was last told, so that a fresh one can be told it again.
#[derive(Debug, Default)]
pub(super) struct Routes {
    tables: Tables,
    /// Destinations of route objects.
    objects: BTreeSet<IpNet>,
    ports: Vec<PortInfo>,
    neighbours: BTreeMap<(PortId, IpAddr), NeighbourUpdate>,
    path_seed: u64,
}

impl Routes {
    /// With the router's own choice among several next hops.
    pub(super) fn with_path_seed(path_seed: u64) -> Self {
        Self { path_seed, ..Self::default() }
    }

    /// All routes that packets follow, by table and destination.
    pub(super) fn all(&self) -> impl Iterator<Item = RouteEntry> {
        self.tables.routes()
    }

    fn change(&mut self) -> RouteChange {
        RouteChange { fib: Some(self.tables.fib()), ..RouteChange::default() }
    }

    fn everything(&mut self) -> RouteChange {
        let change = self.change();
        RouteChange {
            ports: Some(self.ports.clone()),
            neighbours: self.neighbours.values().copied().collect(),
            path_seed: Some(self.path_seed),
            ..change
        }
    }

    /// All routes and rules of the kernel.
    pub(super) fn set_kernel(&mut self, routes: Vec<RouteEntry>, rules: Vec<Rule>) -> RouteChange {
        self.tables.set_rules(rules);
        self.tables.replace(Origin::Kernel, routes);
        self.change()
    }

    /// All routes of the kernel to some destinations.
    pub(super) fn change_kernel(&mut self, changes: Vec<KernelRoutes>) -> RouteChange {
        for KernelRoutes { table, dest, routes } in changes {
            self.tables.set((table, dest, Origin::Kernel), routes);
        }
        self.change()
    }

    pub(super) fn set_neighbours(&mut self, neighbours: Vec<NeighbourUpdate>) -> RouteChange {
        for n in &neighbours {
            match n.state {
                NeighbourState::Removed => self.neighbours.remove(&(n.port, n.ip)),
                _ => self.neighbours.insert((n.port, n.ip), *n),
            };
        }
        RouteChange { neighbours, ..RouteChange::default() }
    }

    pub(super) fn set_ports(&mut self, ports: Vec<PortInfo>) -> RouteChange {
        self.ports.clone_from(&ports);
        RouteChange { ports: Some(ports), ..RouteChange::default() }
    }

    pub(super) fn plan(&mut self, draft: &Draft<'_>, numbers: &Numbers, all: bool) -> Option<RouteChange> {
        if !draft.touches(&[Kind::Route]) {
            return all.then(|| self.everything());
        }
        let objects = draft.of_kind(Kind::Route).filter_map(|(_, entry)| match &*entry.spec {
            Spec::Route(r) => route(r, numbers),
            _ => None,
        });
        let mut now: BTreeMap<IpNet, Vec<RouteEntry>> = BTreeMap::new();
        for entry in objects {
            now.entry(entry.dest.trunc()).or_default().push(entry);
        }
        // What was there and is there no more goes; the kernel's millions of routes stay untouched.
        let gone: Vec<IpNet> = self.objects.iter().filter(|dest| !now.contains_key(dest)).copied().collect();
        self.objects = now.keys().copied().collect();
        for (dest, routes) in gone.into_iter().map(|dest| (dest, Vec::new())).chain(now) {
            self.tables.set((Fib::MAIN, dest, Origin::Object), routes);
        }
        Some(if all { self.everything() } else { self.change() })
    }
}

fn route(r: &RouteSpec, numbers: &Numbers) -> Option<RouteEntry> {
    let kind = match r.kind {
        ObjectKind::Unicast => {
            let port = numbers.port(r.port.as_ref()?)?;
            RouteKind::by(NextHop::new(r.via, port))
        }
        ObjectKind::Blackhole => RouteKind::Blackhole,
        ObjectKind::Unreachable => RouteKind::Unreachable,
        ObjectKind::Prohibit => RouteKind::Prohibit,
        ObjectKind::Local => RouteKind::Local,
    };
    Some(RouteEntry { metric: r.metric, origin: Origin::Object, ..RouteEntry::new(r.dest, kind) })
}
