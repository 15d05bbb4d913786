//! Whether a message is good enough for a proxy (RFC 3261 §8.1.1, §16.3 item 1), and what of it a proxy reads.

use super::fault::Fault;
use super::uri::NameAddr;
use super::via::COOKIE;
use super::{MAX_VALUES, Message, Method, Name, Start, Uri, Via, scan};

/// What a proxy reads of a message, found to be valid.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method of a request, or the one that a response is for.
    pub method: Method,
    /// The same as it stands.
    pub method_text: &'a [u8],
    /// The request-URI.
    pub uri: Option<Uri<'a>>,
    /// The call.
    pub call_id: &'a [u8],
    /// Who asks.
    pub from: NameAddr<'a>,
    /// Whom it is for.
    pub to: NameAddr<'a>,
    /// Number of the request.
    pub cseq: u32,
    /// The last hop.
    pub via: Via<'a>,
    /// How many hops are left; `None` if it does not say or says something out of range (RFC 4475 §3.1.2.4).
    pub max_forwards: Option<u8>,
}

impl Message {
    /// Checks what a proxy uses. O(head).
    ///
    /// # Errors
    /// The first [`Fault`]. A request is answered by [`Fault::answer`], a response thrown away.
    pub fn check(&self) -> Result<Head<'_>, Fault> {
        let uri = self.check_start()?;
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for name in [Name::From, Name::To, Name::CallId, Name::CSeq, Name::MaxForwards] {
            let optional = name == Name::MaxForwards;
            match self.fields(name).count() {
                0 if !optional => return Err(Fault::Missing(name)),
                0 | 1 => {}
                _ => return Err(Fault::Twice(name)),
            }
        }
        let call_id =
            self.value(Name::CallId).filter(|id| !id.is_empty()).ok_or(Fault::Value(Name::CallId))?;
        let from = self.name_addr(Name::From)?;
        let to = self.name_addr(Name::To)?;
        let (cseq, method_text) = self.cseq()?;
        let method = Method::of(method_text);
        if self.is_request() && method_text != self.method_text() {
            let known = Method::of(self.method_text()) != Method::Other;
            return Err(if known { Fault::CSeqMethod } else { Fault::UnknownMethod });
        }
        let via = self.check_vias()?;
        for name in [Name::Route, Name::RecordRoute] {
            let mut values = 0;
            for value in self.values(name) {
                values += 1;
                NameAddr::read(value).ok_or(Fault::Value(name))?;
            }
            if values > MAX_VALUES {
                return Err(Fault::Values(name));
            }
        }
        if method == Method::Register && self.is_request() {
            self.contacts().try_for_each(|contact| contact.map(drop))?;
        }
        let max_forwards =
            self.value(Name::MaxForwards).and_then(|v| scan::number(v, 255)).map(|number| number as u8);
        Ok(Head { method, method_text, uri, call_id, from, to, cseq, via, max_forwards })
    }

    fn check_start(&self) -> Result<Option<Uri<'_>>, Fault> {
        let Start::Request { version, .. } = self.start else {
            return self.status().map(|_| None).ok_or(Fault::Status);
        };
        if !version.of(&self.bytes).eq_ignore_ascii_case(b"SIP/2.0") {
            return Err(Fault::Version);
        }
        if !scan::token(self.method_text()) {
            return Err(Fault::Method);
        }
        let uri = Uri::read(self.uri_text()).ok_or(Fault::Uri)?;
        if uri.headers.is_some() { Err(Fault::UriHeaders) } else { Ok(Some(uri)) }
    }

    fn check_vias(&self) -> Result<Via<'_>, Fault> {
        let mut first = None;
        let mut values = 0;
        for value in self.values(Name::Via) {
            let via = Via::read(value).ok_or(Fault::Value(Name::Via))?;
            if first.is_none() && via.branch() == Some(COOKIE) {
                return Err(Fault::Branch);
            }
            first = first.or(Some(via));
            values += 1;
            if values > MAX_VALUES {
                return Err(Fault::Values(Name::Via));
            }
        }
        first.ok_or(Fault::Missing(Name::Via))
    }

    fn name_addr(&self, name: Name) -> Result<NameAddr<'_>, Fault> {
        self.value(name).and_then(NameAddr::read).ok_or(Fault::Value(name))
    }

    /// Number and method of CSeq.
    ///
    /// # Errors
    /// [`Fault::Value`] for what is no CSeq, also a number above 2³¹ − 1 would be one, but only 32 bits are checked (RFC 3261 §20.16).
    fn cseq(&self) -> Result<(u32, &[u8]), Fault> {
        let fault = Fault::Value(Name::CSeq);
        let value = self.value(Name::CSeq).ok_or(fault)?;
        let end = value.iter().position(|&o| scan::is_space(o)).ok_or(fault)?;
        let number = scan::number(&value[..end], u64::from(u32::MAX)).ok_or(fault)?;
        let method = scan::trim(&value[end..]);
        if scan::token(method) { Ok((number as u32, method)) } else { Err(fault) }
    }

    /// Values of Contact but `*`.
    pub fn contacts(&self) -> impl Iterator<Item = Result<NameAddr<'_>, Fault>> {
        let values = self.values(Name::Contact).filter(|value| *value != b"*");
        values.map(|value| NameAddr::read(value).ok_or(Fault::Value(Name::Contact)))
    }

    /// The first Via, if it is one, of a message that need not be valid: where an answer goes.
    pub fn via(&self) -> Option<Via<'_>> {
        self.values(Name::Via).next().and_then(Via::read)
    }
}
