//! Neighbours: the link addresses of next hops, and the packets that wait for one.
//!
//! The kernel resolves (ARP, RFC 826; neighbour discovery, RFC 4861); this table mirrors what it finds and asks it
//! when a packet needs an address that is not there. Every limit is stated: packets a neighbour, packets in all,
//! neighbours in all, time to wait.
//!
//! Source: RFC 1122 §2.3.2.2 (keep at least one packet), RFC 1812 §3.3.2, RFC 4861 §7.2.2.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_packet::{Batch, DropReason, Packet, PacketList, PortId};
use perhop_units::{Duration, Instant};
use perhop_wire::MacAddr;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Limits of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourLimits {
    /// Neighbours in all; next hops of the forwarding table are kept beyond it.
    pub neighbours: usize,
    /// Neighbours that packets wait for at once.
    pub unresolved: usize,
    /// Packets that wait for one neighbour. Linux has room for some 270 small ones (`unres_qlen_bytes`).
    pub packets_each: usize,
    /// Packets that wait in all.
    pub packets: usize,
    /// How long packets wait, from the first.
    pub timeout: Duration,
}

impl Default for NeighbourLimits {
    fn default() -> Self {
        Self {
            neighbours: 65_536,
            unresolved: 1024,
            packets_each: 256,
            packets: 2_048,
            timeout: Duration::from_secs(1),
        }
    }
}

/// What the kernel says about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Its link address, confirmed (REACHABLE, PERMANENT, NOARP) or being confirmed (DELAY, PROBE).
    Reachable(MacAddr),
    /// Its link address, not confirmed lately (STALE). Used, and the kernel is asked once to confirm it.
    Stale(MacAddr),
    /// It does not answer (FAILED): waiting packets are rejected.
    Failed,
    /// The entry is gone. Packets may wait for it again.
    Removed,
}

/// A change of one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourUpdate {
    /// Port on whose link it lives.
    pub port: PortId,
    /// Its address.
    pub ip: IpAddr,
    /// What is known now.
    pub state: NeighbourState,
}

/// How far a neighbour's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Not at all.
    No,
    /// Usable.
    Yes,
    /// Usable, and to be confirmed at its next use.
    Unconfirmed,
}

/// What forwarding needs of a neighbour, in 20 bytes: the first 12 octets of the frame, the port and its MTU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adjacency {
    pub(super) macs: [u8; 12],
    pub(super) port: PortId,
    pub(super) known: Known,
    pub(super) mtu: u32,
}

#[derive(Debug)]
struct Entry {
    key: (PortId, IpAddr),
    queue: PacketList,
    /// Next hops of the forwarding table that point here.
    pins: u32,
    /// When waiting ends; meaningful while packets wait.
    deadline: Instant,
    live: bool,
}

/// The table.
#[derive(Debug)]
pub(super) struct Neighbours {
    limits: NeighbourLimits,
    index: HashMap<(PortId, IpAddr), u32, FixedState>,
    /// Parallel to `entries`; apart from them, so that forwarding touches few cache lines.
    adjacencies: Vec<Adjacency>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Ends of waiting, earliest first: the time to wait is the same for all.
    deadlines: VecDeque<(Instant, u32)>,
    requests: Vec<(PortId, IpAddr)>,
    /// Neighbours whose packets may leave, or must be rejected.
    settled: VecDeque<u32>,
    unresolved: usize,
    packets: usize,
    pub(super) refused: u64,
}

/// What became of a packet that waited.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The neighbour's index; its address is known now.
    Resolved(u32, Packet),
    /// Nobody answered.
    Failed(Packet),
}

impl Neighbours {
    pub(super) fn new(limits: NeighbourLimits) -> Self {
        Self {
            limits,
            index: HashMap::with_hasher(FixedState::default()),
            adjacencies: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            deadlines: VecDeque::new(),
            requests: Vec::new(),
            settled: VecDeque::new(),
            unresolved: 0,
            packets: 0,
            refused: 0,
        }
    }

    pub(super) fn limits(&self) -> NeighbourLimits {
        self.limits
    }

    pub(super) fn set_limits(&mut self, limits: NeighbourLimits) {
        self.limits = limits;
    }

    /// Packets waiting.
    pub(super) fn waiting(&self) -> usize {
        self.packets
    }

