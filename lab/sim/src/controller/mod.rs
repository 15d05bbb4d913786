//! The controller of a domain as a node: the very ledger of `perhop controller run`, with a database that always takes what it is
//! given, and those who ask it.
//!
//! ```text
//!              outage begins: only the database is left
//! Here(ledger) ────────────────────────────────────────► Away(rows)
//!      ▲                                                   │
//!      └───────────────────────────────────────────────────┘
//!              outage ends: another instance loads them
//! ```
//!
//! Messages take the propagation delay of the path and are not lost, but for those between controllers; while the controller is away
//! requests are refused where it was, and what else is sent to it gets there when it is back. It consumes no rate of the links.

mod between;
mod leased;

use crate::agenda::Entity;
use crate::random::Stream;
use between::Between;
use leased::Holder;
use perhop_agent::DomainNews;
use perhop_broker::flow::{Flow, Packets};
use perhop_broker::lease;
use perhop_broker::lease::{Ask, Decision};
use perhop_broker::ledger::{
    DOMAIN, Granted, Input, Ledger, Output, Refusal, Request, Reserve, Settings, Told, Way,
};
use perhop_broker::nodes::Nodes;
use perhop_broker::peer::{self, Envelope, Far};
use perhop_broker::record::{ClientRow, ReservationId, Snapshot};
use perhop_measure::ReservedRecord;
use perhop_reason::Code;
use perhop_scenario::{ControllerConfig, NodeIndex, NodeKind, Paths, Reservation, Scenario};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Who asks on behalf of the scenario.
const CLIENT: &str = "scenario";
/// A client whose release nobody took tries again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// Most sentences that are kept of one reservation.
const MOST_SAID: usize = 100;
/// The topology is asked for with this number.
const TOPOLOGY: u64 = 0;

/// See the module.
pub(crate) struct Controller {
    pub(crate) entity: Entity,
    name: String,
    config: ControllerConfig,
    settings: Settings,
    state: State,
    nodes: Nodes,
    /// Routers that follow it, by their names in the domain, with the time to them.
    routers: BTreeMap<String, (usize, Duration)>,
    /// Names of the scenario's links, which are those of ports.
    ports: Vec<String>,
    askers: Vec<Asker>,
    /// By number of the question: who asks.
    asked: BTreeMap<u64, (usize, u32)>,
    last_ask: u64,
    /// The answer to a question of the controller's own.
    own: Option<(u64, Option<Result<Granted, Refusal>>)>,
    /// What it has with neighbours, if it has any.
    between: Option<Between>,
    /// Who decides beside its routers.
    holders: Vec<Holder>,
    /// What goes to others.
    delivered: Vec<Delivered>,
    messages: u64,
    lost_messages: u64,
    /// Whose a reservation is.
    owners: BTreeMap<ReservationId, usize>,
    /// Rates of links as routers told them last.
    rates: BTreeMap<(String, String), u64>,
    /// What is on its way or has its time, by when it is due.
    due: BTreeMap<(Instant, u64), Due>,
    last_due: u64,
    requests: u64,
    over_capacity: u64,
    /// Why the ledger did not take the domain.
    wrong: Option<String>,
}

enum State {
    Here(Box<Ledger>),
    Away(Box<Snapshot>),
}

/// Requests of one `[[reservation]]`.
struct Asker {
    what: Reservation,
    /// Where it ends, if that is in another domain.
    far: Option<Far>,
    delay: Duration,
    flow: String,
    /// By number of the request: the reservation, once it is granted.
    held: BTreeMap<u32, ReservationId>,
    asked: u64,
    granted: u64,
    refused: u64,
    shrunk: u64,
    ended: u64,
    said: Vec<String>,
}

/// What happens at an instant. Requests are due when they reach the controller, answers when they reach who asked.
pub(crate) enum Due {
    Request {
        asker: usize,
        number: u32,
    },
    Answer {
        asker: usize,
        number: u32,
        result: Result<ReservationId, Refusal>,
    },
    Release {
        asker: usize,
        number: u32,
    },
    Rate,
    Outage,
    Return,
    News {
        router: usize,
        news: DomainNews,
    },
    /// By the controller of a neighbouring domain.
    Said {
        via: String,
        envelope: Envelope,
    },
    Reach {
        neighbour: String,
        here: bool,
    },
    /// To the controller, from beside one of its routers, and back.
    LeaseAsk {
        holder: usize,
        ask: Ask,
    },
    LeaseHas {
        holder: usize,
        decision: Decision,
    },
    LeaseReduced {
        holder: usize,
        decision: Decision,
    },
    Holder {
        holder: usize,
        here: bool,
    },
}

