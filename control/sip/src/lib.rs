//! SIP (RFC 3261): messages kept as they came, descriptions of media, and a proxy that reserves bandwidth for calls, without I/O or clock.
#![forbid(unsafe_code)]

pub mod message;
mod peer;
pub mod proxy;
pub mod quality;
pub mod sdp;
pub mod transaction;

pub use peer::Peer;
#[cfg(test)]
mod testing;
