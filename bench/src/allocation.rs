//! `bench allocation`: one step of the allocation of many classes.
//!
//! A step closes an interval of every class, has the law decide, answers every request, and looks at every queue. Loads
//! swing differently for every class, so that many steps end in a request.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use perhop_allocate::{Allocator, Answer, Input, Output, Settings, step_many};
use perhop_units::{Bytes, Duration, Instant, Rate};

/// Options of `bench allocation`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Classes, 1 to 100,000
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    classes: u32,
    /// Measured runs, each of 20 steps
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Steps of a run.
const STEPS: u64 = 20;
/// Between two steps.
const INTERVAL: Duration = Duration::from_millis(800);

/// Measures.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let settings = Settings::new(Rate::from_kbit(64), Rate::from_mbit(100));
    let mut classes = Vec::new();
    for _ in 0..options.classes {
        let class =
            Allocator::new(&settings, Instant::ZERO).map_err(|e| BenchError::Wrong(format!("{e}")))?;
        classes.push(class);
    }
    let mut allocated: Vec<Rate> = classes.iter().map(Allocator::allocated).collect();
    for class in &mut classes {
        while class.poll_output().is_some() {}
    }
    let watch = Watch::start();
    let (mut ns, mut requests, mut number) = (Vec::new(), 0, 0);
    let mut asks = Vec::with_capacity(classes.len());
    // The first run brings the memory near and is not counted.
    for run in 0..=options.runs {
        let (mut took, before) = (0, requests);
        for _ in 0..STEPS {
            number += 1;
            let now = Instant(number * INTERVAL.as_nanos());
            let loads: Vec<Input> = loads(&allocated, number);
            let start = machine::thread_time_ns();
            step_many(&mut classes, now, loads, |at, output| {
                if let Output::Ask { id, rate, .. } = output {
                    asks.push((at, id, rate));
                }
            });
            requests += asks.len();
            for (at, id, rate) in asks.drain(..) {
                classes[at].handle_input(now, Input::Answer { id, answer: Answer::Granted(rate) });
                while classes[at].poll_output().is_some() {}
                allocated[at] = classes[at].allocated();
            }
            let queues = std::iter::repeat_n(Input::Queue(Bytes(500)), allocated.len());
            step_many(&mut classes, now, queues, |_, _| {});
            took += machine::thread_time_ns() - start;
        }
        if run == 0 {
            requests = before;
        } else {
            ns.push(took as f64 / STEPS as f64);
        }
    }
    let mut point = Point { bench: "allocation", op: "step", ..Point::default() };
    point.set_ns(&ns);
    point.params.insert("classes", options.classes.into());
    let ms: Vec<f64> = ns.iter().map(|ns| ns / 1e6).collect();
    point.metrics.insert("step", Metric::new(Spread::of(&ms), "ms"));
    let asked = requests as f64 / (STEPS * u64::from(options.runs)) as f64;
    point.metrics.insert("requests_per_step", Metric::new(Spread::exactly(asked), "request"));
    point.warnings = watch.warnings();
    sink.point(&point)?;
    Ok(())
}

/// What each class has carried since the last step.
fn loads(allocated: &[Rate], step: u64) -> Vec<Input> {
    let swing = |at: usize| 60 + (at as u64 * 7 + step * 13) % 40;
    let bits = |(at, rate): (usize, &Rate)| rate.0 * swing(at) / 125;
    allocated.iter().enumerate().map(|one| Input::Counted { bits: bits(one), carried: None }).collect()
}
