//! A small scanner of Rust text: tells code, comments and literals apart, finds brackets and test modules.
//!
//! It does not parse. It knows exactly as much as the checks need: where strings, characters and (nested) comments
//! begin and end, so that a word or a bracket inside one of them is never taken for code.

use std::ops::Range;

/// A Rust file in two layers of the same shape: what is not in a layer is blank there, line breaks are kept.
#[derive(Debug)]
pub struct Source {
    /// Code without comments and without the content of literals.
    pub code: String,
    /// Comments (with their slashes) alone.
    pub comments: String,
    /// Lines (0-based, half open) that belong to test items.
    test_lines: Vec<Range<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Scans `text`; what is left open at the end extends to the end.
    pub fn new(text: &str) -> Source {
        let bytes = text.as_bytes();
        let mut code = vec![b' '; bytes.len()];
        let mut comments = vec![b' '; bytes.len()];
        let mut at = 0;
        while at < bytes.len() {
            let (end, layer) = piece(bytes, at);
            match layer {
                Layer::Code => code[at..end].copy_from_slice(&bytes[at..end]),
                Layer::Comment => comments[at..end].copy_from_slice(&bytes[at..end]),
                Layer::Literal => {}
            }
            at = end;
        }
        for (at, _) in bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
            code[at] = b'\n';
            comments[at] = b'\n';
        }
        let text_of = |layer: Vec<u8>| String::from_utf8_lossy(&layer).into_owned();
        let mut source = Source { code: text_of(code), comments: text_of(comments), test_lines: vec![] };
        source.test_lines = source.find_tests();
        source
    }

    /// Whether a line (0-based) belongs to an item under `#[cfg(test)]`.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// 0-based line of a byte offset of [`Source::code`].
    pub fn line_of(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// Identifiers and keywords of the code with their offsets.
    pub fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        words(&self.code)
    }

    /// Offset of the bracket that closes the one at `open`, else the end of the text.
    pub fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
        self.code.len()
    }

    /// Offset of the first `{` after `from` outside other brackets; `None` when a `;` comes first or nothing does.
    pub fn body(&self, from: usize) -> Option<usize> {
        let bytes = self.code.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            match bytes[at] {
                b'{' => return Some(at),
                b';' => return None,
                b'(' | b'[' => at = self.closing(at),
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn find_tests(&self) -> Vec<Range<usize>> {
        self.code
            .match_indices("#[cfg(test)]")
            .map(|(at, attribute)| {
                let item = at + attribute.len();
                let end = self.body(item).map_or(item, |open| self.closing(open));
                self.line_of(at)..self.line_of(end) + 1
            })
            .collect()
    }
}

/// Identifiers, keywords and numbers of `text` with their offsets.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length);
        at = end;
        Some((start, &text[start..end]))
    })
}

/// End and layer of the piece of text that begins at `at`.
fn piece(bytes: &[u8], at: usize) -> (usize, Layer) {
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => (find(bytes, at, b'\n'), Layer::Comment),
        b'/' if bytes.get(at + 1) == Some(&b'*') => (block_comment(bytes, at), Layer::Comment),
        b'"' => (string(bytes, at), Layer::Literal),
        b'\'' => character(bytes, at),
        byte if byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii() => word(bytes, at),
        _ => (at + 1, Layer::Code),
    }
}

/// A word; a raw string when the word is its prefix. (`b"…"` and `c"…"` end as any string does.)
fn word(bytes: &[u8], at: usize) -> (usize, Layer) {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let end = at + bytes[at..].iter().take_while(|byte| in_word(byte)).count();
    if matches!(&bytes[at..end], b"r" | b"br" | b"cr") {
        let hashes = bytes[end..].iter().take_while(|&&byte| byte == b'#').count();
        if bytes.get(end + hashes) == Some(&b'"') {
            return (raw_string(bytes, end + hashes + 1, hashes), Layer::Literal);
        }
    }
    (end, Layer::Code)
}

