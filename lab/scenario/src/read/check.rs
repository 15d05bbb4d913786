//! What only the whole scenario shows.

use super::Places;
use super::cx::Cx;
use super::traffic::is_tcp;
use super::traffic_kinds::MAX_STREAMS;
use crate::figures;
use crate::model::{Discipline, LinkIndex, NodeIndex, NodeKind, Scenario, TrafficKind, Way};
use crate::paths::Paths;
use perhop_config::Location;
use perhop_units::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

/// Checks everything.
pub(super) fn all(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    times(cx, scenario, places);
    addresses(cx, scenario, places);
    names(cx, scenario, places);
    reachable(cx, scenario, places);
    takes_time(cx, scenario, places);
    streams(cx, scenario, places);
    disciplines(cx, scenario, places);
    if !cx.file.is_damaged() && !scenario.links.is_empty() && ends_are_known(scenario) {
        let used: BTreeSet<usize> = scenario.links.iter().flat_map(|l| l.ends).map(|end| end.0).collect();
        for (_, &at) in places.nodes.iter().enumerate().filter(|(i, _)| !used.contains(i)) {
            cx.push(cx.warning(at, "has no link").value(""));
        }
    }
}

/// Whether every end of every link is a node; else what follows from a missing link is not worth reporting.
fn ends_are_known(scenario: &Scenario) -> bool {
    scenario.links.iter().flat_map(|l| l.ends).all(|end| end.0 < scenario.nodes.len())
}

/// Nothing may be planned behind the end.
fn times(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    let end = scenario.length();
    if end.as_nanos() == 0 || places.endless || cx.file.is_damaged() {
        return;
    }
    let behind = |table: Location, key: &str| {
        let at = cx.file.lookup(table, key);
        if !cx.is_wrong(at) {
            let error = cx.error(at, format!("is not before the end of the scenario ({end})"));
            cx.push(error.hint("warm_up and duration together are the end"));
        }
    };
    for &(table, _) in places.changes.iter().filter(|(_, at)| *at >= end) {
        behind(table, "at");
    }
    for (fault, &table) in scenario.faults.iter().zip(&places.faults) {
        if fault.at >= end {
            behind(table, "at");
        }
    }
    for (program, &table) in scenario.programs.iter().zip(&places.programs) {
        if program.start >= end {
            behind(table, "start");
        }
    }
}

/// Every node has an address of its own.
fn addresses(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    let mut first: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
    // Given ones first, so that the message stands at something written.
    let given = |i: &usize| cx.child(places.nodes[*i], "address").is_none();
    let mut order: Vec<usize> = (0..scenario.nodes.len()).collect();
    order.sort_by_key(given);
    for i in order {
        let node = &scenario.nodes[i];
        let Some(&other) = first.get(&node.address) else {
            first.insert(node.address, i);
            continue;
        };
        let name = &scenario.nodes[other].name;
        let place_other = cx.file.lookup(places.nodes[other], "address");
        let error = match cx.child(places.nodes[i], "address") {
            Some(at) => cx.error(at, format!("is the address of node \"{name}\"")),
            None => {
                let message =
                    format!("would be {} by its position, as that of node \"{name}\"", node.address);
                cx.file.lack(places.nodes[i], "address", message).hint("Give this node an address too")
            }
        };
        cx.push(cx.file.with_secondary(error, place_other, "that one is here"));
    }
}

/// Names of groups in the result must be unambiguous.
fn names(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    if places.traffic.len() != scenario.traffic.len() {
        return;
    }
    let begins = ["link", "agent", "admission", figures::TOTAL];
    let reserved = |name: &str| scenario.variants.iter().any(|v| v == name) || begins.contains(&name);
    let mut groups: BTreeMap<String, &str> = BTreeMap::new();
    for (traffic, &at) in scenario.traffic.iter().zip(&places.traffic) {
        if reserved(&traffic.name) {
            let what = match traffic.name.as_str() {
                "link" => "begins the figures of links",
                "agent" => "begins the figures of classes that agents look after",
                "admission" => "begins the figures of admission",
                figures::TOTAL => "is the group that sums all traffic",
                _ => "is also the name of a variant",
            };
            let message = format!("cannot be told apart in results: \"{}\" {what}", traffic.name);
            cx.push(cx.file.key_error(at, message));
        }
        for figures::Group { name: group, .. } in figures::groups_of(0, traffic) {
            if let Some(other) = groups.get(&group).filter(|o| **o != traffic.name) {
                let message =
                    format!("gives a group \"{group}\" in results, and so does traffic \"{other}\"");
                let hint = "The pairs of a traffic are numbered: name1, name2 …";
                cx.push(cx.file.key_error(at, message).hint(hint));
                break;
            }
            groups.insert(group, &traffic.name);
        }
    }
}

