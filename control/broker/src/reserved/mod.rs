//! The part of an agent that gives its router what the domain has reserved there: to classes what they need for it, and to
//! packets that enter there their class, up to the rate that is theirs.
//!
//! What the domain wants and what the router has are compared item by item: a class, or a flow. An item that differs is *owed*.
//!
//! ```text
//!        news, readings            wish               committed
//! level ────────────────► owed ─────────► on its way ───────────► level
//!                          ▲ ▲               │    │
//!                          │ └── not blamed ─┘    │ blamed
//!                          └────── pause over ────┘
//! ```
//!
//! Until the controller has spoken everything stays as an instance before this one has left it. When the controller is away flows
//! live on until their time is over; it is the router that ends them then, whether an agent is there or not.

mod item;
mod objects;

pub use item::{Item, Notice, Standing};

use item::{Owed, Wanted};
use objects::{Flow, flow_of, is_own};
use perhop_agent::{DomainNews, Look, Part, Readings};
use perhop_model::{AllocationSpec, ErrorItem, Kind, Name, ObjectState, Op, Owner, Spec, Status};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};
use std::collections::{BTreeMap, BTreeSet};

/// Most items of a wish: a transaction of them takes the router a few milliseconds.
const MOST_ITEMS: usize = 500;

/// See the module.
#[derive(Debug, Default)]
pub struct Reserved {
    /// What the domain wants.
    wanted: Wanted,
    /// The controller has said all of it at least once.
    heard: bool,
    /// Object names of classes by port and logical name.
    classes: BTreeMap<(Name, Name), Name>,
    /// The router's state has been read.
    seen: bool,
    /// What classes have because of this part.
    shares: BTreeMap<Name, AllocationSpec>,
    /// Flows that the router has.
    flows: BTreeMap<u64, Flow>,
    owed: Owed,
    /// Items on their way, each as the router will have it and with the number of its operations.
    sent: Vec<(Sent, usize)>,
    /// One item goes at a time: of several that were refused nobody knows which is at fault.
    careful: bool,
    quiet_until: Instant,
    /// What was told last of how the router stands, and when.
    told: (Standing, Instant),
    next_look: Instant,
    notices: Vec<Notice>,
}

/// An item as it was wished for: what is wanted may be another by the time it is committed.
#[derive(Debug)]
enum Sent {
    Class(Name, Option<AllocationSpec>),
    Flow(u64, Option<Flow>),
}

impl Sent {
    fn item(&self) -> Item {
        match self {
            Sent::Class(class, _) => Item::Class(class.clone()),
            Sent::Flow(id, _) => Item::Flow(*id),
        }
    }
}

/// How the router stands is told so often at most.
const TELL: Duration = Duration::from_millis(200);

/// Whether others have changed something of the router is looked at so often.
const LOOK: Duration = Duration::from_secs(2);

impl Reserved {
    /// Nothing is known yet.
    pub fn new(now: Instant) -> Self {
        Self { next_look: now + LOOK, ..Self::default() }
    }

    /// How the router stands to what the domain wants.
    pub fn standing(&self) -> Standing {
        let owed = self.owed.len() + self.without_class().count();
        Standing { flows: self.wanted.flows.len(), owed, settled: self.seen && self.heard && owed == 0 }
    }

    /// What a class is to have, `None` where nothing is reserved of it.
    fn share(&self, class: &Name) -> Option<AllocationSpec> {
        if !self.heard {
            return self.shares.get(class).cloned();
        }
        let of_class = self.classes.iter().filter(|(_, object)| *object == class);
        let bps = of_class.filter_map(|(key, _)| self.wanted.shares.get(key)).max().copied()?;
        let guarantee = Some(bps).filter(|bps| *bps > Rate::ZERO)?;
        Some(AllocationSpec {
            class: class.clone(),
            guarantee: Some(guarantee),
            ceiling: None,
            shared: false,
        })
    }

    /// Compares an item, and notes whether it is owed.
    fn compare(&mut self, item: &Item) {
        let is_owed = match item {
            Item::Class(class) => self.share(class).as_ref() != self.shares.get(class),
            Item::Flow(id) => match (self.wanted.flows.get(id), self.flows.get(id)) {
                (None, None) => false,
                // Nobody knows yet what the domain wants.
                (None, Some(_)) => self.heard,
                (Some(_), None) => true,
                (Some(wanted), Some(had)) => !had.is_as(wanted),
            },
        };
        self.owed.set(item, is_owed);
    }

