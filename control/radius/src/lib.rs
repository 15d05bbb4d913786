//! RADIUS: accounting as it comes in (RFC 2866), changes of authorization both ways (RFC 5176), without I/O or clock.
//!
//! [`Packet`] is what a datagram says; `sign` makes datagrams that prove who sent them, and checks such proofs. [`Server`] takes
//! accounting and changes of authorization from access servers and others, each once, and answers when what was asked is done.
//! [`Client`] asks access servers to change or to end a session, and repeats itself until they answer.
#![forbid(unsafe_code)]

mod attribute;
mod authorization;
mod cause;
mod change;
mod client;
mod packet;
#[doc(hidden)]
pub mod properties;
mod record;
mod server;
mod sign;

pub use attribute::{Attribute, VendorAttribute, kind, vendor};
pub use authorization::{Authorization, rate_limit};
pub use cause::ErrorCause;
pub use change::{Act, Change};
pub use client::{Client, Input as ClientInput, MAX_WAITING, Output as ClientOutput, Patience, Verdict};
pub use packet::{Code, HEAD, MAX_PACKET, Malformed, Packet, TooLong};
pub use record::{Incomplete, Record, Status};
pub use server::{Answer, Counts, Dropped, Input, MAX_KEPT, Nas, Output, Request, Server, Settings};
pub use sign::{Secret, Signed, Unsigned, check_request, check_response, request, response};
