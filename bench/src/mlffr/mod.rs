//! `bench mlffr`: the highest rate at which nothing is lost, beside the kernel's forwarding.
//!
//! The layout is that of `bench veth`: sender, router and sink in namespaces, virtual Ethernet between them. A trial sends a
//! fixed number of frames at a steady rate, after others that are not counted and make flows and neighbours known, waits until
//! no more arrive, and compares what was sent with what the sink counted. The rate is bisected; what is found must hold in
//! further trials, or the search goes on below it. The searches of all who forward go on in turns, a trial each, so that a
//! disturbance meets all of them. The highest rate is what the sender can do.
//!
//! Source: RFC 2544 §9.1 (frame sizes), §23 (learning frames, pauses), §24 (duration), §26.1 (throughput).

mod search;

use crate::error::BenchError;
use crate::machine;
use crate::report::{Metric, Peer, Point, Sink, Spread};
use crate::veth::{self, Contender, Forwarding, Io, Layout, Load, Path, Sender, Who};
use search::Search;
use std::time::{Duration, Instant as Clock};

/// Options of `bench mlffr`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    way: Path,
    /// Lengths of frames in bytes, without FCS
    #[arg(long, num_args = 1.., value_delimiter = ',', default_values_t = SIZES)]
    packet: Vec<usize>,
    /// Milliseconds of one trial; RFC 2544 asks for 60,000
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    trial_ms: u64,
    /// Trials in a row that have to lose nothing at the rate that was found
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    confirm: u32,
    /// Thousandths that the answer may be too low
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=500))]
    resolution: u64,
    /// Frames of a million that a trial may lose; RFC 2544 says none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    loss_ppm: u64,
    /// Highest rate to try, frames a second; without it what the sender can do
    #[arg(long)]
    most: Option<u64>,
    /// Searches of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Print one JSON object a length and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Those of Ethernet in RFC 2544 §9.1, without FCS; the first as all benches have it.
const SIZES: [usize; 7] = [64, 124, 252, 508, 1020, 1276, 1514];

/// Pause between what a trial sends and what is counted, and how long nothing must come for all to have come.
const PAUSE: Duration = Duration::from_millis(100);
/// A trial whose rate was more than so many hundredths below what it should have been says nothing.
const SHORT_PERCENT: u64 = 3;
/// How often such a trial is made again before the rate counts as one that cannot be sent.
const AGAIN: u32 = 3;

/// What the searches of one forwarder gave.
#[derive(Debug, Default)]
struct Found {
    /// Frames a second without loss.
    rates: Vec<f64>,
    trials: Vec<f64>,
    refuted: Vec<f64>,
    /// How it had its frames; empty: the kernel.
    mode: &'static str,
    /// Trials that said nothing because the sender was too slow.
    short: u64,
}

/// Measures.
///
/// # Errors
/// No rights over namespaces, or bad options.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    options.way.check()?;
    options.packet.iter().try_for_each(|packet| veth::check_length(*packet))?;
    let layout = Layout::new(None)?;
    for packet in &options.packet {
        let most = match options.most {
            Some(most) => most,
            None => sender_most(options, &layout, *packet)?,
        };
        let mut contenders = contenders(options.way.io);
        for run in 1..=options.runs {
            sink.progress(&format!("{packet} bytes, run {run} of {}: up to {most} frames/s", options.runs));
            search_all(options, &layout, (*packet, most), &mut contenders)?;
        }
        sink.point(&point(options, *packet, most, &contenders))?;
    }
    Ok(())
}

fn contenders(io: Io) -> Vec<(Contender, Found)> {
    let plain = |c: &Contender| !c.steered && c.who != Who::KernelShaped;
    Contender::all(io, false).into_iter().filter(plain).map(|c| (c, Found::default())).collect()
}

/// Frames a second that the sender gets rid of when the kernel forwards none of them.
fn sender_most(options: &Options, layout: &Layout, packet: usize) -> Result<u64, BenchError> {
    let sender = Sender::start(&options.way, layout, Load::most(packet))?;
    std::thread::sleep(PAUSE);
    let (before, start) = (sender.sent(), Clock::now());
    std::thread::sleep(3 * PAUSE);
    let rate = (sender.sent() - before) as f64 / start.elapsed().as_secs_f64();
    sender.stop()?;
    Ok(rate as u64)
}

