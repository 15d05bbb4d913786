//! A router on this machine: preparing its interfaces, starting its threads, stopping, putting everything back.

use crate::accounting::Accounting;
use crate::capture::{Capture, Tap};
use crate::control_thread::{ControlThread, FILE, Parts, file_transaction};
use crate::death::{Sentinel, Stopping, ThreadDeath};
use crate::error::EngineError;
use crate::facts::{Facts, FactsLine};
use crate::handle::Handle;
use crate::inlet::Inlet;
use crate::lanes::{self, Lanes};
use crate::lines::Lines;
use crate::machine::Scheduling;
use crate::machine::Steal;
use crate::notes::PassedBy;
use crate::outbox;
use crate::own_traffic::OwnTraffic;
use crate::packet_thread::{Line, Message, PacketThread};
use crate::port::LivePort;
use crate::prepare::{self, Device};
use crate::prepared::Prepared;
use crate::rights;
use crate::router_forwarder::{Alarm, RouterForwarder};
use crate::socket_plan::{SocketPlan, XdpPlan, open_tun};
use crate::supervisor::{Order, PacketHandle, Running, StopReport, supervise};
use crate::told::ToControl;
use crate::wait::{MAX_PORTS, Wake};
use crossbeam_channel::{Sender, bounded, unbounded};
use perhop_contract::{Control, Limits};
use perhop_flows::FlowEvent;
use perhop_graph::router::{
    Balancer, EdgeOptions, EdgePort, MAX_WORKERS, Member, Placement, RouterPlanner, edge_graph, registry,
};
use perhop_io::{DevicePort, TunPort, clock};
use perhop_model::{Object, Outcome, PortMode};
use perhop_netlink::{Namespace, Netlink};
use perhop_packet::{Pool, PortId};
use perhop_routerfile::{PortIo, RouterFile, RouterSettings, Waiting};
use perhop_units::{Duration, Rate};
use std::hash::{BuildHasher, RandomState};
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
    /// Graph instead of the default one of an edge router.
    pub graph: Option<String>,
    /// Connections remembered at most, in the default graph.
    pub connections: u32,
    /// Connections whose TCP rate is controlled at most, 16 … 4,194,304.
    pub abr_connections: u32,
    /// Whether their windows have credit for what whole segments leave of them.
    pub abr_credit: bool,
    /// Copies a second that a bridge makes of flooded frames, see [`EdgeOptions::storm_limit`].
    pub storm_limit: u32,
    /// Packet buffers of 2 KiB, at least what all queues may hold together.
    pub pool_size: usize,
    /// Seed of random decisions.
    pub seed: u64,
    /// Packet threads that are one router, 1 … 16, with the default graph. Ports go to them in turn.
    pub workers: usize,
    /// Whether flows go from one packet thread to another when one has too much; of 2 and more.
    pub adaptive: bool,
    /// Packets a second, of all packet threads, below which no flow goes to another.
    pub adaptive_least_pps: u64,
    /// CPU for the packet thread to stay on; of several the first, and the next CPUs are for the others.
    pub cpu: Option<usize>,
    /// Try for real-time priority.
    pub fifo: bool,
    /// Capture what each port receives and sends to files here.
    pub pcap_dir: Option<PathBuf>,
    /// Sample queues and classes at this interval from the start.
    pub record: Option<Duration>,
    /// Take the time of elements and packets from the start.
    pub accounting: Option<Accounting>,
    /// Slots of each receive ring, 64 … 65,536.
    pub rx_slots: u32,
    /// Slots of each transmit ring, 64 … 65,536.
    pub tx_slots: u32,
    /// How frames reach the ports. With AF_XDP the pool has `rx_slots` more buffers for each port, and all are locked in
    /// memory.
    pub io: PortIo,
    /// Names of ports that are TUN interfaces of the router's own: made at the start where they are not there, and
    /// gone at the end then.
    pub tun: Vec<String>,
    /// Starts although rules of the packet filter would do something to what is forwarded, which they do not see.
    pub bypass_netfilter: bool,
    /// What packet threads do without work.
    pub waiting: Waiting,
    /// Directory of the state file. Whoever can write there can have any interface of this machine changed.
    pub state_dir: PathBuf,
}

