//! The ten messages (RFC 2748 §3).

use super::header::{HEADER, Header, OpCode};
use super::object::{Objects, c_num};
use super::{
    ClientSi, ClientType, Context, Decision, Error, Handle, Integrity, Interface, LocalDecision, Malformed,
    PepId, Reason, ReportType, pdp_address, timer,
};
use std::net::SocketAddr;
use thiserror::Error as ThisError;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Of which client.
    pub client_type: ClientType,
    /// Another message asked for it.
    pub solicited: bool,
    /// What it says.
    pub body: Body,
    /// Its last object.
    pub integrity: Option<Integrity>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// REQ (§3.1): a PEP asks, or asks anew.
    Request(Box<Request>),
    /// DEC (§3.2): a PDP decides.
    Decision {
        /// On which request.
        handle: Handle,
        /// What.
        decided: Decided,
    },
    /// RPT (§3.3): what became of a decision, or what was used.
    Report(Box<Report>),
    /// DRQ (§3.4): a request is no longer.
    Delete {
        /// Which.
        handle: Handle,
        /// Why.
        reason: Reason,
    },
    /// SSQ (§3.5): a PDP asks for a request, or for all.
    SyncRequest(Option<Handle>),
    /// OPN (§3.6): a PEP has such a client.
    Open(Box<Open>),
    /// CAT (§3.7): it may.
    Accept(Accept),
    /// CC (§3.8): it is no longer.
    Close(Close),
    /// KA (§3.9).
    KeepAlive,
    /// SSC (§3.10): a PEP has asked all anew.
    SyncComplete(Option<Handle>),
}

/// What a PEP asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it calls it.
    pub handle: Handle,
    /// What made it ask.
    pub context: Context,
    /// Where it came in.
    pub in_interface: Option<Interface>,
    /// Where it goes out.
    pub out_interface: Option<Interface>,
    /// What the client-type says.
    pub client_si: Vec<ClientSi>,
    /// What the PEP decided by itself.
    pub local: Vec<LocalDecision>,
}

/// What a PDP says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The request could not be read or processed.
    Error(Error),
    /// Decisions, at least one.
    Decisions(Vec<Decision>),
}

/// What a PEP reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of which request.
    pub handle: Handle,
    /// What.
    pub report_type: ReportType,
    /// What the client-type says; more than one only in COPS-PR (RFC 3084 §3.3).
    pub client_si: Vec<ClientSi>,
}

/// How a PEP introduces a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Who it is.
    pub pep_id: PepId,
    /// What the client-type says.
    pub client_si: Option<ClientSi>,
    /// The PDP whose decisions it still has.
    pub last_pdp: Option<SocketAddr>,
}

/// What a PDP accepts a client with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Longest time without a message, s; 0 = any.
    pub keep_alive_s: u16,
    /// Shortest time between accounting reports on a handle, s; 0 = none are wanted unasked; none = any time.
    pub accounting_s: Option<u16>,
}

/// Why a client is no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Why.
    pub error: Error,
    /// Whom to ask instead.
    pub redirect: Option<SocketAddr>,
}

/// A message that could not be read, and what could be.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{malformed}")]
pub struct Fault {
    /// Its header.
    pub header: Header,
    /// Its handle.
    pub handle: Option<Handle>,
    /// What is wrong.
    pub malformed: Malformed,
}

impl Message {
    /// Unsolicited, without integrity.
    pub fn new(client_type: ClientType, body: Body) -> Self {
        Self { client_type, solicited: false, body, integrity: None }
    }

    /// Which operation it is.
    pub fn op(&self) -> OpCode {
        match self.body {
            Body::Request(_) => OpCode::Request,
            Body::Decision { .. } => OpCode::Decision,
            Body::Report(_) => OpCode::Report,
            Body::Delete { .. } => OpCode::Delete,
            Body::SyncRequest(_) => OpCode::SyncRequest,
            Body::Open(_) => OpCode::Open,
            Body::Accept(_) => OpCode::Accept,
            Body::Close(_) => OpCode::Close,
            Body::KeepAlive => OpCode::KeepAlive,
            Body::SyncComplete(_) => OpCode::SyncComplete,
        }
    }

