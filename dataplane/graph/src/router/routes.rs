//! Routes: those of the kernel, and those that are objects.

use super::numbers::Numbers;
use perhop_contract::Draft;
use perhop_elements::route::{
    Fib, NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteChange, RouteEntry, RouteKind,
};
use perhop_model::{Kind, RouteKind as ObjectKind, RouteSpec, Spec};
use perhop_packet::PortId;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What the route element was last told, so that a fresh one can be told it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    kernel: Vec<RouteEntry>,
    objects: Vec<RouteEntry>,
    ports: Vec<PortInfo>,
    neighbours: BTreeMap<(PortId, IpAddr), NeighbourUpdate>,
    path_seed: u64,
}

impl Routes {
    /// With the router's own choice among several next hops.
    pub(super) fn with_path_seed(path_seed: u64) -> Self {
        Self { path_seed, ..Self::default() }
    }

    fn change(&self) -> RouteChange {
        let fib = Fib::build(self.kernel.iter().chain(&self.objects).cloned().collect());
        RouteChange { fib: Some(fib), ..RouteChange::default() }
    }

    fn everything(&self) -> RouteChange {
        RouteChange {
            ports: Some(self.ports.clone()),
            neighbours: self.neighbours.values().copied().collect(),
            path_seed: Some(self.path_seed),
            ..self.change()
        }
    }

    pub(super) fn set_kernel(&mut self, routes: Vec<RouteEntry>) -> RouteChange {
        self.kernel = routes;
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
        self.objects = draft
            .of_kind(Kind::Route)
            .filter_map(|(_, entry)| match &*entry.spec {
                Spec::Route(r) => route(r, numbers),
                _ => None,
            })
            .collect();
        Some(if all { self.everything() } else { self.change() })
    }
}

fn route(r: &RouteSpec, numbers: &Numbers) -> Option<RouteEntry> {
    let kind = match r.kind {
        ObjectKind::Unicast => {
            let port = numbers.port(r.port.as_ref()?)?;
            RouteKind::Unicast { next_hops: vec![NextHop { via: r.via, port }] }
        }
        ObjectKind::Blackhole => RouteKind::Blackhole,
        ObjectKind::Unreachable => RouteKind::Unreachable,
        ObjectKind::Prohibit => RouteKind::Prohibit,
        ObjectKind::Local => RouteKind::Local,
    };
    Some(RouteEntry { dest: r.dest, kind, metric: r.metric, origin: Origin::Object })
}
