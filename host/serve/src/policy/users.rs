//! Sessions of subscribers with those who wait for answers: the part of the policy's machine that looks after users.

use super::NotDone;
use perhop_model::Name;
use perhop_policy::compile::Present;
use perhop_policy::diff::ObjectChange;
use perhop_policy::model::Policy;
use perhop_policy::session::{Change, Input, Kept, Output, SessionRow, Users, Why, Zone};
use perhop_units::Instant;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{broadcast, oneshot};

/// Who may be behind with news of sessions.
const NEWS: usize = 65_536;

pub(super) type Answer = oneshot::Sender<Result<u64, NotDone>>;

/// What became of a session without anybody's asking for it.
#[derive(Clone, Debug)]
pub enum SessionNews {
    /// It has ended: whoever serves it is to end it too.
    Ended(Box<SessionRow>, Why),
    /// Another contract counts.
    Changed(Box<SessionRow>),
}

/// A group of changes that is to be written.
#[derive(Debug)]
pub(super) struct ToKeep {
    pub(super) group: u64,
    pub(super) changes: Vec<Change>,
    pub(super) feed: Vec<ObjectChange>,
}

/// See the module.
pub(super) struct UserDesk {
    users: Users,
    waiting: HashMap<u64, Answer>,
    last: u64,
    /// A group is being written.
    is_writing: bool,
    to_keep: VecDeque<ToKeep>,
    news: broadcast::Sender<Arc<SessionNews>>,
}

impl UserDesk {
    /// Goes on from what is kept, under a policy; the clock begins with 1970.
    pub(super) fn new(kept: Kept, policy: Arc<Policy>, zone: Zone) -> Self {
        let (news, _) = broadcast::channel(NEWS);
        Self {
            users: Users::new(kept, policy, zone, 0),
            waiting: HashMap::new(),
            last: 0,
            is_writing: false,
            to_keep: VecDeque::new(),
            news,
        }
    }

    /// Tells the sessions something that is answered; the input is made with the number of the request.
    pub(super) fn ask(&mut self, now: Instant, input: impl FnOnce(u64) -> Input, done: Answer) {
        self.last += 1;
        self.waiting.insert(self.last, done);
        self.tell(now, input(self.last));
    }

    /// Tells the sessions something.
    pub(super) fn tell(&mut self, now: Instant, input: Input) {
        if matches!(input, Input::Written { .. }) {
            self.is_writing = false;
        }
        self.users.handle_input(now, input);
        while let Some(output) = self.users.poll_output() {
            match output {
                Output::Write { group, changes, feed } => {
                    self.is_writing = true;
                    self.to_keep.push_back(ToKeep { group, changes, feed });
                }
                Output::Answer { request, answer } => {
                    if let Some(done) = self.waiting.remove(&request) {
                        // Who has gone away is not answered.
                        let _ = done.send(answer.map_err(NotDone::User));
                    }
                }
                // Without anybody who listens nothing is told.
                Output::Ended { row, why } => drop(self.news.send(Arc::new(SessionNews::Ended(row, why)))),
                Output::Changed { row } => drop(self.news.send(Arc::new(SessionNews::Changed(row)))),
            }
        }
        debug_assert!(self.to_keep.len() <= 1, "one group at a time");
    }

    pub(super) fn poll_group(&mut self) -> Option<ToKeep> {
        self.to_keep.pop_front()
    }

    pub(super) fn is_writing(&self) -> bool {
        self.is_writing
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.users.next_wakeup()
    }

    /// Who is where, as it is on record.
    pub(super) fn on_record(&self, policy: &Policy) -> BTreeMap<Name, BTreeMap<Name, Present>> {
        self.users.on_record(policy)
    }

    /// Sessions behind a subscriber, by name, of one router or of all, at most so many.
    pub(super) fn sessions(&self, after: Option<&str>, router: Option<&str>, most: usize) -> Vec<SessionRow> {
        let behind = |row: &&SessionRow| after.is_none_or(|after| row.subscriber.as_str() > after);
        let there = |row: &&SessionRow| router.is_none_or(|router| row.router.as_str() == router);
        self.users.sessions().filter(behind).filter(there).take(most).cloned().collect()
    }

    pub(super) fn session(&self, subscriber: &Name) -> Option<SessionRow> {
        self.users.session(subscriber).cloned()
    }

    /// What becomes of sessions from now on.
    pub(super) fn news(&self) -> broadcast::Receiver<Arc<SessionNews>> {
        self.news.subscribe()
    }
}
