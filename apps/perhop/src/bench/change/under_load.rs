//! Changes while packets pass: a router's worker on one processor, its control on another.
//!
//! Control takes transactions of one operation each, as a client would send them: filters are put in and taken out, and a class
//! is given another rate. Each is validated, compiled and handed to the worker, which takes it over between two batches; the
//! answer says that it has. In turns nothing is changed.

use super::super::BenchError;
use super::super::forward::{Buffers, Case, Rig};
use super::super::machine::{self, Watch};
use super::super::report::{Metric, Point, Sink, Spread};
use super::super::router::{Detection, filter};
use super::super::traffic::{MIN_FRAME, Payload};
use super::Options;
use perhop_graph::control::{Control, Input, Output};
use perhop_graph::router::{Change, ChangeStep, RouterPlanner, Worker};
use perhop_io::clock;
use perhop_model::{Credentials, Kind, Name, Op, Outcome, Owner, Transaction, TxnId};
use perhop_units::Instant;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant as Clock};

/// One change in so many is one of a class, the others are of filters.
const CLASS_EVERY: u64 = 10;
/// Filters that are put in before the first of them is taken out again.
const AT_ONCE: u64 = 8;
/// Packets a batch.
const BATCH: usize = 256;
/// Virtual time a packet, ns: flows of a million are asked for often enough to stay.
const PACE_NS: u64 = 20_000;
/// Rounds over all flows a run, undisturbed and disturbed.
const ROUNDS: u32 = 4;

/// What the runs gave.
#[derive(Debug, Default)]
struct Runs {
    quiet_ns: Vec<f64>,
    changed_ns: Vec<f64>,
    /// Changes a second that were committed.
    changes: Vec<f64>,
    pauses: Vec<f64>,
    longest: Vec<f64>,
}

/// Measures.
///
/// # Errors
/// A router that cannot be set up, that refuses a change, or that loses a packet; fewer than two processors.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if machine::processors() < 2 {
        let what = "changes under load".to_owned();
        return Err(BenchError::Environment { what, why: "control needs a processor of its own".to_owned() });
    }
    let cpu = machine::pin_to(options.measured.cpu)?;
    let mut rig = Rig::new(case(options))?;
    sink.progress("flows are made known");
    rig.warm_up();
    let watch = Watch::start();
    let mut runs = Runs::default();
    let mut next = 0;
    for run in 0..options.measured.runs {
        sink.progress(&format!("run {} of {}", run + 1, options.measured.runs));
        // In turns, so that neither is always the first.
        for disturbed in [run % 2 == 0, run % 2 != 0] {
            if disturbed {
                changed(options, &mut rig, (&mut next, ROUNDS), cpu, &mut runs)?;
            } else {
                let took = (0..ROUNDS).map(|_| rig.timed_round()).sum::<Result<f64, _>>()?;
                runs.quiet_ns.push(took / f64::from(ROUNDS));
            }
        }
    }
    sink.point(&point(options, &rig, &runs, cpu, watch.warnings()))?;
    Ok(())
}

fn case(options: &Options) -> Case {
    Case {
        flows: options.flows as usize,
        filters: options.filters as usize,
        new_per_cent: 0,
        packet: MIN_FRAME,
        batch: BATCH,
        buffers: Buffers::Rotating,
        payload: Payload::Random,
        detection: Detection::Off,
        pace_ns: PACE_NS,
        seed: 1,
    }
}

