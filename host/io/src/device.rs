//! A port on an interface of this machine, by whichever way frames reach it.

use crate::af_packet::KernelSent;
use crate::{AfPacket, AfXdp, IpPort, TunPort};
use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use std::os::fd::{AsFd, BorrowedFd};

/// A port on an interface. See [`AfPacket`], [`AfXdp`], [`IpPort`] and [`TunPort`] for what differs.
#[derive(Debug)]
pub enum DevicePort {
    /// By a packet socket.
    AfPacket(AfPacket),
    /// By AF_XDP sockets.
    AfXdp(AfXdp),
    /// By a packet socket, without link headers.
    Ip(IpPort),
    /// By a TUN interface of our own.
    Tun(TunPort),
}

impl DevicePort {
    /// The way: `af_packet`, `af_xdp` and how, `ip` (no link headers) or `tun`.
    pub fn way(&self) -> String {
        match self {
            Self::AfPacket(_) => "af_packet".to_owned(),
            Self::AfXdp(port) => format!("af_xdp ({})", port.mode()),
            Self::Ip(_) => "ip".to_owned(),
            Self::Tun(_) => "tun".to_owned(),
        }
    }

    /// Whether a frame waits to be received.
    pub fn has_input(&self) -> bool {
        match self {
            Self::AfPacket(port) => port.has_input(),
            Self::AfXdp(port) => port.has_input(),
            Self::Ip(port) => port.has_input(),
            Self::Tun(port) => port.has_input(),
        }
    }

    /// Has the kernel poll the card from the calling thread, where the port was opened for it; see
    /// [`AfXdpConfig::busy_poll_us`](crate::AfXdpConfig::busy_poll_us).
    pub fn poll_card(&mut self) {
        if let Self::AfXdp(port) = self {
            port.poll_card();
        }
    }

    /// Whether frames wait that need another [`Port::transmit`], with or without more packets.
    pub fn has_pending_output(&self) -> bool {
        match self {
            Self::AfPacket(port) => port.has_pending_output(),
            Self::AfXdp(port) => port.has_pending_output(),
            Self::Ip(_) | Self::Tun(_) => false,
        }
    }

    /// What the kernel sent by this interface since the last call.
    pub fn take_kernel_sent(&mut self) -> KernelSent {
        match self {
            Self::AfPacket(port) => port.take_kernel_sent(),
            Self::AfXdp(port) => port.take_kernel_sent(),
            // It passes by unseen.
            Self::Ip(_) => KernelSent::default(),
            // What the kernel sends there is what the port receives.
            Self::Tun(_) => KernelSent::default(),
        }
    }

    /// Looks for an interface that went down or away; call after `poll(2)` reported an error.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        match self {
            Self::AfPacket(port) => port.check_link(),
            Self::AfXdp(port) => port.check_link(),
            Self::Ip(port) => port.check_link(),
            Self::Tun(port) => port.check_link(),
        }
    }
}

impl From<AfPacket> for DevicePort {
    fn from(port: AfPacket) -> Self {
        Self::AfPacket(port)
    }
}

impl From<AfXdp> for DevicePort {
    fn from(port: AfXdp) -> Self {
        Self::AfXdp(port)
    }
}

impl From<IpPort> for DevicePort {
    fn from(port: IpPort) -> Self {
        Self::Ip(port)
    }
}

impl From<TunPort> for DevicePort {
    fn from(port: TunPort) -> Self {
        Self::Tun(port)
    }
}

impl Port for DevicePort {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        match self {
            Self::AfPacket(port) => port.receive(now, pool, batch),
            Self::AfXdp(port) => port.receive(now, pool, batch),
            Self::Ip(port) => port.receive(now, pool, batch),
            Self::Tun(port) => port.receive(now, pool, batch),
        }
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        match self {
            Self::AfPacket(port) => port.transmit(batch),
            Self::AfXdp(port) => port.transmit(batch),
            Self::Ip(port) => port.transmit(batch),
            Self::Tun(port) => port.transmit(batch),
        }
    }

    fn room(&mut self) -> u32 {
        match self {
            Self::AfPacket(port) => port.room(),
            Self::AfXdp(port) => port.room(),
            Self::Ip(port) => port.room(),
            Self::Tun(port) => port.room(),
        }
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        match self {
            Self::AfPacket(port) => port.counters(sink),
            Self::AfXdp(port) => port.counters(sink),
            Self::Ip(port) => port.counters(sink),
            Self::Tun(port) => port.counters(sink),
        }
    }
}

impl AsFd for DevicePort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::AfPacket(port) => port.as_fd(),
            Self::AfXdp(port) => port.as_fd(),
            Self::Ip(port) => port.as_fd(),
            Self::Tun(port) => port.as_fd(),
        }
    }
}
