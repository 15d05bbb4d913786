//! The editions with those who wait for answers, and what agents are told of them, as one machine for a driver.

use super::status::Statuses;
use super::users::{ToKeep, UserDesk};
use super::{Commit, NotDone, Of, RouterReport, Standing};
use crate::domain::NotKept;
use perhop_drive::Machine;
use perhop_model::Name;
use perhop_policy::compile::Present;
use perhop_policy::diff::ObjectChange;
use perhop_policy::edition::{
    Change, DOMAIN, EditionRow, Editions, Group, Input, Kept, Output, Refused, Wish, sha256_of,
};
use perhop_policy::feed::{Fed, Mark};
use perhop_policy::model::Policy;
use perhop_policy::record::{PolicyKept, StatusRow};
use perhop_policy::session::{Input as OfUsers, Kept as KeptUsers, Zone};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{broadcast, oneshot};

/// Times of the wall are those of the machine: its clock begins with 1970.
const UNIX_MS_AT_ZERO: u64 = 0;
/// How routers stand is written so long after it was told.
const FLUSH: Duration = Duration::from_secs(1);

pub(super) type Answer = oneshot::Sender<Result<u64, NotDone>>;

/// Subscribers that are at a router because of a session, by router.
type Sessions = BTreeMap<Name, BTreeMap<Name, Present>>;

/// What is in force.
#[derive(Clone, Debug)]
pub struct InForce {
    /// Its last change, its edition and that edition's digest.
    pub mark: Mark,
    /// Its row; none = there was no edition yet.
    pub row: Option<EditionRow>,
    /// Its policy.
    pub policy: Arc<Policy>,
}

/// What somebody who follows begins with.
pub(super) struct Begin {
    pub(super) in_force: InForce,
    /// Whether what it has is of this domain, so that what changed behind it will do.
    pub(super) knows: bool,
    /// Otherwise: who is at its router because of a session.
    pub(super) present: BTreeMap<Name, Present>,
    pub(super) news: broadcast::Receiver<Arc<Told>>,
}

/// What has come into force.
#[derive(Debug)]
pub struct Told {
    /// It follows this change.
    pub(super) after: u64,
    /// How far it reaches.
    pub(super) mark: Mark,
    /// By router.
    pub(super) of: HashMap<Name, Vec<Fed>>,
}

/// An edition that is to be written.
#[derive(Debug)]
pub(super) struct Edition {
    pub(super) group: Group,
    pub(super) number: u64,
    pub(super) before: (Arc<Policy>, Sessions),
    pub(super) after: (Arc<Policy>, Sessions),
}

/// What is to be written behind the last number of the feed.
#[derive(Debug)]
pub(super) struct ToWrite {
    pub(super) seq: u64,
    pub(super) what: What,
}

/// See [`ToWrite`].
#[derive(Debug)]
pub(super) enum What {
    Edition(Box<Edition>),
    /// Sessions, under the edition of this number.
    Sessions(ToKeep, u64),
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) group: u64,
    pub(super) of_sessions: bool,
    /// The last number of the feed, and what routers are to have; none = it is not written.
    pub(super) done: Option<(u64, Vec<ObjectChange>)>,
    pub(super) why: Option<NotKept>,
}

/// What the machine is told.
pub(super) enum Question {
    Editions(Input),
    Wish { by: String, wish: Wish, done: Answer },
    Commit { commit: Commit, done: Answer },
    Confirm { by: String, edition: u64, done: Answer },
    Written(Written),
    Look(Box<dyn FnOnce(&Desk) + Send>),
    Report { router: String, report: RouterReport },
    User(Box<dyn FnOnce(u64) -> OfUsers + Send>, Answer),
    Restarted { router: Name, age: Duration },
    Follow { router: Name, have: Mark, done: oneshot::Sender<Begin> },
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Question")
    }
}

