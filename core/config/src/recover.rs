//! Parsing that loses as little as possible.
//!
//! The parser recovers from most errors inside a line, but an unclosed bracket or string swallows the rest of the
//! file, a key without `=` ends it, and a table that repeats the name of an array replaces it. So such errors are
//! mended one at a time in a copy (a bracket inserted, a line blanked) and the copy is parsed again; offsets are
//! mapped back to the user's text. The number of rounds and the bytes parsed are limited.

use crate::nesting;
use crate::source::Source;
use crate::syntax::{SyntaxError, SyntaxKind, is_typographic_quote};
use crate::tree::{ROOT, Tree, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::de::DeTable;

/// How often a file is mended and parsed again at most.
const MAX_ROUNDS: usize = 64;

/// Bytes inserted at one place from which on inserting more is taken not to help.
const MAX_INSERT: usize = 8;

/// How many bytes are parsed at most over all rounds after the first.
const MAX_REPARSED_BYTES: usize = 32 * 1024 * 1024;

/// The tree of a file and everything that is wrong with its form.
pub(crate) fn parse(source: &Source) -> (Tree, Vec<SyntaxError>) {
    let mut edits = Edits::default();
    let mut mended: Vec<SyntaxError> = Vec::new();
    let rounds = MAX_ROUNDS.min(1 + MAX_REPARSED_BYTES / source.text.len().max(1));
    for round in 1.. {
        let work = edits.apply(&source.text);
        if let Some(at) = nesting::too_deep(&work.text) {
            let at = work.original(at);
            edits.cut = Some(at);
            mended.push(SyntaxError { span: at..at + 1, kind: SyntaxKind::TooDeep });
            continue;
        }
        let (table, found) = DeTable::parse_recoverable(&work.text);
        let mut tree = Tree::new(table.into_inner(), &|offset| work.original(offset));
        tree.index_headers(&source.text);
        let found: Vec<SyntaxError> = found
            .iter()
            .map(|e| {
                let span = e.span().unwrap_or(0..0);
                SyntaxError::new(work.original(span.start)..work.original(span.end), e.message(), source)
            })
            .collect();
        let mut repairs: Vec<Repair> =
            found.iter().filter_map(|e| Repair::of(e, &tree, source, &edits.done)).collect();
        repairs.sort_by_key(|r| r.error.span.start);
        if round < rounds
            && let Some(repair) = repairs.into_iter().find(|r| edits.add(r))
        {
            let line = source.line_of(repair.error.span.start);
            if mended.iter().all(|m| source.line_of(m.span.start) != line) {
                mended.push(repair.error);
            }
            continue;
        }
        let errors = without_consequences(mended, found, source);
        mark(&mut tree, &errors);
        return (tree, errors);
    }
    unreachable!("a round mends, cuts or returns, and the number of rounds that mend is limited")
}

/// Of the errors of one line, the first structural one if there is any, else all: after a structural error the rest
/// of a line is read in a wrong context. Nothing else on a line that had to be mended.
fn without_consequences(
    mended: Vec<SyntaxError>,
    found: Vec<SyntaxError>,
    source: &Source,
) -> Vec<SyntaxError> {
    let lines: BTreeSet<usize> = mended.iter().map(|e| source.line_of(e.span.start)).collect();
    let mut by_line: BTreeMap<usize, Vec<SyntaxError>> = BTreeMap::new();
    for error in found {
        let line = source.line_of(error.span.start);
        if !lines.contains(&line) {
            by_line.entry(line).or_default().push(error);
        }
    }
    let mut out = mended;
    for (_, mut errors) in by_line {
        errors.sort_by_key(|e| e.span.start);
        match errors.iter().position(|e| e.kind.is_structural()) {
            Some(first) => out.push(errors.swap_remove(first)),
            None => out.append(&mut errors),
        }
    }
    out.sort_by_key(|e| e.span.start);
    out
}

/// Marks the nodes at which errors were found and the tables in which something may be lost.
fn mark(tree: &mut Tree, errors: &[SyntaxError]) {
    for error in errors {
        let section = tree.section(error.span.start) as usize;
        tree.nodes[section].damaged = true;
        let Some(id) = tree.at(error.span.start) else { continue };
        let node = &mut tree.nodes[id as usize];
        if node.key.as_ref().is_some_and(|k| error.span.start <= k.span.end)
            && error.kind != SyntaxKind::Duplicate
        {
            node.faulty_key = true;
        }
        match node.value {
            Value::Table(_) => node.damaged = true,
            _ if error.kind == SyntaxKind::Duplicate => {}
            _ => node.faulty = true,
        }
        let usable = matches!(
            error.kind,
            SyntaxKind::Unquoted | SyntaxKind::Typographic | SyntaxKind::Boolean | SyntaxKind::Duplicate
        );
        if let (SyntaxKind::Typographic, Value::Text(text)) = (&error.kind, &mut node.value) {
            *text = text.trim_matches(is_typographic_quote).to_owned();
        }
        if !usable && !matches!(node.value, Value::Table(_) | Value::Array(_)) {
            node.value = Value::Invalid;
        }
    }
}

/// How one derailing error is mended.
#[derive(Debug)]
struct Repair {
    error: SyntaxError,
    edit: Edit,
}

#[derive(Debug)]
enum Edit {
    Insert(usize, String),
    Blank(Range<usize>),
}

impl Repair {
    fn of(error: &SyntaxError, tree: &Tree, source: &Source, done: &BTreeSet<usize>) -> Option<Self> {
        let at = error.span.start;
        let line = source.line(source.line_of(at));
        match error.kind {
            SyntaxKind::UnclosedHeader => {
                let (span, missing) = open_header(source, at)?;
                let edit = Edit::Insert(span.end, missing.into());
                Some(Self { error: SyntaxError { span, kind: SyntaxKind::UnclosedHeader }, edit })
            }
            SyntaxKind::NoEquals => {
                let start = first_visible(source, line.clone());
                let error = SyntaxError { span: start..line.end, kind: SyntaxKind::NoEquals };
                Some(Self { error, edit: Edit::Blank(line) })
            }
            SyntaxKind::UnclosedArray | SyntaxKind::UnclosedTable => {
                let open = first_open(tree, source, done, |v| {
                    v.starts_with(['[', '{']) && !nesting::closers(v).is_empty()
                })?;
                let kind = if source.text.as_bytes()[open] == b'[' {
                    SyntaxKind::UnclosedArray
                } else {
                    SyntaxKind::UnclosedTable
                };
                let end = end_of_value(source, open);
                let closers = nesting::closers(source.slice(open..end));
                let error = SyntaxError { span: open..open + 1, kind };
                Some(Self { error, edit: Edit::Insert(end, format!("\n{closers}")) })
            }
            SyntaxKind::UnclosedText => {
                let open = first_open(tree, source, done, is_open_text)?;
                let quotes = source.slice(open..open + 3).to_owned();
                let end = source.line(source.line_of(open)).end;
                let error = SyntaxError { span: open..open + 3, kind: SyntaxKind::UnclosedText };
                Some(Self { error, edit: Edit::Insert(end, quotes) })
            }
            SyntaxKind::Duplicate => {
                // `[class]` after `[[class]]` would replace the array and with it everything already read.
                let header = source.slice(line.clone()).trim_start();
                let name = header.strip_prefix('[')?.split(']').next()?.trim();
                if name.starts_with('[') || !begins_array_before(source, name, line.start) {
                    return None;
                }
                let error = SyntaxError { span: error.span.clone(), kind: SyntaxKind::TableAfterArray };
                Some(Self { error, edit: Edit::Blank(line.start..end_of_section(source, line.start)) })
            }
            _ => None,
        }
    }
}

/// The last header at or above the line of `at` that lacks brackets at its end, and what it lacks.
fn open_header(source: &Source, at: usize) -> Option<(Range<usize>, &'static str)> {
    let lines = (0..=source.line_of(at)).rev().map(|l| source.line(l));
    lines.into_iter().find_map(|line| {
        let start = first_visible(source, line.clone());
        let code = source.slice(start..line.end).split('#').next().unwrap_or("").trim_end();
        let missing = match (code.starts_with("[["), code.ends_with("]]"), code.ends_with(']')) {
            (true, false, true) => "]",
            (true, false, false) => "]]",
            (false, _, false) if code.starts_with('[') => "]",
            _ => return None,
        };
        Some((start..start + code.len(), missing))
    })
}

/// Where the first value begins that `is_open` says is not closed and that was not mended (`done`); values inside
/// others are not looked at.
fn first_open(
    tree: &Tree,
    source: &Source,
    done: &BTreeSet<usize>,
    is_open: impl Fn(&str) -> bool,
) -> Option<usize> {
    let inline = |id: u32| match &tree.node(id).value {
        Value::Array(_) | Value::Table(_) => {
            let start = tree.node(id).span.start;
            id != ROOT && source.text.as_bytes().get(start) == Some(&b'{')
                || is_inline_array(tree, id, source)
        }
        _ => false,
    };
    let candidates = tree.nodes.iter().skip(1).filter(|n| !inline(n.parent) && !done.contains(&n.span.start));
    candidates.filter(|n| is_open(source.slice(n.span.clone()))).map(|n| n.span.start).min()
}

/// Whether an array is written as `[…]` behind a key, not as `[[headers]]`.
fn is_inline_array(tree: &Tree, id: u32, source: &Source) -> bool {
    let node = tree.node(id);
    let behind_key = node.key.as_ref().is_none_or(|k| k.span.end <= node.span.start);
    matches!(node.value, Value::Array(_))
        && behind_key
        && source.text.as_bytes().get(node.span.start) == Some(&b'[')
}

/// Whether a multi-line string has no end.
fn is_open_text(written: &str) -> bool {
    ["\"\"\"", "'''"].iter().any(|q| written.starts_with(q) && (written.len() < 6 || !written.ends_with(q)))
}

/// The end of the last line that can belong to a bracket opened at `open`: the line before one that looks like
/// `key =` or a header.
fn end_of_value(source: &Source, open: usize) -> usize {
    let first = source.line_of(open);
    let next = (first + 1..source.line_count()).find(|&l| begins_statement(source.slice(source.line(l))));
    let last = next.map_or(source.line_count() - 1, |l| l - 1);
    source.line(last).end
}

/// Whether a line looks like `key = …`, `[table]` or `[[array]]`.
fn begins_statement(line: &str) -> bool {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix('[') {
        let inside = rest.trim_start_matches('[').split(']').next().unwrap_or("");
        return rest.contains(']') && inside.starts_with(|c: char| c.is_ascii_alphabetic());
    }
    let key = line.split('=').next().unwrap_or("").trim_end();
    line.contains('=')
        && !key.is_empty()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.\"'".contains(c))
}

