//! The loop around a machine.

use crate::channel::{Inputs, Message};
use crate::driven::Driven;
use crate::machine::Machine;
use crate::timer::Timer;
use perhop_units::Instant;
use std::pin::pin;

/// How a machine's loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<S> {
    /// It was told to; with what it was told. Inputs that were waiting are lost.
    Stopped(S),
    /// The machine has come to its end.
    Over,
    /// There is nobody left who could have an input, and all inputs were taken.
    Closed,
}

/// What comes next.
enum Step<I> {
    Input(Option<Message<I>>),
    Wake(Instant),
}

/// Drives a machine until `stop` resolves, the machine is over or its inputs are closed. It waits for these, for inputs and
/// for the machine's time, and for nothing else; of an input and a time that are there together, either may come first.
/// `handle` does what the machine wants or passes it on: until it returns the machine stands still. What it answers is the
/// machine's next input, before those of the channel.
///
/// # Errors
/// Of `handle`, which ends it.
pub async fn run<M: Machine, T: Timer, S, E>(
    driven: &mut Driven<M>,
    inputs: &mut Inputs<M::Input>,
    timer: &T,
    stop: impl Future<Output = S>,
    mut handle: impl FnMut(Instant, M::Output) -> Result<Option<M::Input>, E>,
) -> Result<End<S>, E> {
    let mut stop = pin!(stop);
    let clock = || timer.now();
    while !driven.machine().is_over() {
        let due = driven.machine().next_wakeup().unwrap_or(Instant::FAR_FUTURE);
        let step = async {
            tokio::select! {
                message = inputs.next() => Step::Input(message),
                () = timer.until(due) => Step::Wake(due),
            }
        };
        let step = tokio::select! {
            biased;
            stopped = &mut stop => return Ok(End::Stopped(stopped)),
            step = step => step,
        };
        match step {
            Step::Input(None) => return Ok(End::Closed),
            Step::Input(Some(Message { input, taken })) => {
                driven.tell(clock, input, &mut handle)?;
                // A source that does not wait any longer is not told.
                let _ = taken.map(|taken| taken.send(()));
            }
            Step::Wake(due) => driven.wake(clock, due, &mut handle)?,
        }
    }
    Ok(End::Over)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
