//! Changing a document by paths, before it is read: by what its variants set, and by settings from outside.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{Document, shown};
use crate::form::FileKeys;
use crate::nesting;
use crate::source::{Location, Position};
use crate::suggest::{did_you_mean, quoted_list};
use crate::tree::{Key, Node, NodeId, Origin, ROOT, Value};
use toml::de::DeValue;

/// The top-level table of variants.
pub(crate) const VARIANTS: &str = "variants";

/// Most steps of a path; the deepest values of a file are not half as deep.
const MAX_STEPS: usize = 32;

/// A value that belongs into another file, which a key of `table` names or holds.
#[derive(Clone, Debug)]
pub(crate) struct InFile {
    table: NodeId,
    key: &'static str,
    path: String,
    value: NodeId,
}

/// Where a value goes.
enum Slot {
    /// Over this node.
    Over(NodeId),
    /// Into this table, under a key.
    Into(NodeId, String),
    /// Into the file that a key of this table names.
    File(NodeId, &'static str, String),
}

impl Document {
    /// Names of the file's variants, in its order.
    pub fn variants(&self) -> Vec<&str> {
        let section = self.tree.child(ROOT, VARIANTS).filter(|_| self.form.named.contains(&VARIANTS));
        section.map_or(Vec::new(), |id| {
            self.tree.children(id).iter().filter_map(|&v| self.tree.name(v)).collect()
        })
    }

    /// The file with its settings, or one of its variants with what is set for all configurations and for itself. Paths
    /// that lead nowhere are errors; of a setting for all configurations that has no place in a variant there is a
    /// warning that it is left out. O(size of the file + settings).
    #[must_use]
    pub fn configured(&self, variant: Option<&str>, diagnostics: &Diagnostics) -> Self {
        let mut document = self.clone();
        document.variant = variant.map(str::to_owned);
        if let Some(name) = variant {
            document.overlay(name, diagnostics);
        }
        for own in [false, true] {
            for index in 0..self.settings.len() {
                document.take_setting(index, own, diagnostics);
            }
        }
        document
    }

    /// What is set inside the file that `key` of the table names or holds: the path there, and the value.
    pub fn inside_file<'d>(&'d self, table: Location, key: &'d str) -> Vec<(&'d str, Location)> {
        let here = self.in_files.iter().filter(|set| set.table == table.node && set.key == key);
        here.map(|set| (set.path.as_str(), self.value_location(set.value))).collect()
    }

    /// Whether a path leads to a value that is written, such as `link.core.change[1].at`.
    pub fn leads_somewhere(&self, path: &str) -> bool {
        steps(path).iter().try_fold(ROOT, |at, step| self.step(at, step)).is_some()
    }

    /// Whether a value is set for all configurations and read in a variant: what it cannot be there is a warning.
    pub fn is_foreign(&self, at: Location) -> bool {
        let origin = self.tree.node(at.node).origin;
        self.variant.is_some() && matches!(origin, Origin::Setting { own: false, .. })
    }

    /// Reports what is wrong with a value at the path that set it; if it is [foreign](Document::is_foreign), that it is
    /// left out, unless it is wrong everywhere.
    pub fn refuse(&self, diagnostics: &Diagnostics, at: Location, why: Diagnostic) {
        if !self.is_foreign(at) {
            diagnostics.push(why);
        } else if !diagnostics.has_error_at(self.position(at)) {
            let Diagnostic { message, hint, allowed, .. } = why;
            let place = self.error(at, message);
            diagnostics.push(self.left_out(Diagnostic { hint, allowed, ..place }));
        }
    }

    /// The warning that a setting is left out in this variant, for what would be an error in it.
    fn left_out(&self, why: Diagnostic) -> Diagnostic {
        let variant = shown(self.variant.as_deref().unwrap_or(""));
        let message = format!("is left out in variant \"{variant}\", where it {}", why.message);
        Diagnostic { severity: Severity::Warning, subject: String::new(), message, ..why }
    }

    /// Takes what a variant sets.
    fn overlay(&mut self, name: &str, diagnostics: &Diagnostics) {
        let set = [VARIANTS, name, "set"].iter().try_fold(ROOT, |at, key| self.tree.child(at, key));
        let mut leaves = Vec::new();
        if let Some(set) = set {
            self.collect(set, "", &mut leaves);
        }
        for (path, value) in leaves {
            match self.slot(&path, Origin::Variant) {
                Ok(slot) => self.fill(slot, value, Origin::Variant),
                Err(lost) => {
                    let position = self.position(self.key_location(value));
                    let subject = format!("variant \"{name}\"");
                    diagnostics.push(Diagnostic { position, subject, ..lost });
                }
            }
        }
    }

    /// The values below a table by path; a table stands for the values in it.
    fn collect(&self, table: NodeId, prefix: &str, into: &mut Vec<(String, NodeId)>) {
        for &child in self.tree.children(table) {
            let path = joined(prefix, self.tree.name(child).unwrap_or(""));
            match self.tree.node(child).value {
                Value::Table(_) => self.collect(child, &path, into),
                _ => into.push((path, child)),
            }
        }
    }

