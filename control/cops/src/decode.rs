//! Octets for people to read.

use crate::pr;
use crate::wire::object::{Object, Objects, c_num};
use crate::wire::{Command, ErrorCode, Frames, HEADER, Header, OpCode, ReasonCode, ReportType, object_name};
use perhop_tcapi::wire as tcapi;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of data without a form that are shown.
const MOST_OCTETS: usize = 64;

/// Octets of a connection's one direction, one message after another: each with its objects and what they say, and what is
/// wrong with it, on lines of their own.
pub fn describe(bytes: &[u8]) -> impl fmt::Display + '_ {
    Description(bytes)
}

/// Whether all octets are messages without a fault.
pub fn is_whole(bytes: &[u8]) -> bool {
    let mut frames = Frames::default();
    frames.push(bytes);
    loop {
        match frames.next() {
            Ok(Some(frame)) if frame.message.is_ok() => {}
            Ok(None) => return frames.held() == 0,
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

struct Description<'a>(&'a [u8]);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut frames = Frames::default();
        frames.push(self.0);
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    message(f, &frame.bytes)?;
                    if let Err(fault) = frame.message {
                        let error = fault.malformed.error();
                        writeln!(f, "  ! {fault}; the answer is error {}: {}", error.code.0, error.code)?;
                    }
                }
                Ok(None) if frames.held() == 0 => return Ok(()),
                Ok(None) => return writeln!(f, "! {} octets that are no whole message", frames.held()),
                Err(lost) => return writeln!(f, "! {lost}"),
            }
        }
    }
}

fn message(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let Some(Some(header)) = Header::read(bytes) else { return Ok(()) };
    let Header { op, client_type, length, solicited } = header;
    match OpCode::from_number(op) {
        Some(op) => write!(f, "{}", op.name())?,
        None => write!(f, "operation {op}")?,
    }
    writeln!(f, " client-type {client_type}, {length} octets{}", if solicited { ", solicited" } else { "" })?;
    let mut objects = Objects::of(&bytes[HEADER..], HEADER);
    while let Ok(Some(object)) = objects.next() {
        write!(f, "  {:5}  ", object.at)?;
        match object_name(object.c_num) {
            Some(name) => write!(f, "{name}")?,
            None => write!(f, "C-Num {}", object.c_num)?,
        }
        write!(f, " ({})", object.c_type)?;
        contents(f, &object)?;
    }
    Ok(())
}

fn contents(f: &mut fmt::Formatter<'_>, object: &Object<'_>) -> fmt::Result {
    let pair = match *object.contents {
        [a, b, c, d] => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => None,
    };
    match (object.c_num, object.c_type, pair) {
        (c_num::CONTEXT, 1, Some((r_type, m_type))) => {
            writeln!(f, ": request type 0x{r_type:x}, message type {m_type}")
        }
        (c_num::REASON, 1, Some((code, sub))) => {
            writeln!(f, ": {code} {}, sub-code 0x{sub:04x}", ReasonCode(code))
        }
        (c_num::ERROR, 1, Some((code, sub))) => {
            writeln!(f, ": {code} {}, sub-code 0x{sub:04x}", ErrorCode(code))
        }
        (c_num::DECISION | c_num::LPDP_DECISION, 1, Some((command, flags))) => {
            writeln!(f, ": {}, flags 0x{flags:x}", Command(command))
        }
        (c_num::REPORT_TYPE, 1, Some((number, _))) => writeln!(f, ": {}", ReportType(number)),
        (c_num::KA_TIMER | c_num::ACCT_TIMER, 1, Some((_, seconds))) => writeln!(f, ": {seconds} s"),
        (c_num::INTEGRITY, 2, Some((_, flags))) => writeln!(f, ": TLS, flags 0x{flags:x}"),
        (c_num::INTEGRITY, 1, _) => integrity(f, object.contents),
        (c_num::PEP_ID, 1, _) => {
            let text = String::from_utf8_lossy(object.contents);
            writeln!(f, ": {:?}", text.trim_end_matches('\0'))
        }
        (c_num::IN_INTERFACE | c_num::OUT_INTERFACE | c_num::PDP_REDIRECT | c_num::LAST_PDP, ..) => {
            address(f, object.contents)
        }
        (c_num::CLIENT_SI | c_num::DECISION | c_num::LPDP_DECISION, ..) => data(f, object.contents),
        _ => octets(f, object.contents),
    }
}

fn integrity(f: &mut fmt::Formatter<'_>, contents: &[u8]) -> fmt::Result {
    match contents.split_first_chunk::<8>() {
        Some((&[a, b, c, d, e, g, h, i], digest)) => {
            let (key, sequence) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, g, h, i]));
            write!(f, ": key {key}, message {sequence}, digest")?;
            octets(f, digest)
        }
        None => octets(f, contents),
    }
}

/// An address, and a number of four octets behind it: an interface, or a port in its low half.
fn address(f: &mut fmt::Formatter<'_>, contents: &[u8]) -> fmt::Result {
    let number = |octets: &[u8; 4]| u32::from_be_bytes(*octets);
    match contents.split_last_chunk::<4>() {
        Some((&[a, b, c, d], rest)) => writeln!(f, ": {}, {}", Ipv4Addr::new(a, b, c, d), number(rest)),
        Some((address, rest)) if address.len() == 16 => {
            let octets: [u8; 16] = address.try_into().unwrap_or_default();
            writeln!(f, ": {}, {}", Ipv6Addr::from(octets), number(rest))
        }
        _ => octets(f, contents),
    }
}

