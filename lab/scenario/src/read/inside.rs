//! Values inside the files that a node names, router files and agents' files, set by path.

use super::cx::{Cx, list};
use super::lines::Lines;
use super::router_text::shifted;
use super::tree::{Id, Value};
use crate::settings::UNKNOWN_PATH;
use perhop_config::{Diagnostic, Position, Severity, did_you_mean};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A file whose values are set, and where it is written.
pub(super) struct Source<'a> {
    /// Its name in messages.
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    /// Where its first line stands in the scenario file, if it is written there.
    pub(super) first: Option<Position>,
}

impl Source<'_> {
    /// File and position of an offset of the text, as messages name them.
    fn place(&self, cx: &Cx<'_>, offset: usize) -> (std::sync::Arc<str>, Position) {
        let position = Lines::new(self.text).position(offset);
        match self.first {
            Some(first) => (cx.file.clone(), shifted(position, first)),
            None => (self.file.into(), position),
        }
    }
}

/// What is set inside the file of one node: path there, and the node of the value.
pub(super) fn entries(all: &[(Id, String, Id)], table: Id) -> Vec<(&str, Id)> {
    let of_table = all.iter().filter(|(of, ..)| *of == table);
    of_table.map(|(_, path, value)| (path.as_str(), *value)).collect()
}

/// Reads a file again with what is set inside it, and reports what is wrong with that; `read` gives what it is then and
/// what is to be said. A setting for all configurations that a variant's file has no place for is left out there.
pub(super) fn apply<T>(
    cx: &Cx<'_>,
    mut entries: Vec<(&str, Id)>,
    source: &Source<'_>,
    read: impl Fn(&str) -> (Option<T>, Vec<Diagnostic>),
) -> (Option<T>, String) {
    loop {
        let edited = Edited::new(cx, source.text, &entries);
        let (made, found) = read(&edited.text);
        let mut left_out = Vec::new();
        if let Some(error) = found.iter().find(|d| d.severity == Severity::Error) {
            let at_fault = |value| {
                found
                    .iter()
                    .find(|d| d.severity == Severity::Error && edited.setting(d.position) == Some(value))
            };
            let foreign = || entries.iter().map(|(_, value)| *value).filter(|value| cx.is_foreign(*value));
            left_out.extend(foreign().filter_map(|value| Some((value, at_fault(value)?))));
            if left_out.is_empty() {
                left_out.extend(foreign().map(|value| (value, error)));
            }
        }
        if left_out.is_empty() {
            for diagnostic in found {
                cx.push(edited.placed(cx, source, &entries, diagnostic));
            }
            return (made, edited.text);
        }
        for (value, why) in &left_out {
            cx.leave_out(*value, (*why).clone());
        }
        entries.retain(|(_, value)| !left_out.iter().any(|(left, _)| left == value));
    }
}

/// A stretch of the text that was put in place of another, from an offset on.
struct Edit {
    start: usize,
    old_len: usize,
    new_len: usize,
    value: Id,
}

/// A text with values changed.
struct Edited {
    text: String,
    edits: Vec<Edit>,
}

impl Edited {
    /// Changes one value after the other, and reports paths that lead nowhere.
    fn new(cx: &Cx<'_>, text: &str, entries: &[(&str, Id)]) -> Self {
        let mut edited = Self { text: text.to_owned(), edits: Vec::new() };
        for &(path, value) in entries {
            edited.change(cx, path, value);
        }
        edited
    }

