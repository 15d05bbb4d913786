//! A router: the planner that turns objects into changes, and the worker that forwards and applies them.
//!
//! [`RouterPlanner`] lives beside the packet threads and implements [`perhop_contract::Planner`]; [`Worker`] owns the
//! running graph. What passes between them is a [`Change`], prepared whole on one side and applied between two batches
//! on the other. Both are sans-I/O: in tests they run in one thread under virtual time, live the engine moves changes
//! through a channel. Several workers that are one router are a crew of [`Member`]s.

pub(crate) mod abr;
mod change;
mod classes;
mod crew;
mod describe;
mod edge;
mod explain;
mod filters;
mod leaf;
mod moved;
mod numbers;
mod places;
mod plan;
mod routes;
mod rule;
mod slots;
mod tree;
mod virtual_router;
mod worker;

pub use abr::policy;
pub use change::{Change, ChangeStep};
pub use crew::refused::{CONTROLLED_STAY, PARTS_STAY};
pub use crew::{BalanceReport, Balancer, BucketMove, MOST_CONNECTIONS, Member, Placement, RING, Relocation};
pub use describe::{DescribeError, Described};
pub use edge::{EdgeOptions, EdgePort, edge_graph};
pub use explain::{Decisions, Explanation, Probe, Step};
pub use places::{Gone, total};
pub use plan::RouterPlanner;
pub use routes::KernelRoutes;
pub use tree::Freed;
pub use virtual_router::{Sent, VirtualRouter};
pub use worker::{Worker, WorkerError, WorkerEvent};

pub use perhop_flows::MAX_WORKERS;

use perhop_element::Registry;

/// Every element type a router's graph may name.
pub fn registry() -> Registry {
    let crates = [perhop_elements::types(), perhop_flows::types(), perhop_abr::types()];
    Registry::new(crates.into_iter().flatten())
}
