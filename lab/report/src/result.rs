//! The result of a run, exactly as it is printed as JSON.
//!
//! Field names and their order are a contract. What does not apply is `null`, never 0. Figures are rounded to six
//! decimals when printed (a nanosecond on a scale of ms), so that equal runs print equal bytes; what is not a number
//! prints as `null`.

use crate::details::PRODUCT;
use crate::transport::{ConnectionUse, Goodput, Retransmits, SegmentDelay, SlidingGoodput};
use crate::variants::Variants;
use perhop_quality::{Distribution, Playout, QualityPool};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use thiserror::Error;

/// A result that is not what the contract says.
#[derive(Debug, Error)]
pub enum ResultError {
    /// The text is not JSON, or its fields are others.
    #[error("not a result file: {0}")]
    Json(#[from] serde_json::Error),
}

/// Result of one scenario over all its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioResult {
    /// Name of the scenario, such as `H-8.1.2` or `demo`.
    pub scenario: String,
    /// What people are shown as the name of the configuration that is no variant; left out where that is `product`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// World it ran in: `sim` or `netns`.
    pub mode: String,
    /// Seed of the run.
    pub seed: u64,
    /// Repetitions, each with its own stream of the seed.
    pub repetitions: u32,
    /// Simulated or measured time of one repetition, s.
    #[serde(serialize_with = "rounded")]
    pub sim_s: f64,
    /// Time the run took, s; left out of `result.json`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "rounded_option")]
    pub wall_s: Option<f64>,
    /// What a reader must know to trust the figures, apart from the machine.
    pub warnings: Vec<String>,
    /// What a reader must know of this machine (CPU steal, timer error); printed among the warnings of `--json`, left
    /// out of `result.json`.
    #[serde(skip)]
    pub machine_warnings: Vec<String>,
    /// Traffic groups in the product configuration.
    pub groups: Vec<GroupResult>,
    /// Links in the product configuration.
    pub links: Vec<LinkResult>,
    /// Playout buffer of those who hear calls; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playout: Option<PlayoutResult>,
    /// Classes that agents look after in the product configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentResult>,
    /// Routers that admit recognised flows one by one, in the product configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissions: Vec<AdmissionResult>,
    /// Reservations and controllers in the product configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<ReservedResult>,
    /// Other configurations of the same network, such as `baseline`.
    pub variants: Variants,
    /// Expected values and whether they hold.
    pub expect: Vec<Expectation>,
}

impl ScenarioResult {
    /// One line of JSON for `--json`: with wall time and the machine's warnings behind the others.
    ///
    /// # Errors
    /// None that a result can cause; serialisation itself reports one.
    pub fn to_json_line(&self) -> Result<String, ResultError> {
        let mut printed = self.clone();
        printed.warnings.append(&mut printed.machine_warnings);
        Ok(serde_json::to_string(&printed)?)
    }

    /// The content of `result.json`: what follows from scenario and seed alone, byte-equal for equal runs.
    ///
    /// # Errors
    /// As [`ScenarioResult::to_json_line`].
    pub fn to_result_file(&self) -> Result<String, ResultError> {
        let stable = Self { wall_s: None, ..self.clone() };
        let mut text = serde_json::to_string(&stable)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads either form back; machine warnings come back among the others.
    ///
    /// # Errors
    /// Text that is not JSON, an unknown or a missing field.
    pub fn from_json(text: &str) -> Result<Self, ResultError> {
        Ok(serde_json::from_str(text)?)
    }

    /// What people are shown as the name of the configuration that is no variant.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(PRODUCT)
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&GroupResult> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&LinkResult> {
        self.links.iter().find(|link| link.name == name)
    }
}

/// By which playout buffer calls are scored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayoutResult {
    /// `adaptive` or `fixed`.
    pub kind: String,
    /// Depth, or least depth, ms.
    #[serde(serialize_with = "rounded")]
    pub least_ms: f64,
    /// Largest depth of one that adapts, ms.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "rounded_option")]
    pub most_ms: Option<f64>,
}

impl From<Playout> for PlayoutResult {
    fn from(playout: Playout) -> Self {
        let (kind, least, most) = match playout {
            Playout::Fixed { depth } => ("fixed", depth, None),
            Playout::Adaptive { least, most } => ("adaptive", least, Some(most.as_millis_f64())),
        };
        Self { kind: kind.to_owned(), least_ms: least.as_millis_f64(), most_ms: most }
    }
}

