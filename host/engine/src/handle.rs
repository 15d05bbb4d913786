//! How the rest of the program talks to a running router.

use crate::control_thread::{Done, Request, new_txn_id};
use crate::error::EngineError;
use crate::inlet::Inlet;
use crossbeam_channel::{TrySendError, bounded};
use perhop_io::clock;
use perhop_model::{
    Claim, CountersPage, Credentials, ErrorItem, Event, Outcome, Reply, ShowPage, StatePage, StateQuery,
    Transaction, TxnId,
};
use perhop_reason::Code;
use std::sync::Arc;

/// A running router's inlet. Cheap to clone, usable from any thread, never blocks except where it says so. Callbacks
/// run on the control thread: they must be quick and must not wait for this handle. After the router has stopped,
/// callbacks of requests that can be refused get `shutting_down`; the others are dropped.
#[derive(Clone)]
pub struct Handle {
    pub(crate) requests: Inlet<Request>,
    pub(crate) epoch: u64,
    pub(crate) ports: Arc<[String]>,
}

impl Handle {
    /// The router's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Names of the ports.
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// A transaction id that nobody on this machine has used.
    pub fn new_txn_id(&self) -> TxnId {
        new_txn_id()
    }

    /// A transaction; the answer follows when every worker has switched. Too many waiting: `overload` at once.
    pub fn submit(
        &self,
        who: Credentials,
        transaction: Transaction,
        done: impl FnOnce(Arc<Reply>) + Send + 'static,
    ) {
        let refused = |code, message: &str, retry| Reply {
            epoch: self.epoch,
            revision: 0,
            generation: 0,
            txn_id: transaction.txn_id,
            outcome: Outcome::Rejected,
            replayed: false,
            received_ns: clock::monotonic().0,
            committed_ns: 0,
            ops: Vec::new(),
            errors: vec![refusal(code, message)],
            retry_after_ms: retry,
        };
        let overload = refused(Code::Overload, "too many requests are waiting", Some(100));
        let stopped = refused(Code::ShuttingDown, "the router has stopped", None);
        match self.requests.try_send(Request::Submit(who, Box::new(transaction), Box::new(done))) {
            Ok(()) => {}
            Err(TrySendError::Full(Request::Submit(_, _, done))) => done(Arc::new(overload)),
            Err(TrySendError::Disconnected(Request::Submit(_, _, done))) => done(Arc::new(stopped)),
            Err(_) => {}
        }
    }

    /// [`Handle::submit`], waiting for the answer. Not on the control thread.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn submit_blocking(
        &self,
        who: Credentials,
        transaction: Transaction,
    ) -> Result<Arc<Reply>, EngineError> {
        let (to, from) = bounded(1);
        self.submit(who, transaction, move |reply| {
            let _ = to.send(reply);
        });
        from.recv().map_err(|_| EngineError::Stopped)
    }

    /// Takes an owner over.
    pub fn claim(
        &self,
        who: Credentials,
        claim: Claim,
        done: impl FnOnce(Result<(), Code>) + Send + 'static,
    ) {
        match self.requests.try_send(Request::Claim(who, claim, Box::new(done))) {
            Ok(()) => {}
            Err(TrySendError::Full(Request::Claim(_, _, done))) => done(Err(Code::Overload)),
            Err(TrySendError::Disconnected(Request::Claim(_, _, done))) => done(Err(Code::ShuttingDown)),
            Err(_) => {}
        }
    }

    /// A page of the state.
    pub fn state(&self, query: StateQuery, done: impl FnOnce(Result<StatePage, ErrorItem>) + Send + 'static) {
        self.ask(Request::State(query, Box::new(done)));
    }

    /// Counters of every object and element.
    pub fn counters(&self, done: impl FnOnce(CountersPage) + Send + 'static) {
        self.ask(Request::Counters(Box::new(done)));
    }

    /// Up to `limit` events after `seq`.
    pub fn events(&self, seq: u64, limit: usize, done: impl FnOnce(Vec<Event>) + Send + 'static) {
        self.ask(Request::Events(seq, limit, Box::new(done)));
    }

    /// Calls `wake` after new events, until it returns `false`.
    pub fn on_events(&self, wake: Box<dyn FnMut() -> bool + Send>) {
        self.ask(Request::OnEvents(wake));
    }

    /// Rows of `ports`, `classes`, `profiles`, `slas`, `filters`, `flows`, `calls`, `elements`, `driver` or `all` (which
    /// is all of these but flows and calls), and of a router that takes its own measure ([`crate::Accounting`]) `costs`,
    /// `histograms` and `delays`; at most `limit`.
    pub fn show(
        &self,
        what: &str,
        limit: usize,
        done: impl FnOnce(Result<ShowPage, ErrorItem>) + Send + 'static,
    ) {
        self.ask(Request::Show(what.to_owned(), limit, Box::new(done)));
    }

    /// A dry run of a described packet: `in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=0 len=200`.
    pub fn explain(
        &self,
        packet: &str,
        done: impl FnOnce(Result<serde_json::Value, ErrorItem>) + Send + 'static,
    ) {
        self.ask(Request::Explain(packet.to_owned(), Box::new(done)));
    }

    /// Text of the running packet graph.
    pub fn graph(&self, done: impl FnOnce(String) + Send + 'static) {
        self.ask(Request::Graph(Box::new(done)));
    }

    /// Calls one of the methods above and waits for its answer; not on the control thread:
    /// `handle.wait(|done| handle.counters(done))`.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn wait<T: Send + 'static>(&self, ask: impl FnOnce(Done<T>)) -> Result<T, EngineError> {
        let (to, from) = bounded(1);
        ask(Box::new(move |answer| {
            let _ = to.send(answer);
        }));
        from.recv().map_err(|_| EngineError::Stopped)
    }

    /// Waits when the inlet is full: readers slow down.
    fn ask(&self, request: Request) {
        self.requests.send(request);
    }
}

fn refusal(code: Code, message: &str) -> ErrorItem {
    ErrorItem::new(code, "", message)
}
