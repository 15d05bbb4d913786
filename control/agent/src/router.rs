//! How an agent's requests reach its router: what every driver of the machine does with its outputs.

use crate::message::{Input, Output};
use crate::part::Parts;
use crate::reading::Readings;
use crate::session::Session;
use perhop_model::{Claim, ErrorItem, Kind, ObjectState, Owner, Reply, StatePage, StateQuery, Transaction};
use perhop_units::Instant;
use std::collections::VecDeque;

/// Objects asked for at once: as many as a router gives.
const PAGE: usize = 10_000;

/// A router as its agent knows it: in the same process, or behind a socket. An error is a router that is gone; what it
/// refuses is an answer.
pub trait Router {
    /// Why it does not answer.
    type Error;

    /// Claims the owner; the inner error is the router's.
    ///
    /// # Errors
    /// It does not answer.
    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, Self::Error>;

    /// Reads a page of its state.
    ///
    /// # Errors
    /// It does not answer.
    fn page(&mut self, query: &StateQuery) -> Result<StatePage, Self::Error>;

    /// Reads what its classes have counted and hold, and how many flows its policies have.
    ///
    /// # Errors
    /// It does not answer.
    fn readings(&mut self) -> Result<Readings, Self::Error>;

    /// Submits a transaction.
    ///
    /// # Errors
    /// It does not answer.
    fn submit(&mut self, transaction: Transaction) -> Result<Reply, Self::Error>;
}

impl<P: Parts> Session<P> {
    /// Tells the agent something, does with `router` what it wants, and what it wants after the answers to that.
    /// `clock` says when each of these inputs is; `say` takes what a person may want to know. Without a router the agent
    /// has to be away: then it wants nothing.
    ///
    /// # Errors
    /// The router does not answer. The agent has been told that it is gone.
    pub fn tell<R: Router>(
        &mut self,
        mut clock: impl FnMut() -> Instant,
        input: Input,
        mut router: Option<&mut R>,
        mut say: impl FnMut(Instant, P::Notice),
    ) -> Result<(), R::Error> {
        let mut inputs = VecDeque::from([input]);
        let mut now = clock();
        let mut gone = Ok(());
        loop {
            while let Some(output) = self.poll_output() {
                if let Output::Say(notice) = output {
                    say(now, notice);
                    continue;
                }
                let Some(reached) = router.as_deref_mut() else { continue };
                match perform(reached, output) {
                    Ok(answer) => inputs.extend(answer),
                    Err(error) => {
                        (gone, router) = (Err(error), None);
                        inputs = VecDeque::from([Input::Gone]);
                    }
                }
            }
            let Some(input) = inputs.pop_front() else { return gone };
            now = clock();
            self.handle_input(now, input);
        }
    }
}

/// Does one thing that an agent wants; the answer is an input. A notice is for others to tell.
///
/// # Errors
/// The router does not answer.
pub fn perform<R: Router, N>(router: &mut R, output: Output<N>) -> Result<Option<Input>, R::Error> {
    Ok(Some(match output {
        Output::Say(_) => return Ok(None),
        Output::Claim(claim) => Input::Claimed(router.claim(claim)?),
        Output::ReadObjects(kinds) => {
            let (revision, objects) = objects(router, &kinds)?;
            Input::Objects { revision, objects }
        }
        Output::ReadClasses => Input::Readings(router.readings()?),
        Output::Submit(transaction) => Input::Reply(router.submit(*transaction)?),
    }))
}

/// All objects of some kinds, and the oldest revision that some of them are of: what has changed since is read again.
fn objects<R: Router>(router: &mut R, kinds: &[Kind]) -> Result<(u64, Vec<ObjectState>), R::Error> {
    let (mut objects, mut revision) = (Vec::new(), u64::MAX);
    for kind in kinds {
        // Of these there may be very many, and only its own are of interest.
        let owner = matches!(kind, Kind::Profile | Kind::Filter).then_some(Owner::Agent);
        let mut query = StateQuery { kind: Some(*kind), owner, limit: Some(PAGE), ..StateQuery::default() };
        loop {
            let page = router.page(&query)?;
            revision = revision.min(page.revision);
            objects.extend(page.objects);
            if page.cursor.is_none() {
                break;
            }
            query.cursor = page.cursor;
        }
    }
    Ok((revision, objects))
}
