//! The session of an agent with its router: claim, read, submit. [`crate::states`] says what follows what.
//!
//! Apart from that, counters are looked at whenever a part wants it in `Running`; the look may outlast that state.

use crate::message::{Input, Notice, Output};
use crate::part::{Look, Part, Parts};
use crate::states::{Action, Event, State, step};
use crate::sum::{Sum, show};
use perhop_model::{Claim, ErrorItem, Kind, Op, Outcome, Owner, Reply, Transaction, TxnId};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};

/// A router that refuses is not asked again before this, unless it says when.
const RETRY: Duration = Duration::from_secs(1);

/// By how much a fence that is too low rises at first; twice as much each time. Fences are nanoseconds where clocks make
/// them: of a clock that is ten years behind it takes thirty claims.
const FIRST_RAISE: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub struct Session<P: Parts> {
    parts: P,
    state: State,
    owner: Owner,
    fence: u64,
    /// The owner has been claimed by this instance, and by how much the fence rises until it has.
    claimed: bool,
    raise: u64,
    /// A claim that a busy router did not take is made again at this time.
    claim_again: Option<Instant>,
    /// Of the router that answered last; 0 before any did.
    epoch: u64,
    revision: u64,
    transactions: u64,
    sum: Sum,
    /// Readings are on their way.
    looking: bool,
    outputs: VecDeque<Output<P::Notice>>,
}

impl<P: Parts> Session<P> {
    /// Without a router, as its agent. `fence` must be above that of every instance before it on the same router.
    pub fn new(parts: P, fence: u64) -> Self {
        Self::of_owner(Owner::Agent, parts, fence)
    }

