//! Whether this machine was fast enough to be the network of a scenario.

use crate::awake::Awake;
use crate::error::LabError;
use crate::machine::{CpuTime, MachineState, own_cpu_time, waited_for_processor};
use crate::pace::Lateness;
use crate::udp::SendLog;
use perhop_engine::Report;
use perhop_io::clock::monotonic;
use perhop_units::{Duration, Instant};

/// Lateness of routers' and links' timers at p99 from which delays are the machine's and not the network's: the
/// agreement between simulation and namespaces that is asked of delays.
const TIMER_LIMIT: Duration = Duration::from_millis(3);
/// Share of all processors that this run uses itself from which it is limited by them and not by the network.
const OWN_LIMIT_PCT: f64 = 90.0;
/// Share of all processors in use by anybody from which a reader should know.
const BUSY_WARNING_PCT: f64 = 90.0;

/// Readings at the start.
pub(super) struct Before {
    at: Instant,
    cpu: CpuTime,
    own: Duration,
    awake: Duration,
    waited: Duration,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Health {
    machine: MachineState,
    /// Processor time of this process, percent of all processors.
    own_pct: f64,
    /// Timers of routers and links, p99 and worst.
    timers_p99: Duration,
    timers_max: Duration,
    /// Packets that came by rings.
    packets: u64,
    /// Packets lost in rings and pools.
    lost: u64,
    /// Datagrams that sockets had no room for.
    pub(super) socket_drops: u64,
}

impl Before {
    /// Reads the machine.
    pub(super) fn now(awake: &Awake) -> Result<Self, LabError> {
        Ok(Self {
            awake: awake.cpu_time(),
            at: monotonic(),
            cpu: CpuTime::now()?,
            own: own_cpu_time(),
            waited: waited_for_processor(),
        })
    }

    /// What happened since, while everything still runs.
    pub(super) fn until_now(self, awake: &Awake) -> Result<Health, LabError> {
        let elapsed = monotonic().since(self.at).as_secs_f64().max(1e-9);
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let awake = awake.cpu_time() - self.awake;
        let (steal_pct, busy_pct) = CpuTime::now()?.since(&self.cpu, awake);
        let waiting_pct = (waited_for_processor() - self.waited).as_secs_f64() / elapsed * 100.0;
        let own = own_cpu_time() - self.own - awake;
        let own_pct = own.as_secs_f64() / elapsed / processors * 100.0;
        let machine = MachineState { steal_pct, busy_pct, waiting_pct, ..MachineState::default() };
        Ok(Health { machine, own_pct, ..Health::default() })
    }
}

impl Health {
    /// Adds how late senders were.
    pub(super) fn senders(&mut self, logs: &[SendLog]) {
        let mut lateness = Lateness::default();
        for log in logs {
            lateness.merge(&log.lateness);
            self.machine.send_refused += log.refused;
        }
        self.machine.lateness_p99 = lateness.p99();
        self.machine.lateness_max = lateness.max();
    }

    /// Adds what captures lost.
    pub(super) fn captures(&mut self, lost: impl Iterator<Item = u64>) {
        self.lost += lost.sum::<u64>();
    }

    /// Adds counters of routers or links.
    pub(super) fn engines<'a>(&mut self, reports: impl Iterator<Item = &'a Report>) {
        for row in reports.flat_map(|report| &report.rows) {
            match row.kind.as_str() {
                "port" => {
                    let lost = ["rx_ring_lost", "rx_no_buffer", "tx_overflow", "tx_failed"];
                    self.lost += lost.iter().map(|name| row.counter(name)).sum::<u64>();
                    self.packets += row.counter("rx_packets");
                }
                "driver" => {
                    self.timers_p99 = self.timers_p99.max(Duration(row.counter("timer_late_p99_ns")));
                    self.timers_max = self.timers_max.max(Duration(row.counter("timer_late_max_ns")));
                }
                _ => {}
            }
        }
    }

    fn state(&self) -> MachineState {
        let lost_inside = self.lost + self.socket_drops;
        let lost_pct = lost_inside as f64 * 100.0 / self.packets.max(1) as f64;
        MachineState { lost_inside, lost_pct, ..self.machine }
    }

    /// How late a timer of routers and links was served at the worst.
    pub(super) fn longest_stall(&self) -> Duration {
        self.timers_max
    }

    /// Why this repetition is no evidence; `None` if it is.
    pub(super) fn saturated(&self) -> Option<String> {
        let state = self.state();
        if let Some(why) = state.saturated() {
            return Some(why);
        }
        if self.timers_p99 >= TIMER_LIMIT {
            return Some(format!(
                "the machine was saturated: timers of routers and links were served {:.1} ms late at p99. Stop what \
                 else runs, or lower the rates.",
                self.timers_p99.as_millis_f64()
            ));
        }
        (self.own_pct >= OWN_LIMIT_PCT).then(|| {
            format!(
                "the machine was saturated: this run alone took {:.0} % of its CPU time. Lower the rates.",
                self.own_pct
            )
        })
    }

    /// Why a missed target of this repetition is no evidence; `None` if it is.
    pub(super) fn starved(&self) -> Option<String> {
        self.state().starved()
    }

    /// How busy the machine was, a sentence.
    pub(super) fn describe(&self) -> String {
        self.state().describe()
    }

    /// What deserves a warning although the repetition stands.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.state().warnings();
        if self.timers_p99 >= Duration::from_millis(1) {
            let ms = self.timers_p99.as_millis_f64();
            warnings.push(format!("timers of routers and links were served {ms:.1} ms late at p99"));
        }
        if self.timers_max >= TIMER_LIMIT {
            let ms = self.timers_max.as_millis_f64();
            warnings.push(format!(
                "timers of routers and links were served up to {ms:.1} ms late: so much of the largest delays may be \
                 this machine's"
            ));
        }
        if self.machine.busy_pct >= BUSY_WARNING_PCT {
            let (all, own) = (self.machine.busy_pct, self.own_pct);
            warnings.push(format!("{all:.0} % of CPU time was in use, {own:.0} % by this run"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::ShowRow as Row;

    #[test]
    fn late_timers_lost_packets_and_full_processors_are_no_evidence() {
        let report = |late: u64, lost: u64| {
            let mut driver = Row::new("driver", "x");
            driver
                .counters
                .extend([("timer_late_p99_ns".into(), late), ("timer_late_max_ns".into(), 2 * late)]);
            let mut port = Row::new("port", "a");
            port.counters.extend([("rx_packets".into(), 1000), ("rx_ring_lost".into(), lost)]);
            Report { rows: vec![driver, port] }
        };
        let judged = |late, lost, own_pct| {
            let mut health = Health { own_pct, ..Health::default() };
            health.machine.busy_pct = 80.0;
            health.engines([&report(late, lost)].into_iter());
            (health.saturated(), health.warnings().len())
        };
        assert_eq!(judged(900_000, 0, 80.0), (None, 0));
        assert_eq!(judged(1_400_000, 1, 80.0), (None, 2));
        // The latest was 4 ms late.
        assert_eq!(judged(2_000_000, 1, 80.0), (None, 3));
        assert!(judged(3_000_000, 0, 0.0).0.is_some_and(|why| why.contains("3.0 ms late")));
        assert!(judged(0, 5, 0.0).0.is_some_and(|why| why.contains("lost 5 packets")));
        assert!(judged(0, 0, 96.0).0.is_some_and(|why| why.contains("96 %")));
    }
}
