//! Agents of routers: the very machine of `perhop agent run`, each on a thread of its own beside its engine.
//!
//! It reaches the engine through the engine's handle, in this process: a request then takes the time that the router
//! takes for it, and not that of a socket as well, of which a scenario says nothing. Its broker is emulated.

use super::receive::Times;
use crate::error::{LabError, io};
use crate::pace::{precise_timers, sleep_until};
use perhop_agent::{Agent, AgentFile, ClassReading, Input, LEAST_REAL_POLL, Readings, Router, flows_of_row};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_engine::Handle;
use perhop_io::clock::monotonic;
use perhop_measure::{AgentRecorder, Recording};
use perhop_model::{
    Call, Claim, Credentials, Done, ErrorItem, Name, Reply, ShowPage, ShowQuery, StatePage, StateQuery,
    Transaction,
};
use perhop_units::{Duration, Instant};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Rows of classes asked for at once: more than a router has.
const ROWS: usize = 1_000_000;
/// The end of the run is heard within this time.
const PATIENCE: Duration = Duration::from_millis(20);

/// What happens to the recorder at an end of the window.
type Mark = fn(&mut AgentRecorder, &Agent<EmulatedBroker<SplitMix64>>);

/// A running agent.
pub(super) struct RunningAgent {
    router: String,
    /// What to say of an agent that looks at queues less often than its file says.
    slow: Option<String>,
    thread: JoinHandle<Worker>,
}

impl RunningAgent {
    /// Starts the agent of the router `name`: it works until `done`.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(
        name: &str,
        file: &AgentFile,
        seed: u64,
        handle: Handle,
        times: Times,
        done: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let slow = file.poll().filter(|poll| *poll < LEAST_REAL_POLL).map(|poll| {
            format!(
                "router \"{name}\": its agent looks at queues every {LEAST_REAL_POLL} and not every {poll}"
            )
        });
        let worker = Worker::new(file, seed, handle, times);
        let done = Arc::clone(done);
        let thread = std::thread::Builder::new().name(format!("agent-{name}"));
        let thread = thread.spawn(move || worker.run(&done)).map_err(io("start an agent"))?;
        Ok(Self { router: name.to_owned(), slow, thread })
    }

    /// Waits for its end, after `done`; adds what it left to the recording.
    ///
    /// # Errors
    /// It ended before: its classes then kept what they had.
    pub(super) fn finish(self, recording: &mut Recording) -> Result<(), LabError> {
        let gone = |reason: String| LabError::Part {
            part: format!("agent of router \"{}\"", self.router),
            doing: "look after its classes and links",
            reason,
        };
        let worker = self.thread.join().map_err(|_| gone("its thread has panicked".to_owned()))?;
        if let Some(reason) = worker.gone {
            return Err(gone(reason));
        }
        worker.recorder.finish(&worker.agent, &self.router, recording);
        recording.warnings.extend(self.slow);
        Ok(())
    }
}

/// The agent on its thread.
struct Worker {
    agent: Agent<EmulatedBroker<SplitMix64>>,
    recorder: AgentRecorder,
    engine: BesideEngine,
    times: Times,
    /// Why it could do no more, if so.
    gone: Option<String>,
}

impl Worker {
    fn new(file: &AgentFile, seed: u64, handle: Handle, times: Times) -> Self {
        let (config, own_seed) = file.broker.clone();
        let broker = EmulatedBroker::new(config, SplitMix64::new(seed, own_seed));
        let classes = file.measured().cloned().collect();
        let shares = !file.bandwidth.links.is_empty();
        Self {
            agent: Agent::new(file, broker, 1, LEAST_REAL_POLL, times.epoch),
            recorder: AgentRecorder::new(file),
            engine: BesideEngine { handle, classes, shares, times },
            times,
            gone: None,
        }
    }

