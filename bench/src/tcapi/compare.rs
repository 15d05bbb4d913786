//! The experiments of the original, of whatever makes reservations one at a time.
//!
//! | experiment | what is done | what is looked at |
//! |---|---|---|
//! | figure 7, table 1 | reservations without a release, up to as many as are asked for | how long the nth takes; how many there can be before one takes longer than requests are apart |
//! | figure 8 | the same | those behind 2,048 against those before |
//! | figure 9 | 4,000, all released, 4,000 again | the first of the second time against the first |
//! | figure 10 | 400, all released, then up to 3,000 | those behind 2,048 live against those before |

use super::client::Reserves;
use super::published::{FAST, TABLE_1};
use crate::error::BenchError;
use crate::report::{Metric, Point, Spread};

/// Single times are noisy: medians of so many.
pub(super) const SMOOTH: usize = 50;
const FIGURE_9: u64 = 4_000;
const FIGURE_10: (u64, u64) = (400, 3_000);

/// What is done with a server that has been started for it.
pub(super) type On<'o> = &'o mut dyn FnMut(&mut dyn Reserves) -> Result<(), BenchError>;

fn median(ns: &[f64]) -> f64 {
    Spread::of(ns).median
}

/// How long the nth took, with its neighbours.
fn around(times: &[f64], n: usize) -> f64 {
    let from = n.saturating_sub(SMOOTH / 2).min(times.len().saturating_sub(SMOOTH));
    median(&times[from..(from + SMOOTH).min(times.len())])
}

/// What follows the 2,048th against what comes before it.
fn step(times: &[f64]) -> f64 {
    let at = FAST as usize;
    median(&times[at..at + SMOOTH]) / median(&times[at - SMOOTH..at])
}

/// How many reservations there are before medians of `smooth` take longer than requests are apart that come at this rate; all that
/// were made if none does.
pub(super) fn most_at(times: &[f64], per_second: u64, smooth: usize) -> u64 {
    let apart = 1e9 / per_second as f64;
    let late = times.chunks(smooth).position(|some| median(some) > apart);
    late.map_or(times.len(), |chunk| chunk * smooth) as u64
}

fn make(who: &mut dyn Reserves, flows: std::ops::Range<u64>) -> Result<Vec<f64>, BenchError> {
    flows.map(|flow| who.request(flow)).collect()
}

fn release(who: &mut dyn Reserves, flows: std::ops::Range<u64>) -> Result<Vec<f64>, BenchError> {
    flows.map(|flow| who.release(flow)).collect()
}

/// All of them, each of a server that `fresh` starts anew; up to so many reservations, at least 4,000.
pub(super) fn experiments(
    backend: &'static str,
    most: u64,
    smooth: usize,
    fresh: &mut dyn FnMut(On<'_>) -> Result<(), BenchError>,
) -> Result<Point, BenchError> {
    let mut point = Point { bench: "tcapi", op: "reservation", ..Point::default() };
    point.params.insert("backend", backend.into());
    point.params.insert("reservations", most.into());
    let mut metrics = Vec::new();
    let us = |ns: f64| Metric::new(Spread::exactly(ns / 1e3), "us");
    let times = |x: f64| Metric::new(Spread::exactly(x), "x");
    fresh(&mut |who| {
        let grown = make(who, 0..most)?;
        let released = release(who, 0..most)?;
        point.set_ns(&grown);
        metrics.push(("fig7_first", us(median(&grown[..SMOOTH]))));
        for (name, n) in [("fig7_at_992", 992), ("fig7_at_2048", 2_048), ("fig7_at_4000", 4_000)] {
            metrics.push((name, us(around(&grown, n))));
        }
        metrics.push(("fig7_last", us(median(&grown[grown.len() - SMOOTH..]))));
        metrics.push((
            "fig7_last_to_first",
            times(median(&grown[grown.len() - SMOOTH..]) / median(&grown[..SMOOTH])),
        ));
        metrics.push(("fig8_step_at_2048", times(step(&grown))));
        metrics.push(("release", us(median(&released))));
        for (per_second, _) in TABLE_1.into_iter().chain([(2_000, 0)]) {
            let name = table_1_name(per_second);
            let count = most_at(&grown, per_second, smooth) as f64;
            metrics.push((name, Metric::new(Spread::exactly(count), "live")));
        }
        Ok(())
    })?;
    fresh(&mut |who| {
        let first = make(who, 0..FIGURE_9)?;
        release(who, 0..FIGURE_9)?;
        let again = make(who, 0..FIGURE_9)?;
        release(who, 0..FIGURE_9)?;
        let some = 4 * SMOOTH;
        metrics.push(("fig9_again_to_first", times(median(&again[..some]) / median(&first[..some]))));
        Ok(())
    })?;
    fresh(&mut |who| {
        let (few, many) = FIGURE_10;
        make(who, 0..few)?;
        release(who, 0..few)?;
        let later = make(who, 0..many)?;
        release(who, 0..many)?;
        metrics.push(("fig10_step_at_request_2848", times(step(&later))));
        Ok(())
    })?;
    point.metrics.extend(metrics);
    Ok(point)
}

fn table_1_name(per_second: u64) -> &'static str {
    match per_second {
        1 => "table1_at_0001_per_s",
        2 => "table1_at_0002_per_s",
        5 => "table1_at_0005_per_s",
        10 => "table1_at_0010_per_s",
        20 => "table1_at_0020_per_s",
        50 => "table1_at_0050_per_s",
        100 => "table1_at_0100_per_s",
        200 => "table1_at_0200_per_s",
        500 => "table1_at_0500_per_s",
        1_000 => "table1_at_1000_per_s",
        _ => "table1_at_2000_per_s",
    }
}

#[cfg(test)]
mod tests {
    use super::super::published::Published;
    use super::*;

    #[test]
    fn the_published_figures_come_out_of_the_published_model() {
        let mut fresh = |on: On<'_>| on(&mut Published::default());
        let point = experiments("published", 10_000, 1, &mut fresh).expect("nothing can fail");
        let metric = |name: &str| point.metrics[name].value.median;
        assert!(metric("fig8_step_at_2048") > 10.0 && metric("fig10_step_at_request_2848") > 10.0);
        assert!(metric("fig9_again_to_first") > 30.0);
        assert_eq!(metric("table1_at_1000_per_s"), 992.0);
        assert_eq!(metric("table1_at_0002_per_s"), 6_246.0);
        assert_eq!(metric("release"), 500.0);
    }
}
