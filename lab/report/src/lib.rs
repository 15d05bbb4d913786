//! Results as JSON, a terminal table and one self-contained HTML page.
//!
//! * [`result`]: the JSON contract of `perhop lab run --json`, `result.json` and `perhop demo --json`;
//! * [`series`]: values over time in bins;
//! * [`verdict`]: what the demonstration must show, and whether it did;
//! * [`table`], [`html`]: the same figures for a terminal and for a browser;
//! * [`plot`]: charts as inline SVG.
//!
//! Nothing here reads a clock or touches a file: everything is a function of the results to a string.
#![forbid(unsafe_code)]

pub mod comparison;
pub mod details;
pub mod directory;
pub mod html;
pub mod outcome;
pub mod page;
pub mod plot;
pub mod result;
pub mod series;
pub mod summary;
#[cfg(test)]
mod synthetic;
pub mod table;
pub mod verdict;

pub use html::{DemoReport, NamedSeries, RunData, RunSeries, TimeMark, demo_page};
pub use result::{
    Connections, DelayMs, DemoResult, Expectation, GroupResult, JitterMs, LinkResult, Mos, QueueMs,
    ResultError, ScenarioResult, Throughput, Variant,
};
pub use series::{Bin, Series};
pub use table::demo_table;
pub use verdict::{Check, DemoTargets, Verdict};
