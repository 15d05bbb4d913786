//! One blocking connection to rtnetlink, and the rules of its conversation:
//! sequence numbers, acknowledgements, dumps, extended error texts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::error::NetlinkError;
use crate::ethtool::Control;
use crate::nexthop;
use crate::raw::{self, ANSWER_WITHIN_S, DUMP_ATTEMPTS, RECEIVE_BUFFER_BYTES};

/// `NLMSGERR_ATTR_MSG`: the kernel's sentence in an extended acknowledgement.
const ERROR_ATTRIBUTE_TEXT: u16 = 1;

/// A connection to the kernel's network configuration in one namespace.
///
/// It belongs for ever to the namespace it was opened in and may be used from
/// any thread; requests of several threads take turns.
#[derive(Debug)]
pub struct Netlink {
    socket: Mutex<RouteSocket>,
    control: Control,
}

impl Netlink {
    /// Connects in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when no socket can be made.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Mutex::new(RouteSocket::open(0)?), control: Control::open()? })
    }

    /// The socket for device controls, in the same namespace.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    fn socket(&self) -> MutexGuard<'_, RouteSocket> {
        // A panic between two system calls leaves at most unread answers,
        // which the sequence number tells apart.
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request and waits for its acknowledgement. `flags` are added
    /// to `NLM_F_REQUEST | NLM_F_ACK`.
    pub(crate) fn request(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        self.socket().exchange(operation, object, message, flags | NLM_F_ACK, |_| ()).map(drop)
    }

    /// Sends requests in one datagram: what the kernel said to each, 0 or a positive errno. `messages`: kind, flags beside
    /// `NLM_F_REQUEST | NLM_F_ACK`, body.
    pub(crate) fn send_batch(
        &self,
        operation: &'static str,
        messages: &[(u16, u16, Vec<u8>)],
    ) -> Result<Vec<i32>, NetlinkError> {
        self.socket().send_batch(operation, messages)
    }

    /// Asks for one object, without a dump.
    pub(crate) fn query<T>(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        mut read: impl FnMut(RouteNetlinkMessage) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let mut found = None;
        self.socket().exchange(operation, object, message, NLM_F_ACK, |m| {
            found = found.take().or_else(|| read(m));
        })?;
        Ok(found)
    }

    /// Lists a table. A listing that the kernel marks as interrupted by a
    /// change is repeated, so the result is one consistent state.
    pub(crate) fn dump<T>(
        &self,
        operation: &'static str,
        object: &str,
        message: &RouteNetlinkMessage,
        mut read: impl FnMut(RouteNetlinkMessage) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut socket = self.socket();
        for _ in 0..DUMP_ATTEMPTS {
            let mut rows = Vec::new();
            let interrupted = socket.exchange(operation, object, message.clone(), NLM_F_DUMP, |m| {
                rows.extend(read(m));
            })?;
            if !interrupted {
                return Ok(rows);
            }
        }
        Err(NetlinkError::Unstable { operation, attempts: DUMP_ATTEMPTS })
    }

    /// Lists what the library has no layout for; the last listing that was not interrupted counts.
    pub(crate) fn dump_raw<T: Default>(
        &self,
        operation: &'static str,
        kind: u16,
        body: &[u8],
        each: impl Fn(&mut T, &[u8]),
    ) -> Result<T, NetlinkError> {
        let mut socket = self.socket();
        for _ in 0..DUMP_ATTEMPTS {
            let mut all = T::default();
            if !socket.list_raw(operation, kind, body, |message| each(&mut all, message))? {
                return Ok(all);
            }
        }
        Err(NetlinkError::Unstable { operation, attempts: DUMP_ATTEMPTS })
    }
}

