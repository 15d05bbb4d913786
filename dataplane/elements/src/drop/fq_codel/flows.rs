//! The queues of flows and their turns: DRR with a list of new flows before that of old ones.

use super::super::flow_hash::FlowHash;
use super::super::{CoDelState, EarlyState, RedVerdict};
use super::FqCoDelConfig;
use perhop_packet::{Packet, PacketList};
use perhop_units::{Bytes, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    New,
    Old,
}

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Flow {
    list: PacketList,
    codel: CoDelState,
    credit: i64,
    place: Place,
    /// Behind it in its list.
    next: u32,
}

/// Flows in the order of their turns.
#[derive(Debug)]
struct Turns {
    head: u32,
    tail: u32,
}

impl Turns {
    const EMPTY: Self = Self { head: NIL, tail: NIL };

    fn push(&mut self, flows: &mut [Flow], flow: u32) {
        flows[flow as usize].next = NIL;
        match self.tail {
            NIL => self.head = flow,
            tail => flows[tail as usize].next = flow,
        }
        self.tail = flow;
    }

    fn pop(&mut self, flows: &[Flow]) {
        if self.head != NIL {
            self.head = flows[self.head as usize].next;
            if self.head == NIL {
                self.tail = NIL;
            }
        }
    }
}

/// All queues.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    /// Frame bytes of each, close together for the search of the longest.
    backlogs: Box<[u64]>,
    new: Turns,
    old: Turns,
    quantum: i64,
    overhead: u32,
    packets: u64,
    bytes: u64,
    new_flows: u64,
    active: u64,
}

impl Flows {
    pub(super) fn new(config: &FqCoDelConfig, overhead: u32) -> Self {
        let flow = || Flow {
            list: PacketList::new(),
            codel: CoDelState::new(config.codel),
            credit: 0,
            place: Place::Idle,
            next: NIL,
        };
        let count = config.flows.max(1) as usize;
        Self {
            flows: (0..count).map(|_| flow()).collect(),
            backlogs: vec![0; count].into(),
            new: Turns::EMPTY,
            old: Turns::EMPTY,
            quantum: i64::from(config.quantum.max(1)),
            overhead,
            packets: 0,
            bytes: 0,
            new_flows: 0,
            active: 0,
        }
    }

    /// Changes credits, overhead and CoDel's parameters; turns and packets stay.
    pub(super) fn reconfigure(&mut self, config: &FqCoDelConfig, overhead: u32) {
        self.quantum = i64::from(config.quantum.max(1));
        self.overhead = overhead;
        if self.flows.first().is_some_and(|flow| *flow.codel.config() != config.codel) {
            for flow in &mut self.flows {
                flow.codel.reconfigure(config.codel, false);
            }
        }
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Frame bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often a flow became new.
    pub(super) fn new_flows(&self) -> u64 {
        self.new_flows
    }

    /// Flows in one of the lists.
    pub(super) fn active(&self) -> u64 {
        self.active
    }

    pub(super) fn len(&self, flow: usize) -> usize {
        self.flows[flow].list.len()
    }

    pub(super) fn front_len(&self, flow: usize) -> Option<usize> {
        self.flows[flow].list.front_len()
    }

    pub(super) fn front_since(&self, flow: usize) -> Option<Instant> {
        self.flows[flow].list.front_meta().map(|meta| meta.queued_at)
    }

    /// Appends a packet to the flow that `hash` chooses.
    pub(super) fn push(&mut self, hash: FlowHash, packet: Packet) {
        let flow = hash.queue_of(&packet, self.flows.len());
        let len = packet.len() as u64;
        self.packets += 1;
        self.bytes += len;
        self.backlogs[flow] += len;
        let at = &mut self.flows[flow];
        at.list.push_back(packet);
        if at.place == Place::Idle {
            at.place = Place::New;
            at.credit = self.quantum;
            self.new_flows += 1;
            self.active += 1;
            self.new.push(&mut self.flows, flow as u32);
        }
    }

    /// Takes the packet at a flow's head.
    pub(super) fn pop(&mut self, flow: usize) -> Option<Packet> {
        let packet = self.flows[flow].list.pop_front()?;
        let len = packet.len() as u64;
        self.packets -= 1;
        self.bytes -= len;
        self.backlogs[flow] -= len;
        Some(packet)
    }

    /// A packet of so many frame bytes was sent.
    pub(super) fn charge(&mut self, flow: usize, len: u64) {
        self.flows[flow].credit -= (len + u64::from(self.overhead)) as i64;
    }

    /// The flow whose turn it is and that has credit; it may be empty.
    pub(super) fn turn(&mut self) -> Option<usize> {
        loop {
            let (turns, place) =
                if self.new.head != NIL { (&mut self.new, Place::New) } else { (&mut self.old, Place::Old) };
            let flow = turns.head;
            if flow == NIL {
                return None;
            }
            let at = &mut self.flows[flow as usize];
            debug_assert_eq!(at.place, place);
            if at.credit > 0 {
                return Some(flow as usize);
            }
            at.credit += self.quantum;
            at.place = Place::Old;
            turns.pop(&self.flows);
            self.old.push(&mut self.flows, flow);
        }
    }

    /// The flow whose turn it is has no packet.
    pub(super) fn emptied(&mut self, flow: usize) {
        let was_new = self.flows[flow].place == Place::New;
        if was_new {
            self.new.pop(&self.flows)
        } else {
            self.old.pop(&self.flows)
        }
        // A new one goes through the old ones once, unless nobody is there to be passed by.
        if was_new && self.old.head != NIL {
            self.flows[flow].place = Place::Old;
            self.old.push(&mut self.flows, flow as u32);
        } else {
            self.flows[flow].place = Place::Idle;
            self.active -= 1;
        }
    }

    /// Judges the packet at a flow's head; `None` when there is none.
    pub(super) fn judge(&mut self, flow: usize, now: Instant) -> Option<RedVerdict> {
        let Flow { list, codel, .. } = &mut self.flows[flow];
        let left = self.backlogs[flow].saturating_sub(list.front_len().unwrap_or(0) as u64);
        codel.decide(now, list.front_meta(), Bytes(left))
    }

    /// The flow with the most bytes; of several the first. O(flows).
    pub(super) fn longest(&self) -> usize {
        let longest =
            self.backlogs.iter().enumerate().max_by_key(|(n, bytes)| (**bytes, std::cmp::Reverse(*n)));
        longest.map_or(0, |(n, _)| n)
    }

    /// Empties everything, flow by flow.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Packet)) {
        for (flow, backlog) in self.flows.iter_mut().zip(&mut self.backlogs) {
            while let Some(packet) = flow.list.pop_front() {
                each(packet);
            }
            (flow.place, flow.next, *backlog) = (Place::Idle, NIL, 0);
        }
        (self.new, self.old) = (Turns::EMPTY, Turns::EMPTY);
        (self.packets, self.bytes, self.active) = (0, 0, 0);
    }
}
