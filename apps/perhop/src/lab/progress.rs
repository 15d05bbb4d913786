//! Progress of a run on standard error: one line that changes on a terminal, plain lines now and then otherwise.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two plain lines.
const PLAIN: Duration = Duration::from_secs(5);

/// Shows how far a run is.
pub(super) struct Progress {
    what: String,
    /// What is done with the time: it is simulated, or run through.
    verb: &'static str,
    /// Simulated time of all repetitions together, s.
    whole_s: f64,
    started: Instant,
    last: Option<Instant>,
    terminal: bool,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// Simulated so far, of all repetitions together, s.
    pub(super) done_s: f64,
    /// Of so much, s.
    pub(super) whole_s: f64,
    /// Time since the start, s.
    pub(super) elapsed_s: f64,
}

impl Standing {
    /// The line: simulated time, speed, remaining time.
    fn line(&self, what: &str, verb: &str) -> String {
        let Self { done_s, whole_s, elapsed_s } = *self;
        let mut line = format!("{what}: {done_s:.0} of {whole_s:.0} s {verb}");
        if elapsed_s > 0.0 && done_s > 0.0 {
            let speed = done_s / elapsed_s;
            let left = (whole_s - done_s).max(0.0) / speed;
            line.push_str(&format!(", {speed:.1} s/s, {left:.0} s left"));
        }
        line
    }
}

impl Progress {
    pub(super) fn new(what: &str, verb: &'static str, whole_s: f64) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { what: what.to_owned(), verb, whole_s, started: Instant::now(), last: None, terminal }
    }

    /// Time since the start, s.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn standing(&self, done_s: f64) -> Standing {
        Standing { done_s, whole_s: self.whole_s, elapsed_s: self.elapsed_s() }
    }

    /// To be called a few times a second.
    pub(super) fn show(&mut self, done_s: f64) {
        let line = self.standing(done_s).line(&self.what, self.verb);
        // That nobody reads it is no reason to stop.
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            let _ = io::stderr().flush();
        } else if self.last.unwrap_or(self.started).elapsed() >= PLAIN {
            self.last = Some(Instant::now());
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// The last line of a run.
    pub(super) fn finish(&mut self) {
        let Standing { whole_s, elapsed_s, .. } = self.standing(self.whole_s);
        let speed = if elapsed_s > 0.0 { whole_s / elapsed_s } else { 0.0 };
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let what = &self.what;
        let _ = writeln!(io::stderr(), "{clear}{what}: {whole_s:.0} s in {elapsed_s:.1} s, {speed:.1} s/s");
    }

    /// Leaves the line as it is, for an error message beneath.
    pub(super) fn abandon(&mut self) {
        if self.terminal {
            let _ = writeln!(io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_simulated_time_speed_and_remaining_time() {
        let standing = Standing { done_s: 300.0, whole_s: 1200.0, elapsed_s: 2.0 };
        assert_eq!(
            standing.line("H-8.1.2", "simulated"),
            "H-8.1.2: 300 of 1200 s simulated, 150.0 s/s, 6 s left"
        );
        let standing = Standing { done_s: 0.0, ..standing };
        assert_eq!(standing.line("H-8.1.2", "simulated"), "H-8.1.2: 0 of 1200 s simulated");
    }
}
