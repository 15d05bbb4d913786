//! The published experiments, shorter and with fewer seeds than the example `published` runs them.

use super::published::{
    LONG_WINDOW, WINDOW, bed_threshold, class, ideal, measured, sources, staircase, threshold,
};
use super::*;
use crate::congestion::CongestionConfig;
use crate::logarithmic::LogarithmicConfig;
use crate::settings::Law;
use crate::tune::{Constraint, Outcome, TunePlan, tune};
use crate::window::Metering;
use perhop_units::{Duration, Rate};

const SEEDS: u64 = 3;

fn simulation(of: OnOff, control: Control, seconds: u64) -> FluidConfig {
    FluidConfig { time: Duration::from_secs(seconds), ..sources(of, control) }
}

fn results(config: &FluidConfig) -> Vec<FluidResult> {
    (0..SEEDS).map(|seed| run(config, seed).expect("the settings are stable")).collect()
}

fn mean(results: &[FluidResult], value: impl Fn(&FluidResult) -> f64) -> f64 {
    results.iter().map(value).sum::<f64>() / results.len() as f64
}

#[test]
fn static_peak_allocation_has_the_published_efficiency() {
    let of = OnOff::TYPE_1;
    let results = results(&simulation(of, Control::Static(of.peak_of_all()), 1200));
    // Published 40.77 %; the model's ten seeds of 3600 s lie between 39.4 and 41.7 %.
    let efficiency = mean(&results, |result| result.efficiency);
    assert!((0.385..0.425).contains(&efficiency), "{efficiency}");
    assert!(results.iter().all(|result| result.max_delay_ms == 0.0 && result.requests_per_sec == 0.0));
}

#[test]
fn efficiency_and_requests_rise_with_the_lower_threshold() {
    let at = |lower| {
        let results = results(&simulation(OnOff::TYPE_1, measured(threshold(lower, 90), 10, None), 900));
        (mean(&results, |r| r.efficiency), mean(&results, |r| r.requests_per_sec))
    };
    let points = [50, 60, 70, 80].map(at);
    for pair in points.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{points:?}");
    }
    // At least 0.65 with at most 0.05 requests a second at 70 %.
    assert!(points[2].0 >= 0.65 && points[2].1 <= 0.05, "{points:?}");
}

/// Ten seeds of 3600 s of an independent model gave these, with a deviation over seeds of 0.002 for the ideal and up to
/// 0.016 for the measured efficiency; here 3 seeds of 900 s, so twice the error of the mean and three of them.
#[test]
fn efficiencies_are_those_of_an_independent_model() {
    for (lower, ideal_expected, measured_expected) in
        [(50, 0.691, 0.610), (60, 0.745, 0.654), (70, 0.798, 0.699), (80, 0.849, 0.738)]
    {
        let ideal = simulation(OnOff::TYPE_1, ideal(threshold(lower, 90)), 300);
        let ideal = mean(&results(&ideal), |r| r.efficiency);
        assert!((ideal - ideal_expected).abs() < 0.012, "l_min {lower} %: {ideal}");
        let control = measured(threshold(lower, 90), 10, None);
        let measured = mean(&results(&simulation(OnOff::TYPE_1, control, 900)), |r| r.efficiency);
        assert!((measured - measured_expected).abs() < 0.05, "l_min {lower} %: {measured}");
    }
}

#[test]
fn a_larger_margin_costs_efficiency_and_saves_delay() {
    let at = |margin_percent: u32| {
        let law = LogarithmicConfig { margin_ppm: margin_percent * 10_000, ..LogarithmicConfig::default() };
        let mut class = class(Law::Logarithmic(law), WINDOW, None);
        // With 5 % carried load could never make the class grow.
        class.window.metering = Metering::Offered;
        let results = results(&simulation(OnOff::TYPE_1, Control::Measured(class), 600));
        (mean(&results, |r| r.efficiency), mean(&results, |r| r.mean_delay_ms))
    };
    let points = [5, 10, 15, 20].map(at);
    for (point, expected) in points.iter().zip([0.83, 0.79, 0.75, 0.70]) {
        assert!((point.0 - expected).abs() < 0.02, "{points:?}");
    }
    for pair in points.windows(2) {
        assert!(pair[0].1 > 2.0 * pair[1].1, "{points:?}");
    }
}

