//! TCP connections: figures of those that are followed, and charts of traced ones with window, round trip and sequence on one
//! time axis.

use super::Section;
use super::charts::panel;
use super::tables::{head, plain, row, rows};
use super::view::{Shown, View, identifier};
use crate::details::{ConnectionState, ConnectionTrace};
use crate::plot::{Axis, Layer, Panels, escape, solid};
use crate::result::GroupResult;
use crate::summary::figure;

/// Most connections drawn of one configuration.
const MAX_CONNECTIONS: usize = 8;
/// Most samples of one connection.
const SAMPLES: usize = 500;

const COLUMNS: [&str; 15] = [
    "Group",
    "Configuration",
    "Goodput, kbit/s",
    "least",
    "most",
    "Used, %",
    "least",
    "5 s goodput deviation, kbit/s",
    "worst",
    "ESDL mean, ms",
    "± stdev",
    "max",
    "Late segments",
    "Sent again",
    "%",
];

/// Figures of groups of TCP connections whose segments are followed, if there are any.
pub(super) fn figures(view: &View<'_>, out: &mut String) {
    let followed = |group: &GroupResult| group.goodput_5s_kbps.is_some() || group.esdl_ms.is_some();
    let of_group = |group| {
        view.configurations.iter().filter_map(move |shown| {
            let figures = shown.details.pooled(group).map(|figures| &figures.result);
            figures.filter(|group| followed(group)).map(|figures| row(group, &shown.name, &cells(figures)))
        })
    };
    let all: Vec<String> = view.groups().into_iter().flat_map(of_group).collect();
    if all.is_empty() {
        return;
    }
    head("TCP segments", &COLUMNS, out);
    rows(
        &all,
        "Of all connections of all repetitions; a name behind @ is a part of the time. Goodput is payload of each connection, used \
         that as a share of the rate it is to have. The deviation is that of a connection's goodput in a sliding window of 5 s \
         over time: median and worst of the connections. ESDL is what a segment took from its first transmission to the \
         first acknowledgement that covers it, beyond the propagation of its path there and back. Late segments are those \
         at or above a limit in ms.",
        "transport.csv",
        out,
    );
}

fn cells(group: &GroupResult) -> String {
    let (goodput, used, sliding) = (group.goodput_kbps, group.utilisation_pct, group.goodput_5s_kbps);
    let (esdl, again) = (group.esdl_ms.as_ref(), group.retransmits);
    let late = esdl.map(|d| &d.over_pct).into_iter().flatten();
    let late: Vec<String> = late.map(|(limit, pct)| format!("{limit}: {} %", plain(Some(*pct)))).collect();
    let cells = [
        figure(goodput.map(|g| g.mean), 2),
        figure(goodput.map(|g| g.min), 2),
        figure(goodput.map(|g| g.max), 2),
        figure(used.map(|u| u.mean), 1),
        figure(used.map(|u| u.min), 1),
        figure(sliding.map(|s| s.stdev), 2),
        figure(sliding.map(|s| s.stdev_max), 2),
        figure(esdl.map(|d| d.mean), 1),
        figure(esdl.and_then(|d| d.stdev), 1),
        figure(esdl.map(|d| d.max), 1),
        if late.is_empty() { "–".to_owned() } else { escape(&late.join(", ")) },
        again.map_or_else(|| "–".to_owned(), |a| a.count.to_string()),
        figure(again.and_then(|a| a.share_pct), 2),
    ];
    cells.iter().map(|cell| format!("<td>{cell}</td>")).collect()
}

/// Windows and sequence numbers.
pub(super) fn windows(view: &View<'_>) -> Section {
    let (mut charts, mut left_out) = (Vec::new(), 0);
    let most = view.room(MAX_CONNECTIONS);
    for (i, shown) in view.configurations.iter().enumerate() {
        let first = shown.details.connections.iter().map(|c| c.repetition).min();
        let traces = shown.details.connections.iter().filter(|c| Some(c.repetition) == first);
        let traces: Vec<&ConnectionTrace> = traces.filter(|c| !c.samples.is_empty()).collect();
        left_out += traces.len().saturating_sub(most);
        for (k, trace) in traces.into_iter().take(most).enumerate() {
            charts.push(chart(shown, trace, view.room(SAMPLES), identifier("tcp", &[i, k])));
        }
    }
    Section::charts(
        "TCP connections",
        charts,
        "On top the congestion window, dashed the slow-start threshold: each drop of the window is a loss or a mark that \
         the sender heard of. In the middle the smoothed round trip, which rises with the queues on the way. Below, how \
         many bytes were acknowledged: its slope is the goodput, a flat stretch a stall.",
    )
    .without(left_out, "connections.csv")
}

fn chart(shown: &Shown<'_>, trace: &ConnectionTrace, samples: usize, id: String) -> String {
    let thin = trace.thinned(samples);
    let line = |series: usize, label: &str, value: &dyn Fn(&ConnectionState) -> f64| Layer::Line {
        label: label.to_owned(),
        series,
        points: thin.samples.iter().map(|s| (s.at_s, value(s))).collect(),
    };
    let window = line(solid(shown.series), "congestion window", &|s| s.window as f64 / 1e3);
    let top = window.highest().unwrap_or(1.0);
    // A threshold far above every window says nothing and would flatten the window.
    let threshold = line(5, "threshold", &|s| {
        s.threshold.map(|t| t as f64 / 1e3).filter(|t| *t <= top * 1.5).unwrap_or(f64::NAN)
    });
    let panels = vec![
        panel("window, kB", 0.0, vec![window, threshold]),
        panel("round trip, ms", 1.0, vec![line(solid(3), "", &|s| s.round_trip_ms.unwrap_or(f64::NAN))]),
        panel("acked, MB", 0.0, vec![line(solid(2), "", &|s| s.acknowledged as f64 / 1e6)]),
    ];
    let (first, last) = (thin.samples.first(), thin.samples.last());
    let (from, until) = (first.map_or(0.0, |s| s.at_s), last.map_or(1.0, |s| s.at_s));
    let drawing = Panels {
        id,
        title: format!("{}, connection {} ({})", trace.group, trace.number, shown.name),
        description: format!(
            "Congestion window, round trip and acknowledged bytes of a connection of {}, {}: {:.3} MB by {until:.1} s.",
            trace.group,
            shown.name,
            last.map_or(0.0, |s| s.acknowledged as f64 / 1e6)
        ),
        x: Axis::exact("time, s", from.floor(), until),
        panels,
        marks: Vec::new(),
    };
    drawing.to_svg()
}
