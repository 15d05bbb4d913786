//! Agents of routers: the very machine of `perhop agent run`, each on a thread of its own beside its engine.
//!
//! It reaches the engine through the engine's handle, in this process: a request then takes the time that the router
//! takes for it, and not that of a socket as well, of which a scenario says nothing. Its broker is emulated.

use super::receive::Times;
use crate::error::{LabError, io};
use crate::pace::precise_timers;
use perhop_agent::{ClassReading, Input, Readings, Router, flows_of_row, perform};
use perhop_allocate::SplitMix64;
use perhop_allocate::broker::EmulatedBroker;
use perhop_bandwidth::{Agent, AgentFile, LEAST_REAL_POLL, Output};
use perhop_drive::{Driven, End, Inlet, Inputs, Machine, ThreadTimer, channel, run};
use perhop_engine::Handle;
use perhop_io::clock::monotonic;
use perhop_measure::{AgentRecorder, Recording};
use perhop_model::{
    Call, Claim, Credentials, Done, ErrorItem, Name, Reply, ShowPage, ShowQuery, StatePage, StateQuery,
    Transaction,
};
use perhop_units::{Duration, Instant};
use std::collections::BTreeSet;
use std::future::pending;
use std::thread::JoinHandle;

/// Rows of classes asked for at once: more than a router has.
const ROWS: usize = 1_000_000;

/// What happens to the recorder at an end of the window.
type Mark = fn(&mut AgentRecorder, &Agent<EmulatedBroker<SplitMix64>>);

/// A running agent: it works until it is finished or dropped.
pub(super) struct RunningAgent {
    router: String,
    /// What to say of an agent that looks at queues less often than its file says.
    slow: Option<String>,
    /// It ends when nobody can tell it anything any more.
    inlet: Inlet<Input>,
    thread: JoinHandle<Result<Observed, String>>,
}

impl RunningAgent {
    /// Starts the agent of the router `name`.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(
        name: &str,
        file: &AgentFile,
        seed: u64,
        handle: Handle,
        times: Times,
    ) -> Result<Self, LabError> {
        let slow = file.poll().filter(|poll| *poll < LEAST_REAL_POLL).map(|poll| {
            format!(
                "router \"{name}\": its agent looks at queues every {LEAST_REAL_POLL} and not every {poll}"
            )
        });
        let classes = file.measured().cloned().collect();
        let shares = !file.bandwidth.links.is_empty();
        let engine = BesideEngine { handle, classes, shares, times };
        let agent = Driven::new(Observed::new(file, seed, times), times.epoch);
        let (inlet, inputs) = channel(1);
        let first = inlet.clone();
        let thread = std::thread::Builder::new().name(format!("agent-{name}"));
        let thread =
            thread.spawn(move || work(agent, engine, first, inputs)).map_err(io("start an agent"))?;
        Ok(Self { router: name.to_owned(), slow, inlet, thread })
    }

    /// Ends it; adds what it left to the recording.
    ///
    /// # Errors
    /// It ended before: its classes then kept what they had.
    pub(super) fn finish(self, recording: &mut Recording) -> Result<(), LabError> {
        drop(self.inlet);
        let ended = self.thread.join().unwrap_or_else(|_| Err("its thread has panicked".to_owned()));
        let observed = ended.map_err(|reason| LabError::Part {
            part: format!("agent of router \"{}\"", self.router),
            doing: "look after its classes and links",
            reason,
        })?;
        observed.recorder.finish(&observed.agent, &self.router, recording);
        recording.warnings.extend(self.slow);
        Ok(())
    }
}

/// The agent's thread; why it could do no more, if so.
fn work(
    mut agent: Driven<Observed>,
    mut engine: BesideEngine,
    inlet: Inlet<Input>,
    mut inputs: Inputs<Input>,
) -> Result<Observed, String> {
    precise_timers();
    let times = engine.times;
    let timer = ThreadTimer::new(move || now(&times));
    let end = timer.block_on(async {
        // What its classes have at first is in force before the first packet comes.
        let appeared = inlet.send(Input::Appeared).await;
        drop(inlet);
        appeared.map_err(|over| over.to_string())?;
        run(&mut agent, &mut inputs, &timer, pending::<()>(), |_, output| perform(&mut engine, output)).await
    })?;
    match end {
        End::Over => Err("it is not allowed to claim its router".to_owned()),
        End::Closed | End::Stopped(()) => Ok(agent.into_machine()),
    }
}

/// The agent with what is recorded of it.
struct Observed {
    agent: Agent<EmulatedBroker<SplitMix64>>,
    recorder: AgentRecorder,
    times: Times,
    /// Ends of the window that are still to come.
    marks: Vec<(Instant, Mark)>,
    /// Of the latest input.
    now: Instant,
}

impl Observed {
    fn new(file: &AgentFile, seed: u64, times: Times) -> Self {
        let (config, own_seed) = file.broker.clone();
        let broker = EmulatedBroker::new(config, SplitMix64::new(seed, own_seed));
        let (begins, ends) = times.window;
        let at = |instant: Instant| times.epoch + Duration(instant.as_nanos());
        Self {
            agent: Agent::new(file, broker, 1, LEAST_REAL_POLL, times.epoch),
            recorder: AgentRecorder::new(file),
            times,
            marks: vec![
                (at(ends), AgentRecorder::window_ends as Mark),
                (at(begins), AgentRecorder::window_begins),
            ],
            now: times.epoch,
        }
    }
}

impl Machine for Observed {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = now;
        while let Some((_, mark)) = self.marks.pop_if(|(at, _)| *at <= now) {
            mark(&mut self.recorder, &self.agent);
        }
        self.agent.handle_input(now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        loop {
            match self.agent.poll_output()? {
                Output::Say(notice) => self.recorder.note(self.times.of(self.now), &notice),
                output => return Some(output),
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let mark = self.marks.last().map(|(at, _)| *at);
        [self.agent.next_wakeup(), mark].into_iter().flatten().min()
    }

    fn tick() -> Input {
        Input::Tick
    }

    fn is_over(&self) -> bool {
        self.agent.is_superseded()
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
