//! `bench sim`: the simulator, beside ns-3 where that is installed.
//!
//! Every run is a process of its own on one processor, Perhop's and ns-3's in turn. Perhop's time includes building the
//! world and collecting what it recorded; ns-3's is that of its event loop alone, and its total stands beside it. An
//! operation is an event: something due is looked at, and all that it causes at that instant is done; the two
//! simulators cut their work into events differently, so only times and goodput compare.

mod dumbbell;
mod once;
mod peer;

use crate::error::BenchError;
use crate::machine::{self, SPREAD};
use crate::report::{Metric, Peer, Point, Sink, Spread};
use dumbbell::Dumbbell;
use once::{Once, Order};
use peer::{Ns3, PeerRun};
use perhop_units::{Duration, QueueLimit, Rate};

/// Options of `bench sim`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// TCP flows of a dumbbell of one's own, 1 to 20000; without any of these five: the standard sweep
    #[arg(long)]
    flows: Option<u16>,
    /// Rate of its bottleneck (default: 100 Mbit/s)
    #[arg(long)]
    rate: Option<Rate>,
    /// One-way delay (default: 20 ms)
    #[arg(long)]
    delay: Option<Duration>,
    /// Packets that wait for the bottleneck (default: 500)
    #[arg(long)]
    queue: Option<u32>,
    /// Simulated seconds (default: 60)
    #[arg(long)]
    seconds: Option<u32>,
    /// Measured runs; the longest of the sweep is run once
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Leave ns-3 out
    #[arg(long)]
    alone: bool,
    /// Processor to run on; the last without it
    #[arg(long)]
    cpu: Option<usize>,
    /// One run and its figures, for this program itself
    #[arg(long, hide = true)]
    order: Option<String>,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

/// One dumbbell of the sweep.
#[derive(Clone, Copy, Debug)]
struct Case {
    dumbbell: Dumbbell,
    /// ns-3 runs it too.
    compared: bool,
    runs: usize,
}

/// A slow satellite link, its queue about half a round trip.
const SATELLITE: Dumbbell =
    Dumbbell { flows: 64, rate: 1_536_000, delay: 450_000_000, queue: 64, sim_s: 240 };
/// A fast access link.
const ACCESS: Dumbbell = Dumbbell { flows: 32, rate: 100_000_000, delay: 20_000_000, queue: 500, sim_s: 60 };
/// Many users behind one link.
const MANY: Dumbbell =
    Dumbbell { flows: 10_000, rate: 1_000_000_000, delay: 50_000_000, queue: 10_000, sim_s: 60 };

/// Most flows: both ends of each have ports and a place in tables.
const MOST_FLOWS: u16 = 20_000;

/// Measures every sweep point.
///
/// # Errors
/// Bad options, or a run that fails. Without ns-3 there is only a warning.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if let Some(order) = &options.order {
        let line =
            serde_json::to_string(&once::here(order)?).map_err(|e| BenchError::Wrong(e.to_string()))?;
        println!("{line}");
        return Ok(());
    }
    let cases = cases(options)?;
    machine::pin_to(options.cpu)?;
    let peer = if options.alone { None } else { Some(Ns3::compile()) };
    for case in cases {
        for point in measure(&case, peer.as_ref(), sink)? {
            sink.point(&point)?;
        }
    }
    Ok(())
}

