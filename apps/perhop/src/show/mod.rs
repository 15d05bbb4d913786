//! `perhop show WHAT`.

mod domain;
mod rows;
mod select;
mod since;

use crate::domain::{ControllerArgs, RemoteDomain};
use crate::error::{AppError, Verdict};
use crate::output::Output;
use crate::remote::Remote;
use clap::{Args, ValueEnum};
use perhop_io::clock;
use perhop_model::{ShowPage, ShowRow};
use rows::{rows_as_csv, rows_as_text};
use select::{Filter, Order, select};
use since::Since;
use std::time::Duration;

/// Rows that a router gives at the most.
const MOST_ROWS: u32 = 1_000_000;

/// Arguments of `perhop show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop show classes --watch\n  perhop show flows --filter realtime=yes --filter 'packets>1000' --sort -bytes"
)]
pub struct ShowArgs {
    /// What to show
    what: What,
    /// The router; may be left out when only one runs here
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    #[command(flatten)]
    controller: ControllerArgs,
    /// Shows it again every so many seconds until interrupted: counters as what was added since, but in JSON
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Comma-separated values, a line a row
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    csv: bool,
    /// Most rows; without it all, of flows, calls, abr, events and routes 1,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ROWS)))]
    limit: Option<u32>,
    /// Rows in the order of a column; -COLUMN: highest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<Order>,
    /// Only rows in which COLUMN=TEXT, COLUMN~TEXT (it holds the text), COLUMN>NUMBER or COLUMN<NUMBER; several: all of it
    #[arg(long, value_name = "COLUMN=TEXT")]
    filter: Vec<Filter>,
}

/// What a router or a controller can show.
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
    /// Recognised real-time flows, as they come and as they leave, and those that ended in the last hour
    Calls,
    /// What happened lately
    Events,
    /// Packets dropped, by place and reason: in the last hour, and since the start
    Drops,
    /// Routes that packets follow
    Routes,
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
    /// Of a controller: reservations of its domain
    Reservations,
    /// Of a controller: what the classes of each link may carry, and what of it is reserved and free
    Links,
    /// Of a controller: its routers, and whether each has what it is to have
    Nodes,
    /// Of a controller: who may ask
    Clients,
    /// Of a controller: domains that reservations reach, and what is held there
    Peers,
    /// Of a controller: what was decided and refused lately
    Audit,
}

