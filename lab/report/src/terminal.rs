//! A scenario's result for a terminal: groups of the product and the variants, classes of agents, admission, then
//! expected values.

use crate::columns::columns;
use crate::result::{AdmissionResult, AgentResult, GroupResult, ReservedResult, ScenarioResult};
use crate::summary::figure;

/// Tables of a result: groups, then classes of agents, admission and expected values where there are any. Lines end in a newline.
pub fn scenario_tables(result: &ScenarioResult) -> String {
    let mut out = columns(&groups(result), 2);
    if !result.agents.is_empty() {
        out.push('\n');
        out.push_str(&columns(&agents(result), 2));
    }
    if !result.admissions.is_empty() {
        out.push('\n');
        out.push_str(&columns(&admissions(result), 2));
    }
    if !result.reserved.is_empty() {
        out.push('\n');
        out.push_str(&columns(&reserved(result), 2));
    }
    if !result.expect.is_empty() {
        out.push('\n');
        out.push_str(&columns(&expected(result), 1));
    }
    out
}

fn groups(result: &ScenarioResult) -> Vec<Vec<String>> {
    let head = [
        "group",
        "configuration",
        "sent",
        "loss %",
        "delay ms",
        "p99",
        "max",
        "jitter",
        "kbit/s",
        "+-",
        "MOS",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for group in result.groups.iter().filter(|group| !group.name.ends_with(".down")) {
        rows.push(row(group, result.label()));
        for (name, variant) in result.variants.iter() {
            rows.extend(variant.groups.iter().find(|g| g.name == group.name).map(|group| row(group, name)));
        }
    }
    rows
}

fn row(group: &GroupResult, configuration: &str) -> Vec<String> {
    let (delay, throughput) = (group.delay_ms, group.throughput_kbps);
    vec![
        group.name.clone(),
        configuration.to_owned(),
        group.sent.map_or_else(|| "–".to_owned(), |n| n.to_string()),
        figure(group.loss_pct, 2),
        figure(delay.map(|d| d.mean), 2),
        figure(delay.map(|d| d.p99), 2),
        figure(delay.map(|d| d.max), 2),
        figure(group.jitter_ms.map(|j| j.mean), 2),
        figure(throughput.map(|t| t.mean), 1),
        figure(throughput.and_then(|t| t.stdev), 1),
        figure(group.mos.map(|m| m.mean), 2),
    ]
}

/// Figures of a class that an agent looks after, as a reader is shown them.
pub(crate) fn agent_cells(agent: &AgentResult) -> impl Iterator<Item = String> {
    agent
        .figures()
        .into_iter()
        .zip(AgentResult::DECIMALS)
        .map(|((_, value), decimals)| figure(value, decimals))
}

/// Classes whose bandwidth agents allocate.
fn agents(result: &ScenarioResult) -> Vec<Vec<String>> {
    let head = [
        "class",
        "configuration",
        "allocated kbit/s",
        "used %",
        "estimate %",
        "requests/s",
        "not granted %",
        "congested %",
        "exceeded %",
    ];
    let row = |agent: &AgentResult, configuration: &str| {
        let mut cells = vec![agent.class.clone(), configuration.to_owned()];
        cells.extend(agent_cells(agent));
        cells
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for agent in &result.agents {
        rows.push(row(agent, result.label()));
        for (name, variant) in result.variants.iter() {
            rows.extend(variant.agents.iter().find(|a| a.class == agent.class).map(|agent| row(agent, name)));
        }
    }
    rows
}

/// Routers that admit flows one by one.
fn admissions(result: &ScenarioResult) -> Vec<Vec<String>> {
    let head =
        ["admission", "configuration", "offered", "refused %", "dropped %", "of offered %", "over cap %"];
    let row = |admission: &AdmissionResult, configuration: &str| {
        vec![
            admission.node.clone(),
            configuration.to_owned(),
            figure(admission.offered, 1),
            figure(admission.refused_pct, 2),
            figure(admission.dropped_pct, 2),
            figure(admission.dropped_of_offered_pct, 2),
            figure(admission.over_cap_pct, 2),
        ]
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for admission in &result.admissions {
        rows.push(row(admission, result.label()));
        for (name, variant) in result.variants.iter() {
            let same = variant.admissions.iter().find(|a| a.node == admission.node);
            rows.extend(same.map(|admission| row(admission, name)));
        }
    }
    rows
}

/// What became of reservations, and what controllers did.
fn reserved(result: &ScenarioResult) -> Vec<Vec<String>> {
    let mut rows = vec![["reservation", "configuration", "counts"].map(str::to_owned).to_vec()];
    let row = |one: &ReservedResult, configuration: &str| {
        let counts = one.figures.iter().map(|(name, value)| format!("{name} {}", figure(Some(*value), 0)));
        vec![one.of.clone(), configuration.to_owned(), counts.collect::<Vec<_>>().join(", ")]
    };
    for one in &result.reserved {
        rows.push(row(one, result.label()));
        for (name, variant) in result.variants.iter() {
            rows.extend(variant.reserved.iter().find(|other| other.of == one.of).map(|one| row(one, name)));
        }
    }
    rows
}

fn expected(result: &ScenarioResult) -> Vec<Vec<String>> {
    let mut rows =
        vec![["expected", "ours", "+- 95 %", "published", "target", "ok"].map(str::to_owned).to_vec()];
    for expect in &result.expect {
        let ok = match expect.ok {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "–",
        };
        let short = |value| figure(value, 3);
        rows.push(vec![
            expect.metric.clone(),
            short(expect.ours),
            short(expect.half_width_95),
            short(expect.published),
            expect.target.clone().unwrap_or_else(|| "–".to_owned()),
            ok.to_owned(),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{DelayMs, Expectation, JitterMs, Mos, Throughput, Variant};

    #[test]
    fn classes_of_agents_have_a_table() {
        let agent = |used| AgentResult {
            class: "ef".into(),
            allocated_kbps: Some(1096.5),
            efficiency_pct: Some(used),
            estimate_pct: Some(82.0),
            requests_per_s: Some(0.0225),
            not_granted_pct: None,
            congested_pct: Some(0.25),
            exceeded_pct: Some(2.5),
        };
        let baseline = Variant { agents: vec![agent(40.77)], ..Variant::default() };
        let result = ScenarioResult {
            agents: vec![agent(69.9)],
            variants: [("baseline".to_owned(), baseline)].into(),
            ..ScenarioResult::default()
        };
        let expected = [
            "class  configuration  allocated kbit/s  used %  estimate %  requests/s  not granted %  congested %  exceeded %",
            "ef     product                  1096.5   69.90       82.00      0.0225              –         0.25        2.50",
            "ef     baseline                 1096.5   40.77       82.00      0.0225              –         0.25        2.50",
        ];
        let text = scenario_tables(&result);
        assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn admission_has_a_table() {
        let admission = |refused| AdmissionResult {
            node: "edge".into(),
            offered: Some(480.0),
            refused_pct: Some(refused),
            dropped_pct: Some(4.0),
            dropped_of_offered_pct: Some(2.5),
            over_cap_pct: None,
        };
        let open = Variant { admissions: vec![admission(0.0)], ..Variant::default() };
        let result = ScenarioResult {
            admissions: vec![admission(21.5)],
            variants: [("open".to_owned(), open)].into(),
            ..ScenarioResult::default()
        };
        let expected = [
            "admission  configuration  offered  refused %  dropped %  of offered %  over cap %",
            "edge       product          480.0      21.50       4.00          2.50           –",
            "edge       open             480.0       0.00       4.00          2.50           –",
        ];
        let text = scenario_tables(&result);
        assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn groups_and_expected_values_stand_in_columns() {
        let group = |name: &str, mean| GroupResult {
            sent: Some(45_000),
            loss_pct: Some(0.0),
            delay_ms: Some(DelayMs { mean, p99: 41.0, max: 43.5, ..DelayMs::default() }),
            jitter_ms: Some(JitterMs { mean: 1.5, max: 2.0 }),
            throughput_kbps: Some(Throughput { mean: 1744.0, stdev: Some(2.5) }),
            mos: Some(Mos { mean: 4.25, min: 4.0 }),
            ..GroupResult::named(name)
        };
        let baseline = Variant { groups: vec![group("voip", 182.0)], ..Variant::default() };
        let result = ScenarioResult {
            groups: vec![group("voip", 34.0), group("voip.down", 34.0), GroupResult::named("total")],
            variants: [("baseline".to_owned(), baseline)].into(),
            expect: vec![Expectation {
                metric: "voip.delay_ms.mean".into(),
                ours: Some(34.0),
                half_width_95: Some(0.25),
                published: Some(34.14),
                target: Some("<= 34.14".into()),
                ok: Some(true),
            }],
            ..ScenarioResult::default()
        };
        let expected = [
            "group  configuration   sent  loss %  delay ms    p99    max  jitter  kbit/s   +-   MOS",
            "voip   product        45000    0.00     34.00  41.00  43.50    1.50  1744.0  2.5  4.25",
            "voip   baseline       45000    0.00    182.00  41.00  43.50    1.50  1744.0  2.5  4.25",
            "total  product            –       –         –      –      –       –       –    –     –",
            "",
            "expected              ours  +- 95 %  published    target   ok",
            "voip.delay_ms.mean  34.000    0.250     34.140  <= 34.14  yes",
        ];
        assert_eq!(scenario_tables(&result).lines().collect::<Vec<_>>(), expected);
    }
}
