//! The TCP rate control on an end host: packets of the kernel's queue through the machine that routers have as an element.
//!
//! [`HostAbr`] is that machine around [`perhop_abr::Controller`], without input and output: packets in, verdicts out through
//! [`Answers`], and what it wants to hold waits in the kernel's queue. [`HostLoop`] carries packets between it and
//! [`perhop_io::nfqueue`], [`HostThread`] does so on a thread of its own. `shares` divides what a link has.
//!
//! # Large segments
//! What a host sends and receives has up to 64 KiB in one packet, and often no checksum yet. Such a packet is one to the
//! machine, counted in full. If its window is lowered, its checksum is completed over its whole length; otherwise the
//! kernel and the card go on as if nobody had looked.

mod machine;
mod rows;
mod running;
mod shares;
mod thread;

pub use machine::{Answers, HostAbr, HostAbrConfig, HostCounters};
pub use rows::HostPage;
pub use running::HostLoop;
pub use thread::{HostAbrError, HostThread};
