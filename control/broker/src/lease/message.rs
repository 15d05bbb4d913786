//! What a local decision point is told and what it wants done.

use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// A flow, as the client that asked for it calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId {
    /// The client.
    pub owner: String,
    /// Its key of idempotency, unique among its flows.
    pub idem: String,
}

/// A lease, the same for its holder and for who gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId {
    /// Logical class.
    pub class: String,
    /// Where the traffic leaves: an edge, or another domain; none = anywhere.
    pub to: Option<String>,
    /// The flow that has it for itself; none = it is shared by all flows of the class that go there.
    pub flow: Option<FlowId>,
}

/// A client's request for a flow: new, changed or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowAsk {
    /// The flow.
    pub flow: FlowId,
    /// Ascends with every change that its client makes; the same version with the same content is the same request again.
    pub version: u64,
    /// Logical class.
    pub class: String,
    /// Where it leaves; as [`LeaseId::to`].
    pub to: Option<String>,
    /// What it is to have in all, bit/s: 1 to [`perhop_units::Rate::MOST`].
    pub bps: u64,
    /// It ends so long after this request, unless it is renewed.
    pub lifetime: Duration,
}

/// A question to who gives leases: what one is to have. It renews the lease, too, unless it is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// The lease.
    pub lease: LeaseId,
    /// Ascending over all questions of a holder, also over its restarts.
    pub number: u64,
    /// What it is to have in all, bit/s; 0 gives it back.
    pub bps: u64,
    /// It ends so long after this question came first, unless it is renewed.
    pub lifetime: Duration,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The lease.
    pub lease: LeaseId,
    /// Number of the question; a higher one where that was out of date.
    pub number: u64,
    /// What the lease has from now on, bit/s. More than asked for is never meant, less may be.
    pub has: u64,
    /// Why it has not what was asked for.
    pub refused: Option<Refusal>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason.
    pub code: Code,
    /// The link that has not so much; empty = no link's fault.
    pub link: String,
    /// Logical class.
    pub class: String,
    /// What was asked for, bit/s.
    pub asked_bps: u64,
    /// What is free there, bit/s.
    pub free_bps: u64,
}

impl Refusal {
    /// A refusal that no link is to blame for.
    pub fn new(code: Code, class: &str, asked_bps: u64) -> Self {
        Self { code, link: String::new(), class: class.to_owned(), asked_bps, free_bps: 0 }
    }
}

/// Why an admitted flow is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Its client has not renewed it.
    Expired,
    /// Its lease ran out while who gives it could not be reached.
    LeaseExpired,
    /// Who gave the lease has taken it back, or a part of it.
    Preempted,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A client asks.
    Flow(FlowAsk),
    /// A client wants a flow no more.
    Release(FlowId),
    /// The broker can be reached, or reached again.
    Back,
    /// It cannot: nothing that was asked will be answered.
    Lost,
    /// It has answered.
    Decision(Decision),
    /// A lease has only so much from now on, after the question of this number: the broker has taken the rest back.
    Reduced(Decision),
    /// The router has what [`Output::Want`] of this class and number says.
    Committed(String, u64),
    /// It cannot have it.
    Refused(String, u64, Refusal),
    /// Time passes.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Ask the broker.
    Ask(Ask),
    /// The router is to have so much for a class: `bps` for the flows of all its leases. Answered once by [`Input::Committed`] or
    /// [`Input::Refused`] with the number; a later one of the class takes the place of an earlier, which needs no answer then.
    Want {
        /// Logical class.
        class: String,
        /// Ascending.
        number: u64,
        /// bit/s.
        bps: u64,
    },
    /// Answer a client. A refused change leaves the flow as it was.
    Answer {
        /// The flow.
        flow: FlowId,
        /// The version that was asked for.
        version: u64,
        /// Whether it has what it asked for.
        result: Result<(), Refusal>,
    },
    /// A flow has been released, or was not there.
    Released(FlowId),
    /// Tell a client that a flow is no more, nor a request about it that waits.
    Ended(FlowId, End),
}

/// What a question is to who gives leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is to be decided; a question of the same lease that is still being decided is out of date, and not answered.
    New,
    /// It is the last again: to be answered as it was, if it was.
    Again,
    /// It is out of date: to be answered as the last was, with the last number.
    Stale,
}

/// What a question is, if the last of its lease had a number; `None` if there is no lease or its number is not known.
pub fn judge(last: Option<u64>, number: u64) -> Judged {
    match last {
        Some(last) if number == last => Judged::Again,
        Some(last) if number < last => Judged::Stale,
        _ => Judged::New,
    }
}

/// Plain text of a moment that may never come.
pub(crate) fn at(times: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    times.into_iter().flatten().filter(|at| *at < Instant::FAR_FUTURE).min()
}
