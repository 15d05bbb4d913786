//! Responses that a proxy makes itself (RFC 3261 §8.2.6), and the requests that belong to another: ACK and CANCEL.

use super::{Message, Name, scan};

/// A response in the making.
#[derive(Clone, Debug)]
pub struct Reply<'m> {
    request: &'m Message,
    status: u16,
    reason: String,
    tag: Option<String>,
    lines: String,
}

impl<'m> Reply<'m> {
    /// A response without tag or further header fields, and with the phrase of its code.
    pub fn new(request: &'m Message, status: u16) -> Self {
        Self { request, status, reason: reason_phrase(status).into(), tag: None, lines: String::new() }
    }

    /// The tag of To, if the request has none: every response but 100 has one.
    pub fn tag(mut self, tag: String) -> Self {
        self.tag = Some(tag);
        self
    }

    /// A further header field.
    pub fn with(mut self, name: Name, value: &str) -> Self {
        self.lines.push_str(name.text());
        self.lines.push_str(": ");
        self.lines.push_str(value);
        self.lines.push_str("\r\n");
        self
    }

    /// The octets. Via, From, To, Call-ID and CSeq are those of the request, line for line; of a faulty request those that it has.
    pub fn bytes(&self) -> Vec<u8> {
        let request = self.request;
        let mut out = format!("SIP/2.0 {} {}\r\n", self.status, self.reason).into_bytes();
        let tagged =
            request.value(Name::To).and_then(super::NameAddr::read).is_some_and(|to| to.tag().is_some());
        for field in &request.fields {
            match field.name {
                Name::To if !tagged && self.tag.is_some() => {
                    let line = field.line.of(&request.bytes);
                    out.extend_from_slice(&line[..line.len() - 2]);
                    out.extend_from_slice(b";tag=");
                    out.extend_from_slice(self.tag.as_deref().unwrap_or_default().as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                Name::Via | Name::From | Name::To | Name::CallId | Name::CSeq => {
                    out.extend_from_slice(field.line.of(&request.bytes));
                }
                Name::Timestamp if self.status == 100 => out.extend_from_slice(field.line.of(&request.bytes)),
                _ => {}
            }
        }
        out.extend_from_slice(self.lines.as_bytes());
        out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        out
    }
}

impl Message {
    /// The ACK or CANCEL of a request that was sent (RFC 3261 §9.1, §17.1.1.3): its request-URI, first Via, From, Call-ID, CSeq number and
    /// Route; `to` is the value of To, the request's own for CANCEL and the response's for ACK.
    pub(crate) fn dependent(&self, method: &str, to: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.uri_text());
        out.extend_from_slice(b" SIP/2.0\r\n");
        let mut put = |name: Name, value: &[u8]| {
            out.extend_from_slice(name.text().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        };
        if let Some(via) = self.values(Name::Via).next() {
            put(Name::Via, via);
        }
        put(Name::MaxForwards, b"70");
        for value in self.values(Name::Route) {
            put(Name::Route, value);
        }
        for name in [Name::From, Name::CallId] {
            put(name, self.value(name).unwrap_or_default());
        }
        put(Name::To, to.or(self.value(Name::To)).unwrap_or_default());
        let number = self.value(Name::CSeq).unwrap_or_default();
        let end = number.iter().position(|&o| scan::is_space(o)).unwrap_or(number.len());
        put(Name::CSeq, &[&number[..end], b" ", method.as_bytes()].concat());
        put(Name::ContentLength, b"0");
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// The phrase of a status code that a proxy gives by itself (RFC 3261 §21).
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        580 => "Precondition Failure",
        _ => "Refused",
    }
}
