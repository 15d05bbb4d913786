//! A deal, and the table of its states.
//!
//! ```text
//!          more                debited, somebody to ask         agreed: the next is asked
//!   Idle ────────► Debiting ───────────────────────────► Asking ◄────┐
//!    ▲ ▲             │ refused: nothing was done          │  │ └─────┘
//!    │ └─────────────┘ debited, nobody to ask: agreed     │  │
//!    ├────────────────────────────────────────────────────┘  │ refused: those before are told
//!    │             all have agreed                           ▼
//!    └──────────────────────────────────────────────────── Crediting ◄──── Idle: less, or lost
//!                  credited
//! ```

use super::message::{DealId, Stage};
use crate::lease::{Decision, End, FlowId, Refusal};
use perhop_units::{Duration, Instant};

/// Where a deal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is being done.
    Idle,
    /// The ledger is asked for more.
    Debiting,
    /// Whom this number of the list is asked for more.
    Asking(usize),
    /// The ledger is told of less.
    Crediting,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// More is wanted.
    More,
    /// Less is wanted, or nothing.
    Less,
    /// What was asked is agreed to.
    Agreed,
    /// It is not.
    Refused,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Debit what is wanted.
    Debit,
    /// Ask this one.
    Ask(usize),
    /// Tell all that there is less, and credit.
    Lower,
    /// Those who had agreed are told that it is as before, and the ledger.
    Undo(usize),
    /// Answer.
    Finish,
}

/// What an event does in a state, where so many are to be asked. A pair that is not here changes nothing.
pub(super) fn step(state: State, event: Event, stages: usize) -> Option<(State, Action)> {
    use State::{Asking, Crediting, Debiting, Idle};
    Some(match (state, event) {
        (Idle, Event::More) => (Debiting, Action::Debit),
        (Idle, Event::Less) => (Crediting, Action::Lower),
        (Debiting, Event::Agreed) if stages > 0 => (Asking(0), Action::Ask(0)),
        (Debiting, Event::Agreed | Event::Refused) => (Idle, Action::Finish),
        (Asking(at), Event::Agreed) if at + 1 < stages => (Asking(at + 1), Action::Ask(at + 1)),
        (Asking(_), Event::Agreed) => (Idle, Action::Finish),
        (Asking(at), Event::Refused) => (Crediting, Action::Undo(at)),
        (Crediting, Event::Agreed | Event::Refused) => (Idle, Action::Finish),
        _ => return None,
    })
}

/// Why something is to become of a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It was asked for, with this number or version.
    Asked(u64),
    /// Its client wants it no more.
    Released,
    /// It has run out, or what it rests on has.
    Ended(End),
    /// The process has begun again: all are told what it has.
    Restored,
}

/// What is to become of a deal.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) why: Why,
    pub(super) bps: u64,
    pub(super) lifetime: Duration,
    /// Why it has not become so.
    pub(super) refused: Option<Refusal>,
}

/// See the module of the folder.
#[derive(Debug)]
pub(super) struct Deal {
    pub(super) id: DealId,
    pub(super) class: String,
    pub(super) enter: String,
    pub(super) leave: Option<String>,
    /// Whom to ask, and what the lease there is to: a domain at a neighbour, an edge at the last domain.
    pub(super) stages: Vec<(Stage, String)>,
    pub(super) state: State,
    /// What is agreed, bit/s.
    pub(super) has: u64,
    /// The last question that was decided, and its answer.
    pub(super) number: u64,
    pub(super) answer: Option<Decision>,
    pub(super) doing: Option<Wanted>,
    pub(super) next: Option<Wanted>,
    /// Number of the debit, or version of the request to a lease, that is to be answered.
    pub(super) waits_for: u64,
    /// One of those who had agreed has it no more.
    pub(super) lost: bool,
    pub(super) expires: Instant,
}

impl Deal {
    /// The last number that was asked with.
    pub(super) fn last(&self) -> u64 {
        let number = |wanted: &Wanted| match wanted.why {
            Why::Asked(number) => Some(number),
            _ => None,
        };
        [&self.next, &self.doing].into_iter().flatten().find_map(number).unwrap_or(self.number)
    }

    /// How local decision points call it.
    pub(super) fn flow(&self) -> FlowId {
        match &self.id {
            DealId::Flow(flow) => flow.clone(),
            DealId::Lease(holder, lease) => {
                let to = lease.to.as_deref().unwrap_or_default();
                FlowId { owner: format!("domain:{holder}"), idem: format!("{} {to}", lease.class) }
            }
        }
    }

    /// Nothing is agreed or under way.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Idle && self.has == 0 && self.next.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_state_and_event_is_that_of_the_picture() {
        use State::{Asking, Crediting, Debiting, Idle};
        let row = |event, stages| {
            [Idle, Debiting, Asking(0), Asking(1), Crediting]
                .map(|s| step(s, event, stages).map(|(to, _)| to))
        };
        let idle = Some(Idle);
        assert_eq!(row(Event::More, 2), [Some(Debiting), None, None, None, None]);
        assert_eq!(row(Event::Less, 2), [Some(Crediting), None, None, None, None]);
        assert_eq!(row(Event::Agreed, 2), [None, Some(Asking(0)), Some(Asking(1)), idle, idle]);
        assert_eq!(row(Event::Agreed, 1), [None, Some(Asking(0)), idle, idle, idle]);
        assert_eq!(row(Event::Agreed, 0)[1], idle);
        let credits = Some(Crediting);
        assert_eq!(row(Event::Refused, 2), [None, idle, credits, credits, idle]);
        assert_eq!(step(Asking(1), Event::Refused, 2), Some((Crediting, Action::Undo(1))));
    }
}
