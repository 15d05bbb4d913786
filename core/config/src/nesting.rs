//! Brackets that a text leaves open.
//!
//! The parser recurses for each bracket that it takes as a value's, and its own limit can be led astray by brackets
//! in wrong places, so a text is only given to it if few enough brackets are open at once. Counting errs to the safe
//! side: a bracket of the wrong kind closes nothing here.

/// How many brackets may be open at once. A frame of the parser needs well below 1 KiB.
pub(crate) const MAX_OPEN: usize = 500;

/// Where more than [`MAX_OPEN`] brackets are open for the first time.
pub(crate) fn too_deep(text: &str) -> Option<usize> {
    let mut scan = Scan::new(text);
    while let Some(at) = scan.bracket() {
        if scan.open.len() > MAX_OPEN {
            return Some(at);
        }
    }
    None
}

/// The brackets that close what `text` leaves open, innermost first.
pub(crate) fn closers(text: &str) -> String {
    let mut scan = Scan::new(text);
    while scan.bracket().is_some() {}
    scan.open.iter().rev().map(|&b| char::from(b)).collect()
}

/// Reads a text as the tokens of TOML as far as brackets need it.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// The closing brackets that are awaited.
    open: Vec<u8>,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, open: Vec::new() }
    }

    /// Goes past the next bracket and returns its place.
    fn bracket(&mut self) -> Option<usize> {
        while let Some(&byte) = self.text.get(self.at) {
            let at = self.at;
            self.at += 1;
            match byte {
                b'[' => self.open.push(b']'),
                b'{' => self.open.push(b'}'),
                b']' | b'}' => {
                    if self.open.last() == Some(&byte) {
                        self.open.pop();
                    }
                }
                b'#' => {
                    self.skip_to(|b| b == b'\n' || b == b'\r');
                    continue;
                }
                b'"' | b'\'' => {
                    self.string(byte);
                    continue;
                }
                b'.' | b'=' | b',' | b' ' | b'\t' | b'\r' | b'\n' => continue,
                _ => {
                    // Quotes inside a word belong to the word.
                    self.skip_to(|b| b".=,[]{} \t#\r\n".contains(&b));
                    continue;
                }
            }
            return Some(at);
        }
        None
    }

    fn skip_to(&mut self, stop: impl Fn(u8) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|&b| stop(b)).unwrap_or(rest.len());
    }

    /// Goes past a string whose first quote is already read; an unclosed one of a single line ends with its line.
    fn string(&mut self, quote: u8) {
        let escapes = quote == b'"';
        let long = self.text[self.at..].starts_with(&[quote, quote]);
        if long {
            self.at += 2;
        }
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            if escapes && byte == b'\\' {
                if matches!(self.text.get(self.at), Some(b'\\' | b'"')) {
                    self.at += 1;
                }
            } else if !long && (byte == quote || byte == b'\n') {
                return;
            } else if long && byte == quote && self.text[self.at..].starts_with(&[quote, quote]) {
                self.at += 2;
                // Up to two more quotes belong to the string.
                for _ in 0..2 {
                    self.at += usize::from(self.text.get(self.at) == Some(&quote));
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_left_open() {
        assert_eq!(closers("[1, {a = \"]\", b = ['x' # ]"), "]}]");
        assert_eq!(closers("[[1], [2]"), "]");
        assert_eq!(closers("[ ]"), "");
        assert_eq!(closers("[ \"\"\"]\n\\\"\"\"\"\"\"  '''[''' {"), "}]");
        assert_eq!(closers("{ a = [ } ]"), "}");
        assert_eq!(closers("[ \"unclosed ]\n"), "]");
        assert_eq!(closers("it's [ 'x' ]"), "");
    }

    #[test]
    fn depth_is_limited() {
        assert_eq!(too_deep(&"[]".repeat(10_000)), None);
        assert_eq!(too_deep(&"[".repeat(MAX_OPEN)), None);
        assert_eq!(too_deep(&"a = {".repeat(MAX_OPEN + 1)), Some(MAX_OPEN * 5 + 4));
    }
}
