//! The interfaces that frames are sent and forwarded by, and what their thread saw.

use super::layout::{INSIDE, LOCAL, OUTSIDE};
use super::path::{Io, Path};
use crate::error::BenchError;
use perhop_element::{Port, PortError};
use perhop_io::af_xdp::{HostTraffic, Mode, Sharing, XdpError};
use perhop_io::{AfPacket, AfPacketConfig, AfXdp, AfXdpConfig, DevicePort, EarlyDrop, Outgoing};
use perhop_packet::Pool;

/// What the router's thread saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterReport {
    /// Packets received.
    pub received: u64,
    /// Turns that received something.
    pub batches: u64,
    /// Lost because the receive ring was full.
    pub ring_lost: u64,
    /// Lost at transmission.
    pub tx_failed: u64,
    /// Dropped by elements.
    pub dropped: u64,
    /// Memory allocations after the first packets.
    pub allocations: u64,
    /// Share of its time that it was ready and did not run.
    pub waited: f64,
    /// Whether the kernel's IP was spared the frames, as a running router does where it may.
    pub early_drop: bool,
    /// How packets entered and left.
    pub mode: &'static str,
}

/// What a mode is called in a result.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::DriverZeroCopy => "native, zero copy",
        Mode::DriverCopy => "native, copy",
        Mode::GenericCopy => "generic, copy",
    }
}

/// The router's ports, and what keeps the kernel's IP from the frames of packet sockets.
pub struct Ports {
    /// Towards the sender.
    pub inside: DevicePort,
    /// Towards the sink.
    pub outside: DevicePort,
    /// One for each that the kernel's IP could be kept from.
    pub early_drops: Vec<EarlyDrop>,
    /// As [`RouterReport::mode`].
    pub mode: &'static str,
}

/// What is the host's, and how to open the interfaces for AF_XDP.
///
/// # Errors
/// AF_XDP cannot be had.
pub fn xdp_configs(path: &Path) -> Result<(HostTraffic, [AfXdpConfig; 2]), XdpError> {
    let host = HostTraffic::new(Sharing::Route)?;
    host.set(&LOCAL, &[])?;
    let config =
        |port, interface| AfXdpConfig { place: path.xdp.place(), ..AfXdpConfig::new(port, interface) };
    Ok((host, [config("lan", INSIDE), config("wan", OUTSIDE)]))
}

impl Ports {
    /// Opens them in the namespace that the thread is in; `ports` are the indices of the interfaces.
    ///
    /// # Errors
    /// A packet socket or AF_XDP cannot be had.
    pub fn open(path: &Path, ports: [u32; 2], pool: &Pool) -> Result<Self, BenchError> {
        if path.io == Io::AfXdp {
            let (host, [lan, wan]) = xdp_configs(path)?;
            let inside = AfXdp::open(lan, pool, &host)?;
            let outside = AfXdp::open(wan, pool, &host)?;
            let mode = mode_name(inside.mode());
            return Ok(Self {
                inside: inside.into(),
                outside: outside.into(),
                early_drops: Vec::new(),
                mode,
            });
        }
        let (inside, outside) = (open("lan", INSIDE)?.into(), open("wan", OUTSIDE)?.into());
        // As the engine does; the right to may be missing.
        let early_drops = ports.into_iter().filter_map(|index| EarlyDrop::attach(index, &LOCAL).ok());
        Ok(Self { inside, outside, early_drops: early_drops.collect(), mode: "ring" })
    }
}

/// A packet socket that sees what comes in alone.
///
/// # Errors
/// There is no such interface, or no right to it.
pub fn open(name: &str, interface: &str) -> Result<AfPacket, PortError> {
    let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(name, interface) };
    AfPacket::open(config)
}

/// One of a port's counters; 0 when it has none of this name.
pub fn counter(port: &mut DevicePort, name: &str) -> u64 {
    let mut counters: Vec<(String, u64)> = Vec::new();
    port.counters(&mut counters);
    counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v)
}
