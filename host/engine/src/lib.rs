//! Routers and emulated links that run on this machine.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/engine is where the pure parts get threads and the clock"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod capture;
mod emulator;
mod error;
mod forwarder;
mod graph_forwarder;
mod lateness;
mod machine;
mod packet_thread;
mod port;
mod prepare;
mod recorder;
mod report;
mod wait;

pub use emulator::{Emulator, EmulatorConfig, EmulatorPort, EmulatorReport};
pub use error::EngineError;
pub use report::{Recording, Report, Row};
