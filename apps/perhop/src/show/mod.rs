//! `perhop show WHAT`.

mod rows;

use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::remote::Remote;
use clap::{Args, ValueEnum};
use perhop_model::ShowPage;
use rows::{rows_as_csv, rows_as_text};
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
    /// Comma-separated values, a line a row
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    csv: bool,
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
    /// Profiles: packets by colour
    Profiles,
    /// Contracts: packets within and beyond each
    Slas,
    /// Recognised real-time flows
    Calls,
    /// TCP flows whose rate is controlled: latency, window, rate, what limits each
    Abr,
    /// Policies of the TCP rate control: flows, each one's share, what they have done
    AbrPolicies,
    /// Filters: what each compares and where it sends; they count nothing
    Filters,
    /// Elements of the packet graph
    Elements,
    /// Threads, packet memory and timers of the router
    Driver,
    /// Time of each element per packet; of a router that runs with --profile, as are the next two
    Costs,
    /// Distribution of these times, and of the delays of traced packets
    Histograms,
    /// Traced packets, the latest: time from reception to the port they left by, and what waited before them
    Delays,
}

impl What {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

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
        } else if args.csv {
            out.text(rows_as_csv(&page.rows))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_the_router_shows_can_be_asked_for() {
        let names: Vec<String> = What::value_variants().iter().map(|w| w.name()).collect();
        for kind in [
            "ports",
            "classes",
            "profiles",
            "slas",
            "filters",
            "flows",
            "calls",
            "abr",
            "abr-policies",
            "elements",
            "driver",
            "costs",
            "histograms",
            "delays",
        ] {
            assert!(names.iter().any(|name| name == kind), "{kind}");
        }
    }
}
