//! The part of an agent that allocates classes what they are measured to need.
//!
//! # What is in force
//! What a class has is what the router has committed. The first reading of an instance says what the instance before it
//! left: each class begins with that. A wish holds all that is owed; if the router refuses it, what is lowered goes first
//! and then one increase after the other, so that none holds up another. An increase that is refused is undone in the
//! class's allocator, as a refusal by the broker is.

use crate::broker::AgentBroker;
use crate::capacity::Capacity;
use crate::domain_broker::Place;
use crate::file::ClassSettings;
use crate::managed::Managed;
use crate::notice::{ClassReport, Notice};
use perhop_agent::{ClassReading, DomainNews, Look, Part, Readings};
use perhop_allocate::allocator::{Input as Measured, Output as Wanted};
use perhop_allocate::broker::{BrokerAsk, ClassId};
use perhop_allocate::window::Metering;
use perhop_model::{AllocationSpec, ErrorItem, Kind, Name, ObjectState, Op, Owner, Spec, Status};
use perhop_reason::Code;
use perhop_units::{Bytes, Duration, Instant, Rate};
use std::collections::{BTreeMap, BTreeSet};

/// What cannot be deleted is tried again after this time.
const LONG_RETRY: Duration = Duration::from_secs(30);

/// Classes, and what the router has of their allocations.
#[derive(Debug)]
pub(crate) struct Allocations<B> {
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
    /// A wish was refused as a whole: what is lowered goes first, then one increase after the other.
    careful: bool,
    /// Allocations on their way to the router, and whether strays are deleted with them.
    sent: Vec<(usize, AllocationSpec)>,
    strays_sent: bool,
    broker: B,
    /// How often queues are looked at; none = only at the ends of intervals.
    poll: Option<Duration>,
    /// The next look; the first is as soon as the router can be read, so that the first interval has a beginning.
    next_poll: Instant,
    /// No wish before this.
    quiet_until: Instant,
    notices: Vec<Notice>,
}

impl<B: AgentBroker> Allocations<B> {
    pub(crate) fn new(classes: &[ClassSettings], poll: Option<Duration>, broker: B, now: Instant) -> Self {
        let mut this = Self {
            by_name: classes.iter().enumerate().map(|(i, c)| (c.class.clone(), i)).collect(),
            capacity: Capacity::new(classes.len()),
            classes: classes.iter().map(|class| Managed::new(class, now)).collect(),
            changed: BTreeSet::new(),
            strays: Vec::new(),
            strays_at: now,
            fresh: true,
            careful: false,
            sent: Vec::new(),
            strays_sent: false,
            broker,
            poll,
            next_poll: now,
            quiet_until: now,
            notices: Vec::new(),
        };
        for i in 0..this.classes.len() {
            this.drain(now, i);
        }
        this
    }

    /// The classes, in order of the file.
    pub(crate) fn report(&self) -> impl Iterator<Item = ClassReport> + '_ {
        self.classes.iter().map(Managed::report)
    }

    /// What every class should have.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (Name, Rate)> + '_ {
        self.classes.iter().map(|class| (class.settings.class.clone(), class.allocator.allocated()))
    }

    // ---- what the router has

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
            class.found(found.remove(&i), self.fresh);
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

    /// Tells what a class has, if that is new.
    fn announce(&mut self, i: usize) {
        let class = &mut self.classes[i];
        if let Some(rate) = class.news() {
            let class = class.settings.class.clone();
            self.notices.push(Notice::Allocated { class, rate });
        }
    }

    // ---- what it owes

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
        while let Some((class, most)) = self.broker.poll_limit() {
            self.limited(now, class.0 as usize, most);
        }
    }

    /// The broker takes a part of what a class has back.
    fn limited(&mut self, now: Instant, i: usize, most: Rate) {
        let Some(class) = self.classes.get(i) else { return };
        let most = most.max(class.allocator.settings().bounds.least);
        if class.allocator.allocated() > most {
            self.measured(now, i, Measured::InForce { rate: most, refused: true });
            self.broker.register(ClassId(i as u32), most);
            self.mark(i);
        }
    }

    /// Tells the broker where classes are, and what the router has for them.
    fn locate(&mut self, objects: &[ObjectState]) {
        let mut places = BTreeMap::new();
        for object in objects.iter().filter(|object| object.status == Status::Active) {
            if let (Spec::Class(class), Some(i)) = (&object.spec, self.by_name.get(&object.name)) {
                let logical = class.logical_name(&object.name).to_owned();
                places.insert(*i, Place { port: class.port.clone(), class: logical });
            }
        }
        for (i, class) in self.classes.iter().enumerate() {
            let number = ClassId(i as u32);
            self.broker.located(number, places.remove(&i));
            self.broker.in_router(number, class.in_force().unwrap_or(Rate::ZERO));
        }
    }
}

