//! `[link.NAME]`: links, each direction on its own.

use super::cx::{Cx, over};
use super::{Places, companions, nodes};
use crate::model::{
    Change, DeliveryTrace, Discipline, GilbertElliott, Jitter, JitterShape, Link, LinkIndex, Node, NodeIndex,
    Way,
};
use perhop_config::{Location, Spanned, TableReader, TextError};
use perhop_units::{Bytes, Duration, Probability, QueueLimit, Rate};

/// Longest delay and jitter.
const MAX_DELAY: Duration = Duration::from_secs(3_600);
/// A full-size frame without overhead: 1,500 bytes of IP and the Ethernet header.
pub(super) const FULL_FRAME: u64 = 1_514;

/// Reads the links. One with a wrong end keeps its place, so that probes and ports that name it are not wrong too.
pub(super) fn read(
    cx: &Cx<'_>,
    root: &mut TableReader<'_>,
    nodes: &[Node],
    places: &mut Places,
) -> Vec<Link> {
    root.require("link", "[link.NAME] with ends = [\"a\", \"b\"]");
    let mut links = Vec::new();
    for (name, mut table) in root.named("link") {
        nodes::check_name(cx, &table, name);
        places.links.push(table.location());
        let ends = ends(cx, &mut table, nodes);
        let forward = way(cx, &mut table, &Way::default(), false);
        let mut backward = forward.clone();
        if let Some(mut reverse) = table.table_or_empty("reverse") {
            backward = way(cx, &mut reverse, &forward, true);
            reverse.finish();
        }
        let mut link = Link { name: name.to_owned(), ends, ways: [forward, backward] };
        changes(cx, &mut table, &mut link, places);
        table.finish();
        links.push(link);
    }
    links
}

/// The two nodes; [`usize::MAX`] for one that is not known.
fn ends(cx: &Cx<'_>, table: &mut TableReader<'_>, nodes: &[Node]) -> [NodeIndex; 2] {
    let unknown = [NodeIndex(usize::MAX); 2];
    table.require("ends", "[\"a\", \"b\"]");
    let Some(given) = table.texts("ends") else { return unknown };
    let written = cx.file.count(given.span);
    if written != 2 {
        let message = format!("has {written} node{}, expected 2", if written == 1 { "" } else { "s" });
        cx.push(cx.error(given.span, message));
        return unknown;
    }
    let mut ends = unknown;
    for (end, name) in ends.iter_mut().zip(&given.value) {
        *end = cx.node(*name, nodes).unwrap_or(*end);
    }
    if ends[0] == ends[1] && ends[0] != unknown[0] {
        cx.push(cx.error(given.span, "is the same node twice").hint("A link joins two nodes"));
    }
    ends
}

/// Reads one direction; what is not given is as in `before`.
fn way(cx: &Cx<'_>, table: &mut TableReader<'_>, before: &Way, reverse: bool) -> Way {
    let rate = table.value::<Rate>("rate").and_then(|rate| checked_rate(cx, table, rate));
    let trace = trace(cx, table, rate.map(|r| r.span));
    let mut way = Way { changes: Vec::new(), ..before.clone() };
    if let Some(rate) = rate {
        way.rate = Some(rate.value);
        way.trace = None;
    }
    if let Some(trace) = trace {
        way.trace = Some(trace);
        way.rate = None;
    }
    over(&mut way.delay, table.value_in("delay", Duration::ZERO..=MAX_DELAY));
    way.jitter = jitter(cx, table, before.jitter, reverse);
    over(&mut way.loss, table.value("loss"));
    over(&mut way.duplicate, table.value("duplicate"));
    over(&mut way.reorder, table.value("reorder"));
    way.burst_loss = burst_loss(cx, table).or(way.burst_loss);
    let overhead = table.bytes_in("overhead", 0..=1_500);
    over(&mut way.overhead, overhead.map(|o| o.map(|bytes| Bytes(bytes.unsigned_abs()))));
    over(&mut way.queue, table.value("queue"));
    check_queue(cx, table, &way);
    check_time_on_trace(cx, table, &way);
    if let Some(discipline) = discipline(table) {
        way.discipline = discipline;
    }
    way
}

fn checked_rate(cx: &Cx<'_>, table: &TableReader<'_>, rate: Spanned<Rate>) -> Option<Spanned<Rate>> {
    if rate.value == Rate::ZERO {
        let hint = "A link that carries nothing for a while is [[link.NAME.change]] with up = false. \
                    Remove rate for a link without a limit";
        cx.push(cx.error(rate.span, "would carry nothing").hint(hint));
        return None;
    }
    table.in_range(rate, Rate(1)..=Rate::MOST)
}

