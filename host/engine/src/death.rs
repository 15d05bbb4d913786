//! Threads that end without being told to: noticed, named, and told to whoever can act on it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// A thread of a router or an emulator that ended without being told to. Nothing is forwarded after it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{name}\" forwards nothing any more: its {thread} thread died: {why}")]
pub struct ThreadDeath {
    /// Router or emulator.
    pub name: String,
    /// Which thread: `packet`, `control` or `facts`.
    pub thread: &'static str,
    /// What it panicked with, or that it returned.
    pub why: String,
}

/// Set before threads are told to end: an end that follows is no death.
pub(crate) type Stopping = Arc<AtomicBool>;

/// Stands beside a thread and reports its death.
pub(crate) struct Sentinel {
    name: String,
    thread: &'static str,
    stopping: Stopping,
    report: Box<dyn FnOnce(ThreadDeath) + Send>,
}

impl Sentinel {
    pub(crate) fn new(
        name: &str,
        thread: &'static str,
        stopping: &Stopping,
        report: impl FnOnce(ThreadDeath) + Send + 'static,
    ) -> Self {
        Self { name: name.to_owned(), thread, stopping: Arc::clone(stopping), report: Box::new(report) }
    }

    /// Does the whole work of the calling thread. A panic, or a return before the stop, is reported when everything that
    /// `work` owned is gone. `None` after a panic.
    pub(crate) fn guard<T>(self, work: impl FnOnce() -> T) -> Option<T> {
        // What unwinding leaves inconsistent is owned by `work` and gone; what is shared are channels and atomics.
        let (done, why) = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) if self.stopping.load(Ordering::Acquire) => return Some(done),
            Ok(done) => (Some(done), "it returned without being told to".to_owned()),
            Err(payload) => (None, format!("panic: {}", message(&*payload))),
        };
        (self.report)(ThreadDeath { name: self.name, thread: self.thread, why });
        done
    }
}

/// What `panic!` was given.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn watched(stopped: bool, work: impl FnOnce() -> u8) -> (Option<u8>, Option<ThreadDeath>) {
        let told = Arc::new(Mutex::new(None));
        let (stopping, to) = (Stopping::default(), Arc::clone(&told));
        stopping.store(stopped, Ordering::Release);
        let sentinel = Sentinel::new("edge", "packet", &stopping, move |d| *to.lock().unwrap() = Some(d));
        let done = sentinel.guard(work);
        let death = told.lock().unwrap().take();
        (done, death)
    }

    #[test]
    fn a_panic_is_reported_with_its_message_even_during_a_stop() {
        for stopped in [false, true] {
            let (done, death) = watched(stopped, || panic!("queue {} is gone", 7));
            assert_eq!(done, None);
            let text = death.unwrap().to_string();
            assert_eq!(
                text,
                "\"edge\" forwards nothing any more: its packet thread died: panic: queue 7 is gone"
            );
        }
    }

    #[test]
    fn only_a_return_that_was_ordered_is_no_death() {
        assert_eq!(watched(true, || 3), (Some(3), None));
        let (done, death) = watched(false, || 3);
        assert_eq!((done, death.unwrap().thread), (Some(3), "packet"));
    }
}
