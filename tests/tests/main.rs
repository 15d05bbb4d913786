//! Tests that span layers: one binary.

mod calls;
mod changes;
mod contract;
mod corpus;
mod crowd;
mod edge;
mod flood;
mod mix;
mod phb;
mod schedulers;
mod sla;
mod support;

/// The day of changes counts what is allocated.
#[global_allocator]
static ALLOCATOR: perhop_bench::CountingAllocator = perhop_bench::CountingAllocator(std::alloc::System);
