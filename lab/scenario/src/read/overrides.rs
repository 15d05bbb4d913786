//! Changing a tree by paths, before it is read.

use super::cx::{Cx, list};
use super::tree::{Id, Key, NAMED, Origin, ROOT, Tree, Value};
use crate::settings::{Settings, UNKNOWN_PATH};
use perhop_config::{Diagnostic, Diagnostics, Position, Severity, did_you_mean, shown};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys of a node whose value is a router file, into which a path may go on.
const ROUTER_FILES: [&str; 2] = ["router", "config"];
/// Key of a node whose value is an agent's file, into which a path may go on too.
const AGENT_FILE: &str = "agent";

/// Most steps of a path; the deepest values of a file are not half as deep.
const MAX_STEPS: usize = 32;

/// Why a path leads nowhere: the longest part that is known, and what could follow it.
struct Unknown {
    known: String,
    given: String,
    candidates: Vec<String>,
    /// How many elements the known part has, if it is an array.
    elements: Option<usize>,
    /// A node has no such file, so nothing is inside.
    no_file: bool,
}

/// A step of a path: a key, or an element of an array from 0.
enum Step<'a> {
    Key(&'a str),
    Element(usize),
}

/// Which settings are taken, and into what.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// Those for all configurations into the file as it stands.
    Product,
    /// Those for all configurations into this variant.
    Variant(&'a str),
    /// Those for this variant alone.
    Only(&'a str),
}

/// Takes settings into a tree. One for all configurations that has no place in a variant is left out there.
pub(super) fn settings(tree: &mut Tree, settings: &Settings, scope: Scope<'_>, diagnostics: &Diagnostics) {
    for (index, (given, value)) in settings.iter().enumerate() {
        let inside = given.strip_prefix("variants.").and_then(|rest| rest.split_once('.'));
        let path = match (inside, scope) {
            (None, Scope::Product | Scope::Variant(_)) => given,
            (Some((name, rest)), Scope::Only(variant)) if name == variant => {
                rest.strip_prefix("set.").unwrap_or(rest)
            }
            (Some((name, _)), Scope::Product) if !variants(tree).contains(&name) => given,
            _ => continue,
        };
        let origin = Origin::Setting { index, own: inside.is_some() };
        if inside.is_none() && (given == "variants" || given.starts_with("variants.")) {
            let why = unknown(tree, ROOT, &Step::Key(given));
            let mut diagnostic =
                describe("--set".into(), setting_position(index), String::new(), given, &why);
            (diagnostic.message, diagnostic.value) = ("cannot be set as a whole".to_owned(), shown(value));
            diagnostic.allowed = Some("variants.NAME.PATH".to_owned());
            diagnostic.hint = Some("To run without variants, say --variants none".to_owned());
            if matches!(scope, Scope::Product) {
                diagnostics.push(diagnostic);
            }
            continue;
        }
        let Err(unknown) = set(tree, path, value, &origin) else { continue };
        let position = setting_position(index);
        let mut diagnostic = describe("--set".into(), position, String::new(), given, &unknown);
        diagnostic.value = shown(value);
        match scope {
            Scope::Variant(_) if diagnostics.has_error_at(position) => {}
            Scope::Variant(name) => diagnostics.push(left_out(name, diagnostic)),
            Scope::Product | Scope::Only(_) => diagnostics.push(diagnostic),
        }
    }
}

/// The place of a setting among all, which has no line: what is displayed is the setting itself.
pub(super) fn setting_position(index: usize) -> Position {
    Position { line: 0, column: u32::try_from(index + 1).unwrap_or(u32::MAX) }
}

/// The warning that a setting for all configurations is left out in a variant, for what would be an error in it.
pub(super) fn left_out(variant: &str, why: Diagnostic) -> Diagnostic {
    let message = format!("is left out in variant \"{}\", where it {}", shown(variant), why.message);
    Diagnostic { severity: Severity::Warning, subject: String::new(), message, ..why }
}

/// Takes what a variant sets into a copy of the file's tree.
pub(super) fn variant(tree: &mut Tree, name: &str, cx: &Cx<'_>) {
    let Some(set) = ["variants", name, "set"].iter().try_fold(ROOT, |at, key| tree.child(at, key)) else {
        return;
    };
    let mut leaves = Vec::new();
    collect(tree, set, "", &mut leaves);
    for (path, from) in leaves {
        let origin = Origin::Variant { name: name.to_owned() };
        let placed = place(tree, &path, &origin).map(|slot| fill(tree, slot, from, &origin));
        if let Err(unknown) = placed {
            let start = tree.node(from).key.as_ref().map_or(0, |k| k.span.start);
            let position = tree.lines.position(start);
            cx.push(describe(cx.file.clone(), position, format!("variant \"{name}\""), &path, &unknown));
        }
    }
}

/// Names of the file's variants.
pub(super) fn variants(tree: &Tree) -> Vec<&str> {
    let section = tree.child(ROOT, "variants");
    section.map_or(Vec::new(), |id| tree.children(id).iter().map(|&v| tree.name(v)).collect())
}

/// The values below a table by path; a table stands for the values in it.
fn collect(tree: &Tree, table: Id, prefix: &str, into: &mut Vec<(String, Id)>) {
    for &child in tree.children(table) {
        let name = tree.name(child);
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match tree.node(child).value {
            Value::Table(_) => collect(tree, child, &path, into),
            _ => into.push((path, child)),
        }
    }
}

/// Where a value goes.
enum Slot {
    /// Over this node.
    Over(Id),
    /// Into this table, under a key.
    Into(Id, String),
    /// Into the router file of this node.
    Router(Id, String),
    /// Into its agent's file.
    Agent(Id, String),
}

fn set(tree: &mut Tree, path: &str, value: &str, origin: &Origin) -> Result<(), Unknown> {
    let slot = place(tree, path, origin)?;
    let from = tree.nodes.len();
    let parsed = value.starts_with(['[', '{', '"', '\'']).then(|| format!("x = {value}"));
    let parsed = parsed.as_deref().filter(|text| brackets(text) < 100);
    let parsed = parsed.and_then(|text| DeTable::parse(text).ok());
    let parsed = parsed.and_then(|table| table.into_inner().into_iter().next());
    match parsed {
        Some((_, value)) => {
            tree.add(ROOT, None, 0, value, origin);
        }
        None => {
            let text = Spanned::new(0..0, DeValue::Boolean(true));
            tree.add(ROOT, None, 0, text, origin);
            tree.nodes[from].value = Value::Given(value.to_owned());
        }
    }
    fill(tree, slot, from, origin);
    Ok(())
}

/// How many brackets a text opens, whose depth the parser would follow.
pub(super) fn brackets(text: &str) -> usize {
    text.bytes().filter(|b| matches!(b, b'[' | b'{')).count()
}

fn place(tree: &mut Tree, path: &str, origin: &Origin) -> Result<Slot, Unknown> {
    let steps = steps(path);
    if steps.len() > MAX_STEPS {
        return Err(unknown(tree, ROOT, &Step::Key(path)));
    }
    let mut at = ROOT;
    for (i, step) in steps.iter().enumerate() {
        let last = i + 1 == steps.len();
        if let Step::Key(key) = step
            && !last
        {
            let rest = || path.splitn(4, '.').nth(3).unwrap_or("").to_owned();
            if has_router_file(tree, at, key) {
                return Ok(Slot::Router(at, rest()));
            }
            if has_agent_file(tree, at, key) {
                return Ok(Slot::Agent(at, rest()));
            }
            if is_node(tree, at) && (*key == AGENT_FILE || ROUTER_FILES.contains(key)) {
                return Err(Unknown { no_file: true, ..unknown(tree, at, step) });
            }
        }
        let next = match step {
            Step::Key(key) => tree.child(at, key),
            Step::Element(n) => match &tree.node(at).value {
                Value::Array(elements) => elements.get(*n).copied(),
                _ => None,
            },
        };
        match next {
            Some(next) if last => return Ok(Slot::Over(next)),
            Some(next) => at = next,
            None => match step {
                // An array that is not written has no elements.
                Step::Key(key)
                    if can_grow(tree, at) && !matches!(steps.get(i + 1), Some(Step::Element(_))) =>
                {
                    if last {
                        return Ok(Slot::Into(at, (*key).to_owned()));
                    }
                    at = insert(tree, at, key, origin);
                }
                _ => return Err(unknown(tree, at, step)),
            },
        }
    }
    Err(unknown(tree, ROOT, &Step::Key(path)))
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, indices) = part.split_once('[').map_or((part, ""), |(key, rest)| (key, rest));
        steps.push(Step::Key(key));
        for index in indices.split('[').filter(|i| !i.is_empty()) {
            let number = index.strip_suffix(']').and_then(|i| i.parse::<usize>().ok());
            steps.push(number.filter(|n| *n > 0).map_or(Step::Key(part), |n| Step::Element(n - 1)));
        }
    }
    steps
}

