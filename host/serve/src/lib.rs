//! The router's HTTP face on a Unix socket, and the client of it.
//!
//! The server knows a router only as [`RouterApi`]; replies come by callback, so that the packet side stays free of
//! any runtime.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "host/serve is where sockets meet the pure parts"
)]

mod body;
mod client;
mod connection;
mod directory;
mod events;
mod limits;
mod refusal;
mod router;
mod socket;
mod stream;

pub use client::{Client, ClientError};
pub use directory::{DirectoryError, Flaw, check, check_file, prepare, runtime_directories};
pub use limits::{Limit, LimitError, LimitRow, Limits, LimitsPage};
pub use router::api::{Done, Reloaded, RouterApi};
pub use router::endpoints::{PAGE_OBJECTS, SHOWN_ROWS, ServeError, Server};
pub use router::openapi::document;
pub use socket::{ClaimedPath, SocketError, claim, claim_at, socket_path};
