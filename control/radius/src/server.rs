//! Takes requests, each once, and answers when what was asked is done.
//!
//! ```text
//!            arrived: ask              done, refused: answer
//!   Unknown ──────────────► Asked ─────────────────────────────► Answered ⟲ arrived: answer again
//!      ▲                    │ ⟲ arrived: wait                        │
//!      └── failed, expired ─┘                                        │
//!      └──────────────────────────────────────────── expired ────────┘
//! ```
//!
//! A request is known by its sender's address and port, its identifier and its authenticator (RFC 5080 section 2.2.2). An
//! answer leaves when the request is on record (RFC 2866 section 3); one that failed is not answered, so that the sender asks
//! again. What is not signed, not whole or not of this time is dropped and counted, never answered.

use crate::attribute::{Attribute, kind};
use crate::cause::ErrorCause;
use crate::change::Change;
use crate::packet::{Code, Malformed, Packet};
use crate::record::{Incomplete, Record};
use crate::sign::{Secret, Unsigned, check_request, response};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Requests that are remembered at most; of one sender's port there are never more than 256.
pub const MAX_KEPT: usize = 65_536;
/// Of those, how many are looked at to find one that can be forgotten early.
const SEEN_FOR_ROOM: usize = 64;

/// Who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nas {
    /// Name in the domain.
    pub name: String,
    /// What it shares with us.
    pub secret: Secret,
    /// Whether its accounting must have a Message-Authenticator; changes of authorization always must.
    pub proven: bool,
}

/// What a server is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may ask, by address.
    pub known: BTreeMap<IpAddr, Nas>,
    /// Which requests it takes.
    pub takes: Vec<Code>,
    /// How long an answer is remembered; longer than a sender repeats itself.
    pub keep: Duration,
    /// How far a request's time may be from ours (RFC 5176 section 6.3); a request without one is taken.
    pub window: Duration,
    /// Seconds from 1970 to the beginning of the machine's clock.
    pub unix_at_zero: u64,
}

impl Settings {
    /// Takes `codes` of nobody yet; answers are kept for 30 s, times may be 300 s apart.
    pub fn new(codes: &[Code], unix_at_zero: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            takes: codes.to_vec(),
            keep: Duration::from_secs(30),
            window: Duration::from_secs(300),
            unix_at_zero,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To be put on record.
    Account(Box<Record>),
    /// To be done.
    Change(Box<Change>),
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, and on record.
    Done,
    /// It will not be done. Accounting cannot be refused: it is as [`Answer::Failed`].
    Refused(ErrorCause),
    /// It could not be: the sender is to try again.
    Failed,
}

/// What a server is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A datagram.
    Datagram {
        /// Of whom.
        from: SocketAddr,
        /// Its octets.
        bytes: Vec<u8>,
    },
    /// Answer to [`Output::Ask`].
    Answer {
        /// Of which.
        ticket: u64,
        /// What became of it.
        answer: Answer,
    },
    /// Time passes.
    Tick,
}

/// What a server wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Do this and say [`Input::Answer`].
    Ask {
        /// To be repeated.
        ticket: u64,
        /// Who asks, by its name in the domain.
        nas: String,
        /// What.
        request: Request,
    },
    /// Send this.
    Send {
        /// To whom.
        to: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Something was dropped; for a log that limits itself.
    Dropped {
        /// Of whom.
        from: SocketAddr,
        /// Why.
        why: Dropped,
    },
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Dropped {
    /// Nobody who is known sends from there.
    #[error("the sender is not known")]
    Stranger,
    /// It is no packet.
    #[error(transparent)]
    Malformed(Malformed),
    /// It is a packet that this server does not take.
    #[error("such packets are not taken here")]
    Code,
    /// It does not prove its sender.
    #[error(transparent)]
    Unsigned(Unsigned),
    /// It lacks what it must have.
    #[error(transparent)]
    Incomplete(Incomplete),
    /// Its time is too far from ours: somebody plays it again, or a clock is wrong.
    #[error("its time is {off_s} s from ours")]
    Stale {
        /// By how much.
        off_s: u64,
    },
    /// As many requests are remembered as may be.
    #[error("too many requests at a time")]
    Overload,
}

/// What has been counted, from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named after what it counts")]
pub struct Counts {
    pub asked: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
    pub repeated: u64,
    pub strangers: u64,
    pub malformed: u64,
    pub unsigned: u64,
    pub incomplete: u64,
    pub stale: u64,
    pub overload: u64,
}

type Sender = (SocketAddr, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Asked,
    Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Arrived,
    /// Done or refused.
    Decided,
    Failed,
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Ask,
    Wait,
    Answer,
    Repeat,
    Forget,
}

/// What an event does in a state. A pair that is not here changes nothing.
fn step(state: State, event: Event) -> Option<(State, Action)> {
    Some(match (state, event) {
        (State::Unknown, Event::Arrived) => (State::Asked, Action::Ask),
        (State::Asked, Event::Arrived) => (State::Asked, Action::Wait),
        (State::Asked, Event::Decided) => (State::Answered, Action::Answer),
        (State::Asked, Event::Failed | Event::Expired) => (State::Unknown, Action::Forget),
        (State::Answered, Event::Arrived) => (State::Answered, Action::Repeat),
        (State::Answered, Event::Expired) => (State::Unknown, Action::Forget),
        _ => return None,
    })
}

/// A request that is remembered.
#[derive(Debug)]
struct Kept {
    state: State,
    ticket: u64,
    code: Code,
    authenticator: [u8; 16],
    /// What its answer says of itself: Proxy-State and State (RFC 2865 section 5.33, RFC 5176 section 3.3).
    returned: Vec<Attribute>,
    /// Whether its answer has a Message-Authenticator: that of accounting has Proxy-State alone (RFC 2866 section 5.13).
    proven: bool,
    answer: Vec<u8>,
    until: Instant,
}

/// See the module.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    kept: BTreeMap<Sender, Kept>,
    /// Those that wait for an answer.
    asked: BTreeMap<u64, Sender>,
    ends: BTreeSet<(Instant, Sender)>,
    tickets: u64,
    counts: Counts,
    outputs: VecDeque<Output>,
}

