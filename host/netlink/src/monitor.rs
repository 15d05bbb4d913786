//! Live changes of links, addresses, routes and neighbours.
//!
//! Open the monitor *before* reading the tables: what changes in between is
//! then seen twice instead of never.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_APPEND, NLM_F_REPLACE, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, sockopt};

use crate::address::InterfaceAddress;
use crate::connection::RouteSocket;
use crate::error::NetlinkError;
use crate::link::LinkInfo;
use crate::namespace::Namespace;
use crate::neighbour::Neighbour;
use crate::route::FibRoute;

/// `RTNLGRP_*` as bits of `sockaddr_nl.nl_groups`: link, neighbour, addresses, routes and rules
/// of both IP versions, next-hop objects.
const GROUPS: u32 = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18 | 1 << 31;
/// Room for bursts (a routing daemon's table) before the kernel drops updates.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Whether an object was added (or changed) or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Added, or changed in place.
    Set,
    /// Deleted.
    Deleted,
}

/// What became of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteChange {
    /// Added, before those it equals in destination, type of service and metric.
    Added,
    /// Added behind them.
    Appended,
    /// Put in the place of the first of them.
    Replaced,
    /// Deleted.
    Deleted,
}

/// One change in the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// A link is new or has changed: up, down, carrier, name, MTU, address.
    Link(LinkInfo),
    /// A link was deleted or has left the namespace: index and name.
    LinkGone(u32, String),
    /// A route changed. The kernel is silent about IPv4 routes that disappear
    /// because a link went down or an address was deleted: list the routes
    /// again after those, as [`crate::Mirror`] does.
    Route(RouteChange, FibRoute),
    /// Some policy rule changed: list them again.
    Rules,
    /// Some next-hop object changed: list them again, and the routes, which the kernel takes away in silence.
    NextHops,
    /// A neighbour entry changed.
    Neighbour(Change, Neighbour),
    /// An address changed.
    Address(Change, InterfaceAddress),
    /// Updates were lost (the reader was too slow, or one was unreadable):
    /// list the tables again.
    Overrun,
}

/// A subscription to the changes of one namespace. It belongs to the namespace
/// it was opened in; the thread that reads it may be anywhere.
#[derive(Debug)]
pub struct Monitor {
    socket: RouteSocket,
    /// Updates read from the socket, oldest last.
    pending: Vec<Update>,
}

impl Monitor {
    /// Subscribes in the calling thread's namespace.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when no socket can be made.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = RouteSocket::open(GROUPS)?;
        let monitor = Self { socket, pending: Vec::new() };
        monitor.set_buffer(SOCKET_BUFFER_BYTES)?;
        Ok(monitor)
    }

    /// Sets how many bytes of updates may wait in the kernel (8 MiB at the
    /// start); beyond them comes [`Update::Overrun`]. The kernel doubles the
    /// number for its own records, and without rights over the machine it cuts
    /// it to `net.core.rmem_max`: either only moves the point of overrun.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when the socket takes no size at all.
    pub fn set_buffer(&self, bytes: usize) -> Result<(), NetlinkError> {
        let fd = self.socket.fd();
        sockopt::set_socket_recv_buffer_size_force(fd, bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, bytes))
            .map_err(|e| NetlinkError::os("set the buffer of a netlink socket", "", e))
    }

    /// Subscribes in `namespace`.
    ///
    /// # Errors
    /// Those of [`Namespace::run`] and [`Monitor::open`].
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run(Self::open)?
    }

    /// The next update, or `None` when none came within `timeout`. Zero polls.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when the socket fails; a lost update is no
    /// error but [`Update::Overrun`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Update>, NetlinkError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(update) = self.pending.pop() {
                return Ok(Some(update));
            }
            let left = end.saturating_duration_since(Instant::now());
            if !self.wait(left)? {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    fn wait(&self, timeout: Duration) -> Result<bool, NetlinkError> {
        let fail = |e| NetlinkError::os("wait for network changes", "", e);
        let timeout =
            Timespec { tv_sec: timeout.as_secs().min(86_400) as i64, tv_nsec: timeout.subsec_nanos().into() };
        let fd = self.socket.fd();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            // A signal: the caller's loop looks at the time again.
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(fail(error)),
        }
    }

    /// Reads one datagram, without waiting.
    fn fill(&mut self) -> Result<(), NetlinkError> {
        let mut updates = Vec::new();
        let mut next_hops = false;
        let take = |message: NetlinkMessage<RouteNetlinkMessage>| {
            if let NetlinkPayload::InnerMessage(inner) = message.payload {
                updates.extend(read(inner, message.header.flags));
            }
        };
        let received = self.socket.receive(RecvFlags::DONTWAIT, take, || next_hops = true);
        updates.extend(next_hops.then_some(Update::NextHops));
        match received {
            Ok(0) => {}
            Ok(_) | Err(rustix::io::Errno::NOBUFS) => updates.push(Update::Overrun),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(NetlinkError::os("read network changes", "", error)),
        }
        updates.reverse();
        self.pending = updates;
        Ok(())
    }
}

impl AsFd for Monitor {
    /// For waiting together with other descriptors; call
    /// [`Monitor::recv_timeout`] with zero until `None` when it is readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }
}

fn read(message: RouteNetlinkMessage, flags: u16) -> Option<Update> {
    use Change::{Deleted, Set};
    use RouteNetlinkMessage as M;
    Some(match message {
        M::NewLink(m) => Update::Link(LinkInfo::from_message(&m)?),
        M::DelLink(m) => {
            let link = LinkInfo::from_message(&m)?;
            Update::LinkGone(link.index, link.name)
        }
        M::NewRoute(m) => {
            let change = match flags {
                _ if flags & NLM_F_REPLACE != 0 => RouteChange::Replaced,
                _ if flags & NLM_F_APPEND != 0 => RouteChange::Appended,
                _ => RouteChange::Added,
            };
            Update::Route(change, FibRoute::from_message(&m)?)
        }
        M::DelRoute(m) => Update::Route(RouteChange::Deleted, FibRoute::from_message(&m)?),
        M::NewRule(_) | M::DelRule(_) => Update::Rules,
        M::NewNeighbour(m) => Update::Neighbour(Set, Neighbour::from_message(&m)?),
        M::DelNeighbour(m) => Update::Neighbour(Deleted, Neighbour::from_message(&m)?),
        M::NewAddress(m) => Update::Address(Set, InterfaceAddress::from_message(&m)?),
        M::DelAddress(m) => Update::Address(Deleted, InterfaceAddress::from_message(&m)?),
        _ => return None,
    })
}
