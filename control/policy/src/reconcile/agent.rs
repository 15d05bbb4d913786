//! The reconciler with its session: what looks after the policy of one router beside the router's agent.
//!
//! ```text
//!             news: whole, or a journal         superseded
//!   Waiting ────────────────────────────► Session ─────────► Over
//!     ⟲ appeared, gone                      ⟲ all else
//! ```
//!
//! Who knows nothing of the policy changes nothing: the session begins with the first that is known.

use super::{Known, News, NotTaken, Notice, Reconciler, Report, owner};
use perhop_agent::{Input as OfRouter, Notice as OfSession, Output as ToRouter, Part, Parts, Session};
use perhop_model::ErrorItem;
use perhop_units::Instant;
use std::collections::VecDeque;

/// What it is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// By the router.
    Router(OfRouter),
    /// By the controller, or what a journal has.
    News(News),
    /// Time passes.
    Tick,
}

/// What it wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Ask the router, or tell a person.
    Router(ToRouter<Said>),
    /// The router stands otherwise than it did: this is to be reported.
    Stands {
        /// How.
        report: Report,
        /// The router's epoch; 0 = not known yet.
        epoch: u64,
    },
    /// News could not be taken: all of it is to be told again.
    NotTaken(NotTaken),
}

/// What there is to say to a person.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Of the session.
    Session(OfSession),
    /// Of the policy.
    Policy(Notice),
}

impl From<OfSession> for Said {
    fn from(notice: OfSession) -> Self {
        Self::Session(notice)
    }
}

impl From<Notice> for Said {
    fn from(notice: Notice) -> Self {
        Self::Policy(notice)
    }
}

#[derive(Debug)]
pub(super) struct One(pub(super) Reconciler);

impl Parts for One {
    type Notice = Said;

    fn each(&self) -> impl Iterator<Item = &dyn Part<Said>> {
        std::iter::once(&self.0 as &dyn Part<Said>)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn Part<Said>> {
        std::iter::once(&mut self.0 as &mut dyn Part<Said>)
    }
}

/// By what a report differs from the one before.
type Standing = (u64, u64, bool, u64, Vec<u32>, Option<ErrorItem>);

/// See the module.
#[derive(Debug)]
pub struct PolicyAgent {
    fence: u64,
    /// None: nothing of the policy is known yet.
    session: Option<Session<One>>,
    /// While there is no session: whether the router is there.
    appeared: bool,
    epoch: u64,
    stood: Option<Standing>,
    outputs: VecDeque<Output>,
}

impl PolicyAgent {
    /// Knows nothing yet. `fence` must be above that of every instance before it on the same router.
    pub fn new(fence: u64) -> Self {
        Self { fence, session: None, appeared: false, epoch: 0, stood: None, outputs: VecDeque::new() }
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        let told = match input {
            Input::Router(told) => told,
            Input::Tick => OfRouter::Tick,
            Input::News(news) => {
                if let Some(told) = self.take(news) {
                    told
                } else {
                    return;
                }
            }
        };
        let Some(session) = &mut self.session else {
            match told {
                OfRouter::Appeared => self.appeared = true,
                OfRouter::Gone => self.appeared = false,
                _ => {}
            }
            return;
        };
        match &told {
            OfRouter::Readings(readings) => self.epoch = readings.epoch,
            OfRouter::Reply(reply) => self.epoch = reply.epoch,
            _ => {}
        }
        session.handle_input(now, told);
        while let Some(output) = session.poll_output() {
            self.outputs.push_back(Output::Router(output));
        }
        self.stand();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.session.as_ref().and_then(Session::next_wakeup)
    }

    /// Whether another instance has taken over, or this one must not change the policy's objects.
    pub fn is_superseded(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_superseded)
    }

    /// Takes news; what the session is to be told then, if there is one.
    fn take(&mut self, news: News) -> Option<OfRouter> {
        let refused = match (&mut self.session, news) {
            (Some(session), news) => session.parts_mut().0.take(news).map(|()| OfRouter::Tick),
            (None, News::Whole(known)) => {
                let mut reconciler = Reconciler::new(owner(), Known::default());
                let taken = reconciler.take(News::Whole(known));
                taken.map(|()| {
                    self.session = Some(Session::of_owner(owner(), One(reconciler), self.fence));
                    if self.appeared { OfRouter::Appeared } else { OfRouter::Tick }
                })
            }
            (None, News::Changes { .. }) => Err(NotTaken::Gap { have: 0 }),
        };
        refused.map_err(|why| self.outputs.push_back(Output::NotTaken(why))).ok()
    }

    fn stand(&mut self) {
        let Some(session) = &self.session else { return };
        let of = &session.parts().0;
        let standing = (
            of.known.seq,
            of.known.edition,
            of.is_converged(),
            of.drift,
            of.quarantine.all().map(|held| held.times).collect(),
            of.last_error.clone(),
        );
        if self.stood.as_ref() != Some(&standing) {
            self.stood = Some(standing);
            self.outputs.push_back(Output::Stands { report: of.report(), epoch: self.epoch });
        }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
