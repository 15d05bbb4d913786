//! `bench flows`: what the connection table does for a packet, as flows grow.
//!
//! Three works: a packet of a known flow finds its connection with the verdict kept there (`look_up`, alone and with new
//! flows among them), a flow's first packet is given a connection and compared with one filter (`insert`), and connections
//! that went silent are forgotten (`age_out`). All go through the element of the packet path, which looks up 32 packets of
//! a batch side by side and asks for their memory before it needs it; that it counts each flow's packets and octets and
//! notes when it came is in the times. Real-time detection does not run: `bench detection` has it. Flows come in seeded
//! random order, and connections lie in memory in another. Frames lie in more memory than the last-level cache holds;
//! copying and parsing them is not timed, and leaves headers near as it does in a router. The clock given to the element is
//! virtual.

mod table;

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::memory::bytes_per_flow;
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use table::{Counted, Table, Took};

/// Options of `bench flows`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent flows, as often as wanted; without it 1,000, 100,000 and 1,000,000
    #[arg(long, num_args = 1.., value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    flows: Vec<u32>,
    /// Per cent of packets that are the first of their flow; without it 0 and 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    new_flows: Option<u32>,
    /// Packets handed over at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// Seed of everything
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    LookUp,
    Insert,
    AgeOut,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::LookUp => "look_up",
            Self::Insert => "insert",
            Self::AgeOut => "age_out",
        }
    }

    fn op(self) -> &'static str {
        if self == Self::LookUp { "packet" } else { "flow" }
    }
}

/// Flows without it.
const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
/// Flows of a run that are put in and forgotten, at the least: a small table is filled and emptied several times.
const LEAST_FLOWS: u32 = 100_000;

/// Measures every size.
///
/// # Errors
/// Flows that are not found, not put in or not forgotten.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let bytes = bytes_per_flow();
    for flows in sizes(&options.flows) {
        let shares = options.new_flows.map_or_else(|| vec![0, 5], |n| vec![n]);
        let mut points = Vec::new();
        for new_per_cent in shares {
            points.push(look_up(options, flows, new_per_cent)?);
        }
        points.extend(come_and_go(options, flows)?);
        for mut point in points {
            point.params.insert("cpu", cpu.into());
            point.metrics.insert("bytes_per_flow", Metric::new(Spread::exactly(bytes), "B"));
            sink.point(&point)?;
        }
    }
    Ok(())
}

fn sizes(asked: &[u32]) -> Vec<u32> {
    if asked.is_empty() { SIZES.to_vec() } else { asked.to_vec() }
}

/// How often a table of so many flows is filled and emptied in a run.
fn cycles(flows: u32) -> u32 {
    LEAST_FLOWS.div_ceil(flows)
}

/// Packets of flows that are known, but for the share that is not.
fn look_up(options: &Options, flows: u32, new_per_cent: u32) -> Result<Point, BenchError> {
    let mut table = Table::new(flows, new_per_cent, options.batch, options.seed)?;
    table.establish();
    table.reach_steady_number();
    let watch = Watch::start();
    let before = table.counted();
    let mut took = Took::default();
    let mut ns = Vec::new();
    for _ in 0..options.measured.runs {
        let round = table.round();
        ns.push(round.ns_each());
        took.add(round);
    }
    let new = check_look_up(table.counted().since(before), took.ops, table.astray(), new_per_cent)?;
    let mut point = point(options, Work::LookUp, flows, &ns, took, watch.warnings());
    point.params.insert("new_flows_pct", new_per_cent.into());
    let metrics = [
        ("new_flows", new, "%"),
        ("connections", f64::from(table.connections()), "flow"),
        ("frame_memory", table.frame_bytes() as f64, "B"),
    ];
    for (name, value, unit) in metrics {
        point.metrics.insert(name, Metric::new(Spread::exactly(value), unit));
    }
    Ok(point)
}

/// Every packet met its verdict or made its flow's, and as many were new as were to be. Per cent of packets that were.
fn check_look_up(counted: Counted, packets: u64, astray: u64, new_per_cent: u32) -> Result<f64, BenchError> {
    let new = counted.created as f64 * 100.0 / packets.max(1) as f64;
    let met = counted.hits + counted.created;
    let wanted = f64::from(new_per_cent);
    // Which places have new flows is drawn, so their share is about what was asked; none at all is none.
    let about = if new_per_cent == 0 { 0.0 } else { 0.5 };
    if met != packets || astray > 0 || (new - wanted).abs() > about {
        return Err(BenchError::Wrong(format!(
            "of {packets} packets {} met their verdict, {} were of a new flow, {astray} have another class",
            counted.hits, counted.created
        )));
    }
    Ok(new)
}

