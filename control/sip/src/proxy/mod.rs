//! A stateful proxy (RFC 3261 §16) without sockets: messages come in with the peer that sent them and go out with the peer they are for.
//!
//! A request that is new gets a *context*: its server transaction, and a branch with a client transaction for each place it is sent to.
//!
//! ```text
//!  request ──► checked ──► routed ──► branch: resolving ──► calling ──► 1xx ──► passed on
//!                │ refused   │ nowhere          │ nowhere      │          2xx ──► quality ──► passed on, other branches cancelled
//!                ▼           ▼                  ▼              │                    │ held, then passed or refused
//!              answered   answered        next address,        │         3xx–6xx ──► kept; when all branches are done the best is passed on
//!                                         at last 408          └──► nothing comes: next address, at last 408
//! ```
//!
//! A context ends when none of its transactions is left. ACK of a 2xx has no context: it is passed on as it comes. What the proxy remembers of
//! a call beyond that is written into its Record-Route, signed.
//!
//! Left out, as RFC 3261 allows: recursion on 3xx, a CANCEL without its INVITE is answered by 481 instead of passed on (no response to it could be
//! passed back, RFC 6026 §7.3), datagrams too long for the path are not moved to a stream.

mod cancel;
mod context;
mod forward;
mod location;
mod receive;
mod refuse;
mod respond;
mod route;
mod settings;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use settings::within;
pub use settings::{Domain, Limits, Listen, Settings, Side, Zone};

use crate::message::{Message, Piece, Stream, Transport};
use crate::peer::Peer;
use crate::quality::Quality;
use crate::transaction::{Told, Transactions};
use context::Context;
use location::Locations;
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// A datagram.
    Datagram(Peer, Vec<u8>),
    /// Octets of a connection, which the peer names.
    Bytes(Peer, Vec<u8>),
    /// A connection has ended.
    Closed(u64),
    /// A message with this number could not be sent.
    Broken(u64),
    /// A name has these addresses, the best first; none if it has none.
    Resolved(u64, Vec<SocketAddr>),
    /// Time has passed, or a quality has something to say.
    Wake,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message. If that fails, say so with the number, unless it is 0.
    Send {
        /// To whom. Without a connection on a stream, one is opened or found.
        to: Peer,
        /// The octets.
        bytes: Vec<u8>,
        /// Number for [`Input::Broken`].
        number: u64,
    },
    /// Find the addresses of a name and answer with [`Input::Resolved`].
    Resolve {
        /// Number for the answer.
        number: u64,
        /// The name.
        host: String,
        /// The port; `None`: look for SRV records, or take the transport's.
        port: Option<u16>,
        /// The transport.
        transport: Transport,
    },
    /// Close a connection: what it brings cannot be told apart any more.
    Close(u64),
}

/// What a proxy has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that began a context.
    pub requests: u64,
    /// Octets that were no message, responses that were not valid or belonged to no request, ACKs that led nowhere.
    pub dropped: u64,
    /// Requests that the proxy answered itself other than by 100.
    pub answered: u64,
    /// Requests refused by 503, as there were too many.
    pub overload: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Proxy<Q> {
    settings: Settings,
    quality: Q,
    transactions: Transactions,
    contexts: HashMap<u64, Context>,
    next_context: u64,
    locations: Locations,
    streams: BTreeMap<u64, Stream>,
    /// Names that are being resolved, for whom.
    resolving: BTreeMap<u64, forward::Waiting>,
    next_number: u64,
    /// Timer C of branches, and ends of waiting for names: context and branch.
    due: BTreeSet<(Instant, u64, u64)>,
    /// Responses that are held, with context, branch and client transaction.
    held: BTreeMap<u64, (u64, u64, u64, Box<Message>)>,
    words: u64,
    counters: Counters,
    outputs: VecDeque<Output>,
}

