//! `perhop lab mix`.

mod files;

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::table::Table;
use clap::Args;
use files::Files;
use perhop_flows::offline::FlowRow;
use perhop_flows::realtime::Stages;
use perhop_flows::realtime::rtp::RtpSettings;
use perhop_measure::recognition::{KindTally, Recognition, RecognitionTargets, recognise};
use perhop_traffic::Seed;
use perhop_traffic::labelled::{Kind, LabelledConfig, LabelledMix};
use perhop_units::Duration;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Makes a mix of traffic whose kinds are known, lets detection say what is media, and compares. Calls and video with
/// loss, reordering, encryption and relays; QUIC, names, games, tunnels, TCP, transfers and noise.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab mix --flows 5000 --seed 7 --out mix.pcap\n\
    \x20        perhop realtime classify --json mix.pcap\n\n\
    Beside FILE.pcap is written FILE.pcap.labels.jsonl with the kind of each flow. Exit codes: 0 all targets are met \
    (precision 0.995, recall 0.99, half of the media within 12 packets); 1 one is missed.")]
pub struct MixArgs {
    /// Flows: directions of 5-tuples
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    flows: u64,
    /// What everything is drawn from
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Packets of one source that decide, 3 to 64
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=64))]
    packets: u32,
    /// Packets that decide when they follow each other without gaps and in equal steps, 3 to N; routers take 10
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=64))]
    regular: u32,
    /// Writes the mix as a capture, and its labels beside it
    #[arg(long, value_name = "FILE.pcap")]
    out: Option<PathBuf>,
    /// One JSON object a kind, then one a mistake, then the figures
    #[arg(long)]
    json: bool,
}

/// Runs the mix through detection and prints the confusion table.
///
/// # Errors
/// A file cannot be written.
pub fn run(args: &MixArgs) -> Result<Verdict, AppError> {
    let settings = RtpSettings::new(args.packets, Duration::from_secs(1), Duration::from_secs(30))
        .and_then(|s| s.with_regular(args.regular.min(args.packets)))
        .expect("the options have the ranges of the settings");
    let mut files = args.out.as_deref().map(Files::create).transpose()?;
    let mut failure = None;
    let mix = LabelledMix::new(LabelledConfig { flows: args.flows, seed: Seed::new(args.seed) });
    let found = recognise(mix, settings, Stages::default(), |packet, frame| {
        if let (Some(files), None) = (&mut files, &failure) {
            failure = files.write(packet, frame).err();
        }
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(files) = files {
        files.finish()?;
    }
    let targets = RecognitionTargets::default();
    let mut out = Output::new();
    if args.json {
        for (kind, tally) in found.kinds() {
            out.json(&kind_line(kind, tally))?;
        }
        for mistake in &found.mistakes {
            out.json(&json!({ "mistake": mistake.row, "kind": mistake.kind.name() }))?;
        }
        out.json(&figures(&found, &targets, args))?;
    } else {
        out.text(text(&found))?;
    }
    out.flush()?;
    let met = found.meets(&targets);
    if !met {
        progress(format_args!(
            "a target is missed: precision {}, recall {}, half of the media within {} packets",
            targets.precision, targets.recall, targets.median_packets
        ));
    }
    Ok(Verdict::failed_if(!met))
}

fn kind_line(kind: Kind, tally: &KindTally) -> Value {
    json!({
        "kind": kind.name(),
        "media": kind.is_media(),
        "flows": tally.flows,
        "packets": tally.packets,
        "said_media": tally.media,
        "said_none": tally.flows - tally.media,
        "packets_to_decide": { "p50": tally.packets_to_decide(500), "p99": tally.packets_to_decide(990) },
        "reasons": tally.reasons,
    })
}

fn figures(found: &Recognition, targets: &RecognitionTargets, args: &MixArgs) -> Value {
    let ((media, found_media), (others, wrong)) = (found.totals(true), found.totals(false));
    json!({
        "seed": args.seed,
        "flows": media + others,
        "media": { "flows": media, "said_media": found_media, "said_none": media - found_media },
        "others": { "flows": others, "said_media": wrong, "said_none": others - wrong },
        "precision": found.precision(),
        "recall": found.recall(),
        "packets_to_decide": { "p50": found.packets_to_decide(500), "p99": found.packets_to_decide(990) },
        "targets": targets,
        "ok": found.meets(targets),
    })
}

fn text(found: &Recognition) -> String {
    let mut table = Table::new(["KIND", "IS", "FLOWS", "PACKETS", "MEDIA", "NONE", "P50", "P99", "REASONS"]);
    let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
    for (kind, tally) in found.kinds() {
        let mut reasons: Vec<_> = tally.reasons.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let reasons: Vec<String> = reasons.iter().map(|(why, n)| format!("{why} {n}")).collect();
        table.row([
            kind.name().to_owned(),
            (if kind.is_media() { "media" } else { "none" }).to_owned(),
            tally.flows.to_string(),
            tally.packets.to_string(),
            tally.media.to_string(),
            (tally.flows - tally.media).to_string(),
            number(tally.packets_to_decide(500)),
            number(tally.packets_to_decide(990)),
            reasons.join(", "),
        ]);
    }
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{s:.4}"));
    let mut text = format!("{table}");
    for mistake in &found.mistakes {
        let FlowRow { flow, packets, reason, .. } = &mistake.row;
        text.push_str(&format!("wrong: {} {flow}, {packets} packets: {reason}\n", mistake.kind.name()));
    }
    text.push_str(&format!(
        "precision {}, recall {}; packets to decide: median {}, 99 % {}\n",
        share(found.precision()),
        share(found.recall()),
        number(found.packets_to_decide(500)),
        number(found.packets_to_decide(990)),
    ));
    text
}
