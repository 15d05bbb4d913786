//! Walking a table of a user's file.

mod known;
mod nested;
mod scalar;

pub use known::KnownKeys;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Document;
use crate::overrides::joined;
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
    /// The key of `node`, or keys, of a table that is not written.
    unwritten: String,
    known: Vec<&'static str>,
    all_known: Option<&'a KnownKeys>,
}

impl<'a> TableReader<'a> {
    pub(crate) fn new(document: &'a Document, diagnostics: &'a Diagnostics, node: NodeId) -> Self {
        Self { document, diagnostics, node, unwritten: String::new(), known: Vec::new(), all_known: None }
    }

    /// The reader of a table in this one.
    fn below(&self, node: NodeId) -> Self {
        Self { all_known: self.all_known, ..Self::new(self.document, self.diagnostics, node) }
    }

    /// Keeps the keys that this table and those in it may have.
    pub fn remembering(self, keys: &'a KnownKeys) -> Self {
        Self { all_known: Some(keys), ..self }
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
        self.find(key).is_some_and(|id| matches!(self.node(id).value, Value::Text(_) | Value::Given(_)))
    }

    /// Whether the key holds a table, for keys that take a short form beside one. Makes it known.
    pub fn is_table(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|id| matches!(self.node(id).value, Value::Table(_)))
    }

    /// Whether the key holds a list, for keys that take a lone value beside one. Makes it known.
    pub fn is_list(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|id| matches!(self.node(id).value, Value::Array(_)))
    }

    /// An error (to be pushed) about a key's value, or about the table if the key is absent.
    pub fn error(&mut self, key: &'static str, message: impl Into<String>) -> Diagnostic {
        match self.location_of(key) {
            Some(at) => self.document.error(at, message),
            None => self.document.lack(self.location(), key, message),
        }
    }

    /// Reports that a key is missing; `example` is what could be written. Silent if the table was damaged by an
    /// error of form, because the key may have been lost there.
    pub fn require(&mut self, key: &'static str, example: &str) {
        if self.find(key).is_some() || self.document.tree.is_damaged(self.node) {
            return;
        }
        let mut diagnostic = self.document.lack(self.location(), key, "is missing");
        if !example.is_empty() {
            diagnostic = diagnostic.hint(format!("Write for example {key} = {example}"));
        }
        self.diagnostics.push(diagnostic);
    }

    /// Reports every key that nobody asked for, with the known key that was probably meant.
    pub fn finish(self) {
        let children = if self.unwritten.is_empty() { self.document.tree.children(self.node) } else { &[] };
        let mut known = self.known.clone();
        known.sort_unstable();
        for &id in children {
            let Some(key) = self.document.tree.name(id) else { continue };
            if known.binary_search(&key).is_err() && !self.node(id).faulty_key {
                self.document.refuse(
                    self.diagnostics,
                    self.document.value_location(id),
                    self.unknown(id, key),
                );
            }
        }
        if let Some(all) = self.all_known {
            all.add(&self.path(), &self.known);
        }
    }

    /// Takes every key as known, for a part that is not walked because its context is wrong.
    pub fn skip(self) {}

    /// The error about a key that nobody asked for, which in a setting is a path that leads nowhere.
    fn unknown(&self, id: NodeId, key: &str) -> Diagnostic {
        let at = self.document.key_location(id);
        let (message, table) = match self.document.is_own(at) {
            true => ("is not a known key", String::new()),
            false => (self.document.form.unknown_path, self.path()),
        };
        let mut diagnostic = self.document.key_error(at, message);
        if !self.diagnostics.is_full() {
            let meant = did_you_mean(key, self.known.iter().copied());
            diagnostic = diagnostic.meant(meant.map(|meant| joined(&table, meant))).hint(
                match self.known.as_slice() {
                    [] => "No key is known here".into(),
                    known => format!("Known keys: {}", known.join(", ")),
                },
            );
        }
        diagnostic
    }

    /// The path of the table, also of one that is not written.
    fn path(&self) -> String {
        let path = self.document.key_path(self.location());
        if self.unwritten.is_empty() { path } else { joined(&path, &self.unwritten) }
    }

    fn find(&mut self, key: &'static str) -> Option<NodeId> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        if self.unwritten.is_empty() { self.document.tree.child(self.node, key) } else { None }
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

    /// Gives the error of form that is reported at a value this hint instead of its own.
    fn meant_at(&self, id: NodeId, hint: &str) {
        if self.node(id).faulty {
            let at = self.document.position(self.document.value_location(id));
            self.diagnostics.hint_at(at, hint);
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
        // Where a number does not fit, it has decimals or the key wants something else.
        Value::Given(text) if text.parse::<i128>().is_ok() => "an integer",
        Value::Given(text) if text.parse::<f64>().is_ok() => "a decimal number",
        Value::Text(_) | Value::Given(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
        Value::Invalid => "not readable",
    }
}
