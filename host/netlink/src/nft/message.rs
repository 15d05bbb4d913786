//! Messages of nfnetlink: attributes, transactions and listings.

use std::os::fd::OwnedFd;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NlasIterator};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::connection::push_attribute;
use crate::error::NetlinkError;

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `struct nlmsghdr` and `struct nfgenmsg`.
const HEADERS: usize = 16 + 4;
/// A nested attribute says so.
const NESTED: u16 = 0x8000;
/// Rule sets change under their readers: a listing is repeated this often.
const DUMP_ATTEMPTS: u32 = 16;
/// nf_tables answers inside the system call; this bounds only a broken kernel.
const ANSWER_WITHIN_S: u64 = 10;
/// The kernel fills dump buffers of at most 32 KiB.
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

/// What is done to which kind of object (`enum nf_tables_msg_types`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    NewTable = 0,
    GetTable = 1,
    DeleteTable = 2,
    NewChain = 3,
    GetChain = 4,
    NewRule = 6,
    GetRule = 7,
    DeleteRule = 8,
}

/// Address families of tables (`NFPROTO_…`).
pub(super) mod family {
    /// All of them, in listings.
    pub(in crate::nft) const ANY: u8 = 0;
    /// IPv4 and IPv6 together.
    pub(in crate::nft) const INET: u8 = 1;
    pub(in crate::nft) const IPV4: u8 = 2;
    /// Of one interface.
    pub(in crate::nft) const NETDEV: u8 = 5;
    pub(in crate::nft) const IPV6: u8 = 10;
}

/// Attributes, one behind the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(super) fn text(mut self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        push_attribute(&mut self.0, kind, &bytes);
        self
    }

    #[must_use]
    pub(super) fn number(mut self, kind: u16, value: u32) -> Self {
        push_attribute(&mut self.0, kind, &value.to_be_bytes());
        self
    }

    #[must_use]
    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        push_attribute(&mut self.0, kind, value);
        self
    }

    #[must_use]
    pub(super) fn nested(mut self, kind: u16, inner: Self) -> Self {
        push_attribute(&mut self.0, kind | NESTED, &inner.0);
        self
    }
}

/// One message of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) verb: Verb,
    pub(super) family: u8,
    /// Beyond those every message has.
    pub(super) flags: u16,
    pub(super) attributes: Attributes,
}

/// A listed object: its family and attributes.
pub(super) struct Listed<'a> {
    pub(super) family: u8,
    attributes: &'a [u8],
}

impl<'a> Listed<'a> {
    pub(super) fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        find(self.attributes, kind)
    }

    pub(super) fn text(&self, kind: u16) -> Option<&'a str> {
        let bytes = self.attribute(kind)?;
        std::str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes)).ok()
    }
}

/// The first attribute of a kind among several.
pub(super) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    let found = all.find(|nla| nla.kind() & !NESTED == kind)?;
    // The iterator lends; the bytes belong to the message.
    let start = found.value().as_ptr() as usize - attributes.as_ptr() as usize;
    attributes.get(start..start + found.value().len())
}

pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// A socket of nfnetlink in the namespace of the thread that opened it. Tables that it owns end with it.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let fail = |e| NetlinkError::os("open a socket of the packet filter", "", e);
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::NETFILTER),
        )
        .map_err(fail)?;
        rustix::net::sockopt::set_socket_timeout(
            &fd,
            rustix::net::sockopt::Timeout::Recv,
            Some(std::time::Duration::from_secs(ANSWER_WITHIN_S)),
        )
        .map_err(fail)?;
        rustix::net::bind(&fd, &netlink::SocketAddrNetlink::new(0, 0)).map_err(fail)?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; RECEIVE_BUFFER_BYTES] })
    }

    /// Does all of `messages` or nothing.
    pub(super) fn transact(
        &mut self,
        operation: &'static str,
        object: &str,
        messages: &[Message],
    ) -> Result<(), NetlinkError> {
        let subsystem = SUBSYSTEM.to_be_bytes();
        let mut bytes = Vec::new();
        let first = self.sequence.wrapping_add(1);
        push(&mut bytes, (BATCH_BEGIN, NLM_F_REQUEST, first), (0, subsystem), &[]);
        for (sequence, message) in (first.wrapping_add(1)..).zip(messages) {
            let kind = SUBSYSTEM << 8 | message.verb as u16;
            let flags = NLM_F_REQUEST | NLM_F_ACK | message.flags;
            push(&mut bytes, (kind, flags, sequence), (message.family, [0; 2]), &message.attributes.0);
        }
        let last = first.wrapping_add(messages.len() as u32);
        push(&mut bytes, (BATCH_END, NLM_F_REQUEST, last.wrapping_add(1)), (0, subsystem), &[]);
        self.sequence = last.wrapping_add(1);
        let fail = |e| NetlinkError::os(operation, object, e);
        rustix::net::send(&self.fd, &bytes, SendFlags::empty()).map_err(fail)?;
        let mut answered = 0;
        while answered < messages.len() {
            let length = self.receive(operation, object)?;
            for (kind, _, sequence, body) in frames(&self.buffer[..length]) {
                let mine = sequence.wrapping_sub(first) <= messages.len() as u32 + 1;
                if kind != NLMSG_ERROR || !mine {
                    continue;
                }
                match error_of(body) {
                    0 => answered += 1,
                    // The answers to the other messages are of no interest: none of them holds.
                    errno => return Err(refused(operation, object, errno)),
                }
            }
        }
        Ok(())
    }

    /// Lists all objects of a kind.
    pub(super) fn list<T>(
        &mut self,
        operation: &'static str,
        verb: Verb,
        mut read: impl FnMut(&Listed<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            self.sequence = self.sequence.wrapping_add(1);
            let (kind, mut bytes) = (SUBSYSTEM << 8 | verb as u16, Vec::new());
            push(&mut bytes, (kind, NLM_F_REQUEST | NLM_F_DUMP, self.sequence), (family::ANY, [0; 2]), &[]);
            let fail = |e| NetlinkError::os(operation, "", e);
            rustix::net::send(&self.fd, &bytes, SendFlags::empty()).map_err(fail)?;
            let (mut rows, mut interrupted) = (Vec::new(), false);
            let done = loop {
                let length = self.receive(operation, "")?;
                let mut end = None;
                for (kind, flags, sequence, body) in frames(&self.buffer[..length]) {
                    if sequence != self.sequence {
                        continue;
                    }
                    interrupted |= flags & NLM_F_DUMP_INTR != 0;
                    match (kind, body) {
                        (NLMSG_DONE, _) => end = Some(0),
                        (NLMSG_ERROR, body) => end = Some(error_of(body)),
                        (_, [family, _, _, _, attributes @ ..]) => {
                            rows.extend(read(&Listed { family: *family, attributes }));
                        }
                        _ => {}
                    }
                }
                if let Some(end) = end {
                    break end;
                }
            };
            match (done, interrupted) {
                (0, false) => return Ok(rows),
                // EINTR is how this subsystem says that the tables have changed.
                (0 | libc::EINTR, _) => {}
                (errno, _) => return Err(refused(operation, "", errno)),
            }
        }
        Err(NetlinkError::Unstable { operation, attempts: DUMP_ATTEMPTS })
    }

    fn receive(&mut self, operation: &'static str, object: &str) -> Result<usize, NetlinkError> {
        loop {
            match rustix::net::recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => return Ok(length),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let (object, waited_s) = (object.into(), ANSWER_WITHIN_S);
                    return Err(NetlinkError::NoAnswer { operation, object, waited_s });
                }
                Err(error) => return Err(NetlinkError::os(operation, object, error)),
            }
        }
    }
}

fn refused(operation: &'static str, object: &str, errno: i32) -> NetlinkError {
    NetlinkError::Kernel { operation, object: object.into(), errno, detail: String::new() }
}

/// The positive errno of an answer, 0 if all is well.
fn error_of(body: &[u8]) -> i32 {
    body.first_chunk::<4>().map_or(libc::EBADMSG, |code| i32::from_ne_bytes(*code).wrapping_neg())
}

/// Appends one message: type, flags and sequence number; family and resource.
fn push(
    bytes: &mut Vec<u8>,
    (kind, flags, sequence): (u16, u16, u32),
    (family, resource): (u8, [u8; 2]),
    attributes: &[u8],
) {
    // Rules are some hundred bytes long.
    bytes.extend(((HEADERS + attributes.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0, resource[0], resource[1]]);
    bytes.extend(attributes);
}

/// Type, flags, sequence number and body of each message of a datagram.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<16>()?;
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let length = (word(0) as usize).clamp(16, bytes.len());
        let body = &bytes[16..length];
        let frame = (half(4), half(6), word(8), body);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_each_other() {
        let inner = Attributes::new().number(1, 7).text(2, "raw");
        let bytes = Attributes::new().text(1, "a").nested(4, inner).0;
        let hook = find(&bytes, 4).expect("the nested one");
        assert_eq!(find(hook, 1).and_then(number), Some(7));
        assert_eq!(find(hook, 2), Some(&b"raw\0"[..]));
        assert_eq!((find(&bytes, 5), find(&bytes[..3], 1)), (None, None), "short input is no panic");
    }

    #[test]
    fn messages_of_a_datagram_are_told_apart() {
        let mut bytes = Vec::new();
        push(&mut bytes, (NLMSG_ERROR, 0, 3), (0, [0; 2]), &[]);
        push(&mut bytes, (NLMSG_DONE, NLM_F_DUMP_INTR, 4), (0, [0; 2]), &[1, 2, 3, 4]);
        let seen: Vec<_> =
            frames(&bytes).map(|(kind, flags, sequence, body)| (kind, flags, sequence, body.len())).collect();
        assert_eq!(seen, [(NLMSG_ERROR, 0, 3, 4), (NLMSG_DONE, NLM_F_DUMP_INTR, 4, 8)]);
        assert_eq!(frames(&bytes[..10]).count(), 0, "short input is no panic");
    }
}
