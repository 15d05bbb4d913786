//! Standard output and standard error.

use crate::error::AppError;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output: buffered, and quiet about a reader that went away.
pub struct Output {
    to: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Self { to: BufWriter::new(io::stdout().lock()) }
    }

    /// Text as it is.
    ///
    /// # Errors
    /// [`AppError::Closed`] when nobody reads any more.
    pub fn text(&mut self, text: impl Display) -> Result<(), AppError> {
        write!(self.to, "{text}").map_err(classify)
    }

    /// Text and the end of the line.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn line(&mut self, text: impl Display) -> Result<(), AppError> {
        writeln!(self.to, "{text}").map_err(classify)
    }

    /// A JSON object on a line of its own.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), AppError> {
        serde_json::to_writer(&mut self.to, value).map_err(|e| classify(e.into()))?;
        self.to.write_all(b"\n").map_err(classify)
    }

    /// Bytes as they are.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), AppError> {
        self.to.write_all(bytes).map_err(classify)
    }

    /// Sends on what is buffered. To be called at the end: what is dropped unflushed reports no error.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn flush(&mut self) -> Result<(), AppError> {
        self.to.flush().map_err(classify)
    }
}

fn classify(error: io::Error) -> AppError {
    if error.kind() == io::ErrorKind::BrokenPipe { AppError::Closed } else { AppError::Output(error) }
}

/// A line of progress on standard error. That nobody reads it is no reason to stop.
pub fn progress(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// An error on standard error.
pub fn complain(error: &AppError) {
    let command = if let AppError::Bench(_) = error { " bench" } else { "" };
    progress(format_args!("perhop{command}: {error}"));
}
