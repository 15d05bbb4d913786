//! `bench ledger`: how many reservations a domain decides and keeps.
//!
//! Three measurements of paths with ten links each. *Decisions*: the ledger alone, in memory, until so many reservations are live, and
//! what each of them takes. *Admissions*: the whole task of a domain with its database, asked by many tasks at a time; an admission is
//! answered when it is on the disk. *Load*: what a controller does at its start with a database of so many reservations.
//!
//! Beside each stands what is aimed at. The load of the machine at the start is shown, as a disk and two processors that others use
//! decide about the figures.

mod durable;
mod field;
mod memory;

use crate::error::BenchError;
use crate::report::{Metric, Point, Sink, Spread};
use clap::ValueEnum;

/// Options of `bench ledger`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Databases that are measured, each in a temporary folder
    #[arg(long, value_delimiter = ',', default_values = ["sqlite", "postgresql"])]
    engine: Vec<Engine>,
    /// Reservations that are live in the ledger alone, and in the database that is loaded
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    live: u64,
    /// Tasks that ask at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    asking: u64,
    /// Seconds of asking
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Only admissions: neither the ledger alone nor the load
    #[arg(long)]
    admissions: bool,
    /// Folder for the databases instead of the system's for temporary files
    #[arg(long, value_name = "FOLDER")]
    folder: Option<std::path::PathBuf>,
    /// Print one JSON object a line and nothing else
    #[arg(long)]
    pub json: bool,
}

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Sqlite,
    Postgresql,
}

/// Measures.
///
/// # Errors
/// A database that cannot be had, or output that nobody reads.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if !options.admissions {
        memory::run(options, sink)?;
    }
    for engine in &options.engine {
        durable::run(*engine, options, sink)?;
    }
    Ok(())
}

fn environment(what: &str, why: impl ToString) -> BenchError {
    BenchError::Environment { what: what.to_owned(), why: why.to_string() }
}

/// A point with what every one of them says.
fn point(what: &'static str, op: &'static str) -> Point {
    let mut point = Point { bench: "ledger", op, ..Point::default() };
    point.params.insert("measured", what.into());
    // Of /proc/loadavg the first word is the mean of the last minute.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if let Some(load) = load.split(' ').next().and_then(|load| load.parse().ok()) {
        put(&mut point, "load_of_the_machine", load, "");
    }
    point
}

fn put(point: &mut Point, name: &'static str, value: f64, unit: &'static str) {
    point.metrics.insert(name, Metric::new(Spread::exactly(value), unit));
}
