//! `bench latency`: how long a packet is inside the router, memory to memory, and where that time goes.
//!
//! Tables with the published figures of a software router beside ours (Calarco, Tables 12 and 1, see
//! docs/element-costs.md): the time of each element per packet, with packets handed in one, eight and 256 at a time; the
//! same for flows that real-time detection has to look at; and the delay of single packets at a constant offered rate, by
//! rate and length. The clock is the machine's. A packet is stamped when its batch enters the graph, and again when it is
//! handed to the port's transmitter. Packets that fall due together enter together, up to `--burst`.

mod media;

use crate::costs::{Elements, clock};
use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Peer, Point, Sink, Spread};
use crate::router::{Detection, LAN, Router, Setup, WAN, port_mac};
use crate::traffic::{Payload, Source};
use media::{Media, MediaSource};
use perhop_element::{CostConfig, DelaySample, TraceConfig};
use perhop_graph::router::{EdgeOptions, WorkerEvent};
use perhop_model::{Kind, Name, Op};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use perhop_wire::MacAddr;
use serde_json::json;

/// Options of `bench latency`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent flows
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: u32,
    /// Milliseconds of each run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=120_000))]
    milliseconds: u32,
    /// Packets that enter together at the most, at a constant rate
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    burst: u32,
    /// One packet in so many is traced; 1: every packet
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// Measured runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seed of traffic and router
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Processor to run on; the last without it
    #[arg(long)]
    cpu: Option<usize>,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Frame check sequence: published lengths count it, frames in memory have none.
const FCS: usize = 4;
/// Frames forwarded before anything is timed: caches and tables are warm then.
const WARM_UP: u64 = 20_000;
/// Packets at a time, of the table of elements.
const BATCHES: [usize; 3] = [1, 8, 256];
/// Length of their frames with FCS: that of the published table.
const ELEMENT_FRAME: usize = 512;

/// Length of the frames that detection looks at, with FCS: its statistics take packets of up to 200 bytes.
const MEDIA_FRAME: usize = 128;
/// Published times of elements, ns: recognising by protocol and by statistics together, contracts, routing.
const PUBLISHED_ELEMENTS: [(&str, f64); 3] =
    [("flows_ns", 1320.0 + 1110.0), ("condition_ns", 150.0), ("forward_ns", 1200.0)];
/// What the published router added to a packet's way from wire to wire, ns.
const PUBLISHED_ADDED_NS: f64 = 62_300.0;

/// Rates of the published matrix, packets a second / 1000.
const RATES: [u64; 7] = [350, 200, 140, 85, 53, 43, 37];
/// Its lengths with FCS, and the mean latencies in µs, from the rate on that the published machine's bus could carry.
#[allow(clippy::approx_constant, reason = "3.14 µs was measured")]
const PUBLISHED: [(usize, &[f64]); 7] = [
    (64, &[8.43, 4.63, 3.83, 3.23, 2.49, 2.43, 2.42]),
    (128, &[4.68, 3.82, 3.20, 2.46, 2.40, 2.39]),
    (256, &[3.78, 3.14, 2.43, 2.34, 2.35]),
    (512, &[2.99, 2.37, 2.32, 2.30]),
    (1024, &[2.50, 2.39, 2.42]),
    (1280, &[2.48, 2.45]),
    (1518, &[2.49]),
];

/// Measures both tables.
///
/// # Errors
/// A router that cannot be set up, a processor that does not exist.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.cpu)?;
    for batch in BATCHES {
        sink.point(&elements(options, batch, None, cpu)?)?;
    }
    for media in [Media::Recognised, Media::Undecided] {
        for statistical in [false, true] {
            for batch in BATCHES {
                sink.point(&elements(options, batch, Some((media, statistical)), cpu)?)?;
            }
        }
    }
    for (frame, published) in PUBLISHED {
        for (rate, published) in RATES[RATES.len() - published.len()..].iter().zip(published) {
            sink.point(&delays(options, frame, *rate, *published, cpu)?)?;
        }
    }
    Ok(())
}

