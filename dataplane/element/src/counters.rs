//! Counters every element has, and the conservation law they must satisfy.

use perhop_packet::DropReason;
use thiserror::Error;

/// Receives an element's counters.
pub trait CounterSink {
    /// One counter: snake_case name, monotonic value.
    fn counter(&mut self, name: &str, value: u64);
    /// One gauge: a value that goes up and down (queue length, tokens).
    fn gauge(&mut self, name: &str, value: u64) {
        self.counter(name, value);
    }
}

impl CounterSink for Vec<(String, u64)> {
    fn counter(&mut self, name: &str, value: u64) {
        self.push((name.to_owned(), value));
    }
}

/// Book-keeping of one element, in packets. Bytes are kept by the elements that need them.
#[derive(Clone, Debug)]
pub struct NodeCounters {
    /// Pushed in.
    pub received: u64,
    /// Made inside: copies, fragments, ICMP errors, sources.
    pub made: u64,
    /// Emitted.
    pub emitted: u64,
    /// Ended here on purpose: transmitted, delivered locally, replaced by fragments.
    pub consumed: u64,
    /// Dropped, all reasons.
    pub dropped: u64,
    /// Dropped by [`DropReason::index`].
    pub drops: Box<[u64; DropReason::COUNT]>,
}

impl Default for NodeCounters {
    fn default() -> Self {
        Self {
            received: 0,
            made: 0,
            emitted: 0,
            consumed: 0,
            dropped: 0,
            drops: Box::new([0; DropReason::COUNT]),
        }
    }
}

/// An element whose books do not balance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{element}: {received} in + {made} made != {emitted} out + {consumed} consumed + {dropped} dropped + {held} held"
)]
#[allow(missing_docs, reason = "the message names every field")]
pub struct ConservationError {
    pub element: String,
    pub received: u64,
    pub made: u64,
    pub emitted: u64,
    pub consumed: u64,
    pub dropped: u64,
    pub held: u64,
}

impl NodeCounters {
    /// Checks `in + made = out + consumed + dropped + held`.
    ///
    /// # Errors
    /// The unbalanced figures.
    pub fn check(&self, element: &str, held: u64) -> Result<(), ConservationError> {
        if self.received + self.made == self.emitted + self.consumed + self.dropped + held {
            return Ok(());
        }
        Err(ConservationError {
            element: element.to_owned(),
            received: self.received,
            made: self.made,
            emitted: self.emitted,
            consumed: self.consumed,
            dropped: self.dropped,
            held,
        })
    }
}