impl What {
    /// Whether a controller has it, and no router.
    fn is_of_domains(self) -> bool {
        use What::{Audit, Clients, Links, Nodes, Peers, Reservations};
        matches!(self, Reservations | Links | Nodes | Clients | Peers | Audit)
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl What {
    /// Rows shown unless somebody says how many: all of what was configured.
    fn usual_limit(self) -> u32 {
        if matches!(self, Self::Flows | Self::Calls | Self::Abr | Self::Events | Self::Routes | Self::Audit) {
            1_000
        } else {
            MOST_ROWS
        }
    }
}

/// How many rows there are besides those shown, if there are any.
fn left_out(page: &ShowPage) -> Option<String> {
    let (shown, total) = (page.rows.len(), page.total);
    let most = if page.more { "more than " } else { "" };
    (page.more || total > shown).then(|| format!("{shown} rows of {most}{total}; --limit N shows up to N"))
}

/// What to do where frames of VLANs were not routed.
fn tagged(rows: &[ShowRow]) -> Option<String> {
    let dropped: u64 = rows.iter().map(|row| row.counter("dropped_vlan_tag")).sum();
    (dropped > 0).then(|| {
        format!(
            "dropped_vlan_tag={dropped}: a routed port takes untagged frames. For VLAN 7 of eth1 make an interface, `ip link add link \
             eth1 name eth1.7 type vlan id 7`, and give the router file a port with device = \"eth1.7\""
        )
    })
}

/// The time of day of a real time, ns.
fn time_of_day(real_ns: u64) -> String {
    let seconds = real_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Moves the cursor home and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Who has it.
enum Source {
    Router(Remote),
    Controller(RemoteDomain),
}

impl Source {
    fn find(args: &ShowArgs) -> Result<Self, AppError> {
        Ok(match args.what.is_of_domains() {
            true => Self::Controller(RemoteDomain::find(&args.controller)?),
            false => Self::Router(Remote::find(args.router.as_deref())?),
        })
    }

    fn page(&self, what: What, limit: u32) -> Result<ShowPage, AppError> {
        match self {
            Self::Router(remote) => {
                remote.read(&format!("/v1/show?what={}&limit={limit}", what.name()))?.accepted()
            }
            Self::Controller(remote) => domain::page(remote, what, limit as usize),
        }
    }
}

/// Shows it.
///
/// # Errors
/// The router is not there, or standard output cannot be written.
pub fn run(args: &ShowArgs) -> Result<Verdict, AppError> {
    let source = Source::find(args)?;
    let limit = args.limit.unwrap_or(args.what.usual_limit());
    // The router gives the first rows that it has; which are the first of an order is found out here.
    let selects = args.sort.is_some() || !args.filter.is_empty();
    let asked = if selects { MOST_ROWS } else { limit };
    let (mut out, mut since, mut checked) = (Output::new(), Since::default(), false);
    loop {
        let mut page = source.page(args.what, asked)?;
        let tagged = tagged(&page.rows);
        if args.watch.is_some() && !args.json {
            since.apply(&mut page);
        }
        if selects {
            // Once: a column may be gone while rows come and go.
            if !checked && !page.rows.is_empty() {
                select::check(&page.rows, &args.filter, args.sort.as_ref())?;
                checked = true;
            }
            select(&mut page, &args.filter, args.sort.as_ref(), limit as usize);
        }
        if args.json {
            out.json(&page)?;
        } else if args.csv {
            out.text(rows_as_csv(&page.rows))?;
            left_out(&page).iter().for_each(|line| eprintln!("{line}"));
        } else {
            if args.watch.is_some() {
                // The router's clock is that of this machine since its start, which says nothing to anybody.
                let at = time_of_day(page.at_ns.saturating_add(clock::real_minus_monotonic()));
                out.line(format_args!("{CLEAR}{}, revision {}, {at}", args.what.name(), page.revision))?;
            }
            out.text(rows_as_text(&page.rows))?;
            if let Some(line) = left_out(&page) {
                out.line(format_args!("{line}"))?;
            }
            for line in tagged.iter().chain(&page.notes) {
                out.line(format_args!("{line}"))?;
            }
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
    fn rows_that_are_not_shown_are_counted() {
        let page = |rows, total, more| ShowPage {
            rows: vec![ShowRow::default(); rows],
            total,
            more,
            ..ShowPage::default()
        };
        assert_eq!(left_out(&page(3, 3, false)), None);
        assert_eq!(left_out(&page(3, 7, false)).as_deref(), Some("3 rows of 7; --limit N shows up to N"));
        assert_eq!(
            left_out(&page(3, 3, true)).as_deref(),
            Some("3 rows of more than 3; --limit N shows up to N")
        );
    }

    #[test]
    fn a_reading_has_its_time_of_day() {
        // 2009-02-13 23:31:30 UTC.
        assert_eq!(time_of_day(1_234_567_890_999_999_999), "23:31:30 UTC");
        assert_eq!(time_of_day(0), "00:00:00 UTC");
    }

    #[test]
    fn tagged_frames_are_explained() {
        let mut row = ShowRow::new("element", "forward");
        assert_eq!(tagged(&[row.clone()]), None);
        row.counters.insert("dropped_vlan_tag".to_owned(), 2);
        let said = tagged(&[row]).expect("a sentence");
        assert!(said.starts_with("dropped_vlan_tag=2: ") && said.contains("type vlan id 7"), "{said}");
    }

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
            "events",
            "drops",
            "routes",
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