/// One search of each, a trial in turn.
fn search_all(
    options: &Options,
    layout: &Layout,
    (packet, most): (usize, u64),
    contenders: &mut [(Contender, Found)],
) -> Result<(), BenchError> {
    let new = || Search::new(most, options.resolution, options.confirm);
    let mut searches: Vec<Search> = contenders.iter().map(|_| new()).collect();
    let mut any = true;
    while any {
        any = false;
        for ((contender, found), search) in contenders.iter_mut().zip(&mut searches) {
            let Some(rate) = search.next() else { continue };
            any = true;
            let lost = trial(options, layout, contender, (packet, rate), found)?;
            search.tried(lost.is_some_and(|lost| lost.is_within(options.loss_ppm)));
        }
    }
    for ((_, found), search) in contenders.iter_mut().zip(&searches) {
        found.rates.push(search.answer() as f64);
        found.trials.push(search.trials().into());
        found.refuted.push(search.refuted().into());
    }
    Ok(())
}

/// What a trial counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    sent: u64,
    received: u64,
}

impl Counted {
    /// Whether no more than so many of a million were lost.
    fn is_within(self, ppm: u64) -> bool {
        let lost = u128::from(self.sent.saturating_sub(self.received));
        lost * 1_000_000 <= u128::from(self.sent) * u128::from(ppm)
    }
}

/// One trial, made again when the sender was too slow; `None` when it always was.
fn trial(
    options: &Options,
    layout: &Layout,
    contender: &Contender,
    (packet, rate): (usize, u64),
    found: &mut Found,
) -> Result<Option<Counted>, BenchError> {
    for _ in 0..AGAIN {
        // Those that can take part in every layout only.
        if let Err(why) = contender.prepare(layout)? {
            return Err(BenchError::Environment { what: contender.name().to_owned(), why });
        }
        let forwarding =
            contender.who.way().map(|way| Forwarding::start(&options.way, layout, way)).transpose()?;
        let counted = count(options, layout, packet, rate);
        let report = forwarding.map(Forwarding::stop).transpose();
        contender.put_back(layout)?;
        found.mode = report?.map_or("", |r| r.mode);
        match counted? {
            Some(counted) => return Ok(Some(counted)),
            None => found.short += 1,
        }
    }
    Ok(None)
}

/// Sends and counts; `None` when the sender was too slow.
fn count(
    options: &Options,
    layout: &Layout,
    packet: usize,
    rate: u64,
) -> Result<Option<Counted>, BenchError> {
    // Every flow twice, at half the rate.
    let learning = Load::paced(packet, (rate / 2).max(1), 2 * options.way.flows as u64);
    Sender::start(&options.way, layout, learning)?.finish()?;
    all_came(layout, u64::MAX)?;
    let before = layout.received()?;
    let frames = (u128::from(rate) * u128::from(options.trial_ms) / 1000).max(1) as u64;
    let took = Sender::start(&options.way, layout, Load::paced(packet, rate, frames))?.finish()?;
    let planned = u128::from(frames) * 1_000_000_000 / u128::from(rate.max(1));
    all_came(layout, before + frames)?;
    let received = layout.received()? - before;
    if u128::from(took) * u128::from(100 - SHORT_PERCENT) > planned * 100 {
        return Ok(None);
    }
    Ok(Some(Counted { sent: frames, received }))
}

/// Waits until the sink has counted so many, or none for a while.
fn all_came(layout: &Layout, expected: u64) -> Result<(), BenchError> {
    let (mut last, mut since) = (layout.received()?, Clock::now());
    while last < expected && since.elapsed() < PAUSE {
        std::thread::sleep(PAUSE / 20);
        let now = layout.received()?;
        if now != last {
            (last, since) = (now, Clock::now());
        }
    }
    Ok(())
}

