//! The charts of the demonstration's page. Panels of the same kind share their vertical axis, so that runs compare.

use super::{NamedSeries, RunData};
use crate::plot::{Axis, BarChart, BarGroup, Chart, Layer, Mark};
use crate::series::Series;
use crate::summary::{CALLS, CALLS_AFTER};

/// Charts of one kind.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) charts: Vec<String>,
    /// One sentence on how to read them.
    pub(super) reading: &'static str,
}

/// Points a line keeps: about two pixels each.
const POINTS: usize = 250;

/// What an axis reaches beyond the highest value, so that this one is not on the edge.
const HEADROOM: f64 = 1.04;

/// All sections that have something to show.
pub(super) fn sections(runs: &[RunData]) -> Vec<Section> {
    let sections = [
        Section {
            title: "Delay of calls over time",
            charts: delay(runs),
            reading: "The line is the mean one-way delay of the packets sent in each interval, the pale band reaches \
                      from the smallest to the largest; a band that hugs a low line is a good call.",
        },
        Section {
            title: "Loss of calls over time",
            charts: loss(runs),
            reading: "The height is the share of the calls' packets sent in each interval that never arrived; with \
                      concealment a listener starts to notice at about 1 %.",
        },
        Section {
            title: "Who uses the link",
            charts: throughput(runs),
            reading: "The coloured areas stand on top of each other and add up to what left the link; calls need \
                      little, so the question is whether they get it while bulk and flood fight over the rest.",
        },
        Section {
            title: "Queue in front of the link",
            charts: queue(runs),
            reading: "The line is the mean number of bytes waiting, the pale band its extremes; one long shared queue \
                      delays everybody in it, a queue of its own stays short however long the others grow.",
        },
        Section {
            title: "Distribution of delay and score",
            charts: distribution(runs),
            reading: "Left: the share of packets (vertical) that arrived within a delay (horizontal, each step \
                      multiplies), further left and steeper is better; right: the opinion score, where 4 is good and \
                      below 2.6 nearly every listener is dissatisfied.",
        },
    ];
    sections.into_iter().filter(|section| !section.charts.is_empty()).collect()
}

fn seconds(series: &Series) -> f64 {
    series.bin().as_secs_f64() * series.len() as f64
}

/// End of the time axis: that of the longest series of any run.
fn last_second(runs: &[RunData]) -> f64 {
    runs.iter()
        .flat_map(|run| {
            let named = run.series.throughput_bits.iter().chain(&run.series.queue_bytes).map(|n| &n.series);
            named.chain([&run.series.call_delay_ms, &run.series.call_loss]).map(seconds)
        })
        .fold(0.0, f64::max)
}

/// A chart over time of one run.
fn over_time(
    kind: &str,
    i: usize,
    runs: &[RunData],
    y: &Axis,
    what: &str,
    (note, layers): (String, Vec<Layer>),
) -> String {
    let Some(run) = runs.get(i) else { return String::new() };
    let marks = run.marks.iter().map(|m| Mark { x: m.at.as_secs_f64(), label: m.label.clone() }).collect();
    let peak = layers.iter().filter_map(Layer::highest).fold(0.0, f64::max);
    let chart = Chart {
        id: format!("{kind}-{i}"),
        title: if note.is_empty() { run.name.clone() } else { format!("{}: {note}", run.name) },
        description: format!(
            "{what} with {} over time; highest value {peak:.1}, axis {}.",
            run.name, y.label
        ),
        x: Axis::exact("time since start, s", 0.0, last_second(runs)),
        y: y.clone(),
        layers,
        marks,
    };
    chart.to_svg()
}

/// Mean line and pale band of a series, its values divided by `unit`. Bins are drawn at their middle.
fn line_and_band(series: &Series, unit: f64, label: &str, color: usize) -> [Layer; 2] {
    let series = series.downsampled(POINTS);
    let half = series.bin().as_secs_f64() / 2.0;
    let mut line = Vec::with_capacity(series.len());
    let mut band = Vec::with_capacity(series.len());
    for (at, bin) in series.iter() {
        let x = at.as_secs_f64() + half;
        line.push((x, bin.mean().map_or(f64::NAN, |mean| mean / unit)));
        // An empty bin's infinities interrupt the band.
        band.push((x, bin.min / unit, bin.max / unit));
    }
    [
        Layer::Band { label: String::new(), color, solid: false, points: band },
        Layer::Line { label: label.to_owned(), color, dashed: false, points: line },
    ]
}

