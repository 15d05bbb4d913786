//! How a router's ports are opened: a TUN interface or AF_XDP where it is asked for, the latter if possible; else packet
//! sockets, by what the interface is.

use crate::error::EngineError;
use crate::kernel_routes::ports_by_index;
use crate::left_to_kernel::{LeftToKernel, whole};
use crate::prepare::Device;
use perhop_io::af_xdp::{HostTraffic, Place, Sharing, XdpError};
use perhop_io::{AfPacket, AfPacketConfig, AfXdp, AfXdpConfig, DevicePort, IpPort, TunPort};
use perhop_netlink::{Mirror, Namespace, Netlink};
use perhop_packet::Pool;
use perhop_routerfile::{PortIo, Waiting};
use std::sync::Arc;

/// How to open a port's socket.
#[derive(Clone, Debug)]
pub(crate) struct SocketPlan {
    pub(crate) rx_slots: u32,
    pub(crate) tx_slots: u32,
    pub(crate) promiscuous: bool,
    /// Names of ports on TUN interfaces of the router's own.
    pub(crate) tun: Vec<String>,
    /// Names of ports on other interfaces without link headers.
    pub(crate) bare: Vec<String>,
    /// With AF_XDP, if it can be.
    pub(crate) xdp: Option<XdpPlan>,
}

/// What AF_XDP ports of a router share.
#[derive(Clone, Debug)]
pub(crate) struct XdpPlan {
    pool: Pool,
    host: Arc<HostTraffic>,
    sharing: Sharing,
    place: Place,
    /// See [`AfXdpConfig::busy_poll_us`].
    busy_poll_us: u32,
}

/// What one call polls a card for at most, µs. The call that a packet thread makes polls once, whatever this is.
const BUSY_POLL_US: u32 = 20;

impl XdpPlan {
    /// For ports that are to receive into `pool`. `None` when AF_XDP is not wanted; when it is not possible a sentence
    /// says why.
    pub(crate) fn new(
        (io, waiting): (PortIo, Waiting),
        bridges: bool,
        pool: &Pool,
        (namespace, devices): (&Namespace, &[Device]),
    ) -> Result<(Option<Self>, Option<String>), EngineError> {
        // Behind a driver it is no faster than a packet socket, so that nobody gets it who did not ask.
        let place = match io {
            PortIo::AfPacket => return Ok((None, None)),
            PortIo::AfXdp => Place::Anywhere,
            PortIo::Auto => Place::Driver,
        };
        let sharing = if bridges { Sharing::Bridge } else { Sharing::Route };
        let host = match HostTraffic::new(sharing) {
            Ok(host) => Arc::new(host),
            Err(error) => {
                return Ok((None, Some(format!("all ports use packet sockets instead of AF_XDP: {error}"))));
            }
        };
        let busy_poll_us = if waiting == Waiting::Poll { BUSY_POLL_US } else { 0 };
        let plan = Self { pool: pool.clone(), host, sharing, place, busy_poll_us };
        let mirror = Mirror::open_in(namespace)?;
        let ports: Vec<u32> = ports_by_index(&mirror, devices).into_keys().collect();
        plan.tell(&mirror, &LeftToKernel::of(&mirror, &ports));
        Ok((Some(plan), None))
    }

    /// Tells the ports' programs what the kernel is to see.
    fn tell(&self, mirror: &Mirror, left: &LeftToKernel) {
        if self.sharing == Sharing::Route {
            return left.tell(&self.host, mirror);
        }
        // Not what every host hears: the bridge carries it on.
        let addresses = mirror.addresses().iter().map(|a| whole(a.address.addr()));
        if let Err(error) = self.host.set(&addresses.collect::<Vec<_>>(), &[]) {
            tracing::warn!(%error, "AF_XDP ports keep packets to some addresses of this host from it");
        }
    }

    fn open(&self, plan: &SocketPlan, device: &Device) -> Result<AfXdp, XdpError> {
        let config = AfXdpConfig {
            rx_slots: plan.rx_slots,
            tx_slots: plan.tx_slots,
            promiscuous: plan.promiscuous,
            place: self.place,
            busy_poll_us: self.busy_poll_us,
            ..AfXdpConfig::new(&device.port, &device.device)
        };
        AfXdp::open(config, &self.pool, &self.host)
    }
}

/// Makes a port's TUN interface, or attaches to it, and switches it on.
pub(crate) fn open_tun(
    namespace: &Namespace,
    netlink: &Netlink,
    device: &Device,
) -> Result<TunPort, EngineError> {
    let port = namespace
        .run(|| TunPort::open(&device.port, &device.device))?
        .map_err(|e| EngineError::of_port(&device.port, &device.device, e))?;
    netlink.set_up(&device.device).map_err(|e| EngineError::of_netlink(&device.port, &device.device, e))?;
    Ok(port)
}

impl SocketPlan {
    /// Whether the port is on a TUN interface of the router's own.
    pub(crate) fn is_tun(&self, device: &Device) -> bool {
        self.tun.contains(&device.port)
    }

    /// Whether the port's packets have no link's header, and so no neighbours.
    pub(crate) fn is_headerless(&self, device: &Device) -> bool {
        self.is_tun(device) || self.bare.contains(&device.port)
    }

    /// Opens the port, and says why it is not with AF_XDP, or not in the driver, where that was to be tried.
    pub(crate) fn open(
        &self,
        namespace: &Namespace,
        device: &Device,
    ) -> Result<(DevicePort, Option<String>), EngineError> {
        if self.is_tun(device) {
            let port = open_tun(namespace, &Netlink::open_in(namespace)?, device)?;
            return Ok((port.into(), None));
        }
        let failed = |e| EngineError::of_port(&device.port, &device.device, e);
        if self.is_headerless(device) {
            let port = namespace.run(|| IpPort::open(&device.port, &device.device))?.map_err(failed)?;
            return Ok((port.into(), None));
        }
        let mut why = None;
        if let Some(xdp) = &self.xdp {
            let name = &device.port;
            match namespace.run(|| xdp.open(self, device))? {
                Ok(port) => {
                    let in_kernel = port.why_not_in_driver();
                    why = in_kernel.map(|e| format!("port \"{name}\": AF_XDP works behind the driver: {e}"));
                    return Ok((port.into(), why));
                }
                Err(error) => {
                    why = Some(format!("port \"{name}\" uses a packet socket instead of AF_XDP: {error}"));
                }
            }
        }
        let config = AfPacketConfig {
            rx_slots: self.rx_slots,
            tx_slots: self.tx_slots,
            promiscuous: self.promiscuous,
            ..AfPacketConfig::new(&device.port, &device.device)
        };
        let socket = namespace.run(|| AfPacket::open(config))?.map_err(failed)?;
        Ok((socket.into(), why))
    }

    /// Follows the host's addresses.
    pub(crate) fn follow(&self, mirror: &Mirror, left: &LeftToKernel) {
        if let Some(xdp) = &self.xdp {
            xdp.tell(mirror, left);
        }
    }
}
