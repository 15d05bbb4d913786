//! `bench workers`: several packet threads that are one router, beside one that does it alone.
//!
//! The example's router between two memories: each port has frames in memory that are copied into pooled buffers as a port
//! does, and what leaves by a port is copied out. Workers have their ports in turn. Under the load `even` flows are spread
//! evenly over workers, so of two workers half of the packets cross from the one to the other before they are sorted, and
//! half of them afterwards; under `skewed` one worker has four fifths of the packets. Not more than a window of packets is
//! under way, so that no ring overflows: a packet that is lost makes the measurement wrong. With `static` placement flows stay
//! with the worker that the hash names; with `adaptive` they go to another as a router would have them, and the measurement
//! begins when that has settled. Beside it stands the best static placement, made from what is known of the load. Time is that of the wall,
//! because what is measured is how much faster several processors are than one; on a machine that does other things too
//! it says so.

mod crew;
mod load;
mod options;
mod set_up;

use crate::error::BenchError;
use crate::machine;
use crate::report::{Metric, Point, Sink, Spread};
use crew::Crew;
use load::Load;
pub use options::Options;
use options::{Placed, Placing};
use serde_json::Value;
use std::collections::BTreeMap;

/// Measures each load with several workers and with one, in turns.
///
/// # Errors
/// Too few processors, a router that cannot be set up, a packet that is lost.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    check(options)?;
    for load in options.load.map_or_else(|| vec![Load::Even, Load::Skewed], |load| vec![load]) {
        let both = || vec![Placing::Static, Placing::Adaptive];
        for placing in options.placement.map_or_else(both, |placing| vec![placing]) {
            sink.point(&measure(options, load, placing)?)?;
        }
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

/// Most runs until placement has settled, each a quarter of a measured one.
const SETTLING: u32 = 40;

/// Runs until nothing has gone anywhere for a while. The longest that a worker stood still meanwhile, ns.
fn settle(crew: &mut Crew, packets: u64) -> Result<u64, BenchError> {
    crew.run(packets)?;
    let (mut still, mut before) = (0, crew.balance());
    for _ in 0..SETTLING {
        if before.is_none() || still == 5 {
            break;
        }
        crew.run(packets)?;
        let now = crew.balance();
        let same = now.as_ref().map(|report| report.stops) == before.as_ref().map(|report| report.stops);
        still = if same { still + 1 } else { 0 };
        before = now;
    }
    Ok(crew.take_longest_stop())
}

fn measure(options: &Options, load: Load, placing: Placing) -> Result<Point, BenchError> {
    let workers = options.workers as usize;
    let adaptive = placing == Placing::Adaptive;
    let of = if adaptive { Placed::Adaptive } else { Placed::Static };
    // What is measured, one worker, and where flows go to others the best that they could have done.
    let mut crews =
        vec![Crew::new(options, load, workers, of)?, Crew::new(options, load, 1, Placed::Static)?];
    if adaptive {
        crews.push(Crew::new(options, load, workers, Placed::Best)?);
    }
    let stops =
        crews.iter_mut().map(|crew| settle(crew, options.packets() / 4)).collect::<Result<Vec<_>, _>>()?;
    let before = crate::allocations();
    let (mut ns, mut warnings) = (vec![Vec::new(); crews.len()], Vec::new());
    for run in 0..options.runs as usize {
        for turn in 0..crews.len() {
            let at = (run + turn) % crews.len();
            let timed = crews[at].run(options.packets())?;
            ns[at].push(timed.ns_per_packet);
            warnings.extend(timed.warnings);
        }
    }
    let allocations = crate::allocations().since(before).count;
    let (several, many, one) = (&crews[0], &ns[0], &ns[1]);
    let mut point = Point { bench: "workers", ..Point::default() };
    point.set_ns(many);
    let all = crews.len() as u64 * options.packets() * u64::from(options.runs);
    point.allocs_per_op = Some((allocations as f64 / all as f64 * 1e4).round() / 1e4);
    let params: [(&str, Value); 9] = [
        ("workers", options.workers.into()),
        ("placement", (if adaptive { "adaptive" } else { "static" }).into()),
        ("load", load.name().into()),
        ("ports", options.ports.into()),
        ("flows", options.flows.into()),
        ("packet", options.packet.into()),
        ("batch", options.batch.into()),
        ("window", several.window().into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let ratio =
        |over: &[f64], under: &[f64]| -> Vec<f64> { over.iter().zip(under).map(|(a, b)| a / b).collect() };
    let rate = |ns: &[f64]| Spread::of(&ns.iter().map(|ns| 1e3 / ns).collect::<Vec<_>>());
    point.metrics.insert("speedup", Metric::new(Spread::of(&ratio(one, many)), "×"));
    point.metrics.insert("packets_per_second", Metric::new(rate(many), "Mpacket/s"));
    point.metrics.insert("one_worker_ns", Metric::new(Spread::of(one), "ns"));
    point.metrics.insert("one_worker_packets_per_second", Metric::new(rate(one), "Mpacket/s"));
    if let Some(best) = ns.get(2) {
        point.metrics.insert("best_static_speedup", Metric::new(Spread::of(&ratio(one, best)), "×"));
        let of_best: Vec<f64> = ratio(best, many).iter().map(|ratio| ratio * 100.0).collect();
        point.metrics.insert("of_best_static", Metric::new(Spread::of(&of_best), "%"));
    }
    if let Some(report) = several.balance() {
        for (name, n) in [
            ("buckets_moved", report.moves),
            ("connections_moved", report.connections),
            ("stops", report.stops),
        ] {
            point.metrics.insert(name, Metric::new(Spread::exactly(n as f64), ""));
        }
        point.metrics.insert("longest_stop", Metric::new(Spread::exactly(stops[0] as f64 / 1e3), "µs"));
    }
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
            placement: None,
            thousands: 20,
            runs: 1,
            seed: 7,
            json: true,
        };
        for load in [Load::Even, Load::Skewed] {
            let mut crew = Crew::new(&options, load, 3, Placed::Adaptive).unwrap();
            crew.watch_order();
            // Buckets go round while packets do.
            for turn in 0..4 {
                crew.shift((0..256).filter(|bucket| bucket % 4 != turn));
            }
            crew.run(options.packets()).unwrap();
            crew.shift((0..256).step_by(2));
            crew.run(options.packets()).unwrap();
            assert!(crew.take_longest_stop() > 0, "they have stood still for it");
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
