//! The tables of a result directory, each written and read in one place.

use super::csv::{Column, CsvError, Reader, Record, Writer};
use super::{DirectoryError, agents, transport};
use crate::details::{
    ConfigurationDetails, ConnectionState, ConnectionTrace, DelayCurve, DelayPairs, GroupBin, GroupFigures,
    GroupSeries, LinkFigures, QueueInterval, QueueTrace,
};
use crate::result::{Connections, DelayMs, GroupResult, JitterMs, LinkResult, Mos, QueueMs, Throughput};
use perhop_units::Duration;

/// Writes all tables.
pub(super) fn write(configurations: &[ConfigurationDetails]) -> Vec<(&'static str, String)> {
    vec![
        ("groups.csv", write_groups(configurations)),
        ("links.csv", write_links(configurations)),
        ("drops.csv", write_drops(configurations)),
        ("series.csv", write_series(configurations)),
        ("queues.csv", write_queues(configurations)),
        ("connections.csv", write_connections(configurations)),
        (
            "delays.csv",
            write_points(configurations, &CURVE, |c| {
                c.delays.iter().map(|d| (&d.group, &d.points)).collect()
            }),
        ),
        (
            "pairs.csv",
            write_points(configurations, &PAIRS, |c| c.pairs.iter().map(|d| (&d.group, &d.points)).collect()),
        ),
        ("agents.csv", agents::write_figures(configurations)),
        ("allocations.csv", agents::write_allocations(configurations)),
        ("transport.csv", transport::write_figures(configurations)),
        ("flows.csv", transport::write_flows(configurations)),
    ]
}

/// Reads all tables into the configurations they name; rows of others are left aside. Those of agents are there if
/// `with_agents`.
pub(super) fn read(
    configurations: &mut [ConfigurationDetails],
    with_agents: bool,
    text: impl Fn(&'static str) -> Result<String, DirectoryError>,
) -> Result<(), DirectoryError> {
    read_groups(configurations, &text("groups.csv")?)?;
    read_links(configurations, &text("links.csv")?)?;
    read_drops(configurations, &text("drops.csv")?)?;
    read_series(configurations, &text("series.csv")?)?;
    read_queues(configurations, &text("queues.csv")?)?;
    read_connections(configurations, &text("connections.csv")?)?;
    read_points("delays.csv", configurations, &text("delays.csv")?, &CURVE, |c, group, point| {
        if c.delays.last().is_none_or(|last| last.group != group) {
            c.delays.push(DelayCurve { group: group.to_owned(), points: Vec::new() });
        }
        c.delays.last_mut().into_iter().for_each(|last| last.points.push(point));
    })?;
    read_points("pairs.csv", configurations, &text("pairs.csv")?, &PAIRS, |c, group, point| {
        if c.pairs.last().is_none_or(|last| last.group != group) {
            c.pairs.push(DelayPairs { group: group.to_owned(), points: Vec::new() });
        }
        c.pairs.last_mut().into_iter().for_each(|last| last.points.push(point));
    })?;
    if with_agents {
        agents::read_figures(configurations, &text("agents.csv")?)?;
        agents::read_allocations(configurations, &text("allocations.csv")?)?;
    }
    Ok(())
}

/// A repetition's number, or `all`.
pub(super) fn repetition(writer: &mut Writer, number: Option<u32>) -> &mut Writer {
    match number {
        Some(number) => writer.count(Some(u64::from(number))),
        None => writer.text("all"),
    }
}

pub(super) fn read_repetition(record: &Record<'_>, column: Column) -> Result<Option<u32>, CsvError> {
    if record.text(column) == "all" { Ok(None) } else { record.number(column).map(Some) }
}

/// The configuration a record belongs to.
pub(super) fn of<'a>(
    configurations: &'a mut [ConfigurationDetails],
    record: &Record<'_>,
    column: Column,
) -> Option<&'a mut ConfigurationDetails> {
    let name = record.text(column);
    configurations.iter_mut().find(|configuration| configuration.name == name)
}