fn point(options: &Options, packet: usize, most: u64, contenders: &[(Contender, Found)]) -> Point {
    let mut point = Point { bench: "mlffr", ..Point::default() };
    options.way.describe(&mut point);
    for (name, value) in [
        ("packet", packet as u64),
        ("trial_ms", options.trial_ms),
        ("confirm", options.confirm.into()),
        ("resolution_per_mille", options.resolution),
        ("loss_ppm", options.loss_ppm),
    ] {
        point.params.insert(name, value.into());
    }
    point.metrics.insert("most_tried", Metric::new(Spread::exactly(most as f64), "packet/s"));
    let Some((_, ours)) = contenders.iter().find(|(c, _)| c.who == Who::Perhop) else { return point };
    point.params.insert("mode", ours.mode.into());
    let ns: Vec<f64> = ours.rates.iter().map(|rate| 1e9 / rate.max(1.0)).collect();
    point.set_ns(&ns);
    point.metrics.extend(metrics(ours, packet));
    for (contender, found) in contenders.iter().filter(|(c, _)| c.who != Who::Perhop) {
        let ratio = Metric::new(veth::ratios(&ours.rates, &found.rates), "x");
        let mut peer = Peer {
            name: contender.name().to_owned(),
            version: machine::kernel_release(),
            metrics: metrics(found, packet).collect(),
        };
        let name = if contender.who == Who::Bare { "ratio_to_bare" } else { "ratio_to_kernel" };
        point.metrics.insert(name, ratio.clone());
        peer.metrics.insert("perhop_is_faster_by", ratio);
        point.peers.push(peer);
    }
    for (contender, found) in contenders {
        let name = contender.name();
        if found.rates.contains(&0.0) {
            point.warnings.push(format!("{name}: no rate held in {} trials in a row", options.confirm));
        }
        if found.rates.iter().any(|rate| *rate >= most as f64) {
            point.warnings.push(format!("{name} lost nothing at the highest rate that was tried"));
        }
        if found.short > 0 {
            point.warnings.push(format!("{name}: in {} trials the sender was too slow", found.short));
        }
    }
    point.warn_of_spread();
    point
}

fn metrics(found: &Found, packet: usize) -> impl Iterator<Item = (&'static str, Metric)> {
    let scaled = |by: f64| Spread::of(&found.rates.iter().map(|rate| rate * by).collect::<Vec<_>>());
    [
        ("without_loss", Metric::new(scaled(1.0), "packet/s")),
        ("without_loss_bits", Metric::new(scaled(packet as f64 * 8e-6), "Mbit/s")),
        ("trials", Metric::new(Spread::of(&found.trials), "trial")),
        ("refuted", Metric::new(Spread::of(&found.refuted), "rate")),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_without_tolerance_passes_when_every_frame_came_and_not_otherwise() {
        let counted = |sent, received| Counted { sent, received };
        assert!(counted(1_000_000, 1_000_000).is_within(0));
        assert!(!counted(1_000_000, 999_999).is_within(0));
        assert!(counted(1_000_000, 999_990).is_within(10) && !counted(1_000_000, 999_989).is_within(10));
    }

    #[test]
    fn the_answer_of_every_run_is_in_the_point_beside_the_kernels() {
        let mut contenders = contenders(Io::AfXdp);
        assert_eq!(
            contenders.iter().map(|(c, _)| c.who).collect::<Vec<_>>(),
            [Who::Perhop, Who::Bare, Who::Kernel]
        );
        for ((_, found), rate) in contenders.iter_mut().zip([400_000.0, 500_000.0, 0.0]) {
            found.rates = vec![rate; 3];
        }
        let options = Options {
            way: Path {
                io: Io::AfXdp,
                xdp: veth::Xdp::Auto,
                flows: 1,
                filters: 0,
                sender_cpu: 0,
                router_cpu: 0,
                seed: 1,
            },
            packet: vec![64],
            trial_ms: 1_000,
            confirm: 5,
            resolution: 20,
            loss_ppm: 0,
            most: None,
            runs: 3,
            json: true,
        };
        let point = point(&options, 1000, 500_000, &contenders);
        assert_eq!(point.metrics["without_loss"].value, Spread::exactly(400_000.0));
        assert_eq!(point.metrics["without_loss_bits"].value, Spread::exactly(3200.0));
        assert_eq!(point.metrics["ratio_to_bare"].value, Spread::exactly(0.8));
        assert_eq!((point.ns_per_op.median, point.runs, point.peers.len()), (2500.0, 3, 2));
        let warned = |text: &str| point.warnings.iter().any(|w| w.contains(text));
        assert!(warned("linux forwarding: no rate held") && warned("bare AF_XDP forwarder lost nothing"));
    }
}
