//! What is wrong with a file, and the list of it.

use crate::source::Position;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// How many diagnostics of one file are kept; the rest are only counted.
pub const MAX_DIAGNOSTICS: usize = 100;

/// Whether a file can be used in spite of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file can be used, but probably does not do what its author wants.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong, in the form
/// `FILE:LINE:COLUMN: SUBJECT: KEY = VALUE MESSAGE;\n  HINT Allowed: ALLOWED.`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// Whether the file can still be used.
    pub severity: Severity,
    /// File as named by the user.
    pub file: Arc<str>,
    /// Where. Line 0 is no line: what is wrong was given outside of files, as the option `file`, and is displayed as
    /// `FILE KEY=VALUE: SUBJECT: MESSAGE`; the column is its place among its like.
    pub position: Position,
    /// The object concerned: `class "voice"`, or `class[2]` (the second) if it has no name; empty at top level.
    pub subject: String,
    /// Path of the key inside the subject: `queue.limit`; empty if the whole subject is meant.
    pub key: String,
    /// The value given, as written, shortened; empty if none is meant.
    pub value: String,
    /// What is wrong, as the predicate of the sentence that begins with the key.
    pub message: String,
    /// The allowed range or list.
    pub allowed: Option<String>,
    /// Why it is wrong and what to do about it.
    pub hint: Option<String>,
    /// Another place that belongs to the matter, and what is there.
    pub secondary: Option<(Position, String)>,
}

/// A field of a diagnostic in a form that any serialiser can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A string.
    Text(&'a str),
    /// A number.
    Number(u64),
}

