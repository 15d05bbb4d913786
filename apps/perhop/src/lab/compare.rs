//! `perhop lab compare DIR DIR…`.

use super::results;
use crate::error::{AppError, LabCommandError, Verdict};
use crate::output::{Output, progress};
use clap::Args;
use perhop_labrun::worlds::{self, Pair};
use perhop_report::{comparison_page, comparison_table, differences};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Compares two or more results figure by figure: a table here, and a page with the charts of all over each other. With
/// --markdown: whether two worlds agree, one scenario or many.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  perhop lab compare out/before out/after --out out/compare.html\n  \
    perhop lab compare out/fifo out/red out/classes\n  \
    perhop lab compare out/sim out/netns --markdown > docs/two-worlds.md\n\n\
    Exit codes: 0 compared; 1 with --markdown: the worlds disagree or are one, or a target is missed; 2 a directory is no \
    result, or with --markdown one of another scenario, or there are more than two.")]
pub struct CompareArgs {
    /// Results: the one to compare with, then those that are compared
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    directories: Vec<PathBuf>,
    /// Where the page goes; compare.html in the last directory when not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object a figure instead of the table
    #[arg(long)]
    json: bool,
    /// Print a page in Markdown that sets two results beside each other as worlds, with what must agree judged; a directory
    /// may then hold several results, each below its name
    #[arg(long, conflicts_with_all = ["json", "out"])]
    markdown: bool,
}

/// Compares them.
///
/// # Errors
/// A directory is not the result of a run, or the page cannot be written.
pub fn run(args: &CompareArgs) -> Result<Verdict, AppError> {
    if args.markdown {
        return compare_worlds(args);
    }
    let directories =
        args.directories.iter().map(|path| results::read(path)).collect::<Result<Vec<_>, AppError>>()?;
    let names = names(&args.directories);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let runs: Vec<_> = names.iter().copied().zip(&directories).collect();
    let beside = args.directories.last().map(|last| last.join("compare.html"));
    let page = args.out.clone().or(beside).unwrap_or_default();
    results::write_file(&page, &comparison_page(&runs))?;
    let all = differences(&directories.iter().map(|directory| &directory.result).collect::<Vec<_>>());
    let mut out = Output::new();
    if args.json {
        for row in &all {
            out.json(&json!({ "metric": row.metric, "values": row.values }))?;
        }
        progress(format_args!("report: {}", page.display()));
    } else {
        out.text(comparison_table(&names, &all))?;
        out.line(format_args!("report: {}", page.display()))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// Compares the scenarios that lie in both.
fn compare_worlds(args: &CompareArgs) -> Result<Verdict, AppError> {
    let [first, second] = args.directories.as_slice() else {
        return Err(LabCommandError::NotTwoWorlds { given: args.directories.len() }.into());
    };
    let pairs = if first.join(results::RESULT).is_file() {
        vec![pair(first, second)?]
    } else {
        let mut pairs = Vec::new();
        for name in results::names(first)? {
            let (one, other) = (first.join(&name), second.join(&name));
            if other.is_dir() {
                pairs.push(pair(&one, &other)?);
            } else {
                progress(format_args!("{}: left out, not in {}", one.display(), second.display()));
            }
        }
        pairs
    };
    let called = names(&args.directories);
    let (first, second) = (first.display(), second.display());
    let repetitions = pairs.first().map_or(1, |pair| pair.results[1].result.repetitions);
    let command = format!(
        "perhop lab run ID... --variants none --out {first}\n\
         perhop lab run ID... --mode netns --repeat {repetitions} --out {second}\n\
         perhop lab compare {first} {second} --markdown"
    );
    let (text, good) = worlds::page([&called[0], &called[1]], &pairs, &command);
    let mut out = Output::new();
    out.text(text)?;
    out.flush()?;
    Ok(Verdict::failed_if(!good || pairs.is_empty()))
}

fn pair(first: &Path, second: &Path) -> Result<Pair, AppError> {
    let results = [results::read(first)?, results::read(second)?];
    let scenarios = results.each_ref().map(|directory| directory.result.scenario.clone());
    if scenarios[0] != scenarios[1] {
        let paths = [first, second].map(Path::to_owned);
        return Err(LabCommandError::OtherScenario { paths, scenarios }.into());
    }
    if results[0].result.mode == results[1].result.mode {
        let (first, second, mode) = (first.display(), second.display(), &results[0].result.mode);
        progress(format_args!(
            "warning: {first} and {second} are of one world, {mode}: that says nothing of two"
        ));
    }
    Ok(Pair { scenario: results[0].result.scenario.clone(), results })
}

/// What to call them: the last part of their paths, the whole paths if two have the same, and numbered if these are the
/// same too.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let last: Option<Vec<String>> =
        paths.iter().map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    let whole = || paths.iter().map(|path| path.display().to_string());
    last.filter(differ)
        .or_else(|| Some(whole().collect()).filter(differ))
        .unwrap_or_else(|| whole().enumerate().map(|(i, path)| format!("{} {path}", i + 1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_what_tells_them_apart() {
        let names = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["out/a", "out/b", "c"]), ["a", "b", "c"]);
        assert_eq!(names(&["one/x", "two/x", "two/y"]), ["one/x", "two/x", "two/y"]);
        assert_eq!(names(&["x", "x"]), ["1 x", "2 x"]);
    }
}
