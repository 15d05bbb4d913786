//! The client: what a program asks for becomes messages, and answers outcomes, whatever happens to connection and server.
//!
//! ```text
//!            due             connected             greeted
//!   Down ─────────► Connecting ─────────► Greeting ────────► Open
//!    ▲                  │ lost               │ lost            │ lost
//!    └──────────────────┴────────────────────┴─────────────────┤
//!                                            │ turned away     │ (fenced: greeted again, and turned away then)
//!                                            └──────► Shut     ┘
//! ```
//!
//! *Lost* is whatever makes a connection useless: it has ended, answers are owed and none has come for [`Settings::silence`], what
//! came is no answer, or the server lives another life than it said when greeted. Who has no name to say, no lease and nothing to
//! restore greets nobody, and is open at once.
//!
//! # One outcome
//! Every [`Input::Ask`] has one [`Output::Done`], and is done once at the most in one life of a server: what was sent and not answered
//! is sent again with its number, and the server answers it again. Two messages of one reservation are never on their way
//! together, so none overtakes another. An outcome that has not come by [`Settings::patience`] is [`Outcome::Unknown`]; the machine
//! goes on to find out for itself, since it has to know what stands.
//!
//! # What stands
//! With [`Settings::restore`] the machine remembers what it reserved. Where a greeting finds another life of the server, or a
//! lease that has lapsed, it asks for all of it anew before anything else, and says what it did not get back. A new
//! instance of a client knows nothing of that kind: what it requests replaces what an earlier one left under the same
//! name.

mod settings;
mod standing;
mod states;
#[cfg(test)]
mod tests;

pub use settings::Settings;

use crate::wire::{
    Answer, Body, FlowId, Frames, MAX_ALTERNATIVES, MAX_MESSAGE, Message, Refusal, Request, ServiceClass,
    Timing, Verb,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use standing::Standing;
use states::{Event, State, follow};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// What somebody asked for, as the machine calls it.
pub type Ticket = u64;

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// Something is to be done; its outcome comes with the same ticket, which nothing else that is open has.
    Ask(Ticket, Verb, Box<Request>),
    /// The connection that was wanted is there.
    Connected,
    /// Octets from the server.
    Bytes(Vec<u8>),
    /// There is no connection, or none any more.
    Closed,
    /// Time passes.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Connect, then say [`Input::Connected`] or [`Input::Closed`].
    Connect,
    /// Send octets on the connection.
    Send(Vec<u8>),
    /// Close the connection and say nothing of it.
    Close,
    /// What came of a request.
    Done(Ticket, Outcome),
    /// What stood and could not be had back.
    Gone(FlowId, Refusal),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force.
    Done {
        /// When, as the server says.
        timing: Option<Timing>,
        /// The server's life.
        router_epoch: u64,
    },
    /// It is not.
    Refused(Refusal),
    /// Nobody has said in time.
    Unknown,
}

/// Why something is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// A program wants it.
    Asked(Ticket),
    /// It stood.
    Restore,
    /// What an earlier instance left is in its way; then the request itself.
    Clear(Ticket, Box<Request>),
}

#[derive(Clone, Debug)]
struct Wanted {
    purpose: Purpose,
    verb: Verb,
    request: Box<Request>,
    /// When its outcome is unknown; none = it has none, or has been told.
    until: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    state: State,
    /// In [`State::Down`]: when to connect.
    due: Instant,
    /// Connections lost since the last that was of use.
    failures: u32,
    /// When the server was heard of last while it owed something.
    heard: Instant,
    /// A HELLO that is not answered.
    hello: Option<u64>,
    /// When the last HELLO that was answered was sent, and the one on its way.
    greeted: Option<Instant>,
    hello_sent: Instant,
    life: Option<u64>,
    next_txn: u64,
    frames: Frames,
    /// What stood and is to be asked for before all else.
    lost: VecDeque<FlowId>,
    waiting: VecDeque<Wanted>,
    sent: BTreeMap<u64, Wanted>,
    /// Of what was sent: the server had no room, and is to be asked again from then on.
    again: BTreeSet<u64>,
    pause: Option<Instant>,
    /// Reservations that a message is on its way for. Nothing iterates over it.
    busy: HashSet<FlowId>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    standing: Standing,
    /// On their way while the lease lapsed: what the server answers may have ended since.
    doubtful: BTreeSet<FlowId>,
    turned_away: Option<Refusal>,
    outputs: VecDeque<Output>,
}

