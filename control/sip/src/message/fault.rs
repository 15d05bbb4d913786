//! What can be wrong with a message, and what a proxy answers to it.

use super::name::Name;
use super::{MAX_BODY, MAX_FIELDS, MAX_HEAD, MAX_VALUES};
use thiserror::Error;

/// Octets that are no message at all; nothing can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// Neither request nor response.
    #[error("no start line of SIP")]
    StartLine,
    /// The head has no end within the limit.
    #[error("a head of more than {MAX_HEAD} octets")]
    Head,
    /// The body is longer than the limit.
    #[error("a body of more than {MAX_BODY} octets")]
    Body,
    /// On a stream: nothing says where the message ends, so nothing behind it can be found (RFC 4475 §3.1.2.3).
    #[error("the length of the body is not told, so the stream has no next message")]
    Length,
}

/// What is wrong with a message that can be told apart as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Another version of SIP.
    #[error("not SIP/2.0")]
    Version,
    /// The method is no token.
    #[error("the method is no token")]
    Method,
    /// The request-URI is none, is in brackets or has white space.
    #[error("the request-URI is no URI")]
    Uri,
    /// The request-URI has headers (RFC 3261 §19.1.1).
    #[error("the request-URI has headers")]
    UriHeaders,
    /// A status code outside 100–699.
    #[error("no status code of SIP")]
    Status,
    /// A line of the head is no header field, or ends with CR or LF alone.
    #[error("octet {at}: no header field")]
    Field {
        /// Where the line begins.
        at: usize,
    },
    /// More header fields than the limit.
    #[error("more than {MAX_FIELDS} header fields")]
    Fields,
    /// More values of one header than the limit.
    #[error("more than {MAX_VALUES} values of {}", .0.text())]
    Values(Name),
    /// A header field that must be there.
    #[error("{} is missing", .0.text())]
    Missing(Name),
    /// A header field that may be there once.
    #[error("{} is there more than once", .0.text())]
    Twice(Name),
    /// A value that its header cannot have.
    #[error("{} has no valid value", .0.text())]
    Value(Name),
    /// The body is shorter than it says.
    #[error("the body is shorter than Content-Length")]
    Short,
    /// CSeq names another method than the request, which is one that is known.
    #[error("CSeq names another method")]
    CSeqMethod,
    /// The same of a method that is not known (RFC 4475 §3.1.2.18).
    #[error("CSeq names another method, and neither is known")]
    UnknownMethod,
    /// A branch that is the cookie alone (RFC 4475 §3.2.1).
    #[error("a branch that identifies nothing")]
    Branch,
}

impl Fault {
    /// Status code and reason phrase of the answer, if it is a request.
    pub const fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Version => (505, "Version Not Supported"),
            Self::UnknownMethod => (501, "Not Implemented"),
            Self::Fields | Self::Values(_) => (513, "Message Too Large"),
            _ => (400, "Bad Request"),
        }
    }
}
