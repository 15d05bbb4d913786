//! `bench veth`: through virtual Ethernet pairs and packet sockets, beside the kernel's own forwarding.
//!
//! Three namespaces in a row: a sender that sends as fast as it can through a packet socket, the router, a sink. The
//! sender runs on one processor; on another the router. In the same layout the kernel forwards: where frames arrive, which
//! is the sender's processor, or steered to the router's (receive packet steering); plain, or with four HTB classes and
//! u32 filters on the way out. What arrives at the sink counts. All take turns, so that a disturbance meets all of them.

mod layout;
mod threads;

use super::BenchError;
use super::machine::{self, SPREAD};
use super::report::{Metric, Peer, Point, Sink, Spread};
use layout::Layout;
use std::time::{Duration, Instant as Clock};
use threads::{Forwarding, RouterReport, Sender};

/// Options of `bench veth`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How packets enter and leave the router
    #[arg(long, value_enum, default_value_t = Io::AfPacket)]
    io: Io,
    /// Concurrent flows
    #[arg(long, default_value_t = 1000)]
    flows: usize,
    /// Filters of the router, none of which matches
    #[arg(long, default_value_t = 4)]
    filters: usize,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 64)]
    packet: usize,
    /// Measured runs of each
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Milliseconds of one run
    #[arg(long, default_value_t = 1000)]
    run_ms: u64,
    /// Processor of the sender
    #[arg(long, default_value_t = 0)]
    sender_cpu: usize,
    /// Processor of the router
    #[arg(long, default_value_t = 1)]
    router_cpu: usize,
    /// Seed of traffic and router
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// How packets enter and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Io {
    /// Packet sockets with memory-mapped rings.
    #[value(name = "af_packet")]
    AfPacket,
}

/// What every run of one forwarder gave.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// Packets a second at the sink.
    received: Vec<f64>,
    /// Packets a second that the sender's socket took.
    sent: Vec<f64>,
    reports: Vec<RouterReport>,
}

/// Time for queues and caches to fill before counting begins.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures.
///
/// # Errors
/// No rights over namespaces, or bad options.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if options.runs == 0 || options.run_ms == 0 || options.flows == 0 || options.filters > 99_999 {
        return Err(BenchError::Options("--runs, --run-ms and --flows must be at least 1".to_owned()));
    }
    if !(super::traffic::MIN_FRAME..=1514).contains(&options.packet) {
        return Err(BenchError::Options("--packet must be in 60 … 1514".to_owned()));
    }
    let processors = machine::processors();
    if options.sender_cpu.max(options.router_cpu) >= processors {
        return Err(BenchError::Environment {
            what: format!("processors {} and {}", options.sender_cpu, options.router_cpu),
            why: format!("there are {processors}; choose with --sender-cpu and --router-cpu"),
        });
    }
    let layout = Layout::new(None)?;
    let steered = Layout::new(Some(options.router_cpu))?;
    let (mut ours, mut ours_steered) = (Runs::default(), Runs::default());
    let mut peers = vec![("linux forwarding", Runs::default()), (HTB, Runs::default())];
    if steered.steered {
        peers.push(("linux forwarding, steered", Runs::default()));
        peers.push((HTB_STEERED, Runs::default()));
    }
    let mut missing = None;
    for turn in 1..=options.runs {
        sink.progress(&format!("run {turn} of {}", options.runs));
        one(options, &layout, true, &mut ours)?;
        if steered.steered {
            one(options, &steered, true, &mut ours_steered)?;
        }
        for (pair, layout) in peers.chunks_mut(2).zip([&layout, &steered]) {
            layout.forward_by_kernel(true)?;
            one(options, layout, false, &mut pair[0].1)?;
            match layout.shape() {
                Ok(()) => one(options, layout, false, &mut pair[1].1)?,
                Err(e) => missing = Some(e.to_string()),
            }
            layout.unshape();
            layout.forward_by_kernel(false)?;
        }
    }
    let mut point = point(options, &ours, &peers);
    if let Some((_, received)) =
        metrics(&ours_steered).find(|(name, _)| *name == "received" && steered.steered)
    {
        point.metrics.insert("received_steered", received);
    }
    if !steered.steered {
        let why =
            "received frames cannot be steered here, so the kernel forwarded on the sender's processor only";
        point.warnings.push(why.to_owned());
    }
    point.warnings.extend(missing.map(|why| format!("no comparison with HTB and u32: {why}")));
    sink.point(&point)?;
    Ok(())
}

const HTB: &str = "linux forwarding, 4 HTB classes, u32 filters";
const HTB_STEERED: &str = "linux forwarding, 4 HTB classes, u32 filters, steered";

