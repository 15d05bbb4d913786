//! A machine with what its driver knows of it.

use crate::machine::Machine;
use crate::record::Record;
use perhop_units::{Duration, Instant};
use serde::Serialize;
use std::collections::VecDeque;

/// What a driver counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrivenCounters {
    /// Inputs, ticks among them.
    pub inputs: u64,
    /// Ticks.
    pub ticks: u64,
    /// The longest time between when a tick was wanted and when it came.
    pub latest: Duration,
}

/// A machine that is driven: every input goes through here, so that all are recorded and counted.
pub struct Driven<M: Machine> {
    machine: M,
    /// Of the latest input.
    now: Instant,
    counters: DrivenCounters,
    record: Option<Note<M::Input>>,
}

/// Writes an input down.
type Note<I> = Box<dyn FnMut(Instant, &I) + Send>;

impl<M: Machine> Driven<M> {
    /// A machine that was made at `now`.
    pub fn new(machine: M, now: Instant) -> Self {
        Self { machine, now, counters: DrivenCounters::default(), record: None }
    }

    /// Writes all inputs into a record from now on.
    #[must_use]
    pub fn recorded(self, mut record: Record) -> Self
    where
        M::Input: Serialize,
    {
        Self { record: Some(Box::new(move |now, input| record.note(now, input))), ..self }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine without its driver.
    pub fn into_machine(self) -> M {
        self.machine
    }

    /// What was counted.
    pub fn counters(&self) -> DrivenCounters {
        self.counters
    }

    /// Tells the machine something and hands what it wants to `handle`, whose answers it is told next. `clock` says when.
    ///
    /// # Errors
    /// Of `handle`; what else the machine wanted is lost.
    pub(crate) fn tell<E>(
        &mut self,
        clock: impl Fn() -> Instant,
        input: M::Input,
        handle: &mut impl FnMut(Instant, M::Output) -> Result<Option<M::Input>, E>,
    ) -> Result<(), E> {
        // What it wanted before anything was told comes first.
        let mut inputs = self.drain(handle)?;
        inputs.push_back(input);
        while let Some(input) = inputs.pop_front() {
            self.now = self.now.max(clock());
            self.counters.inputs += 1;
            if let Some(record) = &mut self.record {
                record(self.now, &input);
            }
            self.machine.handle_input(self.now, input);
            inputs.append(&mut self.drain(handle)?);
        }
        Ok(())
    }

    /// Tells the machine that time passes, as it wanted to be told at `due`.
    pub(crate) fn wake<E>(
        &mut self,
        clock: impl Fn() -> Instant,
        due: Instant,
        handle: &mut impl FnMut(Instant, M::Output) -> Result<Option<M::Input>, E>,
    ) -> Result<(), E> {
        self.counters.ticks += 1;
        // A machine may want to have been told before it was: what its driver owes it begins with the input that did so.
        self.counters.latest = self.counters.latest.max(clock().since(due.max(self.now)));
        self.tell(clock, M::tick(), handle)
    }

    fn drain<E>(
        &mut self,
        handle: &mut impl FnMut(Instant, M::Output) -> Result<Option<M::Input>, E>,
    ) -> Result<VecDeque<M::Input>, E> {
        let mut answers = VecDeque::new();
        while let Some(output) = self.machine.poll_output() {
            answers.extend(handle(self.now, output)?);
        }
        Ok(answers)
    }
}
