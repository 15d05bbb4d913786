//! The network of a scenario in namespaces: one for each node, one for each emulated link.
//!
//! A link is a veth pair whose ends are named like it; an emulated one is two pairs with the emulation's namespace in
//! between. Every interface of a node has the node's one address, as /32. Routes follow [`Paths`], as in the simulator;
//! neighbours are permanent, because resolution is not what is measured.

use super::error::{at_link, at_node};
use super::kernel::KernelTcp;
use crate::error::LabError;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, NetlinkError};
use perhop_scenario::{Fault, FaultKind, Link, LinkIndex, NodeIndex, NodeKind, Paths, Scenario, Way};
use std::net::{IpAddr, Ipv4Addr};

/// Interfaces of an emulated link in its own namespace: towards end 0 and towards end 1.
pub(super) const MIDDLE: [&str; 2] = ["a", "b"];
/// Longest interface name (`IFNAMSIZ` without the final zero).
const LONGEST_NAME: usize = 15;

/// The namespaces. The network vanishes with this value.
pub(super) struct Network {
    /// By node.
    pub(super) nodes: Vec<Namespace>,
    /// By link: where it is emulated.
    pub(super) middles: Vec<Option<Namespace>>,
    /// Interface name of each link at its nodes.
    pub(super) devices: Vec<String>,
}

/// Whether a direction does anything to what passes.
fn is_plain(way: &Way) -> bool {
    let unlimited = way.rate.is_none() && way.trace.is_none() && way.discipline_element().is_none();
    let prompt = way.delay.as_nanos() == 0 && way.jitter.is_none() && way.reorder.0 == 0;
    let faithful = way.loss.0 == 0 && way.burst_loss.is_none() && way.duplicate.0 == 0;
    unlimited && prompt && faithful && way.changes.is_empty()
}

/// Whether a link needs no emulation: it does nothing to what passes, and its nodes never stop.
pub(super) fn is_direct(scenario: &Scenario, link: &Link) -> bool {
    let stops = |fault: &Fault| fault.kind == FaultKind::Stop && link.ends.contains(&fault.node);
    link.ways.iter().all(is_plain) && !scenario.faults.iter().any(stops)
}

impl Network {
    /// Builds everything, up, addressed and routed.
    ///
    /// # Errors
    /// What the kernel refused, and where.
    pub(super) fn build(scenario: &Scenario, paths: &Paths, tcp: &KernelTcp) -> Result<Self, LabError> {
        let create = || Namespace::create().map_err(|source| LabError::NoNamespaces { source });
        let nodes = scenario.nodes.iter().map(|_| create()).collect::<Result<Vec<_>, _>>()?;
        let middles = scenario
            .links
            .iter()
            .map(|link| if is_direct(scenario, link) { Ok(None) } else { create().map(Some) })
            .collect::<Result<Vec<_>, _>>()?;
        let devices = scenario.links.iter().enumerate().map(|(i, link)| device_name(i, &link.name)).collect();
        let network = Self { nodes, middles, devices };
        let connections = network
            .nodes
            .iter()
            .zip(&scenario.nodes)
            .map(|(namespace, node)| Netlink::open_in(namespace).map_err(at_node(node, "open its netlink")))
            .collect::<Result<Vec<_>, _>>()?;
        for i in 0..scenario.links.len() {
            let wire = network.wire(scenario, i, &connections);
            wire.map_err(at_link(&scenario.links[i], "build its interfaces"))?;
        }
        for (i, node) in scenario.nodes.iter().enumerate() {
            let routed = network.route(scenario, paths, tcp, NodeIndex(i), &connections[i]);
            routed.map_err(at_node(node, "set its routes"))?;
            tcp.set_options(scenario, NodeIndex(i), &network.nodes[i])?;
        }
        Ok(network)
    }

