//! What a page shows beside the figures, taken out of the recordings: values over time, distributions, traces.
//!
//! Values over time cover a repetition from its start, warm-up included; distributions and pairs of delays count what
//! was sent inside the window, as the figures do.

use crate::agents;
use crate::experiment::{Configuration, Experiment};
use crate::groups::{groups, pool};
use crate::links::links;
use crate::recording::{LinkRecord, PacketRecord, Recording, StreamRecord};
use crate::selection::{Measured, Selection, first_direction, selections};
use crate::transport;
use perhop_quality::Distribution;
use perhop_report::details::{
    ConfigurationDetails, ConnectionState, ConnectionTrace, DelayCurve, DelayPairs, GroupBin, GroupFigures,
    GroupSeries, LinkFigures, QueueInterval, QueueTrace,
};
use perhop_report::directory::{About, Machine, ResultDirectory, TimedMark};
use perhop_scenario::figures::{TOTAL, has_total};
use perhop_scenario::{Fault, FaultKind, Paths, Scenario};
use perhop_units::{Duration, Instant};

/// Points kept of a distribution of delay.
const CURVE_POINTS: usize = 500;
/// Pairs of successive delays kept of a group.
const PAIRS: usize = 2000;
/// A slow-start threshold from here on is none yet.
const NO_THRESHOLD: u64 = 1 << 40;

/// Everything that a result directory holds of an experiment. `settings` are the values the user set, by path,
/// `topology` is the drawing of the network, `wall_s` the time the run took.
pub fn directory(
    experiment: &Experiment,
    settings: impl IntoIterator<Item = (String, String)>,
    topology: String,
    wall_s: Option<f64>,
) -> ResultDirectory {
    let scenario = &experiment.product.scenario;
    let mut result = experiment.result();
    result.wall_s = wall_s;
    ResultDirectory {
        about: About {
            title: scenario.title.clone(),
            why: scenario.why.clone(),
            source: scenario.source.clone(),
            topology,
            warm_up_s: scenario.warm_up.as_secs_f64(),
            settings: settings.into_iter().collect(),
            expect_sources: experiment.expected().map(|expect| expect.source.clone()).collect(),
            marks: marks(scenario),
        },
        machine: Machine {
            wall_s,
            saturated: experiment.saturated(&result),
            runs: machine(experiment),
            warnings: result.machine_warnings.clone(),
        },
        result,
        configurations: experiment
            .named()
            .map(|(name, configuration)| details(name, configuration))
            .collect(),
    }
}

/// How busy the machine was in each repetition of each configuration.
fn machine(experiment: &Experiment) -> Vec<String> {
    let mut runs = Vec::new();
    for (name, configuration) in experiment.named() {
        for (number, recording) in (1..).zip(&configuration.recordings) {
            let several = configuration.recordings.len() > 1;
            let of = if several { format!("{name}, repetition {number}") } else { name.to_owned() };
            runs.extend(recording.machine.as_ref().map(|sentence| format!("{of}: {sentence}")));
        }
    }
    runs
}

/// What happens while the scenario runs.
fn marks(scenario: &Scenario) -> Vec<TimedMark> {
    let mut marks = Vec::new();
    if scenario.warm_up > Duration::ZERO {
        marks.push((scenario.warm_up, "measurement".to_owned()));
    }
    for link in &scenario.links {
        for change in &link.ways[0].changes {
            let words = [
                change.rate.map(|rate| format!("at {rate}")),
                change.delay.map(|delay| format!("delay {delay}")),
                change.loss.map(|loss| format!("loss {loss}")),
                change.up.map(|up| if up { "up" } else { "down" }.to_owned()),
            ];
            let words: Vec<String> = words.into_iter().flatten().collect();
            marks.push((change.at, format!("{} {}", link.name, words.join(", "))));
        }
    }
    marks.extend(scenario.faults.iter().map(|fault| (fault.at, fault_words(scenario, fault))));
    marks.sort_by_key(|mark| mark.0);
    marks.into_iter().map(|(at, label)| TimedMark { at_s: at.as_secs_f64(), label }).collect()
}

