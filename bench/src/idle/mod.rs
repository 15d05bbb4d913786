//! `bench idle`: what a router without work takes of a processor, and what its sleep adds to the delay of a packet.
//!
//! A whole router (`perhop router run` without its socket) stands between a sender and a sink in the layout of `bench veth`. First
//! nothing is sent and the processor time of all its threads is taken; then single packets are sent, far apart, and the time
//! from before the sending call to the kernel's stamp at the sink. A second router, which polls and never sleeps, does the same
//! in turns with the first: what the first takes longer is what sleeping adds. The kernel's forwarding is third.
//!
//! The measuring thread looks for each packet without sleeping, on the processor that is not the router's.

mod probe;
mod threads;

use crate::error::BenchError;
use crate::machine;
use crate::report::{Metric, Peer, Point, Sink, Spread};
use crate::veth::{INSIDE, Io, Layout, OUTSIDE};
use perhop_engine::{Engine, EngineConfig};
use perhop_labrun::PrivateDirectory;
use perhop_routerfile::{RouterFile, Waiting};
use probe::Probe;
use std::path::Path;
use std::time::{Duration, Instant as Clock};
use threads::Threads;

/// Options of `bench idle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How packets enter and leave the router
    #[arg(long, value_enum, default_value_t = Io::AfPacket)]
    io: Io,
    /// Packets a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Packets of one run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    packets: u32,
    /// Milliseconds without a packet
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    idle_ms: u64,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 200)]
    packet: usize,
    /// Measured runs of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Processor of the sender
    #[arg(long, default_value_t = 0)]
    sender_cpu: usize,
    /// Processor of the router's packet thread
    #[arg(long, default_value_t = 1)]
    router_cpu: usize,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Time for a router to come to rest after its start.
const SETTLE: Duration = Duration::from_millis(300);

/// What the runs of one gave.
#[derive(Debug, Default)]
struct Runs {
    /// Processor time without packets and with them, per cent of one processor.
    waiting: Vec<f64>,
    working: Vec<f64>,
    /// Delay of packets, µs: of each run the median and the 99th percentile.
    median: Vec<f64>,
    late: Vec<f64>,
    lost: u64,
    /// How the router had its frames.
    way: String,
}

/// Who stands between sender and sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Router(Waiting),
    Kernel,
}

/// Measures.
///
/// # Errors
/// No rights over namespaces, or bad options.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    crate::veth::check_length(options.packet)?;
    crate::veth::check_processors(options.sender_cpu, options.router_cpu)?;
    let layout = Layout::new(None)?;
    // Whoever can write a state file can have interfaces changed.
    let state = PrivateDirectory::new().map_err(|e| BenchError::Environment {
        what: "a directory for state".to_owned(),
        why: e.to_string(),
    })?;
    let mut all = [Between::Router(Waiting::Adaptive), Between::Router(Waiting::Poll), Between::Kernel]
        .map(|b| (b, Runs::default()));
    for turn in 1..=options.runs {
        sink.progress(&format!("run {turn} of {}", options.runs));
        for (between, runs) in &mut all {
            one(options, &layout, state.path(), *between, runs)?;
        }
    }
    let [(_, sleeping), (_, polling), (_, kernel)] = &all;
    sink.point(&point(options, sleeping, polling, kernel))?;
    Ok(())
}

/// One run.
fn one(
    options: &Options,
    layout: &Layout,
    state: &Path,
    between: Between,
    runs: &mut Runs,
) -> Result<(), BenchError> {
    let before = Threads::of_this_process();
    let engine = match between {
        Between::Router(waiting) => Some(start(options, layout, state, waiting)?),
        Between::Kernel => {
            layout.forward_by_kernel(true)?;
            None
        }
    };
    let router = Threads::of_this_process().without(&before);
    let measured = measure(options, layout, &router, runs);
    if let Some(engine) = engine {
        let way = engine.stop().report.find("port", "lan").and_then(|row| row.facts.get("io").cloned());
        runs.way = way.unwrap_or_default();
    } else {
        layout.forward_by_kernel(false)?;
    }
    measured
}

/// The router, at rest.
fn start(options: &Options, layout: &Layout, state: &Path, waiting: Waiting) -> Result<Engine, BenchError> {
    let text = format!(
        "[[port]]\nname = \"lan\"\ndevice = \"{INSIDE}\"\n[[port]]\nname = \"wan\"\ndevice = \"{OUTSIDE}\"\n"
    );
    let (file, diagnostics) = RouterFile::read("idle.toml", &text);
    let file = file.ok_or_else(|| BenchError::Router(diagnostics.to_string()))?;
    let config = EngineConfig {
        pool_size: 8_192,
        cpu: Some(options.router_cpu),
        io: options.io.of_port(),
        waiting,
        ..EngineConfig::of_file("bench-idle", Some(layout.router.clone()), &file, state)
    };
    Engine::start(config).map(|(engine, _)| engine).map_err(|e| BenchError::Router(e.to_string()))
}