/// Whether `[[name]]` stands on a line before `offset`.
fn begins_array_before(source: &Source, name: &str, offset: usize) -> bool {
    source.text[..offset].lines().any(|l| {
        let inside = l.trim_start().strip_prefix("[[").and_then(|rest| rest.split(']').next());
        inside.is_some_and(|i| i.trim() == name)
    })
}

/// The start of the next header line after the one at `start`, or the end of the file.
fn end_of_section(source: &Source, start: usize) -> usize {
    let first = source.line_of(start) + 1;
    let lines = (first..source.line_count()).map(|l| source.line(l));
    lines
        .into_iter()
        .find(|l| source.slice(l.clone()).trim_start().starts_with('['))
        .map_or(source.text.len(), |l| l.start)
}

fn first_visible(source: &Source, line: Range<usize>) -> usize {
    let text = source.slice(line.clone());
    line.start + (text.len() - text.trim_start().len())
}

/// Changes to a text, kept in the offsets of the original.
#[derive(Debug, Default)]
struct Edits {
    inserts: BTreeMap<usize, String>,
    blanks: Vec<Range<usize>>,
    /// Where the text is cut off.
    cut: Option<usize>,
    /// Where the errors are that were mended.
    done: BTreeSet<usize>,
}

/// A changed text and where it was changed.
struct Work {
    text: String,
    /// For each insertion: where it begins in `text`, its length, and the sum of lengths up to and including it.
    inserted: Vec<(usize, usize, usize)>,
}

