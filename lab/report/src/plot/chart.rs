//! Charts over two axes: lines, bands and marks.

use super::axis::Axis;
use super::legend::Legend;
use super::plane::{LEFT, Layer, Mark, Plane, RIGHT};
use super::{escape, svg_open};

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Unique in the page; letters, digits and hyphens.
    pub id: String,
    /// Heading inside the drawing.
    pub title: String,
    /// What there is to see, for those who cannot.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn, first at the bottom.
    pub layers: Vec<Layer>,
    /// Vertical lines with a word each.
    pub marks: Vec<Mark>,
}

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 280.0;
pub(super) const TOP: f64 = 52.0;
pub(super) const BOTTOM: f64 = 236.0;

impl Chart {
    /// The chart as an `svg` element.
    pub fn to_svg(&self) -> String {
        let legend = Legend::new(self.layers.iter().map(Layer::legend));
        let mut out = svg_open(&self.id, WIDTH, HEIGHT + legend.room(), &self.title, &self.description);
        out.push_str(&heading(&self.title));
        legend.open(&mut out);
        let plane = Plane { x: &self.x, y: &self.y, top: TOP, bottom: BOTTOM };
        plane.y_ticks(&mut out);
        plane.x_ticks(&mut out);
        out.push_str(&frame(&self.x.label, &self.y.label));
        for layer in &self.layers {
            plane.layer(layer, &mut out);
        }
        for (i, mark) in self.marks.iter().enumerate() {
            plane.mark(i, mark, &mut out);
        }
        out.push_str("</g></svg>");
        out
    }
}

pub(super) fn heading(title: &str) -> String {
    format!(r#"<text class="h" x="{LEFT}" y="17">{}</text>"#, escape(title))
}

pub(super) fn frame(x_label: &str, y_label: &str) -> String {
    let middle = (TOP + BOTTOM) / 2.0;
    format!(
        r#"<path class="tick" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/><text class="a" x="{}" y="271" text-anchor="middle">{}</text><text class="a" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{}</text>"#,
        (LEFT + RIGHT) / 2.0,
        escape(x_label),
        escape(y_label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(layers: Vec<Layer>) -> Chart {
        Chart {
            id: "t".into(),
            title: "a < b".into(),
            description: "d".into(),
            x: Axis::linear("time, s", 0.0, 10.0),
            y: Axis::linear("delay, ms", 0.0, 100.0),
            layers,
            marks: vec![Mark { x: 5.0, label: "half".into() }, Mark { x: 50.0, label: "outside".into() }],
        }
    }

    #[test]
    fn a_line_goes_through_its_points_and_stops_at_gaps() {
        let points = vec![(0.0, 0.0), (5.0, 50.0), (6.0, f64::NAN), (10.0, 100.0)];
        let svg = chart(vec![Layer::Line { label: "x".into(), series: 7, points }]).to_svg();
        assert!(svg.contains(r#"<path class="line c1 d0" d="M58 236L303 144M548 52h.1"/>"#), "{svg}");
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
        assert!(svg.contains(">half</text>") && !svg.contains("outside"));
        assert!(svg.contains("time, s") && svg.contains("delay, ms"));
    }

    #[test]
    fn a_band_is_closed_and_held_inside_the_frame() {
        let points = vec![(0.0, 0.0, 100.0), (10.0, 50.0, 900.0)];
        let svg = chart(vec![Layer::Band { label: String::new(), series: 2, solid: true, points }]).to_svg();
        assert!(svg.contains(r#"<path class="area f2" d="M58 52L548 52L548 144L58 236Z"/>"#), "{svg}");
        assert_eq!(svg.matches(r#"class="area"#).count(), 1, "no legend for an empty label");
    }
}
