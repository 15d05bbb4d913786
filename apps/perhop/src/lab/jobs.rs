//! All repetitions of all configurations: in the simulator side by side on every processor, in namespaces one after
//! the other.

use super::error::LabCommandError;
use super::find::Ready;
use super::progress::Progress;
use crate::error::AppError;
use perhop_labrun::scenario::NetnsOptions;
use perhop_measure::{Configuration, Experiment, Recording};
use perhop_report::details::PRODUCT;
use perhop_scenario::figures::Formula;
use perhop_scenario::{Loaded, Scenario};
use perhop_sim::Options;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks at the threads.
const GLANCE: Duration = Duration::from_millis(5);
/// Looks between two lines of progress.
const LOOKS: u32 = 20;

/// Which world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// Virtual time: exact, repeatable, as fast as the machine
    Sim,
    /// Namespaces on this machine: real kernel, real sockets, real time
    Netns,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Netns => "netns",
        }
    }

    /// What a world does with time.
    fn verb(self) -> &'static str {
        match self {
            Self::Sim => "simulated",
            Self::Netns => "run",
        }
    }
}

/// Which variants run beside the product's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Variants {
    /// Every one of the file
    All,
    /// None
    None,
}

impl Variants {
    /// Takes out of a scenario what is not run, and the expected values that are about it; the names of the variants
    /// that are gone. When nobody says (`chosen` is `None`), all run in the simulator; in real time, where every variant
    /// takes as long again, those that a target for that world alone names.
    pub(super) fn leave(chosen: Option<Self>, mode: Mode, loaded: &mut Loaded) -> Vec<String> {
        let kept = |name: &str| match (chosen, mode) {
            (Some(Self::All), _) | (None, Mode::Sim) => true,
            (Some(Self::None), _) => false,
            (None, Mode::Netns) => loaded.product.expect.iter().any(|expect| {
                let judged = expect.target.is_some() && expect.mode.as_deref() == Some(mode.name());
                judged && Formula::new(&expect.metric).paths().any(|path| is_about(path, name))
            }),
        };
        let names = loaded.variants.iter().map(|(name, _)| name.clone());
        let gone: Vec<String> = names.filter(|name| !kept(name)).collect();
        loaded.variants.retain(|(name, _)| !gone.contains(name));
        let about_one = |path: &str| gone.iter().any(|name| is_about(path, name));
        loaded.product.expect.retain(|expect| !Formula::new(&expect.metric).paths().any(about_one));
        gone
    }
}

/// Whether a path is a figure of a variant.
fn is_about(path: &str, variant: &str) -> bool {
    path.split_once('.').is_some_and(|(name, _)| name == variant)
}

/// How to run.
pub(super) struct Plan<'a> {
    pub(super) mode: Mode,
    pub(super) seed: u64,
    pub(super) repetitions: u32,
    /// Directory for captures.
    pub(super) trace: Option<&'a Path>,
    /// Directory for what programs print.
    pub(super) out: &'a Path,
    /// Set when the person asks to stop.
    pub(super) interrupted: &'a AtomicBool,
}

/// One repetition of one configuration.
struct Job<'a> {
    configuration: &'a str,
    scenario: &'a Scenario,
    repetition: u32,
    /// Simulated so far, ns.
    done_ns: AtomicU64,
    ended: Mutex<Option<Result<Recording, LabCommandError>>>,
}

impl Job<'_> {
    /// `DIR/CONFIGURATION/REPETITION`, counted from 1.
    fn place(&self, directory: &Path) -> PathBuf {
        directory.join(self.configuration).join((self.repetition + 1).to_string())
    }

    /// Runs it in its world; ends early when `stop` is set.
    fn run(&self, plan: &Plan<'_>, stop: &AtomicBool) -> Result<Recording, LabCommandError> {
        let scenario = self.scenario.id.clone();
        let trace = plan.trace.map(|directory| self.place(directory));
        let told = |at: perhop_units::Duration| {
            self.done_ns.store(at.as_nanos(), Ordering::Relaxed);
            !stop.load(Ordering::Relaxed) && !plan.interrupted.load(Ordering::Relaxed)
        };
        match plan.mode {
            Mode::Sim => {
                let options =
                    Options { seed: plan.seed, repetition: self.repetition, trace, ..Options::default() };
                perhop_sim::run(self.scenario, &options, told)
                    .map_err(|source| LabCommandError::Simulation { scenario, source })
            }
            Mode::Netns => {
                let out = Some(self.place(&plan.out.join("programs")));
                let options = NetnsOptions { seed: plan.seed, repetition: self.repetition, out, trace };
                perhop_labrun::scenario::run(self.scenario, &options, told)
                    .map_err(|source| LabCommandError::Namespaces { scenario, source })
            }
        }
    }
}

