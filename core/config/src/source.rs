//! The text of a file and places in it.

use std::ops::Range;
use std::sync::Arc;

/// Bytes between two entries of the character index: a column costs at most this much counting.
const BLOCK: usize = 64;

/// A place in a file: a key or a value. Small and `Copy`; [`crate::Document`] turns it into a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Byte offset of the first character.
    pub(crate) start: u32,
    /// Byte offset after the last character.
    pub(crate) end: u32,
    /// The node of the document's tree that this place belongs to.
    pub(crate) node: u32,
}

/// A value together with the place where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub span: Location,
}

impl<T> Spanned<T> {
    /// The same place with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Spanned<U> {
        Spanned { value: f(self.value), span: self.span }
    }
}

/// A place as people count: the first line is 1, the first character of a line is in column 1, every character
/// (a tab, a letter with two bytes) is one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// The text of a file with an index from byte offsets to lines and columns.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: Arc<str>,
    pub(crate) text: String,
    /// Values given outside of the file; their offsets go on behind those of the text.
    given: String,
    line_starts: Vec<u32>,
    /// Characters before byte `i * BLOCK`.
    characters: Vec<u32>,
}

impl Source {
    /// Indexes `text`: O(bytes).
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let mut line_starts = vec![0];
        let mut characters = Vec::with_capacity(text.len() / BLOCK + 1);
        let mut count = 0u32;
        for (i, &b) in text.as_bytes().iter().enumerate() {
            if i % BLOCK == 0 {
                characters.push(count);
            }
            count += u32::from(starts_character(b));
            if b == b'\n' {
                line_starts.push(i as u32 + 1);
            }
        }
        if characters.is_empty() || text.len().is_multiple_of(BLOCK) {
            characters.push(count);
        }
        Self { file: file.into(), text: text.to_owned(), given: String::new(), line_starts, characters }
    }

    /// With values given outside of the file. Returns where each stands.
    pub(crate) fn give<'v>(&mut self, values: impl Iterator<Item = &'v str>) -> Vec<Range<usize>> {
        let mut add = |value: &str| {
            let start = self.text.len() + self.given.len();
            self.given.push_str(value);
            start..start + value.len()
        };
        values.map(&mut add).collect()
    }

    /// The text between two offsets; empty when they are not on character boundaries.
    pub(crate) fn slice(&self, span: Range<usize>) -> &str {
        let text = match span.start.checked_sub(self.text.len()) {
            Some(start) => self.given.get(start..span.end.saturating_sub(self.text.len())),
            None => self.text.get(span),
        };
        text.unwrap_or("")
    }

    /// Line and column of a byte offset: O(log lines). Offsets past the end count as the end.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.line_of(offset);
        let start = self.line_starts[line] as usize;
        let mut column = self.characters_before(offset) - self.characters_before(start) + 1;
        if line == 0 && offset > 0 && self.text.starts_with('\u{feff}') {
            column = column.saturating_sub(1).max(1);
        }
        Position { line: line as u32 + 1, column }
    }

    /// The line (from 0) that contains a byte offset.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&s| s as usize <= offset).saturating_sub(1)
    }

    /// The bytes of a line (from 0) without its line end; empty past the last line.
    pub(crate) fn line(&self, line: usize) -> Range<usize> {
        let Some(&start) = self.line_starts.get(line) else { return self.text.len()..self.text.len() };
        let start = start as usize;
        let end = self.line_starts.get(line + 1).map_or(self.text.len(), |&next| next as usize - 1);
        let end = if end > start && self.text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end };
        start..end
    }

    /// How many lines there are, at least one.
    pub(crate) fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    fn characters_before(&self, offset: usize) -> u32 {
        let block = (offset / BLOCK).min(self.characters.len() - 1);
        let rest = &self.text.as_bytes()[block * BLOCK..offset];
        self.characters[block] + rest.iter().filter(|&&b| starts_character(b)).count() as u32
    }
}

/// Line and column of a byte offset in any text. O(bytes).
pub fn position_in(text: &str, offset: usize) -> Position {
    Source::new("", text).position(offset)
}

/// Whether a byte is the first of a UTF-8 character.
fn starts_character(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_count_characters() {
        let s = Source::new("f", "a\tb\r\nключ = é x\n\nend");
        assert_eq!(s.position(2), Position { line: 1, column: 3 });
        let x = s.text.find('x').expect("there");
        assert_eq!(s.position(x), Position { line: 2, column: 10 });
        assert_eq!(s.position(s.text.len()), Position { line: 4, column: 4 });
        assert_eq!(&s.text[s.line(0)], "a\tb");
        assert_eq!(&s.text[s.line(2)], "");
        assert_eq!(&s.text[s.line(3)], "end");
    }

    #[test]
    fn byte_order_mark_has_no_width() {
        let s = Source::new("f", "\u{feff}ab\nc");
        assert_eq!(s.position(3), Position { line: 1, column: 1 });
        assert_eq!(s.position(4), Position { line: 1, column: 2 });
        assert_eq!(s.position(6), Position { line: 2, column: 1 });
    }

    proptest! {
        /// The index agrees with counting from the start, also across blocks.
        #[test]
        fn index_agrees_with_counting(piece in "[aé€😀\r\n\t]{0,40}", times in 0usize..400) {
            let text = piece.repeat(times);
            let s = Source::new("f", &text);
            let step = (text.chars().count() / 50).max(1);
            for (offset, _) in text.char_indices().step_by(step) {
                let before = &text[..offset];
                let line = before.matches('\n').count() as u32 + 1;
                let start = before.rfind('\n').map_or(0, |i| i + 1);
                let column = text[start..offset].chars().count() as u32 + 1;
                prop_assert_eq!(s.position(offset), Position { line, column });
            }
        }
    }
}
