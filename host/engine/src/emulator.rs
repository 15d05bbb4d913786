//! An emulated link (or any packet graph) between interfaces: Perhop as its own dummynet.

use crate::capture::Capture;
use crate::death::{Sentinel, Stopping, ThreadDeath};
use crate::error::EngineError;
use crate::graph_forwarder::GraphForwarder;
use crate::inlet::Inlet;
use crate::machine::Scheduling;
use crate::machine::Steal;
use crate::packet_thread::{Ended, Line, Message, PacketThread};
use crate::port::LivePort;
use crate::prepare;
use crate::report::{Recording, Report, Row};
use crate::wait::{MAX_PORTS, Wake};
use crossbeam_channel::bounded;
use perhop_io::{AfPacket, AfPacketConfig, DevicePort};
use perhop_netlink::Namespace;
use perhop_packet::{Pool, PortId};
use perhop_units::Duration;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// One end of the emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatorPort {
    /// Name in the graph: `FromPort(NAME)`, `ToPort(NAME)`.
    pub name: String,
    /// Interface in the emulator's namespace. It carries frames only: give it no address.
    pub device: String,
}

/// What to emulate, and where.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// For thread names and messages.
    pub name: String,
    /// Where the interfaces are; `None` = the caller's namespace.
    pub namespace: Option<Namespace>,
    /// The interfaces.
    pub ports: Vec<EmulatorPort>,
    /// The graph, for example
    /// `FromPort(a) -> up :: Link(10 Mbit/s, 20 ms, limit = 100 packets) -> ToPort(b);
    /// FromPort(b) -> down :: Link(10 Mbit/s, 20 ms, limit = 100 packets) -> ToPort(a);`
    pub graph: String,
    /// Packet buffers: at least what the links and queues hold together.
    pub pool_size: usize,
    /// Seed of random loss and jitter.
    pub seed: u64,
    /// CPU to stay on.
    pub cpu: Option<usize>,
    /// Try for real-time priority.
    pub fifo: bool,
    /// Capture what each port receives and sends to files here.
    pub pcap_dir: Option<PathBuf>,
    /// Sample queues at this interval from the start.
    pub record: Option<Duration>,
}

impl EmulatorConfig {
    /// A graph between interfaces of a namespace, 16,384 buffers, seed 1, nothing recorded.
    pub fn new(name: &str, namespace: Option<Namespace>, graph: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace,
            ports: Vec::new(),
            graph: graph.to_owned(),
            pool_size: 16_384,
            seed: 1,
            cpu: None,
            fifo: false,
            pcap_dir: None,
            record: None,
        }
    }

    /// Adds a port.
    #[must_use]
    pub fn port(mut self, name: &str, device: &str) -> Self {
        self.ports.push(EmulatorPort { name: name.to_owned(), device: device.to_owned() });
        self
    }
}

/// What an emulator has to say at its end.
#[derive(Clone, Debug, Default)]
pub struct EmulatorReport {
    /// Counters.
    pub report: Report,
    /// Queues over time, if recorded.
    pub recording: Option<Recording>,
    /// The death of its thread, if that was its end; there are no counters then.
    pub failure: Option<ThreadDeath>,
}

/// A running emulator. Stops when dropped.
pub struct Emulator {
    line: Line<GraphForwarder>,
    thread: Option<JoinHandle<Option<Ended<GraphForwarder>>>>,
    stopping: Stopping,
    death: Arc<OnceLock<ThreadDeath>>,
    capture: Option<Capture>,
    names: Vec<String>,
    steal: Steal,
}

