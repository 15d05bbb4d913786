//! `perhop bench`: how fast this machine forwards and simulates.

use crate::error::{AppError, Verdict};
use perhop_bench::{Bench, BenchError};

/// Arguments of `perhop bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

/// Measures, and prints as it goes.
///
/// # Errors
/// What kept it from that; the exit code goes with it.
pub fn run(args: &Args) -> Result<Verdict, AppError> {
    match perhop_bench::run(&args.bench) {
        Ok(()) => Ok(Verdict::Done),
        Err(BenchError::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(AppError::Closed),
        Err(error) => Err(error.into()),
    }
}
