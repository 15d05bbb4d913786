//! Flows: which connection a packet belongs to, which rule it meets first, and whether it is real-time media.
//!
//! * [`classifier`]: rules and tuple search;
//! * [`realtime`]: recognition of media;
//! * [`admission`]: which of the recognised flows are real-time;
//! * [`Flows`]: the element that puts them together around a connection table;
//! * [`offline`]: the same recognition over captured frames.
#![forbid(unsafe_code)]

pub mod admission;
mod buckets;
mod calls;
pub mod classifier;
mod element;
mod event;
mod fold;
pub mod offline;
mod query;
pub mod realtime;
mod registration;
mod settings;
mod steer;
mod table;

pub use admission::Shortage;
pub use buckets::{BUCKETS, BucketCounts, BucketMap, MAX_WORKERS};
pub use calls::{Assumed, CallInfo, HereInfo};
pub use element::{AdmissionReport, Departure, Flows, FlowsChange, FlowsConfig, FlowsCounters};
pub use event::{FlowEvent, FlowEventKind, FlowTuple};
pub use query::{
    ExplainedConnection, ExplainedFilter, ExplainedTable, Explanation, FlowInfo, SNAPSHOT_SLOTS,
};
pub use realtime::reason::Reason;
pub use registration::types;
pub use settings::{Settings, SlaMap};
pub use steer::Steer;
pub use table::Timeouts;