impl EngineConfig {
    /// A router of these objects in a namespace: 65,536 buffers, seed 1, rings of 4,096 and 1,024 slots.
    pub fn new(
        name: &str,
        namespace: Option<Namespace>,
        objects: Vec<Object>,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            namespace,
            objects,
            graph: None,
            connections: EdgeOptions::DEFAULT_CONNECTIONS,
            abr_connections: EdgeOptions::DEFAULT_ABR_CONNECTIONS,
            abr_credit: true,
            storm_limit: EdgeOptions::DEFAULT_STORM_LIMIT,
            pool_size: 65_536,
            seed: 1,
            workers: 1,
            adaptive: false,
            adaptive_least_pps: Balancer::DEFAULT_LEAST_PPS,
            cpu: None,
            fifo: false,
            pcap_dir: None,
            record: None,
            accounting: None,
            rx_slots: 4096,
            tx_slots: 1024,
            io: PortIo::AfPacket,
            tun: Vec::new(),
            bypass_netfilter: false,
            waiting: Waiting::Adaptive,
            state_dir: state_dir.into(),
        }
    }

    /// Packet buffers in all: those that wait for frames are lent to the kernel.
    fn buffers(&self, ports: usize) -> usize {
        let lent = if self.io == PortIo::AfPacket { 0 } else { self.rx_slots as usize * ports };
        self.pool_size.saturating_add(lent)
    }

    /// A router of a file that was read.
    pub fn of_file(
        name: &str,
        namespace: Option<Namespace>,
        file: &RouterFile,
        state_dir: impl Into<PathBuf>,
    ) -> Self {
        let mut config = Self::new(name, namespace, file.objects.clone(), state_dir);
        config.take_limits(&file.router);
        config.io = file.router.io;
        config.tun = file.tun_ports.iter().map(ToString::to_string).collect();
        config.bypass_netfilter = file.kernel.bypass_netfilter;
        config.waiting = file.router.wait;
        config.workers = file.router.workers;
        config.adaptive = file.router.adaptive;
        config
    }

    /// Takes over what the settings of a router's file say of the default graph.
    pub fn take_limits(&mut self, router: &RouterSettings) {
        self.connections = router.max_flows;
        self.abr_connections = router.abr_connections();
        self.abr_credit = router.abr_credit;
        self.storm_limit = router.storm_limit;
    }
}

/// A running router. Stops when dropped, and by itself when one of its threads dies.
pub struct Engine {
    name: String,
    state_file: PathBuf,
    orders: Sender<Order>,
    supervisor: Option<JoinHandle<StopReport>>,
    warnings: Vec<String>,
    /// Lets the facts thread panic, and counts what it opens.
    #[cfg(test)]
    facts: Arc<FactsLine>,
    /// Speaks to packet threads directly.
    #[cfg(test)]
    lines: Lines,
}

/// The ports among the objects, in order.
fn ports_of(objects: &[Object]) -> Result<Vec<EdgePort>, EngineError> {
    let ports = EdgePort::of_objects(objects);
    if ports.is_empty() || ports.len() > MAX_PORTS {
        return Err(EngineError::PortCount { given: ports.len(), most: MAX_PORTS });
    }
    Ok(ports)
}

/// Several workers have the default graph, route, and are not taken the measure of.
fn check_workers(config: &EngineConfig, ports: &[EdgePort]) -> Result<(), EngineError> {
    let bridges = ports.iter().any(|p| p.spec.mode == PortMode::Bridge);
    let why = match config.workers {
        1 => return Ok(()),
        2..=MAX_WORKERS if config.graph.is_some() => "have their own graph",
        2..=MAX_WORKERS if bridges => "do not bridge",
        2..=MAX_WORKERS if config.accounting.is_some() => "are not taken the time of",
        2..=MAX_WORKERS => return Ok(()),
        _ => "are too many or none",
    };
    Err(EngineError::Workers { workers: config.workers, why })
}

/// Opens the ports on TUN interfaces: those must be there before interfaces are looked at. Other ports have none.
fn tun_ports(
    config: &EngineConfig,
    ports: &[EdgePort],
    namespace: &Namespace,
    netlink: &Netlink,
) -> Result<Vec<Option<TunPort>>, EngineError> {
    let open = |port: &EdgePort| {
        let is_tun = config.tun.contains(&port.name);
        if is_tun && port.spec.mode == PortMode::Bridge {
            let text = format!("port/{}: a TUN interface has no frames to bridge", port.name);
            return Err(EngineError::Objects(vec![text]));
        }
        is_tun.then(|| open_tun(namespace, netlink, &Device::of(port))).transpose()
    };
    ports.iter().map(open).collect()
}

