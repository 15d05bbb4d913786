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

/// A figure computed from others: sums and differences of quotients, such as `ftp2.throughput_kbps.mean /
/// ftp1.throughput_kbps.mean` or `a + b - c / d`. Operators stand between spaces, because names may contain them. There
/// are no brackets.
pub struct Formula<'a>(&'a str);

impl<'a> Formula<'a> {
    /// Of a metric; a lone path is a formula too.
    pub fn new(metric: &'a str) -> Self {
        Self(metric)
    }

    /// The paths in it, in order.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        let operator = |word: &&str| matches!(*word, "+" | "-" | "/");
        self.0.split(' ').filter(|word| !word.is_empty()).filter(move |word| !operator(word))
    }

    /// Whether paths and operators take turns.
    pub fn is_sound(&self) -> bool {
        let words = self.0.split(' ').filter(|word| !word.is_empty());
        let turns = words.enumerate().all(|(i, word)| matches!(word, "+" | "-" | "/") == (i % 2 == 1));
        turns && self.0.split(' ').filter(|word| !word.is_empty()).count() % 2 == 1
    }

    /// Its value when paths have those of `figure`; `None` if one has none, or a divisor is zero.
    pub fn value(&self, mut figure: impl FnMut(&str) -> Option<f64>) -> Option<f64> {
        if !self.is_sound() {
            return None;
        }
        let (mut sum, mut term, mut sign, mut operator) = (0.0, 0.0, 1.0, "+");
        for word in self.0.split(' ').filter(|word| !word.is_empty()) {
            match (word, operator) {
                ("+" | "-" | "/", _) => operator = word,
                (path, "/") => {
                    let divisor = figure(path).filter(|divisor| *divisor != 0.0)?;
                    term /= divisor;
                }
                (path, _) => {
                    sum += sign * term;
                    sign = if operator == "-" { -1.0 } else { 1.0 };
                    term = figure(path)?;
                }
            }
        }
        Some(sum + sign * term)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_sums_of_quotients() {
        let value = |text: &str| {
            Formula::new(text).value(|path| match path {
                "a.x" => Some(6.0),
                "b.x" => Some(3.0),
                "c-d.x" => Some(2.0),
                "zero.x" => Some(0.0),
                _ => None,
            })
        };
        assert_eq!(value("a.x"), Some(6.0));
        assert_eq!(value("a.x / b.x"), Some(2.0));
        assert_eq!(value("a.x - b.x - c-d.x"), Some(1.0));
        assert_eq!(value("a.x + b.x / c-d.x / c-d.x - b.x"), Some(3.75));
        for none in ["a.x / zero.x", "a.x + e.x", "a.x b.x", "/ a.x", "a.x +", "", "a.x / / b.x"] {
            assert_eq!(value(none), None, "{none}");
        }
        assert_eq!(Formula::new("a.x / b.x - c-d.x").paths().collect::<Vec<_>>(), ["a.x", "b.x", "c-d.x"]);
    }
}