/// `perhop demo --json`: the same traffic through a plain FIFO and through Perhop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemoResult {
    /// The plain FIFO of the same total bytes.
    pub fifo: ScenarioResult,
    /// Perhop.
    pub perhop: ScenarioResult,
}

impl DemoResult {
    /// One line of JSON with wall times and machine warnings.
    ///
    /// # Errors
    /// As [`ScenarioResult::to_json_line`].
    pub fn to_json_line(&self) -> Result<String, ResultError> {
        Ok(format!(r#"{{"fifo":{},"perhop":{}}}"#, self.fifo.to_json_line()?, self.perhop.to_json_line()?))
    }
}

/// Another configuration of the scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its traffic groups.
    pub groups: Vec<GroupResult>,
    /// Its links.
    pub links: Vec<LinkResult>,
    /// Its classes that agents look after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentResult>,
    /// Its routers that admit recognised flows one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissions: Vec<AdmissionResult>,
    /// Its reservations and controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<ReservedResult>,
}

/// A group of like flows. A group in both directions has `name.up` and `name.down` beside `name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupResult {
    /// Name of the traffic.
    pub name: String,
    /// Packets sent; `null` where only the transport knows, as for kernel TCP.
    pub sent: Option<u64>,
    /// Packets received.
    pub received: Option<u64>,
    /// (sent − received) / sent in percent.
    #[serde(serialize_with = "rounded_option")]
    pub loss_pct: Option<f64>,
    /// Of calls, what came too late for the playout buffer, in percent of what was sent.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "rounded_option")]
    pub late_pct: Option<f64>,
    /// One-way delay.
    pub delay_ms: Option<DelayMs>,
    /// |delay(n+1) − delay(n)|: sum over packets received, and largest.
    pub jitter_ms: Option<JitterMs>,
    /// Goodput or throughput of the group at IP length.
    pub throughput_kbps: Option<Throughput>,
    /// Connections of the group.
    pub connections: Option<Connections>,
    /// Opinion score of the E-model.
    pub mos: Option<Mos>,
    /// Payload rate of each TCP connection.
    pub goodput_kbps: Option<Goodput>,
    /// The same as a share of the rate that each is to have.
    pub utilisation_pct: Option<ConnectionUse>,
    /// Payload rate of each TCP connection in a sliding window of 5 s: how steady it is.
    pub goodput_5s_kbps: Option<SlidingGoodput>,
    /// Delay of segments beyond the latency of the path there and back (extra segment delivery latency).
    pub esdl_ms: Option<SegmentDelay>,
    /// Delay of segments beyond the latency of the way back alone (segment delivery latency).
    pub sdl_ms: Option<SegmentDelay>,
    /// Segments sent again.
    pub retransmits: Option<Retransmits>,
}

impl GroupResult {
    /// A group of this name of which nothing is known yet.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A group of calls: packets, loss, delay, jitter and score of the pool; connections counts calls.
    pub fn of_calls(name: impl Into<String>, pool: &QualityPool) -> Self {
        let jitter = pool.variation.mean_ms().map(|mean| JitterMs { mean, max: pool.variation.max_ms });
        Self {
            sent: Some(pool.sent),
            received: Some(pool.received),
            loss_pct: pool.loss_pct(),
            late_pct: pool.late_pct(),
            delay_ms: DelayMs::of(&pool.delay),
            jitter_ms: jitter,
            connections: Some(Connections { count: pool.calls, jain: None }),
            mos: pool.mos_mean().zip(pool.mos_min()).map(|(mean, min)| Mos { mean, min }),
            ..Self::named(name)
        }
    }

    /// A group of datagrams that are not calls, such as the flood.
    pub fn of_datagrams(name: impl Into<String>, sent: u64, delay: &Distribution) -> Self {
        let received = delay.count() as u64;
        let lost = sent.saturating_sub(received);
        Self {
            sent: Some(sent),
            received: Some(received),
            loss_pct: (sent > 0).then(|| lost as f64 / sent as f64 * 100.0),
            delay_ms: DelayMs::of(delay),
            ..Self::named(name)
        }
    }

