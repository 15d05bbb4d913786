//! `bench veth`: through virtual Ethernet pairs, by packet sockets or AF_XDP, beside the kernel's own forwarding.
//!
//! Three namespaces in a row: a sender that sends as fast as it can through a packet socket, the router, a sink. The
//! sender runs on one processor; on another the router. In the same layout the kernel forwards: where frames arrive, which
//! is the sender's processor, or steered to the router's (receive packet steering); plain, or with four HTB classes and
//! u32 filters on the way out. With AF_XDP a bare forwarder takes part, which only moves descriptors from ring to ring, and
//! says what the sockets alone cost. What arrives at the sink counts. All take turns, so that a disturbance meets all of
//! them, and ratios are those of runs of one turn.

mod bare;
mod contenders;
mod layout;
mod path;
mod ports;
mod threads;

use crate::error::BenchError;
use crate::machine::{self, SPREAD};
use crate::report::{Metric, Peer, Point, Sink, Spread};
use contenders::Runs;
pub use contenders::{Contender, Who};
pub use layout::{INSIDE, Layout, OUTSIDE, SENDER, SINK};
#[cfg(test)]
pub use path::Xdp;
pub use path::{Io, Path, check_length, check_processors};
use ports::RouterReport;
use std::time::{Duration, Instant as Clock};
pub use threads::{Forwarding, Load, Sender, Way};

/// Options of `bench veth`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    way: Path,
    /// Measured runs of each
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Milliseconds of one run
    #[arg(long, default_value_t = 1000)]
    run_ms: u64,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 64)]
    packet: usize,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Time for queues and caches to fill before counting begins.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures.
///
/// # Errors
/// No rights over namespaces, or bad options.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if options.runs == 0 || options.run_ms == 0 {
        return Err(BenchError::Options("--runs and --run-ms must be at least 1".to_owned()));
    }
    options.way.check()?;
    check_length(options.packet)?;
    let layout = Layout::new(None)?;
    let steered = Layout::new(Some(options.way.router_cpu))?;
    let mut contenders = Contender::all(options.way.io, steered.steered);
    let mut missing = None;
    for turn in 1..=options.runs {
        sink.progress(&format!("run {turn} of {}", options.runs));
        for contender in &mut contenders {
            let layout = if contender.steered { &steered } else { &layout };
            if let Err(why) = contender.prepare(layout)? {
                missing = Some(why);
                continue;
            }
            let done = one(options, layout, contender.who.way(), &mut contender.runs);
            contender.put_back(layout)?;
            done?;
        }
    }
    let mut point = point(options, &contenders);
    if !steered.steered {
        let why =
            "received frames cannot be steered here, so the kernel forwarded on the sender's processor only";
        point.warnings.push(why.to_owned());
    }
    point.warnings.extend(missing.map(|why| format!("no comparison with HTB and u32: {why}")));
    sink.point(&point)?;
    Ok(())
}

/// One run: of a thread of ours, or of whatever the kernel is set to do.
fn one(options: &Options, layout: &Layout, way: Option<Way>, runs: &mut Runs) -> Result<(), BenchError> {
    let forwarding = way.map(|way| Forwarding::start(&options.way, layout, way)).transpose()?;
    let sender = Sender::start(&options.way, layout, Load::most(options.packet))?;
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

/// What every turn gave one of, and what the other: of turns in which both ran.
pub fn ratios(ours: &[f64], other: &[f64]) -> Spread {
    let each = ours.iter().zip(other).map(|(a, b)| a / b.max(1.0));
    Spread::of(&each.collect::<Vec<_>>())
}

fn point(options: &Options, contenders: &[Contender]) -> Point {
    let mut point = Point { bench: "veth", ..Point::default() };
    options.way.describe(&mut point);
    point.params.insert("packet", options.packet.into());
    point.params.insert("run_ms", options.run_ms.into());
    let version = machine::kernel_release();
    let ours = contenders.iter().find(|c| c.who == Who::Perhop && !c.steered);
    let nothing = Runs::default();
    let ours = ours.map_or(&nothing, |c| &c.runs);
    describe(ours, &mut point);
    for contender in contenders.iter().filter(|c| !c.runs.received.is_empty()) {
        let runs = &contender.runs;
        if contender.who == Who::Perhop {
            if contender.steered {
                point.metrics.extend(
                    metrics(runs)
                        .filter(|(name, _)| *name == "received")
                        .map(|(_, m)| ("received_steered", m)),
                );
            }
            continue;
        }
        let ratio = Metric::new(ratios(&ours.received, &runs.received), "x");
        match (contender.who, contender.steered) {
            (Who::Bare, _) => _ = point.metrics.insert("ratio_to_bare", ratio.clone()),
            (Who::Kernel, false) => _ = point.metrics.insert("ratio_to_kernel", ratio.clone()),
            _ => {}
        }
        let (name, version) = (contender.name().to_owned(), version.clone());
        let mut peer = Peer { name, version, metrics: metrics(runs).collect() };
        peer.metrics.insert("perhop_is_faster_by", ratio);
        if Spread::of(&runs.received).relative() > SPREAD {
            point.warnings.push(format!("the runs of {} differ by more than 20 %", contender.name()));
        }
        point.peers.push(peer);
    }
    point.warn_of_spread();
    point
}

/// Our own runs.
fn describe(ours: &Runs, point: &mut Point) {
    let ns: Vec<f64> = ours.received.iter().map(|rate| 1e9 / rate.max(1.0)).collect();
    point.set_ns(&ns);
    let mode = ours.reports.first().map_or("", |r| r.mode);
    point.params.insert("mode", mode.into());
    point.params.insert("early_drop", ours.reports.iter().all(|r| r.early_drop).into());
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_runs_of_one_turn() {
        // Each turn twice as fast, whatever the machine did to it.
        let ratio = ratios(&[2.0, 20.0, 6.0], &[1.0, 10.0, 3.0]);
        assert_eq!(ratio, Spread::exactly(2.0));
    }

    #[test]
    fn with_af_xdp_every_turn_has_the_bare_forwarder_and_the_kernel() {
        let who =
            |io, steered| Contender::all(io, steered).iter().map(|c| (c.who, c.steered)).collect::<Vec<_>>();
        assert_eq!(who(Io::AfXdp, false), [(Who::Perhop, false), (Who::Bare, false), (Who::Kernel, false)]);
        assert_eq!(who(Io::AfXdp, true).last(), Some(&(Who::Kernel, true)));
        assert!(who(Io::AfPacket, true).iter().all(|(who, _)| *who != Who::Bare));
    }
}
