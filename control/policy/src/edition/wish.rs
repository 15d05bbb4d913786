//! What somebody wants of editions, what the machine is told and wants done, and why a wish is not granted.

use super::{Group, MAX_TEXT};
use crate::model::Policy;
use crate::validate::Problem;
use perhop_reason::Code;
use perhop_units::Duration;
use std::sync::Arc;
use thiserror::Error;

/// What somebody wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Make this policy the candidate; answered when it was tried, if it is to be.
    Propose {
        /// The policy.
        policy: Box<Policy>,
        /// The edition that it was made from: it must be the one in force.
        base: u64,
        /// Whether it is to be tried before it can be committed.
        trial: bool,
    },
    /// Drop the candidate.
    Withdraw,
    /// Put the candidate in force.
    Commit {
        /// Why.
        reason: String,
        /// Unless it is confirmed in this time it returns.
        confirm_within: Option<Duration>,
    },
    /// Keep what is in force.
    Confirm,
    /// Put the policy of another edition in force; of one that waits to be confirmed, the one before it.
    Rollback {
        /// Which.
        to: u64,
        /// Why.
        reason: String,
    },
}

/// A guarantee that would break.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The class.
    pub class: String,
    /// What is measured: `delay_ms`, `loss_ppm`, `mos_milli`.
    pub measure: String,
    /// What it would be.
    pub figure: u64,
    /// What it may be.
    pub bound: u64,
}

/// Why a wish is not granted.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refused {
    /// The policy has faults: all of them.
    #[error("the policy has {} faults", .0.len())]
    Faults(Vec<Problem>),
    /// It would break guarantees: all of them.
    #[error("the policy would break {} guarantees", .0.len())]
    Broken(Vec<Broken>),
    /// It was made from another edition than the one in force.
    #[error("edition {in_force} is in force")]
    Stale {
        /// The one in force.
        in_force: u64,
    },
    /// An edition waits to be confirmed.
    #[error("edition {0} waits to be confirmed")]
    Pending(u64),
    /// There is no candidate, or it was not tried yet.
    #[error("there is no candidate that could be committed")]
    NoCandidate,
    /// Nothing waits to be confirmed.
    #[error("nothing waits to be confirmed")]
    NothingPending,
    /// Something is being written.
    #[error("another change is being written")]
    Busy,
    /// There is no such edition.
    #[error("there is no edition {0}")]
    NoEdition(u64),
    /// It could not be written.
    #[error("it could not be written")]
    NotWritten,
    /// A text is too long, or a time out of range.
    #[error("a text is longer than {MAX_TEXT} characters, or the time to confirm is not from 1 s to 7 days")]
    OutOfRange,
}

impl Refused {
    /// The reason, as in every interface.
    pub fn code(&self) -> Code {
        match self {
            Self::Faults(all) => all.first().map_or(Code::Malformed, |problem| problem.fault.code()),
            Self::Broken(_) => Code::NoCapacity,
            Self::Stale { .. } => Code::StaleRevision,
            Self::Pending(_) => Code::PendingConfirm,
            Self::NoCandidate | Self::NothingPending | Self::NoEdition(_) => Code::NotFound,
            Self::Busy => Code::Overload,
            Self::NotWritten => Code::BackendFailed,
            Self::OutOfRange => Code::OutOfRange,
        }
    }
}

/// What the machine is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody wants something; answered by [`Output::Answer`] with the same `request`.
    Wish {
        /// Chosen by the caller.
        request: u64,
        /// Who wants it, allowed to by whoever asks.
        by: String,
        /// What.
        wish: Wish,
    },
    /// Answer to [`Output::Try`]; empty: nothing would break.
    Tried {
        /// Of that.
        candidate: u64,
        /// What would break.
        broken: Vec<Broken>,
    },
    /// Answer to [`Output::Load`]; none = it cannot be read.
    Loaded {
        /// Of that.
        edition: u64,
        /// Its policy.
        policy: Option<Box<Policy>>,
    },
    /// Answer to [`Output::Write`].
    Written {
        /// Of that.
        group: u64,
        /// Whether it is. Where nobody knows, the machine has to begin anew from what is kept.
        done: bool,
    },
    /// Time passes.
    Tick,
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Tell who asked: the edition that came of it, or the one in force.
    Answer {
        /// To whom.
        request: u64,
        /// What.
        answer: Result<u64, Refused>,
    },
    /// Try this before it is committed.
    Try {
        /// To be repeated.
        candidate: u64,
        /// The policy.
        policy: Arc<Policy>,
    },
    /// Read the policy of this edition from the store.
    Load {
        /// Which.
        edition: u64,
    },
    /// Write this, with what agents take over because of it, in one transaction.
    Write {
        /// The rows.
        group: Group,
        /// The policy in force so far.
        before: Arc<Policy>,
        /// The policy from then on.
        after: Arc<Policy>,
    },
    /// This edition is in force from now on.
    InForce {
        /// Which.
        edition: u64,
        /// Its policy.
        policy: Arc<Policy>,
    },
}
