//! What happened in a router, in order.

use crate::{Key, Owner, TxnId};
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