impl Edits {
    /// Adds a repair; false if it would change nothing.
    fn add(&mut self, repair: &Repair) -> bool {
        self.done.insert(repair.error.span.start);
        match &repair.edit {
            Edit::Insert(_, text) if text.trim().is_empty() => false,
            Edit::Insert(at, text) => {
                let insert = self.inserts.entry(*at).or_default();
                let helps = insert.len() < MAX_INSERT;
                if helps {
                    insert.push_str(text);
                }
                helps
            }
            Edit::Blank(range) if range.is_empty() || self.blanks.contains(range) => false,
            Edit::Blank(range) => {
                self.blanks.push(range.clone());
                true
            }
        }
    }

    fn apply(&self, text: &str) -> Work {
        let text = self.cut.and_then(|at| text.get(..at)).unwrap_or(text);
        let mut bytes = text.as_bytes().to_vec();
        for blank in &self.blanks {
            bytes[blank.start.min(text.len())..blank.end.min(text.len())]
                .iter_mut()
                .filter(|b| !matches!(**b, b'\n' | b'\r'))
                .for_each(|b| *b = b' ');
        }
        // Blanks cover whole lines, so no character is cut in two.
        let blanked = String::from_utf8_lossy(&bytes);
        let mut work = Work { text: String::with_capacity(text.len()), inserted: Vec::new() };
        let (mut from, mut sum) = (0, 0);
        for (&at, insert) in self.inserts.range(..=text.len()) {
            work.text.push_str(blanked.get(from..at).unwrap_or(""));
            sum += insert.len();
            work.inserted.push((work.text.len(), insert.len(), sum));
            work.text.push_str(insert);
            from = at;
        }
        work.text.push_str(blanked.get(from..).unwrap_or(""));
        work
    }
}

