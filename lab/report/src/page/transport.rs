//! Charts of traced TCP connections: window, round trip and sequence on one time axis.

use super::Section;
use super::charts::panel;
use super::view::{Shown, View, identifier};
use crate::details::{ConnectionState, ConnectionTrace};
use crate::plot::{Axis, Layer, Panels};

/// Most connections drawn of one configuration.
const MAX_CONNECTIONS: usize = 8;
/// Samples of one connection.
const SAMPLES: usize = 500;

/// Windows and sequence numbers.
pub(super) fn windows(view: &View<'_>) -> Section {
    let mut charts = Vec::new();
    for (i, shown) in view.configurations.iter().enumerate() {
        let first = shown.details.connections.iter().map(|c| c.repetition).min();
        let traces = shown.details.connections.iter().filter(|c| Some(c.repetition) == first);
        for (k, trace) in traces.filter(|c| !c.samples.is_empty()).take(MAX_CONNECTIONS).enumerate() {
            charts.push(chart(shown, trace, identifier("tcp", &[i, k])));
        }
    }
    Section::charts(
        "TCP connections",
        charts,
        "On top the congestion window, dashed the slow-start threshold: each drop of the window is a loss or a mark that \
         the sender heard of. In the middle the smoothed round trip, which rises with the queues on the way. Below, how \
         many bytes were acknowledged: its slope is the goodput, a flat stretch a stall.",
    )
}

fn chart(shown: &Shown<'_>, trace: &ConnectionTrace, id: String) -> String {
    let thin = trace.thinned(SAMPLES);
    let line =
        |color: usize, dashed: bool, label: &str, value: &dyn Fn(&ConnectionState) -> f64| Layer::Line {
            label: label.to_owned(),
            color,
            dashed,
            points: thin.samples.iter().map(|s| (s.at_s, value(s))).collect(),
        };
    let window = line(shown.color, false, "congestion window", &|s| s.window as f64 / 1e3);
    let top = window.highest().unwrap_or(1.0);
    // A threshold far above every window says nothing and would flatten the window.
    let threshold = line(5, true, "threshold", &|s| {
        s.threshold.map(|t| t as f64 / 1e3).filter(|t| *t <= top * 1.5).unwrap_or(f64::NAN)
    });
    let panels = vec![
        panel("window, kB", 0.0, vec![window, threshold]),
        panel("round trip, ms", 1.0, vec![line(3, false, "", &|s| s.round_trip_ms.unwrap_or(f64::NAN))]),
        panel("acked, MB", 0.0, vec![line(2, false, "", &|s| s.acknowledged as f64 / 1e6)]),
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
