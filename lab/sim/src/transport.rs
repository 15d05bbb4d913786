//! Connections: `lab/tcp` endpoints on simulated hosts, driven by the applications of `lab/traffic`.

use crate::agenda::Entity;
use crate::build::Options;
use crate::error::SimError;
use crate::frame::{FRAME_LEN, Hop, IP_LEN, IpHeader, ip_packet};
use crate::random::Stream;
use crate::world::{Who, World};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_measure::{ConnectionRecord, ConnectionSample, Membership, Toward};
use perhop_packet::Packet;
use perhop_scenario::{NodeIndex, Scenario, Tcp, Traffic, TrafficKind, generators};
use perhop_tcp::wire::parse_unchecked;
use perhop_tcp::{
    Algorithm, Config, CubicConfig, DelayedAck, Endpoint, Event, RtoLimits, Segment, SegmentOut, State,
    refusal,
};
use perhop_traffic::Seed;
use perhop_traffic::tcp::{AppAction, AppEvent, ConnId, Side, TcpApplication};
use perhop_units::{Bytes, Dscp, Duration, Instant};
use perhop_wire::checksum::pseudo_header_v4;
use perhop_wire::{Ecn, ipv4, protocol, tcp};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Client ports, as Linux gives them out.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Connections of one traffic that record their windows.
const TRACED: usize = 4;
/// Bytes of a segment that time-stamps take.
const STAMP_OPTION: u16 = 12;
/// Interval of these records.
const TRACE_INTERVAL: Duration = Duration::from_millis(10);

/// The well-known port a traffic's connections go to.
fn server_port(kind: &TrafficKind) -> u16 {
    match kind {
        TrafficKind::Web { .. } => 80,
        TrafficKind::Files { .. } => 20,
        _ => 5001,
    }
}

/// The transport of a traffic that has one.
fn tcp_of(kind: &TrafficKind) -> Option<&Tcp> {
    match kind {
        TrafficKind::Bulk { tcp, .. } | TrafficKind::Files { tcp, .. } | TrafficKind::Web { tcp, .. } => {
            Some(tcp)
        }
        _ => None,
    }
}

/// What the endpoint is told.
fn config_of(tcp: &Tcp) -> Result<Config, String> {
    let congestion = match tcp.congestion.as_str() {
        "newreno" | "reno" => Algorithm::NewReno,
        "cubic" => Algorithm::Cubic(CubicConfig::default()),
        other => {
            return Err(format!(
                "no congestion control \"{other}\" in the simulator; there are newreno and cubic"
            ));
        }
    };
    let size = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
    let standard = Config::default();
    let config = Config {
        // The model counts payload; the endpoint takes the options' room out of what it announces.
        mss: tcp.mss + if tcp.timestamps { STAMP_OPTION } else { 0 },
        initial_window: tcp.initial_window,
        send_buffer: size(tcp.send_buffer),
        receive_buffer: size(tcp.receive_buffer),
        congestion,
        sack: tcp.sack,
        timestamps: tcp.timestamps,
        window_scaling: tcp.timestamps,
        ecn: tcp.ecn,
        delayed_ack: match tcp.delayed_ack {
            Some(timeout) => DelayedAck { segments: 2, timeout },
            None => DelayedAck { segments: 1, timeout: Duration::ZERO },
        },
        rto: RtoLimits { initial: tcp.initial_rto.max(tcp.min_rto), min: tcp.min_rto, ..standard.rto },
        ..standard
    };
    config.check().map_err(|e| e.to_string())?;
    Ok(config)
}

/// Who a segment is for: host, its port, the other address and port.
type Key = (u32, u16, Ipv4Addr, u16);

/// One end of a connection.
struct End {
    endpoint: Endpoint,
    entity: Entity,
    node: NodeIndex,
    hop: Hop,
    addresses: (Ipv4Addr, Ipv4Addr),
    dscp: Dscp,
    connection: usize,
    side: Side,
    /// Bytes the application wants to write that the buffer had no room for.
    unwritten: u64,
    closing: bool,
    over: bool,
}

