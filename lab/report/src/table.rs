//! The demonstration's table for a terminal: plain text, at most 100 columns.

use crate::result::ScenarioResult;
use crate::summary::{BULK, CALLS, CALLS_AFTER, UPLINK, figure};

/// The rows of a run: which part of the calls, and its group.
const PARTS: [(&str, &str); 2] = [("whole call", CALLS), ("after detection", CALLS_AFTER)];
/// Longest name of a run that is printed whole.
const NAME_WIDTH: usize = 10;

/// The table of these runs, each for the whole call and after detection. Lines end in a newline.
pub fn demo_table(runs: &[(&str, &ScenarioResult)]) -> String {
    let mut out = String::new();
    out.push_str(&columns(
        "",
        "",
        ["loss", "one-way", "delay,", "ms", "jitter", "MOS", "MOS", "bulk", "link"],
    ));
    out.push('\n');
    out.push_str(&columns(
        "router",
        "part",
        ["%", "p50", "p99", "max", "ms", "mean", "min", "Mbit/s", "used %"],
    ));
    out.push('\n');
    out.push_str(&"-".repeat(LINE));
    out.push('\n');
    for (i, (name, result)) in runs.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        for (part, group) in PARTS {
            out.push_str(&line(name, part, result, group));
            out.push('\n');
        }
    }
    out
}

/// Width of the table.
const LINE: usize = 96;

fn line(name: &str, part: &str, result: &ScenarioResult, group: &str) -> String {
    let name: String = name.chars().take(NAME_WIDTH).collect();
    let calls = result.group(group);
    let (delay, mos) = (calls.and_then(|g| g.delay_ms), calls.and_then(|g| g.mos));
    let bulk = result.group(BULK).and_then(|g| g.throughput_kbps).map(|t| t.mean / 1000.0);
    let link = result.link(UPLINK).and_then(|l| l.utilisation_pct);
    // A dash says "not known"; an empty place says "not of this row".
    let once = |value, decimals| if group == CALLS { figure(value, decimals) } else { String::new() };
    let cells = [
        figure(calls.and_then(|g| g.loss_pct), 2),
        figure(delay.map(|d| d.p50), 1),
        figure(delay.map(|d| d.p99), 1),
        figure(delay.map(|d| d.max), 1),
        figure(calls.and_then(|g| g.jitter_ms).map(|j| j.mean), 2),
        figure(mos.map(|m| m.mean), 2),
        figure(mos.map(|m| m.min), 2),
        once(bulk, 2),
        once(link, 1),
    ];
    columns(&name, part, cells.each_ref().map(String::as_str))
}

/// Puts texts into the table's columns.
fn columns(name: &str, part: &str, cells: [&str; 9]) -> String {
    let [loss, p50, p99, max, jitter, mean, min, bulk, link] = cells;
    let text = format!(
        "{name:<NAME_WIDTH$} {part:<15} {loss:>7}  {p50:>7} {p99:>7} {max:>7} {jitter:>6}  {mean:>5} {min:>5}  {bulk:>7} {link:>7}"
    );
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{DelayMs, GroupResult, JitterMs, LinkResult, Mos, Throughput};

    fn run(loss: f64, delay: f64, mos: f64) -> ScenarioResult {
        let calls = |name| GroupResult {
            loss_pct: Some(loss),
            delay_ms: Some(DelayMs {
                p50: delay,
                p99: delay + 10.0,
                max: delay + 20.0,
                ..DelayMs::default()
            }),
            jitter_ms: Some(JitterMs { mean: 0.5, max: 1.0 }),
            mos: Some(Mos { mean: mos, min: mos - 0.1 }),
            ..GroupResult::named(name)
        };
        let bulk = GroupResult {
            throughput_kbps: Some(Throughput { mean: 7123.4, stdev: None }),
            ..GroupResult::named("bulk")
        };
        ScenarioResult {
            groups: vec![calls("calls"), calls("calls_after_detection"), bulk],
            links: vec![LinkResult {
                name: "uplink".into(),
                utilisation_pct: Some(99.17),
                ..LinkResult::default()
            }],
            ..ScenarioResult::default()
        }
    }

    #[test]
    fn the_table_is_aligned_and_fits_a_hundred_columns() {
        let text = demo_table(&[("FIFO", &run(12.345, 512.3, 1.91)), ("Perhop", &run(0.0, 21.0, 4.41))]);
        let expected = [
            "                              loss  one-way  delay,      ms jitter    MOS   MOS     bulk    link",
            "router     part                  %      p50     p99     max     ms   mean   min   Mbit/s  used %",
            "------------------------------------------------------------------------------------------------",
            "FIFO       whole call        12.35    512.3   522.3   532.3   0.50   1.91  1.81     7.12    99.2",
            "FIFO       after detection   12.35    512.3   522.3   532.3   0.50   1.91  1.81",
            "",
            "Perhop     whole call         0.00     21.0    31.0    41.0   0.50   4.41  4.31     7.12    99.2",
            "Perhop     after detection    0.00     21.0    31.0    41.0   0.50   4.41  4.31",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        let text = demo_table(&[("a name too long to print", &ScenarioResult::default())]);
        let row = text.lines().nth(3).expect("a row");
        assert!(row.starts_with("a name too whole call"), "{row}");
        assert_eq!(row.matches('–').count(), 9);
        assert!(!row.contains('0'));
    }
}
