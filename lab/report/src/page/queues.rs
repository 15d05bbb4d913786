//! Charts of queues: length, drops and borrowing on one time axis.

use super::Section;
use super::charts::panel;
use super::view::{Shown, View, identifier};
use crate::details::{ConfigurationDetails, QueueTrace};
use crate::plot::{Axis, Layer, Panels, solid};

/// Most queues drawn of one configuration.
const MAX_QUEUES: usize = 24;

/// A queue that was never longer held one packet at a time, which is no queue, bytes.
const ONE_PACKET: u32 = 1600;

/// Name of the queue of a link without classes.
const ONLY: &str = "queue";

/// The queues that a page draws.
pub(super) fn drawn<'a>(
    view: &View<'_>,
    details: &'a ConfigurationDetails,
) -> impl Iterator<Item = &'a QueueTrace> {
    eventful(details).take(view.room(MAX_QUEUES))
}

/// The first repetition of the queues that ever held more than one packet or dropped one.
fn eventful(details: &ConfigurationDetails) -> impl Iterator<Item = &QueueTrace> {
    let first = details.queues.iter().map(|q| q.repetition).min();
    let matters = |q: &QueueTrace| q.intervals.iter().any(|i| i.bytes[1] > ONE_PACKET || i.drops > 0);
    details.queues.iter().filter(move |q| Some(q.repetition) == first && matters(q))
}

/// Length, drops and borrowing of every queue.
pub(super) fn over_time(view: &View<'_>) -> Section {
    let (mut charts, mut all) = (Vec::new(), 0);
    for (i, shown) in view.configurations.iter().enumerate() {
        all += eventful(shown.details).count();
        for (k, trace) in drawn(view, shown.details).enumerate() {
            charts.push(chart(view, shown, trace, identifier("q", &[i, k])));
        }
    }
    let left_out = all - charts.len();
    Section::charts(
        "Queues",
        charts,
        "The band reaches from the shortest to the longest queue of each interval, the line is its length at the end of \
         it; below are packets dropped in each interval and, where classes borrow, what they have sent beyond their \
         share so far, as a running count (in the discipline's unit: packets or bytes). Queues that never held more than \
         a packet are in queues.csv alone. A queue of calls should be nearly empty; one of transfers may be long, at the \
         price of their own delay alone.",
    )
    .without(left_out, "queues.csv")
}

/// What to call a queue: by the class that it is of, if it is one's.
fn called(queue: &str) -> String {
    if queue == ONLY { "The queue".to_owned() } else { format!("Queue {queue}") }
}

fn chart(view: &View<'_>, shown: &Shown<'_>, trace: &QueueTrace, id: String) -> String {
    let thin = trace.thinned(view.points);
    let interval = thin.interval.as_secs_f64();
    let at = |i: usize| (i as f64 + 0.5) * interval;
    let intervals = || thin.intervals.iter().enumerate();
    let band = intervals().map(|(i, q)| (at(i), f64::from(q.bytes[0]) / 1e3, f64::from(q.bytes[1]) / 1e3));
    let last = intervals().map(|(i, q)| (at(i), f64::from(q.bytes[2]) / 1e3));
    let series = shown.series;
    let length = vec![
        Layer::Band { label: String::new(), series, solid: false, points: band.collect() },
        Layer::Line { label: shown.name.clone(), series: solid(series), points: last.collect() },
    ];
    let mut panels = vec![panel("waiting, kB", 0.0, length)];
    if trace.intervals.iter().any(|q| q.drops > 0) {
        let points = intervals().map(|(i, q)| (at(i), 0.0, f64::from(q.drops)));
        let layer = Layer::Band { label: String::new(), series: 1, solid: true, points: points.collect() };
        panels.push(panel("dropped", 1.0, vec![layer]));
    }
    let borrowed = trace.intervals.iter().filter_map(|q| q.borrowed).max().unwrap_or(0);
    if borrowed > 0 {
        let (unit, label) = match borrowed {
            0..10_000 => (1.0, "borrowed"),
            10_000..10_000_000 => (1e3, "borrowed, k"),
            _ => (1e6, "borrowed, M"),
        };
        let points = intervals().map(|(i, q)| (at(i), q.borrowed.map_or(f64::NAN, |n| n as f64 / unit)));
        let layer = Layer::Line { label: String::new(), series: solid(2), points: points.collect() };
        panels.push(panel(label, 0.0, vec![layer]));
    }
    let back = if trace.way == 0 { "" } else { ", back" };
    // As in the table of links, what the warm-up dropped does not count.
    let start = |i: usize| i as f64 * trace.interval.as_secs_f64();
    let measured = trace.intervals.iter().enumerate().filter(|(i, _)| start(*i) + 1e-9 >= view.warm_up_s);
    let dropped: u64 = measured.map(|(_, q)| u64::from(q.drops)).sum();
    let longest = trace.intervals.iter().map(|q| q.bytes[1]).max().unwrap_or(0);
    let drawing = Panels {
        id,
        title: format!("{}{back}: {} ({})", trace.link, trace.queue, shown.name),
        description: format!(
            "{} in front of {}{back} over time, {}: at most {longest} bytes, {dropped} packets dropped after the warm-up, {borrowed} borrowed.",
            called(&trace.queue),
            trace.link,
            shown.name
        ),
        x: Axis::exact("time, s", 0.0, view.end_s),
        panels,
        marks: view.marks(),
    };
    drawing.to_svg()
}