const GROUPS: [&str; 28] = [
    "configuration",
    "repetition",
    "group",
    "sent",
    "received",
    "loss_pct",
    "delay_min_ms",
    "delay_mean_ms",
    "delay_p50_ms",
    "delay_p99_ms",
    "delay_p999_ms",
    "delay_max_ms",
    "jitter_mean_ms",
    "jitter_max_ms",
    "rfc3550_jitter_mean_ms",
    "rfc3550_jitter_max_ms",
    "variation_p50_ms",
    "variation_p90_ms",
    "variation_p99_ms",
    "variation_p999_ms",
    "throughput_kbps",
    "throughput_stdev_kbps",
    "connections",
    "jain",
    "late_pct",
    "mos_mean",
    "mos_min",
    "psqm_surrogate",
];

fn write_groups(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&GROUPS);
    for configuration in configurations {
        for figures in &configuration.groups {
            let result = &figures.result;
            repetition(writer.text(&configuration.name), figures.repetition).text(&result.name);
            writer.count(result.sent).count(result.received).figure(result.loss_pct);
            let delay = result.delay_ms.map(|d| [d.min, d.mean, d.p50, d.p99, d.p999, d.max]);
            let jitter = result.jitter_ms.map(|j| [j.mean, j.max]);
            let rtp = figures.rtp_jitter_ms.map(|(mean, max)| [mean, max]);
            let mos = result.mos.map(|m| [m.mean, m.min]);
            several(&mut writer, delay);
            several(&mut writer, jitter);
            several(&mut writer, rtp);
            several(&mut writer, figures.variation_ms);
            writer.figure(result.throughput_kbps.map(|t| t.mean));
            writer.figure(result.throughput_kbps.and_then(|t| t.stdev));
            writer.count(result.connections.map(|c| c.count));
            writer.figure(result.connections.and_then(|c| c.jain));
            writer.figure(result.late_pct);
            several(&mut writer, mos);
            writer.figure(figures.psqm_surrogate()).end();
        }
    }
    writer.finish()
}

fn several<const N: usize>(writer: &mut Writer, values: Option<[f64; N]>) {
    (0..N).for_each(|i| {
        writer.figure(values.map(|v| v[i]));
    });
}

fn read_groups(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("groups.csv", text);
    let columns = reader.columns(&GROUPS)?;
    for record in reader {
        let figure = |i: usize| record.figure(columns[i]);
        // What is there is there as a whole: the first of several figures says whether.
        let figures = GroupFigures {
            repetition: read_repetition(&record, columns[1])?,
            rtp_jitter_ms: figure(14)?.zip(figure(15)?),
            variation_ms: match (figure(16)?, figure(17)?, figure(18)?, figure(19)?) {
                (Some(a), Some(b), Some(c), Some(d)) => Some([a, b, c, d]),
                _ => None,
            },
            result: GroupResult {
                name: record.text(columns[2]).to_owned(),
                sent: record.count(columns[3])?,
                received: record.count(columns[4])?,
                loss_pct: figure(5)?,
                delay_ms: match (figure(6)?, figure(7)?, figure(8)?, figure(9)?, figure(10)?, figure(11)?) {
                    (Some(min), Some(mean), Some(p50), Some(p99), Some(p999), Some(max)) => {
                        Some(DelayMs { min, mean, p50, p99, p999, max })
                    }
                    _ => None,
                },
                jitter_ms: figure(12)?.zip(figure(13)?).map(|(mean, max)| JitterMs { mean, max }),
                throughput_kbps: match figure(20)? {
                    Some(mean) => Some(Throughput { mean, stdev: figure(21)? }),
                    None => None,
                },
                connections: match record.count(columns[22])? {
                    Some(count) => Some(Connections { count, jain: figure(23)? }),
                    None => None,
                },
                late_pct: figure(24)?,
                mos: figure(25)?.zip(figure(26)?).map(|(mean, min)| Mos { mean, min }),
                ..GroupResult::default()
            },
        };
        if let Some(configuration) = of(configurations, &record, columns[0]) {
            configuration.groups.push(figures);
        }
    }
    Ok(())
}

