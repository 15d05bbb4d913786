//! One repetition: everything is built, runs for its time, and is taken down.

use super::agents::RunningAgent;
use super::datagrams::Datagrams;
use super::emulation::EmulatedLink;
use super::follow::{Follower, Sent};
use super::health::{Before, Health};
use super::kernel::KernelTcp;
use super::links;
use super::network::Network;
use super::programs::Running;
use super::receive::{Flow, FlowKey, Receiver, Seen, Times};
use super::routers::{self, Ended, Router};
use super::transport::{Applications, Connections, Transport};
use crate::awake::Awake;
use crate::error::{LabError, io};
use crate::machine::socket_drops;
use crate::pace::sleep_until;
use crate::udp::{SendLog, send};
use perhop_engine::EmulatorReport;
use perhop_io::clock::monotonic;
use perhop_measure::{ConnectionRecord, DRAIN_LIMIT, Recording, Sections, SegmentLog, set_aside};
use perhop_scenario::{
    Change, Clock, FaultKind, LinkIndex, NodeIndex, NodeKind, Paths, RouterChange, Scenario,
};
use perhop_traffic::{Mix, Seed};
use perhop_units::{Duration, Instant};
use std::collections::{HashMap, VecDeque};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// From the start of the threads to the first instant of the run.
const LEAD: Duration = Duration::from_millis(150);
/// Time between two calls of the progress function.
const PROGRESS: Duration = Duration::from_millis(250);
/// Time between two looks at whether anything is still on its way behind the end; twice nothing is nothing, because a
/// packet between two looked at one after the other is in neither.
const DRAIN_STEP: Duration = Duration::from_millis(50);
/// Longest sleep of the conductor.
const GLANCE: Duration = Duration::from_millis(50);

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetnsOptions {
    /// Seed of traffic and emulated faults.
    pub seed: u64,
    /// Which repetition, from 0: a stream of the seed.
    pub repetition: u32,
    /// Directory for what programs print; `None`: a temporary one.
    pub out: Option<PathBuf>,
    /// Directory for captures of every emulated link.
    pub trace: Option<PathBuf>,
}

impl Default for NetnsOptions {
    fn default() -> Self {
        Self { seed: 1, repetition: 0, out: None, trace: None }
    }
}

/// Runs one repetition in real time. `progress` is told the time of the run now and then and may stop it by returning
/// `false`; the recording then ends there, with a warning. Takes the scenario's length and a few seconds.
///
/// # Errors
/// The scenario asks for what namespaces cannot do ([`LabError::Unsuitable`]), the machine refuses a namespace, a router
/// or a socket, or a part of the network died. Nothing stays behind.
pub fn run(
    scenario: &Scenario,
    options: &NetnsOptions,
    mut progress: impl FnMut(Duration) -> bool,
) -> Result<Recording, LabError> {
    let controller = scenario.nodes.iter().find(|node| matches!(node.kind, NodeKind::Controller(_)));
    if let Some(node) = controller {
        return Err(LabError::Controller { node: node.name.clone() });
    }
    let paths = Paths::of(scenario);
    let seed = Seed { seed: options.seed, repetition: options.repetition };
    let datagrams = Datagrams::plan(scenario, &paths, seed)?;
    let applications = Applications::plan(scenario, &paths, seed)?;
    let tcp = KernelTcp::of(scenario);
    let network = Network::build(scenario, &paths, &tcp)?;
    let output = output_directory(scenario, options)?;
    let seed = options.seed ^ (u64::from(options.repetition) << 40);
    let led = routers::led(scenario)?;
    let emulated = EmulatedLink::start_all(scenario, &network, &led, seed, options.trace.as_deref())?;
    let routers = Router::start_all(scenario, &network, seed)?;
    let end = Instant(scenario.length().as_nanos());
    let times = Times {
        epoch: monotonic() + LEAD,
        window: (Instant(scenario.warm_up.as_nanos()), end),
        bin: scenario.probes.throughput_bin,
    };
    let ends = Ends::default();
    let up: Arc<[AtomicBool]> = scenario.nodes.iter().map(|_| AtomicBool::new(true)).collect();
    let mut world = World { scenario, network, led, emulated, routers, datagrams, output, up, times, ends };
    let awake = Awake::start();
    let before = Before::now(&awake)?;
    let threads = world.start(applications)?;
    let ended_at = world.conduct(&mut progress)?;
    let health = before.until_now(&awake)?;
    let mut recording = world.finish(threads, ended_at, health)?;
    recording.warnings.splice(0..0, tcp.warnings);
    Ok(recording)
}

