//! COPS (RFC 2748): how a policy enforcement point (PEP) asks a policy decision point (PDP), without I/O or clock.
//!
//! [`wire`] has messages and objects, [`pep`] and [`pdp`] the two ends and [`session`] what they share. [`dra`] is the
//! client type by which bandwidth is reserved, [`pr`] the objects of COPS-PR (RFC 3084), [`decode`] shows octets to people.
#![forbid(unsafe_code)]

pub mod decode;
pub mod dra;
pub mod pdp;
pub mod pep;
pub mod pr;
pub mod properties;
pub mod session;
pub mod wire;

#[cfg(test)]
mod rfc2748_tests;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod schedule_tests;
#[cfg(test)]
mod tshark_tests;
