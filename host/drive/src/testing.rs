//! A machine, a clock and a stream of the tests' own.

use crate::machine::Machine;
use crate::timer::Timer;
use perhop_units::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A stream of random words: a 64-bit linear congruence, folded.
pub(crate) fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 33).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Runs a future with a runtime that has no timers.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Time that stands still while anybody has something to do, and then goes to what is waited for first.
#[derive(Clone, Default)]
pub(crate) struct VirtualTime {
    now: Rc<Cell<Instant>>,
    /// Times waited for, and by how many.
    waiting: Rc<RefCell<BTreeMap<Instant, usize>>>,
}

/// Turns after which nobody has anything to do.
const TURNS: usize = 64;

impl VirtualTime {
    /// Somebody was busy for so long.
    pub(crate) fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }
}

impl Timer for VirtualTime {
    fn now(&self) -> Instant {
        self.now.get()
    }

    async fn until(&self, at: Instant) {
        struct Waits<'a>(&'a VirtualTime, Instant);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                let mut waiting = self.0.waiting.borrow_mut();
                let left = waiting.remove(&self.1).unwrap() - 1;
                waiting.extend((left > 0).then_some((self.1, left)));
            }
        }
        *self.waiting.borrow_mut().entry(at).or_default() += 1;
        let _waits = Waits(self, at);
        let mut turns = 0;
        while self.now() < at {
            tokio::task::yield_now().await;
            let first = self.waiting.borrow().keys().next() == Some(&at);
            turns = if first { turns + 1 } else { 0 };
            if turns > TURNS && at < Instant::FAR_FUTURE {
                self.now.set(self.now().max(at));
            }
        }
    }
}

/// What the counting machine is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Add(u64),
    /// It counts by one every so often.
    Every(Duration),
    End,
    Appeared,
    Gone,
    Tick,
}

/// What it wants done: that its sum be told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wants {
    Sum(Instant, u64),
    Ask(u64),
}

/// A machine that counts: what it is told, and time.
#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) sum: u64,
    every: Option<Duration>,
    next: Option<Instant>,
    over: bool,
    outputs: VecDeque<Wants>,
}

impl Counting {
    /// That begins to count at a number.
    pub(crate) fn from(sum: u64) -> Self {
        Self { sum, outputs: [Wants::Sum(Instant::ZERO, sum)].into(), ..Self::default() }
    }
}

impl Machine for Counting {
    type Input = Told;
    type Output = Wants;

    fn handle_input(&mut self, now: Instant, input: Told) {
        assert!(self.outputs.is_empty(), "all outputs are polled before the next input");
        match input {
            Told::Add(number) => self.sum += number,
            Told::Every(time) => (self.every, self.next) = (Some(time), Some(now + time)),
            Told::End => self.over = true,
            Told::Appeared => self.outputs.push_back(Wants::Ask(self.sum)),
            Told::Gone | Told::Tick => {}
        }
        while let Some(next) = self.next.filter(|next| *next <= now) {
            self.sum += 1;
            self.next = self.every.map(|time| next + time);
        }
        self.outputs.push_back(Wants::Sum(now, self.sum));
    }

    fn poll_output(&mut self) -> Option<Wants> {
        self.outputs.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.next
    }

    fn tick() -> Told {
        Told::Tick
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
