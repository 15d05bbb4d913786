//! One reservation of a call, and the table of what happens to it.
//!
//! ```text
//!            granted            other need
//!   Asking ──────────► Held ───────────────► Changing
//!     │                 ▲ │ ▲                    │ granted: as needed now;  refused, late: as before
//!     │ refused         │ │ └────────────────────┘
//!     ▼                 │ │ ended: released;  taken away
//!    Over ◄─────────────┼─┴──────────── from all states
//!     ▲    late, ended: │
//!     └──── released ───┘ renewed after half of its life
//! ```

use super::order::{Order, Request, ReservationId};
use perhop_units::{Duration, Instant};

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Asking,
    Held,
    Changing,
    Over,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Granted,
    Refused,
    /// No answer has come in time.
    Late,
    /// Something else is needed now.
    Need,
    /// Half of its life is over.
    Half,
    Ended,
    /// Whoever reserves has taken it away.
    Taken,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Change,
    Renew,
    Release,
    /// What was asked for last holds now.
    Take,
    /// What held before holds still.
    Keep,
    Nothing,
}

/// What an event does in a state; a pair that is not here changes nothing.
pub(super) fn step(state: State, event: Event) -> Option<(State, Action)> {
    use Event::{Ended, Granted, Half, Late, Need, Refused, Taken};
    use State::{Asking, Changing, Held, Over};
    Some(match (state, event) {
        (Asking, Granted) => (Held, Action::Take),
        (Asking, Refused) => (Over, Action::Nothing),
        // The answer may be under way.
        (Asking, Late) => (Over, Action::Release),
        (Held, Need) => (Changing, Action::Change),
        (Held, Half) => (Held, Action::Renew),
        (Changing, Half) => (Changing, Action::Nothing),
        (Changing, Granted) => (Held, Action::Take),
        (Changing, Refused | Late) => (Held, Action::Keep),
        (Asking | Held | Changing, Ended) => (Over, Action::Release),
        (Asking | Held | Changing, Taken) => (Over, Action::Nothing),
        _ => return None,
    })
}

/// A reservation.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) id: ReservationId,
    pub(super) state: State,
    pub(super) serial: u32,
    /// What holds, or is asked for at first.
    pub(super) request: Request,
    /// What is asked for instead.
    wanted: Option<Box<Request>>,
    /// When the answer is late.
    pub(super) late: Option<Instant>,
    /// When it is renewed.
    pub(super) renew: Instant,
}

impl Leg {
    /// Begins by asking.
    pub(super) fn new(
        now: Instant,
        id: ReservationId,
        request: Request,
        patience: Duration,
    ) -> (Self, Order) {
        let renew = now + half(&request);
        let order = Order::Reserve(id, 1, request.clone());
        let late = Some(now + patience);
        (Self { id, state: State::Asking, serial: 1, request, wanted: None, late, renew }, order)
    }

    /// Asks for something else, unless it is what holds.
    pub(super) fn need(&mut self, now: Instant, request: Request, patience: Duration) -> Option<Order> {
        if self.request == request {
            return None;
        }
        let (state, Action::Change) = step(self.state, Event::Need)? else { return None };
        self.state = state;
        self.serial += 1;
        self.late = Some(now + patience);
        self.wanted = Some(Box::new(request.clone()));
        Some(Order::Change(self.id, self.serial, request))
    }

    /// Something has happened; what is to be done outside.
    pub(super) fn take(&mut self, now: Instant, event: Event) -> Option<Order> {
        let (state, action) = step(self.state, event)?;
        self.state = state;
        if !matches!(event, Event::Half) {
            self.late = None;
        }
        match action {
            Action::Take => {
                if let Some(wanted) = self.wanted.take() {
                    self.request = *wanted;
                }
                None
            }
            Action::Keep => {
                self.wanted = None;
                None
            }
            Action::Renew => {
                self.renew = now + half(&self.request);
                Some(Order::Renew(self.id, self.request.clone()))
            }
            Action::Nothing => {
                // What is being changed lives anew with the change.
                self.renew = now + half(&self.request);
                None
            }
            Action::Release => Some(Order::Release(self.id, self.request.er.clone())),
            Action::Change => None,
        }
    }

    /// When something is due.
    pub(super) fn due(&self) -> Instant {
        self.late.map_or(self.renew, |late| late.min(self.renew))
    }
}

fn half(request: &Request) -> Duration {
    Duration::from_nanos((request.lifetime.0 / 2).max(1))
}
