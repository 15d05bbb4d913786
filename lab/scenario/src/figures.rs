//! Paths of figures in a result: what an expected value can be about.

use crate::model::{Scenario, Traffic, TrafficKind};
use perhop_units::Duration;

/// Figures of a group, behind its name and a dot.
pub const GROUP_FIGURES: [&str; 38] = [
    "sent",
    "received",
    "loss_pct",
    "late_pct",
    "delay_ms.min",
    "delay_ms.mean",
    "delay_ms.p50",
    "delay_ms.p99",
    "delay_ms.p999",
    "delay_ms.max",
    "jitter_ms.mean",
    "jitter_ms.max",
    "throughput_kbps.mean",
    "throughput_kbps.stdev",
    "connections.count",
    "connections.jain",
    "mos.mean",
    "mos.min",
    "psqm",
    "goodput_kbps.mean",
    "goodput_kbps.stdev",
    "goodput_kbps.min",
    "goodput_kbps.max",
    "utilisation_pct.mean",
    "utilisation_pct.min",
    "utilisation_pct.max",
    "utilisation_pct.latency_r",
    "goodput_5s_kbps.mean",
    "goodput_5s_kbps.stdev",
    "goodput_5s_kbps.stdev_max",
    "esdl_ms.mean",
    "esdl_ms.stdev",
    "esdl_ms.max",
    "sdl_ms.mean",
    "sdl_ms.stdev",
    "sdl_ms.max",
    "retransmits.count",
    "retransmits.share_pct",
];

/// Figures that need `[probes] segments`, by what their names begin with.
pub const SEGMENT_FIGURES: [&str; 4] = ["goodput_5s_kbps", "esdl_ms", "sdl_ms", "retransmits"];

/// What stands before a limit of delay in the figures of shares at or above it.
pub const OVER: &str = "esdl_ms.over_pct.";

/// A limit of delay as figures name it: ms, with decimals only where it has some.
pub fn limit_name(limit: Duration) -> String {
    format!("{}", limit.as_nanos() as f64 / 1e6)
}

/// What a group consists of, which says what figures it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Calls: datagrams with a codec.
    Calls,
    /// Other datagrams.
    Datagrams,
    /// TCP connections.
    Connections,
    /// All traffic together: [`TOTAL`].
    Sum,
}

impl Content {
    /// Of a kind of traffic.
    pub fn of(kind: &TrafficKind) -> Self {
        match kind {
            TrafficKind::Voice { .. } => Self::Calls,
            kind if kind.tcp().is_some() => Self::Connections,
            _ => Self::Datagrams,
        }
    }

    /// Whether its groups can have one of the [`GROUP_FIGURES`].
    pub fn has(self, figure: &str) -> bool {
        match figure.split('.').next().unwrap_or(figure) {
            "throughput_kbps" => true,
            "connections" if self == Self::Calls => figure == "connections.count",
            "connections" | "goodput_kbps" | "utilisation_pct" => self == Self::Connections,
            of_segments if SEGMENT_FIGURES.contains(&of_segments) => self == Self::Connections,
            "mos" | "late_pct" => self == Self::Calls,
            _ => matches!(self, Self::Calls | Self::Datagrams),
        }
    }

    /// Its figures, in the order of [`GROUP_FIGURES`].
    pub fn figures(self) -> Vec<&'static str> {
        GROUP_FIGURES.into_iter().filter(|figure| self.has(figure)).collect()
    }
}

/// Figures of a link, behind `link.NAME.`; a drop reason may follow `drops`.
pub const LINK_FIGURES: [&str; 5] =
    ["utilisation_pct", "queue_ms.p50", "queue_ms.p99", "queue_ms.max", "drops"];

/// Reasons for which a link, the queues before it, the line itself and the node behind it lose packets, behind
/// `link.NAME.drops.`: of those of the data plane (`DropReason`) the ones that are counted for a link in either world.
pub const DROP_REASONS: [&str; 18] = [
    "queue_full",
    "red_early",
    "red_forced",
    "codel",
    "blue",
    "pie",
    "drd",
    "class_removed",
    "no_class",
    "emulated_loss",
    "port_down",
    "ttl_expired",
    "no_route",
    "other_host",
    "policed",
    "sla_policy",
    "not_admitted",
    "discarded",
];

