//! A scenario's result as one self-contained HTML page: verdict, published values beside ours, topology, figures, then
//! charts with the product's configuration beside the variants.
//!
//! No script, no font, no image and no address outside the page. Every line is thinned to what a screen can show and
//! to what all lines together may cost, so that a page stays below 3 MB whatever was run.

mod agents;
mod charts;
mod queues;
mod style;
mod tables;
mod transport;
mod view;

use crate::directory::ResultDirectory;
use crate::outcome::Outcome;
use crate::plot::escape;
use view::View;

/// A heading, its drawings, and how to read them.
struct Section {
    title: String,
    /// Drawings and tables as HTML.
    figures: Vec<String>,
    /// One sentence or two on how to read them.
    reading: String,
}

impl Section {
    fn charts(title: &str, svgs: Vec<String>, reading: &str) -> Self {
        let figures = svgs.into_iter().map(|svg| format!("<figure>{svg}</figure>\n")).collect();
        Self { title: title.to_owned(), figures, reading: reading.to_owned() }
    }

    fn write(&self, out: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        out.push_str(&format!("<section>\n<h2>{}</h2>\n<div class=\"charts\">\n", escape(&self.title)));
        self.figures.iter().for_each(|figure| out.push_str(figure));
        out.push_str(&format!("</div>\n<p>{}</p>\n</section>\n", escape(&self.reading)));
    }
}

/// The page of one run.
pub fn scenario_page(directory: &ResultDirectory) -> String {
    let view = View::of_one(directory);
    let mut out = head(&title(directory));
    verdict(directory, &mut out);
    if !directory.about.why.is_empty() {
        out.push_str(&format!("<p>{}</p>\n", escape(&directory.about.why)));
    }
    tables::expectations(directory, &mut out);
    topology(directory, &mut out);
    body(&view, &mut out);
    conditions("What was run", directory, &mut out);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The page of two runs side by side, each with the name it is called by.
pub fn comparison_page(first: (&str, &ResultDirectory), second: (&str, &ResultDirectory)) -> String {
    let view = View::of_two(first, second);
    let mut out = head(&format!("{} against {}", first.0, second.0));
    for (name, directory) in [first, second] {
        let outcome = outcome(directory);
        out.push_str(&format!(
            "<p><strong>{}</strong>: {}. {}</p>\n",
            escape(name),
            escape(&title(directory)),
            escape(&outcome.headline())
        ));
    }
    tables::differences(first, second, &mut out);
    body(&view, &mut out);
    for (name, directory) in [first, second] {
        conditions(&format!("What was run: {name}"), directory, &mut out);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn outcome(directory: &ResultDirectory) -> Outcome {
    Outcome::of(&directory.result, directory.machine.saturated.as_deref())
}

fn title(directory: &ResultDirectory) -> String {
    let (id, title) = (&directory.result.scenario, &directory.about.title);
    if title.is_empty() { id.clone() } else { format!("{id}: {title}") }
}

fn head(title: &str) -> String {
    let mut out = String::with_capacity(512 * 1024);
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    out.push_str(&format!(
        "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
        escape(title),
        style::CSS,
        style::SCENARIO_CSS
    ));
    out
}

/// Figures and charts.
fn body(view: &View<'_>, out: &mut String) {
    tables::groups(view, out);
    transport::figures(view, out);
    tables::links(view, out);
    tables::agents(view, out);
    let sections = [
        charts::over_time(view),
        queues::over_time(view),
        agents::over_time(view),
        charts::delay_distribution(view),
        charts::repetitions(view),
        charts::successive_delays(view),
        transport::windows(view),
    ];
    sections.iter().for_each(|section| section.write(out));
}

fn verdict(directory: &ResultDirectory, out: &mut String) {
    let outcome = outcome(directory);
    let (class, sign) = match outcome.ok() {
        Some(true) => ("pass", "PASS"),
        Some(false) => ("fail", "FAIL"),
        None => ("unknown", "NO VERDICT"),
    };
    out.push_str(&format!(
        "<section class=\"verdict {class}\">\n<p class=\"headline\"><span class=\"sign\">{sign}</span> {}</p>\n<ul>\n",
        escape(&outcome.headline())
    ));
    // What is missed comes first in full; what is met is in the table below.
    let missed = directory.result.expect.iter().filter(|expect| expect.ok == Some(false));
    for expect in missed.filter(|_| outcome.ok().is_some()) {
        out.push_str(&format!(
            "<li class=\"fail\"><span class=\"sign\">FAIL</span> {}: {}, target {}</li>\n",
            escape(&expect.metric),
            tables::plain(expect.ours),
            escape(expect.target.as_deref().unwrap_or("–"))
        ));
    }
    out.push_str("</ul>\n</section>\n");
}

fn topology(directory: &ResultDirectory, out: &mut String) {
    if directory.about.topology.is_empty() {
        return;
    }
    out.push_str(&format!(
        "<section>\n<h2>Network</h2>\n<pre class=\"scroll\">{}</pre>\n<p>Nodes and links as the scenario names them; \
         figures of a link are those of the direction in which its ends are named.</p>\n</section>\n",
        lines(&directory.about.topology)
    ));
}

/// Text of several lines, escaped.
fn lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

/// What was run and how far to trust it.
fn conditions(heading: &str, directory: &ResultDirectory, out: &mut String) {
    let (about, result, machine) = (&directory.about, &directory.result, &directory.machine);
    out.push_str(&format!("<section>\n<h2>{}</h2>\n<dl>\n", escape(heading)));
    let mut line = |name: &str, value: &str| {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
    };
    line("scenario", &result.scenario);
    line("world", if result.mode == "sim" { "simulator (virtual time)" } else { &result.mode });
    line("seed", &result.seed.to_string());
    line("repetitions", &result.repetitions.to_string());
    let measured = (result.sim_s - about.warm_up_s).max(0.0);
    line("one repetition", &format!("{} s to warm up, {measured} s measured", about.warm_up_s));
    if let Some(source) = &about.source {
        line("published in", source);
    }
    for (path, value) in &about.settings {
        line(&format!("set: {path}"), value);
    }
    out.push_str("</dl>\n<h3>How far to trust it</h3>\n<ul>\n");
    if result.mode == "sim" {
        out.push_str(
            "<li>Simulated: equal for every machine; nothing of it depends on this one's speed.</li>\n",
        );
    }
    if result.repetitions < 2 {
        out.push_str("<li>A single repetition: its spread is not known.</li>\n");
    }
    for warning in result.warnings.iter().chain(&machine.warnings).chain(&machine.runs) {
        out.push_str(&format!("<li>{}</li>\n", escape(warning)));
    }
    out.push_str("</ul>\n</section>\n");
}

#[cfg(test)]
mod tests;
