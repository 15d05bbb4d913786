//! Charts of groups: over time, distributions, repetitions, successive delays.

use super::Section;
use super::view::{Shown, View, identifier};
use crate::details::{GroupFigures, GroupSeries};
use crate::plot::{Axis, BoxChart, BoxGroup, Chart, Layer, Panel, Panels};

/// What an axis reaches beyond the highest value, so that this one is not on the edge.
pub(super) const HEADROOM: f64 = 1.04;
/// Most groups in charts of distributions and of successive delays.
const MAX_DISTRIBUTIONS: usize = 12;
/// Most dots of one configuration in a chart of successive delays.
const DOTS: usize = 600;
/// Most points of a distribution.
const CURVE_POINTS: usize = 250;
/// Most groups in one box plot.
const BOXES: usize = 14;

/// Highest value of any layer, with room above it.
pub(super) fn top(layers: &[Layer]) -> f64 {
    layers.iter().filter_map(Layer::highest).fold(0.0, f64::max) * HEADROOM
}

/// What a page begins with: the group that matters most over time, and how its delays are distributed.
pub(super) fn lead(view: &View<'_>) -> Option<Section> {
    let group = view.lead()?;
    let (drawn, distributed) = (view.drawn_groups(), with_delays(view));
    let number = |among: &[&str]| among.iter().position(|name| *name == group);
    let mut charts: Vec<String> =
        number(&drawn).and_then(|number| group_over_time(view, number, group)).into_iter().collect();
    charts.extend(number(&distributed).map(|number| curve(view, number, group)));
    Some(Section::charts(
        group,
        charts,
        "Over time: the first repetition of each configuration, lines are means of an interval, the pale band reaches from \
         the smallest delay to the largest. Beside it the share of packets that arrived within a delay. Good is a flat low \
         delay without loss, and a steep rise far to the left.",
    ))
}

/// Throughput, delay and loss of every other group.
pub(super) fn over_time(view: &View<'_>) -> Section {
    let (drawn, lead) = (view.drawn_groups(), view.lead());
    let others = drawn.iter().enumerate().filter(|(_, group)| Some(**group) != lead);
    let charts = others.filter_map(|(i, group)| group_over_time(view, i, group));
    Section::charts(
        "Throughput, delay and loss over time",
        charts.collect(),
        "One drawing a group, the first repetition of each configuration; all panels of a drawing share the time axis. \
         Lines are means of an interval, the pale band reaches from the smallest delay to the largest, and loss is the \
         share of the packets sent in the interval that never arrived: good is a flat low delay without loss whatever \
         the throughput of others does. TCP has no delay here; its round trips are further down.",
    )
    .without(view.groups().len() - drawn.len(), "series.csv")
}

fn group_over_time(view: &View<'_>, number: usize, group: &str) -> Option<String> {
    let mut layers: [Vec<Layer>; 3] = Default::default();
    for shown in &view.configurations {
        let Some(series) = shown.details.first_series(group) else { continue };
        let series = series.thinned(view.points);
        layers[0].push(line(shown, &series, |bin| bin.throughput_kbps / 1000.0));
        if series.bins.iter().any(|bin| bin.delay_ms.is_some()) {
            layers[1].push(delay_band(shown, &series));
            layers[1].push(line(shown, &series, |bin| bin.delay_ms.map_or(f64::NAN, |d| d[1])));
        }
        if series.bins.iter().any(|bin| bin.sent > 0) {
            let share = |bin: &crate::details::GroupBin| match bin.sent {
                0 => f64::NAN,
                sent => bin.lost as f64 / sent as f64 * 100.0,
            };
            layers[2].push(line(shown, &series, share));
        }
    }
    if layers[0].is_empty() {
        return None;
    }
    let [rate, delay, loss] = layers;
    let mut panels = vec![panel("Mbit/s", 0.0, rate)];
    if !delay.is_empty() {
        panels.push(panel("delay, ms", 0.0, delay));
        let highest = loss.iter().filter_map(Layer::highest).fold(0.0, f64::max);
        panels.push(Panel {
            y: Axis::linear("lost, %", 0.0, (highest * HEADROOM).clamp(1.0, 100.0)),
            layers: loss,
        });
    }
    let panels = Panels {
        id: identifier("t", &[number]),
        title: group.to_owned(),
        description: description(view, "Throughput, delay and loss over time", group),
        x: Axis::exact("time, s", 0.0, view.end_s),
        panels,
        marks: view.marks(),
    };
    Some(panels.to_svg())
}

/// A panel from zero to the highest value, at least `least`.
pub(super) fn panel(label: &str, least: f64, layers: Vec<Layer>) -> Panel {
    Panel { y: Axis::linear(label, 0.0, top(&layers).max(least)), layers }
}

