//! How far this machine can be trusted: stolen CPU time, late timers, packets that it lost itself.

use crate::error::{LabError, io};
use perhop_netlink::Namespace;
use perhop_units::Duration;
use std::fs;

/// Share of stolen CPU time from which a run is no evidence.
const STEAL_LIMIT_PCT: f64 = 10.0;
/// Lateness of the senders of datagrams at p99 from which a run is no evidence: all that queueing may add.
const LATENESS_LIMIT: Duration = Duration::from_millis(5);
/// Share of the time that router and link waited for a processor from which a run is no evidence.
const WAIT_LIMIT_PCT: f64 = 5.0;
/// Share of packets lost inside this machine from which a run is no evidence.
const LOST_LIMIT_PCT: f64 = 0.5;

/// In which the kernel counts CPU time (`USER_HZ`, time(7)).
const TICK: Duration = Duration::from_millis(10);

/// CPU time of all processors since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    total: u64,
    idle: u64,
    steal: u64,
}

impl CpuTime {
    /// Reads `/proc/stat`.
    pub(crate) fn now() -> Result<Self, LabError> {
        let text = fs::read_to_string("/proc/stat").map_err(io("read /proc/stat"))?;
        Ok(Self::parse(&text))
    }

    /// The `cpu` line: user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is in user already.
    fn parse(text: &str) -> Self {
        let line = text.lines().find(|l| l.starts_with("cpu ")).unwrap_or("");
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        Self { total: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7) }
    }

    /// Percent (stolen, busy with anything) since `earlier`, of which `awake` was spent so that no processor halts.
    pub(crate) fn since(&self, earlier: &Self, awake: Duration) -> (f64, f64) {
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        let pct = |ticks: u64| ticks as f64 / total * 100.0;
        let idle = self.idle.saturating_sub(earlier.idle) + awake.as_nanos() / TICK.as_nanos();
        (pct(self.steal.saturating_sub(earlier.steal)), (100.0 - pct(idle)).max(0.0))
    }
}

/// Time that the threads of routers, links and agents have waited for a processor, ready to run (second number of
/// `/proc/PID/task/TID/schedstat`); the most of any of them. Zero on a kernel that does not count it.
pub(crate) fn waited_for_processor() -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let wait = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        if !WAITED_FOR.iter().any(|prefix| name.starts_with(prefix)) {
            return None;
        }
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok().map(Duration)
    };
    tasks.flatten().filter_map(wait).max().unwrap_or(Duration::ZERO)
}

/// Processor time that this process has used, in user mode and in the kernel.
pub(crate) fn own_cpu_time() -> Duration {
    // utime and stime, in ticks, behind the name in parentheses (proc_pid_stat(5)).
    let Ok(text) = fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum::<u64>();
    Duration(ticks * TICK.as_nanos())
}

/// How the engine names its packet threads, and the laboratory those of agents.
const WAITED_FOR: [&str; 3] = ["link-", "pkt-", "agent-"];

/// Datagrams that UDP sockets of the namespace dropped for want of buffer (`drops` of `/proc/net/udp`).
pub(crate) fn socket_drops(namespace: &Namespace) -> u64 {
    let text = namespace.run(|| fs::read_to_string("/proc/thread-self/net/udp"));
    text.ok().and_then(Result::ok).map_or(0, |t| parse_drops(&t))
}

fn parse_drops(table: &str) -> u64 {
    let last = |line: &str| line.split_whitespace().next_back().and_then(|d| d.parse::<u64>().ok());
    table.lines().skip(1).filter_map(last).sum()
}

/// What a run says about the machine it ran on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineState {
    /// CPU time that the hypervisor gave to others, percent.
    pub(crate) steal_pct: f64,
    /// CPU time in use, percent of all processors.
    pub(crate) busy_pct: f64,
    /// How late datagrams were sent, 99th percentile.
    pub(crate) lateness_p99: Duration,
    /// The same, largest.
    pub(crate) lateness_max: Duration,
    /// Time that router, link or agent, whichever did most, waited for a processor, percent of the run.
    pub(crate) waiting_pct: f64,
    /// Packets lost by receive buffers and rings of this machine.
    pub(crate) lost_inside: u64,
    /// Percent that these are of all packets.
    pub(crate) lost_pct: f64,
    /// Sends that the kernel refused.
    pub(crate) send_refused: u64,
}

