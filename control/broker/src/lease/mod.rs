//! What an agent decides by itself: admission of flows into leases, aggregates of bandwidth that the broker has let it have.
//!
//! # Purpose
//! [`Leases`] is an agent's local decision point. A flow that fits into what its lease has left is admitted at once and nobody
//! is asked. Otherwise the broker is asked for one chunk that makes room for all flows that wait; the router then makes the
//! allocation of the class larger, and only then the flows are told. The part of the agent that has the
//! router do so is [`Reserved`].
//!
//! A lease may also be a single flow's: then the broker decides about each flow (outsourcing), in place of giving quantities
//! in advance (provisioning). A class has one of the two models, or the mix of them ([`Model`]).
//!
//! # What is always so
//! * Flows have at most what the router has for them, and the router has at most what the broker has booked: what is more is
//!   used after the broker's decision and after the router's, what is less is given back after the router has less.
//! * An [`Ask`] says what the lease is to have in all, and has a number above those before. So a lost one is sent again, one that
//!   comes twice changes nothing, and one that comes late is out of date ([`judge`]): what was granted too late is given back by the next.
//! * A lease ends by itself. Its holder counts from when it asked, the broker from when it was asked, so that the holder's ends first.
//!
//! # Journal
//! What has to outlive the process is a [`Row`] a lease and a flow. [`Leases::take_rows`] gives those that have changed. They are to
//! be kept before any output is carried out; then a process that is killed at any instant and begins again with
//! [`Leases::restore`] has admitted what it told anybody that it has.

mod flows;
mod held;
mod journal;
mod leases;
mod message;
mod part;
#[cfg(test)]
mod schedule_tests;
mod settings;
mod states;
mod wants;

pub use journal::{FlowRow, LeaseRow, Row, Snapshot};
pub use leases::Leases;
pub use message::{Ask, Decision, End, FlowAsk, FlowId, Input, Judged, LeaseId, Output, Refusal, judge};
pub use part::{InRouter, Reserved};
pub use settings::{ClassSettings, Limits, Model, Settings, SettingsError};
