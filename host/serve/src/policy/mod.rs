//! The policy of a domain that is being looked after: its editions as a task, who may ask it, and what it tells agents.
//!
//! The machine of [`perhop_policy::edition`] decides, a [`PolicyKeeper`] writes an edition together with what agents take over
//! because of it, and nobody is answered before it has. Interfaces ask by a [`Policies`], which is a handle and can be cloned.
//! Nothing tries a policy before it is committed yet: who asks for a trial is refused.

mod follow;
mod machine;
mod run;
mod status;
mod users;

pub use follow::PolicyFollower;
pub use machine::InForce;
pub use run::{PolicyKeeper, PolicyTask, Promise};
pub use status::{QuarantinedObject, RouterReport, Standing};
pub use users::SessionNews;

use crate::domain::NotKept;
use machine::{Begin, Desk, Question};
use perhop_drive::Inlet;
use perhop_model::Name;
use perhop_policy::compile::Present;
use perhop_policy::edition::{EditionRow, Refused, Wish, sha256_of};
use perhop_policy::feed::Mark;
use perhop_policy::model::Policy;
use perhop_policy::session::{self, Arrival, Grant, SessionRow, Which};
use perhop_reason::Code;
use perhop_units::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{broadcast, oneshot};

/// A handle of the policy of a domain.
#[derive(Clone)]
pub struct Policies {
    inlet: Inlet<Question>,
    keeper: Arc<dyn PolicyKeeper>,
}

/// Why somebody does not get what was asked of the policy.
#[derive(Clone, Debug, Error)]
pub enum NotDone {
    /// The machine refuses it.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The candidate, or the edition to be confirmed, is another than the one that is meant.
    #[error("it is not the one that is meant any more")]
    Other,
    /// A trial was asked for.
    #[error("nothing here tries a policy before it is committed")]
    Untried,
    /// The sessions refuse it.
    #[error("{0}")]
    User(#[from] session::Refused),
    /// Another instance leads the domain.
    #[error("another instance leads the domain")]
    Elsewhere,
    /// The database.
    #[error("{}", .0.message)]
    NotKept(NotKept),
}

impl NotDone {
    /// The reason, as in every interface.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(refused) => refused.code(),
            Self::User(refused) => refused.code(),
            Self::Other => Code::StaleRevision,
            Self::Untried => Code::Unsupported,
            Self::Elsewhere => Code::HeldElsewhere,
            Self::NotKept(why) => why.code,
        }
    }
}

/// What is to be committed.
#[derive(Debug)]
pub enum Of {
    /// The candidate, which must have this digest.
    Candidate(String),
    /// A policy that was made from an edition, which must be the one in force.
    Policy {
        /// It.
        policy: Box<Policy>,
        /// That edition.
        base: u64,
    },
}

/// What is to become an edition.
#[derive(Debug)]
pub struct Commit {
    /// Who wants it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// It returns unless it is confirmed in this time.
    pub confirm_within: Option<Duration>,
    /// What.
    pub of: Of,
}

impl Policies {
    /// Makes a policy the candidate: its digest.
    ///
    /// # Errors
    /// Why not; of faults all.
    pub async fn propose(
        &self,
        by: &str,
        policy: Box<Policy>,
        base: u64,
        trial: bool,
    ) -> Result<String, NotDone> {
        let sha256 = sha256_of(&policy);
        self.wish(by, Wish::Propose { policy, base, trial }).await?;
        Ok(sha256)
    }

    /// Drops the candidate.
    ///
    /// # Errors
    /// There is none.
    pub async fn withdraw(&self, by: &str) -> Result<(), NotDone> {
        self.wish(by, Wish::Withdraw).await.map(drop)
    }

    /// Makes an edition of the candidate, or of a policy at once.
    ///
    /// # Errors
    /// Why not; nothing is in force then that was not before.
    pub async fn commit(&self, commit: Commit) -> Result<u64, NotDone> {
        self.put(|done| Question::Commit { commit, done }).await?
    }

    /// Keeps an edition that waits for it; 0 = whichever does.
    ///
    /// # Errors
    /// Nothing waits, or another edition.
    pub async fn confirm(&self, by: &str, edition: u64) -> Result<u64, NotDone> {
        let by = by.to_owned();
        self.put(|done| Question::Confirm { by, edition, done }).await?
    }

    /// Puts the policy of another edition in force.
    ///
    /// # Errors
    /// Why not.
    pub async fn roll_back(&self, by: &str, to: u64, reason: String) -> Result<u64, NotDone> {
        self.wish(by, Wish::Rollback { to, reason }).await
    }