    /// Reads a whole message, whose header says so: [`super::Frames`] finds its end.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let nothing = Header { solicited: false, op: 0, client_type: ClientType::CONNECTION, length: 0 };
        let header = Header::read(bytes).flatten().unwrap_or(nothing);
        let objects = Objects::of(bytes.get(HEADER..).unwrap_or_default(), HEADER);
        let fault = |malformed| Fault { header, handle: handle_of(objects), malformed };
        let Header { solicited, op, client_type, .. } = header;
        let op = OpCode::from_number(op).ok_or_else(|| fault(Malformed::UnknownOp { op }))?;
        // Client-type 0 opens, accepts and closes the connection's security, and keeps it alive; nothing else is about it.
        let of_connection = match op {
            OpCode::KeepAlive => client_type == ClientType::CONNECTION,
            OpCode::Open | OpCode::Accept | OpCode::Close => true,
            _ => client_type != ClientType::CONNECTION,
        };
        if !of_connection {
            return Err(fault(Malformed::ClientType { client_type }));
        }
        let mut rest = objects;
        let read = body(op, &mut rest).and_then(|body| {
            let integrity = integrity(&mut rest, op, client_type)?;
            rest.end()?;
            Ok(Self { client_type, solicited, body, integrity })
        });
        read.map_err(fault)
    }

    /// As octets.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (op, client_type, solicited) = (self.op() as u8, self.client_type, self.solicited);
        Header { solicited, op, client_type, length: 0 }.write(&mut out);
        write_body(&self.body, &mut out);
        if let Some(integrity) = self.integrity {
            integrity.write(&mut out);
        }
        let length = u32::try_from(out.len()).expect("a message holds a list that fits into memory");
        out[4..HEADER].copy_from_slice(&length.to_be_bytes());
        out
    }
}

/// The object of security. The wish for TLS is in OPN and CAT of the connection only (RFC 4261 §4.1).
fn integrity(
    objects: &mut Objects<'_>,
    op: OpCode,
    client_type: ClientType,
) -> Result<Option<Integrity>, Malformed> {
    let Some(object) = objects.take(c_num::INTEGRITY)? else { return Ok(None) };
    let integrity = Integrity::read(&object)?;
    let begins = matches!(op, OpCode::Open | OpCode::Accept) && client_type == ClientType::CONNECTION;
    if integrity == Integrity::StartTls && !begins {
        return Err(Malformed::Unexpected { c_num: object.c_num, at: object.at });
    }
    Ok(Some(integrity))
}

/// The handle that a message begins with, whatever else is wrong with it.
fn handle_of(mut objects: Objects<'_>) -> Option<Handle> {
    objects.take(c_num::HANDLE).ok()?.and_then(|object| Handle::read(&object).ok())
}

fn body(op: OpCode, objects: &mut Objects<'_>) -> Result<Body, Malformed> {
    Ok(match op {
        OpCode::Request => Body::Request(Box::new(request(objects)?)),
        OpCode::Decision => Body::Decision { handle: need_handle(objects)?, decided: decided(objects)? },
        OpCode::Report => Body::Report(Box::new(Report {
            handle: need_handle(objects)?,
            report_type: ReportType::read(&objects.need(c_num::REPORT_TYPE)?)?,
            client_si: client_si(objects)?,
        })),
        OpCode::Delete => Body::Delete {
            handle: need_handle(objects)?,
            reason: Reason::read(&objects.need(c_num::REASON)?)?,
        },
        OpCode::SyncRequest => Body::SyncRequest(a_handle(objects)?),
        OpCode::Open => Body::Open(Box::new(open(objects)?)),
        OpCode::Accept => {
            let keep_alive_s = timer::read(&objects.need(c_num::KA_TIMER)?)?;
            let accounting_s =
                objects.take(c_num::ACCT_TIMER)?.map(|object| timer::read(&object)).transpose()?;
            Body::Accept(Accept { keep_alive_s, accounting_s })
        }
        OpCode::Close => {
            let error = Error::read(&objects.need(c_num::ERROR)?)?;
            let redirect = objects.take(c_num::PDP_REDIRECT)?.map(|object| pdp_address::read(&object));
            Body::Close(Close { error, redirect: redirect.transpose()? })
        }
        OpCode::KeepAlive => Body::KeepAlive,
        OpCode::SyncComplete => Body::SyncComplete(a_handle(objects)?),
    })
}

