//! Reservations across domains: what a domain's broker agrees with its neighbours.
//!
//! # Purpose
//! A flow that leaves the domain needs bandwidth on a path of this domain, in every domain in between, and up to an edge of the last.
//! Between neighbours there are leases only, aggregates for a class and a last domain; a domain in between knows no flow. The last
//! domain is asked about each flow, as its edge may be full, by a question that those in between pass on and forget.
//!
//! # Order
//! Everything here is a *deal*: a lease of a neighbour, a flow of a neighbour's that ends here, or a flow of this domain's that
//! ends elsewhere. Of each the domain's own ledger is debited first; then the neighbour is asked (by a local decision point as an agent has
//! one, [`crate::lease::Leases`], so mostly nobody is); then the last domain. Who refuses, or does not answer in time, has what was done
//! before him undone. What is given up is given up in the other order. What is granted too late is given back by
//! the leases' numbers.
//!
//! # Journal
//! As with leases: [`Peers::take_rows`] before any output is carried out, [`Peers::restore`] afterwards. The ledger keeps what was debited by
//! itself, and is told after a restart what each deal has.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", the network model: brokers of neighbouring domains settle their
//! link between themselves, and keep no state of flows.

mod account;
#[cfg(test)]
mod chain_tests;
mod deal;
mod file;
mod message;
mod peers;
mod rows;

pub use account::{Booking, Details, Far, Note, booked, booking, place};
pub use file::{PeerFile, read_peers};
pub use message::{Account, Body, DealId, Envelope, FlowAsk, Input, Output, Settings, Stage};
pub use peers::Peers;
pub use rows::{DealRow, Row, Snapshot};