    /// Takes a setting if it is for this configuration: for it alone (`own`) or for all.
    fn take_setting(&mut self, index: usize, own: bool, diagnostics: &Diagnostics) {
        let settings = std::sync::Arc::clone(&self.settings);
        let (given, span) = &settings[index];
        let for_one = given.strip_prefix("variants.").and_then(|rest| rest.split_once('.'));
        let path = match (for_one, self.variant.as_deref()) {
            (None, _) if !own => given,
            (Some((name, rest)), Some(variant)) if own && name == variant => {
                rest.strip_prefix("set.").unwrap_or(rest)
            }
            // Said once, where the file itself is configured.
            (Some((name, _)), None) if own && !self.variants().contains(&name) => given,
            _ => return,
        };
        let origin = Origin::Setting { index, own };
        let whole = !own && (given == VARIANTS || given.starts_with("variants."));
        let slot = if whole { Err(self.whole_variant()) } else { self.slot(path, origin) };
        let lost = match slot {
            Err(lost) => lost.key(shown_path(given)).value(shown(self.source.slice(span.clone()))),
            Ok(slot) => {
                let value = self.given(span.clone());
                return self.fill(slot, value, origin);
            }
        };
        let (file, position) = (SETTING.into(), setting_position(index));
        let lost = Diagnostic { file, position, ..lost };
        if own || self.variant.is_none() {
            diagnostics.push(lost);
        } else if !diagnostics.has_error_at(position) {
            diagnostics.push(self.left_out(lost));
        }
    }

    /// The error that a variant is set, not something in it.
    fn whole_variant(&self) -> Diagnostic {
        let error = self.error(self.root_location(), "cannot be set as a whole");
        error.allowed("variants.NAME.PATH").hint("To run without variants, say --variants none")
    }

    /// Adds the value of a setting: TOML in brackets, braces or quotes, or a text that is what its key wants.
    fn given(&mut self, span: std::ops::Range<usize>) -> NodeId {
        let text = self.source.slice(span.clone()).to_owned();
        let is_toml = text.starts_with(['[', '{', '"', '\'']) && nesting::too_deep(&text).is_none();
        let parsed = is_toml.then(|| DeValue::parse(&text).ok()).flatten();
        match parsed {
            Some(value) => self.tree.add(ROOT, None, 0, value, &|offset| span.start + offset),
            None => self.tree.push(ROOT, None, 0, span, Value::Given(text)),
        }
    }

