//! The server as a client meets it: bytes through a Unix socket, in front of a router that is told what to answer.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test talks through sockets and may panic"
)]

#[path = "server/fake.rs"]
mod fake;
#[path = "server/limits.rs"]
mod limits;
#[path = "server/reload.rs"]
mod reload;
#[path = "server/shapes.rs"]
mod shapes;
