//! Several quantities over one horizontal axis, one under the other.

use super::axis::Axis;
use super::chart::{TOP, WIDTH, heading};
use super::legend::Legend;
use super::plane::{LEFT, Layer, Mark, Plane, RIGHT};
use super::{escape, svg_open};

/// Panels that share their horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// Unique in the page; letters, digits and hyphens.
    pub id: String,
    /// Heading inside the drawing.
    pub title: String,
    /// What there is to see, for those who cannot.
    pub description: String,
    /// Horizontal axis of all.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Vertical lines with a word each, drawn in the uppermost panel and continued below.
    pub marks: Vec<Mark>,
}

/// One quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn, first at the bottom. The legend is that of the uppermost panel.
    pub layers: Vec<Layer>,
}

/// Height of a panel, pixels.
const PANEL: f64 = 118.0;
/// Space between two panels, pixels.
const GAP: f64 = 16.0;

impl Panels {
    /// The drawing as an `svg` element.
    pub fn to_svg(&self) -> String {
        let count = self.panels.len() as f64;
        let end = TOP + count * PANEL + (count - 1.0).max(0.0) * GAP;
        let first = self.panels.first().into_iter().flat_map(|panel| &panel.layers);
        let legend = Legend::new(first.map(Layer::legend));
        let mut out = svg_open(&self.id, WIDTH, end + 44.0 + legend.room(), &self.title, &self.description);
        out.push_str(&heading(&self.title));
        legend.open(&mut out);
        for (i, panel) in self.panels.iter().enumerate() {
            let top = TOP + i as f64 * (PANEL + GAP);
            let plane = Plane { x: &self.x, y: &panel.y, top, bottom: top + PANEL };
            plane.y_ticks(&mut out);
            let middle = top + PANEL / 2.0;
            out.push_str(&format!(
                r#"<path class="tick" d="M{LEFT} {top}V{}H{RIGHT}"/><text class="a" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{}</text>"#,
                plane.bottom,
                escape(&panel.y.label)
            ));
            for layer in &panel.layers {
                plane.layer(layer, &mut out);
            }
            for (number, mark) in self.marks.iter().enumerate() {
                let word = if i == 0 { mark.label.clone() } else { String::new() };
                plane.mark(number, &Mark { x: mark.x, label: word }, &mut out);
            }
            if i + 1 == self.panels.len() {
                plane.x_ticks(&mut out);
            }
        }
        out.push_str(&format!(
            r#"<text class="a" x="{}" y="{}" text-anchor="middle">{}</text></g></svg>"#,
            (LEFT + RIGHT) / 2.0,
            end + 35.0,
            escape(&self.x.label)
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_share_the_horizontal_axis() {
        let panel = |label: &str| Panel {
            y: Axis::linear(label, 0.0, 10.0),
            layers: vec![Layer::Points {
                label: "a & b".into(),
                series: 0,
                points: vec![(0.0, 10.0), (10.0, 0.0)],
            }],
        };
        let svg = Panels {
            id: "p".into(),
            title: "t".into(),
            description: String::new(),
            x: Axis::exact("time, s", 0.0, 10.0),
            panels: vec![panel("rate"), panel("delay")],
            marks: vec![Mark { x: 5.0, label: "half".into() }],
        }
        .to_svg();
        // The same values at the same places across, 134 pixels further down.
        assert!(
            svg.contains(r#"d="M58 52h0M548 170h0""#) && svg.contains(r#"d="M58 186h0M548 304h0""#),
            "{svg}"
        );
        assert_eq!(svg.matches("time, s").count(), 1);
        assert_eq!((svg.matches("a &amp; b").count(), svg.matches(">half<").count()), (1, 1));
        assert_eq!(svg.matches(r#"class="mark" d="M303 "#).count(), 2);
    }
}