impl Client {
    /// One that connects at its first input.
    pub fn new(settings: Settings) -> Self {
        Self {
            next_txn: settings.first_txn,
            settings,
            state: State::Down,
            due: Instant::ZERO,
            failures: 0,
            heard: Instant::ZERO,
            hello: None,
            greeted: None,
            hello_sent: Instant::ZERO,
            life: None,
            frames: Frames::default(),
            lost: VecDeque::new(),
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            again: BTreeSet::new(),
            pause: None,
            busy: HashSet::new(),
            deadlines: BTreeSet::new(),
            standing: Standing::default(),
            doubtful: BTreeSet::new(),
            turned_away: None,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input; poll the outputs afterwards.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Ask(ticket, verb, request) => self.ask(now, ticket, verb, request),
            Input::Connected => {
                if self.step(Event::Connected) {
                    self.frames = Frames::default();
                    // Of a connection that is new nothing is known.
                    self.heard = now;
                    if self.settings.greets() {
                        self.greet(now);
                    } else {
                        self.step(Event::Greeted);
                        self.send_again(now, false);
                    }
                }
            }
            Input::Bytes(bytes) => self.bytes(now, &bytes),
            Input::Closed => self.lose(now, false),
            Input::Tick => {}
        }
        self.advance(now);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When it wants an input at the latest. O(log of what is open).
    pub fn next_wakeup(&self) -> Option<Instant> {
        let open = self.state == State::Open;
        let owes = self.owed().then(|| self.heard + self.settings.silence);
        let due = (self.state == State::Down).then_some(self.due);
        let renewal = self.renewal().filter(|_| open && self.hello.is_none());
        let pause = self.pause.filter(|_| open);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        [owes, due, renewal, pause, deadline].into_iter().flatten().min()
    }

    /// Whether nothing is on its way, waits, or is to be had back.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty() && self.lost.is_empty()
    }

    /// Reservations that stand, as far as is known here; always 0 without [`Settings::restore`].
    pub fn standing(&self) -> usize {
        self.standing.len()
    }

    fn step(&mut self, event: Event) -> bool {
        match follow(self.state, event) {
            Some(next) => {
                self.state = next;
                true
            }
            None => false,
        }
    }

    fn ask(&mut self, now: Instant, ticket: Ticket, verb: Verb, request: Box<Request>) {
        let refusal = match &self.turned_away {
            Some(refusal) => Some(refusal.clone()),
            None if self.waiting.len() >= self.settings.waiting => {
                Some(Refusal::new(Code::Overload, "too many requests wait for the server"))
            }
            None => None,
        };
        if let Some(refusal) = refusal {
            return self.outputs.push_back(Output::Done(ticket, Outcome::Refused(refusal)));
        }
        let until = now + self.settings.patience;
        self.deadlines.insert((until, ticket));
        let purpose = Purpose::Asked(ticket);
        self.waiting.push_back(Wanted { purpose, verb, request, until: Some(until) });
    }