    fn compare_all(&mut self) {
        let classes = self.classes.values().chain(self.shares.keys()).cloned().map(Item::Class);
        let flows = self.wanted.flows.keys().chain(self.flows.keys()).copied().map(Item::Flow);
        let items: BTreeSet<Item> = classes.chain(flows).collect();
        self.owed.keep(|item| items.contains(item));
        items.iter().for_each(|item| self.compare(item));
    }

    /// Tells of classes that have reservations and are not there.
    fn look_for_classes(&mut self) {
        if !self.seen {
            return;
        }
        let told: Vec<Notice> = self
            .without_class()
            .map(|(port, class)| Notice::NoClass { port: port.clone(), class: class.clone() })
            .collect();
        self.notices.extend(told);
    }

    /// Classes that have reservations and that the router, as far as it is known, has not.
    fn without_class(&self) -> impl Iterator<Item = &(Name, Name)> {
        let wanted = self.wanted.shares.iter().filter(|(_, bps)| self.seen && **bps > Rate::ZERO);
        wanted.map(|(key, _)| key).filter(|key| !self.classes.contains_key(*key))
    }

    fn operations(&self, now: Instant, item: &Item) -> Vec<Op> {
        match item {
            Item::Class(class) => vec![objects::allocate(class, self.share(class))],
            Item::Flow(id) => objects::change(now, *id, self.flows.get(id), self.wanted.flows.get(id)),
        }
    }
}

impl<N: From<Notice>> Part<N> for Reserved {
    fn kinds(&self) -> &[Kind] {
        &[Kind::Class, Kind::Profile, Kind::Filter, Kind::Allocation]
    }

    fn is_forced(&self) -> bool {
        false
    }

    fn objects(&mut self, _now: Instant, objects: &[ObjectState]) {
        let own = |object: &&ObjectState| object.owner == Owner::Agent && object.status == Status::Active;
        self.classes.clear();
        self.shares.clear();
        self.flows.clear();
        for object in objects.iter().filter(|object| object.status == Status::Active) {
            if let Spec::Class(class) = &object.spec
                && let Ok(logical) = Name::new(class.logical_name(&object.name))
            {
                self.classes.insert((class.port.clone(), logical), object.name.clone());
            }
        }
        for object in objects.iter().filter(own) {
            match &object.spec {
                Spec::Allocation(spec) => drop(self.shares.insert(object.name.clone(), spec.clone())),
                Spec::Profile(_) | Spec::Filter(_) if is_own(&object.name) => {
                    if let Some(id) = flow_of(&object.name) {
                        self.flows.entry(id).or_default().found(object);
                    }
                }
                _ => {}
            }
        }
        if !std::mem::replace(&mut self.seen, true) && self.heard {
            self.look_for_classes();
        }
        self.compare_all();
    }

    fn readings(&mut self, _now: Instant, _readings: &Readings) {}

    fn gone(&mut self, _now: Instant) {
        self.seen = false;
        self.sent.clear();
    }

    fn restarted(&mut self, now: Instant) {
        Part::<N>::gone(self, now);
    }

    fn domain(&mut self, now: Instant, news: &DomainNews) {
        match news {
            DomainNews::Begin => self.wanted.begin(),
            DomainNews::Complete => {
                self.wanted.complete();
                self.heard = true;
                self.look_for_classes();
                self.compare_all();
            }
            // What it said last holds; a half-told state is forgotten with the connection.
            DomainNews::Away => self.wanted.abandon(),
            DomainNews::Share { port, class, bps } => {
                let key = (port.clone(), class.clone());
                let is_first = self.wanted.shares.get(&key).is_none_or(|bps| *bps == Rate::ZERO);
                self.wanted.share(port, class, *bps);
                if let Some(object) = self.classes.get(&key).cloned() {
                    self.compare(&Item::Class(object));
                } else if self.seen && is_first && *bps > Rate::ZERO && !self.wanted.is_being_told() {
                    let (port, class) = key;
                    self.notices.push(Notice::NoClass { port, class });
                }
            }
            DomainNews::Flow(flow) => {
                self.wanted.flow(now, flow);
                self.compare(&Item::Flow(flow.id));
            }
            DomainNews::FlowGone { id } => {
                self.wanted.flow_gone(*id);
                self.compare(&Item::Flow(*id));
            }
            // What the router has for leases is not this part's.
            DomainNews::Lease { .. } => {}
        }
    }

