//! Results of two worlds side by side, as a page in Markdown: do simulator and namespaces agree?

use perhop_report::ResultDirectory;
use perhop_report::result::{Expectation, GroupResult, ScenarioResult};
use std::fmt::Write as _;

/// Difference of the mean delay of calls up to which two worlds agree, ms.
const DELAY_MS: f64 = 3.0;
/// Difference of the throughput of a class up to which they agree, percent of the first.
const THROUGHPUT_PCT: f64 = 10.0;

/// One scenario in both worlds.
pub struct Pair {
    /// Its name.
    pub scenario: String,
    /// The result in each.
    pub results: [ResultDirectory; 2],
}

impl Pair {
    /// Whether it is one of each world.
    fn is_of_two(&self) -> bool {
        self.results[0].result.mode != self.results[1].result.mode
    }
}

/// What a comparison of one scenario found.
struct Found {
    /// Of the calls whose delay differs most: mean in each world, ms.
    delay: Option<[f64; 2]>,
    /// The class whose throughput differs most, and by how much of the first, percent.
    class: Option<(String, f64)>,
    /// What became of the targets in each world.
    targets: [Targets; 2],
}

/// Targets of one result, by what became of them.
#[derive(Clone, Copy)]
struct Targets {
    held: usize,
    missed: usize,
    /// Not judged: the machine was too busy, or a value they depend on was set.
    open: usize,
}

impl Targets {
    /// On a machine that was too busy nothing is missed.
    fn of(directory: &ResultDirectory) -> Self {
        let expected = || directory.result.expect.iter().filter(|expect| expect.target.is_some());
        let held = expected().filter(|expect| expect.ok == Some(true)).count();
        let missed = expected().filter(|expect| is_missed(directory, expect)).count();
        Self { held, missed, open: expected().count() - held - missed }
    }

    /// `8 / 1 / 0`; what is missed in bold.
    fn cell(self) -> String {
        let missed = if self.missed > 0 { format!("**{}**", self.missed) } else { "0".to_owned() };
        format!("{} / {missed} / {}", self.held, self.open)
    }
}

impl Found {
    fn of(pair: &Pair) -> Self {
        let targets = pair.results.each_ref().map(Targets::of);
        let [first, second] = pair.results.each_ref().map(|directory| &directory.result);
        let both = || first.groups.iter().filter_map(|a| Some((a, second.group(&a.name)?)));
        let calls =
            |group: &GroupResult| group.mos.is_some() || !first.groups.iter().any(|g| g.mos.is_some());
        let delays = both().filter(|(a, _)| calls(a)).filter_map(|(a, b)| Some([delay(a)?, delay(b)?]));
        let classes = both()
            .filter(|(a, _)| is_class(a, first))
            .filter_map(|(a, b)| Some((a.name.clone(), deviation_pct(a, b)?)));
        Self {
            delay: delays.max_by(|a, b| (a[1] - a[0]).abs().total_cmp(&(b[1] - b[0]).abs())),
            class: classes.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs())),
            targets,
        }
    }

    fn agree(&self) -> bool {
        let delay = self.delay.is_none_or(|[a, b]| (b - a).abs() <= DELAY_MS);
        delay && self.class.as_ref().is_none_or(|(_, pct)| pct.abs() <= THROUGHPUT_PCT)
    }

    fn all_held(&self) -> bool {
        self.targets.iter().all(|targets| targets.missed == 0)
    }
}

/// The page, and whether both worlds agree on every scenario, hold all targets, and no machine was too busy. `names` are
/// those of the worlds, `command` is what made the page.
pub fn page(names: [&str; 2], pairs: &[Pair], command: &str) -> (String, bool) {
    let [a, b] = names;
    let mut text = format!(
        "# Two worlds\n\nThe same scenarios in the simulator and in namespaces with real kernels, sockets and time, in \
         the product's configuration. The worlds agree on a scenario when the mean one-way delay of calls (without \
         calls: of every datagram) differs by at most {DELAY_MS} ms and the throughput of every class by at most \
         {THROUGHPUT_PCT} %. That says nothing about targets, which stand in columns of their own for each world: \
         held / missed / no verdict. There is no verdict where the machine was too busy for one, or a value was set that \
         the target depends on. What is missed is named below. Every machine can measure it again:\n\n```\n{command}\n```\n\n\
         | scenario | calls, mean delay ms: {a} | {b} | difference | class that differs most | by % | worlds agree \
         | targets held / missed / no verdict: {a} | {b} |\n|---|--:|--:|--:|---|--:|---|--:|--:|\n"
    );
    let mut good = true;
    for pair in pairs {
        let found = Found::of(pair);
        let busy = pair.results.iter().any(|directory| directory.machine.saturated.is_some());
        good &= pair.is_of_two() && found.agree() && found.all_held() && !busy;
        text += &summary_row(pair, &found, busy);
    }
    for pair in pairs {
        text += &section(names, pair);
    }
    (text, good)
}

