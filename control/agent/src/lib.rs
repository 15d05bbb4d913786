//! The agent of one router, without I/O or clock: it measures classes, decides what they get, asks the broker for it
//! and puts what is granted in force.
//!
//! # Purpose
//! [`Agent`] is a machine between a router and a broker. Whoever drives it carries its [`Output`]s to the router
//! through the router's contract (a claim, reads, transactions) and the answers back as [`Input`]s: [`Agent::tell`] does
//! so with any [`Router`]. In the simulator that takes no time, beside an engine it goes through the engine's handle, live
//! through the router's socket. The broker sits behind [`perhop_allocate::Broker`].
//!
//! # States
//! `away` (no router) → `claiming` → `reading` (what ports, classes and allocations there are) → `submitting` ⇄ `running`.
//! A router that restarts brings a new epoch: the agent claims and reads again. After every reading it submits what the
//! router has otherwise than it should. An allocation is laid over a class, which stays the file's.
//!
//! # What is in force
//! What a class has is what the router has committed. The first reading of an instance says what the instance before it
//! left: each class begins with that. A transaction holds all that is owed; if the router refuses it, what is lowered goes
//! first and then one increase after the other, so that none holds up another. An increase that is refused is undone in the
//! class's allocator, as a refusal by the broker is.
//!
//! Where the file names links, the agent is also the bandwidth management service of the TCP rate control: it divides what
//! a link has between policies, by `bandwidth`, a part of the machine with no state of its own towards the router. All that
//! it changes of others' objects is the rate of a policy, and of a port that it is told to set.
//!
//! # Configuration
//! One file, read by [`AgentFile`]: `[agent]`, `[broker]` and one `[[class]]` for each class it looks after; `[bandwidth]`,
//! one `[[link]]` and one `[[abr]]` for each link and each policy, and `[requests]`.
#![forbid(unsafe_code)]

mod advice;
mod agent;
mod bandwidth;
mod capacity;
mod file;
mod managed;
mod measured;
mod message;
mod notice;
mod part;
mod reading;
mod router;
mod session;
mod states;
mod sum;
#[cfg(test)]
mod testing;
mod unstable;

pub use agent::Agent;
pub use bandwidth::{
    BandwidthSettings, Change, LinkSettings, PolicyReport, PolicySettings, RequestSettings, Schedule,
    Weighted,
};
pub use file::{AgentFile, ClassSettings};
pub use message::Input;
pub use notice::{ClassReport, Notice};
pub use part::{Look, Part, Parts};
pub use reading::{ClassReading, Readings, flows_of_row};
pub use router::{Router, perform};
pub use session::Session;

use perhop_units::Duration;

/// What an agent wants done.
pub type Output = message::Output<Notice>;

/// Queues of a router that runs in real time are looked at this often at most: each look is a request.
pub const LEAST_REAL_POLL: Duration = Duration::from_millis(5);
