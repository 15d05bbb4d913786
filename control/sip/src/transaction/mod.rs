//! Transactions (RFC 3261 §17 with RFC 6026): a request, its responses, and their repetitions where messages get lost.
//!
//! ```text
//!  client, INVITE                                          client, other
//!                   1xx            2xx                                 1xx              final
//!   Calling ───────────► Proceeding ───► Accepted ─┐        Trying ─────────► Proceeding ───► Completed
//!     │ ▲ │                   │           ▲ │ 2xx  │ M        │ ▲ E     │        │ ▲ E             │ K
//!     │ └A┘                   │ 3xx–6xx   └─┘      ▼          │ └┘      │ final  │ └┘              ▼
//!     │   │ 3xx–6xx           ▼                   over        │ F       └────────┼────────►       over
//!     │ B └────────────► Completed ───────────────►           ▼                  ▼ F
//!     ▼                       ▲ │ 3xx–6xx: ACK again   D     over               over
//!    over                     └─┘
//!
//!  server, INVITE                                          server, other
//!                  2xx                                                1xx              final
//!   Proceeding ───────► Accepted ───────────► over          Trying ─────────► Proceeding ───► Completed
//!     ▲ │   │            ▲ │ 2xx, ACK     L                   │                 ▲ │               ▲ │ J
//!     └─┘   │ 3xx–6xx    └─┘                                  │ final           └─┘ again         └─┘ again
//!     1xx,  ▼                ACK             I                └─────────────────────────────────►     ▼
//!     again Completed ──────────► Confirmed ──► over                                                 over
//!           ▲ │   │
//!           └─┘   └ H: over
//!          G, again
//! ```
//!
//! The table is `states::step`. What a client hears and what a server is to send is told to and by the proxy; nothing is queued but messages
//! to be sent. Whoever begins a transaction gives it an owner, by which it is told later what happened.

mod key;
mod states;
#[cfg(test)]
mod tests;

pub use key::Key;

use crate::message::{Message, Method, Name};
use crate::peer::Peer;
use perhop_units::{Duration, Instant};
use states::{Action, Event, Kind, State, step};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Times that timers are made of (RFC 3261 §17.1.1.1, table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// A round trip.
    pub t1: Duration,
    /// The longest wait between two repetitions, but of INVITE.
    pub t2: Duration,
    /// How long a message can be on its way.
    pub t4: Duration,
    /// How long a final response other than 2xx to INVITE may be repeated, on datagrams (timer D, at least 32 s).
    pub d: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            d: Duration::from_secs(32),
        }
    }
}

impl Timers {
    /// Timers B, F, H, J, L and M.
    pub const fn long(&self) -> Duration {
        self.t1.saturating_mul(64)
    }
}

/// A transaction.
pub type Id = u64;

/// What a transaction tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A client: a response has come; not one that came before, but each repetition of a 2xx to INVITE.
    Response,
    /// A client: no final response came in time (timers B and F).
    Timeout,
    /// A client: the request cannot be sent.
    Broken,
    /// A server: an ACK to a 2xx.
    Ack,
}

#[derive(Debug)]
struct Transaction {
    kind: Kind,
    state: State,
    key: Key,
    peer: Peer,
    owner: u64,
    /// What was sent last, as long as it may have to be sent again.
    sent: Vec<u8>,
    /// When it is sent again, and after which time once more.
    again: Option<(Instant, Duration)>,
    /// When time is over, and what that means.
    ends: Option<(Instant, Event)>,
}

/// All transactions. Each costs some 300 bytes and its last message.
#[derive(Debug, Default)]
pub struct Transactions {
    timers: Timers,
    next: Id,
    all: HashMap<Id, Transaction>,
    keys: HashMap<Key, Id>,
    due: BTreeSet<(Instant, Id)>,
    /// Messages to be sent, with the transaction that is to hear when that fails.
    sends: VecDeque<(Id, Peer, Vec<u8>)>,
    /// What is over, with its owner.
    over: VecDeque<(u64, Id)>,
}

