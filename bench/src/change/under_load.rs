//! `bench change --under-load`: what a stream of changes takes from the packets of a router.
//!
//! The example's router with many filters forwards established flows in seeded random order from memory to memory, one
//! worker on one processor, by the machine's clock. On another processor its control commits changes at a steady pace through the
//! router's transactions: a filter is put in, the next change takes it out again, and every tenth change is of the rate
//! guaranteed to the class that all packets go by. As in the engine, the worker applies a slice of a change between two batches
//! and what it replaced goes back to control. Turns with changes and without take place one after the other, the order
//! changes from run to run, and each begins with a round over all frames that is not counted: after changes, verdicts kept
//! with flows are out of date, and at the beginning of changes they are not yet. No packet may be lost, leave behind a later
//! one, or have another class because of filters that do not match it.

use super::changes::{self, Changes, Report};
use super::packets::{self, FRAME, Packets, Shape};
use super::timed::Timed;
use crate::error::BenchError;
use crate::machine::{self, DISTURBED, Watch};
use crate::report::{Metric, Point, Spread};
use crate::router::{Detection, Router, Setup};
use crate::turns::Runs;
use std::sync::mpsc::sync_channel;

/// Options of `bench change` for changes under load.
#[derive(Clone, Debug, clap::Args)]
pub struct UnderLoad {
    /// What changes cost the packets of a router that forwards
    #[arg(long)]
    pub under_load: bool,
    /// Established flows
    #[arg(long, requires = "under_load", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    flows: u32,
    /// Changes committed a second
    #[arg(long, requires = "under_load", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    changes_per_second: u32,
    /// Time of a turn, behind its first round, in ms
    #[arg(long, requires = "under_load", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    turn_ms: u32,
    /// Packets handed to the router at a time
    #[arg(long, requires = "under_load", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    packets: u32,
    /// Processor of the thread that changes; the first that does not forward without it
    #[arg(long, requires = "under_load")]
    control_cpu: Option<usize>,
    /// Seed of traffic and router
    #[arg(long, requires = "under_load", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
}

/// Rate of the port that packets leave by: high enough not to be the limit.
const RATE: u64 = 100_000_000_000;
/// Messages under way between the two threads; one change is at a time.
const LINE: usize = 64;
/// Changes short of those asked for, beyond which a warning says so.
const SHORT: f64 = 0.05;

/// What a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Undisturbed,
    Changes,
}

/// The turns of run `run`: neither is always the first.
fn turns(run: u32) -> [Mode; 2] {
    if run.is_multiple_of(2) {
        [Mode::Undisturbed, Mode::Changes]
    } else {
        [Mode::Changes, Mode::Undisturbed]
    }
}

/// Measures. An operation is a packet while the router is changed.
///
/// # Errors
/// Too few processors, a change that is refused, a packet that is lost, reordered or has another class.
pub fn run(options: &UnderLoad, filters: u32, measured: &Runs) -> Result<Point, BenchError> {
    let cpus = processors(measured.cpu, options.control_cpu, machine::processors())?;
    let flows = options.flows as usize;
    let shape = Shape { flows, batch: options.packets as usize, seed: options.seed };
    let setup = Setup {
        rate: RATE,
        filters: filters as usize,
        // A table that is more than three quarters full forgets connections of one packet early.
        connections: (options.flows + options.flows / 2).max(4_096),
        detection: Detection::On,
        abr: None,
    };
    let pool = shape.pool();
    machine::pin_to(Some(cpus.forward))?;
    let (control, worker) = Router::new(&setup, pool.clone(), options.seed)?.into_halves();
    let (jobs, to_apply) = sync_channel(LINE);
    let (tell, told) = sync_channel(LINE);
    let (answer, reports) = sync_channel(1);
    let lines = changes::Lines { jobs, told, reports: answer };
    let changes = Changes::new(control, lines, options.changes_per_second, filters);
    let lines = packets::Lines { jobs: to_apply, told: tell, reports };
    let mut packets = Packets::new(worker, pool, shape, lines);
    machine::pin_to(Some(cpus.control))?;
    let (measurement, watch) = std::thread::scope(|scope| {
        // Stays where this thread is now.
        scope.spawn(|| changes.run());
        machine::pin_to(Some(cpus.forward))?;
        let watch = Watch::start();
        let done = measure(&mut packets, options, measured.runs);
        // Without the other end of its lines control comes to an end.
        drop(packets);
        done.map(|measurement| (measurement, watch.warnings()))
    })?;
    let mut point = measurement.point(options.changes_per_second);
    point.params.extend([
        ("under_load", true.into()),
        ("flows", options.flows.into()),
        ("filters", filters.into()),
        ("changes_per_second", options.changes_per_second.into()),
        ("packet", FRAME.into()),
        ("batch", options.packets.into()),
        ("turn_ms", options.turn_ms.into()),
        ("cpu", cpus.forward.into()),
        ("control_cpu", cpus.control.into()),
        ("seed", options.seed.into()),
    ]);
    point.warnings.splice(0..0, watch);
    Ok(point)
}