    fn run(mut self, done: &AtomicBool) -> Self {
        precise_timers();
        let (begins, ends) = self.times.window;
        let at = |instant: Instant| self.times.epoch + Duration(instant.as_nanos());
        let marks: [(Instant, Mark); 2] =
            [(at(begins), AgentRecorder::window_begins), (at(ends), AgentRecorder::window_ends)];
        let mut marks = marks.into_iter().peekable();
        // What its classes have at first is in force before the first packet comes.
        self.tell(Input::Appeared);
        while self.gone.is_none() && !done.load(Ordering::Relaxed) {
            let now = now(&self.times);
            while let Some((_, mark)) = marks.next_if(|(at, _)| *at <= now) {
                mark(&mut self.recorder, &self.agent);
            }
            if self.agent.next_wakeup().is_some_and(|at| at <= now) {
                self.tell(Input::Tick);
            }
            let next =
                [self.agent.next_wakeup(), marks.peek().map(|(at, _)| *at)].into_iter().flatten().min();
            sleep_until(next.unwrap_or(Instant::FAR_FUTURE).min(monotonic() + PATIENCE));
        }
        self
    }

    fn tell(&mut self, input: Input) {
        let Self { agent, recorder, engine, times, gone } = self;
        let clock = || now(times);
        let told = agent.tell(clock, input, Some(engine), |at, notice| recorder.note(times.of(at), &notice));
        *gone = told.err();
        if agent.is_superseded() {
            *gone = Some("it is not allowed to claim its router".to_owned());
        }
    }
}

/// The engine that the agent is beside, as far as its classes and policies go.
struct BesideEngine {
    handle: Handle,
    classes: BTreeSet<Name>,
    /// Whether it counts flows of policies.
    shares: bool,
    times: Times,
}

impl Router for BesideEngine {
    type Error = String;

    fn claim(&mut self, claim: Claim) -> Result<Result<(), ErrorItem>, String> {
        self.wait(|done| Call::Claim(Credentials::ADMIN, claim, done))
    }

    fn page(&mut self, query: &StateQuery) -> Result<StatePage, String> {
        self.wait(|done| Call::State(query.clone(), done))?.map_err(|error| error.message)
    }

    fn readings(&mut self) -> Result<Readings, String> {
        let show = |what: &str| {
            let page = self.wait(|done| Call::Show(ShowQuery::new(what, ROWS), done))?;
            page.map_err(|error| error.message)
        };
        // Only what is needed: each is a survey of the packet thread.
        let shares = if self.shares { Some(show("abr-policies")?) } else { None };
        let measures = if self.classes.is_empty() { None } else { Some(show("classes")?) };
        let rows = |page: &Option<ShowPage>| page.as_ref().map_or_else(Vec::new, |page| page.rows.clone());
        let classes = rows(&measures).into_iter().filter_map(|row| {
            let name = Name::new(&row.name).ok().filter(|name| self.classes.contains(name))?;
            Some((name, ClassReading::of_counters(&row.counters)))
        });
        let policies = rows(&shares).into_iter();
        let policies = policies.filter_map(|row| flows_of_row(&row.kind, &row.name, &row.counters));
        let (classes, policies) = (classes.collect(), policies.collect());
        let page = measures.or(shares).ok_or("there is nothing to read")?;
        let at = Instant(page.at_ns).clamp(self.times.epoch, now(&self.times));
        Ok(Readings { epoch: page.epoch, revision: page.revision, at, classes, policies })
    }

    fn submit(&mut self, transaction: Transaction) -> Result<Reply, String> {
        let reply = self.handle.submit_blocking(Credentials::ADMIN, transaction);
        reply.map(|reply| reply.as_ref().clone()).map_err(|error| error.to_string())
    }
}

impl BesideEngine {
    fn wait<T: Send + 'static>(&self, call: impl FnOnce(Done<T>) -> Call) -> Result<T, String> {
        self.handle.wait(call).map_err(|error| error.to_string())
    }
}

/// The agent's time: it begins with the run, and until then it is the run's first instant.
fn now(times: &Times) -> Instant {
    monotonic().max(times.epoch)
}
