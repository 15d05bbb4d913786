//! Bars: a few groups side by side.

use super::axis::Axis;
use super::chart::{BOTTOM, HEIGHT, TOP, WIDTH, frame, heading, legend};
use super::plane::{LEFT, RIGHT, y_tick};
use super::{COLORS, coordinate, escape, svg_open};

/// A bar chart from zero (or the axis' minimum) upwards.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Unique in the page; letters, digits and hyphens.
    pub id: String,
    /// Heading inside the drawing.
    pub title: String,
    /// What there is to see, for those who cannot.
    pub description: String,
    /// Vertical axis.
    pub y: Axis,
    /// Names of the bars of every group, with their colours.
    pub names: Vec<(String, usize)>,
    /// Groups, left to right.
    pub groups: Vec<BarGroup>,
}

/// Bars that stand together.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// Text under the group.
    pub label: String,
    /// One value a name; what is not known has no bar.
    pub values: Vec<Option<f64>>,
}

impl BarChart {
    /// The chart as an `svg` element; every bar carries its value.
    pub fn to_svg(&self) -> String {
        let mut out = svg_open(&self.id, WIDTH, HEIGHT, &self.title, &self.description);
        out.push_str(&heading(&self.title));
        out.push_str(&legend(self.names.iter().map(|(name, color)| (name.as_str(), *color, false, true))));
        for (value, text) in self.y.ticks() {
            out.push_str(&y_tick(BOTTOM - self.y.position(value) * (BOTTOM - TOP), &text));
        }
        let room = (RIGHT - LEFT) / self.groups.len().max(1) as f64;
        for (i, group) in self.groups.iter().enumerate() {
            self.group(LEFT + i as f64 * room, room, group, &mut out);
        }
        out.push_str(&frame("", &self.y.label));
        out.push_str("</svg>");
        out
    }

    fn group(&self, left: f64, room: f64, group: &BarGroup, out: &mut String) {
        let width = (room * 0.7 / self.names.len().max(1) as f64).min(70.0);
        let start = left + (room - width * self.names.len() as f64) / 2.0;
        for (i, (value, (_, color))) in group.values.iter().zip(&self.names).enumerate() {
            let Some(value) = value.filter(|v| v.is_finite()) else { continue };
            let x = start + i as f64 * width;
            let top = BOTTOM - self.y.position(value) * (BOTTOM - TOP);
            out.push_str(&format!(
                r#"<path class="area f{}" d="M{} {BOTTOM}V{}h{}V{BOTTOM}z"/><text class="n" x="{}" y="{}" text-anchor="middle">{:.2}</text>"#,
                color % COLORS,
                coordinate(x + 2.0),
                coordinate(top),
                coordinate(width - 4.0),
                coordinate(x + width / 2.0),
                coordinate(top - 4.0),
                value + 0.0
            ));
        }
        out.push_str(&format!(
            r#"<text class="a" x="{}" y="253" text-anchor="middle">{}</text>"#,
            coordinate(left + room / 2.0),
            escape(&group.label)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_rise_to_their_values_and_unknown_ones_are_left_out() {
        let chart = BarChart {
            id: "b".into(),
            title: "score".into(),
            description: String::new(),
            y: Axis::linear("MOS", 0.0, 5.0),
            names: vec![("mean".into(), 0), ("worst".into(), 1)],
            groups: vec![BarGroup { label: "FIFO".into(), values: vec![Some(2.5), None] }],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("V144h66V236z") && svg.contains(">2.50</text>"), "{svg}");
        assert_eq!(svg.matches("z\"/>").count(), 3, "two legend boxes and one bar");
    }
}
