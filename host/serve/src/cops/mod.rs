//! COPS-DRA over sockets: a door where clients of a domain ask for reservations, and the end that asks.
//!
//! ```text
//!  client ──TCP──► carrier ──► driver: Pdp ──► Decides: the domain that is led here,
//!                  (a task a      (one task a door)      or what is decided beside a router
//!                   connection)
//! ```
//!
//! [`CopsDoor`] carries octets between clients and the machine [`perhop_cops::pdp`], and what clients ask to whoever [`Decides`].
//! Without certificates it is plain TCP; with them the first messages agree on TLS as RFC 4261 §5 has it, and nothing else is
//! taken before. [`CopsClient`] does the same for [`perhop_cops::pep`].
//!
//! # Limits
//! | what | most | beyond |
//! |---|---|---|
//! | connections of a door | 16,384 | closed at once |
//! | clients, with those that are away | 16,384 | closed: unable to process |
//! | requests of a client | 65,536 | error: unable to process |
//! | questions that wait for their decision | 65,536 | error: unable to process, `overload` |
//! | a connection without a client, or a handshake | 10 s | closed |
//! | octets that a client does not take | 8,192 messages, or 30 s | closed |
//! | a message | 131,072 octets | closed: bad message format |

mod alone;
mod carrier;
mod client;
mod decides;
mod domain;
mod door;
mod driver;
mod local;
#[cfg(test)]
mod local_tests;
mod requests;
#[cfg(test)]
mod tests;
mod wanted;

pub use alone::CopsThread;
pub use client::{ClientTls, CopsClient};
pub use decides::{Changed, Decides, Deciding, Standing};
pub use domain::LedDomain;
pub use door::{CopsDoor, CopsSettings};
pub use local::LocalDecisions;
pub use perhop_cops::pep::Notice;
pub use wanted::packets;
