//! The steps of the procedure in words and figures.

use super::points::Points;
use crate::table::Table;
use perhop_allocate::tune::{Hit, Move, TuneStep, Tuned};
use serde_json::{Value, json};

fn percent(ppm: u32) -> f64 {
    f64::from(ppm) / 1e4
}

/// A step as JSON.
pub(super) fn line(step: &TuneStep, half_width_95: Option<[f64; 2]>) -> Value {
    json!({
        "change": step.change,
        "lower_pct": percent(step.config.lower_ppm),
        "upper_pct": percent(step.config.upper_ppm),
        "increase": f64::from(step.config.increase_ppm) / 1e6,
        "decrease": f64::from(step.config.decrease_ppm) / 1e6,
        "efficiency_pct": step.outcome.efficiency * 100.0,
        "over_limit_pct": step.outcome.over_limit * 100.0,
        "efficiency_half_width_95": half_width_95.map(|[efficiency, _]| efficiency * 100.0),
        "requests_per_s": step.outcome.requests_per_sec,
        "requests_half_width_95": half_width_95.map(|[_, requests]| requests),
        "hit": step.hit,
    })
}

/// What was tried and found, for a reader.
pub(super) fn text(tuned: &Tuned, points: &Points) -> String {
    let mut text = format!("{}\nTrade-off of efficiency and requests:\n\n", table(&tuned.steps, points));
    text.push_str(&format!("{}\n", table(&tuned.curve, points)));
    match &tuned.best {
        Some(best) => text.push_str(&format!(
            "Best inside the constraint: lower = \"{} %\", upper = \"{} %\", increase = {}, decrease = {}\n",
            percent(best.config.lower_ppm),
            percent(best.config.upper_ppm),
            f64::from(best.config.increase_ppm) / 1e6,
            f64::from(best.config.decrease_ppm) / 1e6,
        )),
        None => text.push_str("No settings keep the constraint.\n"),
    }
    text
}

fn table(steps: &[TuneStep], points: &Points) -> Table {
    let mut table = Table::new([
        "STEP",
        "LOWER %",
        "UPPER %",
        "INCREASE",
        "DECREASE",
        "USED %",
        "+-",
        "ABOVE %",
        "REQUESTS/S",
        "+-",
        "HIT",
    ]);
    for step in steps {
        let spread = points.spread(&step.config);
        let change = match step.change {
            Move::Start => "start",
            Move::RaiseLower => "lower up",
            Move::LowerUpper => "upper down",
            Move::RaiseUpper => "upper up",
            Move::Factors => "factors",
        };
        let hit = match step.hit {
            None => "",
            Some(Hit::OverLimit) => "above the allocation",
            Some(Hit::Requests) => "requests",
        };
        table.row([
            change.to_owned(),
            format!("{:.1}", percent(step.config.lower_ppm)),
            format!("{:.1}", percent(step.config.upper_ppm)),
            format!("{:.3}", f64::from(step.config.increase_ppm) / 1e6),
            format!("{:.3}", f64::from(step.config.decrease_ppm) / 1e6),
            format!("{:.2}", step.outcome.efficiency * 100.0),
            spread.map_or(String::new(), |[efficiency, _]| format!("{:.2}", efficiency * 100.0)),
            format!("{:.2}", step.outcome.over_limit * 100.0),
            format!("{:.4}", step.outcome.requests_per_sec),
            spread.map_or(String::new(), |[_, requests]| format!("{requests:.4}")),
            hit.to_owned(),
        ]);
    }
    table
}
