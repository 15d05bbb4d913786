//! The deterministic simulator: hosts, links and routers under one virtual clock.
//!
//! [`run`] takes a scenario and gives a recording. Hosts send real frames with real headers; routers are the very
//! control and worker of `perhop router run`; links are queues, lines and delays. The same seed gives the same bytes,
//! on every machine.
#![forbid(unsafe_code)]

mod admission;
mod agenda;
mod agent;
mod buffers;
mod build;
mod capture;
mod controller;
mod datagrams;
mod error;
mod frame;
mod front;
mod node;
mod random;
mod router;
mod run;
mod sample;
mod series;
mod transport;
mod way;
mod world;

pub use build::Options;
pub use error::SimError;
pub use run::run;
