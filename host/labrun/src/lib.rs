//! Laboratory runs on this machine's own kernel: network namespaces, real sockets, the kernel's TCP.
//!
//! [`demo`](demo()) is the demonstration: calls on a congested link, through a plain FIFO and through Perhop. Everything
//! it makes (namespaces, interfaces, threads) is held by values and vanishes with them.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/labrun is where sources and sinks get sockets, threads and the clock"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod awake;
mod bulk;
mod dataplane;
mod demo;
mod error;
mod machine;
mod measure;
mod options;
mod pace;
mod private;
mod run;
pub mod scenario;
mod shaping;
mod tap;
mod topology;
mod udp;
mod writable;

pub use demo::{DemoOutcome, Progress, demo};
pub use error::LabError;
pub use machine::MachineState;
pub use options::{DemoOptions, Timeline};
pub use private::PrivateDirectory;
pub use writable::check_writable;