/// What goes from a controller to others.
pub(crate) enum Delivered {
    /// News that has reached a router.
    News { router: usize, news: DomainNews },
    /// A decision point beside a router wants so much of a class there.
    Leased { router: usize, class: String, number: u64, bps: u64 },
    /// To the controller of that name, for then.
    Peer { to: String, at: Instant, due: Box<Due> },
}

impl Controller {
    /// The controller of a node at time zero.
    pub(crate) fn new(
        scenario: &Scenario,
        index: NodeIndex,
        config: &ControllerConfig,
        paths: &Paths,
        entity: Entity,
        stream: Stream,
    ) -> Result<Self, String> {
        let delay = |node| paths.latency(scenario, index, node, Duration::ZERO);
        let mut routers = BTreeMap::new();
        for (i, node) in scenario.nodes.iter().enumerate() {
            if matches!(node.kind, NodeKind::Router(_))
                && config.domain.topology.nodes.contains_key(&node.name)
            {
                let way = delay(NodeIndex(i)).ok_or_else(|| format!("no link leads to \"{}\"", node.name))?;
                routers.insert(node.name.clone(), (i, way));
            }
        }
        let mine = scenario.reservations.iter().filter(|what| what.controller == index);
        let askers = mine.map(|what| Asker {
            flow: flow(scenario, what),
            // Whoever decides beside the router is where it is asked.
            delay: delay(what.from).filter(|_| !what.by_agent).unwrap_or_default(),
            far: what
                .domain
                .clone()
                .map(|domain| Far { edge: scenario.nodes[what.to.0].name.clone(), domain }),
            what: what.clone(),
            held: BTreeMap::new(),
            asked: 0,
            granted: 0,
            refused: 0,
            shrunk: 0,
            ended: 0,
            said: Vec::new(),
        });
        // Nobody has to tell a rate before it is believed.
        let settings = Settings { remember_ms: 0, ..config.domain.settings };
        let name = &scenario.nodes[index.0].name;
        let way = |other: &str| delay(scenario.node(other)?);
        let between = Between::new(name, config, stream, way)?;
        let mut holders = Vec::new();
        for (name, (router, delay)) in &routers {
            let NodeKind::Router(of) = &scenario.nodes[*router].kind else { continue };
            if let Some(settings) = of.agent.as_ref().and_then(|agent| agent.leases.as_ref()) {
                holders.push(Holder::new(*router, name, *delay, settings.leases.clone())?);
            }
        }
        let mut this = Self {
            entity,
            name: scenario.nodes[index.0].name.clone(),
            config: config.clone(),
            settings,
            state: State::Away(Box::default()),
            nodes: Nodes::default(),
            routers,
            ports: scenario.links.iter().map(|link| link.name.clone()).collect(),
            askers: askers.collect(),
            asked: BTreeMap::new(),
            last_ask: TOPOLOGY,
            own: None,
            between,
            holders,
            delivered: Vec::new(),
            messages: 0,
            lost_messages: 0,
            owners: BTreeMap::new(),
            rates: BTreeMap::new(),
            due: BTreeMap::new(),
            last_due: 0,
            requests: 0,
            over_capacity: 0,
            wrong: None,
        };
        this.plan();
        this.begin(Instant::ZERO)?;
        Ok(this)
    }

    /// Puts down all that has its time from the beginning.
    fn plan(&mut self) {
        for (from, until) in self.config.outages.clone() {
            self.at(Instant(from.0), Due::Outage);
            self.at(Instant(until.0), Due::Return);
        }
        for asker in 0..self.askers.len() {
            let Asker { what, delay, .. } = &self.askers[asker];
            let (first, every, delay, release) = (what.at, what.every, *delay, what.release);
            for number in 0..what.count {
                let at = Instant(first.0.saturating_add(every.0.saturating_mul(u64::from(number))));
                self.at(at + delay, Due::Request { asker, number });
                if let Some(release) = release {
                    self.at(Instant(release.0) + delay, Due::Release { asker, number });
                }
            }
        }
    }

