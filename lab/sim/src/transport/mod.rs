//! Connections: `lab/tcp` endpoints on simulated hosts, driven by the applications of `lab/traffic`.
//!
//! `config` is what an endpoint is told of a scenario's transport, `applications` opens connections and does what they
//! want, `ends` serves an endpoint and tells what happened to it, `segments` is between endpoints and packets, `access`
//! delays those of connections whose hosts are further away.

mod access;
mod applications;
mod config;
mod ends;
mod segments;

use crate::agenda::Entity;
use crate::build::Options;
use crate::frame::Hop;
use crate::random::{Stream, TRANSPORT};
use access::AccessLines;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_measure::{ConnectionRecord, Membership, Sections, SegmentLog};
use perhop_scenario::{NodeIndex, Scenario};
use perhop_tcp::{Config, Endpoint};
use perhop_traffic::tcp::{AppEvent, ConnId, Side, TcpApplication};
use perhop_units::{Dscp, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// Client ports, as Linux gives them out.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

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
    /// Delay between it and the host's first link.
    access: Duration,
    /// Tells it from one that had its place before.
    serial: u64,
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
    /// Its segments are followed.
    followed: bool,
    /// Delays between a host and its first link, by slot; none where there are none.
    access: Vec<Duration>,
    /// Which of the nodes is that host.
    far: usize,
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
    sections: Sections,
    access: AccessLines,
    access_entity: Entity,
    /// Serial number of the next end.
    serial: u64,
}

fn index_of(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Transport {
    pub(crate) fn new(scenario: &Scenario, options: &Options, access_entity: Entity) -> Self {
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
            random: Stream::new(options.seed, options.repetition, TRANSPORT),
            window: (Instant(scenario.warm_up.as_nanos()), Instant(scenario.length().as_nanos())),
            bin: scenario.probes.throughput_bin,
            sections: Sections::of(scenario),
            access: AccessLines::default(),
            access_entity,
            serial: 0,
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

    /// Connections that applications could not open any more, by traffic.
    pub(crate) fn unopened(&self) -> BTreeMap<usize, u64> {
        let mut unopened = BTreeMap::new();
        for application in &self.applications {
            let hits = application.machine.counters().limit_hits;
            if hits > 0 {
                *unopened.entry(application.of.traffic).or_default() += hits;
            }
        }
        unopened
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

    /// Where the segments of an end that sends data are noted, if they are followed.
    fn followed(&mut self, end: usize) -> Option<&mut SegmentLog> {
        let end = self.ends.get(end)?.as_ref()?;
        let connection = self.connections.get(end.connection)?.as_ref()?;
        let receives = self.applications[connection.application].receiver == end.side;
        self.records[connection.record].segments.as_mut().filter(|_| !receives)
    }

    fn tell(&mut self, application: usize, event: AppEvent) {
        self.told.push_back((application, Some(event)));
    }
}
