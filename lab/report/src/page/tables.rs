//! Tables of a page: expected values, groups, links, differences. What tells how calls fare stands first: on a telephone a
//! table shows its first columns, and scrolls.

use super::view::{Run, View};
use crate::comparison::{Difference, cells as difference_cells, differences as all_differences, headings};
use crate::details::{AgentFigures, GroupFigures};
use crate::directory::ResultDirectory;
use crate::plot::escape;
use crate::result::{Expectation, LinkResult, ScenarioResult};
use crate::summary::figure;

/// Most rows of a table.
const MAX_ROWS: usize = 2_000;

/// A figure with as many decimals as it needs, four significant ones at most behind the point.
pub(super) fn plain(value: Option<f64>) -> String {
    match value {
        Some(v) if v.is_finite() => {
            let decimals = if v.abs() >= 1000.0 {
                1
            } else if v.abs() >= 10.0 {
                2
            } else {
                3
            };
            let text = format!("{:.decimals$}", v + 0.0);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => "–".to_owned(),
    }
}

/// Headings of columns of text, which stand to the left.
const TEXT_COLUMNS: [&str; 4] = ["Configuration", "Source", "Verdict", "Dropped packets by reason"];

pub(super) fn head(title: &str, columns: &[&str], out: &mut String) {
    let cell = |column: &&str| {
        let class = if TEXT_COLUMNS.contains(column) { " class=\"part\"" } else { "" };
        format!("<th scope=\"col\"{class}>{}</th>", escape(column))
    };
    let cells: String = columns.iter().map(cell).collect();
    out.push_str(&format!(
        "<section>\n<h2>{}</h2>\n<div class=\"scroll\"><table class=\"scenario\">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n",
        escape(title)
    ));
}

/// The rows, as many as a page has room for, then what they mean, and where the others are.
pub(super) fn rows(rows: &[String], note: &str, elsewhere: &str, out: &mut String) {
    rows.iter().take(MAX_ROWS).for_each(|row| out.push_str(row));
    let left_out = match rows.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        count => format!(" {count} rows more are in {elsewhere}."),
    };
    out.push_str(&format!("</tbody></table></div>\n<p>{}{left_out}</p>\n</section>\n", escape(note)));
}

/// A row of one configuration: what it is of, the configuration, and cells that are HTML.
pub(super) fn row(of: &str, configuration: &str, cells: &str) -> String {
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"part\">{}</td>{cells}</tr>\n",
        escape(of),
        escape(configuration)
    )
}

/// Every expected value: ours, published, target, whether it holds, source.
pub(super) fn expectations(directory: &ResultDirectory, out: &mut String) {
    let expect = &directory.result.expect;
    if expect.is_empty() {
        return;
    }
    head(
        "Published beside ours",
        &["Figure", "Ours", "Target", "Verdict", "Published", "± 95 %", "Source"],
        out,
    );
    let row = |(i, row): (usize, &Expectation)| {
        let (class, word) = match row.ok {
            Some(true) => ("pass", "met"),
            Some(false) => ("fail", "MISSED"),
            None => ("unknown", "not judged"),
        };
        let source = directory.about.expect_sources.get(i).cloned().flatten();
        let source = source.or_else(|| row.published.and(directory.about.source.clone()));
        format!(
            "<tr class=\"{class}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"part\"><span \
             class=\"sign\">{word}</span></td><td>{}</td><td>{}</td><td class=\"part\">{}</td></tr>\n",
            escape(&row.metric),
            plain(row.ours),
            escape(row.target.as_deref().unwrap_or("–")),
            plain(row.published),
            plain(row.half_width_95),
            escape(source.as_deref().unwrap_or(""))
        )
    };
    rows(
        &expect.iter().enumerate().map(row).collect::<Vec<_>>(),
        "Figures of a variant begin with its name, the others are the product's. A published value is what the source \
         measured on its own equipment; the target is what must hold here. ± is half the 95 % confidence interval of the \
         mean over repetitions (Student's t). Not judged: no target, or one that depends \
         on a value set by the user.",
        "result.json",
        out,
    );
}