    /// Makes the interfaces of a link, and introduces its ends to each other.
    fn wire(&self, scenario: &Scenario, index: usize, nodes: &[Netlink]) -> Result<(), NetlinkError> {
        let device = self.devices[index].as_str();
        let [near, far] = scenario.links[index].ends.map(|node| node.0);
        match &self.middles[index] {
            None => nodes[near].create_veth(device, device, Some(&self.nodes[far]))?,
            Some(middle) => {
                let between = Netlink::open_in(middle)?;
                nodes[near].create_veth(device, MIDDLE[0], Some(middle))?;
                nodes[far].create_veth(device, MIDDLE[1], Some(middle))?;
                for name in MIDDLE {
                    quieten(middle, name)?;
                    between.disable_offloads(name)?;
                    between.set_up(name)?;
                }
            }
        }
        for node in [near, far] {
            let (namespace, netlink) = (&self.nodes[node], &nodes[node]);
            quieten(namespace, device)?;
            let forwards = i64::from(scenario.nodes[node].kind == NodeKind::Forwarder);
            let keys = [
                (IpVersion::V4, "forwarding", forwards),
                (IpVersion::V4, "rp_filter", 0),
                (IpVersion::V4, "send_redirects", 0),
                (IpVersion::V4, "accept_redirects", 0),
            ];
            sysctl::set(namespace, device, &keys)?;
            netlink.disable_offloads(device)?;
            netlink.add_address_now(device, host(scenario.nodes[node].address))?;
            netlink.set_up(device)?;
        }
        for (here, there) in [(near, far), (far, near)] {
            if let Some(mac) = nodes[there].link(device)?.mac {
                let index = nodes[here].link(device)?.index;
                nodes[here].add_neighbour(index, IpAddr::V4(scenario.nodes[there].address), mac)?;
            }
        }
        Ok(())
    }

    /// Sets the routes of a node: first those to its neighbours, through which the others go.
    fn route(
        &self,
        scenario: &Scenario,
        paths: &Paths,
        tcp: &KernelTcp,
        node: NodeIndex,
        netlink: &Netlink,
    ) -> Result<(), NetlinkError> {
        sysctl::set(&self.nodes[node.0], "all", &[(IpVersion::V4, "rp_filter", 0)])?;
        let far = |(link, end): (LinkIndex, usize)| scenario.links[link.0].ends[1 - end];
        let routes: Vec<_> = (0..scenario.nodes.len())
            .filter_map(|to| Some((NodeIndex(to), paths.first_link(node, NodeIndex(to))?)))
            .collect();
        for adjacent in [true, false] {
            for (to, first) in routes.iter().filter(|(to, first)| (far(*first) == *to) == adjacent) {
                let via = (!adjacent).then(|| IpAddr::V4(scenario.nodes[far(*first).0].address));
                let device = self.devices[first.0.0].as_str();
                let dest = host(scenario.nodes[to.0].address);
                netlink.add_route_with_metrics(dest, via, Some(device), tcp.route(node, *to))?;
            }
        }
        Ok(())
    }
}

/// Only IPv4 is sent; router discovery and multicast reports would be noise on the link.
fn quieten(namespace: &Namespace, device: &str) -> Result<(), NetlinkError> {
    sysctl::set(namespace, device, &[(IpVersion::V6, "disable_ipv6", 1)]).map(drop)
}

fn host(address: Ipv4Addr) -> ipnet::IpNet {
    ipnet::IpNet::V4(address.into())
}

/// The link's own name where the kernel takes it.
fn device_name(index: usize, link: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let reserved = matches!(link, "" | "." | ".." | "lo" | "all" | "default");
    if link.len() <= LONGEST_NAME && link.chars().all(plain) && !reserved {
        link.to_owned()
    } else {
        format!("link{index}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::{Duration, Rate};

    #[test]
    fn a_link_that_does_nothing_is_a_wire() {
        let mut way = Way::default();
        assert!(is_plain(&way));
        way.rate = Some(Rate::from_mbit(1));
        assert!(!is_plain(&way));
        assert!(!is_plain(&Way { delay: Duration(1), ..Way::default() }));
    }

    #[test]
    fn interfaces_are_named_like_links_where_the_kernel_allows() {
        assert_eq!(device_name(3, "core"), "core");
        assert_eq!(device_name(3, "a_link_of_sixteen"), "link3");
        assert_eq!(device_name(3, "lo"), "link3");
        assert_eq!(device_name(4, "a b"), "link4");
    }
}