impl Transactions {
    /// None yet.
    pub fn new(timers: Timers) -> Self {
        Self { timers, ..Self::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Begins a client transaction by sending its request. `branch` is the one of its first Via.
    pub fn client(
        &mut self,
        now: Instant,
        request: Vec<u8>,
        branch: &[u8],
        method: &[u8],
        peer: Peer,
        owner: u64,
    ) -> Id {
        let invite = Method::of(method) == Method::Invite;
        let (kind, state) =
            if invite { (Kind::ClientInvite, State::Calling) } else { (Kind::ClientOther, State::Trying) };
        let key = Key::client(branch, method);
        let id = self.add(kind, state, key, peer, owner);
        self.sends.push_back((id, peer, request.clone()));
        self.change(id, |timers, t| {
            t.sent = request;
            t.again = (!peer.transport.is_reliable()).then_some((now + timers.t1, timers.t1));
            t.ends = Some((now + timers.long(), Event::Timeout));
        });
        id
    }

    /// Begins a server transaction of a request that belongs to none. Its responses go to `peer`.
    pub fn server(&mut self, key: Key, invite: bool, peer: Peer, owner: u64) -> Id {
        let (kind, state) =
            if invite { (Kind::ServerInvite, State::Proceeding) } else { (Kind::ServerOther, State::Trying) };
        self.add(kind, state, key, peer, owner)
    }

    fn add(&mut self, kind: Kind, state: State, key: Key, peer: Peer, owner: u64) -> Id {
        self.next += 1;
        let id = self.next;
        debug_assert!(!self.keys.contains_key(&key), "a transaction has one key");
        self.keys.insert(key.clone(), id);
        self.all.insert(
            id,
            Transaction { kind, state, key, peer, owner, sent: Vec::new(), again: None, ends: None },
        );
        id
    }

    /// The server transaction of a key, and its owner.
    pub fn find(&self, key: &Key) -> Option<(Id, u64)> {
        let id = *self.keys.get(key)?;
        Some((id, self.all[&id].owner))
    }

    /// A request has come that belongs to server transaction `id`. `Some` is for the owner.
    pub fn request(&mut self, now: Instant, id: Id, ack: bool) -> Option<Told> {
        let action = self.step(now, id, if ack { Event::Ack } else { Event::Again })?;
        (action == Action::Tell).then_some(Told::Ack)
    }

    /// A response has come: its transaction, the owner, and whether that is to hear of it. `None` if it belongs to no transaction, and must not
    /// be passed on (RFC 6026 §7.3).
    pub fn response(&mut self, now: Instant, key: &Key, response: &Message) -> Option<(u64, Id, bool)> {
        let id = *self.keys.get(key)?;
        let owner = self.all[&id].owner;
        let event = match response.status().unwrap_or(0) {
            100..=199 => Event::Provisional,
            200..=299 => Event::Success,
            _ => Event::Failure,
        };
        let action = self.step(now, id, event);
        if action == Some(Action::AckAndTell) {
            self.acknowledge(id, response);
        }
        Some((owner, id, matches!(action, Some(Action::Tell | Action::AckAndTell))))
    }

    /// The ACK of a final response other than 2xx, kept to be repeated (§17.1.1.3).
    fn acknowledge(&mut self, id: Id, response: &Message) {
        let Some(transaction) = self.all.get_mut(&id) else { return };
        let Ok(request) = Message::datagram(&transaction.sent) else { return };
        transaction.sent = request.dependent("ACK", response.value(Name::To));
        self.sends.push_back((id, transaction.peer, transaction.sent.clone()));
    }

    /// The proxy answers server transaction `id`. A response that has no place any more is not sent, and `false`.
    pub fn respond(&mut self, now: Instant, id: Id, status: u16, response: Vec<u8>) -> bool {
        let event = match status {
            100..=199 => Event::Provisional,
            200..=299 => Event::Success,
            _ => Event::Failure,
        };
        if self.step(now, id, event) != Some(Action::Send) {
            return false;
        }
        let Some(transaction) = self.all.get_mut(&id) else { return false };
        self.sends.push_back((id, transaction.peer, response.clone()));
        // Whoever sent a 2xx to INVITE repeats it himself.
        if transaction.state != State::Accepted {
            transaction.sent = response;
        }
        true
    }

    /// Forgets a transaction that ends without a response (RFC 4320 §4.1: no 408 to other requests than INVITE).
    pub fn forget(&mut self, id: Id) {
        self.change(id, |_, t| t.state = State::Over);
    }

    /// The request of a client transaction has got a provisional response and no final one: only then it may be cancelled (§9.1).
    pub fn is_proceeding(&self, id: Id) -> bool {
        self.all.get(&id).is_some_and(|t| t.kind == Kind::ClientInvite && t.state == State::Proceeding)
    }

    /// What a client transaction has sent, and where, while it may be cancelled.
    pub fn sent(&self, id: Id) -> Option<(&[u8], Peer)> {
        self.all.get(&id).map(|t| (t.sent.as_slice(), t.peer))
    }

    /// A message of this transaction could not be sent. `Some` is for the owner.
    pub fn broken(&mut self, now: Instant, id: Id) -> Option<(u64, Told)> {
        let owner = self.all.get(&id)?.owner;
        (self.step(now, id, Event::Broken)? == Action::Tell).then_some((owner, Told::Broken))
    }

    /// Does one thing whose time has come. `Some(Some(…))` is for an owner; `None`: nothing is due.
    pub fn due(&mut self, now: Instant) -> Option<Option<(u64, Id, Told)>> {
        let &(at, id) = self.due.first()?;
        if at > now {
            return None;
        }
        let transaction = &self.all[&id];
        let owner = transaction.owner;
        let event = match transaction.ends {
            Some((end, event)) if end <= now => event,
            _ => Event::Resend,
        };
        let action = self.step(now, id, event);
        if action == Some(Action::Repeat) {
            self.change(id, |timers, t| {
                let Some((_, wait)) = t.again else { return };
                let twice = wait.saturating_mul(2);
                let wait = match (t.kind, t.state) {
                    (Kind::ClientInvite, _) => twice,
                    (Kind::ClientOther, State::Proceeding) => timers.t2,
                    _ => twice.min(timers.t2),
                };
                t.again = Some((now + wait, wait));
            });
        }
        Some((action == Some(Action::Tell)).then_some((owner, id, Told::Timeout)))
    }

    /// When [`Self::due`] has something to do.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// The next transaction that is over, with its owner.
    pub fn poll_over(&mut self) -> Option<(u64, Id)> {
        self.over.pop_front()
    }

    /// The next message to be sent.
    pub fn poll_send(&mut self) -> Option<(Id, Peer, Vec<u8>)> {
        self.sends.pop_front()
    }

    fn step(&mut self, now: Instant, id: Id, event: Event) -> Option<Action> {
        let transaction = self.all.get(&id)?;
        let (kind, state) = (transaction.kind, transaction.state);
        let (next, action) = step(kind, state, event)?;
        if action == Action::Repeat && !transaction.sent.is_empty() {
            self.sends.push_back((id, transaction.peer, transaction.sent.clone()));
        }
        self.change(id, |timers, t| {
            t.state = next;
            if next != state {
                enter(timers, t, now);
            }
        });
        Some(action)
    }

    /// Changes a transaction and keeps the order of what is due.
    fn change(&mut self, id: Id, with: impl FnOnce(&Timers, &mut Transaction)) {
        let Some(transaction) = self.all.get_mut(&id) else { return };
        let before = transaction.wakeup();
        with(&self.timers, transaction);
        let after = transaction.wakeup();
        let over = transaction.state == State::Over;
        if let Some(at) = before
            && (over || after != before)
        {
            self.due.remove(&(at, id));
        }
        if over {
            if let Some(transaction) = self.all.remove(&id) {
                self.keys.remove(&transaction.key);
                self.over.push_back((transaction.owner, id));
            }
        } else if let Some(at) = after {
            self.due.insert((at, id));
        }
        debug_assert_eq!(self.all.len(), self.keys.len(), "each transaction is found by its key");
    }
}

impl Transaction {
    fn wakeup(&self) -> Option<Instant> {
        let (again, ends) = (self.again.map(|(at, _)| at), self.ends.map(|(at, _)| at));
        again.into_iter().chain(ends).min()
    }
}

/// Timers of a state that has just been entered.
fn enter(timers: &Timers, t: &mut Transaction, now: Instant) {
    let lossy = !t.peer.transport.is_reliable();
    let linger = |time: Duration| Some((now + if lossy { time } else { Duration::ZERO }, Event::Linger));
    (t.again, t.ends) = match (t.kind, t.state) {
        // Timer F goes on.
        (Kind::ClientOther, State::Proceeding) => (lossy.then_some((now + timers.t2, timers.t2)), t.ends),
        (Kind::ClientInvite, State::Completed) => (None, linger(timers.d)),
        (Kind::ClientOther, State::Completed) | (Kind::ServerInvite, State::Confirmed) => {
            (None, linger(timers.t4))
        }
        (Kind::ServerOther, State::Completed) => (None, linger(timers.long())),
        (_, State::Accepted) => (None, Some((now + timers.long(), Event::Linger))),
        (Kind::ServerInvite, State::Completed) => {
            (lossy.then_some((now + timers.t1, timers.t1)), Some((now + timers.long(), Event::Timeout)))
        }
        _ => (None, None),
    };
    let silent = matches!(
        (t.kind, t.state),
        (_, State::Accepted | State::Confirmed) | (Kind::ClientOther, State::Completed)
    );
    if silent {
        t.sent = Vec::new();
    }
}
