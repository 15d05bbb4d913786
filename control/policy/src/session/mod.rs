//! Users: who is where, with which contract, until when.
//!
//! ```text
//!              came               came elsewhere                reported, late
//!   Absent ─────────────► Present ────────────────► Moving ─────────────────────► Present
//!      ▲                   │ ⟲ came, used, changed    │ ⟲ came elsewhere
//!      └── left, ended ────┴──────────────────────────┘
//! ```
//!
//! The subscriber is the key, so nobody has two sessions on record. Who comes elsewhere has the new place written first; what it
//! had at the old one goes when the new router has reported that it has what it should, or after [`LEAVE_AFTER`]. A report of
//! an earlier place is told by its name, by the number of moves, or by its age, and changes nothing.
//!
//! Changes are collected and written in groups, each with what routers are to have because of it; whoever asked is answered when
//! the group is written. While an edition is being written ([`Input::Hold`]) groups wait, as they are made from the policy in
//! force. What could not be written is written again with the next group.

mod clock;
mod machine;
mod row;
mod states;

pub use clock::{Why, Zone};
pub use machine::{Kept, Users};
pub use row::{Change, Leaving, SessionRow, Usage};

use crate::compile::Rates;
use crate::diff::ObjectChange;
use crate::model::Policy;
use ipnet::IpNet;
use perhop_model::Name;
use perhop_reason::Code;
use perhop_units::Duration;
use std::sync::Arc;
use thiserror::Error;

/// Sessions of which a group has changes at most.
pub const GROUP: usize = 10_000;
/// Who waits to be answered at most.
pub const MAX_WAITING: usize = 65_536;
/// Places that a subscriber is leaving at the same time; of more the oldest goes at once.
pub const MAX_LEAVING: usize = 4;
/// What a subscriber had at an old place goes then, also if the new router says nothing.
pub const LEAVE_AFTER: Duration = Duration::from_secs(30);
/// Octets of a session's name.
pub const MAX_ID: usize = 253;
/// What could not be written is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// A subscriber is somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Who.
    pub subscriber: Name,
    /// How whoever reports it calls the session.
    pub id: String,
    /// Where: the router.
    pub router: Name,
    /// Its port.
    pub port: Name,
    /// Addresses, besides those of the subscriber.
    pub prefixes: Vec<IpNet>,
    /// By whom it is reported.
    pub source: String,
    /// What it was given.
    pub grant: Grant,
    /// How long ago that was.
    pub age: Duration,
}

/// What a session is given; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    /// A contract by name; one that the policy does not have counts as none.
    pub sla: Option<Name>,
    /// Rates in the place of the contract's.
    pub rates: Rates,
    /// It ends after this.
    pub session_timeout: Option<Duration>,
    /// It ends after so long a silence.
    pub idle_timeout: Option<Duration>,
}

/// Which session.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
    /// By its name, of this router.
    Session {
        /// The router.
        router: Name,
        /// The name.
        id: String,
    },
    /// That of a subscriber; if `moves` is given, only if it has moved so often.
    Subscriber {
        /// The subscriber.
        name: Name,
        /// How often.
        moves: Option<u64>,
    },
}

/// What the machine is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A subscriber is there; answered.
    Came {
        /// Chosen by the caller.
        request: u64,
        /// Who and where.
        arrival: Box<Arrival>,
    },
    /// A session goes on: as [`Input::Came`] if it is not known, else what it has used counts.
    Used {
        /// Chosen by the caller; answered.
        request: u64,
        /// Who and where.
        arrival: Box<Arrival>,
        /// Octets of the session so far, both directions.
        octets: u64,
    },
    /// A session is over; answered. One that is not there any more is no error.
    Left {
        /// Chosen by the caller.
        request: u64,
        /// Which.
        which: Which,
        /// Octets of the whole session, if they are known.
        octets: Option<u64>,
    },
    /// A session is given something else; answered.
    Grant {
        /// Chosen by the caller.
        request: u64,
        /// Which.
        which: Which,
        /// What.
        grant: Grant,
    },
    /// All sessions of a router that are older are over: its access server started anew, or stops.
    Restarted {
        /// The router.
        router: Name,
        /// How long ago that was.
        age: Duration,
    },
    /// A router has everything up to this change of the feed.
    Reported {
        /// The router.
        router: Name,
        /// The change.
        seq: u64,
    },
    /// An edition is being written: groups wait for [`Input::Policy`].
    Hold,
    /// The policy in force from now on, or still.
    Policy(Arc<Policy>),
    /// Answer to [`Output::Write`].
    Written {
        /// Of that.
        group: u64,
        /// Number of its last change of the feed; none = it is not written. Where nobody knows, the machine has to begin anew
        /// from what is kept.
        seq: Option<u64>,
    },
    /// Time passes.
    Tick,
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Write these in one transaction, in this order.
    Write {
        /// Ascending, of the process.
        group: u64,
        /// Rows.
        changes: Vec<Change>,
        /// What routers are to have because of it: new places before old ones.
        feed: Vec<ObjectChange>,
    },
    /// Tell who asked: how often the session has moved, 0 if there is none.
    Answer {
        /// To whom.
        request: u64,
        /// What.
        answer: Result<u64, Refused>,
    },
    /// A session ended by itself: whoever serves it is to end it too.
    Ended {
        /// As it was.
        row: Box<SessionRow>,
        /// Why.
        why: Why,
    },
    /// Another contract counts for a session.
    Changed {
        /// As it is.
        row: Box<SessionRow>,
    },
}

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The policy has no such subscriber.
    #[error("there is no such subscriber")]
    NoSubscriber,
    /// The policy has no such router or port.
    #[error("there is no such port of a router")]
    NoPlace,
    /// The subscriber is always somewhere.
    #[error("the subscriber is always at one place and does not log in")]
    Fixed,
    /// It has no address there.
    #[error("the subscriber has no address there")]
    NoAddress,
    /// A name is too long, or there are too many addresses.
    #[error("the name of the session is longer than {MAX_ID} octets, or it has too many addresses")]
    TooLong,
    /// The session is elsewhere by now.
    #[error("the session is elsewhere by now")]
    Elsewhere,
    /// There is no such session.
    #[error("there is no such session")]
    NoSession,
    /// It could not be written; it will be.
    #[error("it could not be written yet")]
    NotWritten,
    /// Too many wait.
    #[error("too many requests at a time")]
    Overload,
}

impl Refused {
    /// The reason, as in every interface.
    pub const fn code(self) -> Code {
        match self {
            Self::NoSubscriber | Self::NoSession => Code::NotFound,
            Self::NoPlace => Code::BadReference,
            Self::Fixed => Code::Forbidden,
            Self::NoAddress => Code::Malformed,
            Self::TooLong => Code::OutOfRange,
            Self::Elsewhere => Code::HeldElsewhere,
            Self::NotWritten => Code::BackendFailed,
            Self::Overload => Code::Overload,
        }
    }
}
