//! From octets to an indexed message (RFC 3261 §7, §18.3).

use super::fault::{Fault, Unreadable};
use super::{Field, MAX_BODY, MAX_FIELDS, MAX_HEAD, Message, Name, Span, Start, scan};

impl Message {
    /// Reads the message of a datagram. What is behind its body is left out (RFC 3261 §18.3); a body that is too short is a fault that
    /// [`Message::check`] tells. O(octets).
    ///
    /// # Errors
    /// [`Unreadable`] for what is no message.
    pub fn datagram(datagram: &[u8]) -> Result<Self, Unreadable> {
        let blank = datagram.iter().take_while(|&&o| matches!(o, b'\r' | b'\n')).count();
        let datagram = &datagram[blank..];
        let head = head_end(datagram);
        if head.unwrap_or(datagram.len()) > MAX_HEAD {
            return Err(Unreadable::Head);
        }
        let mut message = match head {
            Some(end) => Self::head(datagram[..end].to_vec())?,
            None => {
                let line_end: &[u8] = if datagram.ends_with(b"\r\n") { b"\r\n" } else { b"\r\n\r\n" };
                Self::head([datagram, line_end].concat())?
            }
        };
        let rest = head.map_or(&[][..], |end| &datagram[end..]);
        let told = message.length();
        let len = match told {
            Ok(Some(len)) if len <= rest.len() => len,
            Ok(Some(_)) => {
                message.fault.get_or_insert(Fault::Short);
                rest.len()
            }
            Ok(None) => rest.len(),
            Err(fault) => {
                message.fault.get_or_insert(fault);
                0
            }
        };
        if len > MAX_BODY {
            return Err(Unreadable::Body);
        }
        message.take_body(&rest[..len]);
        Ok(message)
    }

    pub(super) fn take_body(&mut self, body: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(body);
        self.body = Span::new(start, self.bytes.len());
    }

    /// What Content-Length says, if it is there.
    pub(super) fn length(&self) -> Result<Option<usize>, Fault> {
        let mut told = self.fields(Name::ContentLength);
        let Some(field) = told.next() else { return Ok(None) };
        if told.next().is_some() {
            return Err(Fault::Twice(Name::ContentLength));
        }
        let value = scan::trim(field.value.of(&self.bytes));
        match scan::number(value, u64::from(u32::MAX)) {
            Some(len) => Ok(Some(len as usize)),
            None => Err(Fault::Value(Name::ContentLength)),
        }
    }

    /// Indexes a head, which ends with an empty line.
    pub(super) fn head(bytes: Vec<u8>) -> Result<Self, Unreadable> {
        let end = bytes.windows(2).position(|w| w == b"\r\n").ok_or(Unreadable::StartLine)?;
        let start = start_line(&bytes[..end]).ok_or(Unreadable::StartLine)?;
        let body = Span::new(bytes.len(), bytes.len());
        let head = (end + 2) as u32;
        let mut message = Self { bytes, start, head, fields: Vec::new(), body, fault: None };
        message.fault = message.index().err();
        Ok(message)
    }

    fn index(&mut self) -> Result<(), Fault> {
        let mut at = self.head as usize;
        let mut fault = Ok(());
        while let Some(end) = field_end(&self.bytes, at) {
            if end == at + 2 && &self.bytes[at..end] == b"\r\n" {
                break;
            }
            match field(&self.bytes, at, end) {
                Some(field) if self.fields.len() < MAX_FIELDS => self.fields.push(field),
                Some(_) => return Err(Fault::Fields),
                None => fault = fault.and(Err(Fault::Field { at })),
            }
            at = end;
        }
        fault
    }
}

/// Place behind the empty line that ends the head.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

/// Place behind the line end of the field that begins here, continuation lines included.
fn field_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at;
    loop {
        let end = from + bytes.get(from..)?.windows(2).position(|w| w == b"\r\n")? + 2;
        // The empty line is no beginning of a folded one.
        if end == at + 2 || !matches!(bytes.get(end), Some(b' ' | b'\t')) {
            return Some(end);
        }
        from = end;
    }
}

fn field(bytes: &[u8], at: usize, end: usize) -> Option<Field> {
    let line = &bytes[at..end - 2];
    let colon = line.iter().position(|&o| o == b':')?;
    let mut name = &line[..colon];
    while let [rest @ .., b' ' | b'\t'] = name {
        name = rest;
    }
    if !scan::token(name) || has_bare_end(line) {
        return None;
    }
    let value = Span::new(at + colon + 1, end - 2);
    Some(Field { name: Name::of(name), line: Span::new(at, end), value })
}

/// A CR or LF that is no part of CRLF before a continuation.
fn has_bare_end(line: &[u8]) -> bool {
    let bare = |(at, &octet): (usize, &u8)| match octet {
        b'\r' => line.get(at + 1) != Some(&b'\n'),
        b'\n' => at == 0 || line[at - 1] != b'\r',
        _ => false,
    };
    line.iter().enumerate().any(bare)
}

fn start_line(line: &[u8]) -> Option<Start> {
    if line.get(..4)?.eq_ignore_ascii_case(b"SIP/") {
        return status_line(line);
    }
    let trimmed = scan::trim(line);
    let first = line.iter().position(|&o| o == b' ')?;
    let last = trimmed.iter().rposition(|&o| o == b' ')?;
    if first == 0 || last <= first || !trimmed.get(last + 1..last + 5)?.eq_ignore_ascii_case(b"SIP/") {
        return None;
    }
    let spaces = |from: usize| line[from..].iter().take_while(|&&o| o == b' ').count();
    let (start, mut end) = (first + spaces(first), last);
    while end > start && line[end - 1] == b' ' {
        end -= 1;
    }
    (start < end).then(|| Start::Request {
        method: Span::new(0, first),
        uri: Span::new(start, end),
        version: Span::new(last + 1, trimmed.len()),
    })
}

fn status_line(line: &[u8]) -> Option<Start> {
    let first = line.iter().position(|&o| o == b' ')?;
    let code = &line[first + 1..];
    let end = code.iter().position(|&o| o == b' ').unwrap_or(code.len());
    let code = &code[..end];
    let status = if code.len() == 3 { scan::number(code, 699).filter(|status| *status >= 100) } else { None };
    let status =
        status.filter(|_| line[..first].eq_ignore_ascii_case(b"SIP/2.0")).map(|status| status as u16);
    let reason = Span::new((first + 2 + end).min(line.len()), line.len());
    Some(Start::Response { status, reason })
}
