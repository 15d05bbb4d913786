//! Figures of TCP connections that are followed one by one: how steady they are, how long their segments take.

use crate::result::{GroupResult, rounded, rounded_map, rounded_option};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rate of payload of each connection, kbit/s, over the part of its life that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goodput {
    /// Mean over connections.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Standard deviation over connections (n − 1); `null` for a single one.
    #[serde(serialize_with = "rounded_option")]
    pub stdev: Option<f64>,
    /// Slowest.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// Fastest.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

impl Goodput {
    /// Of the rates of connections; `None` without any.
    pub fn of(kbps: &[f64]) -> Option<Self> {
        let n = kbps.len() as f64;
        let mean = kbps.iter().sum::<f64>() / n;
        let squares: f64 = kbps.iter().map(|x| (x - mean) * (x - mean)).sum();
        let (min, max) = extremes(kbps)?;
        Some(Self { mean, stdev: (kbps.len() > 1).then(|| (squares / (n - 1.0)).sqrt()), min, max })
    }
}

/// What each connection got of the rate that it was to have, percent: payload by a rate at IP length, so never quite 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionUse {
    /// Mean over connections.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Least.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// Most.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
    /// Pearson's correlation of it with the latency of the connection's path, −1 … 1; `null` where all are alike.
    #[serde(serialize_with = "rounded_option")]
    pub latency_r: Option<f64>,
}

impl ConnectionUse {
    /// Of percentages, each with the latency of the connection's path; `None` without any.
    pub fn of(each: &[(f64, f64)]) -> Option<Self> {
        let pct: Vec<f64> = each.iter().map(|(pct, _)| *pct).collect();
        let (min, max) = extremes(&pct)?;
        let mean = pct.iter().sum::<f64>() / pct.len() as f64;
        Some(Self { mean, min, max, latency_r: correlation(each) })
    }
}

/// Pearson's correlation of pairs; `None` where one side does not vary.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (x, y) = (x / n, y / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xx += (a - x) * (a - x);
        yy += (b - y) * (b - y);
        xy += (a - x) * (b - y);
    }
    // What differs by the rounding of sums only does not vary.
    let varies = |squares: f64, mean: f64| squares > n * mean * mean * 1e-24;
    (varies(xx, x) && varies(yy, y)).then(|| xy / (xx * yy).sqrt())
}

fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let (min, max) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(*value), max.max(*value)));
    (!values.is_empty()).then_some((min, max))
}

/// Payload of a connection in a sliding window of 5 s, kbit/s, sampled whenever some arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingGoodput {
    /// Median over connections of the mean of each.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Median over connections of the standard deviation of each over time (n − 1).
    #[serde(serialize_with = "rounded")]
    pub stdev: f64,
    /// Largest of these deviations.
    #[serde(serialize_with = "rounded")]
    pub stdev_max: f64,
}

impl SlidingGoodput {
    /// Of mean and standard deviation of connections; `None` without any.
    pub fn of(each: &[(f64, f64)]) -> Option<Self> {
        let stdev: Vec<f64> = each.iter().map(|(_, stdev)| *stdev).collect();
        Some(Self {
            mean: median(each.iter().map(|(mean, _)| *mean).collect())?,
            stdev: median(stdev.clone())?,
            stdev_max: extremes(&stdev)?.1,
        })
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

/// How long segments took from their first transmission to the first acknowledgement that covers them, less what the path
/// takes by itself, ms; all connections together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentDelay {
    /// Mean.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Standard deviation over segments (n − 1).
    #[serde(serialize_with = "rounded_option")]
    pub stdev: Option<f64>,
    /// Largest.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
    /// Share of segments at or above each limit in ms, percent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", serialize_with = "rounded_map")]
    pub over_pct: BTreeMap<String, f64>,
}

/// Segments that were sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retransmits {
    /// How many, over all repetitions.
    pub count: u64,
    /// Share of all segments with data, percent.
    #[serde(serialize_with = "rounded_option")]
    pub share_pct: Option<f64>,
}