/// The socket with its buffer and sequence counter.
#[derive(Debug)]
pub(crate) struct RouteSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl RouteSocket {
    /// Opens a socket in the calling thread's namespace that also receives the
    /// multicast `groups` (bit n−1 is group n, as in `sockaddr_nl`).
    pub(crate) fn open(groups: u32) -> Result<Self, NetlinkError> {
        let fail = |e| NetlinkError::os("open a netlink socket", "", e);
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 is NETLINK_ROUTE.
            None,
        )
        .map_err(fail)?;
        // Both options only add detail (an error sentence, no echo of the
        // request), so a kernel without them is no failure.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let _ = set_netlink_option(fd.as_fd(), option);
        }
        rustix::net::sockopt::set_socket_timeout(
            &fd,
            rustix::net::sockopt::Timeout::Recv,
            Some(std::time::Duration::from_secs(ANSWER_WITHIN_S)),
        )
        .map_err(fail)?;
        rustix::net::bind(&fd, &netlink::SocketAddrNetlink::new(0, groups)).map_err(fail)?;
        Ok(Self { fd, buffer: vec![0; RECEIVE_BUFFER_BYTES], sequence: 0 })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Receives one datagram and hands each readable message to `each`; of next-hop objects `next_hops` hears only.
    /// Returns how many messages could not be read.
    pub(crate) fn receive(
        &mut self,
        flags: RecvFlags,
        mut each: impl FnMut(NetlinkMessage<RouteNetlinkMessage>),
        mut next_hops: impl FnMut(),
    ) -> Result<u32, rustix::io::Errno> {
        let length = loop {
            match rustix::net::recv(&self.fd, self.buffer.as_mut_slice(), flags) {
                Ok((length, _)) => break length,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        };
        let mut unreadable = 0;
        for frame in raw::frames(&self.buffer[..length]) {
            let kind = frame.kind;
            if nexthop::MESSAGES.contains(&kind) {
                next_hops();
                continue;
            }
            let read = NetlinkMessage::deserialize(frame.whole).or_else(|error| {
                essential(frame.whole).ok_or(error).and_then(|m| NetlinkMessage::deserialize(&m))
            });
            match read {
                Ok(message) => each(message),
                Err(error) => {
                    tracing::warn!(kind, %error, "unreadable netlink message");
                    unreadable += 1;
                }
            }
        }
        Ok(unreadable)
    }

    /// Lists objects that the library does not know: `each` gets their messages without the netlink header.
    fn list_raw(
        &mut self,
        operation: &'static str,
        kind: u16,
        body: &[u8],
        each: impl FnMut(&[u8]),
    ) -> Result<bool, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::new();
        raw::push_frame(&mut request, (kind, NLM_F_REQUEST | NLM_F_DUMP, self.sequence), &[body]);
        let fail = |e| NetlinkError::os(operation, "", e);
        rustix::net::send(&self.fd, &request, SendFlags::empty()).map_err(fail)?;
        let asked = (operation, self.sequence);
        match raw::read_listing(self.fd.as_fd(), &mut self.buffer, asked, each)? {
            (0, interrupted) => Ok(interrupted),
            (errno, _) => Err(raw::refused(operation, "", errno)),
        }
    }

    /// See [`Netlink::send_batch`].
    fn send_batch(
        &mut self,
        operation: &'static str,
        messages: &[(u16, u16, Vec<u8>)],
    ) -> Result<Vec<i32>, NetlinkError> {
        let first = self.sequence.wrapping_add(1);
        let mut request = Vec::new();
        for (kind, flags, body) in messages {
            self.sequence = self.sequence.wrapping_add(1);
            let flags = flags | NLM_F_REQUEST | NLM_F_ACK;
            raw::push_frame(&mut request, (*kind, flags, self.sequence), &[body]);
        }
        let fail = |e| NetlinkError::os(operation, "", e);
        rustix::net::send(&self.fd, &request, SendFlags::empty()).map_err(fail)?;
        let mut said: Vec<Option<i32>> = vec![None; messages.len()];
        while said.contains(&None) {
            let length = raw::receive(self.fd.as_fd(), &mut self.buffer, operation, "")?;
            for frame in raw::frames(&self.buffer[..length]).filter(|frame| frame.kind == raw::ERROR) {
                let at = frame.sequence.wrapping_sub(first) as usize;
                if let Some(place) = said.get_mut(at) {
                    *place = Some(frame.errno());
                }
            }
        }
        Ok(said.into_iter().flatten().collect())
    }

    /// Sends one request and returns its sequence number.
    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<u32, rustix::io::Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        rustix::net::send(&self.fd, &bytes, SendFlags::empty())?;
        Ok(self.sequence)
    }

    /// One request and all its answers; true if a dump was interrupted.
    fn exchange(
        &mut self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<bool, NetlinkError> {
        let sequence =
            self.send(message, NLM_F_REQUEST | flags).map_err(|e| NetlinkError::os(operation, object, e))?;
        let mut interrupted = false;
        loop {
            let mut end = None;
            let answered = |answer: NetlinkMessage<RouteNetlinkMessage>| {
                if answer.header.sequence_number != sequence || end.is_some() {
                    return;
                }
                interrupted |= answer.header.flags & NLM_F_DUMP_INTR != 0;
                match answer.payload {
                    NetlinkPayload::InnerMessage(inner) => each(inner),
                    NetlinkPayload::Error(error) => {
                        let code = -error.raw_code();
                        end = Some((code, error_text(&error.header, answer.header.flags)));
                    }
                    NetlinkPayload::Done(done) => end = Some((-done.code, String::new())),
                    _ => {}
                }
            };
            let received = self.receive(RecvFlags::empty(), answered, || ());
            let unreadable = match received {
                Err(rustix::io::Errno::AGAIN) => {
                    return Err(NetlinkError::NoAnswer {
                        operation,
                        object: object.into(),
                        waited_s: ANSWER_WITHIN_S,
                    });
                }
                other => other.map_err(|e| NetlinkError::os(operation, object, e))?,
            };
            if unreadable > 0 {
                // An incomplete list must not pass for a complete one.
                return Err(NetlinkError::Decode {
                    operation,
                    reason: format!("{unreadable} messages of unknown layout"),
                });
            }
            match end {
                None => {}
                Some((0, _)) => return Ok(interrupted),
                Some((errno, detail)) => {
                    return Err(NetlinkError::Kernel { operation, object: object.into(), errno, detail });
                }
            }
        }
    }
}