/// Whether a key means a node's router file, `node.NAME.router`, wherever that is written.
fn has_router_file(tree: &Tree, parent: Id, key: &str) -> bool {
    is_node(tree, parent)
        && ROUTER_FILES.contains(&key)
        && ROUTER_FILES.iter().any(|key| tree.child(parent, key).is_some())
}

/// Whether a key means a node's agent, `node.NAME.agent`.
fn has_agent_file(tree: &Tree, parent: Id, key: &str) -> bool {
    is_node(tree, parent) && key == AGENT_FILE && tree.child(parent, key).is_some()
}

fn is_node(tree: &Tree, table: Id) -> bool {
    matches!(tree.chain(table).as_slice(), [section, _] if tree.name(*section) == "node")
}

/// Whether keys may be added to a node: it is a table, and its keys are not names that the file gives.
fn can_grow(tree: &Tree, at: Id) -> bool {
    let chain = tree.chain(at);
    let named = matches!(chain.as_slice(), [section] if NAMED.contains(&tree.name(*section)));
    matches!(tree.node(at).value, Value::Table(_)) && !named
}

fn insert(tree: &mut Tree, parent: Id, key: &str, origin: &Origin) -> Id {
    let id = tree.nodes.len();
    let text = Spanned::new(0..0, DeValue::Table(DeTable::new()));
    let key = Key { name: key.to_owned(), span: 0..0 };
    tree.add(parent, Some(key), 0, text, origin);
    if let Value::Table(children) = &mut tree.nodes[parent].value {
        children.push(id);
    }
    id
}

