//! What the demonstration has shown, in words: its scenario's targets as the result has judged them.

use crate::result::{Expectation, ScenarioResult};
use crate::summary::{CALLS, CALLS_AFTER, figure};

/// The congested link in the scenario's file.
pub const WAN: &str = "wan";
/// Name of the variant with the plain queue.
pub const FIFO: &str = "fifo";
/// The FIFO also counts as having failed the calls from this much delay over the link's on, at the 99th percentile, ms.
const FIFO_EXCESS_MS: f64 = 150.0;

/// One thing checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether it holds; `None` when the figure is missing.
    pub ok: Option<bool>,
    /// What was wanted and what was found.
    pub text: String,
}

/// What came out.
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
    /// Of the demonstration's result with its variant [`FIFO`], over a link of this one-way delay. `saturated` ends the
    /// sentence that there is no verdict, because the machine, not the network, limited the run.
    pub fn of(result: &ScenarioResult, saturated: Option<&str>, link_delay_ms: f64) -> Self {
        let mut checks: Vec<Check> = targets().map(|(metric, words)| words.check(result, &metric)).into();
        checks.push(fifo_fails(result, link_delay_ms));
        if let Some(why) = saturated {
            return Self { ok: None, headline: format!("No verdict: {why}"), checks };
        }
        let missed = checks.iter().any(|check| check.ok == Some(false));
        let unknown = checks.iter().any(|check| check.ok.is_none());
        let (ok, headline) = match (missed, unknown) {
            (true, _) => (Some(false), "Not every target was met."),
            (false, true) => (None, "No verdict: some figures are missing."),
            (false, false) => (Some(true), "Perhop kept the calls usable; the plain FIFO did not."),
        };
        Self { ok, headline: headline.to_owned(), checks }
    }
}

/// How a target reads.
struct Words {
    name: &'static str,
    unit: &'static str,
    /// The word before the limit, and the decimals that this has at least.
    bound: (&'static str, Option<usize>),
}

/// The targets of Perhop by their metrics, in the order in which they are told.
fn targets() -> [(String, Words); 5] {
    let words = |metric, name, unit, bound| (metric, Words { name, unit, bound });
    let (most, least) = (("at most", None), ("at least", Some(2)));
    [
        words(format!("{CALLS_AFTER}.loss_pct"), "call loss after detection", " %", most),
        words(format!("{CALLS}.loss_pct"), "loss of whole calls", " %", most),
        words(format!("{CALLS_AFTER}.delay_ms.p99"), "p99 one-way delay after detection", " ms", most),
        words(format!("{CALLS}.mos.mean"), "mean opinion score of whole calls", "", least),
        words(format!("link.{WAN}.utilisation_pct"), "link utilisation", " %", least),
    ]
}

fn judged<'a>(result: &'a ScenarioResult, metric: &str) -> Option<&'a Expectation> {
    result.expect.iter().find(|expect| expect.metric == metric)
}

impl Words {
    fn check(&self, result: &ScenarioResult, metric: &str) -> Check {
        let Self { name, unit, bound: (bound, decimals) } = self;
        let expect = judged(result, metric);
        let target = expect.and_then(|expect| expect.target.as_deref()).unwrap_or_default();
        let limit = target.trim_start_matches(['<', '>', '=', ' ']);
        let limit = match (decimals, limit.parse()) {
            (Some(decimals), Ok(limit)) => figure(Some(limit), *decimals),
            _ => limit.to_owned(),
        };
        let ours = figure(expect.and_then(|expect| expect.ours), 2);
        Check {
            ok: expect.and_then(|expect| expect.ok),
            text: format!("Perhop: {name}: {ours}{unit}, {bound} {limit}{unit}"),
        }
    }
}

