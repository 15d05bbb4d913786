//! What crosses an interface, seen beside the sockets, with the kernel's stamps.

use crate::error::LabError;
use perhop_element::Port;
use perhop_io::clock::monotonic;
use perhop_io::{AfPacket, AfPacketConfig, Outgoing};
use perhop_netlink::Namespace;
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use std::os::fd::{AsFd, BorrowedFd};

/// A packet socket that shows what arrives at an interface.
pub(crate) struct Watcher {
    port: AfPacket,
    pool: Pool,
    batch: Batch,
}

/// Opens a packet socket on `device` in a namespace; `outgoing`: what becomes of what the machine sends there.
pub(crate) fn open(namespace: &Namespace, device: &str, outgoing: Outgoing) -> Result<Watcher, LabError> {
    let config = AfPacketConfig { outgoing, ..AfPacketConfig::new("tap", device) };
    let port = namespace
        .run(|| AfPacket::open(config))
        .map_err(crate::error::network("open the tap"))?
        .map_err(|e| LabError::Engine { doing: "open the tap", reason: e.to_string() })?;
    Ok(Watcher { port, pool: Pool::new(4 * Batch::MAX), batch: Batch::new() })
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl Watcher {
    /// Shows every frame that has arrived, with the kernel's stamp.
    pub(crate) fn read(&mut self, mut show: impl FnMut(Instant, &[u8])) {
        loop {
            let received = self.port.receive(monotonic(), &self.pool, &mut self.batch).unwrap_or(0);
            for packet in self.batch.iter() {
                show(packet.meta().received_at, packet.frame());
            }
            self.batch.release_all();
            if received < Batch::MAX {
                return;
            }
        }
    }

    /// Frames that its ring lost.
    pub(crate) fn lost(&mut self) -> u64 {
        let mut counters: Vec<(String, u64)> = Vec::new();
        self.port.counters(&mut counters);
        counters.iter().filter(|(n, _)| n == "rx_ring_lost" || n == "rx_no_buffer").map(|(_, v)| v).sum()
    }
}
