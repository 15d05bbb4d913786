//! `perhop lab run ID|FILE…`.

mod args;

pub use args::RunArgs;

use super::jobs::{Mode, Plan};
use super::{find, jobs, programs, results};
use crate::error::{AppError, LabCommandError, Verdict};
use crate::interrupt::watch_signals;
use crate::output::{Output, progress};
use perhop_labrun::{LabError, Variants};
use perhop_measure::details::directory;
use perhop_netlink::{enter_user_namespace, is_privileged_for_net};
use perhop_report::{Outcome, ResultDirectory, scenario_tables};
use perhop_scenario::drawing::draw;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What the simulator has to end in when it is interrupted.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs them. All files are read and checked before the first one runs.
///
/// # Errors
/// See [`AppError`].
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let mut ready = Vec::new();
    let mut wrong = None;
    for given in &args.scenarios {
        match find::find(given).and_then(|found| find::read(&found, &args.set)) {
            Ok(mut scenario) => {
                let gone = Variants::leave(args.variants(), args.mode(), &mut scenario.loaded);
                if args.variants().is_none() && !gone.is_empty() {
                    let (id, gone) = (&scenario.loaded.product.id, gone.join(", "));
                    progress(format_args!("{id}: not run in namespaces: {gone}; --variants all runs them"));
                }
                ready.push(scenario);
            }
            Err(error) if args.scenarios.len() > 1 => {
                crate::output::complain(&error);
                wrong.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = wrong {
        return Ok(Verdict::Exit(ExitCode::from(error.exit_code())));
    }
    distinct(&args.scenarios, &ready)?;
    if args.mode() == Mode::Netns {
        programs::are_here(&ready)?;
    }
    let several = ready.len() > 1;
    for scenario in &ready {
        results::check_writable(&out_directory(args, scenario, several))?;
    }
    if let Some(trace) = &args.trace {
        results::check_writable(trace)?;
    }
    if args.mode() == Mode::Netns && !is_privileged_for_net() {
        // Before the process has a second thread: the kernel allows it to single-threaded processes only.
        enter_user_namespace().map_err(|source| LabCommandError::Namespaces {
            scenario: args.scenarios.join(", "),
            source: LabError::NoNamespaces { source },
        })?;
    }
    // In namespaces programs and routers end as they should, which may take longer.
    let patience = (args.mode() == Mode::Sim).then_some(PATIENCE);
    let interrupted = watch_signals(patience)
        .map_err(|source| LabCommandError::Namespaces { scenario: args.scenarios.join(", "), source })?;
    let mut outcomes = Vec::new();
    for scenario in &ready {
        outcomes.push(one(args, scenario, several, &interrupted)?);
    }
    Ok(verdict(&outcomes))
}

/// A machine that was too busy comes before a target that is missed.
fn verdict(outcomes: &[Outcome]) -> Verdict {
    if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Saturated(_))) {
        return Verdict::Exit(ExitCode::from(3));
    }
    Verdict::failed_if(outcomes.iter().any(|outcome| outcome.ok() == Some(false)))
}

/// Each scenario has a directory of its own, which has the name of its id.
fn distinct(given: &[String], ready: &[find::Ready]) -> Result<(), LabCommandError> {
    let mut seen = BTreeMap::new();
    for (given, scenario) in given.iter().zip(ready) {
        let id = &scenario.loaded.product.id;
        if let Some(first) = seen.insert(id, given) {
            let (first, second) = (first.clone(), given.clone());
            return Err(LabCommandError::SameId { id: id.clone(), first, second });
        }
    }
    Ok(())
}

/// Where the result of a scenario goes.
fn out_directory(args: &RunArgs, ready: &find::Ready, several: bool) -> PathBuf {
    let id = &ready.loaded.product.id;
    match &args.out {
        Some(out) if several => out.join(id),
        Some(out) => out.clone(),
        None => Path::new("out/lab").join(id),
    }
}

/// Runs one, writes its result and prints it.
fn one(
    args: &RunArgs,
    ready: &find::Ready,
    several: bool,
    interrupted: &AtomicBool,
) -> Result<Outcome, AppError> {
    let product = &ready.loaded.product;
    let out = out_directory(args, ready, several);
    let trace = args.trace.as_ref();
    let trace = trace.map(|directory| if several { directory.join(&product.id) } else { directory.clone() });
    let plan = Plan {
        mode: args.mode(),
        seed: args.seed.unwrap_or(product.seed),
        repetitions: args.repeat.unwrap_or(product.repetitions),
        trace: trace.as_deref(),
        out: &out,
        interrupted,
    };
    let (experiment, wall_s) = jobs::run(ready, &plan)?;
    let settings = ready.settings.iter().map(|(path, value)| (path.to_owned(), value.to_owned()));
    let result = directory(&experiment, settings, draw(product), Some(wall_s));
    drop(experiment);
    let page = results::write(&out, &result)?;
    let outcome = Outcome::of(&result.result, result.machine.saturated.as_deref());
    let text = summary(&result, &outcome, &page);
    let mut output = Output::new();
    if args.json {
        progress(text.trim_end());
        let line = result
            .result
            .to_json_line()
            .map_err(|source| LabCommandError::BadDirectory { path: out.clone(), source: source.into() })?;
        output.line(line)?;
    } else {
        output.text(text)?;
    }
    output.flush()?;
    Ok(outcome)
}

/// What a person reads: tables, warnings, verdict, where the page is.
fn summary(directory: &ResultDirectory, outcome: &Outcome, page: &Path) -> String {
    let result = &directory.result;
    let mut text =
        format!("\n{}: {}\n\n{}\n", result.scenario, directory.about.title, scenario_tables(result));
    for warning in result.warnings.iter().chain(&result.machine_warnings) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text.push_str(&format!("{}\nreport: {}\n", outcome.headline(), page.display()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_gives_no_verdict_whatever_else_happened() {
        let (met, missed) = (Outcome::Met { judged: 1 }, Outcome::Missed { missed: 1, judged: 2 });
        let busy = Outcome::Saturated("busy".into());
        assert_eq!(verdict(&[met.clone(), Outcome::NothingToJudge]), Verdict::Done);
        assert_eq!(verdict(&[met, missed.clone()]), Verdict::Failed);
        assert_eq!(verdict(&[missed, busy]), Verdict::Exit(ExitCode::from(3)));
    }
}
