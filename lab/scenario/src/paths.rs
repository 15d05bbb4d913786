//! Shortest paths by number of links; of equal ones the link that the file names first: the routes of every world.

use crate::model::{LinkIndex, NodeIndex, NodeKind, Scenario};
use perhop_units::Duration;
use std::collections::VecDeque;

/// First links towards every node.
#[derive(Debug)]
pub struct Paths {
    /// `[from][to]`: the link and the end of it at `from`.
    first: Vec<Vec<Option<(LinkIndex, usize)>>>,
}

impl Paths {
    /// Hosts forward nothing, so they are only ends of paths. O(nodes · (nodes + links)).
    pub fn of(scenario: &Scenario) -> Self {
        let nodes = scenario.nodes.len();
        let links = scenario.links_by_node();
        let mut first = vec![vec![None; nodes]; nodes];
        for to in 0..nodes {
            // From the destination outwards, so that each node learns its next link.
            let mut distance = vec![usize::MAX; nodes];
            distance[to] = 0;
            let mut queue = VecDeque::from([to]);
            while let Some(at) = queue.pop_front() {
                if at != to && matches!(scenario.nodes[at].kind, NodeKind::Host | NodeKind::Controller(_)) {
                    continue;
                }
                for &(link, end) in &links[at] {
                    let far = scenario.links[link.0].ends[1 - end].0;
                    if distance[far] == usize::MAX {
                        distance[far] = distance[at] + 1;
                        first[far][to] = Some((link, 1 - end));
                        queue.push_back(far);
                    }
                }
            }
        }
        Self { first }
    }

    /// Propagation delay of the path from one node to another as links have it `at` a time of the repetition, without
    /// jitter; `None` if there is no path.
    pub fn latency(
        &self,
        scenario: &Scenario,
        from: NodeIndex,
        to: NodeIndex,
        at: Duration,
    ) -> Option<Duration> {
        let (mut node, mut sum) = (from, Duration::ZERO);
        while node != to {
            let (link, end) = self.first_link(node, to)?;
            let link = &scenario.links[link.0];
            let way = &link.ways[end];
            let changed =
                way.changes.iter().take_while(|change| change.at <= at).filter_map(|c| c.delay).last();
            sum = Duration(sum.0.saturating_add(changed.unwrap_or(way.delay).0));
            node = link.ends[1 - end];
        }
        Some(sum)
    }

    /// The link to take, and the end of it here.
    pub fn first_link(&self, from: NodeIndex, to: NodeIndex) -> Option<(LinkIndex, usize)> {
        self.first[from.0][to.0]
    }
}
