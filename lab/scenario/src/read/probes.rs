//! `[probes]`: what is sampled, and the parts of the time that have figures of their own.

use super::nodes;
use super::rest::Head;
use super::table::Table;
use super::traffic::is_tcp;
use crate::model::{Link, LinkIndex, Phase, Probes, Traffic};
use perhop_units::Duration;

/// Most limits of delay, and most phases.
const MAX_PARTS: usize = 16;

/// Reads `[probes]`.
pub(super) fn read(root: &mut Table<'_>, links: &[Link], traffic: &[Traffic], head: &Head) -> Probes {
    let mut probes = Probes::default();
    let Some(mut table) = root.table_or_empty("probes") else { return probes };
    let ms = Duration::from_millis;
    if let Some(interval) = table.value_in("queue_interval", ms(1)..=ms(60_000)) {
        probes.queue_interval = interval.value;
    }
    if let Some(bin) = table.value_in("throughput_bin", ms(1)..=ms(60_000)) {
        probes.throughput_bin = bin.value;
    }
    let names: Vec<&str> = links.iter().map(|l| l.name.as_str()).collect();
    for given in table.texts("links").map_or(Vec::new(), |l| l.value) {
        match names.iter().position(|n| *n == given.value) {
            Some(found) => probes.links.push(LinkIndex(found)),
            None => table.cx.push(table.cx.unknown(given.at, given.value, "a link", &names)),
        }
    }
    probes.connections = connections(&mut table, "connections", traffic);
    probes.segments = connections(&mut table, "segments", traffic);
    probes.delay_limits = delay_limits(&mut table);
    phases(&mut table, head, &mut probes);
    table.finish();
    probes
}

/// A list of traffic over TCP.
fn connections(table: &mut Table<'_>, key: &'static str, traffic: &[Traffic]) -> Vec<usize> {
    let names: Vec<&str> = traffic.iter().map(|t| t.name.as_str()).collect();
    let mut listed = Vec::new();
    for given in table.texts(key).map_or(Vec::new(), |l| l.value) {
        match traffic.iter().position(|t| t.name == given.value) {
            Some(found) if is_tcp(&traffic[found].kind) => listed.push(found),
            Some(_) => table.cx.push(table.cx.error(given.at, "has no connections: it sends datagrams")),
            None => table.cx.push(table.cx.unknown(given.at, given.value, "a traffic", &names)),
        }
    }
    listed
}

/// `delay_limits`, sorted.
fn delay_limits(table: &mut Table<'_>) -> Vec<Duration> {
    let Some(given) = table.values::<Duration>("delay_limits") else { return Vec::new() };
    let mut limits: Vec<Duration> = given.value.iter().map(|limit| limit.value).collect();
    if limits.len() > MAX_PARTS {
        let error = table.cx.error(given.at, "has too many limits").value("");
        table.cx.push(error.allowed(format!("at most {MAX_PARTS}")));
    }
    limits.sort_unstable();
    limits.dedup();
    limits
}

/// `[probes.phase.NAME]`.
fn phases(table: &mut Table<'_>, head: &Head, probes: &mut Probes) {
    let end = head.warm_up + head.duration;
    for (name, mut phase) in table.named("phase") {
        nodes::check_name(&phase, name);
        let from = phase.value::<Duration>("from").map_or(Duration::ZERO, |from| from.value);
        let until = phase.value::<Duration>("until");
        let stop = until.as_ref().map_or(end, |until| until.value);
        let cx = phase.cx;
        if let Some(until) = until.filter(|until| !head.wrong && until.value > end) {
            cx.push(cx.error(until.at, format!("is after the end of the scenario ({end})")));
        } else if stop <= from && !head.wrong {
            let message = format!("is empty: it ends at {stop} and begins at {from}");
            cx.push(cx.error(phase.at, message).value(""));
        }
        if probes.phases.len() == MAX_PARTS {
            let error = cx.key_error(phase.at, "is one phase too many");
            cx.push(error.allowed(format!("at most {MAX_PARTS}")));
        }
        phase.finish();
        probes.phases.push(Phase { name: name.to_owned(), from, until: stop });
    }
}
