//! Laboratory runs: the repetitions of a scenario in its world, and the world of this machine's own kernel with network
//! namespaces, real sockets, the kernel's TCP.
//!
//! [`jobs`] runs all configurations of a scenario, in the simulator or in namespaces; [`worlds`] sets the results of both
//! beside each other. [`scenario`] runs in namespaces what the simulator runs. Everything it makes (namespaces, interfaces,
//! threads) is held by values and vanishes with them.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/labrun is where sources and sinks get sockets, threads and the clock"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod awake;
mod error;
pub mod jobs;
mod machine;
mod pace;
mod private;
pub mod scenario;
mod shaping;
mod tap;
mod udp;
mod variants;
pub mod worlds;
mod writable;

pub use error::{JobError, LabError};
pub use private::PrivateDirectory;
pub use variants::Variants;
pub use writable::check_writable;
