//! Making interfaces fit for a router: offloads off, the kernel's forwarding off.

use crate::error::EngineError;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink};

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
