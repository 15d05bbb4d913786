//! What the demonstration must show, and whether it did.

use crate::result::DemoResult;
use crate::summary::{CALLS, CALLS_AFTER, UPLINK, figure};
use perhop_quality::Codec;
use perhop_quality::emodel::{DEFAULT_RATING, mos_from_rating};

/// One thing checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether it holds; `None` where it cannot be said.
    pub ok: Option<bool>,
    /// The figure and its limit, as a sentence.
    pub text: String,
}

/// The outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether everything holds; `None` when something could not be said, or the machine was saturated.
    pub ok: Option<bool>,
    /// One sentence.
    pub headline: String,
    /// What was checked.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// The verdict that there is none: the machine, not the network, limited the run. `why` ends the sentence.
    pub fn saturated(why: &str, checks: Vec<Check>) -> Self {
        Self { ok: None, headline: format!("No verdict: {why}"), checks }
    }
}

/// Limits of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemoTargets {
    /// One-way delay of the link, ms.
    pub link_delay_ms: f64,
    /// What queueing may add at the 99th percentile after detection, ms.
    pub queueing_ms: f64,
    /// Loss of whole calls, percent.
    pub whole_loss_pct: f64,
    /// Least mean opinion score of whole calls.
    pub mos_mean: f64,
    /// Least utilisation of the link, percent.
    pub utilisation_pct: f64,
    /// The FIFO counts as having failed the calls from this loss on, percent …
    pub fifo_loss_pct: f64,
    /// … or from this much delay over the link's at the 99th percentile, ms.
    pub fifo_excess_ms: f64,
}

/// The rating whose mean opinion score is `mos`, by bisection: the score rises with the rating from 10 on.
fn rating_of(mos: f64) -> f64 {
    let (mut low, mut high) = (10.0, DEFAULT_RATING);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if mos_from_rating(middle) < mos { low = middle } else { high = middle }
    }
    high
}

impl DemoTargets {
    /// The targets for a link of this one-way delay and calls of this codec: an opinion score of 4.3 with G.711, and
    /// the same budget of impairment with other codecs. The E-model adds impairments as ratings (G.107 §7.1), so that
    /// is where the budget is the same; the score is no linear function of the rating.
    pub fn new(link_delay_ms: f64, codec: Codec) -> Self {
        let asked = mos_from_rating(rating_of(4.3) - codec.equipment_impairment());
        Self {
            link_delay_ms,
            queueing_ms: 5.0,
            whole_loss_pct: 1.0,
            mos_mean: asked,
            utilisation_pct: 95.0,
            fifo_loss_pct: 5.0,
            fifo_excess_ms: 150.0,
        }
    }

    /// Judges a result.
    pub fn judge(&self, demo: &DemoResult) -> Verdict {
        let whole = demo.perhop.group(CALLS);
        let after = demo.perhop.group(CALLS_AFTER);
        let most = |name: &str, unit: &str, value: Option<f64>, limit: f64| Check {
            ok: value.map(|v| v <= limit),
            text: format!("{name}: {} {unit}, at most {limit} {unit}", figure(value, 2)),
        };
        let least = |name: &str, unit: &str, value: Option<f64>, limit: f64| Check {
            ok: value.map(|v| v >= limit),
            text: format!("{name}: {}{unit}, at least {}{unit}", figure(value, 2), figure(Some(limit), 2)),
        };
        let p99_limit = self.link_delay_ms + self.queueing_ms;
        let checks = vec![
            most("Perhop: call loss after detection", "%", after.and_then(|g| g.loss_pct), 0.0),
            most("Perhop: loss of whole calls", "%", whole.and_then(|g| g.loss_pct), self.whole_loss_pct),
            most(
                "Perhop: p99 one-way delay after detection",
                "ms",
                after.and_then(|g| g.delay_ms).map(|d| d.p99),
                p99_limit,
            ),
            least(
                "Perhop: mean opinion score of whole calls",
                "",
                whole.and_then(|g| g.mos).map(|m| m.mean),
                self.mos_mean,
            ),
            least(
                "Perhop: link utilisation",
                " %",
                demo.perhop.link(UPLINK).and_then(|l| l.utilisation_pct),
                self.utilisation_pct,
            ),
            self.fifo_fails(demo),
        ];
        let ok = if checks.iter().any(|c| c.ok == Some(false)) {
            Some(false)
        } else if checks.iter().any(|c| c.ok.is_none()) {
            None
        } else {
            Some(true)
        };
        let headline = match ok {
            Some(true) => "Perhop kept the calls usable; the plain FIFO did not.",
            Some(false) => "Not every target was met.",
            None => "No verdict: some figures are missing.",
        };
        Verdict { ok, headline: headline.to_owned(), checks }
    }

