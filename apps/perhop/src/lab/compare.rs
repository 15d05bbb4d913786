//! `perhop lab compare DIR DIR`.

use super::results;
use crate::error::{AppError, LabCommandError, Verdict};
use crate::output::{Output, progress};
use clap::Args;
use perhop_labrun::worlds::{self, Pair};
use perhop_report::{comparison_page, comparison_table, differences};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Compares two results figure by figure: a table here, and a page with the charts of both over each other. With
/// --markdown: whether two worlds agree, one scenario or many.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  perhop lab compare out/before out/after --out out/compare.html\n  \
    perhop lab compare out/sim out/netns --markdown > docs/two-worlds.md\n\n\
    Exit codes: 0 compared; 1 with --markdown: the worlds disagree or are one, or a target is missed; 2 a directory is no \
    result, or with --markdown one of another scenario.")]
pub struct CompareArgs {
    /// Result to compare with
    #[arg(value_name = "DIR")]
    first: PathBuf,
    /// Result that is compared
    #[arg(value_name = "DIR")]
    second: PathBuf,
    /// Where the page goes; compare.html in the second directory when not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object a figure instead of the table
    #[arg(long)]
    json: bool,
    /// Print a page in Markdown that sets the two beside each other as worlds, with what must agree judged; a directory
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
    let (first, second) = (results::read(&args.first)?, results::read(&args.second)?);
    let names = names(&args.first, &args.second);
    let page = args.out.clone().unwrap_or_else(|| args.second.join("compare.html"));
    results::write_file(&page, &comparison_page((&names[0], &first), (&names[1], &second)))?;
    let all = differences(&first.result, &second.result);
    let mut out = Output::new();
    if args.json {
        for row in &all {
            out.json(&json!({ "metric": row.metric, "first": row.first, "second": row.second }))?;
        }
        progress(format_args!("report: {}", page.display()));
    } else {
        out.text(comparison_table([&names[0], &names[1]], &all))?;
        out.line(format_args!("report: {}", page.display()))?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// Compares the scenarios that lie in both.
fn compare_worlds(args: &CompareArgs) -> Result<Verdict, AppError> {
    let pairs = if args.first.join(results::RESULT).is_file() {
        vec![pair(&args.first, &args.second)?]
    } else {
        let mut pairs = Vec::new();
        for name in results::names(&args.first)? {
            let (first, second) = (args.first.join(&name), args.second.join(&name));
            if second.is_dir() {
                pairs.push(pair(&first, &second)?);
            } else {
                progress(format_args!("{}: left out, not in {}", first.display(), args.second.display()));
            }
        }
        pairs
    };
    let (first, second) = (args.first.display(), args.second.display());
    let repetitions = pairs.first().map_or(1, |pair| pair.results[1].result.repetitions);
    let command = format!(
        "perhop lab run ID... --variants none --out {first}\n\
         perhop lab run ID... --mode netns --repeat {repetitions} --out {second}\n\
         perhop lab compare {first} {second} --markdown"
    );
    let (text, good) = worlds::page(&names(&args.first, &args.second), &pairs, &command);
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

/// What to call them: the last part of their paths, the whole paths if that is the same, else their order.
fn names(first: &Path, second: &Path) -> [String; 2] {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match (last(first), last(second)) {
        (Some(a), Some(b)) if a != b => [a, b],
        _ if first != second => [first.display().to_string(), second.display().to_string()],
        _ => ["first".to_owned(), "second".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_what_tells_them_apart() {
        assert_eq!(names(Path::new("out/a"), Path::new("out/b")), ["a", "b"]);
        assert_eq!(names(Path::new("one/x"), Path::new("two/x")), ["one/x", "two/x"]);
        assert_eq!(names(Path::new("x"), Path::new("x")), ["first", "second"]);
    }
}
