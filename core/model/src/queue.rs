//! Queues of leaves: when they are full, and how they drop before that.

use perhop_units::{Duration, QueueLimit};
use serde::{Deserialize, Serialize};

/// Kind of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueKind {
    /// Drop-tail.
    #[default]
    Fifo,
    /// Random early detection; thresholds in parts per million of the limit, probability in parts per million.
    Red {
        /// Below this no drop.
        min_ppm: u32,
        /// Above this every packet is dropped (or from here to twice this, gently).
        max_ppm: u32,
        /// Probability at `max_ppm`.
        max_p_ppm: u32,
        /// Mark ECN-capable packets instead of dropping.
        ecn: bool,
    },
    /// Random early detection at three drop precedences (RFC 2597), weighted RED or RIO. Thresholds never rise and
    /// probabilities never fall from green over yellow to red.
    Wred {
        /// Of green packets.
        #[serde(default = "Precedence::green")]
        green: Precedence,
        /// Of yellow packets.
        #[serde(default = "Precedence::yellow")]
        yellow: Precedence,
        /// Of red packets.
        #[serde(default = "Precedence::red")]
        red: Precedence,
        /// Which packets count towards the average that one of them is judged by.
        #[serde(default)]
        average: WredAverage,
        /// What tells the precedence of a packet.
        #[serde(default)]
        precedence: WredPrecedence,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default)]
        ecn: bool,
    },
    /// Drops at the head while packets wait too long (RFC 8289).
    Codel {
        /// Waiting time that is acceptable as a standing one, ns; 1 µs … 1 s.
        #[serde(default = "five_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        target: Duration,
        /// Time in which the queue may come back below it, ns; `target` … 10 s.
        #[serde(default = "hundred_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        interval: Duration,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// Drops on arrival as much as keeps the waiting time at a target (RFC 8033).
    Pie {
        /// Waiting time to keep, ns; 1 µs … 1 s.
        #[serde(default = "fifteen_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        target: Duration,
        /// Time between two updates of the probability, ns; 100 µs … 1 s.
        #[serde(default = "fifteen_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        update: Duration,
        /// Time after a calm one in which nothing is dropped, ns; at most 60 s.
        #[serde(default = "hundred_fifty_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        max_burst: Duration,
        /// Weight of the distance from the target, in 1/16 Hz; 1 … 512.
        #[serde(default = "two")]
        alpha: u32,
        /// Weight of the growth, in 1/16 Hz; 1 … 512.
        #[serde(default = "twenty")]
        beta: u32,
        /// Mark ECN-capable packets instead of dropping them, while the probability is below `mark_below_ppm`.
        #[serde(default = "yes")]
        ecn: bool,
        /// Parts per million, at most 1,000,000.
        #[serde(default = "ten_percent")]
        mark_below_ppm: u32,
        /// Space drops more evenly than chance does.
        #[serde(default = "yes")]
        derandomize: bool,
    },
    /// Learns from overflow and idleness how much to drop (Feng et al. 1999).
    Blue {
        /// Added to the probability on overflow, parts per million; 1 … 1,000,000.
        #[serde(default = "two_percent")]
        increase_ppm: u32,
        /// Taken off it when the queue is empty, parts per million; 1 … 1,000,000.
        #[serde(default = "fifth_of_a_percent")]
        decrease_ppm: u32,
        /// Least time between two changes, ns; 1 ms … 60 s.
        #[serde(default = "hundred_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        freeze: Duration,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// A queue for each flow, served in turn by bytes, each with CoDel (RFC 8290).
    FqCodel {
        /// Queues that flows are spread over by a hash, 1 … 65,536; 1,048,576 on a port.
        #[serde(default = "thousand_and_24")]
        flows: u32,
        /// Bytes of a turn, 64 … 65,536.
        #[serde(default = "a_frame")]
        quantum: u32,
        /// As of `codel`, ns.
        #[serde(default = "five_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        target: Duration,
        /// As of `codel`, ns.
        #[serde(default = "hundred_ms")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        interval: Duration,
        /// Mark ECN-capable packets instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// A queue for each flow, served by weighted fair queueing (Golestani 1994).
    Wfq {
        /// Queues that flows are spread over by a hash, 1 … 4,096; 1,048,576 on a port.
        #[serde(default = "two_hundred_56")]
        flows: u32,
        /// Weights by the class selector of packets (its three bits and one), instead of equal ones.
        #[serde(default)]
        by_precedence: bool,
    },
}

/// Random early detection of packets of one drop precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Precedence {
    /// Average below which none is dropped, parts per million of the limit.
    pub min_ppm: u32,
    /// Average at which the probability is `max_p_ppm`, and above which it grows faster, parts per million of the limit.
    pub max_ppm: u32,
    /// Probability at `max_ppm`, parts per million.
    pub max_p_ppm: u32,
}

impl Precedence {
    /// Green unless said otherwise: 40 % to 70 % of the limit, at most 2 %.
    pub const fn green() -> Self {
        Self { min_ppm: 400_000, max_ppm: 700_000, max_p_ppm: 20_000 }
    }

    /// Yellow unless said otherwise: 20 % to 40 % of the limit, at most 5 %.
    pub const fn yellow() -> Self {
        Self { min_ppm: 200_000, max_ppm: 400_000, max_p_ppm: 50_000 }
    }

    /// Red unless said otherwise: 10 % to 20 % of the limit, at most 10 %.
    pub const fn red() -> Self {
        Self { min_ppm: 100_000, max_ppm: 200_000, max_p_ppm: 100_000 }
    }
}

/// Which packets count towards the average that one of them is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WredAverage {
    /// All (weighted RED).
    #[default]
    Total,
    /// Those of its precedence and of better ones (RIO-C).
    Coupled,
    /// Those of its precedence (RIO-D).
    Decoupled,
}

