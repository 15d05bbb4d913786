//! The promises of this crate, by area. One binary, so that it links once.

mod crew;
mod language;
mod random_graphs;
mod router;
mod schedulers;
mod support;
mod swap;
mod trees;
