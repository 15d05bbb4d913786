//! Holding acknowledgments back, so that a flow below one segment a round trip sends one segment in the time that its rate
//! needs for one.

use hashbrown::HashMap;
use perhop_units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The longest that an acknowledgment is held: well below the first retransmission time-out (RFC 6298 §2).
pub(crate) const LONGEST: Duration = Duration::from_millis(800);
/// How long one may be held at first; half as much again with every one, so that the sender's time-out keeps up.
const FIRST: Duration = Duration::from_millis(20);

/// When the acknowledgments of one direction's data were let go.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// When the last packet goes that passed here.
    last: Instant,
    /// When it should have gone by the rate.
    due: Instant,
    /// How long the next may be held.
    reach: Duration,
}

/// For how long an acknowledgment lets a sender send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    /// What the rate needs for it.
    pub time: Duration,
    /// How long after the one before it goes at least, also where it is late.
    pub gap: Duration,
    /// How much of a delay is made up for by the next ones.
    pub slack: Duration,
    /// The longest that it is held.
    pub longest: Duration,
}

/// How often flows that are no longer paced are looked for when there is no room.
const SWEEP: Duration = Duration::from_millis(100);

/// Release times of the flows that are paced, at most a fixed number of them. They outlive their connection, so that
/// nothing of a successor overtakes what is still held.
#[derive(Debug)]
pub(crate) struct Pacing {
    flows: HashMap<u64, Pace, foldhash::fast::FixedState>,
    capacity: usize,
    /// When to look for room again.
    next_sweep: Instant,
}

impl Pacing {
    pub fn new(capacity: usize) -> Self {
        let flows = HashMap::with_capacity_and_hasher(2 * capacity, foldhash::fast::FixedState::with_seed(0));
        Self { flows, capacity, next_sweep: Instant::ZERO }
    }

    /// Makes room for `capacity` flows.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.flows.reserve(capacity.saturating_sub(self.flows.len()));
        self.capacity = capacity;
    }

    /// When an acknowledgment goes that lets the sender of `flow` send for a spell; `None`: no room, it goes at once.
    pub fn space(&mut self, flow: u64, now: Instant, spell: Spell) -> Option<Instant> {
        if self.flows.len() >= self.capacity && !self.flows.contains_key(&flow) {
            if now < self.next_sweep {
                return None;
            }
            self.next_sweep = now + SWEEP;
            self.flows.retain(|_, pace| pace.last > now);
            if self.flows.len() >= self.capacity {
                return None;
            }
        }
        let Some(pace) = self.flows.get_mut(&flow) else {
            self.flows.insert(flow, Pace { last: now, due: now, reach: FIRST });
            return Some(now);
        };
        let latest = now + pace.reach.min(spell.longest);
        let late = Instant(now.0.saturating_sub(spell.slack.0));
        pace.due = (pace.due + spell.time).min(latest + spell.slack).max(late);
        // What is behind already goes in order in any case.
        let at = pace.due.max(pace.last + spell.gap).min(latest).max(pace.last).max(now);
        if at > now {
            pace.reach = Duration(pace.reach.as_nanos().saturating_mul(3) / 2).min(LONGEST);
        }
        pace.last = at;
        Some(at)
    }

    /// When the last packet of `flow` that let its sender send should have gone by the rate; `None`: nothing is known.
    pub fn due(&self, flow: u64) -> Option<Instant> {
        self.flows.get(&flow).map(|pace| pace.due)
    }

    /// When another packet of the same direction goes, so that it does not overtake; `None`: nothing is ahead.
    #[inline]
    pub fn follow(&self, flow: u64, now: Instant) -> Option<Instant> {
        if self.flows.is_empty() {
            return None;
        }
        self.flows.get(&flow).map(|pace| pace.last).filter(|last| *last > now)
    }

    /// Forgets a flow of which nothing is held.
    pub fn forget(&mut self, flow: u64) {
        self.flows.remove(&flow);
    }
}

/// Something that waits for its time.
#[derive(Debug)]
struct Waiting<T> {
    due: Instant,
    order: u64,
    item: T,
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}
impl<T> Eq for Waiting<T> {}
impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// What is held, at most a fixed number; goes in the order of its times, and of its arrival among equal ones. As the times
/// of one direction never decrease, its order is kept.
#[derive(Debug)]
pub struct Held<T> {
    waiting: BinaryHeap<Reverse<Waiting<T>>>,
    capacity: usize,
    order: u64,
}

impl<T> Held<T> {
    /// Room for `capacity` items (at least one), reserved now.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { waiting: BinaryHeap::with_capacity(capacity), capacity, order: 0 }
    }

    /// Items inside.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Holds `item` until `due`. When there is no room the one that would go first goes now: it is returned.
    pub fn push(&mut self, due: Instant, item: T) -> Option<T> {
        let early = if self.waiting.len() >= self.capacity { self.pop() } else { None };
        self.order += 1;
        self.waiting.push(Reverse(Waiting { due, order: self.order, item }));
        early
    }

    /// The next item whose time has come.
    pub fn release(&mut self, now: Instant) -> Option<T> {
        if self.next_wakeup()? > now {
            return None;
        }
        self.pop()
    }

    /// The next item, whether its time has come or not.
    pub fn pop(&mut self) -> Option<T> {
        self.waiting.pop().map(|Reverse(waiting)| waiting.item)
    }

    /// When the next item goes.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(waiting)| waiting.due)
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
