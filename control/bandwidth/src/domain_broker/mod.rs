//! The broker that is the controller of the router's domain.
//!
//! What a measured class is granted is *leased* of the one link by which its port leaves the node: reserved in the domain's ledger like
//! everything else. The class's part in the router is the larger of what measurement wants and what reservations over paths have
//! there, its *share*. What is measured has the traffic of these reservations in it, so what is leased is what measurement wants beyond
//! the share: both are booked, and what the router gives the class is booked once.
//!
//! ```text
//!                more is wanted                    granted, in full or in part
//!  as leased ──────────────────► asked for ─────────────────────────────────────► as leased
//!      │                             └── refused: the class has what is leased beside its share
//!      └── less is wanted, and the router has no more than that, for a while: given back
//! ```
//!
//! Leases themselves are those of [`Leases`], each with one flow that has all of it: they are renewed, frozen while the controller is
//! away, and end. Then the class has its `least`. Before the controller has told everything for the first time a class keeps what it has.

mod class;

use crate::notice::{LinkAsk, Notice};
use class::Class;
pub use class::Place;
use perhop_agent::DomainNews;
use perhop_allocate::allocator::Answer;
use perhop_allocate::broker::{Broker, BrokerAnswer, BrokerAsk, ClassId};
use perhop_broker::lease::{
    ClassSettings, Decision, End, FlowAsk, FlowId, Input, LeaseId, Leases, Model, Output, Refusal, Settings,
};
use perhop_model::{ErrorItem, Name};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};
use std::collections::{BTreeMap, VecDeque};

/// The one class of [`Leases`]: places tell leases apart.
const CLASS: &str = "measured";
/// A question that is not decided for so long is taken as refused for now.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is not needed is given back after this: shares come and go.
const LINGER: Duration = Duration::from_secs(1);
/// What could not be had is asked for again after this, and then after twice as long, at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(32)];

/// See the module.
#[derive(Debug)]
pub struct DomainBroker {
    leases: Leases,
    now: Instant,
    classes: Vec<Class>,
    by_place: BTreeMap<Place, usize>,
    /// What reservations over paths have of a class of a port.
    shares: BTreeMap<Place, Rate>,
    /// The same, while all of it is told anew.
    telling: Option<BTreeMap<Place, Rate>>,
    answers: VecDeque<BrokerAnswer>,
    limits: VecDeque<(ClassId, Rate)>,
    notices: VecDeque<Notice>,
}

