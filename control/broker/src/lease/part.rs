//! The part of an agent that has the router give classes what leases hold.
//!
//! What a logical class is to have is an allocation of each of its classes in the router. It is never less than the class has by
//! itself: others than the holders of leases may use it. Where measurement holds the class too, the session takes the larger of both.

use super::{Input, Output, Refusal};
use perhop_agent::{Look, Part, Readings};
use perhop_model::{AllocationSpec, ErrorItem, Kind, Name, Object, ObjectState, Op, Owner, Spec, Status};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// What the router has lost and does not take again is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);
/// Classes lie at most so deep in each other.
const DEPTH: usize = 32;

/// What a logical class is to have.
#[derive(Debug, Default)]
struct Want {
    number: u64,
    bps: u64,
    /// The number has been answered.
    answered: bool,
    /// It was refused: nothing is wished before this.
    retry_at: Option<Instant>,
}

/// A class of the router.
#[derive(Debug, Default)]
struct Class {
    present: bool,
    /// What it has by itself.
    own: Rate,
    /// What the router has of the part's, and what the part holds.
    on_router: Option<AllocationSpec>,
    held: Option<AllocationSpec>,
}

/// See the module.
#[derive(Debug)]
pub struct Reserved {
    /// Classes of the router, by logical class.
    objects: BTreeMap<String, Vec<Name>>,
    wants: BTreeMap<String, Want>,
    classes: BTreeMap<Name, Class>,
    /// Logical classes, with numbers, of the wish that is on its way.
    sent: Vec<(String, u64, u64)>,
    /// Nothing is known of the router yet.
    fresh: bool,
    /// A wish was refused and nobody knows for which class: they go one by one.
    alone: bool,
    quiet_until: Instant,
    answers: VecDeque<InRouter>,
}

impl Reserved {
    /// Without a router. `objects` are the classes of the router by logical class: those on the ports by which its traffic leaves.
    pub fn new(objects: BTreeMap<String, Vec<Name>>) -> Self {
        let classes = objects.values().flatten().map(|name| (name.clone(), Class::default())).collect();
        Self {
            objects,
            wants: BTreeMap::new(),
            classes,
            sent: Vec::new(),
            fresh: true,
            alone: false,
            quiet_until: Instant::ZERO,
            answers: VecDeque::new(),
        }
    }

    /// Takes an [`Output::Want`]; other outputs come back.
    pub fn take(&mut self, output: Output) -> Option<Output> {
        let Output::Want { class, number, bps } = output else { return Some(output) };
        if !self.objects.contains_key(&class) {
            let refusal = Refusal::new(Code::BadReference, &class, bps);
            self.answers.push_back(InRouter { class, number, refused: Some(refusal) });
            return None;
        }
        self.wants.insert(class.clone(), Want { number, bps, answered: false, retry_at: None });
        self.answer_if_there(&class);
        None
    }

    /// The next answer to an [`Output::Want`].
    pub fn poll_input(&mut self) -> Option<Input> {
        self.answers.pop_front().map(Input::from)
    }

    /// What a class of the router should have; nothing where nothing is reserved.
    fn spec(&self, bps: u64, name: &Name) -> Option<AllocationSpec> {
        let own = self.classes.get(name).map_or(Rate::ZERO, |class| class.own);
        (bps > 0).then(|| AllocationSpec {
            class: name.clone(),
            guarantee: Some(Rate(bps).max(own)),
            ceiling: None,
            shared: false,
        })
    }

    /// The classes of a logical class that do not have what they should.
    fn owed(&self, logical: &str, bps: u64) -> Vec<(Name, Option<AllocationSpec>)> {
        let objects = self.objects.get(logical).into_iter().flatten();
        let specs = objects.map(|name| (name.clone(), self.spec(bps, name)));
        let owes = |(name, spec): &(Name, Option<AllocationSpec>)| {
            self.classes.get(name).is_some_and(|class| class.present && class.on_router != *spec)
        };
        specs.filter(owes).collect()
    }

    /// Answers a want of which the router has nothing to be told.
    fn answer_if_there(&mut self, logical: &str) {
        if self.fresh || !self.sent.is_empty() {
            return;
        }
        let Some(want) = self.wants.get(logical).filter(|want| !want.answered) else { return };
        let (number, bps) = (want.number, want.bps);
        let mut objects = self.objects.get(logical).into_iter().flatten();
        let missing = objects.find(|name| !self.classes.get(name).is_some_and(|class| class.present));
        if let Some(missing) = missing.filter(|_| bps > 0) {
            let link = missing.to_string();
            self.answer(
                logical,
                number,
                Err(Refusal { link, ..Refusal::new(Code::BadReference, logical, bps) }),
            );
        } else if self.owed(logical, bps).is_empty() {
            self.answer(logical, number, Ok(()));
        }
    }

    fn answer(&mut self, logical: &str, number: u64, result: Result<(), Refusal>) {
        let Some(want) = self.wants.get_mut(logical).filter(|want| want.number >= number) else { return };
        if want.number == number && std::mem::replace(&mut want.answered, true) {
            return;
        }
        let class = logical.to_owned();
        self.answers.push_back(InRouter { class, number, refused: result.err() });
    }

    /// Logical classes that owe the router something, and from when on it may be wished.
    fn owing(&self) -> impl Iterator<Item = (&String, Instant)> {
        let wants = self.wants.iter().filter(|(name, want)| !self.owed(name, want.bps).is_empty());
        wants.map(|(name, want)| (name, want.retry_at.unwrap_or(Instant::ZERO).max(self.quiet_until)))
    }

    fn answer_all(&mut self) {
        for logical in self.wants.keys().cloned().collect::<Vec<_>>() {
            self.answer_if_there(&logical);
        }
    }
}

