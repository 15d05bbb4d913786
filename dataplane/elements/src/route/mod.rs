//! Forwarding: routes, bridge, ICMP errors, fragmentation.
//!
//! | file | holds |
//! |---|---|
//! | [`fib`] | the forwarding table: longest-prefix match |
//! | [`neighbours`] | link addresses of next hops, packets that wait for one |
//! | [`route`] | the element `Route` |
//! | `decide` | what happens to a packet |
//! | `paths` | which of several next hops a flow takes |
//! | `explain` | the same as a dry run |
//! | `fragment` | cutting IPv4 packets |
//! | [`icmp`] | the element `IcmpError` |
//! | [`bridge`] | the element `Bridge` |
//! | `limit` | events a second, for both |

pub mod bridge;
mod decide;
mod explain;
pub mod fib;
mod fragment;
pub mod icmp;
mod limit;
pub mod neighbours;
mod paths;
#[allow(clippy::module_inception, reason = "the element and its module carry the element's name")]
pub mod route;

pub use bridge::{Bridge, BridgeConfig};
pub use decide::Verdict;
pub use explain::Explanation;
pub use fib::{Action, Fib, NextHop, Origin, Route as RouteEntry, RouteKind};
pub use icmp::{IcmpError, IcmpErrorConfig};
pub use neighbours::{NeighbourLimits, NeighbourState, NeighbourUpdate};
pub use route::{PortInfo, Route, RouteChange, RouteConfig};

use perhop_element::ElementType;
use perhop_wire::MacAddr;

/// The shortest Ethernet frame without FCS.
const MIN_FRAME_LEN: usize = 60;

/// What forwarding needs of a port.
#[derive(Clone, Copy, Debug)]
struct Link {
    mac: MacAddr,
    mtu: u32,
}

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![bridge::registration::TYPE, icmp::registration::TYPE, route::registration::TYPE]
}