/// Where programs leave their output, if there are any.
fn output_directory(scenario: &Scenario, options: &NetnsOptions) -> Result<PathBuf, LabError> {
    let temporary = || std::env::temp_dir().join(format!("perhop-lab-{}", std::process::id()));
    let directory = options.out.clone().unwrap_or_else(temporary);
    if !scenario.programs.is_empty() {
        std::fs::create_dir_all(&directory)
            .map_err(|e| LabError::Output { path: directory.clone(), reason: e.to_string() })?;
    }
    Ok(directory)
}

/// The two ends of a run: `stop` ends the senders, `done` the receivers.
#[derive(Clone, Default)]
struct Ends {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
}

impl Drop for Ends {
    /// However a run ends, no thread outlives it.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.done.store(true, Ordering::Relaxed);
    }
}

struct Threads {
    receivers: Vec<Receiver>,
    followers: Vec<Follower>,
    senders: Vec<JoinHandle<SendLog>>,
    transports: Vec<Transport>,
    programs: Vec<Running>,
    agents: Vec<RunningAgent>,
}

/// Something that the scenario says.
enum Step {
    Change { link: usize, way: usize, change: Change },
    Router(NodeIndex, RouterChange),
    Stop(NodeIndex),
    Restart(NodeIndex),
}

struct World<'a> {
    scenario: &'a Scenario,
    network: Network,
    /// By link and direction: whether a router leads it.
    led: Vec<[bool; 2]>,
    emulated: Vec<Option<EmulatedLink>>,
    routers: Vec<Router>,
    datagrams: Datagrams,
    output: PathBuf,
    /// By node: whether it works.
    up: Arc<[AtomicBool]>,
    times: Times,
    ends: Ends,
}