struct Connection {
    application: usize,
    id: ConnId,
    ends: [usize; 2],
    record: usize,
    /// The application has been told the last of it.
    told: bool,
}

struct Application {
    entity: Entity,
    machine: Box<dyn TcpApplication>,
    /// Client and server.
    nodes: [NodeIndex; 2],
    hops: [Hop; 2],
    addresses: [Ipv4Addr; 2],
    dscps: [Dscp; 2],
    port: u16,
    config: Config,
    of: Membership,
    /// Which side the data go to.
    receiver: Side,
    connections: HashMap<ConnId, usize, FixedState>,
    traced: bool,
    opened: usize,
}

/// All connections.
pub(crate) struct Transport {
    ends: Vec<Option<End>>,
    free_ends: Vec<usize>,
    connections: Vec<Option<Connection>>,
    free_connections: Vec<usize>,
    applications: Vec<Application>,
    by_key: HashMap<Key, usize, FixedState>,
    /// Next client port of each host.
    next_port: Vec<u16>,
    records: Vec<ConnectionRecord>,
    /// What applications are to be told, in order; nothing: only that time has come.
    told: VecDeque<(usize, Option<AppEvent>)>,
    random: Stream,
    window: (Instant, Instant),
    bin: Duration,
    /// Segments that are no connection's.
    pub(crate) strays: u64,
}

/// Random streams below this number belong to links.
const TRANSPORT_STREAM: u64 = 1 << 32;

