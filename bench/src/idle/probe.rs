//! Single packets through whatever forwards, and how long each takes.

use crate::error::BenchError;
use crate::router::{LAN, port_mac};
use crate::traffic::{Payload, Source};
use crate::veth::{Layout, SENDER, SINK};
use perhop_element::Port;
use perhop_io::clock::monotonic;
use perhop_io::{AfPacket, AfPacketConfig, Outgoing};
use perhop_netlink::Namespace;
use perhop_packet::{Batch, Pool};
use perhop_units::{Duration, Instant};
use perhop_wire::MacAddr;

/// A packet that takes longer is lost.
const PATIENCE: Duration = Duration(200_000_000);
/// Flows, so that the answer to one packet is not taken for that to the next.
const FLOWS: usize = 64;
/// Where a frame says of which flow it is: both addresses and both ports.
const FLOW: std::ops::Range<usize> = 26..38;

/// Both ends.
pub struct Probe {
    from: AfPacket,
    to: AfPacket,
    source: Source,
    pool: Pool,
    batch: Batch,
}

impl Probe {
    /// For frames of `packet` bytes.
    ///
    /// # Errors
    /// No packet socket can be had.
    pub fn open(layout: &Layout, packet: usize) -> Result<Self, BenchError> {
        let open = |namespace: &Namespace, interface: &str| -> Result<AfPacket, BenchError> {
            let config =
                AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(interface, interface) };
            Ok(namespace.run(|| AfPacket::open(config))??)
        };
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
        Ok(Self {
            from: open(&layout.sender, SENDER)?,
            to: open(&layout.sink, SINK)?,
            source: Source::new(FLOWS, packet, 1 << 20, 0, Payload::Random, 1, macs),
            pool: Pool::new(4 * Batch::MAX),
            batch: Batch::new(),
        })
    }

    /// Delays of `count` packets, one every so often, ns; and how many did not arrive. Each flow's first packet is sent
    /// before and does not count.
    ///
    /// # Errors
    /// A socket fails.
    pub fn delays(&mut self, count: u32, every: std::time::Duration) -> Result<(Vec<u64>, u64), BenchError> {
        for at in 0..self.source.count() {
            self.delay(at)?;
        }
        let (mut delays, mut lost) = (Vec::with_capacity(count as usize), 0);
        for i in 0..count as usize {
            std::thread::sleep(every);
            match self.delay(i % self.source.count())? {
                Some(delay) => delays.push(delay.0),
                None => lost += 1,
            }
        }
        Ok((delays, lost))
    }

    /// Of one packet.
    fn delay(&mut self, at: usize) -> Result<Option<Duration>, BenchError> {
        let Some(packet) = self.pool.packet(self.source.frame(at)) else { return Ok(None) };
        self.batch.push(packet);
        let sent = monotonic();
        while !self.batch.is_empty() || self.from.has_pending_output() {
            self.from.transmit(&mut self.batch)?;
        }
        let end = sent + PATIENCE;
        loop {
            let now = monotonic();
            if let Some(arrived) = self.arrival(at, now)? {
                return Ok(Some(arrived.since(sent)));
            }
            if now > end {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }

    /// When the flow's packet came, as the kernel stamped it.
    fn arrival(&mut self, at: usize, now: Instant) -> Result<Option<Instant>, BenchError> {
        if !self.to.has_input() {
            return Ok(None);
        }
        self.to.receive(now, &self.pool, &mut self.batch)?;
        let flow = self.source.frame(at).get(FLOW);
        let came = self.batch.iter().find(|p| p.frame().get(FLOW) == flow).map(|p| p.meta().received_at);
        self.batch.release_all();
        Ok(came)
    }
}
