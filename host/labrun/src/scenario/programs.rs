//! Real programs in nodes: started and stopped at their times, their end compared with what the scenario expects.

use crate::error::{LabError, network};
use crate::pace::sleep_until;
use crate::udp::wait_until;
use perhop_io::clock::monotonic;
use perhop_io::private_file;
use perhop_measure::ProgramFailure;
use perhop_netlink::{Namespace, end_with_this_thread};
use perhop_scenario::{FinalState, Program};
use perhop_units::{Duration, Instant};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How often a running program is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// From the polite signal to the last one.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program's thread. The program dies with it.
pub(super) struct Running {
    thread: JoinHandle<Result<Option<ProgramFailure>, LabError>>,
}

impl Running {
    /// Starts the thread that starts the program when its time has come.
    pub(super) fn start(
        program: &Program,
        namespace: &Namespace,
        output: &Path,
        epoch: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let job = Job { program: program.clone(), output: output.to_owned(), epoch, stop: Arc::clone(stop) };
        let thread = namespace.spawn(&format!("run-{}", program.name), move || job.run());
        Ok(Self { thread: thread.map_err(network("start a program's thread"))? })
    }

    /// Waits for its end: how it differs from the one expected, if it does. Set `stop` before.
    pub(super) fn finish(self) -> Result<Option<ProgramFailure>, LabError> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Job {
    program: Program,
    output: PathBuf,
    epoch: Instant,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn run(self) -> Result<Option<ProgramFailure>, LabError> {
        let at = |time: Duration| self.epoch + time;
        if !wait_until(at(self.program.start), &self.stop) {
            // The repetition ended before.
            return Ok(self.judge("it was never started".to_owned(), false));
        }
        let mut child = match self.spawn()? {
            Ok(child) => child,
            // The figures of the others are as good as ever.
            Err(error) => return Ok(self.judge(format!("it did not start: {error}"), false)),
        };
        let until = self.program.stop.map_or(Instant::FAR_FUTURE, at);
        let failed = |e: std::io::Error| self.part("wait for it", &e);
        while monotonic() < until && !self.stop.load(Ordering::Relaxed) {
            if let Some(status) = child.try_wait().map_err(failed)? {
                let right = self.program.expect == FinalState::Any
                    || matches!(self.program.expect, FinalState::Exit(code) if status.code() == Some(code));
                return Ok(self.judge(describe(status), right));
            }
            sleep_until(monotonic() + GLANCE);
        }
        if let Some(status) = child.try_wait().map_err(failed)? {
            let right = matches!(self.program.expect, FinalState::Exit(code) if status.code() == Some(code));
            return Ok(self.judge(describe(status), right || self.program.expect == FinalState::Any));
        }
        end(&mut child);
        let right = matches!(self.program.expect, FinalState::Running | FinalState::Any);
        Ok(self.judge("it was still running when it was stopped".to_owned(), right))
    }

    /// The program, or why it cannot start.
    fn spawn(&self) -> Result<std::io::Result<Child>, LabError> {
        let Some((name, arguments)) = self.program.command.split_first() else {
            return Err(self.part("start it", &"the command is empty"));
        };
        let file = |suffix: &str| {
            let path = self.output.join(format!("{}.{suffix}", self.program.name));
            private_file::create(&path).map_err(|e| LabError::Output { path, reason: e.to_string() })
        };
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
        // A group of its own, so that what it starts ends with it, and Ctrl-C is this program's to handle.
        command.process_group(0);
        end_with_this_thread(&mut command);
        Ok(command.spawn())
    }

    fn part(&self, doing: &str, reason: &dyn std::fmt::Display) -> LabError {
        LabError::Part {
            part: format!("program \"{}\"", self.program.name),
            doing: "run it",
            reason: format!("{doing}: {reason}"),
        }
    }

    fn judge(&self, found: String, right: bool) -> Option<ProgramFailure> {
        if right {
            return None;
        }
        let expected = match self.program.expect {
            FinalState::Exit(code) => format!("exit code {code}"),
            FinalState::Running => "it to run until it is stopped".to_owned(),
            FinalState::Any => "it to run".to_owned(),
        };
        let found = format!("{found}; its output is in {}", self.output.display());
        Some(ProgramFailure { program: self.program.name.clone(), expected, found })
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Ends a program and what it started: politely, then by force.
fn end(child: &mut Child) {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let _ = kill_process_group(group, Signal::TERM);
    let patience = monotonic() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && monotonic() < patience {
        sleep_until(monotonic() + GLANCE);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}