fn trace(cx: &Cx<'_>, table: &mut TableReader<'_>, rate: Option<Location>) -> Option<DeliveryTrace> {
    let file = table.text("trace")?;
    if let Some(rate) = rate {
        let outside = |at: Location| !cx.file.is_own(at);
        // A rate that a variant or a setting gives replaces the trace of the file, and the other way round.
        match (outside(rate), outside(file.span)) {
            (true, false) => return None,
            (false, true) => {}
            _ => {
                let hint = "A link has a rate or a trace of delivery opportunities, not both";
                let error = cx.error(file.span, "is given beside a rate").hint(hint);
                cx.push(cx.file.with_secondary(error, rate, "the rate is here"));
                return None;
            }
        }
    }
    companions::delivery_trace(cx, file)
}

fn jitter(cx: &Cx<'_>, table: &mut TableReader<'_>, before: Option<Jitter>, reverse: bool) -> Option<Jitter> {
    let shapes =
        [("uniform", JitterShape::Uniform), ("normal", JitterShape::Normal), ("pareto", JitterShape::Pareto)];
    let spread = table.value_in("jitter", Duration::ZERO..=MAX_DELAY);
    let shape = table.choice("jitter_shape", &shapes);
    let has_spread = spread.is_some() || table.has("jitter") || (reverse && before.is_some());
    if let Some(shape) = shape.filter(|_| !has_spread) {
        let hint = "Write for example jitter = \"2 ms\"";
        cx.push(cx.warning(shape.span, "has no effect: the link has no jitter").hint(hint));
    }
    let spread = spread.map(|s| s.value).or(before.map(|b| b.spread))?;
    let shape = shape.map(|s| s.value).or(before.map(|b| b.shape)).unwrap_or_default();
    (spread > Duration::ZERO).then_some(Jitter { spread, shape })
}

fn burst_loss(cx: &Cx<'_>, table: &mut TableReader<'_>) -> Option<GilbertElliott> {
    let written = table.has("burst_loss");
    let mut bursts = table.table_or_empty("burst_loss")?;
    if written {
        bursts.require("p", "\"0.1 %\"");
        bursts.require("r", "\"20 %\"");
    }
    let (p, r) = (bursts.value::<Probability>("p"), bursts.value::<Probability>("r"));
    let (mut loss_good, mut loss_bad) = (Probability::ZERO, Probability::ONE);
    over(&mut loss_good, bursts.value("loss_good"));
    over(&mut loss_bad, bursts.value("loss_bad"));
    if let Some(r) = r.as_ref().filter(|r| r.value == Probability::ZERO) {
        let hint = "r is the probability to get out of a burst; 1 / r is its mean length in packets";
        cx.push(cx.error(r.span, "would never end a burst").hint(hint));
    }
    bursts.finish();
    Some(GilbertElliott { p: p?.value, r: r?.value, loss_good, loss_bad })
}

/// A queue that cannot hold one full-size frame would lose them all.
fn check_queue(cx: &Cx<'_>, table: &mut TableReader<'_>, way: &Way) {
    let at = table.location_of("queue");
    let rate_here = table.has("rate") || table.has("overhead");
    let frame = FULL_FRAME + way.overhead.get();
    let too_short = match (way.queue, way.rate) {
        (QueueLimit::Packets(0), _) => Some("\"1 packet\"".to_owned()),
        (QueueLimit::Bytes(n), _) if n < Bytes(frame) => Some(format!("\"{frame} B\"")),
        (QueueLimit::Time(_), Some(rate)) if way.queue.in_bytes(rate).is_some_and(|b| b.get() < frame) => {
            let least = rate.time_for(Bytes(frame)).as_nanos().div_ceil(1_000);
            Some(format!("\"{} ms\"", least as f64 / 1_000.0))
        }
        _ => None,
    };
    let Some(least) = too_short.filter(|_| at.is_some() || rate_here) else { return };
    let diagnostic = match at {
        Some(at) => cx.error(at, format!("is shorter than one packet ({frame} B on the wire)")),
        None => cx.file.lack(
            table.location(),
            "queue",
            format!("is {}, shorter than one packet ({frame} B on the wire)", way.queue),
        ),
    };
    cx.push(diagnostic.hint(format!("a full-size packet could never be queued. Use at least {least}")));
}

