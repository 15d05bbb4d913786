//! What `perhop demo` prints.

use super::DemoArgs;
use crate::error::{AppError, LabCommandError};
use crate::output::{Output, progress};
use perhop_measure::{Configuration, Experiment};
use perhop_quality::Distribution;
use perhop_report::summary::{FLOOD, UPLINK};
use perhop_report::{DemoResult, GroupResult, ScenarioResult, demo_table, verdict};
use std::path::Path;

/// Prints what a person reads, and the figures of both runs where they are asked for.
pub(super) fn finish(
    args: &DemoArgs,
    experiment: Experiment,
    verdict: &verdict::Verdict,
    page: &Path,
) -> Result<(), AppError> {
    let Experiment { mode, seed, product, variants, .. } = experiment;
    let fifo = variants.into_iter().find_map(|(name, fifo)| (name == verdict::FIFO).then_some(fifo));
    let fifo = fifo.expect("the built-in scenario has the variant, and all of its variants are run");
    let mut machine = String::new();
    let [fifo, perhop] = [("FIFO", fifo), ("Perhop", product)].map(|(name, configuration)| {
        let sentences = configuration.recordings.iter().filter_map(|recording| recording.machine.as_ref());
        sentences.for_each(|sentence| machine.push_str(&format!("{name}: {sentence}\n")));
        alone(&mode, seed, configuration)
    });
    let mut text = format!("\n{}\n", demo_table(&[("FIFO", &fifo), ("Perhop", &perhop)]));
    for check in &verdict.checks {
        let word = match check.ok {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not known",
        };
        text.push_str(&format!("{word:<10}{}\n", check.text));
    }
    text.push_str(&format!("{machine}\n{}\nreport: {}\n", verdict.headline, page.display()));
    let mut output = Output::new();
    if args.json {
        progress(text.trim_end());
        let line = DemoResult { fifo, perhop }.to_json_line().map_err(|source| {
            LabCommandError::BadDirectory { path: args.out.clone(), source: source.into() }
        })?;
        output.line(line)?;
    } else {
        output.text(text)?;
    }
    output.flush()
}

/// One configuration as a result of its own, in the words of `perhop demo --json`: the link is the caller's uplink, and up
/// is the way from the caller.
fn alone(mode: &str, seed: u64, mut configuration: Configuration) -> ScenarioResult {
    configuration.scenario.expect.clear();
    let experiment = Experiment {
        mode: mode.to_owned(),
        seed,
        changed: Vec::new(),
        product: configuration,
        variants: Vec::new(),
    };
    let mut result = experiment.result();
    result.wall_s = Some(result.sim_s);
    for link in result.links.iter_mut().filter(|link| link.name == verdict::WAN) {
        link.name = UPLINK.to_owned();
    }
    if result.group(FLOOD).is_none() {
        result.groups.push(GroupResult::of_datagrams(FLOOD, 0, &Distribution::default()));
    }
    for group in &mut result.groups {
        if let Some(whole) = group.name.strip_suffix(".down") {
            group.name = format!("{whole}.up");
        } else if let Some(whole) = group.name.strip_suffix(".up") {
            group.name = format!("{whole}.down");
        }
    }
    result
}
