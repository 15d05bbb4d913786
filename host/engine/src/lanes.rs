//! What waits for the control thread, in lanes, so that no sender of many messages delays the others.
//!
//! A turn takes facts of the world first, then what the packet thread must tell, then some requests, and of events of
//! flows, which senders of packets can make as many as they like, only a few.

use crate::told::ToControl;
use crossbeam_channel::{Receiver, Select, TryRecvError, never};
use perhop_flows::FlowEvent;
use perhop_model::Call;
use std::time::Duration;

/// Facts that may wait.
pub(crate) const FACTS: usize = 64;
/// Events of flows that may wait; more are missed.
pub(crate) const FLOWS: usize = 4096;
/// Messages of the packet thread that one turn takes.
const INSIDE_A_TURN: usize = 256;
/// Requests that one turn takes.
const REQUESTS_A_TURN: usize = 16;
/// Events of flows that one turn takes.
const FLOWS_A_TURN: usize = 64;

/// The receiving ends.
pub(crate) struct Lanes {
    pub(crate) facts: Receiver<ToControl>,
    pub(crate) inside: Receiver<ToControl>,
    pub(crate) requests: Receiver<Call>,
    pub(crate) flows: Receiver<FlowEvent>,
}

/// One thing to do.
pub(crate) enum Item {
    Told(ToControl),
    Asked(Call),
    Flow(FlowEvent),
}

impl Lanes {
    /// Waits until something is there, or for this long.
    pub(crate) fn wait(&self, most: Duration) {
        let mut select = Select::new();
        select.recv(&self.facts);
        select.recv(&self.inside);
        select.recv(&self.requests);
        select.recv(&self.flows);
        // Which one it is does not matter: a turn looks at all of them.
        let _ = select.ready_timeout(most);
    }

    /// What a turn does, in order. `None` when nobody is inside any more.
    pub(crate) fn turn(&mut self) -> Option<Vec<Item>> {
        let mut items: Vec<Item> = take(&mut self.facts, FACTS).0.into_iter().map(Item::Told).collect();
        let (inside, gone) = take(&mut self.inside, INSIDE_A_TURN);
        if gone && inside.is_empty() {
            return None;
        }
        items.extend(inside.into_iter().map(Item::Told));
        // All handles gone: the engine itself still works.
        items.extend(take(&mut self.requests, REQUESTS_A_TURN).0.into_iter().map(Item::Asked));
        items.extend(take(&mut self.flows, FLOWS_A_TURN).0.into_iter().map(Item::Flow));
        Some(items)
    }
}

/// Up to `most` messages, and whether nobody sends any more: then the lane is closed, so that nobody waits for it.
fn take<T>(from: &mut Receiver<T>, most: usize) -> (Vec<T>, bool) {
    let mut taken = Vec::new();
    while taken.len() < most {
        match from.try_recv() {
            Ok(message) => taken.push(message),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => {
                *from = never();
                return (taken, true);
            }
        }
    }
    (taken, false)
}

/// The class that flows which a detector finds go to, looked for once a revision.
#[derive(Debug, Default)]
pub(crate) struct DetectorClass {
    known: Option<(u64, String)>,
}

impl DetectorClass {
    /// The class at this revision; `look` looks for it.
    pub(crate) fn at(&mut self, revision: u64, look: impl FnOnce() -> String) -> String {
        if self.known.as_ref().is_none_or(|(at, _)| *at != revision) {
            self.known = Some((revision, look()));
        }
        self.known.as_ref().map_or_else(String::new, |(_, class)| class.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{bounded, unbounded};
    use perhop_flows::{FlowEventKind, FlowTuple};
    use perhop_packet::PortId;

    fn event() -> FlowEvent {
        let address = "192.0.2.1".parse().unwrap();
        let (src, dst, src_port, dst_port) = (address, address, 5004, 5006);
        FlowEvent {
            at: perhop_units::Instant::ZERO,
            kind: FlowEventKind::Detected,
            flow: FlowTuple { domain: 0, vlan: 0, protocol: 17, src, src_port, dst, dst_port },
            connection: 0,
            reason: None,
            ssrc: 1,
            payload_type: 0,
            confidence: 100,
            decided_at: 1,
            packets: 1,
            bytes: 200,
        }
    }

    #[test]
    fn many_events_of_flows_delay_neither_facts_nor_requests() {
        let (facts_in, facts) = bounded(FACTS);
        let (inside_in, inside) = unbounded();
        let (requests_in, requests) = unbounded();
        let (flows_in, flows) = bounded(FLOWS);
        let mut lanes = Lanes { facts, inside, requests, flows };
        (0..FLOWS).for_each(|_| flows_in.send(event()).unwrap());
        (0..3).for_each(|_| requests_in.send(Call::Graph(Box::new(drop))).unwrap());
        (0..1000).for_each(|i| inside_in.send(ToControl::PortGone(PortId(i))).unwrap());
        facts_in.send(ToControl::World(Box::default())).unwrap();
        let items = lanes.turn().unwrap();
        let is_fact = |item: &Item| matches!(item, Item::Told(ToControl::World(_)));
        let is_told = |item: &Item| matches!(item, Item::Told(ToControl::PortGone(_)));
        let counts = [
            items.iter().take_while(|i| is_fact(i)).count(),
            items.iter().filter(|i| is_told(i)).count(),
            items.iter().filter(|i| matches!(i, Item::Asked(_))).count(),
            items.iter().filter(|i| matches!(i, Item::Flow(_))).count(),
        ];
        assert_eq!(counts, [1, INSIDE_A_TURN, 3, FLOWS_A_TURN]);
        // Those that nobody sends to any more are closed one by one; without anybody inside it is the end.
        drop((facts_in, requests_in, flows_in));
        let rest = (0..FLOWS).map_while(|_| lanes.turn().filter(|i| !i.is_empty())).flatten().count();
        assert_eq!(rest, 1000 - INSIDE_A_TURN + FLOWS - FLOWS_A_TURN);
        drop(inside_in);
        assert!(lanes.turn().is_none());
    }

    #[test]
    fn the_class_is_looked_for_once_a_revision() {
        let (mut class, mut looks) = (DetectorClass::default(), 0);
        for revision in [1, 1, 1, 2, 2, 3] {
            let found = class.at(revision, || {
                looks += 1;
                format!("c{revision}")
            });
            assert_eq!(found, format!("c{revision}"));
        }
        assert_eq!(looks, 3);
    }
}