impl Work {
    /// The offset in the user's text of an offset in the changed text; inside an insertion the place of it.
    fn original(&self, offset: usize) -> usize {
        let after = self.inserted.partition_point(|&(start, ..)| start < offset);
        let Some(&(start, len, sum)) = after.checked_sub(1).and_then(|i| self.inserted.get(i)) else {
            return offset;
        };
        let before = sum - len;
        if offset < start + len { start - before } else { offset - sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_map_back() {
        let mut edits = Edits::default();
        let error = || SyntaxError { span: 0..1, kind: SyntaxKind::NoEquals };
        assert!(edits.add(&Repair { error: error(), edit: Edit::Insert(3, "XX".into()) }));
        assert!(edits.add(&Repair { error: error(), edit: Edit::Insert(5, "Y".into()) }));
        let work = edits.apply("abcdefg");
        assert_eq!(work.text, "abcXXdeYfg");
        let back: Vec<usize> = (0..=10).map(|i| work.original(i)).collect();
        assert_eq!(back, [0, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7]);
    }

    #[test]
    fn statements() {
        assert!(begins_statement("[[class]] # x"));
        assert!(begins_statement("  queue.limit= 3"));
        assert!(!begins_statement("[1, 2],"));
        assert!(!begins_statement("\"a b\" , \"c=d\""));
        assert!(!begins_statement("]"));
    }
}