    /// The same group with its throughput of every repetition in kbit/s.
    #[must_use]
    pub fn with_throughput(mut self, kbps: &[f64]) -> Self {
        self.throughput_kbps = Throughput::of(kbps);
        self
    }
}

/// One-way delay over all packets of all repetitions, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayMs {
    /// Smallest.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
    /// Mean.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Median.
    #[serde(serialize_with = "rounded")]
    pub p50: f64,
    /// 99th percentile.
    #[serde(serialize_with = "rounded")]
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(serialize_with = "rounded")]
    pub p999: f64,
    /// Largest.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

impl DelayMs {
    /// The figures of a distribution, `None` if it is empty.
    pub fn of(delays: &Distribution) -> Option<Self> {
        Some(Self {
            min: delays.min_ms()?,
            mean: delays.mean_ms()?,
            p50: delays.percentile_ms(50.0)?,
            p99: delays.percentile_ms(99.0)?,
            p999: delays.percentile_ms(99.9)?,
            max: delays.max_ms()?,
        })
    }
}

/// Jitter, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterMs {
    /// Mean.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Largest.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

/// Throughput over repetitions, kbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Mean over repetitions.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Sample standard deviation (n − 1); `null` for a single repetition.
    #[serde(serialize_with = "rounded_option")]
    pub stdev: Option<f64>,
}

impl Throughput {
    /// Mean and sample standard deviation, `None` without values.
    pub fn of(kbps: &[f64]) -> Option<Self> {
        if kbps.is_empty() {
            return None;
        }
        let n = kbps.len() as f64;
        let mean = kbps.iter().sum::<f64>() / n;
        let squares: f64 = kbps.iter().map(|x| (x - mean) * (x - mean)).sum();
        // The square root is exact to the last bit on every platform, unlike the transcendental functions.
        Some(Self { mean, stdev: (kbps.len() > 1).then(|| (squares / (n - 1.0)).sqrt()) })
    }
}

/// Connections or calls of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// How many.
    pub count: u64,
    /// Jain's index of their throughputs, 1/n … 1.
    #[serde(serialize_with = "rounded_option")]
    pub jain: Option<f64>,
}

impl Connections {
    /// Count and Jain's fairness index (Σx)² / (n Σx²) of throughputs in any one unit; no index if nothing flowed.
    pub fn of(throughputs: &[f64]) -> Self {
        let sum: f64 = throughputs.iter().sum();
        let squares: f64 = throughputs.iter().map(|x| x * x).sum();
        let jain = (squares > 0.0).then(|| sum * sum / (throughputs.len() as f64 * squares));
        Self { count: throughputs.len() as u64, jain }
    }
}

/// Opinion scores of calls, 1 … 4.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mos {
    /// Mean over calls.
    #[serde(serialize_with = "rounded")]
    pub mean: f64,
    /// Worst call.
    #[serde(serialize_with = "rounded")]
    pub min: f64,
}

/// A link in the congested direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkResult {
    /// Name of the link.
    pub name: String,
    /// Share of its rate in use while traffic was on, percent.
    #[serde(serialize_with = "rounded_option")]
    pub utilisation_pct: Option<f64>,
    /// Packets dropped by reason.
    pub drops: BTreeMap<String, u64>,
    /// Waiting time of the queue in front of it.
    pub queue_ms: Option<QueueMs>,
}

/// Queueing delay, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueMs {
    /// Median.
    #[serde(serialize_with = "rounded")]
    pub p50: f64,
    /// 99th percentile.
    #[serde(serialize_with = "rounded")]
    pub p99: f64,
    /// Largest.
    #[serde(serialize_with = "rounded")]
    pub max: f64,
}

