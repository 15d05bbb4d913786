//! Policy of a domain: classes, filters, profiles, contracts and subscribers as an operator edits them, in editions, without I/O
//! or clock.
//!
//! [`model`] is what is edited, [`validate`] what is wrong with it, [`compile`] what a router must have because of it.
#![forbid(unsafe_code)]

pub mod compile;
pub mod model;
pub mod validate;
