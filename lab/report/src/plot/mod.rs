//! A small plotter: lines, bands and boxes as inline SVG, without scripts, fonts or anything from outside.
//!
//! What belongs to one series has its number: its colour is the CSS class `c0` … `c5`, its strokes `d0` … `d6`, its dots
//! `k0` … `k3`, which the page defines for light and dark. An SVG taken out of the page keeps its shape and loses these.
//! Every chart has a title and a description for those who cannot see it.

mod axis;
mod boxes;
mod chart;
mod legend;
mod panels;
mod plane;

pub use axis::{Axis, Scale, ticks};
pub use boxes::{BoxChart, BoxGroup, FiveNumbers};
pub use chart::Chart;
pub use panels::{Panel, Panels};
pub use plane::{Layer, Mark};

/// Number of colours.
pub const COLORS: usize = 6;
/// Kinds of strokes, the first without gaps. With the colours, to which this number is coprime, they tell 42 lines apart.
pub const STROKES: usize = 7;
/// Kinds of dots, one for each round through the colours.
pub const DOTS: usize = 4;

/// A series whose lines have no gaps, of a colour.
pub const fn solid(color: usize) -> usize {
    color % COLORS * STROKES
}

/// Classes of the lines of a series: colour and stroke.
pub(crate) fn line_class(series: usize) -> String {
    format!("line c{} d{}", series % COLORS, series % STROKES)
}

/// Classes of the dots of a series: colour and kind.
pub(crate) fn dots_class(series: usize) -> String {
    format!("dots c{} k{}", series % COLORS, series / COLORS % DOTS)
}

/// Text safe inside HTML and SVG, in elements and in quoted attributes. Control characters become spaces.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with one decimal, which is a tenth of a pixel.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Opening of an accessible SVG of this size: title and description are its label.
pub(crate) fn svg_open(id: &str, width: f64, height: f64, title: &str, description: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-t {id}-d" xmlns="http://www.w3.org/2000/svg"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>"#,
        escape(title),
        escape(description)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<b a=\"x\" c='y'>&\u{7}é"), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp; é");
    }

    #[test]
    fn coordinates_are_short() {
        let texts: Vec<String> = [1.0, 1.25, -0.01, 100.04].map(coordinate).to_vec();
        assert_eq!(texts, ["1", "1.2", "0", "100"]);
    }
}
