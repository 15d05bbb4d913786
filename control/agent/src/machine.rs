//! The machine: see the crate's documentation for its states.

use crate::bandwidth::{Bandwidth, PolicyReport};
use crate::file::{AgentFile, ClassSettings};
use crate::message::{ClassReport, Input, Notice, Output};
use crate::reading::{ClassReading, Readings};
use perhop_allocate::allocator::{Allocator, Input as Measured, Output as Wanted};
use perhop_allocate::broker::{Broker, BrokerAsk, ClassId};
use perhop_allocate::window::Metering;
use perhop_model::{
    AllocationSpec, Claim, ErrorItem, Kind, Name, Object, ObjectState, Op, Outcome, Owner, Reply, Spec,
    Status, Transaction, TxnId,
};
use perhop_reason::Code;
use perhop_units::{Bytes, Duration, Instant, Rate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// After a refusal by the router nothing is submitted for this long.
const RETRY: Duration = Duration::from_secs(1);

/// Where the agent stands with its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away,
    Claiming,
    Reading,
    Submitting,
    Running,
    Superseded,
}

/// A class it looks after.
#[derive(Debug)]
struct Managed {
    settings: ClassSettings,
    allocator: Allocator,
    /// The router has it.
    present: bool,
}

/// Which part a transaction on its way is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Allocations,
    Bandwidth,
}

/// See the module.
#[derive(Debug)]
pub struct Agent<B> {
    state: State,
    fence: u64,
    transactions: u64,
    /// Of the router that answered last; 0 before any did.
    epoch: u64,
    revision: u64,
    classes: Vec<Managed>,
    by_name: BTreeMap<Name, usize>,
    /// Classes whose allocation the router does not have yet.
    changed: BTreeSet<usize>,
    /// The router's objects are not known, or have changed: everything is submitted again.
    whole: bool,
    broker: B,
    /// How often queues are looked at; none = only at the ends of intervals.
    poll: Option<Duration>,
    /// The next look; the first is as soon as the router can be read, so that the first interval has a beginning.
    next_poll: Instant,
    /// A reading is on its way.
    reading: bool,
    /// No transaction before this.
    quiet_until: Instant,
    /// A claim that a busy router did not take is made again at this time.
    claim_again: Option<Instant>,
    /// Links and those who share them.
    bandwidth: Bandwidth,
    /// Of the latest transaction.
    submitted: Part,
    outputs: VecDeque<Output>,
}

impl<B: Broker> Agent<B> {
    /// An agent without a router at `now`. `fence` must be above that of every instance before it on the same router;
    /// queues are looked at every `least_poll` at most.
    pub fn new(file: &AgentFile, broker: B, fence: u64, least_poll: Duration, now: Instant) -> Self {
        let managed = |settings: &ClassSettings| Managed {
            settings: settings.clone(),
            allocator: Allocator::of(&settings.allocation, now),
            present: false,
        };
        let mut this = Self {
            state: State::Away,
            fence,
            transactions: 0,
            epoch: 0,
            revision: 0,
            by_name: file.classes.iter().enumerate().map(|(i, c)| (c.class.clone(), i)).collect(),
            poll: file.poll().map(|poll| poll.max(least_poll)),
            classes: file.classes.iter().map(managed).collect(),
            changed: BTreeSet::new(),
            whole: true,
            broker,
            next_poll: now,
            reading: false,
            quiet_until: now,
            claim_again: None,
            bandwidth: Bandwidth::new(&file.bandwidth, least_poll, now),
            submitted: Part::Allocations,
            outputs: VecDeque::new(),
        };
        for i in 0..this.classes.len() {
            this.drain(now, i);
        }
        this
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        if self.state == State::Superseded {
            return;
        }
        match input {
            Input::Appeared if self.state == State::Away => self.claim(),
            Input::Gone => {
                self.state = State::Away;
                (self.whole, self.reading, self.claim_again) = (true, false, None);
                self.next_poll = now;
                self.bandwidth.gone(now);
            }
            Input::Claimed(Ok(())) if self.state == State::Claiming => self.read_objects(),
            Input::Claimed(Err(error)) if self.state == State::Claiming => self.claim_refused(now, error),
            Input::Objects { revision, objects } if self.state == State::Reading => {
                self.objects(now, revision, &objects);
            }
            Input::Readings(readings) => self.readings(now, &readings),
            Input::Reply(reply) => self.replied(now, &reply),
            Input::Announced { link, rate, at } => self.bandwidth.announced(now, &link, rate, at),
            // Nothing of the kind was asked.
            Input::Appeared | Input::Claimed(_) | Input::Objects { .. } | Input::Tick => {}
        }
        self.hear_broker(now);
        self.tick(now);
        self.act(now);
        self.outputs.extend(self.bandwidth.notices().into_iter().map(Output::Say));
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let broker = self.broker.next_wakeup();
        let classes = self.classes.iter().filter_map(|class| class.allocator.next_wakeup()).min();
        let running = self.state == State::Running;
        let looks = running && !self.reading && self.next_poll < Instant::FAR_FUTURE;
        let poll = looks.then_some(self.next_poll);
        let retry = (running && self.owes_allocations()).then_some(self.quiet_until);
        let look = self.bandwidth.next_look().filter(|_| running && !self.reading);
        let rates = self.bandwidth.retry().filter(|_| running);
        let step = self.bandwidth.next_step();
        [broker, classes, poll, retry, self.claim_again, look, rates, step].into_iter().flatten().min()
    }