fn measure(options: &Options, layout: &Layout, router: &Threads, runs: &mut Runs) -> Result<(), BenchError> {
    let mut probe = Probe::open(layout, options.packet)?;
    std::thread::sleep(SETTLE);
    let share = |busy_ns: u64, took: Duration| busy_ns as f64 * 100.0 / took.as_nanos() as f64;
    let (busy, start) = (router.busy_ns(), Clock::now());
    std::thread::sleep(Duration::from_millis(options.idle_ms));
    runs.waiting.push(share(router.busy_ns() - busy, start.elapsed()));
    let (busy, start) = (router.busy_ns(), Clock::now());
    let every = Duration::from_secs(1) / options.rate;
    let (mut delays, lost) = std::thread::scope(|scope| {
        let cpu = options.sender_cpu;
        let work = move || {
            machine::pin(cpu).map_err(|source| BenchError::Processor { cpu, source })?;
            probe.delays(options.packets, every)
        };
        scope.spawn(work).join().map_err(|_| BenchError::Wrong("the measuring thread panicked".to_owned()))?
    })?;
    runs.working.push(share(router.busy_ns() - busy, start.elapsed()));
    if delays.is_empty() {
        return Err(BenchError::Wrong("nothing arrived at the sink".to_owned()));
    }
    delays.sort_unstable();
    let rank = |per_mille: usize| delays[(delays.len() - 1) * per_mille / 1000] as f64 / 1e3;
    runs.median.push(rank(500));
    runs.late.push(rank(990));
    runs.lost += lost;
    Ok(())
}

fn point(options: &Options, sleeping: &Runs, polling: &Runs, kernel: &Runs) -> Point {
    let mut point = Point { bench: "idle", ..Point::default() };
    point.params.extend([
        ("io", options.io.name().into()),
        ("mode", sleeping.way.clone().into()),
        ("rate", options.rate.into()),
        ("packets", options.packets.into()),
        ("packet", options.packet.into()),
        ("idle_ms", options.idle_ms.into()),
        ("sender_cpu", options.sender_cpu.into()),
        ("router_cpu", options.router_cpu.into()),
    ]);
    point.set_ns(&sleeping.median.iter().map(|us| us * 1e3).collect::<Vec<_>>());
    point.metrics.extend(metrics(sleeping));
    let added: Vec<f64> = sleeping.median.iter().zip(&polling.median).map(|(s, p)| s - p).collect();
    point.metrics.insert("added_by_sleep", Metric::new(Spread::of(&added), "us"));
    let version = machine::kernel_release();
    for (name, runs) in [("perhop, polling", polling), ("linux forwarding", kernel)] {
        let mut metrics: std::collections::BTreeMap<_, _> = metrics(runs).collect();
        if runs.way.is_empty() {
            // Its time is not that of threads.
            metrics.retain(|name, _| !name.starts_with("processor"));
        }
        point.peers.push(Peer { name: name.to_owned(), version: version.clone(), metrics });
        if runs.lost > 0 {
            point.warnings.push(format!("{name}: {} packets did not arrive", runs.lost));
        }
    }
    if sleeping.lost > 0 {
        point.warnings.push(format!("{} packets did not arrive", sleeping.lost));
    }
    point.warn_of_spread();
    point
}

fn metrics(runs: &Runs) -> impl Iterator<Item = (&'static str, Metric)> {
    [
        ("processor_waiting", Metric::new(Spread::of(&runs.waiting), "%")),
        ("processor_at_rate", Metric::new(Spread::of(&runs.working), "%")),
        ("delay_p50", Metric::new(Spread::of(&runs.median), "us")),
        ("delay_p99", Metric::new(Spread::of(&runs.late), "us")),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sleep_adds_is_the_difference_of_medians_of_one_turn() {
        let runs = |median: &[f64]| Runs {
            waiting: vec![0.1; 3],
            working: vec![1.0; 3],
            median: median.to_vec(),
            late: median.to_vec(),
            way: "af_packet".to_owned(),
            ..Runs::default()
        };
        let options = Options {
            io: Io::AfPacket,
            rate: 100,
            packets: 10,
            idle_ms: 100,
            packet: 200,
            runs: 3,
            sender_cpu: 0,
            router_cpu: 0,
            json: true,
        };
        let kernel = Runs { way: String::new(), ..runs(&[9.0; 3]) };
        let point = point(&options, &runs(&[40.0, 90.0, 45.0]), &runs(&[10.0, 60.0, 15.0]), &kernel);
        assert_eq!(point.metrics["added_by_sleep"].value, Spread::exactly(30.0));
        assert_eq!(point.ns_per_op.median, 45_000.0);
        assert!(point.peers[0].metrics.contains_key("processor_waiting"));
        assert!(!point.peers[1].metrics.contains_key("processor_waiting"), "none is known of the kernel");
    }
}
