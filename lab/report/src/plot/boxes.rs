//! Box plots: how far repetitions of the same thing lie apart.

use super::axis::Axis;
use super::chart::{BOTTOM, HEIGHT, TOP, WIDTH, frame, heading};
use super::legend::{Key, Legend};
use super::plane::{LEFT, RIGHT, y_tick};
use super::{COLORS, coordinate, dots_class, escape, line_class, svg_open};

/// Smallest, lower quartile, median, upper quartile, largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FiveNumbers(pub [f64; 5]);

impl FiveNumbers {
    /// The five numbers of some values, quartiles by linear interpolation between ranks (type 7 of Hyndman and Fan,
    /// 1996). `None` without a finite value. O(n log n).
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let rank = share * last as f64;
            let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
            low + (high - low) * rank.fract()
        };
        Some(Self([0.0, 0.25, 0.5, 0.75, 1.0].map(at)))
    }
}

/// A box plot.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxChart {
    /// Unique in the page; letters, digits and hyphens.
    pub id: String,
    /// Heading inside the drawing.
    pub title: String,
    /// What there is to see, for those who cannot.
    pub description: String,
    /// Vertical axis.
    pub y: Axis,
    /// Names of the boxes of every group, with the numbers of their series.
    pub names: Vec<(String, usize)>,
    /// Groups, left to right.
    pub groups: Vec<BoxGroup>,
}

/// Boxes that stand together.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxGroup {
    /// Text under the group.
    pub label: String,
    /// The values of one box a name; no values, no box.
    pub values: Vec<Vec<f64>>,
}

impl BoxChart {
    /// The chart as an `svg` element: box from quartile to quartile, line at the median, whiskers to the extremes, a
    /// dot for every value.
    pub fn to_svg(&self) -> String {
        let legend = Legend::new(self.names.iter().map(|(name, series)| (name.as_str(), Key::Line(*series))));
        let mut out = svg_open(&self.id, WIDTH, HEIGHT + legend.room(), &self.title, &self.description);
        out.push_str(&heading(&self.title));
        legend.open(&mut out);
        for (value, text) in self.y.ticks() {
            out.push_str(&y_tick(self.py(value), &text));
        }
        let room = (RIGHT - LEFT) / self.groups.len().max(1) as f64;
        for (i, group) in self.groups.iter().enumerate() {
            self.group(LEFT + i as f64 * room, room, group, &mut out);
        }
        out.push_str(&frame("", &self.y.label));
        out.push_str("</g></svg>");
        out
    }

    fn py(&self, value: f64) -> f64 {
        BOTTOM - self.y.position(value) * (BOTTOM - TOP)
    }

    fn group(&self, left: f64, room: f64, group: &BoxGroup, out: &mut String) {
        let width = (room * 0.8 / self.names.len().max(1) as f64).min(36.0);
        let start = left + (room - width * self.names.len() as f64) / 2.0;
        for (i, (values, (_, series))) in group.values.iter().zip(&self.names).enumerate() {
            let Some(five) = FiveNumbers::of(values) else { continue };
            let (color, line, dots) = (series % COLORS, line_class(*series), dots_class(*series));
            let (x, inner) = (start + i as f64 * width + width * 0.1, width * 0.8);
            let middle = coordinate(x + inner / 2.0);
            let [least, low, median, high, most] = five.0.map(|v| coordinate(self.py(v)));
            let (x, right) = (coordinate(x), coordinate(x + inner));
            out.push_str(&format!(
                r#"<path class="band f{color}" d="M{x} {low}H{right}V{high}H{x}Z"/><path class="{line}" d="M{x} {median}H{right}M{middle} {least}V{low}M{middle} {high}V{most}"/>"#
            ));
            let each = values.iter().filter(|v| v.is_finite());
            let each: String = each.map(|v| format!("M{middle} {}h0", coordinate(self.py(*v)))).collect();
            out.push_str(&format!(r#"<path class="{dots}" d="{each}"/>"#));
        }
        // About six pixels a letter at this size, as nothing measures text here.
        let letters = ((room / 6.0) as usize).max(2);
        let mut label: String = group.label.chars().take(letters).collect();
        if label.chars().count() < group.label.chars().count() {
            label.pop();
            label.push('…');
        }
        out.push_str(&format!(
            r#"<text class="a" x="{}" y="253" text-anchor="middle">{}</text>"#,
            coordinate(left + room / 2.0),
            escape(&label)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_hyndman_and_fan() {
        assert_eq!(FiveNumbers::of(&[4.0, 1.0, 3.0, 2.0]), Some(FiveNumbers([1.0, 1.75, 2.5, 3.25, 4.0])));
        assert_eq!(FiveNumbers::of(&[7.0]), Some(FiveNumbers([7.0; 5])));
        assert_eq!(FiveNumbers::of(&[f64::NAN]), None);
    }

    #[test]
    fn boxes_stand_at_their_values() {
        let chart = BoxChart {
            id: "b".into(),
            title: "t".into(),
            description: String::new(),
            y: Axis::linear("kbit/s", 0.0, 10.0),
            names: vec![("product".into(), 0), ("baseline".into(), 1)],
            groups: vec![BoxGroup { label: "voip".into(), values: vec![vec![0.0, 5.0, 10.0], Vec::new()] }],
        };
        let svg = chart.to_svg();
        // Quartiles at 2.5 and 7.5, the median in the middle of 52 … 236.
        assert!(svg.contains("190H299.4V98H270.6Z") && svg.contains("144H299.4"), "{svg}");
        assert_eq!(svg.matches("class=\"dots").count(), 1, "no box without values");
    }
}