/// A time is so much at the link's rate, and a trace has none: such a queue would hold nothing.
fn check_time_on_trace(cx: &Cx<'_>, table: &mut TableReader<'_>, way: &Way) {
    let given = table.location_of("queue").or_else(|| table.location_of("trace"));
    let (QueueLimit::Time(_), Some(_), Some(at)) = (way.queue, &way.trace, given) else { return };
    let error = match cx.file.name(at) {
        "queue" => cx.error(at, "is a time at the rate of the link, which has a trace instead"),
        _ => cx.error(at, format!("gives no rate for the queue of {}, which is a time", way.queue)),
    };
    cx.push(error.hint("Write the queue in packets or bytes, such as \"100 packets\""));
}

fn discipline(table: &mut TableReader<'_>) -> Option<Discipline> {
    let given = table.value_with("discipline", "a string", |text| {
        if text.trim().eq_ignore_ascii_case("fifo") {
            return Ok(Discipline::Fifo);
        }
        let graph = format!("FromPort(in) -> discipline :: {text} -> ToPort(out);\n");
        let wrong = |why: String| {
            TextError::new(format!("is not the text of an element: {why}"))
                .hint("Write \"fifo\", or an element of the data plane such as \"Shaper(burst = 3 kB)\"")
        };
        match perhop_graph::lang::parse(&graph) {
            Ok(graph) if graph.nodes.len() == 3 && graph.edges.len() == 2 => {
                Ok(Discipline::Element(text.trim().to_owned()))
            }
            Ok(_) => Err(wrong("it is more than one".to_owned())),
            Err(errors) => Err(wrong(errors.first().map_or(String::new(), |e| e.message.clone()))),
        }
    });
    given.map(|d| d.value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    Both,
    Forward,
    Reverse,
}

fn changes(cx: &Cx<'_>, table: &mut TableReader<'_>, link: &mut Link, places: &mut Places) {
    let ways = [("both", Ways::Both), ("forward", Ways::Forward), ("reverse", Ways::Reverse)];
    for mut entry in table.tables("change") {
        let at = entry.required::<Duration>("at", "\"30 s\"");
        let which = entry.choice("way", &ways).map_or(Ways::Both, |w| w.value);
        let rate = entry.value::<Rate>("rate").and_then(|rate| checked_rate(cx, &entry, rate));
        let changed = LinkIndex(places.links.len() - 1);
        for (end, other) in [Ways::Reverse, Ways::Forward].into_iter().enumerate() {
            if let Some(rate) = rate.filter(|_| which != other) {
                places.rates.push((rate.span, changed, end, rate.value));
            }
        }
        let rate = rate.map(|r| r.value);
        let delay = entry.value_in("delay", Duration::ZERO..=MAX_DELAY).map(|d| d.value);
        let loss = entry.value::<Probability>("loss").map(|l| l.value);
        let up = entry.boolean("up").map(|u| u.value);
        let keys = ["rate", "delay", "loss", "up"];
        if keys.iter().all(|key| cx.child(entry.location(), key).is_none()) && !cx.file.is_damaged() {
            cx.push(
                cx.error(entry.location(), "changes nothing")
                    .value("")
                    .hint("Give it rate, delay, loss or up"),
            );
        }
        check_trace(cx, &entry, link, which);
        let place = entry.location();
        entry.finish();
        let Some(at) = at else { continue };
        places.changes.push((place, at.value));
        let change = Change { at: at.value, rate, delay, loss, up };
        if !matches!(which, Ways::Reverse) {
            link.ways[0].changes.push(change.clone());
        }
        if !matches!(which, Ways::Forward) {
            link.ways[1].changes.push(change);
        }
    }
    for way in &mut link.ways {
        way.changes.sort_by_key(|change| change.at);
    }
}

/// A trace has no rate that could be changed.
fn check_trace(cx: &Cx<'_>, entry: &TableReader<'_>, link: &Link, which: Ways) {
    let Some(rate) = cx.child(entry.location(), "rate") else { return };
    let traced = match which {
        Ways::Both => link.ways.iter().any(|way| way.trace.is_some()),
        Ways::Forward => link.ways[0].trace.is_some(),
        Ways::Reverse => link.ways[1].trace.is_some(),
    };
    if traced {
        cx.push(
            cx.error(rate, "changes the rate of a link that has a trace instead").hint("Remove one of them"),
        );
    }
}
