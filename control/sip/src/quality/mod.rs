//! What a proxy asks about the quality of calls: a [`Quality`] sees the messages that pass, adds to them, and may hold a response until it
//! knows whether there is room. The proxy knows nothing of reservations, and a quality nothing of transactions.

mod calls;
mod dialog;
#[cfg(test)]
mod endurance_tests;
mod header;
mod leg;
mod order;
mod pass;
mod settings;
mod settle;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tshark_tests;

pub use calls::{Calls, Counters};
pub use header::{Descriptor, Dir, Mode};
pub use order::{Ending, Order, Record, Request, ReservationId, Reserved, sum};
pub use settings::{Ask, Edge, OnRefusal, Rule, Settings};

use crate::message::{Head, Message, Uri};
use crate::proxy::Side;
use perhop_units::Instant;

/// A message that is about to be passed on.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// The message as it came.
    pub message: &'a Message,
    /// Its head.
    pub head: &'a Head<'a>,
    /// The proxy's number of the branch that began the call, which later requests bring back; 0 where there is none.
    pub call: u64,
    /// Whether it is of the request that may begin a call: one without a tag of To.
    pub begins: bool,
    /// Who sits where the message comes from.
    pub from: Side,
    /// Who sits where it goes.
    pub to: Side,
    /// The proxy's own Record-Route as a request within a call brings it back.
    pub route: Option<&'a Uri<'a>>,
}

/// What is changed in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether the header that proxies talk by is taken out.
    pub strip: bool,
    /// The header's value to be put in.
    pub header: Option<String>,
    /// Parameters (`;name=value`) of the proxy's own Record-Route, if it puts one in.
    pub record: String,
}

/// A response that is held.
pub type Ticket = u64;

/// What becomes of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is passed on.
    Pass(Change),
    /// It waits until [`Quality::poll_decided`] names this ticket. The same response may come again meanwhile: it has the same ticket.
    Hold(Ticket),
    /// The call is ended towards the callee and refused towards the caller.
    Refuse {
        /// Status code.
        status: u16,
        /// The value of Reason.
        reason: String,
    },
}

/// Decides what is reserved for calls.
pub trait Quality {
    /// A request is passed on. It is not called again for its repetitions.
    fn request(&mut self, now: Instant, passing: &Passing<'_>) -> Change;

    /// A provisional or successful response is passed on. It is called again for each repetition.
    fn response(&mut self, now: Instant, passing: &Passing<'_>) -> Verdict;

    /// A branch that may have begun a call has come to nothing.
    fn failed(&mut self, now: Instant, call: u64);

    /// What was decided about a response that is held. A ticket is decided once, at the latest when [`Self::wake`] says so.
    fn poll_decided(&mut self) -> Option<(Ticket, Verdict)>;

    /// Does what its time has come for.
    fn wake(&mut self, now: Instant);

    /// When [`Self::wake`] has something to do.
    fn next_wakeup(&self) -> Option<Instant>;
}

/// Reserves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoQuality;

impl Quality for NoQuality {
    fn request(&mut self, _: Instant, _: &Passing<'_>) -> Change {
        Change::default()
    }
    fn response(&mut self, _: Instant, _: &Passing<'_>) -> Verdict {
        Verdict::Pass(Change::default())
    }
    fn failed(&mut self, _: Instant, _: u64) {}
    fn poll_decided(&mut self) -> Option<(Ticket, Verdict)> {
        None
    }
    fn wake(&mut self, _: Instant) {}
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}
