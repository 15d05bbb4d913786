//! The socket of a queue.

use super::message::{Message, read};
use super::{ACKNOWLEDGE, CONFIG, HEADER, MOST_PACKET, REQUEST, Verdicts, attribute, begin, end};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use thiserror::Error;

/// Datagrams taken at once.
const AT_ONCE: usize = 32;
/// Bytes of a datagram: a packet and what is said about it.
const SLOT: usize = MOST_PACKET.next_multiple_of(1_024) + 1_024;
/// How long the kernel may take to answer a request; it does so at once.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Most verdicts and one packet.
const SEND_BUFFER: usize = 1 << 20;

/// Attributes of a configuration.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const LENGTH: u16 = 3;
const MASK: u16 = 4;
const FLAGS: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;
const WHOLE_SEGMENTS: u32 = 4;

/// A queue to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfqueueConfig {
    /// Its number, as in the rule.
    pub queue: u16,
    /// Packets that wait in it at most; those beyond pass.
    pub length: u32,
    /// Bytes of memory of the socket; what does not fit passes.
    pub memory: usize,
}

impl NfqueueConfig {
    /// Queue `queue` with 4,096 packets and 16 MiB.
    pub const fn new(queue: u16) -> Self {
        Self { queue, length: 4_096, memory: 16 << 20 }
    }
}

