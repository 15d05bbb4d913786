//! How commands end: verdicts, and the exit codes of errors.

use super::AppError;
use perhop_engine::{EngineError, ShaperError};

/// How a command that could be carried out ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// As wanted.
    Done,
    /// A target or check failed: exit code 1.
    Failed,
    /// The subcommand has chosen its exit code itself.
    Exit(std::process::ExitCode),
}

impl Verdict {
    /// [`Verdict::Failed`] if `failed`.
    pub fn failed_if(failed: bool) -> Self {
        if failed { Self::Failed } else { Self::Done }
    }
}

impl AppError {
    /// The exit code that goes with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Lab(error) => error.exit_code(),
            Self::Abr(error) => error.exit_code(),
            Self::Bench(error) => error.exit_code(),
            Self::Engine(EngineError::ThreadDied(_)) | Self::Superseded(_) => 1,
            Self::Engine(error) if error.is_environment() => 3,
            Self::Shaper(ShaperError::Class { .. } | ShaperError::TooMuch { .. }) => 2,
            Self::Shaper(_) => 3,
            Self::Engine(_) | Self::BadSetting(_) | Self::BadLimit { .. } => 2,
            Self::Read { .. }
            | Self::NotText { .. }
            | Self::BadFile { .. }
            | Self::BadCaptures(_)
            | Self::NoFrames { .. }
            | Self::NoHeaders { .. }
            | Self::BadDetection(_)
            | Self::BadPacket(_)
            | Self::BadJson { .. }
            | Self::BadRecord { .. }
            | Self::Refused(_)
            | Self::NoColumn { .. }
            | Self::NotAnnounced { .. }
            | Self::NoPortForRate { .. }
            | Self::BadName { .. }
            | Self::SeveralRouters(_)
            | Self::SeveralControllers(_)
            | Self::BadUrl(_)
            | Self::Leases(_)
            | Self::NoAuthority
            | Self::Pki(_)
            | Self::ScenarioFile(_)
            | Self::Capture(_) => 2,
            Self::Output(_)
            | Self::Write { .. }
            | Self::Journal { .. }
            | Self::PolicyJournal { .. }
            | Self::BadAnswer(_)
            | Self::NoRouter
            | Self::NoController
            | Self::Controller(_)
            | Self::SipProxy(_)
            | Self::NotForThisUser(_)
            | Self::NoAgent { .. }
            | Self::NoTcapi { .. }
            | Self::NoCops { .. }
            | Self::Client(_)
            | Self::Socket(_)
            | Self::Serve(_)
            | Self::Signals(_)
            | Self::Runtime(_) => 3,
        }
    }
}
