//! A bounded way into a thread that leaves nobody waiting when the thread dies.
//!
//! A bounded channel of crossbeam keeps what was in it when its receiver went, and with it the answers that callers wait
//! for; an unbounded one discards it. So this is an unbounded one that refuses to grow.

use crossbeam_channel::{Receiver, Sender, TrySendError, unbounded};
use std::thread;
use std::time::Duration;

/// How long a sender that found no room waits before it looks again.
const NAP: Duration = Duration::from_millis(1);

/// The sending end. Holds `limit` messages, and at most one more for each thread that sends at the same instant.
pub(crate) struct Inlet<T> {
    to: Sender<T>,
    limit: usize,
}

impl<T> Clone for Inlet<T> {
    fn clone(&self) -> Self {
        Self { to: self.to.clone(), limit: self.limit }
    }
}

impl<T> Inlet<T> {
    pub(crate) fn new(limit: usize) -> (Self, Receiver<T>) {
        let (to, from) = unbounded();
        (Self { to, limit }, from)
    }

    /// Waits for room. `false` when the receiver is gone; the message is dropped then, now or when it went.
    pub(crate) fn send(&self, message: T) -> bool {
        // Whoever drops the receiver empties the channel, which ends this.
        while self.to.len() >= self.limit {
            thread::sleep(NAP);
        }
        self.to.send(message).is_ok()
    }

    /// Gives the message back when there is no room or no receiver.
    pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        if self.to.len() >= self.limit {
            return Err(TrySendError::Full(message));
        }
        self.to.send(message).map_err(|e| TrySendError::Disconnected(e.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_when_the_receiver_goes_is_dropped_and_the_sender_goes_on() {
        let (inlet, from) = Inlet::new(2);
        let (answer, waits) = crossbeam_channel::bounded::<()>(1);
        assert!(inlet.send(Some(answer)) && inlet.try_send(None).is_ok());
        assert!(matches!(inlet.try_send(None), Err(TrySendError::Full(_))));
        let stuck = inlet.clone();
        let sender = thread::spawn(move || stuck.send(None));
        drop(from);
        assert!(waits.recv().is_err(), "nobody will answer");
        assert!(!sender.join().unwrap());
        assert!(matches!(inlet.try_send(None), Err(TrySendError::Disconnected(_))));
    }
}
