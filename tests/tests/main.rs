//! Tests that span layers: one binary.

mod corpus;
mod edge;
mod support;
mod transactions;
