//! How one that puts into the rings of several knows that they have taken everything, without looking into the rings.

use crate::cell::{AtomicUsize, Ordering};

/// Rounds of one sender with several receivers: it puts, asks, and goes on when all have answered. Nobody waits in here.
#[derive(Debug)]
pub struct Rounds {
    asked: AtomicUsize,
    /// The last question that each receiver has answered.
    answered: Box<[AtomicUsize]>,
}

impl Rounds {
    /// For so many receivers. There is no open question.
    pub fn new(receivers: usize) -> Self {
        let answered = (0..receivers).map(|_| AtomicUsize::new(0)).collect();
        Self { asked: AtomicUsize::new(0), answered }
    }

    /// The sender asks whether what it has put is taken. Not while a question is open.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// Whether all receivers have answered the last question: they have taken what was put before it.
    pub fn is_answered(&self) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        self.answered.iter().all(|answered| answered.load(Ordering::Acquire) == asked)
    }

    /// What a receiver is to give to [`Rounds::answer`] when it has taken everything that it finds from now on.
    pub fn question(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }

    /// Receiver `receiver` has taken everything that was put before `question` was asked.
    pub fn answer(&self, receiver: usize, question: usize) {
        if let Some(answered) = self.answered.get(receiver) {
            answered.store(question, Ordering::Release);
        }
    }
}
