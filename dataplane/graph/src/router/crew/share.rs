//! A change, taken apart for the members of a crew.

use super::super::Change;
use perhop_packet::PortId;

/// A change for each of `workers`, of which `owner` tells which has a port. What a port's tree is told goes to the worker
/// that has it; the conditioner's tables are shared, and the first worker's conditioner is told; everything else is told to
/// all. Graphs are not shared out: the planner of several workers refuses them.
pub(super) fn share(change: Change, workers: usize, owner: impl Fn(PortId) -> usize) -> Vec<Change> {
    if workers == 1 {
        return vec![change];
    }
    let Change { egress, left_slots, conditioner, flows, abr, route, relocation, graph, .. } = change;
    assert!(graph.is_none(), "the planner of several workers refuses graphs");
    // Facts of the world are taken over by each in its own time.
    let sorts = !egress.is_empty() || conditioner.is_some() || flows.is_some() || abr.is_some();
    let together = sorts || relocation.is_some();
    let mut shares: Vec<Change> = (0..workers)
        .map(|_| Change {
            flows: flows.clone(),
            abr: abr.clone(),
            route: route.clone(),
            relocation: relocation.clone(),
            together,
            ..Change::default()
        })
        .collect();
    shares[0].conditioner = conditioner;
    for (port, change) in egress {
        shares[owner(port)].egress.push((port, change));
    }
    for left in left_slots {
        shares[owner(left.port)].left_slots.push(left);
    }
    shares
}