/// So many rounds while control changes the router, from the `next`th change on.
fn changed(
    options: &Options,
    rig: &mut Rig,
    (next, rounds): (&mut u64, u32),
    cpu: usize,
    runs: &mut Runs,
) -> Result<(), BenchError> {
    let (to_worker, changes) = channel();
    let (to_control, applied) = channel();
    let over = AtomicBool::new(false);
    let (mut pauses, mut longest, mut paused) = (0u64, 0u64, 0u64);
    let (control, mut data) = rig.split();
    let (took, committed) = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            // Not permitted, it runs where it may.
            let _ = machine::pin(if cpu == 0 { 1 } else { 0 });
            let ways = Ways { to_worker, applied };
            let done = ways.client(control, next, options.changes_per_second, &over);
            drop(ways);
            done
        });
        let mut job: Option<Change> = None;
        let mut step = |worker: &mut Worker, now: Instant| {
            if job.is_none() {
                job = changes.try_recv().ok();
            }
            let Some(change) = &mut job else { return };
            let start = clock::monotonic().as_nanos();
            let done = worker.apply(now, change) == ChangeStep::Done;
            let pause = clock::monotonic().as_nanos() - start;
            (pauses, paused, longest) = (pauses + 1, paused + pause, longest.max(pause));
            if done {
                // What was replaced is let go by control.
                let _ = job.take().map(|change| to_control.send(change));
            }
        };
        let took = (0..rounds).map(|_| data.timed_round(&mut step)).sum::<Result<f64, _>>();
        over.store(true, Ordering::Release);
        // Control waits for the last answer.
        while !client.is_finished() {
            data.idle(&mut step);
        }
        (took, client.join())
    });
    let (committed, seconds) = committed.map_err(|_| BenchError::Wrong("control died".to_owned()))??;
    runs.changed_ns.push(took? / f64::from(rounds));
    runs.changes.push(committed as f64 / seconds);
    runs.pauses.push(paused as f64 / pauses.max(1) as f64);
    runs.longest.push(longest as f64);
    Ok(())
}

/// Between control and worker.
struct Ways {
    to_worker: Sender<Change>,
    applied: Receiver<Change>,
}

