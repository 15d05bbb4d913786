//! `perhop tcapi …`.

mod alternative;
mod call;
mod class;
mod serve;

pub use alternative::Packets;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop tcapi`.
#[derive(Debug, Subcommand)]
pub enum TcapiCommand {
    /// Request, modify or release one reservation in a running router
    Call(Box<call::CallArgs>),
    /// Serve it for an interface of the kernel, without a router
    Serve(serve::ServeArgs),
}

impl TcapiCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Call(args) => call::run(&args),
            Self::Serve(args) => serve::run(&args),
        }
    }
}
