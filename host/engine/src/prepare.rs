//! Making interfaces fit for a router, and putting them back.
//!
//! What is to be changed is read first and written to a state file; only then it is changed. So whatever happens, the
//! file says how the interfaces were. What the kernel must not forward is kept from it by rules that are gone with the
//! process ([`ForwardGuard`]); only a kernel that cannot have them gets its forwarding switched off.
//!
//! [`ForwardGuard`]: perhop_netlink::nft::ForwardGuard

use crate::error::EngineError;
use crate::state_file::{SavedPort, SavedSwitch, StateFile};
use perhop_graph::router::EdgePort;
use perhop_model::SourceCheck;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{LinkInfo, Namespace, Netlink, NetlinkError, Offloads, SavedKey};
use perhop_units::Rate;

/// Keys that are 0 on a port without a guard: the kernel must not forward what we forward.
const FORWARDING: &str = "forwarding";

/// The longest packet that fits into a buffer with its link header and a VLAN tag.
const MOST_MTU: u32 = (perhop_packet::BUFFER_LEN - perhop_packet::HEADROOM - 14 - 4) as u32;

/// A port to prepare.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) port: String,
    pub(crate) device: String,
    pub(crate) check: SourceCheck,
}

impl Device {
    /// An interface for a port whose sources are looked at as the kernel would.
    pub(crate) fn new(port: &str, device: &str) -> Self {
        Self { port: port.to_owned(), device: device.to_owned(), check: SourceCheck::Kernel }
    }

    /// The interface of a router's port.
    pub(crate) fn of(port: &EdgePort) -> Self {
        Self { check: port.spec.source_check, ..Self::new(&port.name, port.device()) }
    }
}

/// An interface that only carries frames: offloads off, no IPv6 of the kernel's own on it (router solicitations and
/// the like would appear on the emulated link).
pub(crate) fn transparent(namespace: &Namespace, port: &str, device: &str) -> Result<(), EngineError> {
    let netlink = Netlink::open_in(namespace)?;
    let fail = |e| EngineError::of_netlink(port, device, e);
    let link = netlink.link(device).map_err(fail)?;
    netlink.disable_offloads(device).map_err(fail)?;
    if let Err(error) = sysctl::set(namespace, device, &[(IpVersion::V6, "disable_ipv6", 1)]) {
        tracing::debug!(device, %error, "the kernel's IPv6 stays on");
    }
    if !link.up {
        netlink.set_up(device).map_err(fail)?;
    }
    Ok(())
}

/// Whether packets of an interface have no link's header, and one place to go to.
pub(crate) fn is_bare(link: &LinkInfo) -> bool {
    link.mac.is_none() && link.point_to_point && !link.loopback
}

/// Whether every port has its interface: all that are missing, at once; and one that can be a port.
pub(crate) fn all_there<'d>(
    netlink: &Netlink,
    mut ports: impl Iterator<Item = &'d Device> + Clone,
) -> Result<(), EngineError> {
    let links = netlink.links()?;
    let is_missing = |d: &&Device| links.iter().all(|l| l.name != d.device);
    let missing: Vec<_> =
        ports.clone().filter(is_missing).map(|d| (d.port.clone(), d.device.clone())).collect();
    match &missing[..] {
        [] => {
            let unfit = |d: &&Device| {
                let mut of = links.iter().filter(|l| l.name == d.device);
                of.any(|l| l.loopback || l.mac.is_none() && !l.point_to_point)
            };
            ports.find(unfit).map_or(Ok(()), |d| {
                let loopback = links.iter().any(|l| l.name == d.device && l.loopback);
                let (port, device) = (d.port.clone(), d.device.clone());
                Err(EngineError::NoLinkAddress { port, device, loopback })
            })
        }
        [(port, device)] => Err(EngineError::NoDevice { port: port.clone(), device: device.clone() }),
        _ => Err(EngineError::NoDevices(missing)),
    }
}