fn raw_string(bytes: &[u8], from: usize, hashes: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        let quote = find(bytes, at, b'"');
        let end = quote + 1 + hashes;
        if end <= bytes.len() && bytes[quote + 1..end].iter().all(|&byte| byte == b'#') {
            return end;
        }
        at = quote + 1;
    }
    bytes.len()
}

fn string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// A character literal, or the tick of a lifetime or a label.
fn character(bytes: &[u8], at: usize) -> (usize, Layer) {
    match bytes.get(at + 1) {
        Some(b'\\') => (find(bytes, at + 3, b'\'') + 1, Layer::Literal),
        Some(&first) => {
            let length = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
            };
            match bytes.get(at + 1 + length) {
                Some(b'\'') => (at + 2 + length, Layer::Literal),
                _ => (at + 1, Layer::Code),
            }
        }
        None => (at + 1, Layer::Code),
    }
    .clamped(bytes.len())
}

trait Clamped {
    fn clamped(self, end: usize) -> Self;
}

impl Clamped for (usize, Layer) {
    fn clamped(self, end: usize) -> Self {
        (self.0.min(end), self.1)
    }
}

fn block_comment(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0usize;
    let mut at = at;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 1;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 1;
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, wanted: u8) -> usize {
    let from = from.min(bytes.len());
    bytes[from..].iter().position(|&byte| byte == wanted).map_or(bytes.len(), |length| from + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_words(text: &str) -> Vec<String> {
        Source::new(text).words().map(|(_, word)| word.to_owned()).collect()
    }

    #[test]
    fn literals_and_comments_are_no_code() {
        assert_eq!(code_words(r#"let a = "fn x { \" }"; // fn y"#), ["let", "a"]);
        assert_eq!(code_words("let a = r#\"fn \" x\"#; b"), ["let", "a", "b"]);
        assert_eq!(code_words(r##"let a = br"\"; b = b'x'; c"##), ["let", "a", "b", "b", "c"]);
        assert_eq!(code_words("/* a /* b */ c */ d"), ["d"]);
        assert_eq!(code_words("r#type"), ["r", "type"]);
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        assert_eq!(
            code_words("fn f<'a>(x: &'a str) { '{'; '\\''; 'é'; '\\u{7b}' }"),
            ["fn", "f", "a", "x", "a", "str"]
        );
    }

    #[test]
    fn both_layers_keep_the_shape_of_the_text() {
        let text = "a // é\n\"x\ny\" b /* c\nd */ e\n";
        let source = Source::new(text);
        assert_eq!(source.code.lines().count(), text.lines().count());
        assert_eq!(source.comments.lines().count(), text.lines().count());
        assert!(source.comments.contains("é") && source.comments.contains("d */"));
        assert_eq!(source.line_of(source.code.find(" e").expect("e is code")), 3);
    }

    #[test]
    fn brackets_close_where_they_should() {
        let source = Source::new("fn f() -> [u8; 2] { if a { '}' } else { \"}\" } } fn g();");
        let open = source.body(2).expect("f has a body");
        assert_eq!(&source.code[open..=open], "{");
        assert_eq!(source.code[source.closing(open)..].trim_start_matches('}').trim(), "fn g();");
        assert_eq!(source.body(source.code.find("fn g").expect("g is there")), None);
    }

    #[test]
    fn test_items_are_known() {
        let source = Source::new("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        let lines: Vec<bool> = (0..6).map(|line| source.is_test_line(line)).collect();
        assert_eq!(lines, [false, true, true, true, true, false]);
    }

    #[test]
    fn any_text_is_scanned_to_its_end() {
        for text in ["'", "'\\", "\"", "r#\"", "/*", "/", "b'", "é'", "'é", "\"\\"] {
            assert_eq!(Source::new(text).code.len(), text.len(), "{text}");
        }
    }
}
