//! TCP applications over the kernel's sockets: one thread for all connections to one server, both ends of each.
//!
//! The applications are the machines of `lab/traffic`, as in the simulator: what happened at either end is told to the
//! machine, what it wants is done. Sockets do not block; a thread waits for them, or for the machines' next instant, in
//! `epoll_wait(2)`.

use super::connection::{Connection, End, Progress};
use super::datagrams::{check_path, direction};
use super::error::unsuitable;
use super::network::Network;
use super::receive::{FlowKey, Times};
use super::socket::{self, SocketOptions};
use crate::error::{LabError, io, network};
use crate::pace::precise_timers;
use perhop_io::clock::monotonic;
use perhop_measure::{
    ConnectionRecord, ConnectionSample, Membership, ReadLog, TRACE_INTERVAL, TRACED, Toward,
};
use perhop_netlink::{Namespace, TcpInfo, tcp_info};
use perhop_scenario::{NodeIndex, Paths, Scenario, Tcp, Traffic, TrafficKind, generators};
use perhop_traffic::Seed;
use perhop_traffic::tcp::{AppAction, AppEvent, ConnId, Side, TcpApplication, TcpWorkload};
use perhop_units::{Duration, Instant};
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Client ports, as Linux gives them out; given out in turn, so that none comes back soon.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Longest wait, so that the end of the run is seen.
const IDLE: Duration = Duration::from_millis(50);
/// Events of listeners have this bit; their number is below it.
const LISTENER: u64 = 1 << 63;

/// One direction of the connections of one pair.
struct Application {
    machine: TcpWorkload,
    of: Membership,
    /// Client and server.
    nodes: [NodeIndex; 2],
    addresses: [Ipv4Addr; 2],
    options: [SocketOptions; 2],
    port: u16,
    receiver: Side,
    connections: HashMap<ConnId, usize>,
    traced: bool,
    /// What its connections read is noted.
    followed: bool,
}

/// The applications of a scenario, by server.
#[derive(Default)]
pub(super) struct Applications {
    by_server: Vec<(NodeIndex, Vec<Application>)>,
}

