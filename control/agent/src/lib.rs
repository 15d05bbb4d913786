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
//! `away` (no router) → `claiming` → `reading` (what classes and ports there are) → `submitting` ⇄ `running`. A router that restarts
//! brings a new epoch: the agent claims again and makes what it owns exactly what is in force, in one `replace_owned`.
//! It never changes objects of others: an allocation is laid over a class, which stays the file's.
//!
//! # Configuration
//! One file, read by [`AgentFile`]: `[agent]`, `[broker]` and one `[[class]]` for each class it looks after.
#![forbid(unsafe_code)]

mod file;
mod machine;
mod reading;
mod router;
mod unstable;

pub use file::{AgentFile, ClassSettings};
pub use machine::{Agent, ClassReport, Input, Notice, Output};
pub use reading::{ClassReading, Readings};
pub use router::Router;

use perhop_units::Duration;

/// Queues of a router that runs in real time are looked at this often at most: each look is a request.
pub const LEAST_REAL_POLL: Duration = Duration::from_millis(5);
