//! The thread that owns the control machine: requests in, changes to the packet thread, answers and events out.

use crate::behind::{Judge, News, Seen};
use crate::call_log::CallLog;
use crate::explain::Explained;
use crate::facts::FactsLine;
use crate::forwarder::Notice;
use crate::history::{self, History};
use crate::lanes::{DetectorClass, Item, Lanes};
use crate::lines::Lines;
use crate::machine::Steal;
use crate::packet_thread::Message;
use crate::report::Row;
use crate::router_forwarder::{ChangeJob, RouterForwarder};
use crate::show::{CountSurvey, Purpose, SHOWN, What, gauges, records};
use crate::told::{RouteNews, ToControl, World};
use perhop_contract::{Control, Input, Output};
use perhop_elements::route::{NeighbourState, NeighbourUpdate};
use perhop_flows::{FlowEvent, FlowEventKind, HereInfo, Shortage};
use perhop_graph::router::{Balancer, Change, RouterPlanner};
use perhop_io::clock;
use perhop_model::{
    Call, Credentials, Done, ErrorItem, Event, EventKind, FlowShortage, Key, Kind, Op, Owner, PortSpec,
    Reloaded, Reply, ShowPage, Spec, Transaction, TxnId,
};
use perhop_netlink::Netlink;
use perhop_packet::PortId;
use perhop_reason::Code;
use perhop_routerfile::RouterFile;
use perhop_units::{Instant, Rate, Share};
use perhop_wire::MacAddr;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep of the control thread.
const NAP: Duration = Duration::from_secs(3600);
/// Time after a commit in which others are waited for that are looked at together.
const SETTLED: perhop_units::Duration = perhop_units::Duration(500_000_000);
/// Up to this rate of a port the link behind it is watched: that of access links. Faster ones have no time for it.
const WATCHED: Rate = Rate::from_mbit(1000);

pub(crate) struct ControlThread {
    control: Control<RouterPlanner>,
    lines: Lines,
    lanes: Lanes,
    facts: Arc<FactsLine>,
    netlink: Netlink,
    /// Which ports have no link headers.
    headerless: Vec<bool>,
    indices: Vec<Option<u32>>,
    /// What is left to the kernel, and what is not followed.
    notes: Vec<String>,
    /// What is known of the links behind the ports, and what is told of it.
    behind: BTreeMap<PortId, Judge>,
    /// Which ports are watched for that.
    watched: Vec<bool>,
    /// The first commit since ports were looked at for whether they have rates.
    changed: Option<Instant>,
    up: Vec<bool>,
    /// Number of each port's last socket.
    numbers: Vec<u32>,
    port_names: Vec<String>,
    /// Tickets of changes that some packet threads have not applied yet, with how many have.
    applied: HashMap<u64, usize>,
    waiting: HashMap<u64, Done<Arc<Reply>>>,
    next_request: u64,
    watchers: Vec<Box<dyn FnMut() -> bool + Send>>,
    told: u64,
    detector_class: DetectorClass,
    graph_text: String,
    steal: Steal,
    /// Of several packet threads whose flows may go from one to another.
    balancer: Option<Balancer>,
    history: History,
    /// When all counters are looked at next, to be remembered.
    next_look: Instant,
    call_log: CallLog,
}

/// What a control thread is made of.
pub(crate) struct Parts {
    pub(crate) control: Control<RouterPlanner>,
    pub(crate) lines: Lines,
    pub(crate) lanes: Lanes,
    pub(crate) facts: Arc<FactsLine>,
    pub(crate) netlink: Netlink,
    /// Which ports are TUN interfaces.
    pub(crate) headerless: Vec<bool>,
    pub(crate) graph_text: String,
    /// See [`crate::EngineConfig::adaptive_least_pps`].
    pub(crate) adaptive_least_pps: u64,
    pub(crate) steal: Steal,
}

