//! Messages that stay as they came: octets with an index of where everything is.
//!
//! A message is read once. What a proxy needs is found by the index; what it does not need is neither understood nor changed. What it
//! changes is cut out and put in place by [`Edit`], so the rest goes out as it came, octet for octet.
//!
//! # Forgiving and strict
//! Whatever has a start line is a [`Message`], also one that must be refused: its answer needs its Via. [`Message::check`] says
//! what is wrong with those parts that a proxy uses (RFC 3261 §16.3); other parts are never judged. Forgiven are: spaces more than one in the
//! start line and behind it, no white space before `<`, a head without the empty line at the end of a datagram, any order, case, folding
//! and compact form, no branch, no tag and no Max-Forwards (RFC 2543). Not forgiven: line ends other than CRLF, open quotes, spaces in a URI,
//! display names that would need quotes.

mod check;
mod edit;
mod fault;
mod method;
mod name;
mod read;
mod reply;
pub(crate) mod scan;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torture_tests;
pub(crate) mod uri;
mod via;

pub use check::Head;
pub use edit::Edit;
pub use fault::{Fault, Unreadable};
pub use method::Method;
pub use name::Name;
pub use reply::{Reply, reason_phrase};
pub use scan::Params;
pub use stream::{Piece, Stream};
pub use uri::{NameAddr, Scheme, Uri};
pub use via::{COOKIE, Transport, Via};

/// Longest head, octets.
pub const MAX_HEAD: usize = 32_768;
/// Longest body, octets.
pub const MAX_BODY: usize = 65_535;
/// Most header fields.
pub const MAX_FIELDS: usize = 256;
/// Most values of Via, Route or Record-Route.
pub const MAX_VALUES: usize = 100;
/// Deepest body: parts within parts.
pub const MAX_NESTING: usize = 3;

/// Where something is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// A header field: its whole line with the line end, and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) line: Span,
    pub(crate) value: Span,
}

/// The start line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    Request { method: Span, uri: Span, version: Span },
    Response { status: Option<u16>, reason: Span },
}

/// A request or response, as it came.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
    start: Start,
    /// Behind the start line.
    head: u32,
    fields: Vec<Field>,
    body: Span,
    fault: Option<Fault>,
}

impl Message {
    /// All octets, without what followed the message in its datagram.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.body.of(&self.bytes)
    }

    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        matches!(self.start, Start::Request { .. })
    }

    /// The method of a request.
    pub fn method(&self) -> Option<Method> {
        match self.start {
            Start::Request { method, .. } => Some(Method::of(method.of(&self.bytes))),
            Start::Response { .. } => None,
        }
    }

    /// The method of a request, as it stands.
    pub fn method_text(&self) -> &[u8] {
        match self.start {
            Start::Request { method, .. } => method.of(&self.bytes),
            Start::Response { .. } => &[],
        }
    }

    /// The request-URI, as it stands.
    pub fn uri_text(&self) -> &[u8] {
        match self.start {
            Start::Request { uri, .. } => uri.of(&self.bytes),
            Start::Response { .. } => &[],
        }
    }

    /// The status code of a response; `None` if it has none that SIP knows.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            Start::Response { status, .. } => status,
            Start::Request { .. } => None,
        }
    }

    /// The reason phrase of a response.
    pub fn reason(&self) -> &[u8] {
        match self.start {
            Start::Response { reason, .. } => reason.of(&self.bytes),
            Start::Request { .. } => &[],
        }
    }

    pub(crate) fn fields(&self, name: Name) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.name == name)
    }

    /// The value of the first header field of this name, as it stands, without white space around it.
    pub fn value(&self, name: Name) -> Option<&[u8]> {
        self.fields(name).next().map(|field| scan::trim(field.value.of(&self.bytes)))
    }

    /// All values of a header whose values are a list, in their order, whether commas or lines separate them.
    pub fn values(&self, name: Name) -> impl Iterator<Item = &[u8]> {
        self.fields(name).flat_map(|field| scan::list(field.value.of(&self.bytes)))
    }

    /// Values of a header that is not in [`Name`], by its name.
    pub fn other(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.fields(Name::Other).filter_map(move |field| {
            let line = field.line.of(&self.bytes);
            let end = line.iter().position(|&o| o == b':')?;
            scan::trim(&line[..end])
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| scan::trim(field.value.of(&self.bytes)))
        })
    }

    /// The body that is of this type: the message's own, or the first such part of a `multipart` body, [`MAX_NESTING`] deep.
    pub fn body_of(&self, kind: &str) -> Option<&[u8]> {
        (!self.body().is_empty())
            .then(|| find_body(self.value(Name::ContentType)?, self.body(), kind, MAX_NESTING))?
    }
}

fn find_body<'a>(content: &[u8], body: &'a [u8], kind: &str, depth: usize) -> Option<&'a [u8]> {
    let end = content.iter().position(|&o| o == b';').unwrap_or(content.len());
    let media = scan::trim(&content[..end]);
    if media.eq_ignore_ascii_case(kind.as_bytes()) {
        return Some(body);
    }
    if depth == 0 || !media.get(..10)?.eq_ignore_ascii_case(b"multipart/") {
        return None;
    }
    let boundary = Params(&content[end..]).get("boundary")?;
    let boundary = boundary.strip_prefix(b"\"").and_then(|b| b.strip_suffix(b"\"")).unwrap_or(boundary);
    let mark = [b"--", boundary].concat();
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|window| window == what);
    let mut rest = &body[find(body, &mark)? + mark.len()..];
    while let Some(end) = find(rest, &mark) {
        let part = rest[..end].strip_suffix(b"\r\n").unwrap_or(&rest[..end]);
        rest = &rest[end + mark.len()..];
        let Some(head) = find(part, b"\r\n\r\n") else { continue };
        let lines = part[..head].split(|&o| o == b'\n');
        let content = lines.filter_map(|line| {
            let colon = line.iter().position(|&o| o == b':')?;
            (Name::of(scan::trim(&line[..colon])) == Name::ContentType).then(|| &line[colon + 1..])
        });
        let found =
            content.map(scan::trim).next().and_then(|c| find_body(c, &part[head + 4..], kind, depth - 1));
        if found.is_some() {
            return found;
        }
    }
    None
}