/// Flows that come, are seen once more, and go.
fn come_and_go(options: &Options, flows: u32) -> Result<[Point; 2], BenchError> {
    let mut table = Table::new(flows, 0, options.batch, options.seed)?;
    let watch = Watch::start();
    let (mut ns, mut took) = ([Vec::new(), Vec::new()], [Took::default(); 2]);
    // The first run brings the memory near and is not counted.
    for run in 0..=options.measured.runs {
        let before = table.counted();
        let mut of_run = [Took::default(); 2];
        for _ in 0..cycles(flows) {
            of_run[0].add(table.establish());
            table.touch();
            of_run[1].add(table.age_out());
        }
        check_come_and_go(table.counted().since(before), of_run[0].ops, table.connections())?;
        if run > 0 {
            for (at, of_run) in of_run.into_iter().enumerate() {
                ns[at].push(of_run.ns_each());
                took[at].add(of_run);
            }
        }
    }
    let warnings = watch.warnings();
    Ok([(Work::Insert, 0), (Work::AgeOut, 1)].map(|(work, at)| {
        let mut point = point(options, work, flows, &ns[at], took[at], warnings.clone());
        let often = f64::from(cycles(flows));
        point.metrics.insert("cycles", Metric::new(Spread::exactly(often), ""));
        point
    }))
}

/// Every flow was made and forgotten.
fn check_come_and_go(counted: Counted, flows: u64, left: u32) -> Result<(), BenchError> {
    if counted.created != flows || counted.expired != flows || left > 0 {
        return Err(BenchError::Wrong(format!(
            "of {flows} flows {} were put in and {} forgotten, {left} are left",
            counted.created, counted.expired
        )));
    }
    Ok(())
}

fn point(options: &Options, work: Work, flows: u32, ns: &[f64], took: Took, warnings: Vec<String>) -> Point {
    let mut point = Point { bench: "flows", op: work.op(), ..Point::default() };
    point.set_ns(ns);
    point.allocs_per_op = Some(took.allocations as f64 / took.ops.max(1) as f64);
    point.params.extend([
        ("flows", flows.into()),
        ("work", work.name().into()),
        ("batch", options.batch.into()),
        ("seed", options.seed.into()),
    ]);
    point.warnings = warnings;
    point.warn_of_spread();
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let measured = Runs { runs: 2, cpu: None, json: true };
        Options { flows: Vec::new(), new_flows: None, batch: 64, seed: 3, measured }
    }

    #[test]
    fn sizes_are_those_asked_for_or_all() {
        assert_eq!(sizes(&[]), SIZES);
        assert_eq!(sizes(&[7, 5]), [7, 5]);
    }

    #[test]
    fn a_run_has_enough_flows_whatever_the_size() {
        assert_eq!([1, 1_000, 30_000, 100_000, 1_000_000].map(cycles), [100_000, 100, 4, 1, 1]);
    }

    #[test]
    fn a_look_up_that_misses_or_goes_astray_is_no_measurement() {
        let counted = |hits, created| Counted { hits, created, expired: 0 };
        assert!(check_look_up(counted(1_000, 0), 1_000, 0, 0).is_ok());
        assert!(check_look_up(counted(999, 1), 1_000, 0, 0).is_err(), "one was not known");
        assert!(check_look_up(counted(999, 0), 1_000, 0, 0).is_err(), "one was classified again");
        assert!(check_look_up(counted(1_000, 0), 1_000, 1, 0).is_err(), "one has another class");
        let new = check_look_up(counted(948, 52), 1_000, 0, 5).unwrap();
        assert!((new - 5.2).abs() < 1e-9);
        assert!(check_look_up(counted(900, 100), 1_000, 0, 5).is_err(), "too many were new");
    }

    #[test]
    fn a_flow_that_stays_or_is_turned_away_is_no_measurement() {
        let counted = |created, expired| Counted { hits: 0, created, expired };
        assert!(check_come_and_go(counted(10, 10), 10, 0).is_ok());
        assert!(check_come_and_go(counted(9, 9), 10, 0).is_err());
        assert!(check_come_and_go(counted(10, 9), 10, 1).is_err());
    }

    #[test]
    fn points_say_what_was_done() {
        let options = options();
        let took = Took { ns: 4_000, ops: 8, allocations: 2 };
        let point = point(&options, Work::AgeOut, 12, &[400.0, 600.0], took, Vec::new());
        assert_eq!((point.bench, point.op, point.runs), ("flows", "flow", 2));
        assert_eq!(point.params["work"], "age_out");
        assert_eq!(point.params["flows"], 12);
        assert_eq!(point.allocs_per_op, Some(0.25));
        assert_eq!((point.ns_per_op.median, point.mops), (500.0, 2.0));
    }
}
