//! What the kernel has, and how a change gets there: all of it or nothing.
//!
//! A change is worked out to steps, each of which the kernel does by messages, and can take back by others. All messages go
//! together. What the kernel refuses is found by its place, and the steps that were done are taken back from the last to
//! the first. Filters go before and come after the classes that they name, so that no packet is sent to a class that is not there.
//!
//! The class of a flow that ends stays, without filters, for the next: a new class costs the kernel a walk over all classes of the
//! interface (it looks for filters that wait for one of that name), and new parameters of an old one do not.

use super::planner::{Change, flow_class};
use super::rules::{Family, PORT_BITS, Rule, rules};
use super::start::{DEFAULT, LINK, Service, rest_class, shared};
use perhop_model::{Key, Kind, Name, Spec};
use perhop_netlink::Netlink;
use perhop_netlink::tc::{Handle, HtbClass, TcChange, U32Key, U32Place, U32Then};
use perhop_reason::Code;
use perhop_units::Rate;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

/// The qdisc at the root of an interface that is ours.
pub(super) const ROOT: Handle = Handle::new(0x7ca0, 0);
/// Minor numbers of the classes of flows.
const FIRST_FLOW: u16 = 0x100;
const LAST_FLOW: u16 = 0xfffe;
/// Flows at the same time: a class has 16 bits for its number.
pub(super) const FLOWS: usize = (LAST_FLOW - FIRST_FLOW) as usize + 1;
/// The rule of a bucket that asks the table behind it; others have higher numbers.
const BEHIND: u16 = 1;
const LAST_NODE: u16 = 0xfff;

/// Why a change is not made: of an object, if it is one's fault.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) key: Option<Key>,
    pub(super) code: Code,
    pub(super) why: String,
}

#[derive(Clone, Debug)]
struct Flow {
    service: u16,
    minor: u16,
    class: HtbClass,
}

#[derive(Clone, Debug)]
struct Placed {
    family: Family,
    place: U32Place,
    keys: Vec<U32Key>,
    minor: u16,
}

impl Placed {
    fn add(&self) -> TcChange {
        let then = U32Then::Class(Handle::new(ROOT.major(), self.minor));
        TcChange::AddRule { chain: self.family.chain(), place: self.place, keys: self.keys.clone(), then }
    }

    fn delete(&self) -> TcChange {
        TcChange::DeleteRule { chain: self.family.chain(), place: self.place }
    }
}

/// Numbers of a bucket that are free.
#[derive(Debug, Default)]
struct Bucket {
    /// All from here on have never been used; 0 = the first has not.
    next: u16,
    free: BTreeSet<u16>,
}

impl Bucket {
    fn take(&mut self) -> Option<u16> {
        self.free.pop_first().or_else(|| {
            self.next = self.next.max(BEHIND) + 1;
            (self.next <= LAST_NODE).then_some(self.next)
        })
    }
}

/// Something to be done.
#[derive(Clone, Debug)]
enum Step {
    /// A class of the interface gets another rate.
    Class {
        minor: u16,
        before: HtbClass,
        after: HtbClass,
    },
    NewFlow {
        profile: Name,
        flow: Flow,
        reused: Option<HtbClass>,
    },
    ChangeFlow {
        profile: Name,
        before: Flow,
        after: HtbClass,
    },
    /// No filter names its class any more.
    EndFlow {
        profile: Name,
    },
    /// The table by ports behind a bucket.
    Table {
        family: Family,
        bucket: u8,
    },
    AddRule {
        filter: Name,
        placed: Placed,
    },
    DeleteRule {
        filter: Name,
        placed: Placed,
    },
}

impl Step {
    fn messages(&self) -> Vec<TcChange> {
        match self {
            Self::Class { minor, after, .. } => vec![change_class(LINK, *minor, *after)],
            Self::NewFlow { flow: Flow { service, minor, class }, reused: None, .. } => {
                vec![TcChange::AddClass { parent: *service, minor: *minor, class: *class }]
            }
            Self::NewFlow { flow, .. } => vec![change_class(flow.service, flow.minor, flow.class)],
            Self::ChangeFlow { before, after, .. } => {
                vec![change_class(before.service, before.minor, *after)]
            }
            Self::EndFlow { .. } => vec![],
            Self::Table { family, bucket } => {
                let (chain, table) = (family.chain(), family.by_port(*bucket));
                let place = U32Place { table: family.by_destination(), bucket: *bucket, node: BEHIND };
                let then = U32Then::Table { table, offset: family.ports_at(), mask: PORT_BITS };
                vec![
                    TcChange::AddTable { chain, table, hashed: true },
                    TcChange::AddRule { chain, place, keys: vec![], then },
                ]
            }
            Self::AddRule { placed, .. } => vec![placed.add()],
            Self::DeleteRule { placed, .. } => vec![placed.delete()],
        }
    }

