//! Tables of a page: expected values, groups, links, differences.

use super::view::View;
use crate::comparison::{Difference, differences as all_differences};
use crate::details::{AgentFigures, GroupFigures};
use crate::directory::ResultDirectory;
use crate::plot::escape;
use crate::summary::figure;

/// Most rows of a table; what is left out is in the CSV files.
pub(super) const MAX_ROWS: usize = 400;

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

pub(super) fn foot(note: &str, out: &mut String) {
    out.push_str(&format!("</tbody></table></div>\n<p>{}</p>\n</section>\n", escape(note)));
}

/// Every expected value: ours, published, target, whether it holds, source.
pub(super) fn expectations(directory: &ResultDirectory, out: &mut String) {
    let expect = &directory.result.expect;
    if expect.is_empty() {
        return;
    }
    head(
        "Published beside ours",
        &["Figure", "Ours", "± 95 %", "Published", "Target", "Verdict", "Source"],
        out,
    );
    for (i, row) in expect.iter().enumerate().take(MAX_ROWS) {
        let (class, word) = match row.ok {
            Some(true) => ("pass", "met"),
            Some(false) => ("fail", "MISSED"),
            None => ("unknown", "not judged"),
        };
        let source = directory.about.expect_sources.get(i).cloned().flatten();
        let source = source.or_else(|| row.published.and(directory.about.source.clone()));
        out.push_str(&format!(
            "<tr class=\"{class}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"part\"><span \
             class=\"sign\">{word}</span></td><td class=\"part\">{}</td></tr>\n",
            escape(&row.metric),
            plain(row.ours),
            plain(row.half_width_95),
            plain(row.published),
            escape(row.target.as_deref().unwrap_or("–")),
            escape(source.as_deref().unwrap_or(""))
        ));
    }
    foot(
        "Figures of a variant begin with its name, the others are the product's. A published value is what the source \
         measured on its own equipment; the target is what must hold here. ± is half the 95 % confidence interval of the \
         mean over repetitions (Student's t). Not judged: no target, or one that depends \
         on a value set by the user.",
        out,
    );
}

const GROUP_COLUMNS: [&str; 20] = [
    "Group",
    "Configuration",
    "Sent",
    "Loss, %",
    "Delay mean, ms",
    "p99",
    "max",
    "Jitter (7.4) mean, ms",
    "max",
    "RFC 3550 jitter, ms",
    "Delay variation p99, ms",
    "p99.9",
    "kbit/s",
    "± stdev",
    "Connections",
    "Jain",
    "Late, %",
    "MOS mean",
    "worst",
    "PSQM surrogate",
];

/// Figures of every group, configurations beneath each other.
pub(super) fn groups(view: &View<'_>, out: &mut String) {
    head("Groups", &GROUP_COLUMNS, out);
    let mut rows = 0;
    for group in view.groups() {
        for shown in &view.configurations {
            let Some(figures) = shown.details.pooled(group).filter(|_| rows < MAX_ROWS) else { continue };
            rows += 1;
            out.push_str(&format!(
                "<tr><th scope=\"row\">{}</th><td class=\"part\">{}</td>{}</tr>\n",
                escape(group),
                escape(&shown.name),
                group_cells(figures)
            ));
        }
    }
    foot(
        "All repetitions together; a dash is what does not apply or is not known. Delay is one way, of packets that \
         arrived. Jitter (7.4) is the sum of the differences between successive delays over the number of packets \
         received (Huttunen 2005, equation 7.4), RFC 3550 jitter the smoothed one of RTP receivers. Delay variation is \
         the delay beyond the smallest of the same stream (RFC 5481). Throughput is at IP length, \
         over the time in which the traffic sends, its deviation that of a sample over repetitions; total is that of all \
         traffic while all of it sends. Jain's index is 1 when all connections got the same. Late is what came to a call after its playout, beside what was lost. MOS is the opinion score of the E-model \
         (ITU-T G.107), from 1 to 4.5. The PSQM surrogate is no PSQM: a curve through published rows, from loss alone, \
         0.4 at best and 6.5 at worst.",
        out,
    );
}

