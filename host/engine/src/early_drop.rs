//! Spares the kernel the frames that only the router forwards, as far as nobody else on the host may want them.
//!
//! A port keeps all frames for the kernel when it bridges, belongs to a bridge or bond of the kernel, carries other
//! interfaces (VLAN, macvlan, ipvlan) in its namespace or has filters on arrival; and everywhere where the kernel does
//! not let us. Forwarding is the same with and without, only slower without: what passes here meets the guard.

use crate::prepare::Device;
use perhop_io::early_drop::{EarlyDrop, Prefix};
use perhop_netlink::tc::{Handle, Qdisc};
use perhop_netlink::{FibRoute, LinkInfo, Mirror, Namespace, RouteKind};
use rustix::io::Errno;
use std::net::IpAddr;

/// The programs on the ports. They go away with this value.
pub(crate) struct EarlyDrops {
    /// Asked for and not refused.
    wanted: bool,
    /// Addresses in force, sorted.
    local: Vec<Prefix>,
    /// Interface index and program of each port.
    on: Vec<Option<(u32, EarlyDrop)>>,
}

impl EarlyDrops {
    /// None attached yet.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, local: Vec::new(), on: Vec::new() }
    }

    /// Follows the host's addresses and the ports' interfaces, whose numbers are `ports`.
    pub(crate) fn follow(
        &mut self,
        namespace: &Namespace,
        mirror: &Mirror,
        (devices, ports): (&[Device], &[u32]),
    ) {
        if !self.wanted {
            return;
        }
        let local = kernels_own(mirror, ports);
        let moved = local != self.local;
        self.local = local;
        self.on.resize_with(devices.len(), || None);
        for (device, on) in devices.iter().zip(&mut self.on) {
            let link = mirror.link(&device.device).filter(|link| is_ours_alone(link, mirror));
            let index = link.map(|link| link.index);
            // Without its program a port is slow; with a wrong one the host is deaf.
            *on = on
                .take()
                .filter(|(at, drop)| Some(*at) == index && (!moved || drop.update(&self.local).is_ok()));
            let Some(index) = index.filter(|_| on.is_none()) else { continue };
            let ingress = |qdisc: &Qdisc| qdisc.parent == Handle::INGRESS;
            if mirror.netlink().qdiscs(&device.device).map_or(true, |all| all.iter().any(ingress)) {
                continue;
            }
            match namespace.run(|| EarlyDrop::attach(index, &self.local)) {
                Ok(Ok(drop)) => *on = Some((index, drop)),
                Ok(Err(error)) if Errno::from_io_error(&error) != Some(Errno::NODEV) => {
                    tracing::info!(port = device.port, %error, "the kernel looks at forwarded frames as well");
                    // Rights and kernel stay as they are.
                    self.wanted = false;
                    return self.on.clear();
                }
                _ => {}
            }
        }
    }
}

/// Whether frames that arrive there are for this host's IP, or for nobody here but the router.
fn is_ours_alone(link: &LinkInfo, mirror: &Mirror) -> bool {
    let carried = |other: &LinkInfo| {
        other.peer_index == Some(link.index) && !other.peer_elsewhere && other.kind.as_deref() != Some("veth")
    };
    link.mac.is_some() && link.controller.is_none() && !mirror.links().values().any(carried)
}

/// Numbers of the ports' interfaces, and of macvlan interfaces above them, to whose addresses the ports listen.
pub(crate) fn ports_of(mirror: &Mirror, devices: &[Device]) -> Vec<u32> {
    let ports: Vec<u32> = devices.iter().filter_map(|d| mirror.link(&d.device).map(|l| l.index)).collect();
    let is_above = |link: &&LinkInfo| ports.iter().any(|port| is_macvlan_on(link, *port));
    let above: Vec<u32> = mirror.links().values().filter(is_above).map(|link| link.index).collect();
    [ports, above].concat()
}

/// Whether an interface is a macvlan in this namespace on the one of this number.
pub(crate) fn is_macvlan_on(link: &LinkInfo, lower: u32) -> bool {
    link.kind.as_deref() == Some("macvlan") && !link.peer_elsewhere && link.peer_index == Some(lower)
}

/// Interfaces that are no ports and that a route of the kernel sends to.
pub(crate) fn past(route: &FibRoute, ports: &[u32]) -> impl Iterator<Item = u32> {
    let hops = route.next_hops.iter().filter(|_| route.kind == RouteKind::Unicast);
    hops.map(|hop| hop.ifindex).filter(|index| !ports.contains(index))
}

/// What the kernel is to see: local routes of all tables, addresses that have none yet, and what its routes send past the
/// ports.
pub(crate) fn kernels_own(mirror: &Mirror, ports: &[u32]) -> Vec<Prefix> {
    let kept = [RouteKind::Local, RouteKind::Anycast, RouteKind::Broadcast, RouteKind::Multicast];
    let is_kept = |route: &&FibRoute| kept.contains(&route.kind) || past(route, ports).next().is_some();
    let routes = mirror.routes().iter().filter(is_kept);
    let mut local: Vec<Prefix> =
        routes.map(|route| (route.dest.network(), route.dest.prefix_len())).collect();
    let host = |ip: IpAddr| (ip, if ip.is_ipv4() { 32 } else { 128 });
    local.extend(mirror.addresses().iter().map(|a| host(a.address.addr())));
    local.sort_unstable();
    local.dedup();
    local
}
