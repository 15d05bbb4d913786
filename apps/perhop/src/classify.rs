//! `perhop realtime classify FILE…`.

use crate::error::{AppError, Verdict};
use crate::output::{Output, complain, progress};
use crate::table::Table;
use clap::{Args, Subcommand};
use perhop_flows::offline::{Classified, FlowRow, MAX_FLOWS, classify_capture};
use perhop_flows::realtime::Stages;
use perhop_flows::realtime::rtp::RtpSettings;
use perhop_flows::realtime::statistics::Statistical;
use perhop_io::pcap::CaptureReader;
use perhop_units::Duration;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Subcommands of `perhop realtime`.
#[derive(Debug, Subcommand)]
pub enum RealtimeCommand {
    /// Say of each flow of capture files whether it is real-time media, and why
    Classify(ClassifyArgs),
}

/// Arguments of `perhop realtime classify`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop realtime classify --json call.pcapng\n\n\
                        A compressed file is unpacked on the way:\n\
                        gunzip -c call.pcap.gz | perhop realtime classify -\n\n\
                        A damaged file is classified up to the damage; the exit code is then 2, as it is when no frame \
                        of a file can be read. Simple packet blocks of pcapng have no time stamps: their flows are \
                        too_few at best.")]
pub struct ClassifyArgs {
    /// pcap or pcapng files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object a flow and line; the last line sums up
    #[arg(long)]
    json: bool,
    /// Packets of one source that decide, 3 to 64
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=64))]
    packets: u32,
    /// Packets that decide when they follow each other without gaps and in equal steps, 3 to N [default: 6, or N if that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=64))]
    regular: Option<u32>,
    /// Time in which they must come, 1 ms to 60 s
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    within: Duration,
    /// Does not look for RTP behind headers of unknown kind
    #[arg(long)]
    no_wrapped: bool,
    /// Recognises small, frequent and regular packets as well: media without headers, but games and tunnels too
    #[arg(long)]
    statistical: bool,
    /// Largest mean IP length of these, 40 to 1500 bytes: calls of messengers have up to 230
    #[arg(long, value_name = "BYTES", requires = "statistical", default_value_t = 200, value_parser = clap::value_parser!(u32).range(40..=1500))]
    statistical_size: u32,
}

/// Default of `--regular`: nobody waits for a packet of a capture to be marked.
const REGULAR: u32 = 6;
/// Packets before statistics, and packets a second, as on routers that say nothing else.
const AFTER: u32 = 15;
const RATE: u32 = 15;

/// The last line of the JSON output.
#[derive(Debug, Default, Serialize)]
struct Summary {
    /// Captures that could be opened.
    files: u64,
    flows: u64,
    media: u64,
    /// Frames that are neither UDP nor TCP, that cannot be read, and those of flows beyond the limit.
    other: u64,
    unreadable: u64,
    /// Those of the unreadable ones that the capture cut short within their headers.
    cut: u64,
    beyond_limit: u64,
    errors: Vec<String>,
}

impl RealtimeCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        let Self::Classify(args) = self;
        classify(&args)
    }
}

fn classify(args: &ClassifyArgs) -> Result<Verdict, AppError> {
    let settings = RtpSettings::new(args.packets, args.within, Duration::from_secs(30))
        .and_then(|s| s.with_regular(args.regular.unwrap_or(REGULAR.min(args.packets))))
        .map_err(AppError::BadDetection)?;
    let statistical = Statistical::new(AFTER, args.statistical_size, RATE).ok().filter(|_| args.statistical);
    let stages = Stages { wrapped: !args.no_wrapped, statistical };
    let mut out = Output::new();
    let mut table =
        Table::new(["FILE", "FLOW", "PACKETS", "VERDICT", "REASON", "CONFIDENCE", "AT", "SSRC", "PT"]);
    let mut summary = Summary::default();
    for path in &args.files {
        let (classified, error) = one_file(path, settings, stages);
        if let Some(error) = error {
            summary.errors.push(error.to_string());
            complain(&error);
        }
        let Some(found) = classified else { continue };
        summary.files += 1;
        summary.flows += found.rows.len() as u64;
        summary.media += found.rows.iter().filter(|r| r.verdict == "media").count() as u64;
        summary.other += found.other;
        summary.unreadable += found.unreadable;
        summary.cut += found.cut;
        summary.beyond_limit += found.beyond_limit;
        for row in &found.rows {
            if args.json {
                out.json(row)?;
            } else {
                table.row(cells(row));
            }
        }
    }
    if args.json {
        out.json(&summary)?;
    } else {
        out.text(&table)?;
        out.line(format_args!(
            "{} flows in {} files, {} of them media; {} frames neither UDP nor TCP, {} unreadable",
            summary.flows, summary.files, summary.media, summary.other, summary.unreadable
        ))?;
    }
    out.flush()?;
    match summary.errors.len() {
        0 => Ok(Verdict::Done),
        n => Err(AppError::BadCaptures(n)),
    }
}

/// What a capture holds, up to its damage if it has any.
fn one_file(path: &Path, settings: RtpSettings, stages: Stages) -> (Option<Classified>, Option<AppError>) {
    let reader = match CaptureReader::open(path) {
        Ok(reader) => reader,
        Err(error) => return (None, Some(AppError::Capture(error))),
    };
    let (mut damage, mut link_type) = (None, None);
    let records = reader.map_while(|record| record.map_err(|e| damage = Some(AppError::Capture(e))).ok());
    let frames = records.map(|r| {
        link_type.get_or_insert(r.link_type);
        (r.at, r.link_type, r.data)
    });
    let found = classify_capture(&path.display().to_string(), settings, stages, frames);
    let malformed = found.unreadable - found.cut;
    if malformed > 0 {
        progress(format_args!(
            "{}: {malformed} frames are malformed or of unknown link type",
            path.display()
        ));
    }
    if found.cut > 0 {
        progress(format_args!(
            "{}: of {} frames the capture does not hold all headers; capture with a longer snap length, as tcpdump -s 0 does",
            path.display(),
            found.cut
        ));
    }
    if found.beyond_limit > 0 {
        progress(format_args!(
            "{}: {} packets are of flows beyond the first {MAX_FLOWS}, which are not looked at",
            path.display(),
            found.beyond_limit
        ));
    }
    let nothing = found.unreadable > 0 && found.other == 0 && found.rows.is_empty();
    let unread = || match malformed {
        0 => AppError::NoHeaders { path: path.to_owned() },
        _ => AppError::NoFrames { path: path.to_owned(), link_type: link_type.unwrap_or(0) },
    };
    let error = damage.or_else(|| nothing.then(unread));
    (Some(found), error)
}

/// The flow, with its VLANs if it is tagged.
fn flow_cell(row: &FlowRow) -> String {
    let vlans: Vec<_> = row.vlan.iter().map(|id| format!(" vlan {id}")).collect();
    row.flow.clone() + &vlans.concat()
}

fn cells(row: &FlowRow) -> Vec<String> {
    let dash = || "-".to_owned();
    let list = |items: Vec<String>| if items.is_empty() { dash() } else { items.join(",") };
    vec![
        row.file.clone(),
        flow_cell(row),
        row.packets.to_string(),
        row.verdict.to_owned(),
        row.reason.to_owned(),
        format!("{:.2}", row.confidence),
        row.decided_at.map_or_else(dash, |n| n.to_string()),
        list(row.ssrc.iter().map(|s| format!("{s:08x}")).collect()),
        list(row.payload_type.iter().map(u8::to_string).collect()),
    ]
}
