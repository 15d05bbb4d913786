//! Clocks and timers by which machines are driven.

use perhop_io::clock;
use perhop_units::Instant;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A clock that can be waited for.
pub trait Timer {
    /// The time.
    fn now(&self) -> Instant;

    /// Resolves at this time or as soon after it as can be, never before; [`Instant::FAR_FUTURE`] is never.
    fn until(&self, at: Instant) -> impl Future<Output = ()>;
}

/// The timer of the asynchronous runtime, for a task: 1 to 2 ms late.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn now(&self) -> Instant {
        clock::monotonic()
    }

    async fn until(&self, at: Instant) {
        while self.now() < at {
            tokio::time::sleep(at.since(self.now()).to_std()).await;
        }
    }
}

/// The timer of a thread that does nothing else: as late as the kernel wakes the thread, by 50 µs where its timer slack is
/// as it usually is.
pub struct ThreadTimer<C> {
    clock: C,
    /// The next time that somebody waits for.
    due: Cell<Instant>,
}

impl<C: Fn() -> Instant> ThreadTimer<C> {
    /// By `clock`, which goes as fast as [`clock::monotonic`] or stands still.
    pub fn new(clock: C) -> Self {
        Self { clock, due: Cell::new(Instant::FAR_FUTURE) }
    }

    /// Runs a future on this thread to its end. What it waits for besides this timer may be woken by any thread.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            self.due.set(Instant::FAR_FUTURE);
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
            // Woken for another reason, it asks again and finds nothing to do.
            match self.due.get() {
                Instant::FAR_FUTURE => std::thread::park(),
                due => std::thread::park_timeout(due.since(self.now()).to_std()),
            }
        }
    }
}

impl<C: Fn() -> Instant> Timer for ThreadTimer<C> {
    fn now(&self) -> Instant {
        (self.clock)()
    }

    async fn until(&self, at: Instant) {
        poll_fn(|_| {
            if self.now() >= at {
                return Poll::Ready(());
            }
            self.due.set(self.due.get().min(at));
            Poll::Pending
        })
        .await;
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Duration;

    #[test]
    fn a_thread_waits_for_the_first_of_several_times_and_never_too_short() {
        let timer = ThreadTimer::new(clock::monotonic);
        let now = timer.now();
        let (near, far) = (now + Duration::from_millis(3), Instant::FAR_FUTURE);
        timer.block_on(async {
            tokio::select! { () = timer.until(near) => {} () = timer.until(far) => panic!("never is over") }
        });
        assert!(timer.now() >= near);
    }

    #[test]
    fn a_thread_that_waits_is_woken_by_another() {
        let timer = ThreadTimer::new(clock::monotonic);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || sender.send(7));
        assert_eq!(timer.block_on(receiver), Ok(7));
        other.join().unwrap().unwrap();
    }

    #[test]
    fn a_task_never_waits_too_short() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let at = clock::monotonic() + Duration::from_micros(1_300);
        runtime.block_on(RuntimeTimer.until(at));
        assert!(clock::monotonic() >= at);
    }
}