/// A router between two memories, with the machine's clock.
struct Rig {
    router: Router,
    source: Source,
    /// What is sent instead of frames of `source`, if anything.
    media: Option<MediaSource>,
    next: usize,
    pool: Pool,
    batch: Batch,
    events: Vec<WorkerEvent>,
    sent: u64,
}

impl Rig {
    /// Flows of random octets, or flows that detection looks at, with statistics or without.
    fn new(options: &Options, frame: usize, media: Option<(Media, bool)>) -> Result<Self, BenchError> {
        let setup = Setup {
            rate: 100_000_000_000,
            filters: 1,
            connections: EdgeOptions::DEFAULT_CONNECTIONS,
            detection: Detection::On,
            abr: None,
        };
        let pool = Pool::new(8192);
        let mut router = Router::new(&setup, pool.clone(), options.seed)?;
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
        let source =
            Source::new(options.flows as usize, frame - FCS, 0, 0, Payload::Random, options.seed, macs);
        if let Some((_, statistical)) = media {
            // Each flow sends what a core forwards by its share: far more than a call.
            let name = Name::new("realtime").map_err(|e| BenchError::Router(e.to_string()))?;
            let fields = json!({ "statistical": statistical, "flow_rate": 1_000_000_000 });
            router.submit(vec![Op::Patch { kind: Kind::Detector, name, fields, if_version: None }])?;
        }
        let media = media.map(|(media, _)| MediaSource::new(media, options.flows, frame - FCS, macs));
        let mut rig = Self {
            router,
            source,
            media,
            next: 0,
            pool,
            batch: Batch::new(),
            events: Vec::with_capacity(8192),
            sent: 0,
        };
        for _ in 0..WARM_UP.div_ceil(64) {
            rig.forward(64);
        }
        if rig.sent < WARM_UP {
            return Err(BenchError::Wrong(format!("{} of {WARM_UP} packets came through", rig.sent)));
        }
        Ok(rig)
    }

    /// Takes packets in, forwards them and takes out what leaves.
    fn forward(&mut self, packets: usize) {
        let made = clock();
        for _ in 0..packets {
            let frame = match &mut self.media {
                Some(media) => media.frame(made),
                None => self.source.frame(self.next),
            };
            let Some(packet) = self.pool.packet(frame) else { break };
            self.batch.push(packet);
            self.next = (self.next + 1) % self.source.count();
        }
        let now = Instant(clock());
        for packet in self.batch.iter_mut() {
            packet.meta_mut().received_at = now;
        }
        self.router.worker.receive(now, LAN, &mut self.batch);
        self.settle(now);
    }

    /// What a turn of a worker does beside receiving.
    fn settle(&mut self, now: Instant) {
        let worker = &mut self.router.worker;
        if worker.next_wakeup().is_some_and(|at| at <= now) {
            worker.poll(now);
        }
        worker.take_events(now, &mut self.events);
        self.events.clear();
        worker.local_queue().release_all();
        if let Some(queue) = worker.transmit_queue(WAN) {
            self.sent += queue.len() as u64;
            queue.release_all();
        }
    }
}