    /// Changes one value; the path is KIND.NAME.KEY… or SECTION.KEY.
    fn change(&mut self, cx: &Cx<'_>, path: &str, value: Id) {
        let given = match &cx.tree.node(value).value {
            Value::Text(given) => quoted(given),
            Value::Given(given) if is_literal(given) => given.clone(),
            Value::Given(given) => quoted(given),
            _ => cx.tree.lines.slice(cx.tree.node(value).span.clone()).to_owned(),
        };
        let (span, new) = match find(&self.text, path) {
            Ok(Found::Value(span)) => (span, given),
            Ok(Found::Lacking { behind, key }) => (behind..behind, format!("\n{key} = {given}")),
            Ok(Found::LackingInline { behind, key, alone }) => {
                (behind..behind, format!(" {key} = {given}{}", if alone { " " } else { "," }))
            }
            Err(not_found) => {
                let diagnostic = not_found.describe(cx, value);
                if cx.is_foreign(value) {
                    cx.leave_out(value, diagnostic);
                } else {
                    cx.push(diagnostic);
                }
                return;
            }
        };
        self.text.replace_range(span.clone(), &new);
        self.edits.push(Edit { start: span.start, old_len: span.len(), new_len: new.len(), value });
    }

    /// The offset in the text before all changes, or the value that was put there.
    fn original(&self, position: Position) -> Result<usize, Id> {
        let mut offset = offset(&self.text, position);
        for edit in self.edits.iter().rev() {
            if offset >= edit.start + edit.new_len {
                offset = offset - edit.new_len + edit.old_len;
            } else if offset >= edit.start {
                return Err(edit.value);
            }
        }
        Ok(offset)
    }

    /// The value set at a position.
    fn setting(&self, position: Position) -> Option<Id> {
        self.original(position).err()
    }

    /// What is wrong with the changed text, at the places that the user wrote: a setting, or the file.
    fn placed(
        &self,
        cx: &Cx<'_>,
        source: &Source<'_>,
        entries: &[(&str, Id)],
        mut diagnostic: Diagnostic,
    ) -> Diagnostic {
        if let Some((position, text)) = diagnostic.secondary.take() {
            let place = match self.original(position) {
                Ok(offset) => {
                    let (file, at) = source.place(cx, offset);
                    format!("{file}:{}:{}", at.line, at.column)
                }
                Err(value) => cx.tree.path(value),
            };
            diagnostic = diagnostic.hint(format!("{place}: {text}"));
        }
        match self.original(diagnostic.position) {
            Ok(offset) => {
                (diagnostic.file, diagnostic.position) = source.place(cx, offset);
                let set = entries.iter().map(|(_, value)| cx.tree.path(*value)).collect::<Vec<_>>();
                diagnostic.hint(format!("So it is with what is set: {}", set.join(", ")))
            }
            Err(value) => {
                let known = diagnostic.message != "is not a known key";
                let message = if known { diagnostic.message } else { UNKNOWN_PATH.to_owned() };
                let Diagnostic { severity, allowed, hint, .. } = diagnostic;
                Diagnostic { severity, allowed, hint, ..cx.error(value, message) }
            }
        }
    }
}

/// Offset of a position in a text.
fn offset(text: &str, position: Position) -> usize {
    let before = text.split_inclusive('\n').take(position.line as usize - 1).map(str::len).sum::<usize>();
    let line = &text[before..];
    before + line.char_indices().nth(position.column as usize - 1).map_or(line.len(), |(at, _)| at)
}

/// The name that was probably meant; of names such as `PORT/CLASS` the last part alone is close enough.
pub(super) fn meant<'n>(given: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    let last = |name: &&str| name.rsplit_once('/').is_some_and(|(_, last)| last == given);
    names.clone().find(last).or_else(|| did_you_mean(given, names))
}

/// A text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a text is a number, a boolean, an array or a table of TOML.
fn is_literal(text: &str) -> bool {
    text.parse::<f64>().is_ok() || matches!(text, "true" | "false") || text.starts_with(['[', '{', '"'])
}

/// Where a value of a router file is.
pub(super) enum Found {
    /// There.
    Value(Range<usize>),
    /// Not written; it would stand behind this offset, under this key.
    Lacking { behind: usize, key: String },
    /// Not written; it would stand in braces that open before this offset, alone or with others behind it.
    LackingInline { behind: usize, key: String, alone: bool },
}

/// What could not be found, and what it could have been.
#[derive(Debug, Default)]
pub(super) struct NotFound {
    given: String,
    candidates: Vec<String>,
}

