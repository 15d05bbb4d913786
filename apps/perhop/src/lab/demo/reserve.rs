//! `perhop demo --reserve`: the built-in scenario `demo-reserve` in the simulator, with what was said to who asked.

use super::super::jobs::{self, Mode, Plan};
use super::super::{find, results};
use super::DemoArgs;
use crate::error::{AppError, LabCommandError, Verdict};
use crate::interrupt::watch_signals;
use crate::output::Output;
use perhop_measure::details::directory;
use perhop_report::terminal::scenario_tables;
use perhop_scenario::drawing::draw;

/// Name of the scenario.
const SCENARIO: &str = "demo-reserve";

/// Runs it and prints what became of both reservations and their calls.
pub(super) fn run(args: &DemoArgs) -> Result<Verdict, AppError> {
    let found = find::shipped(SCENARIO)
        .ok_or_else(|| LabCommandError::Unknown { given: SCENARIO.to_owned(), near: None })?;
    let ready = find::read(&found, &[])?;
    results::check_writable(&args.out)?;
    let failed = |source| LabCommandError::Namespaces { scenario: SCENARIO.to_owned(), source };
    let interrupted = watch_signals(None).map_err(failed)?;
    let (seed, repetitions, trace) = (args.seed, 1, None);
    let plan = Plan { mode: Mode::Sim, seed, repetitions, trace, out: &args.out, interrupted: &interrupted };
    let (experiment, wall_s) = jobs::run(&ready, &plan)?;
    let drawn = draw(&ready.loaded.product);
    let result = directory(&experiment, std::iter::empty(), drawn.clone(), Some(wall_s));
    let page = results::write(&args.out, &result)?;
    let said = experiment.product.recordings.iter().flat_map(|recording| &recording.reserved);
    let said: Vec<&str> = said.flat_map(|record| &record.said).map(String::as_str).collect();
    let ok = result.result.expect.iter().all(|expect| expect.ok == Some(true));
    let tables = scenario_tables(&result.result);
    let mut output = Output::new();
    output.text(format!(
        "\n{drawn}\n{why}\n{said}\n\n{tables}\nsimulated {length}\nreport: {page}\n",
        why = ready.loaded.product.why.trim(),
        said = said.join("\n"),
        length = ready.loaded.product.length(),
        page = page.display(),
    ))?;
    output.flush()?;
    Ok(Verdict::failed_if(!ok))
}
