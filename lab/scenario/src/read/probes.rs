//! `[probes]`: what is sampled, and the parts of the time that have figures of their own.

use super::cx::{Cx, over};
use super::nodes;
use super::rest::Head;
use super::traffic::is_tcp;
use crate::model::{Link, LinkIndex, Phase, Probes, Traffic};
use perhop_config::TableReader;
use perhop_units::Duration;

/// Most limits of delay, and most phases.
const MAX_PARTS: usize = 16;

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
    probes.connections = connections(cx, &mut table, "connections", traffic);
    probes.segments = connections(cx, &mut table, "segments", traffic);
    probes.delay_limits = delay_limits(cx, &mut table);
    phases(cx, &mut table, head, &mut probes);
    table.finish();
    probes
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
