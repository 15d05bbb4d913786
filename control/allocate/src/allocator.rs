//! The machine of one class: measurements in, requests and allocations out.
//!
//! It closes a measurement interval with the first reading at or after its end, lets the law decide, keeps at most one
//! request in flight, and puts in force what the broker grants. A long queue overrules the law at once. Nothing is
//! read, sent or drawn here: the caller does what [`Output`] says and reports with [`Input`], whose values can be stored
//! and given again to a machine of the same settings, which then says the same.
//!
//! # How requests end
//! * Granted in full or in part: the smaller of asked and granted is in force. A grant that would take away from a
//!   class that asked for more counts as refused, and the class keeps what it has.
//! * Refused, or no answer in time: the class keeps what it has.
//! * After anything but a full grant no request in the same direction is made for a pause that doubles each time.
//! * Granted, but refused by the router ([`Input::InForce`]): the class has what it had before.
//! * A grant that arrives after its time-out still counts if nothing was asked since: the broker's books hold it.

use crate::bounds::Bounds;
use crate::congestion::CongestionState;
use crate::counters::Counters;
use crate::request::{AskId, Direction, Pauses, Request};
use crate::settings::Settings;
use crate::stability::{Stability, Unstable};
use crate::window::{Metering, WindowMeter, average};
use perhop_units::{Bytes, Instant, Rate};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a broker says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The class may have this in all, at most what was asked for.
    Granted(Rate),
    /// It keeps what it has.
    Refused,
    /// The caller gave up waiting. The machine does so by itself after its time-out.
    TimedOut,
}

/// What happens to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Bits counted since the last [`Input::Counted`] or [`Input::Reading`].
    Counted {
        /// Of the kind that the settings meter.
        bits: u64,
        /// Bits carried, where offered ones are metered; for statistics.
        carried: Option<u64>,
    },
    /// State of counters. The first reading is the base, and the first interval begins with it; one below the last means
    /// that the counter began again.
    Reading {
        /// Bits of the kind that the settings meter, since the counter began.
        bits: u64,
        /// Bits carried, where offered ones are metered; for statistics.
        carried: Option<u64>,
    },
    /// Length of the class's queue now.
    Queue(Bytes),
    /// The broker's answer. One to a request that is not the last is ignored and counted.
    Answer {
        /// Of [`Output::Ask`].
        id: AskId,
        /// What it says.
        answer: Answer,
    },
    /// The range changed, because the link or the cap did. What is in force is brought into it at once; an increase
    /// that this forces is told, not asked for.
    Bounds {
        /// Never less; 0 is taken as 1 bit/s.
        least: Rate,
        /// Never more; below `least` it is `least`.
        most: Rate,
    },
    /// How much the class can have in all until the next of these: what the link has left, for example. No more is asked
    /// for; what is in force stays.
    Room(Rate),
    /// What is in force is this, whatever the class was to have: a machine before this one gave it, or the router did not
    /// take what was granted. A request on its way is forgotten.
    InForce {
        /// bit/s; brought into the range.
        rate: Rate,
        /// The router did not take what was granted: a pause follows, as after a refusal by the broker.
        refused: bool,
    },
    /// Time passes.
    Tick,
}

/// What a class wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Ask the broker for this in all; answer with [`Input::Answer`].
    Ask {
        /// To be returned.
        id: AskId,
        /// What the class wants to have.
        rate: Rate,
        /// What it has.
        allocated: Rate,
    },
    /// From now on the class has this.
    Allocate(Rate),
}

/// One class.
#[derive(Clone, Debug, Serialize)]
pub struct Allocator {
    settings: Settings,
    /// Latest input.
    now: Instant,
    meter: WindowMeter,
    interval: Interval,
    allocated: Rate,
    room: Rate,
    in_flight: Option<Request>,
    /// The last request that timed out, while nothing was asked since.
    unanswered: Option<Request>,
    next_id: u64,
    pauses: Pauses,
    congestion: CongestionState,
    queue: Bytes,
    counters: Counters,
    outputs: VecDeque<Output>,
}

/// The measurement interval that is open.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Interval {
    start: Instant,
    /// When a reading is due; moves on if none comes.
    due: Instant,
    bits: u64,
    carried: u64,
    last_bits: Option<u64>,
    last_carried: Option<u64>,
}

impl Allocator {
    /// A class that has its initial allocation from `now` on; the first output says so.
    ///
    /// # Errors
    /// [`Unstable`] if the settings violate a condition of stability.
    pub fn new(settings: &Settings, now: Instant) -> Result<Self, Unstable> {
        Ok(Self::of(&Stability::check(settings)?, now))
    }

