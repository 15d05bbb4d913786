//! `perhop cops …`.

mod decode;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop cops`.
#[derive(Debug, Subcommand)]
pub enum CopsCommand {
    /// Print the messages of a file or of hexadecimal digits, object by object
    Decode(decode::DecodeArgs),
}

impl CopsCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Decode(args) => decode::run(&args),
        }
    }
}
