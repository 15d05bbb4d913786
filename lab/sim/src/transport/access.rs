//! What lies between a host and its first link for some connections: a delay of their own, the same in both directions.
//!
//! Segments wait here as what they say, not as packets: one that leaves becomes a packet when its time has come, one that
//! arrived is no packet any more.

use crate::world::World;
use perhop_tcp::{Segment, SegmentOut};
use perhop_units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A segment that waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// On its way from the end of this number.
    Out(SegmentOut),
    /// On its way to it, with its IP length.
    In(Segment, u64),
}

/// All segments that wait, of connections with delays of their own.
#[derive(Debug, Default)]
pub(crate) struct AccessLines {
    /// When the time of each segment has come, with its number.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// By number: the end, the serial number that the end had, and the segment.
    segments: BTreeMap<u64, (usize, u64, Waiting)>,
    next: u64,
}

impl AccessLines {
    fn add(&mut self, at: Instant, end: usize, serial: u64, segment: Waiting) {
        self.due.push(Reverse((at, self.next)));
        self.segments.insert(self.next, (end, serial, segment));
        self.next += 1;
    }

    fn take(&mut self, now: Instant) -> Option<(usize, u64, Waiting)> {
        let Reverse((at, number)) = self.due.peek().copied()?;
        if at > now {
            return None;
        }
        self.due.pop();
        self.segments.remove(&number)
    }
}

impl World {
    /// Lets a segment of an end, which has such a delay, wait.
    pub(super) fn wait_on_access_line(&mut self, end: usize, delay: Duration, segment: Waiting) {
        let at = self.now + delay;
        let Some(Some(state)) = self.transport.ends.get(end) else { return };
        let serial = state.serial;
        self.transport.access.add(at, end, serial, segment);
        self.agenda.arm(self.transport.access_entity, at);
    }

    /// Segments whose time on the access lines is over go on.
    pub(crate) fn wake_access_lines(&mut self) {
        while let Some((index, serial, segment)) = self.transport.access.take(self.now) {
            if self.quiet {
                continue;
            }
            let Some(Some(end)) = self.transport.ends.get(index) else { continue };
            if end.serial != serial {
                continue;
            }
            let (node, hop, addresses, dscp) = (end.node, end.hop, end.addresses, end.dscp);
            match segment {
                Waiting::Out(segment) => {
                    if self.nodes[node.0].up {
                        self.send_segment(node, hop, addresses, dscp, &segment);
                    }
                }
                Waiting::In(segment, ip_len) => self.end_receives(index, &segment, ip_len),
            }
        }
        if let Some(Reverse((at, _))) = self.transport.access.due.peek() {
            self.agenda.arm(self.transport.access_entity, *at);
        }
    }
}
