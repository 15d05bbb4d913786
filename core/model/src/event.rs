//! What happened in a router, in order.

use crate::{Key, Name, Owner, OwnerPattern, TxnId};
use perhop_units::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// Epoch.
    pub epoch: u64,
    /// Rises by one an event within an epoch.
    pub seq: u64,
    /// Router clock.
    pub at_ns: u64,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// A transaction is in force everywhere.
    Committed {
        /// Owner.
        owner: Owner,
        /// Transaction.
        txn_id: TxnId,
        /// New revision.
        revision: u64,
        /// Whether an admin changed others' objects by force.
        forced: bool,
    },
    /// Soft state ran out.
    Expired {
        /// What expired.
        keys: Vec<Key>,
        /// New revision.
        revision: u64,
        /// Owners of some of it whose lease ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lapsed: Vec<Owner>,
        /// Owners of what expired.
        #[serde(default)]
        owners: Vec<Owner>,
    },
    /// A port, or classes of somebody else, leave allocations less than they were made for and than they came to before: all
    /// of a node give the same part. Told again when it is still less, and as `committed` alone when there is more again.
    AllocationScaled {
        /// Port.
        port: String,
        /// Revision since which it is so.
        revision: u64,
        /// The first of these allocations, by name of the class.
        allocations: Vec<ScaledAllocation>,
        /// How many there are.
        total: u64,
    },
    /// An unconfirmed transaction was taken back.
    Reverted {
        /// Owner.
        owner: Owner,
        /// Transaction.
        txn_id: TxnId,
        /// New revision.
        revision: u64,
    },
    /// A removed class is empty and gone.
    Drained {
        /// Which.
        key: Key,
        /// Packets that did not leave in time.
        dropped: u64,
    },
    /// A port's interface is gone or down.
    PortDown {
        /// Port.
        port: String,
    },
    /// A port's interface is back.
    PortUp {
        /// Port.
        port: String,
    },
    /// A link's rate changed.
    LinkRate {
        /// Port.
        port: String,
        /// bit/s.
        #[cfg_attr(feature = "schema", schema(value_type = u64))]
        rate: Rate,
    },
    /// A real-time flow was recognised.
    FlowDetected {
        /// `udp 10.0.0.1:5004>10.0.0.2:5006`.
        flow: String,
        /// Why.
        reason: String,
        /// Class it goes to.
        class: String,
        /// Packets it took.
        packets: u64,
    },
    /// A recognised flow ended.
    FlowEnded {
        /// Flow.
        flow: String,
        /// Packets seen.
        packets: u64,
    },
    /// Admission refused a recognised flow.
    FlowRefused {
        /// Flow.
        flow: String,
        /// How full it was.
        #[serde(flatten)]
        shortage: FlowShortage,
    },
    /// Admission dropped a flow that it had admitted.
    FlowDropped {
        /// Flow.
        flow: String,
        /// Packets seen.
        packets: u64,
        /// How full it was.
        #[serde(flatten)]
        shortage: FlowShortage,
    },
    /// Quality of a call, reported at intervals: as it leaves the router, as it came, and what the router did to it so far.
    CallQuality {
        /// Flow.
        flow: String,
        /// R factor × 10 as it leaves.
        r_tenths: u16,
        /// MOS × 1000 as it leaves.
        mos_thousandths: u16,
        /// R factor × 10 as it came in.
        in_r_tenths: u16,
        /// MOS × 1000 as it came in.
        in_mos_thousandths: u16,
        /// Packets that should have come in.
        expected: u64,
        /// Of these, packets that did not.
        lost_before: u64,
        /// Packets that came in and were dropped here.
        dropped_here: u64,
        /// These by reason; of a fifth reason and further ones only `dropped_here` knows.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        dropped_by: BTreeMap<String, u64>,
        /// Time from coming in to leaving, µs.
        delay_mean_us: u64,
        /// The longest, µs.
        delay_max_us: u64,
    },
    /// A limit was hit (reported once a second at most for each).
    LimitHit {
        /// Name of the limit.
        limit: String,
        /// Its value.
        value: u64,
        /// Hits since the last report.
        hits: u64,
    },
    /// Events were lost because the reader was too slow.
    Gap {
        /// First lost.
        from: u64,
        /// Last lost.
        to: u64,
    },
}

/// An allocation that comes to less than it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScaledAllocation {
    /// Its object.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub name: Name,
    /// Whose it is.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub owner: Owner,
    /// The class.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub class: Name,
    /// The guarantee it was made for, bit/s.
    #[serde(rename = "made_bps")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub made: Rate,
    /// What it comes to, bit/s.
    #[serde(rename = "has_bps")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub has: Rate,
}

/// Some events after a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventsPage {
    /// In order.
    pub events: Vec<Event>,
    /// The number up to which there is nothing else for this reader: to be asked after next.
    pub upto: u64,
}

/// Which events a reader wants. A [`EventKind::Gap`] is told to everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only of these types, by their names in [`EventKind::TYPES`]; none = of every type.
    pub types: Option<Vec<&'static str>>,
    /// None that is of other owners' objects alone; none = all.
    pub owner: Option<Owner>,
    /// None that is of objects of these alone.
    pub without: Vec<OwnerPattern>,
}

impl EventFilter {
    /// Whether the reader wants this one.
    pub fn wants(&self, kind: &EventKind) -> bool {
        let is_of_type = || self.types.as_ref().is_none_or(|types| types.contains(&kind.type_name()));
        let concerns = || self.owner.as_ref().is_none_or(|owner| kind.concerns(owner));
        let is_wanted = || self.without.is_empty() || !kind.is_only_of(&self.without);
        matches!(kind, EventKind::Gap { .. }) || (is_of_type() && concerns() && is_wanted())
    }
}

