//! Results as JSON, a terminal table and one self-contained HTML page.
//!
//! * [`result`]: the JSON contract of `perhop lab run --json`, `result.json` and `perhop demo --json`;
//! * [`outcome`], [`terminal`], [`page`]: what a scenario must show, and its figures for a terminal and a browser, from
//!   [`details`] and result together;
//! * [`verdict`], [`table`]: the words and the table of the demonstration;
//! * [`directory`]: the files of a scenario's result, written and read back;
//! * [`comparison`]: two results figure by figure;
//! * [`plot`]: charts as inline SVG.
//!
//! Nothing here reads a clock or touches a file: everything is a function of the results to a string.
#![forbid(unsafe_code)]

mod columns;
pub mod comparison;
pub mod details;
pub mod directory;
pub mod outcome;
pub mod page;
pub mod plot;
pub mod result;
pub mod summary;
#[cfg(test)]
mod synthetic;
pub mod table;
pub mod terminal;
pub mod transport;
pub mod variants;
pub mod verdict;

pub use comparison::{Difference, comparison_table, differences};
pub use directory::{DirectoryError, ResultDirectory};
pub use outcome::Outcome;
pub use page::{comparison_page, scenario_page};
pub use result::{
    Connections, DelayMs, DemoResult, Expectation, GroupResult, JitterMs, LinkResult, Mos, QueueMs,
    ResultError, ScenarioResult, Throughput, Variant,
};
pub use table::demo_table;
pub use terminal::scenario_tables;
pub use verdict::{Check, Verdict};