fn group_cells(figures: &GroupFigures) -> String {
    let result = &figures.result;
    let (delay, jitter) = (result.delay_ms, result.jitter_ms);
    let count = |n: Option<u64>| n.map_or_else(|| "–".to_owned(), |n| n.to_string());
    let cells = [
        count(result.sent),
        figure(result.loss_pct, 2),
        figure(delay.map(|d| d.mean), 2),
        figure(delay.map(|d| d.p99), 2),
        figure(delay.map(|d| d.max), 2),
        figure(jitter.map(|j| j.mean), 2),
        figure(jitter.map(|j| j.max), 2),
        figure(figures.rtp_jitter_ms.map(|j| j.0), 2),
        figure(figures.variation_ms.map(|v| v[2]), 2),
        figure(figures.variation_ms.map(|v| v[3]), 2),
        figure(result.throughput_kbps.map(|t| t.mean), 1),
        figure(result.throughput_kbps.and_then(|t| t.stdev), 1),
        count(result.connections.map(|c| c.count)),
        figure(result.connections.and_then(|c| c.jain), 3),
        figure(result.late_pct, 2),
        figure(result.mos.map(|m| m.mean), 2),
        figure(result.mos.map(|m| m.min), 2),
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
    let mut rows = 0;
    for name in names {
        for shown in &view.configurations {
            let pooled = shown.details.links.iter().find(|l| l.repetition.is_none() && l.result.name == name);
            let Some(link) = pooled.map(|l| &l.result).filter(|_| rows < MAX_ROWS) else { continue };
            rows += 1;
            let drops = link.drops.iter().filter(|(_, n)| **n > 0);
            let drops: Vec<String> = drops.map(|(reason, n)| format!("{reason}: {n}")).collect();
            out.push_str(&format!(
                "<tr><th scope=\"row\">{}</th><td class=\"part\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td \
                 class=\"part\">{}</td></tr>\n",
                escape(name),
                escape(&shown.name),
                figure(link.utilisation_pct, 1),
                figure(link.queue_ms.map(|q| q.p50), 2),
                figure(link.queue_ms.map(|q| q.p99), 2),
                figure(link.queue_ms.map(|q| q.max), 2),
                if drops.is_empty() { "none".to_owned() } else { escape(&drops.join(", ")) }
            ));
        }
    }
    foot(
        "The direction in which the link's ends are named, while the measurement lasted. Queue is the time that packets \
         waited before the line began on them.",
        out,
    );
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
    let mut rows = 0;
    for class in view.classes() {
        for shown in &view.configurations {
            let mut pooled = shown.details.agents.iter().filter(|figures| figures.repetition.is_none());
            let figures = pooled.find(|figures| figures.result.class == class);
            let Some(figures) = figures.filter(|_| rows < MAX_ROWS) else { continue };
            rows += 1;
            out.push_str(&format!(
                "<tr><th scope=\"row\">{}</th><td class=\"part\">{}</td>{}</tr>\n",
                escape(class),
                escape(&shown.name),
                agent_cells(figures)
            ));
        }
    }
    foot(
        "While the measurement lasted. Figures are means over repetitions: what the class had, what it carried and what its \
         meter took it to use as shares of that, requests to the broker, those that were not granted in full as a share \
         of those that ended, and the time in which a long queue overruled the law. Counts are those of all repetitions \
         together: changes of the allocation, then requests and what became of them.",
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

/// Figure by figure, two runs.
pub(super) fn differences(
    first: (&str, &ResultDirectory),
    second: (&str, &ResultDirectory),
    out: &mut String,
) {
    head("Figure by figure", &["Figure", first.0, second.0, "Difference", "%"], out);
    for Difference { metric, first, second } in
        all_differences(&first.1.result, &second.1.result).into_iter().take(MAX_ROWS)
    {
        let difference = first.zip(second).map(|(a, b)| b - a);
        let share = difference.zip(first).filter(|(_, a)| *a != 0.0).map(|(d, a)| d / a.abs() * 100.0);
        out.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&metric),
            plain(first),
            plain(second),
            plain(difference),
            figure(share, 1)
        ));
    }
    foot(
        "Figures of a variant begin with its name. The difference is the second run's figure minus the first's, then as \
         a share of the first's.",
        out,
    );
}