/// What is drawn of a group, and its figures in words.
fn description(view: &View<'_>, what: &str, group: &str) -> String {
    let words = view.configurations.iter().filter_map(|shown| {
        let result = &shown.details.pooled(group)?.result;
        let mut text = format!("{}:", shown.name);
        if let Some(throughput) = result.throughput_kbps {
            text.push_str(&format!(" {:.0} kbit/s", throughput.mean));
        }
        if let Some(delay) = result.delay_ms {
            text.push_str(&format!(", mean delay {:.2} ms, 99 % within {:.2} ms", delay.mean, delay.p99));
        }
        if let Some(loss) = result.loss_pct {
            text.push_str(&format!(", {loss:.2} % lost"));
        }
        Some(text)
    });
    format!("{what} of {group}. {}.", words.collect::<Vec<_>>().join("; "))
}

fn middles(series: &GroupSeries) -> impl Iterator<Item = (f64, &crate::details::GroupBin)> {
    let bin = series.bin.as_secs_f64();
    series.bins.iter().enumerate().map(move |(i, values)| ((i as f64 + 0.5) * bin, values))
}

fn line(shown: &Shown<'_>, series: &GroupSeries, value: impl Fn(&crate::details::GroupBin) -> f64) -> Layer {
    let points = middles(series).map(|(x, bin)| (x, value(bin))).collect();
    Layer::Line { label: shown.name.clone(), series: shown.series, points }
}

fn delay_band(shown: &Shown<'_>, series: &GroupSeries) -> Layer {
    let points = middles(series).map(|(x, bin)| {
        let [least, _, most] = bin.delay_ms.unwrap_or([f64::NAN; 3]);
        (x, least, most)
    });
    Layer::Band { label: String::new(), series: shown.series, solid: false, points: points.collect() }
}

/// Groups whose delays are known in any configuration.
fn with_delays<'a>(view: &View<'a>) -> Vec<&'a str> {
    let known = |group: &&str| {
        view.configurations.iter().any(|shown| shown.details.delays.iter().any(|d| d.group == **group))
    };
    view.groups().into_iter().filter(known).collect()
}

/// Cumulative distribution of the delay of every group but the one that leads.
pub(super) fn delay_distribution(view: &View<'_>) -> Section {
    let (all, lead, most) = (with_delays(view), view.lead(), view.room(MAX_DISTRIBUTIONS));
    let others = || all.iter().enumerate().filter(|(_, group)| Some(**group) != lead);
    let charts = others().take(most).map(|(i, group)| curve(view, i, group));
    Section::charts(
        "Distribution of delay",
        charts.collect(),
        "The share of packets (vertical) that arrived within a one-way delay (horizontal, each step multiplies), all \
         repetitions together: further left and steeper is better; a flat foot to the right is a tail that a playout \
         buffer has to wait for.",
    )
    .without(others().count().saturating_sub(most), "delays.csv")
}