fn need_handle(objects: &mut Objects<'_>) -> Result<Handle, Malformed> {
    Handle::read(&objects.need(c_num::HANDLE)?)
}

fn a_handle(objects: &mut Objects<'_>) -> Result<Option<Handle>, Malformed> {
    objects.take(c_num::HANDLE)?.map(|object| Handle::read(&object)).transpose()
}

fn client_si(objects: &mut Objects<'_>) -> Result<Vec<ClientSi>, Malformed> {
    let mut all = Vec::new();
    while let Some(object) = objects.take(c_num::CLIENT_SI)? {
        all.push(ClientSi::read(&object)?);
    }
    Ok(all)
}

fn request(objects: &mut Objects<'_>) -> Result<Request, Malformed> {
    Ok(Request {
        handle: need_handle(objects)?,
        context: Context::read(&objects.need(c_num::CONTEXT)?)?,
        in_interface: objects.take(c_num::IN_INTERFACE)?.map(|o| Interface::read(&o)).transpose()?,
        out_interface: objects.take(c_num::OUT_INTERFACE)?.map(|o| Interface::read(&o)).transpose()?,
        client_si: client_si(objects)?,
        local: LocalDecision::read_all(objects)?,
    })
}

fn decided(objects: &mut Objects<'_>) -> Result<Decided, Malformed> {
    if let Some(object) = objects.take(c_num::ERROR)? {
        return Ok(Decided::Error(Error::read(&object)?));
    }
    let mut decisions = Vec::new();
    let mut context = objects.need(c_num::CONTEXT)?;
    loop {
        decisions.push(Decision::read(&context, objects)?);
        match objects.take(c_num::CONTEXT)? {
            Some(next) => context = next,
            None => return Ok(Decided::Decisions(decisions)),
        }
    }
}

fn open(objects: &mut Objects<'_>) -> Result<Open, Malformed> {
    Ok(Open {
        pep_id: PepId::read(&objects.need(c_num::PEP_ID)?)?,
        client_si: objects.take(c_num::CLIENT_SI)?.map(|object| ClientSi::read(&object)).transpose()?,
        last_pdp: objects.take(c_num::LAST_PDP)?.map(|object| pdp_address::read(&object)).transpose()?,
    })
}

fn write_body(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Request(request) => write_request(request, out),
        Body::Decision { handle, decided } => {
            handle.write(out);
            match decided {
                Decided::Error(error) => error.write(out),
                Decided::Decisions(decisions) => decisions.iter().for_each(|decision| decision.write(out)),
            }
        }
        Body::Report(report) => {
            report.handle.write(out);
            report.report_type.write(out);
            report.client_si.iter().for_each(|info| info.write(out));
        }
        Body::Delete { handle, reason } => {
            handle.write(out);
            reason.write(out);
        }
        Body::SyncRequest(handle) | Body::SyncComplete(handle) => {
            handle.iter().for_each(|handle| handle.write(out));
        }
        Body::Open(open) => {
            open.pep_id.write(out);
            open.client_si.iter().for_each(|info| info.write(out));
            open.last_pdp.iter().for_each(|address| pdp_address::write(out, c_num::LAST_PDP, *address));
        }
        Body::Accept(accept) => {
            timer::write(out, c_num::KA_TIMER, accept.keep_alive_s);
            accept.accounting_s.iter().for_each(|seconds| timer::write(out, c_num::ACCT_TIMER, *seconds));
        }
        Body::Close(close) => {
            close.error.write(out);
            close.redirect.iter().for_each(|address| pdp_address::write(out, c_num::PDP_REDIRECT, *address));
        }
        Body::KeepAlive => {}
    }
}

fn write_request(request: &Request, out: &mut Vec<u8>) {
    request.handle.write(out);
    request.context.write(out);
    request.in_interface.iter().for_each(|interface| interface.write(out, c_num::IN_INTERFACE));
    request.out_interface.iter().for_each(|interface| interface.write(out, c_num::OUT_INTERFACE));
    request.client_si.iter().for_each(|info| info.write(out));
    request.local.iter().for_each(|local| local.write(out));
}