fn point(options: &Options, part: &str, frame: usize, cpu: usize) -> Point {
    let mut point = Point { bench: "latency", ..Point::default() };
    let params = [
        ("part", part.into()),
        ("frame_with_fcs", frame.into()),
        ("flows", options.flows.into()),
        ("cpu", cpu.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    point
}

/// Each element's time, as many packets handed in as the router takes: of flows of random octets, or of flows that
/// detection looks at, with statistics or without.
fn elements(
    options: &Options,
    batch: usize,
    media: Option<(Media, bool)>,
    cpu: usize,
) -> Result<Point, BenchError> {
    let frame = if media.is_some() { MEDIA_FRAME } else { ELEMENT_FRAME };
    let mut rig = Rig::new(options, frame, media)?;
    let watch = Watch::start();
    let (mut ns, mut elements) = (Vec::new(), Elements::default());
    for _ in 0..options.runs {
        let driver = rig.router.worker.driver_mut();
        driver.set_costs(Some(CostConfig::calibrated(clock, CostConfig::EVERY)));
        let (sent, start) = (rig.sent, clock());
        let end = start + u64::from(options.milliseconds) * 1_000_000;
        while clock() < end {
            (0..16).for_each(|_| rig.forward(batch));
        }
        ns.push((clock() - start) as f64 / (rig.sent - sent).max(1) as f64);
        elements.take(rig.router.worker.driver());
    }
    let detected = rig.router.worker.flows().map_or(0, |flows| flows.flow_counters().detected);
    // Statistics may recognise what goes on for seconds.
    let as_meant = match media {
        Some((Media::Recognised, _)) => detected >= u64::from(options.flows),
        Some((Media::Undecided, false)) => detected == 0,
        _ => true,
    };
    if !as_meant {
        return Err(BenchError::Wrong(format!("{detected} of {} flows were recognised", options.flows)));
    }
    let mut point = point(options, "elements", frame, cpu);
    point.params.insert("batch", batch.into());
    let traffic = match media {
        None => "random",
        Some((Media::Recognised, _)) => "rtp",
        Some((Media::Undecided, _)) => "undecided",
    };
    point.params.insert("traffic", traffic.into());
    point.params.insert("statistical", media.is_some_and(|(_, statistical)| statistical).into());
    point.set_ns(&ns);
    elements.describe(&mut point);
    point.peers.push(peer("table 12", &PUBLISHED_ELEMENTS));
    point.warnings = watch.warnings();
    point.warnings.extend(slower(&point));
    Ok(point)
}

/// What takes longer than published: of the published elements their own times, of the others the longest there.
fn slower(point: &Point) -> Vec<String> {
    let elements = point.metrics.iter().filter(|(name, _)| name.ends_with("_ns"));
    let slower = elements.filter_map(|(name, metric)| {
        let published = PUBLISHED_ELEMENTS.iter().find(|(of, _)| of == name).map_or(150.0, |(_, ns)| *ns);
        let ours = metric.value.median;
        (ours > published).then(|| format!("{name}: {ours} ns is more than the published {published} ns"))
    });
    slower.collect()
}

fn peer(table: &str, metrics: &[(&'static str, f64)]) -> Peer {
    let metrics = metrics.iter().map(|(name, ns)| (*name, Metric::new(Spread::exactly(*ns), "ns")));
    Peer {
        name: "Click on a Pentium 4 of 1.6 GHz, published (Calarco)".to_owned(),
        version: table.to_owned(),
        metrics: metrics.collect(),
    }
}

/// What the traced packets of one run say, ns.
#[derive(Default)]
struct Run {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
    burst: f64,
}

impl Run {
    fn of(samples: &[DelaySample]) -> Self {
        let mut delays: Vec<u64> = samples.iter().map(|s| s.delay_ns).collect();
        delays.sort_unstable();
        let n = delays.len();
        if n == 0 {
            return Self::default();
        }
        let rank = |share: f64| delays[((n as f64 * share).ceil() as usize).clamp(1, n) - 1] as f64;
        Self {
            mean: delays.iter().sum::<u64>() as f64 / n as f64,
            p50: rank(0.5),
            p99: rank(0.99),
            max: rank(1.0),
            burst: samples.iter().map(|s| f64::from(s.burst)).sum::<f64>() / n as f64,
        }
    }
}

/// Delays of single packets at a constant rate.
fn delays(
    options: &Options,
    frame: usize,
    kpps: u64,
    published_us: f64,
    cpu: usize,
) -> Result<Point, BenchError> {
    let mut rig = Rig::new(options, frame, None)?;
    let watch = Watch::start();
    let mut runs = Vec::new();
    let mut offered = Vec::new();
    for _ in 0..options.runs {
        let config = TraceConfig { clock, every: options.every, keep: TraceConfig::KEEP };
        rig.router.worker.driver_mut().set_trace(Some(config));
        offered.push(constant_rate(options, &mut rig, kpps * 1000));
        let trace = rig.router.worker.driver().trace();
        let samples: Vec<DelaySample> = trace.into_iter().flat_map(|t| t.samples().copied()).collect();
        if samples.is_empty() {
            return Err(BenchError::Wrong("no traced packet came through".to_owned()));
        }
        runs.push(Run::of(&samples));
    }
    let mut point = point(options, "delay", frame, cpu);
    let params = [("kpps", kpps.into()), ("burst", options.burst.into()), ("every", options.every.into())];
    point.params.extend(params);
    point.set_ns(&runs.iter().map(|r| r.mean).collect::<Vec<_>>());
    // A delay is no price: nothing follows from it for how many packets there could be.
    point.mops = kpps as f64 / 1e3;
    let spread = |value: fn(&Run) -> f64| Spread::of(&runs.iter().map(value).collect::<Vec<_>>());
    let metrics = [
        ("delay_mean", spread(|r| r.mean), "ns"),
        ("delay_p50", spread(|r| r.p50), "ns"),
        ("delay_p99", spread(|r| r.p99), "ns"),
        ("delay_max", spread(|r| r.max), "ns"),
        ("burst_mean", spread(|r| r.burst), "packet"),
        ("forwarded", Spread::of(&offered), "packet/s"),
    ];
    point.metrics.extend(metrics.map(|(name, value, unit)| (name, Metric::new(value, unit))));
    point.peers.push(peer("table 1", &[("delay_mean", published_us * 1e3)]));
    point.peers.push(peer("III.4, wire to wire", &[("delay_mean", PUBLISHED_ADDED_NS)]));
    point.warnings = watch.warnings();
    let mean = point.ns_per_op.median;
    if mean > PUBLISHED_ADDED_NS {
        point
            .warnings
            .push(format!("a delay of {mean} ns is more than the published {PUBLISHED_ADDED_NS} ns"));
    }
    Ok(point)
}

/// Packets at `rate` a second for a run. Returns the rate at which they left.
fn constant_rate(options: &Options, rig: &mut Rig, rate: u64) -> f64 {
    let (before, start) = (rig.sent, clock());
    let length = u64::from(options.milliseconds) * 1_000_000;
    let mut offered = 0;
    loop {
        let now = clock();
        let passed = now - start;
        if passed >= length {
            return (rig.sent - before) as f64 * 1e9 / passed as f64;
        }
        // At most 120 s at 350,000 a second: far from overflow.
        let due = passed * rate / 1_000_000_000 - offered;
        match due.min(options.burst.into()) {
            0 => {
                rig.settle(Instant(now));
                std::hint::spin_loop();
            }
            n => {
                rig.forward(n as usize);
                offered += n;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_packet::PortId;

    #[test]
    fn a_run_is_summed_up_by_rank() {
        let sample = |delay_ns| DelaySample {
            seq: 0,
            received_at: Instant(0),
            delay_ns,
            port: PortId(1),
            len: 60,
            queue: 0,
            burst: 2,
            ahead: 0,
        };
        let samples: Vec<DelaySample> = (1..=200).rev().map(|n| sample(n * 10)).collect();
        let run = Run::of(&samples);
        assert_eq!((run.p50, run.p99, run.max, run.burst), (1000.0, 1980.0, 2000.0, 2.0));
        assert!((run.mean - 1005.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_slower_than_published_is_told() {
        let mut point = Point::default();
        let at = |ns| Metric::new(Spread::exactly(ns), "ns");
        point.metrics.extend([
            ("flows_ns", at(2430.0)),
            ("forward_ns", at(1201.0)),
            ("in_lan_ns", at(151.0)),
        ]);
        point.metrics.insert("burst_mean", at(8000.0));
        let slower = slower(&point);
        assert_eq!(slower.len(), 2, "{slower:?}");
        assert!(slower[0].starts_with("forward_ns: 1201 ns"), "{slower:?}");
        assert!(slower[1].starts_with("in_lan_ns: 151 ns"), "{slower:?}");
    }

    #[test]
    fn the_published_matrix_is_a_triangle_under_its_rates() {
        for (i, (_, row)) in PUBLISHED.iter().enumerate() {
            assert_eq!(row.len(), RATES.len() - i);
        }
    }
}
