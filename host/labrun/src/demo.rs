//! The demonstration: the same calls through a plain FIFO and through Perhop, judged and reported.

use crate::dataplane::{RouterKind, edge_queue_frames};
use crate::error::LabError;
use crate::measure::{data, detection_offsets};
use crate::options::DemoOptions;
use crate::run::{RunOutcome, run};
use crate::writable::check_writable;
use perhop_report::{DemoReport, DemoResult, DemoTargets, RunData, Verdict, demo_page, demo_table};
use perhop_units::Duration;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const REPORT: &str = "report.html";
const RESULT: &str = "result.json";

/// What is told while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What happens now.
    pub what: String,
    /// Time until the end of the whole demonstration.
    pub remaining: Duration,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct DemoOutcome {
    /// Figures of both runs, for `--json`.
    pub result: DemoResult,
    /// Whether the targets hold; none on a saturated machine.
    pub verdict: Verdict,
    /// The table for a terminal.
    pub table: String,
    /// The page.
    pub report: PathBuf,
    /// Why there is no verdict, with the remedy, if the machine was saturated.
    pub saturated: Option<String>,
    /// What to know of the machine, a sentence for each run.
    pub machine: Vec<String>,
}

impl DemoOutcome {
    /// 0 when every target holds, 1 when one does not, 3 on a saturated machine or when a figure is missing.
    pub fn exit_code(&self) -> u8 {
        match (self.saturated.is_some(), self.verdict.ok) {
            (true, _) | (false, None) => 3,
            (false, Some(true)) => 0,
            (false, Some(false)) => 1,
        }
    }
}

/// Runs everything. Blocks for about a minute with default options; `interrupted` ends it within a second, and what it
/// made is gone when it returns, however it returns. `progress` is called about once a second.
///
/// # Errors
/// See [`LabError`].
pub fn demo(
    options: &DemoOptions,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<DemoOutcome, LabError> {
    options.check()?;
    // Found out before the minute of work, not after it.
    check_output(&options.out)?;
    let one = options.timeline().quiet;
    let mut tell = |what: &str, left: Duration, later: Duration| {
        progress(&Progress { what: what.to_owned(), remaining: left + later });
    };
    let fifo = run(RouterKind::Fifo, options, interrupted, &mut |what, left| tell(what, left, one))?;
    let perhop =
        run(RouterKind::Perhop, options, interrupted, &mut |what, left| tell(what, left, Duration::ZERO))?;
    tell("writing the report", Duration::ZERO, Duration::ZERO);
    conclude(options, &fifo, &perhop)
}

fn conclude(options: &DemoOptions, fifo: &RunOutcome, perhop: &RunOutcome) -> Result<DemoOutcome, LabError> {
    let offsets = detection_offsets(perhop);
    let runs: Vec<RunData> = [fifo, perhop].iter().map(|outcome| data(outcome, options, &offsets)).collect();
    let result = DemoResult { fifo: runs[0].result.clone(), perhop: runs[1].result.clone() };
    let table = demo_table(&[("FIFO", &result.fifo), ("Perhop", &result.perhop)]);
    let judged = DemoTargets::new(options.delay.as_millis_f64(), options.codec).judge(&result);
    let runs_of = [fifo, perhop];
    let saturated = runs_of.iter().find_map(|outcome| outcome.machine.saturated()).or_else(|| {
        let failed = judged.ok != Some(true);
        runs_of.iter().filter(|_| failed).find_map(|outcome| outcome.machine.starved())
    });
    let verdict = match &saturated {
        Some(why) => Verdict::saturated(why, judged.checks),
        None => judged,
    };
    let machine: Vec<String> = [fifo, perhop]
        .iter()
        .map(|outcome| format!("{}: {}", outcome.kind.name(), outcome.machine.describe()))
        .collect();
    let page = demo_page(&DemoReport {
        title: "Calls on a congested link".into(),
        options: described(options, fifo),
        machine: machine.clone(),
        verdict: verdict.clone(),
        runs,
    });
    let report = options.out.join(REPORT);
    write(&report, &page)?;
    let line = result
        .to_json_line()
        .map_err(|e| LabError::Output { path: report.clone(), reason: e.to_string() })?;
    write(&options.out.join(RESULT), &format!("{line}\n"))?;
    Ok(DemoOutcome { result, verdict, table, report, saturated, machine })
}

/// The conditions, for the page.
fn described(options: &DemoOptions, run: &RunOutcome) -> Vec<(String, String)> {
    let mut rows = vec![
        ("link", format!("{} in both directions, {} one way", options.rate, options.delay)),
        (
            "calls",
            format!(
                "{} of {}, {} s each, RTP both ways, unmarked",
                options.calls, options.codec, options.seconds
            ),
        ),
        ("bulk", format!("{} TCP transfers, {}", run.bulk.len(), run.congestion_control)),
        ("flood", format!("{} of UDP", options.flood_rate())),
        (
            "plain FIFO",
            format!(
                "one queue of {} full-size packets, the memory of all queues of edge.toml together",
                edge_queue_frames(options.rate)
            ),
        ),
        ("Perhop", "examples/edge.toml, unedited but for the link's rate when --rate is given".to_owned()),
        ("one-way delay", "from just before sendto(2) to the kernel's receive stamp, one clock".to_owned()),
        (
            "opinion score",
            "E-model of ITU-T G.107 with an adaptive playout buffer of 40 ms over windows of 1 s".to_owned(),
        ),
        (
            "link used",
            "bytes of the frames that left the link over what its rate carries, while flood and calls last"
                .to_owned(),
        ),
        ("seed", options.seed.to_string()),
    ];
    if let Some(directory) = &options.pcap {
        rows.push(("captures", directory.display().to_string()));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Makes the directory and sees that both files can be written there, where older ones may belong to somebody else.
fn check_output(path: &Path) -> Result<(), LabError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: std::io::Error| LabError::Output { path, reason: e.to_string() }
    };
    check_writable(path).and_then(|()| std::fs::create_dir_all(path)).map_err(failed(path))?;
    for older in [REPORT, RESULT].map(|name| path.join(name)) {
        if older.exists() {
            std::fs::OpenOptions::new().append(true).open(&older).map_err(failed(&older))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    std::fs::write(path, text).map_err(|e| LabError::Output { path: path.to_owned(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_cannot_be_written_is_known_at_once() {
        let place = std::env::temp_dir().join(format!("perhop-demo-output-{}", std::process::id()));
        check_output(&place).unwrap();
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "nothing stays behind");
        // No right to write keeps root out; a directory of that name does.
        std::fs::create_dir(place.join(REPORT)).unwrap();
        let refused = check_output(&place).unwrap_err().to_string();
        assert!(refused.contains(REPORT), "{refused}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