#[test]
fn the_meter_trades_a_little_efficiency_for_far_fewer_requests() {
    let ideal = results(&simulation(OnOff::TYPE_1, ideal(threshold(70, 90)), 600));
    let metered = results(&simulation(OnOff::TYPE_1, measured(threshold(70, 90), 10, None), 600));
    assert!(mean(&metered, |r| r.efficiency) < mean(&ideal, |r| r.efficiency));
    assert!(mean(&metered, |r| r.requests_per_sec) * 10.0 < mean(&ideal, |r| r.requests_per_sec));
    assert!(mean(&metered, |r| r.efficiency) > 1.4 * 0.41);
}

#[test]
fn the_delay_bound_of_congestion_control_holds_in_every_seed() {
    let congestion = CongestionConfig::default();
    let bound = congestion.delay_bound(Duration::from_millis(10)).as_millis_f64();
    for (of, intervals, law) in
        [(OnOff::TYPE_1, WINDOW, threshold(70, 90)), (OnOff::TYPE_3, LONG_WINDOW, threshold(60, 80))]
    {
        for result in results(&simulation(of, measured(law, intervals, Some(congestion)), 900)) {
            assert!(result.max_delay_ms <= bound, "{result:?}");
        }
    }
}

fn climbed(law: Law, congestion: Option<CongestionConfig>, step_kbit: u64) -> FluidResult {
    run(&staircase(law, congestion, Rate::from_kbit(step_kbit)), 0).expect("the settings are stable")
}

#[test]
fn the_logarithm_is_more_efficient_and_slower_than_thresholds() {
    let log = Law::Logarithmic(LogarithmicConfig::default());
    let bed = Law::Threshold(bed_threshold());
    for step in [256, 512, 1024] {
        let (log, threshold) = (climbed(log, None, step), climbed(bed, None, step));
        assert!(log.estimate_efficiency > threshold.estimate_efficiency, "{step}: {log:?} {threshold:?}");
    }
    let (log_1024, threshold_1024) = (climbed(log, None, 1024), climbed(bed, None, 1024));
    assert!(log_1024.loss > threshold_1024.loss, "{log_1024:?} {threshold_1024:?}");
    // Tracks small steps, loses with large ones unless congestion control helps.
    assert!(climbed(log, None, 256).loss < log_1024.loss / 2.0);
    let controlled = climbed(log, Some(CongestionConfig::default()), 1024);
    assert!(controlled.loss < 1e-3, "{controlled:?}");
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let config = simulation(OnOff::TYPE_3, measured(threshold(60, 80), 10, None), 100);
    assert_eq!(run(&config, 5), run(&config, 5));
    assert_ne!(run(&config, 5), run(&config, 6));
}

#[test]
fn tuning_on_the_model_improves_the_start_within_the_constraint() {
    let plan = TunePlan {
        step_ppm: 100_000,
        evaluations: 6,
        constraint: Constraint { over_limit: 0.05, requests_per_sec: 0.05 },
        ..TunePlan::default()
    };
    let tuned = tune(&plan, |law| {
        let result =
            run(&simulation(OnOff::TYPE_1, measured(*law, 10, None), 200), 1).expect("inside the wedge");
        Outcome {
            efficiency: result.efficiency,
            over_limit: result.over_limit,
            requests_per_sec: result.requests_per_sec,
        }
    });
    let best = tuned.best.expect("the start keeps the constraint");
    assert!(best.outcome.efficiency > tuned.steps[0].outcome.efficiency, "{tuned:?}");
}