fn write_links(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&LINKS);
    for configuration in configurations {
        for figures in &configuration.links {
            let result = &figures.result;
            repetition(writer.text(&configuration.name), figures.repetition).text(&result.name);
            writer.figure(result.utilisation_pct);
            several(&mut writer, result.queue_ms.map(|q| [q.p50, q.p99, q.max]));
            writer.count(Some(result.drops.values().sum())).end();
        }
    }
    writer.finish()
}

const LINKS: [&str; 8] = [
    "configuration",
    "repetition",
    "link",
    "utilisation_pct",
    "queue_p50_ms",
    "queue_p99_ms",
    "queue_max_ms",
    "dropped",
];

fn read_links(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("links.csv", text);
    let columns = reader.columns(&LINKS)?;
    for record in reader {
        let figure = |i: usize| record.figure(columns[i]);
        let queue_ms = match (figure(4)?, figure(5)?, figure(6)?) {
            (Some(p50), Some(p99), Some(max)) => Some(QueueMs { p50, p99, max }),
            _ => None,
        };
        let figures = LinkFigures {
            repetition: read_repetition(&record, columns[1])?,
            result: LinkResult {
                name: record.text(columns[2]).to_owned(),
                utilisation_pct: figure(3)?,
                queue_ms,
                ..LinkResult::default()
            },
        };
        if let Some(configuration) = of(configurations, &record, columns[0]) {
            configuration.links.push(figures);
        }
    }
    Ok(())
}

fn write_drops(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&["configuration", "repetition", "link", "reason", "packets"]);
    for configuration in configurations {
        for figures in &configuration.links {
            for (reason, packets) in &figures.result.drops {
                repetition(writer.text(&configuration.name), figures.repetition);
                writer.text(&figures.result.name).text(reason).count(Some(*packets)).end();
            }
        }
    }
    writer.finish()
}

fn read_drops(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("drops.csv", text);
    let (configuration, number) = (reader.column("configuration")?, reader.column("repetition")?);
    let (link, reason, packets) =
        (reader.column("link")?, reader.column("reason")?, reader.column("packets")?);
    for record in reader {
        let (number, packets) = (read_repetition(&record, number)?, record.needed_count(packets)?);
        let Some(configuration) = of(configurations, &record, configuration) else { continue };
        let name = record.text(link);
        let figures =
            configuration.links.iter_mut().find(|l| l.repetition == number && l.result.name == name);
        if let Some(figures) = figures {
            figures.result.drops.insert(record.text(reason).to_owned(), packets);
        }
    }
    Ok(())
}

fn seconds(at: Duration) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// The instant of a row as a duration.
fn duration(seconds: f64) -> Duration {
    Duration((seconds.max(0.0) * 1e9).round() as u64)
}

fn write_series(configurations: &[ConfigurationDetails]) -> String {
    let columns = [
        "configuration",
        "repetition",
        "group",
        "t_s",
        "bin_s",
        "throughput_kbps",
        "sent",
        "lost",
        "delay_min_ms",
        "delay_mean_ms",
        "delay_max_ms",
    ];
    let mut writer = Writer::new(&columns);
    for configuration in configurations {
        for series in &configuration.series {
            for (i, bin) in series.bins.iter().enumerate() {
                writer
                    .text(&configuration.name)
                    .count(Some(u64::from(series.repetition)))
                    .text(&series.group);
                writer.figure(Some(seconds(series.bin.saturating_mul(i as u64))));
                writer.figure(Some(seconds(series.bin))).figure(Some(bin.throughput_kbps));
                writer.count(Some(bin.sent)).count(Some(bin.lost));
                several(&mut writer, bin.delay_ms);
                writer.end();
            }
        }
    }
    writer.finish()
}

