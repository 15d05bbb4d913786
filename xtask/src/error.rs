//! What can keep a check from running at all (a finding is not an error).

use std::path::PathBuf;

/// Why a check could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum XtaskError {
    /// A program could not be started.
    #[error("cannot run `{program}`: {source}; is it installed and on PATH?")]
    Start {
        /// Program name.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program whose answer is needed ended badly.
    #[error("`{command}` failed: {stderr}")]
    Tool {
        /// The whole command line.
        command: String,
        /// Its complaint.
        stderr: String,
    },
    /// A file of the project cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `cargo metadata` gave something unexpected.
    #[error("cargo metadata is not what it should be: {0}")]
    Metadata(#[from] serde_json::Error),
    /// A field of `cargo metadata` is missing.
    #[error("cargo metadata lacks `{0}`")]
    MetadataField(&'static str),
}