/// What stands before a limit of delay in the names of shares at or above it.
pub(crate) const OVER: &str = "esdl_ms.over_pct.";
/// Number of [`GroupResult::transport_figures`].
pub const TRANSPORT_FIGURES: usize = 19;

impl GroupResult {
    /// Figures of connections with their names, apart from the shares at or above limits of delay.
    pub fn transport_figures(&self) -> [(&'static str, Option<f64>); TRANSPORT_FIGURES] {
        let (goodput, sliding) = (self.goodput_kbps, self.goodput_5s_kbps);
        let (used, again) = (self.utilisation_pct, self.retransmits);
        let (esdl, sdl) = (self.esdl_ms.as_ref(), self.sdl_ms.as_ref());
        [
            ("goodput_kbps.mean", goodput.map(|g| g.mean)),
            ("goodput_kbps.stdev", goodput.and_then(|g| g.stdev)),
            ("goodput_kbps.min", goodput.map(|g| g.min)),
            ("goodput_kbps.max", goodput.map(|g| g.max)),
            ("utilisation_pct.mean", used.map(|u| u.mean)),
            ("utilisation_pct.min", used.map(|u| u.min)),
            ("utilisation_pct.max", used.map(|u| u.max)),
            ("utilisation_pct.latency_r", used.and_then(|u| u.latency_r)),
            ("goodput_5s_kbps.mean", sliding.map(|s| s.mean)),
            ("goodput_5s_kbps.stdev", sliding.map(|s| s.stdev)),
            ("goodput_5s_kbps.stdev_max", sliding.map(|s| s.stdev_max)),
            ("esdl_ms.mean", esdl.map(|d| d.mean)),
            ("esdl_ms.stdev", esdl.and_then(|d| d.stdev)),
            ("esdl_ms.max", esdl.map(|d| d.max)),
            ("sdl_ms.mean", sdl.map(|d| d.mean)),
            ("sdl_ms.stdev", sdl.and_then(|d| d.stdev)),
            ("sdl_ms.max", sdl.map(|d| d.max)),
            ("retransmits.count", again.map(|a| a.count as f64)),
            ("retransmits.share_pct", again.and_then(|a| a.share_pct)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_over_connections_are_those_of_hand() {
        // Deviations −20, 0 and 20 about 40: 800 / 2.
        let goodput = Goodput::of(&[20.0, 40.0, 60.0]).expect("three");
        assert_eq!(goodput, Goodput { mean: 40.0, stdev: Some(20.0), min: 20.0, max: 60.0 });
        assert_eq!((Goodput::of(&[]), Goodput::of(&[7.0]).and_then(|g| g.stdev)), (None, None));
        let sliding = SlidingGoodput::of(&[(10.0, 1.0), (30.0, 9.0), (20.0, 2.0), (50.0, 4.0)]);
        assert_eq!(sliding, Some(SlidingGoodput { mean: 25.0, stdev: 3.0, stdev_max: 9.0 }));
        assert_eq!(SlidingGoodput::of(&[(10.0, 1.0)]).map(|s| s.mean), Some(10.0));
        assert_eq!(SlidingGoodput::of(&[]), None);
    }

    #[test]
    fn utilisation_that_rises_with_latency_is_correlated_with_it() {
        let r = |pairs: &[(f64, f64)]| ConnectionUse::of(pairs).expect("some").latency_r;
        assert_eq!(r(&[(80.0, 900.0), (90.0, 950.0), (100.0, 1000.0)]), Some(1.0));
        assert_eq!(r(&[(80.0, 2.0), (70.0, 4.0)]), Some(-1.0));
        // Means 2 and 2; sums of products 0.
        assert_eq!(r(&[(1.0, 1.0), (3.0, 2.0), (1.0, 3.0), (3.0, 2.0)]), Some(0.0));
        assert_eq!((r(&[(1.0, 5.0), (2.0, 5.0)]), r(&[(0.1, 5.0), (0.1, 6.0), (0.1, 7.0)])), (None, None));
        let used = ConnectionUse::of(&[(80.0, 5.0), (90.0, 5.0)]).expect("two");
        assert_eq!((used.mean, used.min, used.max), (85.0, 80.0, 90.0));
    }
}