fn summary_row(pair: &Pair, found: &Found, busy: bool) -> String {
    let delay = match found.delay {
        Some([a, b]) => format!("{a:.2} | {b:.2} | {:+.2}", b - a),
        None => "– | – | –".to_owned(),
    };
    let (class, pct) = match &found.class {
        Some((name, pct)) => (name.as_str(), format!("{pct:+.1}")),
        None => ("–", "–".to_owned()),
    };
    let [first, second] = found.targets.map(Targets::cell);
    // A busy machine drives the worlds apart, not together.
    let agree = match (found.agree(), busy) {
        _ if !pair.is_of_two() => "one world",
        (true, _) => "yes",
        (false, true) => "machine too busy",
        (false, false) => "**no**",
    };
    let name = &pair.scenario;
    let link = name.to_lowercase().replace('.', "");
    format!("| [{name}](#{link}) | {delay} | {class} | {pct} | {agree} | {first} | {second} |\n")
}

/// All groups of one scenario.
fn section(names: [&str; 2], pair: &Pair) -> String {
    let [first, second] = &pair.results;
    let [a, b] = names;
    let mut text = format!(
        "\n## {}\n\n{}. {a}: {}; {b}: {}.\n\n\
         | group | mean delay ms: {a} | {b} | difference | kbit/s: {a} | {b} | by % | loss %: {a} | {b} |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        pair.scenario,
        first.about.title,
        repetitions(&first.result),
        repetitions(&second.result),
    );
    for group in &first.result.groups {
        let Some(other) = second.result.group(&group.name) else { continue };
        let difference = delay(group).zip(delay(other)).map(|(a, b)| b - a);
        let of = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        };
        let signed = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "–".to_owned(), |value| format!("{value:+.digits$}"))
        };
        // Writing into a text never fails.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            group.name,
            of(delay(group), 2),
            of(delay(other), 2),
            signed(difference, 2),
            of(throughput(group), 1),
            of(throughput(other), 1),
            signed(deviation_pct(group, other), 1),
            of(group.loss_pct, 2),
            of(other.loss_pct, 2),
        );
    }
    text += &remarks(names, pair);
    text
}

/// Whether a target is missed, and not for the machine's sake.
fn is_missed(directory: &ResultDirectory, expect: &Expectation) -> bool {
    directory.machine.saturated.is_none() && expect.ok == Some(false)
}

