//! What a measurement says: one object a sweep point, as JSON or as a row of a table.

use crate::machine::SPREAD;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// Median, least and most of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Most.
    pub max: f64,
}

impl Spread {
    /// Of `values`; all zero without any.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Self::default() };
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 };
        Self { median, min: *min, max: *max }.rounded()
    }

    /// Of one value.
    pub fn exactly(value: f64) -> Self {
        Self { median: value, min: value, max: value }.rounded()
    }

    /// (max − min) / median; 0 for a median of 0.
    pub fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median } else { 0.0 }
    }

    /// Three decimals: more would be invented.
    fn rounded(self) -> Self {
        let r = |x: f64| (x * 1000.0).round() / 1000.0;
        Self { median: r(self.median), min: r(self.min), max: r(self.max) }
    }
}

/// A measured quantity with its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Value over the runs.
    #[serde(flatten)]
    pub value: Spread,
    /// Unit, e.g. `B`, `packet/s`.
    pub unit: &'static str,
}

impl Metric {
    /// A metric.
    pub fn new(value: Spread, unit: &'static str) -> Self {
        Self { value, unit }
    }
}

/// Somebody else who did the same work in the same run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// As of the point itself.
    pub metrics: BTreeMap<&'static str, Metric>,
}

/// One sweep point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// Measurement.
    pub bench: &'static str,
    /// What an operation is, for the table's heading; empty: a packet.
    #[serde(skip)]
    pub op: &'static str,
    /// What was set.
    pub params: BTreeMap<&'static str, Value>,
    /// Nanoseconds an operation: a packet, unless the bench says otherwise.
    pub ns_per_op: Spread,
    /// Million operations a second, of the median.
    pub mops: f64,
    /// Memory allocations an operation; `null` where it cannot be known.
    pub allocs_per_op: Option<f64>,
    /// Everything else.
    pub metrics: BTreeMap<&'static str, Metric>,
    /// Others, measured in the same run.
    pub peers: Vec<Peer>,
    /// Measured runs.
    pub runs: usize,
    /// What disturbed the measurement.
    pub warnings: Vec<String>,
}

impl Point {
    /// Sets the times, and `mops` from them.
    pub fn set_ns(&mut self, ns: &[f64]) {
        self.ns_per_op = Spread::of(ns);
        self.mops = (1e6 / self.ns_per_op.median.max(1e-3)).round() / 1e3;
        self.runs = ns.len();
    }

    /// Warns of runs that lie too far apart to be trusted.
    pub fn warn_of_spread(&mut self) {
        if self.ns_per_op.relative() > SPREAD {
            self.warnings.push(format!("the runs differ by {:.0} %", self.ns_per_op.relative() * 100.0));
        }
    }
}

/// Where points go: standard output, as JSON lines or as a table.
#[derive(Debug)]
pub struct Sink {
    json: bool,
    header: Vec<&'static str>,
}

impl Sink {
    /// A sink; `json`: nothing but JSON on standard output.
    pub fn new(json: bool) -> Self {
        Self { json, header: Vec::new() }
    }

    /// Tells a person what goes on.
    pub fn progress(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Prints a point.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn point(&mut self, point: &Point) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, point)?;
            return writeln!(out);
        }
        let varied: Vec<&'static str> = point.params.keys().copied().collect();
        if self.header != varied {
            for name in &varied {
                write!(out, "{name:>12} ")?;
            }
            let op = if point.op.is_empty() { "packet" } else { point.op };
            let (ns, millions) = (format!("ns/{op}"), format!("M{op}/s"));
            writeln!(out, "{ns:>10} {:>8} {:>8} {millions:>9} {:>10}", "min", "max", "allocs")?;
            self.header = varied;
        }
        for value in point.params.values() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            write!(out, "{text:>12} ")?;
        }
        let ns = &point.ns_per_op;
        let allocs = point.allocs_per_op.map_or_else(|| "-".to_owned(), |a| format!("{a:.4}"));
        writeln!(
            out,
            "{:>10.1} {:>8.1} {:>8.1} {:>9.3} {allocs:>10}",
            ns.median, ns.min, ns.max, point.mops
        )?;
        for (name, metric) in &point.metrics {
            let v = &metric.value;
            writeln!(out, "    {name}: {} ({} … {}) {}", v.median, v.min, v.max, metric.unit)?;
        }
        for peer in &point.peers {
            for (name, metric) in &peer.metrics {
                let v = &metric.value;
                writeln!(
                    out,
                    "    {} {name}: {} ({} … {}) {}",
                    peer.name, v.median, v.min, v.max, metric.unit
                )?;
            }
        }
        for warning in &point.warnings {
            writeln!(out, "    warning: {warning}")?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Spread::of(&[4.0, 1.0, 3.0, 2.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of(&[]), Spread::default());
        assert!((Spread::of(&[8.0, 10.0, 12.0]).relative() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_point_has_the_published_shape() {
        let mut point = Point { bench: "forward", ..Point::default() };
        point.set_ns(&[100.0, 125.0, 150.0]);
        point.params.insert("flows", 1000.into());
        point.metrics.insert("x", Metric::new(Spread::exactly(2.0), "B"));
        let text = serde_json::to_string(&point).expect("it has string keys");
        assert_eq!(
            text,
            r#"{"bench":"forward","params":{"flows":1000},"ns_per_op":{"median":125.0,"min":100.0,"max":150.0},"#
                .to_owned()
                + r#""mops":8.0,"allocs_per_op":null,"metrics":{"x":{"median":2.0,"min":2.0,"max":2.0,"unit":"B"}},"#
                + r#""peers":[],"runs":3,"warnings":[]}"#
        );
    }
}