impl Applications {
    /// The applications of a scenario.
    pub(super) fn plan(scenario: &Scenario, paths: &Paths, seed: Seed) -> Result<Self, LabError> {
        let mut plan = Self::default();
        let mut group = 0;
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let kind = &traffic.kind;
            let (Some(tcp), Some(port)) = (kind.tcp(), kind.server_port()) else { continue };
            for pair in 0..traffic.pairs.len() {
                let second = traffic.both.then_some(Toward::First);
                for toward in [Toward::Second].into_iter().chain(second) {
                    let of = Membership { traffic: index, pair, toward };
                    plan.add(scenario, paths, of, (traffic, tcp, port), group, seed)?;
                    group += 1;
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
        (traffic, tcp, port): (&Traffic, &Tcp, u16),
        group: u16,
        seed: Seed,
    ) -> Result<(), LabError> {
        let part = || format!("traffic \"{}\"", traffic.name);
        if matches!(traffic.kind, TrafficKind::Bulk { access_delay: (_, most), .. } if most > Duration::ZERO)
        {
            let why = "access_delay is of the simulator, run it with --mode sim";
            return Err(unsuitable(part(), why));
        }
        let made = generators::connections(traffic, group, seed).map_err(|e| unsuitable(part(), e))?;
        let Some(made) = made else { return Ok(()) };
        let (sender, receiver) = direction(traffic, of);
        check_path(scenario, paths, traffic, sender, receiver)?;
        let (client, server) =
            if made.receiver == Side::Client { (receiver, sender) } else { (sender, receiver) };
        let dscp_of = |node| if node == sender { traffic.dscp } else { traffic.reply_dscp };
        let application = Application {
            machine: made.machine,
            of,
            nodes: [client, server],
            addresses: [client, server].map(|node| scenario.nodes[node.0].address),
            options: [client, server].map(|node| SocketOptions::of(tcp, dscp_of(node))),
            port,
            receiver: made.receiver,
            connections: HashMap::new(),
            traced: scenario.probes.connections.contains(&of.traffic),
            followed: scenario.probes.segments.contains(&of.traffic),
        };
        match self.by_server.iter_mut().find(|(node, _)| *node == server) {
            Some((_, applications)) => applications.push(application),
            None => self.by_server.push((server, vec![application])),
        }
        Ok(())
    }

    /// The hosts that send data of connections whose segments are followed.
    pub(super) fn followed_senders(&self) -> BTreeSet<NodeIndex> {
        let applications = self.by_server.iter().flat_map(|(_, applications)| applications);
        applications.filter(|a| a.followed).map(|a| a.nodes[side_index(a.receiver.peer())]).collect()
    }

    /// Opens the servers' sockets and starts the threads.
    pub(super) fn start(
        self,
        scenario: &Scenario,
        network: &Network,
        times: Times,
        up: &Arc<[AtomicBool]>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Transport>, LabError> {
        let mut transports = Vec::new();
        for (server, applications) in self.by_server {
            let driver = Driver::new(scenario, network, server, applications, times)?;
            let (up, stop) = (Arc::clone(up), Arc::clone(stop));
            let name = format!("tcp-{}", scenario.nodes[server.0].name);
            let thread = std::thread::Builder::new()
                .name(name)
                .spawn(move || driver.run(&up, &stop))
                .map_err(io("start a thread"))?;
            transports.push(Transport { thread });
        }
        Ok(transports)
    }
}

/// The running connections to one server.
pub(super) struct Transport {
    thread: JoinHandle<Connections>,
}

impl Transport {
    /// Everything about its connections. Set `stop` before.
    pub(super) fn finish(self) -> Connections {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What a transport leaves.
pub(super) struct Connections {
    /// Records, each with the host that received its data and the flow they came by.
    pub(super) records: Vec<(NodeIndex, FlowKey, ConnectionRecord)>,
    /// Why sockets could not be opened, the first time.
    pub(super) refused: Option<String>,
    /// How often.
    pub(super) refusals: u64,
    /// Connections that applications could not open any more, with the traffic.
    pub(super) unopened: Vec<(usize, u64)>,
}

struct Listener {
    socket: OwnedFd,
    port: u16,
}

struct Driver {
    applications: Vec<Application>,
    namespaces: HashMap<NodeIndex, Namespace>,
    /// Where this thread is.
    here: Option<NodeIndex>,
    /// Nodes known to have stopped.
    down: Vec<NodeIndex>,
    listeners: Vec<Listener>,
    set: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Number of the next connection; those of events tell whether they are of the one before.
    serial: u32,
    /// Connections that the server has not accepted, by client address and port, and the server's port.
    expected: HashMap<(Ipv4Addr, u16, u16), usize>,
    next_port: HashMap<NodeIndex, u16>,
    records: Vec<(NodeIndex, FlowKey, ConnectionRecord)>,
    told: VecDeque<(usize, Option<AppEvent>)>,
    times: Times,
    now: Instant,
    traced_at: Instant,
    buffer: Vec<u8>,
    refused: Option<String>,
    refusals: u64,
}

impl Driver {
    fn new(
        scenario: &Scenario,
        network_of: &Network,
        server: NodeIndex,
        applications: Vec<Application>,
        times: Times,
    ) -> Result<Self, LabError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC);
        let set = set.map_err(|e| io("wait for connections")(e.into()))?;
        let mut listeners: Vec<Listener> = Vec::new();
        for application in &applications {
            let port = application.port;
            if listeners.iter().any(|listener| listener.port == port) {
                continue;
            }
            // The largest buffer that any application wants decides the window scale of all.
            let same = applications.iter().filter(|a| a.port == port).map(|a| &a.options[1]);
            let options =
                same.max_by_key(|options| options.receive_buffer).unwrap_or(&application.options[1]);
            let address = SocketAddrV4::new(application.addresses[1], port);
            let of_one_class =
                applications.iter().filter(|a| a.port == port).all(|a| a.options[1].tos == options.tos);
            let open = || {
                if !of_one_class {
                    socket::answer_in_class_of_request()?;
                }
                socket::listen(address, options)
            };
            let opened = network_of.nodes[server.0].run(open).map_err(network("open a TCP server"))?;
            let part = || format!("traffic \"{}\"", scenario.traffic[application.of.traffic].name);
            let socket = opened.map_err(|why| unsuitable(part(), why))?;
            let data = epoll::EventData::new_u64(LISTENER | listeners.len() as u64);
            epoll::add(&set, &socket, data, epoll::EventFlags::IN)
                .map_err(|e| io("wait for connections")(e.into()))?;
            listeners.push(Listener { socket, port });
        }
        let nodes = applications.iter().flat_map(|a| a.nodes);
        let namespaces = nodes.map(|node| (node, network_of.nodes[node.0].clone())).collect();
        Ok(Self {
            applications,
            namespaces,
            here: None,
            down: Vec::new(),
            listeners,
            set,
            connections: Vec::new(),
            free: Vec::new(),
            serial: 0,
            expected: HashMap::new(),
            next_port: HashMap::new(),
            records: Vec::new(),
            told: VecDeque::new(),
            times,
            now: Instant::ZERO,
            traced_at: Instant::ZERO,
            buffer: vec![0; 256 << 10],
            refused: None,
            refusals: 0,
        })
    }

    fn run(mut self, up: &[AtomicBool], stop: &AtomicBool) -> Connections {
        precise_timers();
        crate::pace::sleep_until(self.times.epoch);
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            self.now = self.times.of(monotonic());
            self.end_with_nodes(up);
            for application in 0..self.applications.len() {
                self.told.push_back((application, None));
            }
            self.run_applications();
            self.trace();
            let timeout = self.timeout();
            events.clear();
            let _ = epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
            self.now = self.times.of(monotonic());
            for event in &events {
                self.event(event.data.u64());
                self.run_applications();
            }
        }
        self.end()
    }

    /// Connections of a node that has stopped are gone.
    fn end_with_nodes(&mut self, up: &[AtomicBool]) {
        let is_up = |node: NodeIndex| up.get(node.0).is_none_or(|up| up.load(Ordering::Relaxed));
        let stopped: Vec<NodeIndex> = self
            .namespaces
            .keys()
            .copied()
            .filter(|node| !is_up(*node) && !self.down.contains(node))
            .collect();
        self.down.retain(|node| !is_up(*node));
        for node in stopped {
            self.down.push(node);
            for number in 0..self.connections.len() {
                let Some(Some(connection)) = self.connections.get(number) else { continue };
                if self.applications[connection.application].nodes.contains(&node) {
                    self.fail(number);
                }
            }
        }
    }

    fn timeout(&self) -> Timespec {
        let due = self.applications.iter().filter_map(|a| a.machine.next_wakeup()).min();
        let tracing = self.applications.iter().any(|a| a.traced);
        let longest = self.now + if tracing { TRACE_INTERVAL } else { IDLE };
        let wait = due.map_or(longest, |due| due.min(longest)).since(self.now).as_nanos();
        Timespec { tv_sec: (wait / 1_000_000_000) as i64, tv_nsec: (wait % 1_000_000_000) as i64 }
    }

    /// Lets applications that were told something act, until none has more to do now.
    fn run_applications(&mut self) {
        while let Some((index, event)) = self.told.pop_front() {
            if let Some(event) = event {
                self.applications[index].machine.handle(self.now, event);
            }
            while let Some(action) = self.applications[index].machine.poll(self.now) {
                match action {
                    AppAction::Open { conn } => self.open(index, conn),
                    AppAction::Write { conn, side, bytes } => {
                        self.act(index, conn, side, |end| end.unwritten += bytes);
                    }
                    AppAction::Close { conn, side } => self.act(index, conn, side, |end| end.closing = true),
                    AppAction::Abort { conn } => self.abort(index, conn),
                }
            }
        }
    }

    fn act(&mut self, application: usize, conn: ConnId, side: Side, act: impl FnOnce(&mut End)) {
        let Some(index) = self.applications[application].connections.get(&conn).copied() else { return };
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        act(&mut connection.ends[side_index(side)]);
        self.serve(index, side);
    }

    fn abort(&mut self, application: usize, conn: ConnId) {
        let Some(index) = self.applications[application].connections.get(&conn).copied() else { return };
        if let Some(Some(connection)) = self.connections.get(index) {
            connection.reset();
        }
        self.forget(index);
    }

    /// Moves this thread to where a client's socket is to be.
    fn go_to(&mut self, node: NodeIndex) -> Result<(), String> {
        if self.here == Some(node) {
            return Ok(());
        }
        let namespace = self.namespaces.get(&node).ok_or("no such namespace")?;
        namespace.enter_thread().map_err(|e| e.to_string())?;
        self.here = Some(node);
        Ok(())
    }

    fn open(&mut self, index: usize, conn: ConnId) {
        let client = self.applications[index].nodes[0];
        let opened = self.go_to(client).and_then(|()| self.connect(index, client));
        let (socket, port) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                self.refusals += 1;
                self.refused.get_or_insert(why);
                return self.told.push_back((index, Some(AppEvent::Failed { conn })));
            }
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial & 0x7fff_ffff;
        let application = &mut self.applications[index];
        let [client_address, server_address] = application.addresses;
        let (flow, host) = if application.receiver == Side::Server {
            ((client_address, port, application.port), application.nodes[1])
        } else {
            ((server_address, application.port, port), application.nodes[0])
        };
        application.connections.insert(conn, number);
        self.expected.insert((client_address, port, application.port), number);
        let record = self.records.len();
        let slot = application.machine.records().get(conn.0 as usize).map_or(0, |record| record.user);
        let reads = application.followed.then(ReadLog::default);
        let new = ConnectionRecord { slot, reads, ..ConnectionRecord::new(application.of, self.now) };
        self.records.push((host, flow, new));
        let client_key = (client_address, port, application.port);
        let mut connection = Connection::new(index, conn, record, serial, client_key);
        connection.ends[0].socket = Some(socket);
        self.connections[number] = Some(connection);
        self.watch(number, Side::Client);
    }

    /// A socket on its way to the server, from the client's next free port.
    fn connect(&mut self, index: usize, client: NodeIndex) -> Result<(OwnedFd, u16), String> {
        let application = &self.applications[index];
        let server = SocketAddrV4::new(application.addresses[1], application.port);
        let next = self.next_port.entry(client).or_insert(*EPHEMERAL.start());
        for _ in EPHEMERAL {
            let port = *next;
            *next = if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 };
            let from = SocketAddrV4::new(application.addresses[0], port);
            match socket::connect(from, server, &application.options[0]) {
                Ok(Some(socket)) => return Ok((socket, port)),
                Ok(None) => {}
                Err(why) => return Err(why),
            }
        }
        Err("all ports of the client are in use".to_owned())
    }