/// What a class has by itself.
fn own_guarantee(objects: &BTreeMap<&Name, &Spec>, name: &Name, depth: usize) -> Rate {
    let Some(Spec::Class(class)) = objects.get(name) else { return Rate::ZERO };
    let whole = match &class.parent {
        Some(parent) if depth > 0 => own_guarantee(objects, parent, depth - 1),
        Some(_) => Rate::ZERO,
        None => match objects.get(&class.port) {
            Some(Spec::Port(port)) => port.rate,
            _ => Rate::ZERO,
        },
    };
    class.guarantee.of(whole)
}

/// What became of an [`Output::Want`] in the router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InRouter {
    /// Logical class.
    pub class: String,
    /// The number of the want.
    pub number: u64,
    /// Why the router does not have it; none = it has.
    pub refused: Option<Refusal>,
}

impl From<InRouter> for Input {
    fn from(InRouter { class, number, refused }: InRouter) -> Self {
        match refused {
            None => Self::Committed(class, number),
            Some(refusal) => Self::Refused(class, number, refusal),
        }
    }
}

impl<N: From<InRouter>> Part<N> for Reserved {
    fn kinds(&self) -> &[Kind] {
        &[Kind::Port, Kind::Class, Kind::Allocation]
    }

    fn is_forced(&self) -> bool {
        false
    }

    fn objects(&mut self, _now: Instant, objects: &[ObjectState]) {
        let there = objects.iter().filter(|object| object.status == Status::Active);
        let plain = there.clone().filter(|object| object.kind != Kind::Allocation);
        let specs: BTreeMap<&Name, &Spec> = plain.map(|object| (&object.name, &object.spec)).collect();
        let own = there.filter(|object| object.owner == Owner::Agent);
        let allocations: BTreeMap<&Name, &AllocationSpec> = own
            .filter_map(|object| match &object.spec {
                Spec::Allocation(spec) => Some((&object.name, spec)),
                _ => None,
            })
            .collect();
        for (name, class) in &mut self.classes {
            class.present = matches!(specs.get(name), Some(Spec::Class(_)));
            class.own = own_guarantee(&specs, name, DEPTH);
            class.on_router = allocations.get(name).map(|spec| (*spec).clone());
            if self.fresh {
                class.held.clone_from(&class.on_router);
            }
        }
        self.fresh = false;
        self.answer_all();
    }

    fn readings(&mut self, _now: Instant, _readings: &Readings) {}

    /// What was sent may have been done or not; the next reading says so.
    fn gone(&mut self, _now: Instant) {
        self.sent.clear();
    }

    fn tick(&mut self, _now: Instant, _look: Look) {}

    fn next_wakeup(&self, _look: Look) -> Option<Instant> {
        None
    }

    fn next_look(&self) -> Option<Instant> {
        None
    }

    fn looked(&mut self, _now: Instant) {}

    fn next_wish(&self) -> Option<Instant> {
        self.owing().map(|(_, at)| at).min()
    }

    fn owes(&self) -> bool {
        self.owing().next().is_some()
    }

    fn wants(&mut self, now: Instant) -> Vec<Op> {
        let most = if std::mem::take(&mut self.alone) { 1 } else { usize::MAX };
        let due = self.owing().filter(|(_, at)| *at <= now).map(|(name, _)| name.clone());
        let due: Vec<String> = due.take(most).collect();
        let mut ops = Vec::new();
        for logical in due {
            let (number, bps) = self.wants.get(&logical).map_or((0, 0), |want| (want.number, want.bps));
            for (name, spec) in self.owed(&logical, bps) {
                ops.push(match spec {
                    Some(spec) => Op::put(Object::new(name, Spec::Allocation(spec))),
                    None => Op::Delete { kind: Kind::Allocation, name, if_version: None, drain_ms: None },
                });
            }
            self.sent.push((logical, number, bps));
        }
        ops
    }

    fn committed(&mut self, _now: Instant) {
        for (logical, number, bps) in std::mem::take(&mut self.sent) {
            for (name, spec) in self.owed(&logical, bps) {
                if let Some(class) = self.classes.get_mut(&name) {
                    (class.held, class.on_router) = (spec.clone(), spec);
                }
            }
            self.answer(&logical, number, Ok(()));
        }
        self.answer_all();
    }

    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        let sent = std::mem::take(&mut self.sent);
        let busy = |error: &ErrorItem| matches!(error.code, Code::Overload | Code::ShuttingDown);
        if errors.is_empty() || errors.iter().any(busy) {
            self.quiet_until = now + pause;
            return;
        }
        // Operations are in the order of the classes.
        let (mut first, mut any) = (0, false);
        for (logical, number, bps) in &sent {
            let next = first + self.owed(logical, *bps).len();
            let own = |error: &&ErrorItem| error.op.map_or(sent.len() == 1, |op| (first..next).contains(&op));
            if let Some(error) = errors.iter().find(own) {
                any = true;
                let refusal = Refusal {
                    link: error.path.clone(),
                    free_bps: error.free.unwrap_or(0),
                    ..Refusal::new(error.code, logical, *bps)
                };
                self.answer(logical, *number, Err(refusal));
                if let Some(want) = self.wants.get_mut(logical).filter(|want| want.number == *number) {
                    want.retry_at = Some(now + RETRY.max(pause));
                }
            }
            first = next;
        }
        self.alone = !any;
    }

    fn allocation(&self, class: &Name) -> Option<&AllocationSpec> {
        self.classes.get(class)?.held.as_ref()
    }

    fn leased(&mut self, class: &str, number: u64, bps: u64) {
        self.take(Output::Want { class: class.to_owned(), number, bps });
    }

    fn notices(&mut self) -> Vec<N> {
        self.answers.drain(..).map(N::from).collect()
    }
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
