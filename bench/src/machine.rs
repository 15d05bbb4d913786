//! What this machine is, and how much of it others took during a measurement.

use crate::error::BenchError;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// Runs the calling thread on one processor from now on.
///
/// # Errors
/// The kernel's reason; the processor does not exist or is not allowed.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Runs the calling thread on the processor asked for, the last without; what it starts inherits it. Gives its number.
///
/// # Errors
/// The processor does not exist or is not allowed.
pub fn pin_to(cpu: Option<usize>) -> Result<usize, BenchError> {
    let cpu = cpu.unwrap_or(processors() - 1);
    pin(cpu).map_err(|e| BenchError::Environment {
        what: format!("running on processor {cpu}"),
        why: format!("{e}; choose another with --cpu"),
    })?;
    Ok(cpu)
}

/// Processor time of the calling thread, ns.
pub fn thread_time_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Processors there are, 1 at the least.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Bytes of the largest cache of processor 0; 32 MiB when unknown.
pub fn last_level_cache() -> usize {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let scale = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => 1,
        };
        number.parse::<usize>().ok().map(|n| n * scale)
    };
    (0..8).filter_map(size).max().unwrap_or(32 << 20)
}

/// The kernel's release.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |s| s.trim().to_owned())
}

/// Figures that only rise, read before and after a measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Ticks of all processors.
    ticks: u64,
    /// Ticks the hypervisor gave to other machines.
    stolen: u64,
    /// Nanoseconds this thread ran.
    ran: u64,
    /// Nanoseconds it was ready and waited.
    waited: u64,
}

impl Taken {
    fn now() -> Self {
        let mut taken = Self::default();
        if let Ok(stat) = fs::read_to_string("/proc/stat") {
            let first = stat.lines().next().unwrap_or_default();
            let numbers: Vec<u64> = first.split_whitespace().skip(1).filter_map(|w| w.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; guest time is counted in user time again.
            taken.ticks = numbers.iter().take(8).sum();
            taken.stolen = numbers.get(7).copied().unwrap_or(0);
        }
        if let Ok(stat) = fs::read_to_string("/proc/thread-self/schedstat") {
            let mut numbers = stat.split_whitespace().filter_map(|w| w.parse().ok());
            taken.ran = numbers.next().unwrap_or(0);
            taken.waited = numbers.next().unwrap_or(0);
        }
        taken
    }
}

/// Watches the machine during a measurement.
#[derive(Debug)]
pub struct Watch {
    before: Taken,
}

/// Above this share of time taken by others a result is not to be trusted.
pub const DISTURBED: f64 = 0.02;
/// Above this spread neither.
pub const SPREAD: f64 = 0.20;

impl Watch {
    /// Begins now.
    pub fn start() -> Self {
        Self { before: Taken::now() }
    }

    /// Share of time since the start that this thread was ready and did not run.
    pub fn waited(&self) -> f64 {
        let after = Taken::now();
        let (ran, waited) = (after.ran - self.before.ran, after.waited - self.before.waited);
        if waited == 0 { 0.0 } else { waited as f64 / (ran + waited) as f64 }
    }

    /// What disturbed this thread since the start, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let after = Taken::now();
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let stolen = share(after.stolen - self.before.stolen, after.ticks - self.before.ticks);
        let waited = self.waited();
        let mut warnings = Vec::new();
        if stolen > DISTURBED {
            warnings.push(format!("other virtual machines took {:.0} % of the processors", stolen * 100.0));
        }
        if waited > DISTURBED {
            warnings
                .push(format!("other programs took {:.0} % of the measuring thread's time", waited * 100.0));
        }
        warnings
    }
}
