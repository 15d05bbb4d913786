//! What the endpoint is judged by: scripts, laws of throughput, a published run, another implementation, and properties
//! under any loss. One binary, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bytes;
mod hostile;
mod interop;
mod laws;
mod path;
mod properties;
mod reference_run;
mod script;
mod scripts_data;
mod scripts_life;
mod scripts_rack;
mod transfer;
