//! Messages of nfnetlink: attributes, transactions and listings.

use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, netlink};

use crate::connection::push_attribute;
use crate::error::NetlinkError;
use crate::raw::{self, ANSWER_WITHIN_S, DUMP_ATTEMPTS, RECEIVE_BUFFER_BYTES};

/// `NFNL_SUBSYS_NFTABLES`.
const SUBSYSTEM: u16 = 10;
/// The longest transaction, with what the kernel counts beside it.
const REQUEST_BYTES: usize = 8 << 20;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// A nested attribute says so.
const NESTED: u16 = 0x8000;

/// What is done to which kind of object (`enum nf_tables_msg_types`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    NewTable = 0,
    GetTable = 1,
    DeleteTable = 2,
    NewChain = 3,
    GetChain = 4,
    NewRule = 6,
    GetRule = 7,
    DeleteRule = 8,
    GetElements = 13,
    /// One answer: which change of all tables was the last.
    GetGeneration = 16,
    GetFlowtable = 23,
}

/// Address families of tables (`NFPROTO_…`).
pub(crate) mod family {
    /// All of them, in listings.
    pub(crate) const ANY: u8 = 0;
    /// IPv4 and IPv6 together.
    pub(crate) const INET: u8 = 1;
    pub(crate) const IPV4: u8 = 2;
    /// Of one interface.
    pub(crate) const NETDEV: u8 = 5;
    pub(crate) const IPV6: u8 = 10;
}

/// Attributes, one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<u8>);

impl Attributes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn text(mut self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        push_attribute(&mut self.0, kind, &bytes);
        self
    }

    #[must_use]
    pub(crate) fn number(mut self, kind: u16, value: u32) -> Self {
        push_attribute(&mut self.0, kind, &value.to_be_bytes());
        self
    }

    #[must_use]
    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        push_attribute(&mut self.0, kind, value);
        self
    }

    #[must_use]
    pub(crate) fn nested(mut self, kind: u16, inner: Self) -> Self {
        push_attribute(&mut self.0, kind | NESTED, &inner.0);
        self
    }
}

/// One message of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) verb: Verb,
    pub(crate) family: u8,
    /// Beyond those every message has.
    pub(crate) flags: u16,
    pub(crate) attributes: Attributes,
}

/// A listed object: its family and attributes.
pub(crate) struct Listed<'a> {
    pub(crate) family: u8,
    pub(crate) attributes: &'a [u8],
}

impl<'a> Listed<'a> {
    pub(crate) fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        find(self.attributes, kind)
    }

    pub(crate) fn text(&self, kind: u16) -> Option<&'a str> {
        let bytes = self.attribute(kind)?;
        std::str::from_utf8(bytes.strip_suffix(&[0]).unwrap_or(bytes)).ok()
    }
}

/// The first attribute of a kind among several.
pub(crate) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    each(attributes, kind).next()
}

/// All attributes of a kind among several.
pub(crate) fn each(attributes: &[u8], kind: u16) -> impl Iterator<Item = &[u8]> {
    let all = NlasIterator::new(attributes).map_while(Result::ok);
    all.filter(move |nla| nla.kind() & !NESTED == kind).filter_map(|nla| {
        // The iterator lends; the bytes belong to the message.
        let start = nla.value().as_ptr() as usize - attributes.as_ptr() as usize;
        attributes.get(start..start + nla.value().len())
    })
}

pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// A socket of nfnetlink in the namespace of the thread that opened it. Tables that it owns end with it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
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
        // Rules of many ports are one request. Without the right to exceed the limit there is none to change rules either.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&fd, REQUEST_BYTES);
        rustix::net::bind(&fd, &netlink::SocketAddrNetlink::new(0, 0)).map_err(fail)?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; RECEIVE_BUFFER_BYTES] })
    }

    /// Does all of `messages` or nothing. Only the last one is acknowledged: answers to all of many would not find room. The
    /// first refusal comes before it.
    pub(crate) fn transact(
        &mut self,
        operation: &'static str,
        object: &str,
        messages: &[Message],
    ) -> Result<(), NetlinkError> {
        let subsystem = SUBSYSTEM.to_be_bytes();
        let mut bytes = Vec::new();
        let first = self.sequence.wrapping_add(1);
        push(&mut bytes, (BATCH_BEGIN, NLM_F_REQUEST, first), (0, subsystem), &[]);
        let last = first.wrapping_add(messages.len() as u32);
        for (sequence, message) in (first.wrapping_add(1)..).zip(messages) {
            let kind = SUBSYSTEM << 8 | message.verb as u16;
            let asked = if sequence == last { NLM_F_ACK } else { 0 };
            let flags = NLM_F_REQUEST | asked | message.flags;
            push(&mut bytes, (kind, flags, sequence), (message.family, [0; 2]), &message.attributes.0);
        }
        push(&mut bytes, (BATCH_END, NLM_F_REQUEST, last.wrapping_add(1)), (0, subsystem), &[]);
        self.sequence = last.wrapping_add(1);
        let fail = |e| NetlinkError::os(operation, object, e);
        rustix::net::send(&self.fd, &bytes, SendFlags::empty()).map_err(fail)?;
        let mut done = messages.is_empty();
        while !done {
            let length = raw::receive(self.fd.as_fd(), &mut self.buffer, operation, object)?;
            for frame in raw::frames(&self.buffer[..length]) {
                let mine = frame.sequence.wrapping_sub(first) <= messages.len() as u32 + 1;
                if frame.kind != raw::ERROR || !mine {
                    continue;
                }
                match frame.errno() {
                    0 => done |= frame.sequence == last,
                    // Whatever else is answered: nothing of it holds.
                    errno => return Err(raw::refused(operation, object, errno)),
                }
            }
        }
        Ok(())
    }

    /// Lists all objects of a kind.
    pub(crate) fn list<T>(
        &mut self,
        operation: &'static str,
        verb: Verb,
        read: impl FnMut(&Listed<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        self.list_of(operation, (verb, family::ANY, Attributes::new()), read)
    }

    /// The same of what some attributes name.
    pub(crate) fn list_of<T>(
        &mut self,
        operation: &'static str,
        (verb, family, of): (Verb, u8, Attributes),
        mut read: impl FnMut(&Listed<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            self.sequence = self.sequence.wrapping_add(1);
            let (kind, mut bytes) = (SUBSYSTEM << 8 | verb as u16, Vec::new());
            let flags = if verb == Verb::GetGeneration { NLM_F_ACK } else { NLM_F_DUMP };
            push(&mut bytes, (kind, NLM_F_REQUEST | flags, self.sequence), (family, [0; 2]), &of.0);
            let fail = |e| NetlinkError::os(operation, "", e);
            rustix::net::send(&self.fd, &bytes, SendFlags::empty()).map_err(fail)?;
            let mut rows = Vec::new();
            let each = |body: &[u8]| {
                if let [family, _, _, _, attributes @ ..] = body {
                    rows.extend(read(&Listed { family: *family, attributes }));
                }
            };
            let asked = (operation, self.sequence);
            let (done, interrupted) = raw::read_listing(self.fd.as_fd(), &mut self.buffer, asked, each)?;
            match (done, interrupted) {
                (0, false) => return Ok(rows),
                // EINTR is how this subsystem says that the tables have changed.
                (0 | libc::EINTR, _) => {}
                (errno, _) => return Err(raw::refused(operation, "", errno)),
            }
        }
        Err(NetlinkError::Unstable { operation, attempts: DUMP_ATTEMPTS })
    }
}

/// Appends one message: type, flags and sequence number; family and resource.
fn push(
    bytes: &mut Vec<u8>,
    (kind, flags, sequence): (u16, u16, u32),
    (family, resource): (u8, [u8; 2]),
    attributes: &[u8],
) {
    raw::push_frame(bytes, (kind, flags, sequence), &[&[family, 0, resource[0], resource[1]], attributes]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bypass::tests::namespace_for;
    use netlink_packet_core::NLM_F_CREATE;

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
    fn hundreds_of_messages_are_one_transaction() {
        let Some(namespace) = namespace_for("hundreds_of_messages_are_one_transaction") else { return };
        let mut socket = namespace.run(Socket::open).unwrap().unwrap();
        let table = |n: u32| Message {
            verb: Verb::NewTable,
            family: family::INET,
            flags: NLM_F_CREATE,
            attributes: Attributes::new().text(1, &format!("t{n}")),
        };
        let all: Vec<Message> = (0..3000).map(table).collect();
        socket.transact("make", "tables", &all).unwrap();
        let count = |socket: &mut Socket| {
            socket.list("list", Verb::GetTable, |table| table.text(1).map(|_| ())).unwrap().len()
        };
        assert_eq!(count(&mut socket), 3000);
        // The first that is refused ends it, and nothing of it holds.
        let mut again: Vec<Message> = (3000..4000).map(table).collect();
        again[500].flags = NLM_F_CREATE | netlink_packet_core::NLM_F_EXCL;
        again[500].attributes = Attributes::new().text(1, "t7");
        assert!(socket.transact("make", "tables", &again).unwrap_err().is_taken());
        assert_eq!(count(&mut socket), 3000);
        socket.transact("make", "tables", &[table(3000)]).unwrap();
        assert_eq!(count(&mut socket), 3001);
    }
}
