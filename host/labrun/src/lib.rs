//! Laboratory runs on this machine's own kernel: network namespaces, real sockets, the kernel's TCP.
//!
//! [`scenario`] runs what the simulator runs. Everything it makes (namespaces, interfaces, threads) is held by values and
//! vanishes with them.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/labrun is where sources and sinks get sockets, threads and the clock"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod awake;
mod error;
mod machine;
mod pace;
mod private;
pub mod scenario;
mod shaping;
mod tap;
mod udp;
mod writable;

pub use error::LabError;
pub use private::PrivateDirectory;
pub use writable::check_writable;
