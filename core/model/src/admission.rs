//! Specification of implicit admission, a part of the detector's.

use crate::ExcessPolicy;
use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Which admitted flow is dropped when there is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdmissionPolicy {
    /// Any.
    #[default]
    Random,
    /// The one that carried most in the last interval.
    Largest,
    /// The one that carried least in the last interval.
    Smallest,
    /// The one admitted first.
    Oldest,
}

/// How it is known whether a flow fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdmissionMethod {
    /// What all admitted flows carry is measured, and one is dropped when it is too much.
    #[default]
    Measured,
    /// Every admitted flow has a rate that fits into the class, and what it sends beyond that goes its ordinary way.
    Reserved,
}

/// Implicit admission: a newly recognised flow is real-time only if what is carried leaves room for it, and while there
/// is too much, admitted flows are dropped one by one. Percentages are of `cap`. Flows of contracts with `premium` are
/// accepted until `drop_pct`, and dropped after all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdmissionSpec {
    /// How it is known whether a flow fits.
    #[serde(default)]
    pub method: AdmissionMethod,
    /// What admitted flows may carry together, bit/s at IP length; with reservations 0: what the class may send by each port with a
    /// rate, its ceiling or else its guarantee.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub cap: Rate,
    /// A flow is accepted while less than this is carried; 1 … 99.
    #[serde(default = "ninety")]
    pub accept_pct: u8,
    /// Above this a flow is dropped, one an interval at most; above `accept_pct`, at most 100.
    #[serde(default = "ninety_five")]
    pub drop_pct: u8,
    /// Measurement interval, ns.
    #[serde(default = "interval")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub interval: Duration,
    /// Intervals in a measurement window: the estimate keeps a peak until the end of the next window at the latest.
    #[serde(default = "ten")]
    pub windows: u32,
    /// Which flow is dropped.
    #[serde(default)]
    pub policy: AdmissionPolicy,
    /// Packets of flows that are refused or dropped: go their ordinary way, or are dropped (`not_admitted`).
    #[serde(default = "demote")]
    pub excess: ExcessPolicy,
    /// A flow silent for this long is forgotten, admitted or not, ns; at most the detector's `idle`.
    #[serde(default = "five_seconds")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub idle: Duration,
    /// A refused or dropped flow is looked at again after this time, ns; none = not before it was silent for `idle`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub retry: Option<Duration>,
    /// What a flow just admitted is taken to carry until it is measured, bit/s at IP length.
    #[serde(default = "a_call")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub new_flow: Rate,
    /// Nothing new is accepted.
    #[serde(default)]
    pub locked: bool,
    /// Every step up drops one admitted flow.
    #[serde(default)]
    pub cancel: u64,
}

fn ninety() -> u8 {
    90
}
fn ninety_five() -> u8 {
    95
}
fn interval() -> Duration {
    Duration::from_millis(800)
}
fn ten() -> u32 {
    10
}
fn demote() -> ExcessPolicy {
    ExcessPolicy::Demote
}
fn five_seconds() -> Duration {
    Duration::from_secs(5)
}
fn a_call() -> Rate {
    Rate::from_kbit(80)
}
