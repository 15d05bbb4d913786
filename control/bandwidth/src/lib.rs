//! The agent of one router, without I/O or clock: it measures classes, decides what they get, asks the broker for it and
//! puts what is granted in force; and it divides links between the policies of the TCP rate control.
//!
//! # Purpose
//! [`Agent`] is a [`perhop_agent::Session`] with two parts:
//!
//! * measured allocation (`measured`): what a class is measured to need is asked of the broker, which sits behind
//!   [`AgentBroker`] and may be the domain's controller, and laid over the class, which stays the file's;
//! * the bandwidth management service (`bandwidth`), where the file names links: it divides what a link has between
//!   policies. All that it changes of others' objects is the rate of a policy, and of a port that it is told to set.
//!
//! # Configuration
//! One file, read by [`AgentFile`]: `[agent]`, `[broker]` and one `[[class]]` for each class it looks after; `[bandwidth]`,
//! one `[[link]]` and one `[[abr]]` for each link and each policy, and `[requests]`; `[controller]` where the router is in a domain;
//! `[leases]` and one `[[lease]]` for each class of which flows are admitted beside the router.
#![forbid(unsafe_code)]

mod advice;
mod agent;
mod bandwidth;
mod broker;
mod capacity;
mod domain_broker;
mod file;
mod leases;
mod managed;
mod measured;
mod notice;
#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod testing;
mod unstable;

pub use agent::Agent;
pub use bandwidth::{
    BandwidthSettings, Change, LinkSettings, PolicyReport, PolicySettings, RequestSettings, Schedule,
    Weighted,
};
pub use broker::{AgentBroker, FileBroker};
pub use domain_broker::{DomainBroker, Place};
pub use file::{AgentFile, ClassSettings, ControllerSettings, DomainPolicy};
pub use leases::{LeaseSettings, LeasedClass};
pub use notice::{ClassReport, LinkAsk, Notice, Output};

use perhop_units::Duration;

/// Queues of a router that runs in real time are looked at this often at most: each look is a request.
pub const LEAST_REAL_POLL: Duration = Duration::from_millis(5);