fn curve(view: &View<'_>, number: usize, group: &str) -> String {
    let curves: Vec<(&Shown<'_>, Vec<(f64, f64)>)> = view
        .configurations
        .iter()
        .filter_map(|shown| {
            let curve = shown.details.delays.iter().find(|d| d.group == group)?;
            let step = curve.points.len().div_ceil(view.room(CURVE_POINTS)).max(1);
            let mut points: Vec<(f64, f64)> =
                curve.points.iter().step_by(step).map(|(ms, share)| (*ms, share * 100.0)).collect();
            points.extend(curve.points.last().map(|(ms, share)| (*ms, share * 100.0)));
            Some((shown, points))
        })
        .collect();
    let ends = || curves.iter().flat_map(|(_, points)| points.first().into_iter().chain(points.last()));
    let shortest = ends().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let longest = ends().map(|p| p.0).fold(0.0, f64::max);
    let layers = curves.into_iter().map(|(shown, mut points)| {
        if let Some(first) = points.first().copied() {
            points.insert(0, (first.0, 0.0));
        }
        points.push((longest, 100.0));
        Layer::Line { label: shown.name.clone(), series: shown.series, points }
    });
    let chart = Chart {
        id: identifier("cdf", &[number]),
        title: group.to_owned(),
        description: description(view, "Distribution of delay", group),
        x: Axis::logarithmic("one-way delay, ms", shortest, longest),
        y: Axis::linear("packets within, %", 0.0, 100.0),
        layers: layers.collect(),
        marks: Vec::new(),
    };
    chart.to_svg()
}

/// Box plots over repetitions.
pub(super) fn repetitions(view: &View<'_>) -> Section {
    type Figure = fn(&GroupFigures) -> Option<f64>;
    let kinds: [(&str, &str, Figure); 4] = [
        ("throughput", "kbit/s", |g| g.result.throughput_kbps.map(|t| t.mean)),
        ("mean one-way delay", "ms", |g| g.result.delay_ms.map(|d| d.mean)),
        ("loss", "%", |g| g.result.loss_pct),
        ("mean jitter (7.4)", "ms", |g| g.result.jitter_ms.map(|j| j.mean)),
    ];
    let several =
        |shown: &Shown<'_>| shown.details.groups.iter().any(|g| g.repetition.is_some_and(|r| r > 1));
    let mut charts = Vec::new();
    if view.configurations.iter().any(several) {
        for (kind, (title, unit, figure)) in kinds.into_iter().enumerate() {
            charts.extend(boxes(view, kind, title, unit, figure));
        }
    }
    Section::charts(
        "Spread over repetitions",
        charts,
        "A dot is one repetition; the box reaches from the lower to the upper quartile, the line in it is the median, \
         the whiskers end at the extremes. Boxes of two configurations that do not overlap differ by more than chance \
         from repetition to repetition.",
    )
}

fn boxes(
    view: &View<'_>,
    kind: usize,
    title: &str,
    unit: &str,
    figure: fn(&GroupFigures) -> Option<f64>,
) -> Vec<String> {
    let groups = view.groups().into_iter().map(|group| BoxGroup {
        label: group.to_owned(),
        values: view
            .configurations
            .iter()
            .map(|shown| shown.details.each(group).filter_map(figure).collect())
            .collect(),
    });
    let groups: Vec<BoxGroup> = groups.filter(|g| g.values.iter().any(|values| !values.is_empty())).collect();
    let drawn = groups.chunks(view.room(BOXES)).enumerate().map(|(part, groups)| {
        let values = groups.iter().flat_map(|g| g.values.iter().flatten().copied());
        let highest = values.fold(0.0, f64::max);
        let chart = BoxChart {
            id: identifier("box", &[kind, part]),
            title: title.to_owned(),
            description: format!(
                "Box plot over repetitions of {title} in {unit}, largest value {highest:.2}."
            ),
            y: Axis::linear(format!("{title}, {unit}"), 0.0, highest * HEADROOM),
            names: view.configurations.iter().map(|shown| (shown.name.clone(), shown.series)).collect(),
            groups: groups.to_vec(),
        };
        chart.to_svg()
    });
    drawn.collect()
}

/// Delay of a packet against that of the packet before.
pub(super) fn successive_delays(view: &View<'_>) -> Section {
    let known = |group: &&str| {
        view.configurations.iter().any(|shown| shown.details.pairs.iter().any(|p| p.group == **group))
    };
    let all: Vec<&str> = view.groups().into_iter().filter(known).collect();
    let most = view.room(MAX_DISTRIBUTIONS);
    let charts = all.iter().take(most).enumerate().map(|(i, group)| scatter(view, i, group));
    Section::charts(
        "Delay of a packet against that of the packet before",
        charts.collect(),
        "A dot is a pair of successive packets of one call, a sample of all. On the dashed line both took equally long; \
         the distance from it is the jitter, the place along it the delay: a small cloud low on the line is a good call, \
         a wide one needs a deep playout buffer.",
    )
    .without(all.len().saturating_sub(most), "pairs.csv")
}

fn scatter(view: &View<'_>, number: usize, group: &str) -> String {
    let mut layers = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    // The product last, so that it lies on top.
    for shown in view.configurations.iter().rev() {
        let Some(pairs) = shown.details.pairs.iter().find(|p| p.group == group) else { continue };
        let step = pairs.points.len().div_ceil(view.room(DOTS)).max(1);
        let points: Vec<(f64, f64)> = pairs.points.iter().step_by(step).copied().collect();
        for (x, y) in &points {
            (least, most) = (least.min(x.min(*y)), most.max(x.max(*y)));
        }
        layers.push(Layer::Points { label: shown.name.clone(), series: shown.series, points });
    }
    let least = if least.is_finite() { (least * 0.96).floor() } else { 0.0 };
    let x = Axis::linear("delay of packet n, ms", least, most * HEADROOM);
    let y = Axis { label: "delay of packet n + 1, ms".into(), ..x.clone() };
    let points = vec![(x.min, x.min), (x.max, x.max)];
    layers.insert(0, Layer::Line { label: String::new(), series: 5, points });
    let chart = Chart {
        id: identifier("pairs", &[number]),
        title: group.to_owned(),
        description: description(view, "Delay of successive packets", group),
        x,
        y,
        layers,
        marks: Vec::new(),
    };
    chart.to_svg()
}
