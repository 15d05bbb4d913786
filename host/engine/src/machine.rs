//! The machine beneath: CPU, scheduler, time stolen by others.

use crate::report::Row;
use perhop_packet::PoolCounters;
use perhop_routerfile::Waiting;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Priority of packet threads under `SCHED_FIFO`: above ordinary threads, below the kernel's own watchdogs.
const FIFO_PRIORITY: i32 = 40;

/// How a packet thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduling {
    /// CPU to stay on.
    pub(crate) cpu: Option<usize>,
    /// Try for `SCHED_FIFO`.
    pub(crate) fifo: bool,
    /// What to do without work.
    pub(crate) waiting: Waiting,
}

/// Applies to the calling thread what is permitted; the rest is logged. Whether it is a real-time thread now.
pub(crate) fn schedule(wanted: Scheduling) -> bool {
    if let Some(cpu) = wanted.cpu {
        let mut set = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            set.set(cpu);
        }
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(cpu, %error, "cannot stay on this CPU");
        }
    }
    if !wanted.fifo {
        return false;
    }
    let done = perhop_io::thread::run_before_others(FIFO_PRIORITY);
    if let Err(error) = &done {
        tracing::info!(%error, "no real-time priority; timers may be later under load");
    }
    done.is_ok()
}

/// CPU time that the hypervisor gave to others while this machine wanted to run, all CPUs. Clones count together.
#[derive(Clone)]
pub(crate) struct Steal {
    start_ms: Option<u64>,
    /// The most that was told: the kernel's own number goes back at times.
    told_ms: Arc<AtomicU64>,
}

impl Steal {
    pub(crate) fn now() -> Self {
        Self { start_ms: stolen_ms(), told_ms: Arc::default() }
    }

    /// Adds it to the row of the driver. Reads a file of the kernel, which takes long: not on a packet thread.
    pub(crate) fn add_to(&self, rows: &mut [Row]) {
        if let Some(row) = rows.iter_mut().find(|r| r.kind == "driver") {
            row.counters.insert("cpu_steal_ms".to_owned(), self.since());
        }
    }

    /// Since the start, ms. 0 where the kernel does not say.
    fn since(&self) -> u64 {
        match (stolen_ms(), self.start_ms) {
            (Some(now), Some(start)) => {
                let stolen = now.saturating_sub(start);
                self.told_ms.fetch_max(stolen, Ordering::Relaxed).max(stolen)
            }
            _ => 0,
        }
    }
}

/// Eighth number of the line `cpu` in /proc/stat, in ticks of 10 ms (proc(5); USER_HZ is 100 on every port of Linux
/// that Perhop runs on).
fn stolen_ms() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_ascii_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 10)
}

pub(crate) fn pool_counters(c: &PoolCounters) -> [(&'static str, u64); 4] {
    [("capacity", c.capacity), ("in_depot", c.in_depot), ("leaked", c.leaked), ("exhausted", c.exhausted)]
}
