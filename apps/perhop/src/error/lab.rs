//! What keeps the laboratory from its work.

use perhop_elements::emulate::RecordError;
use perhop_labrun::{JobError, LabError};
use perhop_report::DirectoryError;
use perhop_scenario::NotASetting;
use std::path::PathBuf;
use thiserror::Error;

/// Why a scenario was not run, or a result not read. The text says what, then what to do about it.
#[derive(Debug, Error)]
pub enum LabCommandError {
    /// No scenario has this name.
    #[error("there is no scenario \"{given}\"{}\n`perhop lab list` shows them; a file of your own needs its path or ends in .toml.",
        .near.as_ref().map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default())]
    Unknown {
        /// Given.
        given: String,
        /// The nearest name.
        near: Option<String>,
    },
    /// A router file where a scenario is asked for.
    #[error(
        "{origin}: this is a router file, not a scenario\nCheck it with `perhop router check {origin}`; a scenario names it as the router of a node."
    )]
    RouterFile {
        /// The file.
        origin: String,
    },
    /// A scenario has errors, which were already shown.
    #[error("{origin}: {errors} error{}\nMend what is listed above.", if *errors == 1 { "" } else { "s" })]
    BadScenario {
        /// The file.
        origin: String,
        /// How many.
        errors: usize,
    },
    /// Two scenarios of one command would write the same directory.
    #[error(
        "{first} and {second} both have the id \"{id}\", and would write one directory\nName each once, or run them one after the other with an --out of their own."
    )]
    SameId {
        /// The id.
        id: String,
        /// What was given first.
        first: String,
        /// What was given then.
        second: String,
    },
    /// A setting is not `path=value`.
    #[error("--set {0}")]
    BadSetting(#[from] NotASetting),
    /// A scenario was not run to its end.
    #[error("{0}")]
    Job(#[from] JobError),
    /// This machine is not prepared for namespaces.
    #[error("{scenario}: {source}")]
    Namespaces {
        /// The scenario.
        scenario: String,
        /// Why.
        source: LabError,
    },
    /// Programs of a scenario are not on this machine.
    #[error("{}\nInstall them, or name others; without namespaces (--mode sim) programs are left out.", missing.join("\n"))]
    NoProgram {
        /// A line each: where the file says so, and what is missing.
        missing: Vec<String>,
    },
    /// Two results are of different scenarios.
    #[error("{} is a result of {}, {} one of {}: only results of one scenario can be set beside each other as worlds\n\
             Run the same scenario in both modes, or compare figures without --markdown.",
        paths[0].display(), scenarios[0], paths[1].display(), scenarios[1])]
    OtherScenario {
        /// The directories.
        paths: [PathBuf; 2],
        /// Their scenarios.
        scenarios: [String; 2],
    },
    /// Worlds are compared in pairs.
    #[error(
        "--markdown sets two results beside each other as worlds, and {given} are named\nName two, or leave --markdown out."
    )]
    NotTwoWorlds {
        /// How many.
        given: usize,
    },
    /// A directory is not the result of a run.
    #[error("{}: {source}\nName a directory that `perhop lab run` wrote, such as out/lab/H-8.1.2.", path.display())]
    BadDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: DirectoryError,
    },
    /// Two captures do not tell what is between them.
    #[error("{} and {}: {source}", captures[0].display(), captures[1].display())]
    NotRecorded {
        /// Before and after the network.
        captures: [PathBuf; 2],
        /// Why.
        source: RecordError,
    },
    /// Both captures are to come from standard input.
    #[error("standard input is one capture, and two are compared\nGive the other one as a file.")]
    OneInput,
    /// A capture has more packets than are compared.
    #[error("{}: there are more than {most} packets\nChoose some with --filter, or a part of the capture.", path.display())]
    LongCapture {
        /// The capture.
        path: PathBuf,
        /// So many are compared.
        most: usize,
    },
}

impl LabCommandError {
    /// The exit code that goes with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown { .. }
            | Self::BadScenario { .. }
            | Self::RouterFile { .. }
            | Self::SameId { .. }
            | Self::BadSetting(_)
            | Self::OtherScenario { .. }
            | Self::NotTwoWorlds { .. }
            | Self::NotRecorded { .. }
            | Self::OneInput
            | Self::LongCapture { .. }
            | Self::BadDirectory { .. } => 2,
            Self::NoProgram { .. } => 3,
            Self::Job(error) => error.exit_code(),
            Self::Namespaces { source, .. } => source.exit_code(),
        }
    }
}