impl<B: AgentBroker, N: From<Notice>> Part<N> for Allocations<B> {
    fn kinds(&self) -> &[Kind] {
        &[Kind::Port, Kind::Class, Kind::Allocation]
    }

    fn is_forced(&self) -> bool {
        false
    }

    /// Which classes there are, how fast their ports, and what the router has of its allocations.
    fn objects(&mut self, now: Instant, objects: &[ObjectState]) {
        self.found(objects);
        self.capacity.read(objects, &self.by_name);
        let first = std::mem::replace(&mut self.fresh, false);
        let (mut most, mut had) = (self.highest(objects), Vec::with_capacity(self.classes.len()));
        for i in 0..self.classes.len() {
            let class = &mut self.classes[i];
            let before = std::mem::replace(&mut class.present, most.contains_key(&i));
            if !class.present && (before || first) {
                self.notices.push(Notice::NoClass { class: class.settings.class.clone() });
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
        self.locate(objects);
    }

    fn readings(&mut self, now: Instant, readings: &Readings) {
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
    }

    fn gone(&mut self, now: Instant) {
        self.next_poll = now;
    }

    fn domain(&mut self, now: Instant, news: &DomainNews) {
        self.broker.news(now, news);
    }

    fn decided(&mut self, now: Instant, lease: &str, number: u64, bps: u64, refused: Option<&ErrorItem>) {
        self.broker.decided(now, lease, number, bps, refused);
    }

    /// Hears the broker, and lets time pass for classes whose time has come. The end of an interval is the reading's: until it
    /// is there the class waits.
    fn tick(&mut self, now: Instant, look: Look) {
        self.hear_broker(now);
        for i in 0..self.classes.len() {
            if self.classes[i].is_due(now) {
                match look {
                    Look::Now if self.classes[i].present => self.next_poll = now,
                    Look::Awaited if self.classes[i].present => {}
                    _ => self.measured(now, i, Measured::Tick),
                }
            }
        }
    }

    fn next_wakeup(&self, look: Look) -> Option<Instant> {
        let waits = |class: &&Managed| !(look == Look::Awaited && class.present);
        let classes = self.classes.iter().filter(waits).filter_map(|class| class.allocator.next_wakeup());
        classes.chain(self.broker.next_wakeup()).min()
    }

    fn next_look(&self) -> Option<Instant> {
        (self.next_poll < Instant::FAR_FUTURE).then_some(self.next_poll)
    }

    fn looked(&mut self, now: Instant) {
        self.next_poll = self.poll.map_or(Instant::FAR_FUTURE, |poll| now + poll);
    }

    fn next_wish(&self) -> Option<Instant> {
        let changed = self.changed.iter().map(|i| self.classes[*i].retry_at);
        let strays = (!self.strays.is_empty()).then_some(self.strays_at);
        changed.chain(strays).min().map(|at| at.max(self.quiet_until))
    }

    fn owes(&self) -> bool {
        !self.changed.is_empty() || !self.strays.is_empty()
    }

    fn wants(&mut self, now: Instant) -> Vec<Op> {
        if !Part::<N>::owes(self) || now < self.quiet_until {
            return Vec::new();
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
        self.strays.iter().filter(|_| self.strays_sent).map(delete).chain(puts).collect()
    }

    fn committed(&mut self, _now: Instant) {
        for (i, spec) in std::mem::take(&mut self.sent) {
            let rate = spec.guarantee.unwrap_or(Rate::ZERO);
            self.classes[i].committed(spec);
            self.broker.in_router(ClassId(i as u32), rate);
            self.announce(i);
            self.capacity.hold(i, self.classes[i].claimed());
            self.mark(i);
        }
        if self.strays_sent {
            self.strays.clear();
        }
    }

    /// A busy router is left alone, and asked for the same again where another part's wish was at fault; of several allocations none is known to be at fault, so they go one by one; one alone has
    /// what it had.
    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        let sent = std::mem::take(&mut self.sent);
        if errors.is_empty() || errors.iter().any(|e| matches!(e.code, Code::Overload | Code::ShuttingDown)) {
            self.quiet_until = now + pause;
            return;
        }
        match &sent[..] {
            [(i, _)] if !self.strays_sent => self.withdraw(now, *i),
            _ if self.careful && self.strays_sent => self.strays_at = now + LONG_RETRY,
            _ if self.careful => self.quiet_until = now + pause,
            _ => self.careful = true,
        }
    }

    fn allocation(&self, class: &Name) -> Option<&AllocationSpec> {
        self.by_name.get(class).and_then(|i| self.classes[*i].held())
    }

    fn notices(&mut self) -> Vec<N> {
        self.notices.extend(std::iter::from_fn(|| self.broker.poll_notice()));
        self.notices.drain(..).map(N::from).collect()
    }
}