    /// Lets events of an end wake this thread.
    fn watch(&mut self, number: usize, side: Side) {
        let Some(Some(connection)) = self.connections.get(number) else { return };
        let end = &connection.ends[side_index(side)];
        let Some(socket) = &end.socket else { return };
        let data = (u64::from(connection.serial) << 32) | ((number as u64) << 1) | side_index(side) as u64;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if let Err(error) = epoll::add(&self.set, socket, epoll::EventData::new_u64(data), flags) {
            self.refused.get_or_insert(error.to_string());
            self.fail(number);
        }
    }

    fn event(&mut self, data: u64) {
        if data & LISTENER != 0 {
            return self.accept((data & !LISTENER) as usize);
        }
        let (serial, number) = ((data >> 32) as u32, (data as u32 >> 1) as usize);
        let side = if data & 1 == 0 { Side::Client } else { Side::Server };
        if matches!(self.connections.get(number), Some(Some(connection)) if connection.serial == serial) {
            self.serve(number, side);
        }
    }

    fn accept(&mut self, listener: usize) {
        let Some(Listener { socket, port }) = self.listeners.get(listener) else { return };
        let port = *port;
        let mut accepted = Vec::new();
        while let Some((socket, from)) = socket::accept(socket) {
            accepted.push((socket, from));
        }
        for (socket, from) in accepted {
            let Some(number) = self.expected.remove(&(*from.ip(), from.port(), port)) else { continue };
            let Some(Some(connection)) = self.connections.get_mut(number) else { continue };
            let (application, conn) = (connection.application, connection.id);
            self.applications[application].options[1].apply(&socket);
            let end = &mut connection.ends[1];
            end.socket = Some(socket);
            end.connected = true;
            self.told.push_back((application, Some(AppEvent::Accepted { conn })));
            self.watch(number, Side::Server);
        }
    }