impl ControlThread {
    pub(crate) fn new(parts: Parts) -> Self {
        let port_names: Vec<String> =
            parts.control.planner().ports().iter().map(|p| p.name.clone()).collect();
        let balancer = Balancer::new(&parts.lines.placement, clock::monotonic())
            .map(|balancer| balancer.with_least_pps(parts.adaptive_least_pps));
        Self {
            control: parts.control,
            balancer,
            lines: parts.lines,
            lanes: parts.lanes,
            facts: parts.facts,
            netlink: parts.netlink,
            headerless: parts.headerless,
            indices: vec![None; port_names.len()],
            notes: Vec::new(),
            behind: BTreeMap::new(),
            watched: vec![false; port_names.len()],
            changed: None,
            up: vec![true; port_names.len()],
            numbers: vec![0; port_names.len()],
            port_names,
            applied: HashMap::new(),
            waiting: HashMap::new(),
            next_request: 1,
            watchers: Vec::new(),
            told: 0,
            detector_class: DetectorClass::default(),
            graph_text: parts.graph_text,
            steal: parts.steal,
            history: History::default(),
            next_look: clock::monotonic(),
            call_log: CallLog::default(),
        }
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        let mut stopped = false;
        while !stopped {
            let now = clock::monotonic();
            let due = self.control.next_wakeup();
            self.balance(now);
            if self.next_look <= now {
                self.next_look = now + history::LOOK;
                self.count(Purpose::Remember);
            }
            if self.changed.is_some_and(|at| now.since(at) >= SETTLED) {
                self.changed = None;
                self.watch_links();
            }
            if due.is_some_and(|at| at <= now) {
                self.input(Input::Tick);
            } else {
                let look = self.balancer.as_ref().map(Balancer::next_look);
                let settled = self.changed.map(|at| at + SETTLED);
                let due = [due, look, Some(self.next_look), settled].into_iter().flatten().min();
                self.lanes.wait(due.map_or(NAP, |at| Duration::from_nanos(at.since(now).0).min(NAP)));
            }
            let Some(items) = self.lanes.turn() else { break };
            for item in items {
                match item {
                    Item::Told(ToControl::Stop) => stopped = true,
                    Item::Told(message) => self.told_inside(message),
                    Item::Asked(call) => self.asked(call),
                    Item::Flow(event) => {
                        let kind = self.flow_event(&event);
                        self.input(Input::Event(kind));
                    }
                }
            }
            self.tell_watchers();
        }
        self.input(Input::Shutdown);
        self.tell_watchers();
        for call in self.lanes.requests.try_iter().collect::<Vec<_>>() {
            self.asked(call);
        }
    }

