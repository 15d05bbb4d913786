//! The promises of this crate, by area. One binary, so that it links once.

mod contract;
