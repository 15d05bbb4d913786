//! `perhop agent run FILE`.

use super::driver::{LiveAgent, MACHINE, Setup};
use super::finder::Finder;
use super::words::in_words;
use super::{ask, decide, domain, policy};
use crate::error::{AppError, Verdict};
use crate::output::{Output as Stdout, progress};
use clap::Args;
use perhop_allocate::{Random, SplitMix64};
use perhop_bandwidth::{AgentFile, Notice, Output};
use perhop_drive::{
    Backoff, Driven, End, Keeping, RECORD_BYTES, Record, RuntimeTimer, ThreadTimer, channel, keep, outlet,
};
use perhop_io::clock;
use perhop_units::{Duration, Instant};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Inputs that wait for the agent at most, and requests for its router: it asks one thing after the other.
const WAITING: usize = 64;
/// How long a router that is away is left alone, at first and at most.
const ABSENCE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// A router is asked something this often at least. By its own default it closes a connection after ten seconds of silence.
const IDLE: Duration = Duration::from_secs(3);

/// Arguments of `perhop agent run`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop agent run agent.toml --router edge\n\n\
                        What it allocates stays in force when it ends; the next instance takes over. It waits for \
                        a router that is away.")]
pub struct RunArgs {
    /// The agent's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The router instead of the one that the file names
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// What it does, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Add all that it is told to this file, for `perhop agent replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Runs until it is interrupted. The agent has this thread, as its looks at queues are to be in time; all that talks to
/// others has another.
///
/// # Errors
/// The file is wrong, or another agent has taken over.
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let live = super::file::read(&args.file)?;
    let file = &live.agent;
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(AppError::Runtime)?;
    let _entered = runtime.enter();
    let interrupted = interrupted()?;
    let now = clock::monotonic();
    // Rises with every instance, over restarts of the machine too: nanoseconds of real time.
    let setup = Setup { fence: now.0.saturating_add(clock::real_minus_monotonic()) };
    let mut agent = Driven::new(LiveAgent::new(file, &setup, now), now);
    if let Some(path) = &args.record {
        agent = agent.recorded(record(path, now, &setup)?);
    }
    let (inlet, mut inputs) = channel(WAITING);
    let (router, requests) = outlet(WAITING);
    let (answers, answered) = mpsc::channel(1);
    let mut random = SplitMix64::new(setup.fence, 0);
    let keeping = Keeping {
        timer: RuntimeTimer,
        backoff: Backoff::new(ABSENCE[0], ABSENCE[1], move || random.bits()),
        idle: IDLE,
    };
    let mut deciding = match (&file.leases, &file.controller) {
        (Some(leases), Some(controller)) => {
            let started = decide::start(leases, controller, (&args.file, &live), inlet.clone(), setup.fence);
            Some(runtime.block_on(started)?)
        }
        _ => None,
    };
    let folder = args.file.parent().map(Path::to_owned).unwrap_or_default();
    let brokered = file.controller.as_deref().filter(|_| file.leased_for.is_some());
    let brokered = brokered.map(|settings| ask::measured(settings.clone(), folder.clone(), inlet.clone()));
    let controller = file.controller.as_deref().cloned().map(|settings| {
        let leases = deciding.as_ref().map(|deciding| deciding.news.clone());
        domain::follow(settings, folder, inlet.clone(), leases, setup.fence)
    });
    let (in_router, beside) =
        deciding.take().map(|deciding| (deciding.in_router, (deciding.found, deciding.doors))).unzip();
    let (found, doors) = beside.unzip();
    if let (Some(policy), Some(controller)) = (&file.policy, &file.controller) {
        let started =
            policy::start(policy, controller, named(args, file), &args.file, (setup.fence, args.json));
        runtime.block_on(started)?;
    }
    let finder = Finder::new(named(args, file), file, inlet.clone(), answered, found);
    let kept = runtime.spawn(keep(finder, requests, inlet, keeping));
    let stop = async {
        tokio::select! {
            _ = interrupted => Ok(()),
            given_up = kept => given_up.unwrap_or_else(|panic| resume_unwind(panic.into_panic())),
        }
    };
    let handle = |_, output| {
        match output {
            Output::Say(notice) => {
                if matches!(notice, Notice::Announced { .. } | Notice::NotAnnounced { .. }) {
                    // Who has announced it takes the answer out before another can.
                    let _ = answers.try_send(notice.clone());
                }
                if let (Notice::Asks(question), Some(brokered)) = (&notice, &brokered) {
                    let _ = brokered.send(question.clone());
                }
                if let (Notice::Reserved(notice), Some(controller)) = (&notice, &controller) {
                    controller.tell(notice);
                }
                if let (Notice::Leased(became), Some(in_router)) = (&notice, &in_router) {
                    let _ = in_router.send(became.clone());
                }
                say(&notice, args.json)?;
            }
            request => router.offer(request),
        }
        Ok::<_, AppError>(None)
    };
    let timer = ThreadTimer::new(clock::monotonic);
    let ended = timer.block_on(perhop_drive::run(&mut agent, &mut inputs, &timer, stop, handle));
    if let Some(doors) = doors {
        runtime.block_on(doors.close());
    }
    match ended? {
        End::Stopped(ended) => ended.map(|()| Verdict::Done),
        End::Over | End::Closed => Ok(Verdict::Done),
    }
}

fn named(args: &RunArgs, file: &AgentFile) -> Option<String> {
    args.router.clone().or_else(|| file.router.as_ref().map(|name| name.to_string()))
}

fn record(path: &Path, now: Instant, setup: &Setup) -> Result<Record, AppError> {
    let name = path.to_owned();
    let ended = move |why| progress(format_args!("{}: nothing more is recorded: {why}", name.display()));
    let opened = Record::open(path, RECORD_BYTES, MACHINE, now, setup, ended);
    opened.map_err(|source| AppError::Write { path: path.to_owned(), source })
}

/// Resolves with Ctrl-C or a polite kill. A second one ends the process at once.
fn interrupted() -> Result<oneshot::Receiver<()>, AppError> {
    let watch = |kind| signal(kind).map_err(AppError::Runtime);
    let (mut interrupt, mut terminate) = (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let mut tell = Some(tell);
        loop {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            if tell.take().is_none_or(|tell| tell.send(()).is_err()) {
                std::process::exit(130);
            }
        }
    });
    Ok(told)
}

fn say(notice: &Notice, json: bool) -> Result<(), AppError> {
    if let Notice::Superseded { error } = notice {
        return Err(AppError::Superseded(error.message.clone()));
    }
    if json {
        let mut out = Stdout::new();
        out.json(notice)?;
        return out.flush();
    }
    in_words(notice).iter().for_each(progress);
    Ok(())
}
