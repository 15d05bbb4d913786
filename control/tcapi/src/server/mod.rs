//! The server: messages of any number of clients become transactions of a router, and its replies answers.
//!
//! # One client
//! A client is an owner of the router's contract, `tcapi:NAME`; its epoch is the owner's fence. What it sends is done in its
//! order, and answered once, when it is in force or refused. While a transaction is on its way what comes waits, and then
//! becomes one transaction (group commit), as far as each reservation is named once in it. The router blames operations: the
//! messages they belong to are refused, and the others go again.
//!
//! ```text
//!            message of a newer epoch             taken
//!   Unknown ──────────────────────────► Claiming ───────► Idle ◄──────────────┐
//!      ▲                                 │   ▲              │ something waits  │ committed, refused
//!      │          refused: all is fenced │   │ newer epoch  ▼                  │ and nothing waits
//!      └─────────────────────────────────┘   └──────────── Busy ──────────────┘
//!                                                         ▲    │ committed, or refused: the rest goes again
//!                                                         └────┘
//! ```
//!
//! # What is never done
//! A class is not sold twice: what flows reserve in a class of a port is at most its guarantee (`room`). A message that comes
//! again is answered again and not done again, as long as its answer is one of the last [`Limits::answers`].

mod answers;
mod plan;
mod room;
#[cfg(test)]
pub(crate) mod tests;

pub use room::ClassRoom;

use crate::wire::{Answer, Body, FlowId, Frame, Frames, Lost, Message, Refusal, Request, Timing, Verb};
use answers::{Answers, Digest};
use perhop_model::{Claim, ErrorItem, Key, Name, Op, Outcome, Owner, Reply, Speaks, Transaction, TxnId};
use perhop_reason::Code;
use perhop_units::Instant;
use plan::Flow;
use room::Rooms;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A connection, as the driver calls it.
pub type Connection = u64;

/// How much of everything there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers kept of a client.
    pub answers: usize,
    /// Messages of a client that wait; one more is refused as `overload`.
    pub waiting: usize,
    /// Messages of one transaction.
    pub group: usize,
    /// Reservations of a client.
    pub flows: usize,
    /// Clients, gone ones included.
    pub clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answers: 65_536, waiting: 4_096, group: 1_024, flows: 1_000_000, clients: 1_024 }
    }
}

/// Longest name of a client: it is part of the names of its objects.
pub const CLIENT_NAME: usize = 64;
/// When who is refused for want of room in the queue may try again, ms.
const RETRY_MS: u32 = 100;

/// Who has connected, as far as the driver knows.
#[derive(Clone, Debug)]
pub struct Who {
    /// The client that it is unless it says another.
    pub client: Name,
    /// The owners that it may speak for.
    pub speaks: Speaks,
}

impl Who {
    fn may_speak(&self) -> bool {
        self.speaks.covers(&Owner::Tcapi(self.client.clone()))
    }
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client has connected.
    Connected(Connection, Who),
    /// Octets from it.
    Bytes(Connection, Vec<u8>),
    /// The connection has ended.
    Closed(Connection),
    /// Answer to [`Output::Claim`].
    Claimed(Name, Result<(), ErrorItem>),
    /// Answer to [`Output::Submit`].
    Reply(Name, Arc<Reply>),
    /// What classes have.
    Rooms(Vec<ClassRoom>),
    /// These objects have ended by themselves, at this revision.
    Expired(Vec<Key>, u64),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send octets.
    Send(Connection, Vec<u8>),
    /// Close a connection that is of no use any more, after what is to be sent.
    Close(Connection),
    /// Claim a client's owner.
    Claim(Name, Claim),
    /// Submit a transaction of a client.
    Submit(Name, Box<Transaction>),
    /// Say what classes have: an allocation of one has changed.
    Look,
}

/// See the module.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    /// Names of classes that have numbers.
    numbers: BTreeMap<u16, Name>,
    router_epoch: u64,
    connections: BTreeMap<Connection, (Who, Frames)>,
    clients: BTreeMap<Name, Client>,
    rooms: Rooms,
    transactions: u64,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Claiming,
    Idle,
    Busy,
}