/// Without a FIFO that harms the calls there is nothing to rescue them from.
fn fifo_fails(result: &ScenarioResult, link_delay_ms: f64) -> Check {
    let calls =
        result.variants.get(FIFO).and_then(|fifo| fifo.groups.iter().find(|group| group.name == CALLS));
    let excess = calls.and_then(|calls| calls.delay_ms).map(|delay| delay.p99 - link_delay_ms);
    let waits = excess.map(|excess| excess >= FIFO_EXCESS_MS).filter(|waits| *waits);
    let expect = judged(result, &format!("{FIFO}.{CALLS}.loss_pct"));
    let limit = expect.and_then(|expect| expect.target.as_deref()).unwrap_or_default();
    Check {
        ok: waits.or(expect.and_then(|expect| expect.ok)).or(excess.map(|_| false)),
        text: format!(
            "FIFO: the same calls lose {} % and at p99 wait {} ms beyond the link's delay, at least {} % or {FIFO_EXCESS_MS} ms",
            figure(calls.and_then(|calls| calls.loss_pct), 2),
            figure(excess, 1),
            limit.trim_start_matches(['>', '=', ' ']),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{DelayMs, GroupResult, Variant};

    fn result(perhop: [Option<f64>; 5], ok: [Option<bool>; 6], fifo: (f64, f64)) -> ScenarioResult {
        let limits = ["= 0", "<= 1", "<= 25", ">= 4.3", ">= 95"];
        let expect = |metric: String, ours, target: &str, ok| Expectation {
            metric,
            ours,
            target: Some(target.to_owned()),
            ok,
            ..Expectation::default()
        };
        let all = targets().into_iter().zip(perhop).zip(limits).zip(ok);
        let mut all: Vec<Expectation> =
            all.map(|((((metric, _), ours), target), ok)| expect(metric, ours, target, ok)).collect();
        all.push(expect("fifo.calls.loss_pct".into(), Some(fifo.0), ">= 5", ok[5]));
        let calls = GroupResult {
            loss_pct: Some(fifo.0),
            delay_ms: Some(DelayMs { p99: fifo.1, ..DelayMs::default() }),
            ..GroupResult::named("calls")
        };
        let fifo = Variant { groups: vec![calls], ..Variant::default() };
        ScenarioResult {
            expect: all,
            variants: [("fifo".to_owned(), fifo)].into(),
            ..ScenarioResult::default()
        }
    }

    const FIGURES: [Option<f64>; 5] = [Some(0.0), Some(0.018), Some(23.19), Some(4.341), Some(98.76)];

    #[test]
    fn every_target_reads_as_it_was_judged() {
        let verdict = Verdict::of(&result(FIGURES, [Some(true); 6], (61.77, 72.4)), None, 20.0);
        let texts: Vec<&str> = verdict.checks.iter().map(|check| check.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Perhop: call loss after detection: 0.00 %, at most 0 %",
                "Perhop: loss of whole calls: 0.02 %, at most 1 %",
                "Perhop: p99 one-way delay after detection: 23.19 ms, at most 25 ms",
                "Perhop: mean opinion score of whole calls: 4.34, at least 4.30",
                "Perhop: link utilisation: 98.76 %, at least 95.00 %",
                "FIFO: the same calls lose 61.77 % and at p99 wait 52.4 ms beyond the link's delay, at least 5 % or 150 ms",
            ]
        );
        assert_eq!(verdict.ok, Some(true));
        let why = "the machine was saturated: it was. Stop.";
        let saturated = Verdict::of(&result(FIGURES, [Some(false); 6], (0.0, 20.0)), Some(why), 20.0);
        assert_eq!(
            (saturated.ok, saturated.headline.as_str()),
            (None, "No verdict: the machine was saturated: it was. Stop.")
        );
    }

    #[test]
    fn one_target_that_is_missed_decides_and_a_slow_fifo_fails_without_loss() {
        let ok = |ok: [Option<bool>; 6], p99| Verdict::of(&result(FIGURES, ok, (0.0, p99)), None, 20.0).ok;
        for missed in 0..6 {
            let mut all = [Some(true); 6];
            all[missed] = Some(false);
            assert_eq!(ok(all, 100.0), Some(false), "{missed}");
        }
        let without_loss = [Some(true), Some(true), Some(true), Some(true), Some(true), Some(false)];
        assert_eq!((ok(without_loss, 169.0), ok(without_loss, 171.0)), (Some(false), Some(true)));
        // The waiting alone decides where the loss is not known.
        let unknown = [Some(true), Some(true), Some(true), Some(true), Some(true), None];
        assert_eq!((ok(unknown, 169.0), ok(unknown, 171.0)), (Some(false), Some(true)));
    }

    #[test]
    fn missing_figures_are_no_verdict() {
        let verdict = Verdict::of(&ScenarioResult::default(), None, 20.0);
        assert_eq!(verdict.ok, None);
        assert!(verdict.checks.len() == 6 && verdict.checks.iter().all(|check| check.ok.is_none()));
    }
}