/// Figures of a class that an agent looks after, behind `agent.CLASS.`.
pub const AGENT_FIGURES: [&str; 7] = [
    "allocated_kbps",
    "efficiency_pct",
    "estimate_pct",
    "requests_per_s",
    "not_granted_pct",
    "congested_pct",
    "exceeded_pct",
];

/// Figures of a router's admission, behind `admission.NODE.`.
pub const ADMISSION_FIGURES: [&str; 5] =
    ["offered", "refused_pct", "dropped_pct", "dropped_of_offered_pct", "over_cap_pct"];

/// Figures of a `[[reservation]]`, behind `reservation.NAME.`.
pub const RESERVATION_FIGURES: [&str; 5] = ["asked", "granted", "refused", "shrunk", "ended"];

/// Figures of a controller, behind `controller.NODE.`.
pub const CONTROLLER_FIGURES: [&str; 5] = ["requests", "over_capacity", "left", "messages", "lost_messages"];

/// Figures of what is decided beside a router, behind `leases.NODE.`.
pub const LEASES_FIGURES: [&str; 2] = ["asked", "changed"];

/// Group that has the throughput of every traffic in its first direction.
pub const TOTAL: &str = "total";

/// A figure computed from others: sums and differences of quotients, such as `ftp2.throughput_kbps.mean /
/// ftp1.throughput_kbps.mean` or `a + b - c / d`. Operators stand between spaces, because names may contain them. There
/// are no brackets.
pub struct Formula<'a>(&'a str);

impl<'a> Formula<'a> {
    /// Of a metric; a lone path is a formula too.
    pub fn new(metric: &'a str) -> Self {
        Self(metric)
    }

    /// The paths in it, in order.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        let operator = |word: &&str| matches!(*word, "+" | "-" | "/");
        self.0.split(' ').filter(|word| !word.is_empty()).filter(move |word| !operator(word))
    }

    /// Whether paths and operators take turns.
    pub fn is_sound(&self) -> bool {
        let words = self.0.split(' ').filter(|word| !word.is_empty());
        let turns = words.enumerate().all(|(i, word)| matches!(word, "+" | "-" | "/") == (i % 2 == 1));
        turns && self.0.split(' ').filter(|word| !word.is_empty()).count() % 2 == 1
    }

    /// Its value when paths have those of `figure`; `None` if one has none, or a divisor is zero.
    pub fn value(&self, mut figure: impl FnMut(&str) -> Option<f64>) -> Option<f64> {
        if !self.is_sound() {
            return None;
        }
        let (mut sum, mut term, mut sign, mut operator) = (0.0, 0.0, 1.0, "+");
        for word in self.0.split(' ').filter(|word| !word.is_empty()) {
            match (word, operator) {
                ("+" | "-" | "/", _) => operator = word,
                (path, "/") => {
                    let divisor = figure(path).filter(|divisor| *divisor != 0.0)?;
                    term /= divisor;
                }
                (path, _) => {
                    sum += sign * term;
                    sign = if operator == "-" { -1.0 } else { 1.0 };
                    term = figure(path)?;
                }
            }
        }
        Some(sum + sign * term)
    }
}

/// A group of a result: a part of one traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Index of the traffic in [`Scenario::traffic`].
    pub traffic: usize,
    /// Index of the pair of hosts; `None`: all of them.
    pub pair: Option<usize>,
    /// Which way, of a traffic that goes both ways; `None`: there is only one.
    pub way: Option<GroupWay>,
    /// Index of the phase in [`crate::Probes::phases`]; `None`: the whole measurement.
    pub phase: Option<usize>,
    /// Packets of each flow that are left out before what counts; 0: all count.
    pub after_packets: u32,
}

