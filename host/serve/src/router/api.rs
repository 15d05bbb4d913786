//! What a server asks of a router.

use crate::limits::LimitRow;
use perhop_model::{
    Claim, CountersPage, Credentials, ErrorItem, Event, Outcome, Reply, ShowPage, ShowQuery, StatePage,
    StateQuery, Transaction,
};
use std::sync::Arc;

/// Called once with the answer, from any thread.
pub type Done<T> = Box<dyn FnOnce(T) + Send>;

/// A running router. Methods return at once; answers come by callback.
pub trait RouterApi: Send + Sync + 'static {
    /// A transaction; the answer follows the last worker.
    fn submit(&self, who: Credentials, transaction: Transaction, done: Done<Arc<Reply>>);
    /// Takes an owner over.
    fn claim(&self, who: Credentials, claim: Claim, done: Done<Result<(), ErrorItem>>);
    /// A page of the state.
    fn state(&self, query: StateQuery, done: Done<Result<StatePage, ErrorItem>>);
    /// Counters of every object and element.
    fn counters(&self, done: Done<CountersPage>);
    /// Up to `limit` events after `seq`.
    fn events(&self, seq: u64, limit: usize, done: Done<Vec<Event>>);
    /// Calls `wake` after new events, until it returns `false`.
    fn on_events(&self, wake: Box<dyn FnMut() -> bool + Send>);
    /// What `perhop show` prints.
    fn show(&self, query: ShowQuery, done: Done<Result<ShowPage, ErrorItem>>);
    /// A dry run of a described packet, as JSON.
    fn explain(&self, packet: String, done: Done<Result<serde_json::Value, ErrorItem>>);
    /// Reads the router file again (`replace_owned` by owner `file`). One at a time, in the order asked.
    fn reload(&self, done: Done<Reloaded>);
    /// The router's own limits, for `GET /v1/limits`.
    fn limits(&self) -> Vec<LimitRow> {
        Vec::new()
    }
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
