//! The worker's part: what its elements say, by number.

use super::Probe;
use crate::router::Worker;
use perhop_elements::route::{Found, NextHop, PortInfo, Verdict};
use perhop_elements::schedule::{NodeIndex, NodeParams};
use perhop_flows::Explanation as FlowsSay;
use perhop_packet::{ClassId, DropReason, Meta, PortId, ProfileId, SlaId};
use perhop_units::{Duration, Framing, Rate};
use perhop_wire::MacAddr;

/// What the elements of a worker say about a packet. May be sent to another thread.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The flows element; `None` when the graph has none.
    pub(super) flows: Option<FlowsSay>,
    /// Whether there is an element that controls rates of TCP.
    pub(super) abr: bool,
    /// Where it goes.
    pub(super) way: Way,
    /// The route or rule that says so.
    pub(super) route: Option<Found>,
    /// The queue in each port it may leave by.
    pub(super) queues: Vec<Queue>,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To stations that the bridge has learned or not.
    Bridge,
    /// To this machine.
    Host,
    /// To this machine's kernel, to be forwarded past the ports.
    Kernel,
    /// Nowhere; whether the sender is told.
    Dropped { reason: DropReason, told: bool },
    /// On to a next hop, in fragments if the link's MTU demands it. Without link address it waits for that.
    Forward { hop: NextHop, link_address: Option<MacAddr>, fragments_of: Option<u32> },
    /// The graph does not route.
    Unknown,
}

/// The queue it would wait in, should it leave by a port.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) port: PortId,
    pub(super) leaf: u32,
    /// Whether nothing but the default leaf was left.
    pub(super) by_default: bool,
    pub(super) params: Option<NodeParams>,
    pub(super) backlog_packets: u64,
    pub(super) backlog_bytes: u64,
    pub(super) throttled: bool,
    pub(super) rate: Rate,
    pub(super) overhead: u32,
    pub(super) framing: Framing,
    pub(super) busy: Duration,
}

impl Worker {
    /// What the elements say about a packet; changes nothing. Call it between two batches.
    pub fn decide(&self, probe: &Probe) -> Decisions {
        let described = &probe.described;
        let flows = self.flows().map(|f| f.explain(&described.frame, &described.layout, probe.in_port));
        let (way, route) = self.way(probe);
        let mut decisions = Decisions { flows, abr: self.abr().is_some(), way, route, queues: Vec::new() };
        self.decide_queues(probe, &mut decisions);
        decisions
    }

    /// Adds the queues in the ports of this worker, where several share the ports and another decided.
    pub fn decide_queues(&self, probe: &Probe, decisions: &mut Decisions) {
        let Decisions { flows, way, queues, .. } = decisions;
        let id = |of: fn(&FlowsSay) -> Option<u32>| flows.as_ref().and_then(of).unwrap_or(u32::MAX);
        let profile = ProfileId(id(|f| f.profile));
        let class = probe.green.get(&profile).copied().unwrap_or(ClassId(id(|f| f.class)));
        let meta = Meta { sla: SlaId(id(|f| f.sla)), class, ..Meta::default() };
        let ports: Vec<PortId> = match &*way {
            Way::Forward { hop, .. } => vec![hop.port],
            // It may leave by any other port once there is a route.
            Way::Bridge | Way::Unknown | Way::Dropped { reason: DropReason::NoRoute, .. } => {
                (0..probe.ports).map(|i| PortId(i as u16)).filter(|p| *p != probe.in_port).collect()
            }
            Way::Host | Way::Kernel | Way::Dropped { .. } => Vec::new(),
        };
        queues.extend(ports.into_iter().filter_map(|port| self.queue(port, &meta)));
        queues.sort_by_key(|queue| queue.port);
    }

    fn queue(&self, port: PortId, meta: &Meta) -> Option<Queue> {
        let egress = self.egress(port).filter(|egress| !egress.is_away())?;
        let (leaf, by_default) = egress.leaf_map().find(meta.sla, meta.class);
        let class = egress.tree().class(NodeIndex(leaf.0));
        let line = egress.transmitter();
        let now = self.driver().now();
        Some(Queue {
            port,
            leaf: leaf.0,
            by_default,
            params: class.as_ref().map(|c| c.params.clone()),
            backlog_packets: class.as_ref().map_or(0, |c| c.backlog_packets),
            backlog_bytes: class.as_ref().map_or(0, |c| c.backlog_bytes),
            throttled: class.as_ref().is_some_and(|c| c.throttled),
            rate: line.rate(),
            overhead: line.config().overhead_bytes,
            framing: line.config().framing,
            busy: line.busy_until().since(now),
        })
    }

    /// What the route element says, or that there is none. The description has no link addresses: the frame is taken as
    /// sent to the port.
    fn way(&self, probe: &Probe) -> (Way, Option<Found>) {
        let d = &probe.described;
        let Some(route) = self.route() else {
            let is_bridge = |id| self.driver().element(id).is_some_and(|e| e.type_name() == "Bridge");
            return (if self.driver().ids().any(is_bridge) { Way::Bridge } else { Way::Unknown }, None);
        };
        let mut frame = d.frame.clone();
        if let (Some(port), Some(station)) =
            (route.ports().get(probe.in_port.index()), frame.first_chunk_mut())
        {
            *station = port.mac.0;
        }
        let said = route.explain(&frame, &d.layout, probe.in_port);
        let way = match said.verdict {
            Verdict::Host => Way::Host,
            Verdict::Kernel => Way::Kernel,
            Verdict::Drop(reason) => Way::Dropped { reason, told: false },
            Verdict::Reject(reason, _) => Way::Dropped { reason, told: true },
            Verdict::Hop(_) => {
                let Some(hop) = said.next_hop else { return (Way::Unknown, None) };
                Way::Forward {
                    hop,
                    link_address: said.link_address,
                    fragments_of: said.fragments.then(|| hop.longest(mtu_of(route.ports(), hop.port))),
                }
            }
        };
        (way, said.route)
    }
}

fn mtu_of(ports: &[PortInfo], port: PortId) -> u32 {
    ports.get(port.index()).map_or(0, |p| p.mtu)
}
