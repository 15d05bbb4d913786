//! `perhop agent run FILE`.

use super::announce::{Announcement, Listener, Question};
use super::link::Link;
use crate::demo::watch_signals;
use crate::error::{AppError, Verdict};
use crate::output::{Output as Stdout, progress};
use clap::Args;
use perhop_agent::{Agent, AgentFile, Input, LEAST_REAL_POLL, Notice};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_io::clock;
use perhop_serve::ClientError;
use perhop_units::{Duration, Instant};
use std::path::PathBuf;
use std::sync::Arc;
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
    let router = args.router.clone().or_else(|| file.router.as_ref().map(|name| name.to_string()));
    let (config, seed) = file.broker.clone();
    let now = clock::monotonic();
    // Rises with every instance, over restarts of the machine too: nanoseconds of real time.
    let fence = now.0.saturating_add(clock::real_minus_monotonic());
    let broker = EmulatedBroker::new(config, SplitMix64::new(seed, 0));
    let agent = Agent::new(&file, broker, fence, LEAST_REAL_POLL, now);
    let (link, listener, json) = (None, None, args.json);
    let mut running = Running { agent, file, link, listener, try_again: now, complained: false, json };
    running.until(router.as_deref(), &interrupted)?;
    Ok(Verdict::Done)
}

struct Running {
    agent: Agent<EmulatedBroker<SplitMix64>>,
    file: AgentFile,
    link: Option<Link>,
    /// Where announcements come; none without links.
    listener: Option<Listener>,
    /// When to look for a router that is away.
    try_again: Instant,
    /// Its absence has been told.
    complained: bool,
    json: bool,
}

impl Running {
    fn until(&mut self, router: Option<&str>, interrupted: &Arc<AtomicBool>) -> Result<(), AppError> {
        while !interrupted.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            if self.link.is_none() && now >= self.try_again {
                self.look_for(router, interrupted, now)?;
            }
            if self.agent.next_wakeup().is_some_and(|at| at <= now) {
                self.tell(now, Input::Tick)?;
            }
            while let Some(question) = self.listener.as_ref().and_then(Listener::question) {
                self.announce(question)?;
            }
            let look = if self.link.is_none() { self.try_again } else { Instant::FAR_FUTURE };
            let next = self.agent.next_wakeup().unwrap_or(Instant::FAR_FUTURE).min(look).min(now + PATIENCE);
            let pause = next.since(clock::monotonic());
            std::thread::sleep(std::time::Duration::from_nanos(pause.0));
        }
        Ok(())
    }

    fn look_for(
        &mut self,
        router: Option<&str>,
        interrupted: &Arc<AtomicBool>,
        now: Instant,
    ) -> Result<(), AppError> {
        match Link::open(router, &self.file, interrupted) {
            Ok(link) => {
                self.listen(&link);
                (self.link, self.complained) = (Some(link), false);
                self.tell(now, Input::Appeared).map(drop)
            }
            Err(AppError::Client(ClientError::Interrupted)) => Ok(()),
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

    /// Takes announcements beside the router's socket, once it is known where that is.
    fn listen(&mut self, link: &Link) {
        if self.listener.is_some() || self.file.bandwidth.links.is_empty() {
            return;
        }
        match Listener::open(link.path()) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                progress(format_args!("no announcements are taken beside the router's socket: {error}"))
            }
        }
    }

    fn announce(&mut self, question: Question) -> Result<(), AppError> {
        let Announcement { link, rate, .. } = question.asked.clone();
        let input = Input::Announced { link, rate, at: question.at };
        let notices = self.tell(clock::monotonic(), input)?;
        let is_answer =
            |notice: &&Notice| matches!(notice, Notice::Announced { .. } | Notice::NotAnnounced { .. });
        if let Some(notice) = notices.iter().find(is_answer) {
            question.answer(notice);
        }
        Ok(())
    }

    fn tell(&mut self, now: Instant, input: Input) -> Result<Vec<Notice>, AppError> {
        let mut notices = Vec::new();
        let clock = || clock::monotonic().max(now);
        let told = self.agent.tell(clock, input, self.link.as_mut(), |_, notice| notices.push(notice));
        for notice in &notices {
            self.say(notice)?;
        }
        if let Err(error) = told {
            if !matches!(error, AppError::Client(ClientError::Interrupted)) {
                progress(format_args!("the router is gone: {error}"));
            }
            (self.link, self.try_again) = (None, now + ABSENCE);
        }
        Ok(notices)
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
        in_words(notice).iter().for_each(progress);
        Ok(())
    }
}

/// What a person reads of it, a line each.
fn in_words(notice: &Notice) -> Vec<String> {
    vec![match notice {
        Notice::Allocated { class, rate } => format!("{class}: {rate}"),
        Notice::NoClass { class } => format!("{class}: the router has no such class"),
        Notice::NoPolicy { policy } => format!("{policy}: the router has no such abr policy"),
        Notice::NoRate { link, port } => {
            format!(
                "link {link}: the router has no port {port} with a rate; policies there keep what they have"
            )
        }
        Notice::Assigned { policy, rate, flows } => format!("{policy}: {rate} for {flows} flows"),
        Notice::PortRate { port, rate } => format!("port {port}: {rate}"),
        Notice::Overcommitted { link, promised, available } => {
            format!("link {link}: {promised} is promised and {available} is there; all get less alike")
        }
        Notice::Granted { policy, min } => format!("{policy}: granted, with {min} at least"),
        Notice::NotGranted { policy, code, min, free } => {
            format!("{policy}: {min} refused ({code}), {free} could be promised")
        }
        Notice::Announced { link, rate, .. } => format!("link {link}: {rate} is announced"),
        Notice::NotAnnounced { link, error } => format!("link {link}: {}", error.message),
        Notice::Refused { errors } => {
            return errors
                .iter()
                .map(|error| format!("refused: {}: {}", error.path, error.message))
                .collect();
        }
        Notice::Superseded { .. } => return Vec::new(),
    }]
}
