//! Datagram streams between hosts, over real sockets: who sends what from where, in the order of the simulator.

use super::error::unsuitable;
use super::network::Network;
use crate::error::{LabError, io, network};
use crate::udp::connected;
use perhop_measure::{Membership, PacketRecord, StreamRecord, Toward};
use perhop_scenario::{NodeIndex, Paths, Scenario, Traffic, generators};
use perhop_traffic::{Seed, Source};
use perhop_units::{Dscp, Instant};
use rustix::net::sockopt;
use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};

/// Streams a scenario may have: two ports apart, at both ends, below the ports of TCP clients.
pub(super) const MAX_STREAMS: usize = 8_000;
/// The first of the even ports that streams use, at both ends.
const FIRST_PORT: u16 = 16_384;
/// Bytes of IPv4 and UDP header.
pub(super) const HEADERS: u16 = 28;

/// One direction of the datagrams of one pair.
pub(super) struct Sender {
    pub(super) from: NodeIndex,
    pub(super) source: Box<dyn Source>,
}

/// One stream and the sockets at its ends.
pub(super) struct Stream {
    pub(super) from: NodeIndex,
    pub(super) to: NodeIndex,
    port: u16,
    dscp: Dscp,
    record: StreamRecord,
}

/// Everything that is sent as datagrams.
#[derive(Default)]
pub(super) struct Datagrams {
    pub(super) senders: Vec<Sender>,
    /// By stream number.
    pub(super) streams: Vec<Stream>,
}

impl Datagrams {
    /// The streams of a scenario.
    pub(super) fn plan(scenario: &Scenario, paths: &Paths, seed: Seed) -> Result<Self, LabError> {
        let mut plan = Self::default();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            for pair in 0..traffic.pairs.len() {
                // Both directions of a call use one port.
                let first_port = plan.streams.len();
                let second = traffic.both.then_some(Toward::First);
                for toward in [Toward::Second].into_iter().chain(second) {
                    let of = Membership { traffic: index, pair, toward };
                    plan.add(scenario, paths, of, traffic, first_port, seed)?;
                }
            }
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        paths: &Paths,
        of: Membership,
        traffic: &Traffic,
        first_port: usize,
        seed: Seed,
    ) -> Result<(), LabError> {
        let part = || format!("traffic \"{}\"", traffic.name);
        let first = self.streams.len();
        let made = generators::datagrams(traffic, first as u16, seed).map_err(|e| unsuitable(part(), e))?;
        let Some(made) = made else { return Ok(()) };
        if first + usize::from(made.streams) > MAX_STREAMS {
            let why = format!(
                "more than {MAX_STREAMS} streams of datagrams, the most in namespaces; reduce calls or count, or run it \
                 with --mode sim, which takes 24000"
            );
            return Err(unsuitable(part(), why));
        }
        let (from, to) = direction(traffic, of);
        check_path(scenario, paths, traffic, from, to)?;
        for number in 0..made.streams {
            let port = FIRST_PORT + 2 * (first_port as u16 + number);
            let codec = made.codec;
            let record = StreamRecord::new(of, number, codec);
            self.streams.push(Stream { from, to, port, dscp: traffic.dscp, record });
        }
        self.senders.push(Sender { from, source: made.source });
        Ok(())
    }

    /// Opens the sockets of all streams at one host: those it sends on, those it receives on.
    pub(super) fn sockets(
        &self,
        scenario: &Scenario,
        network_of: &Network,
        node: NodeIndex,
    ) -> Result<Sockets, LabError> {
        let address = |node: NodeIndex| scenario.nodes[node.0].address;
        let streams = &self.streams;
        let open = || -> std::io::Result<Sockets> {
            let mut sockets = Sockets { sends: Vec::new(), receives: Vec::new() };
            let mut known: HashMap<(u16, Ipv4Addr), usize> = HashMap::new();
            for (number, stream) in streams.iter().enumerate() {
                let sends = stream.from == node;
                if !sends && stream.to != node {
                    continue;
                }
                let peer = address(if sends { stream.to } else { stream.from });
                let index = match known.get(&(stream.port, peer)) {
                    Some(index) => *index,
                    None => {
                        let socket = connected((address(node), stream.port), (peer, stream.port))?;
                        socket.set_nonblocking(true)?;
                        sockets.receives.push(socket);
                        known.insert((stream.port, peer), sockets.receives.len() - 1);
                        sockets.receives.len() - 1
                    }
                };
                if sends {
                    let socket = sockets.receives[index].try_clone()?;
                    sockopt::set_ip_tos(&socket, stream.dscp.get() << 2)?;
                    sockets.sends.push((number as u16, socket));
                }
            }
            Ok(sockets)
        };
        network_of.nodes[node.0].run(open).map_err(network("open sockets"))?.map_err(io("open sockets"))
    }

    /// Books what was sent.
    pub(super) fn sent(&mut self, sent: &crate::udp::Sent, clock: Instant) {
        let Some(stream) = self.streams.get_mut(usize::from(sent.stream)) else { return };
        let packet = PacketRecord {
            sent: clock,
            arrived: Instant::FAR_FUTURE,
            len: sent.len + HEADERS,
            rtp_timestamp: sent.rtp_timestamp,
        };
        stream.record.sent(sent.index, packet);
    }

    /// Books an arrival; `false` when no such packet was sent.
    pub(super) fn arrived(&mut self, stream: u16, index: u32, at: Instant) -> bool {
        let Some(stream) = self.streams.get_mut(usize::from(stream)) else { return false };
        // Two clocks that are read one after the other may differ by less than the way is long.
        let sent = stream.record.packet(index).map(|packet| packet.sent);
        sent.is_some_and(|sent| stream.record.arrived(index, at.max(sent)))
    }

    /// Turns instants into what the nodes' own clocks showed then.
    pub(super) fn read_clocks(&mut self, read: impl Fn(NodeIndex, Instant) -> Instant) {
        for stream in &mut self.streams {
            for packet in &mut stream.record.packets {
                packet.sent = read(stream.from, packet.sent);
                if packet.arrived != Instant::FAR_FUTURE {
                    packet.arrived = read(stream.to, packet.arrived);
                }
            }
        }
    }

    /// The records.
    pub(super) fn into_records(self) -> Vec<StreamRecord> {
        self.streams.into_iter().map(|stream| stream.record).collect()
    }
}

/// Sockets of one host.
pub(super) struct Sockets {
    /// By stream number.
    pub(super) sends: Vec<(u16, UdpSocket)>,
    /// All of them.
    pub(super) receives: Vec<UdpSocket>,
}

/// Sender and receiver of a direction.
pub(super) fn direction(traffic: &Traffic, of: Membership) -> (NodeIndex, NodeIndex) {
    let (a, b) = traffic.pairs[of.pair];
    if of.toward == Toward::Second { (a, b) } else { (b, a) }
}

/// Refuses traffic between hosts that no links connect.
pub(super) fn check_path(
    scenario: &Scenario,
    paths: &Paths,
    traffic: &Traffic,
    from: NodeIndex,
    to: NodeIndex,
) -> Result<(), LabError> {
    if paths.first_link(from, to).is_some() && paths.first_link(to, from).is_some() {
        return Ok(());
    }
    let name = |node: NodeIndex| &scenario.nodes[node.0].name;
    let why = format!("no link leads from \"{}\" to \"{}\"", name(from), name(to));
    Err(unsuitable(format!("traffic \"{}\"", traffic.name), why))
}