/// The message with only the attributes that this crate needs. Drivers and
/// new kernels send attributes whose layout the library does not know; one of
/// those must not hide a link or a route.
fn essential(message: &[u8]) -> Option<Vec<u8>> {
    let kind = raw::frames(message).next()?.kind;
    // Numbers from linux/rtnetlink.h, if_link.h, if_addr.h, neighbour.h.
    let (header, kinds): (usize, &[u16]) = match kind {
        // Link: address, name, MTU, lower link, controller, state, its namespace.
        libc::RTM_NEWLINK | libc::RTM_DELLINK => (16, &[1, 3, 4, 5, 10, 16, 37]),
        // Address: address, local, flags.
        libc::RTM_NEWADDR | libc::RTM_DELADDR => (8, &[1, 2, 8]),
        // Route: destination, source, interface, gateway, metric, source hint, metrics, multipath, table, via, kind of
        // encapsulation, next-hop object.
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => (12, &[1, 2, 4, 5, 6, 7, 8, 9, 15, 18, 21, 30]),
        // Neighbour: destination, link-layer address.
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => (12, &[1, 2]),
        _ => return None,
    };
    let start = raw::HEADER + header;
    let mut kept = message.get(..start)?.to_vec();
    for nla in NlasIterator::new(message.get(start..)?).map_while(Result::ok) {
        if kinds.contains(&nla.kind()) {
            push_attribute(&mut kept, nla.kind(), nla.value());
        }
    }
    let length = u32::try_from(kept.len()).ok()?;
    kept[..4].copy_from_slice(&length.to_ne_bytes());
    Some(kept)
}

/// Appends one attribute with its padding (netlink(7)).
pub(crate) fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Values come from one message or are small structures: below 16 bits.
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The kernel's sentence in an error message: after the echoed header (and the
/// whole echoed request unless capped) follow attributes, if flagged.
fn error_text(echo: &[u8], flags: u16) -> String {
    if flags & NLM_F_ACK_TLVS == 0 || echo.len() < raw::HEADER {
        return String::new();
    }
    let echoed = u32::from_ne_bytes([echo[0], echo[1], echo[2], echo[3]]) as usize;
    let skip = if flags & NLM_F_CAPPED != 0 { raw::HEADER } else { echoed.next_multiple_of(4) };
    let attributes = echo.get(skip..).unwrap_or_default();
    NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == ERROR_ATTRIBUTE_TEXT)
        .map(|nla| String::from_utf8_lossy(nla.value()).trim_end_matches('\0').to_owned())
        .unwrap_or_default()
}

/// Switches a boolean option of `SOL_NETLINK` on.
fn set_netlink_option(fd: BorrowedFd<'_>, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `on`, which lives across the
    // call; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_NETLINK,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_acknowledgement_yields_its_sentence() {
        let mut echo = vec![0u8; 16];
        echo[..4].copy_from_slice(&36u32.to_ne_bytes());
        let text = b"Invalid rate\0";
        echo.extend(((4 + text.len()) as u16).to_ne_bytes());
        echo.extend(ERROR_ATTRIBUTE_TEXT.to_ne_bytes());
        echo.extend(text);
        echo.extend([0; 3]);
        assert_eq!(error_text(&echo, NLM_F_ACK_TLVS | NLM_F_CAPPED), "Invalid rate");
        assert_eq!(error_text(&echo, 0), "");
        assert_eq!(error_text(&echo[..8], NLM_F_ACK_TLVS), "", "short input is no panic");
        assert_eq!(error_text(&echo, NLM_F_ACK_TLVS), "", "uncapped: the echo is longer");
    }

    #[test]
    fn an_attribute_of_unknown_layout_does_not_hide_its_link() {
        let mut message = vec![0; 32];
        message[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        message[20..24].copy_from_slice(&7u32.to_ne_bytes());
        push_attribute(&mut message, 3, b"eth7\0");
        push_attribute(&mut message, 4, &[1, 2]);
        let bad_mtu = message.len() as u32;
        message[..4].copy_from_slice(&bad_mtu.to_ne_bytes());
        let read = |bytes: &[u8]| NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes);
        assert!(read(&message).is_err(), "an MTU has four bytes");
        assert!(read(&essential(&message).unwrap()).is_err(), "and is needed");

        message.truncate(44);
        // IFLA_OPERSTATE is needed, IFLA_MAP (14) is not.
        push_attribute(&mut message, 14, &[1, 2]);
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        assert!(read(&message).is_err(), "a map is longer");
        let message = read(&essential(&message).unwrap()).unwrap();
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload else {
            panic!("not a link");
        };
        let link = crate::LinkInfo::from_message(&link).unwrap();
        assert_eq!((link.index, link.name.as_str()), (7, "eth7"));
        assert_eq!(essential(&[0; 10]), None, "short input is no panic");
    }

    #[test]
    fn connections_may_be_shared_and_moved_between_threads() {
        fn shared<T: Send + Sync>() {}
        fn moved<T: Send>() {}
        shared::<Netlink>();
        shared::<crate::Namespace>();
        moved::<crate::Monitor>();
        moved::<crate::Mirror>();
    }
}