    fn at(&mut self, at: Instant, due: Due) {
        self.last_due += 1;
        self.due.insert((at, self.last_due), due);
    }

    /// An instance begins with what the database has, and tells all routers all they are to have.
    fn begin(&mut self, now: Instant) -> Result<(), String> {
        let State::Away(rows) = &mut self.state else { return Ok(()) };
        let rows = std::mem::take(&mut **rows);
        self.settings.fence += 1;
        let ledger = Ledger::load(self.settings, rows, now).map_err(|e| e.to_string())?;
        self.nodes = Nodes::new(&ledger, self.config.marks.clone());
        self.state = State::Here(Box::new(ledger));
        let mut topology = self.config.domain.topology.clone();
        let mut others = vec![client(CLIENT, "http", "operator")];
        others.extend(self.config.peers.iter().map(|peer| client(&peer.name, "peer", "proxy")));
        others.extend(self.holders.iter().map(|holder| client(holder.node(), "agent", "agent")));
        // What the file says of them counts.
        others.retain(|row| topology.clients.iter().all(|other| other.name != row.name));
        topology.clients.extend(others);
        topology.clients.sort_by(|a, b| a.name.cmp(&b.name));
        let topology = Arc::new(topology);
        self.tell(now, Input::Topology { ask: TOPOLOGY, who: "file".to_owned(), topology });
        if let Some(why) = self.wrong.take() {
            return Err(why);
        }
        self.tell_rates(now);
        let State::Here(ledger) = &self.state else { return Ok(()) };
        let mut all = Vec::new();
        for (name, (router, delay)) in &self.routers {
            let whole = self.nodes.whole(ledger, now, name);
            let news = [DomainNews::Begin].into_iter().chain(whole).chain([DomainNews::Complete]);
            all.extend(news.map(|news| (now + *delay, Due::News { router: *router, news })));
        }
        all.into_iter().for_each(|(at, due)| self.at(at, due));
        for holder in 0..self.holders.len() {
            let at = now + self.holders[holder].delay();
            self.at(at, Due::Holder { holder, here: true });
        }
        self.begin_between(now)
    }

    /// The instance is gone.
    fn leave(&mut self, now: Instant) {
        let State::Here(ledger) = &self.state else { return };
        self.state = State::Away(Box::new(ledger.snapshot()));
        let routers: Vec<(usize, Duration)> = self.routers.values().copied().collect();
        for (router, delay) in routers {
            self.at(now + delay, Due::News { router, news: DomainNews::Away });
        }
        for holder in 0..self.holders.len() {
            let at = now + self.holders[holder].delay();
            self.at(at, Due::Holder { holder, here: false });
        }
        for (to, delay) in self.between.as_mut().map(Between::leave).unwrap_or_default() {
            let due = Box::new(Due::Reach { neighbour: self.name.clone(), here: false });
            self.delivered.push(Delivered::Peer { to, at: now + delay, due });
        }
    }

    /// Its node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The end of a link at a node has another rate from now on.
    pub(crate) fn link_rate(&mut self, now: Instant, node: usize, link: usize, bps: u64) {
        let Some((name, (_, delay))) = self.routers.iter().find(|(_, (router, _))| *router == node) else {
            return;
        };
        let (key, delay) = ((name.clone(), self.ports[link].clone()), *delay);
        if self.config.domain.topology.links.contains_key(&key) {
            self.rates.insert(key, bps);
            self.at(now + delay, Due::Rate);
        }
    }

    fn tell_rates(&mut self, now: Instant) {
        let State::Here(ledger) = &self.state else { return };
        let rates = self.rates.iter();
        let told: Vec<Input> = rates
            .filter_map(|((node, port), bps)| {
                let (who, link) = (DOMAIN.to_owned(), ledger.link(node, port)?);
                Some(Input::Rate { who, link, bps: *bps })
            })
            .collect();
        told.into_iter().for_each(|input| self.tell(now, input));
    }

