//! Router files of a scenario: beside it or inside it, with values of theirs set by path.

use super::cx::{At, Cx, list};
use super::lines::Lines;
use super::table::Table;
use super::tree::{Id, Value};
use crate::model::{Node, NodeKind, RouterConfig, Scenario};
use crate::settings::UNKNOWN_PATH;
use perhop_config::{Diagnostic, Diagnostics, Position, did_you_mean};
use perhop_graph::routerfile::RouterFile;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Reads the router of a node from the keys `router` and `config`.
pub(super) fn read(table: &mut Table<'_>, file: Option<At<&str>>, inline: Option<At<&str>>) -> NodeKind {
    let cx = table.cx;
    let nothing = NodeKind::Router(RouterConfig { origin: String::new(), text: String::new() });
    let (origin, text, first) = match (file, inline) {
        (Some(file), Some(inline)) => {
            cx.push(
                cx.with_secondary(
                    cx.error(inline.at, "is a second router file of this node")
                        .value("")
                        .hint("Keep one of the two"),
                    file.at,
                    "the other one is here",
                ),
            );
            return nothing;
        }
        (Some(file), None) => match companion(cx, file) {
            Some(text) => (file.value.to_owned(), text, None),
            None => return nothing,
        },
        (None, Some(inline)) => {
            let origin = format!("{} (config of node \"{}\")", cx.file, cx.tree.name(table.at));
            (origin, inline.value.to_owned(), Some(first_line(cx, inline.at)))
        }
        // A router without classes, filters and contracts still forwards.
        (None, None) => return nothing,
    };
    let (read, diagnostics) = RouterFile::read(&origin, &text);
    forward(cx, &diagnostics, first);
    let mut text = text;
    if read.is_some() {
        for (node, path, value) in &cx.tree.inside_routers {
            if *node == table.at {
                text = changed(cx, text, path, *value);
            }
        }
        let (_, again) = RouterFile::read("--set", &text);
        for mut diagnostic in again.sorted() {
            let new = !diagnostics.sorted().iter().any(|d| d.message == diagnostic.message);
            if new && !is_about_links(&diagnostic) {
                diagnostic.position = Position { line: 1, column: 1 };
                if diagnostic.message == "is not a known key" {
                    diagnostic.message = UNKNOWN_PATH.to_owned();
                }
                cx.push(diagnostic);
            }
        }
    }
    NodeKind::Router(RouterConfig { origin, text })
}

/// The text of the file that a key names.
fn companion(cx: &Cx<'_>, file: At<&str>) -> Option<String> {
    let bytes = super::companions::bytes(cx, file)?;
    let text = String::from_utf8(bytes).ok();
    if text.is_none() {
        cx.push(cx.error(file.at, "is not a text file").hint("A router file is TOML in UTF-8"));
    }
    text
}

/// Line of the scenario file on which the first line of an inline text stands, and whether it begins a line.
fn first_line(cx: &Cx<'_>, at: Id) -> Position {
    let node = cx.tree.node(at);
    let written = cx.tree.lines.slice(node.span.clone());
    let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
    let behind = written.get(quotes..).unwrap_or("");
    let skipped =
        behind.len() - behind.strip_prefix('\r').unwrap_or(behind).strip_prefix('\n').unwrap_or(behind).len();
    cx.tree.lines.position(node.span.start + quotes + skipped)
}

/// Passes on what is wrong with a router file, at its place in the scenario file if it is written there.
fn forward(cx: &Cx<'_>, diagnostics: &Diagnostics, first: Option<Position>) {
    for mut diagnostic in diagnostics.sorted().into_iter().filter(|d| !is_about_links(d)) {
        if let Some(first) = first {
            diagnostic.file = cx.file.clone();
            diagnostic.position = shifted(diagnostic.position, first);
            diagnostic.secondary = diagnostic.secondary.map(|(p, text)| (shifted(p, first), text));
        }
        cx.push(diagnostic);
    }
}

/// Whether a warning misses what links give: a port has the rate of its link, and each link at the node is a port.
fn is_about_links(diagnostic: &Diagnostic) -> bool {
    let (key, message) = (diagnostic.key.as_str(), diagnostic.message.as_str());
    matches!((key, message), ("rate", "is missing on a port with classes") | ("name", "is the only port"))
}

