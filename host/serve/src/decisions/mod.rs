//! Decisions beside a router: flows that enter there are admitted within leases, and the controller is asked when they do not fit.
//!
//! [`Decider`] is the machine: [`Leases`](perhop_broker::lease::Leases) with those who wait for its answers, and with the packets of each
//! flow. Whoever drives it keeps what [`Decider::take_kept`] gives before it does what [`Decider::poll_wish`] wants. Interfaces ask by
//! [`Decisions`], which is a handle and can be cloned; [`DecisionsApp`] is the one over HTTP, and
//! [`LocalDecisions`](crate::cops::LocalDecisions) the one by COPS.

mod door;
mod machine;
mod shapes;

pub use door::DecisionsApp;
pub use machine::Decider;
pub use shapes::{DecidedClass, DecidedHere, Keep, Question, Wish, lease_name};

use crate::controller::{CreateReservation, ShownReservation};
use perhop_broker::ledger::Refusal;
use perhop_broker::record::ReservationId;
use perhop_reason::Code;
use tokio::sync::{broadcast, mpsc, oneshot};

/// News that a listener may be behind.
const NEWS: usize = 1_024;

/// A handle of what is decided beside a router.
#[derive(Clone, Debug)]
pub struct Decisions {
    questions: mpsc::Sender<Question>,
    gone: broadcast::Sender<(ReservationId, Code)>,
}

impl Decisions {
    /// A handle, and where the driver of the machine takes questions from; `most` wait at most.
    pub fn new(most: usize) -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(most.max(1));
        (Self { questions, gone: broadcast::Sender::new(NEWS) }, receiver)
    }

    /// Tells all who listen that a flow is gone: for the machine's driver, see [`Wish::Gone`].
    pub fn tell_gone(&self, id: ReservationId, code: Code) {
        // Without anybody who listens nothing is told.
        let _ = self.gone.send((id, code));
    }

    /// Flows that are gone from now on, and why.
    pub(crate) fn news(&self) -> broadcast::Receiver<(ReservationId, Code)> {
        self.gone.subscribe()
    }

    /// Asks for a flow as a client that is known. The same again renews it.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask(&self, owner: &str, wanted: CreateReservation) -> Result<ShownReservation, Refusal> {
        let (owner, wanted) = (owner.to_owned(), Box::new(wanted));
        self.put(|done| Question::Reserve { owner, wanted, changes: false, done }).await?
    }

    /// Asks for a flow, or has the one of this key be as it is wanted now.
    ///
    /// # Errors
    /// The refusal. What there was stays.
    pub(crate) async fn have(
        &self,
        owner: &str,
        wanted: CreateReservation,
    ) -> Result<ShownReservation, Refusal> {
        let (owner, wanted) = (owner.to_owned(), Box::new(wanted));
        self.put(|done| Question::Reserve { owner, wanted, changes: true, done }).await?
    }

    /// Lets a flow live so long from now, ms; none = as long as it is usual.
    ///
    /// # Errors
    /// The client has none of this number.
    pub(crate) async fn renew(
        &self,
        owner: &str,
        id: ReservationId,
        lifetime_ms: Option<u64>,
    ) -> Result<ShownReservation, Refusal> {
        let owner = owner.to_owned();
        self.put(|done| Question::Renew { owner, id, lifetime_ms, done }).await?
    }

    /// Numbers and keys of a client's flows whose key begins so.
    ///
    /// # Errors
    /// The agent is about to end.
    pub(crate) async fn owned(
        &self,
        owner: &str,
        begin: String,
    ) -> Result<Vec<(ReservationId, String)>, Refusal> {
        let owner = owner.to_owned();
        self.put(|done| Question::Owned { owner, begin, done }).await
    }

    /// Gives a flow back; with an owner only one of its own.
    ///
    /// # Errors
    /// There is none.
    pub async fn release(&self, owner: Option<&str>, id: u64) -> Result<(), Refusal> {
        let owner = owner.map(str::to_owned);
        self.put(|done| Question::Release { owner, id, done }).await?
    }

    /// Flows that are admitted, by number.
    ///
    /// # Errors
    /// The agent is about to end.
    pub async fn list(&self) -> Result<Vec<ShownReservation>, Refusal> {
        self.put(Question::List).await
    }

    async fn put<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Refusal> {
        let over = || Refusal::new(Code::ShuttingDown, "the agent is about to end");
        let (done, answer) = oneshot::channel();
        self.questions.send(question(done)).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())
    }
}