impl MachineState {
    /// Why the run is no evidence; `None` if it is.
    pub(crate) fn saturated(&self) -> Option<String> {
        if self.steal_pct >= STEAL_LIMIT_PCT {
            return Some(format!(
                "the machine was saturated: {:.1} % of its CPU time was stolen. Run it on a quieter machine.",
                self.steal_pct
            ));
        }
        if self.lost_pct >= LOST_LIMIT_PCT {
            return Some(format!(
                "the machine was saturated: it lost {} packets in its own buffers. Lower the rates.",
                self.lost_inside
            ));
        }
        None
    }

    /// Why a failed target is no evidence against the router: senders, router, link or agent had to wait for a processor.
    /// Targets that hold in spite of that stand, as delays count from the instant a packet was really sent.
    pub(crate) fn starved(&self) -> Option<String> {
        if self.lateness_p99 >= LATENESS_LIMIT {
            return Some(format!(
                "the machine was saturated: timers fired {:.1} ms late at p99. Stop what else runs, or lower the rates.",
                self.lateness_p99.as_millis_f64()
            ));
        }
        (self.waiting_pct >= WAIT_LIMIT_PCT).then(|| {
            format!(
                "the machine was saturated: router, link or agent waited for a processor {:.1} % of the time. Stop what else runs.",
                self.waiting_pct
            )
        })
    }

    /// One sentence.
    pub(crate) fn describe(&self) -> String {
        format!(
            "CPU {:.0} % busy, {:.1} % stolen; router and link waited for a processor {:.1} % of the time; datagrams sent {:.0} µs late at p99 ({:.1} ms at most); {} packets lost in this \
             machine's own buffers.",
            self.busy_pct,
            self.steal_pct,
            self.waiting_pct,
            self.lateness_p99.as_nanos() as f64 / 1e3,
            self.lateness_max.as_millis_f64(),
            self.lost_inside
        )
    }

    /// What deserves a warning although the run stands.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.steal_pct >= 1.0 {
            warnings.push(format!("{:.1} % of CPU time was stolen", self.steal_pct));
        }
        if self.lateness_p99 >= Duration::from_millis(1) {
            let ms = self.lateness_p99.as_millis_f64();
            warnings.push(format!("timer error: datagrams were sent {ms:.1} ms late at p99"));
        }
        if self.waiting_pct >= 1.0 {
            warnings.push(format!(
                "router, link or agent waited for a processor {:.1} % of the time",
                self.waiting_pct
            ));
        }
        if self.lost_inside > 0 {
            warnings.push(format!("{} packets were lost in buffers of this machine", self.lost_inside));
        }
        if self.send_refused > 0 {
            warnings.push(format!("the kernel refused {} datagrams at their sender", self.send_refused));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_cpu_time_follow_from_two_readings() {
        let a = CpuTime::parse("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n");
        let b = CpuTime::parse("cpu  150 0 150 760 120 0 0 20 0 0\n");
        let (steal, busy) = b.since(&a, Duration::ZERO);
        assert!((steal - 10.0).abs() < 1e-9, "{steal}");
        assert!((busy - 60.0).abs() < 1e-9, "{busy}");
        // 20 of the 200 ticks were there for the taking.
        let (steal, busy) = b.since(&a, Duration::from_millis(200));
        assert!((steal - 10.0).abs() < 1e-9, "{steal}");
        assert!((busy - 50.0).abs() < 1e-9, "{busy}");
        assert_eq!(CpuTime::parse("nonsense"), CpuTime::default());
    }

    #[test]
    fn drops_are_the_last_column() {
        let table = "  sl  local_address rem_address  drops\n 1: 00:1 00:2 07 0:0 0 0 0 2 0 3\n 2: x y 4\n";
        assert_eq!(parse_drops(table), 7);
    }

    #[test]
    fn a_saturated_machine_is_told_with_a_remedy() {
        let quiet = MachineState { steal_pct: 0.3, ..MachineState::default() };
        assert_eq!((quiet.saturated(), quiet.warnings().len()), (None, 0));
        let stolen = MachineState { steal_pct: 30.0, ..quiet };
        assert!(stolen.saturated().is_some_and(|s| s.contains("30.0 %") && s.contains("Run it")));
        let waiting = MachineState { waiting_pct: 20.0, ..quiet };
        assert!(waiting.starved().is_some_and(|s| s.contains("20.0 %")));
        assert_eq!((waiting.saturated(), quiet.starved()), (None, None));
        let late = MachineState { lateness_p99: Duration::from_millis(9), ..quiet };
        assert!(late.starved().is_some_and(|s| s.contains("9.0 ms")));
        assert_eq!(late.warnings(), ["timer error: datagrams were sent 9.0 ms late at p99"]);
    }
}