impl Emulator {
    /// Opens the interfaces and starts forwarding.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn start(config: EmulatorConfig) -> Result<Self, EngineError> {
        if config.ports.is_empty() || config.ports.len() > MAX_PORTS {
            return Err(EngineError::PortCount { given: config.ports.len(), most: MAX_PORTS });
        }
        let names: Vec<String> = config.ports.iter().map(|p| p.name.clone()).collect();
        let pool = Pool::new(config.pool_size);
        let forwarder =
            GraphForwarder::new(&config.graph, &names, pool, config.seed).map_err(EngineError::Graph)?;
        let namespace = config.namespace.map_or_else(Namespace::current, Ok)?;
        let sockets = config
            .ports
            .iter()
            .map(|p| {
                prepare::transparent(&namespace, &p.name, &p.device)?;
                open(&namespace, &p.name, &p.device)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (capture, taps) = match &config.pcap_dir {
            Some(directory) => {
                let (capture, taps) = Capture::start(directory, &names)?;
                (Some(capture), taps.into_iter().map(Some).collect())
            }
            None => (None, names.iter().map(|_| None).collect::<Vec<_>>()),
        };
        let ports = names
            .iter()
            .zip(sockets)
            .zip(taps)
            .enumerate()
            .map(|(i, ((name, socket), tap))| LivePort::new(PortId(i as u16), name.clone(), socket, tap))
            .collect();
        let wake = Arc::new(Wake::new().map_err(EngineError::Thread)?);
        let (sender, receiver) = Inlet::new(256);
        let line = Line { messages: sender, wake: wake.clone() };
        let scheduling = Scheduling { cpu: config.cpu, fifo: config.fifo, ..Scheduling::default() };
        let loop_ = PacketThread::new(forwarder, ports, receiver, wake);
        let (stopping, death) = (Stopping::default(), Arc::new(OnceLock::new()));
        let cell = Arc::clone(&death);
        let watch = Sentinel::new(&config.name, "packet", &stopping, move |died| {
            tracing::error!("{died}");
            let _ = cell.set(died);
        });
        let work = move || watch.guard(|| loop_.run(scheduling));
        let thread = namespace.spawn(&format!("link-{}", config.name), work)?;
        if let Some(interval) = config.record {
            line.send(Message::Record(interval));
        }
        Ok(Self { line, thread: Some(thread), stopping, death, capture, names, steal: Steal::now() })
    }

    /// Replaces the graph while packets pass. Elements of the same name and type keep what they hold, so a link may
    /// change its rate with its queue full.
    ///
    /// # Errors
    /// [`EngineError::Graph`]; the old graph goes on. [`EngineError::ThreadDied`].
    pub fn set_graph(&self, text: &str) -> Result<(), EngineError> {
        let built = GraphForwarder::build(text, &self.names).map_err(EngineError::Graph)?;
        if self.line.send(Message::Job(Some(built))) { Ok(()) } else { Err(self.gone()) }
    }

    /// The death of its thread: nothing is forwarded since.
    pub fn failure(&self) -> Option<ThreadDeath> {
        self.death.get().cloned()
    }

    /// Why the thread does not answer. It is ending: its report follows when everything it owned is closed.
    fn gone(&self) -> EngineError {
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.failure().map_or(EngineError::Stopped, EngineError::ThreadDied)
    }

    /// Counters now.
    ///
    /// # Errors
    /// [`EngineError::ThreadDied`].
    pub fn report(&self) -> Result<Report, EngineError> {
        let (to, from) = bounded(1);
        self.line.send(Message::Count(Box::new(move |_, mut rows, forwarder: &mut GraphForwarder| {
            rows.extend(forwarder.rows());
            let _ = to.send(rows);
        })));
        let mut rows: Vec<Row> = from.recv().map_err(|_| self.gone())?;
        self.steal.add_to(&mut rows);
        Ok(Report { rows })
    }

    /// Stops and gives the final counters. What is on the way is lost.
    pub fn stop(mut self) -> EmulatorReport {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<EmulatorReport> {
        let thread = self.thread.take()?;
        self.stopping.store(true, Ordering::Release);
        self.line.send(Message::Stop);
        let ended = thread.join().ok().flatten();
        if let Some(capture) = self.capture.take() {
            capture.finish();
        }
        let mut report = EmulatorReport { failure: self.failure(), ..EmulatorReport::default() };
        if let Some(ended) = ended {
            report.report.rows = ended.rows;
            self.steal.add_to(&mut report.report.rows);
            report.report.rows.extend(ended.forwarder.rows());
            report.recording = ended.recording;
        }
        Some(report)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

fn open(namespace: &Namespace, port: &str, device: &str) -> Result<DevicePort, EngineError> {
    let config = AfPacketConfig { promiscuous: true, ..AfPacketConfig::new(port, device) };
    let socket = namespace.run(|| AfPacket::open(config))?;
    socket.map(DevicePort::from).map_err(|e| EngineError::of_port(port, device, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_netlink::{Netlink, is_privileged_for_net};

    #[test]
    fn a_dead_emulator_says_so() {
        if !is_privileged_for_net() {
            let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
            eprintln!("SKIPPED a_dead_emulator_says_so: {why}");
            let required = std::env::var("PERHOP_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|i| i == "netns"), "required but cannot run: {why}");
            return;
        }
        let namespace = Namespace::create().unwrap();
        let net = Netlink::open_in(&namespace).unwrap();
        net.create_veth("a", "b", None).unwrap();
        net.set_up("a").unwrap();
        net.set_up("b").unwrap();
        let graph = "FromPort(a) -> ToPort(b); FromPort(b) -> ToPort(a);";
        let config = EmulatorConfig::new("wire", Some(namespace), graph).port("a", "a").port("b", "b");
        let emulator = Emulator::start(config).unwrap();
        assert!(emulator.report().is_ok() && emulator.failure().is_none());
        emulator.line.send(Message::Count(Box::new(|_, _, _| panic!("out of luck"))));
        let Err(EngineError::ThreadDied(death)) = emulator.report() else { panic!("it lives") };
        assert_eq!(
            (death.name.as_str(), death.thread, &*death.why),
            ("wire", "packet", "panic: out of luck")
        );
        assert!(matches!(emulator.set_graph(graph), Err(EngineError::ThreadDied(_))));
        assert_eq!(emulator.stop().failure, Some(death));
    }
}