    /// As [`Session::new`] for parts whose objects belong to another owner than the agent.
    pub fn of_owner(owner: Owner, parts: P, fence: u64) -> Self {
        Self {
            parts,
            state: State::Away,
            owner,
            fence,
            claimed: false,
            raise: FIRST_RAISE,
            claim_again: None,
            epoch: 0,
            revision: 0,
            transactions: 0,
            sum: Sum::default(),
            looking: false,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        if self.is_superseded() {
            return;
        }
        match &input {
            Input::Appeared => self.handle(now, Event::Appeared),
            Input::Gone => self.handle(now, Event::Gone),
            Input::Claimed(Ok(())) => self.handle(now, Event::Taken),
            Input::Claimed(Err(error)) => self.handle(now, self.claim_refused(error)),
            Input::Objects { revision, objects } => self.handle(now, Event::Objects(*revision, objects)),
            Input::Readings(readings) => {
                self.looking = false;
                let anew = self.is_anew(readings.epoch);
                self.handle(now, if anew { Event::ReadAnew(readings.epoch) } else { Event::Read(readings) });
                if readings.revision != self.revision {
                    self.handle(now, Event::Changed(readings.revision));
                }
            }
            Input::Reply(reply) => self.handle(now, self.replied(reply)),
            Input::Announced { link, rate, at } => {
                self.parts.each_mut().for_each(|part| part.announced(now, link, *rate, *at));
            }
            Input::Touched => self.look_now(now),
            Input::Domain(news) => self.parts.each_mut().for_each(|part| part.domain(now, news)),
            Input::Decided { lease, number, bps, refused } => {
                let refused = refused.as_ref();
                self.parts.each_mut().for_each(|part| part.decided(now, lease, *number, *bps, refused));
            }
            Input::Leased { class, number, bps } => {
                self.parts.each_mut().for_each(|part| part.leased(class, *number, *bps));
            }
            Input::Tick => {}
        }
        self.say();
        if self.claim_again.is_some_and(|at| at <= now) {
            self.handle(now, Event::Due);
        }
        self.tick(now);
        if self.state == State::Running
            && let Some((ops, force)) = self.sum.wish(&mut self.parts, now)
        {
            self.handle(now, Event::Wish(ops, force));
        }
        self.say();
        debug_assert_eq!(
            self.state == State::Submitting,
            self.sum.is_under_way(),
            "a transaction is answered"
        );
        debug_assert!(
            self.state == State::Claiming || self.claim_again.is_none(),
            "nothing is left to claim"
        );
        debug_assert!(self.state != State::Away || !self.looking, "nobody answers");
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output<P::Notice>> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let (look, running) = (self.look(), self.state == State::Running);
        let part = |part: &dyn Part<P::Notice>| {
            let looks = part.next_look().filter(|_| look == Look::Now);
            let wish = part.next_wish().filter(|_| running);
            [part.next_wakeup(look), looks, wish].into_iter().flatten().min()
        };
        self.parts.each().filter_map(part).chain(self.claim_again).min()
    }

    /// Whether another instance has taken over.
    pub fn is_superseded(&self) -> bool {
        self.state == State::Superseded
    }

    /// Whether the router has all that is in force.
    pub fn is_settled(&self) -> bool {
        self.state == State::Running && !self.parts.each().any(|part| part.owes())
    }

    /// Its parts.
    pub fn parts(&self) -> &P {
        &self.parts
    }

    /// Its parts, to be told what does not come by the session; an [`Input::Tick`] must follow.
    pub fn parts_mut(&mut self) -> &mut P {
        &mut self.parts
    }

    // ---- judging

    /// A router that is busy or about to stop is asked again. An instance that comes later than another may have a lower
    /// fence, where a clock was set back: it raises its own until it is taken. Any other refusal is for good.
    fn claim_refused<'a>(&self, error: &'a ErrorItem) -> Event<'a> {
        match error.code {
            Code::Overload | Code::ShuttingDown => Event::Busy,
            Code::Fenced if !self.claimed && self.fence < u64::MAX => Event::TooLow,
            _ => Event::Barred(error),
        }
    }

    fn replied<'a>(&self, reply: &'a Reply) -> Event<'a> {
        if self.is_anew(reply.epoch) {
            return Event::RepliedAnew(reply.epoch);
        }
        if reply.outcome != Outcome::Rejected {
            return Event::Committed(reply);
        }
        let shut = reply.errors.iter().find(|error| matches!(error.code, Code::Fenced | Code::Forbidden));
        shut.map_or(Event::Refused(reply), Event::ShutOut)
    }

    /// Whether an answer is of another life of the router. It knows nothing of the agent: everything is owed again, whichever
    /// answer tells of the restart, also the one to a transaction that the new router has just applied.
    fn is_anew(&self, epoch: u64) -> bool {
        self.epoch != 0 && self.epoch != epoch
    }

    // ---- doing

    fn handle(&mut self, now: Instant, event: Event<'_>) {
        let Some((next, action)) = step(self.state, event) else { return };
        self.state = next;
        match action {
            Action::Claim => self.claim(),
            Action::ClaimHigher => {
                self.fence = self.fence.saturating_add(self.raise);
                self.raise = self.raise.saturating_mul(2);
                self.claim();
            }
            Action::ClaimLater => self.claim_again = Some(now + RETRY),
            // It may be another instance that has changed something: whether this one still has its owner is asked first, as
            // one that has nothing to change would not be told.
            Action::ClaimFrom(revision) => {
                self.revision = revision;
                self.claim();
            }
            Action::BeginAgain(epoch) => {
                self.epoch = epoch;
                self.sum.forget();
                self.parts.each_mut().for_each(|part| part.restarted(now));
                self.claim();
            }
            Action::ReadObjects => {
                (self.claimed, self.claim_again) = (true, None);
                self.read_objects();
            }
            Action::Adopt(revision, objects) => {
                self.revision = revision;
                show(&mut self.parts, now, objects);
            }
            Action::Take(readings) => {
                self.epoch = readings.epoch;
                self.parts.each_mut().for_each(|part| part.readings(now, readings));
            }
            Action::Miss => self.parts.each_mut().for_each(|part| part.missed(now)),
            Action::Submit(ops, force) => self.submit(ops, force),
            Action::Commit(reply) => self.commit(now, reply),
            Action::Refuse(reply) => self.refuse(now, reply),
            Action::Forget => {
                (self.looking, self.claim_again) = (false, None);
                self.sum.forget();
                self.parts.each_mut().for_each(|part| part.gone(now));
            }
            Action::End(error) => {
                self.claim_again = None;
                self.sum.forget();
                self.outputs.push_back(Output::Say(Notice::Superseded { error: error.clone() }.into()));
            }
        }
    }

    fn claim(&mut self) {
        self.claim_again = None;
        self.outputs.push_back(Output::Claim(Claim::new(self.owner.clone(), self.fence)));
    }

    fn read_objects(&mut self) {
        let kinds: BTreeSet<Kind> = self.parts.each().flat_map(|part| part.kinds().iter().copied()).collect();
        self.outputs.push_back(Output::ReadObjects(kinds.into_iter().collect()));
    }

    fn submit(&mut self, ops: Vec<Op>, force: bool) {
        self.transactions += 1;
        let id = u128::from(self.fence) << 64 | u128::from(self.transactions);
        let mut transaction = Transaction::new(TxnId(id.to_be_bytes()), self.owner.clone(), ops);
        (transaction.fence, transaction.force) = (self.fence, force);
        self.outputs.push_back(Output::Submit(Box::new(transaction)));
    }

    /// A transaction is in force. Revisions between the one before and its own are somebody else's: that they have changed
    /// something is seen with the next reading.
    fn commit(&mut self, now: Instant, reply: &Reply) {
        self.epoch = reply.epoch;
        if reply.revision <= self.revision + 1 {
            self.revision = self.revision.max(reply.revision);
        }
        self.sum.committed(&mut self.parts, now);
    }

    fn refuse(&mut self, now: Instant, reply: &Reply) {
        self.epoch = reply.epoch;
        let pause = reply.retry_after_ms.map_or(RETRY, Duration::from_millis);
        self.sum.refused(&mut self.parts, now, pause, &reply.errors);
        if reply.errors.iter().any(|error| error.code != Code::Overload) {
            self.outputs.push_back(Output::Say(Notice::Refused { errors: reply.errors.clone() }.into()));
        }
        self.read_objects();
    }

    /// Lets time pass, and looks at the counters when a part wants it.
    fn tick(&mut self, now: Instant) {
        let look = self.look();
        self.parts.each_mut().for_each(|part| part.tick(now, look));
        let is_due = self.parts.each().filter_map(|part| part.next_look()).any(|at| at <= now);
        if is_due && look == Look::Now {
            self.look_now(now);
        }
    }

    /// Looks at the counters, and with them at the revision. What cannot be read now is read when it can.
    fn look_now(&mut self, now: Instant) {
        if self.look() == Look::Now {
            self.looking = true;
            self.parts.each_mut().for_each(|part| part.looked(now));
            self.outputs.push_back(Output::ReadClasses);
        }
    }

    fn look(&self) -> Look {
        match self.state {
            _ if self.looking => Look::Awaited,
            State::Running => Look::Now,
            State::Claiming | State::Reading | State::Submitting if self.claim_again.is_none() => {
                Look::Awaited
            }
            _ => Look::Never,
        }
    }

    fn say(&mut self) {
        self.outputs.extend(self.parts.each_mut().flat_map(|part| part.notices()).map(Output::Say));
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
