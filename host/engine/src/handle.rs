//! How the rest of the program talks to a running router.

use crate::control_thread::{claim_refused, new_txn_id};
use crate::error::EngineError;
use crate::inlet::Inlet;
use crossbeam_channel::{TrySendError, bounded};
use perhop_io::clock;
use perhop_model::{Call, Credentials, Done, ErrorItem, Outcome, Reply, Transaction, TxnId};
use perhop_reason::Code;
use std::sync::Arc;

/// A running router's inlet. Cheap to clone, usable from any thread, never blocks except where it says so. Callbacks
/// run on the control thread: they must be quick and must not wait for this handle. After the router has stopped,
/// callbacks of requests that can be refused get `shutting_down`; the others are dropped.
#[derive(Clone)]
pub struct Handle {
    pub(crate) requests: Inlet<Call>,
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

    /// Asks the router. Of transactions and claims too many waiting are refused at once, as `overload`; whoever reads waits
    /// until there is room. A handle has no router file: it refuses to read it again.
    pub fn call(&self, call: Call) {
        if !matches!(call, Call::Submit(..) | Call::Claim(..)) {
            self.requests.send(call);
            return;
        }
        let (call, code, why, retry_after_ms) = match self.requests.try_send(call) {
            Ok(()) => return,
            Err(TrySendError::Full(call)) => {
                (call, Code::Overload, "too many requests are waiting", Some(100))
            }
            Err(TrySendError::Disconnected(call)) => {
                (call, Code::ShuttingDown, "the router has stopped", None)
            }
        };
        match call {
            Call::Submit(_, transaction, done) => {
                let rejected = self.rejection(&transaction, ErrorItem::new(code, "", why));
                done(Arc::new(Reply { retry_after_ms, ..rejected }));
            }
            Call::Claim(_, _, done) => done(Err(claim_refused(code))),
            _ => {}
        }
    }

    /// The reply to a transaction that does not get as far as the router, which therefore says no revision.
    pub fn rejection(&self, transaction: &Transaction, error: ErrorItem) -> Reply {
        Reply {
            epoch: self.epoch,
            revision: 0,
            generation: 0,
            txn_id: transaction.txn_id,
            outcome: Outcome::Rejected,
            replayed: false,
            received_ns: clock::monotonic().0,
            committed_ns: 0,
            ops: Vec::new(),
            errors: vec![error],
            retry_after_ms: None,
        }
    }

    /// A transaction, waiting for the answer. Not on the control thread.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn submit_blocking(
        &self,
        who: Credentials,
        transaction: Transaction,
    ) -> Result<Arc<Reply>, EngineError> {
        self.wait(|done| Call::Submit(who, Box::new(transaction), done))
    }

    /// Asks the router and waits for its answer; not on the control thread: `handle.wait(|done| Call::Counters(CountersQuery::default(), done))`.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn wait<T: Send + 'static>(&self, call: impl FnOnce(Done<T>) -> Call) -> Result<T, EngineError> {
        let (to, from) = bounded(1);
        self.call(call(Box::new(move |answer| {
            // Whoever waits does so until this is called or dropped.
            let _ = to.send(answer);
        })));
        from.recv().map_err(|_| EngineError::Stopped)
    }
}
