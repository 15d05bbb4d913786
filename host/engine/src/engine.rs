//! A router on this machine: preparing its interfaces, starting its threads, stopping, putting everything back.

use crate::capture::{Capture, Tap};
use crate::control_thread::{ControlThread, FILE, Parts, ToControl, file_transaction};
use crate::error::EngineError;
use crate::facts::{Facts, FactsLine, SocketPlan};
use crate::handle::Handle;
use crate::packet_thread::{Ended, Line, Message, PacketThread, Scheduling};
use crate::port::LivePort;
use crate::prepare::{self, Device};
use crate::report::{Recording, Report};
use crate::router_forwarder::RouterForwarder;
use crate::state_file::{self, StateFile};
use crate::wait::{MAX_PORTS, Wake};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use perhop_graph::control::{Control, Limits};
use perhop_graph::router::{EdgeOptions, EdgePort, RouterPlanner, Worker, edge_graph, registry};
use perhop_graph::routerfile::RouterFile;
use perhop_io::{AfPacket, clock};
use perhop_model::{Kind, Object, Outcome, PortMode, PortSpec};
use perhop_netlink::{Namespace, Netlink};
use perhop_packet::{Pool, PortId};
use perhop_units::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};

/// Requests that may wait before the control machine's own queue.
const INLET: usize = 1024;

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Name: `--router NAME`, state file, threads.
    pub name: String,
    /// Where the interfaces are; `None` = the caller's namespace.
    pub namespace: Option<Namespace>,
    /// Objects of owner `file`; ports among them, in order, are the router's ports.
    pub objects: Vec<Object>,
    /// What [`Handle::reload`] reads.
    pub file: Option<PathBuf>,
    /// Graph instead of the default one of an edge router.
    pub graph: Option<String>,
    /// Connections remembered at most, in the default graph.
    pub connections: u32,
    /// Packet buffers of 2 KiB, at least what all queues may hold together.
    pub pool_size: usize,
    /// Seed of random decisions.
    pub seed: u64,
    /// CPU for the packet thread to stay on.
    pub cpu: Option<usize>,
    /// Try for real-time priority.
    pub fifo: bool,
    /// Capture what each port receives and sends to files here.
    pub pcap_dir: Option<PathBuf>,
    /// Sample queues and classes at this interval from the start.
    pub record: Option<Duration>,
    /// Slots of each receive ring, 64 … 65,536.
    pub rx_slots: u32,
    /// Slots of each transmit ring, 64 … 65,536.
    pub tx_slots: u32,
    /// Directory of the state file; `None` = [`crate::state_directory`].
    pub state_dir: Option<PathBuf>,
}

impl EngineConfig {
    /// A router of these objects in a namespace: 65,536 buffers, seed 1, rings of 4,096 and 1,024 slots.
    pub fn new(name: &str, namespace: Option<Namespace>, objects: Vec<Object>) -> Self {
        Self {
            name: name.to_owned(),
            namespace,
            objects,
            file: None,
            graph: None,
            connections: EdgeOptions::DEFAULT_CONNECTIONS,
            pool_size: 65_536,
            seed: 1,
            cpu: None,
            fifo: false,
            pcap_dir: None,
            record: None,
            rx_slots: 4096,
            tx_slots: 1024,
            state_dir: None,
        }
    }

    /// A router of a file that was read, which `path` names for reloading.
    pub fn of_file(
        name: &str,
        namespace: Option<Namespace>,
        file: &RouterFile,
        path: Option<PathBuf>,
    ) -> Self {
        Self {
            file: path,
            connections: file.router.max_flows,
            ..Self::new(name, namespace, file.objects.clone())
        }
    }
}

/// What a router has to say at its end.
#[derive(Debug, Default)]
pub struct StopReport {
    /// Final counters of ports, elements, pool and driver.
    pub report: Report,
    /// Queues over time, if recorded.
    pub recording: Option<Recording>,
    /// What could not be put back, if anything; the state file stays then.
    pub restore_error: Option<EngineError>,
}

/// A running router. Stops when dropped.
pub struct Engine {
    name: String,
    running: Option<Running>,
    warnings: Vec<String>,
}

struct Running {
    line: Line<RouterForwarder>,
    inside: Sender<ToControl>,
    facts_line: Arc<FactsLine>,
    packet: JoinHandle<Ended<RouterForwarder>>,
    control: JoinHandle<()>,
    facts: JoinHandle<()>,
    capture: Option<Capture>,
    prepared: Prepared,
}

/// Interfaces that are changed, until dropped or put back.
struct Prepared {
    namespace: Namespace,
    state: StateFile,
    path: PathBuf,
    active: bool,
}

impl Prepared {
    /// Saves how the interfaces are, then changes them.
    fn new(config: &EngineConfig, namespace: &Namespace, devices: &[Device]) -> Result<Self, EngineError> {
        let directory = config.state_dir.clone().unwrap_or_else(state_file::state_directory);
        std::fs::create_dir_all(&directory)
            .map_err(|source| EngineError::StateFile { path: directory.clone(), source })?;
        let path = state_file::state_path(&directory, &config.name);
        if path.exists() {
            // Of a router that runs: refused. Of one that crashed: its interfaces are put back first.
            state_file::restore(&path)?;
        }
        let state = StateFile::new(&config.name, namespace, prepare::read(namespace, devices)?);
        state.write(&path)?;
        let prepared = Self { namespace: namespace.clone(), state, path, active: true };
        let netlink = Netlink::open_in(namespace)?;
        for device in devices {
            prepare::change(namespace, &netlink, device)?;
        }
        Ok(prepared)
    }

