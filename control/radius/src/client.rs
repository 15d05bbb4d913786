//! Asks access servers to change or to end a session, until they answer (RFC 5176 section 2).
//!
//! ```text
//!            ask: send             ack, nak: tell
//!   Idle ──────────────► Waiting ──────────────────► Idle
//!                        │  ▲ │
//!           due: send ───┘  │ └── due, and enough: tell ──► Idle
//!                           └──── forged: nothing
//! ```
//!
//! Repetitions are the same octets, so that the other side knows them again; the first comes after `first`, each later one after
//! twice the time, at most `longest`, a tenth more or less (RFC 5080 section 2.2.1).

use crate::attribute::{Attribute, kind};
use crate::change::Change;
use crate::packet::{Code, Packet, TooLong};
use crate::server::Nas;
use crate::sign::{check_response, request};
use perhop_units::{Duration, Instant, mix};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Requests that wait for one access server at most: as many as there are identifiers.
pub const MAX_WAITING: usize = 256;

/// How often and how long a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until the first repetition.
    pub first: Duration,
    /// Between two at most.
    pub longest: Duration,
    /// Datagrams in all, at least 1.
    pub sends: u32,
}

impl Default for Patience {
    /// 2 s, 16 s, five datagrams (RFC 5080 section 2.2.1).
    fn default() -> Self {
        Self { first: Duration::from_secs(2), longest: Duration::from_secs(16), sends: 5 }
    }
}

