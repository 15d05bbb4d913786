//! Changes of a message: pieces are cut out and put in, all else is copied.

use super::{Message, Name, Params, Span, Start, scan};

/// A changed copy in the making. Changes are of the message as it came: each piece may be changed once.
#[derive(Clone, Debug)]
pub struct Edit<'m> {
    message: &'m Message,
    uri: Option<Vec<u8>>,
    changes: Vec<(Span, Vec<u8>)>,
    /// Lines right behind the start line, in their order.
    top: Vec<u8>,
}

impl<'m> Edit<'m> {
    /// Begins with no change.
    pub fn new(message: &'m Message) -> Self {
        Self { message, uri: None, changes: Vec::new(), top: Vec::new() }
    }

    /// Another request-URI.
    pub fn uri(&mut self, uri: &[u8]) -> &mut Self {
        self.uri = Some(uri.to_vec());
        self
    }

    /// A header field before all others.
    pub fn push(&mut self, name: Name, value: &[u8]) -> &mut Self {
        self.top.extend_from_slice(name.text().as_bytes());
        self.top.extend_from_slice(b": ");
        self.top.extend_from_slice(value);
        self.top.extend_from_slice(b"\r\n");
        self
    }

    /// Takes the first `count` values of a list away.
    pub fn pop(&mut self, name: Name, count: usize) -> &mut Self {
        let mut left = count;
        for field in self.message.fields(name) {
            if left == 0 {
                break;
            }
            let value = field.value.of(&self.message.bytes);
            let mut at = 0;
            while left > 0 && at <= value.len() {
                at += scan::find(&value[at..], b",") + 1;
                left -= 1;
            }
            let (start, end) = (field.value.start as usize, field.value.end as usize);
            if at > value.len() {
                self.changes.push((field.line, Vec::new()));
            } else {
                self.changes.push((Span::new(start, (start + at).min(end)), b" ".to_vec()));
            }
        }
        self
    }

    /// Takes all fields of a name away.
    pub fn remove(&mut self, name: Name) -> &mut Self {
        self.changes.extend(self.message.fields(name).map(|field| (field.line, Vec::new())));
        self
    }

    /// Sets the value of a header that is there once at most.
    pub fn set(&mut self, name: Name, value: &[u8]) -> &mut Self {
        match self.message.fields(name).next() {
            Some(field) => self.changes.push((field.value, [b" ", value].concat())),
            None => return self.push(name, value),
        }
        self
    }

    /// Notes in the first Via where the message came from (`received` RFC 3261 §18.2.1; a `rport` that is asked for, RFC 3581 §4).
    pub fn received(&mut self, host: &str, port: u16) -> &mut Self {
        let Some(field) = self.message.fields(Name::Via).next() else { return self };
        let value = field.value.of(&self.message.bytes);
        let end = scan::find(value, b",");
        let first = scan::find(&value[..end], b";");
        let mut text = [b" ", scan::trim(&value[..first])].concat();
        for (name, value) in Params(&value[first..end]).iter() {
            let port = port.to_string();
            let value = match name {
                _ if name.eq_ignore_ascii_case(b"received") => continue,
                _ if name.eq_ignore_ascii_case(b"rport") => port.as_bytes(),
                _ => value,
            };
            text.push(b';');
            text.extend_from_slice(name);
            if !value.is_empty() {
                text.push(b'=');
                text.extend_from_slice(value);
            }
        }
        text.extend_from_slice(b";received=");
        text.extend_from_slice(host.as_bytes());
        let start = field.value.start as usize;
        self.changes.push((Span::new(start, start + end), text));
        self
    }

    /// The changed message. The start line of a request is written anew, with one space between its parts. With `stream` it says its length
    /// (RFC 3261 §16.6 item 9). O(octets).
    pub fn finish(&mut self, stream: bool) -> Vec<u8> {
        let message = self.message;
        if stream && message.fields(Name::ContentLength).next().is_none() {
            let length = message.body().len().to_string();
            self.push(Name::ContentLength, length.as_bytes());
        }
        let mut out = Vec::with_capacity(message.bytes.len() + self.top.len() + 512);
        match message.start {
            Start::Request { method, uri, .. } => {
                out.extend_from_slice(method.of(&message.bytes));
                out.push(b' ');
                out.extend_from_slice(self.uri.as_deref().unwrap_or_else(|| uri.of(&message.bytes)));
                out.extend_from_slice(b" SIP/2.0\r\n");
            }
            Start::Response { .. } => out.extend_from_slice(&message.bytes[..message.head as usize]),
        }
        out.extend_from_slice(&self.top);
        self.changes.sort_by_key(|(span, _)| (span.start, span.end));
        let mut at = message.head as usize;
        for (span, text) in &self.changes {
            debug_assert!(at <= span.start as usize, "a piece is changed once");
            out.extend_from_slice(&message.bytes[at..span.start as usize]);
            out.extend_from_slice(text);
            at = span.end as usize;
        }
        out.extend_from_slice(&message.bytes[at..]);
        out
    }
}