/// Who waits for an answer of the editions.
enum Waiter {
    Answer(Answer),
    /// Who has proposed a policy of this digest.
    Proposed(String, Answer),
    /// Who wants it to be tried first.
    Trial(Answer),
    /// Who has proposed what is to be committed at once.
    ThenCommit(Box<Committing>, Answer),
}

/// A commit whose policy is the candidate.
struct Committing {
    by: String,
    reason: String,
    confirm_within: Option<Duration>,
}

/// What it wants done.
#[derive(Debug)]
pub(super) enum Do {
    Write(ToWrite),
    Load(u64),
    Keep(Vec<StatusRow>),
}

/// See the module.
pub(super) struct Desk {
    editions: Editions,
    now: Instant,
    mark: Mark,
    /// Digest of the candidate.
    candidate: Option<String>,
    users: UserDesk,
    /// An edition that waits until no group of sessions is being written.
    next: Option<(Group, Arc<Policy>, Arc<Policy>)>,
    statuses: Statuses,
    flush: Option<Instant>,
    waiting: HashMap<u64, Waiter>,
    last: u64,
    /// Why the group that was written last is not.
    why: Option<NotKept>,
    is_over: bool,
    outputs: VecDeque<Do>,
    news: broadcast::Sender<Arc<Told>>,
}

impl Desk {
    pub(super) fn new(
        kept: PolicyKept,
        zone: Zone,
        now: Instant,
        news: broadcast::Sender<Arc<Told>>,
    ) -> Self {
        let last = kept.editions.last();
        let mark = Mark {
            seq: kept.feed_seq,
            edition: last.map_or(0, |row| row.n),
            sha256: last.map(|row| row.sha256.clone()).unwrap_or_default(),
        };
        let (in_force, fallback) = (kept.in_force, kept.fallback);
        let editions = Editions::new(Kept { editions: kept.editions, in_force, fallback }, UNIX_MS_AT_ZERO);
        let sessions = KeptUsers { sessions: kept.sessions, usage: kept.usage, feed_seq: kept.feed_seq };
        Self {
            users: UserDesk::new(sessions, Arc::clone(editions.policy()), zone),
            next: None,
            editions,
            now,
            mark,
            candidate: None,
            statuses: Statuses::of(kept.statuses),
            flush: None,
            waiting: HashMap::new(),
            last: 0,
            why: None,
            is_over: false,
            outputs: VecDeque::new(),
            news,
        }
    }

    pub(super) fn in_force(&self) -> InForce {
        InForce {
            mark: self.mark.clone(),
            row: self.editions.history().next().cloned(),
            policy: Arc::clone(self.editions.policy()),
        }
    }

    pub(super) fn history(&self, before: Option<u64>, most: usize) -> Vec<EditionRow> {
        let wanted = self.editions.history().filter(|row| before.is_none_or(|before| row.n < before));
        wanted.take(most).cloned().collect()
    }

    pub(super) fn users(&self) -> &UserDesk {
        &self.users
    }

    pub(super) fn standings(&self) -> Vec<Standing> {
        let now_ms = self.now.0 / 1_000_000;
        let routers = self.editions.policy().routers.keys();
        self.statuses.all(routers, self.mark.edition, now_ms)
    }

    /// Whether somebody who has this can be told changes alone: what it has is of this domain.
    fn knows(&self, have: &Mark) -> bool {
        let mut history = self.editions.history();
        have.seq <= self.mark.seq && history.any(|row| row.n == have.edition && row.sha256 == have.sha256)
    }

    fn wish(&mut self, by: String, wish: Wish, waiter: Waiter) {
        self.last += 1;
        self.waiting.insert(self.last, waiter);
        self.tell(Input::Wish { request: self.last, by, wish });
    }

