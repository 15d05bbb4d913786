//! What a scenario says of TCP and the kernel takes for a whole host, or for all connections between two hosts.
//!
//! Congestion control, buffers and code points are a socket's own (`socket.rs`). Options are a host's: keys below
//! `net.ipv4`, which every namespace has for itself. Initial window, time-out and segment size are those of a route. Three
//! things cannot be had, and a warning says so: the time-out of a SYN, the longest wait with an acknowledgement, and a slow
//! start of CUBIC without HyStart.

use crate::error::LabError;
use perhop_netlink::{Namespace, RouteMetrics};
use perhop_scenario::{NodeIndex, Scenario, SlowStart, Tcp, Traffic};
use perhop_units::Duration;
use std::collections::BTreeMap;

/// Time-out of a SYN in Linux (`TCP_TIMEOUT_INIT`).
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// Waits of Linux with an acknowledgement (`TCP_DELACK_MIN`, `TCP_DELACK_MAX`); it chooses by the rate of arrivals.
const DELAYED_ACK: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(200)];
/// Bytes of a segment that time-stamps take.
const STAMP_OPTION: u32 = 12;

/// Options of all connections of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    sack: bool,
    rack: bool,
    timestamps: bool,
    window_scaling: bool,
    ecn: bool,
}

impl Options {
    fn of(tcp: &Tcp) -> Self {
        let Tcp { sack, rack, timestamps, window_scaling, ecn, .. } = *tcp;
        Self { sack, rack, timestamps, window_scaling, ecn }
    }

    /// Keys below `net.ipv4` and their values.
    fn keys(self) -> [(&'static str, u8); 8] {
        [
            ("tcp_sack", self.sack.into()),
            ("tcp_recovery", self.rack.into()),
            // Probes for lost tails, which a kernel sends from 3 on, and reports of duplicates.
            ("tcp_early_retrans", if self.rack { 3 } else { 0 }),
            ("tcp_dsack", self.rack.into()),
            ("tcp_timestamps", self.timestamps.into()),
            ("tcp_window_scaling", self.window_scaling.into()),
            ("tcp_ecn", self.ecn.into()),
            // A connection must not begin with what one before it has learned: those of the simulator do not.
            ("tcp_no_metrics_save", 1),
        ]
    }
}

/// What the kernels of the hosts are told.
#[derive(Debug, Default)]
pub(super) struct KernelTcp {
    /// With the traffic that decided.
    hosts: BTreeMap<NodeIndex, (Options, String)>,
    /// By host and destination, with the traffic that decided.
    routes: BTreeMap<(NodeIndex, NodeIndex), (RouteMetrics, String)>,
    /// What of the scenario cannot be had.
    pub(super) warnings: Vec<String>,
}

impl KernelTcp {
    /// Of a scenario. Where traffics want what only one of them can have, the first has it, and a warning says so.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut all = Self::default();
        for traffic in &scenario.traffic {
            let Some(tcp) = traffic.kind.tcp() else { continue };
            for &(a, b) in &traffic.pairs {
                for (here, there) in [(a, b), (b, a)] {
                    all.add(scenario, traffic, tcp, here, there);
                }
            }
        }
        all.warn_of_timers(scenario);
        all
    }

    fn add(&mut self, scenario: &Scenario, traffic: &Traffic, tcp: &Tcp, here: NodeIndex, there: NodeIndex) {
        let name = |node: NodeIndex| &scenario.nodes[node.0].name;
        let own = (Options::of(tcp), traffic.name.clone());
        let (options, first) = self.hosts.entry(here).or_insert(own);
        if *options != Options::of(tcp) {
            let warning = format!(
                "traffic \"{}\": sack, rack, timestamps, window_scaling and ecn at \"{}\" are those of \"{first}\": a kernel has them once",
                traffic.name,
                name(here)
            );
            push_once(&mut self.warnings, warning);
        }
        let own = (metrics(tcp), traffic.name.clone());
        let (of_route, first) = self.routes.entry((here, there)).or_insert(own);
        if *of_route != metrics(tcp) {
            let warning = format!(
                "traffic \"{}\": initial_window, min_rto and mss from \"{}\" to \"{}\" are those of \"{first}\": a \
                 kernel has them once a route",
                traffic.name,
                name(here),
                name(there)
            );
            push_once(&mut self.warnings, warning);
        }
    }