/// The text with one value changed; the path is KIND.NAME.KEY… or SECTION.KEY.
fn changed(cx: &Cx<'_>, text: String, path: &str, value: Id) -> String {
    let given = match &cx.tree.node(value).value {
        Value::Text(given) => quoted(given),
        Value::Given(given) if is_literal(given) => given.clone(),
        Value::Given(given) => quoted(given),
        _ => cx.tree.lines.slice(cx.tree.node(value).span.clone()).to_owned(),
    };
    match find(&text, path) {
        Ok(Found::Value(span)) => format!("{}{given}{}", &text[..span.start], &text[span.end..]),
        Ok(Found::Lacking { behind, key }) => {
            format!("{}\n{key} = {given}{}", &text[..behind], &text[behind..])
        }
        Err(NotFound { given, candidates }) => {
            let mut diagnostic = cx.error(value, UNKNOWN_PATH).value("");
            if let Some(meant) = did_you_mean(&given, candidates.iter().map(String::as_str)) {
                diagnostic = diagnostic.hint(format!("did you mean \"{meant}\"?"));
            }
            let hint = "Inside a router file a path is KIND.NAME.KEY, such as port.core.rate";
            cx.push(diagnostic.hint(hint));
            text
        }
    }
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
    let mut table = table;
    let mut steps = keys.split('.').peekable();
    let mut missing: Vec<&str> = Vec::new();
    while let Some(step) = steps.next() {
        match table.get(step) {
            Some(value) if steps.peek().is_none() => return Ok(Found::Value(value.span())),
            Some(value) => table = value.get_ref().as_table().ok_or_else(NotFound::default)?,
            None => {
                missing = std::iter::once(step).chain(steps).collect();
                break;
            }
        }
    }
    let deep = missing.len() < keys.split('.').count();
    if deep || missing.is_empty() || !text[header.start..].starts_with('[') {
        let given = missing.first().copied().unwrap_or(keys);
        return Err(NotFound::new(given, table.keys().map(|k| k.get_ref().to_string())));
    }
    // The end of the header's line.
    let behind = text[header.start..].find('\n').map_or(text.len(), |i| header.start + i);
    Ok(Found::Lacking { behind, key: missing.join(".") })
}

/// Checks that every port of a router's file is a link at the node.
pub(super) fn check_ports(cx: &Cx<'_>, scenario: &Scenario, node: &Node, config: &RouterConfig, table: Id) {
    let (Some(file), _) = RouterFile::read(&config.origin, &config.text) else { return };
    let index = scenario.node(&node.name);
    let at_node = index.into_iter().flat_map(|index| scenario.links_of(index));
    let links: Vec<&str> = at_node.map(|(link, _)| scenario.links[link.0].name.as_str()).collect();
    let ports = file.objects.iter().filter(|o| o.kind == RouterFile::KINDS[0]);
    for port in ports.filter(|o| !links.contains(&o.name.as_str())) {
        let name = port.name.as_str();
        let mut error = cx.error(table, format!("is no link of node \"{}\"", node.name));
        if let Ok(Found::Value(span)) = find(&config.text, &format!("port.{name}.name")) {
            let position = Lines::new(&config.text).position(span.start);
            match cx.tree.child(table, "config") {
                Some(inline) => error.position = shifted(position, first_line(cx, inline)),
                None => {
                    error.file = config.origin.as_str().into();
                    error.position = position;
                }
            }
        }
        error.subject = format!("port \"{name}\"");
        error = error.key("name").value(format!("\"{name}\""));
        if let Some(meant) = did_you_mean(name, links.iter().copied()) {
            error = error.hint(format!("did you mean \"{meant}\"?"));
        }
        cx.push(error.hint("A port has the name of its link").allowed(list(links.iter().copied())));
    }
}

/// A position in an inline text as one in the scenario file.
fn shifted(at: Position, first: Position) -> Position {
    let column = if at.line == 1 { at.column + first.column - 1 } else { at.column };
    Position { line: at.line + first.line - 1, column }
}
