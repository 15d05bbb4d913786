//! Queues and disciplines of links that a router leads into: its own queues are before them, so that they stay empty.

use super::Places;
use super::cx::Cx;
use crate::model::{LinkIndex, NodeIndex, NodeKind, Scenario};
use crate::router_objects::RouterObjects;
use perhop_config::{Diagnostic, Diagnostics, Location, Severity};
use perhop_graph::router::EdgePort;
use perhop_units::Rate;
use std::collections::BTreeMap;

/// A value for one direction of a link, as one configuration has it.
pub(super) struct Seen {
    at: Location,
    end: usize,
    from_file: bool,
    /// What is to be said if it has no effect.
    idle: Option<Diagnostic>,
}

/// Looks at the queues and disciplines that are written. What cannot be read is reported elsewhere.
pub(super) fn find(cx: &Cx<'_>, scenario: &Scenario, places: &Places) -> Vec<Seen> {
    if cx.diagnostics.has_errors() {
        return Vec::new();
    }
    let mut queues: BTreeMap<(LinkIndex, usize), (NodeIndex, String)> = BTreeMap::new();
    for (i, node) in scenario.nodes.iter().enumerate() {
        if let NodeKind::Router(config) = &node.kind
            && let Ok(objects) = RouterObjects::of(scenario, NodeIndex(i), config)
        {
            let ways = queueing(scenario, &objects);
            queues.extend(ways.into_iter().map(|(way, path)| (way, (NodeIndex(i), path))));
        }
    }
    let mut seen = Vec::new();
    for (i, &table) in places.links.iter().enumerate() {
        let reverse = cx.child(table, "reverse");
        for (key, end) in [("queue", 0), ("queue", 1), ("discipline", 0), ("discipline", 1)] {
            let back = reverse.filter(|_| end == 1).and_then(|reverse| cx.child(reverse, key));
            let Some(at) = back.or_else(|| cx.child(table, key)) else { continue };
            let way = (LinkIndex(i), end);
            let idle =
                queues.get(&way).map(|(node, path)| told(cx, scenario, places, way, at, (*node, path)));
            seen.push(Seen { at, end, from_file: cx.file.is_own(at), idle });
        }
    }
    seen
}

/// Directions of links before which a router has the queue, with the path of one in its file.
fn queueing(scenario: &Scenario, objects: &RouterObjects) -> Vec<((LinkIndex, usize), String)> {
    let mut ways = Vec::new();
    for (port, &(link, end)) in EdgePort::of_objects(&objects.file.objects).iter().zip(&objects.ports) {
        // A port that is faster than its link leaves the queue to it.
        let rate = scenario.links[link.0].ways[end].rate.unwrap_or(Rate(u64::MAX));
        if port.spec.rate == Rate::ZERO || port.spec.rate > rate {
            continue;
        }
        let here = || objects.file.classes().filter(|(_, class)| class.port.as_str() == port.name);
        let class = here().find(|(_, class)| class.default).or_else(|| here().next());
        let path = class.map_or(format!("port.{}", port.name), |(name, _)| format!("class.{name}"));
        ways.push(((link, end), path));
    }
    ways
}

fn told(
    cx: &Cx<'_>,
    scenario: &Scenario,
    places: &Places,
    (link, end): (LinkIndex, usize),
    at: Location,
    (router, path): (NodeIndex, &str),
) -> Diagnostic {
    let name = |node: NodeIndex| &scenario.nodes[node.0].name;
    let ends = scenario.links[link.0].ends;
    let (from, to) = (name(ends[end]), name(ends[1 - end]));
    let key = if cx.child(places.nodes[router.0], "router").is_some() { "router" } else { "config" };
    let message =
        format!("has no effect from \"{from}\" to \"{to}\": router \"{from}\" queues before this link");
    let hint = format!("Its queues are set by their paths, such as node.{from}.{key}.{path}.queue");
    let discipline = cx.file.name(at) == "discipline" && cx.file.is_own(at);
    let diagnostic = if discipline { cx.error(at, message) } else { cx.warning(at, message) };
    diagnostic.hint(hint)
}

/// Reports what has no effect. A value of the file may be there for the variants without the router: it is reported if
/// no configuration makes use of it.
pub(super) fn report(seen: Vec<Seen>, diagnostics: &Diagnostics) {
    let used: Vec<(Location, usize)> =
        seen.iter().filter(|s| s.from_file && s.idle.is_none()).map(|s| (s.at, s.end)).collect();
    for Seen { at, end, from_file, idle } in seen {
        let Some(diagnostic) = idle else { continue };
        debug_assert!(from_file || diagnostic.severity == Severity::Warning);
        if !(from_file && used.contains(&(at, end))) {
            diagnostics.push(diagnostic);
        }
    }
}
