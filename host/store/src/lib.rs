//! What a domain keeps: the controller's database and the agent's journal.
//!
//! [`Store`] is a domain's memory on SQLite or on PostgreSQL, with one schema for both. One controller leads
//! ([`Store::campaign`]) and writes groups of its ledger's changes ([`Store::write`]); each is one transaction that
//! begins with the row of the domain's state, so that a leader that has been replaced writes nothing. Whatever fails is
//! an [`Error`] that says which code a client gets and when trying again makes sense, and that a group is written is
//! never a guess: where it cannot be known, the error is [`Error::Doubtful`] and the same group written again gives the
//! answer.
//!
//! [`Journal`] is what an agent keeps beside its router: values by name in a SQLite file.
#![forbid(unsafe_code)]

mod checkpoint;
mod compact;
mod connection;
mod error;
mod journal;
mod leader;
mod limits;
mod peer;
mod policy;
mod read;
mod rows;
mod schema;
mod statements;
mod store;
mod write;

pub use compact::Compacted;
pub use error::Error;
pub use journal::{Entry, Journal, Kept};
pub use leader::{Campaign, Leader};
pub use limits::Limits;
pub use store::Store;
