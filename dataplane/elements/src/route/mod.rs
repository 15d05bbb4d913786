//! Forwarding: routes, bridge, ICMP errors, fragmentation.
//!
//! | file | holds |
//! |---|---|
//! | [`fib`] | the forwarding table that packets meet |
//! | `tables` | routes and rules that it is made of |
//! | `trie` | longest-prefix match |
//! | [`policy`] | rules that choose a table |
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
pub mod policy;
#[allow(clippy::module_inception, reason = "the element and its module carry the element's name")]
pub mod route;
mod tables;
mod trie;

pub use bridge::{Bridge, BridgeConfig};
pub use decide::Verdict;
pub use explain::Explanation;
pub use fib::{Action, Fib, Found, NextHop, Origin, Route as RouteEntry, RouteKind};
pub use icmp::{IcmpError, IcmpErrorConfig};
pub use neighbours::{NeighbourLimits, NeighbourState, NeighbourUpdate};
pub use policy::{Arrival, Asked, Rule, Then};
pub use route::{PortInfo, Route, RouteChange, RouteConfig, Sources};
pub use tables::Tables;

use perhop_element::ElementType;
use perhop_wire::MacAddr;

/// The shortest Ethernet frame without FCS.
const MIN_FRAME_LEN: usize = 60;

/// What forwarding needs of a port.
#[derive(Clone, Debug)]
struct Link {
    mac: MacAddr,
    more_macs: Box<[MacAddr]>,
    mtu: u32,
    sources: [Sources; 2],
}

impl Link {
    fn of(port: &PortInfo) -> Self {
        Self {
            mac: port.mac,
            more_macs: port.more_macs.as_slice().into(),
            mtu: port.mtu,
            sources: port.sources,
        }
    }

    /// Whether frames to this address are the port's.
    #[inline]
    fn listens_to(&self, station: [u8; 6]) -> bool {
        self.mac.0 == station || self.more_macs.iter().any(|mac| mac.0 == station)
    }
}

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![bridge::registration::TYPE, icmp::registration::TYPE, route::registration::TYPE]
}
