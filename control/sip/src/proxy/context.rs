//! A request under way: the response context of RFC 3261 §16.7.

use super::settings::Side;
use super::token::Token;
use crate::message::{Message, Name, Transport};
use crate::peer::Peer;
use crate::transaction::Id;
use perhop_units::Instant;
use std::collections::VecDeque;

/// A request, where it has been sent to, and what has come back.
#[derive(Debug)]
pub(super) struct Context {
    /// As it came, as long as something may have to be made of it.
    pub(super) request: Option<Message>,
    pub(super) server: Id,
    pub(super) peer: Peer,
    pub(super) side: Side,
    pub(super) invite: bool,
    /// It has no tag of To, so it is of no call yet.
    pub(super) begins: bool,
    pub(super) branches: Vec<Branch>,
    /// The best final response so far, without our Via.
    pub(super) best: Option<(u16, Vec<u8>)>,
    /// Challenges of all 401 and 407 (§16.7 item 7).
    pub(super) challenges: Vec<(Name, Vec<u8>)>,
    /// A final response has been passed on.
    pub(super) finished: bool,
    /// No further branches: it was cancelled, or somebody has sent 6xx.
    pub(super) closed: bool,
    /// Transactions that are not over.
    pub(super) transactions: u32,
}

/// One place that a request is sent to.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) number: u64,
    pub(super) state: BranchState,
    /// What is sent, without Via, Record-Route and what quality adds.
    pub(super) plan: Plan,
    /// Where else it may be sent if nobody answers there.
    pub(super) addresses: VecDeque<Peer>,
    /// Who is at the other end.
    pub(super) side: Side,
    /// The call, as our Record-Route names it.
    pub(super) call: u64,
    /// Timer C, or the end of waiting for a name.
    pub(super) due: Option<Instant>,
    /// It is to be cancelled as soon as it may be.
    pub(super) cancel: bool,
    /// CANCEL has been sent.
    pub(super) cancelled: bool,
    /// What our own Route said, and as it stands.
    pub(super) token: Option<Token>,
    pub(super) route: Option<Vec<u8>>,
}

/// Where a branch stands.
#[derive(Debug)]
pub(super) enum BranchState {
    /// Its next hop is a name.
    Resolving,
    /// Its client transaction.
    Sent(Id),
    /// A 2xx that quality decides about.
    Held(Id),
    /// Quality has refused the call. A 2xx is acknowledged by us as often as it comes; whether BYE has been sent.
    Refused(Id, bool),
    /// A final response has come; the transaction of a 2xx goes on.
    Done(Id),
    /// Nothing came of it.
    Lost,
}

/// How a request is changed for a branch.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) uri: Vec<u8>,
    /// Values of Route to be taken away at its beginning.
    pub(super) pop: usize,
    /// The last Route was taken for the request-URI.
    pub(super) pop_last: bool,
    /// For a strict router: its URI goes to the end of Route.
    pub(super) append: Option<Vec<u8>>,
    /// Where it goes.
    pub(super) hop: Option<Hop>,
}

/// The next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    Address(Peer),
    Name(String, Option<u16>, Transport),
}

impl Hop {
    pub(super) const fn transport(&self) -> Transport {
        match self {
            Self::Address(peer) => peer.transport,
            Self::Name(_, _, transport) => *transport,
        }
    }
}

impl Branch {
    pub(super) const fn client(&self) -> Option<Id> {
        match self.state {
            BranchState::Sent(id)
            | BranchState::Held(id)
            | BranchState::Refused(id, _)
            | BranchState::Done(id) => Some(id),
            BranchState::Resolving | BranchState::Lost => None,
        }
    }

    /// Whether no final response has come and none is given up.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, BranchState::Resolving | BranchState::Sent(_) | BranchState::Held(_))
    }
}

impl Context {
    pub(super) fn branch(&mut self, number: u64) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.number == number)
    }

    /// Takes a final response that is none of success. §16.7 item 6: 6xx first, else the lowest class; within 4xx those that tell how to ask
    /// again.
    pub(super) fn keep(&mut self, status: u16, response: Vec<u8>) {
        let rank = |status: u16| match status {
            600.. => (0, 0),
            401 | 407 | 415 | 420 | 484 => (4, 0),
            // 503 would say that this proxy serves nobody.
            503 => (5, 2),
            status => (status / 100, 1),
        };
        if self.best.as_ref().is_none_or(|(best, _)| rank(status) < rank(*best)) {
            self.best = Some((status, response));
        }
    }
}
