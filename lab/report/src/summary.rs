//! The rows that terminal table and page share: each run, for the whole call and for the time after detection.

use crate::result::ScenarioResult;

/// One row; what is not known is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// Name of the run.
    pub run: String,
    /// Which part of the calls.
    pub part: &'static str,
    /// Loss, percent.
    pub loss_pct: Option<f64>,
    /// Median one-way delay, ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile of one-way delay, ms.
    pub p99_ms: Option<f64>,
    /// Largest one-way delay, ms.
    pub max_ms: Option<f64>,
    /// Mean jitter, ms.
    pub jitter_ms: Option<f64>,
    /// Mean opinion score over calls.
    pub mos_mean: Option<f64>,
    /// Opinion score of the worst call.
    pub mos_min: Option<f64>,
    /// Goodput of all bulk transfers, Mbit/s; in the row of the whole call only.
    pub bulk_mbps: Option<f64>,
    /// Utilisation of the link, percent; in the row of the whole call only.
    pub utilisation_pct: Option<f64>,
}

/// Group of the whole calls.
pub const CALLS: &str = "calls";
/// Group of the calls' packets sent after detection.
pub const CALLS_AFTER: &str = "calls_after_detection";
/// Group of the TCP transfers.
pub const BULK: &str = "bulk";
/// The congested link.
pub const UPLINK: &str = "uplink";

/// The two rows of a run of the demonstration.
pub fn summary_rows(name: &str, result: &ScenarioResult) -> [SummaryRow; 2] {
    [("whole call", CALLS), ("after detection", CALLS_AFTER)].map(|(part, group)| {
        let calls = result.group(group);
        let delay = calls.and_then(|g| g.delay_ms);
        let whole = group == CALLS;
        let bulk = result.group(BULK).and_then(|g| g.throughput_kbps).map(|t| t.mean / 1000.0);
        let link = result.link(UPLINK).and_then(|l| l.utilisation_pct);
        SummaryRow {
            run: name.to_owned(),
            part,
            loss_pct: calls.and_then(|g| g.loss_pct),
            p50_ms: delay.map(|d| d.p50),
            p99_ms: delay.map(|d| d.p99),
            max_ms: delay.map(|d| d.max),
            jitter_ms: calls.and_then(|g| g.jitter_ms).map(|j| j.mean),
            mos_mean: calls.and_then(|g| g.mos).map(|m| m.mean),
            mos_min: calls.and_then(|g| g.mos).map(|m| m.min),
            bulk_mbps: bulk.filter(|_| whole),
            utilisation_pct: link.filter(|_| whole),
        }
    })
}

/// A figure with so many decimals, a dash where there is none.
pub(crate) fn figure(value: Option<f64>, decimals: usize) -> String {
    match value {
        // Adding zero turns the negative zero of rounding into zero.
        Some(v) if v.is_finite() => format!("{:.decimals$}", v + 0.0),
        _ => "–".to_owned(),
    }
}
