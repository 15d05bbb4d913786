//! A parsed file.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::form::Form;
use crate::overrides::{InFile, SETTING, VARIANTS, joined, setting_position};
use crate::reader::TableReader;
use crate::recover;
use crate::settings::Settings;
use crate::source::{Location, Position, Source};
use crate::syntax::{SyntaxError, SyntaxKind};
use crate::tree::{NodeId, Origin, ROOT, Tree, Value};
use std::ops::Range;
use std::sync::Arc;

/// A larger file is refused.
pub const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;

/// Characters of a value that a message repeats at most.
const MAX_SHOWN: usize = 48;

/// A parsed file: its text, its values and their places. A copy of it may have other values by
/// [paths](Document::configured).
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) source: Arc<Source>,
    pub(crate) tree: Tree,
    pub(crate) form: &'static Form,
    /// Paths, and where their values are in the source.
    pub(crate) settings: Arc<[(String, Range<usize>)]>,
    /// Whose values this has.
    pub(crate) variant: Option<String>,
    pub(crate) in_files: Vec<InFile>,
    is_damaged: bool,
}

impl Document {
    /// Parses a file as far as it can be understood; errors of form are in the diagnostics, and the values around
    /// them are in the document. `file` is the name to show. A text above [`MAX_FILE_BYTES`] is not looked at.
    pub fn parse(file: &str, text: &str) -> (Self, Diagnostics) {
        Self::parse_form(&Form::PLAIN, file, text, &Settings::new())
    }

    /// Like [`Document::parse`] for a kind of file with more than that: objects by name, variants, and values set by path,
    /// which [`Document::configured`] takes in.
    pub fn parse_form(
        form: &'static Form,
        file: &str,
        text: &str,
        settings: &Settings,
    ) -> (Self, Diagnostics) {
        let diagnostics = Diagnostics::new();
        let too_large = text.len() > MAX_FILE_BYTES;
        let mut source = Source::new(file, if too_large { "" } else { text });
        let (mut tree, errors) = recover::parse(&source);
        tree.nodes[ROOT as usize].damaged |= too_large;
        let paths = settings.iter().map(|(path, _)| path.to_owned());
        let settings = paths.zip(source.give(settings.iter().map(|(_, value)| value))).collect();
        let (source, variant, in_files) = (Arc::new(source), None, Vec::new());
        let is_damaged = too_large || !errors.is_empty();
        let document = Self { source, tree, form, settings, variant, in_files, is_damaged };
        for error in &errors {
            diagnostics.push(document.syntax_error(error));
        }
        if too_large {
            let message = format!("the file has {} bytes", text.len());
            let at = document.root_location();
            diagnostics.push(document.error(at, message).allowed(format!("at most {MAX_FILE_BYTES} bytes")));
        }
        (document, diagnostics)
    }

    /// The top-level table.
    pub fn root<'a>(&'a self, diagnostics: &'a Diagnostics) -> TableReader<'a> {
        TableReader::new(self, diagnostics, ROOT)
    }

    /// The file's name as given.
    pub fn file(&self) -> &str {
        &self.source.file
    }

    /// The start of the file, for what concerns the whole of it.
    pub fn root_location(&self) -> Location {
        Location { start: 0, end: 0, node: ROOT }
    }

    /// Whether the file has errors of form, so that what seems missing anywhere may have been there.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Line and column of a place; a setting has the line 0.
    pub fn position(&self, at: Location) -> Position {
        match self.tree.node(at.node).origin {
            Origin::Setting { index, .. } => setting_position(index),
            _ => self.source.position(at.start as usize),
        }
    }

    /// The path of a place as settings write it: `link.core.change[1].rate`.
    pub fn key_path(&self, at: Location) -> String {
        let steps = self.tree.chain(at.node).into_iter();
        steps.fold(String::new(), |path, id| match self.tree.name(id) {
            Some(key) => joined(&path, key),
            None => format!("{path}[{}]", self.tree.node(id).index + 1),
        })
    }

    /// The object that a place belongs to (`class "voice"`, `class[2]` for the second without a name) and the path
    /// of its key inside the object (`queue.limit`). Either may be empty. Of what a variant or a setting gives, the
    /// variant and the whole path.
    pub fn path(&self, at: Location) -> (String, String) {
        let variant = shown(self.variant.as_deref().unwrap_or(""));
        match self.tree.node(at.node).origin {
            Origin::File => self.path_in_file(at),
            Origin::Setting { own: true, .. } if !variant.is_empty() => {
                (String::new(), format!("{VARIANTS}.{variant}.{}", self.key_path(at)))
            }
            _ if variant.is_empty() => (String::new(), self.key_path(at)),
            _ => (format!("variant \"{variant}\""), self.key_path(at)),
        }
    }

