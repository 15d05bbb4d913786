//! The values of a scenario file as an arena of nodes that can be changed by path, each with the place it came from.

use super::lines::Lines;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A node of a [`Tree`].
pub(super) type Id = usize;

/// The top-level table.
pub(super) const ROOT: Id = 0;

/// Tables whose keys are names that the file gives: nothing is added to them by a path.
pub(super) const NAMED: [&str; 4] = ["node", "link", "traffic", "variants"];

/// What a node holds. Children are in the order of the file.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    /// `None` if it does not fit 64 bits.
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(bool),
    Datetime,
    Array(Vec<Id>),
    Table(Vec<Id>),
    /// Text of a setting, which is what its key wants it to be.
    Given(String),
    /// What could not be parsed; reported already.
    Invalid,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// At its own place in the file.
    File,
    /// In a variant of the file.
    Variant { name: String },
    /// Outside of the file: its place among the settings from 0, and whether it is for one variant alone.
    Setting { index: usize, own: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) span: Range<usize>,
}

/// A value, its key (unless it is an array's element or the root) and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: Id,
    pub(super) key: Option<Key>,
    /// Place among the elements of an array, from 0.
    pub(super) index: usize,
    pub(super) span: Range<usize>,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A file's values.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) lines: Lines,
    /// A table without keys, which stands for those that are not written.
    pub(super) empty: Id,
    /// Settings of values inside router files: the node's table, the path behind `router`, the setting's node.
    pub(super) inside_routers: Vec<(Id, String, Id)>,
    /// The same inside the files of agents.
    pub(super) inside_agents: Vec<(Id, String, Id)>,
}

impl Tree {
    /// Takes over a parsed table. O(n log n).
    pub(super) fn new(text: &str, table: DeTable<'_>) -> Self {
        let lines = Lines::new(text);
        let mut tree = Self {
            nodes: Vec::new(),
            lines,
            inside_routers: Vec::new(),
            inside_agents: Vec::new(),
            empty: ROOT,
        };
        tree.add(ROOT, None, 0, Spanned::new(0..0, DeValue::Table(table)), &Origin::File);
        let outside = Origin::Setting { index: 0, own: false };
        let nothing = Spanned::new(0..0, DeValue::Table(DeTable::new()));
        tree.empty = tree.add(ROOT, None, 0, nothing, &outside);
        tree
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// The child of a table with this key. O(keys of the table).
    pub(super) fn child(&self, table: Id, key: &str) -> Option<Id> {
        let Value::Table(children) = &self.node(table).value else { return None };
        children.iter().copied().find(|&c| self.name(c) == key)
    }

    /// Children of a table or elements of an array.
    pub(super) fn children(&self, id: Id) -> &[Id] {
        match &self.node(id).value {
            Value::Table(children) | Value::Array(children) => children,
            _ => &[],
        }
    }

    /// The key of a node, empty for elements of arrays.
    pub(super) fn name(&self, id: Id) -> &str {
        self.node(id).key.as_ref().map_or("", |k| &k.name)
    }

    /// From the first key below the root down to the node.
    pub(super) fn chain(&self, mut id: Id) -> Vec<Id> {
        let mut chain = Vec::new();
        while id != ROOT {
            chain.push(id);
            id = self.node(id).parent;
        }
        chain.reverse();
        chain
    }

    /// The path of a node as settings write it: `link.core.change[1].rate`.
    pub(super) fn path(&self, id: Id) -> String {
        let mut path = String::new();
        for id in self.chain(id) {
            match &self.node(id).key {
                Some(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&key.name);
                }
                None => path.push_str(&format!("[{}]", self.node(id).index + 1)),
            }
        }
        path
    }

    /// Adds a parsed value with everything in it and returns its node.
    pub(super) fn add(
        &mut self,
        parent: Id,
        key: Option<Key>,
        index: usize,
        value: Spanned<DeValue<'_>>,
        origin: &Origin,
    ) -> Id {
        let id = self.nodes.len();
        let span = value.span();
        // The parser gives a value that is not there the empty span at the start of the file.
        let missing = span == (0..0) && id != ROOT && *origin == Origin::File;
        let outside = matches!(origin, Origin::Setting { .. });
        let span = match (missing, outside) {
            (true, _) => key.as_ref().map_or(0..0, |k| k.span.clone()),
            (_, true) => 0..0,
            _ => span,
        };
        let origin_here = origin.clone();
        self.nodes.push(Node { parent, key, index, span, value: Value::Invalid, origin: origin_here });
        if missing {
            return id;
        }
        let value = match value.into_inner() {
            DeValue::String(s) => Value::Text(s.into_owned()),
            // The text of the file has no place to look a setting's number up.
            DeValue::Integer(i) if outside => Value::Given(i.as_str().to_owned()),
            DeValue::Float(f) if outside => Value::Given(f.as_str().to_owned()),
            DeValue::Integer(i) => Value::Integer(i64::from_str_radix(i.as_str(), i.radix()).ok()),
            DeValue::Float(f) => Value::Float(f.as_str().parse().ok()),
            DeValue::Boolean(b) => Value::Boolean(b),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(elements) => {
                let elements = elements.into_iter().enumerate();
                Value::Array(elements.map(|(i, e)| self.add(id, None, i, e, origin)).collect())
            }
            DeValue::Table(entries) => {
                let mut entries: Vec<_> = entries.into_iter().collect();
                entries.sort_by_key(|(key, _)| key.span().start);
                let mut children = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let key = Key { span: key.span(), name: key.into_inner().into_owned() };
                    children.push(self.add(id, Some(key), 0, value, origin));
                }
                Value::Table(children)
            }
        };
        self.nodes[id].value = value;
        id
    }

    /// Adds a copy of a node with everything in it, as another table's value.
    pub(super) fn copy(
        &mut self,
        from: Id,
        parent: Id,
        key: Option<Key>,
        index: usize,
        origin: &Origin,
    ) -> Id {
        let id = self.nodes.len();
        let node = self.node(from).clone();
        self.nodes.push(Node { parent, key, index, origin: origin.clone(), ..node.clone() });
        let copied = |tree: &mut Self, children: Vec<Id>| -> Vec<Id> {
            children
                .into_iter()
                .map(|child| {
                    let (key, index) = (tree.node(child).key.clone(), tree.node(child).index);
                    tree.copy(child, id, key, index, origin)
                })
                .collect()
        };
        self.nodes[id].value = match node.value {
            Value::Table(children) => Value::Table(copied(self, children)),
            Value::Array(children) => Value::Array(copied(self, children)),
            other => other,
        };
        id
    }
}