/// A class whose bandwidth an agent allocates, inside the window; means over repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentResult {
    /// Name of the class.
    pub class: String,
    /// Mean rate it had, kbit/s.
    #[serde(serialize_with = "rounded_option")]
    pub allocated_kbps: Option<f64>,
    /// What it carried by what it had, percent.
    #[serde(serialize_with = "rounded_option")]
    pub efficiency_pct: Option<f64>,
    /// What its meter estimated by what it had, percent.
    #[serde(serialize_with = "rounded_option")]
    pub estimate_pct: Option<f64>,
    /// Requests to the broker a second.
    #[serde(serialize_with = "rounded_option")]
    pub requests_per_s: Option<f64>,
    /// Requests that were refused, granted in part or not answered, percent of those that ended.
    #[serde(serialize_with = "rounded_option")]
    pub not_granted_pct: Option<f64>,
    /// Time in congestion, percent.
    #[serde(serialize_with = "rounded_option")]
    pub congested_pct: Option<f64>,
    /// Intervals of its meter that used more than the estimate at their beginning, percent.
    #[serde(serialize_with = "rounded_option")]
    pub exceeded_pct: Option<f64>,
}

impl AgentResult {
    /// Decimals that a reader is shown of each of [`Self::figures`].
    pub(crate) const DECIMALS: [usize; 7] = [1, 2, 2, 4, 1, 2, 2];

    /// Its figures with their names, in the order of the fields.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("allocated_kbps", self.allocated_kbps),
            ("efficiency_pct", self.efficiency_pct),
            ("estimate_pct", self.estimate_pct),
            ("requests_per_s", self.requests_per_s),
            ("not_granted_pct", self.not_granted_pct),
            ("congested_pct", self.congested_pct),
            ("exceeded_pct", self.exceeded_pct),
        ]
    }
}

/// A router that admits recognised flows one by one, inside the window; means over repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionResult {
    /// Node of the router.
    pub node: String,
    /// Flows that asked to be real-time.
    #[serde(serialize_with = "rounded_option")]
    pub offered: Option<f64>,
    /// Those that were not accepted, percent of those that asked.
    #[serde(serialize_with = "rounded_option")]
    pub refused_pct: Option<f64>,
    /// Those that were accepted and dropped later, percent of those accepted.
    #[serde(serialize_with = "rounded_option")]
    pub dropped_pct: Option<f64>,
    /// The same in percent of those that asked.
    #[serde(serialize_with = "rounded_option")]
    pub dropped_of_offered_pct: Option<f64>,
    /// Intervals in which admitted flows carried more than they may, percent.
    #[serde(serialize_with = "rounded_option")]
    pub over_cap_pct: Option<f64>,
}

impl AdmissionResult {
    /// Its figures with their names, in the order of the fields.
    pub fn figures(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("offered", self.offered),
            ("refused_pct", self.refused_pct),
            ("dropped_pct", self.dropped_pct),
            ("dropped_of_offered_pct", self.dropped_of_offered_pct),
            ("over_cap_pct", self.over_cap_pct),
        ]
    }
}

/// What became of a `[[reservation]]`, or what a controller did, from the beginning to the end; means over repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReservedResult {
    /// `reservation.NAME` or `controller.NODE`.
    pub of: String,
    /// Counts by name.
    #[serde(serialize_with = "rounded_map")]
    pub figures: BTreeMap<String, f64>,
}

/// One expected value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Path of the figure, such as `voip.delay_ms.mean`.
    pub metric: String,
    /// What this run gave.
    #[serde(serialize_with = "rounded_option")]
    pub ours: Option<f64>,
    /// Half the width of the 95 % confidence interval (Student's t) of the mean over repetitions; left out where there
    /// is one repetition, or some do not have the figure.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "rounded_option")]
    pub half_width_95: Option<f64>,
    /// What the source of the scenario published.
    #[serde(serialize_with = "rounded_option")]
    pub published: Option<f64>,
    /// What must hold, such as `<= 34.14`.
    pub target: Option<String>,
    /// Whether it does; `null` when the target depends on something changed.
    pub ok: Option<bool>,
}

/// Six decimals, and no negative zero.
pub(crate) fn round(value: f64) -> f64 {
    let scaled = value * 1e6;
    // Beyond 2⁵³ there are no decimals left to round.
    if !scaled.is_finite() || scaled.abs() >= 9_007_199_254_740_992.0 {
        return value;
    }
    scaled.round() / 1e6 + 0.0
}

pub(crate) fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(round(*value))
}

pub(crate) fn rounded_option<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(round).serialize(serializer)
}

pub(crate) fn rounded_map<S: Serializer>(
    values: &BTreeMap<String, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, round(*value))))
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