fn read_series(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("series.csv", text);
    let (configuration, number) = (reader.column("configuration")?, reader.column("repetition")?);
    let (group, length, rate) =
        (reader.column("group")?, reader.column("bin_s")?, reader.column("throughput_kbps")?);
    let (sent, lost) = (reader.column("sent")?, reader.column("lost")?);
    let delay =
        [reader.column("delay_min_ms")?, reader.column("delay_mean_ms")?, reader.column("delay_max_ms")?];
    for record in reader {
        let delay_ms = match (record.figure(delay[0])?, record.figure(delay[1])?, record.figure(delay[2])?) {
            (Some(min), Some(mean), Some(max)) => Some([min, mean, max]),
            _ => None,
        };
        let bin = GroupBin {
            throughput_kbps: record.needed(rate)?,
            sent: record.needed_count(sent)?,
            lost: record.needed_count(lost)?,
            delay_ms,
        };
        let (name, repetition, length) =
            (record.text(group), record.number(number)?, duration(record.needed(length)?));
        let Some(configuration) = of(configurations, &record, configuration) else { continue };
        let new = GroupSeries { group: String::new(), repetition, bin: length, bins: Vec::new() };
        let series = &mut configuration.series;
        if series.last().is_none_or(|last| last.group != name || last.repetition != repetition) {
            series.push(GroupSeries { group: name.to_owned(), ..new });
        }
        series.last_mut().into_iter().for_each(|last| last.bins.push(bin));
    }
    Ok(())
}

const QUEUES: [&str; 11] = [
    "configuration",
    "repetition",
    "link",
    "way",
    "queue",
    "t_s",
    "interval_s",
    "min_bytes",
    "max_bytes",
    "last_bytes",
    "drops",
];

/// Intervals in which nothing changed are left out, apart from the last.
fn write_queues(configurations: &[ConfigurationDetails]) -> String {
    let mut columns = QUEUES.to_vec();
    columns.push("borrowed");
    let mut writer = Writer::new(&columns);
    for configuration in configurations {
        for trace in &configuration.queues {
            let mut before: Option<QueueInterval> = None;
            for (i, interval) in trace.intervals.iter().enumerate() {
                let same = before.is_some_and(|before| *interval == still(&before));
                before = Some(*interval);
                if same && i + 1 < trace.intervals.len() {
                    continue;
                }
                writer.text(&configuration.name).count(Some(u64::from(trace.repetition))).text(&trace.link);
                writer.count(Some(u64::from(trace.way))).text(&trace.queue);
                writer.figure(Some(seconds(trace.interval.saturating_mul(i as u64))));
                writer.figure(Some(seconds(trace.interval)));
                interval.bytes.iter().for_each(|bytes| {
                    writer.count(Some(u64::from(*bytes)));
                });
                writer.count(Some(u64::from(interval.drops))).count(interval.borrowed).end();
            }
        }
    }
    writer.finish()
}

/// The interval behind one in which nothing more happens.
fn still(before: &QueueInterval) -> QueueInterval {
    QueueInterval { bytes: [before.bytes[2]; 3], drops: 0, borrowed: before.borrowed }
}

/// Most intervals of a queue that are read back: 10 ms over 28 hours.
const MAX_INTERVALS: usize = 10_000_000;

fn read_queues(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("queues.csv", text);
    let columns = reader.columns(&QUEUES)?;
    let borrowed = reader.column("borrowed")?;
    for record in reader {
        let new = QueueTrace {
            repetition: record.number(columns[1])?,
            link: record.text(columns[2]).to_owned(),
            way: record.number(columns[3])?,
            queue: record.text(columns[4]).to_owned(),
            interval: duration(record.needed(columns[6])?),
            intervals: Vec::new(),
        };
        let at = duration(record.needed(columns[5])?);
        let interval = QueueInterval {
            bytes: [record.number(columns[7])?, record.number(columns[8])?, record.number(columns[9])?],
            drops: record.number(columns[10])?,
            borrowed: record.count(borrowed)?,
        };
        let Some(configuration) = of(configurations, &record, columns[0]) else { continue };
        let queues = &mut configuration.queues;
        let same = queues.last().is_some_and(|last| {
            (last.repetition, last.way) == (new.repetition, new.way)
                && last.link == new.link
                && last.queue == new.queue
        });
        if !same {
            queues.push(new);
        }
        let Some(trace) = queues.last_mut() else { continue };
        let length = trace.interval.as_nanos().max(1);
        let slot = ((at.as_nanos() + length / 2) / length).min(MAX_INTERVALS as u64) as usize;
        if let Some(last) = trace.intervals.last().map(still)
            && slot > trace.intervals.len()
        {
            trace.intervals.resize(slot, last);
        }
        trace.intervals.push(interval);
    }
    Ok(())
}