fn fault_words(scenario: &Scenario, fault: &Fault) -> String {
    let node = scenario.nodes.get(fault.node.0).map_or("?", |node| node.name.as_str());
    match fault.kind {
        FaultKind::Stop => format!("{node} stops"),
        FaultKind::Restart => format!("{node} starts again"),
        FaultKind::ClockDrift { ppm } => format!("clock of {node} {ppm:+} ppm"),
    }
}

/// The details of one configuration.
pub fn details(name: &str, configuration: &Configuration) -> ConfigurationDetails {
    let (scenario, recordings) = (&configuration.scenario, configuration.recordings.as_slice());
    // `name.down` is what `name` is already.
    let drawn: Vec<(String, Selection)> = selections(scenario)
        .into_iter()
        .filter(|(name, of)| !name.ends_with(".down") && of.phase.is_none())
        .collect();
    let numbered = || (1..).zip(recordings);
    let mut details = ConfigurationDetails { name: name.to_owned(), ..ConfigurationDetails::default() };
    details.groups = figures(scenario, None, recordings);
    details.links = link_figures(scenario, None, recordings);
    details.agents = agents::figures(None, recordings);
    for (number, recording) in numbered() {
        let alone = std::slice::from_ref(recording);
        details.groups.extend(figures(scenario, Some(number), alone));
        details.links.extend(link_figures(scenario, Some(number), alone));
        details.agents.extend(agents::figures(Some(number), alone));
        details.allocations.extend(agents::allocations(number, recording));
    }
    for (group, of) in &drawn {
        // Over time it is what the whole is, but for its beginning.
        if of.after_packets == 0 {
            details.series.extend(numbered().map(|(number, r)| series(scenario, group, *of, number, r)));
        }
        details.delays.extend(curve(group, *of, recordings));
        details.pairs.extend(pairs(group, *of, recordings));
        details
            .connections
            .extend(numbered().flat_map(|(number, r)| connections(scenario, group, *of, number, r)));
    }
    let paths = Paths::of(scenario);
    let whole = |name: &str, of: Selection| !name.contains(".down") && of.pair.is_none();
    for (name, of) in selections(scenario).iter().filter(|(name, of)| whole(name, *of)) {
        let measured = Measured::by(scenario, *of);
        for numbered in numbered() {
            details.flows.extend(transport::flows(scenario, &paths, (name, *of, measured), numbered));
        }
    }
    if has_total(scenario) {
        details.series.extend(numbered().map(|(number, r)| total_series(scenario, number, r)));
    }
    for (number, recording) in numbered() {
        details.queues.extend(recording.links.iter().flat_map(|link| queues(scenario, number, link)));
    }
    details
}

fn figures(scenario: &Scenario, repetition: Option<u32>, recordings: &[Recording]) -> Vec<GroupFigures> {
    let selections = selections(scenario);
    groups(scenario, recordings)
        .into_iter()
        .map(|result| {
            let of = selections.iter().find(|(name, _)| *name == result.name).map(|(_, of)| *of);
            let streams = || of.into_iter().flat_map(|of| streams(recordings, of));
            let pool = pool(streams(), &scenario.probes.scoring);
            let rtp_jitter_ms = pool.jitter.mean_ms().map(|mean| (mean, pool.jitter.max_ms));
            GroupFigures { repetition, result, rtp_jitter_ms, variation_ms: variation(streams()) }
        })
        .collect()
}

fn link_figures(scenario: &Scenario, repetition: Option<u32>, recordings: &[Recording]) -> Vec<LinkFigures> {
    links(scenario, recordings).into_iter().map(|result| LinkFigures { repetition, result }).collect()
}

/// Streams of a group with the window they count in.
fn streams(
    recordings: &[Recording],
    of: Selection,
) -> impl Iterator<Item = ((Instant, Instant), &StreamRecord)> {
    recordings.iter().flat_map(move |recording| {
        let streams = recording.streams.iter().filter(move |stream| of.has(&stream.of));
        streams.map(move |stream| (of.part_of(recording.window, stream), stream))
    })
}

