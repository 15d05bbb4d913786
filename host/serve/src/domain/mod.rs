//! A domain that is being looked after: its ledger as a task, who may ask it, and what it tells.
//!
//! The ledger decides, a [`Keeper`] writes, and nobody is answered before it has. Interfaces ask by a [`Domain`], which is a handle
//! and can be cloned. Where another instance leads, all are told so.

mod known;
mod lease;
mod machine;
mod news;
mod run;

pub(crate) use known::hex;
pub use known::{Caller, ClientKind, Credential, Role, token_sha256};
pub use lease::LeaseNote;
pub use news::{News, Whole};
pub use perhop_broker::flow::{Flow, FlowError, MOST_PACKETS, Marks, Packets};
pub use run::{DomainTask, Keeper, NotKept, Writing};
pub(crate) use run::{WallTimer, woken};

use known::Known;
use machine::Question;
use perhop_broker::ledger::{ClientChange, Granted, Input, Ledger, Refusal, Request, Settings};
use perhop_broker::topology::Topology;
use perhop_drive::Inlet;
use perhop_reason::Code;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{broadcast, oneshot};

/// A handle of a domain.
#[derive(Clone, Debug)]
pub struct Domain {
    inlet: Inlet<Question>,
    known: Arc<RwLock<Known>>,
}

impl Domain {
    /// Asks as a client that is known: an answer is in the database.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask(&self, client: &str, request: Request) -> Result<Granted, Refusal> {
        let client = client.to_owned();
        self.put(|done| Question::Ask { client, request, done }).await?
    }

    /// Whether a request would be granted now. Nothing is booked.
    ///
    /// # Errors
    /// The refusal that it would get.
    pub async fn why(&self, client: &str, request: Request) -> Result<(), Refusal> {
        let client = client.to_owned();
        self.put(|done| Question::Why { client, request, done }).await?
    }

    /// Has nodes, links, paths and clients be as this.
    ///
    /// # Errors
    /// The refusal.
    pub async fn set_topology(&self, who: &str, topology: Arc<Topology>) -> Result<Granted, Refusal> {
        let who = who.to_owned();
        self.put(|done| Question::Topology { who, topology, done }).await?
    }

    /// Changes who may ask.
    ///
    /// # Errors
    /// The refusal.
    pub async fn change_client(&self, who: &str, change: ClientChange) -> Result<Granted, Refusal> {
        let who = who.to_owned();
        self.put(|done| Question::Client { who, change, done }).await?
    }

    /// A link has this rate now, as somebody says.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn set_rate(&self, who: &str, link: u64, bps: u64) -> Result<(), Refusal> {
        let who = who.to_owned();
        self.inlet.send(Question::Ledger(Input::Rate { who, link, bps })).await.map_err(|_| elsewhere())
    }

    /// Packets of these classes get these code points from now on, where their reservation says nothing else.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn set_marks(&self, marks: Marks) -> Result<(), Refusal> {
        self.inlet.send(Question::Marks(marks)).await.map_err(|_| elsewhere())
    }

    /// Decides by these settings from now on; its fence stays.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn configure(&self, settings: Settings) -> Result<(), Refusal> {
        self.inlet.send(Question::Configure(settings)).await.map_err(|_| elsewhere())
    }

    /// Tells the ledger something that nobody waits for.
    pub(crate) async fn note(&self, input: Input) {
        // Where another instance leads, it is that one's to know.
        let _ = self.inlet.send(Question::Ledger(input)).await;
    }

    /// What `look` finds in the ledger. It stands still meanwhile: a look is short.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.put(|done| Question::Look(Box::new(move |ledger| drop(done.send(look(ledger)))))).await
    }

    /// All that a node has now, and what is told from then on.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn follow(&self, node: &str) -> Result<(Whole, broadcast::Receiver<Arc<News>>), Refusal> {
        let node = node.to_owned();
        self.put(|done| Question::Follow { node, done }).await
    }

    /// What is told from now on.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn news(&self) -> Result<broadcast::Receiver<Arc<News>>, Refusal> {
        self.put(Question::News).await
    }

    /// Counts a question that is none of the ledger's as one of the caller's requests.
    ///
    /// # Errors
    /// It asks more often than it may.
    pub async fn turn(&self, caller: &Caller) -> Result<(), Refusal> {
        if caller.per_second.is_none() {
            return Ok(());
        }
        let client = caller.name.to_string();
        self.put(|done| Question::Turn { client, done }).await?
    }

    /// Who shows this; none = nobody who may ask.
    pub fn caller(&self, credential: &Credential) -> Option<Caller> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).caller(credential)
    }

    /// The client of this name, if it is one by COPS for which nothing is to be shown; for doors of this machine only.
    pub fn unsecured(&self, name: &str) -> Option<Caller> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).unsecured(name)
    }

    /// Whether a client or agent of this name may ask.
    pub fn knows(&self, name: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).has(name)
    }

    async fn put<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Refusal> {
        let (done, answer) = oneshot::channel();
        self.inlet.send(question(done)).await.map_err(|_| elsewhere())?;
        answer.await.map_err(|_| elsewhere())
    }
}

fn elsewhere() -> Refusal {
    Refusal {
        retry_after_ms: 1_000,
        ..Refusal::new(Code::HeldElsewhere, "this instance does not lead the domain")
    }
}

#[cfg(test)]
mod tests;
