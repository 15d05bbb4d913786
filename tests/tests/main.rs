//! Tests that span layers: one binary.

mod changes;
mod contract;
mod corpus;
mod edge;
mod support;