/// Packets of a stream that were sent inside the window and arrived.
fn arrived(window: (Instant, Instant), stream: &StreamRecord) -> impl Iterator<Item = &PacketRecord> {
    let arrived = stream.packets.iter().filter(|packet| packet.arrived != Instant::FAR_FUTURE);
    arrived.filter(move |packet| packet.sent >= window.0 && packet.sent < window.1)
}

fn delay(packet: &PacketRecord) -> i64 {
    packet.delay_ns().unwrap_or(0)
}

/// Percentiles of the delay beyond the smallest of each stream.
fn variation<'a>(streams: impl Iterator<Item = ((Instant, Instant), &'a StreamRecord)>) -> Option<[f64; 4]> {
    let mut beyond = Vec::new();
    for (window, stream) in streams {
        let Some(least) = arrived(window, stream).map(delay).min() else { continue };
        beyond.extend(arrived(window, stream).map(|packet| delay(packet) - least));
    }
    let beyond = Distribution::from_signed_nanos(beyond);
    let at = |percent| beyond.percentile_ms(percent);
    Some([at(50.0)?, at(90.0)?, at(99.0)?, at(99.9)?])
}

fn curve(group: &str, of: Selection, recordings: &[Recording]) -> Option<DelayCurve> {
    let all = streams(recordings, of).flat_map(|(window, stream)| arrived(window, stream).map(delay));
    let points = Distribution::from_signed_nanos(all.collect()).cumulative(CURVE_POINTS);
    (!points.is_empty()).then(|| DelayCurve { group: group.to_owned(), points })
}

/// Every so many-th pair of successive packets of each call.
fn pairs(group: &str, of: Selection, recordings: &[Recording]) -> Option<DelayPairs> {
    let calls = || streams(recordings, of).filter(|(_, stream)| stream.codec.is_some());
    let count: usize =
        calls().map(|(window, stream)| arrived(window, stream).count().saturating_sub(1)).sum();
    let step = count.div_ceil(PAIRS).max(1);
    let ms = |packet: &PacketRecord| delay(packet) as f64 / 1e6;
    let all = calls().flat_map(|(window, stream)| {
        arrived(window, stream).zip(arrived(window, stream).skip(1)).map(move |(a, b)| (ms(a), ms(b)))
    });
    let points: Vec<(f64, f64)> = all.step_by(step).collect();
    (!points.is_empty()).then(|| DelayPairs { group: group.to_owned(), points })
}

/// Bins of a repetition of a scenario, all zero.
struct Bins {
    length: Duration,
    end: Duration,
    bits: Vec<f64>,
}

impl Bins {
    fn new(scenario: &Scenario) -> Self {
        let length = Duration(scenario.probes.throughput_bin.as_nanos().max(1_000_000));
        let end = scenario.length();
        let count = end.as_nanos().div_ceil(length.as_nanos()) as usize;
        Self { length, end, bits: vec![0.0; count] }
    }

    /// The bin of an instant; what comes at the very end counts in the last.
    fn of(&self, at: Instant) -> Option<usize> {
        let position = (at.as_nanos() / self.length.as_nanos()) as usize;
        (at.as_nanos() <= self.end.as_nanos()).then(|| position.min(self.bits.len().saturating_sub(1)))
    }

    fn add(&mut self, position: Option<usize>, bytes: u64) {
        if let Some(bits) = position.and_then(|position| self.bits.get_mut(position)) {
            *bits += bytes as f64 * 8.0;
        }
    }

    /// What one selection brought.
    fn add_selection(&mut self, recording: &Recording, of: Selection) {
        for stream in recording.streams.iter().filter(|stream| of.has(&stream.of)) {
            for packet in stream.packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE) {
                self.add(self.of(packet.arrived), u64::from(packet.len));
            }
        }
        for connection in recording.connections.iter().filter(|connection| of.has(&connection.of)) {
            for (position, bytes) in connection.bins.iter() {
                self.add(usize::try_from(position).ok(), bytes);
            }
        }
    }

    /// As rates; the last bin may be shorter than the others.
    fn rates(&self) -> Vec<GroupBin> {
        let bins = self.bits.iter().enumerate().map(|(i, bits)| {
            let begin = self.length.as_nanos() * i as u64;
            let span = (self.end.as_nanos() - begin).min(self.length.as_nanos());
            GroupBin { throughput_kbps: bits / (span as f64 / 1e6), ..GroupBin::default() }
        });
        bins.collect()
    }
}

