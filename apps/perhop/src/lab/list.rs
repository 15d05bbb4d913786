//! `perhop lab list`.

use super::find;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::table::Table;
use clap::Args;
use perhop_scenario::IndexEntry;
use serde_json::json;

/// Lists the scenarios that are built in and those in ./scenarios, which come first where both have a name.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab list --json | jq -r .id")]
pub struct ListArgs {
    /// Print one JSON object a scenario
    #[arg(long)]
    json: bool,
}

/// Lists them.
///
/// # Errors
/// The first scenario that cannot be read, after all are listed.
pub fn run(args: &ListArgs) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    let mut table = Table::new(["ID", "LENGTH", "RUNS", "TARGETS", "VARIANTS", "TITLE"]);
    let mut first_error = None;
    for name in find::names() {
        let read = find::find(&name).and_then(|found| Ok((find::read(&found, &[])?, found)));
        let (ready, found) = match read {
            Ok(read) => read,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        let entry = IndexEntry::from(&ready.loaded);
        if args.json {
            out.json(&json!({
                "id": name,
                "title": entry.title,
                "why": ready.loaded.product.why,
                "source": ready.loaded.product.source,
                "nodes": entry.nodes,
                "sim_s": entry.length.as_secs_f64(),
                "repetitions": entry.repetitions,
                "targets": entry.targets,
                "variants": entry.variants,
                "file": found.path,
            }))?;
        } else {
            table.row([
                name,
                entry.length.to_string(),
                entry.repetitions.to_string(),
                entry.targets.to_string(),
                // Names make a table that no terminal shows; they are in the JSON form.
                entry.variants.len().to_string(),
                entry.title,
            ]);
        }
    }
    if !args.json {
        out.text(table)?;
    }
    out.flush()?;
    first_error.map_or(Ok(Verdict::Done), Err)
}
