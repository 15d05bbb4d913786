//! What threads of the engine tell the control thread.

use crate::explain::Explained;
use crate::forwarder::Notice;
use crate::router_forwarder::ChangeJob;
use crate::show::Counting;
use perhop_elements::route::{NeighbourUpdate, PortInfo, RouteEntry, RouteKind, Rule};
use perhop_graph::router::{Freed, KernelRoutes};
use perhop_io::DevicePort;
use perhop_model::{Done, ErrorItem};
use perhop_packet::PortId;
use std::net::IpAddr;

/// What is told of the kernel's routes.
pub(crate) enum RouteNews {
    /// All of them, and the rules.
    All(Vec<RouteEntry>, Vec<Rule>),
    /// Those to some destinations.
    Some(Vec<KernelRoutes>),
}

impl RouteNews {
    /// Whether something may have to be said of them.
    pub(crate) fn may_be_noted(&self) -> bool {
        let kinds = [RouteKind::Kernel, RouteKind::Unreachable];
        match self {
            Self::All(..) => true,
            Self::Some(some) => {
                some.iter().flat_map(|of| &of.routes).any(|route| kinds.contains(&route.kind))
            }
        }
    }
}

/// Facts of the world that have changed.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) ports: Option<Vec<PortInfo>>,
    pub(crate) routes: Option<RouteNews>,
    pub(crate) neighbours: Vec<NeighbourUpdate>,
    /// What is left to the kernel beside the ports, and what of its tables is not followed, a sentence each.
    pub(crate) notes: Option<Vec<String>>,
    /// Interface index of each port, always.
    pub(crate) indices: Vec<Option<u32>>,
}

impl World {
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_none() && self.routes.is_none() && self.notes.is_none() && self.neighbours.is_empty()
    }
}

/// What threads of the engine tell.
pub(crate) enum ToControl {
    World(Box<World>),
    PortGone(PortId),
    PortBack(PortId, u32, Box<DevicePort>),
    /// In force; what was replaced comes back with it.
    Applied(Box<ChangeJob>),
    /// A removed class of a port's tree is empty, or a whole tree is gone.
    Freed(Freed),
    /// Somebody must find out a neighbour's hardware address.
    NeighbourWanted(PortId, IpAddr),
    Notice(Notice),
    Counted(Box<Counting>),
    Explained(Box<Explained>, Done<Result<serde_json::Value, ErrorItem>>),
    Stop,
}
