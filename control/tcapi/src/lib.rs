//! The traffic-control API: the protocol by which programs reserve bandwidth in a router, without I/O or clock.
//!
//! Messages are nested type-length-values: `REQUEST`, `MODIFY` and `RELEASE` of a flow's reservation, answered by `ACK` once it
//! is in force, or by `NACK` with a reason code. A server of it is one more client of the router's contract.
#![forbid(unsafe_code)]

pub mod client;
pub mod server;
pub mod wire;
