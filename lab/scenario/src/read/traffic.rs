//! `[traffic.NAME]`: who sends what to whom, and when.

use super::cx::Cx;
use super::rest::Head;
use super::{Places, nodes, tcp, traffic_kinds};
use crate::figures::Content;
use crate::generators;
use crate::model::{Node, NodeIndex, Traffic, TrafficKind};
use perhop_config::{Spanned, TableReader};
use perhop_traffic::Seed;
use perhop_units::{Dscp, Duration};

/// Most pairs of a traffic.
const MAX_PAIRS: usize = 1_000;

/// Reads the traffic.
pub(super) fn read(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    nodes: &[Node],
    head: &Head,
    places: &mut Places,
) -> Vec<Traffic> {
    let defaults = tcp::read(cx, root, &crate::model::Tcp::default());
    let mut all = Vec::new();
    for (name, mut table) in root.named("traffic") {
        nodes::check_name(cx, &table, name);
        let kind = traffic_kinds::read(cx, &mut table, &defaults);
        let pairs = pairs(cx, &mut table, nodes);
        let both = table.boolean("both").is_some_and(|b| b.value);
        let (start, stop) = span(cx, &mut table, head);
        let dscp = table.value::<Dscp>("dscp").map_or(Dscp::default(), |d| d.value);
        let reply = table.value::<Dscp>("reply_dscp");
        let Some(kind) = kind else {
            // What else it may have depends on the kind.
            continue;
        };
        if let Some(reply) = reply.as_ref().filter(|_| !is_tcp(&kind)) {
            let hint =
                "Only TCP has packets from the receiver. With both = true the way back has the same dscp";
            cx.push(cx.error(reply.span, "is only for traffic over TCP").hint(hint));
        }
        let reply_dscp = reply.map_or(dscp, |r| r.value);
        let traffic = Traffic { name: name.to_owned(), pairs, both, start, stop, dscp, reply_dscp, kind };
        check_generator(cx, &table, &traffic);
        places.traffic.push(table.location());
        table.finish();
        all.push(traffic);
    }
    all
}

/// Whether a kind uses TCP.
pub(super) fn is_tcp(kind: &TrafficKind) -> bool {
    Content::of(kind) == Content::Connections
}

fn span(cx: &Cx<'_>, table: &mut TableReader<'_>, head: &Head) -> (Duration, Duration) {
    let end = head.warm_up + head.duration;
    let start = table.value::<Duration>("start");
    let stop = table.value::<Duration>("stop");
    let begin = start.as_ref().map_or(Duration::ZERO, |s| s.value);
    let until = stop.as_ref().map_or(end.max(begin), |s| s.value);
    if let Some(stop) = stop.as_ref().filter(|s| s.value <= begin) {
        cx.push(cx.error(stop.span, format!("is not after its start ({begin})")));
    } else if let Some(start) = start.as_ref().filter(|s| s.value >= end && !head.wrong) {
        let hint = "Nothing would be sent";
        cx.push(cx.error(start.span, format!("is not before the end of the scenario ({end})")).hint(hint));
    } else if let Some(stop) = stop.as_ref().filter(|s| s.value > end && !head.wrong) {
        cx.push(cx.warning(stop.span, format!("is after the end of the scenario ({end})")));
    } else if let Some(stop) = stop.as_ref().filter(|s| s.value <= head.warm_up && !head.wrong) {
        let hint = "Nothing of this traffic is measured";
        cx.push(cx.warning(stop.span, format!("is inside the warm-up ({})", head.warm_up)).hint(hint));
    }
    (begin, until)
}

fn pairs(cx: &Cx<'_>, table: &mut TableReader<'_>, nodes: &[Node]) -> Vec<(NodeIndex, NodeIndex)> {
    table.require("from", "\"a\"");
    table.require("to", "\"b\"");
    let lists = [table.is_list("from"), table.is_list("to")];
    let (Some(from), Some(to)) = (table.texts("from"), table.texts("to")) else { return Vec::new() };
    let (a, b) = (resolved(cx, &from, nodes), resolved(cx, &to, nodes));
    let (Some(a), Some(b)) = (a, b) else { return Vec::new() };
    let count = a.len().max(b.len());
    // A lone name is paired with each of the others.
    let fits = a.len() == b.len() || (!lists[0] && a.len() == 1) || (!lists[1] && b.len() == 1);
    if !fits {
        let plural = if b.len() == 1 { "" } else { "s" };
        let message = format!("has {} name{plural}, but from has {}", b.len(), a.len());
        cx.push(cx.error(to.span, message).hint("The first of one is paired with the first of the other"));
        return Vec::new();
    }
    if count == 0 || count > MAX_PAIRS {
        let message = if count == 0 { "is empty" } else { "has too many names" };
        cx.push(cx.error(from.span, message).allowed(format!("1 to {MAX_PAIRS} names")));
        return Vec::new();
    }
    let at = |list: &[NodeIndex], i: usize| list.get(i).or(list.first()).copied();
    let pairs: Vec<_> = (0..count).filter_map(|i| Some((at(&a, i)?, at(&b, i)?))).collect();
    if let Some((same, _)) = pairs.iter().find(|(a, b)| a == b) {
        let name = nodes.get(same.0).map_or("", |n| &n.name);
        cx.push(cx.error(to.span, format!("pairs \"{name}\" with itself")).hint("Traffic crosses a link"));
    }
    pairs
}

/// The nodes of a list; `None` if one of them is unknown.
fn resolved(cx: &Cx<'_>, given: &Spanned<Vec<Spanned<&str>>>, nodes: &[Node]) -> Option<Vec<NodeIndex>> {
    let found: Vec<NodeIndex> = given.value.iter().filter_map(|name| cx.node(*name, nodes)).collect();
    (found.len() == cx.file.count(given.span)).then_some(found)
}

/// What the generators say about parameters that do not fit each other; one stream is as good as all.
fn check_generator(cx: &Cx<'_>, table: &TableReader<'_>, traffic: &Traffic) {
    if cx.diagnostics.has_errors() || traffic.stop <= traffic.start {
        return;
    }
    let mut one = traffic.clone();
    match &mut one.kind {
        TrafficKind::Voice { calls: n, .. }
        | TrafficKind::Video { count: n, .. }
        | TrafficKind::Constant { count: n, .. }
        | TrafficKind::Poisson { count: n, .. }
        | TrafficKind::OnOff { count: n, .. }
        | TrafficKind::Mmpp { count: n, .. }
        | TrafficKind::Rtp { count: n, .. }
        | TrafficKind::Bulk { count: n, .. }
        | TrafficKind::Files { count: n, .. }
        | TrafficKind::Web { count: n, .. } => *n = 1,
        TrafficKind::Staircase { .. } | TrafficKind::Replay { .. } => {}
    }
    let seed = Seed::new(1);
    let refused = match generators::datagrams(&one, 0, seed) {
        Err(why) => Some(why),
        Ok(Some(_)) => None,
        Ok(None) => generators::connections(&one, 0, seed).err(),
    };
    if let Some(why) = refused {
        cx.push(cx.error(table.location(), format!("cannot be sent: {why}")).value(""));
    }
}
