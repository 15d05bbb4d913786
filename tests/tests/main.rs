//! Tests that span layers: one binary.

mod changes;
mod contract;
mod corpus;
mod edge;
mod flood;
mod mix;
mod phb;
mod schedulers;
mod sla;
mod support;
