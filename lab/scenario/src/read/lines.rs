//! Lines and columns of a text, as people count.

use perhop_config::Position;
use std::ops::Range;
use std::sync::Arc;

/// A text with the starts of its lines; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    text: Arc<str>,
    starts: Arc<[usize]>,
}

impl Lines {
    /// O(bytes).
    pub(crate) fn new(text: &str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1));
        Self { text: text.into(), starts: starts.collect() }
    }

    /// The text between two offsets; empty when they are not on character boundaries.
    pub(crate) fn slice(&self, span: Range<usize>) -> &str {
        self.text.get(span).unwrap_or("")
    }

    /// Line and column of a byte offset, both from 1, columns in characters. O(log lines + length of the line).
    pub(crate) fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|&s| s <= offset).saturating_sub(1);
        let before = self.slice(self.starts[line]..offset);
        let mark = usize::from(line == 0 && before.starts_with('\u{feff}'));
        let column = before.chars().count() + 1 - mark;
        Position { line: line as u32 + 1, column: column as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_the_byte_order_mark_has_none() {
        let lines = Lines::new("\u{feff}aé=1\n\nключ = x");
        assert_eq!(lines.position(3), Position { line: 1, column: 1 });
        assert_eq!(lines.position(6), Position { line: 1, column: 3 });
        assert_eq!(lines.position(9), Position { line: 2, column: 1 });
        let x = "\u{feff}aé=1\n\nключ = ".len();
        assert_eq!(lines.position(x), Position { line: 3, column: 8 });
        assert_eq!(lines.position(usize::MAX), Position { line: 3, column: 9 });
    }
}
