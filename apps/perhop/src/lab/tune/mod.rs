//! `perhop lab tune allocation`.

mod points;
mod steps;

use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::{Args, ValueEnum};
use perhop_allocate::tune::{Constraint, TunePlan, TuneStep, tune};
use points::Points;
use serde_json::json;

/// What can be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Threshold allocation
    Allocation,
}

/// Looks for the settings of threshold allocation that use the most of what is allocated, inside a constraint: the
/// lower threshold is raised step by step, then the upper one gives way, then the steps are tried. Every point is judged
/// by the fluid model.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab tune allocation --type 1 --requests 0.02\n\n\
    Exit codes: 0 settings were found; 1 none keeps the constraint.")]
pub struct TuneArgs {
    /// What to tune
    #[arg(value_enum)]
    what: What,
    /// Published kind of the 60 sources: 1 Pareto, 2 exponential, 3 short bursts
    #[arg(long = "type", value_name = "TYPE", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    kind: u8,
    /// Runs of 3600 s that each point is the mean of
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Most requests to the broker a second
    #[arg(long, value_name = "RATE", default_value_t = 0.05, value_parser = requests, allow_negative_numbers = true)]
    requests: f64,
    /// Largest share of the traffic above the allocation, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = share, allow_negative_numbers = true)]
    over_limit: f64,
    /// Print one JSON object a step, then the best and the curve
    #[arg(long)]
    json: bool,
}

/// A rate of requests; more than the broker could ever be asked keeps nothing out, and means the same.
fn requests(text: &str) -> Result<f64, String> {
    in_range(text, f64::MAX, "a number of requests a second, 0 or more")
}

/// A share of one whole.
fn share(text: &str) -> Result<f64, String> {
    in_range(text, 1.0, "a number from 0 to 1")
}

fn in_range(text: &str, most: f64, allowed: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("allowed is {allowed}"))
}

/// Runs the procedure and prints its steps and the trade-off.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &TuneArgs) -> Result<Verdict, AppError> {
    let What::Allocation = args.what;
    let constraint = Constraint { over_limit: args.over_limit, requests_per_sec: args.requests };
    let plan = TunePlan { constraint, ..TunePlan::default() };
    let mut points = Points::default();
    let tuned = tune(&plan, |law| points.evaluate(args.kind, args.seeds, law));
    let line = |step: &TuneStep| steps::line(step, points.spread(&step.config));
    let mut out = Output::new();
    if args.json {
        for step in &tuned.steps {
            out.json(&json!({ "step": line(step) }))?;
        }
        out.json(&json!({
            "model": "fluid",
            "type": args.kind,
            "sim_s": SIMULATED_S,
            "seeds": args.seeds,
            "best": tuned.best.as_ref().map(line),
            "curve": tuned.curve.iter().map(line).collect::<Vec<_>>(),
        }))?;
    } else {
        out.text(format!("{}\n{}", model(args), steps::text(&tuned, &points)))?;
    }
    out.flush()?;
    Ok(Verdict::failed_if(tuned.best.is_none()))
}

/// How long each run of the model is, behind its warm-up of 200 s: as `FluidConfig::simulation` has it.
const SIMULATED_S: u64 = 3600;

/// What the figures come from, for a reader.
fn model(args: &TuneArgs) -> String {
    let sources = match args.kind {
        1 => "Pareto periods of 2.4 s and 3.6 s, 32 kbit/s",
        2 => "exponential periods of 1 s, 26 kbit/s",
        _ => "Pareto periods of 0.24 s and 3.6 s, 128 kbit/s",
    };
    let seeds = match args.seeds {
        1 => "seed 0".to_owned(),
        n => format!("seeds 0 to {}; +- is half the 95 % interval of a mean over them", n - 1),
    };
    format!(
        "Fluid model: 60 on-off sources ({sources}), a link of 10 Mbit/s, a broker that answers after 10 ms; {SIMULATED_S} s \
         behind 200 s, {seeds}.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_mean_nothing_are_refused() {
        for text in ["nan", "-1", "-3", "inf", "x", ""] {
            assert!(requests(text).is_err() && share(text).is_err(), "{text}");
        }
        assert!(share("5").is_err() && share("1.01").is_err());
        assert_eq!((share("1"), share("0"), requests("5")), (Ok(1.0), Ok(0.0), Ok(5.0)));
    }
}
