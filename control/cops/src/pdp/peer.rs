//! What a PDP remembers of a client of a PEP: its requests, by their handles. What they ask is the caller's to keep.

use super::states::{Request as State, RequestEvent, request_step};
use crate::wire::{Error, Handle};
use perhop_units::Instant;
use std::collections::{BTreeMap, VecDeque};

/// A decision that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    /// By the caller, on the question of this number.
    Answer(u64),
    /// An error that waits for those before it: decisions are given in the order of the requests (RFC 2748 §3.2).
    Error(Error),
}

/// A request.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) state: State,
    pub(super) owed: VecDeque<Owed>,
    /// A decision has been given at some time.
    pub(super) is_decided: bool,
}

impl Installed {
    pub(super) fn new() -> Self {
        Self { state: State::Asked, owed: VecDeque::new(), is_decided: false }
    }

    /// Whether it is still there.
    fn step(&mut self, event: RequestEvent) -> bool {
        match request_step(self.state, event) {
            Some(next) => {
                self.state = next;
                true
            }
            None => false,
        }
    }

    pub(super) fn asked(&mut self, owed: Owed) {
        self.step(RequestEvent::Asked);
        self.owed.push_back(owed);
    }

    /// The oldest decision that was owed is given.
    pub(super) fn answered(&mut self) {
        self.owed.pop_front();
        if self.owed.is_empty() {
            self.owed = VecDeque::new();
            self.step(RequestEvent::Answered);
        }
    }
}

/// A client of a PEP.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The connection it is on.
    pub(super) connection: Option<u64>,
    pub(super) requests: BTreeMap<Handle, Installed>,
    /// It has been asked for all of its requests.
    pub(super) is_syncing: bool,
    /// Without a connection: when its requests are forgotten.
    pub(super) kept_until: Option<Instant>,
}

impl Peer {
    /// It is on another connection: nothing is owed on the old one.
    pub(super) fn resume(&mut self) {
        for installed in self.requests.values_mut() {
            installed.step(RequestEvent::Resumed);
            installed.owed = VecDeque::new();
        }
    }

    /// It has asked all that it has. Gives what it has not asked.
    pub(super) fn complete(&mut self) -> Vec<Handle> {
        self.is_syncing = false;
        let mut gone = Vec::new();
        self.requests.retain(|handle, installed| {
            let stays = installed.step(RequestEvent::Complete);
            if !stays {
                gone.push(handle.clone());
            }
            stays
        });
        gone
    }
}
