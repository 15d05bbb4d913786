//! What a conditioner keeps for one profile, contract or class.

use super::live::Group;
use super::shared::{SharedBucket, Split};
use super::spec::{
    Action, Excess, FlowLimit, MeterSpec, OutOfProfile, ProfileSpec, RealtimeSpec, SlaSpec, SlaTraffic,
};
use crate::meter::{ColorCounters, Meter, SrTcm, TokenBucket, TrTcm, TswTcm};
use perhop_packet::PortId;
use perhop_units::{Bytes, Color, Dscp, Duration, Instant};

/// Packets and bytes (IP length) of one table entry. For contracts and classes green is within, red above the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConditionCounters {
    /// By colour, as metered.
    pub colors: ColorCounters,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets put into the default class.
    pub demoted_packets: u64,
    /// Their bytes.
    pub demoted_bytes: u64,
    /// Packets among them that were beyond the limit of their flow.
    pub flow_limited_packets: u64,
}

impl ConditionCounters {
    pub(super) fn dropped(&mut self, len: Bytes) {
        self.dropped_packets += 1;
        self.dropped_bytes += len.0;
    }

    pub(super) fn demoted(&mut self, len: Bytes) {
        self.demoted_packets += 1;
        self.demoted_bytes += len.0;
    }
}

/// A profile's state.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    meter: MeterState,
    pub(super) actions: [Action; 3],
    pub(super) counters: ConditionCounters,
}

#[derive(Clone, Copy, Debug)]
enum MeterState {
    None,
    TokenBucket(TokenBucket),
    SrTcm(SrTcm),
    TrTcm(TrTcm),
    TswTcm(TswTcm),
}

impl Profile {
    pub(super) fn new(spec: ProfileSpec) -> Self {
        let meter = match spec.meter {
            MeterSpec::None => MeterState::None,
            MeterSpec::TokenBucket { rate, burst } => MeterState::TokenBucket(TokenBucket::new(rate, burst)),
            MeterSpec::SrTcm(config) => MeterState::SrTcm(SrTcm::new(config)),
            MeterSpec::TrTcm(config) => MeterState::TrTcm(TrTcm::new(config)),
            MeterSpec::TswTcm(config) => MeterState::TswTcm(TswTcm::new(config)),
        };
        Self { meter, actions: spec.actions, counters: ConditionCounters::default() }
    }

    /// The colour of a packet. `random`: 32 uniform bits, asked for only by meters that need them.
    #[inline]
    pub(super) fn meter(
        &mut self,
        now: Instant,
        len: Bytes,
        pre: Color,
        random: impl FnOnce() -> u32,
    ) -> Color {
        let color = match &mut self.meter {
            MeterState::None => Color::Green,
            MeterState::TokenBucket(m) => m.meter(now, len),
            MeterState::SrTcm(m) => m.meter(now, len, pre),
            MeterState::TrTcm(m) => m.meter(now, len, pre),
            MeterState::TswTcm(m) => m.meter(now, len, random()),
        };
        self.counters.colors.count(color, len);
        color
    }
}

/// A contract's state.
#[derive(Clone, Debug)]
pub(super) struct Sla {
    pub(super) bucket: SharedBucket,
    /// Its live flows, when they have shares.
    pub(super) group: Group,
    pub(super) flow_idle: Duration,
    pub(super) dscp: Option<Dscp>,
    pub(super) policy: OutOfProfile,
    pub(super) traffic: SlaTraffic,
    pub(super) counters: ConditionCounters,
}

impl Sla {
    pub(super) fn new(spec: SlaSpec) -> Self {
        Self {
            bucket: SharedBucket::new(Split {
                rate: spec.rate,
                burst: spec.burst,
                shared_pct: spec.shared_pct,
            }),
            group: Group::default(),
            flow_idle: spec.flow_idle,
            dscp: spec.dscp,
            policy: spec.policy,
            traffic: spec.traffic,
            counters: ConditionCounters::default(),
        }
    }
}

/// A class policer's state.
#[derive(Clone, Debug)]
pub(super) struct RealtimeClass {
    /// For packets that came in by a port without the class.
    inward: TokenBucket,
    /// For those that came in by a port with it, in order of the ports; `None` when no other port has it.
    outward: Vec<(PortId, Option<TokenBucket>)>,
    /// For each flow.
    pub(super) flow: Option<FlowLimit>,
    pub(super) excess: Excess,
    pub(super) dscp: Option<Dscp>,
    pub(super) counters: ConditionCounters,
}

impl RealtimeClass {
    pub(super) fn new(spec: RealtimeSpec) -> Self {
        let bucket = || TokenBucket::new(spec.rate, spec.burst);
        let mut ports = spec.ports;
        ports.sort_unstable();
        ports.dedup();
        let alone = ports.len() == 1;
        Self {
            inward: bucket(),
            outward: ports.into_iter().map(|port| (port, (!alone).then(bucket))).collect(),
            flow: spec.flow,
            excess: spec.excess,
            dscp: spec.dscp,
            counters: ConditionCounters::default(),
        }
    }

    /// Whether a packet that came in by `port` is within the rate. O(log ports with the class).
    #[inline]
    pub(super) fn meter(&mut self, port: PortId, at: Instant, len: Bytes) -> Color {
        match self.outward.binary_search_by_key(&port, |(port, _)| *port) {
            Ok(i) => self.outward[i].1.as_mut().map_or(Color::Green, |bucket| bucket.meter(at, len)),
            Err(_) => self.inward.meter(at, len),
        }
    }
}

/// Continues a replaced entry.
pub(super) trait Adopt {
    /// Takes over counters, and tokens as far as the own bursts allow. A meter of another kind starts full.
    fn adopt(&mut self, old: &Self, now: Instant);
    /// The entry's counters.
    fn totals(&self) -> &ConditionCounters;
}

impl Adopt for Profile {
    fn adopt(&mut self, old: &Self, now: Instant) {
        match (&mut self.meter, &old.meter) {
            (MeterState::TokenBucket(new), MeterState::TokenBucket(old)) => new.adopt(old, now),
            (MeterState::SrTcm(new), MeterState::SrTcm(old)) => new.adopt(old, now),
            (MeterState::TrTcm(new), MeterState::TrTcm(old)) => new.adopt(old, now),
            (MeterState::TswTcm(new), MeterState::TswTcm(old)) => new.adopt(old, now),
            _ => {}
        }
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}
impl Adopt for Sla {
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.bucket.adopt(&old.bucket, now);
        self.group = old.group;
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}
impl Adopt for RealtimeClass {
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.inward.adopt(&old.inward, now);
        for (port, bucket) in &mut self.outward {
            let before = old.outward.binary_search_by_key(port, |(port, _)| *port);
            let before = before.ok().and_then(|i| old.outward[i].1.as_ref());
            if let (Some(bucket), Some(before)) = (bucket, before) {
                bucket.adopt(before, now);
            }
        }
        self.counters = old.counters;
    }
    fn totals(&self) -> &ConditionCounters {
        &self.counters
    }
}