/// Targets that are missed, and what a reader must know of a run.
fn remarks(names: [&str; 2], pair: &Pair) -> String {
    let mut lines = Vec::new();
    for (name, directory) in names.iter().zip(&pair.results) {
        for expect in directory.result.expect.iter().filter(|expect| is_missed(directory, expect)) {
            let target = expect.target.as_deref().unwrap_or_default();
            let ours = expect.ours.map_or_else(|| "nothing".to_owned(), |ours| format!("{ours:.3}"));
            lines.push(format!("* {name} misses `{} {target}`: {ours}", expect.metric));
        }
        let machine = &directory.machine;
        let warnings = directory.result.warnings.iter().chain(&machine.warnings);
        for warning in warnings.chain(machine.saturated.as_ref()) {
            lines.push(format!("* {name}: {warning}"));
        }
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
}

fn repetitions(result: &ScenarioResult) -> String {
    let plural = if result.repetitions == 1 { "" } else { "s" };
    format!("{} repetition{plural} of {:.0} s, seed {}", result.repetitions, result.sim_s, result.seed)
}

fn delay(group: &GroupResult) -> Option<f64> {
    group.delay_ms.map(|delay| delay.mean)
}

fn throughput(group: &GroupResult) -> Option<f64> {
    group.throughput_kbps.map(|throughput| throughput.mean)
}

/// How much more throughput the second has, percent of the first; `None` where there is none.
fn deviation_pct(first: &GroupResult, second: &GroupResult) -> Option<f64> {
    let (first, second) = (throughput(first)?, throughput(second)?);
    (first > 0.0).then(|| (second / first - 1.0) * 100.0)
}

/// Whether a group is a class: neither the share of one pair of hosts in another group (`www1` in `www`) nor the total.
fn is_class(group: &GroupResult, result: &ScenarioResult) -> bool {
    let stem = group.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let part = stem.len() < group.name.len() && result.group(stem).is_some();
    !part && group.name != perhop_scenario::figures::TOTAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_report::directory::{About, Machine};
    use perhop_report::result::{DelayMs, Expectation, Mos};

    fn result(delay: f64, classes: &[(&str, f64)], ok: bool) -> ResultDirectory {
        let calls = GroupResult {
            delay_ms: Some(DelayMs { mean: delay, ..DelayMs::default() }),
            mos: Some(Mos { mean: 4.4, min: 4.4 }),
            ..GroupResult::named("voip")
        };
        let data = classes.iter().map(|(name, kbps)| GroupResult::named(*name).with_throughput(&[*kbps]));
        let expect = Expectation {
            metric: "voip.loss_pct".into(),
            target: Some("= 0".into()),
            ok: Some(ok),
            ..Expectation::default()
        };
        ResultDirectory {
            about: About { title: "Calls".into(), ..About::default() },
            machine: Machine::default(),
            result: ScenarioResult {
                groups: std::iter::once(calls).chain(data).collect(),
                expect: vec![expect],
                repetitions: 1,
                ..ScenarioResult::default()
            },
            configurations: Vec::new(),
        }
    }

    fn judged(second: ResultDirectory) -> (String, bool) {
        let first = result(30.0, &[("www1", 500.0), ("www", 1000.0), ("total", 1000.0)], true);
        let mut results = [first, second];
        for (directory, mode) in results.iter_mut().zip(["sim", "netns"]) {
            directory.result.mode = mode.into();
        }
        let pair = Pair { scenario: "H-8.1.1".into(), results };
        page(["sim", "netns"], &[pair], "perhop lab compare sim netns --markdown")
    }

    #[test]
    fn classes_and_calls_decide_and_parts_do_not() {
        let classes = |www1, www| [("www1", www1), ("www", www), ("total", 1.0)];
        let (text, good) = judged(result(32.9, &classes(900.0, 1090.0), true));
        assert!(good, "{text}");
        let row = "| [H-8.1.1](#h-811) | 30.00 | 32.90 | +2.90 | www | +9.0 | yes | 1 / 0 / 0 | 1 / 0 / 0 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| www1 | – | – | – | 500.0 | 900.0 | +80.0 | – | – |"), "{text}");
        for (delay, www, ok) in [(33.1, 1000.0, true), (30.0, 890.0, true), (30.0, 1000.0, false)] {
            let (text, good) = judged(result(delay, &classes(500.0, www), ok));
            assert!(!good, "{text}");
            assert_eq!(text.contains("netns misses `voip.loss_pct"), !ok, "{text}");
        }
        // That the worlds agree hides neither a target that is missed nor one without a verdict.
        let (text, _) = judged(result(30.0, &classes(500.0, 1000.0), false));
        assert!(text.contains("| yes | 1 / 0 / 0 | 0 / **1** / 0 |"), "{text}");
        let mut open = result(30.0, &classes(500.0, 1000.0), true);
        open.result.expect[0].ok = None;
        let (text, good) = judged(open);
        assert!(good && text.contains("| yes | 1 / 0 / 0 | 0 / 0 / 1 |"), "{text}");
        // A busy machine is asked for nothing but what it could not spoil.
        for (delay, agree) in [(30.0, "yes"), (40.0, "machine too busy")] {
            let mut busy = result(delay, &classes(500.0, 1000.0), false);
            busy.machine.saturated = Some("it waited".into());
            let (text, good) = judged(busy);
            assert!(!good && text.contains(&format!("| {agree} | 1 / 0 / 0 | 0 / 0 / 1 |")), "{text}");
            assert!(!text.contains("misses") && text.contains("it waited"), "{text}");
        }
    }
}
