//! The machine: see the crate's documentation for its states.

use crate::bandwidth::{Bandwidth, PolicyReport};
use crate::capacity::Capacity;
use crate::file::AgentFile;
use crate::managed::{Managed, RETRY};
use crate::message::{ClassReport, Input, Notice, Output};
use crate::reading::{ClassReading, Readings};
use perhop_allocate::allocator::{Input as Measured, Output as Wanted};
use perhop_allocate::broker::{Broker, BrokerAsk, ClassId};
use perhop_allocate::window::Metering;
use perhop_model::{
    AllocationSpec, Claim, ErrorItem, Kind, Name, ObjectState, Op, Outcome, Owner, Reply, Spec, Status,
    Transaction, TxnId,
};
use perhop_reason::Code;
use perhop_units::{Bytes, Duration, Instant, Rate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What cannot be deleted is tried again after this time.
const LONG_RETRY: Duration = Duration::from_secs(30);

/// By how much a fence that is too low rises at first; twice as much each time. Fences are nanoseconds where clocks make
/// them: of a clock that is ten years behind it takes thirty claims.
const FIRST_RAISE: u64 = 1_000_000_000;

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
    /// The owner has been claimed by this instance, and by how much the fence rises until it has.
    claimed: bool,
    raise: u64,
    transactions: u64,
    /// Of the router that answered last; 0 before any did.
    epoch: u64,
    revision: u64,
    classes: Vec<Managed>,
    by_name: BTreeMap<Name, usize>,
    /// Classes whose allocation the router does not have yet.
    changed: BTreeSet<usize>,
    /// Own allocations that no class of the file has, and before when they are not deleted.
    strays: Vec<Name>,
    strays_at: Instant,
    /// What the links have room for.
    capacity: Capacity,
    /// No state of a router has been read yet: what it has was left by an instance before.
    fresh: bool,
    /// A transaction was refused as a whole: what is lowered goes first, then one increase after the other.
    careful: bool,
    /// Allocations on their way to the router, and whether strays are deleted with them.
    sent: Vec<(usize, AllocationSpec)>,
    strays_sent: bool,
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
        let mut this = Self {
            state: State::Away,
            fence,
            claimed: false,
            raise: FIRST_RAISE,
            transactions: 0,
            epoch: 0,
            revision: 0,
            by_name: file.classes.iter().enumerate().map(|(i, c)| (c.class.clone(), i)).collect(),
            poll: file.poll().map(|poll| poll.max(least_poll)),
            classes: file.classes.iter().map(|class| Managed::new(class, now)).collect(),
            changed: BTreeSet::new(),
            strays: Vec::new(),
            strays_at: now,
            capacity: Capacity::new(file.classes.len()),
            fresh: true,
            careful: false,
            sent: Vec::new(),
            strays_sent: false,
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
                (self.reading, self.claim_again) = (false, None);
                self.next_poll = now;
                self.bandwidth.gone(now);
            }
            Input::Claimed(Ok(())) if self.state == State::Claiming => {
                self.claimed = true;
                self.read_objects();
            }
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
        let awaits = self.awaits_answer();
        let classes = self.classes.iter().filter(|class| !(awaits && class.present));
        let classes = classes.filter_map(|class| class.allocator.next_wakeup()).min();
        let running = self.state == State::Running;
        let looks = running && !self.reading && self.next_poll < Instant::FAR_FUTURE;
        let poll = looks.then_some(self.next_poll);
        let retry = self.retry().filter(|_| running);
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
            allocated: class.in_force().unwrap_or(Rate::ZERO),
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

    /// A router that is busy or about to stop is asked again. An instance that comes later than another may have a lower
    /// fence, where a clock was set back: it raises its own until it is taken. Any other refusal is for good.
    fn claim_refused(&mut self, now: Instant, error: ErrorItem) {
        match error.code {
            Code::Overload | Code::ShuttingDown => self.claim_again = Some(now + RETRY),
            Code::Fenced if !self.claimed && self.fence < u64::MAX => {
                self.fence = self.fence.saturating_add(self.raise);
                self.raise = self.raise.saturating_mul(2);
                self.claim();
            }
            _ => self.superseded(error),
        }
    }

    fn superseded(&mut self, error: ErrorItem) {
        self.state = State::Superseded;
        self.outputs.push_back(Output::Say(Notice::Superseded { error }));
    }

    /// Which classes there are, how fast their ports, and what the router has of its allocations.
    fn objects(&mut self, now: Instant, revision: u64, objects: &[ObjectState]) {
        (self.revision, self.state) = (revision, State::Running);
        self.bandwidth.objects(now, objects);
        self.found(objects);
        self.capacity.read(objects, &self.by_name);
        let first = std::mem::replace(&mut self.fresh, false);
        let (mut most, mut had) = (self.highest(objects), Vec::with_capacity(self.classes.len()));
        for i in 0..self.classes.len() {
            let class = &mut self.classes[i];
            let before = std::mem::replace(&mut class.present, most.contains_key(&i));
            if !class.present && (before || first) {
                let class = class.settings.class.clone();
                self.outputs.push_back(Output::Say(Notice::NoClass { class }));
            }
            // What an instance before this one has left goes on.
            if let Some(rate) = self.classes[i].in_force().filter(|_| first) {
                self.measured(now, i, Measured::InForce { rate, refused: false });
                self.announce(i);
            }
            had.push(self.classes[i].allocator.allocated());
            let bounds = self.classes[i].settings.allocation.settings().bounds;
            let most = most.entry(i).or_insert(bounds.most);
            self.measured(now, i, Measured::Bounds { least: bounds.least.min(*most), most: *most });
        }
        self.squeeze(now, &most, &had);
        for i in 0..self.classes.len() {
            let rate =
                if self.classes[i].present { self.classes[i].allocator.allocated() } else { Rate::ZERO };
            self.broker.register(ClassId(i as u32), rate);
            self.mark(i);
        }
    }

    /// Takes note of its own allocations in the router.
    fn found(&mut self, objects: &[ObjectState]) {
        self.strays.clear();
        let mut found = BTreeMap::new();
        for object in objects.iter().filter(|object| object.owner == Owner::Agent) {
            let Spec::Allocation(spec) = &object.spec else { continue };
            match self.by_name.get(&object.name) {
                Some(i) => drop(found.insert(*i, spec.clone())),
                None => self.strays.push(object.name.clone()),
            }
        }
        for (i, class) in self.classes.iter_mut().enumerate() {
            class.found(found.remove(&i));
        }
    }

    /// The highest allocation of every class that the router has. A port without a rate is not known to be slower than
    /// the file's range; a class whose own ceiling holds is never guaranteed more.
    fn highest(&self, objects: &[ObjectState]) -> BTreeMap<usize, Rate> {
        let ports = objects.iter().filter_map(|object| match &object.spec {
            Spec::Port(port) if port.rate > Rate(0) => Some((&object.name, port.rate)),
            _ => None,
        });
        let ports: BTreeMap<&Name, Rate> = ports.collect();
        let mut highest = BTreeMap::new();
        for object in objects.iter().filter(|object| object.status == Status::Active) {
            let Spec::Class(class) = &object.spec else { continue };
            let Some(i) = self.by_name.get(&object.name) else { continue };
            let port = ports.get(&class.port).copied();
            let settings = &self.classes[*i].settings;
            let own =
                class.ceiling.filter(|_| !settings.limit).map(|share| share.of(port.unwrap_or(Rate::ZERO)));
            let limits = [port, own.filter(|rate| *rate > Rate::ZERO)].into_iter().flatten();
            highest.insert(*i, limits.fold(settings.allocation.settings().bounds.most, Rate::min));
        }
        highest
    }

    /// Brings all classes into what their links have left. Where that has become less the router has lowered what they
    /// have in the same way, so no class is given up for another.
    fn squeeze(&mut self, now: Instant, most: &BTreeMap<usize, Rate>, had: &[Rate]) {
        for i in 0..self.classes.len() {
            self.capacity.hold(i, self.classes[i].allocator.allocated());
        }
        let least = |i: usize| self.classes[i].allocator.settings().bounds.least;
        let squeezed = self.capacity.squeezed(least, |i| had[i]);
        for (i, (rate, least)) in squeezed {
            let most = most.get(&i).copied().unwrap_or(rate).max(least);
            self.measured(now, i, Measured::Bounds { least, most });
            self.measured(now, i, Measured::InForce { rate, refused: false });
        }
        for i in 0..self.classes.len() {
            self.capacity.hold(i, self.classes[i].claimed());
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
        let room = self.capacity.room(i);
        if room != class.allocator.room() {
            self.measured(at, i, Measured::Room(room));
        }
        // The reading first: at the end of an interval the class waits for it.
        self.measured(at, i, Measured::Reading { bits, carried: Some(carried) });
        self.measured(at, i, Measured::Queue(Bytes(reading.backlog_bytes)));
    }

    fn replied(&mut self, now: Instant, reply: &Reply) {
        if self.state != State::Submitting {
            return;
        }
        self.state = State::Running;
        let sent = std::mem::take(&mut self.sent);
        if self.is_restarted(now, reply.epoch) {
            return self.claim();
        }
        if reply.outcome != Outcome::Rejected {
            return self.committed(now, reply.revision, sent);
        }
        if let Some(fenced) = reply.errors.iter().find(|e| matches!(e.code, Code::Fenced | Code::Forbidden)) {
            return self.superseded(fenced.clone());
        }
        let pause = reply.retry_after_ms.map_or(RETRY, Duration::from_millis);
        match self.submitted {
            Part::Allocations => self.refused(now, pause, &sent, &reply.errors),
            Part::Bandwidth => self.bandwidth.refused(now, pause, &reply.errors),
        }
        if reply.errors.iter().any(|e| e.code != Code::Overload) {
            self.outputs.push_back(Output::Say(Notice::Refused { errors: reply.errors.clone() }));
        }
        self.read_objects();
    }

    /// A transaction is in force. Revisions between the one before and its own are somebody else's: that they have changed
    /// something is seen with the next reading.
    fn committed(&mut self, now: Instant, revision: u64, sent: Vec<(usize, AllocationSpec)>) {
        if revision <= self.revision + 1 {
            self.revision = self.revision.max(revision);
        }
        if self.submitted == Part::Bandwidth {
            return self.bandwidth.committed(now);
        }
        for (i, spec) in sent {
            self.classes[i].committed(spec);
            self.announce(i);
            self.capacity.hold(i, self.classes[i].claimed());
            self.mark(i);
        }
        if self.strays_sent {
            self.strays.clear();
        }
    }

    /// Tells what a class has, if that is new.
    fn announce(&mut self, i: usize) {
        let class = &mut self.classes[i];
        if let Some(rate) = class.news() {
            let class = class.settings.class.clone();
            self.outputs.push_back(Output::Say(Notice::Allocated { class, rate }));
        }
    }

    /// The router did not take allocations. A busy one is left alone; of several none is known to be at fault, so they go
    /// one by one; one alone has what it had.
    fn refused(
        &mut self,
        now: Instant,
        pause: Duration,
        sent: &[(usize, AllocationSpec)],
        errors: &[ErrorItem],
    ) {
        if errors.iter().any(|e| matches!(e.code, Code::Overload | Code::ShuttingDown)) {
            self.quiet_until = now + pause;
            return;
        }
        match sent {
            [(i, _)] if !self.strays_sent => self.withdraw(now, *i),
            _ if self.careful && self.strays_sent => self.strays_at = now + LONG_RETRY,
            _ if self.careful => self.quiet_until = now + pause,
            _ => self.careful = true,
        }
    }

    /// A class does not get what it was granted.
    fn withdraw(&mut self, now: Instant, i: usize) {
        self.classes[i].refused(now);
        if let Some(rate) = self.classes[i].in_force() {
            self.measured(now, i, Measured::InForce { rate, refused: true });
            let left = self.classes[i].allocator.allocated();
            self.broker.register(ClassId(i as u32), left);
        }
        self.mark(i);
        if !self.classes[i].is_owed() {
            self.classes[i].gave_way(now);
        }
    }

    /// Notes whether the router owes a class something.
    fn mark(&mut self, i: usize) {
        match self.classes[i].is_owed() {
            true => self.changed.insert(i),
            false => self.changed.remove(&i),
        };
    }

    // ---- the classes

    /// Gives an input to a class and does what it wants.
    fn measured(&mut self, now: Instant, i: usize, input: Measured) {
        self.classes[i].allocator.handle_input(now, input);
        self.drain(now, i);
        self.capacity.hold(i, self.classes[i].claimed());
    }

    fn drain(&mut self, now: Instant, i: usize) {
        while let Some(output) = self.classes[i].allocator.poll_output() {
            match output {
                Wanted::Ask { id, rate, allocated } => {
                    self.broker.ask(now, BrokerAsk { class: ClassId(i as u32), id, rate, allocated });
                }
                Wanted::Allocate(rate) => {
                    self.mark(i);
                    // The broker knows what it has granted, and not what a link forces or the file begins with.
                    self.broker.register(ClassId(i as u32), rate);
                }
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

    /// Whether an answer is on its way after which classes are looked at again: one that is due meanwhile has missed nothing.
    fn awaits_answer(&self) -> bool {
        let asked = matches!(self.state, State::Claiming | State::Reading | State::Submitting);
        self.reading || asked && self.claim_again.is_none()
    }

    /// Classes whose time has come. The end of an interval is the reading's: until it is there the class waits.
    fn tick(&mut self, now: Instant) {
        if self.claim_again.is_some_and(|at| at <= now) {
            self.claim();
        }
        let (mut due, awaits) = (false, self.awaits_answer());
        for i in 0..self.classes.len() {
            if self.classes[i].is_due(now) && !(awaits && self.classes[i].present) {
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
        !self.changed.is_empty() || !self.strays.is_empty()
    }

    /// When something owed can be submitted.
    fn retry(&self) -> Option<Instant> {
        let changed = self.changed.iter().map(|i| self.classes[*i].retry_at);
        let strays = (!self.strays.is_empty()).then_some(self.strays_at);
        changed.chain(strays).min().map(|at| at.max(self.quiet_until))
    }

    /// Allocations for the next transaction. One that was refused goes alone, when nothing else is owed: it must not hold up
    /// the others.
    fn batch(&mut self, now: Instant) -> Vec<usize> {
        self.strays_sent = !self.strays.is_empty() && self.strays_at <= now;
        let open = || self.changed.iter().copied().filter(|i| self.classes[*i].retry_at <= now);
        let mut batch: Vec<usize> = open().filter(|i| !self.classes[*i].is_refused()).collect();
        if batch.is_empty() && !self.strays_sent {
            batch = open().take(1).collect();
            self.careful = false;
        } else if self.careful {
            let (lowered, raised): (Vec<usize>, Vec<usize>) =
                batch.into_iter().partition(|i| self.classes[*i].is_lowered());
            let one = || raised.into_iter().take(1).collect();
            batch = if lowered.is_empty() && !self.strays_sent { one() } else { lowered };
        }
        batch
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
        self.sent = self.batch(now).into_iter().map(|i| (i, self.classes[i].spec())).collect();
        // An increase that goes alone does not wait for what may not be deleted.
        let delete = |name: &Name| Op::Delete {
            kind: Kind::Allocation,
            name: name.clone(),
            if_version: None,
            drain_ms: None,
        };
        let puts = self.sent.iter().map(|(i, spec)| self.classes[*i].put(spec));
        let ops: Vec<Op> = self.strays.iter().filter(|_| self.strays_sent).map(delete).chain(puts).collect();
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

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
