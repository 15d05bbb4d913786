//! What a drawing's lines, areas and dots stand for, in as many rows as that takes.

use super::plane::{LEFT, RIGHT};
use super::{COLORS, dots_class, escape, line_class};

/// Height of a row, pixels.
const ROW: f64 = 15.0;
/// From the beginning of an entry to its text, and from the end of its text to the next entry, pixels.
const MARGINS: [f64; 2] = [20.0, 14.0];
/// About the advance of the page's sans-serif at 11 px, as nothing measures text here.
const LETTER: f64 = 6.2;

/// What stands before a label: a sample of what has the number of this series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Line(usize),
    Area(usize),
    Dots(usize),
}

/// A legend below the heading. A drawing with more than one row of it is as much higher.
pub(super) struct Legend {
    entries: String,
    rows: usize,
}

impl Legend {
    /// The legend of these; without a label there is no entry.
    pub(super) fn new<'a>(all: impl Iterator<Item = (&'a str, Key)>) -> Self {
        let mut legend = Self { entries: String::new(), rows: 1 };
        let mut x = LEFT;
        for (label, key) in all.filter(|(label, _)| !label.is_empty()) {
            let label = shortened(label);
            let width = MARGINS[0] + LETTER * label.chars().count() as f64;
            if x > LEFT && x + width > RIGHT {
                (x, legend.rows) = (LEFT, legend.rows + 1);
            }
            legend.entry(x, key, &label);
            x += width + MARGINS[1];
        }
        legend
    }

    fn entry(&mut self, x: f64, key: Key, label: &str) {
        let y = 35.0 + (self.rows - 1) as f64 * ROW;
        self.entries.push_str(&match key {
            Key::Line(series) => format!(r#"<path class="{}" d="M{x} {y}h16"/>"#, line_class(series)),
            Key::Area(series) => {
                format!(r#"<path class="area f{}" d="M{x} {}h14v9h-14z"/>"#, series % COLORS, y - 5.0)
            }
            Key::Dots(series) => format!(r#"<path class="{}" d="M{} {y}h0"/>"#, dots_class(series), x + 7.0),
        });
        self.entries.push_str(&format!(
            r#"<text class="n" x="{}" y="{}">{}</text>"#,
            x + MARGINS[0],
            y + 4.0,
            escape(label)
        ));
    }

    /// What all below the legend is lower by, pixels.
    pub(super) fn room(&self) -> f64 {
        (self.rows - 1) as f64 * ROW
    }

    /// Draws it, and opens the group (`g`) that holds all below.
    pub(super) fn open(&self, out: &mut String) {
        out.push_str(&self.entries);
        match self.room() {
            0.0 => out.push_str("<g>"),
            room => out.push_str(&format!(r#"<g transform="translate(0 {room})">"#)),
        }
    }
}

/// What fits into a row; of a long label the end, which tells configurations apart.
fn shortened(label: &str) -> String {
    let most = ((RIGHT - LEFT - MARGINS[0]) / LETTER) as usize;
    match label.chars().count() {
        count if count > most => std::iter::once('…').chain(label.chars().skip(count + 1 - most)).collect(),
        _ => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_do_not_fit_begin_a_row_below_and_move_what_follows() {
        let of = |count: usize| {
            let legend = Legend::new((0..count).map(|i| ("twenty letters of name", Key::Line(i))));
            let mut out = String::new();
            legend.open(&mut out);
            (out, legend.room())
        };
        let (three, room) = of(2);
        assert!(three.ends_with("<g>") && room == 0.0, "{three}");
        let (seven, room) = of(7);
        assert!(seven.ends_with(r#"<g transform="translate(0 45)">"#) && room == 45.0, "{seven}");
        assert_eq!(seven.matches(r#" d="M58 "#).count(), 4, "{seven}");
        assert_eq!(seven.matches("twenty letters").count(), 7);
    }

    #[test]
    fn nothing_reaches_beyond_the_right_edge() {
        let long = format!("{}product", "x".repeat(200));
        let legend = Legend::new([("a", Key::Area(1)), (long.as_str(), Key::Dots(2))].into_iter());
        let text = legend.entries.rsplit('>').nth(1).and_then(|text| text.split('<').next()).unwrap();
        assert!(text.starts_with('…') && text.ends_with("product"), "{text}");
        assert!(LEFT + MARGINS[0] + LETTER * text.chars().count() as f64 <= RIGHT);
        assert_eq!(legend.rows, 2);
    }
}