    /// Without a FIFO that harms the calls there is nothing to rescue them from.
    fn fifo_fails(&self, demo: &DemoResult) -> Check {
        let calls = demo.fifo.group(CALLS);
        let loss = calls.and_then(|g| g.loss_pct);
        let excess = calls.and_then(|g| g.delay_ms).map(|d| d.p99 - self.link_delay_ms);
        let ok = match (loss, excess) {
            (None, None) => None,
            _ => Some(
                loss.is_some_and(|l| l >= self.fifo_loss_pct)
                    || excess.is_some_and(|e| e >= self.fifo_excess_ms),
            ),
        };
        Check {
            ok,
            text: format!(
                "FIFO: the same calls lose {} % and at p99 wait {} ms beyond the link's delay, at least {} % or {} ms",
                figure(loss, 2),
                figure(excess, 1),
                self.fifo_loss_pct,
                self.fifo_excess_ms
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{DelayMs, GroupResult, LinkResult, Mos, ScenarioResult};

    fn run(loss: f64, p99: f64) -> ScenarioResult {
        let calls = |name| GroupResult {
            loss_pct: Some(loss),
            delay_ms: Some(DelayMs { p99, ..DelayMs::default() }),
            mos: Some(Mos { mean: 4.35, min: 4.3 }),
            ..GroupResult::named(name)
        };
        let link = LinkResult { name: "uplink".into(), utilisation_pct: Some(98.0), ..LinkResult::default() };
        ScenarioResult {
            groups: vec![calls("calls"), calls("calls_after_detection")],
            links: vec![link],
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn every_target_is_checked() {
        let targets = DemoTargets::new(20.0, Codec::G711U);
        let good = DemoResult { fifo: run(12.0, 600.0), perhop: run(0.0, 24.9) };
        let verdict = targets.judge(&good);
        assert_eq!(verdict.ok, Some(true), "{verdict:?}");
        assert_eq!(verdict.checks.len(), 6);
        assert_eq!(
            verdict.checks[2].text,
            "Perhop: p99 one-way delay after detection: 24.90 ms, at most 25 ms"
        );
        let failed = |demo: &DemoResult| -> Vec<usize> {
            let checks = targets.judge(demo).checks;
            (0..checks.len()).filter(|i| checks[*i].ok == Some(false)).collect()
        };
        assert_eq!(failed(&DemoResult { perhop: run(0.5, 24.9), ..good.clone() }), [0]);
        assert_eq!(failed(&DemoResult { perhop: run(2.0, 26.0), ..good.clone() }), [0, 1, 2]);
        assert_eq!(failed(&DemoResult { fifo: run(1.0, 100.0), ..good.clone() }), [5]);
        assert_eq!(failed(&DemoResult { fifo: run(0.0, 171.0), ..good.clone() }), Vec::<usize>::new());
    }

    /// G.729 reaches 4.14 at best (R = 83.2); 4.3 leaves G.711 a budget of 4.8 (R = 88.4), which makes 78.4 here.
    #[test]
    fn the_score_asked_for_follows_the_codec() {
        let asked = |codec| format!("{:.2}", DemoTargets::new(20.0, codec).mos_mean);
        assert_eq!(asked(Codec::G711A), "4.30");
        assert_eq!(asked(Codec::G729), "3.97");
    }

    #[test]
    fn missing_figures_are_no_verdict() {
        let verdict = DemoTargets::new(20.0, Codec::G711U).judge(&DemoResult::default());
        assert_eq!(verdict.ok, None);
        assert!(verdict.checks.iter().all(|check| check.ok.is_none()));
    }
}
