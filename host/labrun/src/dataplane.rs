//! The router under test and the emulated link behind it.

use crate::error::LabError;
use crate::options::DemoOptions;
use crate::private::PrivateDirectory;
use crate::shaping::shaped;
use crate::topology::{CALLEE, LINK_DEVICES, ROUTER_DEVICES, Topology};
use perhop_engine::{
    Emulator, EmulatorConfig, EmulatorReport, Engine, EngineConfig, EngineError, Handle, Recording, Report,
    StopReport,
};
use perhop_model::{Call, EventKind, Object, Spec};
use perhop_routerfile::RouterFile;
use perhop_units::{Duration, Instant, QueueLimit, Rate};
use std::collections::BTreeMap;
use std::path::Path;

/// The router file of the Perhop run, as users find it.
pub(crate) const EDGE: &str = include_str!("../../../examples/edge.toml");
/// A queue counted in packets is this long in bytes at most: full-size Ethernet frames.
const FULL_FRAME: u64 = 1514;
/// The router's port towards the link.
const WAN: &str = ROUTER_DEVICES[1];
/// Queues are sampled at this interval.
const SAMPLING: Duration = Duration::from_millis(10);
/// Events fetched at once.
const EVENTS: usize = 256;

/// Which router stands before the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterKind {
    /// One first-in first-out queue.
    Fifo,
    /// `examples/edge.toml`.
    Perhop,
}

impl RouterKind {
    /// Name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::Perhop => "Perhop",
        }
    }

    /// Name in paths.
    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Perhop => "perhop",
        }
    }
}

/// Full-size frames that fit into all queues of the edge's file together at this rate: the buffers of the plain FIFO.
pub(crate) fn edge_queue_frames(rate: Rate) -> u64 {
    let (file, _) = RouterFile::read("edge.toml", EDGE);
    let bytes: u64 = file
        .iter()
        .flat_map(RouterFile::classes)
        .map(|(_, class)| match class.queue.limit {
            QueueLimit::Packets(n) => u64::from(n) * FULL_FRAME,
            // A class's queue in time is filled at its guarantee.
            limit => limit.in_bytes(class.guarantee.of(rate)).map_or(0, |b| b.get()),
        })
        .sum();
    bytes.div_ceil(FULL_FRAME)
}

/// The file of a router with nothing but a queue of so many buffers before a link of `rate`. It counts packets, as the
/// kernel's own default does: a queue that counts bytes has room for a call's small packets where the flood's large
/// ones are refused, and so shields the calls a little from what a plain queue does to them.
pub(crate) fn fifo_file(rate: Rate, frames: u64) -> String {
    let rate = rate.bits_per_sec();
    format!(
        "[router]\nname = \"fifo\"\n\n[[port]]\nname = \"lan\"\n\n[[port]]\nname = \"wan\"\nrate = \"{rate} bit/s\"\n\
         queue = \"{frames} packets\"\n"
    )
}

/// What router and link counted.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Packets dropped on the way to the callee, by reason.
    pub(crate) drops: BTreeMap<String, u64>,
    /// Bytes waiting in the router, by queue, over time.
    pub(crate) queues: Option<Recording>,
    /// When the router recognised the flow to each UDP port of the callee.
    pub(crate) detected: BTreeMap<u16, Instant>,
    /// Packets that rings and pools of this machine lost.
    pub(crate) lost_inside: u64,
    /// How late the router's and the link's timers were served, p99, worst of both.
    pub(crate) timer_p99: Duration,
}

/// Router and link, running. Dropping it takes both down.
pub(crate) struct DataPlane {
    router: Engine,
    handle: Handle,
    emulator: Emulator,
    /// Goes last: the router writes into it to its end.
    _state_directory: PrivateDirectory,
}

impl DataPlane {
    /// Starts the link, then the router.
    pub(crate) fn start(
        kind: RouterKind,
        topology: &Topology,
        options: &DemoOptions,
        captures: Option<&Path>,
    ) -> Result<Self, LabError> {
        let emulator =
            Emulator::start(link(topology, options, captures)).map_err(failed("start the link"))?;
        let name = format!("demo-{}", std::process::id());
        let state_directory = PrivateDirectory::new()?;
        let namespace = Some(topology.router.clone());
        // The namespaces vanish with this process, so there is never anything to put back after a crash.
        let mut config = EngineConfig::new(&name, namespace, objects(kind, options)?, state_directory.path());
        config.seed = options.seed;
        config.record = Some(SAMPLING);
        let (router, handle) = Engine::start(config).map_err(failed("start the router"))?;
        Ok(Self { router, handle, emulator, _state_directory: state_directory })
    }

    /// Stops both: what they counted.
    ///
    /// # Errors
    /// [`LabError::Died`] when one of them did not live until now.
    pub(crate) fn stop(self) -> Result<Observed, LabError> {
        let mut observed = Observed { detected: detected(&self.handle), ..Observed::default() };
        let router = self.router.stop();
        let link = self.emulator.stop();
        both_lived(&router, &link)?;
        for report in [&router.report, &link.report] {
            count(report, &mut observed);
        }
        observed.queues = router.recording;
        Ok(observed)
    }
}

/// What is measured of a router or a link that forwarded nothing for a while says nothing of either.
fn both_lived(router: &StopReport, link: &EmulatorReport) -> Result<(), LabError> {
    match router.failure.as_ref().or(link.failure.as_ref()) {
        Some(death) => Err(LabError::Died(death.clone())),
        None => Ok(()),
    }
}

