//! COPS-DRA: the client type by which bandwidth is reserved, as it is spoken here.
//!
//! One client type serves two models, between a client and an edge router as between an edge router and a broker:
//!
//! | model | message | context | data |
//! |---|---|---|---|
//! | outsourcing: each reservation is asked for | REQ | resource allocation | Signaled ClientSI: `REQUEST` |
//! | | DEC, install | the same | Client Specific Decision Data: `REQUEST` with what is granted |
//! | | DEC, remove, trigger error | the same | Client Specific Decision Data: `NACK` with link, class, asked, free and code |
//! | | DRQ | | it is given back |
//! | provisioning: aggregates are given in advance | REQ | configuration | none |
//! | | DEC, install | the same | Client Specific Decision Data: `REQUEST` of an aggregate; one by the same flow takes its place |
//! | | DEC, remove | the same | Client Specific Decision Data: `RELEASE` |
//! | both: what became of a decision | RPT | | Signaled ClientSI: `ACK` or `NACK` |
//!
//! Each piece of data is one message of the traffic-control API ([`perhop_tcapi::wire`]) with transaction and epoch. A REQ says
//! everything each time, so that one that is asked again after a loss of the connection is enough to know the reservation;
//! its transaction is the same as before. Named data are not used: programs that show packets take them for those of
//! COPS-PR, whatever the client type. A message that cannot be understood is answered by an Error object whose
//! sub-code is the number of a reason code.

#[cfg(test)]
mod tests;

use crate::wire::{
    ClientSi, ClientType, Command, Context, Decision, Error, ErrorCode, Handle, Opaque, Request, TooLong,
    Verdict,
};
use perhop_reason::Code;
use perhop_tcapi::wire::{
    Answer, Body, FlowId, Frames, Malformed, Message, Refusal, Request as Reservation, Verb,
};
use thiserror::Error as ThisError;

/// The client type unless another is configured: of the range for private use, as nobody has registered one.
pub const DEFAULT_CLIENT_TYPE: ClientType = ClientType(0x4d41);

/// Why data are none of this client type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Unreadable {
    /// There are none where there must be.
    #[error("the data of the client type are missing")]
    Missing,
    /// They are no message of the traffic-control API.
    #[error("{0}")]
    Malformed(Malformed),
    /// They are not one whole message.
    #[error("the data are not one whole message")]
    NotOne,
    /// The message has no place there.
    #[error("a message that has no place here")]
    Unexpected,
}

impl Unreadable {
    /// The reason code of it.
    pub fn code(self) -> Code {
        match self {
            Self::Malformed(malformed) => malformed.code(),
            _ => Code::Malformed,
        }
    }

    /// The error by which a PDP answers.
    pub fn error(self) -> Error {
        let code = match self {
            Self::Missing => ErrorCode::MANDATORY_CLIENT_INFO_MISSING,
            _ => ErrorCode::BAD_MESSAGE_FORMAT,
        };
        Error { code, sub_code: self.code().number() }
    }
}

/// The error of a PDP that cannot decide at present, for example [`Code::Overload`].
pub const fn unable(code: Code) -> Error {
    Error { code: ErrorCode::UNABLE_TO_PROCESS, sub_code: code.number() }
}

/// Which message it is of which instance of a client, as in the traffic-control API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Transaction.
    pub txn: u64,
    /// Epoch.
    pub epoch: u64,
}

/// What a PEP wants of a PDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This reservation.
    Reservation(Tag, Box<Reservation>),
    /// To be told of aggregates from now on.
    Provisioning,
}

/// What a PDP decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The reservation that was asked for is made so.
    Granted(Box<Reservation>),
    /// It is not made, or no longer there: the PEP must drop its request.
    Refused(Box<Refusal>),
    /// An aggregate is there, or has changed.
    Provided(Box<Reservation>),
    /// An aggregate is there no longer.
    Withdrawn(FlowId),
}

fn pack(tag: Tag, body: Body) -> Result<Opaque, TooLong> {
    Opaque::new(Message { txn: tag.txn, epoch: tag.epoch, body }.to_bytes())
}

fn unpack(data: Option<&Opaque>) -> Result<(Tag, Body), Unreadable> {
    let mut frames = Frames::default();
    frames.push(data.ok_or(Unreadable::Missing)?.octets());
    let frame = frames.next().ok().flatten().ok_or(Unreadable::NotOne)?;
    if frames.held() > 0 {
        return Err(Unreadable::NotOne);
    }
    let Message { txn, epoch, body } = frame.message.map_err(Unreadable::Malformed)?;
    Ok((Tag { txn, epoch }, body))
}

fn only(client_si: &[ClientSi]) -> Result<Option<&Opaque>, Unreadable> {
    match client_si {
        [] => Ok(None),
        [ClientSi::Signaled(data)] => Ok(Some(data)),
        _ => Err(Unreadable::Unexpected),
    }
}

