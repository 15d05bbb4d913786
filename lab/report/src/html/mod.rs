//! The demonstration as one self-contained HTML page: verdict, table, then charts of both runs.
//!
//! No script, no font, no image and no address outside the page. A page of a run of minutes is well below 1 MB, as
//! every line is thinned to what a screen can show.

mod charts;
pub(crate) mod style;

use crate::plot::escape;
use crate::result::ScenarioResult;
use crate::series::Series;
use crate::summary::{figure, summary_rows};
use crate::verdict::Verdict;
use perhop_quality::{CallRecord, Distribution};
use perhop_units::{Duration, Instant};

/// Everything the page shows.
#[derive(Clone, Debug)]
pub struct DemoReport {
    /// Title of the page.
    pub title: String,
    /// What was run: option and value.
    pub options: Vec<(String, String)>,
    /// How far this machine can be trusted: CPU steal, timer error, each a sentence.
    pub machine: Vec<String>,
    /// What came out.
    pub verdict: Verdict,
    /// The runs to compare, at most a handful.
    pub runs: Vec<RunData>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunData {
    /// Name of the run, such as `FIFO` or `Perhop`.
    pub name: String,
    /// Its figures.
    pub result: ScenarioResult,
    /// Its values over time.
    pub series: RunSeries,
    /// Instants worth a line in every chart over time.
    pub marks: Vec<TimeMark>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeMark {
    /// When, since the start of the run.
    pub at: Duration,
    /// What, in a word or two.
    pub label: String,
}

/// A series with a name.
#[derive(Clone, Debug)]
pub struct NamedSeries {
    /// Name in the legend.
    pub name: String,
    /// The values.
    pub series: Series,
}

/// Values over time of one run, all since the start of the run. What is empty is left out of the page.
#[derive(Clone, Debug)]
pub struct RunSeries {
    /// One-way delay in ms of every packet of a call that arrived, at the instant of its sending.
    pub call_delay_ms: Series,
    /// 1 for every packet of a call that was lost, 0 for every one that arrived, at the instant of its sending.
    pub call_loss: Series,
    /// For calls, bulk, flood: bits at IP length of every packet that left the link, at that instant.
    pub throughput_bits: Vec<NamedSeries>,
    /// Bytes waiting, by queue.
    pub queue_bytes: Vec<NamedSeries>,
    /// One-way delays of all packets of calls.
    pub delays: Distribution,
}

impl RunSeries {
    /// Empty series with bins of 100 ms.
    pub fn new() -> Self {
        let bin = Duration::from_millis(100);
        Self {
            call_delay_ms: Series::new(bin),
            call_loss: Series::new(bin),
            throughput_bits: Vec::new(),
            queue_bytes: Vec::new(),
            delays: Distribution::default(),
        }
    }

    /// The series of these calls, counted from `epoch`, the start of the run; packets sent before it count as sent
    /// then. Throughput and queues are left empty.
    pub fn of_calls<'a>(epoch: Instant, records: impl IntoIterator<Item = &'a CallRecord>) -> Self {
        let mut series = Self::new();
        let mut delays = Vec::new();
        for (sent, arrived) in records.into_iter().flat_map(CallRecord::packets) {
            let at = sent.since(epoch);
            series.call_loss.record(at, if arrived.is_none() { 1.0 } else { 0.0 });
            if let Some(arrived) = arrived {
                let delay = arrived.since(sent);
                series.call_delay_ms.record(at, delay.as_millis_f64());
                delays.push(delay.as_nanos());
            }
        }
        series.delays = Distribution::from_nanos(delays);
        series
    }
}

impl Default for RunSeries {
    fn default() -> Self {
        Self::new()
    }
}

/// The page.
pub fn demo_page(report: &DemoReport) -> String {
    let mut out = String::with_capacity(64 * 1024);
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    out.push_str(&format!(
        "<title>{}</title>\n<style>{}</style>\n</head>\n",
        escape(&report.title),
        style::CSS
    ));
    out.push_str(&format!("<body>\n<main>\n<h1>{}</h1>\n", escape(&report.title)));
    verdict(&report.verdict, &mut out);
    table(&report.runs, &mut out);
    for section in charts::sections(&report.runs) {
        out.push_str(&format!("<section>\n<h2>{}</h2>\n<div class=\"charts\">\n", escape(section.title)));
        for svg in &section.charts {
            out.push_str(&format!("<figure>{svg}</figure>\n"));
        }
        out.push_str(&format!("</div>\n<p>{}</p>\n</section>\n", escape(section.reading)));
    }
    conditions(report, &mut out);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn verdict(verdict: &Verdict, out: &mut String) {
    let (class, sign) = outcome(verdict.ok);
    out.push_str(&format!(
        "<section class=\"verdict {class}\">\n<p class=\"headline\"><span class=\"sign\">{sign}</span> {}</p>\n<ul>\n",
        escape(&verdict.headline)
    ));
    for check in &verdict.checks {
        let (class, sign) = outcome(check.ok);
        out.push_str(&format!(
            "<li class=\"{class}\"><span class=\"sign\">{sign}</span> {}</li>\n",
            escape(&check.text)
        ));
    }
    out.push_str("</ul>\n</section>\n");
}

/// Class and word of an outcome: a word, so that it does not hang on colour.
fn outcome(ok: Option<bool>) -> (&'static str, &'static str) {
    match ok {
        Some(true) => ("pass", "PASS"),
        Some(false) => ("fail", "FAIL"),
        None => ("unknown", "NOT KNOWN"),
    }
}

const TABLE_HEAD: &str = "<section>\n<h2>Calls, bulk transfers and the link</h2>\n<div class=\"scroll\"><table>\n\
<thead><tr><th scope=\"col\">Router</th><th scope=\"col\">Part</th><th scope=\"col\">Loss, %</th>\
<th scope=\"col\">Delay p50, ms</th><th scope=\"col\">p99, ms</th><th scope=\"col\">max, ms</th>\
<th scope=\"col\">Jitter, ms</th><th scope=\"col\">MOS mean</th><th scope=\"col\">MOS worst call</th>\
<th scope=\"col\">Bulk goodput, Mbit/s</th><th scope=\"col\">Link used, %</th></tr></thead>\n<tbody>\n";

const TABLE_NOTE: &str = "</tbody></table></div>\n<p>Delay is one way, over packets of calls that arrived. Jitter is the \
mean difference between the delays of successive packets. MOS is the opinion score of the E-model (ITU-T G.107), from \
1 to 4.5; packets too late for the playout buffer count as lost in it. After detection means packets sent after the \
router recognised the call, or after the same instant where nothing recognises calls.</p>\n</section>\n";

fn table(runs: &[RunData], out: &mut String) {
    out.push_str(TABLE_HEAD);
    for run in runs {
        for row in summary_rows(&run.name, &run.result) {
            out.push_str(&format!(
                "<tr><th scope=\"row\">{}</th><td class=\"part\">{}</td>",
                escape(&row.run),
                row.part
            ));
            let whole = row.part == "whole call";
            let cells = [
                (row.loss_pct, 2),
                (row.p50_ms, 1),
                (row.p99_ms, 1),
                (row.max_ms, 1),
                (row.jitter_ms, 2),
                (row.mos_mean, 2),
                (row.mos_min, 2),
            ];
            for (value, decimals) in cells {
                out.push_str(&format!("<td>{}</td>", figure(value, decimals)));
            }
            for (value, decimals) in [(row.bulk_mbps, 2), (row.utilisation_pct, 1)] {
                let text = if whole { figure(value, decimals) } else { String::new() };
                out.push_str(&format!("<td>{text}</td>"));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str(TABLE_NOTE);
}

/// What was run and on what: options, machine, warnings, drops.
fn conditions(report: &DemoReport, out: &mut String) {
    out.push_str("<section>\n<h2>What was run</h2>\n<dl>\n");
    for (name, value) in &report.options {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
    }
    for run in &report.runs {
        for link in &run.result.links {
            for (reason, count) in &link.drops {
                out.push_str(&format!(
                    "<dt>{}: {} dropped on {}</dt><dd>{count} packets</dd>\n",
                    escape(&run.name),
                    escape(reason),
                    escape(&link.name)
                ));
            }
        }
    }
    out.push_str("</dl>\n<h2>How far to trust it</h2>\n<ul>\n");
    for line in &report.machine {
        out.push_str(&format!("<li>{}</li>\n", escape(line)));
    }
    for run in &report.runs {
        for warning in run.result.warnings.iter().chain(&run.result.machine_warnings) {
            out.push_str(&format!("<li>{}: {}</li>\n", escape(&run.name), escape(warning)));
        }
    }
    out.push_str("</ul>\n</section>\n");
}

#[cfg(test)]
mod tests;