    fn input(&mut self, input: Input) {
        self.control.handle_input(clock::monotonic(), input);
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Apply { ticket, change } => self.send_change(Some(ticket), change),
                Output::Reply { request, reply } => {
                    if let Some(done) = self.waiting.remove(&request) {
                        done(reply);
                    }
                }
            }
        }
    }

    /// Has flows go to other packet threads when one has too much. As facts of the world are, this is nobody's transaction.
    fn balance(&mut self, now: Instant) {
        if let Some(change) = self.balancer.as_mut().and_then(|balancer| balancer.look(now)) {
            self.send_change(None, change);
        }
    }

    fn send_change(&self, ticket: Option<u64>, change: Change) {
        if let Some(error) = change.unfit() {
            tracing::error!(%error, "filters of a commit that was taken back stay as they were; change them anew");
        }
        self.lines.share(change, |change| Message::Job(Box::new(ChangeJob { ticket, change })));
    }

    /// One more packet thread has applied it: whether all have.
    fn is_applied(&mut self, ticket: u64) -> bool {
        let threads = self.applied.entry(ticket).or_default();
        *threads += 1;
        let all = *threads == self.lines.len();
        if all {
            self.applied.remove(&ticket);
        }
        all
    }

    fn tell_watchers(&mut self) {
        let latest = self.control.events().latest();
        if latest != self.told {
            self.told = latest;
            self.watchers.retain_mut(|wake| wake());
        }
    }

    fn told_inside(&mut self, message: ToControl) {
        match message {
            ToControl::World(world) => self.world(*world),
            ToControl::PortGone(port) => {
                self.lines.to_owner(port, Message::PortDown(port));
                self.port_state(port, false);
            }
            ToControl::PortBack(port, number, socket) => {
                if let Some(last) = self.numbers.get_mut(port.index()) {
                    *last = number;
                }
                self.lines.to_owner(port, Message::PortUp(port, number, socket));
                self.port_state(port, true);
            }
            ToControl::Applied(job) => {
                if let Some(ticket) = job.ticket.filter(|ticket| self.is_applied(*ticket)) {
                    self.input(Input::Applied { ticket });
                    self.changed.get_or_insert_with(clock::monotonic);
                }
            }
            ToControl::Freed(freed) => {
                for gone in self.control.planner_mut().freed(&freed) {
                    self.input(Input::Drained { id: gone.id, dropped: gone.dropped });
                }
            }
            ToControl::NeighbourWanted(port, address) => self.neighbour_wanted(port, address),
            ToControl::Notice(Notice::PortLost(port, number)) => self.port_lost(port, number),
            ToControl::Notice(Notice::Behind(port, seen)) => self.behind(port, seen),
            // Here nobody waits.
            ToControl::Notice(Notice::Closed(socket)) => drop(socket),
            ToControl::Counted(counting) if counting.counted() < self.lines.len() => {
                let next = counting.counted();
                let survey = CountSurvey::after(&self.control, *counting);
                self.lines.to(next, Message::Survey(Box::new(survey)));
            }
            ToControl::Counted(counting) => {
                let balance = self.balancer.as_ref().map(Balancer::report);
                let notes = self.notes();
                let named = (&self.port_names[..], &notes[..]);
                counting.finish(&self.control, named, &self.steal, balance.as_ref(), &mut self.history);
            }
            ToControl::Explained(explained, done) => self.explained(*explained, done),
            ToControl::Stop => {}
        }
    }

    /// A socket failed. What is told of one that was replaced meanwhile is of no interest.
    fn port_lost(&mut self, port: PortId, number: u32) {
        if self.numbers.get(port.index()) == Some(&number) {
            self.facts.lose(port, number);
            self.port_state(port, false);
        }
    }

    /// How the router stands beside its kernel, and what waits behind its ports.
    fn notes(&self) -> Vec<String> {
        let behind = self.behind.iter().filter_map(|(port, judge)| self.behind_text(*port, judge.growth()?));
        self.notes.iter().cloned().chain(behind).collect()
    }

    /// The rate of a port that has one.
    fn rate_of(&self, port: PortId) -> Option<Rate> {
        let name = self.port_names.get(port.index())?.parse().ok()?;
        match &*self.control.objects().get(&Key { kind: Kind::Port, name })?.spec {
            Spec::Port(PortSpec { rate, .. }) => Some(*rate).filter(|rate| *rate > Rate::ZERO),
            _ => None,
        }
    }

    /// A port may have got a rate, or lost it.
    fn watch_links(&mut self) {
        for i in 0..self.port_names.len() {
            let port = PortId(i as u16);
            let watched = self.rate_of(port).is_some_and(|rate| rate <= WATCHED);
            if std::mem::replace(&mut self.watched[i], watched) != watched {
                self.behind.remove(&port);
                self.lines.to_owner(port, Message::Watch(port, watched));
            }
        }
    }

    fn behind_text(&self, port: PortId, growth: perhop_units::Duration) -> Option<String> {
        let (name, rate) = (self.port_names.get(port.index())?, self.rate_of(port)?);
        Some(format!(
            "port \"{name}\": packets wait {} ms behind it or on their way back, by which round trips of TCP have grown: its link \
             carries less than {rate}, or counts more than `overhead` for a frame; lower `rate` until this goes, and give the \
             port that the answers leave by a rate too",
            growth.0 / 1_000_000
        ))
    }

    fn behind(&mut self, port: PortId, seen: Seen) {
        let Some(rate) = self.rate_of(port) else { return };
        match self.behind.entry(port).or_default().judge(clock::monotonic(), seen, rate) {
            Some(News::Waits(growth)) => {
                self.behind_text(port, growth).iter().for_each(|text| tracing::warn!("{text}"));
            }
            Some(News::Gone) => {
                let port = self.port_names.get(port.index());
                tracing::info!(port, "nothing waits behind it any more");
            }
            None => {}
        }
    }

    fn port_state(&mut self, port: PortId, up: bool) {
        let Some(was) = self.up.get_mut(port.index()) else { return };
        if *was == up {
            return;
        }
        *was = up;
        let port = self.port_names[port.index()].clone();
        tracing::info!(port, up, "port");
        self.input(Input::Event(if up { EventKind::PortUp { port } } else { EventKind::PortDown { port } }));
    }

    fn world(&mut self, world: World) {
        self.indices = world.indices;
        if let Some(notes) = world.notes {
            self.notes = notes;
        }
        // Ports first: next hops are looked up on them.
        if let Some(ports) = world.ports {
            let change = self.control.planner_mut().port_change(ports);
            self.send_change(None, change);
        }
        if let Some(routes) = world.routes {
            let planner = self.control.planner_mut();
            let change = match routes {
                RouteNews::All(routes, rules) => planner.set_kernel_tables(routes, rules),
                RouteNews::Some(changes) => planner.change_kernel_routes(changes),
            };
            self.send_change(None, change);
        }
        if !world.neighbours.is_empty() {
            let change = self.control.planner_mut().neighbour_change(world.neighbours);
            self.send_change(None, change);
        }
    }

    fn neighbour_wanted(&mut self, port: PortId, address: IpAddr) {
        if self.headerless.get(port.index()) == Some(&true) {
            // Nobody has to be asked where there are no addresses.
            let state = NeighbourState::Reachable(MacAddr::default());
            let update = NeighbourUpdate { port, ip: address, state };
            let change = self.control.planner_mut().neighbour_change(vec![update]);
            return self.send_change(None, change);
        }
        let Some(index) = self.indices.get(port.index()).copied().flatten() else { return };
        if let Err(error) = self.netlink.probe_neighbour(index, address) {
            tracing::debug!(%address, %error, "cannot ask for a neighbour");
        }
    }

    /// What is told of it, as the next event.
    fn flow_event(&mut self, event: &FlowEvent) -> EventKind {
        self.history.flow(event);
        if let FlowEventKind::Quality { here, .. } = &event.kind {
            self.log_harm(event, here);
        }
        let flow = crate::show::flow_text(&event.flow);
        match event.kind {
            FlowEventKind::Detected => EventKind::FlowDetected {
                flow,
                reason: event.reason.map_or("rtp", |r| r.name()).to_owned(),
                class: self.detector_class(),
                packets: event.packets,
            },
            FlowEventKind::Ended => EventKind::FlowEnded { flow, packets: event.packets },
            FlowEventKind::Refused(full) => EventKind::FlowRefused { flow, shortage: self.shortage(&full) },
            FlowEventKind::Dropped(full) => {
                EventKind::FlowDropped { flow, packets: event.packets, shortage: self.shortage(&full) }
            }
            FlowEventKind::Quality { call, here } => EventKind::CallQuality {
                flow,
                r_tenths: here.r_tenths.unwrap_or(0),
                mos_thousandths: here.mos_thousandths.unwrap_or(0),
                in_r_tenths: call.r_tenths.unwrap_or(0),
                in_mos_thousandths: call.mos_thousandths.unwrap_or(0),
                expected: call.expected,
                lost_before: call.expected - call.received,
                dropped_here: here.dropped,
                dropped_by: here.reasons().collect(),
                delay_mean_us: here.delay_mean_us,
                delay_max_us: here.delay_max_us,
            },
        }
    }

    fn shortage(&mut self, full: &Shortage) -> FlowShortage {
        let port = self.port_names.get(full.port.index()).cloned();
        let Shortage { used, cap, locked, .. } = *full;
        FlowShortage { class: self.detector_class(), port, used, cap, locked }
    }

    /// Packets of a call were dropped here, in a class that has a guarantee: somebody counts on it.
    fn log_harm(&mut self, event: &FlowEvent, here: &HereInfo) {
        if here.dropped_lately == 0 {
            return;
        }
        let Some(harm) = self.call_log.note(event.at, here.dropped_in, here.dropped_lately) else { return };
        let Some(class) = self.control.planner().class_name(here.dropped_in) else { return };
        let guaranteed = self.control.objects().iter().any(|(key, entry)| match &*entry.spec {
            Spec::Class(spec) => {
                spec.guarantee != Share::Rate(Rate::ZERO) && spec.logical_name(&key.name) == class
            }
            _ => false,
        });
        if guaranteed {
            let flow = crate::show::flow_text(&event.flow);
            let reasons: Vec<String> =
                here.reasons().map(|(reason, count)| format!("{reason} {count}")).collect();
            tracing::warn!(
                class, %flow, dropped = here.dropped_lately, reasons = reasons.join(", "),
                reports = harm.reports, packets = harm.packets,
                "packets of calls are dropped here though their class has a guarantee: see `perhop show calls` and `perhop show drops`"
            );
        }
    }

    fn detector_class(&mut self) -> String {
        let control = &self.control;
        self.detector_class.at(control.revision(), || {
            let class = |spec: &Spec| match spec {
                Spec::Detector(d) => Some(d.class.to_string()),
                _ => None,
            };
            control.objects().values().find_map(|e| class(&e.spec)).unwrap_or_default()
        })
    }

    fn asked(&mut self, call: Call) {
        match call {
            Call::Submit(who, transaction, done) => self.submit(who, transaction, done),
            Call::Claim(who, claim, done) => {
                // Tells what time it is.
                self.input(Input::Tick);
                done(self.control.claim(clock::monotonic(), &who, &claim).map_err(claim_refused));
            }
            Call::State(query, done) => done(self.control.state(&query)),
            Call::Events(seq, filter, limit, done) => done(self.control.events().page(seq, &filter, limit)),
            Call::OnEvents(wake) => self.watchers.push(wake),
            Call::Graph(done) => {
                let running = self.control.planner().graph().map(ToString::to_string);
                done(running.unwrap_or_else(|| self.graph_text.clone()));
            }
            Call::Counters(query, done) => self.count(Purpose::Counters(query, done)),
            Call::Show(query, done) => match What::parse(&query.what) {
                Ok(What::Events) => done(Ok(self.events_page(query.limit.unwrap_or(SHOWN)))),
                Ok(What::Routes) => done(Ok(self.routes_page(query.limit.unwrap_or(SHOWN)))),
                Ok(what) => self.count(Purpose::Show(what, query.limit.unwrap_or(SHOWN), done)),
                Err(error) => done(Err(error)),
            },
            Call::Explain(text, done) => self.explain(&text, done),
            Call::Reload(done) => {
                let error =
                    ErrorItem::new(Code::Unsupported, "", "this router has no file of its own to read");
                done(Reloaded::refused(vec![error], Vec::new()));
            }
        }
    }

    fn page(&self, rows: Vec<Row>, total: usize) -> ShowPage {
        let (epoch, revision) = (self.control.epoch(), self.control.revision());
        ShowPage { epoch, revision, at_ns: clock::monotonic().0, rows, total, more: false, notes: Vec::new() }
    }

    /// The latest events, oldest first.
    fn events_page(&self, limit: usize) -> ShowPage {
        let events = self.control.events();
        let before = events.latest().saturating_sub(limit as u64);
        let now = clock::monotonic();
        let row = |event: &Event| records::event_row(now, event);
        let rows: Vec<Row> = events.after(before, limit).iter().map(row).collect();
        let total = rows.len().max(events.len());
        self.page(rows, total)
    }

    fn routes_page(&self, limit: usize) -> ShowPage {
        let mut routes = self.control.planner().routes();
        let first = routes.by_ref().take(limit);
        let mut rows: Vec<Row> = first.map(|route| records::route_row(&self.port_names, &route)).collect();
        rows.iter_mut().for_each(gauges::name);
        let total = rows.len() + routes.count();
        ShowPage { notes: self.notes(), ..self.page(rows, total) }
    }

    fn submit(&mut self, who: Credentials, transaction: Box<Transaction>, done: Done<Arc<Reply>>) {
        let request = self.next_request;
        self.next_request += 1;
        self.waiting.insert(request, done);
        self.input(Input::Request { request, who, transaction });
    }

    /// Asks the packet threads, one after the other; [`Counting::finish`] goes on with the answer.
    fn count(&mut self, purpose: Purpose) {
        let survey = CountSurvey::new(&self.control, purpose);
        self.lines.to(0, Message::Survey(Box::new(survey)));
    }

    fn explain(&mut self, text: &str, done: Done<Result<serde_json::Value, ErrorItem>>) {
        let question = match crate::explain::Question::parse(text, &self.control) {
            Ok(question) => question,
            Err(error) => return done(Err(error)),
        };
        let thread = question.decides(&self.lines.placement);
        self.ask(thread, move |forwarder| question.ask(forwarder.worker(), thread), done);
    }

    /// Has a packet thread explain, which is not to hear of it again.
    fn ask(
        &self,
        thread: usize,
        ask: impl FnOnce(&mut RouterForwarder) -> Explained + Send + 'static,
        done: Done<Result<serde_json::Value, ErrorItem>>,
    ) {
        let ask = move |forwarder: &mut RouterForwarder| {
            let explained = ask(forwarder);
            forwarder.outbox().deliver(ToControl::Explained(Box::new(explained), done));
        };
        self.lines.to(thread, Message::Ask(Box::new(ask)));
    }

    /// What one packet thread says; the others have queues of their own to tell of.
    fn explained(&mut self, mut explained: Explained, done: Done<Result<serde_json::Value, ErrorItem>>) {
        match explained.next(self.lines.len()) {
            Some(thread) => {
                self.ask(thread, move |forwarder| explained.and_queues_of(forwarder.worker()), done);
            }
            None => done(explained.finish(&self.control, &self.notes())),
        }
    }
}

/// Speaks for owner `file`.
pub(crate) const FILE: Credentials = Credentials::writer(Owner::File);

/// Makes what owner `file` has exactly these objects.
pub(crate) fn file_transaction(objects: Vec<perhop_model::Object>) -> Transaction {
    Transaction::new(new_txn_id(), Owner::File, vec![Op::replace_owned(&RouterFile::KINDS, objects)])
}

/// Why a claim is refused, in words.
pub(crate) fn claim_refused(code: Code) -> ErrorItem {
    let path = match code {
        Code::Fenced => "fence",
        Code::OutOfRange => "ttl_ms",
        _ => "owner",
    };
    ErrorItem::new(code, path, format!("the claim is refused: {code}"))
}

/// Different for every call on this machine: clock, process, counter.
pub(crate) fn new_txn_id() -> TxnId {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&clock::monotonic().0.to_be_bytes());
    id[8..12].copy_from_slice(&std::process::id().to_be_bytes());
    id[12..].copy_from_slice(&count.to_be_bytes());
    TxnId(id)
}