    /// What is in force.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn in_force(&self) -> Result<InForce, NotDone> {
        self.look(Desk::in_force).await
    }

    /// Editions below a number, the last first, at most so many.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn history(&self, before: Option<u64>, most: usize) -> Result<Vec<EditionRow>, NotDone> {
        self.look(move |desk| desk.history(before, most)).await
    }

    /// The policy of an edition.
    ///
    /// # Errors
    /// There is none, or the database does not answer.
    pub async fn policy_of(&self, edition: u64) -> Result<Arc<Policy>, NotDone> {
        let in_force = self.in_force().await?;
        if in_force.mark.edition == edition {
            return Ok(in_force.policy);
        }
        let policy = self.keeper.load(edition).await.map_err(NotDone::NotKept)?;
        policy.map(Arc::new).ok_or(NotDone::Refused(Refused::NoEdition(edition)))
    }

    /// Tells how a router stands.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn report(&self, router: String, report: RouterReport) -> Result<(), NotDone> {
        self.inlet.send(Question::Report { router, report }).await.map_err(|_| NotDone::Elsewhere)
    }

    /// How routers stand: those of the policy, and those that have told.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn standings(&self) -> Result<Vec<Standing>, NotDone> {
        self.look(Desk::standings).await
    }

    /// A subscriber is somewhere: how often its session has moved.
    ///
    /// # Errors
    /// Why it is not put on record.
    pub async fn came(&self, arrival: Arrival) -> Result<u64, NotDone> {
        self.user(|request| session::Input::Came { request, arrival: Box::new(arrival) }).await
    }

    /// A session goes on, and has carried so many octets.
    ///
    /// # Errors
    /// As of [`Policies::came`].
    pub async fn used(&self, arrival: Arrival, octets: u64) -> Result<u64, NotDone> {
        self.user(move |request| session::Input::Used { request, arrival: Box::new(arrival), octets }).await
    }

    /// A session is over, after so many octets if that is known.
    ///
    /// # Errors
    /// It is elsewhere by now. One that is not there is no error.
    pub async fn left(&self, which: Which, octets: Option<u64>) -> Result<u64, NotDone> {
        self.user(move |request| session::Input::Left { request, which, octets }).await
    }

    /// A session is given something else.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn grant(&self, which: Which, grant: Grant) -> Result<u64, NotDone> {
        self.user(move |request| session::Input::Grant { request, which, grant }).await
    }

    /// The access server of a router began anew so long ago: older sessions there are over.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn restarted(&self, router: Name, age: Duration) -> Result<(), NotDone> {
        self.inlet.send(Question::Restarted { router, age }).await.map_err(|_| NotDone::Elsewhere)
    }

    /// Sessions behind a subscriber, by name, of one router or of all, at most so many.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn sessions(
        &self,
        after: Option<String>,
        router: Option<String>,
        most: usize,
    ) -> Result<Vec<SessionRow>, NotDone> {
        self.look(move |desk| desk.users().sessions(after.as_deref(), router.as_deref(), most)).await
    }

    /// The session of a subscriber.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn session(&self, subscriber: Name) -> Result<Option<SessionRow>, NotDone> {
        self.look(move |desk| desk.users().session(&subscriber)).await
    }

    /// What becomes of sessions from now on without anybody's asking for it.
    ///
    /// # Errors
    /// Another instance leads.
    pub async fn session_news(&self) -> Result<broadcast::Receiver<Arc<SessionNews>>, NotDone> {
        self.look(|desk| desk.users().news()).await
    }

    /// What a router is to have, from what its agent has.
    ///
    /// # Errors
    /// Another instance leads, or the database does not answer.
    pub async fn follow(&self, router: &str, have: Mark) -> Result<PolicyFollower, NotDone> {
        PolicyFollower::begin(self.clone(), router, have).await
    }

    async fn begin(&self, router: &Name, have: Mark) -> Result<Begin, NotDone> {
        let router = router.clone();
        self.put(|done| Question::Follow { router, have, done }).await
    }

    /// Who is at a router because of a session.
    async fn present(&self, router: &Name) -> Result<BTreeMap<Name, Present>, NotDone> {
        let router = router.clone();
        let of = move |desk: &Desk| desk.users().on_record(&desk.in_force().policy).remove(&router);
        Ok(self.look(of).await?.unwrap_or_default())
    }

    async fn user(&self, input: impl FnOnce(u64) -> session::Input + Send + 'static) -> Result<u64, NotDone> {
        self.put(|done| Question::User(Box::new(input), done)).await?
    }

    async fn wish(&self, by: &str, wish: Wish) -> Result<u64, NotDone> {
        let by = by.to_owned();
        self.put(|done| Question::Wish { by, wish, done }).await?
    }

    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Desk) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.put(|done| Question::Look(Box::new(move |desk| drop(done.send(look(desk)))))).await
    }

    async fn put<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, NotDone> {
        let (done, answer) = oneshot::channel();
        self.inlet.send(question(done)).await.map_err(|_| NotDone::Elsewhere)?;
        answer.await.map_err(|_| NotDone::Elsewhere)
    }
}

#[cfg(test)]
mod tests;