impl DomainBroker {
    /// Without a controller. `classes` are the router's, by number; leases live for `lifetime`. `first` is above the number of every question
    /// of earlier instances.
    pub fn new(
        classes: impl IntoIterator<Item = Name>,
        lifetime: Duration,
        first: u64,
        now: Instant,
    ) -> Self {
        let own = ClassSettings { model: Model::Outsourced, ..ClassSettings::default() };
        let settings = Settings {
            patience: PATIENCE,
            lifetime,
            margin: Duration(lifetime.0 / 12),
            ..Settings::new(BTreeMap::from([(CLASS.to_owned(), own)]))
        };
        Self {
            leases: Leases::new(settings, first, now).expect("lives of a file are long enough for a twelfth"),
            now,
            classes: classes.into_iter().map(Class::new).collect(),
            by_place: BTreeMap::new(),
            shares: BTreeMap::new(),
            telling: None,
            answers: VecDeque::new(),
            limits: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    /// Where a class is, by port and logical class; none = the router has no such class.
    pub(crate) fn located(&mut self, class: ClassId, place: Option<Place>) {
        let Some(i) = self.number(class) else { return };
        if self.classes[i].place == place {
            return;
        }
        if let Some(before) = self.classes[i].place.take() {
            self.by_place.remove(&before);
            self.classes[i].forget();
            self.tell(Input::Release(flow_of(&before)));
        }
        if let Some(place) = place {
            self.classes[i].share = self.shares.get(&place).copied().unwrap_or(Rate::ZERO);
            self.by_place.insert(place.clone(), i);
            self.classes[i].place = Some(place);
        }
        self.pursue(i);
    }

    /// What the router has for a class.
    pub(crate) fn in_router(&mut self, class: ClassId, rate: Rate) {
        if let Some(i) = self.number(class) {
            self.classes[i].in_router = rate;
            self.pursue(i);
        }
    }

    /// The controller has said this.
    pub(crate) fn news(&mut self, now: Instant, news: &DomainNews) {
        self.now = self.now.max(now);
        match news {
            DomainNews::Begin => self.telling = Some(BTreeMap::new()),
            DomainNews::Complete => {
                let Some(shares) = self.telling.take() else { return };
                self.shares = shares;
                for (place, i) in self.by_place.clone() {
                    self.classes[i].share = self.shares.get(&place).copied().unwrap_or(Rate::ZERO);
                }
                self.tell(Input::Back);
                for i in 0..self.classes.len() {
                    self.classes[i].goes_on();
                    self.pursue(i);
                }
            }
            DomainNews::Away => {
                self.telling = None;
                self.tell(Input::Lost);
            }
            DomainNews::Share { port, class, bps } => {
                let place = Place { port: port.clone(), class: class.to_string() };
                if let Some(telling) = &mut self.telling {
                    telling.insert(place, *bps);
                    return;
                }
                let i = self.by_place.get(&place).copied();
                self.shares.insert(place, *bps);
                if let Some(i) = i {
                    // What it has may be covered no more, and what is free has changed.
                    if std::mem::replace(&mut self.classes[i].share, *bps) > *bps {
                        self.classes[i].goes_on();
                    }
                    self.pursue(i);
                }
            }
            DomainNews::Lease { name, number, bps } => self.reduced(name, *number, Rate(*bps)),
            DomainNews::Flow(_) | DomainNews::FlowGone { .. } => {}
        }
    }

    /// The controller has decided about the lease of a name.
    pub(crate) fn decided(
        &mut self,
        now: Instant,
        name: &str,
        number: u64,
        bps: u64,
        refused: Option<&ErrorItem>,
    ) {
        self.now = self.now.max(now);
        let Some(place) = Place::of_lease(name) else { return };
        let refused = refused.map(|error| Refusal {
            link: error.path.clone(),
            free_bps: error.free.unwrap_or(0),
            ..Refusal::new(error.code, &place.class, 0)
        });
        let lease = lease_of(&place);
        self.tell(Input::Decision(Decision { lease, number, has: bps, refused }));
    }

    /// The next class that may have no more than this.
    pub(crate) fn poll_limit(&mut self) -> Option<(ClassId, Rate)> {
        self.limits.pop_front()
    }

    /// What is to be asked, and what a person should know.
    pub(crate) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn number(&self, class: ClassId) -> Option<usize> {
        Some(class.0 as usize).filter(|i| *i < self.classes.len())
    }

    /// Tells leases something, and does what they want.
    fn tell(&mut self, input: Input) {
        self.leases.handle_input(self.now, input);
        loop {
            // Nothing of it is kept: the router has what classes have, and the controller what is leased.
            let _ = self.leases.take_rows();
            let Some(output) = self.leases.poll_output() else { return };
            match output {
                Output::Ask(ask) => {
                    let Some(place) = ask.lease.flow.map(|flow| place_of(&flow)) else { continue };
                    let asks = LinkAsk {
                        lease: place.lease(),
                        port: place.port.to_string(),
                        class: place.class,
                        number: ask.number,
                        bps: ask.bps,
                        lifetime_ms: ask.lifetime.as_nanos() / 1_000_000,
                    };
                    self.notices.push_back(Notice::Asks(asks));
                }
                // What the router has is seen to by whoever asks: more after it is granted, less before it is given back.
                Output::Want { class, number, .. } => {
                    self.leases.handle_input(self.now, Input::Committed(class, number));
                }
                Output::Answer { flow, version, result } => {
                    if let Some(i) = self.by_place.get(&place_of(&flow)).copied() {
                        self.answered(i, version, result);
                    }
                }
                Output::Released(_) => {}
                Output::Ended(flow, why) => {
                    if let Some(i) = self.by_place.get(&place_of(&flow)).copied() {
                        self.ended(i, why);
                    }
                }
            }
        }
    }

    /// Has a class lease what it is to have beside its share, as far as that is known.
    fn pursue(&mut self, i: usize) {
        let class = &mut self.classes[i];
        let Some(place) = class.place.clone() else { return };
        let wanted = class.wanted();
        if wanted >= class.asked {
            class.lower_at = None;
        }
        let is_pausing = class.retry_at.is_some_and(|at| at > self.now);
        if !is_pausing {
            class.retry_at = None;
        }
        if wanted > class.asked && !is_pausing {
            self.lease(i, place, wanted);
        } else if wanted < class.asked && class.waits.is_none() {
            let at = *class.lower_at.get_or_insert(self.now + LINGER);
            if at <= self.now {
                class.lower_at = None;
                self.lease(i, place, wanted);
            }
        }
        self.grant(i);
    }

    fn lease(&mut self, i: usize, place: Place, rate: Rate) {
        let flow = flow_of(&place);
        let class = &mut self.classes[i];
        if rate == Rate::ZERO {
            class.forget();
            return self.tell(Input::Release(flow));
        }
        class.version += 1;
        (class.asked, class.waits) = (rate, Some(class.version));
        let (version, bps) = (class.version, rate.0);
        let (class, lifetime) = (CLASS.to_owned(), Duration(u64::MAX));
        self.tell(Input::Flow(FlowAsk { flow, version, class, to: None, bps, lifetime }));
    }

    /// Answers the allocator once what it asks for is leased.
    fn grant(&mut self, i: usize) {
        let class = &mut self.classes[i];
        if class.request.is_some_and(|(_, rate)| rate <= class.may()) {
            self.answer(i, Answer::Granted);
        }
    }

    fn answer(&mut self, i: usize, answer: impl Fn(Rate) -> Answer) {
        if let Some((id, rate)) = self.classes[i].request.take() {
            let class = ClassId(i as u32);
            self.answers.push_back(BrokerAnswer { class, id, answer: answer(rate) });
        }
    }

    fn answered(&mut self, i: usize, version: u64, result: Result<(), Refusal>) {
        let class = &mut self.classes[i];
        if class.waits.take_if(|waits| *waits == version).is_none() {
            return;
        }
        let Err(refusal) = result else {
            class.leased = class.asked;
            class.goes_on();
            return self.pursue(i);
        };
        let asked = std::mem::replace(&mut class.asked, class.leased);
        let is_decided = !matches!(
            refusal.code,
            Code::BackendFailed | Code::Timeout | Code::StaleVersion | Code::Overload | Code::ShuttingDown
        );
        // What is free is better than nothing, once.
        let part = Rate(class.leased.0.saturating_add(refusal.free_bps));
        if is_decided && !class.tried && part > class.leased && part < asked {
            class.tried = true;
            if let Some((_, rate)) = &mut class.request {
                *rate = (*rate).min(part.saturating_add(class.share));
            }
            if let Some(place) = class.place.clone() {
                return self.lease(i, place, part);
            }
        }
        class.tried = false;
        class.pauses(self.now, PAUSES);
        self.answer(i, |_| Answer::Refused);
        // Otherwise nobody knows: what the class has it keeps.
        if is_decided {
            self.not_leased(i, refusal.code, refusal.link, asked, Rate(refusal.free_bps));
            self.limit(i);
        }
    }

    /// A person should know, once.
    fn not_leased(&mut self, i: usize, code: Code, link: String, asked: Rate, free: Rate) {
        let class = &mut self.classes[i];
        if class.told.replace((code, free)) != Some((code, free)) {
            let class = class.name.clone();
            self.notices.push_back(Notice::NotLeased { class, code, link, asked, free });
        }
    }

    /// A class has no more than its lease and its share.
    fn limit(&mut self, i: usize) {
        let may = self.classes[i].may();
        if self.classes[i].has() > may {
            self.limits.push_back((ClassId(i as u32), may));
        }
    }

    fn ended(&mut self, i: usize, why: End) {
        let asked = self.classes[i].leased;
        self.classes[i].forget();
        self.classes[i].pauses(self.now, PAUSES);
        let code = match why {
            End::Preempted => Code::Preempted,
            End::Expired | End::LeaseExpired => Code::BackendFailed,
        };
        self.not_leased(i, code, String::new(), asked, Rate::ZERO);
        self.answer(i, |_| Answer::Refused);
        self.limit(i);
    }

    /// The domain has taken a part of a lease back.
    fn reduced(&mut self, name: &str, number: u64, has: Rate) {
        let Some(place) = Place::of_lease(name) else { return };
        let Some(i) = self.by_place.get(&place).copied() else { return };
        if has > Rate::ZERO && has < self.classes[i].leased {
            // What is left it keeps.
            self.answer(i, |_| Answer::Refused);
            self.classes[i].pauses(self.now, PAUSES);
            self.lease(i, place.clone(), has);
        }
        let lease = lease_of(&place);
        self.tell(Input::Reduced(Decision { lease, number, has: has.0, refused: None }));
        if has > Rate::ZERO {
            self.limit(i);
        }
    }

    fn wake(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.leases.next_wakeup().is_some_and(|at| at <= self.now) {
            self.tell(Input::Tick);
        }
        for i in 0..self.classes.len() {
            if self.classes[i].next().is_some_and(|at| at <= self.now) {
                self.pursue(i);
            }
        }
    }
}

impl Broker for DomainBroker {
    fn ask(&mut self, now: Instant, ask: BrokerAsk) {
        self.now = self.now.max(now);
        let Some(i) = self.number(ask.class) else { return };
        self.answer(i, |_| Answer::Refused);
        self.classes[i].request = Some((ask.id, ask.rate));
        self.classes[i].retry_at = None;
        if ask.rate <= ask.allocated {
            // The router has less before less is leased.
            return self.answer(i, Answer::Granted);
        }
        self.pursue(i);
    }

    fn poll_answer(&mut self, now: Instant) -> Option<BrokerAnswer> {
        self.wake(now);
        self.answers.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let waiting = !(self.answers.is_empty() && self.limits.is_empty());
        let own = self.classes.iter().filter_map(Class::next);
        own.chain(self.leases.next_wakeup()).chain(waiting.then_some(self.now)).min()
    }

    fn register(&mut self, class: ClassId, rate: Rate) {
        if let Some(i) = self.number(class) {
            self.classes[i].allocated = rate;
            self.pursue(i);
        }
    }
}

fn flow_of(place: &Place) -> FlowId {
    FlowId { owner: place.port.to_string(), idem: place.class.clone() }
}

fn place_of(flow: &FlowId) -> Place {
    // Made of a place.
    let port = Name::new(&flow.owner).expect("a port's name");
    Place { port, class: flow.idem.clone() }
}

fn lease_of(place: &Place) -> LeaseId {
    LeaseId { class: CLASS.to_owned(), to: None, flow: Some(flow_of(place)) }
}

#[cfg(test)]
mod tests;
