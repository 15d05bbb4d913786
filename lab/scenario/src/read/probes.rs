//! `[probes]`: what is sampled, and the parts of the time and of flows that have figures of their own.

use super::cx::{Cx, over};
use super::nodes;
use super::rest::Head;
use super::traffic::is_tcp;
use crate::figures::{after_name, groups_of};
use crate::model::{AfterPackets, Link, LinkIndex, Phase, Probes, Traffic};
use perhop_config::TableReader;
use perhop_quality::{Playout, Scoring};
use perhop_units::Duration;

/// Most limits of delay, most phases, and most parts of flows.
const MAX_PARTS: usize = 16;
/// Most packets of a flow that are left out.
const MAX_LEFT_OUT: i64 = 1_000_000;

/// Reads `[probes]`.
pub(super) fn read(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    links: &[Link],
    traffic: &[Traffic],
    head: &Head,
) -> Probes {
    let mut probes = Probes::default();
    let Some(mut table) = root.table_or_empty("probes") else { return probes };
    let ms = Duration::from_millis;
    over(&mut probes.queue_interval, table.value_in("queue_interval", ms(1)..=ms(60_000)));
    over(&mut probes.throughput_bin, table.value_in("throughput_bin", ms(1)..=ms(60_000)));
    let names = links.iter().map(|link| link.name.as_str());
    for given in table.texts("links").map_or(Vec::new(), |l| l.value) {
        probes.links.extend(cx.find(given, "a link", names.clone()).map(LinkIndex));
    }
    probes.scoring = Scoring { playout: playout(cx, &mut table), ..Scoring::default() };
    probes.connections = connections(cx, &mut table, "connections", traffic);
    probes.segments = connections(cx, &mut table, "segments", traffic);
    probes.delay_limits = delay_limits(cx, &mut table);
    phases(cx, &mut table, head, &mut probes);
    probes.after = after(cx, &mut table, traffic);
    table.finish();
    probes
}

/// `playout`, `playout_most` and `playout_kind`: the buffer of those who hear a call.
fn playout(cx: &Cx<'_>, table: &mut TableReader<'_>) -> Playout {
    let ms = Duration::from_millis;
    let depth = table.value_in("playout", ms(0)..=ms(1_000)).map_or(Playout::DEPTH, |depth| depth.value);
    let most = table.value_in("playout_most", depth..=ms(10_000));
    let kind = table.choice("playout_kind", &[("adaptive", false), ("fixed", true)]);
    match (kind.is_some_and(|kind| kind.value), most) {
        (false, most) => {
            Playout::Adaptive { least: depth, most: most.map_or(Playout::MOST.max(depth), |most| most.value) }
        }
        (true, None) => Playout::Fixed { depth },
        (true, Some(most)) => {
            cx.push(cx.error(most.span, "is of a buffer that adapts, and this one is fixed"));
            Playout::Fixed { depth }
        }
    }
}

/// A list of traffic over TCP.
fn connections(
    cx: &Cx<'_>,
    table: &mut TableReader<'_>,
    key: &'static str,
    traffic: &[Traffic],
) -> Vec<usize> {
    let names = traffic.iter().map(|traffic| traffic.name.as_str());
    let mut listed = Vec::new();
    for given in table.texts(key).map_or(Vec::new(), |l| l.value) {
        match cx.find(given, "a traffic", names.clone()) {
            Some(found) if is_tcp(&traffic[found].kind) => listed.push(found),
            Some(_) => cx.push(cx.error(given.span, "has no connections: it sends datagrams")),
            None => {}
        }
    }
    listed
}

/// `delay_limits`, sorted.
fn delay_limits(cx: &Cx<'_>, table: &mut TableReader<'_>) -> Vec<Duration> {
    let Some(given) = table.values::<Duration>("delay_limits") else { return Vec::new() };
    let mut limits: Vec<Duration> = given.value.iter().map(|limit| limit.value).collect();
    if limits.len() > MAX_PARTS {
        let error = cx.error(given.span, "has too many limits").value("");
        cx.push(error.allowed(format!("at most {MAX_PARTS}")));
    }
    limits.sort_unstable();
    limits.dedup();
    limits
}

/// `[probes.phase.NAME]`.
fn phases(cx: &Cx<'_>, table: &mut TableReader<'_>, head: &Head, probes: &mut Probes) {
    let end = head.warm_up + head.duration;
    for (name, mut phase) in table.named("phase") {
        nodes::check_name(cx, &phase, name);
        let from = phase.value::<Duration>("from").map_or(Duration::ZERO, |from| from.value);
        let until = phase.value::<Duration>("until");
        let stop = until.as_ref().map_or(end, |until| until.value);
        if let Some(until) = until.filter(|until| !head.wrong && until.value > end) {
            cx.push(cx.error(until.span, format!("is after the end of the scenario ({end})")));
        } else if stop <= from && !head.wrong {
            let message = format!("is empty: it ends at {stop} and begins at {from}");
            cx.push(cx.error(phase.location(), message).value(""));
        }
        if probes.phases.len() == MAX_PARTS {
            cx.one_too_many(&phase, "phase", MAX_PARTS);
        }
        phase.finish();
        probes.phases.push(Phase { name: name.to_owned(), from, until: stop });
    }
}

/// `[probes.after.NAME]`.
fn after(cx: &Cx<'_>, table: &mut TableReader<'_>, traffic: &[Traffic]) -> Vec<AfterPackets> {
    let mut all = Vec::new();
    for (name, mut probe) in table.named("after") {
        nodes::check_name(cx, &probe, name);
        probe.require("traffic", "[\"voip\"]");
        probe.require("packets", "10");
        let listed = of_datagrams(cx, &mut probe, name, traffic);
        let packets = probe.integer("packets", 1..=MAX_LEFT_OUT).map_or(1, |n| n.value as u32);
        if all.len() == MAX_PARTS {
            cx.one_too_many(&probe, "part of flows", MAX_PARTS);
        }
        probe.finish();
        all.push(AfterPackets { name: name.to_owned(), traffic: listed, packets });
    }
    all
}

/// The `traffic` of a part of flows, whose groups must not be those of others.
fn of_datagrams(cx: &Cx<'_>, probe: &mut TableReader<'_>, name: &str, traffic: &[Traffic]) -> Vec<usize> {
    let names = traffic.iter().map(|t| t.name.as_str());
    let mut listed = Vec::new();
    for given in probe.texts("traffic").map_or(Vec::new(), |l| l.value) {
        let (at, group) = (given.span, after_name(given.value, name));
        let Some(found) = cx.find(given, "a traffic", names.clone()) else { continue };
        let other = traffic.iter().find(|other| groups_of(0, other).iter().any(|of| of.name == group));
        if is_tcp(&traffic[found].kind) {
            let hint = "Packets of TCP are the kernel's; [probes.phase.NAME] is a part of the time";
            cx.push(cx.error(at, "sends no datagrams that could be counted").hint(hint));
        } else if let Some(other) = other {
            let message =
                format!("gives a group \"{group}\" in results, and so does traffic \"{}\"", other.name);
            cx.push(cx.error(at, message));
        } else {
            listed.push(found);
        }
    }
    listed
}