    fn put_back(&mut self) -> Result<(), EngineError> {
        self.active = false;
        prepare::restore(&self.namespace, &self.state)?;
        std::fs::remove_file(&self.path)
            .map_err(|source| EngineError::StateFile { path: self.path.clone(), source })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.active
            && let Err(error) = self.put_back()
        {
            tracing::error!(%error, "interfaces are not as they were");
        }
    }
}

/// The ports among the objects, in order.
fn ports_of(objects: &[Object]) -> Result<Vec<EdgePort>, EngineError> {
    let mut ports = Vec::new();
    for object in objects.iter().filter(|o| o.kind == Kind::Port) {
        let spec: PortSpec = serde_json::from_value(object.spec.clone())
            .map_err(|e| EngineError::Objects(vec![format!("port/{}: {e}", object.name)]))?;
        ports.push(EdgePort { name: object.name.to_string(), spec });
    }
    if ports.is_empty() || ports.len() > MAX_PORTS {
        return Err(EngineError::PortCount { given: ports.len(), most: MAX_PORTS });
    }
    Ok(ports)
}

fn device_of(port: &EdgePort) -> Device {
    let device = if port.spec.device.is_empty() { &port.name } else { &port.spec.device };
    Device { port: port.name.clone(), device: device.clone() }
}

impl Engine {
    /// Prepares the interfaces, opens them, and starts forwarding with the objects in force. Returns when the first
    /// transaction has been applied.
    ///
    /// # Errors
    /// See [`EngineError`]. Nothing stays changed then.
    pub fn start(config: EngineConfig) -> Result<(Self, Handle), EngineError> {
        let ports = ports_of(&config.objects)?;
        let devices: Vec<Device> = ports.iter().map(device_of).collect();
        let namespace = config.namespace.clone().map_or_else(Namespace::current, Ok)?;
        let text = config
            .graph
            .clone()
            .unwrap_or_else(|| edge_graph(&ports, &EdgeOptions::live(config.connections)));
        let mut planner = RouterPlanner::new(ports.clone(), registry());
        let pool = Pool::new(config.pool_size);
        let worker = Worker::new(&text, &mut planner, pool, config.seed)
            .map_err(|e| EngineError::Graph(vec![e.to_string()]))?;
        let prepared = Prepared::new(&config, &namespace, &devices)?;
        let plan = SocketPlan {
            rx_slots: config.rx_slots,
            tx_slots: config.tx_slots,
            promiscuous: ports.iter().any(|p| p.spec.mode == PortMode::Bridge),
        };
        let sockets =
            devices.iter().map(|d| plan.open(&namespace, d)).collect::<Result<Vec<_>, EngineError>>()?;
        let netlink = Netlink::open_in(&namespace)?;
        let warnings = prepare::peer_warnings(&netlink, &devices);
        let threads = Threads { config: &config, namespace, devices, plan, prepared, netlink, text };
        let (running, handle) = threads.start(planner, worker, sockets)?;
        let engine = Self { name: config.name.clone(), running: Some(running), warnings };
        // On failure the engine is dropped, which stops the threads and puts the interfaces back.
        engine.load(&handle, config.objects)?;
        Ok((engine, handle))
    }

    fn load(&self, handle: &Handle, objects: Vec<Object>) -> Result<(), EngineError> {
        let reply = handle.submit_blocking(FILE, file_transaction(objects))?;
        if reply.outcome == Outcome::Committed {
            return Ok(());
        }
        let sentences = reply.errors.iter().map(|e| format!("{}: {} ({})", e.path, e.message, e.code.name()));
        Err(EngineError::Objects(sentences.collect()))
    }

    /// Name of the router.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a person should know: offloads that are on at the other end of a port.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Where the state file is.
    pub fn state_file(&self) -> Option<&std::path::Path> {
        self.running.as_ref().map(|r| r.prepared.path.as_path())
    }

    /// Starts sampling queues and classes (again).
    pub fn record(&self, interval: Duration) {
        if let Some(r) = &self.running {
            r.line.send(Message::Record(interval));
        }
    }

    /// Ends sampling and gives what was sampled.
    pub fn take_recording(&self) -> Option<Recording> {
        let (to, from) = bounded(1);
        self.running.as_ref()?.line.send(Message::TakeRecording(to));
        from.recv().ok().flatten()
    }

    /// Stops forwarding, puts the interfaces back and removes the state file.
    pub fn stop(mut self) -> StopReport {
        self.end()
    }

