//! Where values lie in a drawing, and how layers are drawn there.

use super::axis::Axis;
use super::legend::Key;
use super::{COLORS, coordinate, dots_class, escape, line_class};

pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 548.0;

/// Something drawn. A point that is not a number interrupts it.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// A line.
    Line {
        /// Text in the legend, none if empty.
        label: String,
        /// Number of its series: colour and stroke.
        series: usize,
        /// x and y.
        points: Vec<(f64, f64)>,
    },
    /// The area between two lines.
    Band {
        /// Text in the legend, none if empty.
        label: String,
        /// Number of its series: colour.
        series: usize,
        /// Solid, for stacked areas; otherwise pale, for a range around a line.
        solid: bool,
        /// x, lower y, upper y.
        points: Vec<(f64, f64, f64)>,
    },
    /// A dot a point.
    Points {
        /// Text in the legend, none if empty.
        label: String,
        /// Number of its series: colour and kind of dot.
        series: usize,
        /// x and y.
        points: Vec<(f64, f64)>,
    },
}

impl Layer {
    /// Its entry in the legend.
    pub(super) fn legend(&self) -> (&str, Key) {
        match self {
            Self::Line { label, series, .. } => (label, Key::Line(*series)),
            Self::Band { label, series, .. } => (label, Key::Area(*series)),
            Self::Points { label, series, .. } => (label, Key::Dots(*series)),
        }
    }

    /// Largest value drawn along the vertical axis; `None` if nothing is drawn.
    pub fn highest(&self) -> Option<f64> {
        let highest =
            |values: &mut dyn Iterator<Item = f64>| values.filter(|v| v.is_finite()).reduce(f64::max);
        match self {
            Self::Line { points, .. } | Self::Points { points, .. } => {
                highest(&mut points.iter().map(|p| p.1))
            }
            Self::Band { points, .. } => highest(&mut points.iter().map(|p| p.2)),
        }
    }
}

/// A vertical line with a word.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What happened then.
    pub label: String,
}

/// A rectangle of the drawing with an axis along each side.
pub(super) struct Plane<'a> {
    pub(super) x: &'a Axis,
    pub(super) y: &'a Axis,
    /// Upper edge, pixels.
    pub(super) top: f64,
    /// Lower edge, pixels.
    pub(super) bottom: f64,
}

impl Plane<'_> {
    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.position(x) * (RIGHT - LEFT)
    }

    fn py(&self, y: f64) -> f64 {
        self.bottom - self.y.position(y) * (self.bottom - self.top)
    }

    fn pair(&self, x: f64, y: f64) -> String {
        format!("{} {}", coordinate(self.px(x)), coordinate(self.py(y)))
    }

    /// Horizontal lines with the values of the vertical axis.
    pub(super) fn y_ticks(&self, out: &mut String) {
        for (value, text) in self.y.ticks() {
            out.push_str(&y_tick(self.py(value), &text));
        }
    }

    /// Ticks with the values of the horizontal axis.
    pub(super) fn x_ticks(&self, out: &mut String) {
        for (value, text) in self.x.ticks() {
            let x = coordinate(self.px(value));
            out.push_str(&format!(
                r#"<path class="tick" d="M{x} {}v4"/><text class="n" x="{x}" y="{}" text-anchor="middle">{text}</text>"#,
                self.bottom,
                self.bottom + 14.0
            ));
        }
    }

    pub(super) fn layer(&self, layer: &Layer, out: &mut String) {
        match layer {
            Layer::Line { series, points, .. } => {
                let path = self.line_path(points);
                if !path.is_empty() {
                    out.push_str(&format!(r#"<path class="{}" d="{path}"/>"#, line_class(*series)));
                }
            }
            Layer::Band { series, solid, points, .. } => {
                let kind = if *solid { "area" } else { "band" };
                for run in points.split(|(x, low, high)| !(x + low + high).is_finite()) {
                    if !run.is_empty() {
                        let path = self.band_path(run);
                        out.push_str(&format!(r#"<path class="{kind} f{}" d="{path}"/>"#, series % COLORS));
                    }
                }
            }
            Layer::Points { series, points, .. } => {
                let whole = points.iter().filter(|(x, y)| (x + y).is_finite());
                // A line of no length has ends, and they make a dot.
                let path: String = whole.map(|(x, y)| format!("M{}h0", self.pair(*x, *y))).collect();
                if !path.is_empty() {
                    out.push_str(&format!(r#"<path class="{}" d="{path}"/>"#, dots_class(*series)));
                }
            }
        }
    }

    fn line_path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for run in points.split(|(x, y)| !(x + y).is_finite()) {
            for (i, (x, y)) in run.iter().enumerate() {
                path.push(if i == 0 { 'M' } else { 'L' });
                path.push_str(&self.pair(*x, *y));
            }
            // A lone point would be invisible.
            if run.len() == 1 {
                path.push_str("h.1");
            }
        }
        path
    }

    fn band_path(&self, run: &[(f64, f64, f64)]) -> String {
        let mut path = String::from("M");
        for (x, _, high) in run {
            path.push_str(&self.pair(*x, *high));
            path.push('L');
        }
        for (x, low, _) in run.iter().rev() {
            path.push_str(&self.pair(*x, *low));
            path.push('L');
        }
        path.pop();
        path.push('Z');
        path
    }

    /// A vertical line with a word, the `i`-th of the drawing; nothing outside the axis.
    pub(super) fn mark(&self, i: usize, mark: &Mark, out: &mut String) {
        if !mark.x.is_finite() || mark.x < self.x.min || mark.x > self.x.max {
            return;
        }
        let x = self.px(mark.x);
        // Words near the right edge go to the left of their line; neighbours sit on lines of their own.
        let (at, anchor) = if x > RIGHT - 120.0 { (x - 4.0, "end") } else { (x + 4.0, "start") };
        let y = self.top + 11.0 + (i % 3) as f64 * 13.0;
        out.push_str(&format!(
            r#"<path class="mark" d="M{} {}V{}"/><text class="m" x="{}" y="{y}" text-anchor="{anchor}">{}</text>"#,
            coordinate(x),
            self.top,
            self.bottom,
            coordinate(at),
            escape(&mark.label)
        ));
    }
}

pub(super) fn y_tick(y: f64, text: &str) -> String {
    let y_line = coordinate(y);
    format!(
        r#"<path class="grid" d="M{LEFT} {y_line}H{RIGHT}"/><text class="n" x="{}" y="{}" text-anchor="end">{text}</text>"#,
        LEFT - 6.0,
        coordinate(y + 4.0)
    )
}