impl World<'_> {
    fn start(&mut self, applications: Applications) -> Result<Threads, LabError> {
        let mut threads = Threads {
            receivers: Vec::new(),
            followers: Vec::new(),
            senders: Vec::new(),
            transports: Vec::new(),
            programs: Vec::new(),
            agents: Vec::new(),
        };
        for router in &self.routers {
            let name = &self.scenario.nodes[router.node().0].name;
            threads.agents.extend(router.start_agent(name, self.times)?);
        }
        let followed = applications.followed_senders();
        let mut sends = HashMap::new();
        for (i, node) in self.scenario.nodes.iter().enumerate() {
            let here = NodeIndex(i);
            if node.kind != NodeKind::Host {
                continue;
            }
            let sockets = self.datagrams.sockets(self.scenario, &self.network, here)?;
            sends.insert(here, sockets.sends);
            let devices: Vec<String> =
                self.scenario.links_of(here).map(|(link, _)| self.network.devices[link.0].clone()).collect();
            let namespace = &self.network.nodes[i];
            let done = &self.ends.done;
            let times = (self.times, Sections::of(self.scenario));
            let receiver = Receiver::start(&node.name, namespace, &devices, sockets.receives, times, done)?;
            threads.receivers.push(receiver);
            if followed.contains(&here) {
                let (name, address) = (&node.name, node.address);
                let follower = Follower::start(name, namespace, &devices, address, self.times, done)?;
                threads.followers.push(follower);
            }
        }
        threads.transports =
            applications.start(self.scenario, &self.network, self.times, &self.up, &self.ends.stop)?;
        threads.senders = self.start_senders(sends)?;
        for program in &self.scenario.programs {
            let namespace = &self.network.nodes[program.node.0];
            let (epoch, stop) = (self.times.epoch, &self.ends.stop);
            threads.programs.push(Running::start(program, namespace, &self.output, epoch, stop)?);
        }
        Ok(threads)
    }

    /// One thread for every host that sends datagrams.
    fn start_senders(
        &mut self,
        mut sockets: HashMap<NodeIndex, Vec<(u16, UdpSocket)>>,
    ) -> Result<Vec<JoinHandle<SendLog>>, LabError> {
        let mut sources: HashMap<NodeIndex, Vec<_>> = HashMap::new();
        for sender in std::mem::take(&mut self.datagrams.senders) {
            sources.entry(sender.from).or_default().push(sender.source);
        }
        let mut threads = Vec::new();
        for (node, sources) in sources {
            let mut sockets: Vec<(u16, UdpSocket)> = sockets.remove(&node).unwrap_or_default();
            sockets.sort_by_key(|(stream, _)| *stream);
            let (epoch, stop) = (self.times.epoch, Arc::clone(&self.ends.stop));
            let up = Arc::clone(&self.up);
            let work = move || {
                let socket_of = |stream: u16| {
                    // A node that has stopped sends nothing.
                    if !up[node.0].load(Ordering::Relaxed) {
                        return None;
                    }
                    let index = sockets.binary_search_by_key(&stream, |(number, _)| *number).ok()?;
                    sockets.get(index).map(|(_, socket)| socket)
                };
                send(Mix::new(sources), epoch, socket_of, &stop)
            };
            let name = format!("tx-{}", self.scenario.nodes[node.0].name);
            let thread = std::thread::Builder::new().name(name).spawn(work);
            threads.push(thread.map_err(io("start a sender"))?);
        }
        Ok(threads)
    }

    /// What the scenario says, by time.
    fn script(&self) -> Vec<(Instant, Step)> {
        let mut script = Vec::new();
        for (i, link) in self.scenario.links.iter().enumerate() {
            for (way, described) in link.ways.iter().enumerate() {
                for change in &described.changes {
                    let step = Step::Change { link: i, way, change: change.clone() };
                    script.push((Instant(change.at.as_nanos()), step));
                }
            }
        }
        for (i, node) in self.scenario.nodes.iter().enumerate() {
            let NodeKind::Router(config) = &node.kind else { continue };
            for change in &config.changes {
                let step = Step::Router(NodeIndex(i), change.clone());
                script.push((Instant(change.at.as_nanos()), step));
            }
        }
        for fault in &self.scenario.faults {
            let step = match fault.kind {
                FaultKind::Stop => Step::Stop(fault.node),
                FaultKind::Restart => Step::Restart(fault.node),
                // Clocks are read at the end.
                FaultKind::ClockDrift { .. } => continue,
            };
            script.push((Instant(fault.at.as_nanos()), step));
        }
        script.sort_by_key(|(at, _)| *at);
        script
    }

    /// Plays the script to the end of the run; the instant at which it ended.
    fn conduct(&mut self, progress: &mut dyn FnMut(Duration) -> bool) -> Result<Instant, LabError> {
        let end = self.times.window.1;
        let mut script = self.script().into_iter().peekable();
        let mut told = Instant::ZERO;
        loop {
            let now = self.times.of(monotonic());
            while let Some((_, step)) =
                script.next_if(|(at, _)| *at <= now && monotonic() >= self.times.epoch)
            {
                self.play(step)?;
            }
            if now >= end {
                self.check_alive()?;
                return Ok(end);
            }
            if now >= told {
                if !progress(Duration(now.as_nanos())) {
                    return Ok(now);
                }
                told = now + PROGRESS;
                self.check_alive()?;
            }
            let next = script.peek().map_or(end, |(at, _)| *at).min(now + GLANCE).min(end);
            sleep_until((self.times.epoch + Duration(next.as_nanos())).min(monotonic() + GLANCE));
        }
    }

    fn play(&mut self, step: Step) -> Result<(), LabError> {
        match step {
            Step::Change { link, way, change } => {
                if let Some(Some(emulated)) = self.emulated.get_mut(link) {
                    emulated.change(way, &change)?;
                }
                let Some(rate) = change.rate else { return Ok(()) };
                let near = self.scenario.links[link].ends[way];
                match self.routers.iter_mut().find(|router| router.node() == near) {
                    Some(router) => router.link_rate(LinkIndex(link), way, rate),
                    None => Ok(()),
                }
            }
            Step::Router(node, change) => {
                match self.routers.iter_mut().find(|router| router.node() == node) {
                    Some(router) => router.reconfigure(&change),
                    None => Ok(()),
                }
            }
            Step::Stop(node) => self.set_node(node, false),
            Step::Restart(node) => self.set_node(node, true),
        }
    }

    /// A node stops or starts again. Nothing reaches it and nothing leaves it then: what a router lets out as its turn
    /// comes is lost before the link.
    fn set_node(&mut self, node: NodeIndex, up: bool) -> Result<(), LabError> {
        self.up[node.0].store(up, Ordering::Relaxed);
        for (link, end) in self.scenario.links_of(node) {
            if let Some(Some(emulated)) = self.emulated.get_mut(link.0) {
                emulated.set_node(end, up)?;
            }
        }
        Ok(())
    }

    fn check_alive(&self) -> Result<(), LabError> {
        let links = self.emulated.iter().flatten().find_map(EmulatedLink::failure);
        links.or_else(|| self.routers.iter().find_map(Router::failure)).map_or(Ok(()), Err)
    }

    /// Stops everything and collects what it left.
    fn finish(self, threads: Threads, end: Instant, mut health: Health) -> Result<Recording, LabError> {
        let Self { scenario, network, led, emulated, routers, mut datagrams, mut times, ends, .. } = self;
        let stopped = end < times.window.1;
        times.window.1 = end;
        ends.stop.store(true, Ordering::Relaxed);
        let programs: Vec<_> = threads.programs.into_iter().map(Running::finish).collect();
        let connections: Vec<Connections> = threads.transports.into_iter().map(Transport::finish).collect();
        let logs: Vec<SendLog> =
            threads.senders.into_iter().map(|thread| thread.join().unwrap_or_default()).collect();
        // What was sent before the end is still on its way; it was not lost.
        let drain = !stopped && logs.iter().any(|log| !log.sent.is_empty());
        let inside = if drain { drained(&emulated, &routers)? } else { 0 };
        ends.done.store(true, Ordering::Relaxed);
        let seen: Vec<Seen> = threads.receivers.into_iter().map(Receiver::finish).collect();
        let sent: Vec<Sent> = threads.followers.into_iter().map(Follower::finish).collect();
        let mut recording = Recording { window: times.window, ..Recording::default() };
        for agent in threads.agents {
            agent.finish(&mut recording)?;
        }
        let routers: Vec<Ended> = routers.into_iter().map(Router::stop).collect();
        let emulated: Vec<Option<EmulatorReport>> =
            emulated.into_iter().map(|link| link.map(EmulatedLink::stop)).collect();
        if !stopped {
            let ended = programs.into_iter().collect::<Result<Vec<_>, _>>()?;
            recording.programs = ended.into_iter().flatten().collect();
        }
        if stopped {
            recording.warnings.push(format!("stopped after {:.3} s", end.as_nanos() as f64 / 1e9));
        }
        health.socket_drops = network.nodes.iter().map(socket_drops).sum();
        health.senders(&logs);
        health.captures(seen.iter().map(|host| host.lost).chain(sent.iter().map(|host| host.lost)));
        health.engines(emulated.iter().flatten().map(|r| &r.report));
        health.engines(routers.iter().map(|r| &r.report.report));
        recording.links = links::records(scenario, &led, &emulated, &routers, &times);
        for (traffic, hits) in connections.iter().flat_map(|ended| &ended.unopened) {
            *recording.unopened.entry(*traffic).or_default() += hits;
        }
        recording.connections =
            connection_records(scenario, connections, &seen, sent, &mut recording.warnings);
        recording.foreign = arrivals(&mut datagrams, &logs, &seen, &times);
        datagrams.read_clocks(|node, at| clock_of(scenario, node, at).read(at));
        recording.streams = datagrams.into_records();
        recording.warnings.extend(set_aside(&mut recording.streams, inside));
        for router in &routers {
            if let Some(error) = &router.report.restore_error {
                recording.machine_warnings.push(format!("{}: {error}", router.part));
            }
        }
        recording.machine_warnings.extend(health.warnings());
        recording.machine = Some(health.describe());
        recording.longest_stall = health.longest_stall();
        recording.saturated = health.saturated();
        recording.starved = health.starved();
        Ok(recording)
    }
}

