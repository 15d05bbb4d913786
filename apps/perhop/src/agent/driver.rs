//! The agent as a machine that is driven and recorded.

use perhop_agent::Input;
use perhop_allocate::SplitMix64;
use perhop_bandwidth::{Agent, AgentFile, FileBroker, LEAST_REAL_POLL, Output};
use perhop_drive::Machine;
use perhop_units::Instant;
use serde::{Deserialize, Serialize};

/// What records call it.
pub(super) const MACHINE: &str = "agent";

/// What an agent is made of, besides its file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// See [`Agent::new`].
    pub(super) fence: u64,
}

/// An agent whose router is a real one.
pub(super) struct LiveAgent(Agent<FileBroker<SplitMix64>>);

impl LiveAgent {
    pub(super) fn new(file: &AgentFile, setup: &Setup, now: Instant) -> Self {
        let broker = FileBroker::of(file, |seed| SplitMix64::new(seed, 0), setup.fence, now);
        Self(Agent::new(file, broker, setup.fence, LEAST_REAL_POLL, now))
    }
}

impl Machine for LiveAgent {
    type Input = Input;
    type Output = Output;

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.0.handle_input(now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.0.next_wakeup()
    }

    fn tick() -> Input {
        Input::Tick
    }

    fn is_over(&self) -> bool {
        self.0.is_superseded()
    }
}
