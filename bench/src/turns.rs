//! How often something is measured, and two things in turns.

use crate::error::BenchError;
use crate::report::{Metric, Point, Spread};

/// Options of every bench that measures on one processor.
#[derive(Clone, Debug, clap::Args)]
pub struct Runs {
    /// Measured runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Processor to run on; the last without it
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

/// The same work with something and without it.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// ns an operation of each run with it.
    with: Vec<f64>,
    /// And without.
    without: Vec<f64>,
}

impl Turns {
    /// Measures both as often as asked, in turns, so that neither is always the first; `measure` gives ns an operation.
    ///
    /// # Errors
    /// The first of `measure`.
    pub fn take<T>(
        runs: u32,
        with: &mut T,
        without: &mut T,
        mut measure: impl FnMut(&mut T) -> Result<f64, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut turns = Self::default();
        for run in 0..runs {
            if run % 2 == 0 {
                turns.with.push(measure(with)?);
                turns.without.push(measure(without)?);
            } else {
                turns.without.push(measure(without)?);
                turns.with.push(measure(with)?);
            }
        }
        Ok(turns)
    }

    /// Puts the times into a point, and what was added from run to run.
    pub fn describe(&self, point: &mut Point) {
        let added: Vec<f64> =
            self.with.iter().zip(&self.without).map(|(with, without)| with - without).collect();
        point.set_ns(&self.with);
        point.metrics.insert("without_ns", Metric::new(Spread::of(&self.without), "ns"));
        point.metrics.insert("added_ns", Metric::new(Spread::of(&added), "ns"));
    }
}