/// Waits until no packet is inside links and routers; how many still are when that takes too long.
fn drained(emulated: &[Option<EmulatedLink>], routers: &[Router]) -> Result<u64, LabError> {
    let limit = monotonic() + DRAIN_LIMIT;
    let mut before = u64::MAX;
    loop {
        sleep_until(monotonic() + DRAIN_STEP);
        let mut inside = 0;
        for link in emulated.iter().flatten() {
            inside += link.held()?;
        }
        for router in routers {
            inside += router.held()?;
        }
        if inside == 0 && before == 0 || monotonic() >= limit {
            return Ok(inside);
        }
        before = inside;
    }
}

/// The clock of a node at an instant, after all drifts up to then.
fn clock_of(scenario: &Scenario, node: NodeIndex, at: Instant) -> Clock {
    let mut clock = Clock::default();
    for fault in scenario.faults.iter().filter(|fault| fault.node == node) {
        if let FaultKind::ClockDrift { ppm } = fault.kind
            && fault.at.as_nanos() <= at.as_nanos()
        {
            clock.drift(Instant(fault.at.as_nanos()), ppm);
        }
    }
    clock
}

/// Books what was sent and what came. The instant of arrival is the kernel's stamp where there is one: what the
/// receiving thread then waits for a processor is this machine's doing, not the network's. Returns the number of arrivals
/// that nobody sent.
fn arrivals(datagrams: &mut Datagrams, logs: &[SendLog], seen: &[Seen], times: &Times) -> u64 {
    let mut foreign = 0;
    for sent in logs.iter().flat_map(|log| &log.sent) {
        datagrams.sent(sent, times.of(sent.at));
    }
    for host in seen {
        // Copies of one datagram in the order in which they came.
        let mut stamps: HashMap<(u16, u32), VecDeque<Instant>> = HashMap::new();
        for (stream, index, at) in &host.stamps {
            stamps.entry((*stream, *index)).or_default().push_back(*at);
        }
        for (stream, index, at) in &host.datagrams {
            let stamp = stamps.get_mut(&(*stream, *index)).and_then(VecDeque::pop_front);
            let at = stamp.unwrap_or(*at);
            foreign += u64::from(!datagrams.arrived(*stream, *index, at));
        }
        foreign += host.foreign;
    }
    foreign
}