/// Runs everything and gives the experiment and the time it took, s. The same whatever the number of processors.
///
/// # Errors
/// The first error in the order of configurations and repetitions, or that the person asked to stop.
pub(super) fn run(ready: &Ready, plan: &Plan<'_>) -> Result<(Experiment, f64), AppError> {
    let loaded = &ready.loaded;
    let mut configurations = vec![(PRODUCT, &loaded.product)];
    configurations.extend(loaded.variants.iter().map(|(name, scenario)| (name.as_str(), scenario)));
    let mut jobs = Vec::new();
    for (configuration, scenario) in &configurations {
        jobs.extend((0..plan.repetitions).map(|repetition| Job {
            configuration,
            scenario,
            repetition,
            done_ns: AtomicU64::new(0),
            ended: Mutex::new(None),
        }));
    }
    let whole_s = jobs.iter().map(|job| job.scenario.length().as_secs_f64()).sum();
    let mut progress = Progress::new(&loaded.product.id, plan.mode.verb(), whole_s);
    work(&jobs, plan, &mut progress);
    let wall_s = progress.elapsed_s();
    if plan.interrupted.load(Ordering::Relaxed) {
        progress.abandon();
        return Err(LabCommandError::Interrupted.into());
    }
    let mut recordings = Vec::with_capacity(jobs.len());
    for job in jobs {
        let ended = job.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended.unwrap_or(Err(LabCommandError::ThreadDied)) {
            Ok(recording) => recordings.push(recording),
            Err(error) => {
                progress.abandon();
                return Err(error.into());
            }
        }
    }
    progress.finish();
    let mut recordings = recordings.into_iter();
    let mut take = |scenario: &Scenario| Configuration {
        scenario: scenario.clone(),
        recordings: recordings.by_ref().take(plan.repetitions as usize).collect(),
    };
    let product = take(&loaded.product);
    let variants = loaded.variants.iter().map(|(name, scenario)| (name.clone(), take(scenario))).collect();
    let experiment = Experiment {
        mode: plan.mode.name().to_owned(),
        seed: plan.seed,
        changed: ready.settings.paths(),
        product,
        variants,
    };
    Ok((experiment, wall_s))
}

/// Lets threads take the jobs in order until none is left; shows the progress meanwhile.
fn work(jobs: &[Job<'_>], plan: &Plan<'_>, progress: &mut Progress) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = match plan.mode {
        Mode::Sim => processors.min(jobs.len()),
        Mode::Netns => 1,
    };
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let take = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                // Jobs behind a failed one are not started: the first error in order is reported.
                if stop.load(Ordering::Relaxed) || plan.interrupted.load(Ordering::Relaxed) {
                    return;
                }
                let ended = job.run(plan, &stop);
                stop.fetch_or(ended.is_err(), Ordering::Relaxed);
                *job.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        let mut looks = 0_u32;
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(GLANCE);
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                let done: u64 = jobs.iter().map(|job| job.done_ns.load(Ordering::Relaxed)).sum();
                progress.show(done as f64 / 1e9);
            }
        }
        // A thread that panicked has left no result, which is noticed where results are collected.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_scenario::Settings;

    fn left(chosen: Option<Variants>, mode: Mode) -> (Vec<String>, usize) {
        let text = r#"
id = "t"
title = "t"
duration = "1 s"
node.a.kind = "host"
node.b.kind = "host"
link.core = { ends = ["a", "b"], rate = "1 Mbit/s" }
traffic.voip = { kind = "voice", from = "a", to = "b" }
variants.off.set.link.core.delay = "1 ms"
variants.old.set.link.core.delay = "2 ms"
expect = [
    { metric = "voip.delay_ms.mean - off.voip.delay_ms.mean", target = "<= 0.1", mode = "netns" },
    { metric = "old.voip.loss_pct", target = "= 0" },
    { metric = "voip.loss_pct", target = "= 0" },
]
"#;
        let (loaded, said) =
            perhop_scenario::Scenario::read("t.toml", text, &Settings::new(), &|_| Err(String::new()));
        let mut loaded = loaded.unwrap_or_else(|| panic!("{said}"));
        let gone = Variants::leave(chosen, mode, &mut loaded);
        assert_eq!(loaded.variants.len() + gone.len(), 2);
        (gone, loaded.product.expect.len())
    }

    #[test]
    fn a_variant_that_a_target_of_the_world_needs_is_run() {
        assert_eq!(left(None, Mode::Sim), (vec![], 3));
        assert_eq!(left(None, Mode::Netns), (vec!["old".to_owned()], 2));
        assert_eq!(left(Some(Variants::All), Mode::Netns), (vec![], 3));
        let none = (vec!["off".to_owned(), "old".to_owned()], 1);
        assert_eq!(left(Some(Variants::None), Mode::Netns), none);
    }
}