#[derive(Debug)]
struct Client {
    state: State,
    epoch: u64,
    lease_s: Option<u32>,
    waiting: VecDeque<Waiting>,
    /// On their way to the router, in the order of their operations.
    group: Vec<Member>,
    /// Of what waits or is on its way.
    open: HashMap<u64, Digest>,
    answers: Answers,
    flows: HashMap<FlowId, Standing>,
}

/// A reservation, and the revision since which it is in force.
#[derive(Debug)]
struct Standing {
    flow: Flow,
    since: u64,
}

#[derive(Debug)]
struct Waiting {
    connection: Connection,
    txn: u64,
    epoch: u64,
    digest: Digest,
    received: Instant,
    what: What,
}

#[derive(Debug)]
enum What {
    Hello(Option<u32>),
    Do(Verb, Box<Request>),
}

#[derive(Debug)]
struct Member {
    waiting: Waiting,
    change: Change,
    operations: usize,
}

/// What a message makes of a reservation.
#[derive(Debug)]
struct Change {
    id: FlowId,
    before: Option<Flow>,
    after: Option<Flow>,
    /// What was before has ended by itself meanwhile.
    ended: bool,
}

impl Change {
    /// What the reservation is of, before and after.
    fn flow(&self) -> Option<&Flow> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

impl Server {
    /// Without clients, of a router's life `router_epoch`. `numbers` are the names of classes that clients may call by
    /// number.
    pub fn new(router_epoch: u64, numbers: BTreeMap<u16, Name>, limits: Limits) -> Self {
        Self {
            limits,
            numbers,
            router_epoch,
            connections: BTreeMap::new(),
            clients: BTreeMap::new(),
            rooms: Rooms::default(),
            transactions: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input; poll the outputs afterwards.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Connected(connection, who) => {
                self.connections.insert(connection, (who, Frames::default()));
            }
            Input::Bytes(connection, bytes) => self.bytes(now, connection, &bytes),
            Input::Closed(connection) => drop(self.connections.remove(&connection)),
            Input::Claimed(name, result) => self.claimed(now, &name, result),
            Input::Reply(name, reply) => self.replied(&name, &reply),
            Input::Rooms(rooms) => self.rooms.set(rooms),
            Input::Expired(keys, revision) => self.expired(&keys, revision),
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Reservations of all clients.
    pub fn flows(&self) -> usize {
        self.clients.values().map(|client| client.flows.len()).sum()
    }

    /// The main object of every reservation, as far as it is known to be in force. O(reservations).
    pub fn main_keys(&self) -> impl Iterator<Item = Key> {
        let of = |(name, client): (&Name, &Client)| -> Vec<Key> {
            let flows = client.flows.iter();
            flows.filter_map(|(id, s)| plan::keys(name, *id, &s.flow).into_iter().next()).collect()
        };
        self.clients.iter().flat_map(of)
    }

    /// Every class with what it has and what flows have reserved of it: port, logical class, bit/s.
    pub fn classes(&self) -> impl Iterator<Item = (&Name, &str, u64, u64)> {
        self.rooms.all()
    }

    fn bytes(&mut self, now: Instant, connection: Connection, bytes: &[u8]) {
        let Some((_, frames)) = self.connections.get_mut(&connection) else { return };
        frames.push(bytes);
        loop {
            let Some((_, frames)) = self.connections.get_mut(&connection) else { return };
            match frames.next() {
                Ok(None) => break,
                Ok(Some(frame)) => self.frame(now, connection, frame),
                Err(lost) => return self.lost(connection, lost),
            }
        }
        let Some((who, _)) = self.connections.get(&connection) else { return };
        let name = who.client.clone();
        self.go_on(&name);
    }

    /// Where messages begin is not known any more.
    fn lost(&mut self, connection: Connection, lost: Lost) {
        let refusal = Refusal::new(Code::LimitReached, lost.to_string());
        self.refuse_unkept(connection, (0, 0), refusal);
        self.outputs.push_back(Output::Close(connection));
        self.connections.remove(&connection);
    }

    fn frame(&mut self, now: Instant, connection: Connection, frame: Frame) {
        let begin = frame.begin.unwrap_or_default();
        let message = match frame.message {
            Ok(message) => message,
            // What cannot be read has no answer to keep: it is read the same way again.
            Err(malformed) => return self.refuse_unkept(connection, begin, malformed.into()),
        };
        let what = match message.body {
            Body::Hello { lease_s, client } => {
                if let Err(refusal) = self.introduce(connection, client) {
                    return self.refuse_unkept(connection, begin, refusal);
                }
                What::Hello(lease_s)
            }
            Body::Do(verb, request) => What::Do(verb, request),
            Body::Answer(_) => {
                let why = "a server is not answered";
                return self.refuse_unkept(connection, begin, Refusal::new(Code::UnknownKind, why));
            }
        };
        let Some((who, _)) = self.connections.get(&connection) else { return };
        let (name, clients) = (who.client.clone(), self.clients.len());
        if !who.may_speak() || !is_client(&name) {
            let why = format!("this user may not speak for tcapi:{name}");
            return self.refuse_unkept(connection, begin, Refusal::new(Code::Forbidden, why));
        }
        let client = match self.clients.entry(name) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(_) if clients >= self.limits.clients => {
                let why = "there are too many clients";
                return self.refuse_unkept(connection, begin, Refusal::new(Code::LimitReached, why));
            }
            Entry::Vacant(place) => place.insert(Client::new()),
        };
        let digest = Digest::of(&frame.bytes);
        let Message { txn, epoch, .. } = message;
        if epoch < client.epoch {
            let refusal = client.fenced();
            return self.refuse_unkept(connection, begin, refusal);
        }
        if epoch == client.epoch {
            match client.seen(txn, digest) {
                Seen::Answered(answer) => return self.outputs.push_back(Output::Send(connection, answer)),
                Seen::Open => return client.answer_to(txn, connection),
                Seen::Other => {
                    let why = "this transaction number was used for something else";
                    return self.refuse_unkept(connection, begin, Refusal::new(Code::TxnIdReused, why));
                }
                Seen::Never => {}
            }
        }
        if client.waiting.len() >= self.limits.waiting {
            let why = Refusal {
                retry_after_ms: RETRY_MS,
                ..Refusal::new(Code::Overload, "too many messages wait")
            };
            return self.refuse_unkept(connection, begin, why);
        }
        client.open.insert(txn, digest);
        client.waiting.push_back(Waiting { connection, txn, epoch, digest, received: now, what });
    }

    /// A connection may be of another client than its user's; all that it has sent before stays the other's.
    fn introduce(&mut self, connection: Connection, client: Option<String>) -> Result<(), Refusal> {
        let Some((who, _)) = self.connections.get_mut(&connection) else { return Ok(()) };
        let mut before = None;
        if let Some(text) = client {
            let client = Name::new(&text).ok().filter(is_client);
            let why = || Refusal::new(Code::OutOfRange, format!("{text:?} cannot be a client's name"));
            before = Some(std::mem::replace(&mut who.client, client.ok_or_else(why)?));
        }
        let forbidden = (!who.may_speak()).then(|| {
            let why = format!("this user may speak for {}, not for tcapi:{}", who.speaks, who.client);
            Refusal::new(Code::Forbidden, why)
        });
        // What came before in the same octets is the other client's, and done now.
        before.into_iter().for_each(|name| self.go_on(&name));
        forbidden.map_or(Ok(()), Err)
    }

    /// Does with a client's messages what can be done now.
    fn go_on(&mut self, name: &Name) {
        loop {
            let Some(client) = self.clients.get_mut(name) else { return };
            if !matches!(client.state, State::Idle | State::Unknown) {
                return;
            }
            let Some(first) = client.waiting.front() else { return };
            if first.epoch < client.epoch {
                // A newer instance has taken over while it waited.
                let refusal = client.fenced();
                let waiting = client.waiting.pop_front().expect("there is a first");
                self.refuse(name, &waiting, refusal);
                continue;
            }
            let hello = match first.what {
                What::Hello(lease_s) => Some(lease_s),
                What::Do(..) => None,
            };
            if client.state == State::Unknown || first.epoch > client.epoch || hello.is_some() {
                if first.epoch > client.epoch {
                    client.epoch = first.epoch;
                    client.lease_s = None;
                    client.answers.forget();
                }
                client.lease_s = hello.unwrap_or(client.lease_s);
                client.state = State::Claiming;
                let claim = Claim {
                    ttl_ms: client.lease_s.map(|s| u64::from(s) * 1_000),
                    keeps_answers: true,
                    ..Claim::new(Owner::Tcapi(name.clone()), client.epoch)
                };
                return self.outputs.push_back(Output::Claim(name.clone(), claim));
            }
            if self.submit(name) {
                return;
            }
        }
    }

    fn claimed(&mut self, now: Instant, name: &Name, result: Result<(), ErrorItem>) {
        let Some(client) = self.clients.get_mut(name) else { return };
        debug_assert_eq!(client.state, State::Claiming, "claims are made one at a time");
        match result {
            Ok(()) => {
                client.state = State::Idle;
                // A HELLO that led to it is done; anything else still is to be.
                if client.waiting.front().is_some_and(|w| matches!(w.what, What::Hello(_))) {
                    let hello = client.waiting.pop_front().expect("there is a first");
                    let timing = Timing { received_ns: hello.received.0, committed_ns: now.0 };
                    self.answer(name, &hello, None, Some(timing));
                }
            }
            Err(error) => {
                client.state = State::Unknown;
                if let Some(first) = client.waiting.pop_front() {
                    self.refuse(name, &first, of_error(&error, None));
                }
            }
        }
        self.go_on(name);
    }

    /// Makes a transaction of what waits. Whether there is one on its way now.
    fn submit(&mut self, name: &Name) -> bool {
        let mut ops = Vec::new();
        let mut named = BTreeSet::new();
        while let Some(client) = self.clients.get_mut(name) {
            let next = client.waiting.front().filter(|w| w.epoch == client.epoch);
            let Some(What::Do(_, request)) = next.map(|w| &w.what) else { break };
            if client.group.len() >= self.limits.group || !named.insert(request.flow) {
                break;
            }
            let waiting = client.waiting.pop_front().expect("there is a first");
            match self.work_out(name, &waiting) {
                Ok((change, operations)) => {
                    let client = self.clients.get_mut(name).expect("it was there");
                    client.group.push(Member { waiting, change, operations: operations.len() });
                    ops.extend(operations);
                }
                Err(refusal) => self.refuse(name, &waiting, refusal),
            }
        }
        let Some(client) = self.clients.get_mut(name).filter(|client| !client.group.is_empty()) else {
            return false;
        };
        client.state = State::Busy;
        self.transactions += 1;
        let id = TxnId(u128::from(self.transactions).to_be_bytes());
        let mut transaction = Transaction::new(id, Owner::Tcapi(name.clone()), ops);
        transaction.fence = client.epoch;
        self.outputs.push_back(Output::Submit(name.clone(), Box::new(transaction)));
        true
    }

    /// What a message comes to, and operations. Room for it is reserved.
    fn work_out(&mut self, name: &Name, waiting: &Waiting) -> Result<(Change, Vec<Op>), Refusal> {
        let What::Do(verb, request) = &waiting.what else {
            return Err(Refusal::new(Code::Malformed, "nothing is to be done"));
        };
        let client = self.clients.get(name).expect("whose message it is");
        let id = request.flow;
        let before = client.flows.get(&id).map(|standing| standing.flow.clone());
        let unknown = || Refusal::new(Code::NotFound, format!("there is no reservation {id}"));
        let (after, ops) = match (verb, &before) {
            (Verb::Request, Some(_)) => {
                return Err(Refusal::new(Code::Exists, format!("reservation {id} exists")));
            }
            (Verb::Request, None) if client.flows.len() + client.group.len() >= self.limits.flows => {
                return Err(Refusal::new(Code::LimitReached, "this client has too many reservations"));
            }
            (Verb::Request, None) => {
                let class = |logical: &str, port: &str| {
                    self.rooms.class(logical, port).map(|(class, _)| class.clone())
                };
                let (flow, ops) = plan::create(name, request, &self.numbers, class)?;
                (Some(flow), ops)
            }
            (Verb::Modify, None) | (Verb::Release, None) => return Err(unknown()),
            (Verb::Modify, Some(flow)) => {
                let (flow, ops) = plan::modify(name, flow, request)?;
                (Some(flow), ops)
            }
            (Verb::Release, Some(flow)) => (None, plan::release(name, id, flow)),
        };
        self.reserve(before.as_ref(), after.as_ref())?;
        Ok((Change { id, before, after, ended: false }, ops))
    }

    /// Room for what will be. What will not be any more is given back once that is in force.
    fn reserve(&mut self, before: Option<&Flow>, after: Option<&Flow>) -> Result<(), Refusal> {
        let Some(after) = after else { return Ok(()) };
        let from = before.map_or(0, |flow| flow.amount.rate_bps);
        match after.within() {
            Some(within) => self.rooms.change(&within, from, after.amount.rate_bps.max(from)),
            None => {
                // Flows of the class keep what they have.
                let sold =
                    self.rooms.class(after.logical.as_str(), &after.egress).map_or(0, |(_, sold)| sold);
                let asked = after.amount.rate_bps;
                if asked >= sold {
                    return Ok(());
                }
                let why = format!("flows have reserved {sold} bit/s of class {}", after.logical);
                Err(Refusal {
                    link: after.egress.clone(),
                    class: after.logical.to_string(),
                    asked_bps: asked,
                    free_bps: sold,
                    ..Refusal::new(Code::InUse, why)
                })
            }
        }
    }

    /// What was reserved for a change that is in force, or is not made: only what is in force then stays reserved.
    fn settle(&mut self, change: &Change, done: bool) {
        let rate = |flow: &Option<Flow>| flow.as_ref().map_or(0, |flow| flow.amount.rate_bps);
        let (before, after) = (rate(&change.before), rate(&change.after));
        let kept = match done {
            true => after,
            false if change.ended => 0,
            false => before,
        };
        if let Some(within) = change.flow().and_then(Flow::within) {
            self.rooms.put(&within, before.max(after), kept);
        }
    }

    fn replied(&mut self, name: &Name, reply: &Reply) {
        let Some(client) = self.clients.get_mut(name) else { return };
        debug_assert_eq!(client.state, State::Busy, "a reply is to a transaction");
        let group = std::mem::take(&mut client.group);
        client.state = State::Idle;
        if reply.outcome == Outcome::Committed {
            let mut look = false;
            for Member { waiting, change, .. } in group {
                self.settle(&change, true);
                look |= change.flow().is_some_and(|flow| flow.within().is_none());
                if let Some(client) = self.clients.get_mut(name) {
                    client.took(change, reply.revision);
                }
                let timing = Timing { received_ns: waiting.received.0, committed_ns: reply.committed_ns };
                self.answer(name, &waiting, None, Some(timing));
            }
            if look {
                self.outputs.push_back(Output::Look);
            }
        } else {
            self.rejected(name, group, reply);
        }
        self.go_on(name);
    }

    /// Whom the router blames is refused; the others wait again, before all else. Where it blames nobody, all are refused.
    fn rejected(&mut self, name: &Name, group: Vec<Member>, reply: &Reply) {
        let retry = reply.retry_after_ms;
        let whole = reply.errors.iter().find(|error| error.op.is_none());
        let mut again = Vec::new();
        let mut first = 0;
        for member in group {
            let operations = first..first + member.operations;
            first = operations.end;
            let blamed = reply.errors.iter().find(|e| e.op.is_some_and(|op| operations.contains(&op)));
            self.settle(&member.change, false);
            match blamed.or(whole) {
                Some(error) => self.refuse(name, &member.waiting, of_error(error, retry)),
                None => again.push(member.waiting),
            }
        }
        if let Some(client) = self.clients.get_mut(name) {
            again.into_iter().rev().for_each(|waiting| client.waiting.push_front(waiting));
        }
    }

    /// Objects that ended by themselves take their reservations along, but for those that were made anew since.
    fn expired(&mut self, keys: &[Key], revision: u64) {
        let Self { clients, rooms, .. } = self;
        for key in keys {
            let Some(name) = plan::client_of(&key.name) else { continue };
            let Some(client) = clients.get_mut(&name) else { continue };
            let Some(id) = plan::flow_of(&name, &key.name) else { continue };
            if client.flows.get(&id).is_none_or(|standing| standing.since > revision) {
                continue;
            }
            let Some(Standing { flow, .. }) = client.flows.remove(&id) else { continue };
            let mut changes = client.group.iter_mut().map(|member| &mut member.change);
            if let Some(change) = changes.find(|change| change.id == id) {
                // What it had is given back with what is on its way.
                change.ended = true;
            } else if let Some(within) = flow.within() {
                rooms.put(&within, flow.amount.rate_bps, 0);
            }
        }
    }

    // ---- answering

    fn refuse(&mut self, name: &Name, waiting: &Waiting, refusal: Refusal) {
        self.answer(name, waiting, Some(refusal), None);
    }

    /// Answers, and keeps the answer unless it is to be asked again.
    fn answer(&mut self, name: &Name, waiting: &Waiting, refusal: Option<Refusal>, timing: Option<Timing>) {
        let keep = !refusal.as_ref().is_some_and(|r| matches!(r.code, Code::Overload | Code::BackendFailed));
        let bytes = self.encoded((waiting.txn, waiting.epoch), refusal, timing);
        if let Some(client) = self.clients.get_mut(name) {
            client.open.remove(&waiting.txn);
            if keep && waiting.epoch == client.epoch {
                client.answers.keep(self.limits.answers, waiting.txn, waiting.digest, &bytes);
            }
        }
        if self.connections.contains_key(&waiting.connection) {
            self.outputs.push_back(Output::Send(waiting.connection, bytes));
        }
    }

    fn refuse_unkept(&mut self, connection: Connection, begin: (u64, u64), refusal: Refusal) {
        let bytes = self.encoded(begin, Some(refusal), None);
        self.outputs.push_back(Output::Send(connection, bytes));
    }

    fn encoded(&self, (txn, epoch): (u64, u64), refusal: Option<Refusal>, timing: Option<Timing>) -> Vec<u8> {
        let answer = Answer { refusal, timing, router_epoch: self.router_epoch };
        Message { txn, epoch, body: Body::Answer(Box::new(answer)) }.to_bytes()
    }
}

/// What is known of a message's number.
enum Seen {
    Never,
    /// It is being done.
    Open,
    /// It was done: the answer.
    Answered(Vec<u8>),
    /// It was used for something else.
    Other,
}

impl Client {
    fn new() -> Self {
        Self {
            state: State::Unknown,
            epoch: 0,
            lease_s: None,
            waiting: VecDeque::new(),
            group: Vec::new(),
            open: HashMap::new(),
            answers: Answers::default(),
            flows: HashMap::new(),
        }
    }