    /// Timers that the kernel keeps to itself, each with all traffics that want them otherwise.
    fn warn_of_timers(&mut self, scenario: &Scenario) {
        let names = |other: &dyn Fn(&Tcp) -> bool| {
            let with = |traffic: &&Traffic| traffic.kind.tcp().is_some_and(other);
            let names: Vec<&str> = scenario.traffic.iter().filter(with).map(|t| t.name.as_str()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = names(&|tcp| tcp.initial_rto != INITIAL_RTO) {
            self.warnings.push(format!("initial_rto is the kernel's own, {INITIAL_RTO}: {names}"));
        }
        let standard = |tcp: &Tcp| tcp.congestion == "cubic" && tcp.slow_start == SlowStart::Standard;
        if let Some(names) = names(&standard) {
            self.warnings.push(format!("slow_start is the kernel's own, hystart with cubic: {names}"));
        }
        let [least, most] = DELAYED_ACK;
        if let Some(names) = names(&|tcp| tcp.delayed_ack.is_some_and(|wait| wait != least)) {
            let own = format!("{least} to {most} by the rate of arrivals");
            self.warnings.push(format!("delayed_ack is the kernel's own, {own}: {names}"));
        }
    }

    /// Parameters of a host's route to another; the kernel's own between nodes without connections.
    pub(super) fn route(&self, from: NodeIndex, to: NodeIndex) -> RouteMetrics {
        self.routes.get(&(from, to)).map_or_else(RouteMetrics::default, |(metrics, _)| *metrics)
    }

    /// Sets the options of a node's kernel.
    ///
    /// # Errors
    /// A key that the kernel does not have, or does not let this process write.
    pub(super) fn set_options(
        &self,
        scenario: &Scenario,
        node: NodeIndex,
        namespace: &Namespace,
    ) -> Result<(), LabError> {
        let Some((options, _)) = self.hosts.get(&node) else { return Ok(()) };
        let failed = |reason: String| LabError::Part {
            part: format!("node \"{}\"", scenario.nodes[node.0].name),
            doing: "set the options of its TCP",
            reason,
        };
        let set = || {
            for (key, value) in options.keys() {
                let path = format!("/proc/sys/net/ipv4/{key}");
                std::fs::write(&path, value.to_string()).map_err(|error| format!("{path}: {error}"))?;
            }
            Ok(())
        };
        namespace.run(set).map_err(|error| failed(error.to_string()))?.map_err(failed)
    }
}

fn metrics(tcp: &Tcp) -> RouteMetrics {
    RouteMetrics {
        initial_window: Some(tcp.initial_window.into()),
        min_rto: Some(tcp.min_rto),
        announced_segment: Some(u32::from(tcp.mss) + if tcp.timestamps { STAMP_OPTION } else { 0 }),
        quick_acknowledgements: tcp.delayed_ack.is_none(),
    }
}

fn push_once(warnings: &mut Vec<String>, warning: String) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_scenario::{Node, NodeKind, TrafficKind};
    use perhop_units::Dscp;
    use std::net::Ipv4Addr;

    fn scenario(tcps: &[Tcp]) -> Scenario {
        let node =
            |name: &str| Node { name: name.into(), kind: NodeKind::Host, address: Ipv4Addr::LOCALHOST };
        let traffic = tcps.iter().enumerate().map(|(i, tcp)| Traffic {
            name: format!("t{i}"),
            pairs: vec![(NodeIndex(0), NodeIndex(1))],
            both: false,
            start: Duration::ZERO,
            stop: Duration::from_secs(1),
            dscp: Dscp::default(),
            reply_dscp: Dscp::default(),
            kind: TrafficKind::Bulk {
                count: 1,
                size: None,
                spacing: Duration::ZERO,
                at_once: 1,
                stagger: Duration::ZERO,
                access_delay: (Duration::ZERO, Duration::ZERO),
                tcp: tcp.clone(),
            },
        });
        Scenario {
            id: "test".into(),
            label: None,
            title: String::new(),
            why: String::new(),
            source: None,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            repetitions: 1,
            seed: 1,
            nodes: vec![node("a"), node("b"), node("c")],
            links: Vec::new(),
            traffic: traffic.collect(),
            faults: Vec::new(),
            programs: Vec::new(),
            reservations: Vec::new(),
            probes: Default::default(),
            expect: Vec::new(),
            variants: Vec::new(),
        }
    }

    #[test]
    fn both_hosts_are_told_and_nobody_else() {
        let tcp = Tcp {
            sack: false,
            rack: false,
            window_scaling: false,
            initial_window: 2,
            delayed_ack: None,
            ..Tcp::default()
        };
        let all = KernelTcp::of(&scenario(&[tcp]));
        let (a, b, c) = (NodeIndex(0), NodeIndex(1), NodeIndex(2));
        assert_eq!(all.hosts.keys().copied().collect::<Vec<_>>(), [a, b]);
        let keys = all.hosts[&a].0.keys();
        for expected in [
            ("tcp_sack", 0),
            ("tcp_recovery", 0),
            ("tcp_early_retrans", 0),
            ("tcp_window_scaling", 0),
            ("tcp_timestamps", 1),
        ] {
            assert!(keys.contains(&expected), "{keys:?}");
        }
        assert_eq!(all.route(a, b), all.route(b, a));
        let route = all.route(a, b);
        assert_eq!((route.initial_window, route.announced_segment), (Some(2), Some(1460)));
        assert!(route.quick_acknowledgements && all.warnings.is_empty(), "{:?}", all.warnings);
        assert_eq!(all.route(a, c), RouteMetrics::default());
    }

    #[test]
    fn what_cannot_be_had_is_told() {
        let late = Tcp {
            initial_rto: Duration::from_secs(3),
            delayed_ack: Some(Duration::from_millis(100)),
            ..Tcp::default()
        };
        let other = Tcp { ecn: true, mss: 500, slow_start: SlowStart::Standard, ..Tcp::default() };
        let warnings = KernelTcp::of(&scenario(&[late, other])).warnings;
        for part in [
            "slow_start",
            "initial_rto",
            "delayed_ack",
            "ecn at \"a\"",
            "ecn at \"b\"",
            "mss from \"a\" to \"b\"",
        ] {
            assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:?}");
        }
    }
}