fn series(
    scenario: &Scenario,
    group: &str,
    of: Selection,
    repetition: u32,
    recording: &Recording,
) -> GroupSeries {
    let mut bins = Bins::new(scenario);
    bins.add_selection(recording, of);
    let mut values = bins.rates();
    let mut sums = vec![0_i64; values.len()];
    for stream in recording.streams.iter().filter(|stream| of.has(&stream.of)) {
        for packet in &stream.packets {
            let Some(position) = bins.of(packet.sent) else { continue };
            let Some(bin) = values.get_mut(position) else { continue };
            bin.sent += 1;
            if packet.arrived == Instant::FAR_FUTURE {
                bin.lost += 1;
                continue;
            }
            let ms = delay(packet) as f64 / 1e6;
            sums[position] += delay(packet);
            let [least, _, most] = bin.delay_ms.unwrap_or([ms; 3]);
            bin.delay_ms = Some([least.min(ms), 0.0, most.max(ms)]);
        }
    }
    for (bin, sum) in values.iter_mut().zip(sums) {
        let received = bin.sent - bin.lost;
        if let Some([_, mean, _]) = &mut bin.delay_ms {
            *mean = sum as f64 / received.max(1) as f64 / 1e6;
        }
    }
    GroupSeries { group: group.to_owned(), repetition, bin: bins.length, bins: values }
}

fn total_series(scenario: &Scenario, repetition: u32, recording: &Recording) -> GroupSeries {
    let mut bins = Bins::new(scenario);
    for (i, traffic) in scenario.traffic.iter().enumerate() {
        bins.add_selection(recording, first_direction(i, traffic));
    }
    GroupSeries { group: TOTAL.to_owned(), repetition, bin: bins.length, bins: bins.rates() }
}

/// Traced connections of a group. A group of several pairs has them under the name of each pair alone.
fn connections(
    scenario: &Scenario,
    group: &str,
    of: Selection,
    repetition: u32,
    recording: &Recording,
) -> Vec<ConnectionTrace> {
    if scenario.traffic[of.traffic].pairs.len() > 1 && group == scenario.traffic[of.traffic].name {
        return Vec::new();
    }
    let traced = recording.connections.iter().filter(|c| of.has(&c.of) && !c.trace.is_empty());
    let traces = (1..).zip(traced).map(|(number, connection)| {
        let samples = connection.trace.iter().map(|sample| ConnectionState {
            at_s: sample.at.as_nanos() as f64 / 1e9,
            window: sample.window,
            threshold: Some(sample.threshold).filter(|bytes| *bytes < NO_THRESHOLD),
            round_trip_ms: Some(sample.round_trip.as_millis_f64()).filter(|ms| *ms > 0.0),
            acknowledged: sample.acknowledged,
        });
        ConnectionTrace { group: group.to_owned(), repetition, number, samples: samples.collect() }
    });
    traces.collect()
}

/// The queues of one direction of a link in which something happened.
fn queues(scenario: &Scenario, repetition: u32, record: &LinkRecord) -> Vec<QueueTrace> {
    let name = scenario.links.get(record.link).map_or("", |link| link.name.as_str());
    let traces = record.queues.iter().map(|series| {
        let intervals = series.bytes.iter().enumerate().map(|(i, bytes)| QueueInterval {
            bytes: *bytes,
            drops: series.drops.get(i).copied().unwrap_or(0),
            borrowed: series.borrows.get(i).copied(),
        });
        QueueTrace {
            link: name.to_owned(),
            way: record.way as u32,
            queue: series.name.clone(),
            repetition,
            interval: series.interval,
            intervals: intervals.collect(),
        }
    });
    traces.filter(|trace| !trace.is_quiet()).collect()
}
