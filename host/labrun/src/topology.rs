//! The network of the demonstration: caller, router, link and callee, each a network namespace of its own.
//!
//! ```text
//! caller  c0 ── lan  router  wan ── near  link  far ── e0  callee
//!      10.61.0.2   .1        10.62.0.1   (layer 2)     10.62.0.2
//! ```
//!
//! Namespaces are held by descriptor only: when the last of them is dropped, or the process dies in whatever way, the
//! kernel takes them down with everything in them. Offloads are off on both ends of every veth, so that what crosses
//! it are packets as a wire would carry them.

use crate::error::{LabError, network};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink};
use std::net::Ipv4Addr;

/// Address of the caller and bulk sender.
pub(crate) const CALLER: Ipv4Addr = Ipv4Addr::new(10, 61, 0, 2);
/// Address of the callee.
pub(crate) const CALLEE: Ipv4Addr = Ipv4Addr::new(10, 62, 0, 2);
const ROUTER_LAN: Ipv4Addr = Ipv4Addr::new(10, 61, 0, 1);
const ROUTER_WAN: Ipv4Addr = Ipv4Addr::new(10, 62, 0, 1);

/// Interface of the caller.
pub(crate) const CALLER_DEVICE: &str = "c0";
/// Interfaces of the router, named as its ports are.
pub(crate) const ROUTER_DEVICES: [&str; 2] = ["lan", "wan"];
/// Interfaces of the link, towards the router and towards the callee.
pub(crate) const LINK_DEVICES: [&str; 2] = ["near", "far"];
/// Interface of the callee.
pub(crate) const CALLEE_DEVICE: &str = "e0";

/// The namespaces.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) caller: Namespace,
    pub(crate) router: Namespace,
    pub(crate) link: Namespace,
    pub(crate) callee: Namespace,
}

impl Topology {
    /// Builds the network, up and addressed.
    ///
    /// # Errors
    /// What the kernel refused, and when.
    pub(crate) fn build() -> Result<Self, LabError> {
        let create = || Namespace::create().map_err(|source| LabError::NoNamespaces { source });
        let network_of = Self { caller: create()?, router: create()?, link: create()?, callee: create()? };
        network_of.connect().map_err(network("build the namespaces' network"))?;
        Ok(network_of)
    }

    fn connect(&self) -> Result<(), perhop_netlink::NetlinkError> {
        let caller = Netlink::open_in(&self.caller)?;
        let router = Netlink::open_in(&self.router)?;
        let link = Netlink::open_in(&self.link)?;
        let callee = Netlink::open_in(&self.callee)?;
        let [lan, wan] = ROUTER_DEVICES;
        let [near, far] = LINK_DEVICES;
        caller.create_veth(CALLER_DEVICE, lan, Some(&self.router))?;
        router.create_veth(wan, near, Some(&self.link))?;
        link.create_veth(far, CALLEE_DEVICE, Some(&self.callee))?;
        let ends = [
            (&self.caller, &caller, CALLER_DEVICE, Some(CALLER)),
            (&self.router, &router, lan, Some(ROUTER_LAN)),
            (&self.router, &router, wan, Some(ROUTER_WAN)),
            (&self.link, &link, near, None),
            (&self.link, &link, far, None),
            (&self.callee, &callee, CALLEE_DEVICE, Some(CALLEE)),
        ];
        for (namespace, netlink, device, address) in ends {
            // Only IPv4 is sent; router discovery and multicast reports would be noise on the link.
            sysctl::set(namespace, device, &[(IpVersion::V6, "disable_ipv6", 1)])?;
            netlink.disable_offloads(device)?;
            if let Some(address) = address {
                netlink.add_address_now(
                    device,
                    format!("{address}/24").parse().expect("an address and a length"),
                )?;
            }
            netlink.set_up(device)?;
        }
        // Permanent entries: resolution is not what is measured, and its packets could drown in the full queue.
        let introduce =
            |a: &Netlink, a_dev: &str, a_ip: Ipv4Addr, b: &Netlink, b_dev: &str, b_ip: Ipv4Addr| {
                let (left, right) = (a.link(a_dev)?, b.link(b_dev)?);
                if let Some(mac) = right.mac {
                    a.add_neighbour(left.index, b_ip.into(), mac)?;
                }
                if let Some(mac) = left.mac {
                    b.add_neighbour(right.index, a_ip.into(), mac)?;
                }
                Ok::<(), perhop_netlink::NetlinkError>(())
            };
        introduce(&caller, CALLER_DEVICE, CALLER, &router, lan, ROUTER_LAN)?;
        introduce(&router, wan, ROUTER_WAN, &callee, CALLEE_DEVICE, CALLEE)?;
        let everywhere = "0.0.0.0/0".parse().expect("a prefix");
        caller.add_route(everywhere, Some(ROUTER_LAN.into()), Some(CALLER_DEVICE))?;
        callee.add_route(everywhere, Some(ROUTER_WAN.into()), Some(CALLEE_DEVICE))
    }
}
