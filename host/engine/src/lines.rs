//! The calling ends of a router's packet threads.

use crate::packet_thread::{Line, Message};
use crate::router_forwarder::RouterForwarder;
use perhop_graph::router::{Change, Placement};
use perhop_packet::PortId;
use std::sync::Arc;

/// One line to each packet thread, and who has what.
#[derive(Clone)]
pub(crate) struct Lines {
    lines: Arc<[Line<RouterForwarder>]>,
    pub(crate) placement: Arc<Placement>,
}

impl Lines {
    pub(crate) fn new(lines: Vec<Line<RouterForwarder>>, placement: Placement) -> Self {
        Self { lines: lines.into(), placement: Arc::new(placement) }
    }

    /// Packet threads.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// To the packet thread of this number, to the first if there is none.
    pub(crate) fn to(&self, thread: usize, message: Message<RouterForwarder>) -> bool {
        self.lines.get(thread).unwrap_or(&self.lines[0]).send(message)
    }

    /// To the packet thread that has a port.
    pub(crate) fn to_owner(&self, port: PortId, message: Message<RouterForwarder>) -> bool {
        self.to(self.placement.owner(port), message)
    }

    /// To every packet thread, in their order.
    pub(crate) fn to_all(&self, message: impl Fn() -> Message<RouterForwarder>) {
        for line in &*self.lines {
            line.send(message());
        }
    }

    /// To each packet thread its part of a change.
    pub(crate) fn share(&self, change: Change, job: impl Fn(Change) -> Message<RouterForwarder>) {
        for (line, change) in self.lines.iter().zip(self.placement.share(change)) {
            line.send(job(change));
        }
    }
}
