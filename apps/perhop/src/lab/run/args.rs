//! Its arguments.

use clap::{Args, ValueEnum};
use perhop_labrun::Variants;
use perhop_labrun::jobs::Mode;
use perhop_scenario::{MAX_REPETITIONS, MAX_SEED};
use std::path::PathBuf;

/// Runs scenarios, in the product's configuration and every variant, and judges the figures. Writes result.json, CSV
/// files and a self-contained report.html.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  perhop lab run H-8.1.2\n  \
    perhop lab run H-8.1.2 --set traffic.voip.calls=37 --set link.core.rate=8Mbit/s\n  \
    perhop lab run my/network.toml --repeat 10 --out out/mine\n\n\
    Exit codes: 0 every judged target is met; 1 one is missed; 2 the scenario or a setting is wrong; 3 the machine lacks \
    something or was too busy for a verdict.")]
pub struct RunArgs {
    /// Names from `perhop lab list`, or scenario files
    #[arg(required = true, value_name = "ID|FILE")]
    pub(super) scenarios: Vec<String>,
    /// World to run in
    #[arg(long, value_enum, default_value = "sim")]
    mode: World,
    /// Seed of every random number; the scenario's when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MAX_SEED), allow_negative_numbers = true)]
    pub(super) seed: Option<u64>,
    /// Repetitions, each with its own stream of the seed; the scenario's when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPETITIONS)))]
    pub(super) repeat: Option<u32>,
    /// Which variants of the file run beside the product's configuration, and are judged; when not given, all in the
    /// simulator, and in namespaces, where each takes as long again, those that a target for namespaces alone names
    #[arg(long, value_enum)]
    variants: Option<Beside>,
    /// Overrides a value of the scenario; targets that depend on it are not judged
    #[arg(long, value_name = "PATH=VALUE")]
    pub(super) set: Vec<String>,
    /// Directory of the result; out/lab/ID when not given. With several scenarios each gets its own below it
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print each result as a line of JSON on standard output, everything else on standard error
    #[arg(long)]
    pub(super) json: bool,
    /// Write a capture of every link to DIR/CONFIGURATION/REPETITION, of several scenarios to DIR/ID/…
    #[arg(long, value_name = "DIR")]
    pub(super) trace: Option<PathBuf>,
}

/// Which world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum World {
    /// Virtual time: exact, repeatable, as fast as the machine
    Sim,
    /// Namespaces on this machine: real kernel, real sockets, real time
    Netns,
}

/// Which variants run beside the product's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Beside {
    /// Every one of the file
    All,
    /// None
    None,
}

impl RunArgs {
    pub(super) fn mode(&self) -> Mode {
        match self.mode {
            World::Sim => Mode::Sim,
            World::Netns => Mode::Netns,
        }
    }

    pub(super) fn variants(&self) -> Option<Variants> {
        self.variants.map(|beside| match beside {
            Beside::All => Variants::All,
            Beside::None => Variants::None,
        })
    }
}