fn delay(runs: &[RunData]) -> Vec<String> {
    let highest = runs.iter().filter_map(|run| run.series.call_delay_ms.max()).reduce(f64::max);
    let Some(highest) = highest else { return Vec::new() };
    let y = Axis::linear("one-way delay, ms", 0.0, highest * HEADROOM);
    let layers = |run: &RunData| {
        let delays = &run.series.delays;
        let note = match (delays.percentile_ms(50.0), delays.percentile_ms(99.0)) {
            (Some(p50), Some(p99)) => format!("half within {p50:.1} ms, 99 % within {p99:.1} ms"),
            _ => String::new(),
        };
        (note, line_and_band(&run.series.call_delay_ms, 1.0, "mean", 0).to_vec())
    };
    (0..runs.len()).map(|i| over_time("delay", i, runs, &y, "Delay of calls", layers(&runs[i]))).collect()
}

fn loss(runs: &[RunData]) -> Vec<String> {
    if runs.iter().all(|run| run.series.call_loss.is_empty()) {
        return Vec::new();
    }
    let points = |run: &RunData| -> Vec<(f64, f64, f64)> {
        let series = run.series.call_loss.downsampled(POINTS);
        let bin = series.bin().as_secs_f64();
        let share = |(at, b): (perhop_units::Duration, &crate::series::Bin)| {
            (at.as_secs_f64() + bin / 2.0, 0.0, b.mean().map_or(f64::NAN, |m| m * 100.0))
        };
        series.iter().map(share).collect()
    };
    let all: Vec<_> = runs.iter().map(points).collect();
    let highest = all.iter().flatten().map(|p| p.2).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let y = Axis::linear("packets lost, %", 0.0, (highest * HEADROOM).max(1.0));
    all.into_iter()
        .enumerate()
        .map(|(i, points)| {
            let band = Layer::Band { label: "lost".into(), color: 1, solid: true, points };
            over_time("loss", i, runs, &y, "Loss of calls", (lost(&runs[i]), vec![band]))
        })
        .collect()
}

/// Loss of the whole run in words.
fn lost(run: &RunData) -> String {
    let (mut lost, mut sent) = (0.0, 0);
    for (_, bin) in run.series.call_loss.iter() {
        lost += bin.sum;
        sent += bin.count;
    }
    if sent == 0 { String::new() } else { format!("{:.2} % of all packets", lost / sent as f64 * 100.0) }
}

/// Colour of a traffic group, the same in every chart.
fn traffic_color(name: &str, position: usize) -> usize {
    match name {
        "calls" => 0,
        "flood" => 1,
        "bulk" => 2,
        _ => 3 + position,
    }
}

fn throughput(runs: &[RunData]) -> Vec<String> {
    let stacks: Vec<Vec<Layer>> = runs.iter().map(|run| stack(&run.series.throughput_bits)).collect();
    if stacks.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let highest = stacks.iter().flatten().filter_map(Layer::highest).fold(0.0, f64::max);
    let y = Axis::linear("throughput, Mbit/s", 0.0, highest * HEADROOM);
    stacks
        .into_iter()
        .enumerate()
        .map(|(i, layers)| over_time("rate", i, runs, &y, "Throughput by traffic", (String::new(), layers)))
        .collect()
}

/// Areas on top of each other, in Mbit/s. All series of a run have the same bins; one with other bins is left out.
fn stack(groups: &[NamedSeries]) -> Vec<Layer> {
    let Some(longest) = groups.iter().map(|g| g.series.len()).max().filter(|n| *n > 0) else {
        return Vec::new();
    };
    let bin = groups[0].series.bin();
    let join = longest.div_ceil(POINTS).max(1);
    let seconds = bin.as_secs_f64() * join as f64;
    let mut base = vec![0.0; longest.div_ceil(join)];
    let mut layers = Vec::new();
    for (position, group) in groups.iter().enumerate().filter(|(_, g)| g.series.bin() == bin) {
        let mut sums = vec![0.0; base.len()];
        for (k, (_, b)) in group.series.iter().enumerate() {
            sums[k / join] += b.sum;
        }
        let mut points = Vec::with_capacity(base.len());
        for (k, (low, bits)) in base.iter_mut().zip(sums).enumerate() {
            // The last of the joined bins may be cut short.
            let span = bin.as_secs_f64() * join.min(longest - k * join) as f64;
            let high = *low + bits / span / 1e6;
            points.push(((k as f64 + 0.5) * seconds, *low, high));
            *low = high;
        }
        let color = traffic_color(&group.name, position);
        layers.push(Layer::Band { label: group.name.clone(), color, solid: true, points });
    }
    layers
}

