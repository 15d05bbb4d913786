//! Tests that span layers: one binary.

mod edge;
mod support;
mod transactions;
