//! `perhop lab record`.

use crate::error::{AppError, LabCommandError, Verdict};
use crate::output::{Output, progress};
use clap::Args;
use perhop_elements::classify::Rule;
use perhop_elements::emulate::{Conditions, Sighting, Sightings, identity};
use perhop_flows::offline::read_frame;
use perhop_io::pcap::CaptureReader;
use perhop_units::Duration;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Says what the network between two captures did to the packets that are in both, in words of an Emulator's entry: with these a
/// link of a scenario does the same.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab record before.pcap after.pcap --interval 500ms\n\n\
    prints `play 0s 20ms 0% play 1.5s 81ms 3.2% …`, which goes behind the colon of an entry:\n\
    discipline = \"Emulator(udp : play 0s 20ms 0% play 1.5s 81ms 3.2%, - : delay 5ms)\"\n\n\
    Captures are pcap or pcapng with time stamps of one clock, of one direction or with a --filter that chooses one:\n\
    perhop lab record a.pcap b.pcap --filter \"src 10.0.1.0/24\"\n\n\
    Packets are known by addresses, ports, lengths, and their \
    headers and payload where networks do not change them. One of them may be `-`, standard input.")]
pub struct RecordArgs {
    /// Capture in front of the network
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Capture behind it
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Packets that count: a rule as of an entry, such as "src 10.0.1.0/24 udp dst port 5004"
    #[arg(long, value_name = "RULE")]
    filter: Option<Rule>,
    /// Time over which delay and loss are averaged
    #[arg(long, value_name = "TIME", default_value = "1 s", value_parser = interval, allow_hyphen_values = true)]
    interval: Duration,
    /// Quantiles of all delays instead of means over time, 2 to 4096
    #[arg(long, value_name = "N", conflicts_with = "interval", value_parser = clap::value_parser!(u16).range(2..=4096))]
    table: Option<u16>,
    /// One JSON object with the words and the figures
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(Duration::ZERO) => Err("an interval is longer than nothing".to_owned()),
        Ok(interval) => Ok(interval),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares the captures and prints the words.
///
/// # Errors
/// A capture cannot be read, or they do not tell; see [`AppError`].
pub fn run(args: &RecordArgs) -> Result<Verdict, AppError> {
    if args.before == args.after && args.before.as_os_str() == "-" {
        return Err(LabCommandError::OneInput.into());
    }
    let [before, after] = [&args.before, &args.after].map(|path| sightings(path, args.filter.as_ref()));
    let (before, after) = (before?, after?);
    let interval = match args.table {
        // The distribution is of the whole time.
        Some(_) => Duration(u64::MAX),
        None => args.interval,
    };
    let done = Conditions::between(&before, &after, interval).map_err(|source| {
        LabCommandError::NotRecorded { captures: [args.before.clone(), args.after.clone()], source }
    })?;
    let words = args.table.map_or_else(|| done.play(), |values| done.table(usize::from(values)));
    let mut out = Output::new();
    if args.json {
        out.json(&json!({
            "entry": words,
            "packets": done.packets,
            "unknown": done.unknown,
            "lost": done.lost,
            "copies": done.copies,
            "overtaking": done.overtaking,
            "strangers": done.strangers,
            "delays": done.delays.len(),
            "delay_ns": { "mean": done.mean(), "stdev": done.deviation() },
        }))?;
    } else {
        out.line(&words)?;
        progress(format_args!(
            "{} packets, {} lost, {} copies, {} overtook others; {} came that had not gone in, {} may have come before \
             AFTER begins or after it ends; {} delays, {} on average with a standard deviation of {}",
            done.packets,
            done.lost,
            done.copies,
            done.overtaking,
            done.strangers,
            done.unknown,
            done.delays.len(),
            rounded(done.mean()),
            rounded(done.deviation())
        ));
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// To a microsecond: captures tell no more.
fn rounded(time: Duration) -> Duration {
    Duration(time.0.saturating_add(500) / 1_000 * 1_000)
}

/// The IP packets of a capture that count.
fn sightings(path: &Path, filter: Option<&Rule>) -> Result<Sightings, AppError> {
    let (mut frame, mut spare) = (Vec::new(), Vec::new());
    let mut seen = Sightings::default();
    for record in CaptureReader::open(path)? {
        let record = record?;
        let layout = read_frame(record.link_type, &record.data, &mut frame, &mut spare);
        seen.watched(record.at);
        let layout =
            layout.ok().filter(|layout| filter.is_none_or(|rule| rule.matches_frame(&frame, layout)));
        let Some(identity) = layout.and_then(|layout| identity(&frame, &layout)) else { continue };
        if seen.is_full() {
            return Err(LabCommandError::LongCapture { path: path.to_owned(), most: Sightings::MOST }.into());
        }
        seen.push(Sighting { at: record.at, identity });
    }
    Ok(seen)
}
