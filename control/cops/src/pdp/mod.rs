//! A policy decision point: any number of connections, the clients of PEPs on them, and their requests.
//!
//! `states` has the tables and diagrams. The caller says which clients are accepted, and decides: a PDP sees to it that
//! each request is decided on once and in order, that nothing is forgotten while a PEP is away for less than
//! [`Config::keep`], and that both ends agree afterwards: a PEP that comes back is asked for all of its requests, and what
//! it does not ask is gone.

mod incoming;
mod message;
mod peer;
mod states;

pub use message::{Config, Gone, Input, Notice, On, Output, PeerId, Refused, Security};

use crate::session::Link;
use crate::wire::integrity::{HMAC, TLS};
use crate::wire::{
    Accept, Body, ClientType, Close, Decided, Error, ErrorCode, Handle, MAX_MESSAGE, Message, PepId,
};
use peer::{Owed, Peer};
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

/// 10,000 connections without anything to do are to fit into little.
const _: () = assert!(size_of::<Connection>() <= 256);

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
                    patience: Some(now + self.config.patience),
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
            let at = now + self.config.keep;
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
