//! Two results figure by figure.

use crate::columns::columns;
use crate::result::{AdmissionResult, AgentResult, GroupResult, LinkResult, ScenarioResult};
use crate::summary::figure;

/// A figure that at least one of two results has.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Path of the figure, as expected values name it.
    pub metric: String,
    /// What the first result says.
    pub first: Option<f64>,
    /// What the second says.
    pub second: Option<f64>,
}

/// Every figure of either result, in the order of the first: groups, links, classes of agents, admission, then variants.
pub fn differences(first: &ScenarioResult, second: &ScenarioResult) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for (metric, value) in figures(first) {
        all.push(Difference { metric, first: Some(value), second: None });
    }
    for (metric, value) in figures(second) {
        match all.iter_mut().find(|difference| difference.metric == metric) {
            Some(difference) => difference.second = Some(value),
            None => all.push(Difference { metric, first: None, second: Some(value) }),
        }
    }
    all
}

/// The figures that are compared, with their paths.
fn figures(result: &ScenarioResult) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    of_configuration("", (&result.groups, &result.links), &mut all);
    of_routers("", &result.agents, &result.admissions, &mut all);
    for (name, variant) in result.variants.iter() {
        let prefix = format!("{name}.");
        of_configuration(&prefix, (&variant.groups, &variant.links), &mut all);
        of_routers(&prefix, &variant.agents, &variant.admissions, &mut all);
    }
    all
}

fn of_configuration(
    prefix: &str,
    (groups, links): (&[GroupResult], &[LinkResult]),
    all: &mut Vec<(String, f64)>,
) {
    for group in groups.iter().filter(|group| !group.name.ends_with(".down")) {
        let figures = [
            ("throughput_kbps.mean", group.throughput_kbps.map(|t| t.mean)),
            ("loss_pct", group.loss_pct),
            ("late_pct", group.late_pct),
            ("delay_ms.mean", group.delay_ms.map(|d| d.mean)),
            ("delay_ms.p99", group.delay_ms.map(|d| d.p99)),
            ("delay_ms.max", group.delay_ms.map(|d| d.max)),
            ("jitter_ms.mean", group.jitter_ms.map(|j| j.mean)),
            ("connections.jain", group.connections.and_then(|c| c.jain)),
            ("mos.mean", group.mos.map(|m| m.mean)),
        ];
        add(&format!("{prefix}{}", group.name), &figures, all);
        add(&format!("{prefix}{}", group.name), &group.transport_figures(), all);
    }
    for link in links {
        let figures = [
            ("utilisation_pct", link.utilisation_pct),
            ("queue_ms.p99", link.queue_ms.map(|q| q.p99)),
            ("drops", Some(link.drops.values().sum::<u64>() as f64)),
        ];
        add(&format!("{prefix}link.{}", link.name), &figures, all);
    }
}

/// What agents and admission of routers did.
fn of_routers(
    prefix: &str,
    agents: &[AgentResult],
    admissions: &[AdmissionResult],
    all: &mut Vec<(String, f64)>,
) {
    for agent in agents {
        add(&format!("{prefix}agent.{}", agent.class), &agent.figures(), all);
    }
    for admission in admissions {
        add(&format!("{prefix}admission.{}", admission.node), &admission.figures(), all);
    }
}

fn add(of: &str, figures: &[(&str, Option<f64>)], all: &mut Vec<(String, f64)>) {
    for (name, value) in figures {
        all.extend(value.map(|value| (format!("{of}.{name}"), value)));
    }
}

/// The comparison for a terminal, one figure a line. Lines end in a newline.
pub fn comparison_table(names: [&str; 2], all: &[Difference]) -> String {
    let mut rows = vec![["figure", names[0], names[1], "difference", "%"].map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|row| {
        let difference = row.first.zip(row.second).map(|(a, b)| b - a);
        let share = difference.zip(row.first).filter(|(_, a)| *a != 0.0).map(|(d, a)| d / a.abs() * 100.0);
        let [first, second, difference] = [row.first, row.second, difference].map(|v| figure(v, 3));
        vec![row.metric.clone(), first, second, difference, figure(share, 1)]
    }));
    columns(&rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Throughput, Variant};

    fn result(kbps: f64, loss: Option<f64>) -> ScenarioResult {
        let group = GroupResult {
            loss_pct: loss,
            throughput_kbps: Some(Throughput { mean: kbps, stdev: None }),
            ..GroupResult::named("voip")
        };
        let baseline = Variant { groups: vec![group.clone()], ..Variant::default() };
        ScenarioResult {
            groups: vec![group],
            variants: [("baseline".to_owned(), baseline)].into(),
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn figures_of_both_stand_beside_each_other() {
        let all = differences(&result(100.0, None), &result(150.0, Some(2.0)));
        let names: Vec<&str> = all.iter().map(|d| d.metric.as_str()).collect();
        assert_eq!(
            names,
            [
                "voip.throughput_kbps.mean",
                "baseline.voip.throughput_kbps.mean",
                "voip.loss_pct",
                "baseline.voip.loss_pct"
            ]
        );
        assert_eq!((all[2].first, all[2].second), (None, Some(2.0)));
        let table = comparison_table(["a", "b"], &all);
        let expected = [
            "figure                                    a        b  difference     %",
            "voip.throughput_kbps.mean           100.000  150.000      50.000  50.0",
        ];
        assert_eq!(table.lines().take(2).collect::<Vec<_>>(), expected);
    }
}