impl EventKind {
    /// Names of all types, as in `type` of what is written.
    pub const TYPES: [&'static str; 15] = [
        "committed",
        "expired",
        "allocation_scaled",
        "reverted",
        "drained",
        "port_down",
        "port_up",
        "link_rate",
        "flow_detected",
        "flow_ended",
        "flow_refused",
        "flow_dropped",
        "call_quality",
        "limit_hit",
        "gap",
    ];

    /// Its name in [`EventKind::TYPES`].
    pub const fn type_name(&self) -> &'static str {
        Self::TYPES[match self {
            Self::Committed { .. } => 0,
            Self::Expired { .. } => 1,
            Self::AllocationScaled { .. } => 2,
            Self::Reverted { .. } => 3,
            Self::Drained { .. } => 4,
            Self::PortDown { .. } => 5,
            Self::PortUp { .. } => 6,
            Self::LinkRate { .. } => 7,
            Self::FlowDetected { .. } => 8,
            Self::FlowEnded { .. } => 9,
            Self::FlowRefused { .. } => 10,
            Self::FlowDropped { .. } => 11,
            Self::CallQuality { .. } => 12,
            Self::LimitHit { .. } => 13,
            Self::Gap { .. } => 14,
        }]
    }

    /// Whether it is about something of this owner's, or of nobody's in particular.
    pub fn concerns(&self, owner: &Owner) -> bool {
        match self {
            Self::Committed { owner: by, forced, .. } => by == owner || *forced,
            Self::Expired { owners, .. } => owners.contains(owner),
            Self::AllocationScaled { allocations, total, .. } => {
                *total > allocations.len() as u64 || allocations.iter().any(|a| a.owner == *owner)
            }
            _ => true,
        }
    }
}

impl EventKind {
    /// Whether it is about objects of these owners, and of nobody else.
    fn is_only_of(&self, owners: &[OwnerPattern]) -> bool {
        let covered = |owner: &Owner| owners.iter().any(|pattern| pattern.covers(owner));
        match self {
            Self::Committed { owner, forced, .. } => !forced && covered(owner),
            Self::Reverted { owner, .. } => covered(owner),
            Self::Expired { owners, .. } => !owners.is_empty() && owners.iter().all(covered),
            _ => false,
        }
    }
}

/// Why admission had no room for a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowShortage {
    /// Class it would have gone to, or went to.
    pub class: String,
    /// The port by which there was least room; none where all flows share the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// What admitted flows had: reserved there, or measured and expected of those just admitted, bit/s.
    #[serde(rename = "used_bps")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub used: Rate,
    /// What they may have, bit/s. New ones are accepted in a part of it.
    #[serde(rename = "cap_bps")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub cap: Rate,
    /// Whether nothing new was accepted, whatever was used.
    pub locked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_called_as_they_are_written() {
        let port = || "wan".to_owned();
        let events = [
            EventKind::Committed { owner: Owner::Cli, txn_id: TxnId([1; 16]), revision: 1, forced: false },
            EventKind::Expired { keys: Vec::new(), revision: 1, lapsed: Vec::new(), owners: Vec::new() },
            EventKind::AllocationScaled { port: port(), revision: 1, allocations: Vec::new(), total: 0 },
            EventKind::Reverted { owner: Owner::Cli, txn_id: TxnId([1; 16]), revision: 1 },
            EventKind::PortDown { port: port() },
            EventKind::PortUp { port: port() },
            EventKind::LinkRate { port: port(), rate: Rate(1) },
            EventKind::FlowEnded { flow: port(), packets: 1 },
            EventKind::LimitHit { limit: port(), value: 1, hits: 1 },
            EventKind::Gap { from: 1, to: 2 },
        ];
        for event in events {
            let written = serde_json::to_value(&event).expect("plain data");
            assert_eq!(written["type"], event.type_name());
        }
    }

    #[test]
    fn a_filter_leaves_out_other_types_and_what_is_of_other_owners_alone() {
        let committed =
            |owner| EventKind::Committed { owner, txn_id: TxnId([1; 16]), revision: 1, forced: false };
        let expired =
            |owners| EventKind::Expired { keys: Vec::new(), revision: 1, lapsed: Vec::new(), owners };
        let up = EventKind::PortUp { port: "wan".to_owned() };
        let all = EventFilter::default();
        let of_agent = EventFilter { owner: Some(Owner::Agent), ..EventFilter::default() };
        let commits = EventFilter { types: Some(vec!["committed"]), ..EventFilter::default() };
        let patterns = ["agent", "tcapi:*"].map(|text| text.parse().expect("a pattern"));
        let of_others = EventFilter { without: patterns.to_vec(), ..EventFilter::default() };
        let tcapi = || Owner::Tcapi(Name::new("site-1").expect("a name"));
        let forced =
            EventKind::Committed { owner: tcapi(), txn_id: TxnId([1; 16]), revision: 1, forced: true };
        for (event, wanted) in [
            (committed(Owner::Agent), [true, true, true, false]),
            (committed(tcapi()), [true, false, true, false]),
            (forced, [true, true, true, true]),
            (committed(Owner::File), [true, false, true, true]),
            (expired(vec![Owner::File, Owner::Agent]), [true, true, false, true]),
            (expired(vec![tcapi(), Owner::Agent]), [true, true, false, false]),
            (expired(vec![Owner::File]), [true, false, false, true]),
            (up, [true, true, false, true]),
            (EventKind::Gap { from: 1, to: 2 }, [true, true, true, true]),
        ] {
            let filters = [&all, &of_agent, &commits, &of_others];
            assert_eq!(filters.map(|f| f.wants(&event)), wanted, "{event:?}");
        }
    }
}