/// One run: of Perhop if `router`, else of whatever the kernel is set to do.
fn one(options: &Options, layout: &Layout, router: bool, runs: &mut Runs) -> Result<(), BenchError> {
    let forwarding = if router { Some(Forwarding::start(options, layout)?) } else { None };
    let sender = Sender::start(options, layout)?;
    std::thread::sleep(SETTLE);
    let (sent, received, start) = (sender.sent(), layout.received()?, Clock::now());
    std::thread::sleep(Duration::from_millis(options.run_ms));
    let (sent_after, received_after, took) = (sender.sent(), layout.received()?, start.elapsed());
    sender.stop()?;
    if let Some(forwarding) = forwarding {
        runs.reports.push(forwarding.stop()?);
    }
    let rate = |n: u64| n as f64 / took.as_secs_f64();
    runs.received.push(rate(received_after - received));
    runs.sent.push(rate(sent_after - sent));
    if received_after == received {
        return Err(BenchError::Wrong("nothing arrived at the sink".to_owned()));
    }
    Ok(())
}

fn metrics(runs: &Runs) -> impl Iterator<Item = (&'static str, Metric)> {
    let millions = |values: &[f64]| Spread::of(&values.iter().map(|v| v / 1e6).collect::<Vec<_>>());
    let lost: Vec<f64> =
        runs.sent.iter().zip(&runs.received).map(|(s, r)| (1.0 - r / s.max(1.0)).max(0.0) * 100.0).collect();
    [
        ("received", Metric::new(millions(&runs.received), "Mpps")),
        ("sent", Metric::new(millions(&runs.sent), "Mpps")),
        ("lost", Metric::new(Spread::of(&lost), "%")),
    ]
    .into_iter()
}

fn point(options: &Options, ours: &Runs, peers: &[(&str, Runs)]) -> Point {
    let mut point = Point { bench: "veth", ..Point::default() };
    let ns: Vec<f64> = ours.received.iter().map(|rate| 1e9 / rate.max(1.0)).collect();
    point.set_ns(&ns);
    let params = [
        ("io", "af_packet".into()),
        ("flows", options.flows.into()),
        ("filters", options.filters.into()),
        ("packet", options.packet.into()),
        ("sender_cpu", options.sender_cpu.into()),
        ("router_cpu", options.router_cpu.into()),
        ("run_ms", options.run_ms.into()),
        ("seed", options.seed.into()),
        ("early_drop", ours.reports.iter().all(|r| r.early_drop).into()),
    ];
    point.params.extend(params);
    point.metrics.extend(metrics(ours));
    let total = |f: fn(&RouterReport) -> u64| ours.reports.iter().map(f).sum::<u64>() as f64;
    let taken = total(|r| r.received).max(1.0);
    point.allocs_per_op = Some(total(|r| r.allocations) / taken);
    let each = |f: fn(&RouterReport) -> u64| -> Spread {
        Spread::of(&ours.reports.iter().map(|r| f(r) as f64).collect::<Vec<_>>())
    };
    point.metrics.insert("lost_in_receive_ring", Metric::new(each(|r| r.ring_lost), "packet"));
    point.metrics.insert("dropped_in_router", Metric::new(each(|r| r.dropped), "packet"));
    point.metrics.insert("lost_in_transmit_ring", Metric::new(each(|r| r.tx_failed), "packet"));
    let mean_batch: Vec<f64> =
        ours.reports.iter().map(|r| r.received as f64 / r.batches.max(1) as f64).collect();
    point.metrics.insert("batch", Metric::new(Spread::of(&mean_batch), "packet"));
    let waited: Vec<f64> = ours.reports.iter().map(|r| r.waited * 100.0).collect();
    let waited = Spread::of(&waited);
    point.metrics.insert("router_waited_for_its_processor", Metric::new(waited, "%"));
    if waited.median > 100.0 * machine::DISTURBED {
        point.warnings.push(format!("other programs took {:.0} % of the router's time", waited.median));
    }
    if point.metrics.get("lost").is_some_and(|lost| lost.value.median < 1.0) {
        let why =
            "nearly nothing was lost, so the sender was the limit: the router forwards at least this much";
        point.warnings.push(why.to_owned());
    }
    let ours_median = Spread::of(&ours.received).median;
    let version = machine::kernel_release();
    for (name, runs) in peers {
        if runs.received.is_empty() {
            continue;
        }
        let mut peer =
            Peer { name: (*name).to_owned(), version: version.clone(), metrics: metrics(runs).collect() };
        let factor = ours_median / Spread::of(&runs.received).median.max(1.0);
        peer.metrics.insert("perhop_is_faster_by", Metric::new(Spread::exactly(factor), "x"));
        if Spread::of(&runs.received).relative() > SPREAD {
            point.warnings.push(format!("the runs of {name} differ by more than 20 %"));
        }
        point.peers.push(peer);
    }
    point.warn_of_spread();
    point
}