const GROUP_COLUMNS: [&str; 20] = [
    "Group",
    "Configuration",
    "MOS mean",
    "Loss, %",
    "Delay mean, ms",
    "p99",
    "max",
    "MOS worst",
    "Late, %",
    "Jitter (7.4) mean, ms",
    "max",
    "RFC 3550 jitter, ms",
    "Delay variation p99, ms",
    "p99.9",
    "kbit/s",
    "± stdev",
    "Sent",
    "Connections",
    "Jain",
    "PSQM surrogate",
];

/// Figures of every group, configurations beneath each other.
pub(super) fn groups(view: &View<'_>, out: &mut String) {
    head("Groups", &GROUP_COLUMNS, out);
    let of_group = |group| {
        view.configurations.iter().filter_map(move |shown| {
            Some(row(group, &shown.name, &group_cells(shown.details.pooled(group)?)))
        })
    };
    rows(
        &view.groups().into_iter().flat_map(of_group).collect::<Vec<_>>(),
        "All repetitions together; a dash is what does not apply or is not known. Delay is one way, of packets that \
         arrived. Jitter (7.4) is the sum of the differences between successive delays over the number of packets \
         received (Huttunen 2005, equation 7.4), RFC 3550 jitter the smoothed one of RTP receivers. Delay variation is \
         the delay beyond the smallest of the same stream (RFC 5481). Throughput is at IP length, \
         over the time in which the traffic sends, its deviation that of a sample over repetitions; total is that of all \
         traffic while all of it sends. Jain's index is 1 when all connections got the same. Late is what came to a call after its playout, beside what was lost. MOS is the opinion score of the E-model \
         (ITU-T G.107), from 1 to 4.5. The PSQM surrogate is no PSQM: a curve through published rows, from loss alone, \
         0.4 at best and 6.5 at worst.",
        "groups.csv",
        out,
    );
}

fn group_cells(figures: &GroupFigures) -> String {
    let result = &figures.result;
    let (delay, jitter) = (result.delay_ms, result.jitter_ms);
    let count = |n: Option<u64>| n.map_or_else(|| "–".to_owned(), |n| n.to_string());
    let cells = [
        figure(result.mos.map(|m| m.mean), 2),
        figure(result.loss_pct, 2),
        figure(delay.map(|d| d.mean), 2),
        figure(delay.map(|d| d.p99), 2),
        figure(delay.map(|d| d.max), 2),
        figure(result.mos.map(|m| m.min), 2),
        figure(result.late_pct, 2),
        figure(jitter.map(|j| j.mean), 2),
        figure(jitter.map(|j| j.max), 2),
        figure(figures.rtp_jitter_ms.map(|j| j.0), 2),
        figure(figures.variation_ms.map(|v| v[2]), 2),
        figure(figures.variation_ms.map(|v| v[3]), 2),
        figure(result.throughput_kbps.map(|t| t.mean), 1),
        figure(result.throughput_kbps.and_then(|t| t.stdev), 1),
        count(result.sent),
        count(result.connections.map(|c| c.count)),
        figure(result.connections.and_then(|c| c.jain), 3),
        figure(figures.psqm_surrogate(), 2),
    ];
    cells.iter().map(|cell| format!("<td>{cell}</td>")).collect()
}

