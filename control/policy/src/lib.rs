//! Policy of a domain: classes, filters, profiles, contracts and subscribers as an operator edits them, in editions, without I/O
//! or clock.
//!
//! [`model`] is what is edited, [`validate`] what is wrong with it, [`compile`] what a router must have because of it.
//! [`edition`] says which policy is in force and how another takes its place; [`diff`] is what differs.
//! [`feed`] is how a router's agent hears of it, [`reconcile`] makes the router have it,
//! [`record`] is what is kept of it, [`session`] says who is where. [`tree`] reads and
//! writes directories of an earlier system.
#![forbid(unsafe_code)]

pub mod compile;
pub mod diff;
pub mod edition;
pub mod feed;
pub mod model;
pub mod reconcile;
pub mod record;
pub mod session;
pub mod tree;
pub mod validate;
