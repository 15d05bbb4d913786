//! What a packet thread tells the control thread, which it must never wait for.
//!
//! The way is bounded. What may be missed is dropped and counted once only the reserve is left; what correctness needs
//! has the reserve, and beyond it waits here, in order, until there is room. How much may wait is bounded by what there
//! is to tell: one loss and one close a socket, one answer a question, one notice a change sent and a leaf removed.

use crossbeam_channel::{Sender, TrySendError};
use std::collections::VecDeque;

/// Messages that may be on the way to the control thread.
pub(crate) const CAPACITY: usize = 8192;
/// Of these, room that only what must arrive may take.
const RESERVE: usize = 1024;

/// The packet thread's end.
pub(crate) struct Outbox<T> {
    to: Sender<T>,
    reserve: usize,
    kept: VecDeque<T>,
    dropped: u64,
}

impl<T> Outbox<T> {
    pub(crate) fn new(to: Sender<T>) -> Self {
        let reserve = RESERVE.min(to.capacity().unwrap_or(usize::MAX) / 2);
        Self { to, reserve, kept: VecDeque::new(), dropped: 0 }
    }

    /// Tells what may be missed: `false` when it is dropped.
    pub(crate) fn offer(&mut self, message: T) -> bool {
        let most = self.to.capacity().unwrap_or(usize::MAX) - self.reserve;
        let sent = self.kept.is_empty() && self.to.len() < most && self.to.try_send(message).is_ok();
        self.dropped += u64::from(!sent);
        sent
    }

    /// Tells what must arrive, now or at a later [`Outbox::flush`].
    pub(crate) fn deliver(&mut self, message: T) {
        self.kept.push_back(message);
        self.flush();
    }

    /// Sends what waits, as far as there is room. `false` when something still waits: call again soon.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(message) = self.kept.pop_front() {
            match self.to.try_send(message) {
                // Nobody listens any more: it is the end.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(message)) => {
                    self.kept.push_front(message);
                    return false;
                }
            }
        }
        true
    }

    /// Messages that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn what_may_be_missed_is_counted_and_what_must_arrive_does_in_order() {
        let (to, from) = bounded(8);
        let mut outbox = Outbox::new(to);
        let accepted = (0..100).filter(|n| outbox.offer(("event", *n))).count();
        assert_eq!((accepted, outbox.dropped()), (4, 96), "half is reserved");
        for n in 0..20 {
            outbox.deliver(("must", n));
        }
        assert!(!outbox.flush() && !outbox.offer(("event", 0)), "four fit into the reserve");
        let mut must = Vec::new();
        while must.len() < 20 {
            must.extend(from.try_iter().filter(|(kind, _)| *kind == "must").map(|(_, n)| n));
            outbox.flush();
        }
        assert_eq!(must, (0..20).collect::<Vec<_>>());
        assert!(outbox.flush() && outbox.offer(("event", 1)));
        drop(from);
        outbox.deliver(("must", 0));
        assert!(outbox.flush(), "nobody listens");
    }
}
