//! `perhop cops …`.

mod decode;
mod request;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop cops`.
#[derive(Debug, Subcommand)]
pub enum CopsCommand {
    /// Print the messages of a file or of hexadecimal digits, object by object
    Decode(decode::DecodeArgs),
    /// Make one reservation in a domain, and hold it
    Request(Box<request::RequestArgs>),
}

impl CopsCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Decode(args) => decode::run(&args),
            Self::Request(args) => request::run(&args),
        }
    }
}
