//! Spares the kernel the frames that only the router forwards, as far as nobody else on the host may want them.
//!
//! A port keeps all frames for the kernel when it bridges, belongs to a bridge or bond of the kernel, carries other
//! interfaces (VLAN, macvlan, ipvlan) in its namespace or has filters on arrival; and everywhere where the kernel does
//! not let us. Forwarding is the same with and without, only slower without: what passes here meets the guard.

use crate::prepare::Device;
use perhop_io::early_drop::{EarlyDrop, Prefix};
use perhop_netlink::tc::{Handle, Qdisc};
use perhop_netlink::{LinkInfo, Mirror, Namespace, RouteKind, RouteWay};
use rustix::io::Errno;

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

    /// Follows the prefixes that the kernel is to see, and the ports' interfaces.
    pub(crate) fn follow(
        &mut self,
        namespace: &Namespace,
        mirror: &Mirror,
        devices: &[Device],
        local: Vec<Prefix>,
    ) {
        if !self.wanted {
            return;
        }
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

/// Whether an interface is a macvlan in this namespace on the one of this number.
pub(crate) fn is_macvlan_on(link: &LinkInfo, lower: u32) -> bool {
    link.kind.as_deref() == Some("macvlan") && !link.peer_elsewhere && link.peer_index == Some(lower)
}

/// Interfaces that are no ports and that a route of the kernel sends to.
pub(crate) fn past(route: &RouteWay, ports: &[u32]) -> impl Iterator<Item = u32> {
    let hops = route.next_hops.iter().filter(|_| route.kind == RouteKind::Unicast);
    hops.map(|hop| hop.ifindex).filter(|index| !ports.contains(index))
}