impl Ways {
    /// Commits changes at the rate asked for until it is over. How many, and in how many seconds.
    fn client(
        &self,
        control: &mut Control<RouterPlanner>,
        next: &mut u64,
        per_second: u32,
        over: &AtomicBool,
    ) -> Result<(u64, f64), BenchError> {
        let (start, first) = (Clock::now(), *next);
        let every = Duration::from_secs(1) / per_second;
        while !over.load(Ordering::Acquire) {
            self.commit(control, *next)?;
            *next += 1;
            let due = every * u32::try_from(*next - first).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok((*next - first, start.elapsed().as_secs_f64()))
    }

    fn commit(&self, control: &mut Control<RouterPlanner>, n: u64) -> Result<(), BenchError> {
        let id = TxnId((1 << 64 | u128::from(n)).to_be_bytes());
        let transaction = Box::new(Transaction::new(id, Owner::File, vec![operation(n)?]));
        let now = Instant::ZERO;
        control.handle_input(now, Input::Request { request: n, who: Credentials::ADMIN, transaction });
        while let Some(output) = control.poll_output() {
            match output {
                Output::Apply { ticket, change } => {
                    let gone = |_| BenchError::Wrong("the worker is gone".to_owned());
                    self.to_worker.send(change).map_err(|e| gone(e.to_string()))?;
                    drop(self.applied.recv().map_err(|e| gone(e.to_string()))?);
                    control.handle_input(now, Input::Applied { ticket });
                }
                Output::Reply { reply, .. } if reply.outcome == Outcome::Committed => return Ok(()),
                Output::Reply { reply, .. } => return Err(BenchError::Router(format!("{:?}", reply.errors))),
            }
        }
        Err(BenchError::Router("the router does not answer".to_owned()))
    }
}

/// The `n`th change. Those of filters come in groups: [`AT_ONCE`] are put in, then taken out.
fn operation(n: u64) -> Result<Op, BenchError> {
    let name = |text: &str| Name::new(text).map_err(|e| BenchError::Router(e.to_string()));
    if n % CLASS_EVERY == CLASS_EVERY - 1 {
        let fields = json!({ "guarantee": { "rate": 100_000 + n / CLASS_EVERY % 2 * 100_000 } });
        return Ok(Op::Patch { kind: Kind::Class, name: name(CLASS)?, fields, if_version: None });
    }
    let filters = n - n / CLASS_EVERY;
    let (group, at) = (filters / (2 * AT_ONCE), filters % (2 * AT_ONCE));
    let number = group * AT_ONCE + at % AT_ONCE;
    let name = name(&format!("changed/{number}"))?;
    Ok(if at < AT_ONCE {
        let mut spec = filter(number as u32);
        // Behind all others: those have the numbers of their places.
        spec["priority"] = json!(10_000_000 + number % 1_000_000);
        Op::Put { kind: Kind::Filter, name, spec, if_version: None, ttl_ms: None }
    } else {
        Op::Delete { kind: Kind::Filter, name, if_version: None, drain_ms: None }
    })
}

/// The class of the example whose rate is changed.
const CLASS: &str = "ef";

fn point(options: &Options, rig: &Rig, runs: &Runs, cpu: usize, warnings: Vec<String>) -> Point {
    let mut point = Point { bench: "change", ..Point::default() };
    point.set_ns(&runs.changed_ns);
    point.params.extend([
        ("under_load", true.into()),
        ("flows", options.flows.into()),
        ("filters", options.filters.into()),
        ("changes_per_second", options.changes_per_second.into()),
        ("cpu", cpu.into()),
    ]);
    let of: Vec<f64> = runs.quiet_ns.iter().zip(&runs.changed_ns).map(|(q, c)| q * 100.0 / c).collect();
    for (name, values, unit) in [
        ("undisturbed_ns", &runs.quiet_ns, "ns"),
        ("of_undisturbed", &of, "%"),
        ("changes", &runs.changes, "1/s"),
        ("worker_pause", &runs.pauses, "ns"),
        ("worker_pause_longest", &runs.longest, "ns"),
    ] {
        point.metrics.insert(name, Metric::new(Spread::of(values), unit));
    }
    let counters = rig.router.worker.flows().map(|flows| *flows.flow_counters()).unwrap_or_default();
    for (name, count) in [("classified", counters.classified), ("revalidated", counters.revalidated)] {
        point.metrics.insert(name, Metric::new(Spread::exactly(count as f64), "packet"));
    }
    point.warnings = warnings;
    if runs.changes.iter().any(|rate| *rate < 0.95 * f64::from(options.changes_per_second)) {
        point.warnings.push("control did not commit as many changes as it should".to_owned());
    }
    point.warn_of_spread();
    point
}

#[cfg(test)]
mod tests {
    use super::super::super::turns;
    use super::*;

    #[test]
    fn every_filter_that_is_put_in_is_taken_out_again() {
        let mut inside = std::collections::BTreeSet::new();
        let (mut most, mut classes) = (0, 0);
        for n in 0..10_000 {
            match operation(n).unwrap() {
                Op::Put { name, .. } => assert!(inside.insert(name.to_string())),
                Op::Delete { name, .. } => assert!(inside.remove(name.as_str()), "{name}"),
                Op::Patch { .. } => classes += 1,
                other => panic!("{other:?}"),
            }
            most = most.max(inside.len() as u64);
        }
        assert_eq!((most, classes), (AT_ONCE, 1_000));
    }

    #[test]
    fn a_router_is_changed_while_it_forwards() {
        let measured = turns::Runs { runs: 2, cpu: None, json: true };
        let options = Options {
            filters: 500,
            batch: None,
            under_load: true,
            flows: 20_000,
            changes_per_second: 2_000,
            measured,
        };
        let mut rig = Rig::new(case(&options)).unwrap();
        rig.warm_up();
        let (mut runs, mut next) = (Runs::default(), 0);
        changed(&options, &mut rig, (&mut next, 1), 0, &mut runs).unwrap();
        assert!(next > 3 && runs.changed_ns.len() == 1, "{next} {runs:?}");
    }
}