impl<Q: Quality> Proxy<Q> {
    /// A proxy that has seen nothing yet.
    pub fn new(settings: Settings, quality: Q) -> Self {
        let locations = Locations::new(settings.limits.records, settings.limits.contacts);
        let transactions = Transactions::new(settings.timers);
        Self {
            words: settings.seed,
            settings,
            quality,
            transactions,
            contexts: HashMap::new(),
            next_context: 0,
            locations,
            streams: BTreeMap::new(),
            resolving: BTreeMap::new(),
            next_number: 0,
            due: BTreeSet::new(),
            held: BTreeMap::new(),
            counters: Counters::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Goes on with these settings. Where it listens, what it signs by, and its transactions' timers stay as they are.
    pub fn configure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        self.settings.listen = old.listen;
        (self.settings.secret, self.settings.seed, self.settings.timers) = (old.secret, old.seed, old.timers);
        self.locations.limit(self.settings.limits.records, self.settings.limits.contacts);
    }

    /// Takes what happens.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        match input {
            Input::Datagram(peer, bytes) => match Message::datagram(&bytes) {
                Ok(message) => self.receive(now, peer, message),
                // Empty datagrams keep translators awake.
                Err(_) => self.counters.dropped += u64::from(bytes.iter().any(|o| !o.is_ascii_whitespace())),
            },
            Input::Bytes(peer, bytes) => self.bytes(now, peer, &bytes),
            Input::Closed(connection) => {
                self.streams.remove(&connection);
            }
            Input::Broken(id) => {
                if let Some((owner, told)) = self.transactions.broken(now, id) {
                    self.told(now, owner, id, &told);
                }
            }
            Input::Resolved(number, addresses) => self.resolved(now, number, addresses),
            Input::Wake => {}
        }
        self.settle(now);
    }

    /// Does what is due, and takes over what others have decided.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(due) = self.transactions.due(now) {
                if let Some((owner, id, told)) = due {
                    self.told(now, owner, id, &told);
                }
            }
            self.branches_due(now);
            self.quality.wake(now);
            while let Some((ticket, verdict)) = self.quality.poll_decided() {
                self.decided(now, ticket, verdict);
            }
            while let Some((owner, id)) = self.transactions.poll_over() {
                self.over(owner, id);
            }
            // What was decided may have begun what is due at once.
            if self.transactions.next_wakeup().is_none_or(|at| at > now) {
                break;
            }
        }
        self.locations.wake(now);
        while let Some((number, to, bytes)) = self.transactions.poll_send() {
            self.outputs.push_back(Output::Send { to, bytes, number });
        }
    }

    fn bytes(&mut self, now: Instant, peer: Peer, bytes: &[u8]) {
        let Some(connection) = peer.connection else { return };
        if !self.streams.contains_key(&connection) && self.streams.len() >= self.settings.limits.connections {
            self.outputs.push_back(Output::Close(connection));
            return;
        }
        self.streams.entry(connection).or_default().push(bytes);
        loop {
            let Some(stream) = self.streams.get_mut(&connection) else { return };
            match stream.next() {
                Ok(Some(Piece::Message(message))) => self.receive(now, peer, *message),
                Ok(Some(Piece::Ping)) => self.send(peer, b"\r\n".to_vec()),
                Ok(None) => return,
                Err(_) => {
                    self.counters.dropped += 1;
                    self.streams.remove(&connection);
                    self.outputs.push_back(Output::Close(connection));
                    return;
                }
            }
        }
    }

    /// Sends what belongs to no transaction.
    fn send(&mut self, to: Peer, bytes: Vec<u8>) {
        self.outputs.push_back(Output::Send { to, bytes, number: 0 });
    }

    fn told(&mut self, now: Instant, owner: u64, id: u64, told: &Told) {
        if matches!(told, Told::Timeout | Told::Broken) {
            self.client_failed(now, owner, id);
        }
    }

    /// A word that nobody can guess without the secret.
    fn word(&mut self) -> u64 {
        self.words = self.words.wrapping_add(1);
        token::word(&self.settings.secret, self.words)
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Wake`] has something to do.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, ..)| *at);
        [self.transactions.next_wakeup(), due, self.quality.next_wakeup(), self.locations.next_wakeup()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Who decides about calls, to be asked.
    pub const fn quality(&self) -> &Q {
        &self.quality
    }

    /// Who decides about calls, to be told something; [`Input::Wake`] follows.
    pub const fn quality_mut(&mut self) -> &mut Q {
        &mut self.quality
    }

    /// What it has done.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Transactions and contexts that are under way: 0 and 0 when nothing is left over.
    pub fn under_way(&self) -> (usize, usize) {
        (self.transactions.len(), self.contexts.len())
    }

    /// Records that were learnt.
    pub fn records(&self) -> usize {
        self.locations.records()
    }
}
