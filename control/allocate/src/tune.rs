//! The set-up procedure of threshold allocation: as much efficiency as a constraint allows.
//!
//! l_min is raised step by step, which raises the efficiency. When a constraint is hit, l_max gives way: down if too
//! much is sent above the allocation, up if there are too many requests; then l_min goes on. When l_max can give way no
//! more, the factors are tried: both directions, because which one helps depends on the traffic. Every point is judged
//! by an evaluator, for example [`crate::fluid`] over some seeds.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3.4, with factors left to evaluation.

use crate::threshold::ThresholdConfig;
use serde::{Deserialize, Serialize};

/// What an evaluator finds for settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Mean carried by mean allocated, 0 … 1.
    pub efficiency: f64,
    /// Bits offered above the allocation by bits offered, 0 … 1.
    pub over_limit: f64,
    /// Requests to the broker a second.
    pub requests_per_sec: f64,
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Share of over-limit traffic.
    pub over_limit: f64,
    /// Requests a second.
    pub requests_per_sec: f64,
}

impl Constraint {
    /// What of it an outcome exceeds; over-limit traffic before requests, because it hurts users.
    pub fn hit(&self, outcome: &Outcome) -> Option<Hit> {
        if outcome.over_limit > self.over_limit {
            Some(Hit::OverLimit)
        } else if outcome.requests_per_sec > self.requests_per_sec {
            Some(Hit::Requests)
        } else {
            None
        }
    }
}

/// Which constraint was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hit {
    /// Too much over-limit traffic.
    OverLimit,
    /// Too many requests.
    Requests,
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunePlan {
    /// Where to begin; brought into the wedge if outside.
    pub start: ThresholdConfig,
    /// Step of both thresholds and of the factors, above 0, ppm.
    pub step_ppm: u32,
    /// l_max goes no lower, ppm.
    pub least_upper_ppm: u32,
    /// l_max goes no higher, below one whole, ppm.
    pub most_upper_ppm: u32,
    /// The constraint.
    pub constraint: Constraint,
    /// Most evaluations.
    pub evaluations: u32,
}

impl Default for TunePlan {
    /// From 50 % and 90 % with the published factors in steps of 2.5 %, at most 0.05 requests a second and 2 % above the
    /// allocation.
    fn default() -> Self {
        Self {
            start: ThresholdConfig { lower_ppm: 500_000, ..ThresholdConfig::default() },
            step_ppm: 25_000,
            least_upper_ppm: 350_000,
            most_upper_ppm: 975_000,
            constraint: Constraint { over_limit: 0.02, requests_per_sec: 0.05 },
            evaluations: 64,
        }
    }
}

/// What a step of the procedure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Move {
    /// The start.
    Start,
    /// l_min up.
    RaiseLower,
    /// l_max down, against over-limit traffic.
    LowerUpper,
    /// l_max up, against requests.
    RaiseUpper,
    /// i or d changed.
    Factors,
}

/// A step and what it gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneStep {
    /// What was changed.
    pub change: Move,
    /// The settings.
    pub config: ThresholdConfig,
    /// What the evaluator found.
    pub outcome: Outcome,
    /// What was exceeded.
    pub hit: Option<Hit>,
}

/// Result of the procedure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// All steps in order.
    pub steps: Vec<TuneStep>,
    /// The most efficient one that keeps the constraint; `None` if none does.
    pub best: Option<TuneStep>,
    /// The trade-off: steps than which none is both more efficient and less demanding in requests, by efficiency.
    pub curve: Vec<TuneStep>,
}

/// Runs the procedure. Evaluates at most `plan.evaluations` settings, all inside the wedge.
pub fn tune(plan: &TunePlan, evaluate: impl FnMut(&ThresholdConfig) -> Outcome) -> Tuned {
    let mut start = plan.start;
    start.lower_ppm = start.lower_ppm.min(start.greatest_lower_ppm());
    let mut search = Search { plan, evaluate, steps: vec![] };
    if start.inside_wedge() && start.lower_ppm > 0 {
        search.thresholds(start);
        search.factors();
    }
    let steps = search.steps;
    let best = best(&steps);
    let curve = curve(&steps);
    Tuned { steps, best, curve }
}

struct Search<'a, F> {
    plan: &'a TunePlan,
    evaluate: F,
    steps: Vec<TuneStep>,
}

