//! What threads of the engine tell the control thread.

use crate::explain::Explained;
use crate::forwarder::Notice;
use crate::router_forwarder::ChangeJob;
use crate::show::Counting;
use perhop_elements::route::{NeighbourUpdate, PortInfo, RouteEntry};
use perhop_graph::router::WorkerEvent;
use perhop_io::DevicePort;
use perhop_model::{Done, ErrorItem};
use perhop_packet::PortId;

/// Facts of the world that have changed.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) ports: Option<Vec<PortInfo>>,
    pub(crate) routes: Option<Vec<RouteEntry>>,
    pub(crate) neighbours: Vec<NeighbourUpdate>,
    /// Interface index of each port, always.
    pub(crate) indices: Vec<Option<u32>>,
}

impl World {
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_none() && self.routes.is_none() && self.neighbours.is_empty()
    }
}

/// What threads of the engine tell.
pub(crate) enum ToControl {
    World(Box<World>),
    PortGone(PortId),
    PortBack(PortId, u32, Box<DevicePort>),
    /// In force; what was replaced comes back with it.
    Applied(Box<ChangeJob>),
    Worker(WorkerEvent),
    Notice(Notice),
    Counted(Box<Counting>),
    Explained(Box<Explained>, Done<Result<serde_json::Value, ErrorItem>>),
    Stop,
}
