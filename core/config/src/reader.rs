//! Walking a table of a user's file.

mod nested;
mod scalar;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{Document, shown};
use crate::source::Location;
use crate::suggest::did_you_mean;
use crate::tree::{Node, NodeId, Value};

/// Reads the keys of one table. Every key that is asked for counts as known; [`TableReader::finish`] reports the
/// rest. A getter returns `None` both for an absent key and for a value that is wrong (which it has reported);
/// [`TableReader::has`] tells the two apart.
#[derive(Debug)]
#[must_use = "finish() reports unknown keys"]
pub struct TableReader<'a> {
    document: &'a Document,
    diagnostics: &'a Diagnostics,
    node: NodeId,
    known: Vec<&'static str>,
}

impl<'a> TableReader<'a> {
    pub(crate) fn new(document: &'a Document, diagnostics: &'a Diagnostics, node: NodeId) -> Self {
        Self { document, diagnostics, node, known: Vec::new() }
    }

    /// The file.
    pub fn document(&self) -> &'a Document {
        self.document
    }

    /// Where what is wrong is collected.
    pub fn diagnostics(&self) -> &'a Diagnostics {
        self.diagnostics
    }

    /// The table's own place: its header, its braces, or its key if it is only implied.
    pub fn location(&self) -> Location {
        self.document.value_location(self.node)
    }

    /// Whether the key is there, right or wrong. Makes it known.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// The place of a key's value, if the key is there. Makes it known.
    pub fn location_of(&mut self, key: &'static str) -> Option<Location> {
        self.find(key).map(|id| self.document.value_location(id))
    }

    /// The place of a key itself, if it is there. Makes it known.
    pub fn key_location_of(&mut self, key: &'static str) -> Option<Location> {
        self.find(key).map(|id| self.document.key_location(id))
    }

    /// Whether the key holds a string, for keys that take a short form beside a table. Makes it known.
    pub fn is_text(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|id| matches!(self.node(id).value, Value::Text(_)))
    }

    /// Whether the key holds a table, for keys that take a short form beside one. Makes it known.
    pub fn is_table(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|id| matches!(self.node(id).value, Value::Table(_)))
    }

    /// An error (to be pushed) about a key's value, or about the table if the key is absent.
    pub fn error(&mut self, key: &'static str, message: impl Into<String>) -> Diagnostic {
        match self.location_of(key) {
            Some(at) => self.document.error(at, message),
            None => self.missing(key, message.into()),
        }
    }

    /// Reports that a key is missing; `example` is what could be written. Silent if the table was damaged by an
    /// error of form, because the key may have been lost there.
    pub fn require(&mut self, key: &'static str, example: &str) {
        if self.find(key).is_some() || self.document.tree.is_damaged(self.node) {
            return;
        }
        let mut diagnostic = self.missing(key, "is missing".into());
        if !example.is_empty() {
            diagnostic = diagnostic.hint(format!("Write for example {key} = {example}"));
        }
        self.diagnostics.push(diagnostic);
    }

    /// Reports every key that nobody asked for, with the known key that was probably meant.
    pub fn finish(self) {
        let Value::Table(children) = &self.document.tree.node(self.node).value else { return };
        let mut known = self.known.clone();
        known.sort_unstable();
        for &id in children {
            let node = self.document.tree.node(id);
            let Some(key) = &node.key else { continue };
            if known.binary_search(&key.name.as_str()).is_ok() || node.faulty_key {
                continue;
            }
            let at = self.document.key_location(id);
            let mut diagnostic = self.document.error(at, "is not a known key").value("");
            if !self.diagnostics.is_full() {
                if let Some(meant) = did_you_mean(&key.name, self.known.iter().copied()) {
                    diagnostic = diagnostic.hint(format!("did you mean \"{meant}\"?"));
                }
                diagnostic = diagnostic.hint(match self.known.as_slice() {
                    [] => "No key is known here".into(),
                    known => format!("Known keys: {}", known.join(", ")),
                });
            }
            self.diagnostics.push(diagnostic);
        }
    }

    /// Takes every key as known, for a part that is not walked because its context is wrong.
    pub fn skip(self) {}

    fn missing(&self, key: &str, message: String) -> Diagnostic {
        let diagnostic = self.document.error(self.location(), message).value("");
        let path =
            if diagnostic.key.is_empty() { key.to_owned() } else { format!("{}.{key}", diagnostic.key) };
        diagnostic.key(path)
    }

    fn find(&mut self, key: &'static str) -> Option<NodeId> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.document.tree.child(self.node, key)
    }

    fn node(&self, id: NodeId) -> &'a Node {
        self.document.tree.node(id)
    }

    /// Reports an error at a value unless an error of form is already reported there.
    fn report(
        &self,
        id: NodeId,
        describe: impl FnOnce(Diagnostic) -> Diagnostic,
        message: impl Into<String>,
    ) {
        if !self.node(id).faulty {
            let at = self.document.value_location(id);
            self.diagnostics.push(describe(self.document.error(at, message)));
        }
    }

    /// Reports a value of the wrong type.
    fn wrong_type(&self, id: NodeId, expected: &str) {
        let found = kind(&self.node(id).value);
        self.report(id, |d| d, format!("is {found}, expected {expected}"));
    }
}

/// What a value is, with an article.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Invalid => "not readable",
    }
}

/// A list of names for a message: `"a", "b"`.
fn quoted_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("\"{}\"", shown(n))).collect();
    quoted.join(", ")
}
