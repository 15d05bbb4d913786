//! The tables of classes that agents look after.

use super::csv::{CsvError, Reader, Writer};
use super::tables::{of, read_repetition, repetition};
use crate::details::{AgentCounts, AgentFigures, AllocationTrace, ConfigurationDetails};
use crate::result::AgentResult;

const FIGURES: [&str; 10] = [
    "configuration",
    "repetition",
    "class",
    "allocated_kbps",
    "efficiency_pct",
    "estimate_pct",
    "requests_per_s",
    "not_granted_pct",
    "congested_pct",
    "exceeded_pct",
];

const COUNTS: [&str; 7] = ["increases", "decreases", "asked", "granted", "partial", "refused", "timed_out"];

/// `agents.csv`.
pub(super) fn write_figures(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&[&FIGURES[..], &COUNTS].concat());
    for configuration in configurations {
        for figures in &configuration.agents {
            let result = &figures.result;
            repetition(writer.text(&configuration.name), figures.repetition).text(&result.class);
            for (_, figure) in result.figures() {
                writer.figure(figure);
            }
            for (_, count) in figures.counts.list() {
                writer.count(Some(count));
            }
            writer.end();
        }
    }
    writer.finish()
}

pub(super) fn read_figures(configurations: &mut [ConfigurationDetails], text: &str) -> Result<(), CsvError> {
    let reader = Reader::new("agents.csv", text);
    let columns = reader.columns(&[&FIGURES[..], &COUNTS].concat())?;
    for record in reader {
        let figure = |i: usize| record.figure(columns[i]);
        let count = |i: usize| record.needed_count(columns[FIGURES.len() + i]);
        let figures = AgentFigures {
            repetition: read_repetition(&record, columns[1])?,
            result: AgentResult {
                class: record.text(columns[2]).to_owned(),
                allocated_kbps: figure(3)?,
                efficiency_pct: figure(4)?,
                estimate_pct: figure(5)?,
                requests_per_s: figure(6)?,
                not_granted_pct: figure(7)?,
                congested_pct: figure(8)?,
                exceeded_pct: figure(9)?,
            },
            counts: AgentCounts {
                increases: count(0)?,
                decreases: count(1)?,
                asked: count(2)?,
                granted: count(3)?,
                partial: count(4)?,
                refused: count(5)?,
                timed_out: count(6)?,
            },
        };
        if let Some(configuration) = of(configurations, &record, columns[0]) {
            configuration.agents.push(figures);
        }
    }
    Ok(())
}

const ALLOCATIONS: [&str; 5] = ["configuration", "repetition", "class", "t_s", "allocated_kbps"];

/// `allocations.csv`.
pub(super) fn write_allocations(configurations: &[ConfigurationDetails]) -> String {
    let mut writer = Writer::new(&ALLOCATIONS);
    for configuration in configurations {
        for trace in &configuration.allocations {
            for (at_s, kbps) in &trace.steps {
                writer.text(&configuration.name).count(Some(u64::from(trace.repetition))).text(&trace.class);
                writer.figure(Some(*at_s)).figure(Some(*kbps)).end();
            }
        }
    }
    writer.finish()
}

pub(super) fn read_allocations(
    configurations: &mut [ConfigurationDetails],
    text: &str,
) -> Result<(), CsvError> {
    let reader = Reader::new("allocations.csv", text);
    let columns = reader.columns(&ALLOCATIONS)?;
    for record in reader {
        let (repetition, class) = (record.number(columns[1])?, record.text(columns[2]));
        let step = (record.needed(columns[3])?, record.needed(columns[4])?);
        let Some(configuration) = of(configurations, &record, columns[0]) else { continue };
        let traces = &mut configuration.allocations;
        if traces.last().is_none_or(|last| last.class != class || last.repetition != repetition) {
            traces.push(AllocationTrace { class: class.to_owned(), repetition, steps: Vec::new() });
        }
        traces.last_mut().into_iter().for_each(|last| last.steps.push(step));
    }
    Ok(())
}