fn write_connections(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&CONNECTIONS);
    for configuration in configurations {
        for trace in &configuration.connections {
            for state in &trace.samples {
                writer.text(&configuration.name).count(Some(u64::from(trace.repetition))).text(&trace.group);
                writer.count(Some(u64::from(trace.number))).figure(Some(state.at_s));
                writer.count(Some(state.window)).count(state.threshold);
                writer.figure(state.round_trip_ms).count(Some(state.acknowledged)).end();
            }
        }
    }
    writer.finish()
}

const CONNECTIONS: [&str; 9] = [
    "configuration",
    "repetition",
    "group",
    "connection",
    "t_s",
    "window_bytes",
    "threshold_bytes",
    "round_trip_ms",
    "acknowledged_bytes",
];

fn read_connections(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("connections.csv", text);
    let columns = reader.columns(&CONNECTIONS)?;
    for record in reader {
        let (repetition, number) = (record.number(columns[1])?, record.number(columns[3])?);
        let group = record.text(columns[2]);
        let state = ConnectionState {
            at_s: record.needed(columns[4])?,
            window: record.needed_count(columns[5])?,
            threshold: record.count(columns[6])?,
            round_trip_ms: record.figure(columns[7])?,
            acknowledged: record.needed_count(columns[8])?,
        };
        let Some(configuration) = of(configurations, &record, columns[0]) else { continue };
        let traces = &mut configuration.connections;
        let same = traces
            .last()
            .is_some_and(|t| (t.repetition, t.number) == (repetition, number) && t.group == group);
        if !same {
            let group = group.to_owned();
            traces.push(ConnectionTrace { group, repetition, number, samples: Vec::new() });
        }
        traces.last_mut().into_iter().for_each(|trace| trace.samples.push(state));
    }
    Ok(())
}

/// Names of the two columns of a table of points.
type PointColumns = [&'static str; 2];
const CURVE: PointColumns = ["delay_ms", "share"];
const PAIRS: PointColumns = ["delay_ms", "next_delay_ms"];

fn write_points(
    configurations: &[ConfigurationDetails],
    names: &PointColumns,
    of: impl Fn(&ConfigurationDetails) -> Vec<(&String, &Vec<(f64, f64)>)>,
) -> String {
    let mut writer = Writer::new(&["configuration", "group", names[0], names[1]]);
    for configuration in configurations {
        for (group, points) in of(configuration) {
            for (x, y) in points {
                writer.text(&configuration.name).text(group).figure(Some(*x)).figure(Some(*y)).end();
            }
        }
    }
    writer.finish()
}

fn read_points(
    file: &'static str,
    configurations: &mut [ConfigurationDetails],
    text: &str,
    names: &PointColumns,
    mut add: impl FnMut(&mut ConfigurationDetails, &str, (f64, f64)),
) -> Result<(), CsvError> {
    let reader = Reader::new(file, text);
    let (configuration, group) = (reader.column("configuration")?, reader.column("group")?);
    let (x, y) = (reader.column(names[0])?, reader.column(names[1])?);
    for record in reader {
        let point = (record.needed(x)?, record.needed(y)?);
        if let Some(configuration) = of(configurations, &record, configuration) {
            add(configuration, record.text(group), point);
        }
    }
    Ok(())
}
