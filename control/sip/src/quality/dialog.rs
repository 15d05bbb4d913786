//! One dialog of a call: who offers what to whom, and what follows from it for reservations.

use super::leg::Leg;
use super::order::{Request, Reserved};
use super::settings::{Ask, Settings};
use super::{Mode, Ticket};
use crate::message::{Message, Method, scan};
use crate::proxy::Side;
use crate::sdp::{Description, Flow, Flows, negotiate};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use std::collections::VecDeque;

/// Which part of a call is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What the callee sends.
    Callee,
    /// What the caller sends; both directions where the mode says so.
    Caller,
}

/// An offer and whether it has got its answer (RFC 3264; RFC 3261 §13.2.1, RFC 3262 §5, RFC 3311 §5).
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    /// Of the request that it began with.
    pub(super) cseq: u32,
    /// Whether the caller sent that request.
    pub(super) by_caller: bool,
    /// The offer, and whether it is the caller's.
    pub(super) offer: Option<(Box<Description>, bool)>,
    /// It is over: descriptions of its messages are repetitions.
    pub(super) closed: bool,
}

/// A dialog.
#[derive(Debug)]
pub(super) struct Dialog {
    /// The callee's tag.
    pub(super) tag: Box<[u8]>,
    pub(super) exchange: Exchange,
    /// What was agreed on last, by sender.
    pub(super) media: Option<Media>,
    pub(super) caller_leg: Option<Leg>,
    pub(super) callee_leg: Option<Leg>,
    /// A response that is held, and what is still to be asked for it.
    pub(super) pending: Option<Pending>,
    pub(super) answered: Option<Instant>,
    /// When the session is over unless refreshed.
    pub(super) expires: Option<Instant>,
    /// The most that was reserved, and where.
    pub(super) most: Rate,
    pub(super) reserved: Vec<Reserved>,
    /// The reservation was refused or taken away, and nothing more is tried.
    pub(super) refused: Option<Code>,
    /// The edge router of the other side, as its proxy has told.
    pub(super) far: Option<String>,
    /// The other side's proxy takes part, and has not been refused.
    pub(super) peer: bool,
    /// It has been said how the reservation ended.
    pub(super) told: bool,
}

/// Flows by sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) caller: Vec<Flow>,
    pub(super) callee: Vec<Flow>,
    pub(super) streams: usize,
}

/// A response that reservations are made for: a repetition is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) status: u16,
    pub(super) method: Method,
    pub(super) cseq: u32,
    /// Whether the caller sent the request.
    pub(super) by_caller: bool,
    /// It is what the call begins with.
    pub(super) initial: bool,
    /// The sides that it passes between.
    pub(super) sides: (Side, Side),
}

/// What a response waits for.
#[derive(Debug)]
pub(super) struct Pending {
    /// Responses that are held.
    pub(super) held: Vec<(Asked, Ticket)>,
    /// It is what the call begins with, so the call may still be refused.
    pub(super) initial: bool,
    pub(super) todo: VecDeque<Part>,
    pub(super) asked: Option<Part>,
    pub(super) refused: Option<Code>,
    /// All is gone through once more before it is decided.
    pub(super) again: bool,
}

impl Dialog {
    pub(super) fn new(tag: &[u8], exchange: Exchange) -> Self {
        Self {
            tag: tag.into(),
            exchange,
            media: None,
            caller_leg: None,
            callee_leg: None,
            pending: None,
            answered: None,
            expires: None,
            most: Rate::from_bits_per_sec(0),
            reserved: Vec::new(),
            refused: None,
            far: None,
            peer: false,
            told: false,
        }
    }

    pub(super) const fn leg(&mut self, part: Part) -> &mut Option<Leg> {
        match part {
            Part::Caller => &mut self.caller_leg,
            Part::Callee => &mut self.callee_leg,
        }
    }

