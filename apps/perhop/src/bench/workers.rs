//! `bench workers`: several packet threads that are one router, beside one that does it alone.
//!
//! The example's router between two memories: each port has frames in memory that are copied into pooled buffers as a port
//! does, and what leaves by a port is copied out. Workers have their ports in turn. Under the load `even` flows are spread
//! evenly over workers, so of two workers half of the packets cross from the one to the other before they are sorted, and
//! half of them afterwards; under `skewed` one worker has four fifths of the packets. Not more than a window of packets is
//! under way, so that no ring overflows: a packet that is lost makes the measurement wrong. Time is that of the wall,
//! because what is measured is how much faster several processors are than one; on a machine that does other things too
//! it says so.

mod crew;
mod load;

use super::BenchError;
use super::machine;
use super::report::{Metric, Point, Sink, Spread};
use crew::Crew;
use load::Load;
use serde_json::Value;
use std::collections::BTreeMap;

/// Options of `bench workers`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Packet threads beside one, each on a processor of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=16))]
    workers: u32,
    /// Ports, at least one for each worker
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=32))]
    ports: u32,
    /// Flows that enter by each port
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    flows: u32,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(60..=1514))]
    packet: u32,
    /// Packets handed to a worker at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// One load; both without it
    #[arg(long, value_enum)]
    load: Option<Load>,
    /// Packets of a run, in thousands
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    thousands: u32,
    /// Measured runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of traffic, router and the spread of flows
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn packets(&self) -> u64 {
        u64::from(self.thousands) * 1_000
    }
}

/// Measures each load with several workers and with one, in turns.
///
/// # Errors
/// Too few processors, a router that cannot be set up, a packet that is lost.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    check(options)?;
    for load in options.load.map_or_else(|| vec![Load::Even, Load::Skewed], |load| vec![load]) {
        sink.point(&measure(options, load)?)?;
    }
    Ok(())
}

fn check(options: &Options) -> Result<(), BenchError> {
    if options.ports < options.workers {
        return Err(BenchError::Options("--ports must be at least --workers".to_owned()));
    }
    let processors = machine::processors();
    if processors < options.workers as usize {
        return Err(BenchError::Environment {
            what: format!("{} workers", options.workers),
            why: format!("there are {processors} processors; give fewer with --workers"),
        });
    }
    Ok(())
}

fn measure(options: &Options, load: Load) -> Result<Point, BenchError> {
    let mut several = Crew::new(options, load, options.workers as usize)?;
    let mut alone = Crew::new(options, load, 1)?;
    for crew in [&mut several, &mut alone] {
        crew.run(options.packets() / 4)?;
    }
    let before = perhop_bench::allocations();
    let (mut many, mut one, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..options.runs {
        for first in [run % 2 == 0, run % 2 != 0] {
            let (crew, into) = if first { (&mut several, &mut many) } else { (&mut alone, &mut one) };
            let timed = crew.run(options.packets())?;
            into.push(timed.ns_per_packet);
            warnings.extend(timed.warnings);
        }
    }
    let allocations = perhop_bench::allocations().since(before).count;
    let mut point = Point { bench: "workers", ..Point::default() };
    point.set_ns(&many);
    let all = 2 * options.packets() * u64::from(options.runs);
    point.allocs_per_op = Some((allocations as f64 / all as f64 * 1e4).round() / 1e4);
    let params: [(&str, Value); 9] = [
        ("workers", options.workers.into()),
        ("placement", "static".into()),
        ("load", load.name().into()),
        ("ports", options.ports.into()),
        ("flows", options.flows.into()),
        ("packet", options.packet.into()),
        ("batch", options.batch.into()),
        ("window", several.window().into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let faster: Vec<f64> = one.iter().zip(&many).map(|(one, many)| one / many).collect();
    let rate = |ns: &[f64]| Spread::of(&ns.iter().map(|ns| 1e3 / ns).collect::<Vec<_>>());
    point.metrics.insert("speedup", Metric::new(Spread::of(&faster), "×"));
    point.metrics.insert("packets_per_second", Metric::new(rate(&many), "Mpacket/s"));
    point.metrics.insert("one_worker_ns", Metric::new(Spread::of(&one), "ns"));
    point.metrics.insert("one_worker_packets_per_second", Metric::new(rate(&one), "Mpacket/s"));
    for (name, share) in several.crossed() {
        point.metrics.insert(name, Metric::new(Spread::exactly(share * 100.0), "%"));
    }
    point.warnings = once_each(warnings);
    point.warn_of_spread();
    Ok(point)
}

/// Warnings that differ in more than figures; the last of each.
fn once_each(warnings: Vec<String>) -> Vec<String> {
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let by_words: BTreeMap<String, String> = warnings.into_iter().map(|w| (words(&w), w)).collect();
    by_words.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real threads: nothing is lost, everything is counted, and flows keep their order.
    #[test]
    fn threads_lose_and_reorder_nothing() {
        let options = Options {
            workers: 3,
            ports: 4,
            flows: 200,
            packet: 64,
            batch: 32,
            load: None,
            thousands: 20,
            runs: 1,
            seed: 7,
            json: true,
        };
        for load in [Load::Even, Load::Skewed] {
            let mut crew = Crew::new(&options, load, 3).unwrap();
            crew.watch_order();
            crew.run(options.packets()).unwrap();
            crew.run(options.packets()).unwrap();
            let (sent, disorder) = crew.order();
            assert!(sent >= 2 * options.packets());
            assert_eq!(disorder, 0, "{load:?}");
            crew.check_conservation().unwrap();
            let share =
                |name: &str| crew.crossed().find(|(n, _)| *n == name).map(|(_, share)| share).unwrap();
            assert!(share("steered") > 0.2 && share("handed_over") > 0.2, "{load:?}");
        }
    }
}
