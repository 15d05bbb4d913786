//! `perhop agent run FILE`.

use super::link::Link;
use crate::demo::watch_signals;
use crate::error::{AppError, Verdict};
use crate::output::{Output as Stdout, progress};
use clap::Args;
use perhop_agent::{Agent, Input, LEAST_REAL_POLL, Notice};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_io::clock;
use perhop_units::{Duration, Instant};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a router that is away is left alone.
const ABSENCE: Duration = Duration::from_millis(500);
/// A signal is heard within this time.
const PATIENCE: Duration = Duration::from_millis(200);

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
}

/// Runs until it is interrupted.
///
/// # Errors
/// The file is wrong, or another agent has taken over.
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let file = super::read(&args.file)?;
    let interrupted = watch_signals().map_err(AppError::Signals)?;
    let router = args.router.as_deref().or(file.router.as_ref().map(|name| name.as_str()));
    let (config, seed) = file.broker.clone();
    let now = clock::monotonic();
    // Rises with every instance, over restarts of the machine too: nanoseconds of real time.
    let fence = now.0.saturating_add(clock::real_minus_monotonic());
    let broker = EmulatedBroker::new(config, SplitMix64::new(seed, 0));
    let agent = Agent::new(&file, broker, fence, LEAST_REAL_POLL, now);
    let mut running = Running { agent, link: None, try_again: now, complained: false, json: args.json };
    running.until(router, &interrupted)?;
    Ok(Verdict::Done)
}

struct Running {
    agent: Agent<EmulatedBroker<SplitMix64>>,
    link: Option<Link>,
    /// When to look for a router that is away.
    try_again: Instant,
    /// Its absence has been told.
    complained: bool,
    json: bool,
}

impl Running {
    fn until(&mut self, router: Option<&str>, interrupted: &AtomicBool) -> Result<(), AppError> {
        while !interrupted.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            if self.link.is_none() && now >= self.try_again {
                self.look_for(router, now)?;
            }
            if self.agent.next_wakeup().is_some_and(|at| at <= now) {
                self.tell(now, Input::Tick)?;
            }
            let look = if self.link.is_none() { self.try_again } else { Instant::FAR_FUTURE };
            let next = self.agent.next_wakeup().unwrap_or(Instant::FAR_FUTURE).min(look).min(now + PATIENCE);
            let pause = next.since(clock::monotonic());
            std::thread::sleep(std::time::Duration::from_nanos(pause.0));
        }
        Ok(())
    }

    fn look_for(&mut self, router: Option<&str>, now: Instant) -> Result<(), AppError> {
        match Link::open(router) {
            Ok(link) => {
                (self.link, self.complained) = (Some(link), false);
                self.tell(now, Input::Appeared)
            }
            Err(error @ (AppError::BadName { .. } | AppError::SeveralRouters(_))) => Err(error),
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    progress(format_args!("waiting for the router: {error}"));
                }
                self.try_again = now + ABSENCE;
                Ok(())
            }
        }
    }

    fn tell(&mut self, now: Instant, input: Input) -> Result<(), AppError> {
        let mut notices = Vec::new();
        let clock = || clock::monotonic().max(now);
        let told = self.agent.tell(clock, input, self.link.as_mut(), |_, notice| notices.push(notice));
        for notice in &notices {
            self.say(notice)?;
        }
        if let Err(error) = told {
            progress(format_args!("the router is gone: {error}"));
            (self.link, self.try_again) = (None, now + ABSENCE);
        }
        Ok(())
    }

    fn say(&self, notice: &Notice) -> Result<(), AppError> {
        if let Notice::Superseded { error } = notice {
            return Err(AppError::Superseded(error.message.clone()));
        }
        if self.json {
            let mut out = Stdout::new();
            out.json(notice)?;
            return out.flush();
        }
        match notice {
            Notice::Allocated { class, rate } => progress(format_args!("{class}: {rate}")),
            Notice::NoClass { class } => progress(format_args!("{class}: the router has no such class")),
            Notice::Refused { errors } => {
                for error in errors {
                    progress(format_args!("refused: {}: {}", error.path, error.message));
                }
            }
            Notice::Superseded { .. } => {}
        }
        Ok(())
    }
}
