//! What all readers of a scenario file share: the values, the list of what is wrong, companion files, known keys.

use super::overrides::{left_out, setting_position};
use super::tree::{Id, NAMED, Origin, Tree, Value};
use crate::settings::UNKNOWN_PATH;
use perhop_config::{Diagnostic, Diagnostics, Position, Severity, did_you_mean, shown};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Gives the bytes of a companion file by its path relative to the scenario file, or says why it cannot.
pub type Companions<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

/// The context of a reading.
pub(super) struct Cx<'a> {
    pub(super) file: Arc<str>,
    pub(super) tree: &'a Tree,
    pub(super) diagnostics: &'a Diagnostics,
    pub(super) companions: &'a Companions<'a>,
    /// Something could not be parsed, so that what seems missing may have been there.
    pub(super) damaged: bool,
    /// The variant that is read, if it is one.
    pub(super) variant: Option<&'a str>,
    /// The keys that each table may have, by the table's path.
    pub(super) known: RefCell<BTreeMap<String, Vec<&'static str>>>,
}

/// A value with the node it was read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: Id,
}

impl<'a> Cx<'a> {
    pub(super) fn new(
        file: &str,
        tree: &'a Tree,
        diagnostics: &'a Diagnostics,
        companions: &'a Companions<'a>,
        damaged: bool,
    ) -> Self {
        Self {
            file: file.into(),
            tree,
            diagnostics,
            companions,
            damaged,
            variant: None,
            known: RefCell::default(),
        }
    }