    /// Neighbours known or asked for.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    pub(super) fn find(&self, port: PortId, ip: IpAddr) -> Option<u32> {
        self.index.get(&(port, ip)).copied()
    }

    #[inline]
    pub(super) fn adjacency(&self, index: u32) -> &Adjacency {
        &self.adjacencies[index as usize]
    }

    /// The entry of a neighbour, made if there is none. `None` at the limit.
    fn entry(&mut self, port: PortId, ip: IpAddr, beyond_limit: bool) -> Option<u32> {
        if let Some(index) = self.find(port, ip) {
            return Some(index);
        }
        if self.index.len() >= self.limits.neighbours && !beyond_limit {
            self.refused += 1;
            return None;
        }
        let adjacency = Adjacency { macs: [0; 12], port, known: Known::No, mtu: 0 };
        let entry = Entry {
            key: (port, ip),
            queue: PacketList::new(),
            pins: 0,
            deadline: Instant::FAR_FUTURE,
            live: true,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.adjacencies[index as usize] = adjacency;
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.adjacencies.push(adjacency);
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index.insert((port, ip), index);
        Some(index)
    }

    /// Frees an entry nobody needs.
    fn sweep(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let known = self.adjacencies[index as usize].known;
        if entry.live && entry.pins == 0 && entry.queue.is_empty() && known == Known::No {
            entry.live = false;
            self.index.remove(&entry.key);
            self.free.push(index);
        }
    }

    /// Takes a place for a next hop of the forwarding table.
    pub(super) fn pin(&mut self, port: PortId, ip: IpAddr, links: &[super::Link]) -> u32 {
        let index = self.entry(port, ip, true).expect("no limit applies to next hops");
        self.entries[index as usize].pins += 1;
        self.set_link(index, links);
        index
    }

    /// Gives up such a place.
    pub(super) fn unpin(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        debug_assert!(entry.live && entry.pins > 0, "only a place that was taken is given up");
        entry.pins -= 1;
        self.sweep(index);
    }

    fn set_link(&mut self, index: u32, links: &[super::Link]) {
        let adjacency = &mut self.adjacencies[index as usize];
        let Some(link) = links.get(adjacency.port.index()) else {
            // Nothing fits, so that packets take the slow path, which finds that the port is gone.
            adjacency.mtu = 0;
            return;
        };
        adjacency.macs[6..].copy_from_slice(&link.mac.0);
        adjacency.mtu = link.mtu;
    }

    /// Takes over changed ports. O(neighbours).
    pub(super) fn set_links(&mut self, links: &[super::Link]) {
        for index in 0..self.entries.len() as u32 {
            self.set_link(index, links);
        }
    }

    /// Takes over what the kernel says. O(1).
    pub(super) fn update(&mut self, update: NeighbourUpdate, links: &[super::Link]) {
        let (mac, known) = match update.state {
            NeighbourState::Reachable(mac) => (mac, Known::Yes),
            NeighbourState::Stale(mac) => (mac, Known::Unconfirmed),
            NeighbourState::Failed | NeighbourState::Removed => {
                let Some(index) = self.find(update.port, update.ip) else { return };
                self.adjacencies[index as usize].known = Known::No;
                if update.state == NeighbourState::Failed && !self.entries[index as usize].queue.is_empty() {
                    self.entries[index as usize].deadline = Instant::ZERO;
                    self.settled.push_back(index);
                }
                return self.sweep(index);
            }
        };
        let Some(index) = self.entry(update.port, update.ip, false) else { return };
        self.set_link(index, links);
        let adjacency = &mut self.adjacencies[index as usize];
        adjacency.macs[..6].copy_from_slice(&mac.0);
        adjacency.known = known;
        if !self.entries[index as usize].queue.is_empty() {
            self.settled.push_back(index);
        }
    }

    /// Whether [`Neighbours::settle`] has packets to give.
    #[inline]
    pub(super) fn has_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// The next packet whose waiting is over.
    pub(super) fn settle(&mut self, now: Instant) -> Option<Outcome> {
        while let Some((at, index)) = self.deadlines.front().copied() {
            if at > now {
                break;
            }
            self.deadlines.pop_front();
            // Of an entry that was resolved or reused meanwhile nothing is over; the loop below sees that.
            self.settled.push_back(index);
        }
        while let Some(index) = self.settled.front().copied() {
            let usable = self.adjacencies[index as usize].known != Known::No;
            let entry = &mut self.entries[index as usize];
            let over = usable || entry.deadline <= now;
            if over && let Some(packet) = entry.queue.pop_front() {
                self.packets -= 1;
                if entry.queue.is_empty() {
                    self.stop_waiting(index);
                }
                return Some(if usable { Outcome::Resolved(index, packet) } else { Outcome::Failed(packet) });
            }
            self.settled.pop_front();
            self.sweep(index);
        }
        None
    }

    fn stop_waiting(&mut self, index: u32) {
        self.unresolved -= 1;
        self.entries[index as usize].deadline = Instant::FAR_FUTURE;
    }

    /// When [`Neighbours::settle`] may have something again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// Makes `packet` wait for a neighbour, and asks for its address if it is the first. The time at which waiting
    /// ends is returned for the first.
    pub(super) fn wait(
        &mut self,
        now: Instant,
        port: PortId,
        ip: IpAddr,
        links: &[super::Link],
        packet: Packet,
    ) -> Result<Option<Instant>, (Packet, DropReason)> {
        let full = DropReason::NeighbourQueueFull;
        let first = match self.find(port, ip) {
            Some(index) => self.entries[index as usize].queue.is_empty(),
            None => true,
        };
        if self.packets >= self.limits.packets || first && self.unresolved >= self.limits.unresolved {
            return Err((packet, full));
        }
        let Some(index) = self.entry(port, ip, false) else { return Err((packet, DropReason::TableFull)) };
        self.set_link(index, links);
        let entry = &mut self.entries[index as usize];
        if entry.queue.len() >= self.limits.packets_each {
            return Err((packet, full));
        }
        entry.queue.push_back(packet);
        self.packets += 1;
        if !first {
            return Ok(None);
        }
        self.unresolved += 1;
        let deadline = now + self.limits.timeout;
        entry.deadline = deadline;
        self.deadlines.push_back((deadline, index));
        self.request(index);
        Ok(Some(deadline))
    }

    /// Notes that an unconfirmed neighbour is in use.
    pub(super) fn confirm(&mut self, index: u32) {
        self.adjacencies[index as usize].known = Known::Yes;
        self.request(index);
    }

    fn request(&mut self, index: u32) {
        // The host takes requests after every step; should it not, the oldest packets still wait for the newest ask.
        if self.requests.len() < self.limits.unresolved.max(64) {
            self.requests.push(self.entries[index as usize].key);
        }
    }

    pub(super) fn take_requests(&mut self, into: &mut Vec<(PortId, IpAddr)>) {
        into.append(&mut self.requests);
    }

    pub(super) fn drain(&mut self, out: &mut Batch) {
        for entry in &mut self.entries {
            while let Some(packet) = entry.queue.pop_front() {
                out.push(packet);
            }
        }
        self.packets = 0;
        self.unresolved = 0;
        self.deadlines.clear();
        self.settled.clear();
    }
}
