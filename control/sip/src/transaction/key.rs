//! By what a message finds its transaction.

use crate::message::{COOKIE, Head, Method, Via};

/// What identifies a transaction (RFC 3261 §17.1.3, §17.2.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(Box<[u8]>);

impl Key {
    /// Of the client transaction whose responses have this first Via and this method in CSeq.
    pub fn client(branch: &[u8], method: &[u8]) -> Self {
        Self([branch, b" ", method].concat().into())
    }

    /// Of the server transaction that a request belongs to; of an ACK that of its INVITE.
    pub fn server(head: &Head<'_>) -> Self {
        let method = if head.method == Method::Ack { b"INVITE" } else { head.method_text };
        Self::of(head, method)
    }

    /// Of the INVITE that a CANCEL is for (§9.2).
    pub fn cancelled(head: &Head<'_>) -> Self {
        Self::of(head, b"INVITE")
    }

    fn of(head: &Head<'_>, method: &[u8]) -> Self {
        let via = &head.via;
        match via.branch() {
            Some(branch) if is_unique(via) => {
                let port = via.port.unwrap_or(0).to_be_bytes();
                Self([branch, b" ", &via.host.to_ascii_lowercase(), &port, b" ", method].concat().into())
            }
            branch => {
                // RFC 2543: what all messages of a transaction have in common. The tag of To is left out: an ACK has it and its
                // INVITE has not, and a later INVITE of the call has another number.
                let uri = head.uri.map(|uri| uri.text).unwrap_or_default();
                let tag = head.from.tag().unwrap_or_default();
                let number = head.cseq.to_be_bytes();
                let parts = [b"\0", uri, b"\0", tag, b"\0", head.call_id, &number, via.host, b"\0"];
                Self([&parts.concat(), branch.unwrap_or_default(), b" ", method].concat().into())
            }
        }
    }
}

/// Whether the branch is one that is never used again.
fn is_unique(via: &Via<'_>) -> bool {
    via.branch().is_some_and(|branch| branch.len() > COOKIE.len() && branch.starts_with(COOKIE))
}