/// Both directions of the link: rate and delay, and a queue that stays short, as the router sends no faster than it.
fn link(topology: &Topology, options: &DemoOptions, captures: Option<&Path>) -> EmulatorConfig {
    let [near, far] = LINK_DEVICES;
    let way = |from: &str, name: &str, to: &str| {
        let (rate, delay) = (options.rate.bits_per_sec(), options.delay.as_nanos());
        format!(
            "FromPort({from}) -> {name} :: Link({rate} bit/s, {delay} ns, limit = 1000 packets) -> ToPort({to});\n"
        )
    };
    let graph = way(near, "up", far) + &way(far, "down", near);
    let mut config = EmulatorConfig::new("uplink", Some(topology.link.clone()), &graph);
    config = config.port(near, near).port(far, far);
    config.pcap_dir = captures.map(Path::to_owned);
    config.seed = options.seed;
    config
}

/// The objects of the router's file, with the rate of this demonstration's link.
fn objects(kind: RouterKind, options: &DemoOptions) -> Result<Vec<Object>, LabError> {
    let text = match kind {
        RouterKind::Perhop => EDGE.to_owned(),
        RouterKind::Fifo => fifo_file(options.rate, edge_queue_frames(options.rate)),
    };
    let (file, diagnostics) = RouterFile::read("edge.toml", &text);
    let Some(file) = file else {
        return Err(LabError::Engine { doing: "read the router file", reason: diagnostics.to_string() });
    };
    let mut objects = file.objects;
    for object in &mut objects {
        if let Spec::Port(port) = &mut object.spec
            && object.name.as_str() == WAN
        {
            port.rate = shaped(options.rate);
        }
    }
    Ok(objects)
}

fn failed(doing: &'static str) -> impl FnOnce(EngineError) -> LabError {
    move |error| LabError::Engine { doing, reason: error.to_string() }
}

/// When the router recognised each flow, from its events.
fn detected(handle: &Handle) -> BTreeMap<u16, Instant> {
    let mut found = BTreeMap::new();
    let mut after = 0;
    while let Ok(events) = handle.wait(|done| Call::Events(after, EVENTS, done)) {
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in events {
            if let EventKind::FlowDetected { flow, .. } = &event.kind
                && let Some(port) = callee_port(flow)
            {
                found.entry(port).or_insert(Instant(event.at_ns));
            }
        }
    }
    found
}

/// The port behind `udp 10.61.0.2:20000>10.62.0.2:30000`, if that is a call to the callee.
fn callee_port(flow: &str) -> Option<u16> {
    let (_, to) = flow.strip_prefix("udp ")?.split_once('>')?;
    let (address, port) = to.rsplit_once(':')?;
    (address == CALLEE.to_string()).then(|| port.parse().ok())?
}

/// Adds a report's drops, losses inside this machine and timer error.
fn count(report: &Report, observed: &mut Observed) {
    for row in &report.rows {
        match row.kind.as_str() {
            "port" => {
                let lost = ["rx_ring_lost", "rx_no_buffer", "tx_overflow", "tx_failed"];
                observed.lost_inside += lost.iter().map(|name| row.counter(name)).sum::<u64>();
            }
            "driver" => {
                observed.timer_p99 = observed.timer_p99.max(Duration(row.counter("timer_late_p99_ns")));
            }
            "element" => {
                for (name, value) in &row.counters {
                    let reason = name.strip_prefix("dropped_").filter(|r| !matches!(*r, "packets" | "bytes"));
                    if let (Some(reason), 1..) = (reason, *value) {
                        *observed.drops.entry(reason.to_owned()).or_default() += value;
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 ms and 100 ms of the 5 Mbit/s that each class is guaranteed.
    #[test]
    fn the_plain_queue_is_as_long_as_those_of_the_edge_together() {
        assert_eq!(edge_queue_frames(Rate::from_mbit(10)), 50);
        let options = DemoOptions::default();
        for kind in [RouterKind::Fifo, RouterKind::Perhop] {
            let objects = objects(kind, &options).expect("both files are right");
            let port = objects.iter().find(|o| o.name.as_str() == WAN).expect("a wan port");
            let Spec::Port(port) = &port.spec else { panic!("{port:?}") };
            assert_eq!(port.rate, Rate(9_900_000), "{kind:?}");
        }
    }

    #[test]
    fn whoever_died_is_named_instead_of_a_verdict() {
        let death = |name: &str| perhop_engine::ThreadDeath {
            name: name.to_owned(),
            thread: "packet",
            why: "panic: out of luck".to_owned(),
        };
        let router = |failure| StopReport { failure, ..StopReport::default() };
        let link = |failure| EmulatorReport { failure, ..EmulatorReport::default() };
        assert!(both_lived(&router(None), &link(None)).is_ok());
        for (router, link, name) in [
            (router(Some(death("demo"))), link(None), "demo"),
            (router(None), link(Some(death("uplink"))), "uplink"),
            (router(Some(death("demo"))), link(Some(death("uplink"))), "demo"),
        ] {
            let error = both_lived(&router, &link).expect_err("one died");
            assert_eq!(error.exit_code(), 3);
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains("out of luck") && text.contains("no verdict"),
                "{text}"
            );
        }
    }

    #[test]
    fn calls_are_told_by_their_port_at_the_callee() {
        assert_eq!(callee_port("udp 10.61.0.2:20004>10.62.0.2:30004"), Some(30_004));
        assert_eq!(callee_port("udp 10.62.0.2:30004>10.61.0.2:20004"), None);
        assert_eq!(callee_port("tcp 10.61.0.2:1>10.62.0.2:2"), None);
        assert_eq!(callee_port(""), None);
    }
}