    /// Finds where the value of a path goes, and adds tables that are missing on the way.
    fn slot(&mut self, path: &str, origin: Origin) -> Result<Slot, Diagnostic> {
        let steps = steps(path);
        let mut at = ROOT;
        if steps.len() > MAX_STEPS {
            return Err(self.lost(ROOT, path, path, None));
        }
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            if let Some(file) = self.file_keys(at, step).filter(|_| !last) {
                if !file.keys.iter().any(|key| self.tree.child(at, key).is_some()) {
                    return Err(self.lost(at, step, path, Some(file)));
                }
                let rest = path.splitn(4, '.').nth(3).unwrap_or("");
                return Ok(Slot::File(at, file.keys[0], rest.to_owned()));
            }
            match self.step(at, step) {
                Some(next) if last => return Ok(Slot::Over(next)),
                Some(next) => at = next,
                None if last && self.can_grow(at, step) => return Ok(Slot::Into(at, (*step).to_owned())),
                // An array that is not written has no elements.
                None if self.can_grow(at, step) && !steps[i + 1].starts_with('[') => {
                    let table = self.tree.push(at, None, 0, 0..0, Value::Table(Vec::new()));
                    self.attach(table, at, step);
                    self.tree.nodes[table as usize].origin = origin;
                    at = table;
                }
                None => return Err(self.lost(at, step, path, None)),
            }
        }
        Err(self.lost(ROOT, path, path, None))
    }

    /// What a step leads to: a key, or an element of an array from 1 in brackets.
    fn step(&self, at: NodeId, step: &str) -> Option<NodeId> {
        match (step.strip_prefix('['), &self.tree.node(at).value) {
            (None, _) => self.tree.child(at, step),
            (Some(rest), Value::Array(elements)) => {
                let number: usize = rest.strip_suffix(']')?.parse().ok()?;
                elements.get(number.checked_sub(1)?).copied()
            }
            _ => None,
        }
    }

    /// The keys among which one is that, if their value is another file.
    fn file_keys(&self, table: NodeId, key: &str) -> Option<&'static FileKeys> {
        let [section, _] = self.tree.chain(table)[..] else { return None };
        let section = self.tree.name(section);
        self.form.files.iter().find(|file| Some(file.section) == section && file.keys.contains(&key))
    }

    /// Whether a key may be added to a node: it is a table, and its keys are not names that the file gives.
    fn can_grow(&self, at: NodeId, key: &str) -> bool {
        let named = |name| self.tree.node(at).parent == ROOT && self.form.named.contains(&name);
        let is_table = matches!(self.tree.node(at).value, Value::Table(_));
        is_table && !key.starts_with('[') && !self.tree.name(at).is_some_and(named)
    }

    /// Puts a copy of a value where it belongs.
    fn fill(&mut self, slot: Slot, value: NodeId, origin: Origin) {
        let value = self.copy(value, origin);
        match slot {
            Slot::Into(table, key) => self.attach(value, table, &key),
            Slot::Over(old) => {
                let (parent, index) = (self.tree.node(old).parent, self.tree.node(old).index);
                let key = self.tree.name(old).map(str::to_owned);
                self.place(value, parent, key);
                self.tree.nodes[value as usize].index = index;
                if let Value::Table(children) | Value::Array(children) =
                    &mut self.tree.nodes[parent as usize].value
                {
                    children.iter_mut().filter(|c| **c == old).for_each(|c| *c = value);
                }
            }
            Slot::File(table, key, path) => {
                let name = format!("{}.{key}.{path}", self.key_path(self.value_location(table)));
                self.place(value, ROOT, Some(name));
                self.in_files.push(InFile { table, key, path, value });
            }
        }
    }

    fn attach(&mut self, value: NodeId, table: NodeId, key: &str) {
        self.place(value, table, Some(key.to_owned()));
        if let Value::Table(children) = &mut self.tree.nodes[table as usize].value {
            children.push(value);
        }
    }

    /// Gives a node another parent and key; its place stays.
    fn place(&mut self, value: NodeId, parent: NodeId, name: Option<String>) {
        let node = &mut self.tree.nodes[value as usize];
        let span = node.key.as_ref().map_or(node.span.clone(), |key| key.span.clone());
        node.key = name.map(|name| Key { name, span });
        node.parent = parent;
    }

    /// A copy of a value with everything in it, which no table has yet.
    fn copy(&mut self, value: NodeId, origin: Origin) -> NodeId {
        let id = self.tree.nodes.len() as NodeId;
        let node = Node { origin, ..self.tree.node(value).clone() };
        self.tree.nodes.push(node);
        let children = self.tree.children(value).to_vec();
        let children: Vec<NodeId> = children.into_iter().map(|child| self.copy(child, origin)).collect();
        children.iter().for_each(|&child| self.tree.nodes[child as usize].parent = id);
        if let Value::Table(old) | Value::Array(old) = &mut self.tree.nodes[id as usize].value {
            *old = children;
        }
        id
    }

    /// The error that a path leads nowhere: behind `known`, where `given` was asked for, or where there is no `file`.
    fn lost(&self, known: NodeId, given: &str, path: &str, file: Option<&FileKeys>) -> Diagnostic {
        let candidates: Vec<&str> =
            self.tree.children(known).iter().filter_map(|&c| self.tree.name(c)).collect();
        let elements = match &self.tree.node(known).value {
            Value::Array(elements) => Some(elements.len()),
            _ => None,
        };
        let known = self.key_path(self.value_location(known));
        let hint = if let Some(file) = file {
            Some(format!("{known} has no {given}: give it {} with {given} = \"FILE\".", file.what))
        } else if let Some(meant) = did_you_mean(given, candidates.iter().copied()) {
            let head = joined(&known, meant);
            let tail = path.get(head.len() - meant.len() + given.len()..).unwrap_or("");
            Some(format!("did you mean \"{head}{tail}\"?"))
        } else if known.is_empty() && candidates.is_empty() {
            Some("A path is the keys of the file joined by dots.".to_owned())
        } else if let Some(elements) = elements {
            let plural = if elements == 1 { "" } else { "s" };
            Some(format!("{known} has {elements} element{plural}, counted from 1."))
        } else {
            candidates.is_empty().then(|| format!("{known} has no parts."))
        };
        let allowed = (!candidates.is_empty() && file.is_none()).then(|| quoted_list(candidates));
        let lost = self.error(self.root_location(), self.form.unknown_path).key(shown_path(path));
        Diagnostic { allowed, hint, ..lost }
    }
}

/// What stands in the place of a file for a setting.
pub(crate) const SETTING: &str = "--set";

/// The place of a setting among all, which has no line: what is displayed is the setting itself.
pub(crate) fn setting_position(index: usize) -> Position {
    Position { line: 0, column: u32::try_from(index + 1).unwrap_or(u32::MAX) }
}

/// A key behind the path of its table.
pub(crate) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// As much of a path as a message shows.
fn shown_path(path: &str) -> String {
    path.chars().take(64).collect()
}

/// Keys, and elements of arrays in their brackets.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, elements) = part.split_at(part.find('[').unwrap_or(part.len()));
        steps.push(key);
        steps.extend(elements.split_inclusive(']'));
    }
    steps
}