/// What a client is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Ask for this; answered by [`Output::Done`].
    Ask {
        /// Chosen by the caller, unique among those that wait.
        ticket: u64,
        /// Whom.
        to: SocketAddr,
        /// What.
        change: Box<Change>,
    },
    /// A datagram.
    Datagram {
        /// Of whom.
        from: SocketAddr,
        /// Its octets.
        bytes: Vec<u8>,
    },
    /// Time passes.
    Tick,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Done,
    /// The access server refuses it; its Error-Cause, if it says one.
    Refused(Option<u32>),
    /// It does not answer. It may have done it all the same.
    Unanswered,
    /// There is no secret for it.
    Stranger,
    /// [`MAX_WAITING`] wait for it already.
    TooMany,
    /// It does not fit in a packet.
    TooLong(TooLong),
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send {
        /// To whom.
        to: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// This is what became of it.
    Done {
        /// Of which.
        ticket: u64,
        /// What.
        verdict: Verdict,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Ask,
    Answered,
    /// It is time to repeat; whether enough was sent.
    Due {
        enough: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Send,
    Tell,
    GiveUp,
}

/// What an event does in a state. A pair that is not here changes nothing.
fn step(state: State, event: Event) -> Option<(State, Action)> {
    Some(match (state, event) {
        (State::Idle, Event::Ask) => (State::Waiting, Action::Send),
        (State::Waiting, Event::Answered) => (State::Idle, Action::Tell),
        (State::Waiting, Event::Due { enough: false }) => (State::Waiting, Action::Send),
        (State::Waiting, Event::Due { enough: true }) => (State::Idle, Action::GiveUp),
        (State::Idle, _) | (State::Waiting, Event::Ask) => return None,
    })
}

type Asked = (SocketAddr, u8);

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    code: Code,
    authenticator: [u8; 16],
    bytes: Vec<u8>,
    sent: u32,
    pause: Duration,
    due: Instant,
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    known: BTreeMap<IpAddr, Nas>,
    patience: Patience,
    unix_at_zero: u64,
    random: u64,
    waiting: BTreeMap<Asked, Waiting>,
    due: BTreeSet<(Instant, Asked)>,
    /// The next identifier for each access server.
    next: BTreeMap<SocketAddr, u8>,
    forged: u64,
    outputs: VecDeque<Output>,
}

impl Client {
    /// Waits for nothing. `unix_at_zero`: seconds from 1970 to the beginning of the clock; `random` spreads repetitions.
    pub fn new(known: BTreeMap<IpAddr, Nas>, patience: Patience, unix_at_zero: u64, random: u64) -> Self {
        Self {
            known,
            patience,
            unix_at_zero,
            random,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            next: BTreeMap::new(),
            forged: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        match input {
            Input::Ask { ticket, to, change } => {
                if let Err(verdict) = self.ask(now, ticket, to, &change) {
                    self.outputs.push_back(Output::Done { ticket, verdict });
                }
            }
            Input::Datagram { from, bytes } => self.datagram(from, &bytes),
            Input::Tick => {}
        }
        self.repeat(now);
        debug_assert_eq!(self.waiting.len(), self.due.len(), "each that waits is due at some time");
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Datagrams that were no answer to anything, or not by whom they should be.
    pub fn forged(&self) -> u64 {
        self.forged
    }

    fn ask(&mut self, now: Instant, ticket: u64, to: SocketAddr, change: &Change) -> Result<(), Verdict> {
        let nas = self.known.get(&to.ip()).ok_or(Verdict::Stranger)?;
        let next = self.next.get(&to).copied().unwrap_or(0);
        let identifier = (0..=u8::MAX)
            .map(|step| next.wrapping_add(step))
            .find(|identifier| !self.waiting.contains_key(&(to, *identifier)))
            .ok_or(Verdict::TooMany)?;
        let mut attributes = change.attributes().map_err(Verdict::TooLong)?;
        let seconds = self.unix_at_zero + now.as_nanos() / Duration::from_secs(1).as_nanos();
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        attributes.push(Attribute::number(kind::EVENT_TIMESTAMP, seconds));
        let signed =
            request(change.code(), identifier, &attributes, &nas.secret).map_err(Verdict::TooLong)?;
        self.next.insert(to, identifier.wrapping_add(1));
        let waiting = Waiting {
            ticket,
            code: change.code(),
            authenticator: signed.authenticator,
            bytes: signed.bytes,
            sent: 0,
            pause: self.patience.first,
            due: now,
        };
        if step(State::Idle, Event::Ask) == Some((State::Waiting, Action::Send)) {
            self.waiting.insert((to, identifier), waiting);
            self.due.insert((now, (to, identifier)));
        }
        Ok(())
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Some((asked, verdict)) = self.verdict(from, bytes) else {
            self.forged += 1;
            return;
        };
        if let Some((State::Idle, Action::Tell)) = step(State::Waiting, Event::Answered) {
            self.end(asked, verdict);
        }
    }

    /// Which request a datagram answers, and how; an answer without Message-Authenticator proves itself by its authenticator.
    fn verdict(&self, from: SocketAddr, bytes: &[u8]) -> Option<(Asked, Verdict)> {
        let packet = Packet::read(bytes).ok()?;
        let asked = (from, packet.identifier);
        let waiting = self.waiting.get(&asked)?;
        let secret = &self.known.get(&from.ip())?.secret;
        check_response(bytes, &waiting.authenticator, secret, false).ok()?;
        let verdict = match (waiting.code, packet.code) {
            (Code::CoaRequest, Code::CoaAck) | (Code::DisconnectRequest, Code::DisconnectAck) => {
                Verdict::Done
            }
            (Code::CoaRequest, Code::CoaNak) | (Code::DisconnectRequest, Code::DisconnectNak) => {
                Verdict::Refused(packet.number(kind::ERROR_CAUSE))
            }
            _ => return None,
        };
        Some((asked, verdict))
    }

    fn repeat(&mut self, now: Instant) {
        while let Some((due, asked)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            let Some(waiting) = self.waiting.get_mut(&asked) else {
                debug_assert!(false, "what is due waits");
                self.due.remove(&(due, asked));
                continue;
            };
            let enough = waiting.sent >= self.patience.sends.max(1);
            match step(State::Waiting, Event::Due { enough }) {
                Some((State::Waiting, Action::Send)) => {
                    waiting.sent += 1;
                    let tenth = waiting.pause.as_nanos() / 10;
                    let spread = mix::next(&mut self.random) % (2 * tenth + 1);
                    // Later than now in any case: a pause of nothing would send without end.
                    waiting.due = now + Duration((waiting.pause.as_nanos() - tenth + spread).max(1));
                    waiting.pause = waiting.pause.saturating_mul(2).min(self.patience.longest);
                    self.outputs.push_back(Output::Send { to: asked.0, bytes: waiting.bytes.clone() });
                    self.due.remove(&(due, asked));
                    self.due.insert((waiting.due, asked));
                }
                _ => self.end(asked, Verdict::Unanswered),
            }
        }
    }

    fn end(&mut self, asked: Asked, verdict: Verdict) {
        if let Some(waiting) = self.waiting.remove(&asked) {
            self.due.remove(&(waiting.due, asked));
            self.outputs.push_back(Output::Done { ticket: waiting.ticket, verdict });
        }
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