/// Rules of the packet filter that forwarded packets will not meet any more are somebody's: masquerading, a firewall.
fn check_netfilter(
    config: &EngineConfig,
    namespace: &Namespace,
    devices: &[Device],
) -> Result<PassedBy, EngineError> {
    let looked = PassedBy::look(namespace, devices, config.io);
    let (passed_by, unseen) = PassedBy::accepted(looked, config.bypass_netfilter)?;
    if let Some(error) = unseen {
        tracing::warn!(%error, "cannot look at the packet filter, which what is forwarded passes by");
    }
    Ok(passed_by)
}

/// Names of the ports on interfaces without link headers that others have made.
fn bare_ports(
    netlink: &Netlink,
    config: &EngineConfig,
    ports: &[EdgePort],
) -> Result<Vec<String>, EngineError> {
    let links = netlink.links()?;
    let is_bare = |port: &&EdgePort| {
        !config.tun.contains(&port.name)
            && links.iter().any(|link| link.name == port.device() && prepare::is_bare(link))
    };
    let bare: Vec<&EdgePort> = ports.iter().filter(is_bare).collect();
    match bare.iter().find(|port| port.spec.mode == PortMode::Bridge) {
        Some(port) => Err(EngineError::Objects(vec![format!(
            "port/{}: \"{}\" has no frames to bridge",
            port.name,
            port.device()
        )])),
        None => Ok(bare.into_iter().map(|port| port.name.clone()).collect()),
    }
}

impl Engine {
    /// Prepares the interfaces, opens them, and starts forwarding with the objects in force. Returns when the first
    /// transaction has been applied.
    ///
    /// # Errors
    /// See [`EngineError`]. Nothing stays changed then.
    pub fn start(config: EngineConfig) -> Result<(Self, Handle), EngineError> {
        let ports = ports_of(&config.objects)?;
        check_workers(&config, &ports)?;
        rights::check()?;
        let devices: Vec<Device> = ports.iter().map(Device::of).collect();
        let namespace = config.namespace.clone().map_or_else(Namespace::current, Ok)?;
        let options = EdgeOptions::live(config.connections)
            .with_abr(config.abr_connections)
            .with_abr_credit(config.abr_credit)
            .with_storm_limit(config.storm_limit)
            .with_workers(config.workers)
            .with_adaptive(config.adaptive);
        let text = config.graph.clone().unwrap_or_else(|| edge_graph(&ports, &options));
        // Nobody outside may know which filters, and which flows, meet where.
        let secret = RandomState::new();
        let mut planner = RouterPlanner::new(ports.clone(), registry())
            .with_workers(config.workers)
            .with_adaptive(config.adaptive)
            .with_filter_seed(secret.hash_one("filters"))
            .with_path_seed(secret.hash_one("paths"));
        let pool = Pool::new(config.buffers(ports.len()));
        let placement =
            Placement::new(config.workers, &ports, secret.hash_one("flows")).with_adaptive(config.adaptive);
        let mut members = Member::crew(&text, &mut planner, &pool, &placement, config.seed)
            .map_err(|e| EngineError::Graph(vec![e.to_string()]))?;
        if let Some(accounting) = config.accounting {
            members.iter_mut().for_each(|m| accounting.start(m.worker_mut().driver_mut()));
        }
        let passed_by = check_netfilter(&config, &namespace, &devices)?;
        let netlink = Netlink::open_in(&namespace)?;
        prepare::all_there(&netlink, devices.iter().filter(|d| !config.tun.contains(&d.port)))?;
        let tuns = tun_ports(&config, &ports, &namespace, &netlink)?;
        let prepared = Prepared::new(&config.name, &config.state_dir, &namespace, &devices)?;
        let bridges = ports.iter().any(|p| p.spec.mode == PortMode::Bridge);
        let (xdp, why_not) =
            XdpPlan::new((config.io, config.waiting), bridges, &pool, (&namespace, &devices))?;
        let (rx_slots, tx_slots) = (config.rx_slots, config.tx_slots);
        let bare = bare_ports(&netlink, &config, &ports)?;
        let plan =
            SocketPlan { rx_slots, tx_slots, promiscuous: bridges, tun: config.tun.clone(), bare, xdp };
        let mut warnings: Vec<String> = why_not.into_iter().collect();
        let mut sockets = Vec::with_capacity(devices.len());
        for (device, tun) in devices.iter().zip(tuns) {
            let (socket, why_not) = match tun {
                Some(tun) => (tun.into(), None),
                None => plan.open(&namespace, device)?,
            };
            warnings.extend(why_not);
            sockets.push(socket);
        }
        warnings.extend(prepare::peer_warnings(&netlink, &devices));
        warnings.extend(prepare::jumbo_warnings(&netlink, &devices));
        let too_fast = |p: &EdgePort| {
            prepare::speed_warning(&netlink.link(p.device()).ok()?, p.name.as_str(), p.spec.rate)
        };
        warnings.extend(ports.iter().filter_map(too_fast));
        let bridged: Vec<Device> =
            ports.iter().filter(|p| p.spec.mode == PortMode::Bridge).map(Device::of).collect();
        warnings.extend(prepare::mtu_warning(&netlink, &bridged));
        let threads =
            Threads { config: &config, namespace, devices, plan, prepared, netlink, passed_by, text };
        let (orders, supervisor, deaths) = supervisor(&config.name)?;
        let (running, handle, past) = threads.start(planner, (members, placement), sockets, deaths)?;
        warnings.extend(past);
        let engine = Self {
            name: config.name.clone(),
            state_file: running.prepared.path().to_owned(),
            orders: orders.clone(),
            supervisor: Some(supervisor),
            warnings,
            #[cfg(test)]
            lines: running.lines.clone(),
            #[cfg(test)]
            facts: running.facts_line.clone(),
        };
        let _ = orders.send(Order::Watch(Box::new(running)));
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

    /// What a person should know: ports that are not opened as the file asks, offloads that are on at the other end of a
    /// port, ports of a bridge of several MTUs.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Where the state file is, while the router runs.
    pub fn state_file(&self) -> &std::path::Path {
        &self.state_file
    }

    /// Calls `tell` once, on a thread of its own, when one of the router's threads has died, or at once if one has. The
    /// others have ended then and the interfaces are as they were; [`Engine::stop`] tells the rest.
    pub fn on_failure(&self, tell: impl FnOnce(&ThreadDeath) + Send + 'static) {
        let _ = self.orders.send(Order::OnFailure(Box::new(tell)));
    }

    /// Stops forwarding, puts the interfaces back and removes the state file.
    pub fn stop(mut self) -> StopReport {
        self.end()
    }

    fn end(&mut self) -> StopReport {
        let Some(supervisor) = self.supervisor.take() else { return StopReport::default() };
        let _ = self.orders.send(Order::Stop);
        supervisor.join().unwrap_or_default()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(error) = self.end().restore_error {
            tracing::error!(%error, "interfaces are not as they were");
        }
    }
}

type Supervisor = (Sender<Order>, JoinHandle<StopReport>, Sender<ThreadDeath>);

/// Started before there is anything to watch, so that what runs is never without it.
fn supervisor(name: &str) -> Result<Supervisor, EngineError> {
    let (orders, orders_out) = unbounded();
    let (deaths, deaths_out) = unbounded();
    // Its own end keeps the channel open when all threads have ended.
    let open = deaths.clone();
    let work = move || {
        let report = supervise(&orders_out, &deaths_out);
        drop(open);
        report
    };
    let thread = Builder::new().name(format!("sup-{name}")).spawn(work).map_err(EngineError::Thread)?;
    Ok((orders, thread, deaths))
}

type Seat = (RouterForwarder, Arc<Wake>);

/// Everything the threads are started from.
struct Threads<'c> {
    config: &'c EngineConfig,
    namespace: Namespace,
    devices: Vec<Device>,
    plan: SocketPlan,
    prepared: Prepared,
    netlink: Netlink,
    passed_by: PassedBy,
    text: String,
}