/// Direction of the data of a [`Group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWay {
    /// From the first node of the pair to the second: `name` and `name.down`.
    Down,
    /// From the second to the first: `name.up`.
    Up,
}

/// The groups of a traffic, in the order of the result.
pub fn groups_of(index: usize, traffic: &Traffic) -> Vec<Group> {
    let mut groups = Vec::new();
    let numbered = if traffic.pairs.len() > 1 { traffic.pairs.len() } else { 0 };
    let parts = (0..numbered).map(|pair| (format!("{}{}", traffic.name, pair + 1), Some(pair)));
    for (name, pair) in parts.chain([(traffic.name.clone(), None)]) {
        let group = |name, way| Group { name, traffic: index, pair, way, phase: None, after_packets: 0 };
        if traffic.both {
            groups.push(group(name.clone(), Some(GroupWay::Down)));
            groups.push(group(format!("{name}.down"), Some(GroupWay::Down)));
            groups.push(group(format!("{name}.up"), Some(GroupWay::Up)));
        } else {
            groups.push(group(name, None));
        }
    }
    groups
}

/// The groups of what each flow of a traffic sends after its first packets, `NAME_after_PROBE`, in the order of the
/// result; pairs of hosts have none for themselves.
pub fn groups_after(scenario: &Scenario) -> Vec<Group> {
    let mut groups = Vec::new();
    for probe in &scenario.probes.after {
        for (index, traffic) in
            probe.traffic.iter().filter_map(|index| Some((*index, scenario.traffic.get(*index)?)))
        {
            let name = after_name(&traffic.name, &probe.name);
            let whole = groups_of(index, traffic).into_iter().filter(|group| group.pair.is_none());
            groups.extend(whole.map(|group| Group {
                name: format!("{name}{}", &group.name[traffic.name.len()..]),
                after_packets: probe.packets,
                ..group
            }));
        }
    }
    groups
}

/// Name of the group of what the flows of a traffic send after their first packets.
pub(crate) fn after_name(traffic: &str, probe: &str) -> String {
    format!("{traffic}_after_{probe}")
}

/// The groups of a configuration apart from [`TOTAL`], in the order of the result: of the whole measurement, then those
/// of parts of flows, then those of each phase, `GROUP@PHASE`, which pairs of hosts do not have for themselves.
pub fn groups(scenario: &Scenario) -> Vec<Group> {
    let of_traffic =
        scenario.traffic.iter().enumerate().flat_map(|(index, traffic)| groups_of(index, traffic));
    let mut groups: Vec<Group> = of_traffic.collect();
    let whole: Vec<Group> = groups.iter().filter(|group| group.pair.is_none()).cloned().collect();
    groups.extend(groups_after(scenario));
    for (index, phase) in scenario.probes.phases.iter().enumerate() {
        groups.extend(whole.iter().map(|group| Group {
            name: format!("{}@{}", group.name, phase.name),
            phase: Some(index),
            ..group.clone()
        }));
    }
    groups
}

/// Whether a result of this configuration has the group [`TOTAL`].
pub fn has_total(scenario: &Scenario) -> bool {
    scenario.traffic.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_sums_of_quotients() {
        let value = |text: &str| {
            Formula::new(text).value(|path| match path {
                "a.x" => Some(6.0),
                "b.x" => Some(3.0),
                "c-d.x" => Some(2.0),
                "zero.x" => Some(0.0),
                _ => None,
            })
        };
        assert_eq!(value("a.x"), Some(6.0));
        assert_eq!(value("a.x / b.x"), Some(2.0));
        assert_eq!(value("a.x - b.x - c-d.x"), Some(1.0));
        assert_eq!(value("a.x + b.x / c-d.x / c-d.x - b.x"), Some(3.75));
        for none in ["a.x / zero.x", "a.x + e.x", "a.x b.x", "/ a.x", "a.x +", "", "a.x / / b.x"] {
            assert_eq!(value(none), None, "{none}");
        }
        assert_eq!(Formula::new("a.x / b.x - c-d.x").paths().collect::<Vec<_>>(), ["a.x", "b.x", "c-d.x"]);
    }
}
