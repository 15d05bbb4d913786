//! A policy enforcement point: one connection to a PDP, the clients on it, and their requests.
//!
//! `states` and `request` have the tables and diagrams. Whoever drives it connects, sends and disconnects as
//! [`Output`] says, and tells what came as [`Input`]. Requests are put, dropped and reported on by methods; they outlast
//! the connection: while there is none, decisions are kept for [`Config::keep`], and what changes is told afterwards.

mod asking;
mod message;
mod reports;
mod request;
mod states;

pub use message::{Client, Config, Failure, Input, Notice, Output, Refused, Security};
pub use request::Answers;

use crate::session::seal::{self, Seal};
use crate::session::{Incoming, Jitter, Link};
use crate::wire::integrity::{HMAC, TLS};
use crate::wire::{
    Accept, Body, ClientType, Close, Error, ErrorCode, Fault, Handle, Integrity, Message, OpCode, Open,
    Reason, ReasonCode, Request,
};
use perhop_units::{Duration, Instant};
use request::{Entry, State as Asking};
use states::{Action, Client as ClientState, ClientAction, ClientEvent, Event, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// A client with its requests.
#[derive(Debug)]
struct Session {
    client: Client,
    state: ClientState,
    requests: BTreeMap<Handle, Entry>,
    /// Requests that a PDP may know and that were dropped without a connection.
    deleted: BTreeMap<Handle, Reason>,
    /// The PDP that knows all that is kept.
    last_pdp: Option<SocketAddr>,
    accounting_s: Option<u16>,
    accounting_due: Option<Instant>,
    /// While opening: when it has taken too long. While closed on a connection: when to try again.
    due: Option<Instant>,
}

impl Session {
    fn has_kept(&self) -> bool {
        !self.deleted.is_empty() || self.requests.values().any(|entry| entry.is_known)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Pep {
    config: Config,
    jitter: Jitter,
    state: State,
    /// Since the last client was opened.
    tries: u32,
    /// Where the PDP said to go.
    redirect: Option<SocketAddr>,
    server: SocketAddr,
    link: Link,
    sequence: u32,
    sessions: Vec<Session>,
    /// In [`State::Waiting`] the next try, in the steps of opening when they have taken too long.
    due: Option<Instant>,
    /// When what is kept is given up.
    keep_until: Option<Instant>,
    deadlines: BTreeSet<(Instant, usize, Handle)>,
    outputs: VecDeque<Output>,
}

impl Pep {
    /// Without a connection; the first is asked for at once. `seed` is for its random times.
    ///
    /// # Panics
    /// `config` has no server.
    pub fn new(now: Instant, config: Config, seed: u64) -> Self {
        let session = |client: &Client| Session {
            client: client.clone(),
            state: ClientState::Closed,
            requests: BTreeMap::new(),
            deleted: BTreeMap::new(),
            last_pdp: None,
            accounting_s: None,
            accounting_due: None,
            due: None,
        };
        Self {
            jitter: Jitter::new(seed),
            state: State::Waiting,
            tries: 0,
            redirect: None,
            server: config.servers[0],
            link: Link::new(now),
            sequence: 0,
            sessions: config.clients.iter().map(session).collect(),
            due: Some(now),
            keep_until: None,
            deadlines: BTreeSet::new(),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected { sequence } => {
                self.sequence = sequence;
                self.link = Link::new(now);
                let bare = matches!(self.config.security, Security::None);
                self.step(now, if bare { Event::Connected } else { Event::ConnectedBare });
            }
            Input::Secured => self.step(now, Event::Secured),
            Input::Bytes(bytes) => self.bytes(now, &bytes),
            Input::Disconnected => self.step(now, Event::Gone),
            Input::Tick => {}
        }
        self.tick(now);
        self.check();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if self.outputs.is_empty() {
            self.outputs = VecDeque::new();
        }
        output
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let of_sessions = self.sessions.iter().flat_map(|s| [s.due, s.accounting_due]).flatten();
        let link = if self.state == State::Up { self.link.keep_alive.next_wakeup() } else { None };
        let first = self.deadlines.first().map(|(at, ..)| *at);
        of_sessions.chain([self.due, self.keep_until, first, link].into_iter().flatten()).min()
    }

    /// Whether a client is open.
    pub fn is_open(&self, client_type: ClientType) -> bool {
        self.sessions.iter().any(|s| s.client.client_type == client_type && s.state == ClientState::Open)
    }

    /// Requests of a client, and whether the decision on what each asks now has come. In the order of handles.
    pub fn requests(&self, client_type: ClientType) -> impl Iterator<Item = (&Request, bool)> {
        let sessions = self.sessions.iter().filter(move |s| s.client.client_type == client_type);
        sessions.flat_map(|s| s.requests.values()).map(|e| (&*e.request, e.state == Asking::Decided))
    }

    fn index(&self, client_type: ClientType) -> Result<usize, Refused> {
        let is = |session: &Session| session.client.client_type == client_type;
        self.sessions.iter().position(is).ok_or(Refused::NoClient(client_type))
    }

    fn send(&mut self, now: Instant, message: &Message) {
        let bytes = self.link.encode(now, message);
        self.outputs.push_back(Output::Send(bytes));
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    fn bytes(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.state, State::Waiting | State::Connecting | State::Handshake) {
            return;
        }
        self.link.push(bytes);
        while matches!(self.state, State::Securing | State::Up)
            && let Some(incoming) = self.link.next(now)
        {
            match incoming {
                Incoming::Message(message, bytes) => self.message(now, message, &bytes),
                Incoming::Fault(fault) => self.fault(now, &fault),
                Incoming::Broken(error) => self.step(now, Event::Broken(error)),
            }
        }
    }

    fn message(&mut self, now: Instant, message: Message, bytes: &[u8]) {
        if message.client_type == ClientType::CONNECTION {
            return self.of_connection(now, &message, bytes);
        }
        let wrong = Event::Broken(Error::of(ErrorCode::BAD_MESSAGE_FORMAT));
        let Ok(index) = self.index(message.client_type) else { return self.step(now, wrong) };
        if self.state == State::Securing {
            return self.step(now, Event::Broken(self.security_wanted()));
        }
        let solicited = message.solicited;
        match message.body {
            Body::Accept(accept) => self.client_step(now, index, ClientEvent::Accepted(accept)),
            Body::Close(close) => self.client_step(now, index, ClientEvent::Closed(close)),
            Body::Decision { handle, decided } => self.decision(now, index, handle, decided, solicited),
            Body::SyncRequest(handle) => self.synchronize(now, index, handle),
            _ => self.step(now, wrong),
        }
    }

    fn of_connection(&mut self, now: Instant, message: &Message, bytes: &[u8]) {
        let event = match (&message.body, self.state) {
            (Body::KeepAlive, _) => return,
            (Body::Close(_), _) => Event::Closed,
            (Body::Accept(accept), State::Securing) => {
                self.link.keep_alive.limit(accept.keep_alive_s);
                match self.agreed(now, message, bytes) {
                    Ok(event) => event,
                    Err(error) => Event::Broken(error),
                }
            }
            _ => Event::Broken(Error::of(ErrorCode::BAD_MESSAGE_FORMAT)),
        };
        self.step(now, event);
    }

    /// What CAT of client-type 0 agrees to.
    fn agreed(&mut self, now: Instant, message: &Message, bytes: &[u8]) -> Result<Event, Error> {
        match (&self.config.security, message.integrity) {
            (Security::Tls, Some(Integrity::StartTls)) => Ok(Event::AcceptedForTls),
            (Security::Digest(keyring), Some(Integrity::Hmac { .. })) => {
                let ours = self.sequence;
                let theirs = seal::check(keyring, now, bytes)?;
                self.link.protect(Seal::new(keyring.clone(), theirs, ours));
                Ok(Event::AcceptedWithDigest)
            }
            _ => Err(self.security_wanted()),
        }
    }

    fn security_wanted(&self) -> Error {
        Error::security_wanted(if matches!(self.config.security, Security::Tls) { TLS } else { HMAC })
    }

    /// What could not be read: a decision costs its request, anything else its client (RFC 2748 §3.4, §3.7).
    fn fault(&mut self, now: Instant, fault: &Fault) {
        let client = self.index(fault.header.client_type);
        match (client, &fault.handle) {
            (Ok(index), Some(handle)) if fault.header.op == OpCode::Decision as u8 => {
                self.give_up(
                    now,
                    index,
                    handle,
                    fault.malformed.reason(),
                    Failure::Unreadable(fault.malformed),
                );
            }
            (Ok(index), _) => self.client_step(now, index, ClientEvent::Broken(fault.malformed.error())),
            (Err(_), _) => self.step(now, Event::Broken(fault.malformed.error())),
        }
    }

    fn step(&mut self, now: Instant, event: Event) {
        let Some((state, action)) = states::step(self.state, event) else { return };
        self.state = state;
        self.due = Some(now + self.config.patience);
        match action {
            Action::Connect => {
                let servers = &self.config.servers;
                let next = servers[self.tries as usize % servers.len()];
                self.server = self.redirect.take().unwrap_or(next);
                self.tries = self.tries.saturating_add(1);
                self.outputs.push_back(Output::Connect(self.server));
            }
            Action::OpenConnection => self.open_connection(now),
            Action::OpenClients => {
                self.due = None;
                self.link.keep_alive.heard(now);
                self.link.keep_alive.arm(now, &mut self.jitter);
                self.each(now, ClientEvent::Up);
            }
            Action::StartTls if self.link.held() > 0 => {
                self.step(now, Event::Broken(Error::of(ErrorCode::BAD_MESSAGE_FORMAT)));
            }
            Action::StartTls => self.outputs.push_back(Output::StartTls),
            Action::Break(error) => {
                self.send_close(now, ClientType::CONNECTION, error);
                self.leave(now);
            }
            Action::Mourn => {
                let open = |s: &Session| (s.state != ClientState::Closed).then_some(s.client.client_type);
                for client_type in self.sessions.iter().filter_map(open).collect::<Vec<_>>() {
                    self.send_close(now, client_type, Error::of(ErrorCode::COMMUNICATION_FAILURE));
                }
                self.leave(now);
            }
            Action::Disconnect => self.leave(now),
            Action::Forget => self.lose(now),
        }
    }

    fn send_close(&mut self, now: Instant, client_type: ClientType, error: Error) {
        let close = Close { error, redirect: None };
        self.send(now, &Message::new(client_type, Body::Close(close)));
    }

    fn leave(&mut self, now: Instant) {
        self.outputs.push_back(Output::Disconnect);
        self.lose(now);
    }

    /// There is no connection any more.
    fn lose(&mut self, now: Instant) {
        let was_open = self.sessions.iter().any(|session| session.state == ClientState::Open);
        self.link = Link::new(now);
        self.each(now, ClientEvent::Gone);
        self.sessions.iter_mut().for_each(|session| session.due = None);
        let round = self.tries / self.config.servers.len().max(1) as u32;
        let (least, most) = self.config.retry;
        let pause = Duration(least.saturating_mul(1 << round.min(30)).0.min(most.0));
        self.due = Some(self.jitter.within(now, pause.saturating_mul(2)));
        if self.keep_until.is_none() {
            self.keep_until = Some(now + self.config.keep);
        }
        if was_open {
            self.notice(Notice::Lost);
        }
    }

    fn open_connection(&mut self, now: Instant) {
        let open = Open { pep_id: self.config.id.clone(), client_si: None, last_pdp: None };
        let mut message = Message::new(ClientType::CONNECTION, Body::Open(Box::new(open)));
        let bytes = match &self.config.security {
            Security::Digest(keyring) => seal::seal(keyring, now, &message, self.sequence),
            _ => {
                message.integrity = Some(Integrity::StartTls);
                message.to_bytes()
            }
        };
        self.outputs.push_back(Output::Send(bytes));
    }

    fn each(&mut self, now: Instant, event: ClientEvent) {
        for index in 0..self.sessions.len() {
            self.client_step(now, index, event);
        }
    }

    fn client_step(&mut self, now: Instant, index: usize, event: ClientEvent) {
        let Some((state, action)) = states::client_step(self.sessions[index].state, event) else { return };
        let was_open = self.sessions[index].state == ClientState::Open;
        let session = &mut self.sessions[index];
        let client_type = session.client.client_type;
        session.state = state;
        session.due = None;
        if state == ClientState::Closed {
            session.accounting_due = None;
            if was_open {
                self.each_request(now, index, request::Event::Lost);
            }
        }
        match action {
            ClientAction::Open => {
                let session = &mut self.sessions[index];
                session.due = Some(now + self.config.patience);
                let last_pdp = session.last_pdp.filter(|_| session.has_kept());
                let client_si = session.client.client_si.clone();
                let open = Open { pep_id: self.config.id.clone(), client_si, last_pdp };
                self.send(now, &Message::new(client_type, Body::Open(Box::new(open))));
            }
            ClientAction::Begin(accept) => self.begin(now, index, accept),
            ClientAction::Adjust(accept) => self.adjust(now, index, accept),
            ClientAction::End(close) => {
                self.notice(Notice::Closed { client_type, close });
                self.reopen(now, index, close);
            }
            ClientAction::Close(error) => {
                self.send_close(now, client_type, error);
                let close = Close { error, redirect: None };
                self.notice(Notice::Closed { client_type, close });
                self.reopen(now, index, close);
            }
            ClientAction::Lose => {}
        }
    }

    /// A client that was closed is opened again later: on this connection if others are open on it, else on another.
    fn reopen(&mut self, now: Instant, index: usize, close: Close) {
        if self.sessions.iter().all(|session| session.state == ClientState::Closed) {
            self.redirect = close.redirect;
            self.step(now, Event::Unused);
        } else if close.redirect.is_none() {
            self.sessions[index].due = Some(self.jitter.within(now, self.config.retry.1));
        }
    }

    fn adjust(&mut self, now: Instant, index: usize, accept: Accept) {
        self.link.keep_alive.limit(accept.keep_alive_s);
        self.link.keep_alive.arm(now, &mut self.jitter);
        self.sessions[index].accounting_s = accept.accounting_s;
        self.arm_accounting(now, index);
    }

    fn arm_accounting(&mut self, now: Instant, index: usize) {
        let session = &mut self.sessions[index];
        let seconds = session.accounting_s.filter(|seconds| *seconds > 0);
        session.accounting_due = seconds.map(|seconds| now + Duration::from_secs(seconds.into()));
    }

    /// The client is open: what was dropped meanwhile is deleted, what is new is asked (RFC 2748 §2.5).
    fn begin(&mut self, now: Instant, index: usize, accept: Accept) {
        self.adjust(now, index, accept);
        (self.tries, self.keep_until) = (0, None);
        let session = &mut self.sessions[index];
        let client_type = session.client.client_type;
        if !session.has_kept() {
            session.last_pdp = Some(self.server);
        }
        let deleted = std::mem::take(&mut session.deleted);
        self.notice(Notice::Opened { client_type, server: self.server });
        for (handle, reason) in deleted {
            self.send(now, &Message::new(client_type, Body::Delete { handle, reason }));
        }
        self.each_request(now, index, request::Event::Opened);
    }

    fn tick(&mut self, now: Instant) {
        if self.due.is_some_and(|at| at <= now) {
            self.due = None;
            let waiting = self.state == State::Waiting;
            self.step(now, if waiting { Event::Due } else { Event::Silent });
        }
        if self.state == State::Up {
            self.tick_up(now);
        }
        if self.keep_until.is_some_and(|at| at <= now) {
            self.keep_until = None;
            self.expire(now);
        }
        while let Some((at, index, handle)) = self.deadlines.first().cloned()
            && at <= now
        {
            self.deadlines.remove(&(at, index, handle.clone()));
            self.ask_step(now, index, &handle, request::Event::Timeout);
        }
    }

    fn tick_up(&mut self, now: Instant) {
        if self.link.keep_alive.lost_at().is_some_and(|at| at <= now) {
            return self.step(now, Event::Silent);
        }
        if self.link.keep_alive.take_due(now, &mut self.jitter) {
            self.send(now, &Message::new(ClientType::CONNECTION, Body::KeepAlive));
        }
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            let client_type = session.client.client_type;
            if session.due.is_some_and(|at| at <= now) {
                session.due = None;
                match session.state {
                    ClientState::Closed => self.client_step(now, index, ClientEvent::Due),
                    _ => return self.step(now, Event::Silent),
                }
            }
            if self.sessions[index].accounting_due.is_some_and(|at| at <= now) {
                self.arm_accounting(now, index);
                self.notice(Notice::AccountingDue { client_type });
            }
        }
    }

    /// There has been no connection for too long: nothing that was decided holds any more, and no PDP is named.
    fn expire(&mut self, now: Instant) {
        for index in 0..self.sessions.len() {
            let decided = self.sessions[index].requests.iter().filter(|(_, e)| e.state == Asking::Decided);
            for handle in decided.map(|(handle, _)| handle.clone()).collect::<Vec<_>>() {
                self.give_up(now, index, &handle, Reason::of(ReasonCode::TIMEOUT), Failure::Expired);
            }
            let session = &mut self.sessions[index];
            session.deleted.clear();
            session.requests.values_mut().for_each(|entry| entry.is_known = false);
            session.last_pdp = None;
        }
    }

    /// What must hold.
    fn check(&self) {
        debug_assert!(
            self.state == State::Up || self.sessions.iter().all(|s| s.state == ClientState::Closed),
            "a client is open on a connection"
        );
        debug_assert_eq!(
            self.deadlines.len(),
            self.sessions.iter().flat_map(|s| s.requests.values()).filter(|e| e.deadline.is_some()).count(),
            "each deadline is a request's"
        );
        debug_assert!(
            self.sessions.iter().flat_map(|s| s.requests.values().map(move |e| (s, e))).all(|(s, e)| {
                (e.state == Asking::Decided) == e.deadline.is_none()
                    && (s.state == ClientState::Open || matches!(e.state, Asking::Unsent | Asking::Decided))
            }),
            "what is asked is asked on a connection, and waits for its answer"
        );
    }
}
