//! What happened in a router, in order.

use crate::{Key, Owner, TxnId};
use perhop_units::Rate;
use serde::{Deserialize, Serialize};

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
    },
    /// Admission dropped a flow that it had admitted.
    FlowDropped {
        /// Flow.
        flow: String,
        /// Packets seen.
        packets: u64,
    },
    /// Quality of a call, reported at intervals.
    CallQuality {
        /// Flow.
        flow: String,
        /// R factor × 10.
        r_tenths: u16,
        /// MOS × 1000.
        mos_thousandths: u16,
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
