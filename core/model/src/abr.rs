//! Specification of a policy of the TCP rate control (abr).

use crate::{Name, Owner, PortRange};
use ipnet::IpNet;
use perhop_reason::Code;
use perhop_units::{Dscp, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Which flows a policy is for, compared with the packets that carry their data. All that is given must hold; what is
/// absent matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AbrMatch {
    /// Logical class that the flow's filter, code point or profile chose.
    #[serde(default)]
    pub class: Option<Name>,
    /// Contract.
    #[serde(default)]
    pub sla: Option<Name>,
    /// Filter that matched first.
    #[serde(default)]
    pub filter: Option<Name>,
    /// One of these code points, as marked by the flow's profile or contract; empty = any.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<u8>))]
    pub dscp: Vec<Dscp>,
    /// Prefix of the sender of the data, `10.0.0.0/24` or `2001:db8::/32`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub src: Option<IpNet>,
    /// Prefix of its receiver, of the same family as `src`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub dst: Option<IpNet>,
    /// TCP ports of the sender of the data.
    #[serde(default)]
    pub src_ports: Option<PortRange>,
    /// TCP ports of its receiver.
    #[serde(default)]
    pub dst_ports: Option<PortRange>,
}

/// What happens to a flow whose rate is below one segment a round trip, which no window can express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AbrFloor {
    /// It gets a window of one segment, which is more than its rate, and counts as limited by the floor.
    #[default]
    Clamp,
    /// It gets a window of one segment, and its acknowledgments are held so long that it keeps to its rate.
    Pace,
}

/// How the latency of a path is told from the time that packets wait in queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AbrLatency {
    /// Average that follows shorter samples at once and longer ones slowly.
    Average {
        /// Weight of a longer sample in parts per million, 1 … 1,000,000; published: at most 2,000.
        #[serde(default = "weight_up")]
        up_ppm: u32,
        /// Weight of a shorter sample in parts per million, 1 … 1,000,000; published: at least 600,000.
        #[serde(default = "weight_down")]
        down_ppm: u32,
    },
    /// The same; how much a longer sample counts depends on the time since the sample before.
    Timed {
        /// Time constant upwards in ns, 1 s … 1 h.
        #[serde(default = "two_minutes")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        up: Duration,
        /// As of `average`.
        #[serde(default = "weight_down")]
        down_ppm: u32,
    },
    /// The shortest sample of the last while.
    Minimum {
        /// How far back in ns, 100 ms … 1 h.
        #[serde(default = "ten_seconds")]
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        window: Duration,
    },
}

impl AbrLatency {
    /// Weights of the source, 0.002 and 0.6 (S. Reddy, chapter 5).
    pub const PUBLISHED: Self = Self::Average { up_ppm: 2_000, down_ppm: 600_000 };
    /// [`AbrLatency::Timed`] with a time constant of two minutes.
    pub const TIMED: Self = Self::Timed { up: Duration::from_secs(120), down_ppm: 600_000 };
    /// [`AbrLatency::Minimum`] of ten seconds.
    pub const MINIMUM: Self = Self::Minimum { window: Duration::from_secs(10) };
}

impl Default for AbrLatency {
    fn default() -> Self {
        Self::PUBLISHED
    }
}

