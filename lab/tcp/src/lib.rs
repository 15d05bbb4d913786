//! A TCP endpoint without I/O or clock, for simulated hosts: real segments in, real segments out.
//!
//! # Purpose
//! [`Endpoint`] is one end of a connection. It works on byte *counts*, so that a simulator stores no payload;
//! [`Stream`](stream::Stream) puts buffers of real bytes around it. What it gives out are headers with every field
//! and option set, which [`wire`] turns into bytes with a checksum and back: a middlebox may rewrite them.
//!
//! # Use
//! ```
//! use perhop_tcp::{Config, Endpoint, Event};
//! use perhop_units::Instant;
//!
//! let now = Instant(0);
//! let mut client = Endpoint::connect(Config::default(), 40_000, 80, 1, now)?;
//! let syn = client.poll_output(now).expect("a SYN").arrived();
//! let mut server = Endpoint::accept(Config::default(), &syn, 2, now)?;
//! client.write(1000);
//! // Segments go back and forth until both have nothing to say.
//! let mut on_the_way = std::collections::VecDeque::new();
//! loop {
//!     while let Some(segment) = server.poll_output(now) {
//!         on_the_way.push_back((0, segment.arrived()));
//!     }
//!     while let Some(segment) = client.poll_output(now) {
//!         on_the_way.push_back((1, segment.arrived()));
//!     }
//!     match on_the_way.pop_front() {
//!         Some((0, segment)) => client.handle_segment(now, &segment),
//!         Some((_, segment)) => server.handle_segment(now, &segment),
//!         None => break,
//!     };
//! }
//! assert_eq!(server.read(u64::MAX), 1000);
//! assert_eq!(client.poll_event(), Some(Event::Established));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Source
//! RFC 9293 (the protocol), 5681 (congestion control), 6582 (NewReno), 2018 and 6675 (SACK), 8985 (RACK-TLP), 2883 (reports of duplicates), 3522 and 4015
//! (reductions taken back), 6937 (PRR), 9438 (CUBIC),
//! 9406 (HyStart++), 6298 (timeout), 3042 (limited transmit), 3465 (byte counting), 6928 (initial window), 7323 (window
//! scaling, time-stamps), 3168 (ECN), 5961 (challenges).
#![forbid(unsafe_code)]

pub mod config;
mod congestion;
mod endpoint;
mod event;
mod ranges;
mod receive;
mod recovery;
mod rtt;
mod segment;
mod send;
mod sequence;
pub mod stream;
mod timers;
pub mod wire;

pub use config::{Algorithm, Config, ConfigError, CubicConfig, DelayedAck, RtoLimits, SlowStartExit};
pub use endpoint::{AcceptError, Endpoint, State, Trace};
pub use event::{Counters, Event};
pub use recovery::Phase;
pub use segment::{Placed, Segment, SegmentOut, refusal};
