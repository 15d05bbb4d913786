//! Results figure by figure.

use crate::columns::columns;
use crate::result::{AdmissionResult, AgentResult, GroupResult, LinkResult, ReservedResult, ScenarioResult};
use crate::summary::figure;
use std::collections::BTreeMap;

/// A figure that at least one of the results has.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Path of the figure, as expected values name it.
    pub metric: String,
    /// What each result says, in their order.
    pub values: Vec<Option<f64>>,
}

impl Difference {
    /// What a result has more than the first, and that as a share of the first's, %.
    pub fn to_first(&self, result: usize) -> (Option<f64>, Option<f64>) {
        let [first, value] = [0, result].map(|of| self.values.get(of).copied().flatten());
        let difference = first.zip(value).map(|(a, b)| b - a);
        (difference, difference.zip(first).filter(|(_, a)| *a != 0.0).map(|(d, a)| d / a.abs() * 100.0))
    }
}

/// Every figure of any result, in the order of the first that has it: groups, links, classes of agents, admission, then
/// variants. O(figures log figures).
pub fn differences(results: &[&ScenarioResult]) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (of, result) in results.iter().enumerate() {
        for (metric, value) in figures(result) {
            let place = *places.entry(metric.clone()).or_insert_with(|| {
                all.push(Difference { metric, values: vec![None; results.len()] });
                all.len() - 1
            });
            all[place].values[of] = Some(value);
        }
    }
    all
}

/// The figures that are compared, with their paths.
fn figures(result: &ScenarioResult) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    of_configuration("", (&result.groups, &result.links), &mut all);
    of_routers("", &result.agents, &result.admissions, &mut all);
    of_domains("", &result.reserved, &mut all);
    for (name, variant) in result.variants.iter() {
        let prefix = format!("{name}.");
        of_configuration(&prefix, (&variant.groups, &variant.links), &mut all);
        of_routers(&prefix, &variant.agents, &variant.admissions, &mut all);
        of_domains(&prefix, &variant.reserved, &mut all);
    }
    all
}

fn of_configuration(
    prefix: &str,
    (groups, links): (&[GroupResult], &[LinkResult]),
    all: &mut Vec<(String, f64)>,
) {
    for group in groups.iter().filter(|group| !group.name.ends_with(".down")) {
        // As in the page, what tells how calls fare comes first.
        let figures = [
            ("mos.mean", group.mos.map(|m| m.mean)),
            ("loss_pct", group.loss_pct),
            ("late_pct", group.late_pct),
            ("delay_ms.mean", group.delay_ms.map(|d| d.mean)),
            ("delay_ms.p99", group.delay_ms.map(|d| d.p99)),
            ("delay_ms.max", group.delay_ms.map(|d| d.max)),
            ("jitter_ms.mean", group.jitter_ms.map(|j| j.mean)),
            ("throughput_kbps.mean", group.throughput_kbps.map(|t| t.mean)),
            ("connections.jain", group.connections.and_then(|c| c.jain)),
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

/// What became of reservations.
fn of_domains(prefix: &str, reserved: &[ReservedResult], all: &mut Vec<(String, f64)>) {
    for one in reserved {
        let of = &one.of;
        all.extend(one.figures.iter().map(|(name, value)| (format!("{prefix}{of}.{name}"), *value)));
    }
}

fn add(of: &str, figures: &[(&str, Option<f64>)], all: &mut Vec<(String, f64)>) {
    for (name, value) in figures {
        all.extend(value.map(|value| (format!("{of}.{name}"), value)));
    }
}

/// What stands above the columns of the differences to the first of these results: of two the difference and its share,
/// of more the shares.
pub(crate) fn headings(names: &[&str]) -> Vec<String> {
    match names {
        [_, _] => vec!["difference".to_owned(), "%".to_owned()],
        _ => names.iter().skip(1).map(|name| format!("{name}, %")).collect(),
    }
}

/// What stands in these columns, printed.
pub(crate) fn cells(row: &Difference, printed: impl Fn(Option<f64>) -> String) -> Vec<String> {
    match row.values.len() {
        2 => {
            let (difference, share) = row.to_first(1);
            vec![printed(difference), figure(share, 1)]
        }
        count => (1..count).map(|result| figure(row.to_first(result).1, 1)).collect(),
    }
}

/// The comparison for a terminal, one figure a line. Lines end in a newline.
pub fn comparison_table(names: &[&str], all: &[Difference]) -> String {
    let mut head = vec!["figure".to_owned()];
    head.extend(names.iter().map(|name| (*name).to_owned()));
    head.extend(headings(names));
    let mut rows = vec![head];
    rows.extend(all.iter().map(|row| {
        let printed = |value| figure(value, 3);
        let values = row.values.iter().copied().map(printed);
        std::iter::once(row.metric.clone()).chain(values).chain(cells(row, printed)).collect()
    }));
    columns(&rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Throughput, Variant};

    #[test]
    fn a_difference_that_rounds_to_nothing_has_no_sign() {
        let table =
            comparison_table(&["a", "b"], &differences(&[&result(100.0, None), &result(99.99999, None)]));
        assert!(
            table.contains("voip.throughput_kbps.mean           100.000  100.000       0.000  0.0"),
            "{table}"
        );
    }

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
    fn figures_of_all_stand_beside_each_other() {
        let all = differences(&[&result(100.0, None), &result(150.0, Some(2.0))]);
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
        assert_eq!(all[2].values, [None, Some(2.0)]);
        let table = comparison_table(&["a", "b"], &all);
        let expected = [
            "figure                                    a        b  difference     %",
            "voip.throughput_kbps.mean           100.000  150.000      50.000  50.0",
        ];
        assert_eq!(table.lines().take(2).collect::<Vec<_>>(), expected);
        let all = differences(&[&result(100.0, None), &result(150.0, Some(2.0)), &result(75.0, None)]);
        assert_eq!(all[2].values, [None, Some(2.0), None]);
        let table = comparison_table(&["a", "b", "c"], &all);
        let expected = [
            "figure                                    a        b       c  b, %   c, %",
            "voip.throughput_kbps.mean           100.000  150.000  75.000  50.0  -25.0",
        ];
        assert_eq!(table.lines().take(2).collect::<Vec<_>>(), expected);
    }
}
