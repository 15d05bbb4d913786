//! Tests that span layers: one binary.

mod changes;
mod corpus;
mod edge;
mod support;