    /// Whether another instance has taken over.
    pub fn is_superseded(&self) -> bool {
        self.state == State::Superseded
    }

    /// Whether the router has all that is in force.
    pub fn is_settled(&self) -> bool {
        self.state == State::Running && !self.owes_allocations() && !self.bandwidth.owes()
    }

    /// The classes, in order of the file.
    pub fn classes(&self) -> impl Iterator<Item = ClassReport> + '_ {
        self.classes.iter().map(|class| ClassReport {
            class: class.settings.class.clone(),
            present: class.present,
            allocated: class.allocator.allocated(),
            estimate: class.allocator.estimate(),
            congested: class.allocator.congested(),
            counters: class.allocator.counters(),
        })
    }

    /// The policies that share links, by name.
    pub fn policies(&self) -> impl Iterator<Item = PolicyReport> + '_ {
        self.bandwidth.report()
    }

    // ---- the router

    fn claim(&mut self) {
        (self.state, self.claim_again) = (State::Claiming, None);
        self.outputs.push_back(Output::Claim(Claim { owner: Owner::Agent, fence: self.fence }));
    }

    fn read_objects(&mut self) {
        self.state = State::Reading;
        self.outputs.push_back(Output::ReadObjects(self.bandwidth.kinds()));
    }

    /// A router that is busy or about to stop is asked again; any other refusal is for good.
    fn claim_refused(&mut self, now: Instant, error: ErrorItem) {
        match error.code {
            Code::Overload | Code::ShuttingDown => self.claim_again = Some(now + RETRY),
            _ => self.superseded(error),
        }
    }

    fn superseded(&mut self, error: ErrorItem) {
        self.state = State::Superseded;
        self.outputs.push_back(Output::Say(Notice::Superseded { error }));
    }

    /// Which classes there are, and how fast their ports.
    fn objects(&mut self, now: Instant, revision: u64, objects: &[ObjectState]) {
        (self.revision, self.state) = (revision, State::Running);
        self.bandwidth.objects(now, objects);
        let mut rates = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for object in objects {
            match &object.spec {
                Spec::Port(port) => drop(rates.insert(&object.name, Rate(port.rate))),
                Spec::Class(class) if object.status == Status::Active => {
                    self.by_name.get(&object.name).map(|i| ports.insert(*i, &class.port));
                }
                _ => {}
            }
        }
        for i in 0..self.classes.len() {
            let class = &mut self.classes[i];
            let before = std::mem::replace(&mut class.present, ports.contains_key(&i));
            self.whole |= before != class.present;
            if !class.present && (before || self.whole) {
                let class = class.settings.class.clone();
                self.outputs.push_back(Output::Say(Notice::NoClass { class }));
            }
            let bounds = class.settings.allocation.settings().bounds;
            // A port without a rate is not known to be slower than the range.
            let rate = ports.get(&i).and_then(|port| rates.get(*port)).filter(|rate| **rate > Rate::ZERO);
            let most = rate.map_or(bounds.most, |rate| bounds.most.min(*rate));
            self.measured(now, i, Measured::Bounds { least: bounds.least.min(most), most });
        }
    }

    fn readings(&mut self, now: Instant, readings: &Readings) {
        self.reading = false;
        if self.state != State::Running && self.state != State::Submitting {
            return self.bandwidth.missed(now);
        }
        if self.is_restarted(now, readings.epoch) {
            return self.claim();
        }
        self.bandwidth.readings(readings.at.min(now), readings);
        for (name, reading) in &readings.classes {
            if let Some(i) = self.by_name.get(name).copied() {
                self.read_class(readings.at.min(now), i, reading);
            }
        }
        for i in 0..self.classes.len() {
            if self.classes[i].is_due(now) {
                self.measured(now, i, Measured::Tick);
            }
        }
        if readings.revision != self.revision && self.state == State::Running {
            self.revision = readings.revision;
            // It may be another instance that has changed something: whether this one still has its owner is asked first,
            // as one that has nothing to change would not be told.
            self.claim();
        }
    }

    /// Takes note of the epoch in an answer. A restarted router knows nothing of the agent: everything is owed again,
    /// whichever answer tells of the restart, also the one to a transaction that the new router has just applied.
    fn is_restarted(&mut self, now: Instant, epoch: u64) -> bool {
        let restarted = self.epoch != 0 && self.epoch != epoch;
        self.epoch = epoch;
        self.whole |= restarted;
        if restarted {
            self.bandwidth.gone(now);
        }
        restarted
    }

    fn read_class(&mut self, at: Instant, i: usize, reading: &ClassReading) {
        let class = &self.classes[i];
        let (carried, offered) =
            (reading.carried_bytes.saturating_mul(8), reading.offered_bytes.saturating_mul(8));
        let offers = class.allocator.settings().window.metering == Metering::Offered;
        let bits = if offers { offered } else { carried };
        // The reading first: at the end of an interval the class waits for it.
        self.measured(at, i, Measured::Reading { bits, carried: Some(carried) });
        self.measured(at, i, Measured::Queue(Bytes(reading.backlog_bytes)));
    }

    fn replied(&mut self, now: Instant, reply: &Reply) {
        if self.state != State::Submitting {
            return;
        }
        self.state = State::Running;
        if self.is_restarted(now, reply.epoch) {
            return self.claim();
        }
        if reply.outcome != Outcome::Rejected {
            self.committed(now, reply.revision);
            return;
        }
        if let Some(fenced) = reply.errors.iter().find(|e| matches!(e.code, Code::Fenced | Code::Forbidden)) {
            return self.superseded(fenced.clone());
        }
        let pause = reply.retry_after_ms.map_or(RETRY, Duration::from_millis);
        match self.submitted {
            Part::Allocations => (self.whole, self.quiet_until) = (true, now + pause),
            Part::Bandwidth => self.bandwidth.refused(now, pause, &reply.errors),
        }
        if reply.errors.iter().any(|e| e.code != Code::Overload) {
            self.outputs.push_back(Output::Say(Notice::Refused { errors: reply.errors.clone() }));
        }
        self.read_objects();
    }

    /// A transaction is in force. Revisions between the one before and its own are somebody else's: that they have changed
    /// something is seen with the next reading.
    fn committed(&mut self, now: Instant, revision: u64) {
        if revision <= self.revision + 1 {
            self.revision = self.revision.max(revision);
        }
        if self.submitted == Part::Bandwidth {
            self.bandwidth.committed(now);
        }
    }

    // ---- the classes

    /// Gives an input to a class and does what it wants.
    fn measured(&mut self, now: Instant, i: usize, input: Measured) {
        self.classes[i].allocator.handle_input(now, input);
        self.drain(now, i);
    }

    fn drain(&mut self, now: Instant, i: usize) {
        while let Some(output) = self.classes[i].allocator.poll_output() {
            match output {
                Wanted::Ask { id, rate, allocated } => {
                    self.broker.ask(now, BrokerAsk { class: ClassId(i as u32), id, rate, allocated });
                }
                Wanted::Allocate(rate) => {
                    self.changed.insert(i);
                    let class = self.classes[i].settings.class.clone();
                    self.outputs.push_back(Output::Say(Notice::Allocated { class, rate }));
                }
                // The router admits by its own meter; nothing is configured that would ask for these.
                Wanted::DropOne(_) | Wanted::LockAdmission(_) => {}
            }
        }
    }

    fn hear_broker(&mut self, now: Instant) {
        while let Some(answer) = self.broker.poll_answer(now) {
            let i = answer.class.0 as usize;
            if i < self.classes.len() {
                self.measured(now, i, Measured::Answer { id: answer.id, answer: answer.answer });
            }
        }
    }

    /// Classes whose time has come. The end of an interval is the reading's: until it is there the class waits.
    fn tick(&mut self, now: Instant) {
        if self.claim_again.is_some_and(|at| at <= now) {
            self.claim();
        }
        let mut due = false;
        for i in 0..self.classes.len() {
            if self.classes[i].is_due(now) {
                if self.state == State::Running && !self.reading && self.classes[i].present {
                    due = true;
                } else {
                    self.measured(now, i, Measured::Tick);
                }
            }
        }
        if due {
            self.next_poll = now;
        }
        self.bandwidth.tick(now);
        due |= self.bandwidth.next_look().is_some_and(|at| at <= now);
        if (due || self.next_poll <= now) && self.state == State::Running && !self.reading {
            self.reading = true;
            self.next_poll = self.poll.map_or(Instant::FAR_FUTURE, |poll| now + poll);
            self.bandwidth.looked(now);
            self.outputs.push_back(Output::ReadClasses);
        }
    }

    // ---- transactions

    fn owes_allocations(&self) -> bool {
        self.whole || !self.changed.is_empty()
    }

    /// Submits what the router does not have yet, rates first: a link that will be slower does not wait.
    fn act(&mut self, now: Instant) {
        if self.state != State::Running {
            return;
        }
        if let Some(ops) = self.bandwidth.transaction(now) {
            // Policies and ports belong to the router's file and to clients.
            return self.submit(Part::Bandwidth, ops, true);
        }
        if !self.owes_allocations() || now < self.quiet_until {
            return;
        }
        let ops = match self.whole {
            true => {
                let present = self.classes.iter().filter(|class| class.present);
                let objects = present.map(Managed::object).collect();
                vec![Op::ReplaceOwned { kinds: vec![Kind::Allocation], objects }]
            }
            false => {
                let changed = self.changed.iter().map(|i| &self.classes[*i]);
                changed.filter(|class| class.present).map(Managed::put).collect()
            }
        };
        self.changed.clear();
        self.whole = false;
        if !ops.is_empty() {
            self.submit(Part::Allocations, ops, false);
        }
    }

    fn submit(&mut self, part: Part, ops: Vec<Op>, force: bool) {
        self.submitted = part;
        self.transactions += 1;
        let id = u128::from(self.fence) << 64 | u128::from(self.transactions);
        let mut transaction = Transaction::new(TxnId(id.to_be_bytes()), Owner::Agent, ops);
        (transaction.fence, transaction.force) = (self.fence, force);
        self.state = State::Submitting;
        self.outputs.push_back(Output::Submit(Box::new(transaction)));
    }
}

impl Managed {
    fn is_due(&self, now: Instant) -> bool {
        self.allocator.next_wakeup().is_some_and(|at| at <= now)
    }

    fn spec(&self) -> serde_json::Value {
        let rate = self.allocator.allocated().0;
        let spec = AllocationSpec {
            class: self.settings.class.clone(),
            guarantee: Some(rate),
            ceiling: self.settings.limit.then_some(rate),
            shared: false,
        };
        serde_json::to_value(spec).expect("a specification has string keys and finite numbers")
    }

    fn object(&self) -> Object {
        Object { kind: Kind::Allocation, name: self.settings.class.clone(), spec: self.spec(), ttl_ms: None }
    }

    fn put(&self) -> Op {
        let name = self.settings.class.clone();
        Op::Put { kind: Kind::Allocation, name, spec: self.spec(), if_version: None, ttl_ms: None }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
