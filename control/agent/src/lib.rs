//! The session of an agent with its router, without I/O or clock, and the sum of what its parts want there.
//!
//! # Purpose
//! A [`Part`] looks after something of a router: it sees what the router has and counts, and says what it wants. [`Session`]
//! is the machine between the parts of an agent and the router: it claims the agent's owner, reads, makes one transaction
//! after the other of what the parts want, and tells them what became of it. Whoever drives it carries its [`Output`]s to
//! the router through the router's contract and the answers back as [`Input`]s: [`Session::tell`] does so with any
//! [`Router`]. In the simulator that takes no time, beside an engine it goes through the engine's handle, live through the
//! router's socket.
//!
//! # States
//! `away` (no router) → `claiming` → `reading` (what objects there are) → `running` ⇄ `submitting`: `states` has the table.
//! A router that restarts brings a new epoch: the session claims and reads again. After every reading the parts want what the
//! router has otherwise than it should.
//!
//! # Several parts
//! Parts know nothing of each other. `sum` makes of their wishes one transaction: forced wishes go first and alone; a class
//! whose allocation several parts hold gets the larger; a refusal goes to every part whose wish was in the transaction, and
//! these go one at a time then.
#![forbid(unsafe_code)]

mod domain;
mod message;
mod part;
mod reading;
mod router;
mod session;
mod states;
mod sum;
#[cfg(test)]
mod testing;

pub use domain::{DECIDED_HERE, DomainFlow, DomainNews};
pub use message::{Input, Notice, Output};
pub use part::{Look, Part, Parts};
pub use reading::{ClassReading, Readings, flows_of_row};
pub use router::{Router, perform};
pub use session::Session;
