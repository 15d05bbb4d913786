//! Scenarios as they are named at the command line, ready to run.

use crate::error::{AppError, LabCommandError};
use crate::file_kind::is_router_file;
use crate::output::progress;
use crate::text_file::read_text;
use perhop_config::MAX_FILE_BYTES;
use perhop_scenario::catalogue::{self, FindError, Found};
use perhop_scenario::{Loaded, Settings};

pub(super) use perhop_scenario::catalogue::{names, shipped};

/// A scenario that is ready to run.
pub(super) struct Ready {
    /// What messages call its file.
    pub(super) origin: String,
    pub(super) loaded: Loaded,
    /// What the user set.
    pub(super) settings: Settings,
}

/// [`catalogue::find`] with the errors of the command line.
pub(super) fn find(given: &str) -> Result<Found, AppError> {
    catalogue::find(given).map_err(|error| match error {
        FindError::Unknown { given, near } => LabCommandError::Unknown { given, near }.into(),
        FindError::Read { path, source } => AppError::Read { path, source },
        FindError::NotText { path, at } => AppError::NotText { path, at },
    })
}

/// Reads it, shows what is wrong or doubtful, and gives what is ready to run.
///
/// # Errors
/// A setting is none, or the scenario has errors.
pub(super) fn read(found: &Found, set: &[String]) -> Result<Ready, AppError> {
    let mut settings = Settings::new();
    for setting in set {
        settings.add(setting).map_err(LabCommandError::BadSetting)?;
    }
    let (loaded, diagnostics) = found.read(&settings);
    let text = || found.path.as_deref().and_then(|path| read_text(path, MAX_FILE_BYTES).ok());
    if loaded.is_none() && text().is_some_and(|text| is_router_file(&text)) {
        return Err(LabCommandError::RouterFile { origin: found.origin.clone() }.into());
    }
    if !diagnostics.is_empty() {
        progress(diagnostics.to_string().trim_end());
    }
    let origin = found.origin.clone();
    match loaded {
        Some(loaded) => Ok(Ready { origin, loaded, settings }),
        None => Err(LabCommandError::BadScenario { origin, errors: diagnostics.errors().max(1) }.into()),
    }
}