/// The records of connections, with what the tap at the receiver saw of each, and of those that are followed the one at the
/// sender.
fn connection_records(
    scenario: &Scenario,
    connections: Vec<Connections>,
    seen: &[Seen],
    sent: Vec<Sent>,
    warnings: &mut Vec<String>,
) -> Vec<ConnectionRecord> {
    let hosts = (0..scenario.nodes.len()).filter(|i| scenario.nodes[*i].kind == NodeKind::Host);
    let flows: HashMap<NodeIndex, &HashMap<FlowKey, Flow>> =
        hosts.map(NodeIndex).zip(seen.iter().map(|host| &host.flows)).collect();
    // A capture with holes would take what it missed for what was never sent.
    let whole = sent.into_iter().filter(|host| host.lost == 0);
    let mut segments: HashMap<FlowKey, Vec<SegmentLog>> = whole.flat_map(Sent::into_logs).collect();
    let mut records = Vec::new();
    for Connections { records: of_one, refused, refusals, .. } in connections {
        if let Some(why) = refused {
            warnings.push(format!("{refusals} connections could not be opened, the first: {why}"));
        }
        for (host, key, mut record) in of_one {
            if let Some(flow) = flows.get(&host).and_then(|flows| flows.get(&key)) {
                record.first_byte = flow.first.or(record.first_byte);
                record.window_ip_bytes = flow.window_ip_bytes;
                record.bins.clone_from(&flow.bins);
                record.sections.clone_from(&flow.sections);
            }
            if record.reads.is_some() {
                record.segments = segments.get_mut(&key).and_then(Vec::pop);
            }
            records.push(record);
        }
    }
    records.sort_by_key(|record| record.opened);
    records
}
