//! Paths of figures in a result: what an expected value can be about.

use crate::model::Scenario;

/// Figures of a group, behind its name and a dot.
pub const GROUP_FIGURES: [&str; 18] = [
    "sent",
    "received",
    "loss_pct",
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
];

/// Figures of a link, behind `link.NAME.`; a drop reason may follow `drops`.
pub const LINK_FIGURES: [&str; 5] =
    ["utilisation_pct", "queue_ms.p50", "queue_ms.p99", "queue_ms.max", "drops"];

/// Group that sums the throughput of all traffic.
pub const TOTAL: &str = "total";

/// Names of the groups that a result of this configuration has, in the order of the result.
pub fn groups(scenario: &Scenario) -> Vec<String> {
    let mut groups = Vec::new();
    for traffic in &scenario.traffic {
        let several = traffic.pairs.len() > 1;
        let parts = (1..=traffic.pairs.len()).filter(|_| several).map(|n| format!("{}{n}", traffic.name));
        for name in parts.chain([traffic.name.clone()]) {
            if traffic.both {
                groups.extend([name.clone(), format!("{name}.down"), format!("{name}.up")]);
            } else {
                groups.push(name);
            }
        }
    }
    if scenario.traffic.len() > 1 {
        groups.push(TOTAL.to_owned());
    }
    groups
}
