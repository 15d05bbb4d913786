//! The promises of this crate, by area. One binary, so that it links once.

mod contract;
mod crew;
mod language;
mod random_graphs;
mod router;
mod schedulers;
mod swap;
mod trees;