/// What to measure.
fn cases(options: &Options) -> Result<Vec<Case>, BenchError> {
    let fail = |text: &str| Err(BenchError::Options(text.to_owned()));
    if options.runs == 0 {
        return fail("--runs must be at least 1");
    }
    let (runs, compared) = (options.runs, !options.alone);
    let own = options.flows.is_some()
        || options.rate.is_some()
        || options.delay.is_some()
        || options.queue.is_some()
        || options.seconds.is_some();
    if !own {
        let alone = |flows| Case { dumbbell: Dumbbell { flows, ..ACCESS }, compared: false, runs };
        let with = |dumbbell| Case { dumbbell, compared, runs };
        let many = Case { dumbbell: MANY, compared: false, runs: 1 };
        return Ok(vec![with(SATELLITE), with(ACCESS), alone(1), alone(64), alone(1000), many]);
    }
    let dumbbell = Dumbbell {
        flows: options.flows.unwrap_or(ACCESS.flows),
        rate: options.rate.map_or(ACCESS.rate, |rate| rate.0),
        delay: options.delay.map_or(ACCESS.delay, Duration::as_nanos),
        queue: options.queue.unwrap_or(ACCESS.queue),
        sim_s: options.seconds.unwrap_or(ACCESS.sim_s),
    };
    if !(1..=MOST_FLOWS).contains(&dumbbell.flows) {
        return fail("--flows must be in 1 … 20000");
    }
    if !(10_000..=100_000_000_000).contains(&dumbbell.rate) {
        return fail("--rate must be in 10 kbit/s … 100 Gbit/s");
    }
    if dumbbell.delay > 10_000_000_000 || !(1..=1_000_000).contains(&dumbbell.queue) {
        return fail("--delay must be at most 10 s and --queue in 1 … 1000000");
    }
    if !(1..=3600).contains(&dumbbell.sim_s) {
        return fail("--seconds must be in 1 … 3600");
    }
    Ok(vec![Case { dumbbell, compared, runs }])
}

/// The points of one dumbbell, without and with conservation checks; all take turns, so that a disturbance meets all.
fn measure(
    case: &Case,
    peer: Option<&Result<Ns3, peer::PeerError>>,
    sink: &Sink,
) -> Result<[Point; 2], BenchError> {
    let dumbbell = case.dumbbell;
    let mut ours: [Vec<Once>; 2] = Default::default();
    let (mut theirs, mut missing, mut version) = (Vec::new(), None, None);
    for turn in 1..=case.runs {
        sink.progress(&format!("{} flows, run {turn} of {}", dumbbell.flows, case.runs));
        for (conservation, runs) in [false, true].into_iter().zip(&mut ours) {
            runs.push(once::elsewhere(&Order { dumbbell, conservation })?);
        }
        let Some(peer) = peer.filter(|_| case.compared) else { continue };
        let run = peer.as_ref().map_err(ToString::to_string).and_then(|ns3| {
            version = Some(ns3.version.clone());
            ns3.run(&dumbbell).map_err(|e| e.to_string())
        });
        match run {
            Ok(run) => theirs.push(run),
            Err(why) => missing = Some(why),
        }
    }
    let points = [false, true].map(|conservation| {
        let mut point = point(case, conservation, &ours[usize::from(conservation)]);
        if let Some(version) = version.as_ref().filter(|_| !theirs.is_empty()) {
            add_peer(&mut point, &dumbbell, version, &theirs);
        }
        point.warnings.extend(missing.iter().map(|why| format!("no comparison with ns-3: {why}")));
        point
    });
    Ok(points)
}

fn spread<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Spread {
    Spread::of(&runs.iter().map(value).collect::<Vec<_>>())
}

/// Bit/s of payload in order, over the whole run.
fn goodput(bytes: u64, dumbbell: &Dumbbell) -> f64 {
    bytes as f64 * 8.0 / f64::from(dumbbell.sim_s)
}

