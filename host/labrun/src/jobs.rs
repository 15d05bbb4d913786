//! All repetitions of all configurations: in the simulator side by side on every processor, in namespaces one after
//! the other.

use crate::error::JobError;
use crate::scenario::{self, NetnsOptions};
use perhop_measure::{Configuration, Experiment, Recording};
use perhop_report::details::PRODUCT;
use perhop_scenario::{Loaded, Scenario};
use perhop_sim::Options;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks at the threads.
const GLANCE: Duration = Duration::from_millis(5);
/// Looks between two words of progress.
const LOOKS: u32 = 20;

/// Which world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Virtual time: exact, repeatable, as fast as the machine.
    Sim,
    /// Namespaces on this machine: real kernel, real sockets, real time.
    Netns,
}

impl Mode {
    /// As results and targets call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Netns => "netns",
        }
    }
}

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The world.
    pub mode: Mode,
    /// Seed of every random number.
    pub seed: u64,
    /// Repetitions of each configuration, each with its own stream of the seed.
    pub repetitions: u32,
    /// Directory for captures: `CONFIGURATION/REPETITION` below it.
    pub trace: Option<&'a Path>,
    /// Directory for what programs print: `programs/CONFIGURATION/REPETITION` below it.
    pub out: &'a Path,
    /// Set when the person asks to stop.
    pub interrupted: &'a AtomicBool,
}

impl Plan<'_> {
    /// Simulated time of all repetitions of all configurations together, s.
    pub fn whole_s(&self, loaded: &Loaded) -> f64 {
        let repeated = |(_, scenario): (_, &Scenario)| {
            std::iter::repeat_n(scenario.length().as_secs_f64(), self.repetitions as usize)
        };
        configurations(loaded).flat_map(repeated).sum()
    }
}

/// The product's configuration and the variants.
fn configurations(loaded: &Loaded) -> impl Iterator<Item = (&str, &Scenario)> {
    let variants = loaded.variants.iter().map(|(name, scenario)| (name.as_str(), scenario));
    std::iter::once((PRODUCT, &loaded.product)).chain(variants)
}

/// One repetition of one configuration.
struct Job<'a> {
    configuration: &'a str,
    scenario: &'a Scenario,
    repetition: u32,
    /// Simulated so far, ns.
    done_ns: AtomicU64,
    ended: Mutex<Option<Result<Recording, JobError>>>,
}

impl Job<'_> {
    /// `DIR/CONFIGURATION/REPETITION`, counted from 1.
    fn place(&self, directory: &Path) -> PathBuf {
        directory.join(self.configuration).join((self.repetition + 1).to_string())
    }

    /// Runs it in its world; ends early when `stop` is set.
    fn run(&self, plan: &Plan<'_>, stop: &AtomicBool) -> Result<Recording, JobError> {
        let id = || self.scenario.id.clone();
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
                    .map_err(|source| JobError::Simulation { scenario: id(), source })
            }
            Mode::Netns => {
                let out = Some(self.place(&plan.out.join("programs")));
                let options = NetnsOptions { seed: plan.seed, repetition: self.repetition, out, trace };
                scenario::run(self.scenario, &options, told)
                    .map_err(|source| JobError::Namespaces { scenario: id(), source })
            }
        }
    }
}

/// Runs everything; `progress` is told now and then how much of [`Plan::whole_s`] is done. The same whatever the number of
/// processors. [`Experiment::changed`] is left empty: whoever changed values knows which.
///
/// # Errors
/// The first error in the order of configurations and repetitions, or that the person asked to stop.
pub fn run(loaded: &Loaded, plan: &Plan<'_>, progress: &mut dyn FnMut(f64)) -> Result<Experiment, JobError> {
    let mut jobs = Vec::new();
    for (configuration, scenario) in configurations(loaded) {
        jobs.extend((0..plan.repetitions).map(|repetition| Job {
            configuration,
            scenario,
            repetition,
            done_ns: AtomicU64::new(0),
            ended: Mutex::new(None),
        }));
    }
    work(&jobs, plan, progress);
    if plan.interrupted.load(Ordering::Relaxed) {
        return Err(JobError::Interrupted);
    }
    let mut recordings = Vec::with_capacity(jobs.len());
    for job in jobs {
        let ended = job.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        recordings.push(ended.unwrap_or(Err(JobError::ThreadDied))?);
    }
    let mut recordings = recordings.into_iter();
    let mut take = |scenario: &Scenario| Configuration {
        scenario: scenario.clone(),
        recordings: recordings.by_ref().take(plan.repetitions as usize).collect(),
    };
    let product = take(&loaded.product);
    let variants = loaded.variants.iter().map(|(name, scenario)| (name.clone(), take(scenario))).collect();
    Ok(Experiment {
        mode: plan.mode.name().to_owned(),
        seed: plan.seed,
        changed: Vec::new(),
        product,
        variants,
    })
}

/// Lets threads take the jobs in order until none is left; tells the progress meanwhile.
fn work(jobs: &[Job<'_>], plan: &Plan<'_>, progress: &mut dyn FnMut(f64)) {
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
                progress(done as f64 / 1e9);
            }
        }
        // A thread that panicked has left no result, which is noticed where results are collected.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
}
