//! Routes: those of the kernel, and those that are objects.

use super::change::Change;
use super::plan::{RouterPlanner, touches};
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
}

impl Routes {
    fn change(&self) -> RouteChange {
        let fib = Fib::build(self.kernel.iter().chain(&self.objects).cloned().collect());
        RouteChange { fib: Some(fib), ..RouteChange::default() }
    }

    fn everything(&self) -> RouteChange {
        RouteChange {
            ports: Some(self.ports.clone()),
            neighbours: self.neighbours.values().copied().collect(),
            ..self.change()
        }
    }
}

impl RouterPlanner {
    /// The kernel's routes are these now. The change belongs to no transaction.
    pub fn set_kernel_routes(&mut self, routes: Vec<RouteEntry>) -> Change {
        self.routes.kernel = routes;
        Change::of_routes(self.routes.change())
    }

    /// The kernel's neighbours changed.
    pub fn neighbour_change(&mut self, neighbours: Vec<NeighbourUpdate>) -> Change {
        for n in &neighbours {
            match n.state {
                NeighbourState::Removed => self.routes.neighbours.remove(&(n.port, n.ip)),
                _ => self.routes.neighbours.insert((n.port, n.ip), *n),
            };
        }
        Change::of_routes(RouteChange { neighbours, ..RouteChange::default() })
    }

    /// Addresses, MTUs or hardware addresses of ports changed.
    pub fn port_change(&mut self, ports: Vec<PortInfo>) -> Change {
        self.routes.ports.clone_from(&ports);
        Change::of_routes(RouteChange { ports: Some(ports), ..RouteChange::default() })
    }

    pub(super) fn plan_routes(&mut self, draft: &Draft<'_>, all: bool) -> Option<RouteChange> {
        if !touches(draft, &[Kind::Route]) {
            return all.then(|| self.routes.everything());
        }
        self.routes.objects = draft
            .of_kind(Kind::Route)
            .filter_map(|(_, entry)| match &*entry.spec {
                Spec::Route(r) => self.route(r),
                _ => None,
            })
            .collect();
        Some(if all { self.routes.everything() } else { self.routes.change() })
    }

    fn route(&self, r: &RouteSpec) -> Option<RouteEntry> {
        let kind = match r.kind {
            ObjectKind::Unicast => {
                let port = self.port_of(r.port.as_ref()?)?;
                RouteKind::Unicast { next_hops: vec![NextHop { via: r.via, port }] }
            }
            ObjectKind::Blackhole => RouteKind::Blackhole,
            ObjectKind::Unreachable => RouteKind::Unreachable,
            ObjectKind::Prohibit => RouteKind::Prohibit,
            ObjectKind::Local => RouteKind::Local,
        };
        Some(RouteEntry { dest: r.dest, kind, metric: r.metric, origin: Origin::Object })
    }
}
