//! SIP (RFC 3261): messages kept as they came, descriptions of media, and a proxy that reserves bandwidth for calls, without I/O or clock.
#![forbid(unsafe_code)]

pub mod message;
pub mod sdp;
#[cfg(test)]
mod testing;
