//! Datagram senders and receivers: the sources of `lab/traffic` on simulated hosts.

use crate::agenda::Entity;
use crate::frame::{Hop, IpHeader};
use perhop_measure::{Membership, PacketRecord, StreamRecord};
use perhop_quality::Codec;
use perhop_scenario::NodeIndex;
use perhop_traffic::{Emission, Source, Stamp};
use perhop_units::{Dscp, Instant};
use perhop_wire::Ecn;
use std::net::Ipv4Addr;

/// Bytes of IPv4 and UDP header.
const HEADERS: u16 = 28;
/// Streams a scenario may have.
pub(crate) const MAX_STREAMS: usize = 24_000;
/// The first of the even ports that streams use, at both ends.
const FIRST_PORT: u16 = 16_384;

/// One source and where it sends.
pub(crate) struct Sender {
    pub(crate) entity: Entity,
    pub(crate) source: Box<dyn Source>,
    pub(crate) from: NodeIndex,
    /// The emission that is due next.
    pub(crate) due: Option<Emission>,
    pub(crate) hop: Hop,
    pub(crate) addresses: (Ipv4Addr, Ipv4Addr),
    pub(crate) dscp: Dscp,
    /// Number that the first stream's port is counted from: both directions of a call use one port.
    pub(crate) first_port_of: u16,
    /// First stream of this sender.
    pub(crate) first_stream: u16,
}

impl Sender {
    /// The IP header of its packets.
    pub(crate) fn header(&self, identification: u16) -> IpHeader {
        IpHeader {
            src: self.addresses.0,
            dst: self.addresses.1,
            dscp: self.dscp,
            ecn: Ecn::NotEct,
            identification,
            protocol: perhop_wire::protocol::UDP,
        }
    }

    /// Ports of a stream.
    pub(crate) fn ports(&self, stream: u16) -> (u16, u16) {
        let port = port_of(self.first_port_of + (stream - self.first_stream));
        (port, port)
    }
}

/// The port of a stream that is the `number`th of the scenario.
fn port_of(number: u16) -> u16 {
    FIRST_PORT + 2 * number
}

/// Everything sent and received as datagrams.
#[derive(Default)]
pub(crate) struct Datagrams {
    pub(crate) senders: Vec<Sender>,
    /// By stream number.
    streams: Vec<StreamRecord>,
    /// Datagrams that are no stream's.
    pub(crate) foreign: u64,
}

impl Datagrams {
    /// Adds streams of one direction of a traffic.
    pub(crate) fn add_streams(&mut self, of: Membership, count: u16, codec: Option<Codec>) {
        for number in 0..count {
            self.streams.push(StreamRecord::new(of, number, codec));
        }
    }

    /// Streams so far.
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// A packet leaves.
    pub(crate) fn sent(&mut self, emission: &Emission, clock: Instant) {
        let record = PacketRecord {
            sent: clock,
            arrived: Instant::FAR_FUTURE,
            len: emission.len + HEADERS,
            rtp_timestamp: emission.rtp.map_or(0, |rtp| rtp.timestamp),
        };
        if let Some(stream) = self.streams.get_mut(usize::from(emission.stream)) {
            stream.sent(emission.index, record);
        }
    }

    /// A datagram arrives: `payload` is what is above UDP.
    pub(crate) fn received(&mut self, payload: &[u8], clock: Instant) {
        let packet = Stamp::at_end_of(payload).and_then(|stamp| {
            let stream = self.streams.get_mut(usize::from(stamp.stream))?;
            Some((stamp, stream))
        });
        let Some((stamp, stream)) = packet else {
            self.foreign += 1;
            return;
        };
        if !stream.arrived(stamp.index, clock) {
            self.foreign += 1;
        }
    }

    /// The records.
    pub(crate) fn into_streams(self) -> Vec<StreamRecord> {
        self.streams
    }
}