/// Utilisation, waiting and drops by reason of every link.
pub(super) fn links(view: &View<'_>, out: &mut String) {
    let columns =
        ["Link", "Configuration", "Used, %", "Queue p50, ms", "p99", "max", "Dropped packets by reason"];
    head("Links", &columns, out);
    let mut names: Vec<&str> = Vec::new();
    for link in view.configurations.iter().flat_map(|shown| &shown.details.links) {
        if !names.contains(&link.result.name.as_str()) {
            names.push(&link.result.name);
        }
    }
    let of_link = |name| {
        view.configurations.iter().filter_map(move |shown| {
            let link =
                shown.details.links.iter().find(|l| l.repetition.is_none() && l.result.name == name)?;
            Some(row(name, &shown.name, &link_cells(&link.result)))
        })
    };
    rows(
        &names.into_iter().flat_map(of_link).collect::<Vec<_>>(),
        "The direction in which the link's ends are named, while the measurement lasted. Queue is the time that packets \
         waited before the line began on them.",
        "links.csv",
        out,
    );
}

fn link_cells(link: &LinkResult) -> String {
    let drops = link.drops.iter().filter(|(_, n)| **n > 0);
    let drops: Vec<String> = drops.map(|(reason, n)| format!("{reason}: {n}")).collect();
    format!(
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"part\">{}</td>",
        figure(link.utilisation_pct, 1),
        figure(link.queue_ms.map(|q| q.p50), 2),
        figure(link.queue_ms.map(|q| q.p99), 2),
        figure(link.queue_ms.map(|q| q.max), 2),
        if drops.is_empty() { "none".to_owned() } else { escape(&drops.join(", ")) }
    )
}

const AGENT_COLUMNS: [&str; 15] = [
    "Class",
    "Configuration",
    "Allocated, kbit/s",
    "Used, %",
    "Estimate, %",
    "Requests/s",
    "Not granted, %",
    "Congested, %",
    "Increases",
    "Decreases",
    "Asked",
    "Granted",
    "In part",
    "Refused",
    "No answer",
];

/// Figures and counts of every class that an agent looks after, if there is any.
pub(super) fn agents(view: &View<'_>, out: &mut String) {
    if view.classes().is_empty() {
        return;
    }
    head("Agents", &AGENT_COLUMNS, out);
    let of_class = |class| {
        view.configurations.iter().filter_map(move |shown| {
            let mut pooled = shown.details.agents.iter().filter(|figures| figures.repetition.is_none());
            let figures = pooled.find(|figures| figures.result.class == class)?;
            Some(row(class, &shown.name, &agent_cells(figures)))
        })
    };
    rows(
        &view.classes().into_iter().flat_map(of_class).collect::<Vec<_>>(),
        "While the measurement lasted. Figures are means over repetitions: what the class had, what it carried and what its \
         meter took it to use as shares of that, requests to the broker, those that were not granted in full as a share \
         of those that ended, and the time in which a long queue overruled the law. Counts are those of all repetitions \
         together: changes of the allocation, then requests and what became of them.",
        "agents.csv",
        out,
    );
}

fn agent_cells(figures: &AgentFigures) -> String {
    let counts = figures.counts.list().map(|(_, count)| count.to_string());
    crate::terminal::agent_cells(&figures.result)
        .chain(counts)
        .map(|cell| format!("<td>{cell}</td>"))
        .collect()
}

/// Figure by figure, every run beside the others.
pub(super) fn differences(runs: &[Run<'_>], out: &mut String) {
    let names: Vec<&str> = runs.iter().map(|(name, _)| *name).collect();
    let results: Vec<&ScenarioResult> = runs.iter().map(|(_, directory)| &directory.result).collect();
    let columns = headings(&names);
    let head_names = std::iter::once("Figure").chain(names).chain(columns.iter().map(String::as_str));
    head("Figure by figure", &head_names.collect::<Vec<_>>(), out);
    let row = |difference: &Difference| {
        let values = difference.values.iter().copied().map(plain);
        let cells = values.chain(difference_cells(difference, plain));
        let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&difference.metric))
    };
    rows(
        &all_differences(&results).iter().map(row).collect::<Vec<_>>(),
        "Figures of a variant begin with its name. A difference is a run's figure minus the first run's, and % is it as a \
         share of the first's.",
        "what `perhop lab compare` prints",
        out,
    );
}
