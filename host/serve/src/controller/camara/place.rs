//! Which packets a session is of, and where they enter and leave the domain.

use super::problem::Problem;
use super::settings::{CamaraSettings, Network, QosProfile};
use super::shapes::{CreateSession, Device};
use crate::domain::{MOST_PACKETS, Packets};
use axum::http::StatusCode;
use ipnet::IpNet;
use perhop_broker::ledger::Way;
use std::net::IpAddr;

/// Protocols that have ports, where ports are said: TCP and UDP.
const WITH_PORTS: [u8; 2] = [6, 17];

/// A device that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The address by which it is known: the first of its own.
    pub(super) address: IpAddr,
    /// All addresses that are its own.
    net: IpNet,
    /// The node that it is behind.
    node: String,
    /// The identifier that was used, where the client gave one.
    pub(super) shown: Option<Device>,
}

/// The device of a request: that of the client's token, or the one that is said. `family` is what of several addresses is
/// wanted: whether IPv4 or IPv6 leads to the server.
pub(super) fn device(
    settings: &CamaraSettings,
    client: &str,
    said: Option<&Device>,
    family: impl Fn(&IpAddr) -> bool,
) -> Result<Option<Found>, Problem> {
    let unprocessable = |code, why: &str| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, why);
    let (addresses, of_token) = match (settings.device_of(client), said) {
        (Some(_), Some(_)) => {
            let why = "device: the token stands for a device already";
            return Err(unprocessable("UNNECESSARY_IDENTIFIER", why));
        }
        (Some(address), None) => (vec![(address, None)], true),
        (None, None) => return Ok(None),
        (None, Some(device)) => (addresses(settings, device)?, false),
    };
    if addresses.is_empty() {
        let why = "device: it is known by ipv4Address or ipv6Address only";
        return Err(unprocessable("UNSUPPORTED_IDENTIFIER", why));
    }
    let wanted = addresses.iter().find(|(address, _)| family(address));
    let Some((address, shown)) = wanted.or(addresses.first()).cloned() else { return Ok(None) };
    let Some(network) = settings.network(&address.into()) else {
        let why = format!("device: {address} is in no network of this domain");
        return Err(Problem::new(StatusCode::NOT_FOUND, "IDENTIFIER_NOT_FOUND", why));
    };
    let Some(node) = &network.node else {
        return Err(Problem::not_applicable(format!("device: there are no sessions in {}", network.prefix)));
    };
    let net = own(Some(network), address);
    Ok(Some(Found { address: net.addr(), net, node: node.clone(), shown: shown.filter(|_| !of_token) }))
}

/// All addresses that a device has for itself.
fn own(network: Option<&Network>, address: IpAddr) -> IpNet {
    let whole = IpNet::from(address);
    let length = network.and_then(|network| network.device_prefix).unwrap_or(whole.prefix_len());
    IpNet::new(address, length).map_or(whole, |net| net.trunc())
}

/// The address by which a token's device is known.
pub(super) fn known_by(settings: &CamaraSettings, address: IpAddr) -> IpAddr {
    own(settings.network(&address.into()), address).addr()
}

/// A device that must be said by somebody.
pub(super) fn needed(found: Option<Found>) -> Result<Found, Problem> {
    let why = "device: the token stands for none, so one is needed";
    found.ok_or_else(|| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "MISSING_IDENTIFIER", why))
}

/// The addresses of a device that its packets can have in the domain, each with the identifier that says so. The private
/// one counts where the domain has it: then addresses are translated beyond the domain.
fn addresses(settings: &CamaraSettings, device: &Device) -> Result<Vec<(IpAddr, Option<Device>)>, Problem> {
    let v4 = device.ipv4_address.as_ref().map(|v4| {
        let private = v4.private_address.map(IpAddr::V4);
        let private = private.filter(|address| settings.network(&(*address).into()).is_some());
        let shown = Device { ipv4_address: Some(v4.clone()), ..Device::default() };
        (private.unwrap_or(v4.public_address.into()), Some(shown))
    });
    let v6 = device.ipv6()?.map(|address| {
        let shown = Device { ipv6_address: device.ipv6_address.clone(), ..Device::default() };
        (address.into(), Some(shown))
    });
    Ok([v4, v6].into_iter().flatten().collect())
}