    fn path_in_file(&self, at: Location) -> (String, String) {
        let (mut subject, mut key) = (String::new(), String::new());
        let mut chain = self.tree.chain(at.node);
        if let [section, object, ..] = chain[..]
            && let Some(word) = self.tree.name(section).filter(|name| self.form.named.contains(name))
        {
            let word = if word == VARIANTS { "variant" } else { word };
            subject = format!("{word} \"{}\"", shown(self.tree.name(object).unwrap_or("")));
            chain.drain(..2);
        }
        for id in chain {
            let node = self.tree.node(id);
            if let Some(k) = &node.key {
                if !key.is_empty() {
                    key.push('.');
                }
                key.push_str(&shown(&k.name));
                continue;
            }
            let table = matches!(node.value, Value::Table(_));
            match table.then(|| self.name_of(id)).flatten() {
                Some(name) => key.push_str(&format!(" \"{}\"", shown(name))),
                None => key.push_str(&format!("[{}]", node.index + 1)),
            }
            if table {
                if !subject.is_empty() {
                    subject.push_str(", ");
                }
                subject.push_str(&std::mem::take(&mut key));
            }
        }
        (subject, key)
    }

    /// The value at a place as the user wrote it, shortened to 48 characters; quantities without their quotes.
    /// Empty for tables.
    pub fn as_written(&self, at: Location) -> String {
        let node = self.tree.node(at.node);
        let written = self.written(at);
        match &node.value {
            Value::Table(_) if !written.starts_with('{') => String::new(),
            Value::Array(_) if !written.starts_with('[') || self.is_header(node.span.start) => String::new(),
            Value::Text(text) if text.starts_with(|c: char| c.is_ascii_digit()) => shown(text),
            _ => shown(written),
        }
    }

    /// The whole text of a value as it is written, with its quotes; of a table with a header only that.
    pub fn written(&self, at: Location) -> &str {
        self.source.slice(self.tree.node(at.node).span.clone())
    }

    /// The place so many bytes behind the begin of a value.
    pub fn behind(&self, at: Location, bytes: usize) -> Location {
        Location { start: at.start.saturating_add(bytes as u32), ..at }
    }

    /// The text that a value is, if it is a string.
    pub fn text_of(&self, at: Location) -> Option<&str> {
        match &self.tree.node(at.node).value {
            Value::Text(text) | Value::Given(text) => Some(text),
            _ => None,
        }
    }

    /// How many keys a table or elements a list has; a lone value is one.
    pub fn count(&self, at: Location) -> usize {
        match &self.tree.node(at.node).value {
            Value::Table(children) | Value::Array(children) => children.len(),
            _ => 1,
        }
    }

    /// The key of a value; empty for an element of a list.
    pub fn name(&self, at: Location) -> &str {
        self.tree.name(at.node).unwrap_or("")
    }

    /// The value of a key of the table at a place.
    pub fn child(&self, table: Location, key: &str) -> Option<Location> {
        self.tree.child(table.node, key).map(|id| self.value_location(id))
    }

    /// Whether a value stands at its own place in the file: no variant and no setting gives it.
    pub fn is_own(&self, at: Location) -> bool {
        self.tree.node(at.node).origin == Origin::File
    }

    /// Whether an error is already reported at this very value.
    pub fn is_wrong(&self, at: Location, diagnostics: &Diagnostics) -> bool {
        matches!(self.tree.node(at.node).value, Value::Invalid) || diagnostics.has_error_at(self.position(at))
    }

