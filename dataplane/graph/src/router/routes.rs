//! Routes: those of the kernel, and those that are objects.

use super::change::Change;
use super::plan::{RouterPlanner, touches};
use crate::control::Draft;
use perhop_elements::route::{
    Fib, NeighbourUpdate, NextHop, Origin, PortInfo, RouteChange, RouteEntry, RouteKind,
};
use perhop_model::{Kind, RouteKind as ObjectKind, RouteSpec, Spec};

/// What the table is built of.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    kernel: Vec<RouteEntry>,
    objects: Vec<RouteEntry>,
}

impl Routes {
    fn change(&self) -> RouteChange {
        let fib = Fib::build(self.kernel.iter().chain(&self.objects).cloned().collect());
        RouteChange { fib: Some(fib), ..RouteChange::default() }
    }
}

impl RouterPlanner {
    /// The kernel's routes are these now. The change belongs to no transaction.
    pub fn set_kernel_routes(&mut self, routes: Vec<RouteEntry>) -> Change {
        self.routes.kernel = routes;
        Change::of_routes(self.routes.change())
    }

    /// The kernel's neighbours changed.
    pub fn neighbour_change(&self, neighbours: Vec<NeighbourUpdate>) -> Change {
        Change::of_routes(RouteChange { neighbours, ..RouteChange::default() })
    }

    /// Addresses, MTUs or hardware addresses of ports changed.
    pub fn port_change(&self, ports: Vec<PortInfo>) -> Change {
        Change::of_routes(RouteChange { ports: Some(ports), ..RouteChange::default() })
    }

    pub(super) fn plan_routes(&mut self, draft: &Draft<'_>, all: bool) -> Option<RouteChange> {
        if !touches(draft, &[Kind::Route]) {
            return all.then(|| self.routes.change());
        }
        self.routes.objects = draft
            .of_kind(Kind::Route)
            .filter_map(|(_, entry)| match &*entry.spec {
                Spec::Route(r) => self.route(r),
                _ => None,
            })
            .collect();
        Some(self.routes.change())
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
