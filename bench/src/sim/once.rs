//! One run of Perhop's simulator, in a process of its own: nothing that ran before has warmed its memory, and its peak
//! of memory is its own.

use super::dumbbell::Dumbbell;
use crate::error::BenchError;
use crate::machine::{Watch, thread_time_ns};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::Instant as Clock;

/// What the process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The scenario.
    pub dumbbell: Dumbbell,
    /// Whether conservation is checked every simulated second.
    pub conservation: bool,
}

/// What one run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Once {
    /// Seconds with building the world and collecting what it recorded.
    pub wall_s: f64,
    /// Seconds of processor time in it.
    pub cpu_s: f64,
    /// Events.
    pub events: u64,
    /// Bytes that arrived in order at all receivers.
    pub bytes: u64,
    /// Memory allocations.
    pub allocations: u64,
    /// Peak of resident memory above that before the run, bytes; `None` where the kernel does not tell.
    pub memory: Option<u64>,
    /// What disturbed it.
    pub warnings: Vec<String>,
}

/// Runs `order` in another process.
///
/// # Errors
/// The process cannot be started, or the run fails.
pub fn elsewhere(order: &Order) -> Result<Once, BenchError> {
    let environment = |e: std::io::Error| BenchError::Environment {
        what: "a process for one run".to_owned(),
        why: e.to_string(),
    };
    let program = std::env::current_exe().map_err(environment)?;
    let order = serde_json::to_string(order).map_err(|e| BenchError::Wrong(e.to_string()))?;
    let mut command = Command::new(program);
    command.args(["bench", "sim", "--order", &order]).stderr(Stdio::inherit());
    let ended = command.output().map_err(environment)?;
    if !ended.status.success() {
        return Err(BenchError::Wrong(format!("a run failed: {}", ended.status)));
    }
    serde_json::from_slice(&ended.stdout)
        .map_err(|e| BenchError::Wrong(format!("a run said nothing clear: {e}")))
}

/// Runs the order that this process was given.
///
/// # Errors
/// It is not one, or the simulator refuses.
pub fn here(order: &str) -> Result<Once, BenchError> {
    let order: Order =
        serde_json::from_str(order).map_err(|e| BenchError::Options(format!("--order: {e}")))?;
    let scenario = order.dumbbell.scenario();
    let options = perhop_sim::Options { check_books: order.conservation, ..perhop_sim::Options::default() };
    let resident = status("VmRSS:");
    let (watch, allocated, clock) = (Watch::start(), crate::allocations(), Clock::now());
    let cpu = thread_time_ns();
    let recording = perhop_sim::run(&scenario, &options, |_| true);
    let wall_s = clock.elapsed().as_secs_f64();
    let cpu_s = (thread_time_ns() - cpu) as f64 / 1e9;
    let allocations = crate::allocations().since(allocated).count;
    let mut warnings = watch.warnings();
    let peak = status("VmHWM:");
    let recording = recording.map_err(|e| BenchError::Wrong(e.to_string()))?;
    warnings.extend(recording.warnings);
    Ok(Once {
        wall_s,
        cpu_s,
        events: recording.events,
        bytes: recording.connections.iter().map(|c| c.window_bytes).sum(),
        allocations,
        memory: peak.zip(resident).map(|(peak, before)| peak.saturating_sub(before)),
        warnings,
    })
}

/// A figure of this process in bytes.
fn status(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_fills_the_bottleneck_and_knows_its_memory() {
        let dumbbell = Dumbbell { flows: 4, rate: 10_000_000, delay: 5_000_000, queue: 50, sim_s: 5 };
        let of = |conservation| {
            let order = Order { dumbbell, conservation };
            here(&serde_json::to_string(&order).expect("it has string keys")).expect("it runs")
        };
        let (off, on) = (of(false), of(true));
        // 1,448 of 1,514 bytes are payload; the windows need time to open.
        let share = off.bytes as f64 * 8.0 / (10e6 * 5.0);
        assert!((0.85..=1448.0 / 1514.0).contains(&share), "{share}");
        assert_eq!(off.bytes, on.bytes, "checking changes nothing");
        assert!(off.memory.is_some() && off.events < on.events);
    }
}
