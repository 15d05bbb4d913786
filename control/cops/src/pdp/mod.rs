//! A policy decision point: any number of connections, the clients of PEPs on them, and their requests.
//!
//! [`states`] has the tables and diagrams. The caller says which clients are accepted, and decides: a PDP sees to it that
//! each request is decided on once and in order, that nothing is forgotten while a PEP is away for less than
//! [`Config::keep`], and that both ends agree afterwards: a PEP that comes back is asked for all of its requests, and what
//! it does not ask is gone.

mod message;
mod peer;
mod states;

pub use message::{Config, Gone, Input, Notice, On, Output, PeerId, Refused, Security};

use crate::session::seal::{self, Seal};
use crate::session::{Incoming, Link};
use crate::wire::integrity::{HMAC, TLS};
use crate::wire::{
    Accept, Body, ClientType, Close, Decided, Error, ErrorCode, Fault, Handle, Integrity, MAX_MESSAGE,
    Message, OpCode, Open, PepId, Request,
};
use peer::{Installed, Owed, Peer};
use perhop_units::Instant;
use states::{Action, Event, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Most decisions that are owed on one handle; a PEP should not let it come to more than one (RFC 2748 §3.2).
pub const MAX_OWED: usize = 16;

/// A client that waits for being accepted.
#[derive(Debug)]
struct Opening {
    peer: PeerId,
    has_last_pdp: bool,
}

/// A connection.
#[derive(Debug)]
struct Connection {
    link: Link,
    state: State,
    sequence: u32,
    /// Who has proved its identity with a digest.
    proved: Option<PepId>,
    opening: Vec<Opening>,
    open: Vec<PeerId>,
    /// When it must have a client.
    patience: Option<Instant>,
    /// When it is looked at next.
    armed: Option<Instant>,
}

impl Connection {
    fn next_wakeup(&self) -> Option<Instant> {
        self.patience.into_iter().chain(self.link.keep_alive.next_wakeup()).min()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Pdp {
    config: Config,
    connections: BTreeMap<u64, Connection>,
    peers: BTreeMap<PeerId, Peer>,
    /// When connections are looked at: each once at most.
    armed: BTreeSet<(Instant, u64)>,
    kept: BTreeSet<(Instant, PeerId)>,
    questions: u64,
    outputs: VecDeque<Output>,
}

impl Pdp {
    /// Without connections.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            connections: BTreeMap::new(),
            peers: BTreeMap::new(),
            armed: BTreeSet::new(),
            kept: BTreeSet::new(),
            questions: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        let connection = match input {
            Input::Connected { connection, sequence } => {
                let new = Connection {
                    link: Link::new(now),
                    state: State::Fresh,
                    sequence,
                    proved: None,
                    opening: Vec::new(),
                    open: Vec::new(),
                    patience: Some(Instant(now.0.saturating_add(self.config.patience.0))),
                    armed: None,
                };
                self.connections.insert(connection, new);
                Some(connection)
            }
            Input::Secured(connection) => {
                self.step(now, connection, Event::Secured);
                Some(connection)
            }
            Input::Bytes(connection, bytes) => {
                self.bytes(now, connection, &bytes);
                Some(connection)
            }
            Input::Disconnected(connection) => {
                self.forget(now, connection);
                None
            }
            Input::Tick => None,
        };
        connection.into_iter().for_each(|connection| self.arm(connection));
        self.tick(now);
        self.check();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let armed = self.armed.first().map(|(at, _)| *at);
        armed.into_iter().chain(self.kept.first().map(|(at, _)| *at)).min()
    }

    /// Clients that are open or kept.
    pub fn peers(&self) -> impl Iterator<Item = &PeerId> {
        self.peers.keys()
    }

    /// Handles of a client's requests.
    pub fn handles(&self, peer: &PeerId) -> impl Iterator<Item = &Handle> {
        self.peers.get(peer).into_iter().flat_map(|peer| peer.requests.keys())
    }

    /// Accepts a client: CAT. One by the same name that is open elsewhere is closed there. If the PEP has decisions of before, it
    /// is asked for all of its requests.
    ///
    /// # Errors
    /// No such client waits on the connection.
    pub fn accept(
        &mut self,
        now: Instant,
        connection: u64,
        client_type: ClientType,
        accept: Accept,
    ) -> Result<(), Refused> {
        let Opening { peer: id, has_last_pdp } = self.take_opening(connection, client_type)?;
        self.step(now, connection, Event::Accepted);
        let known = self.connections.get_mut(&connection).ok_or(Refused::NotOpen)?;
        known.link.keep_alive.limit(accept.keep_alive_s);
        known.patience = None;
        self.send(now, connection, Message::new(client_type, Body::Accept(accept)));
        let before = self.peers.get(&id).and_then(|peer| peer.connection);
        if before != Some(connection) {
            if let Some(other) = before {
                self.close_client(now, other, &id, Error::of(ErrorCode::UNSPECIFIED), None);
            }
            self.enter(now, connection, &id, has_last_pdp);
        }
        self.arm(connection);
        self.check();
        Ok(())
    }

    /// Refuses a client: CC.
    ///
    /// # Errors
    /// No such client waits on the connection.
    pub fn refuse(
        &mut self,
        now: Instant,
        connection: u64,
        client_type: ClientType,
        close: Close,
    ) -> Result<(), Refused> {
        self.take_opening(connection, client_type)?;
        self.send(now, connection, Message::new(client_type, Body::Close(close)));
        Ok(())
    }

    /// Decides on a request: DEC. An error on one that has never been decided on ends it. O(log requests).
    ///
    /// # Errors
    /// The client is not open, has no such request, or this is no decision that is due; or it is too long for a message.
    pub fn decide(
        &mut self,
        now: Instant,
        peer: &PeerId,
        handle: &Handle,
        on: On,
        decided: Decided,
    ) -> Result<(), Refused> {
        let known = self.peers.get_mut(peer).ok_or(Refused::NotOpen)?;
        let connection = known.connection.ok_or(Refused::NotOpen)?;
        let installed = known.requests.get_mut(handle).ok_or(Refused::NoRequest)?;
        match on {
            On::Question(question) if installed.owed.front() != Some(&Owed::Answer(question)) => {
                return Err(Refused::NotAsked);
            }
            On::Change if !installed.is_decided => return Err(Refused::NotDecided),
            _ => {}
        }
        let is_error = matches!(decided, Decided::Error(_));
        let body = Body::Decision { handle: handle.clone(), decided };
        let solicited = matches!(on, On::Question(_));
        let message = Message { solicited, ..Message::new(peer.client_type, body) };
        let length = message.to_bytes().len() + 24;
        if length > MAX_MESSAGE {
            return Err(Refused::TooLong(length));
        }
        installed.is_decided |= !is_error;
        if solicited {
            installed.answered();
        }
        if is_error && !installed.is_decided && installed.owed.is_empty() {
            known.requests.remove(handle);
        }
        self.send(now, connection, message);
        self.answer_errors(now, connection, peer, handle);
        Ok(())
    }

    /// Asks a client for one request or all of them: SSQ. [`Notice::Synchronized`] follows if it was for all.
    ///
    /// # Errors
    /// The client is not open.
    pub fn synchronize(
        &mut self,
        now: Instant,
        peer: &PeerId,
        handle: Option<Handle>,
    ) -> Result<(), Refused> {
        let known = self.peers.get_mut(peer).ok_or(Refused::NotOpen)?;
        let connection = known.connection.ok_or(Refused::NotOpen)?;
        known.is_syncing |= handle.is_none();
        self.send(now, connection, Message::new(peer.client_type, Body::SyncRequest(handle)));
        Ok(())
    }

    /// Closes a client: CC. Its requests are kept for a while.
    ///
    /// # Errors
    /// The client is not open.
    pub fn close(&mut self, now: Instant, peer: &PeerId, close: Close) -> Result<(), Refused> {
        let connection = self.peers.get(peer).and_then(|known| known.connection).ok_or(Refused::NotOpen)?;
        self.close_client(now, connection, peer, close.error, close.redirect);
        Ok(())
    }

    /// Closes all clients, and names another PDP if there is one: this one stops (RFC 2748 §4.7).
    pub fn shut_down(&mut self, now: Instant, redirect: Option<SocketAddr>) {
        let open = self.peers.iter().filter(|(_, peer)| peer.connection.is_some());
        for peer in open.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let error = Error::of(ErrorCode::SHUTTING_DOWN);
            // It is open, so it can be closed.
            let _ = self.close(now, &peer, Close { error, redirect });
        }
    }

    fn take_opening(&mut self, connection: u64, client_type: ClientType) -> Result<Opening, Refused> {
        let known = self.connections.get_mut(&connection).ok_or(Refused::NotOpen)?;
        let at = known.opening.iter().position(|opening| opening.peer.client_type == client_type);
        at.map(|at| known.opening.swap_remove(at)).ok_or(Refused::NotOpen)
    }

    /// A client comes to a connection that it was not on.
    fn enter(&mut self, now: Instant, connection: u64, id: &PeerId, has_last_pdp: bool) {
        let peer = self.peers.entry(id.clone()).or_default();
        if let Some(at) = peer.kept_until.take() {
            self.kept.remove(&(at, id.clone()));
        }
        peer.connection = Some(connection);
        peer.is_syncing = false;
        if let Some(known) = self.connections.get_mut(&connection) {
            known.open.push(id.clone());
        }
        if has_last_pdp {
            peer.resume();
            peer.is_syncing = true;
            self.send(now, connection, Message::new(id.client_type, Body::SyncRequest(None)));
        } else {
            self.delete_all(id, Gone::Restarted);
        }
    }

    fn delete_all(&mut self, id: &PeerId, why: Gone) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let requests = std::mem::take(&mut peer.requests);
        requests.into_keys().for_each(|handle| self.deleted(id, handle, why));
    }

    fn deleted(&mut self, peer: &PeerId, handle: Handle, why: Gone) {
        self.notice(Notice::Deleted { peer: peer.clone(), handle, why });
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    fn send(&mut self, now: Instant, connection: u64, message: Message) {
        if let Some(known) = self.connections.get_mut(&connection) {
            let bytes = known.link.encode(now, &message);
            self.outputs.push_back(Output::Send(connection, bytes));
        }
    }

    fn send_close(&mut self, now: Instant, connection: u64, client_type: ClientType, error: Error) {
        let close = Close { error, redirect: None };
        self.send(now, connection, Message::new(client_type, Body::Close(close)));
    }

    /// Ends a connection that is of no use any more, saying why.
    fn break_off(&mut self, now: Instant, connection: u64, error: Error) {
        self.send_close(now, connection, ClientType::CONNECTION, error);
        self.disconnect(now, connection);
    }

    fn disconnect(&mut self, now: Instant, connection: u64) {
        if self.forget(now, connection) {
            self.outputs.push_back(Output::Disconnect(connection));
        }
    }

    /// There is no such connection any more; what its clients asked is kept.
    fn forget(&mut self, now: Instant, connection: u64) -> bool {
        let Some(known) = self.connections.remove(&connection) else { return false };
        known.armed.into_iter().for_each(|at| _ = self.armed.remove(&(at, connection)));
        for id in known.open {
            self.keep(now, &id);
        }
        true
    }

    /// A client is without a connection.
    fn keep(&mut self, now: Instant, id: &PeerId) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.connection = None;
        if peer.requests.is_empty() {
            self.peers.remove(id);
        } else {
            let at = Instant(now.0.saturating_add(self.config.keep.0));
            peer.kept_until = Some(at);
            self.kept.insert((at, id.clone()));
        }
        self.notice(Notice::Closed(id.clone()));
    }

    /// Closes a client from here. A connection without clients ends.
    fn close_client(
        &mut self,
        now: Instant,
        connection: u64,
        id: &PeerId,
        error: Error,
        redirect: Option<SocketAddr>,
    ) {
        let close = Close { error, redirect };
        self.send(now, connection, Message::new(id.client_type, Body::Close(close)));
        self.leave(now, connection, id);
    }

    /// A client is on its connection no longer.
    fn leave(&mut self, now: Instant, connection: u64, id: &PeerId) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        known.open.retain(|open| open != id);
        let is_unused = known.open.is_empty() && known.opening.is_empty();
        self.keep(now, id);
        if is_unused {
            self.disconnect(now, connection);
        }
    }

    fn bytes(&mut self, now: Instant, connection: u64, bytes: &[u8]) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        if known.state == State::Handshake {
            return self.break_off(now, connection, Error::security_wanted(TLS));
        }
        known.link.push(bytes);
        while let Some(known) = self.connections.get_mut(&connection) {
            if known.state == State::Handshake && known.link.held() > 0 {
                return self.break_off(now, connection, Error::security_wanted(TLS));
            }
            match known.link.next(now) {
                None => return,
                Some(Incoming::Message(message, bytes)) => self.message(now, connection, message, &bytes),
                Some(Incoming::Fault(fault)) => self.fault(now, connection, &fault),
                Some(Incoming::Broken(error)) => self.break_off(now, connection, error),
            }
        }
    }

    /// Whether the connection is still there.
    fn step(&mut self, now: Instant, connection: u64, event: Event) -> bool {
        let Some(known) = self.connections.get_mut(&connection) else { return false };
        let (state, action) = states::step(known.state, event);
        known.state = state;
        match action {
            Action::Nothing | Action::AcceptWithDigest | Action::AcceptForTls => return true,
            Action::Want => self.break_off(now, connection, self.wanted()),
            Action::Refuse => self.break_off(now, connection, Error::of(ErrorCode::BAD_MESSAGE_FORMAT)),
        }
        false
    }

    /// The security that connections must have.
    fn wanted(&self) -> Error {
        Error::security_wanted(match self.config.security {
            Security::None => 0,
            Security::Digest(_) => HMAC,
            Security::Tls => TLS,
        })
    }

    fn traffic(&mut self, now: Instant, connection: u64) -> bool {
        let must_be_secure = !matches!(self.config.security, Security::None);
        self.step(now, connection, Event::Traffic { must_be_secure })
    }

    fn message(&mut self, now: Instant, connection: u64, message: Message, bytes: &[u8]) {
        let Message { client_type, solicited, body, integrity } = message;
        if let (Body::Open(open), ClientType::CONNECTION) = (&body, client_type) {
            return self.open_connection(now, connection, open, integrity, bytes);
        }
        if !self.traffic(now, connection) {
            return;
        }
        match body {
            Body::KeepAlive => self.send(now, connection, Message::new(client_type, Body::KeepAlive)),
            Body::Close(_) if client_type == ClientType::CONNECTION => self.disconnect(now, connection),
            Body::Open(open) => self.open(now, connection, client_type, *open),
            Body::Decision { .. } | Body::SyncRequest(_) | Body::Accept(_) => {
                self.break_off(now, connection, Error::of(ErrorCode::BAD_MESSAGE_FORMAT));
            }
            body => match self.peer_on(connection, client_type) {
                Some(peer) => self.of_client(now, connection, &peer, solicited, body),
                None => self.send_close(
                    now,
                    connection,
                    client_type,
                    Error::of(ErrorCode::UNSUPPORTED_CLIENT_TYPE),
                ),
            },
        }
    }

    fn peer_on(&self, connection: u64, client_type: ClientType) -> Option<PeerId> {
        let known = self.connections.get(&connection)?;
        known.open.iter().find(|peer| peer.client_type == client_type).cloned()
    }

    /// OPN of client-type 0: security (RFC 2748 §4.1, RFC 4261 §5).
    fn open_connection(
        &mut self,
        now: Instant,
        connection: u64,
        open: &Open,
        integrity: Option<Integrity>,
        bytes: &[u8],
    ) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let accept = Accept { keep_alive_s: 0, accounting_s: None };
        let mut message = Message::new(ClientType::CONNECTION, Body::Accept(accept));
        let is_fresh = known.state == State::Fresh;
        match (&self.config.security, integrity) {
            (Security::Digest(keys), Some(Integrity::Hmac { .. })) if is_fresh => {
                let failure = Error::of(ErrorCode::AUTHENTICATION_FAILURE);
                let Some(keyring) = keys.get(&open.pep_id).cloned() else {
                    return self.break_off(now, connection, failure);
                };
                let theirs = match seal::check(&keyring, now, bytes) {
                    Ok(theirs) => theirs,
                    Err(error) => return self.break_off(now, connection, error),
                };
                let ours = known.sequence;
                known.proved = Some(open.pep_id.clone());
                known.link.protect(Seal::new(keyring.clone(), theirs, ours));
                self.outputs.push_back(Output::Send(connection, seal::seal(&keyring, now, &message, ours)));
                self.step(now, connection, Event::OpenedWithDigest);
            }
            (Security::Tls, None | Some(Integrity::StartTls)) if is_fresh => {
                message.integrity = Some(Integrity::StartTls);
                self.send(now, connection, message);
                self.step(now, connection, Event::OpenedForTls);
                self.outputs.push_back(Output::StartTls(connection));
            }
            _ => _ = self.step(now, connection, Event::OpenedOtherwise),
        }
    }

    fn open(&mut self, now: Instant, connection: u64, client_type: ClientType, open: Open) {
        let Open { pep_id: pep, client_si, last_pdp } = open;
        let peer = PeerId { pep, client_type };
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let is_other = known.proved.as_ref().is_some_and(|proved| *proved != peer.pep)
            || known.open.iter().any(|open| open.client_type == client_type && *open != peer);
        let code = if !self.config.client_types.contains(&client_type) {
            Some(ErrorCode::UNSUPPORTED_CLIENT_TYPE)
        } else if is_other {
            Some(ErrorCode::AUTHENTICATION_FAILURE)
        } else if !self.peers.contains_key(&peer) && self.peers.len() >= self.config.max_peers {
            Some(ErrorCode::UNABLE_TO_PROCESS)
        } else {
            None
        };
        if let Some(code) = code {
            return self.send_close(now, connection, client_type, Error::of(code));
        }
        known.opening.retain(|opening| opening.peer.client_type != client_type);
        known.opening.push(Opening { peer: peer.clone(), has_last_pdp: last_pdp.is_some() });
        self.notice(Notice::Opening { connection, peer, client_si, last_pdp });
    }

    fn of_client(&mut self, now: Instant, connection: u64, id: &PeerId, solicited: bool, body: Body) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        match body {
            Body::Request(request) => self.request(now, connection, id, request),
            Body::Report(report) => {
                let (peer, handle) = (id.clone(), report.handle);
                let (report_type, client_si) = (report.report_type, report.client_si);
                self.notice(Notice::Reported { peer, handle, solicited, report_type, client_si });
            }
            // One that is not known has been refused with an error, or was never more than named (§3.5).
            Body::Delete { handle, reason } if peer.requests.remove(&handle).is_some() => {
                self.deleted(id, handle, Gone::Deleted(reason));
            }
            Body::SyncComplete(None) if peer.is_syncing => {
                let gone = peer.complete();
                gone.into_iter().for_each(|handle| self.deleted(id, handle, Gone::NotAskedAgain));
                self.notice(Notice::Synchronized(id.clone()));
            }
            Body::Close(close) => {
                // A PEP that only lost the connection comes back with what it has.
                if close.error.code != ErrorCode::COMMUNICATION_FAILURE {
                    self.delete_all(id, Gone::Closed);
                }
                self.leave(now, connection, id);
            }
            _ => {}
        }
    }

    fn request(&mut self, now: Instant, connection: u64, id: &PeerId, request: Box<Request>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let handle = request.handle.clone();
        let count = peer.requests.len();
        let is_update = peer.requests.contains_key(&handle);
        if !is_update && count >= self.config.max_requests {
            let error = Error::of(ErrorCode::UNABLE_TO_PROCESS);
            return self.send_error(now, connection, id.client_type, handle, error);
        }
        let installed = peer.requests.entry(handle).or_insert_with(Installed::new);
        if installed.owed.len() >= MAX_OWED {
            return self.close_client(now, connection, id, Error::of(ErrorCode::CLIENT_FAILURE), None);
        }
        self.questions += 1;
        let question = self.questions;
        installed.asked(Owed::Answer(question));
        self.notice(Notice::Asked { peer: id.clone(), question, request, is_update });
    }

    fn send_error(
        &mut self,
        now: Instant,
        connection: u64,
        client_type: ClientType,
        handle: Handle,
        error: Error,
    ) {
        let body = Body::Decision { handle, decided: Decided::Error(error) };
        self.send(now, connection, Message { solicited: true, ..Message::new(client_type, body) });
    }

    /// Errors whose turn has come.
    fn answer_errors(&mut self, now: Instant, connection: u64, id: &PeerId, handle: &Handle) {
        while let Some(peer) = self.peers.get_mut(id)
            && let Some(installed) = peer.requests.get_mut(handle)
            && let Some(&Owed::Error(error)) = installed.owed.front()
        {
            installed.answered();
            self.send_error(now, connection, id.client_type, handle.clone(), error);
        }
    }

    /// What could not be read: a request gets its error, anything else costs its client or, where there is none, the
    /// connection (RFC 2748 §3.1, §3.6).
    fn fault(&mut self, now: Instant, connection: u64, fault: &Fault) {
        let client_type = fault.header.client_type;
        let error = fault.malformed.error();
        if client_type == ClientType::CONNECTION {
            return self.break_off(now, connection, error);
        }
        if !self.traffic(now, connection) {
            return;
        }
        let peer = self.peer_on(connection, client_type);
        match (peer, &fault.handle) {
            (Some(id), Some(handle)) if fault.header.op == OpCode::Request as u8 => {
                let known = self.peers.get_mut(&id).and_then(|peer| peer.requests.get_mut(handle));
                match known {
                    Some(installed) if installed.owed.len() >= MAX_OWED => {
                        self.close_client(now, connection, &id, error, None);
                    }
                    Some(installed) => {
                        installed.asked(Owed::Error(error));
                        self.answer_errors(now, connection, &id, handle);
                    }
                    None => self.send_error(now, connection, client_type, handle.clone(), error),
                }
            }
            (Some(id), _) => self.close_client(now, connection, &id, error, None),
            (None, _) => self.send_close(now, connection, client_type, error),
        }
    }

    /// Sets when a connection is looked at, unless it is before that.
    fn arm(&mut self, connection: u64) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let Some(at) = known.next_wakeup() else { return };
        if known.armed.is_none_or(|armed| at < armed) {
            known.armed.into_iter().for_each(|armed| _ = self.armed.remove(&(armed, connection)));
            known.armed = Some(at);
            self.armed.insert((at, connection));
        }
    }

    fn tick(&mut self, now: Instant) {
        while let Some(&(at, connection)) = self.armed.first()
            && at <= now
        {
            self.armed.pop_first();
            let Some(known) = self.connections.get_mut(&connection) else { continue };
            known.armed = None;
            match known.next_wakeup() {
                Some(due) if due <= now => self.disconnect(now, connection),
                _ => self.arm(connection),
            }
        }
        while let Some((at, id)) = self.kept.first().cloned()
            && at <= now
        {
            self.kept.pop_first();
            self.delete_all(&id, Gone::Expired);
            self.peers.remove(&id);
        }
    }

    /// What must hold.
    fn check(&self) {
        debug_assert!(
            self.peers.iter().all(|(id, peer)| match peer.connection {
                Some(connection) => {
                    peer.kept_until.is_none()
                        && self.connections.get(&connection).is_some_and(|known| known.open.contains(id))
                }
                None => peer.kept_until.is_some_and(|at| self.kept.contains(&(at, id.clone()))),
            }),
            "a client is on one connection, or kept for a time"
        );
        debug_assert!(
            self.connections.iter().all(|(n, known)| match known.armed {
                Some(at) => self.armed.contains(&(at, *n)),
                None => known.next_wakeup().is_none(),
            }),
            "each connection is looked at when it must"
        );
        debug_assert!(
            self.peers.values().flat_map(|peer| peer.requests.values()).all(|installed| {
                (installed.state == states::Request::Asked) != installed.owed.is_empty()
            }),
            "a decision is owed where something is asked"
        );
    }
}