/// Puts a copy of the node `from` where it belongs.
fn fill(tree: &mut Tree, slot: Slot, from: Id, origin: &Origin) {
    let keyed = |tree: &Tree, name: &str| {
        let span = tree.node(from).key.as_ref().map_or(0..0, |k| k.span.clone());
        Some(Key { name: name.to_owned(), span })
    };
    match slot {
        Slot::Over(old) => {
            let node = tree.node(old).clone();
            let key = node.key.as_ref().and_then(|k| keyed(tree, &k.name));
            let new = tree.copy(from, node.parent, key, node.index, origin);
            if let Value::Table(children) | Value::Array(children) = &mut tree.nodes[node.parent].value {
                children.iter_mut().filter(|c| **c == old).for_each(|c| *c = new);
            }
        }
        Slot::Into(parent, name) => {
            let key = keyed(tree, &name);
            let new = tree.copy(from, parent, key, 0, origin);
            if let Value::Table(children) = &mut tree.nodes[parent].value {
                children.push(new);
            }
        }
        Slot::Router(node, rest) => {
            let name = tree.path(node);
            let key = keyed(tree, &format!("{name}.router.{rest}"));
            let new = tree.copy(from, ROOT, key, 0, origin);
            tree.inside_routers.push((node, rest, new));
        }
        Slot::Agent(node, rest) => {
            let name = tree.path(node);
            let key = keyed(tree, &format!("{name}.{AGENT_FILE}.{rest}"));
            let new = tree.copy(from, ROOT, key, 0, origin);
            tree.inside_agents.push((node, rest, new));
        }
    }
}

fn unknown(tree: &Tree, at: Id, step: &Step<'_>) -> Unknown {
    let given = match step {
        Step::Key(key) => (*key).to_owned(),
        Step::Element(n) => format!("[{}]", n + 1),
    };
    let candidates = tree.children(at).iter().filter(|&&c| !tree.name(c).is_empty());
    let candidates = candidates.map(|&c| tree.name(c).to_owned()).collect();
    let elements = match &tree.node(at).value {
        Value::Array(elements) => Some(elements.len()),
        _ => None,
    };
    Unknown { known: tree.path(at), given, candidates, elements, no_file: false }
}

fn describe(file: Arc<str>, position: Position, subject: String, path: &str, why: &Unknown) -> Diagnostic {
    let mut hint = None;
    if why.no_file {
        let what = if why.given == AGENT_FILE { "an agent" } else { "a router file" };
        hint = Some(format!(
            "{} has no {}: give it {what} with {} = \"FILE\".",
            why.known, why.given, why.given
        ));
    } else if let Some(meant) = did_you_mean(&why.given, why.candidates.iter().map(String::as_str)) {
        let head = if why.known.is_empty() { String::new() } else { format!("{}.", why.known) };
        let tail = path.get(head.len() + why.given.len()..).unwrap_or("");
        hint = Some(format!("did you mean \"{head}{meant}{tail}\"?"));
    } else if why.known.is_empty() && why.candidates.is_empty() {
        hint = Some("A path is the keys of the file joined by dots, such as link.core.rate.".to_owned());
    } else if let Some(elements) = why.elements {
        let plural = if elements == 1 { "" } else { "s" };
        hint = Some(format!("{} has {elements} element{plural}, counted from 1.", why.known));
    } else if why.candidates.is_empty() {
        hint = Some(format!("{} has no parts.", why.known));
    }
    let allowed =
        (!why.candidates.is_empty() && !why.no_file).then(|| list(why.candidates.iter().map(String::as_str)));
    Diagnostic {
        severity: Severity::Error,
        file,
        position,
        subject,
        key: path.chars().take(64).collect(),
        value: String::new(),
        message: UNKNOWN_PATH.to_owned(),
        allowed,
        hint,
        secondary: None,
    }
}
