//! What is driven: a machine without I/O or clock.

use perhop_units::Instant;

/// A machine that is told the time and does no I/O: waking it early is harmless, waking it late is a bug.
pub trait Machine {
    /// What it is told. Of a machine whose inputs are recorded, everything that it decides on is in them.
    type Input;
    /// What it wants done.
    type Output;

    /// Takes one input. `now` never goes back; all outputs are polled before the next input.
    fn handle_input(&mut self, now: Instant, input: Self::Input);

    /// The next thing to do; `None` when all is said.
    fn poll_output(&mut self) -> Option<Self::Output>;

    /// When it wants an input at the latest; a tick if there is no other.
    fn next_wakeup(&self) -> Option<Instant>;

    /// The input that says only that time passes.
    fn tick() -> Self::Input;

    /// Whether it has come to its end: it wants nothing any more.
    fn is_over(&self) -> bool {
        false
    }
}