    /// What takes it back. Tables stay.
    fn undo(&self) -> Option<TcChange> {
        match self {
            Self::Class { minor, before, .. } => Some(change_class(LINK, *minor, *before)),
            Self::NewFlow { flow, reused: None, .. } => Some(TcChange::DeleteClass { minor: flow.minor }),
            Self::NewFlow { flow, reused: Some(class), .. } => {
                Some(change_class(flow.service, flow.minor, *class))
            }
            Self::ChangeFlow { before, .. } => Some(change_class(before.service, before.minor, before.class)),
            Self::EndFlow { .. } | Self::Table { .. } => None,
            Self::AddRule { placed, .. } => Some(placed.delete()),
            Self::DeleteRule { placed, .. } => Some(placed.add()),
        }
    }

    /// Whether what the kernel said does not matter: it is as it should be.
    fn forgives(&self, errno: i32) -> bool {
        match self {
            Self::Table { .. } => errno == EXISTS,
            Self::DeleteRule { .. } => errno == NO_ENTRY,
            _ => false,
        }
    }
}

const EXISTS: i32 = 17;
const NO_ENTRY: i32 = 2;

fn change_class(parent: u16, minor: u16, class: HtbClass) -> TcChange {
    TcChange::ChangeClass { parent, minor, class }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Books {
    netlink: Netlink,
    ifindex: u32,
    link: Rate,
    /// By logical class.
    services: BTreeMap<Name, Service>,
    rest: HtbClass,
    /// By profile. Nothing iterates over this, nor over the next two.
    flows: HashMap<Name, Flow>,
    /// By filter.
    placed: HashMap<Name, Vec<Placed>>,
    buckets: HashMap<(u16, u8), Bucket>,
    tables: HashSet<u16>,
    /// Classes without a flow, by service.
    spare: BTreeMap<u16, Vec<(u16, HtbClass)>>,
    /// Numbers of classes that are not there.
    free: Vec<u16>,
    next: u16,
}

impl Books {
    /// Of an interface that has been set up.
    pub(super) fn new(
        netlink: Netlink,
        ifindex: u32,
        link: Rate,
        services: BTreeMap<Name, Service>,
        rest: HtbClass,
    ) -> Self {
        Self {
            netlink,
            ifindex,
            link,
            services,
            rest,
            flows: HashMap::new(),
            placed: HashMap::new(),
            buckets: HashMap::new(),
            tables: HashSet::new(),
            spare: BTreeMap::new(),
            free: Vec::new(),
            next: FIRST_FLOW,
        }
    }

    /// Makes a change, or nothing of it.
    ///
    /// # Errors
    /// Why not; then all is as it was.
    pub(super) fn apply(&mut self, change: &Change) -> Result<(), Failure> {
        let mut steps = Vec::new();
        if let Err(failure) = self.work_out(change, &mut steps) {
            self.give_back(steps.into_iter().map(|(step, _)| step));
            return Err(failure);
        }
        let mut messages = Vec::new();
        let mut of_step = Vec::new();
        for (at, (step, _)) in steps.iter().enumerate() {
            for message in step.messages() {
                messages.push(message);
                of_step.push(at);
            }
        }
        if messages.is_empty() {
            steps.into_iter().for_each(|(step, _)| self.note(step));
            return Ok(());
        }
        let said = match self.netlink.change_traffic_control(self.ifindex, ROOT, &messages) {
            Ok(said) => said,
            Err(error) => {
                // How far it came is not known: what was not done is taken back in vain.
                self.take_back(steps.iter().map(|(step, _)| step));
                self.give_back(steps.into_iter().map(|(step, _)| step));
                return Err(Failure { key: None, code: Code::BackendFailed, why: error.to_string() });
            }
        };
        let refused = |(at, errno): &(usize, i32)| *errno != 0 && !steps[*at].0.forgives(*errno);
        let answers: Vec<(usize, i32)> = of_step.iter().copied().zip(said).collect();
        let Some((first, errno)) = answers.iter().copied().find(refused) else {
            steps.into_iter().for_each(|(step, _)| self.note(step));
            return Ok(());
        };
        let done = |at: usize| !answers.iter().any(|answer| answer.0 == at && refused(answer));
        let undo: Vec<&Step> =
            steps.iter().enumerate().filter(|(at, _)| done(*at)).map(|(_, (step, _))| step).collect();
        self.take_back(undo.into_iter());
        let key = steps[first].1.clone();
        self.give_back(steps.into_iter().map(|(step, _)| step));
        let why = format!("the kernel says: {}", io::Error::from_raw_os_error(errno));
        Err(Failure { key: Some(key), code: Code::BackendFailed, why })
    }

    fn take_back<'s>(&self, steps: impl DoubleEndedIterator<Item = &'s Step>) {
        let undo: Vec<TcChange> = steps.rev().filter_map(Step::undo).collect();
        if undo.is_empty() {
            return;
        }
        match self.netlink.change_traffic_control(self.ifindex, ROOT, &undo) {
            Ok(said) => {
                let failed = said.iter().filter(|errno| !matches!(**errno, 0 | NO_ENTRY)).count();
                if failed > 0 {
                    tracing::error!(failed, "what the kernel was to take back it did not");
                }
            }
            Err(error) => tracing::error!(%error, "what was done in the kernel cannot be taken back"),
        }
    }

    /// The steps of a change, each with the object on whose account it is. Numbers are taken for them.
    fn work_out(&mut self, change: &Change, steps: &mut Vec<(Step, Key)>) -> Result<(), Failure> {
        let gone =
            change.objects.iter().filter(|(key, (before, _))| key.kind == Kind::Filter && before.is_some());
        for (key, _) in gone {
            for placed in self.placed.get(&key.name).cloned().unwrap_or_default() {
                steps.push((Step::DeleteRule { filter: key.name.clone(), placed }, key.clone()));
            }
        }
        self.classes(change, steps);
        for (key, (_, after)) in &change.objects {
            match (key.kind, after.as_ref().map(|entry| &*entry.spec)) {
                (Kind::Profile, Some(Spec::Profile(profile))) => {
                    let Some(before) = self.flows.get(&key.name).cloned() else { continue };
                    let fail = |why: &str| failure(key, Code::Unsupported, why);
                    let after =
                        HtbClass { priority: before.class.priority, ..flow_class(profile).map_err(fail)? };
                    if after != before.class {
                        let profile = key.name.clone();
                        steps.push((Step::ChangeFlow { profile, before, after }, key.clone()));
                    }
                }
                (Kind::Profile, None) if self.flows.contains_key(&key.name) => {
                    steps.push((Step::EndFlow { profile: key.name.clone() }, key.clone()));
                }
                (Kind::Filter, Some(_)) => self.filter(change, key, steps)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Rates of the classes of the interface.
    fn classes(&self, change: &Change, steps: &mut Vec<(Step, Key)>) {
        let Some((cause, _)) = change.objects.first_key_value() else { return };
        if change.guarantees.is_empty() {
            return;
        }
        let mut sum = Rate::ZERO;
        for service in self.services.values() {
            let found = change.guarantees.iter().find(|(class, _)| *class == service.class);
            let rate = found.map_or(service.htb.rate, |(_, rate)| *rate);
            sum = Rate(sum.0.saturating_add(rate.0));
            let after = shared(rate, self.link, service.htb.priority);
            if after != service.htb {
                let step = Step::Class { minor: service.minor, before: service.htb, after };
                steps.push((step, cause.clone()));
            }
        }
        let after = rest_class(self.link, sum);
        if after != self.rest && !steps.is_empty() {
            steps.push((Step::Class { minor: DEFAULT, before: self.rest, after }, cause.clone()));
        }
    }

    /// A filter that is new, or is made anew.
    fn filter(&mut self, change: &Change, key: &Key, steps: &mut Vec<(Step, Key)>) -> Result<(), Failure> {
        let entry = change.objects.get(key).and_then(|(_, after)| after.as_ref());
        let Some(Spec::Filter(filter)) = entry.map(|entry| &*entry.spec) else { return Ok(()) };
        let (Some(class), Some(profile)) = (&filter.class, &filter.profile) else { return Ok(()) };
        let minor = self.minor_of(change, key, (class, profile), steps)?;
        for rule in rules(&filter.matches).map_err(|why| failure(key, Code::Unsupported, why))? {
            let placed = self.place(key, rule, minor, steps)?;
            steps.push((Step::AddRule { filter: key.name.clone(), placed }, key.clone()));
        }
        Ok(())
    }

    /// The class that a filter's packets go to: that of its profile, which is made with the first filter.
    fn minor_of(
        &mut self,
        change: &Change,
        key: &Key,
        (class, profile): (&Name, &Name),
        steps: &mut Vec<(Step, Key)>,
    ) -> Result<u16, Failure> {
        let made = steps.iter().find_map(|(step, _)| match step {
            Step::NewFlow { profile: name, flow, .. } if name == profile => Some(flow.minor),
            _ => None,
        });
        if let Some(minor) = made.or_else(|| self.flows.get(profile).map(|flow| flow.minor)) {
            return Ok(minor);
        }
        let of_profile = Key { kind: Kind::Profile, name: profile.clone() };
        let entry = change.objects.get(&of_profile).and_then(|(_, after)| after.as_ref());
        let Some(Spec::Profile(spec)) = entry.map(|entry| &*entry.spec) else {
            return Err(failure(key, Code::Unsupported, "a profile gets its filters when it is made"));
        };
        let Some(service) = self.services.get(class) else {
            return Err(failure(
                key,
                Code::BadReference,
                "this class holds no flows: it is what all others leave",
            ));
        };
        let held = flow_class(spec).map_err(|why| failure(key, Code::Unsupported, why))?;
        let wanted = HtbClass { priority: service.htb.priority, ..held };
        let (service, spare) = (service.minor, self.spare.get_mut(&service.minor).and_then(Vec::pop));
        let (minor, reused) = match spare {
            Some((minor, class)) => (minor, Some(class)),
            None => (self.new_minor(key)?, None),
        };
        let flow = Flow { service, minor, class: wanted };
        steps.push((Step::NewFlow { profile: profile.clone(), flow, reused }, of_profile));
        Ok(minor)
    }

    fn new_minor(&mut self, key: &Key) -> Result<u16, Failure> {
        if let Some(minor) = self.free.pop() {
            return Ok(minor);
        }
        if self.next > LAST_FLOW {
            return Err(failure(
                key,
                Code::LimitReached,
                "all numbers of classes of the interface are taken",
            ));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    fn place(
        &mut self,
        key: &Key,
        rule: Rule,
        minor: u16,
        steps: &mut Vec<(Step, Key)>,
    ) -> Result<Placed, Failure> {
        let Rule { family, hashed, keys } = rule;
        let (table, bucket) = match hashed {
            None => (family.list(), 0),
            Some((bucket, behind)) => {
                let table = family.by_port(bucket);
                // Noted at once: should the change fail, making it again does no harm.
                if self.tables.insert(table) {
                    steps.push((Step::Table { family, bucket }, key.clone()));
                }
                (table, behind)
            }
        };
        let full = "too many flows are in one bucket of the kernel's table: it takes 4,094";
        let node = self.buckets.entry((table, bucket)).or_default().take();
        let node = node.ok_or_else(|| failure(key, Code::LimitReached, full))?;
        Ok(Placed { family, place: U32Place { table, bucket, node }, keys, minor })
    }

    /// Steps that were done.
    fn note(&mut self, step: Step) {
        match step {
            Step::Class { minor: DEFAULT, after, .. } => self.rest = after,
            Step::Class { minor, after, .. } => {
                let service = self.services.values_mut().find(|service| service.minor == minor);
                service.into_iter().for_each(|service| service.htb = after);
            }
            Step::NewFlow { profile, flow, .. } => drop(self.flows.insert(profile, flow)),
            Step::ChangeFlow { profile, after, .. } => {
                self.flows.get_mut(&profile).into_iter().for_each(|flow| flow.class = after);
            }
            Step::EndFlow { profile } => {
                if let Some(Flow { service, minor, class }) = self.flows.remove(&profile) {
                    self.spare.entry(service).or_default().push((minor, class));
                }
            }
            Step::Table { .. } => {}
            Step::AddRule { filter, placed } => self.placed.entry(filter).or_default().push(placed),
            Step::DeleteRule { filter, placed } => {
                self.placed.remove(&filter);
                self.free_node(placed.place);
            }
        }
    }

    /// Numbers that were taken for steps that are not done.
    fn give_back(&mut self, steps: impl Iterator<Item = Step>) {
        for step in steps {
            match step {
                Step::NewFlow { flow: Flow { service, minor, .. }, reused: Some(class), .. } => {
                    self.spare.entry(service).or_default().push((minor, class));
                }
                Step::NewFlow { flow, .. } => self.free.push(flow.minor),
                Step::AddRule { placed, .. } => self.free_node(placed.place),
                Step::Table { family, bucket } => drop(self.tables.remove(&family.by_port(bucket))),
                _ => {}
            }
        }
    }

    fn free_node(&mut self, place: U32Place) {
        let bucket = self.buckets.entry((place.table, place.bucket)).or_default();
        bucket.free.insert(place.node);
    }
}

fn failure(key: &Key, code: Code, why: &str) -> Failure {
    Failure { key: Some(key.clone()), code, why: why.to_owned() }
}