/// What tells the drop precedence of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WredPrecedence {
    /// The colour that a profile gave it here; without one green.
    #[default]
    Color,
    /// Its AF code point, whoever wrote it (`AFx1` green, `AFx2` yellow, `AFx3` red); without one its colour.
    Dscp,
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// When it is full.
    #[cfg_attr(feature = "schema", schema(value_type = schema::QueueLimit))]
    pub limit: QueueLimit,
    /// How it drops.
    #[serde(default)]
    pub kind: QueueKind,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { limit: QueueLimit::Time(Duration(100_000_000)), kind: QueueKind::Fifo }
    }
}

fn yes() -> bool {
    true
}
fn two() -> u32 {
    2
}
fn twenty() -> u32 {
    20
}
fn thousand_and_24() -> u32 {
    1024
}
fn two_hundred_56() -> u32 {
    256
}
fn a_frame() -> u32 {
    1514
}
fn two_percent() -> u32 {
    20_000
}
fn fifth_of_a_percent() -> u32 {
    2_000
}
fn ten_percent() -> u32 {
    100_000
}
fn five_ms() -> Duration {
    Duration::from_millis(5)
}
fn fifteen_ms() -> Duration {
    Duration::from_millis(15)
}
fn hundred_ms() -> Duration {
    Duration::from_millis(100)
}
fn hundred_fifty_ms() -> Duration {
    Duration::from_millis(150)
}

/// Schemas of types that come from other crates.
#[cfg(feature = "schema")]
mod schema {
    #![allow(dead_code, reason = "they are only described")]

    /// When a queue is full.
    #[derive(utoipa::ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum QueueLimit {
        /// Packets.
        Packets(u32),
        /// Bytes of IP length plus link overhead.
        Bytes(u64),
        /// ns: what the rate of the queue's class (its guarantee, else its ceiling, else the port's rate) sends in this
        /// time.
        Time(u64),
    }
}