/// Where a session is, and of which packets: from the device to the server.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) device: Found,
    pub(super) packets: Vec<Packets>,
    to: String,
}

/// Finds where a session is.
pub(super) fn place(
    settings: &CamaraSettings,
    client: &str,
    body: &CreateSession,
) -> Result<Placed, Problem> {
    let servers = body.application_server.prefixes()?;
    let ports = |spec: &Option<super::shapes::PortsSpec>, what| {
        spec.as_ref().map_or(Ok(Vec::new()), |spec| spec.ranges(what))
    };
    let device_ports = ports(&body.device_ports, "devicePorts")?;
    let server_ports = ports(&body.application_server_ports, "applicationServerPorts")?;
    let leads = |address: &IpAddr| servers.iter().any(|net| net.addr().is_ipv4() == address.is_ipv4());
    let device = needed(device(settings, client, body.device.as_ref(), leads)?)?;
    let own_family: Vec<IpNet> =
        servers.into_iter().filter(|net| net.addr().is_ipv4() == device.address.is_ipv4()).collect();
    let mut nodes = own_family.iter().map(|net| {
        let node = settings.network(net).and_then(|network| network.node.as_ref());
        let why = || format!("applicationServer: {net} is in no network of this domain");
        node.ok_or_else(|| Problem::not_applicable(why()))
    });
    let Some(to) = nodes.next().transpose()? else {
        let why = "applicationServer: it has no address of the device's family";
        return Err(Problem::not_applicable(why));
    };
    for node in nodes {
        if node? != to {
            return Err(Problem::not_applicable("applicationServer: its addresses are behind several nodes"));
        }
    }
    if *to == device.node {
        let why =
            format!("the device and the application server are both behind {to}: nothing is between them");
        return Err(Problem::not_applicable(why));
    }
    let packets = packets(device.net, &own_family, &device_ports, &server_ports)?;
    Ok(Placed { to: to.clone(), device, packets })
}

impl Placed {
    /// The way, rate and packets of the reservation that a profile makes of it, and the rate of the other direction.
    pub(super) fn reserve(self, profile: &QosProfile) -> (Way, u64, Option<u64>, Vec<Packets>) {
        let (from, to) = (self.device.node, self.to);
        match (profile.upstream_bps, profile.downstream_bps) {
            (Some(up), down) => (Way::Between { from, to }, up, down, self.packets),
            (None, down) => {
                let turned = self.packets.iter().map(Packets::turned).collect();
                (Way::Between { from: to, to: from }, down.unwrap_or(0), None, turned)
            }
        }
    }
}

/// Every server with every range of ports on both sides, in both protocols that have ports.
fn packets(
    device: IpNet,
    servers: &[IpNet],
    device_ports: &[(u16, u16)],
    server_ports: &[(u16, u16)],
) -> Result<Vec<Packets>, Problem> {
    let any = |ports: &[(u16, u16)]| match ports {
        [] => vec![None],
        ports => ports.iter().copied().map(Some).collect(),
    };
    let protocols: &[Option<u8>] = match (device_ports, server_ports) {
        ([], []) => &[None],
        _ => &WITH_PORTS.map(Some),
    };
    let (device_ports, server_ports) = (any(device_ports), any(server_ports));
    let count = [servers.len(), device_ports.len(), server_ports.len(), protocols.len()];
    let count = count.into_iter().fold(1_usize, usize::saturating_mul);
    if count > MOST_PACKETS {
        let why = "addresses of the server, ranges of ports on both sides and protocols";
        return Err(Problem::argument(format!(
            "the flow has {count} alternatives of {why}, and at most {MOST_PACKETS} are possible"
        )));
    }
    let mut all = Vec::with_capacity(count);
    for server in servers {
        for src_ports in &device_ports {
            for dst_ports in &server_ports {
                for protocol in protocols {
                    let (src, dst) = (Some(device), Some(*server).filter(|net| net.prefix_len() > 0));
                    all.push(Packets {
                        src,
                        dst,
                        protocol: *protocol,
                        src_ports: *src_ports,
                        dst_ports: *dst_ports,
                    });
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
