//! The answers that a client has had: a message that comes again is answered again.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};

/// What a message said, for telling whether one that comes with the same number says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self(hasher.finish())
    }
}

/// The last answers, of one instance of a client. Nothing iterates over the map.
#[derive(Debug, Default)]
pub(super) struct Answers {
    by_txn: HashMap<u64, (Digest, Box<[u8]>)>,
    order: VecDeque<u64>,
}

impl Answers {
    /// Keeps an answer, and forgets the oldest beyond `most`.
    pub(super) fn keep(&mut self, most: usize, txn: u64, digest: Digest, answer: &[u8]) {
        if self.by_txn.insert(txn, (digest, answer.into())).is_none() {
            self.order.push_back(txn);
        }
        while self.order.len() > most {
            let oldest = self.order.pop_front();
            oldest.map(|txn| self.by_txn.remove(&txn));
        }
    }

    /// The answer to a message with this number, and what that message said.
    pub(super) fn find(&self, txn: u64) -> Option<(Digest, &[u8])> {
        self.by_txn.get(&txn).map(|(digest, answer)| (*digest, &**answer))
    }

    /// A new instance of the client numbers anew.
    pub(super) fn forget(&mut self) {
        self.by_txn.clear();
        self.order.clear();
    }
}