    /// When it must be woken.
    pub(crate) fn next_wakeup(&self) -> Instant {
        let ledger = match &self.state {
            State::Here(ledger) => ledger.next_wakeup(),
            State::Away(_) => None,
        };
        let due = self.due.first_key_value().map(|((at, _), _)| *at);
        let between = self.between.as_ref().and_then(Between::next_wakeup);
        let own = [ledger, due, between].into_iter().flatten();
        own.chain(self.holders.iter().filter_map(Holder::next_wakeup)).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Takes what another controller has sent.
    pub(crate) fn receive(&mut self, at: Instant, due: Due) {
        self.at(at, due);
    }

    /// What goes to others by now.
    pub(crate) fn take_delivered(&mut self) -> Vec<Delivered> {
        std::mem::take(&mut self.delivered)
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, now: Instant) -> Result<(), String> {
        if matches!(&self.state, State::Here(ledger) if ledger.next_wakeup().is_some_and(|at| at <= now)) {
            self.tell(now, Input::Wake);
        }
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Due::Request { asker, number } => self.request(now, asker, number),
                Due::Answer { asker, number, result } => self.answer(now, asker, number, result),
                Due::Release { asker, number } => self.release(now, asker, number),
                Due::Rate => self.tell_rates(now),
                Due::Outage => self.leave(now),
                Due::Return => self.begin(now)?,
                Due::News { router, news } => self.delivered.push(Delivered::News { router, news }),
                Due::Said { via, envelope } => self.tell_between(now, peer::Input::Message(via, envelope)),
                Due::Reach { neighbour, here: true } => self.tell_between(now, peer::Input::Back(neighbour)),
                Due::Reach { neighbour, .. } => self.tell_between(now, peer::Input::Lost(neighbour)),
                Due::LeaseAsk { holder, ask } => self.lease_asked(now, holder, ask),
                Due::LeaseHas { holder, decision } => {
                    self.tell_holder(now, holder, lease::Input::Decision(decision));
                }
                Due::LeaseReduced { holder, decision } => {
                    self.tell_holder(now, holder, lease::Input::Reduced(decision));
                }
                Due::Holder { holder, here: true } => self.tell_holder(now, holder, lease::Input::Back),
                Due::Holder { holder, .. } => self.tell_holder(now, holder, lease::Input::Lost),
            }
        }
        if self.between.as_ref().and_then(Between::next_wakeup).is_some_and(|at| at <= now) {
            self.tell_between(now, peer::Input::Tick);
        }
        for holder in 0..self.holders.len() {
            if self.holders[holder].next_wakeup().is_some_and(|at| at <= now) {
                self.tell_holder(now, holder, lease::Input::Tick);
            }
        }
        Ok(())
    }

    fn request(&mut self, now: Instant, asker: usize, number: u32) {
        let this = &mut self.askers[asker];
        this.asked += 1;
        if this.what.by_agent {
            return self.ask_holder(now, asker, number);
        }
        let delay = this.delay;
        if matches!(self.state, State::Away(_)) {
            let result = Err(Refusal::new(Code::BackendFailed, "the controller is away"));
            return self.at(now + delay, Due::Answer { asker, number, result });
        }
        self.requests += 1;
        if let Some(far) = self.askers[asker].far.clone() {
            return self.ask_beyond(now, asker, number, far);
        }
        let what = &self.askers[asker].what;
        let [from, to] = [what.from, what.to].map(|node| self.name_of(node));
        let what = &self.askers[asker].what;
        let idem = format!("{}/{number}", what.name);
        let reserve = Reserve {
            floor_bps: what.floor.map(|rate| rate.0),
            priority: what.priority,
            lifetime_ms: what.lifetime.map(|time| time.0 / 1_000_000),
            back_bps: what.back.map(|rate| rate.0),
            flow: self.askers[asker].flow.clone(),
            ..Reserve::new(idem, Way::Between { from, to }, what.class.clone(), what.rate.0)
        };
        let ask = self.ask(asker, number);
        let request = Request::Reserve(Box::new(reserve));
        self.tell(now, Input::Ask { ask, client: CLIENT.to_owned(), request });
    }

    /// The number of the next question.
    fn ask(&mut self, asker: usize, number: u32) -> u64 {
        self.last_ask += 1;
        self.asked.insert(self.last_ask, (asker, number));
        self.last_ask
    }

    fn name_of(&self, node: NodeIndex) -> String {
        let found = self.routers.iter().find(|(_, (router, _))| *router == node.0);
        found.map_or_else(String::new, |(name, _)| name.clone())
    }

    fn release(&mut self, now: Instant, asker: usize, number: u32) {
        if !self.askers[asker].held.contains_key(&number) {
            return;
        }
        if self.askers[asker].what.by_agent {
            self.askers[asker].held.remove(&number);
            return self.release_to_holder(now, asker, number);
        }
        if matches!(self.state, State::Away(_)) {
            return self.at(now + AGAIN, Due::Release { asker, number });
        }
        let Some(id) = self.askers[asker].held.remove(&number) else { return };
        self.requests += 1;
        if self.askers[asker].far.is_some() {
            return self.release_beyond(now, asker, number);
        }
        let ask = self.ask(asker, number);
        self.tell(now, Input::Ask { ask, client: CLIENT.to_owned(), request: Request::Release { id } });
    }

    /// Asks the ledger for the controller itself: this database answers at once.
    fn ask_now(&mut self, now: Instant, client: String, request: Request) -> Result<Granted, Refusal> {
        self.last_ask += 1;
        let (ask, before) = (self.last_ask, self.own.take());
        self.own = Some((ask, None));
        self.tell(now, Input::Ask { ask, client, request });
        let answer = std::mem::replace(&mut self.own, before).and_then(|(_, answer)| answer);
        answer.unwrap_or_else(|| Err(Refusal::new(Code::BackendFailed, "the controller is away")))
    }

    fn answer(&mut self, now: Instant, asker: usize, number: u32, result: Result<ReservationId, Refusal>) {
        let this = &mut self.askers[asker];
        let (retry, delay, release) = (this.what.retry, this.delay, this.what.release);
        match result {
            Ok(id) => {
                this.granted += 1;
                this.held.insert(number, id);
                this.say(now, number, &format!("is granted {}", this.what.rate));
            }
            Err(refusal) => {
                this.refused += 1;
                this.say(now, number, &told(&refusal));
                let again = retry.map(|retry| now + retry + delay);
                let again = again.filter(|at| release.is_none_or(|release| *at < Instant(release.0)));
                if let Some(at) = again {
                    self.at(at, Due::Request { asker, number });
                }
            }
        }
    }

    /// Tells the ledger something, writes what it wants written, and carries on what it says.
    fn tell(&mut self, now: Instant, input: Input) {
        let State::Here(ledger) = &mut self.state else { return };
        ledger.handle_input(now, input);
        let mut outputs = VecDeque::new();
        while let Some(output) = ledger.poll_output() {
            match output {
                Output::Write(group) => ledger.handle_input(now, Input::Written { number: group.number }),
                other => outputs.push_back(other),
            }
        }
        for output in outputs {
            self.carry(now, output);
        }
        while let Some((node, news)) = self.nodes.poll_news() {
            if let Some((router, delay)) = self.routers.get(&*node).copied() {
                self.at(now + delay, Due::News { router, news });
            }
        }
        let State::Here(ledger) = &self.state else { return };
        let links = ledger.links();
        let over = |class: &perhop_broker::ledger::ClassView| class.reserved_bps > class.bps;
        self.over_capacity += u64::from(links.iter().any(|link| link.classes.iter().any(over)));
    }

    fn carry(&mut self, now: Instant, output: Output) {
        let State::Here(ledger) = &self.state else { return };
        match output {
            Output::Write(_) => {}
            Output::Answer { ask, result } => {
                if let Ok(granted) = &result {
                    self.nodes.answered(ledger, now, granted);
                }
                if let (TOPOLOGY, Err(refusal)) = (ask, &result) {
                    self.wrong = Some(refusal.message.clone());
                }
                if let Some((own, answer)) = &mut self.own
                    && *own == ask
                {
                    *answer = Some(result);
                    return;
                }
                let Some((asker, number)) = self.asked.remove(&ask) else { return };
                let result = match result {
                    Ok(Granted::Held(held)) => {
                        let both = [Some(held.id), held.twin];
                        self.owners.extend(both.into_iter().flatten().map(|id| (id, asker)));
                        Ok(held.id)
                    }
                    Ok(_) => return,
                    Err(refusal) => Err(refusal),
                };
                let at = now + self.askers[asker].delay;
                self.at(at, Due::Answer { asker, number, result });
            }
            Output::Tell(news) => {
                self.nodes.told(ledger, now, &news);
                self.hear(now, &news);
            }
        }
    }

    /// Whoever has a reservation hears what becomes of it.
    fn hear(&mut self, now: Instant, news: &Told) {
        let (Told::Gone { id, .. } | Told::Shrunk { id, .. } | Told::Short { id, .. }) = news else { return };
        let left = match news {
            Told::Gone { .. } => Some(0),
            Told::Shrunk { bps, .. } => Some(*bps),
            Told::Short { .. } | Told::Share { .. } => None,
        };
        if let Some(bps) = left {
            self.lease_taken(now, *id, bps);
            if let Some(between) = &mut self.between {
                between.take_back(*id, bps);
            }
        }
        let Some(asker) = self.owners.get(id).copied() else { return };
        let this = &mut self.askers[asker];
        let Some(number) = this.held.iter().find(|(_, held)| *held == id).map(|(number, _)| *number) else {
            return;
        };
        match news {
            Told::Shrunk { bps, .. } => {
                this.shrunk += 1;
                this.say(now, number, &format!("has {} now: a link lost rate", perhop_units::Rate(*bps)));
            }
            Told::Gone { code, .. } => {
                this.ended += 1;
                this.held.remove(&number);
                this.say(now, number, &format!("is gone: {}", code.name()));
            }
            _ => this.say(now, number, "is in force, but a link lacks rate for it"),
        }
    }

    /// What became of all requests, and of the controller.
    pub(crate) fn records(&self) -> impl Iterator<Item = ReservedRecord> + '_ {
        let of_askers = self.askers.iter().map(|this| ReservedRecord {
            of: format!("reservation.{}", this.what.name),
            figures: vec![
                ("asked", this.asked),
                ("granted", this.granted),
                ("refused", this.refused),
                ("shrunk", this.shrunk),
                ("ended", this.ended),
            ],
            said: this.said.clone(),
        });
        let booked = match &self.state {
            State::Here(ledger) => ledger.reservations(),
            State::Away(rows) => rows.reservations.len(),
        };
        let left = booked + self.between.as_ref().map_or(0, Between::left);
        let figures = vec![
            ("requests", self.requests),
            ("over_capacity", self.over_capacity),
            ("left", left as u64),
            ("messages", self.messages),
            ("lost_messages", self.lost_messages),
        ];
        let own = ReservedRecord { of: format!("controller.{}", self.name), figures, said: Vec::new() };
        let of_holders = self.holders.iter().map(|holder| ReservedRecord {
            of: format!("leases.{}", holder.node()),
            figures: holder.figures(),
            said: Vec::new(),
        });
        of_askers.chain([own]).chain(of_holders)
    }
}