/// A path must lead from each sender to its receiver, over nodes that forward.
fn reachable(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    if cx.file.is_damaged() || places.traffic.len() != scenario.traffic.len() {
        return;
    }
    let links_are_known = ends_are_known(scenario);
    let kind_is_known = |node: &NodeIndex| {
        let kind = cx.child(places.nodes[node.0], "kind");
        kind.is_some_and(|kind| !cx.is_wrong(kind))
    };
    let links = scenario.links_by_node();
    let mut from: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (traffic, &at) in scenario.traffic.iter().zip(&places.traffic) {
        for (a, b) in &traffic.pairs {
            let name = |n: &NodeIndex| scenario.nodes[n.0].name.as_str();
            for (end, key) in [(a, "from"), (b, "to")] {
                if scenario.nodes[end.0].kind != NodeKind::Host && kind_is_known(end) {
                    let error = cx.error(
                        cx.file.lookup(at, key),
                        format!("names \"{}\", which is not a host", name(end)),
                    );
                    cx.push(error.hint("Traffic begins and ends in hosts; add one with a link to that node"));
                }
            }
            if !links_are_known {
                continue;
            }
            let distance = from.entry(a.0).or_insert_with(|| distances(scenario, &links, *a))[b.0];
            if distance != usize::MAX && distance > MOST_LINKS {
                let message = format!(
                    "is not reached: \"{}\" is {distance} links from \"{}\", and a packet passes {MOST_LINKS}, as its TTL is 64",
                    name(b),
                    name(a)
                );
                cx.push(
                    cx.warning(cx.file.lookup(at, "to"), message).hint("Leave out nodes that only forward"),
                );
            }
            if a != b && distance == usize::MAX {
                let message =
                    format!("is not reached: no links lead from \"{}\" to \"{}\"", name(a), name(b));
                cx.push(cx.error(cx.file.lookup(at, "to"), message).hint("Hosts forward nothing"));
            }
        }
    }
}

/// Less than this is no time: a window of 64 KiB would come to 500 Gbit/s.
const LEAST_DELAY: Duration = Duration(1_000);

/// A transfer over a path that takes no time has no end in virtual time.
fn takes_time(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    let is_at_once = |way: &Way| {
        let is_plain = way.rate.is_none() && way.trace.is_none() && way.delay < LEAST_DELAY;
        is_plain
            && way.jitter.is_none()
            && way.changes.is_empty()
            && matches!(way.discipline, Discipline::Fifo)
    };
    let may_be = scenario.links.iter().any(|link| link.ways.iter().all(is_at_once));
    if cx.file.is_damaged()
        || !may_be
        || places.traffic.len() != scenario.traffic.len()
        || !ends_are_known(scenario)
    {
        return;
    }
    let mut paths = None;
    for (traffic, &at) in scenario.traffic.iter().zip(&places.traffic) {
        let waits = matches!(traffic.kind, TrafficKind::Bulk { access_delay: (_, most), .. } if most > Duration::ZERO);
        if !is_tcp(&traffic.kind) || waits {
            continue;
        }
        let paths = paths.get_or_insert_with(|| Paths::of(scenario));
        let at_once = |from: NodeIndex, to: NodeIndex| {
            let mut node = from;
            while node != to {
                let Some((link, end)) = paths.first_link(node, to) else { return false };
                let link = &scenario.links[link.0];
                node = link.ends[1 - end];
                if !is_at_once(&link.ways[end]) || matches!(scenario.nodes[node.0].kind, NodeKind::Router(_))
                {
                    return false;
                }
            }
            true
        };
        if let Some((a, b)) = traffic.pairs.iter().find(|(a, b)| a != b && at_once(*a, *b) && at_once(*b, *a))
        {
            let [a, b] = [a, b].map(|node| scenario.nodes[node.0].name.as_str());
            let message = format!(
                "takes no time: no link between \"{a}\" and \"{b}\" has a rate, or a delay of {LEAST_DELAY}"
            );
            cx.push(cx.error(cx.file.lookup(at, "to"), message).hint("Give one of the links a rate"));
        }
    }
}

