//! What can be asked of `bench workers`.

use super::load::Load;

/// How flows are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// As the hash says.
    Static,
    /// As the load says, while it runs.
    Adaptive,
    /// As somebody says who knows the load before.
    Best,
}

/// Placements to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Placing {
    /// Flows stay with the worker that the hash names.
    Static,
    /// Flows go to another worker when one has too much.
    Adaptive,
}

/// Options of `bench workers`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Packet threads beside one, each on a processor of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=16))]
    pub workers: u32,
    /// Ports, at least one for each worker
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=32))]
    pub ports: u32,
    /// Flows that enter by each port
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    pub flows: u32,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(60..=1514))]
    pub packet: u32,
    /// Packets handed to a worker at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub batch: u32,
    /// One load; both without it
    #[arg(long, value_enum)]
    pub load: Option<Load>,
    /// One placement; both without it
    #[arg(long, value_enum)]
    pub placement: Option<Placing>,
    /// Packets of a run, in thousands
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub thousands: u32,
    /// Measured runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Seed of traffic, router and the spread of flows
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Packets of a run.
    pub fn packets(&self) -> u64 {
        u64::from(self.thousands) * 1_000
    }
}
