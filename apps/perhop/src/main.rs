//! Perhop at the command line: one file a subcommand, each of which only puts the pieces together.
//!
//! Exit codes: 0 done; 1 a target or check failed; 2 bad input; 3 the environment lacks something. With `--json`
//! standard output carries one JSON object a line and nothing else; progress and messages go to standard error.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the binary is where clocks, threads and sockets meet the pure parts"
)]

mod abr;
mod agent;
mod bench;
mod classify;
mod cli;
mod completions;
mod controller;
mod cops;
mod domain;
mod error;
mod file_check;
mod file_kind;
mod guess;
mod interrupt;
mod lab;
mod man;
mod output;
mod pki;
mod policy;
mod remote;
mod reserve;
mod router;
mod show;
mod sip_proxy;
mod sockets;
mod table;
mod tcapi;
mod text_file;
mod user;

use clap::{CommandFactory, Parser};
use error::{AppError, Verdict};
use perhop_bench::CountingAllocator;
use perhop_io::LargePages;
use std::process::ExitCode;

/// Large tables have large pages. `perhop bench` counts what the packet path allocates: nothing, when all is well.
#[global_allocator]
static ALLOCATOR: CountingAllocator<LargePages> = CountingAllocator(LargePages);

fn main() -> ExitCode {
    let read = cli::Cli::try_parse().map_err(|error| guess::explained(error, &cli::Cli::command()));
    match read.unwrap_or_else(|error| error.exit()).command.run() {
        Ok(Verdict::Exit(code)) => code,
        Ok(Verdict::Done) | Err(AppError::Closed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
