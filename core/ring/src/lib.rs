//! Handing things from one thread to another without a lock: a bounded ring, a bell for a receiver that sleeps, and rounds for
//! a sender that must not put more than receivers have taken.
//!
//! Pure: no clock, no sleeping, no threads of its own. Checked in every interleaving by loom (`tests/loom.rs`).
#![allow(unexpected_cfgs, reason = "`loom` is set on the command line of its tests alone")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod bell;
mod cell;
mod ring;
mod rounds;

pub use bell::Bell;
pub use ring::{Consumer, MAX_CAPACITY, Producer, ring};
pub use rounds::Rounds;
