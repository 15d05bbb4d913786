//! The live driver of sans-I/O machines: sockets, timers, retries, keep-alive, and a record of inputs that can be
//! replayed.
//!
//! # Purpose
//! A [`Machine`] takes inputs with their time, says what it wants done and when it wants to be woken. [`run`] is the loop
//! around it, the same for every machine: it waits for an input of a bounded [`channel`], for the machine's time and for
//! its own end, and for nothing else. What the machine wants goes to a handler, which answers at once or passes it on.
//!
//! # Threads and tasks
//! The loop is a future that needs no runtime. Timers of a runtime are 1 to 2 ms late; a machine that looks at something
//! every few milliseconds has a thread of its own and [`ThreadTimer::block_on`], any other is a task with
//! [`RuntimeTimer`]. Peers are kept by tasks of their own ([`keep`]): one that is slow or away delays no timer.
//!
//! # Limits
//! | what | when it is reached |
//! |---|---|
//! | inputs of a [`channel`] | whoever has another waits, which is counted; the machine is never made to wait |
//! | requests of an [`outlet`] | the peer is too slow: its connection is given up and the machine told so |
//! | bytes of a [`Record`] | nothing more is recorded, and somebody told so; the machine goes on |
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "host/drive is where machines meet clocks and threads")]

mod backoff;
mod channel;
mod connection;
mod driven;
mod machine;
mod record;
mod run;
#[cfg(test)]
mod testing;
mod timer;

pub use backoff::Backoff;
pub use channel::{Inlet, Inputs, Outlet, Over, Requests, channel, outlet};
pub use connection::{Broken, Connection, Connector, Keeping, keep};
pub use driven::{Driven, DrivenCounters};
pub use machine::Machine;
pub use record::{RECORD_BYTES, Record, RecordEnd, ReplayError, replay};
pub use run::{End, run};
pub use timer::{RuntimeTimer, ThreadTimer, Timer};
