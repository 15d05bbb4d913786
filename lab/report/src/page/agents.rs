//! Charts of allocations: what classes that agents look after had, and policies of the TCP rate control.

use super::Section;
use super::charts::panel;
use super::view::{View, identifier};
use crate::details::{AllocationTrace, ConfigurationDetails};
use crate::plot::{Axis, Layer, Panels};

/// Most classes with a chart of their own.
const MAX_CLASSES: usize = 24;
/// Points that one stretch of a thinned line may need: three steps of two points each.
const POINTS_OF_A_STRETCH: usize = 6;

/// The first repetition of a class.
pub(super) fn first<'a>(details: &'a ConfigurationDetails, class: &str) -> Option<&'a AllocationTrace> {
    details.allocations.iter().find(|trace| trace.class == class)
}

/// Allocation of every class over time.
pub(super) fn over_time(view: &View<'_>) -> Section {
    let (classes, most) = (view.classes(), view.room(MAX_CLASSES));
    let left_out = classes.len().saturating_sub(most);
    let charts = classes.into_iter().take(most).enumerate();
    Section::charts(
        "Allocations",
        charts.map(|(i, class)| chart(view, i, class)).collect(),
        "What the agent gave a class over time, the first repetition of each configuration: good is a line that stays \
         just above what the class carries, follows it soon both ways and has few steps, as each is a request to the \
         broker. abr_policy/NAME is the rate that the flows of a policy of the TCP rate control share: good is a line \
         that changes with what the link has, the number of flows and their weights, and with nothing else.",
    )
    .without(left_out, "allocations.csv")
}

fn chart(view: &View<'_>, number: usize, class: &str) -> String {
    let traces =
        || view.configurations.iter().filter_map(|shown| Some((shown, first(shown.details, class)?)));
    let lines = traces().map(|(shown, trace)| Layer::Line {
        label: shown.name.clone(),
        series: shown.series,
        points: stairs(trace, view),
    });
    let words = traces().map(|(shown, trace)| {
        let rates = || trace.steps.iter().map(|(_, kbps)| *kbps);
        let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let changes = trace.steps.len().saturating_sub(1);
        format!("{}: {least:.0} to {most:.0} kbit/s, {changes} changes", shown.name)
    });
    let drawing = Panels {
        id: identifier("a", &[number]),
        title: class.to_owned(),
        description: format!("Allocation of {class} over time. {}.", words.collect::<Vec<_>>().join("; ")),
        x: Axis::exact("time, s", 0.0, view.end_s),
        panels: vec![panel("allocated, kbit/s", 0.0, lines.collect())],
        marks: view.marks(),
    };
    drawing.to_svg()
}

/// The line of a value that changes at once and stays until the end.
fn stairs(trace: &AllocationTrace, view: &View<'_>) -> Vec<(f64, f64)> {
    let thin = trace.thinned(view.points / POINTS_OF_A_STRETCH);
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * thin.steps.len() + 1);
    for (at_s, kbps) in thin.steps.into_iter().filter(|(at_s, _)| *at_s <= view.end_s) {
        if let Some((_, before)) = points.last().copied() {
            points.push((at_s, before));
        }
        points.push((at_s, kbps));
    }
    if let Some((_, last)) = points.last().copied() {
        points.push((view.end_s, last));
    }
    points
}
