//! A scenario on this machine's kernel: the same file that the simulator runs, with real sockets and real time.
//!
//! One namespace a node, veth pairs for links, routes by the shortest paths of [`perhop_scenario::Paths`]. A link that
//! has a rate, a delay or a fault is emulated by the router's own elements in a namespace of its own between the nodes;
//! no kernel emulation is needed. A [`perhop_scenario::NodeKind::Forwarder`] is the kernel, a
//! [`perhop_scenario::NodeKind::Router`] the engine of `perhop router run`, beside it the agent of `perhop agent run` where
//! the scenario names one. A link on which a
//! router sends as fast as the link is emulated 1 % faster, so that the queue stands in the router, where classes count, and
//! not in the link behind it; its line time is counted at the rate of the file.
//!
//! Datagrams come from the generators of the simulator by real UDP sockets and are stamped by the kernel where they
//! arrive. TCP is the kernel's, with the scenario's congestion control, buffers, code points, options, segment size,
//! initial window and smallest time-out; what the kernel keeps to itself, a warning tells. Queue lengths, drops and line time are the elements' own counters, sampled at the
//! scenario's interval; a wait is the length of the queue at the sample before a packet, at the link's rate.
//!
//! A node that a fault stops is cut off by the emulation of its links; the connections of a host are reset at both ends.
//! Drifting clocks are read into the records afterwards, as all nodes have one clock here.
//!
//! A machine that was too busy to be the network it emulates says so in [`Recording::saturated`]; nothing is judged then.
//! Everything is held by values and ends with [`run`]; namespaces have no names, so not even a killed process leaves one.

mod agents;
mod connection;
mod datagrams;
mod emulation;
mod error;
mod follow;
mod health;
mod kernel;
mod links;
mod network;
mod programs;
mod receive;
mod routers;
mod run;
mod samples;
mod socket;
mod transport;

pub use run::{NetnsOptions, run};

#[cfg(doc)]
use perhop_measure::Recording;