    /// The same with settings that were checked.
    pub fn of(stability: &Stability, now: Instant) -> Self {
        let settings = *stability.settings();
        let allocated = settings.bounds.fit(settings.initial);
        Self {
            settings,
            now,
            meter: WindowMeter::new(&settings.window),
            interval: Interval { start: now, due: now + settings.window.interval, ..Interval::default() },
            allocated,
            room: Rate(u64::MAX),
            in_flight: None,
            unanswered: None,
            next_id: 0,
            pauses: Pauses::default(),
            congestion: CongestionState::default(),
            queue: Bytes(0),
            counters: Counters::default(),
            outputs: VecDeque::from([Output::Allocate(allocated)]),
        }
    }

    /// Takes one input. Time never goes back: an earlier `now` counts as the latest one. All outputs must be polled
    /// before the next input.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        let now = now.max(self.now);
        self.counters.allocated_for(self.allocated, now.since(self.now));
        self.now = now;
        self.expire();
        match input {
            Input::Counted { bits, carried } => self.counted(bits, carried),
            Input::Reading { bits, carried } => {
                if self.interval.last_bits.is_none() {
                    // What was carried before is not known: it must not be taken for nothing.
                    self.interval.start = now;
                    self.interval.due = now + self.settings.window.interval;
                }
                let bits = increment(&mut self.interval.last_bits, bits);
                let carried = carried.map(|carried| increment(&mut self.interval.last_carried, carried));
                self.counted(bits, carried);
            }
            Input::Queue(queue) => self.queued(queue),
            Input::Answer { id, answer } => self.answered(id, answer),
            Input::Bounds { least, most } => self.bounded(least, most),
            Input::Room(room) => self.room = room,
            Input::InForce { rate, refused } => self.found(rate, refused),
            Input::Tick => {}
        }
        if now >= self.interval.due {
            // No reading came: the interval stays open, and the caller is woken once more an interval later.
            self.counters.missed_readings += 1;
            self.interval.due = now + self.settings.window.interval;
        }
    }

    /// The next thing to do; `None` when all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest: a reading at the end of the interval, a tick for everything else. Earlier
    /// ones are harmless.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let timeout = self.in_flight.map(|request| request.deadline);
        let guard = self.settings.congestion.and_then(|config| self.congestion.guard_end(&config));
        [timeout, guard, Some(self.interval.due)].into_iter().flatten().min()
    }

    /// What is in force.
    pub fn allocated(&self) -> Rate {
        self.allocated
    }

    /// What the class has or asks for, whichever is more.
    pub fn claimed(&self) -> Rate {
        self.in_flight.map_or(self.allocated, |request| request.rate.max(self.allocated))
    }

    /// The latest [`Input::Room`].
    pub fn room(&self) -> Rate {
        self.room
    }

    /// B_m: what the class is taken to use.
    pub fn estimate(&self) -> Rate {
        self.meter.estimate()
    }

    /// Whether the regular law is suspended.
    pub fn congested(&self) -> bool {
        self.congestion.congested()
    }

    /// What happened until the latest input.
    pub fn counters(&self) -> Counters {
        Counters { congested: self.congestion.time(self.now), ..self.counters }
    }

    /// The settings, with the range as it is now.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends what its time has ended.
    fn expire(&mut self) {
        if let Some(config) = self.settings.congestion {
            self.congestion.settle(self.now, &config);
        }
        if let Some(request) = self.in_flight
            && self.now >= request.deadline
        {
            self.answered(request.id, Answer::TimedOut);
        }
    }

    fn counted(&mut self, bits: u64, carried: Option<u64>) {
        self.interval.bits = self.interval.bits.saturating_add(bits);
        let carried = match self.settings.window.metering {
            Metering::Carried => bits,
            Metering::Offered => carried.unwrap_or(0),
        };
        self.interval.carried = self.interval.carried.saturating_add(carried);
        if self.now.since(self.interval.start) < self.settings.window.interval {
            return;
        }
        let Interval { start, bits, carried, last_bits, last_carried, .. } = self.interval;
        let elapsed = self.now.since(start);
        let above = average(bits, elapsed) > self.meter.estimate();
        let estimate = self.meter.close(bits, elapsed);
        self.counters.closed_interval(carried, estimate, above, elapsed);
        self.interval = Interval {
            start: self.now,
            due: self.now + self.settings.window.interval,
            last_bits,
            last_carried,
            ..Interval::default()
        };
        if !self.congestion.congested() {
            self.regular(estimate);
        }
    }

    /// The regular law. It never takes away what the queue needs.
    fn regular(&mut self, estimate: Rate) {
        let bounds = self.reach();
        let Some(wanted) = self.settings.law.decide(estimate, self.allocated, &bounds) else { return };
        let floor = match self.settings.congestion {
            Some(config) if wanted < self.allocated => bounds.fit(config.floor(self.queue)),
            _ => Rate::ZERO,
        };
        self.ask(wanted.max(floor.min(self.allocated)));
    }

    fn queued(&mut self, queue: Bytes) {
        self.queue = queue;
        let Some(config) = self.settings.congestion else { return };
        if !self.congestion.observe(self.now, queue, self.allocated, &config) || self.in_flight.is_some() {
            return;
        }
        let bounds = self.reach();
        let wanted = bounds.fit(config.demand(queue));
        if wanted > self.allocated {
            self.ask(wanted);
        }
    }

    /// The range of what can be asked for now: with what the room leaves, and never below what the class has.
    fn reach(&self) -> Bounds {
        let bounds = self.settings.bounds;
        Bounds { most: bounds.most.min(self.room.max(self.allocated)).max(bounds.least), ..bounds }
    }

    /// Asks unless something forbids it.
    fn ask(&mut self, rate: Rate) {
        let Some(direction) = Direction::of(self.allocated, rate) else { return };
        if self.in_flight.is_some() || self.pauses.holds(direction, self.now) {
            return;
        }
        let id = AskId(self.next_id);
        self.next_id += 1;
        self.counters.asked += 1;
        self.unanswered = None;
        self.in_flight =
            Some(Request { id, rate, direction, deadline: self.now + self.settings.patience.timeout });
        self.outputs.push_back(Output::Ask { id, rate, allocated: self.allocated });
    }

    fn answered(&mut self, id: AskId, answer: Answer) {
        let Some(request) = self.in_flight.take_if(|request| request.id == id) else {
            match (self.unanswered.take_if(|request| request.id == id), answer) {
                (Some(request), Answer::Granted(granted)) => {
                    self.counters.late += 1;
                    self.granted(request, granted);
                }
                _ => self.counters.ignored_answers += 1,
            }
            return;
        };
        match answer {
            Answer::Granted(granted) => self.granted(request, granted),
            Answer::Refused => {
                self.counters.refused += 1;
                self.not_granted(request);
            }
            Answer::TimedOut => {
                self.counters.timed_out += 1;
                self.unanswered = Some(request);
                self.not_granted(request);
            }
        }
    }

    fn granted(&mut self, request: Request, granted: Rate) {
        let useless =
            granted == Rate::ZERO || (request.direction == Direction::Up && granted <= self.allocated);
        if useless {
            self.counters.refused += 1;
            return self.not_granted(request);
        }
        if granted >= request.rate {
            self.counters.granted += 1;
            self.pauses.clear(request.direction);
        } else {
            self.counters.partial += 1;
            self.pauses.begin(request.direction, self.now, &self.settings.patience);
        }
        // The range may have changed while the request was on its way.
        self.put_in_force(granted.min(request.rate).min(self.reach().most));
    }

    fn not_granted(&mut self, request: Request) {
        self.pauses.begin(request.direction, self.now, &self.settings.patience);
    }

    fn bounded(&mut self, least: Rate, most: Rate) {
        let least = least.max(Rate(1));
        let bounds = Bounds { least, most: most.max(least), ..self.settings.bounds };
        if bounds.most > self.settings.bounds.most {
            // What was refused in the old range may be asked again.
            self.pauses = Pauses::default();
        }
        self.settings.bounds = bounds;
        if self.allocated < bounds.least || self.allocated > bounds.most {
            self.put_in_force(bounds.fit(self.allocated));
        }
    }

    fn found(&mut self, rate: Rate, refused: bool) {
        let undone = Direction::of(rate, self.allocated);
        (self.in_flight, self.unanswered, self.allocated) = (None, None, rate);
        if refused {
            self.counters.withdrawn += 1;
            if let Some(direction) = undone {
                self.pauses.resume(direction, self.now, &self.settings.patience);
            }
        }
        let bounds = self.settings.bounds;
        if rate < bounds.least || rate > bounds.most {
            self.put_in_force(bounds.fit(rate));
        }
    }

    fn put_in_force(&mut self, rate: Rate) {
        match Direction::of(self.allocated, rate) {
            Some(Direction::Up) => self.counters.increases += 1,
            Some(Direction::Down) => self.counters.decreases += 1,
            None => return,
        }
        self.allocated = rate;
        self.outputs.push_back(Output::Allocate(rate));
    }
}

/// What a counter has grown by since its last reading.
fn increment(last: &mut Option<u64>, reading: u64) -> u64 {
    match last.replace(reading) {
        None => 0,
        Some(before) => reading.checked_sub(before).unwrap_or(reading),
    }
}

/// Reads of many classes in one go: `inputs[i]` is handled by `allocators[i]`, and every output is given to `act` with
/// its index. O(classes), no allocation beyond what `act` does.
pub fn step_many(
    allocators: &mut [Allocator],
    now: Instant,
    inputs: impl IntoIterator<Item = Input>,
    mut act: impl FnMut(usize, Output),
) {
    for (at, (allocator, input)) in allocators.iter_mut().zip(inputs).enumerate() {
        allocator.handle_input(now, input);
        while let Some(output) = allocator.poll_output() {
            act(at, output);
        }
    }
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;