    /// Does whatever is due.
    fn advance(&mut self, now: Instant) {
        while let Some((at, ticket)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, ticket));
            self.give_up(ticket);
        }
        if self.owed() && now.since(self.heard) >= self.settings.silence {
            self.lose(now, true);
        }
        match self.state {
            State::Down if self.due <= now => {
                self.step(Event::Due);
                self.outputs.push_back(Output::Connect);
            }
            State::Open => {
                if self.hello.is_none() && self.renewal().is_some_and(|at| at <= now) {
                    self.greet(now);
                }
                if self.pause.is_some_and(|at| at <= now) {
                    self.pause = None;
                    let again = std::mem::take(&mut self.again);
                    self.send(now, again);
                }
                self.send_what_waits(now);
            }
            _ => {}
        }
        debug_assert!(self.again.len() <= self.sent.len(), "what is sent again was sent");
        debug_assert!(self.busy.len() == self.sent.len(), "one message a reservation");
    }

    /// A third of a lease passes, then it is renewed.
    fn renewal(&self) -> Option<Instant> {
        let lease = Duration::from_secs(u64::from(self.settings.lease_s?));
        Some(self.hello_sent + Duration(lease.0 / 3))
    }

    /// Whether the server has something to answer.
    fn owed(&self) -> bool {
        match self.state {
            State::Greeting => true,
            State::Open => self.hello.is_some() || self.sent.len() > self.again.len(),
            _ => false,
        }
    }

    fn txn(&mut self) -> u64 {
        self.next_txn += 1;
        self.next_txn - 1
    }

    /// Appends to what is to be sent, so that it goes together.
    fn put(&mut self, now: Instant, message: &Message) {
        if !self.owed() {
            self.heard = now;
        }
        if let Some(Output::Send(bytes)) = self.outputs.back_mut() {
            return message.write(bytes);
        }
        self.outputs.push_back(Output::Send(message.to_bytes()));
    }

    /// Sends what was sent before, the same octets.
    fn send(&mut self, now: Instant, txns: impl IntoIterator<Item = u64>) {
        for txn in txns {
            let Some(wanted) = self.sent.get(&txn) else { continue };
            let body = Body::Do(wanted.verb, wanted.request.clone());
            self.put(now, &Message { txn, epoch: self.settings.epoch, body });
        }
    }

    fn greet(&mut self, now: Instant) {
        let txn = self.txn();
        let Settings { lease_s, ref client, epoch, .. } = self.settings;
        let body = Body::Hello { lease_s, client: client.clone() };
        self.hello_sent = now;
        self.put(now, &Message { txn, epoch, body });
        self.hello = Some(txn);
    }

    /// As much as the window has room for. What is asked of a reservation that a message is on its way for waits, and all
    /// behind it.
    fn send_what_waits(&mut self, now: Instant) {
        while self.pause.is_none() && self.sent.len() < self.settings.window {
            let Some(mut wanted) = self.next_wanted(now) else { return };
            if wanted.request.filter.len() > MAX_ALTERNATIVES
                || wanted.request.class.as_ref().is_some_and(too_long)
            {
                let why = format!(
                    "a message has at most {MAX_MESSAGE} octets, and a filter {MAX_ALTERNATIVES} alternatives"
                );
                self.tell(&wanted, Outcome::Refused(Refusal::new(Code::LimitReached, why)));
                continue;
            }
            let txn = self.txn();
            let body = Body::Do(wanted.verb, wanted.request);
            let message = Message { txn, epoch: self.settings.epoch, body };
            self.put(now, &message);
            let Body::Do(_, request) = message.body else { return };
            wanted.request = request;
            self.busy.insert(wanted.request.flow);
            self.sent.insert(txn, wanted);
        }
    }

    fn next_wanted(&mut self, now: Instant) -> Option<Wanted> {
        while let Some(flow) = self.lost.front().copied() {
            if self.busy.contains(&flow) {
                return None;
            }
            self.lost.pop_front();
            let Some(request) = self.standing.request_anew(now, flow) else { continue };
            return Some(Wanted { purpose: Purpose::Restore, verb: Verb::Request, request, until: None });
        }
        let first = self.waiting.front()?;
        if self.busy.contains(&first.request.flow) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// The connection is of no use any more. What was sent is sent again on the next.
    fn lose(&mut self, now: Instant, close: bool) {
        if !self.step(Event::Lost) {
            return;
        }
        if close {
            self.outputs.push_back(Output::Close);
        }
        self.hello = None;
        self.due = now + self.settings.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
    }

    fn bytes(&mut self, now: Instant, bytes: &[u8]) {
        if !matches!(self.state, State::Greeting | State::Open) {
            return;
        }
        self.frames.push(bytes);
        while matches!(self.state, State::Greeting | State::Open) {
            match self.frames.next() {
                Ok(None) => return,
                Ok(Some(frame)) => match frame.message {
                    Ok(Message { txn, body: Body::Answer(answer), .. }) => self.answered(now, txn, *answer),
                    _ => self.lose(now, true),
                },
                Err(_) => self.lose(now, true),
            }
        }
    }

    fn answered(&mut self, now: Instant, txn: u64, answer: Answer) {
        self.heard = now;
        if self.hello == Some(txn) {
            self.hello = None;
            return self.hello_answered(now, answer);
        }
        if self.state != State::Open || !self.sent.contains_key(&txn) {
            // Of what was given up, or nothing that was asked for here.
            return;
        }
        if self.settings.greets() && self.life != Some(answer.router_epoch) {
            return self.lose(now, true);
        }
        self.failures = 0;
        match &answer.refusal {
            Some(refusal) if asks_again(refusal) => {
                self.again.insert(txn);
                let pause =
                    Duration::from_millis(u64::from(refusal.retry_after_ms)).max(self.settings.least_pause);
                let until = now + pause;
                self.pause = Some(self.pause.map_or(until, |at| at.max(until)));
            }
            Some(refusal) if refusal.code == Code::Fenced && self.settings.greets() => {
                // By a newer instance, or because the lease has ended: the next greeting tells. It was not done.
                if let Some(wanted) = self.take(txn) {
                    self.waiting.push_front(wanted);
                }
                self.lose(now, true);
            }
            _ => {
                if let Some(wanted) = self.take(txn) {
                    self.finish(now, wanted, answer);
                }
            }
        }
    }

    fn take(&mut self, txn: u64) -> Option<Wanted> {
        let wanted = self.sent.remove(&txn)?;
        self.again.remove(&txn);
        self.busy.remove(&wanted.request.flow);
        Some(wanted)
    }

    fn hello_answered(&mut self, now: Instant, answer: Answer) {
        match answer.refusal {
            Some(refusal) if asks_again(&refusal) => self.lose(now, true),
            Some(refusal) => self.shut(refusal),
            None if self.state == State::Open && self.life != Some(answer.router_epoch) => {
                self.lose(now, true)
            }
            None => {
                let fresh = self.state == State::Greeting;
                self.step(Event::Greeted);
                let lease = self.settings.lease_s.map(|s| Duration::from_secs(u64::from(s)));
                let lapsed = lease.is_some_and(|l| self.greeted.is_some_and(|at| now.since(at) >= l));
                let reborn = self.life.is_some_and(|life| life != answer.router_epoch);
                self.life = Some(answer.router_epoch);
                self.greeted = Some(self.hello_sent);
                if reborn || lapsed {
                    self.lost = self.standing.flows(|request| reborn || is_soft(request)).collect();
                }
                if lapsed && !reborn {
                    let sent = self.sent.values().map(|wanted| &wanted.request);
                    self.doubtful.extend(sent.filter(|r| is_soft(r)).map(|r| r.flow));
                }
                if fresh {
                    self.send_again(now, reborn);
                }
            }
        }
    }

    /// What the last connection left unanswered. Another life of the server has answered none of it, so it waits behind what stood
    /// before.
    fn send_again(&mut self, now: Instant, reborn: bool) {
        self.again.clear();
        self.pause = None;
        if reborn {
            self.doubtful.clear();
            let unanswered = std::mem::take(&mut self.sent);
            self.busy.clear();
            let back = unanswered.into_values().filter(|wanted| wanted.purpose != Purpose::Restore);
            back.rev().for_each(|wanted| self.waiting.push_front(wanted));
            return;
        }
        let again: Vec<u64> = self.sent.keys().copied().collect();
        self.send(now, again);
    }

    /// The server will not have this client.
    fn shut(&mut self, refusal: Refusal) {
        self.step(Event::TurnedAway);
        self.outputs.push_back(Output::Close);
        self.turned_away = Some(refusal.clone());
        self.lost.clear();
        self.again.clear();
        self.busy.clear();
        let sent = std::mem::take(&mut self.sent).into_values().map(|wanted| (wanted, true));
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|wanted| (wanted, false));
        for (wanted, was_sent) in sent.chain(waiting).collect::<Vec<_>>() {
            // What was on its way may have been done before.
            let outcome = if was_sent { Outcome::Unknown } else { Outcome::Refused(refusal.clone()) };
            self.tell(&wanted, outcome);
        }
        for flow in std::mem::take(&mut self.standing).flows(|_| true) {
            self.outputs.push_back(Output::Gone(flow, refusal.clone()));
        }
    }

    fn finish(&mut self, now: Instant, wanted: Wanted, answer: Answer) {
        let Answer { refusal, timing, router_epoch } = answer;
        let flow = wanted.request.flow;
        let code = refusal.as_ref().map(|refusal| refusal.code);
        match (&wanted.purpose, wanted.verb, code) {
            (Purpose::Restore, _, None | Some(Code::Exists)) => return,
            (Purpose::Restore, ..) => {
                self.standing.forget(flow);
                return self.outputs.extend(refusal.map(|refusal| Output::Gone(flow, refusal)));
            }
            // It is out of the way.
            (Purpose::Clear(ticket, request), _, None | Some(Code::NotFound)) => {
                let (purpose, verb, request) = (Purpose::Asked(*ticket), Verb::Request, request.clone());
                return self.waiting.push_front(Wanted { purpose, verb, request, until: wanted.until });
            }
            (Purpose::Asked(ticket), Verb::Request, Some(Code::Exists))
                if self.settings.restore && !self.standing.has(flow) =>
            {
                let purpose = Purpose::Clear(*ticket, wanted.request);
                let (verb, request) = (Verb::Release, Box::new(Request::of(flow)));
                return self.waiting.push_front(Wanted { purpose, verb, request, until: wanted.until });
            }
            (_, _, None) if self.settings.restore => {
                self.standing.remember(now, self.settings.lease_s.is_some(), wanted.verb, &wanted.request);
                if self.doubtful.remove(&flow) {
                    self.lost.push_back(flow);
                }
            }
            (_, Verb::Modify | Verb::Release, Some(Code::NotFound)) => self.standing.forget(flow),
            _ => {}
        }
        let outcome = match refusal {
            None => Outcome::Done { timing, router_epoch },
            Some(refusal) => Outcome::Refused(refusal),
        };
        self.tell(&wanted, outcome);
    }

    fn tell(&mut self, wanted: &Wanted, outcome: Outcome) {
        let (Purpose::Asked(ticket) | Purpose::Clear(ticket, _)) = wanted.purpose else { return };
        // Who has been told already that nobody knows is told nothing else.
        if wanted.until.is_some_and(|until| self.deadlines.remove(&(until, ticket))) {
            self.outputs.push_back(Output::Done(ticket, outcome));
        }
    }

    /// Nobody has said in time. What has not been sent is not done any more.
    fn give_up(&mut self, ticket: Ticket) {
        self.outputs.push_back(Output::Done(ticket, Outcome::Unknown));
        let is_it = |wanted: &Wanted| matches!(wanted.purpose, Purpose::Asked(of) | Purpose::Clear(of, _) if of == ticket);
        if let Some(at) = self.waiting.iter().position(is_it) {
            self.waiting.remove(at);
        }
    }
}

/// Whether the name of a class makes a message too long: all else of one takes a third of [`MAX_MESSAGE`] at the most.
fn too_long(class: &ServiceClass) -> bool {
    class.name.len() > MAX_MESSAGE / 2
}

/// Whether it ends with the lease of its client.
fn is_soft(request: &Request) -> bool {
    request.lifetime_s.is_some_and(|seconds| seconds > 0)
}

/// Whether a refusal only says that it is not now.
fn asks_again(refusal: &Refusal) -> bool {
    match refusal.code {
        Code::Overload => true,
        Code::BackendFailed => refusal.retry_after_ms > 0,
        _ => false,
    }
}
