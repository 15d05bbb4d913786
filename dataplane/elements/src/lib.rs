//! The library of elements and disciplines. One file an idea; each file's module doc is its manual page.
#![forbid(unsafe_code)]

pub mod classify;
pub mod drop;
pub mod emulate;
pub mod mark;
pub mod meter;
pub mod plumbing;
pub mod police;
pub mod queue;
pub mod route;
pub mod schedule;
pub mod shape;
#[cfg(test)]
#[path = "testbed_tests.rs"]
mod testbed;

use perhop_element::{ElementType, Registry};

/// Every element type of this crate.
pub fn types() -> Vec<ElementType> {
    [
        classify::types(),
        emulate::types(),
        mark::types(),
        meter::types(),
        plumbing::types(),
        police::types(),
        route::types(),
        schedule::types(),
        shape::types(),
    ]
    .concat()
}

/// A registry of every element type of this crate.
pub fn registry() -> Registry {
    Registry::new(types())
}
