//! Project automation: `cargo xtask ci|check|layers|lines|rings|tidy`.
//!
//! `layers` checks who may depend on whom, `tidy` checks the text of the project, `check` runs the quick set for what
//! changed, `lines` counts code, `rings` has loom try every interleaving of the threads at a ring, `ci` runs everything. Every command exits 0
//! when all is well, 1 when a check failed, 2 on a bad command line and 3 when a tool it needs is missing.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "prints how long each step took; decides nothing by the clock")]

mod changed;
mod error;
mod finding;
mod layers;
mod lines;
mod metadata;
mod runner;
mod steps;
mod summary;
mod tidy;
mod tree;

use error::XtaskError;
use finding::Finding;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask ci|check|layers|lines|rings|tidy

  ci      every check, `cargo deny` where it is installed, every test, the soak; last line \"N passed, N failed, N skipped\"
  check   format, layers, tidy, `cargo deny` where it is installed; lints and tests of what changed and of what depends on it
  layers  who depends on whom, where crates live, where bans may be lifted
  lines   how much code each crate has, without tests, comments and blank lines
  rings   every interleaving of the threads at a ring
  tidy    sizes, headings, links, words, leftovers";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => steps::ci(),
        ["check"] => steps::check(),
        ["layers"] => layers::findings().map(report),
        ["lines"] => lines::print(),
        ["rings"] => steps::rings(),
        ["tidy"] => tidy::findings().map(report),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(3)
        }
    }
}

/// Prints findings; true when none of them is a failure.
fn report(findings: Vec<Finding>) -> bool {
    finding::print(&findings)
}

type Result<T> = std::result::Result<T, XtaskError>;
