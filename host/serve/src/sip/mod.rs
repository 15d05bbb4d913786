//! A SIP proxy over sockets: [`perhop_sip::proxy`] with those who reserve for its calls.
//!
//! ```text
//!  phones, proxies ──UDP──────────────► run: Proxy<Calls> ──orders──► reserve: the controller by HTTP,
//!                  ──TCP, TLS──► a task     (one task)     ◄─answers──  agents and controllers by COPS
//!                            a connection ─►    ▲ │
//!                                               │ └──names──► the system's resolver
//!                                               └─addresses────┘
//! ```
//!
//! One task owns the machine. It reads and writes datagrams itself, so that on their way there is no other task and no lock; what
//! takes time is done by others, which bring it what comes of that.
//!
//! # Limits
//! | what | most | beyond |
//! |---|---|---|
//! | connections | [`Limits::connections`](perhop_sip::proxy::Limits) of the machine | closed at once |
//! | connections from one address | [`StreamLimits::of_address`] | closed at once |
//! | messages that a connection has not taken | 256, or 30 s | closed |
//! | a handshake of TLS, or a connection that is being made | 5 s | given up |
//! | a connection that has said nothing yet | 30 s | closed |
//! | a connection that says nothing any more | [`StreamLimits::idle`] | closed |
//! | what was heard and the machine has not taken | 1,024 pieces | connections wait, datagrams are the kernel's to drop |
//! | names that are being resolved | 64 | as if they had no address |
//! | orders that wait for one who reserves | 16,384 | refused as `overload` |

mod datagrams;
mod hep;
mod names;
mod reserve;
mod run;
mod settings;
mod streams;

pub use reserve::{CopsName, CopsTarget, HttpTarget, Target};
pub use run::{Again, Said, SipProxy, Totals};
pub use settings::{HepSettings, Reserving, SipDoor, SipError, SipSettings, StreamLimits};

use perhop_reason::Code;
use perhop_sip::quality::ReservationId;
use std::net::SocketAddr;
use streams::Opened;

/// What happens outside the machine's task.
#[derive(Debug)]
enum Event {
    /// Somebody has connected.
    Opened(Opened),
    /// A connection has brought octets.
    Bytes(u64, Vec<u8>),
    /// A connection has ended, or could not be made; messages with these numbers were not sent.
    Gone(u64, Vec<u64>),
    /// The addresses of a name, which is said for those that are to be known by it.
    Resolved(u64, Vec<SocketAddr>, Option<String>),
    /// An order with this serial number was carried out, or refused.
    Answer(ReservationId, u32, Result<(), Code>),
    /// A reservation is gone.
    Taken(ReservationId, Code),
    /// Whoever reserves can be reached, or cannot, and why.
    Reach(String, Option<String>),
}