/// A policy of the TCP rate control: a group of flows and the rate that they share, kept by lowering the receive windows
/// of the acknowledgments that pass. A flow falls under the first policy that matches, by (priority, name); without one
/// it is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AbrPolicySpec {
    /// Lower is compared earlier; then the name decides.
    #[serde(default)]
    pub priority: u32,
    /// Condition.
    #[serde(default, rename = "match")]
    pub matches: AbrMatch,
    /// bit/s at IP length for all its flows together, shared equally by those that send; 1,000 … 10¹², or 0: they are
    /// watched and not limited.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub rate: Rate,
    /// Share of each flow against flows of other policies, 1 … 1,000,000. For who distributes bandwidth (the agent).
    #[serde(default = "one")]
    pub weight: u32,
    /// bit/s at IP length that each flow is to have at least, 0 = nothing in particular; at most `peak`. For who
    /// distributes bandwidth (the agent): the router does not refuse flows for it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub min: Rate,
    /// bit/s at IP length that a flow gets at most, whatever its share; 1,000 … 10¹², or 0 = no limit of its own.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub peak: Rate,
    /// Below one segment a round trip.
    #[serde(default)]
    pub floor: AbrFloor,
    /// Filter of latency samples.
    #[serde(default)]
    pub latency: AbrLatency,
    /// Whether the right edge of a window may move left when the rate falls. Otherwise it stands until the
    /// acknowledgments have caught up.
    #[serde(default)]
    pub allow_shrink: bool,
    /// Whether the window of a SYN/ACK is limited too, once the handshake has shown the latency of one side.
    #[serde(default = "yes")]
    pub limit_syn_ack: bool,
    /// Window shift, 0 … 14, taken for that of both ends of a connection whose handshake was not seen; none = it is left
    /// alone.
    #[serde(default)]
    pub assume_shift: Option<u8>,
    /// Whether a side that shows no latency has none, as where the senders are next to this router. Otherwise a flow is
    /// limited only when both sides are known.
    #[serde(default)]
    pub local: bool,
    /// Bytes that the link adds to each packet and that count against the rate, 0 … 256.
    #[serde(default)]
    pub overhead: u32,
    /// A flow that has sent no data for so long has no share until it sends again, ns; 100 ms … 1 h.
    #[serde(default = "five_seconds")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub idle: Duration,
    /// Why who distributes bandwidth (the agent) did not promise the minimum that was asked for with this policy; none =
    /// nothing was refused. Of no effect in the router. Whoever asks anew by a `put` takes it away with that.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub refused: Option<Code>,
    /// Whether other owners may refer to it.
    #[serde(default)]
    pub shared: bool,
    /// Who besides its owner may patch `rate`, `min` and `refused`, and nothing else of it; none = nobody.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub managed_by: Option<Owner>,
}

impl Default for AbrPolicySpec {
    /// What an object without any field says: flows that match everything are watched.
    fn default() -> Self {
        Self {
            priority: 0,
            matches: AbrMatch::default(),
            rate: Rate::ZERO,
            weight: one(),
            min: Rate::ZERO,
            peak: Rate::ZERO,
            floor: AbrFloor::default(),
            latency: AbrLatency::default(),
            allow_shrink: false,
            limit_syn_ack: yes(),
            assume_shift: None,
            local: false,
            overhead: 0,
            idle: five_seconds(),
            refused: None,
            shared: false,
            managed_by: None,
        }
    }
}

fn yes() -> bool {
    true
}
fn one() -> u32 {
    1
}
fn weight_up() -> u32 {
    2_000
}
fn weight_down() -> u32 {
    600_000
}
fn two_minutes() -> Duration {
    Duration::from_secs(120)
}
fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}
fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> AbrPolicySpec {
        serde_json::from_value(value).expect("a specification")
    }

    #[test]
    fn a_policy_that_says_nothing_watches_everything_with_the_published_filter() {
        let spec = read(json!({}));
        assert_eq!(spec, AbrPolicySpec::default());
        assert_eq!((spec.rate, spec.weight, spec.min, spec.peak), (Rate::ZERO, 1, Rate::ZERO, Rate::ZERO));
        assert_eq!((spec.floor, spec.latency), (AbrFloor::Clamp, AbrLatency::PUBLISHED));
        assert!(spec.limit_syn_ack && !spec.allow_shrink && !spec.local && !spec.shared);
        assert_eq!(
            (spec.assume_shift, spec.idle, spec.matches),
            (None, Duration::from_secs(5), AbrMatch::default())
        );
    }

    #[test]
    fn a_latency_filter_without_parameters_has_the_usual_ones() {
        let of = |kind: &str| read(json!({ "latency": { "type": kind } })).latency;
        assert_eq!(of("average"), AbrLatency::PUBLISHED);
        assert_eq!(of("timed"), AbrLatency::TIMED);
        assert_eq!(of("minimum"), AbrLatency::MINIMUM);
    }
}
