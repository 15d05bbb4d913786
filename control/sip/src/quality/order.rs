//! What is asked of those who reserve, and what is said of calls.

use crate::sdp::Flow;
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};

/// A reservation: the same number for the same part of the same call, also after a restart of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub u64);

/// What is to be reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The edge router that is asked.
    pub er: String,
    /// The edge router where `flows` enter the network: `er`, unless the other side's decides.
    pub from: String,
    /// The edge router at the other end of `er`, if it is known.
    pub far: Option<String>,
    /// Packets that are sent into the network at `from`.
    pub flows: Vec<Flow>,
    /// Packets that come from the other end: for a reservation of both directions, all or nothing.
    pub back: Vec<Flow>,
    /// The service class.
    pub class: String,
    /// How important it is; 0 is the least.
    pub priority: u8,
    /// How long it lives without being renewed.
    pub lifetime: Duration,
}

impl Request {
    /// The edge router where `flows` leave the network, if it is known.
    pub fn to(&self) -> Option<&str> {
        if self.er == self.from { self.far.as_deref() } else { Some(&self.er) }
    }

    /// What all flows take together.
    pub fn rate(&self) -> Rate {
        sum(&self.flows).saturating_add(sum(&self.back))
    }

    /// What is said of it when the call is over.
    pub(super) fn reserved(&self) -> Reserved {
        let (from, to) = (self.from.clone(), self.to().map(str::to_string));
        Reserved { from, to, rate: sum(&self.flows), back: sum(&self.back) }
    }
}

/// What flows take together.
pub fn sum(flows: &[Flow]) -> Rate {
    flows.iter().fold(Rate::from_bits_per_sec(0), |sum, flow| sum.saturating_add(flow.rate))
}

/// What is to be done. What has a serial number is answered by [`super::Calls::answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Reserve. Asked again, as after a restart, it is a [`Order::Change`].
    Reserve(ReservationId, u32, Request),
    /// Replace what is reserved by this.
    Change(ReservationId, u32, Request),
    /// Keep it for another lifetime.
    Renew(ReservationId, Request),
    /// Give it back, if there is anything, at this edge router.
    Release(ReservationId, String),
}

/// Why a call's reservation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// BYE.
    Bye,
    /// The call was never answered.
    Unanswered,
    /// Another phone has answered.
    OtherAnswered,
    /// The reservation was refused or came too late.
    Refused(Code),
    /// It was taken away.
    Taken(Code),
    /// The session was not refreshed (RFC 4028).
    NotRefreshed,
    /// Neither side sends.
    Silent,
    /// It was longer than the longest call.
    TooLong,
    /// No stream is left.
    NoMedia,
}

/// A part of what was reserved for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The edge router where packets enter.
    pub from: String,
    /// Where they leave, if that is known.
    pub to: Option<String>,
    /// How much in this direction.
    pub rate: Rate,
    /// How much in the other.
    pub back: Rate,
}

/// What there is to say of a call, once for each dialog that reserved or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Call-ID.
    pub call_id: String,
    /// Who called.
    pub caller: String,
    /// Who was called.
    pub callee: String,
    /// When it began.
    pub begun: Instant,
    /// When it was answered.
    pub answered: Option<Instant>,
    /// When its reservation ended.
    pub ended: Instant,
    /// The most that was reserved.
    pub rate: Rate,
    /// Where that was.
    pub reserved: Vec<Reserved>,
    /// Why it ended.
    pub ending: Ending,
}
