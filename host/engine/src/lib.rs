//! Routers and emulated links that run on this machine.
//!
//! ```text
//!        clients ── Handle ──► control thread ──── jobs ────► packet thread ◄──► AF_PACKET or AF_XDP rings
//!                                  ▲   ▲  └──── applied, events ─┘
//!                                  │   └ routes, neighbours, links ─ facts thread ◄── netlink
//! ```
//!
//! A packet thread owns a [`perhop_graph::router::Member`] and its ports; of a router of several workers each has a packet
//! thread, and they hand packets to each other by rings. The control thread owns the
//! [`perhop_contract::Control`] machine. No runtime: plain threads, channels, one `eventfd` to end a sleep.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "host/engine is where the pure parts get threads and the clock"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod accounting;
mod behind;
mod call_log;
mod capture;
mod control_thread;
mod death;
mod early_drop;
mod emulator;
mod engine;
mod error;
mod explain;
mod facts;
mod forwarder;
mod graph_forwarder;
mod handle;
mod history;
mod host_abr;
mod inlet;
mod kernel_routes;
mod kernel_shaper;
mod lanes;
mod left_to_kernel;
mod lines;
mod machine;
mod notes;
mod outbox;
mod own_traffic;
mod packet_thread;
mod port;
mod prepare;
mod prepared;
mod put_back;
mod recorder;
mod report;
mod rest;
mod rights;
mod router_forwarder;
mod show;
mod socket_plan;
mod state_file;
mod supervisor;
mod survey;
mod told;
mod wait;

pub use accounting::Accounting;
pub use death::ThreadDeath;
pub use emulator::{Emulator, EmulatorConfig, EmulatorPort, EmulatorReport};
pub use engine::{Engine, EngineConfig};
pub use error::EngineError;
pub use handle::Handle;
pub use host_abr::{
    Answers, HostAbr, HostAbrConfig, HostAbrError, HostCounters, HostLoop, HostPage, HostThread,
};
pub use kernel_shaper::{KernelShaper, ShapedClass, ShaperConfig, ShaperError};
pub use notes::Outlook;
pub use put_back::{Restored, restore};
pub use report::{Recording, Report};
pub use rights::give_up_rights;
pub use state_file::state_path;
pub use supervisor::StopReport;