    /// Tells the editions something, and what follows from that at once.
    fn tell(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.editions.handle_input(self.now, input);
            let outputs: Vec<Output> = std::iter::from_fn(|| self.editions.poll_output()).collect();
            inputs.extend(outputs.into_iter().filter_map(|output| self.done(output)));
        }
    }

    fn done(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Answer { request, answer } => return self.answered(request, answer),
            // Nobody here can: the candidate goes, and who proposed it is told why.
            Output::Try { .. } => {
                self.last += 1;
                return Some(Input::Wish { request: self.last, by: DOMAIN.into(), wish: Wish::Withdraw });
            }
            Output::Load { edition } => self.outputs.push_back(Do::Load(edition)),
            Output::Write { group, before, after } => {
                self.candidate = None;
                self.users.tell(self.now, OfUsers::Hold);
                self.next = Some((group, before, after));
                self.write_next();
            }
            // That is known with what is written.
            Output::InForce { .. } => {}
        }
        None
    }

    /// Has the edition that waits be written, once nothing else is.
    fn write_next(&mut self) {
        if self.users.is_writing() {
            return;
        }
        let Some((group, before, after)) = self.next.take() else { return };
        let numbers = group.changes.iter().filter_map(|change| match change {
            Change::Edition(row) => Some(row.n),
            Change::Policy { .. } => None,
        });
        let number = numbers.max().unwrap_or(self.mark.edition);
        let (was, is) = match Arc::ptr_eq(&before, &after) {
            // Nothing of it changes what routers have.
            true => Default::default(),
            false => (self.users.on_record(&before), self.users.on_record(&after)),
        };
        let edition = Edition { group, number, before: (before, was), after: (after, is) };
        self.write(What::Edition(Box::new(edition)));
    }

    fn write(&mut self, what: What) {
        self.outputs.push_back(Do::Write(ToWrite { seq: self.mark.seq, what }));
    }

    fn answered(&mut self, request: u64, answer: Result<u64, Refused>) -> Option<Input> {
        let (done, answer) = match (self.waiting.remove(&request)?, answer) {
            (Waiter::ThenCommit(commit, done), Ok(_)) => {
                let Committing { by, reason, confirm_within } = *commit;
                self.waiting.insert(request, Waiter::Answer(done));
                return Some(Input::Wish { request, by, wish: Wish::Commit { reason, confirm_within } });
            }
            (Waiter::Proposed(sha256, done), Ok(edition)) => {
                self.candidate = Some(sha256);
                (done, Ok(edition))
            }
            (Waiter::Trial(done), Err(Refused::NoCandidate)) => (done, Err(NotDone::Untried)),
            (
                Waiter::Answer(done)
                | Waiter::Proposed(_, done)
                | Waiter::Trial(done)
                | Waiter::ThenCommit(_, done),
                answer,
            ) => (done, answer.map_err(NotDone::from)),
        };
        let answer = match (answer, &self.why) {
            (Err(NotDone::Refused(Refused::NotWritten)), Some(why)) => Err(NotDone::NotKept(why.clone())),
            (answer, _) => answer,
        };
        // Who has gone away is not answered.
        let _ = done.send(answer);
        None
    }

    fn commit(&mut self, commit: Commit, done: Answer) {
        let Commit { by, reason, confirm_within, of } = commit;
        match of {
            Of::Candidate(sha256) if self.candidate.as_ref() != Some(&sha256) => {
                let _ = done.send(Err(NotDone::Other));
            }
            Of::Candidate(_) => {
                self.wish(by, Wish::Commit { reason, confirm_within }, Waiter::Answer(done));
            }
            Of::Policy { policy, base } => {
                let commit = Committing { by: by.clone(), reason, confirm_within };
                let wish = Wish::Propose { policy, base, trial: false };
                self.wish(by, wish, Waiter::ThenCommit(Box::new(commit), done));
            }
        }
    }

    fn written(&mut self, written: Written) {
        let Written { group, of_sessions, done, why } = written;
        self.is_over |= why.as_ref().is_some_and(|why| why.code == Code::Fenced);
        self.why = why;
        let after = self.mark.seq;
        if let Some((seq, _)) = &done {
            self.mark.seq = *seq;
        }
        match of_sessions {
            true => {
                let seq = done.as_ref().map(|(seq, _)| *seq);
                self.users.tell(self.now, OfUsers::Written { group, seq });
            }
            false => self.edition_written(group, done.is_some()),
        }
        let Some((_, changes)) = done else { return };
        let mut of: HashMap<Name, Vec<Fed>> = HashMap::new();
        for change in changes {
            of.entry(change.router).or_default().push(Fed::of(&change.key, change.spec.as_ref()));
        }
        // Without anybody who listens nothing is told.
        let _ = self.news.send(Arc::new(Told { after, mark: self.mark.clone(), of }));
    }

    fn edition_written(&mut self, group: u64, done: bool) {
        let before = self.mark.edition;
        self.tell(Input::Written { group, done });
        if let Some(row) = self.editions.history().next().cloned() {
            (self.mark.edition, self.mark.sha256) = (row.n, row.sha256);
        }
        if self.mark.edition != before {
            self.statuses.begin(self.mark.edition, self.now.0 / 1_000_000);
        }
        if self.next.is_none() {
            let policy = Arc::clone(self.editions.policy());
            self.users.tell(self.now, OfUsers::Policy(policy));
        }
    }

    fn follow(&self, router: &Name, have: &Mark) -> Begin {
        let (in_force, knows) = (self.in_force(), self.knows(have));
        let present = match knows {
            true => BTreeMap::new(),
            false => self.users.on_record(&in_force.policy).remove(router).unwrap_or_default(),
        };
        Begin { in_force, knows, present, news: self.news.subscribe() }
    }

    fn reported(&mut self, router: String, report: RouterReport) {
        if let Ok(router) = Name::new(&router)
            && report.converged
        {
            self.users.tell(self.now, OfUsers::Reported { router, seq: report.seq });
        }
        self.statuses.take(router, report, self.now.0 / 1_000_000);
        self.flush = self.flush.or(Some(self.now + FLUSH));
    }
}

