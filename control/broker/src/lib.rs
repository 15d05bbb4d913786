//! The broker of a domain: what its links carry, who has reserved how much of it, and who may have more, without I/O or clock.
//!
//! `record` has the rows that a domain keeps, and groups of changes to them. A group is one transaction of the database: the
//! machines of this crate decide in memory, hand out a group, and answer those who asked when it is committed.
#![forbid(unsafe_code)]

pub mod lease;
pub mod peer;
pub mod record;
