//! What users ask of a conditioner.

use crate::meter::{SrTcmConfig, TrTcmConfig, TswTcmConfig};
use perhop_packet::{ClassId, PortId};
use perhop_units::{Bytes, Dscp, Duration, Rate};

/// The meter of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterSpec {
    /// Everything is green.
    None,
    /// Green or red.
    TokenBucket {
        /// What the bucket earns.
        rate: Rate,
        /// What it holds.
        burst: Bytes,
    },
    /// RFC 2697.
    SrTcm(SrTcmConfig),
    /// RFC 2698.
    TrTcm(TrTcmConfig),
    /// RFC 2859.
    TswTcm(TswTcmConfig),
}

/// What a profile does to packets of one colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    #[default]
    Pass,
    /// Drop as `policed`.
    Drop,
    /// Write a code point.
    Remark(Dscp),
    /// Put into a logical class, and write a code point if one is given.
    SetClass(ClassId, Option<Dscp>),
}

/// A customer's conditioner at an ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileSpec {
    /// How packets are coloured.
    pub meter: MeterSpec,
    /// What then happens, by [`perhop_units::Color`] as index.
    pub actions: [Action; 3],
}

/// What a contract does with traffic above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfProfile {
    /// As if it were within.
    Ok,
    /// Drop as `sla_policy`.
    Drop,
    /// Clear the code point and put into the default class.
    Demote,
}

/// Which packets of its customer a contract meters and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlaTraffic {
    /// Recognised real-time traffic only; the rest is best effort and never charged.
    #[default]
    Recognised,
    /// Recognised real-time traffic, and what a filter put into a class other than the default one.
    Classified,
    /// Everything.
    Every,
}

/// A customer's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlaSpec {
    /// Contracted rate at IP length.
    pub rate: Rate,
    /// Contracted burst.
    pub burst: Bytes,
    /// Per cent of the rate, 0 … 100, that is first come, first served; the live flows share the rest equally.
    pub shared_pct: u8,
    /// A flow silent for this long no longer has a share.
    pub flow_idle: Duration,
    /// Code point of traffic within the contract; `None` leaves it.
    pub dscp: Option<Dscp>,
    /// What happens to the rest.
    pub policy: OutOfProfile,
    /// Which packets it concerns.
    pub traffic: SlaTraffic,
}

/// What a class does with recognised real-time traffic above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Drop as `policed`.
    Drop,
    /// Clear the code point and put into the default class.
    Demote,
}

/// What one recognised flow may use of its class. What is beyond goes to the default class: a flow that was recognised
/// wrongly gets no more than a call, and loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimit {
    /// Rate at IP length.
    pub rate: Rate,
    /// Burst.
    pub burst: Bytes,
    /// After this silence it has its whole burst again.
    pub idle: Duration,
}

/// The policer of promoted real-time traffic of one logical class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeSpec {
    /// The class's rate at IP length.
    pub rate: Rate,
    /// Its burst.
    pub burst: Bytes,
    /// What one flow of it may use.
    pub flow: Option<FlowLimit>,
    /// What happens to the rest.
    pub excess: Excess,
    /// Code point of traffic within the rate; `None` leaves it.
    pub dscp: Option<Dscp>,
    /// Ports whose tree has the class. What comes in by one of them leaves by another, so it has a bucket of its own:
    /// both directions of a call never share one rate. Where no other port has the class, there is nothing to police.
    pub ports: Vec<PortId>,
}