impl NotFound {
    fn new(given: &str, candidates: impl Iterator<Item = String>) -> Self {
        Self { given: given.to_owned(), candidates: candidates.collect() }
    }

    /// The error about the path of a value.
    fn describe(&self, cx: &Cx<'_>, value: Id) -> Diagnostic {
        let names = || self.candidates.iter().map(String::as_str);
        let mut diagnostic = cx.error(value, UNKNOWN_PATH);
        if let Some(meant) = meant(&self.given, names()) {
            diagnostic = diagnostic.hint(format!("did you mean \"{meant}\"?"));
        }
        if !self.candidates.is_empty() {
            diagnostic = diagnostic.allowed(list(names()));
        }
        diagnostic.hint("Inside such a file a path is KIND.NAME.KEY, such as port.core.rate")
    }
}

/// Finds a value in the text of a router file without errors; else the names that could have been meant.
pub(super) fn find(text: &str, path: &str) -> Result<Found, NotFound> {
    let root = DeTable::parse(text).map_err(|_| NotFound::default())?.into_inner();
    let (kind, rest) = path.split_once('.').ok_or_else(NotFound::default)?;
    let section = root.get(kind);
    let Some(section) = section else {
        return Err(NotFound::new(kind, root.keys().map(|k| k.get_ref().to_string())));
    };
    let (header, table, keys) = match section.get_ref() {
        DeValue::Table(table) => (section.span(), table, rest),
        DeValue::Array(tables) => {
            let named = |t: &DeTable<'_>| t.get("name").and_then(|n| n.get_ref().as_str().map(str::to_owned));
            let all = || tables.iter().filter_map(|t| Some((t.span(), t.get_ref().as_table()?)));
            // Names may have dots: the longest that fits is meant.
            let fits = |name: &str| rest.strip_prefix(name).and_then(|r| r.strip_prefix('.')).is_some();
            let found = all().filter(|(_, t)| named(t).is_some_and(|n| fits(&n)));
            let Some((span, table)) = found.max_by_key(|(_, t)| named(t).map_or(0, |n| n.len())) else {
                let given = rest.split('.').next().unwrap_or(rest);
                return Err(NotFound::new(given, all().filter_map(|(_, t)| named(t))));
            };
            let length = named(table).map_or(0, |n| n.len() + 1);
            (span, table, &rest[length..])
        }
        _ => return Err(NotFound::default()),
    };
    inside(text, header, table, keys)
}

fn inside(text: &str, header: Range<usize>, table: &DeTable<'_>, keys: &str) -> Result<Found, NotFound> {
    let (mut header, mut table) = (header, table);
    let mut steps = keys.split('.').peekable();
    let mut missing: Vec<&str> = Vec::new();
    while let Some(step) = steps.next() {
        match table.get(step) {
            Some(value) if steps.peek().is_none() => return Ok(Found::Value(value.span())),
            Some(value) => {
                table = value.get_ref().as_table().ok_or_else(NotFound::default)?;
                // A table of dotted keys has neither braces nor a header of its own.
                let own = text.get(value.span().start..).unwrap_or("");
                let is_header =
                    own.split(']').next().is_some_and(|h| h.starts_with('[') && h.ends_with(step));
                let found = own.starts_with('{') || is_header;
                header = if found { value.span() } else { text.len()..text.len() };
            }
            None => {
                missing = std::iter::once(step).chain(steps).collect();
                break;
            }
        }
    }
    let key = missing.join(".");
    if !missing.is_empty() && text[header.start..].starts_with('{') {
        return Ok(Found::LackingInline { behind: header.start + 1, key, alone: table.is_empty() });
    }
    if missing.is_empty() || !text[header.start..].starts_with('[') {
        let given = missing.first().copied().unwrap_or(keys);
        return Err(NotFound::new(given, table.keys().map(|k| k.get_ref().to_string())));
    }
    // The end of the header's line.
    let behind = text[header.start..].find('\n').map_or(text.len(), |i| header.start + i);
    Ok(Found::Lacking { behind, key })
}