    /// An error at a value; subject, key and value are taken from there. `message` is a predicate.
    pub(super) fn error(&self, at: Id, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Severity::Error, at, self.tree.node(at).span.start, message.into())
    }

    /// An error inside a text, at a byte offset of what its value is; at the value where that was written otherwise.
    pub(super) fn error_inside(&self, at: Id, text: &str, offset: usize, message: String) -> Diagnostic {
        let span = self.tree.node(at).span.clone();
        let begins = self.tree.lines.slice(span.clone()).find(text).filter(|_| offset < text.len());
        let start = span.start + begins.map_or(0, |begins| begins + offset);
        self.diagnostic(Severity::Error, at, start, message)
    }

    /// A file that the scenario names, as the user can open it: from where the scenario's own name leads.
    pub(super) fn path_of(&self, companion: &str) -> String {
        let folder = Path::new(&*self.file).parent().unwrap_or(Path::new(""));
        folder.join(companion).display().to_string()
    }

    /// A warning at a value.
    pub(super) fn warning(&self, at: Id, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Severity::Warning, at, self.tree.node(at).span.start, message.into())
    }

    /// An error at a key, without a value.
    pub(super) fn key_error(&self, at: Id, message: impl Into<String>) -> Diagnostic {
        let node = self.tree.node(at);
        let start = node.key.as_ref().map_or(node.span.start, |k| k.span.start);
        self.diagnostic(Severity::Error, at, start, message.into()).value("")
    }

    /// An error about a key that a table lacks.
    pub(super) fn lack(&self, table: Id, key: &str, message: impl Into<String>) -> Diagnostic {
        let diagnostic = self.error(table, message).value("");
        let path =
            if diagnostic.key.is_empty() { key.to_owned() } else { format!("{}.{key}", diagnostic.key) };
        diagnostic.key(path)
    }

    /// Reports one.
    pub(super) fn push(&self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether a value is a setting for all configurations, read in a variant: what it cannot be there is a warning.
    pub(super) fn is_foreign(&self, at: Id) -> bool {
        self.variant.is_some() && matches!(self.tree.node(at).origin, Origin::Setting { own: false, .. })
    }

    /// Reports that such a setting is left out, unless it is wrong everywhere; `why` says what is wrong with it.
    pub(super) fn leave_out(&self, at: Id, why: Diagnostic) {
        let place = self.error(at, why.message.clone());
        if !self.diagnostics.has_error_at(place.position) {
            let Diagnostic { hint, allowed, .. } = why;
            self.push(left_out(self.variant.unwrap_or(""), Diagnostic { hint, allowed, ..place }));
        }
    }

    /// Whether an error is already reported at this very value.
    pub(super) fn is_wrong(&self, at: Id) -> bool {
        let (_, position) = self.place(at, self.tree.node(at).span.start);
        matches!(self.tree.node(at).value, Value::Invalid) || self.diagnostics.has_error_at(position)
    }

    /// The same diagnostic with a second place and what is there.
    pub(super) fn with_secondary(&self, mut diagnostic: Diagnostic, at: Id, text: &str) -> Diagnostic {
        if self.tree.node(at).origin == Origin::File {
            diagnostic.secondary =
                Some((self.tree.lines.position(self.tree.node(at).span.start), text.into()));
        }
        diagnostic
    }

    /// An unknown name among candidates, with the one that was probably meant.
    pub(super) fn unknown(&self, at: Id, given: &str, what: &str, candidates: &[&str]) -> Diagnostic {
        let mut diagnostic = self.error(at, format!("is not {what} of this scenario"));
        if let Some(meant) = did_you_mean(given, candidates.iter().copied()) {
            diagnostic = diagnostic.hint(format!("did you mean \"{meant}\"?"));
        }
        match candidates.len() {
            0 => diagnostic.hint("The file declares none"),
            _ => diagnostic.allowed(list(candidates.iter().copied())),
        }
    }

    /// An unknown key, which in a setting is an unknown path.
    pub(super) fn unknown_key(&self, at: Id, known: &[&'static str]) -> Diagnostic {
        let name = self.tree.name(at);
        let meant = did_you_mean(name, known.iter().copied());
        let outside = self.tree.node(at).origin != Origin::File;
        let message = if outside { UNKNOWN_PATH } else { "is not a known key" };
        let parent = self.tree.path(self.tree.node(at).parent);
        let prefix = if outside && !parent.is_empty() { format!("{parent}.") } else { String::new() };
        let mut diagnostic = self.key_error(at, message);
        if let Some(meant) = meant {
            diagnostic = diagnostic.hint(format!("did you mean \"{prefix}{meant}\"?"));
        }
        diagnostic.hint(match known {
            [] => "No key is known here".to_owned(),
            known => format!("Known keys: {}", known.join(", ")),
        })
    }

    /// The value as the user wrote it, shortened; quantities without their quotes. Empty for tables with a header.
    pub(super) fn as_written(&self, at: Id) -> String {
        let node = self.tree.node(at);
        let written = self.tree.lines.slice(node.span.clone());
        let in_file = !matches!(node.origin, Origin::Setting { .. });
        match &node.value {
            Value::Given(text) => shown(text),
            Value::Text(text) if text.starts_with(|c: char| c.is_ascii_digit()) => shown(text),
            Value::Text(text) if !in_file => shown(&format!("\"{text}\"")),
            _ if !in_file => String::new(),
            Value::Table(_) if !written.starts_with('{') => String::new(),
            Value::Array(_) if !written.starts_with('[') || written.starts_with("[[") => String::new(),
            _ => shown(written),
        }
    }

    /// File and position that a message about an offset of a node names.
    fn place(&self, at: Id, offset: usize) -> (Arc<str>, Position) {
        match self.tree.node(at).origin {
            Origin::Setting { index, .. } => ("--set".into(), setting_position(index)),
            _ => (self.file.clone(), self.tree.lines.position(offset)),
        }
    }

    fn diagnostic(&self, severity: Severity, at: Id, offset: usize, message: String) -> Diagnostic {
        let (file, position) = self.place(at, offset);
        let (subject, key) = match &self.tree.node(at).origin {
            Origin::File => self.subject(at),
            Origin::Variant { name } => (format!("variant \"{}\"", shown(name)), self.tree.path(at)),
            Origin::Setting { own, .. } => match self.variant.map(shown) {
                None => (String::new(), self.tree.path(at)),
                Some(name) if *own => (String::new(), format!("variants.{name}.{}", self.tree.path(at))),
                Some(name) => (format!("variant \"{name}\""), self.tree.path(at)),
            },
        };
        Diagnostic {
            severity,
            file,
            position,
            subject,
            key,
            value: self.as_written(at),
            message,
            allowed: None,
            hint: None,
            secondary: None,
        }
    }

    /// The object that a value belongs to (`link "core"`, `link "core", change[2]`) and the path of its key there.
    pub(super) fn subject(&self, at: Id) -> (String, String) {
        let chain = self.tree.chain(at);
        let (mut subject, mut key) = (String::new(), String::new());
        let mut chain = chain.as_slice();
        if let [first, second, rest @ ..] = chain
            && NAMED.contains(&self.tree.name(*first))
        {
            let kind = match self.tree.name(*first) {
                "variants" => "variant",
                kind => kind,
            };
            subject = format!("{kind} \"{}\"", shown(self.tree.name(*second)));
            chain = rest;
        }
        for id in chain {
            let node = self.tree.node(*id);
            if let Some(k) = &node.key {
                if !key.is_empty() {
                    key.push('.');
                }
                key.push_str(&shown(&k.name));
                continue;
            }
            let table = matches!(node.value, Value::Table(_));
            key.push_str(&format!("[{}]", node.index + 1));
            if table {
                if !subject.is_empty() {
                    subject.push_str(", ");
                }
                subject.push_str(&std::mem::take(&mut key));
            }
        }
        (subject, key)
    }
}

/// Names for a message, at most a dozen: `"a", "b"`.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut shown_names: Vec<String> = names.iter().take(12).map(|n| format!("\"{}\"", shown(n))).collect();
    if names.len() > 12 {
        shown_names.push(format!("and {} more", names.len() - 12));
    }
    shown_names.join(", ")
}
