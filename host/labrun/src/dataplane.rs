//! The router under test and the emulated link behind it.

use crate::error::LabError;
use crate::topology::{LINK_DEVICES, Topology};
use perhop_engine::{Emulator, EmulatorConfig, EngineError, Recording, Report};
use perhop_graph::routerfile::RouterFile;
use perhop_model::{ClassSpec, Kind};
use perhop_units::{Duration, Instant, Rate};
use std::collections::BTreeMap;
use std::path::Path;

/// The router file of the Perhop run, as users find it.
pub(crate) const EDGE: &str = include_str!("../../../examples/edge.toml");
/// A queue counted in packets is this long in bytes at most: full-size Ethernet frames.
const FULL_FRAME: u64 = 1514;

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

/// Bytes that all queues of the edge's file hold together at this rate: what the plain FIFO gets.
pub(crate) fn edge_queue_bytes(rate: Rate) -> u64 {
    let (file, _) = RouterFile::read("edge.toml", EDGE);
    let objects = file.map(|f| f.objects).unwrap_or_default();
    objects
        .iter()
        .filter(|object| object.kind == Kind::Class)
        .filter_map(|object| serde_json::from_value::<ClassSpec>(object.spec.clone()).ok())
        .map(|class| match class.queue.limit {
            perhop_units::QueueLimit::Packets(n) => u64::from(n) * FULL_FRAME,
            limit => limit.in_bytes(rate).map_or(0, |b| b.get()),
        })
        .sum()
}

/// The file of a router with nothing but a queue of `bytes` before a link of `rate`.
pub(crate) fn fifo_file(rate: Rate, bytes: u64) -> String {
    let rate = rate.bits_per_sec();
    format!(
        "[router]\nname = \"fifo\"\n\n[[port]]\nname = \"lan\"\n\n[[port]]\nname = \"wan\"\nrate = \"{rate} bit/s\"\n\
         queue = \"{bytes} B\"\n"
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

/// Router and link, running.
pub(crate) struct DataPlane {
    emulator: Emulator,
}

impl DataPlane {
    pub(crate) fn start(
        kind: RouterKind,
        topology: &Topology,
        options: &crate::options::DemoOptions,
        captures: Option<&Path>,
    ) -> Result<Self, LabError> {
        let limit = edge_queue_bytes(options.rate);
        for d in crate::topology::ROUTER_DEVICES {
            perhop_netlink::ForwardingState::set(&topology.router, d, true)
                .map_err(crate::error::network("forward"))?;
        }
        let _ = kind;
        let [near, far] = LINK_DEVICES;
        let (rate, delay) = (options.rate.bits_per_sec(), options.delay.as_nanos());
        let graph = format!(
            "FromPort({near}) -> up :: Link({rate} bit/s, {delay} ns, limit = {limit} B) -> ToPort({far});\n\
             FromPort({far}) -> down :: Link({rate} bit/s, {delay} ns, limit = {limit} B) -> ToPort({near});\n"
        );
        let mut config = EmulatorConfig::new("uplink", Some(topology.link.clone()), &graph)
            .port(near, near)
            .port(far, far);
        config.pcap_dir = captures.map(Path::to_owned);
        config.fifo = true;
        let emulator = Emulator::start(config).map_err(|e| engine("start the emulated link", &e))?;
        Ok(Self { emulator })
    }

    pub(crate) fn stop(self) -> Observed {
        let report = self.emulator.stop();
        let mut observed = Observed::default();
        eprintln!("{:#?}", report.report);
        count_losses(&report.report, &mut observed);
        observed
    }
}

fn engine(doing: &'static str, error: &EngineError) -> LabError {
    LabError::Engine { doing, reason: error.to_string() }
}

/// Adds what rings and pools lost, and how late timers were.
fn count_losses(report: &Report, observed: &mut Observed) {
    for row in &report.rows {
        match row.kind.as_str() {
            "port" => {
                let lost = ["rx_ring_lost", "rx_no_buffer", "tx_overflow", "tx_failed"];
                observed.lost_inside += lost.iter().map(|name| row.counter(name)).sum::<u64>();
            }
            "driver" => {
                observed.timer_p99 = observed.timer_p99.max(Duration(row.counter("timer_late_p99_ns")));
            }
            _ => {}
        }
    }
}