/// How many links a packet passes: each node on its way takes one from the 64 that hosts begin with, and none drops the last.
const MOST_LINKS: usize = 64;

/// How many links packets from one node pass to each other one; `usize::MAX` to those to which none lead. O(nodes + links).
fn distances(scenario: &Scenario, links: &[Vec<(LinkIndex, usize)>], from: NodeIndex) -> Vec<usize> {
    let mut distance = vec![usize::MAX; scenario.nodes.len()];
    distance[from.0] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at != from && scenario.nodes[at.0].kind == NodeKind::Host {
            continue;
        }
        for &(link, end) in &links[at.0] {
            let far = scenario.links[link.0].ends[1 - end];
            if distance[far.0] == usize::MAX {
                distance[far.0] = distance[at.0] + 1;
                queue.push_back(far);
            }
        }
    }
    distance
}

/// Disciplines can be made, each with what the link adds to it.
fn disciplines(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    let registry = perhop_graph::router::registry();
    let mut seen = BTreeSet::new();
    for (link, &table) in scenario.links.iter().zip(&places.links) {
        let reverse = cx.child(table, "reverse");
        for (end, way) in link.ways.iter().enumerate() {
            let Discipline::Element(own) = &way.discipline else { continue };
            let Some(text) = way.discipline_element() else { continue };
            let back = reverse.filter(|_| end == 1).and_then(|reverse| cx.child(reverse, "discipline"));
            let Some(at) = back.or_else(|| cx.child(table, "discipline")) else { continue };
            let rate_is_wrong = cx.child(table, "rate").is_some_and(|rate| cx.is_wrong(rate));
            if cx.is_wrong(at) || rate_is_wrong && !own.contains("rate") || !seen.insert(at) {
                continue;
            }
            let Err(errors) = perhop_graph::lang::check_between_ports(&text, &registry) else { continue };
            for error in errors {
                // What the link adds stands behind the text, so places in the text are those of the file.
                let offset = own.char_indices().nth(error.column - 1).filter(|_| error.line == 1);
                let offset = offset.map_or(own.len(), |(offset, _)| offset);
                // "element (Shaper): …" is about the only element there is.
                let of_type =
                    error.message.strip_prefix("element (").map(|rest| rest.replacen("): ", ": ", 1));
                let message = format!("is no discipline: {}", of_type.unwrap_or(error.message));
                // Of a text that is written otherwise than it is, the whole is meant.
                let begins = cx.file.written(at).find(own.as_str()).filter(|_| offset < own.len());
                let place = begins.map_or(at, |begins| cx.file.behind(at, begins + offset));
                let mut diagnostic = cx.error(place, message);
                diagnostic.hint = error.hint;
                cx.push(diagnostic);
            }
        }
    }
}

/// Streams of datagrams share one space of ports.
fn streams(cx: &Cx<'_>, scenario: &Scenario, places: &Places) {
    let mut sum: i64 = 0;
    for (traffic, &at) in scenario.traffic.iter().zip(&places.traffic) {
        let each = match &traffic.kind {
            TrafficKind::Voice { calls: n, .. }
            | TrafficKind::Video { count: n, .. }
            | TrafficKind::Constant { count: n, .. }
            | TrafficKind::Poisson { count: n, .. }
            | TrafficKind::OnOff { count: n, .. }
            | TrafficKind::Mmpp { count: n, .. }
            | TrafficKind::Rtp { count: n, .. } => *n,
            TrafficKind::Staircase { .. } | TrafficKind::Replay { .. } => 1,
            TrafficKind::Bulk { .. } | TrafficKind::Files { .. } | TrafficKind::Web { .. } => 0,
        };
        sum += i64::from(each) * traffic.pairs.len() as i64 * if traffic.both { 2 } else { 1 };
        if sum > MAX_STREAMS {
            let key = if matches!(traffic.kind, TrafficKind::Voice { .. }) { "calls" } else { "count" };
            let message = format!("makes {sum} streams of datagrams up to here");
            let hint = "Each pair and each direction counts";
            cx.push(
                cx.error(cx.file.lookup(at, key), message)
                    .allowed(format!("at most {MAX_STREAMS}"))
                    .hint(hint),
            );
            return;
        }
    }
}
