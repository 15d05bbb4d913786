//! `perhop bench`: how fast this machine forwards and simulates, measured honestly.
//!
//! Every measurement is a set of sweep points; each is one JSON object a line with `--json`, else a row of a table.
//! What disturbed a measurement is said in its warnings: time that the machine gave to others, and spread.
//!
//! A program that measures makes [`CountingAllocator`] its global allocator; else nothing seems to be allocated.
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads clocks, and has threads and sockets of its own"
)]

mod abr;
mod abr_host;
mod allocation;
mod allocations;
mod chain;
mod change;
mod classify;
mod cops;
mod costs;
mod detection;
mod edge;
mod error;
mod flows;
mod forward;
mod idle;
mod latency;
mod ledger;
mod load;
mod machine;
mod memory;
mod meter;
mod mlffr;
mod postgres;
mod report;
mod router;
mod schedule;
mod sim;
mod sip;
mod tcapi;
mod traffic;
mod turns;
mod veth;
mod workers;

pub use allocations::{Allocations, CountingAllocator, allocations};
pub use error::BenchError;
pub use postgres::PostgresServer;

use report::Sink;

/// Every measurement, with its options.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Memory to memory through the default edge graph, on one core.
    Forward(forward::Options),
    /// What real-time detection adds to a packet.
    Detection(detection::Options),
    /// One step of the allocation of many classes
    Allocation(allocation::Options),
    /// What the TCP rate control adds to a segment
    Abr(abr::Options),
    /// The search for the first rule a packet meets, over rule sets in ClassBench's format
    Classify(classify::Options),
    /// Changes of the set of filters
    Change(change::Options),
    /// A packet into a tree of many classes and one out of it
    Schedule(schedule::Options),
    /// The two rate three colour marker, with the clock
    Meter(meter::Options),
    /// Check, classify, mark, queue, serve: a chain as the Click router is known by
    Chain(chain::Options),
    /// What a DiffServ edge does with a packet, as flows, filters and classes grow
    Edge(edge::Options),
    /// The connection table: look-up, first packet and end of a flow
    Flows(flows::Options),
    /// Memory of a flow and of a class
    Memory(memory::Options),
    /// How long large configurations and many flows take to be there
    Load(load::Options),
    /// The simulator, beside ns-3 where it is installed
    Sim(sim::Options),
    /// Where a packet's time inside the router goes: by element, and by rate and length
    Latency(latency::Options),
    /// The rate control of a host through the kernel's packet queue
    AbrHost(abr_host::Options),
    /// Through virtual Ethernet, beside the kernel's forwarding
    Veth(veth::Options),
    /// What a router without work takes of a processor, and what waking it adds to a packet
    Idle(idle::Options),
    /// The highest rate at which nothing is lost, through virtual Ethernet (RFC 2544)
    Mlffr(mlffr::Options),
    /// Several packet threads that are one router, beside one
    Workers(workers::Options),
    /// Reservations of flows by the traffic-control API
    Tcapi(tcapi::Options),
    /// Requests of a domain by COPS, and the memory of clients that do nothing
    Cops(cops::Options),
    /// Calls through a SIP proxy, and the memory of live ones, beside Kamailio where it is installed
    Sip(sip::Options),
    /// Reservations of a domain: decided, kept in a database, loaded from it
    Ledger(ledger::Options),
}

/// Measures, and prints as it goes.
///
/// # Errors
/// What kept it from that; the exit code goes with it.
pub fn run(bench: &Bench) -> Result<(), BenchError> {
    match bench {
        Bench::Forward(options) => forward::run(options, &mut Sink::new(options.json)),
        Bench::Detection(options) => detection::run(options, &mut Sink::new(options.measured.json)),
        Bench::Allocation(options) => allocation::run(options, &mut Sink::new(options.json)),
        Bench::Abr(options) => abr::run(options, &mut Sink::new(options.measured.json)),
        Bench::Classify(options) => classify::run(options, &mut Sink::new(options.measured.json)),
        Bench::Change(options) => change::run(options, &mut Sink::new(options.measured.json)),
        Bench::Schedule(options) => schedule::run(options, &mut Sink::new(options.measured.json)),
        Bench::Meter(options) => meter::run(options, &mut Sink::new(options.measured.json)),
        Bench::Chain(options) => chain::run(options, &mut Sink::new(options.measured.json)),
        Bench::Edge(options) => edge::run(options, &mut Sink::new(options.measured.json)),
        Bench::Flows(options) => flows::run(options, &mut Sink::new(options.measured.json)),
        Bench::Memory(options) => memory::run(options, &mut Sink::new(options.measured.json)),
        Bench::Load(options) => load::run(options, &mut Sink::new(options.measured.json)),
        Bench::Sim(options) => sim::run(options, &mut Sink::new(options.json)),
        Bench::Latency(options) => latency::run(options, &mut Sink::new(options.json)),
        Bench::AbrHost(options) => abr_host::run(options, &mut Sink::new(options.json)),
        Bench::Veth(options) => veth::run(options, &mut Sink::new(options.json)),
        Bench::Idle(options) => idle::run(options, &mut Sink::new(options.json)),
        Bench::Mlffr(options) => mlffr::run(options, &mut Sink::new(options.json)),
        Bench::Workers(options) => workers::run(options, &mut Sink::new(options.json)),
        Bench::Tcapi(options) => tcapi::run(options, &mut Sink::new(options.json)),
        Bench::Cops(options) => cops::run(options, &mut Sink::new(options.json)),
        Bench::Sip(options) => sip::run(options, &mut Sink::new(options.json)),
        Bench::Ledger(options) => ledger::run(options, &mut Sink::new(options.json)),
    }
}
