//! The store over both engines: the same cases, then what can only happen to one of them.
#![allow(clippy::disallowed_methods, reason = "databases are processes, and are ended at some point in time")]

mod cases;
mod domain;
mod faults;
mod journal;
mod kill;
mod policy;
mod postgres;
mod support;
