//! The tables of TCP connections that are followed one by one: figures of groups, one a line, and figures of connections.

use super::csv::{CsvError, Reader, Writer};
use super::tables::{of, read_repetition, repetition};
use crate::details::{ConfigurationDetails, FlowFigures};
use crate::result::GroupResult;
use crate::transport::{OVER, Retransmits, SegmentDelay};

const FIGURES: [&str; 5] = ["configuration", "repetition", "group", "figure", "value"];

/// `transport.csv`: only figures that there are.
pub(super) fn write_figures(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&FIGURES);
    for configuration in configurations {
        for figures in &configuration.groups {
            for (name, value) in all(&figures.result) {
                repetition(writer.text(&configuration.name), figures.repetition).text(&figures.result.name);
                writer.text(&name).figure(Some(value)).end();
            }
        }
    }
    writer.finish()
}

/// Every figure of connections that a group has.
fn all(group: &GroupResult) -> Vec<(String, f64)> {
    let named = group.transport_figures().into_iter();
    let mut all: Vec<(String, f64)> =
        named.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let shares = group.esdl_ms.iter().flat_map(|delay| &delay.over_pct);
    all.extend(shares.map(|(limit, share)| (format!("{OVER}{limit}"), *share)));
    all
}

/// Adds the figures to groups that were read before; those of groups that are not there are left aside.
pub(super) fn read_figures(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("transport.csv", text);
    let columns = reader.columns(&FIGURES)?;
    for record in reader {
        let (number, name) = (read_repetition(&record, columns[1])?, record.text(columns[2]));
        let value = record.needed(columns[4])?;
        let Some(configuration) = of(configurations, &record, columns[0]) else { continue };
        let group = configuration.groups.iter_mut().find(|g| g.repetition == number && g.result.name == name);
        if let Some(group) = group {
            set(&mut group.result, record.text(columns[3]), value);
        }
    }
    Ok(())
}

/// Sets a figure by its name; an unknown one is left aside.
fn set(group: &mut GroupResult, name: &str, value: f64) {
    let (kind, figure) = name.split_once('.').unwrap_or((name, ""));
    match kind {
        "goodput_kbps" => {
            let goodput = group.goodput_kbps.get_or_insert_default();
            match figure {
                "mean" => goodput.mean = value,
                "stdev" => goodput.stdev = Some(value),
                "min" => goodput.min = value,
                "max" => goodput.max = value,
                _ => {}
            }
        }
        "utilisation_pct" => {
            let used = group.utilisation_pct.get_or_insert_default();
            match figure {
                "mean" => used.mean = value,
                "min" => used.min = value,
                "max" => used.max = value,
                "latency_r" => used.latency_r = Some(value),
                _ => {}
            }
        }
        "goodput_5s_kbps" => {
            let sliding = group.goodput_5s_kbps.get_or_insert_default();
            match figure {
                "mean" => sliding.mean = value,
                "stdev" => sliding.stdev = value,
                "stdev_max" => sliding.stdev_max = value,
                _ => {}
            }
        }
        "esdl_ms" => set_delay(group.esdl_ms.get_or_insert_default(), figure, value),
        "sdl_ms" => set_delay(group.sdl_ms.get_or_insert_default(), figure, value),
        "retransmits" => {
            let again: &mut Retransmits = group.retransmits.get_or_insert_default();
            match figure {
                "count" => again.count = value as u64,
                "share_pct" => again.share_pct = Some(value),
                _ => {}
            }
        }
        _ => {}
    }
}

fn set_delay(delay: &mut SegmentDelay, figure: &str, value: f64) {
    match figure {
        "mean" => delay.mean = value,
        "stdev" => delay.stdev = Some(value),
        "max" => delay.max = value,
        _ => {
            if let Some(limit) = figure.strip_prefix("over_pct.") {
                delay.over_pct.insert(limit.to_owned(), value);
            }
        }
    }
}

const FLOWS: [&str; 14] = [
    "configuration",
    "group",
    "repetition",
    "connection",
    "latency_ms",
    "goodput_kbps",
    "utilisation_pct",
    "goodput_5s_mean_kbps",
    "goodput_5s_stdev_kbps",
    "esdl_mean_ms",
    "esdl_stdev_ms",
    "esdl_max_ms",
    "segments",
    "retransmits",
];

/// `flows.csv`.
pub(super) fn write_flows(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&FLOWS);
    for configuration in configurations {
        for flow in &configuration.flows {
            writer.text(&configuration.name).text(&flow.group).count(Some(u64::from(flow.repetition)));
            writer.count(Some(u64::from(flow.number)));
            for figure in [
                flow.latency_ms,
                flow.goodput_kbps,
                flow.utilisation_pct,
                flow.sliding_kbps.map(|s| s.0),
                flow.sliding_kbps.map(|s| s.1),
                flow.esdl_ms.map(|d| d[0]),
                flow.esdl_ms.map(|d| d[1]),
                flow.esdl_ms.map(|d| d[2]),
            ] {
                writer.figure(figure);
            }
            writer.count(flow.segments).count(flow.retransmits).end();
        }
    }
    writer.finish()
}

/// Reads `flows.csv`.
pub(super) fn read_flows(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("flows.csv", text);
    let columns = reader.columns(&FLOWS)?;
    for record in reader {
        let figure = |i: usize| record.figure(columns[i]);
        let flow = FlowFigures {
            group: record.text(columns[1]).to_owned(),
            repetition: record.number(columns[2])?,
            number: record.number(columns[3])?,
            latency_ms: figure(4)?,
            goodput_kbps: figure(5)?,
            utilisation_pct: figure(6)?,
            sliding_kbps: figure(7)?.zip(figure(8)?),
            esdl_ms: match (figure(9)?, figure(10)?, figure(11)?) {
                (Some(mean), Some(stdev), Some(max)) => Some([mean, stdev, max]),
                _ => None,
            },
            segments: record.count(columns[12])?,
            retransmits: record.count(columns[13])?,
        };
        if let Some(configuration) = of(configurations, &record, columns[0]) {
            configuration.flows.push(flow);
        }
    }
    Ok(())
}