impl Asker {
    fn say(&mut self, now: Instant, number: u32, what: &str) {
        if self.said.len() < MOST_SAID {
            let at_s = now.as_nanos() as f64 / 1e9;
            self.said.push(format!("{at_s:.3} s: {} {} {what}", self.what.name, number + 1));
        }
    }
}

fn client(name: &str, kind: &str, role: &str) -> ClientRow {
    ClientRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        cert_sha256: None,
        token_sha256: None,
        role: role.to_owned(),
        most_bps: None,
        most_count: None,
        per_second: None,
    }
}

/// A refusal in words, with all that it names.
fn told(refusal: &Refusal) -> String {
    let mut text = format!("is refused, {}", refusal.code.name());
    if !refusal.link.is_empty() {
        let (asked, free) = (perhop_units::Rate(refusal.asked_bps), perhop_units::Rate(refusal.free_bps));
        text.push_str(&format!(
            ": link {}, class {}, asked {asked}, free {free}",
            refusal.link, refusal.class
        ));
    } else {
        text.push_str(&format!(": {}", refusal.message));
    }
    text
}

/// What is kept with a reservation: the packets of its traffic.
fn flow(scenario: &Scenario, what: &Reservation) -> String {
    let Some(traffic) = what.traffic.map(|i| &scenario.traffic[i]) else { return String::new() };
    let address =
        |node: NodeIndex| Some(ipnet::IpNet::from(std::net::IpAddr::V4(scenario.nodes[node.0].address)));
    let packets = traffic.pairs.iter().map(|(from, to)| Packets {
        src: address(*from),
        dst: address(*to),
        protocol: Some(perhop_wire::protocol::UDP),
        ..Packets::default()
    });
    Flow { packets: packets.collect(), ..Flow::default() }.text()
}
