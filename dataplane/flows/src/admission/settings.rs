//! What admission is told.

use perhop_packet::{PortId, SlaId};
use perhop_units::{Duration, Rate};
use serde::Serialize;

/// Which admitted flow is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
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

/// What happens to packets of flows that are refused or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turned {
    /// They go their ordinary way, not that of real-time traffic.
    #[default]
    Demote,
    /// Dropped as `not_admitted`.
    Drop,
}

/// What the admitted flows that may leave by a port share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The port; none: all flows share it.
    pub port: PortId,
    /// What they may have together, counting `overhead` of the settings.
    pub rate: Rate,
}

/// How full it was when a flow was refused or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shortage {
    /// The port by which there was least room; none where all flows share the cap.
    #[serde(skip)]
    pub port: PortId,
    /// What admitted flows had: reserved there, or measured and expected of those just admitted.
    pub used: Rate,
    /// What they may have. New ones are accepted in a part of it.
    pub cap: Rate,
    /// Whether nothing new was accepted, whatever was used.
    pub locked: bool,
}

/// Settings of admission. Percentages are of `cap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// What admitted flows may carry together, at IP length.
    pub cap: Rate,
    /// A flow is accepted while less than this is carried (T_a).
    pub accept_pct: u8,
    /// A flow is dropped when more than this is carried (T_d), above `accept_pct`.
    pub drop_pct: u8,
    /// Measurement interval (S).
    pub interval: Duration,
    /// Intervals in a measurement window (n).
    pub windows: u32,
    /// Which flow is dropped.
    pub policy: Victim,
    /// What happens to packets of flows that are not admitted.
    pub turned: Turned,
    /// A flow silent for this long is forgotten, admitted or not.
    pub idle: Duration,
    /// A refused flow is looked at again after this time; `None` = not before it was silent.
    pub retry: Option<Duration>,
    /// What a flow just admitted is taken to carry, until an interval has measured it.
    pub new_flow: Rate,
    /// Nothing new is accepted.
    pub locked: bool,
    /// Every step up drops a flow.
    pub cancel: u64,
    /// What flows have rates of their own in (`admission::reserved`); empty: what all carry is measured together, and `cap` is what
    /// it is compared with.
    pub caps: Vec<Cap>,
    /// Bytes that a packet counts beyond its IP length.
    pub overhead: u32,
    /// Contracts whose flows are accepted until `drop_pct`, and dropped after all others; in order.
    pub premium: Vec<SlaId>,
}

impl AdmissionSettings {
    /// Whether each flow has a rate of its own.
    pub fn is_reserved(&self) -> bool {
        !self.caps.is_empty()
    }

    /// The part of what there is that flows of premium contracts, or others, are accepted in, %.
    pub(super) fn pct(&self, premium: bool) -> u8 {
        if premium { self.drop_pct } else { self.accept_pct }
    }

    /// `pct` of the cap, bit/s.
    pub(super) fn part(&self, pct: u8) -> u64 {
        (u128::from(self.cap.0) * u128::from(pct) / 100) as u64
    }

    /// Whether a contract's flows are accepted longest and dropped last.
    pub fn is_premium(&self, sla: SlaId) -> bool {
        sla.is_some() && self.premium.binary_search(&sla).is_ok()
    }
}
