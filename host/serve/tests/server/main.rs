//! The server as a client meets it: bytes through a Unix socket, in front of a router that is told what to answer.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test talks through sockets and may panic"
)]

mod fake;
mod limits;
mod reload;
mod shapes;
