//! Results as one self-contained HTML page: verdict, a picture of what matters most, published values beside ours, figures,
//! topology, then the other charts, with all configurations in each.
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

    /// Says how many of its charts are left out, if any are, and where else their values are.
    fn without(mut self, count: usize, file: &str) -> Self {
        if count > 0 {
            self.reading.push_str(&format!(" {count} more are in {file} alone."));
        }
        self
    }

    fn write(&self, class: &str, out: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        out.push_str(&format!(
            "<section class=\"{class}\">\n<h2>{}</h2>\n<div class=\"charts\">\n",
            escape(&self.title)
        ));
        self.figures.iter().for_each(|figure| out.push_str(figure));
        out.push_str(&format!("</div>\n<p>{}</p>\n</section>\n", escape(&self.reading)));
    }
}

/// The page of one run.
pub fn scenario_page(directory: &ResultDirectory) -> String {
    let view = View::of_one(directory);
    let mut out = head(&title(directory));
    let outcome = outcome(directory);
    verdict(outcome.ok(), &outcome.headline(), &mut out);
    lead(&view, &mut out);
    missed(directory, &outcome, &mut out);
    tables::expectations(directory, &mut out);
    figures(&view, &mut out);
    topology(directory, &mut out);
    charts(&view, &mut out);
    conditions("What was run", directory, &mut out);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// The page of several runs over each other, each with the name it is called by.
pub fn comparison_page(runs: &[(&str, &ResultDirectory)]) -> String {
    let view = View::of_runs(runs);
    let names: Vec<&str> = runs.iter().map(|(name, _)| *name).collect();
    let mut out = head(&names.join(" against "));
    let outcomes: Vec<Outcome> = runs.iter().map(|(_, directory)| outcome(directory)).collect();
    verdict_of_all(&names, &outcomes, &mut out);
    lead(&view, &mut out);
    for ((name, directory), outcome) in runs.iter().zip(&outcomes) {
        out.push_str(&format!(
            "<p><strong>{}</strong>: {}. {}</p>\n",
            escape(name),
            escape(&title(directory)),
            escape(&outcome.headline())
        ));
    }
    tables::differences(runs, &mut out);
    figures(&view, &mut out);
    charts(&view, &mut out);
    for (name, directory) in runs {
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

/// The picture that is in sight at once.
fn lead(view: &View<'_>, out: &mut String) {
    charts::lead(view).iter().for_each(|section| section.write("lead", out));
}

/// Figures of all that is compared.
fn figures(view: &View<'_>, out: &mut String) {
    tables::groups(view, out);
    transport::figures(view, out);
    tables::links(view, out);
    tables::agents(view, out);
}

/// All charts but those of [`lead`].
fn charts(view: &View<'_>, out: &mut String) {
    let sections = [
        charts::over_time(view),
        queues::over_time(view),
        agents::over_time(view),
        charts::delay_distribution(view),
        charts::repetitions(view),
        charts::successive_delays(view),
        transport::windows(view),
    ];
    sections.iter().for_each(|section| section.write("", out));
}

/// One line: how it ended.
fn verdict(ok: Option<bool>, headline: &str, out: &mut String) {
    let (class, sign) = match ok {
        Some(true) => ("pass", "PASS"),
        Some(false) => ("fail", "FAIL"),
        None => ("unknown", "NO VERDICT"),
    };
    out.push_str(&format!(
        "<section class=\"verdict {class}\">\n<p class=\"headline\"><span class=\"sign\">{sign}</span> {}</p>\n</section>\n",
        escape(headline)
    ));
}

/// One line for several runs: those that missed a target, else those without a verdict.
fn verdict_of_all(names: &[&str], outcomes: &[Outcome], out: &mut String) {
    let which = |ok: Option<bool>| {
        let these = names.iter().zip(outcomes).filter(|(_, outcome)| outcome.ok() == ok);
        these.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (missed, unknown) = (which(Some(false)), which(None));
    match (missed.is_empty(), unknown.is_empty()) {
        (false, _) => verdict(Some(false), &format!("Not every target is met: {missed}."), out),
        (true, false) => verdict(None, &format!("Not judged: {unknown}."), out),
        (true, true) => verdict(Some(true), "All targets of all runs are met.", out),
    }
}

/// Why it was run, and what is missed, in full; what is met is in the table below.
fn missed(directory: &ResultDirectory, outcome: &Outcome, out: &mut String) {
    if !directory.about.why.is_empty() {
        out.push_str(&format!("<p>{}</p>\n", escape(&directory.about.why)));
    }
    let missed = directory.result.expect.iter().filter(|expect| expect.ok == Some(false));
    let items: String = missed
        .filter(|_| outcome.ok().is_some())
        .map(|expect| {
            format!(
                "<li class=\"fail\"><span class=\"sign\">FAIL</span> {}: {}, target {}</li>\n",
                escape(&expect.metric),
                tables::plain(expect.ours),
                escape(expect.target.as_deref().unwrap_or("–"))
            )
        })
        .collect();
    if !items.is_empty() {
        out.push_str(&format!("<ul class=\"missed\">\n{items}</ul>\n"));
    }
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