fn queue(runs: &[RunData]) -> Vec<String> {
    let highest =
        runs.iter().flat_map(|run| &run.series.queue_bytes).filter_map(|q| q.series.max()).reduce(f64::max);
    let Some(highest) = highest else { return Vec::new() };
    let y = Axis::linear("bytes waiting, kB", 0.0, highest / 1000.0 * HEADROOM);
    (0..runs.len())
        .map(|i| {
            let queues = runs[i].series.queue_bytes.iter().enumerate();
            let layers = queues.flat_map(|(k, q)| line_and_band(&q.series, 1000.0, &q.name, k)).collect();
            over_time("queue", i, runs, &y, "Queue length", (String::new(), layers))
        })
        .collect()
}

fn distribution(runs: &[RunData]) -> Vec<String> {
    let mut charts = Vec::new();
    let shortest = runs.iter().filter_map(|run| run.series.delays.min_ms()).reduce(f64::min);
    let longest = runs.iter().filter_map(|run| run.series.delays.max_ms()).reduce(f64::max);
    if let (Some(shortest), Some(longest)) = (shortest, longest) {
        charts.push(delay_cdf(runs, shortest, longest));
    }
    if runs.iter().any(|run| run.result.group(CALLS).is_some_and(|g| g.mos.is_some())) {
        charts.push(scores(runs));
    }
    charts
}

fn delay_cdf(runs: &[RunData], shortest: f64, longest: f64) -> String {
    let layers = runs.iter().enumerate().map(|(i, run)| {
        let curve = run.series.delays.cumulative(POINTS);
        let mut points: Vec<(f64, f64)> = curve.iter().map(|(ms, share)| (*ms, share * 100.0)).collect();
        if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) {
            points.insert(0, (first.0, 0.0));
            points.push((longest, last.1));
        }
        // FIFO and Perhop in the colours of trouble and calls.
        Layer::Line { label: run.name.clone(), color: [1, 0, 2, 3][i % 4], dashed: i == 0, points }
    });
    let medians: Vec<String> = runs
        .iter()
        .filter_map(|run| Some(format!("{} {:.1} ms", run.name, run.series.delays.percentile_ms(50.0)?)))
        .collect();
    let chart = Chart {
        id: "cdf".into(),
        title: "Delay of packets of calls".into(),
        description: format!("Cumulative distribution of one-way delay; medians: {}.", medians.join(", ")),
        x: Axis::logarithmic("one-way delay, ms", shortest, longest),
        y: Axis::linear("packets within, %", 0.0, 100.0),
        layers: layers.collect(),
        marks: Vec::new(),
    };
    chart.to_svg()
}

fn scores(runs: &[RunData]) -> String {
    let groups = runs.iter().map(|run| {
        let mos = |group: &str| run.result.group(group).and_then(|g| g.mos);
        let (whole, after) = (mos(CALLS), mos(CALLS_AFTER));
        let values = vec![whole.map(|m| m.mean), whole.map(|m| m.min), after.map(|m| m.mean)];
        BarGroup { label: run.name.clone(), values }
    });
    let chart = BarChart {
        id: "mos".into(),
        title: "Opinion score of calls".into(),
        description:
            "Mean opinion score of each run over whole calls, of the worst call, and after detection.".into(),
        y: Axis::linear("MOS", 1.0, 5.0),
        names: vec![
            ("mean of calls".into(), 0),
            ("worst call".into(), 1),
            ("mean after detection".into(), 2),
        ],
        groups: groups.collect(),
    };
    chart.to_svg()
}