    /// Does everything that an end can do now.
    fn serve(&mut self, number: usize, side: Side) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let (application, conn, record) = (connection.application, connection.id, connection.record);
        let receives = self.applications[application].receiver == side;
        let progress = connection.ends[side_index(side)].progress(&mut self.buffer);
        let Progress { opened, read, finished, failed } = progress;
        let (now, window) = (self.now, self.times.window);
        let record = &mut self.records[record].2;
        if opened && side == Side::Client {
            self.told.push_back((application, Some(AppEvent::Opened { conn })));
        }
        if read > 0 {
            if receives {
                record.first_byte.get_or_insert(now);
                record.bytes += read;
                if now >= window.0 && now < window.1 {
                    record.window_bytes += read;
                }
                if let Some(log) = &mut record.reads {
                    log.read(now, read);
                }
            }
            self.told.push_back((application, Some(AppEvent::Received { conn, side, bytes: read })));
        }
        if finished {
            if receives && record.ended.is_none() {
                record.ended = Some(now);
            }
            self.told.push_back((application, Some(AppEvent::PeerClosed { conn, side })));
        }
        if failed {
            return self.fail(number);
        }
        let over = matches!(self.connections.get(number), Some(Some(connection)) if connection.is_over());
        if over {
            self.told.push_back((application, Some(AppEvent::Ended { conn })));
            self.forget(number);
        }
    }

    /// A connection was refused, reset or timed out.
    fn fail(&mut self, number: usize) {
        let Some(Some(connection)) = self.connections.get(number) else { return };
        let record = &mut self.records[connection.record].2;
        record.failed |= record.ended.is_none();
        let (application, conn) = (connection.application, connection.id);
        connection.reset();
        self.told.push_back((application, Some(AppEvent::Failed { conn })));
        self.forget(number);
    }

    /// Notes what only the kernel knows and closes both ends.
    fn forget(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(number).and_then(Option::take) else { return };
        self.free.push(number);
        let application = &mut self.applications[connection.application];
        application.connections.remove(&connection.id);
        self.expected.remove(&connection.client);
        if let Some(info) = sender_info(&connection, application.receiver) {
            self.records[connection.record].2.retransmits = Some(u64::from(info.retransmits));
        }
    }

    /// Notes the windows of the connections that are watched.
    fn trace(&mut self) {
        if self.now.since(self.traced_at) < TRACE_INTERVAL {
            return;
        }
        self.traced_at = self.now;
        for connection in self.connections.iter().flatten() {
            let application = &self.applications[connection.application];
            if !application.traced || connection.id.0 as usize >= TRACED {
                continue;
            }
            let Some(info) = sender_info(connection, application.receiver) else { continue };
            self.records[connection.record].2.trace.push(ConnectionSample {
                at: self.now,
                window: info.window,
                threshold: info.threshold.unwrap_or(u64::MAX),
                round_trip: info.round_trip,
                acknowledged: info.acknowledged,
            });
        }
    }

    fn end(mut self) -> Connections {
        for number in 0..self.connections.len() {
            if let Some(Some(connection)) = self.connections.get(number) {
                connection.reset();
            }
            self.forget(number);
        }
        let hits = self.applications.iter().map(|a| (a.of.traffic, a.machine.counters().limit_hits));
        let unopened = hits.filter(|(_, hits)| *hits > 0).collect();
        Connections { records: self.records, refused: self.refused, refusals: self.refusals, unopened }
    }
}

fn side_index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

/// The kernel's view of the end that sends the data.
fn sender_info(connection: &Connection, receiver: Side) -> Option<TcpInfo> {
    tcp_info(connection.ends[side_index(receiver.peer())].socket.as_ref()?).ok()
}
