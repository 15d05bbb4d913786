//! Errors of form, as the parser finds them, in the words of this project.

use crate::nesting::MAX_OPEN;
use crate::source::Source;
use std::ops::Range;

/// An error of form and its place in the user's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) span: Range<usize>,
    pub(crate) kind: SyntaxKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyntaxKind {
    /// A word or quantity without quotes.
    Unquoted,
    /// Something in the quotes of books: `“10 Mbit/s”`.
    Typographic,
    /// `True`, `yes` and the like.
    Boolean,
    /// `key =` and nothing.
    NoValue,
    /// A key and no `=`.
    NoEquals,
    UnclosedArray,
    UnclosedTable,
    UnclosedHeader,
    /// A string. One of a single line ends with its line; a multi-line one swallows the rest of the file.
    UnclosedText,
    /// A key or table given twice.
    Duplicate,
    /// `[name]` after `[[name]]`.
    TableAfterArray,
    /// More brackets are open than the parser is given.
    TooDeep,
    /// Anything else, in the parser's words.
    Other(String),
}

impl SyntaxKind {
    /// Whether what follows on the line is read in a wrong context.
    pub(crate) fn is_structural(&self) -> bool {
        !matches!(self, Self::Unquoted | Self::Typographic | Self::Boolean | Self::NoValue | Self::Duplicate)
    }

    /// What a word without quotes is.
    fn of_word(word: &str) -> Self {
        match word {
            _ if is_word_for_boolean(word) => Self::Boolean,
            _ if word.starts_with(is_typographic_quote) => Self::Typographic,
            _ => Self::Unquoted,
        }
    }

    /// What to do where the quotes on the line may be why strings end or begin nowhere.
    pub(crate) fn straighten(&self, line: &str) -> Option<&'static str> {
        let lost = matches!(self, Self::UnclosedText | Self::Other(_)) && line.contains(is_typographic_quote);
        lost.then_some("Typographic quotes are characters like others. Write straight ones: \"")
    }

    /// Message (a predicate if the place has a key), hint.
    pub(crate) fn describe(&self, written: &str) -> (String, Option<String>) {
        let quoted = || {
            let bare = written.replace(|c| c == '"' || c == '\\' || is_typographic_quote(c), "");
            format!("Write \"{}\"", bare.trim())
        };
        match self {
            Self::Unquoted => ("is not in quotes".into(), Some(quoted())),
            Self::Typographic => {
                ("is in typographic quotes".into(), Some(format!("{}, with straight quotes", quoted())))
            }
            Self::Boolean => ("is not a boolean".into(), Some("Write true or false".into())),
            Self::NoValue => ("has no value".into(), None),
            Self::NoEquals => ("is a key without a value".into(), Some("Write key = value".into())),
            Self::UnclosedArray => {
                ("is an array that is never closed".into(), Some("Add the missing ]".into()))
            }
            Self::UnclosedTable => {
                ("is a table that is never closed".into(), Some("Add the missing }".into()))
            }
            Self::UnclosedHeader => {
                ("is a header that is never closed".into(), Some("Add the missing ]".into()))
            }
            Self::UnclosedText => {
                ("is a string that is never closed".into(), Some("Add the missing quotes".into()))
            }
            Self::Duplicate => ("is given twice".into(), None),
            Self::TableAfterArray => (
                "is a single table, but the same name begins an array of tables above".into(),
                Some("Write two brackets on each side here too".into()),
            ),
            Self::TooDeep => (
                "opens too many brackets inside each other; the rest of the file is not read".into(),
                Some(format!("At most {MAX_OPEN} may be open at once. Close those above")),
            ),
            Self::Other(message) => (format!("is not valid TOML: {message}"), None),
        }
    }
}

/// Whether a character is a quote of books, which word processors and web pages put in place of `"`.
pub(crate) fn is_typographic_quote(c: char) -> bool {
    "“”„‟‘’‚‛«»‹›″＂".contains(c)
}

impl SyntaxError {
    /// Translates a message of the parser (`toml_parser` 1.1).
    pub(crate) fn new(span: Range<usize>, message: &str, source: &Source) -> Self {
        let begins = |start: &str| message.starts_with(start);
        let scalar = whole_scalar(source, span.start);
        if ["invalid float", "invalid integer", "invalid date", "invalid time"].iter().any(|m| begins(m))
            && looks_like_text(source.slice(scalar.clone()))
        {
            let kind = SyntaxKind::of_word(source.slice(scalar.clone()));
            return Self { span: scalar, kind };
        }
        let kind = if begins("string values must be quoted") {
            let written = source.slice(span.clone());
            if written.is_empty() { SyntaxKind::NoValue } else { SyntaxKind::of_word(written) }
        } else if begins("invalid boolean") {
            let written = source.slice(span.clone());
            let boolean = ["true", "false"].iter().any(|b| written.eq_ignore_ascii_case(b));
            if boolean { SyntaxKind::Boolean } else { SyntaxKind::Unquoted }
        } else if begins("key with no value") {
            SyntaxKind::NoEquals
        } else if begins("unclosed array table") || begins("unclosed table") {
            SyntaxKind::UnclosedHeader
        } else if begins("unclosed array") {
            SyntaxKind::UnclosedArray
        } else if begins("unclosed inline table") {
            SyntaxKind::UnclosedTable
        } else if is_unclosed_text(message, span.start, source) {
            SyntaxKind::UnclosedText
        } else if begins("duplicate key") {
            SyntaxKind::Duplicate
        } else {
            SyntaxKind::Other(message.trim_end_matches(", expected nothing").replace('`', "'"))
        };
        Self { span, kind }
    }
}

/// Whether a string has no end: on its line, or for a multi-line one up to the end of the file.
fn is_unclosed_text(message: &str, at: usize, source: &Source) -> bool {
    let multi_line = message.starts_with("invalid multi-line") && at >= source.text.trim_end().len();
    multi_line || message.starts_with("invalid basic string") || message.starts_with("invalid literal string")
}

/// Whether somebody who writes this means true or false.
fn is_word_for_boolean(word: &str) -> bool {
    ["yes", "no", "on", "off"].iter().any(|b| word.eq_ignore_ascii_case(b))
}

/// The value around a position: from behind `=`, `[`, `{` or `,` to before `,`, `]`, `}`, a comment or the line's end.
fn whole_scalar(source: &Source, at: usize) -> Range<usize> {
    let line = source.line(source.line_of(at));
    let at = at.clamp(line.start, line.end);
    let before = source.slice(line.start..at);
    let from = line.start + before.rfind(['=', '[', '{', ',']).map_or(0, |i| i + 1);
    let behind = source.slice(at..line.end);
    let to = at + behind.find([',', ']', '}', '#']).unwrap_or(behind.len());
    let text = source.slice(from..to);
    let lead = text.len() - text.trim_start().len();
    from + lead..from + lead + text.trim().len()
}

/// Whether a misread number or date is a text without quotes: it has a letter, a slash, a colon or three dots.
fn looks_like_text(scalar: &str) -> bool {
    scalar.contains(|c: char| c.is_alphabetic() || c == '/' || c == ':') || scalar.matches('.').count() >= 3
}