fn octets(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    write!(f, ": ")?;
    octets.iter().take(MOST_OCTETS).try_for_each(|octet| write!(f, "{octet:02x}"))?;
    writeln!(f, "{}", if octets.len() > MOST_OCTETS { " …" } else { "" })
}

/// What a client-type says: a message of the traffic-control API, objects of COPS-PR, or octets.
fn data(f: &mut fmt::Formatter<'_>, contents: &[u8]) -> fmt::Result {
    let mut frames = tcapi::Frames::default();
    frames.push(contents);
    if let Ok(Some(frame)) = frames.next()
        && frames.held() == 0
        && let Ok(message) = frame.message
    {
        return reservation(f, &message);
    }
    match pr::read_all(contents) {
        Ok(objects) if !objects.is_empty() => {
            writeln!(f, ":")?;
            objects.iter().try_for_each(|object| instance(f, object))
        }
        _ => octets(f, contents),
    }
}

fn reservation(f: &mut fmt::Formatter<'_>, message: &tcapi::Message) -> fmt::Result {
    write!(f, ": transaction {}, epoch {}, ", message.txn, message.epoch)?;
    match &message.body {
        tcapi::Body::Hello { .. } => writeln!(f, "HELLO"),
        tcapi::Body::Do(verb, request) => {
            write!(f, "{verb:?} flow {}", request.flow)?;
            if let Some(class) = &request.class {
                write!(f, ", class {} {:?}", class.number, class.name)?;
            }
            if let Some(amount) = &request.reservation {
                write!(f, ", {} bit/s", amount.rate_bps)?;
            }
            if let Some(scope) = &request.scope {
                write!(f, ", from {:?} to {:?}", scope.ingress, scope.egress)?;
            }
            writeln!(f, ", {} alternatives", request.filter.len())
        }
        tcapi::Body::Answer(answer) => match &answer.refusal {
            None => writeln!(f, "ACK"),
            Some(refusal) => writeln!(
                f,
                "NACK {}: link {:?}, class {:?}, asked {} bit/s, free {} bit/s: {:?}",
                refusal.code,
                refusal.link,
                refusal.class,
                refusal.asked_bps,
                refusal.free_bps,
                refusal.message
            ),
        },
    }
}

fn instance(f: &mut fmt::Formatter<'_>, object: &pr::Object) -> fmt::Result {
    write!(f, "           ")?;
    match object {
        pr::Object::Prid(oid) => writeln!(f, "PRID {oid}"),
        pr::Object::Prefix(oid) => writeln!(f, "PPRID {oid}"),
        pr::Object::ErrorPrid(oid) => writeln!(f, "ErrorPRID {oid}"),
        pr::Object::Global(code, sub) => writeln!(f, "GPERR {code}, sub-code 0x{sub:04x}"),
        pr::Object::Class(code, sub) => writeln!(f, "CPERR {code}, sub-code 0x{sub:04x}"),
        pr::Object::Data(values) => {
            write!(f, "EPD")?;
            values.iter().try_for_each(|value| match value {
                pr::Value::Integer(number) => write!(f, " {number}"),
                pr::Value::Unsigned(number) => write!(f, " {number}u"),
                pr::Value::Null => write!(f, " null"),
                pr::Value::Oid(oid) => write!(f, " {oid}"),
                pr::Value::Address([a, b, c, d]) => write!(f, " {a}.{b}.{c}.{d}"),
                pr::Value::Octets(octets) => {
                    write!(f, " 0x")?;
                    octets.iter().take(MOST_OCTETS).try_for_each(|octet| write!(f, "{octet:02x}"))
                }
            })?;
            writeln!(f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dra::{self, Tag, Told};
    use crate::wire::{Body, ClientType, Decided, Message};
    use perhop_reason::Code;

    #[test]
    fn a_refusal_says_link_class_asked_free_and_code_and_what_is_wrong_its_place() {
        let refusal = tcapi::Refusal {
            link: "wan".into(),
            class: "voice".into(),
            asked_bps: 80_000,
            free_bps: 16_000,
            ..tcapi::Refusal::new(Code::NoCapacity, "full")
        };
        let told = Told::Refused(Box::new(refusal));
        let decision = dra::decision(Tag { txn: 5, epoch: 2 }, &told).expect("short");
        let body = Body::Decision { handle: 9.into(), decided: Decided::Decisions(vec![decision]) };
        let mut bytes = Message::new(ClientType(0x4d41), body).to_bytes();
        let length = bytes.len();
        bytes.extend([0x10, 4, 0x4d, 0x41, 0, 0, 0, 16, 0, 8, 5, 1, 0, 4, 0, 0, 0x10, 9]);
        let expected = format!(
            "\
DEC client-type 0x4d41, {length} octets
      8  Handle (1): 0000000000000009
     20  Context (1): request type 0x2, message type 0
     28  Decision (1): remove, flags 0x1
     36  Decision (4): transaction 5, epoch 2, NACK no_capacity: link \"wan\", class \"voice\", asked 80000 bit/s, \
             free 16000 bit/s: \"full\"
DRQ client-type 0x4d41, 16 octets
      8  Reason (1): 4 tear, sub-code 0x0000
  ! octet 8: Handle is missing; the answer is error 7: mandatory COPS object missing
! 2 octets that are no whole message
"
        );
        assert_eq!(describe(&bytes).to_string(), expected);
    }
}