/// Reads how the ports' interfaces are, as far as [`change`] changes them. Changes nothing.
pub(crate) fn read(
    netlink: &Netlink,
    namespace: &Namespace,
    ports: &[Device],
    guarded: bool,
) -> Result<Vec<SavedPort>, EngineError> {
    let versions = if guarded { &[][..] } else { &[IpVersion::V4, IpVersion::V6] };
    ports
        .iter()
        .map(|p| {
            let fail = |e| EngineError::of_netlink(&p.port, &p.device, e);
            let index = Some(netlink.link(&p.device).map_err(fail)?.index);
            let offloads = netlink.offloads(&p.device).map_err(fail)?.wanted;
            let mut switches = Vec::new();
            for version in versions.iter().copied() {
                match sysctl::read(namespace, version, &p.device, FORWARDING) {
                    Ok(value) => switches.push(SavedSwitch { v6: version == IpVersion::V6, value }),
                    // A kernel without this protocol forwards none of it.
                    Err(e) if e.is_not_found() => {}
                    Err(source) => return Err(forwarding(p, source)),
                }
            }
            Ok(SavedPort { device: p.device.clone(), index, offloads, forwarding: switches })
        })
        .collect()
}

/// Switches offloads off, and the kernel's forwarding where no guard keeps it from what we forward.
pub(crate) fn change(
    namespace: &Namespace,
    netlink: &Netlink,
    port: &Device,
    guarded: bool,
) -> Result<(), EngineError> {
    netlink
        .disable_offloads(&port.device)
        .map_err(|e| EngineError::of_netlink(&port.port, &port.device, e))?;
    if guarded {
        return Ok(());
    }
    for version in [IpVersion::V4, IpVersion::V6] {
        match sysctl::set(namespace, &port.device, &[(version, FORWARDING, 0)]) {
            // A kernel without this protocol, or without it here (IPv6 where the MTU is below 1,280), forwards none of it.
            Err(e) if e.is_not_found() && port_is_there(netlink, port) => {}
            done => drop(done.map_err(|e| forwarding(port, e))?),
        }
    }
    Ok(())
}

fn port_is_there(netlink: &Netlink, port: &Device) -> bool {
    netlink.link(&port.device).is_ok()
}

fn forwarding(port: &Device, source: NetlinkError) -> EngineError {
    match source {
        NetlinkError::NoSuchInterface { .. } => {
            EngineError::NoDevice { port: port.port.clone(), device: port.device.clone() }
        }
        source => EngineError::Forwarding { port: port.port.clone(), device: port.device.clone(), source },
    }
}

/// Puts back what a state file says, by the numbers of the interfaces: one may have another name now, and its old name
/// may be that of another. Interfaces that are gone are skipped; everything else is tried even after a failure. Gives the
/// names of those that were put back and of those that are gone.
pub(crate) fn restore(
    namespace: &Namespace,
    state: &StateFile,
) -> Result<(Vec<String>, Vec<String>), EngineError> {
    let netlink = Netlink::open_in(namespace)?;
    let links = netlink.links()?;
    let mut result = Ok(());
    let (mut done, mut gone) = (Vec::new(), Vec::new());
    for port in &state.ports {
        let name = match port.index {
            Some(index) => links.iter().find(|l| l.index == index).map(|l| l.name.as_str()),
            None => links.iter().find(|l| l.name == port.device).map(|l| l.name.as_str()),
        };
        let Some(name) = name else {
            gone.push(port.device.clone());
            continue;
        };
        done.push(name.to_owned());
        let offloads = Offloads { wanted: port.offloads.clone(), active: Vec::new() };
        if let Err(e) = netlink.restore_offloads(name, &offloads)
            && !e.is_not_found()
        {
            result = result.and(Err(e));
        }
        let keys: Vec<SavedKey> = port
            .forwarding
            .iter()
            .map(|s| SavedKey {
                version: if s.v6 { IpVersion::V6 } else { IpVersion::V4 },
                interface: name.to_owned(),
                key: FORWARDING.to_owned(),
                value: s.value,
            })
            .collect();
        result = result.and(sysctl::restore(namespace, &keys));
    }
    result.map_err(EngineError::from)?;
    Ok((done, gone))
}

/// Ports that frames are switched between and that do not take the same length: a long frame from one is dropped at
/// another, and no bridge tells its sender.
pub(crate) fn mtu_warning(netlink: &Netlink, bridged: &[Device]) -> Option<String> {
    let links = netlink.links().ok()?;
    let mtu = |d: &Device| links.iter().find(|l| l.name == d.device).map(|l| (l.mtu, d.port.clone()));
    let mut ports: Vec<(u32, String)> = bridged.iter().filter_map(mtu).collect();
    ports.sort_unstable();
    let ((least, _), (most, _)) = (ports.first()?, ports.last()?);
    let each: Vec<String> = ports.iter().map(|(mtu, port)| format!("\"{port}\" {mtu}")).collect();
    (least != most).then(|| {
        format!(
            "the ports of the bridge differ in MTU ({}): frames that a port does not take are dropped there and counted \
             as tx_too_long",
            each.join(", ")
        )
    })
}

