//! The router's contract as types: objects, transactions, replies, reads and events.
//!
//! Everything that changes a router is a client of this: file reload, agent, traffic-control API, command line, HTTP,
//! tests. The types know no engine. Quantities are integers in base units (bit/s, bytes, ns). The feature `schema`
//! adds OpenAPI schemas.
#![forbid(unsafe_code)]

mod abr;
mod admission;
mod call;
mod client;
mod device;
mod event;
mod given;
mod object;
mod queue;
mod read;
mod reply;
mod scheduler;
mod show;
mod spec;
mod spec_error;
mod transaction;

pub use abr::{AbrFloor, AbrLatency, AbrMatch, AbrPolicySpec};
pub use admission::{AdmissionMethod, AdmissionPolicy, AdmissionSpec};
pub use call::{Call, Done, Reloaded};
pub use client::{Credentials, OwnerPattern, Role, Speaks};
pub use device::{DEVICE_NAMES, is_device_name};
pub use event::{Event, EventFilter, EventKind, EventsPage, FlowShortage, ScaledAllocation};
pub use given::{Given, Object, Unreadable};
pub use object::{Key, Kind, Name, NameError, ObjectState, Owner, OwnerError, Status};
pub use queue::{Precedence, QueueKind, QueueSpec, WredAverage, WredPrecedence};
pub use read::{CountersPage, CountersQuery, CountersRow, OwnerDigest, StatePage, StateQuery};
pub use reply::{ErrorItem, OpOutcome, OpResult, Outcome, Reply};
pub use scheduler::{DelayGoal, FirstPiece, LossGoal, Scheduler};
pub use show::{ShowPage, ShowQuery, ShowRow};
pub use spec::{
    AllocationSpec, Cells, ClassSpec, ColorAction, DetectorSpec, ExcessPolicy, FilterMatch, FilterSpec,
    MaskedByte, MeterSpec, PortMode, PortRange, PortSpec, ProfileSpec, RouteKind, RouteSpec, SlaPolicy,
    SlaSpec, SourceCheck, Spec,
};
pub use spec_error::{Expected, SpecError};
pub use transaction::{Claim, MAX_OPS, Mode, Op, Put, Transaction, TxnId, TxnIdError};