impl Server {
    /// Remembers nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            kept: BTreeMap::new(),
            asked: BTreeMap::new(),
            ends: BTreeSet::new(),
            tickets: 0,
            counts: Counts::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Who may ask from now on. Requests under way are answered with the secret that they came with, or not at all.
    pub fn set_known(&mut self, known: BTreeMap<IpAddr, Nas>) {
        self.settings.known = known;
    }

    /// Takes one input. All outputs must be polled before the next. O(log kept) besides the packet's octets.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        self.expire(now);
        match input {
            Input::Datagram { from, bytes } => {
                if let Err(why) = self.datagram(now, from, &bytes) {
                    self.count(why);
                    self.outputs.push_back(Output::Dropped { from, why });
                }
            }
            Input::Answer { ticket, answer } => self.answer(now, ticket, answer),
            Input::Tick => {}
        }
        debug_assert!(self.kept.len() <= MAX_KEPT && self.ends.len() == self.kept.len());
        debug_assert!(self.asked.len() <= self.kept.len(), "what waits is remembered");
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// What has been counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Result<(), Dropped> {
        let nas = self.settings.known.get(&from.ip()).ok_or(Dropped::Stranger)?;
        let packet = Packet::read(bytes).map_err(|wrong| match wrong {
            Malformed::Code { .. } => Dropped::Code,
            wrong => Dropped::Malformed(wrong),
        })?;
        if !self.settings.takes.contains(&packet.code) || !packet.code.is_request() {
            return Err(Dropped::Code);
        }
        let is_proof_required = nas.proven || packet.code != Code::AccountingRequest;
        check_request(bytes, &nas.secret, is_proof_required).map_err(Dropped::Unsigned)?;
        let nas = nas.name.clone();
        let sender = (from, packet.identifier);
        // Another request in its place: whoever sent the first no longer waits for its answer.
        if self.kept.get(&sender).is_some_and(|kept| kept.authenticator != packet.authenticator) {
            self.forget(sender);
        }
        let state = self.kept.get(&sender).map_or(State::Unknown, |kept| kept.state);
        match step(state, Event::Arrived).map(|(_, action)| action) {
            Some(Action::Repeat) => {
                self.counts.repeated += 1;
                if let Some(kept) = self.kept.get(&sender) {
                    self.outputs.push_back(Output::Send { to: from, bytes: kept.answer.clone() });
                }
                Ok(())
            }
            Some(Action::Ask) => self.ask(now, sender, nas, &packet),
            _ => {
                self.counts.repeated += 1;
                Ok(())
            }
        }
    }

    fn ask(&mut self, now: Instant, sender: Sender, nas: String, packet: &Packet) -> Result<(), Dropped> {
        self.in_time(now, packet)?;
        if self.kept.len() >= MAX_KEPT {
            // An answer that would be forgotten soon anyway makes room; what waits for its own does not.
            let is_answered = |end: &&(Instant, Sender)| self.kept[&end.1].state == State::Answered;
            let oldest = self.ends.iter().take(SEEN_FOR_ROOM).find(is_answered).map(|(_, sender)| *sender);
            self.forget(oldest.ok_or(Dropped::Overload)?);
        }
        let request = match packet.code {
            Code::AccountingRequest => {
                Ok(Request::Account(Box::new(Record::of(packet).map_err(Dropped::Incomplete)?)))
            }
            _ => Change::of(packet).map(|change| Request::Change(Box::new(change))),
        };
        let is_returned = |attribute: &&Attribute| match attribute.kind {
            kind::PROXY_STATE => true,
            kind::STATE => packet.code != Code::AccountingRequest,
            _ => false,
        };
        self.tickets += 1;
        let ticket = self.tickets;
        let until = now + self.settings.keep;
        let kept = Kept {
            state: State::Asked,
            ticket,
            code: packet.code,
            authenticator: packet.authenticator,
            returned: packet.attributes.iter().filter(is_returned).cloned().collect(),
            proven: packet.code != Code::AccountingRequest,
            answer: Vec::new(),
            until,
        };
        self.kept.insert(sender, kept);
        self.ends.insert((until, sender));
        self.asked.insert(ticket, sender);
        self.counts.asked += 1;
        match request {
            Ok(request) => self.outputs.push_back(Output::Ask { ticket, nas, request }),
            Err(cause) => self.answer(now, ticket, Answer::Refused(cause)),
        }
        Ok(())
    }

    /// That a request is of this time: Event-Timestamp is when it happened, Acct-Delay-Time since when it is being said.
    fn in_time(&self, now: Instant, packet: &Packet) -> Result<(), Dropped> {
        let Some(happened) = packet.number(kind::EVENT_TIMESTAMP) else { return Ok(()) };
        let delay = packet.number(kind::ACCT_DELAY_TIME).unwrap_or(0);
        let said = u64::from(happened) + u64::from(delay);
        let second = Duration::from_secs(1).as_nanos();
        let off_s = (self.settings.unix_at_zero + now.as_nanos() / second).abs_diff(said);
        if off_s > self.settings.window.as_nanos() / second { Err(Dropped::Stale { off_s }) } else { Ok(()) }
    }

    fn answer(&mut self, now: Instant, ticket: u64, answer: Answer) {
        let Some(sender) = self.asked.get(&ticket).copied() else { return };
        let Some(kept) = self.kept.get_mut(&sender) else { return };
        let code = match (kept.code, answer) {
            (Code::AccountingRequest, Answer::Done) => Some(Code::AccountingResponse),
            (Code::DisconnectRequest, Answer::Done) => Some(Code::DisconnectAck),
            (Code::CoaRequest, Answer::Done) => Some(Code::CoaAck),
            (Code::DisconnectRequest, Answer::Refused(_)) => Some(Code::DisconnectNak),
            (Code::CoaRequest, Answer::Refused(_)) => Some(Code::CoaNak),
            _ => None,
        };
        let event = if code.is_some() { Event::Decided } else { Event::Failed };
        let Some((next, action)) = step(kept.state, event) else { return };
        kept.state = next;
        let mut attributes = std::mem::take(&mut kept.returned);
        if let Answer::Refused(cause) = answer {
            attributes.push(Attribute::number(kind::ERROR_CAUSE, cause as u32));
        }
        let nas = self.settings.known.get(&sender.0.ip());
        let bytes = nas.zip(code).and_then(|(nas, code)| {
            response(code, sender.1, &attributes, &kept.authenticator, &nas.secret, kept.proven).ok()
        });
        match (action, bytes) {
            (Action::Answer, Some(bytes)) => {
                let (until, before) = (now + self.settings.keep, kept.until);
                (kept.answer, kept.until) = (bytes.clone(), until);
                self.asked.remove(&ticket);
                self.ends.remove(&(before, sender));
                self.ends.insert((until, sender));
                match answer {
                    Answer::Refused(_) => self.counts.refused += 1,
                    _ => self.counts.answered += 1,
                }
                self.outputs.push_back(Output::Send { to: sender.0, bytes });
            }
            _ => {
                self.counts.failed += 1;
                self.forget(sender);
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((until, sender)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            debug_assert!(self.kept.get(&sender).is_some_and(|kept| kept.until == until));
            if let Some((_, Action::Forget)) = step(self.kept[&sender].state, Event::Expired) {
                self.forget(sender);
            }
        }
    }

    fn forget(&mut self, sender: Sender) {
        if let Some(kept) = self.kept.remove(&sender) {
            self.ends.remove(&(kept.until, sender));
            self.asked.remove(&kept.ticket);
        }
    }

    fn count(&mut self, why: Dropped) {
        let counter = match why {
            Dropped::Stranger => &mut self.counts.strangers,
            Dropped::Malformed(_) | Dropped::Code => &mut self.counts.malformed,
            Dropped::Unsigned(_) => &mut self.counts.unsigned,
            Dropped::Incomplete(_) => &mut self.counts.incomplete,
            Dropped::Stale { .. } => &mut self.counts.stale,
            Dropped::Overload => &mut self.counts.overload,
        };
        *counter += 1;
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