/// Who runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processors {
    forward: usize,
    control: usize,
}

/// Of so many processors the one asked for each thread; without, the last forwards and the first that is left controls.
fn processors(forward: Option<usize>, control: Option<usize>, all: usize) -> Result<Processors, BenchError> {
    let forward = forward.unwrap_or(all.saturating_sub(1));
    let control = control.unwrap_or(usize::from(forward == 0));
    if control == forward {
        return Err(BenchError::Options(format!("both threads were to run on processor {forward}")));
    }
    if all < 2 {
        return Err(BenchError::Environment {
            what: "changing a router while it forwards".to_owned(),
            why: "there is one processor; it takes one for packets and one for control".to_owned(),
        });
    }
    Ok(Processors { forward, control })
}

fn measure(packets: &mut Packets, options: &UnderLoad, runs: u32) -> Result<Measurement, BenchError> {
    packets.establish()?;
    packets.round();
    let mut measurement = Measurement::default();
    for run in 0..runs {
        for mode in turns(run) {
            let changes = mode == Mode::Changes;
            if changes {
                packets.change(true)?;
            }
            packets.round();
            let timed = packets.timed(u64::from(options.turn_ms) * 1_000_000);
            // What control says goes first: it may be the cause.
            let report = if changes { packets.change(false)? } else { None };
            measurement.add(timed?, report);
        }
    }
    Ok(measurement)
}

/// Turns that were measured, by run.
#[derive(Debug, Default)]
struct Measurement {
    undisturbed: Vec<Timed>,
    changed: Vec<(Timed, Report)>,
}

impl Measurement {
    fn add(&mut self, timed: Timed, report: Option<Report>) {
        match report {
            Some(report) => self.changed.push((timed, report)),
            None => self.undisturbed.push(timed),
        }
    }

    /// What it comes to, when so many changes a second were asked for.
    fn point(&self, changes_per_second: u32) -> Point {
        let changed = || self.changed.iter().map(|(timed, _)| *timed);
        let per = |value: u64, of: u64| value as f64 / of.max(1) as f64;
        let each = |value: &dyn Fn(Timed) -> f64| -> Vec<f64> { changed().map(value).collect() };
        let ratio = |ns: &dyn Fn(&Timed) -> f64| -> Vec<f64> {
            self.undisturbed.iter().zip(changed()).map(|(a, b)| ns(a) * 100.0 / ns(&b)).collect()
        };
        let undisturbed: Vec<f64> = self.undisturbed.iter().map(Timed::ns_each).collect();
        let packets: u64 = changed().map(|t| t.packets).sum();
        let mut point = Point { bench: "change", ..Point::default() };
        point.set_ns(&each(&|t| t.ns_each()));
        point.allocs_per_op = Some(per(changed().map(|t| t.allocations).sum(), packets));
        let rates = each(&|t| t.changes as f64 * 1e9 / t.wall_ns.max(1) as f64);
        let commits: Vec<f64> =
            self.changed.iter().map(|(_, r)| per(r.commit_ns, r.committed) / 1e3).collect();
        let metrics: [(&str, Vec<f64>, &str); 12] = [
            ("undisturbed_ns", undisturbed, "ns"),
            ("of_undisturbed", ratio(&Timed::ns_each), "%"),
            ("of_undisturbed_wall", ratio(&Timed::wall_ns_each), "%"),
            ("changes", rates.clone(), "1/s"),
            ("commit", commits, "µs"),
            ("worker_pause", each(&|t| per(t.stops.ns, t.stops.count)), "ns"),
            ("worker_pause_longest", each(&|t| t.stops.longest_ns as f64), "ns"),
            ("worker_pause_longest_wall", each(&|t| t.stops.longest_wall_ns as f64), "ns"),
            ("worker_pauses", each(&|t| per(t.stops.count, t.changes)), "1/change"),
            ("worker_pause_share", each(&|t| per(t.stops.ns * 100, t.ns)), "%"),
            ("verdicts_tested", each(&|t| per(t.verdicts.revalidated * 100, t.packets)), "%"),
            ("verdicts_made", each(&|t| per(t.verdicts.classified * 100, t.packets)), "%"),
        ];
        for (name, values, unit) in metrics {
            point.metrics.insert(name, Metric::new(Spread::of(&values), unit));
        }
        point.warn_of_spread();
        point.warnings.extend(self.short(Spread::of(&rates).median, changes_per_second));
        point.warnings.extend(self.off_the_wall());
        point
    }

    /// Fewer changes than asked for.
    fn short(&self, rate: f64, wanted: u32) -> Option<String> {
        let wanted = f64::from(wanted);
        (rate < wanted * (1.0 - SHORT))
            .then(|| format!("{rate:.0} changes a second were committed, not {wanted:.0}"))
    }