impl Diagnostic {
    /// With another key path than the place's own.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// With another value, or none (`""`), than the one written at the place.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.value = value.into();
        self
    }

    /// With the allowed range or list.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    /// With the reason and the remedy; a second call adds a sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl AsRef<str>) -> Self {
        let text = sentence(hint.as_ref());
        self.hint = Some(match self.hint.take() {
            Some(before) => format!("{before} {text}"),
            None => text,
        });
        self
    }

    /// With the question whether that was meant, if anything probably was.
    #[must_use]
    pub fn meant(self, name: Option<impl fmt::Display>) -> Self {
        match name {
            Some(name) => self.hint(format!("did you mean \"{name}\"?")),
            None => self,
        }
    }

    /// The fields that are set, by name, in a fixed order: `severity`, `file`, `line`, `column`, `subject`, `key`,
    /// `value`, `message`, `allowed`, `hint`, `secondary_line`, `secondary_column`, `secondary`.
    pub fn fields(&self) -> Vec<(&'static str, FieldValue<'_>)> {
        use FieldValue::{Number, Text};
        let mut out = vec![("severity", Text(self.severity.name())), ("file", Text(&self.file))];
        if self.position.line > 0 {
            out.push(("line", Number(self.position.line.into())));
            out.push(("column", Number(self.position.column.into())));
        }
        let texts = [("subject", &self.subject), ("key", &self.key), ("value", &self.value)];
        out.extend(texts.into_iter().filter(|(_, t)| !t.is_empty()).map(|(n, t)| (n, Text(t))));
        out.push(("message", Text(&self.message)));
        if let Some(allowed) = &self.allowed {
            out.push(("allowed", Text(allowed)));
        }
        if let Some(hint) = &self.hint {
            out.push(("hint", Text(hint)));
        }
        if let Some((position, text)) = &self.secondary {
            out.push(("secondary_line", Number(position.line.into())));
            out.push(("secondary_column", Number(position.column.into())));
            out.push(("secondary", Text(text)));
        }
        out
    }

    fn sort_key(&self) -> (Position, Severity, &str, &str) {
        (self.position, self.severity, &self.key, &self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_a_file = self.position.line > 0;
        match (in_a_file, self.value.is_empty()) {
            (true, _) => write!(f, "{}:{}:{}: ", self.file, self.position.line, self.position.column)?,
            (false, true) => write!(f, "{} {}: ", self.file, self.key)?,
            (false, false) => write!(f, "{} {}={}: ", self.file, self.key, self.value)?,
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        match (self.key.is_empty(), self.value.is_empty()) {
            _ if !in_a_file => {}
            (false, false) => write!(f, "{} = {} ", self.key, self.value)?,
            (false, true) => write!(f, "{} ", self.key)?,
            (true, false) => write!(f, "{} ", self.value)?,
            (true, true) => {}
        }
        f.write_str(&self.message)?;
        let allowed = self.allowed.as_ref().map(|a| format!("Allowed: {}", sentence(a)));
        match (&self.hint, allowed) {
            (None, None) => f.write_str(".")?,
            (Some(hint), None) => write!(f, ";\n  {hint}")?,
            (None, Some(allowed)) => write!(f, ";\n  {allowed}")?,
            (Some(hint), Some(allowed)) => write!(f, ";\n  {hint} {allowed}")?,
        }
        if let Some((position, text)) = &self.secondary {
            write!(f, "\n  {}:{}:{}: {}", self.file, position.line, position.column, sentence(text))?;
        }
        Ok(())
    }
}

/// Ends a sentence with a full stop if it has no end yet.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

/// All that is wrong with a file. Readers share it by reference.
#[derive(Debug, Default)]
pub struct Diagnostics {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    list: Vec<Diagnostic>,
    seen: HashSet<(Position, String, String)>,
    error_positions: HashSet<Position>,
    omitted_errors: usize,
    omitted_warnings: usize,
}

impl Diagnostics {
    /// Nothing wrong yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one, unless the same message about the same key at the same position is already there. Past
    /// [`MAX_DIAGNOSTICS`] it is only counted.
    pub fn push(&self, diagnostic: Diagnostic) {
        let state = &mut *self.state.borrow_mut();
        if diagnostic.severity == Severity::Error {
            state.error_positions.insert(diagnostic.position);
        }
        if state.list.len() >= MAX_DIAGNOSTICS {
            match diagnostic.severity {
                Severity::Error => state.omitted_errors += 1,
                Severity::Warning => state.omitted_warnings += 1,
            }
            return;
        }
        let identity = (diagnostic.position, diagnostic.key.clone(), diagnostic.message.clone());
        if state.seen.insert(identity) {
            state.list.push(diagnostic);
        }
    }

    /// Gives the errors at a position this hint instead of theirs.
    pub(crate) fn hint_at(&self, position: Position, hint: &str) {
        let state = &mut *self.state.borrow_mut();
        let there = |d: &&mut Diagnostic| d.severity == Severity::Error && d.position == position;
        state.list.iter_mut().filter(there).for_each(|d| d.hint = Some(sentence(hint)));
    }

    /// Whether further diagnostics are only counted, so that costly hints need not be worked out.
    pub fn is_full(&self) -> bool {
        self.state.borrow().list.len() >= MAX_DIAGNOSTICS
    }

    /// Whether there is nothing, not even a warning.
    pub fn is_empty(&self) -> bool {
        self.state.borrow().list.is_empty()
    }

    /// Whether there is any error, in O(1).
    pub fn has_errors(&self) -> bool {
        !self.state.borrow().error_positions.is_empty()
    }

    /// Whether an error was reported exactly at this position: what depends on the value there is not worth checking.
    pub fn has_error_at(&self, position: Position) -> bool {
        self.state.borrow().error_positions.contains(&position)
    }

    /// How many errors, counting those that were not kept.
    pub fn errors(&self) -> usize {
        let state = self.state.borrow();
        state.list.iter().filter(|d| d.severity == Severity::Error).count() + state.omitted_errors
    }

    /// How many warnings, counting those that were not kept.
    pub fn warnings(&self) -> usize {
        let state = self.state.borrow();
        state.list.iter().filter(|d| d.severity == Severity::Warning).count() + state.omitted_warnings
    }

    /// How many were counted but not kept.
    pub fn omitted(&self) -> usize {
        let state = self.state.borrow();
        state.omitted_errors + state.omitted_warnings
    }

    /// What was kept, by position.
    pub fn sorted(&self) -> Vec<Diagnostic> {
        let mut list = self.state.borrow().list.clone();
        list.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        list
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in self.sorted() {
            writeln!(f, "{diagnostic}")?;
        }
        match self.omitted() {
            0 => Ok(()),
            n => writeln!(f, "and {n} more."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(line: u32) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: "edge.toml".into(),
            position: Position { line, column: 9 },
            subject: "class \"voice\"".into(),
            key: "queue.limit".into(),
            value: "900 B".into(),
            message: "is below the MTU of port \"wan\" (1500 B)".into(),
            allowed: None,
            hint: Some("a full-size packet could never be queued. Use at least 1500 B, or \"30 ms\".".into()),
            secondary: None,
        }
    }

    #[test]
    fn form_of_the_design() {
        assert_eq!(
            example(14).to_string(),
            "edge.toml:14:9: class \"voice\": queue.limit = 900 B is below the MTU of port \"wan\" (1500 B);\n  \
             a full-size packet could never be queued. Use at least 1500 B, or \"30 ms\"."
        );
    }

    #[test]
    fn what_is_given_outside_of_files_is_its_own_place() {
        let set = Diagnostic {
            file: "--set".into(),
            position: Position { line: 0, column: 2 },
            subject: String::new(),
            key: "class.voice.queue".into(),
            hint: None,
            ..example(14)
        };
        assert_eq!(
            set.to_string(),
            "--set class.voice.queue=900 B: is below the MTU of port \"wan\" (1500 B)."
        );
        assert!(set.fields().iter().all(|(name, _)| !["line", "column"].contains(name)));
    }

    #[test]
    fn fields_are_named_and_typed() {
        let d = example(14);
        let fields = d.fields();
        assert_eq!(fields[2], ("line", FieldValue::Number(14)));
        assert_eq!(fields[6], ("value", FieldValue::Text("900 B")));
        assert!(fields.iter().all(|(name, _)| *name != "allowed"));
    }

    #[test]
    fn sorted_without_repetition_and_limited() {
        let all = Diagnostics::new();
        for line in (1..=MAX_DIAGNOSTICS as u32 + 5).rev() {
            all.push(example(line));
            all.push(example(line));
        }
        let list = all.sorted();
        assert_eq!(list.len(), MAX_DIAGNOSTICS);
        assert!(list.windows(2).all(|w| w[0].position < w[1].position));
        assert_eq!(all.errors(), all.omitted() + MAX_DIAGNOSTICS);
        assert!(all.to_string().ends_with("more.\n"));
    }
}
