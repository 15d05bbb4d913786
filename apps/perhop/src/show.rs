//! `perhop show WHAT`.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::remote::Remote;
use crate::table::Table;
use clap::{Args, ValueEnum};
use perhop_serve::{ShowPage, ShowRow};
use std::collections::BTreeSet;
use std::time::Duration;

/// Arguments of `perhop show`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop show classes --watch")]
pub struct ShowArgs {
    /// What to show
    what: What,
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// Shows it again every so many seconds until interrupted
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Most rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: Option<u32>,
}

/// What a router can show.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs, reason = "the names are the glossary's")]
enum What {
    /// Interfaces: packets in and out, what was lost there
    Ports,
    /// Classes: what each sent, dropped and holds
    Classes,
    /// Connections: class, packets, whether recognised as real-time
    Flows,
    /// Profiles and contracts: packets by colour
    Profiles,
    /// Recognised real-time flows
    Calls,
    /// Filters: how often each matched
    Filters,
    /// Elements of the packet graph
    Elements,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Classes => "classes",
            Self::Flows => "flows",
            Self::Profiles => "profiles",
            Self::Calls => "calls",
            Self::Filters => "filters",
            Self::Elements => "elements",
        }
    }
}

/// A table wider than this many counters is shown as lists.
const MOST_COLUMNS: usize = 12;
/// Moves the cursor home and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows it.
///
/// # Errors
/// The router is not there, or standard output cannot be written.
pub fn run(args: &ShowArgs) -> Result<Verdict, AppError> {
    let remote = Remote::find(args.router.as_deref())?;
    let mut uri = format!("/v1/show?what={}", args.what.name());
    if let Some(limit) = args.limit {
        uri.push_str(&format!("&limit={limit}"));
    }
    let mut out = Output::new();
    loop {
        let page: ShowPage = remote.read(&uri)?.accepted()?;
        if args.json {
            out.json(&page)?;
        } else {
            if args.watch.is_some() {
                let seconds = page.at_ns / 1_000_000_000;
                out.line(format_args!(
                    "{CLEAR}{}, revision {}, {seconds} s",
                    args.what.name(),
                    page.revision
                ))?;
            }
            out.text(rows_as_text(&page.rows))?;
        }
        out.flush()?;
        let Some(seconds) = args.watch else { return Ok(Verdict::Done) };
        std::thread::sleep(Duration::from_secs(seconds.into()));
    }
}

/// Rows as a table when they have few counters, else each row as a list of what is not 0.
fn rows_as_text(rows: &[ShowRow]) -> String {
    let facts: BTreeSet<&str> = rows.iter().flat_map(|r| r.facts.keys().map(String::as_str)).collect();
    // A counter that is 0 in every row says nothing.
    let moving = |r: &'_ ShowRow| {
        r.counters.iter().filter(|(_, v)| **v > 0).map(|(k, _)| k.clone()).collect::<Vec<_>>()
    };
    let counters: BTreeSet<String> = rows.iter().flat_map(moving).collect();
    if rows.is_empty() {
        return "nothing to show\n".to_owned();
    }
    if counters.len() > MOST_COLUMNS {
        return rows.iter().map(as_list).collect();
    }
    let owners = rows.iter().any(|r| !r.owner.is_empty());
    let mut head = vec!["NAME".to_owned()];
    head.extend(owners.then(|| "OWNER".to_owned()));
    head.extend(facts.iter().map(|f| f.to_uppercase()));
    head.extend(counters.iter().map(|c| c.to_uppercase()));
    let mut table = Table::new(head);
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend(owners.then(|| row.owner.clone()));
        cells.extend(facts.iter().map(|f| row.facts.get(*f).cloned().unwrap_or_else(|| "-".to_owned())));
        cells.extend(counters.iter().map(|c| row.counters.get(c).map_or("-".to_owned(), u64::to_string)));
        table.row(cells);
    }
    table.to_string()
}

fn as_list(row: &ShowRow) -> String {
    let facts = row.facts.iter().map(|(k, v)| format!(" {k}={v}"));
    let counters = row.counters.iter().filter(|(_, v)| **v > 0).map(|(k, v)| format!(" {k}={v}"));
    let owner = if row.owner.is_empty() { String::new() } else { format!(" ({})", row.owner) };
    format!("{}{owner}:{}\n", row.name, facts.chain(counters).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, counters: &[(&str, u64)]) -> ShowRow {
        ShowRow {
            kind: "class".to_owned(),
            name: name.to_owned(),
            id: 1,
            owner: "file".to_owned(),
            facts: [("port".to_owned(), "wan".to_owned())].into(),
            counters: counters.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        }
    }

    #[test]
    fn counters_that_are_zero_everywhere_have_no_column() {
        let rows = [row("ef", &[("sent", 7), ("drops", 0)]), row("be", &[("sent", 0), ("drops", 0)])];
        let text = rows_as_text(&rows);
        assert_eq!(text, "NAME  OWNER  PORT  SENT\nef    file   wan      7\nbe    file   wan      0\n");
    }

    #[test]
    fn many_counters_become_a_list() {
        let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
        let counters: Vec<(&str, u64)> = names.iter().map(|n| (n.as_str(), 1)).collect();
        let text = rows_as_text(&[row("ef", &counters)]);
        assert!(text.starts_with("ef (file): port=wan c00=1 c01=1"), "{text}");
    }
}
