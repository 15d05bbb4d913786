//! Doors that programs are asked through: HTTP with JSON on a Unix socket, and the client of it.
//!
//! A door (listener, limits, bodies, streams of events, refusals, the list of its addresses) knows nothing of what is
//! asked. The router's is in `router`: it knows a router only as [`RouterApi`]; answers come by callback, so that the
//! packet side stays free of any runtime.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "host/serve is where sockets meet the pure parts"
)]

mod body;
mod client;
mod clients;
mod connection;
pub mod controller;
pub mod cops;
pub mod decisions;
mod directory;
pub mod domain;
mod endpoints;
mod events;
mod limits;
mod listener;
pub mod peer;
pub mod policy;
pub mod radius;
mod refusal;
mod router;
mod server;
mod share;
pub mod sip;
mod socket;
mod stream;
mod tcapi;
mod tcapi_client;
mod tls;

pub use client::{Client, ClientError, Followed, KeptConnection, Method, Place, StatusCode};
pub use clients::{ClientIs, ClientRule, Clients};
pub use directory::{DirectoryError, Flaw, check, check_file, prepare, runtime_directories};
pub use limits::{Limit, LimitError, LimitRow, Limits, LimitsPage};
pub use router::{PAGE_OBJECTS, RouterApi, SHOWN_ROWS};
pub use server::{ServeError, Server};
pub use socket::{
    ClaimedPath, SocketError, claim, claim_at, claim_controller, controller_path, decisions_path, open_to,
    socket_path,
};
pub use tcapi::{TcapiServer, TcapiThread, tcapi_path};
pub use tcapi_client::TcapiClient;
pub use tls::{Identity, TlsDoor, TlsError};