impl Threads<'_> {
    fn start(
        mut self,
        planner: RouterPlanner,
        (members, placement): (Vec<Member>, Placement),
        sockets: Vec<DevicePort>,
        deaths: Sender<ThreadDeath>,
    ) -> Result<(Running, Handle, Vec<String>), EngineError> {
        let stopping = Stopping::default();
        let sentinel = |thread| {
            let deaths = deaths.clone();
            Sentinel::new(&self.config.name, thread, &stopping, move |death| {
                let _ = deaths.send(death);
            })
        };
        let (inside, inside_out) = bounded(outbox::CAPACITY);
        let (to_control, facts_out) = bounded(lanes::FACTS);
        let (flows, flows_out) = bounded(lanes::FLOWS);
        let names: Vec<String> = self.devices.iter().map(|d| d.port.clone()).collect();
        // Read before anything runs, so that the first packets find their routes.
        let saved = self.prepared.saved();
        let (own_traffic, ends, why_not) = self.own_traffic(&planner);
        let beside = (own_traffic, std::mem::take(&mut self.passed_by));
        let (facts, world) =
            Facts::open(self.namespace.clone(), self.devices.clone(), self.plan.clone(), saved, beside)?;
        let past = why_not.into_iter().chain(facts.notes()).collect();
        let _ = to_control.send(ToControl::World(Box::new(world)));
        let (capture, ports) = self.ports(&names, sockets, ends)?;
        let seats = self.seats(members, &names, &inside, &flows)?;
        let mut ports: Vec<Option<LivePort>> = ports.into_iter().map(Some).collect();
        let (mut lines, mut packet) = (Vec::new(), Vec::new());
        for (i, seat) in seats.into_iter().enumerate() {
            let mine = placement.ports(i).filter_map(|port| ports.get_mut(port.index())?.take()).collect();
            match self.packet_thread(i, seat, mine, sentinel("packet")) {
                Ok((line, thread)) => {
                    lines.push(line);
                    packet.push(thread);
                }
                Err(error) => {
                    stopping.store(true, Ordering::Release);
                    for line in lines {
                        line.send(Message::Stop);
                    }
                    return Err(error);
                }
            }
        }
        let lines = Lines::new(lines, placement);
        let (requests, requests_out) = Inlet::new(INLET);
        // The epoch differs between starts on one machine.
        let epoch = clock::monotonic().0 + clock::real_minus_monotonic();
        let facts_line = Arc::new(FactsLine::default());
        let steal = Steal::now();
        let parts = Parts {
            control: Control::new(epoch, planner, Limits::default()),
            lines: lines.clone(),
            lanes: Lanes { facts: facts_out, inside: inside_out, requests: requests_out, flows: flows_out },
            facts: facts_line.clone(),
            netlink: self.netlink,
            headerless: self.devices.iter().map(|device| self.plan.is_headerless(device)).collect(),
            graph_text: self.text,
            adaptive_least_pps: self.config.adaptive_least_pps,
            steal: steal.clone(),
        };
        let watch = sentinel("control");
        let control = spawn(&format!("ctl-{}", self.config.name), move || {
            watch.guard(|| ControlThread::new(parts).run());
        });
        let control = match control {
            Ok(control) => control,
            Err(error) => {
                stopping.store(true, Ordering::Release);
                lines.to_all(|| Message::Stop);
                return Err(error);
            }
        };
        let stop = facts_line.clone();
        let watch = sentinel("facts");
        let facts = spawn(&format!("net-{}", self.config.name), move || {
            watch.guard(|| facts.run(&stop, &to_control));
        });
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                stopping.store(true, Ordering::Release);
                let _ = inside.send(ToControl::Stop);
                lines.to_all(|| Message::Stop);
                return Err(error);
            }
        };
        let prepared = self.prepared;
        let running =
            Running { lines, inside, facts_line, stopping, packet, control, facts, capture, prepared, steal };
        Ok((running, Handle { requests, epoch, ports: names.into() }, past))
    }

    /// What each packet thread is to run, and what wakes it.
    fn seats(
        &self,
        members: Vec<Member>,
        names: &[String],
        inside: &Sender<ToControl>,
        flows: &Sender<FlowEvent>,
    ) -> Result<Vec<Seat>, EngineError> {
        let wakes = members.iter().map(|_| Wake::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let wakes = wakes.map_err(EngineError::Thread)?;
        let alarms: Arc<[Alarm]> = wakes.iter().cloned().map(Alarm::new).collect();
        let forwarder = |(i, member)| {
            let seat = (member, i, alarms.clone());
            RouterForwarder::new(seat, names.to_vec(), inside.clone(), flows.clone())
        };
        Ok(members.into_iter().enumerate().map(forwarder).zip(wakes).collect())
    }

    /// Detours for what this host itself sends by ports with a rate, or why there are none.
    fn own_traffic(
        &self,
        planner: &RouterPlanner,
    ) -> (Option<OwnTraffic>, Vec<Option<perhop_io::Tap>>, Option<String>) {
        let with_rate = |(device, port): (&Device, &EdgePort)| {
            (device.clone(), port.spec.rate != Rate::ZERO && !self.plan.is_tun(device))
        };
        let devices: Vec<(Device, bool)> = self.devices.iter().zip(planner.ports()).map(with_rate).collect();
        let none = || devices.iter().map(|_| None).collect();
        if !devices.iter().any(|(_, wanted)| *wanted) {
            return (None, none(), None);
        }
        match OwnTraffic::open(&self.namespace, &self.netlink, &self.config.name, &devices) {
            Ok((own, ends)) => (Some(own), ends, None),
            Err(error) => {
                let why = "what this host itself sends by its ports does not wait in their queues";
                (None, none(), Some(format!("{why}: {error}")))
            }
        }
    }

    fn ports(
        &self,
        names: &[String],
        sockets: Vec<DevicePort>,
        own: Vec<Option<perhop_io::Tap>>,
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
            .zip(sockets.into_iter().zip(taps).zip(own))
            .enumerate()
            .map(|(i, (name, ((socket, tap), own)))| {
                LivePort::new(PortId(i as u16), name.clone(), socket, tap).with_own(own)
            })
            .collect();
        Ok((capture, ports))
    }

    fn packet_thread(
        &self,
        i: usize,
        (forwarder, wake): Seat,
        ports: Vec<LivePort>,
        watch: Sentinel,
    ) -> Result<(Line<RouterForwarder>, PacketHandle), EngineError> {
        let (messages, out) = Inlet::new(4096);
        let turning = PacketThread::new(forwarder, ports, out, wake.clone());
        let EngineConfig { cpu, fifo, waiting, .. } = *self.config;
        let scheduling = Scheduling { cpu: cpu.map(|cpu| cpu + i), fifo, waiting };
        let name = match i {
            0 => format!("pkt-{}", self.config.name),
            _ => format!("pkt{i}-{}", self.config.name),
        };
        let thread = self.namespace.spawn(&name, move || watch.guard(|| turning.run(scheduling)))?;
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perhop_model::{Call, CountersQuery, EventFilter, ShowQuery};
    use perhop_netlink::is_privileged_for_net;
    use perhop_netlink::sysctl::{self, IpVersion};

    /// A router of two ports in a namespace of its own, where the kernel forwards and offloads are on.
    pub(crate) struct Bench {
        pub(crate) namespace: Namespace,
        pub(crate) scratch: PathBuf,
    }

    impl Bench {
        /// `None`, with a sentence, where namespaces are not permitted.
        pub(crate) fn new(name: &str) -> Option<Self> {
            if !is_privileged_for_net() {
                let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
                eprintln!("SKIPPED {name}: {why}");
                let required = std::env::var("PERHOP_REQUIRE").unwrap_or_default();
                assert!(
                    !required.split(',').any(|i| i == "netns"),
                    "{name} is required but cannot run: {why}"
                );
                return None;
            }
            let namespace = Namespace::create().unwrap();
            let net = Netlink::open_in(&namespace).unwrap();
            for port in ["p0", "p1"] {
                let peer = format!("{port}-peer");
                net.create_veth(port, &peer, None).unwrap();
                net.set_up(port).unwrap();
                net.set_up(&peer).unwrap();
                sysctl::write(&namespace, IpVersion::V4, port, FORWARDING, 1).unwrap();
            }
            let scratch = std::env::temp_dir().join(format!("perhop-unit-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&scratch).unwrap();
            Some(Self { namespace, scratch })
        }

        pub(crate) fn start(&self, name: &str) -> (Engine, Handle) {
            self.start_of(name, "[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\n")
        }

        pub(crate) fn start_of(&self, name: &str, text: &str) -> (Engine, Handle) {
            let (file, diagnostics) = RouterFile::read("router.toml", text);
            let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
            let config = EngineConfig {
                pool_size: 1024,
                ..EngineConfig::of_file(name, Some(self.namespace.clone()), &file, &self.scratch)
            };
            Engine::start(config).unwrap()
        }

        fn is_as_before(&self) -> bool {
            let net = Netlink::open_in(&self.namespace).unwrap();
            let forwards = |p| sysctl::read(&self.namespace, IpVersion::V4, p, FORWARDING).unwrap() == 1;
            ["p0", "p1"].into_iter().all(|p| forwards(p) && !net.offloads(p).unwrap().is_off())
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.scratch);
        }
    }

    const FORWARDING: &str = "forwarding";

    #[test]
    fn a_thread_that_dies_ends_the_router_and_everything_is_put_back() {
        let Some(bench) = Bench::new("a_thread_that_dies_ends_the_router_and_everything_is_put_back") else {
            return;
        };
        for thread in ["packet", "control", "facts"] {
            let (engine, handle) = bench.start("dying");
            assert!(!bench.is_as_before() && engine.state_file().exists());
            let (tell, told) = bounded(1);
            engine.on_failure(move |death| tell.send(death.clone()).unwrap());
            match thread {
                "packet" => {
                    engine.lines.to(0, Message::Count(Box::new(|_, _, _| panic!("out of luck"))));
                }
                "control" => handle.call(Call::Events(
                    0,
                    EventFilter::default(),
                    1,
                    Box::new(|_| panic!("out of luck")),
                )),
                _ => engine.facts.broken.store(true, Ordering::Release),
            }
            let death: ThreadDeath = told.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
            assert_eq!((death.thread, death.why.as_str()), (thread, "panic: out of luck"));
            assert!(bench.is_as_before() && !engine.state_file().exists(), "{thread}: before anybody asks");
            assert!(matches!(handle.wait(Call::Graph), Err(EngineError::Stopped)));
            let report = engine.stop();
            assert_eq!(report.failure, Some(death));
            assert!(report.restore_error.is_none(), "{:?}", report.restore_error);
        }
        let (engine, _) = bench
            .start_of("second", "[router]\nworkers = 2\n[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\n");
        let (tell, told) = bounded(1);
        engine.on_failure(move |death| tell.send(death.clone()).unwrap());
        engine.lines.to(1, Message::Count(Box::new(|_, _, _| panic!("out of luck"))));
        let death = told.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        assert_eq!((death.thread, bench.is_as_before()), ("packet", true), "of several workers one died");
        assert_eq!(engine.stop().failure, Some(death));
        let (engine, _) = bench.start("living");
        assert_eq!(engine.stop().failure, None);
        assert!(bench.is_as_before());
    }

    /// Rows of `perhop show ports`.
    fn port(handle: &Handle, name: &str) -> crate::report::Row {
        let page = handle.wait(|done| Call::Show(ShowQuery::new("ports", 10), done)).unwrap().unwrap();
        page.rows.into_iter().find(|r| r.name == name).unwrap()
    }

    /// Lets the facts thread look around several times.
    fn turns_of_the_facts_thread() {
        std::thread::sleep(std::time::Duration::from_millis(600));
    }

    #[test]
    fn a_socket_that_is_replaced_or_closed_by_command_is_not_opened_again() {
        let Some(bench) = Bench::new("a_socket_that_is_replaced_or_closed_by_command_is_not_opened_again")
        else {
            return;
        };
        let (engine, handle) = bench.start("replaced");
        let opened = || engine.facts.opened.load(Ordering::Acquire);
        turns_of_the_facts_thread();
        let before = opened();
        let config = perhop_io::AfPacketConfig::new("p0", "p0");
        let socket = bench.namespace.run(|| perhop_io::AfPacket::open(config)).unwrap().unwrap();
        engine.lines.to(0, Message::PortUp(PortId(0), 0, Box::new(socket.into())));
        turns_of_the_facts_thread();
        assert_eq!((opened(), port(&handle, "p0").facts["state"].as_str()), (before, "up"), "replaced");
        engine.lines.to(0, Message::PortDown(PortId(0)));
        turns_of_the_facts_thread();
        assert_eq!((opened(), port(&handle, "p0").facts["state"].as_str()), (before, "down"), "commanded");
        let events = handle.wait(|done| Call::Events(0, EventFilter::default(), 100, done)).unwrap().events;
        let told = |e: &&perhop_model::Event| format!("{:?}", e.kind).contains("Port");
        assert_eq!(events.iter().filter(told).count(), 0, "{events:?}");
        engine.stop();
    }

    #[test]
    fn a_port_without_carrier_at_the_start_is_down_until_it_has_one() {
        let Some(bench) = Bench::new("a_port_without_carrier_at_the_start_is_down_until_it_has_one") else {
            return;
        };
        let net = Netlink::open_in(&bench.namespace).unwrap();
        net.delete_link("p1").unwrap();
        net.create_veth("p1", "p1-peer", None).unwrap();
        net.set_up("p1").unwrap();
        let (engine, handle) = bench.start("carrier");
        let state = |wanted: &str| {
            let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while port(&handle, "p1").facts["state"] != wanted {
                assert!(std::time::Instant::now() < end, "never {wanted}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        state("down");
        net.set_up("p1-peer").unwrap();
        state("up");
        turns_of_the_facts_thread();
        assert_eq!(engine.facts.opened.load(Ordering::Acquire), 1);
        engine.stop();
    }

    #[test]
    fn a_control_thread_that_does_not_keep_up_misses_events_and_no_loss() {
        let Some(bench) = Bench::new("a_control_thread_that_does_not_keep_up_misses_events_and_no_loss")
        else {
            return;
        };
        let (engine, handle) = bench.start("busy");
        let (release, held) = bounded::<()>(0);
        let (busy, is_busy) = bounded(1);
        let keep_busy = move |_| {
            busy.send(()).unwrap();
            let _ = held.recv();
        };
        handle.call(Call::Events(0, EventFilter::default(), 1, Box::new(keep_busy)));
        is_busy.recv().unwrap();
        engine.lines.to(
            0,
            Message::Count(Box::new(|_, _, forwarder| {
                for _ in 0..10_000 {
                    let wanted = ToControl::NeighbourWanted(PortId(0), "192.0.2.1".parse().unwrap());
                    forwarder.outbox().offer(wanted);
                }
            })),
        );
        Netlink::open_in(&bench.namespace).unwrap().delete_link("p1").unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let (to, from) = bounded(1);
            engine.lines.to(0, Message::Count(Box::new(move |_, rows, _| to.send(rows).unwrap())));
            let rows: Vec<crate::report::Row> = from.recv().unwrap();
            let row =
                |kind: &str, name: &str| rows.iter().find(|r| r.kind == kind && r.name == name).unwrap();
            let dropped = row("driver", "driver").counter("notices_dropped");
            if row("port", "p1").facts["state"] == "down" && (2_500..10_000).contains(&dropped) {
                break;
            }
            assert!(std::time::Instant::now() < end, "{dropped} dropped");
        }
        drop(release);
        let down = perhop_model::EventKind::PortDown { port: "p1".into() };
        loop {
            let events =
                handle.wait(|done| Call::Events(0, EventFilter::default(), 100, done)).unwrap().events;
            if events.iter().filter(|e| e.kind == down).count() == 1 {
                break;
            }
            assert!(std::time::Instant::now() < end, "{events:?}");
        }
        engine.stop();
    }

    /// Takes one unit at a time, and notes the most classes of one.
    struct Stepwise {
        cursor: crate::survey::Cursor,
        slices: usize,
        most: usize,
        to: Sender<(usize, usize, Vec<u32>)>,
    }

    impl Stepwise {
        fn leaves(&self) -> impl Iterator<Item = u32> {
            self.cursor.raw.classes.iter().flatten().filter(|c| c.port == PortId(1)).map(|c| c.leaf)
        }
    }

    impl crate::survey::Survey<RouterForwarder> for Stepwise {
        fn slice(
            &mut self,
            forwarder: &mut RouterForwarder,
            _spent: &mut dyn FnMut() -> bool,
        ) -> crate::forwarder::Step {
            let before = self.leaves().count();
            let step = self.cursor.slice(clock::monotonic(), forwarder, &mut || true);
            self.slices += 1;
            self.most = self.most.max(self.leaves().count() - before);
            step
        }

        fn finish(
            self: Box<Self>,
            _at: perhop_units::Instant,
            _rows: Vec<crate::report::Row>,
            _forwarder: &mut RouterForwarder,
        ) {
            self.to.send((self.slices, self.most, self.leaves().collect())).unwrap();
        }
    }

    #[test]
    fn many_classes_are_counted_a_few_at_a_time_and_each_once() {
        let Some(bench) = Bench::new("many_classes_are_counted_a_few_at_a_time_and_each_once") else {
            return;
        };
        const CLASSES: usize = 300;
        let mut text = "[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\nrate = \"1 Gbit/s\"\n".to_owned();
        for i in 0..CLASSES {
            let default = if i == 0 { "default = true\n" } else { "" };
            text +=
                &format!("[[class]]\nname = \"c{i}\"\nport = \"p1\"\nguarantee = \"1 Mbit/s\"\n{default}");
        }
        let (engine, handle) = bench.start_of("many", &text);
        let scope = crate::survey::Scope { elements: true, classes: true, ..Default::default() };
        let (to, from) = bounded(1);
        let cursor = crate::survey::Cursor::new(scope, Default::default());
        engine.lines.to(0, Message::Survey(Box::new(Stepwise { cursor, slices: 0, most: 0, to })));
        let (slices, most, mut leaves) = from.recv().unwrap();
        assert!(most <= 16 && slices >= CLASSES / 16, "{most} at once, {slices} slices");
        let all = leaves.len();
        leaves.sort_unstable();
        leaves.dedup();
        assert!(leaves.len() == all && all >= CLASSES, "{} of {all} differ", leaves.len());
        let page = handle.wait(|done| Call::Show(ShowQuery::new("classes", 10_000), done)).unwrap().unwrap();
        let mut names: Vec<_> =
            page.rows.iter().filter(|r| r.owner == "file").map(|r| r.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), CLASSES);
        assert!(page.rows.iter().all(|r| r.kind == "class"));
        // Nothing on the way names all classes at once.
        let page = handle.wait(|done| Call::Counters(CountersQuery::default(), done)).unwrap();
        let elements = page.rows.iter().filter(|r| r.kind == "element");
        assert!(elements.map(|r| r.counters.len()).max().unwrap() < 100);
        engine.stop();
    }
}
