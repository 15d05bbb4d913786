//! Whether a receiver must be woken.
//!
//! A receiver that is awake looks at its rings by itself, and a system call for each batch would cost more than the batch.
//! So it says before it sleeps that it does, and then looks once more; a sender puts its items first and looks at the bell
//! then. In every order of these four steps one of the two sees the other.

use crate::cell::{AtomicBool, Ordering, fence};

/// A receiver's bell. Silent at first.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

impl Bell {
    /// Of a receiver that is awake.
    pub fn new() -> Self {
        Self { asleep: AtomicBool::new(false) }
    }

    /// The receiver is about to sleep. It must look at everything that it receives from after this call, and sleep only if
    /// all is empty.
    pub fn doze(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The receiver is awake, for whatever reason.
    pub fn rouse(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Called by a sender after it has put something: whether the receiver may be asleep. Then the sender must wake it;
    /// of several senders one is told.
    #[inline]
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let bell = Bell::new();
        assert!(!bell.ring(), "awake");
        bell.doze();
        assert!(bell.ring() && !bell.ring(), "one sender wakes it");
        bell.doze();
        bell.rouse();
        assert!(!bell.ring(), "woke by itself");
    }
}