impl<F: FnMut(&ThresholdConfig) -> Outcome> Search<'_, F> {
    /// Evaluates settings that were not evaluated yet; `None` for known or inadmissible ones and at the end of the plan.
    fn step(&mut self, change: Move, config: ThresholdConfig) -> Option<TuneStep> {
        let full = self.steps.len() >= self.plan.evaluations as usize;
        let known = self.steps.iter().any(|step| step.config == config);
        if full || known || !config.inside_wedge() {
            return None;
        }
        let outcome = (self.evaluate)(&config);
        let step = TuneStep { change, config, outcome, hit: self.plan.constraint.hit(&outcome) };
        self.steps.push(step);
        Some(step)
    }

    fn thresholds(&mut self, start: ThresholdConfig) {
        let step_ppm = self.plan.step_ppm.max(1);
        let Some(mut at) = self.step(Move::Start, start) else { return };
        loop {
            let mut config = at.config;
            let change = match at.hit {
                None => {
                    config.lower_ppm = config.lower_ppm.saturating_add(step_ppm);
                    Move::RaiseLower
                }
                Some(Hit::OverLimit) => {
                    config.upper_ppm = config.upper_ppm.saturating_sub(step_ppm);
                    Move::LowerUpper
                }
                Some(Hit::Requests) => {
                    config.upper_ppm = config.upper_ppm.saturating_add(step_ppm);
                    Move::RaiseUpper
                }
            };
            let range = self.plan.least_upper_ppm..=self.plan.most_upper_ppm;
            if !range.contains(&config.upper_ppm) {
                return;
            }
            let Some(next) = self.step(change, config) else { return };
            at = next;
        }
    }

    /// Changes the factors of the best settings as long as that helps.
    fn factors(&mut self) {
        let step = i64::from(self.plan.step_ppm.max(1));
        while let Some(base) = best(&self.steps) {
            for (up, down) in [(step, 0), (-step, 0), (0, step), (0, -step)] {
                let moved = |ppm: u32, by: i64| u32::try_from(i64::from(ppm) + by).ok();
                let Some((increase_ppm, decrease_ppm)) =
                    moved(base.config.increase_ppm, up).zip(moved(base.config.decrease_ppm, down))
                else {
                    continue;
                };
                if increase_ppm > 1_000_000 && (1..1_000_000).contains(&decrease_ppm) {
                    self.step(Move::Factors, ThresholdConfig { increase_ppm, decrease_ppm, ..base.config });
                }
            }
            if best(&self.steps).is_some_and(|now| now.config == base.config) {
                return;
            }
        }
    }
}

/// The first of the most efficient steps that keep the constraint.
fn best(steps: &[TuneStep]) -> Option<TuneStep> {
    let feasible = steps.iter().filter(|step| step.hit.is_none());
    feasible.copied().reduce(|a, b| if b.outcome.efficiency > a.outcome.efficiency { b } else { a })
}

fn curve(steps: &[TuneStep]) -> Vec<TuneStep> {
    let beaten = |step: &TuneStep| {
        steps.iter().any(|other| {
            let (a, b) = (&other.outcome, &step.outcome);
            a.efficiency >= b.efficiency
                && a.requests_per_sec <= b.requests_per_sec
                && (a.efficiency > b.efficiency || a.requests_per_sec < b.requests_per_sec)
        })
    };
    let mut curve: Vec<TuneStep> = steps.iter().filter(|step| !beaten(step)).copied().collect();
    curve.sort_by(|a, b| a.outcome.efficiency.total_cmp(&b.outcome.efficiency));
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(ppm: u32) -> f64 {
        f64::from(ppm) / 1e6
    }

    /// Efficiency and requests grow with l_min, over-limit traffic with l_max.
    fn model(config: &ThresholdConfig) -> Outcome {
        let band = share(config.upper_ppm) - share(config.lower_ppm);
        Outcome {
            efficiency: (share(config.lower_ppm) + share(config.upper_ppm)) / 2.0,
            over_limit: (share(config.upper_ppm) - 0.7).max(0.0) / 10.0,
            requests_per_sec: 0.005 / band,
        }
    }

    #[test]
    fn over_limit_traffic_lowers_the_upper_threshold() {
        let plan = TunePlan {
            constraint: Constraint { over_limit: 0.01, requests_per_sec: 1.0 },
            ..TunePlan::default()
        };
        let tuned = tune(&plan, model);
        assert_eq!(tuned.steps[0].hit, Some(Hit::OverLimit));
        assert!(tuned.steps.iter().any(|step| step.change == Move::LowerUpper));
        let best = tuned.best.expect("a lower upper threshold keeps the constraint");
        assert!(best.config.upper_ppm <= 800_000 && best.config.lower_ppm > 600_000, "{best:?}");
        assert!(tuned.steps.iter().all(|step| step.config.inside_wedge()));
    }

    #[test]
    fn requests_raise_the_upper_threshold() {
        let plan = TunePlan {
            constraint: Constraint { over_limit: 1.0, requests_per_sec: 0.02 },
            ..TunePlan::default()
        };
        let tuned = tune(&plan, model);
        assert!(tuned.steps.iter().any(|step| step.change == Move::RaiseUpper));
        let best = tuned.best.expect("the start keeps the constraint");
        assert!(best.outcome.efficiency > 0.75 && best.hit.is_none());
    }

    #[test]
    fn the_curve_is_a_trade_off_and_the_plan_is_kept() {
        let plan = TunePlan { evaluations: 9, ..TunePlan::default() };
        let tuned = tune(&plan, model);
        assert_eq!(tuned.steps.len(), 9);
        for pair in tuned.curve.windows(2) {
            assert!(pair[0].outcome.efficiency <= pair[1].outcome.efficiency);
            assert!(pair[0].outcome.requests_per_sec <= pair[1].outcome.requests_per_sec);
        }
        let impossible = Constraint { over_limit: -1.0, requests_per_sec: -1.0 };
        assert_eq!(tune(&TunePlan { constraint: impossible, ..plan }, model).best, None);
    }
}
