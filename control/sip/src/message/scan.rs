//! Pieces of header values: white space, tokens, quoted strings, lists, parameters (RFC 3261 §25.1).
//!
//! A value may be folded over lines, so CR and LF count as white space here; where they may stand is checked when the lines of a
//! message are told apart.

/// Whether an octet is white space within a value.
pub(crate) const fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether an octet may be in a token.
pub(crate) const fn is_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric()
        || matches!(octet, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
}

/// `text` without white space around it.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        if !is_space(*first) {
            break;
        }
        text = rest;
    }
    while let [rest @ .., last] = text {
        if !is_space(*last) {
            break;
        }
        text = rest;
    }
    text
}

/// Whether all of it is a token.
pub(crate) fn token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&octet| is_token(octet))
}

/// The number that `text` is in whole, digits only; `None` beyond `most`.
pub(crate) fn number(text: &[u8], most: u64) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    text.iter().try_fold(0, add).filter(|number| *number <= most)
}

/// Length of the quoted string that `text` begins with, quotes included; `None` if it has no end.
pub(crate) fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    while let Some(octet) = text.get(at) {
        match octet {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Place of the first of `stops` outside quotes and angle brackets, or the end.
pub(crate) fn find(text: &[u8], stops: &[u8]) -> usize {
    let mut at = 0;
    let mut angle = false;
    while let Some(&octet) = text.get(at) {
        if !angle && stops.contains(&octet) {
            return at;
        }
        match octet {
            b'"' if !angle => match quoted(&text[at..]) {
                Some(len) => at += len - 1,
                None => return text.len(),
            },
            b'<' => angle = true,
            b'>' => angle = false,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Parts of a list that commas separate, each trimmed.
pub(crate) fn list(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = find(text, b",");
        rest = text.get(end + 1..);
        Some(trim(&text[..end]))
    })
}

/// `;name=value` parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub(crate) &'a [u8]);

impl<'a> Params<'a> {
    /// Names and values in their order; a value is empty where there is none, and keeps its quotes.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let text = rest.get(find(rest, b";") + 1..)?;
            let end = find(text, b";");
            rest = &text[end..];
            let part = &text[..end];
            let split = find(part, b"=");
            Some((trim(&part[..split]), trim(part.get(split + 1..).unwrap_or(&[]))))
        })
    }

    /// The value of the first parameter of this name; empty if it has none.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Whether all have names.
    pub(crate) fn are_named(self) -> bool {
        self.iter().all(|(name, _)| token(name))
    }
}
