//! The calls of a running router, and their answers where they are no other type's.

use crate::{
    Claim, CountersPage, CountersQuery, Credentials, ErrorItem, EventFilter, EventsPage, Outcome, Reply,
    ShowPage, ShowQuery, StatePage, StateQuery, Transaction,
};
use std::sync::Arc;

/// Called once with the answer, from any thread: it must not block. Dropped without one when the router has stopped.
pub type Done<T> = Box<dyn FnOnce(T) + Send>;

/// What is asked of a running router, with where the answer goes: the one list of its calls.
pub enum Call {
    /// A transaction; the answer follows the last worker.
    Submit(Credentials, Box<Transaction>, Done<Arc<Reply>>),
    /// Takes an owner over.
    Claim(Credentials, Claim, Done<Result<(), ErrorItem>>),
    /// A page of the state.
    State(StateQuery, Done<Result<StatePage, ErrorItem>>),
    /// Counters of the objects and elements asked for.
    Counters(CountersQuery, Done<CountersPage>),
    /// Of the events after a sequence number those that the filter wants, so many at the most.
    Events(u64, EventFilter, usize, Done<EventsPage>),
    /// To be called after new events, until it returns `false`.
    OnEvents(Box<dyn FnMut() -> bool + Send>),
    /// What `perhop show` prints.
    Show(ShowQuery, Done<Result<ShowPage, ErrorItem>>),
    /// A dry run of a described packet, as JSON: `in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=0 len=200`.
    Explain(String, Done<Result<serde_json::Value, ErrorItem>>),
    /// Text of the running packet graph.
    Graph(Done<String>),
    /// Reads the router file again (`replace_owned` by owner `file`). One at a time, in the order asked.
    Reload(Done<Reloaded>),
}

/// What a reload came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reloaded {
    /// The router's reply; none when the file did not get as far as the router.
    pub reply: Option<Arc<Reply>>,
    /// Why the file did not get that far; empty otherwise.
    pub errors: Vec<ErrorItem>,
    /// What there is to say about the file, errors and warnings, for a person: `FILE:LINE:COLUMN: …`.
    pub messages: Vec<String>,
    /// With `overload`: when to try again.
    pub retry_after_ms: Option<u64>,
}

impl Reloaded {
    /// A reload that did not get as far as the router.
    pub fn refused(errors: Vec<ErrorItem>, messages: Vec<String>) -> Self {
        Self { errors, messages, ..Self::default() }
    }

    /// Whether the router now does what the file says.
    pub fn is_committed(&self) -> bool {
        self.reply.as_ref().is_some_and(|r| r.outcome == Outcome::Committed)
    }

    /// Everything that was refused, by the file's reader or by the router.
    pub fn refusals(&self) -> &[ErrorItem] {
        self.reply.as_ref().map_or(&self.errors, |r| &r.errors)
    }
}
