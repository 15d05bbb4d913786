//! Views of and representations for the headers Perhop reads and writes. One header per file.
//!
//! Every header file has the same parts in the same order: a drawing; `View`, which checks lengths once in
//! `new_checked` and then reads fields in place; `ViewMut` where the router rewrites; `Repr`, the same fields owned,
//! with `parse`, `emit` and `len`. `parse` of what `emit` wrote is the same `Repr`. Where a checksum covers more than
//! the header, `emit` leaves it zero and `fill_checksum` writes it once the payload is in place.
//!
//! The packet path does not use the views for parsing: [`dissect`] reads a frame once into a [`Layout`]. [`build`]
//! makes whole frames for tests and traffic sources.

#![forbid(unsafe_code)]
#![allow(clippy::len_without_is_empty, reason = "no header is empty")]

pub mod arp;
pub mod build;
pub mod checksum;
mod ecn;
mod error;
pub mod ethernet;
pub mod ethertype;
mod field;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod layout;
mod mac;
pub mod ndp;
pub mod protocol;
pub mod rtp;
pub mod tcp;
pub mod tcp_options;
pub mod udp;
pub mod vlan;

pub use ecn::Ecn;
pub use error::{HeaderError, TtlExpired};
pub use layout::{Fragment, Layout, Malformed, dissect, dissect_link, dissect_packet};
pub use mac::MacAddr;
