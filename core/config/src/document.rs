//! A parsed file.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::reader::TableReader;
use crate::recover;
use crate::source::{Location, Position, Source};
use crate::syntax::{SyntaxError, SyntaxKind};
use crate::tree::{NodeId, ROOT, Tree, Value};
use std::ops::Range;

/// A larger file is refused.
pub const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;

/// Characters of a value that a message repeats at most.
const MAX_SHOWN: usize = 48;

/// A parsed file: its text, its values and their places.
#[derive(Debug)]
pub struct Document {
    pub(crate) source: Source,
    pub(crate) tree: Tree,
}

impl Document {
    /// Parses a file as far as it can be understood; errors of form are in the diagnostics, and the values around
    /// them are in the document. `file` is the name to show. A text above [`MAX_FILE_BYTES`] is not looked at.
    pub fn parse(file: &str, text: &str) -> (Self, Diagnostics) {
        let diagnostics = Diagnostics::new();
        let too_large = text.len() > MAX_FILE_BYTES;
        let source = Source::new(file, if too_large { "" } else { text });
        let (tree, errors) = recover::parse(&source);
        let document = Self { source, tree };
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

    /// Line and column of a place.
    pub fn position(&self, at: Location) -> Position {
        self.source.position(at.start as usize)
    }

    /// The object that a place belongs to (`class "voice"`, `class[2]` for the second without a name) and the path
    /// of its key inside the object (`queue.limit`). Either may be empty.
    pub fn path(&self, at: Location) -> (String, String) {
        let mut chain = Vec::new();
        let mut id = at.node;
        while id != ROOT {
            chain.push(id);
            id = self.tree.node(id).parent;
        }
        let (mut subject, mut key) = (String::new(), String::new());
        for id in chain.into_iter().rev() {
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
        let written = self.source.slice(node.span.clone());
        match &node.value {
            Value::Table(_) if !written.starts_with('{') => String::new(),
            Value::Array(_) if !written.starts_with('[') || self.is_header(node.span.start) => String::new(),
            Value::Text(text) if text.starts_with(|c: char| c.is_ascii_digit()) => shown(text),
            _ => shown(written),
        }
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

    /// The same diagnostic with a second place and what is there.
    #[must_use = "push it to the diagnostics"]
    pub fn with_secondary(
        &self,
        mut diagnostic: Diagnostic,
        at: Location,
        text: impl Into<String>,
    ) -> Diagnostic {
        diagnostic.secondary = Some((self.position(at), text.into()));
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
        self.source.slice(line.start..offset).trim().is_empty()
    }

    fn diagnostic(&self, severity: Severity, at: Location, message: String) -> Diagnostic {
        let (subject, key) = self.path(at);
        Diagnostic {
            severity,
            file: self.source.file.clone(),
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
        if let Some(hint) = hint {
            diagnostic = diagnostic.hint(hint);
        }
        diagnostic
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