impl Machine for Desk {
    type Input = Question;
    type Output = Do;

    fn handle_input(&mut self, now: Instant, question: Question) {
        // The clock of the wall may be set back; the machine's is not.
        self.now = self.now.max(now);
        match question {
            Question::Editions(input) => self.tell(input),
            Question::Wish { by, wish, done } => {
                let waiter = match &wish {
                    Wish::Propose { trial: true, .. } => Waiter::Trial(done),
                    Wish::Propose { policy, .. } => Waiter::Proposed(sha256_of(policy), done),
                    _ => Waiter::Answer(done),
                };
                self.wish(by, wish, waiter);
            }
            Question::Commit { commit, done } => self.commit(commit, done),
            Question::Confirm { edition, done, .. } if ![0, self.mark.edition].contains(&edition) => {
                let _ = done.send(Err(NotDone::Other));
            }
            Question::Confirm { by, done, .. } => self.wish(by, Wish::Confirm, Waiter::Answer(done)),
            Question::Written(written) => self.written(written),
            Question::Look(look) => look(self),
            Question::Report { router, report } => self.reported(router, report),
            Question::User(input, done) => self.users.ask(self.now, input, done),
            Question::Restarted { router, age } => {
                self.users.tell(self.now, OfUsers::Restarted { router, age });
            }
            Question::Follow { router, have, done } => drop(done.send(self.follow(&router, &have))),
        }
        if self.users.next_wakeup().is_some_and(|due| due <= self.now) {
            self.users.tell(self.now, OfUsers::Tick);
        }
        if let Some(group) = self.users.poll_group() {
            self.write(What::Sessions(group, self.mark.edition));
        }
        self.write_next();
        if self.flush.is_some_and(|due| due <= self.now) {
            self.flush = None;
            let rows = self.statuses.flush();
            if !rows.is_empty() {
                self.outputs.push_back(Do::Keep(rows));
            }
        }
    }

    fn poll_output(&mut self) -> Option<Do> {
        self.outputs.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        [self.editions.next_wakeup(), self.users.next_wakeup(), self.flush].into_iter().flatten().min()
    }

    fn tick() -> Question {
        Question::Editions(Input::Tick)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