    /// The processor was not the thread's for all the time.
    fn off_the_wall(&self) -> Option<String> {
        let all = || self.undisturbed.iter().chain(self.changed.iter().map(|(timed, _)| timed));
        let (ns, wall_ns) = (all().map(|t| t.ns).sum::<u64>(), all().map(|t| t.wall_ns).sum::<u64>());
        let more = wall_ns as f64 / ns.max(1) as f64 - 1.0;
        (more > DISTURBED).then(|| {
            format!("by the wall's clock turns took {:.0} % longer than by the thread's", more * 100.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::timed::{Stops, Verdicts};
    use super::*;

    #[test]
    fn each_run_has_both_turns_and_neither_is_always_the_first() {
        assert_eq!(turns(0), [Mode::Undisturbed, Mode::Changes]);
        assert_eq!(turns(1), [Mode::Changes, Mode::Undisturbed]);
        let firsts = (0..8).filter(|run| turns(*run)[0] == Mode::Changes).count();
        assert_eq!(firsts, 4);
    }

    #[test]
    fn the_two_threads_are_on_different_processors() {
        let at = |forward, control| Processors { forward, control };
        assert_eq!(processors(None, None, 2).unwrap(), at(1, 0));
        assert_eq!(processors(Some(0), None, 4).unwrap(), at(0, 1));
        assert_eq!(processors(Some(2), Some(3), 4).unwrap(), at(2, 3));
        assert!(matches!(processors(Some(2), Some(2), 4), Err(BenchError::Options(_))));
        assert!(matches!(processors(None, None, 1), Err(BenchError::Environment { .. })));
    }

    fn timed(ns: u64, wall_ns: u64, changes: u64) -> Timed {
        let stops = Stops { count: 2 * changes, ns: 400 * changes, longest_ns: 700, longest_wall_ns: 800 };
        let verdicts = Verdicts { revalidated: 250, classified: 500, ..Verdicts::default() };
        Timed { packets: 1_000, ns, wall_ns, allocations: 3, changes, stops, verdicts }
    }

    #[test]
    fn a_point_says_what_is_left_of_the_undisturbed_rate() {
        let mut measurement = Measurement::default();
        for (without, with) in [(80_000, 100_000), (90_000, 100_000), (95_000, 100_000)] {
            measurement.add(timed(without, without, 0), None);
            measurement.add(timed(with, with, 10), Some(Report { committed: 20, commit_ns: 60_000 }));
        }
        let point = measurement.point(100_000);
        let median = |name: &str| point.metrics[name].value.median;
        assert_eq!((point.ns_per_op.median, point.runs), (100.0, 3));
        assert_eq!(point.metrics["of_undisturbed"].value, Spread { median: 90.0, min: 80.0, max: 95.0 });
        assert_eq!(point.metrics["of_undisturbed"].unit, "%");
        assert_eq!((median("undisturbed_ns"), median("of_undisturbed_wall")), (90.0, 90.0));
        // Ten changes in 100 µs, two stops each of 200 ns.
        assert_eq!((median("changes"), point.metrics["changes"].unit), (100_000.0, "1/s"));
        assert_eq!((median("worker_pause"), median("worker_pauses")), (200.0, 2.0));
        assert_eq!((median("worker_pause_longest"), median("worker_pause_longest_wall")), (700.0, 800.0));
        assert_eq!((median("worker_pause_share"), median("commit")), (4.0, 3.0));
        assert_eq!((median("verdicts_tested"), median("verdicts_made")), (25.0, 50.0));
        assert_eq!(point.allocs_per_op, Some(0.003));
        assert!(point.warnings.is_empty(), "{:?}", point.warnings);
    }

    #[test]
    fn changes_that_are_missing_and_time_of_others_are_said() {
        let mut measurement = Measurement::default();
        measurement.add(timed(100_000, 120_000, 0), None);
        measurement.add(timed(100_000, 100_000, 10), Some(Report::default()));
        let warnings = measurement.point(200_000).warnings;
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("100000 changes") && warnings[1].contains("10 %"), "{warnings:?}");
    }

    /// Real threads: changes are committed and applied while packets pass, and no packet is lost, reordered or misplaced.
    #[test]
    fn a_router_is_changed_while_it_forwards() {
        if machine::processors() < 2 {
            println!("SKIPPED a_router_is_changed_while_it_forwards: there is one processor");
            return;
        }
        let options = UnderLoad {
            under_load: true,
            flows: 300,
            changes_per_second: 2_000,
            turn_ms: 30,
            packets: 64,
            control_cpu: None,
            seed: 1,
        };
        // In a thread of its own, because it stays on one processor.
        let measured = Runs { runs: 2, cpu: None, json: true };
        let point = std::thread::spawn(move || run(&options, 200, &measured)).join().unwrap().unwrap();
        assert_eq!((point.bench, point.runs), ("change", 2));
        assert!(point.metrics["commit"].value.min > 0.0, "every turn with changes had some");
    }
}
