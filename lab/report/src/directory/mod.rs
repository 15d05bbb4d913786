//! A result directory: everything that one run of a scenario left, as files.
//!
//! | file | content |
//! |---|---|
//! | `result.json` | the result ([`ScenarioResult::to_result_file`]), byte-equal for a seed |
//! | `about.json` | what was run: title, reason, drawing, settings, sources of published values |
//! | `machine.json` | what depends on the machine: wall time, warnings, whether it was saturated |
//! | `groups.csv`, `links.csv`, `drops.csv` | figures of all repetitions together and of each |
//! | `series.csv`, `queues.csv`, `connections.csv` | values over time |
//! | `delays.csv`, `pairs.csv` | distributions of delay, delays of successive packets |
//! | `transport.csv`, `flows.csv` | TCP connections whose segments are followed: figures of groups, one a line, and of each connection |
//! | `agents.csv`, `allocations.csv` | classes that agents look after: figures of all repetitions together and of each, and what they had over time, with policies of the TCP rate control as `abr_policy/NAME` |
//!
//! A page is made from these files alone, so it can be made again later, or from two directories side by side. All but
//! `machine.json` are equal for equal runs.

mod agents;
mod csv;
mod tables;
mod transport;

use crate::details::{ConfigurationDetails, PRODUCT};
use crate::result::{ResultError, ScenarioResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

pub use csv::CsvError;

/// A directory that cannot be read.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// A file that every directory has is not there.
    #[error("{0} is missing: not the result of `perhop lab run`, or not all of it")]
    Missing(&'static str),
    /// A table is broken.
    #[error("{0}")]
    Table(#[from] CsvError),
    /// `result.json` is broken.
    #[error("result.json: {0}")]
    Result(#[from] ResultError),
    /// Another JSON file is broken.
    #[error("{file}: {source}")]
    Json {
        /// The file.
        file: &'static str,
        /// Why.
        source: serde_json::Error,
    },
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct About {
    /// One line that reads without knowing the authors.
    pub title: String,
    /// What the scenario shows.
    pub why: String,
    /// Publication the expected values come from.
    pub source: Option<String>,
    /// Drawing of the topology, as text.
    pub topology: String,
    /// Time before the measurement, s.
    pub warm_up_s: f64,
    /// Values that the user set, by path.
    pub settings: BTreeMap<String, String>,
    /// Where each published value of the result comes from, in the order of the result's expected values.
    pub expect_sources: Vec<Option<String>>,
    /// Instants worth a line in every chart over time.
    pub marks: Vec<TimedMark>,
}

/// Something that happened at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedMark {
    /// When, s since the start of a repetition.
    pub at_s: f64,
    /// What, in a word or two.
    pub label: String,
}

/// What depends on the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Time the run took, s.
    pub wall_s: Option<f64>,
    /// Set when the machine, not the network, was the bottleneck: why. No verdict then.
    pub saturated: Option<String>,
    /// What a reader must know of the machine.
    pub warnings: Vec<String>,
    /// How busy it was in each repetition of each configuration, a sentence each; none in the simulator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
}

/// Everything that one run left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultDirectory {
    /// What was run.
    pub about: About,
    /// On what.
    pub machine: Machine,
    /// The figures.
    pub result: ScenarioResult,
    /// What the page shows beside them; the product's configuration comes first.
    pub configurations: Vec<ConfigurationDetails>,
}

/// Names of the files that [`ResultDirectory::from_files`] asks for.
pub const FILES: [&str; 15] = [
    "result.json",
    "about.json",
    "machine.json",
    "groups.csv",
    "links.csv",
    "drops.csv",
    "series.csv",
    "queues.csv",
    "connections.csv",
    "delays.csv",
    "pairs.csv",
    "agents.csv",
    "allocations.csv",
    "transport.csv",
    "flows.csv",
];

impl ResultDirectory {
    /// Name and content of every file, as many bytes as the recordings had values.
    ///
    /// # Errors
    /// None that a result can cause; serialisation itself reports one.
    pub fn to_files(&self) -> Result<Vec<(&'static str, String)>, DirectoryError> {
        let json = |file, text: serde_json::Result<String>| {
            text.map(|text| (file, text + "\n")).map_err(|source| DirectoryError::Json { file, source })
        };
        let mut files = vec![
            ("result.json", self.result.to_result_file()?),
            json("about.json", serde_json::to_string_pretty(&self.about))?,
            json("machine.json", serde_json::to_string_pretty(&self.machine))?,
        ];
        files.extend(tables::write(&self.configurations));
        Ok(files)
    }

    /// Reads the files back; `read` gives the text of a file or `None` if there is none.
    ///
    /// # Errors
    /// A file is missing (only `machine.json` and the tables of connections may be,
    /// and without agents their tables) or not what it should be.
    pub fn from_files(read: impl Fn(&'static str) -> Option<String>) -> Result<Self, DirectoryError> {
        let text = |file| read(file).ok_or(DirectoryError::Missing(file));
        let result = ScenarioResult::from_json(&text("result.json")?)?;
        let about: About = from_json("about.json", &text("about.json")?)?;
        let machine = match read("machine.json") {
            Some(text) => from_json("machine.json", &text)?,
            None => Machine::default(),
        };
        let mut configurations = vec![ConfigurationDetails { name: PRODUCT.into(), ..Default::default() }];
        for (name, _) in result.variants.iter() {
            configurations.push(ConfigurationDetails { name: name.to_owned(), ..Default::default() });
        }
        // Directories of runs without agents had no tables of them for a while.
        let with_agents =
            !result.agents.is_empty() || result.variants.iter().any(|(_, v)| !v.agents.is_empty());
        tables::read(&mut configurations, with_agents, text)?;
        // Neither had older directories these.
        if let Some(text) = read("transport.csv") {
            transport::read_figures(&mut configurations, &text)?;
        }
        if let Some(text) = read("flows.csv") {
            transport::read_flows(&mut configurations, &text)?;
        }
        Ok(Self { about, machine, result, configurations })
    }

    /// What people are shown as the name of one of the configurations.
    pub fn shown_name<'a>(&'a self, configuration: &'a ConfigurationDetails) -> &'a str {
        if configuration.name == PRODUCT { self.result.label() } else { &configuration.name }
    }

    /// The configuration of this name.
    pub fn configuration(&self, name: &str) -> Option<&ConfigurationDetails> {
        self.configurations.iter().find(|configuration| configuration.name == name)
    }
}

fn from_json<T: for<'a> Deserialize<'a>>(file: &'static str, text: &str) -> Result<T, DirectoryError> {
    serde_json::from_str(text).map_err(|source| DirectoryError::Json { file, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn reread(directory: &ResultDirectory) -> ResultDirectory {
        let files: BTreeMap<_, _> = directory.to_files().expect("it can be written").into_iter().collect();
        ResultDirectory::from_files(|file| files.get(file).cloned()).expect("it can be read")
    }

    #[test]
    fn what_was_written_is_read_back() {
        let directory = synthetic::directory(2, 3, 3);
        let again = reread(&directory);
        assert_eq!(again.about, directory.about);
        assert_eq!(again.machine, directory.machine);
        assert_eq!(again.result, directory.result);
        for (ours, theirs) in again.configurations.iter().zip(&directory.configurations) {
            assert_eq!(ours.groups, theirs.groups);
            assert_eq!(ours.links, theirs.links);
            assert_eq!(ours.series, theirs.series);
            assert_eq!(ours.queues, theirs.queues);
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn every_file_has_its_name_in_the_list() {
        let files = synthetic::directory(1, 1, 1).to_files().expect("it can be written");
        assert_eq!(files.iter().map(|(name, _)| *name).collect::<Vec<_>>(), FILES);
    }

    #[test]
    fn a_run_without_agents_needs_no_tables_of_them() {
        let mut directory = synthetic::directory(1, 1, 1);
        directory.result.agents.clear();
        directory.result.variants.iter_mut().for_each(|variant| variant.agents.clear());
        directory.configurations.iter_mut().for_each(|c| (c.agents, c.allocations) = Default::default());
        let files: BTreeMap<_, _> = directory.to_files().expect("it can be written").into_iter().collect();
        let older = ResultDirectory::from_files(|file| {
            files.get(file).filter(|_| !["agents.csv", "allocations.csv"].contains(&file)).cloned()
        });
        assert_eq!(older.expect("it can be read"), directory);
    }

    #[test]
    fn a_missing_file_and_a_broken_one_are_told_apart() {
        let files: BTreeMap<_, _> =
            synthetic::directory(1, 1, 1).to_files().expect("it can be written").into_iter().collect();
        let without = |name: &'static str| ResultDirectory::from_files(|f| files_but(&files, f, name)).err();
        fn files_but(files: &BTreeMap<&str, String>, file: &str, name: &str) -> Option<String> {
            files.get(file).filter(|_| file != name).cloned()
        }
        assert!(matches!(without("series.csv"), Some(DirectoryError::Missing("series.csv"))));
        assert!(matches!(without("agents.csv"), Some(DirectoryError::Missing("agents.csv"))));
        let broken = ResultDirectory::from_files(|file| {
            let text = files.get(file)?;
            Some(if file == "queues.csv" { text.replace("core", "co\"re,x") } else { text.clone() })
        });
        assert!(matches!(broken, Err(DirectoryError::Table(_))), "{broken:?}");
    }
}