    pub(super) fn legs(&self) -> impl Iterator<Item = (Part, &Leg)> {
        let legs = [(Part::Callee, &self.callee_leg), (Part::Caller, &self.caller_leg)];
        legs.into_iter().filter_map(|(part, leg)| leg.as_ref().map(|leg| (part, leg)))
    }

    /// A request that may carry an offer begins an exchange.
    pub(super) fn begin(&mut self, cseq: u32, by_caller: bool, message: &Message) {
        let offer = description(message).map(|offer| (Box::new(offer), by_caller));
        self.exchange = Exchange { cseq, by_caller, offer, closed: false };
    }

    /// A later message of the exchange. An answer to what was offered is agreed on; where nothing was, it is the offer.
    pub(super) fn go_on(&mut self, from_caller: bool, message: &Message, settings: &Settings) {
        if self.exchange.closed {
            return;
        }
        let Some(found) = description(message) else { return };
        match &self.exchange.offer {
            Some((offer, offered_by_caller)) if *offered_by_caller != from_caller => {
                let flows = negotiate(offer, &found, &settings.codecs);
                self.media = Some(media(flows, *offered_by_caller, settings));
            }
            Some(_) => {}
            None => self.exchange.offer = Some((Box::new(found), from_caller)),
        }
    }

    /// Nothing more belongs to the exchange.
    pub(super) fn close(&mut self) {
        self.exchange.closed = true;
        self.exchange.offer = None;
    }

    /// What a part needs now. `None`: nothing is sent there.
    pub(super) fn request(&self, part: Part, call: &Terms<'_>) -> Option<Request> {
        let media = self.media.as_ref()?;
        let both = call.mode == Mode::Bi;
        let (flows, back) = match part {
            Part::Caller => (&media.caller, if both { media.callee.as_slice() } else { &[] }),
            Part::Callee => (&media.callee, &[][..]),
        };
        if flows.is_empty() && back.is_empty() {
            return None;
        }
        // A phone's address is where it sends from, and where it receives.
        let phone = flows.first().and_then(|flow| flow.from).or(back.first().map(|flow| flow.to.ip()));
        let own = call.settings.edge(phone).to_string();
        // Where no other proxy tells, the table knows the phones of both.
        let other = flows.first().map(|flow| flow.to.ip()).or(back.first().and_then(|flow| flow.from));
        let far = call.far.or_else(|| call.settings.edge_of(other?));
        let (er, far) = match (part, call.settings.ask, far) {
            (Part::Caller, Ask::Far, Some(far)) => (far.to_string(), Some(own.clone())),
            (_, _, far) => (own.clone(), far.map(str::to_string)),
        };
        Some(Request {
            er,
            from: own,
            far,
            flows: flows.clone(),
            back: back.to_vec(),
            class: call.settings.class.clone(),
            priority: call.priority,
            lifetime: call.settings.lifetime,
        })
    }
}

/// What a call's reservations have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) settings: &'a Settings,
    pub(super) mode: Mode,
    pub(super) far: Option<&'a str>,
    pub(super) priority: u8,
}

/// The description in a message, if it has one that can be read.
fn description(message: &Message) -> Option<Description> {
    Description::read(message.body_of("application/sdp")?).ok()
}

fn media(flows: Flows, offered_by_caller: bool, settings: &Settings) -> Media {
    let wanted =
        |flows: Vec<Flow>| flows.into_iter().filter(|flow| settings.kinds.contains(&flow.kind)).collect();
    let (offerer, answerer) = (wanted(flows.of_offerer), wanted(flows.of_answerer));
    let (caller, callee) = if offered_by_caller { (offerer, answerer) } else { (answerer, offerer) };
    Media { caller, callee, streams: flows.streams }
}

/// Seconds of `Session-Expires` (RFC 4028 §4).
pub(super) fn session_expires(value: &[u8]) -> Option<u64> {
    let end = scan::find(value, b";");
    scan::number(scan::trim(&value[..end]), 0xffff_ffff)
}
