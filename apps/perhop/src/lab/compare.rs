//! `perhop lab compare DIR DIR`.

use super::results;
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use clap::Args;
use perhop_report::{comparison_page, comparison_table, differences};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Compares two results figure by figure: a table here, and a page with the charts of both over each other.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab compare out/before out/after --out out/compare.html")]
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
}

/// Compares them.
///
/// # Errors
/// A directory is not the result of a run, or the page cannot be written.
pub fn run(args: &CompareArgs) -> Result<Verdict, AppError> {
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
