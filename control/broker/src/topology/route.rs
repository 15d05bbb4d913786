//! The path of the fewest links.

use super::{LinkKey, Topology};
use crate::record::NodeKind;
use std::collections::{BTreeMap, VecDeque};

/// The paths of the fewest links from one node to all others: by last node, its links in order. Of several the first by the
/// names of the nodes on it, and of links between the same two nodes the first by port. No path leads through a peer. Costs as many steps as there are links.
pub(super) fn shortest<'a>(topology: &'a Topology, from: &str) -> BTreeMap<&'a str, Vec<&'a LinkKey>> {
    let mut reached: BTreeMap<&str, Option<&LinkKey>> = BTreeMap::new();
    let Some((from, _)) = topology.nodes.get_key_value(from) else { return BTreeMap::new() };
    reached.insert(from, None);
    let mut waiting = VecDeque::from([from.as_str()]);
    let mut order = Vec::new();
    while let Some(node) = waiting.pop_front() {
        order.push(node);
        // What enters a neighbouring domain does not come back.
        if node != from && topology.nodes.get(node).is_none_or(|n| n.kind == NodeKind::Peer) {
            continue;
        }
        let mut next: Vec<_> = leaving(topology, node).map(|(key, to)| (to, key)).collect();
        next.sort_unstable();
        for (to, key) in next {
            if !reached.contains_key(to) {
                reached.insert(to, Some(key));
                waiting.push_back(to);
            }
        }
    }
    let mut paths: BTreeMap<&str, Vec<&LinkKey>> = BTreeMap::new();
    for node in order {
        // Whoever it was reached from comes before it in this order.
        let links = reached.get(node).copied().flatten().map(|last| {
            let mut links = paths.get(last.0.as_str()).cloned().unwrap_or_default();
            links.push(last);
            links
        });
        paths.insert(node, links.unwrap_or_default());
    }
    paths
}

/// The links that leave a node, each with the node that it leads to.
pub(super) fn leaving<'a>(
    topology: &'a Topology,
    node: &str,
) -> impl Iterator<Item = (&'a LinkKey, &'a str)> {
    let first = (node.to_owned(), String::new());
    let node = node.to_owned();
    let own = topology.links.range(first..).take_while(move |((sender, _), _)| *sender == node);
    own.map(|(key, link)| (key, link.to.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Node, Profile, Schedule};
    use perhop_units::Rate;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn topology(links: &[(u8, u8)]) -> Topology {
        let profile =
            Arc::new(Profile { rate: Rate(1), classes: BTreeMap::new(), schedule: Schedule::default() });
        let mut topology = Topology::default();
        for node in 0..8 {
            topology.nodes.insert(format!("n{node}"), Node { kind: NodeKind::Edge, cert_sha256: None });
        }
        for (i, (from, to)) in links.iter().enumerate() {
            let link = Link { to: format!("n{to}"), profile: profile.clone() };
            topology.links.insert((format!("n{from}"), format!("p{i}")), link);
        }
        topology
    }

    proptest! {
        #[test]
        fn a_path_is_as_short_as_trying_all_lengths_finds(links in prop::collection::vec((0..8_u8, 0..8_u8), 0..20)) {
            let topology = topology(&links);
            let found = shortest(&topology, "n0");
            // Who can be reached with so many links or fewer, one more at a time.
            let mut within = vec![Some(0); 1];
            within.resize(8, None);
            for hops in 1..8 {
                let before = within.clone();
                for (from, to) in &links {
                    if before[*from as usize].is_some() && within[*to as usize].is_none() {
                        within[*to as usize] = Some(hops);
                    }
                }
            }
            for (node, hops) in within.iter().enumerate() {
                let links = found.get(format!("n{node}").as_str());
                prop_assert_eq!(links.map(Vec::len), *hops);
                let mut at = "n0".to_owned();
                for key in links.into_iter().flatten() {
                    prop_assert_eq!(&key.0, &at);
                    at = topology.links[*key].to.clone();
                }
                let name = format!("n{node}");
                prop_assert!(links.is_none() || at == name);
            }
        }
    }

    #[test]
    fn of_paths_of_one_length_the_first_by_name_counts() {
        let topology = topology(&[(0, 2), (0, 1), (2, 3), (1, 3), (0, 1)]);
        let names: Vec<_> = shortest(&topology, "n0")["n3"].iter().map(|(_, port)| port.as_str()).collect();
        assert_eq!(names, ["p1", "p3"]);
    }
}