    fn seen(&self, txn: u64, digest: Digest) -> Seen {
        match (self.open.get(&txn), self.answers.find(txn)) {
            (Some(open), _) if *open == digest => Seen::Open,
            (None, Some((kept, answer))) if kept == digest => Seen::Answered(answer.to_vec()),
            (None, None) => Seen::Never,
            _ => Seen::Other,
        }
    }

    /// A change is in force since this revision.
    fn took(&mut self, change: Change, revision: u64) {
        let standing = self.flows.remove(&change.id);
        if let Some(flow) = change.after {
            let since = change.before.and(standing).map_or(revision, |standing| standing.since);
            self.flows.insert(change.id, Standing { flow, since });
        }
    }

    /// What an older instance is told.
    fn fenced(&self) -> Refusal {
        Refusal::new(Code::Fenced, format!("an instance of epoch {} has taken over", self.epoch))
    }

    /// Who asks again on another connection is answered there. O(messages that wait).
    fn answer_to(&mut self, txn: u64, connection: Connection) {
        let group = self.group.iter_mut().map(|member| &mut member.waiting);
        if let Some(waiting) = group.chain(&mut self.waiting).find(|waiting| waiting.txn == txn) {
            waiting.connection = connection;
        }
    }
}

/// Whether a client may be called so: its name is part of names, between slashes.
pub fn is_client(name: &Name) -> bool {
    name.as_str().len() <= CLIENT_NAME && !name.as_str().contains('/')
}

/// A refusal by the router.
fn of_error(error: &ErrorItem, retry_after_ms: Option<u64>) -> Refusal {
    let message = match error.path.as_str() {
        "" => error.message.clone(),
        path => format!("{path}: {}", error.message),
    };
    Refusal {
        free_bps: error.free.unwrap_or(0),
        asked_bps: error.value.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(0),
        retry_after_ms: retry_after_ms.map_or(0, |ms| u32::try_from(ms).unwrap_or(u32::MAX)),
        ..Refusal::new(error.code, message)
    }
}
