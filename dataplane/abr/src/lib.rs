//! Available bit rate for TCP (abr): each flow is held at the rate its policy assigns by lowering the receive window in
//! the acknowledgments that pass, with neither end changed.
//!
//! * [`Settings`], [`Policy`]: which flows are held at which rate, and how;
//! * [`Controller`]: the machine, the same in a router and on an end host; [`Held`] keeps what it wants to wait;
//! * [`Abr`]: the element of the packet graph around it.
//!
//! Each direction of a connection has a flow of data and the acknowledgments of the other one. Its latency is measured
//! on both sides of this machine (`stamps`, `latency`), the window that holds its rate follows from both (`window`), and
//! everything known of a connection fits in 256 bytes (`connection`).
//!
//! Source: S. Reddy, "Implementation of an Available Bit Rate Service for Satellite IP Networks using a Performance
//! Enhancing Proxy", WPI 2004 (`docs/sources.md`).
#![forbid(unsafe_code)]

mod connection;
mod controller;
mod counters;
mod element;
mod hold;
mod latency;
mod live;
mod passing;
mod policies;
mod segment;
mod sequence;
mod settings;
mod spacing;
mod stamps;
mod state;
mod table;
pub mod testkit;
mod waiting;
mod window;

pub use controller::{Controller, Verdict};
pub use counters::Counters;
pub use element::{Abr, AbrChange, types};
pub use hold::Held;
pub use live::LiveFlows;
pub use policies::{Facts, PolicyCounters};
pub use segment::Checksum;
pub use settings::{AbrPolicyId, Floor, Latency, LimitedBy, Match, Policy, Settings};
pub use state::FlowState;
pub use table::Locator;
