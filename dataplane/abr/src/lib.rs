//! Available bit rate for TCP (abr): each flow is held at the rate its policy assigns by lowering the receive window in
//! the acknowledgments that pass, with neither end changed.
//!
//! * [`Settings`], [`Policy`]: which flows are held at which rate, and how;
//! * [`Abr`]: the element of the packet graph.
//!
//! Source: S. Reddy, "Implementation of an Available Bit Rate Service for Satellite IP Networks using a Performance
//! Enhancing Proxy", WPI 2004 (`docs/sources.md`).
#![forbid(unsafe_code)]

mod element;
mod settings;

pub use element::{Abr, AbrChange, types};
pub use settings::{AbrPolicyId, Floor, Latency, Match, Policy, Settings};