fn index_of(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Transport {
    pub(crate) fn new(scenario: &Scenario, options: &Options) -> Self {
        Self {
            ends: Vec::new(),
            free_ends: Vec::new(),
            connections: Vec::new(),
            free_connections: Vec::new(),
            applications: Vec::new(),
            by_key: HashMap::with_hasher(FixedState::with_seed(1)),
            next_port: vec![*EPHEMERAL.start(); scenario.nodes.len()],
            records: Vec::new(),
            told: VecDeque::new(),
            random: Stream::new(options.seed, options.repetition, TRANSPORT_STREAM),
            window: (Instant(scenario.warm_up.as_nanos()), Instant(scenario.length().as_nanos())),
            bin: scenario.probes.throughput_bin,
            strays: 0,
        }
    }

    /// The records; connections still open count what they have.
    pub(crate) fn into_records(mut self) -> Vec<ConnectionRecord> {
        for end in self.ends.iter().flatten() {
            let Some(connection) = self.connections[end.connection].as_ref() else { continue };
            let receiver = self.applications[connection.application].receiver;
            if end.side != receiver {
                self.records[connection.record].retransmits = Some(end.endpoint.counters().retransmits);
            }
        }
        self.records
    }

    /// A port of `node` that no connection to this server uses.
    fn client_port(&mut self, node: NodeIndex, server: Ipv4Addr, port: u16) -> Option<u16> {
        for _ in EPHEMERAL {
            let next = &mut self.next_port[node.0];
            let candidate = *next;
            *next = if candidate == *EPHEMERAL.end() { *EPHEMERAL.start() } else { candidate + 1 };
            if !self.by_key.contains_key(&(node.0 as u32, candidate, server, port)) {
                return Some(candidate);
            }
        }
        None
    }

    fn insert_end(&mut self, end: End) -> usize {
        if let Some(index) = self.free_ends.pop() {
            self.ends[index] = Some(end);
            return index;
        }
        self.ends.push(Some(end));
        self.ends.len() - 1
    }

    /// The application wants to hear no more of a connection.
    fn forget(&mut self, application: usize, conn: ConnId) {
        let connection = self.applications[application].connections.get(&conn).copied();
        if let Some(Some(connection)) = connection.and_then(|index| self.connections.get_mut(index)) {
            connection.told = true;
        }
    }

    fn tell(&mut self, application: usize, event: AppEvent) {
        self.told.push_back((application, Some(event)));
    }
}

impl World {
    /// One direction of a TCP traffic of one pair.
    pub(crate) fn add_application(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        of: Membership,
        traffic: &Traffic,
    ) -> Result<(), SimError> {
        let (a, b) = traffic.pairs[of.pair];
        let (sender, receiver) = if of.toward == Toward::Second { (a, b) } else { (b, a) };
        let wrong = |why: String| SimError::Traffic { traffic: traffic.name.clone(), why };
        let seed = Seed { seed: options.seed, repetition: options.repetition };
        let group = self.transport.applications.len() as u16;
        let made = generators::connections(traffic, group, seed).map_err(|e| wrong(e.to_string()))?;
        let (Some(made), Some(tcp)) = (made, tcp_of(&traffic.kind)) else { return Ok(()) };
        let config = config_of(tcp).map_err(wrong)?;
        let (client, server) =
            if made.receiver == Side::Client { (receiver, sender) } else { (sender, receiver) };
        let hops = [
            self.first_hop(scenario, traffic, client, server)?,
            self.first_hop(scenario, traffic, server, client)?,
        ];
        let dscp_of = |node| if node == sender { traffic.dscp } else { traffic.reply_dscp };
        let index = self.transport.applications.len();
        let entity = self.entity(Who::Application(index));
        let at = made.machine.next_wakeup();
        self.transport.applications.push(Application {
            entity,
            machine: Box::new(made.machine),
            nodes: [client, server],
            hops,
            addresses: [scenario.nodes[client.0].address, scenario.nodes[server.0].address],
            dscps: [dscp_of(client), dscp_of(server)],
            port: server_port(&traffic.kind),
            config,
            of,
            receiver: made.receiver,
            connections: HashMap::with_hasher(FixedState::with_seed(2)),
            traced: scenario.probes.connections.contains(&of.traffic),
            opened: 0,
        });
        // What it wants at time zero it is asked for at time zero.
        self.agenda.arm(entity, at.unwrap_or(Instant::ZERO));
        Ok(())
    }

    /// The application's time has come.
    pub(crate) fn wake_application(&mut self, application: usize) {
        self.transport.told.push_back((application, None));
        self.run_applications();
    }

    /// Lets applications that were told something act, until none has more to do now.
    fn run_applications(&mut self) {
        while let Some((index, event)) = self.transport.told.pop_front() {
            if let Some(event) = event {
                self.transport.applications[index].machine.handle(self.now, event);
            }
            while let Some(action) = self.transport.applications[index].machine.poll(self.now) {
                match action {
                    AppAction::Open { conn } => self.open(index, conn),
                    AppAction::Write { conn, side, bytes } => {
                        self.act(index, conn, side, |end| end.unwritten += bytes)
                    }
                    AppAction::Close { conn, side } => self.act(index, conn, side, |end| end.closing = true),
                    AppAction::Abort { conn } => {
                        self.transport.forget(index, conn);
                        for side in [Side::Client, Side::Server] {
                            self.act(index, conn, side, |end| end.endpoint.abort());
                        }
                    }
                }
            }
            let application = &self.transport.applications[index];
            if let Some(at) = application.machine.next_wakeup() {
                self.agenda.arm(application.entity, at.max(self.now));
            }
        }
    }

    fn act(&mut self, application: usize, conn: ConnId, side: Side, act: impl FnOnce(&mut End)) {
        let transport = &mut self.transport;
        let Some(connection) = transport.applications[application].connections.get(&conn).copied() else {
            return;
        };
        let Some(Some(state)) = transport.connections.get(connection) else { return };
        let index = state.ends[index_of(side)];
        if let Some(Some(end)) = transport.ends.get_mut(index) {
            act(end);
            self.serve(index);
        }
    }

    fn open(&mut self, index: usize, conn: ConnId) {
        let now = self.now;
        let application = &self.transport.applications[index];
        let (nodes, addresses, port, config) =
            (application.nodes, application.addresses, application.port, application.config);
        let Some(client_port) = self.transport.client_port(nodes[0], addresses[1], port) else {
            return self.transport.tell(index, AppEvent::Failed { conn });
        };
        let isn = [self.transport.random.bits(), self.transport.random.bits()];
        let client = Endpoint::connect(config, client_port, port, isn[0], now);
        let server = Endpoint::listen(config, port, isn[1], now);
        let (Ok(client), Ok(server)) = (client, server) else {
            // The configuration was checked when the application was added.
            return self.transport.tell(index, AppEvent::Failed { conn });
        };
        let connection = self.transport.free_connections.pop().unwrap_or_else(|| {
            self.transport.connections.push(None);
            self.transport.connections.len() - 1
        });
        let mut ends = [0; 2];
        for (i, endpoint) in [client, server].into_iter().enumerate() {
            let application = &self.transport.applications[index];
            let (hop, dscp) = (application.hops[i], application.dscps[i]);
            let entity = self.entity(Who::End(usize::MAX));
            let end = End {
                endpoint,
                entity,
                node: nodes[i],
                hop,
                addresses: (addresses[i], addresses[1 - i]),
                dscp,
                connection,
                side: if i == 0 { Side::Client } else { Side::Server },
                unwritten: 0,
                closing: false,
                over: false,
            };
            ends[i] = self.transport.insert_end(end);
            self.who[entity.0 as usize] = Who::End(ends[i]);
        }
        let transport = &mut self.transport;
        transport.by_key.insert((nodes[0].0 as u32, client_port, addresses[1], port), ends[0]);
        transport.by_key.insert((nodes[1].0 as u32, port, addresses[0], client_port), ends[1]);
        let application = &mut transport.applications[index];
        application.opened += 1;
        application.connections.insert(conn, connection);
        let record = transport.records.len();
        transport.records.push(ConnectionRecord {
            of: application.of,
            opened: now,
            first_byte: None,
            ended: None,
            bytes: 0,
            failed: false,
            bins: Vec::new(),
            window_bytes: 0,
            window_ip_bytes: 0,
            retransmits: None,
            trace: Vec::new(),
        });
        transport.connections[connection] =
            Some(Connection { application: index, id: conn, ends, record, told: false });
        self.serve(ends[0]);
    }

    /// An end's timer has come.
    pub(crate) fn wake_end(&mut self, index: usize) {
        self.serve(index);
        self.run_applications();
    }

    /// A segment arrives at a host.
    pub(crate) fn segment_arrives(&mut self, node: usize, packet: Packet) {
        let ip_len = packet.len() - FRAME_LEN;
        let read = read_segment(packet.frame());
        packet.release();
        let books = &mut self.nodes[node].books;
        books.consumed += 1;
        let Some((src, segment)) = read else {
            self.transport.strays += 1;
            return;
        };
        let key = (node as u32, segment.header.dst_port, src, segment.header.src_port);
        let Some(index) = self.transport.by_key.get(&key).copied() else {
            self.transport.strays += 1;
            return self.refuse(node, src, &segment);
        };
        let now = self.now;
        let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
        end.endpoint.handle_segment(now, &segment);
        if segment.payload_len > 0 {
            self.count_arrival(index, ip_len as u64);
        }
        self.serve(index);
        self.run_applications();
    }

    /// Answers a segment that belongs to nobody.
    fn refuse(&mut self, node: usize, to: Ipv4Addr, segment: &Segment) {
        let Some(reset) = refusal(segment) else { return };
        let from = NodeIndex(node);
        let own = self.node_of.iter().find(|(_, index)| **index == node).map(|(address, _)| *address);
        let first = self.node_of.get(&to).and_then(|to| self.paths.first_link(from, NodeIndex(*to)));
        let (Some(own), Some((link, end))) = (own, first) else { return };
        let hop = Hop { src: crate::frame::mac(link, end), dst: crate::frame::mac(link, 1 - end) };
        self.send_segment(from, hop, (own, to), Dscp::default(), &reset);
    }

    /// Books IP bytes of a data segment for the connection whose data it carries.
    fn count_arrival(&mut self, index: usize, ip_len: u64) {
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get(end.connection) else { return };
        if transport.applications[connection.application].receiver != end.side {
            return;
        }
        let record = &mut transport.records[connection.record];
        record.first_byte.get_or_insert(self.now);
        if self.now >= transport.window.1 {
            return;
        }
        let slot = (self.now.as_nanos() / transport.bin.as_nanos().max(1)) as usize;
        if slot < 10_000_000 {
            if record.bins.len() <= slot {
                record.bins.resize(slot + 1, 0);
            }
            record.bins[slot] += ip_len;
        }
        if self.now >= transport.window.0 && self.now < transport.window.1 {
            record.window_ip_bytes += ip_len;
        }
    }

    /// Does everything an end has to do now: writes, output, events.
    fn serve(&mut self, index: usize) {
        loop {
            let now = self.now;
            let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
            if end.unwritten > 0 {
                end.unwritten -= end.endpoint.write(end.unwritten);
            }
            if end.closing && end.unwritten == 0 {
                end.closing = false;
                end.endpoint.close();
            }
            let (node, hop, addresses, dscp) = (end.node, end.hop, end.addresses, end.dscp);
            if self.nodes[node.0].up {
                while let Some(Some(end)) = self.transport.ends.get_mut(index) {
                    let Some(segment) = end.endpoint.poll_output(now) else { break };
                    self.send_segment(node, hop, addresses, dscp, &segment);
                }
            } else {
                while let Some(Some(end)) = self.transport.ends.get_mut(index)
                    && end.endpoint.poll_output(now).is_some()
                {}
            }
            let Some(Some(end)) = self.transport.ends.get_mut(index) else { return };
            let Some(event) = end.endpoint.poll_event() else { break };
            self.end_event(index, event);
        }
        self.trace_end(index);
        self.tell_if_both_closed(index);
        let Some(Some(end)) = self.transport.ends.get(index) else { return };
        if end.over {
            return self.end_is_over(index);
        }
        if let Some(at) = end.endpoint.next_wakeup() {
            let entity = end.entity;
            self.agenda.arm(entity, at.max(self.now));
        }
    }

    /// Tells the application what happened at an end.
    fn end_event(&mut self, index: usize, event: Event) {
        let now = self.now;
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get_mut(index) else { return };
        let Some(Some(connection)) = transport.connections.get_mut(end.connection) else { return };
        let (application, conn, side) = (connection.application, connection.id, end.side);
        let record = &mut transport.records[connection.record];
        let receives = transport.applications[application].receiver == side;
        let told = match event {
            Event::Established if side == Side::Client => AppEvent::Opened { conn },
            Event::Established => AppEvent::Accepted { conn },
            Event::Readable => {
                let bytes = end.endpoint.read(u64::MAX);
                if receives {
                    record.bytes += bytes;
                    if now >= transport.window.0 && now < transport.window.1 {
                        record.window_bytes += bytes;
                    }
                }
                AppEvent::Received { conn, side, bytes }
            }
            Event::Writable => return,
            Event::Finished => {
                if receives && record.ended.is_none() {
                    record.ended = Some(now);
                }
                AppEvent::PeerClosed { conn, side }
            }
            Event::Reset | Event::TimedOut => {
                record.failed |= record.ended.is_none();
                AppEvent::Failed { conn }
            }
            Event::Closed => {
                end.over = true;
                return;
            }
        };
        let silent = connection.told;
        connection.told |= matches!(told, AppEvent::Failed { .. });
        if !silent {
            transport.tell(application, told);
        }
    }

    /// Both directions may be closed while an end still waits in TIME-WAIT.
    fn tell_if_both_closed(&mut self, index: usize) {
        let transport = &mut self.transport;
        let closed = |end: &Option<End>| {
            end.as_ref().is_none_or(|end| matches!(end.endpoint.state(), State::TimeWait | State::Closed))
        };
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get_mut(end.connection) else { return };
        if connection.told || !connection.ends.iter().all(|end| closed(&transport.ends[*end])) {
            return;
        }
        connection.told = true;
        let (application, conn) = (connection.application, connection.id);
        transport.tell(application, AppEvent::Ended { conn });
    }

    /// An end has nothing more to do; when both are over the connection is.
    fn end_is_over(&mut self, index: usize) {
        let transport = &mut self.transport;
        let Some(end) = transport.ends[index].take() else { return };
        transport.free_ends.push(index);
        self.agenda.remove(end.entity);
        let (local, remote) = end.endpoint.ports();
        transport.by_key.remove(&(end.node.0 as u32, local, end.addresses.1, remote));
        let Some(connection) = transport.connections[end.connection].as_ref() else { return };
        let (application, conn, ends, told) =
            (connection.application, connection.id, connection.ends, connection.told);
        if transport.applications[application].receiver != end.side {
            transport.records[connection.record].retransmits = Some(end.endpoint.counters().retransmits);
        }
        let other = ends[1 - index_of(end.side)];
        let other_alive = transport.ends[other]
            .as_ref()
            .is_some_and(|o| o.connection == end.connection && o.side != end.side);
        if !other_alive {
            transport.connections[end.connection] = None;
            transport.free_connections.push(end.connection);
            transport.applications[application].connections.remove(&conn);
            if !told {
                transport.tell(application, AppEvent::Ended { conn });
            }
        }
    }

    fn trace_end(&mut self, index: usize) {
        let transport = &mut self.transport;
        let Some(Some(end)) = transport.ends.get(index) else { return };
        let Some(Some(connection)) = transport.connections.get(end.connection) else { return };
        let application = &transport.applications[connection.application];
        if !application.traced || application.receiver == end.side || connection.id.0 as usize >= TRACED {
            return;
        }
        let trace = &mut transport.records[connection.record].trace;
        if trace.last().is_some_and(|last| self.now.since(last.at) < TRACE_INTERVAL) {
            return;
        }
        let seen = end.endpoint.trace();
        trace.push(ConnectionSample {
            at: self.now,
            window: seen.cwnd,
            threshold: seen.ssthresh,
            round_trip: seen.srtt.unwrap_or(Duration::ZERO),
            acknowledged: end.endpoint.acked_offset(),
        });
    }

    /// Puts a segment into a packet and sends it.
    fn send_segment(
        &mut self,
        from: NodeIndex,
        hop: Hop,
        addresses: (Ipv4Addr, Ipv4Addr),
        dscp: Dscp,
        segment: &SegmentOut,
    ) {
        let node = &mut self.nodes[from.0];
        node.identification = node.identification.wrapping_add(1);
        let header = IpHeader {
            src: addresses.0,
            dst: addresses.1,
            dscp,
            ecn: segment.ecn,
            identification: node.identification,
            protocol: protocol::TCP,
        };
        let Some(mut packet) = ip_packet(&mut self.buffers, hop, header, segment.len()) else {
            return node.books.out_of_buffers();
        };
        let above = &mut packet.frame_mut()[FRAME_LEN + IP_LEN..];
        let (head, payload) = above.split_at_mut(segment.header.len());
        // The stream is zeros, which add nothing to the checksum: only the header is summed.
        payload.fill(0);
        segment.header.emit(head);
        let pseudo =
            pseudo_header_v4(header.src.octets(), header.dst.octets(), protocol::TCP, segment.len() as u16);
        tcp::fill_checksum(head, pseudo);
        self.leave_host(from, addresses.1, packet);
    }

    /// A node stops: its connections are gone without a word.
    pub(crate) fn stop_connections(&mut self, node: usize) {
        for index in 0..self.transport.ends.len() {
            if let Some(end) = self.transport.ends[index].as_mut().filter(|end| end.node.0 == node) {
                end.endpoint.abort();
                self.serve(index);
            }
        }
        self.run_applications();
    }
}

/// The sender and the segment of a frame; `None` when it is not one.
fn read_segment(frame: &[u8]) -> Option<(Ipv4Addr, Segment)> {
    let view = ipv4::View::new_checked(frame.get(FRAME_LEN..)?).ok()?;
    let ecn: Ecn = view.ecn();
    let (segment, _) = parse_unchecked(view.payload(), ecn).ok()?;
    Some((view.src(), segment))
}