    fn end(&mut self) -> StopReport {
        let Some(running) = self.running.take() else { return StopReport::default() };
        running.facts_line.stop.store(true, Ordering::Release);
        let _ = running.facts.join();
        // The control thread refuses what waits; then the packet thread may go.
        let _ = running.inside.send(ToControl::Stop);
        let _ = running.control.join();
        running.line.send(Message::Stop);
        let mut report = StopReport::default();
        match running.packet.join() {
            Ok(ended) => {
                report.report.rows = ended.rows;
                report.report.rows.extend(ended.forwarder.count(&Default::default()).elements);
                report.recording = ended.recording;
            }
            Err(_) => tracing::error!("the packet thread ended in a panic"),
        }
        if let Some(capture) = running.capture {
            capture.finish();
        }
        let mut prepared = running.prepared;
        report.restore_error = prepared.put_back().err();
        report
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(error) = self.end().restore_error {
            tracing::error!(%error, "interfaces are not as they were");
        }
    }
}

/// Everything the threads are started from.
struct Threads<'c> {
    config: &'c EngineConfig,
    namespace: Namespace,
    devices: Vec<Device>,
    plan: SocketPlan,
    prepared: Prepared,
    netlink: Netlink,
    text: String,
}

impl Threads<'_> {
    fn start(
        self,
        planner: RouterPlanner,
        worker: Worker,
        sockets: Vec<AfPacket>,
    ) -> Result<(Running, Handle), EngineError> {
        let (inside, inside_out) = unbounded();
        let names: Vec<String> = self.devices.iter().map(|d| d.port.clone()).collect();
        // Read before anything runs, so that the first packets find their routes.
        let (facts, world) = Facts::open(self.namespace.clone(), self.devices.clone(), self.plan.clone())?;
        let _ = inside.send(ToControl::World(Box::new(world)));
        let (capture, ports) = self.ports(&names, sockets)?;
        let (line, packet) = self.packet_thread(worker, names.clone(), ports, &inside)?;
        let (requests, requests_out) = bounded(INLET);
        // The epoch differs between starts on one machine.
        let epoch = clock::monotonic().0 + clock::real_minus_monotonic();
        let facts_line = Arc::new(FactsLine::default());
        let parts = Parts {
            control: Control::new(epoch, planner, Limits::default()),
            line: line.clone(),
            requests: requests_out,
            inside: inside_out,
            to_me: inside.clone(),
            facts: facts_line.clone(),
            netlink: self.netlink,
            file: self.config.file.clone(),
            graph_text: self.text,
        };
        let control = spawn(&format!("ctl-{}", self.config.name), move || ControlThread::new(parts).run());
        let control = match control {
            Ok(control) => control,
            Err(error) => {
                line.send(Message::Stop);
                return Err(error);
            }
        };
        let (to_control, stop) = (inside.clone(), facts_line.clone());
        let facts = spawn(&format!("net-{}", self.config.name), move || facts.run(&stop, &to_control));
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                let _ = inside.send(ToControl::Stop);
                line.send(Message::Stop);
                return Err(error);
            }
        };
        let running =
            Running { line, inside, facts_line, packet, control, facts, capture, prepared: self.prepared };
        Ok((running, Handle { requests, epoch, ports: names.into() }))
    }

    fn ports(
        &self,
        names: &[String],
        sockets: Vec<AfPacket>,
    ) -> Result<(Option<Capture>, Vec<LivePort>), EngineError> {
        let (capture, taps): (_, Vec<Option<Tap>>) = match &self.config.pcap_dir {
            Some(directory) => {
                let (capture, taps) = Capture::start(directory, names)?;
                (Some(capture), taps.into_iter().map(Some).collect())
            }
            None => (None, names.iter().map(|_| None).collect()),
        };
        let ports = names
            .iter()
            .zip(sockets.into_iter().zip(taps))
            .enumerate()
            .map(|(i, (name, (socket, tap)))| LivePort::new(PortId(i as u16), name.clone(), socket, tap))
            .collect();
        Ok((capture, ports))
    }

    fn packet_thread(
        &self,
        worker: Worker,
        names: Vec<String>,
        ports: Vec<LivePort>,
        inside: &Sender<ToControl>,
    ) -> Result<(Line<RouterForwarder>, JoinHandle<Ended<RouterForwarder>>), EngineError> {
        let wake = Arc::new(Wake::new().map_err(EngineError::Thread)?);
        let (messages, out): (_, Receiver<Message<RouterForwarder>>) = bounded(4096);
        let (tell, notice) = (inside.clone(), inside.clone());
        let tell = move |what| {
            let _ = tell.send(ToControl::Worker(what));
        };
        let notice = move |what| {
            let _ = notice.send(ToControl::Notice(what));
        };
        let forwarder = RouterForwarder::new(worker, names, Box::new(tell));
        let turning = PacketThread::new(forwarder, ports, out, wake.clone(), Box::new(notice));
        let scheduling = Scheduling { cpu: self.config.cpu, fifo: self.config.fifo };
        let name = format!("pkt-{}", self.config.name);
        let thread = self.namespace.spawn(&name, move || turning.run(scheduling))?;
        let line = Line { messages, wake };
        if let Some(interval) = self.config.record {
            line.send(Message::Record(interval));
        }
        Ok((line, thread))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, EngineError> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(EngineError::Thread)
}
