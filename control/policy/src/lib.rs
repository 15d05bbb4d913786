//! Policy of a domain: classes, filters, profiles, contracts and subscribers as an operator edits them, in editions, without I/O
//! or clock.
//!
//! [`model`] is what is edited, [`validate`] what is wrong with it, [`compile`] what a router must have because of it.
//! [`edition`] says which policy is in force and how another takes its place; [`diff`] is what differs.
//! [`reconcile`] makes a router have it,
//! [`session`] says who is where. [`tree`] reads and
//! writes directories of an earlier system.
#![forbid(unsafe_code)]

pub mod compile;
pub mod diff;
pub mod edition;
pub mod model;
pub mod reconcile;
pub mod session;
pub mod tree;
pub mod validate;