    /// An error at a place; subject, key and value are taken from there. `message` is a predicate such as
    /// `is below the MTU of port "wan" (1500 B)`.
    #[must_use = "push it to the diagnostics"]
    pub fn error(&self, at: Location, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Severity::Error, at, message.into())
    }

    /// A warning at a place, like [`Document::error`].
    #[must_use = "push it to the diagnostics"]
    pub fn warning(&self, at: Location, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Severity::Warning, at, message.into())
    }

    /// An error at a key, without its value.
    #[must_use = "push it to the diagnostics"]
    pub fn key_error(&self, at: Location, message: impl Into<String>) -> Diagnostic {
        self.error(self.key_location(at.node), message).value("")
    }

    /// An error about a key that a table lacks.
    #[must_use = "push it to the diagnostics"]
    pub fn lack(&self, table: Location, key: &str, message: impl Into<String>) -> Diagnostic {
        let diagnostic = self.error(table, message).value("");
        let path = joined(&diagnostic.key, key);
        diagnostic.key(path)
    }

    /// The same diagnostic with a second place and what is there, if that is in the file.
    #[must_use = "push it to the diagnostics"]
    pub fn with_secondary(
        &self,
        mut diagnostic: Diagnostic,
        at: Location,
        text: impl Into<String>,
    ) -> Diagnostic {
        if !matches!(self.tree.node(at.node).origin, Origin::Setting { .. }) {
            diagnostic.secondary = Some((self.position(at), text.into()));
        }
        diagnostic
    }

    /// The place of a field inside the table at `table`: `queue.limit`, `prefixes[0]` (elements from 0, as in messages
    /// of the router). Of a path that is not written in the file, the place of the longest part that is; so a
    /// default's place is its table.
    pub fn lookup(&self, table: Location, path: &str) -> Location {
        let mut id = table.node;
        for step in path.split(['.', '[']).filter(|s| !s.is_empty()) {
            let index = step.strip_suffix(']').and_then(|i| i.parse::<usize>().ok());
            let next = match (&self.tree.node(id).value, index) {
                (Value::Array(elements), Some(i)) => elements.get(i).copied(),
                _ => self.tree.child(id, step),
            };
            match next {
                Some(next) => id = next,
                None => break,
            }
        }
        self.value_location(id)
    }

    /// Whether a field is written in the table at `table`; see [`Document::lookup`] for the path.
    pub fn is_written(&self, table: Location, path: &str) -> bool {
        let parent = path.rfind(['.', '[']).map_or("", |i| &path[..i]);
        self.lookup(table, path).node != self.lookup(table, parent).node
    }

    pub(crate) fn value_location(&self, id: NodeId) -> Location {
        location(self.tree.node(id).span.clone(), id)
    }

    pub(crate) fn key_location(&self, id: NodeId) -> Location {
        let node = self.tree.node(id);
        location(node.key.as_ref().map_or(node.span.clone(), |k| k.span.clone()), id)
    }

    /// The value of the key `name` of a table, if it is a text.
    pub(crate) fn name_of(&self, table: NodeId) -> Option<&str> {
        match &self.tree.node(self.tree.child(table, "name")?).value {
            Value::Text(name) if !name.is_empty() => Some(name),
            _ => None,
        }
    }

    fn is_header(&self, offset: usize) -> bool {
        let line = self.source.line(self.source.line_of(offset));
        self.source.text.get(line.start..offset).is_some_and(|before| before.trim().is_empty())
    }

    fn diagnostic(&self, severity: Severity, at: Location, message: String) -> Diagnostic {
        let (subject, key) = self.path(at);
        let file = match self.tree.node(at.node).origin {
            Origin::Setting { .. } => SETTING.into(),
            _ => self.source.file.clone(),
        };
        Diagnostic {
            severity,
            file,
            position: self.position(at),
            subject,
            key,
            value: self.as_written(at),
            message,
            allowed: None,
            hint: None,
            secondary: None,
        }
    }

    fn syntax_error(&self, error: &SyntaxError) -> Diagnostic {
        let written = shown(self.source.slice(error.span.clone()));
        let (message, hint) = error.kind.describe(&written);
        let section = self.tree.section(error.span.start);
        let node = match error.kind {
            SyntaxKind::UnclosedHeader
            | SyntaxKind::NoEquals
            | SyntaxKind::TableAfterArray
            | SyntaxKind::TooDeep => None,
            _ => self.tree.at(error.span.start),
        };
        let mut diagnostic = self.error(location(error.span.clone(), node.unwrap_or(section)), message);
        diagnostic.value = match error.kind {
            SyntaxKind::NoValue | SyntaxKind::Duplicate | SyntaxKind::UnclosedArray => String::new(),
            SyntaxKind::Other(_) | SyntaxKind::UnclosedTable | SyntaxKind::UnclosedText => String::new(),
            _ => written,
        };
        match error.kind {
            SyntaxKind::UnclosedHeader | SyntaxKind::TableAfterArray => {
                diagnostic.subject.clear();
                diagnostic.key.clear();
            }
            SyntaxKind::Duplicate => {
                let name = self.source.slice(error.span.clone());
                if let Some(first) = self.first_definition(error.span.start, name) {
                    diagnostic.secondary =
                        Some((self.source.position(first), "it is first given here".into()));
                }
                if node.is_none() {
                    diagnostic.key = shown(name);
                }
            }
            SyntaxKind::Other(_) if diagnostic.key.is_empty() => {
                diagnostic.message = diagnostic.message.replace("is not valid", "this is not valid");
            }
            _ => {}
        }
        let line = self.source.slice(self.source.line(self.source.line_of(error.span.start)));
        match error.kind.straighten(line).or(hint.as_deref()) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }

    /// Where a key or table header that is repeated at `again` was written first.
    fn first_definition(&self, again: usize, name: &str) -> Option<usize> {
        let line = self.source.line(self.source.line_of(again));
        let header = self.source.slice(line.clone()).trim();
        if header.starts_with('[') {
            let same = |l: &Range<usize>| self.source.slice(l.clone()).trim() == header;
            let first = (0..self.source.line_of(again)).map(|l| self.source.line(l)).find(same)?;
            return Some(first.start);
        }
        let mut table = self.tree.at(again).unwrap_or_else(|| self.tree.section(again));
        loop {
            let found = self.tree.child(table, name.trim_matches(['"', '\'']));
            let start = found.and_then(|f| self.tree.node(f).key.as_ref()).map(|k| k.span.start);
            if let Some(start) = start.filter(|&s| s < again) {
                return Some(start);
            }
            if table == ROOT {
                return None;
            }
            table = self.tree.node(table).parent;
        }
    }
}

pub(crate) fn location(span: Range<usize>, node: NodeId) -> Location {
    Location { start: span.start as u32, end: span.end as u32, node }
}

/// A text fit for one line of a message: first line, control characters escaped, shortened.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MAX_SHOWN || c == '\n' || c == '\r' {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_debug()) } else { out.push(c) }
    }
    out
}