/// The REQ for a reservation; also what changes it, and what says it again.
///
/// # Errors
/// It is longer than an object can be.
pub fn ask(handle: Handle, tag: Tag, reservation: &Reservation) -> Result<Request, TooLong> {
    let data = pack(tag, Body::Do(Verb::Request, Box::new(reservation.clone())))?;
    let context = Context::of(Context::ALLOCATION);
    Ok(Request { client_si: vec![ClientSi::Signaled(data)], ..bare(handle, context) })
}

/// The REQ for provisioning.
pub fn subscribe(handle: Handle) -> Request {
    bare(handle, Context::of(Context::CONFIGURATION))
}

fn bare(handle: Handle, context: Context) -> Request {
    let (in_interface, out_interface) = (None, None);
    Request { handle, context, in_interface, out_interface, client_si: Vec::new(), local: Vec::new() }
}

/// What a REQ asks for.
///
/// # Errors
/// It is none of this client type: [`Unreadable::error`] is the answer.
pub fn asked(request: &Request) -> Result<Asked, Unreadable> {
    let data = only(&request.client_si)?;
    if request.context.is_configuration() {
        return if data.is_none() { Ok(Asked::Provisioning) } else { Err(Unreadable::Unexpected) };
    }
    match unpack(data)? {
        (tag, Body::Do(Verb::Request, reservation)) => Ok(Asked::Reservation(tag, reservation)),
        _ => Err(Unreadable::Unexpected),
    }
}

/// A decision.
///
/// # Errors
/// It is longer than an object can be.
pub fn decision(tag: Tag, told: &Told) -> Result<Decision, TooLong> {
    let (r_type, command, body) = match told {
        Told::Granted(reservation) => {
            (Context::ALLOCATION, Command::INSTALL, Body::Do(Verb::Request, reservation.clone()))
        }
        Told::Refused(refusal) => {
            let answer = Answer { refusal: Some((**refusal).clone()), timing: None, router_epoch: 0 };
            (Context::ALLOCATION, Command::REMOVE, Body::Answer(Box::new(answer)))
        }
        Told::Provided(reservation) => {
            (Context::CONFIGURATION, Command::INSTALL, Body::Do(Verb::Request, reservation.clone()))
        }
        Told::Withdrawn(flow) => {
            let body = Body::Do(Verb::Release, Box::new(Reservation::of(*flow)));
            (Context::CONFIGURATION, Command::REMOVE, body)
        }
    };
    let flags = if matches!(told, Told::Refused(_)) { Verdict::TRIGGER_ERROR } else { 0 };
    let verdict = Verdict { client_si: Some(pack(tag, body)?), flags, ..Verdict::of(command) };
    Ok(Decision { context: Context::of(r_type), verdict })
}

/// The decision of a PDP that has nothing to provide yet: a request for provisioning needs an answer all the same.
pub const fn nothing() -> Decision {
    Decision { context: Context::of(Context::CONFIGURATION), verdict: Verdict::of(Command::NULL) }
}

/// What a decision says; `None` from [`nothing`].
///
/// # Errors
/// It is none of this client type: the PEP reports that, or drops its request.
pub fn told(decision: &Decision) -> Result<Option<(Tag, Told)>, Unreadable> {
    let Verdict { command, client_si, .. } = &decision.verdict;
    let in_advance = decision.context.is_configuration();
    if *command == Command::NULL {
        return if in_advance { Ok(None) } else { Err(Unreadable::Missing) };
    }
    let (tag, body) = unpack(client_si.as_ref())?;
    let told = match (in_advance, *command, body) {
        (false, Command::INSTALL, Body::Do(Verb::Request, reservation)) => Told::Granted(reservation),
        (true, Command::INSTALL, Body::Do(Verb::Request, reservation)) => Told::Provided(reservation),
        (true, Command::REMOVE, Body::Do(Verb::Release, reservation)) => Told::Withdrawn(reservation.flow),
        (false, Command::REMOVE, Body::Answer(answer)) => match answer.refusal {
            Some(refusal) => Told::Refused(Box::new(refusal)),
            None => return Err(Unreadable::Unexpected),
        },
        _ => return Err(Unreadable::Unexpected),
    };
    Ok(Some((tag, told)))
}

/// What a RPT says of a decision; whether it was carried out is whether there is no refusal.
///
/// # Errors
/// It is longer than an object can be.
pub fn report(tag: Tag, answer: Answer) -> Result<ClientSi, TooLong> {
    pack(tag, Body::Answer(Box::new(answer))).map(ClientSi::Signaled)
}

/// What a RPT of success or failure says; `None` if it says nothing more.
///
/// # Errors
/// It is none of this client type.
pub fn reported(client_si: &[ClientSi]) -> Result<Option<(Tag, Answer)>, Unreadable> {
    let Some(data) = only(client_si)? else { return Ok(None) };
    match unpack(Some(data))? {
        (tag, Body::Answer(answer)) => Ok(Some((tag, *answer))),
        _ => Err(Unreadable::Unexpected),
    }
}
