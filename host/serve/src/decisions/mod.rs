//! Decisions beside a router: flows that enter there are admitted within leases, and the controller is asked when they do not fit.
//!
//! [`Decider`] is the machine: [`Leases`](perhop_broker::lease::Leases) with those who wait for its answers, and with the packets of each
//! flow. Whoever drives it keeps what [`Decider::take_kept`] gives before it does what [`Decider::poll_wish`] wants. Interfaces ask by
//! [`Decisions`], which is a handle and can be cloned; [`DecisionsApp`] is the one over HTTP.

mod door;
mod machine;
mod shapes;

pub use door::DecisionsApp;
pub use machine::Decider;
pub use shapes::{DecidedClass, DecidedHere, Keep, Question, Wish, lease_name};

use crate::controller::{CreateReservation, ShownReservation};
use perhop_broker::ledger::Refusal;
use perhop_reason::Code;
use tokio::sync::{mpsc, oneshot};

/// A handle of what is decided beside a router.
#[derive(Clone, Debug)]
pub struct Decisions(mpsc::Sender<Question>);

impl Decisions {
    /// A handle, and where the driver of the machine takes questions from; `most` wait at most.
    pub fn new(most: usize) -> (Self, mpsc::Receiver<Question>) {
        let (sender, receiver) = mpsc::channel(most.max(1));
        (Self(sender), receiver)
    }

    /// Asks for a flow as a client that is known. The same again renews it.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask(&self, owner: &str, wanted: CreateReservation) -> Result<ShownReservation, Refusal> {
        let (owner, wanted) = (owner.to_owned(), Box::new(wanted));
        self.put(|done| Question::Reserve { owner, wanted, done }).await?
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
        self.0.send(question(done)).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())
    }
}
