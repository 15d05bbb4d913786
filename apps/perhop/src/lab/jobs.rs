//! Running a scenario with its progress on standard error.

use super::find::Ready;
use super::progress::Progress;
use crate::error::{AppError, LabCommandError};
use perhop_labrun::jobs;
use perhop_measure::Experiment;

pub(super) use perhop_labrun::jobs::{Mode, Plan};

/// Runs everything and gives the experiment and the time it took, s.
///
/// # Errors
/// Those of [`jobs::run`].
pub(super) fn run(ready: &Ready, plan: &Plan<'_>) -> Result<(Experiment, f64), AppError> {
    let verb = match plan.mode {
        Mode::Sim => "simulated",
        Mode::Netns => "run",
    };
    let loaded = &ready.loaded;
    let mut progress = Progress::new(&loaded.product.id, verb, plan.whole_s(loaded));
    let done = jobs::run(loaded, plan, &mut |done_s| progress.show(done_s));
    let wall_s = progress.elapsed_s();
    match done {
        Ok(experiment) => {
            progress.finish();
            Ok((Experiment { changed: ready.settings.paths(), ..experiment }, wall_s))
        }
        Err(error) => {
            progress.abandon();
            Err(LabCommandError::from(error).into())
        }
    }
}