    fn tick(&mut self, now: Instant, _look: Look) {
        for id in self.wanted.ended(now) {
            // The router ends it by itself, too.
            self.flows.remove(&id);
            self.compare(&Item::Flow(id));
        }
        let (standing, (told, at)) = (self.standing(), self.told);
        if standing != told && now >= at + TELL {
            self.told = (standing, now);
            self.notices.push(Notice::Standing(standing));
        }
    }

    fn next_wakeup(&self, _look: Look) -> Option<Instant> {
        let (told, at) = self.told;
        let tell = (self.standing() != told).then(|| at + TELL);
        [self.wanted.next_end(), tell].into_iter().flatten().min()
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.next_look)
    }

    fn looked(&mut self, now: Instant) {
        self.next_look = now + LOOK;
    }

    fn next_wish(&self) -> Option<Instant> {
        self.owed.next().filter(|_| self.seen).map(|at| at.max(self.quiet_until))
    }

    fn owes(&self) -> bool {
        self.owed.len() > 0
    }

    fn wants(&mut self, now: Instant) -> Vec<Op> {
        if !self.seen || now < self.quiet_until {
            return Vec::new();
        }
        let most = if self.careful { 1 } else { MOST_ITEMS };
        let due: Vec<Item> = self.owed.due(now).take(most).collect();
        let mut ops = Vec::new();
        self.sent.clear();
        for item in due {
            let of_item = self.operations(now, &item);
            let sent = match item {
                Item::Class(class) => {
                    let share = self.share(&class);
                    Sent::Class(class, share)
                }
                Item::Flow(id) => Sent::Flow(id, self.wanted.flows.get(&id).map(Flow::of)),
            };
            self.sent.push((sent, of_item.len()));
            ops.extend(of_item);
        }
        ops
    }

    fn committed(&mut self, _now: Instant) {
        self.careful = false;
        for (sent, _) in std::mem::take(&mut self.sent) {
            let item = sent.item();
            match sent {
                Sent::Class(class, Some(share)) => drop(self.shares.insert(class, share)),
                Sent::Class(class, None) => drop(self.shares.remove(&class)),
                Sent::Flow(id, Some(flow)) => drop(self.flows.insert(id, flow)),
                Sent::Flow(id, None) => drop(self.flows.remove(&id)),
            }
            self.owed.set(&item, false);
            self.compare(&item);
        }
    }

    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        let sent = std::mem::take(&mut self.sent);
        let is_busy = |e: &ErrorItem| matches!(e.code, Code::Overload | Code::ShuttingDown);
        if errors.is_empty() || errors.iter().any(is_busy) {
            self.quiet_until = now + pause;
            return;
        }
        let mut first = 0;
        let mut blamed = Vec::new();
        for (item, operations) in &sent {
            let own = first..first + operations;
            first = own.end;
            let of_item: Vec<ErrorItem> =
                errors.iter().filter(|e| e.op.is_some_and(|op| own.contains(&op))).cloned().collect();
            if !of_item.is_empty() {
                blamed.push((item.item(), of_item));
            }
        }
        if let ([(only, _)], []) = (&sent[..], &blamed[..]) {
            blamed.push((only.item(), errors.to_vec()));
        }
        self.careful = blamed.is_empty();
        if self.careful {
            self.quiet_until = now + pause;
        }
        for (item, errors) in blamed {
            self.owed.blame(now, &item);
            self.notices.push(Notice::NotReserved { item, errors });
        }
    }

    fn allocation(&self, class: &Name) -> Option<&AllocationSpec> {
        self.shares.get(class)
    }

    fn notices(&mut self) -> Vec<N> {
        self.notices.drain(..).map(N::from).collect()
    }
}

#[cfg(test)]
mod tests;
