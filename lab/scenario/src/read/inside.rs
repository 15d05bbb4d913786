//! Values inside the files that a node names, router files and agents' files, set by path.

use super::UNKNOWN_PATH;
use super::cx::Cx;
use super::router_text::shifted;
use perhop_config::{Diagnostic, Location, Position, Severity, did_you_mean, position_in, quoted_list};
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
        let position = position_in(self.text, offset);
        match self.first {
            Some(first) => (cx.file.file().into(), shifted(position, first)),
            None => (self.file.into(), position),
        }
    }
}

/// Reads a file again with what is set inside it, and reports what is wrong with that; `read` gives what it is then and
/// what is to be said. A setting for all configurations that a variant's file has no place for is left out there.
pub(super) fn apply<T>(
    cx: &Cx<'_>,
    mut entries: Vec<(&str, Location)>,
    source: &Source<'_>,
    read: impl Fn(&str) -> (Option<T>, Vec<Diagnostic>),
) -> (Option<T>, String) {
    loop {
        let edited = Edited::new(cx, source.text, &entries);
        let (made, found) = read(&edited.text);
        let mut left_out = Vec::new();
        let errors = || found.iter().filter(|d| d.severity == Severity::Error);
        if let Some(error) = errors().next() {
            let at_fault = |value| errors().find(|d| edited.original(d.position) == Err(value));
            let foreign =
                || entries.iter().map(|(_, value)| *value).filter(|value| cx.file.is_foreign(*value));
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
            cx.file.refuse(cx.diagnostics, *value, (*why).clone());
        }
        entries.retain(|(_, value)| !left_out.iter().any(|(left, _)| left == value));
    }
}

/// A stretch of the text that was put in place of another, from an offset on.
struct Edit {
    start: usize,
    old_len: usize,
    new_len: usize,
    value: Location,
}

/// A text with values changed.
struct Edited {
    text: String,
    edits: Vec<Edit>,
}

impl Edited {
    /// Changes one value after the other, and reports paths that lead nowhere.
    fn new(cx: &Cx<'_>, text: &str, entries: &[(&str, Location)]) -> Self {
        let mut edited = Self { text: text.to_owned(), edits: Vec::new() };
        for &(path, value) in entries {
            edited.change(cx, path, value);
        }
        edited
    }

    /// Changes one value; the path is KIND.NAME.KEY… or SECTION.KEY.
    fn change(&mut self, cx: &Cx<'_>, path: &str, value: Location) {
        let given = match (cx.file.text_of(value), cx.file.written(value)) {
            (Some(text), written) if text != written || !is_literal(text) => quoted(text),
            (_, written) => written.to_owned(),
        };
        let (span, new) = match find(&self.text, path) {
            Ok(Found::Value(span)) => (span, given),
            Ok(Found::Lacking { behind, key }) => (behind..behind, format!("\n{key} = {given}")),
            Ok(Found::LackingInline { behind, key, alone }) => {
                (behind..behind, format!(" {key} = {given}{}", if alone { " " } else { "," }))
            }
            Err(not_found) => {
                return cx.file.refuse(cx.diagnostics, value, not_found.describe(cx, value));
            }
        };
        self.text.replace_range(span.clone(), &new);
        self.edits.push(Edit { start: span.start, old_len: span.len(), new_len: new.len(), value });
    }

    /// The offset in the text before all changes, or the value that was put there.
    fn original(&self, position: Position) -> Result<usize, Location> {
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

    /// What is wrong with the changed text, at the places that the user wrote: a setting, or the file.
    fn placed(
        &self,
        cx: &Cx<'_>,
        source: &Source<'_>,
        entries: &[(&str, Location)],
        mut diagnostic: Diagnostic,
    ) -> Diagnostic {
        if let Some((position, text)) = diagnostic.secondary.take() {
            let place = match self.original(position) {
                Ok(offset) => {
                    let (file, at) = source.place(cx, offset);
                    format!("{file}:{}:{}", at.line, at.column)
                }
                Err(value) => cx.file.key_path(value),
            };
            diagnostic = diagnostic.hint(format!("{place}: {text}"));
        }
        match self.original(diagnostic.position) {
            Ok(offset) => {
                (diagnostic.file, diagnostic.position) = source.place(cx, offset);
                let set = entries.iter().map(|(_, value)| cx.file.key_path(*value)).collect::<Vec<_>>();
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
    fn describe(&self, cx: &Cx<'_>, value: Location) -> Diagnostic {
        let names = || self.candidates.iter().map(String::as_str);
        let mut diagnostic = cx.error(value, UNKNOWN_PATH).meant(meant(&self.given, names()));
        if !self.candidates.is_empty() {
            diagnostic = diagnostic.allowed(quoted_list(names()));
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