/// Why a queue cannot be opened.
#[derive(Debug, Error)]
pub enum NfqueueError {
    /// The kernel has no netlink socket of the packet filter.
    #[error(
        "this kernel has no packet filter to ask ({0}): it needs CONFIG_NETFILTER and CONFIG_NETFILTER_NETLINK"
    )]
    NoPacketFilter(io::Error),
    /// The kernel has no such queues.
    #[error(
        "this kernel has no packet queues: it needs CONFIG_NETFILTER_NETLINK_QUEUE (module nfnetlink_queue)"
    )]
    NoQueues,
    /// Another program has the queue, or rights are missing: the kernel says the same of both.
    #[error(
        "queue {queue} may not be opened: another program has it, or CAP_NET_ADMIN is missing. Run as root, or choose another \
         queue"
    )]
    Refused {
        /// Its number.
        queue: u16,
    },
    /// The queue cannot do what is needed.
    #[error("queue {queue}: {what}: {source}")]
    Failed {
        /// Its number.
        queue: u16,
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Datagrams of the kernel.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    lengths: [usize; AT_ONCE],
    filled: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbox {
    /// Empty. Takes 2 MiB, of which those pages are used that packets need.
    pub fn new() -> Self {
        Self { buffer: vec![0; AT_ONCE * SLOT], lengths: [0; AT_ONCE], filled: 0 }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Datagram `index`, empty if there is none.
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        let len = if index < self.filled { self.lengths[index] } else { 0 };
        self.buffer.get_mut(index * SLOT..).map_or(&mut [], |slot| &mut slot[..len])
    }
}

/// An open queue of the calling thread's network namespace. Closing it gives its packets up; those that come later pass if
/// the rule says `--queue-bypass`.
#[derive(Debug)]
pub struct Nfqueue {
    fd: OwnedFd,
    queue: u16,
    sequence: u32,
}

impl Nfqueue {
    /// Opens a queue: whole packets, large segments as one, and when it is full packets pass.
    ///
    /// # Errors
    /// See [`NfqueueError`].
    pub fn open(config: &NfqueueConfig) -> Result<Self, NfqueueError> {
        let queue = config.queue;
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::NETFILTER),
        )
        .map_err(|e| NfqueueError::NoPacketFilter(e.into()))?;
        let failed = |what| move |e: Errno| NfqueueError::Failed { queue, what, source: e.into() };
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0)).map_err(failed("its socket has no address"))?;
        // As much as is allowed; the queue works with less.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, config.memory).is_err() {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&fd, config.memory);
        }
        if rustix::net::sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER).is_err() {
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        }
        keep_going_when_full(&fd).map_err(|source| {
            let what = "its socket would stop when it is full";
            NfqueueError::Failed { queue, what, source }
        })?;
        let mut open = Self { fd, queue, sequence: 0 };
        // The family has no meaning since Linux 3.8.
        open.configure(&[(COMMAND, &[BIND, 0, 0, 0])]).map_err(|e| match e {
            Errno::PERM | Errno::BUSY => NfqueueError::Refused { queue },
            Errno::INVAL | Errno::OPNOTSUPP => NfqueueError::NoQueues,
            other => failed("cannot be bound")(other),
        })?;
        let range = (MOST_PACKET as u32).to_be_bytes();
        let parameters = [range[0], range[1], range[2], range[3], COPY_PACKET];
        let flags = (FAIL_OPEN | WHOLE_SEGMENTS).to_be_bytes();
        open.configure(&[
            (PARAMETERS, &parameters),
            (LENGTH, &config.length.to_be_bytes()),
            (MASK, &flags),
            (FLAGS, &flags),
        ])
        .map_err(failed("cannot copy packets and let them pass when it is full (Linux 3.10)"))?;
        Ok(open)
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.queue
    }

    /// Fills `inbox` with what has come, without waiting; how many datagrams.
    ///
    /// # Errors
    /// The socket's. That it was full is none: the packets have passed, and numbers are missing.
    pub fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        inbox.filled = 0;
        loop {
            match receive_many(&self.fd, inbox) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                other => return other,
            }
        }
    }

    /// Sends what is gathered.
    ///
    /// # Errors
    /// The socket's. Verdicts for packets that are not there any more are answered, not refused here.
    pub fn send(&self, verdicts: &mut Verdicts) -> io::Result<()> {
        let messages = verdicts.messages();
        if messages.is_empty() {
            return Ok(());
        }
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, messages, SendFlags::empty()));
        verdicts.clear();
        sent.map(drop).map_err(io::Error::from)
    }

    /// Sends a configuration and waits for the answer. Packets that come in between are dropped with the socket, which is
    /// not in use yet.
    fn configure(&mut self, attributes: &[(u16, &[u8])]) -> Result<(), Errno> {
        self.sequence += 1;
        let mut out = Vec::with_capacity(HEADER + 16 * attributes.len());
        let at = begin(&mut out, CONFIG, REQUEST | ACKNOWLEDGE, self.sequence, self.queue);
        for (kind, value) in attributes {
            attribute(&mut out, *kind, &[value]);
        }
        end(&mut out, at);
        rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, &out, SendFlags::empty()))?;
        let mut buffer = [0; 4_096];
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&PATIENCE)))? == 0 {
                return Err(Errno::TIMEDOUT);
            }
            let (len, _) =
                rustix::io::retry_on_intr(|| rustix::net::recv(&self.fd, &mut buffer, RecvFlags::empty()))?;
            let mut at = 0;
            while let Ok(Some((message, next))) = read(&buffer[..len], at) {
                match message {
                    Message::Answer { sequence, error } if sequence == self.sequence => {
                        return if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) };
                    }
                    _ => at = next,
                }
            }
        }
    }
}

impl AsFd for Nfqueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Otherwise a socket that was full once takes nothing until it was read to its end.
fn keep_going_when_full(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length are those of `on`, which the call only reads.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_NO_ENOBUFS,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// As many datagrams as there are and have room.
fn receive_many(fd: &OwnedFd, inbox: &mut Inbox) -> io::Result<usize> {
    let mut slots = inbox.buffer.chunks_exact_mut(SLOT);
    let mut parts: [libc::iovec; AT_ONCE] = std::array::from_fn(|_| {
        let slot = slots.next().expect("the buffer has a slot for each datagram");
        libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() }
    });
    // SAFETY: the structure consists of integers and pointers, for which zeros are values.
    let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `headers` has AT_ONCE entries; each names one part, a slot of the buffer of its own, and all of them
    // live and are not used otherwise until the call returns. Without a name and control data nothing else is written.
    let count = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            AT_ONCE as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    for (length, header) in inbox.lengths.iter_mut().zip(&headers).take(count) {
        *length = (header.msg_len as usize).min(SLOT);
    }
    inbox.filled = count;
    Ok(count)
}