/// Ports whose interfaces send and take longer packets than a router's buffers, classes and meters are made for.
pub(crate) fn jumbo_warnings(netlink: &Netlink, ports: &[Device]) -> Vec<String> {
    let links = netlink.links().unwrap_or_default();
    let warning = |d: &Device| {
        let (port, device) = (&d.port, &d.device);
        let mtu = links.iter().find(|l| l.name == *device && l.mtu > MOST_MTU)?.mtu;
        Some(format!(
            "port \"{port}\": \"{device}\" has an MTU of {mtu}: packets of more than {MOST_MTU} bytes are dropped on arrival and counted \
             as rx_too_long, and queues and bursts are made for frames of 1514; `ip link set {device} mtu 1500`, and the same at \
             its neighbours"
        ))
    };
    ports.iter().filter_map(warning).collect()
}

/// What there is to say of a port that sends faster than its interface does: then the queue is behind the router.
pub(crate) fn speed_warning(link: &LinkInfo, port: &str, rate: Rate) -> Option<String> {
    let speed = Rate::from_mbit(link.speed_mbit?.into());
    (rate > speed).then(|| {
        format!(
            "port \"{port}\": its rate ({rate}) is more than \"{}\" carries ({speed}): packets wait in the interface, where classes do not \
             count; give it the rate of the link",
            link.name
        )
    })
}

/// What is on at the other end of a port and should not be, as far as it can be seen from here.
pub(crate) fn peer_warnings(netlink: &Netlink, ports: &[Device]) -> Vec<String> {
    let Ok(links) = netlink.links() else { return Vec::new() };
    let mut warnings = Vec::new();
    for port in ports {
        let Some(link) = links.iter().find(|l| l.name == port.device) else { continue };
        if link.kind.as_deref() != Some("veth") || link.peer_elsewhere {
            continue;
        }
        let Some(peer) = links.iter().find(|l| Some(l.index) == link.peer_index) else { continue };
        if let Ok(offloads) = netlink.offloads(&peer.name)
            && !offloads.is_off()
        {
            warnings.push(format!(
                "port \"{}\": offloads are on at the other end, \"{}\" ({}): frames of up to 64 KB arrive and are cut here, which \
                 takes time; `ethtool -K {} tso off gso off gro off tx off` spares it",
                port.port,
                peer.name,
                offloads.active.join(", "),
                peer.name
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_faster_than_its_interface_is_told() {
        let Some(bench) = Bench::new("a_port_that_is_faster_than_its_interface_is_told") else { return };
        let mut link = Netlink::open_in(&bench.namespace).unwrap().link("p0").unwrap();
        link.speed_mbit = Some(100);
        assert_eq!(speed_warning(&link, "wan", Rate::from_mbit(99)), None);
        let told = speed_warning(&link, "wan", Rate::from_mbit(990)).unwrap();
        assert!(told.contains("(990 Mbit/s)") && told.contains("\"p0\" carries (100 Mbit/s)"), "{told}");
        link.speed_mbit = None;
        assert_eq!(speed_warning(&link, "wan", Rate::MOST), None, "nobody knows");
    }
    use crate::engine::tests::Bench;

    /// IPv6 is not there on an interface with an MTU below 1,280: there is nothing to be switched off.
    #[test]
    fn without_a_guard_forwarding_is_switched_off_as_far_as_there_is_any() {
        let Some(bench) = Bench::new("without_a_guard_forwarding_is_switched_off_as_far_as_there_is_any")
        else {
            return;
        };
        let netlink = Netlink::open_in(&bench.namespace).unwrap();
        netlink.set_mtu("p0", 1_000).unwrap();
        let port = |device: &str| Device::new(device, device);
        change(&bench.namespace, &netlink, &port("p0"), false).unwrap();
        assert_eq!(sysctl::read(&bench.namespace, IpVersion::V4, "p0", FORWARDING).unwrap(), 0);
        let error = change(&bench.namespace, &netlink, &port("gone"), false).unwrap_err();
        assert!(matches!(error, EngineError::NoDevice { .. }), "{error}");
    }
}