fn point(case: &Case, conservation: bool, runs: &[Once]) -> Point {
    let dumbbell = &case.dumbbell;
    let mut point = Point { bench: "sim", op: "event", ..Point::default() };
    let ns: Vec<f64> = runs.iter().map(|run| run.wall_s * 1e9 / run.events.max(1) as f64).collect();
    point.set_ns(&ns);
    point.params.extend([
        ("flows", dumbbell.flows.into()),
        ("hosts", (2 * dumbbell.pairs()).into()),
        ("rate", Rate(dumbbell.rate).to_string().into()),
        ("delay", Duration(dumbbell.delay).to_string().into()),
        ("queue", QueueLimit::Packets(dumbbell.queue).to_string().into()),
        ("sim_s", dumbbell.sim_s.into()),
        ("tcp", "newreno".into()),
        ("conservation", if conservation { "on" } else { "off" }.into()),
    ]);
    let sim_s = f64::from(dumbbell.sim_s);
    point.metrics.extend([
        ("wall_s", Metric::new(spread(runs, |run| run.wall_s), "s")),
        ("cpu_s", Metric::new(spread(runs, |run| run.cpu_s), "s")),
        ("sim_per_wall", Metric::new(spread(runs, |run| sim_s / run.wall_s), "s/s")),
        ("events", Metric::new(spread(runs, |run| run.events as f64), "event")),
        ("events_per_s", Metric::new(spread(runs, |run| run.events as f64 / run.wall_s), "event/s")),
        ("goodput_bps", Metric::new(spread(runs, |run| goodput(run.bytes, dumbbell)), "bit/s")),
    ]);
    let events: u64 = runs.iter().map(|run| run.events).sum();
    let allocations: u64 = runs.iter().map(|run| run.allocations).sum();
    point.allocs_per_op = Some(allocations as f64 / events.max(1) as f64);
    let memory: Option<Vec<f64>> = runs.iter().map(|run| Some(run.memory? as f64)).collect();
    if let Some(memory) = memory {
        let each: Vec<f64> = memory.iter().map(|bytes| bytes / f64::from(dumbbell.flows)).collect();
        point.metrics.insert("memory_bytes", Metric::new(Spread::of(&memory), "B"));
        point.metrics.insert("memory_bytes_per_flow", Metric::new(Spread::of(&each), "B"));
    } else {
        point.warnings.push("the kernel does not tell how much memory a process has".to_owned());
    }
    for warning in runs.iter().flat_map(|run| &run.warnings) {
        if !point.warnings.contains(warning) {
            point.warnings.push(warning.clone());
        }
    }
    point.warn_of_spread();
    point
}

fn add_peer(point: &mut Point, dumbbell: &Dumbbell, version: &str, runs: &[PeerRun]) {
    let sim_s = f64::from(dumbbell.sim_s);
    let mut peer = Peer { name: "ns-3".to_owned(), version: version.to_owned(), metrics: Default::default() };
    peer.metrics.extend([
        ("wall_s", Metric::new(spread(runs, |run| run.run_s), "s")),
        ("cpu_s", Metric::new(spread(runs, |run| run.cpu_s), "s")),
        ("total_s", Metric::new(spread(runs, |run| run.total_s), "s")),
        ("sim_per_wall", Metric::new(spread(runs, |run| sim_s / run.run_s), "s/s")),
        ("events", Metric::new(spread(runs, |run| run.events as f64), "event")),
        ("events_per_s", Metric::new(spread(runs, |run| run.events as f64 / run.run_s), "event/s")),
        ("goodput_bps", Metric::new(spread(runs, |run| goodput(run.bytes, dumbbell)), "bit/s")),
    ]);
    let median = |metrics: &std::collections::BTreeMap<&str, Metric>, name: &str| {
        metrics.get(name).map_or(0.0, |metric| metric.value.median)
    };
    let factor = median(&peer.metrics, "wall_s") / median(&point.metrics, "wall_s").max(1e-3);
    let ratio = median(&point.metrics, "goodput_bps") / median(&peer.metrics, "goodput_bps").max(1.0);
    peer.metrics.insert("perhop_is_faster_by", Metric::new(Spread::exactly(factor), "x"));
    peer.metrics
        .insert("perhop_goodput_differs_by", Metric::new(Spread::exactly((ratio - 1.0) * 100.0), "%"));
    if peer.metrics.get("wall_s").is_some_and(|wall| wall.value.relative() > SPREAD) {
        point.warnings.push("the runs of ns-3 differ by more than 20 %".to_owned());
    }
    point.peers.push(peer);
}
