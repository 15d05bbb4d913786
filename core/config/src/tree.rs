//! The parsed file as an arena of nodes in file order, each knowing its parent, key and place.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Index of a node; the root table is 0.
pub(crate) type NodeId = u32;

/// The root table.
pub(crate) const ROOT: NodeId = 0;

/// What a node holds. Children are in file order.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// `None` if it does not fit 64 bits.
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(bool),
    Datetime,
    Array(Vec<NodeId>),
    Table(Vec<NodeId>),
    /// Text of a setting without quotes or brackets: it is what its key wants it to be.
    Given(String),
    /// A placeholder for a value that could not be parsed; a syntax error is reported for it.
    Invalid,
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At its own place in the file.
    File,
    /// In the variant that the document is.
    Variant,
    /// Outside of the file: its place among the settings from 0, and whether it is for the variant alone.
    Setting { index: usize, own: bool },
}

/// A value, its key (unless it is an array element or the root) and its places.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: NodeId,
    pub(crate) key: Option<Key>,
    /// Place among the elements of an array, from 0.
    pub(crate) index: usize,
    /// The value; of a table with a header the header, of an implied table its key.
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    /// An error of form is reported at this very value.
    pub(crate) faulty: bool,
    /// An error of form is reported at the key.
    pub(crate) faulty_key: bool,
    /// A table in whose extent something could not be parsed: what seems missing may have been there.
    pub(crate) damaged: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
}

/// The nodes of a file and two indexes by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// Nodes by the start of their key, or of their value if they have none.
    by_start: Vec<(usize, NodeId)>,
    /// Tables with a header, by the header's start; the root first.
    headers: Vec<(usize, NodeId)>,
}

impl Tree {
    /// Takes over a parsed table; `original` turns a parsed offset into one of the user's text. O(n log n).
    pub(crate) fn new(table: DeTable<'_>, original: &dyn Fn(usize) -> usize) -> Self {
        let mut tree = Self::default();
        tree.add(ROOT, None, 0, Spanned::new(0..0, DeValue::Table(table)), original);
        for (id, node) in (0u32..).zip(&tree.nodes) {
            let start = node.key.as_ref().map_or(node.span.start, |k| k.span.start);
            tree.by_start.push((start, id));
        }
        tree.by_start.sort_unstable();
        tree
    }

    /// Finds the tables that begin with a header line, which needs the text.
    pub(crate) fn index_headers(&mut self, text: &str) {
        self.headers = vec![(0, ROOT)];
        for (id, node) in (0u32..).zip(&self.nodes) {
            let header = text.as_bytes().get(node.span.start) == Some(&b'[');
            if id != ROOT && header && matches!(node.value, Value::Table(_)) {
                self.headers.push((node.span.start, id));
            }
        }
        self.headers.sort_unstable();
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The child of a table with this key: O(keys of the table).
    pub(crate) fn child(&self, table: NodeId, key: &str) -> Option<NodeId> {
        let Value::Table(children) = &self.node(table).value else { return None };
        children.iter().copied().find(|&c| self.name(c) == Some(key))
    }

    /// Children of a table or elements of an array.
    pub(crate) fn children(&self, id: NodeId) -> &[NodeId] {
        match &self.node(id).value {
            Value::Table(children) | Value::Array(children) => children,
            _ => &[],
        }
    }

    /// The key of a node; `None` for elements of arrays and the root.
    pub(crate) fn name(&self, id: NodeId) -> Option<&str> {
        self.node(id).key.as_ref().map(|k| k.name.as_str())
    }

    /// From the first key below the root down to the node.
    pub(crate) fn chain(&self, id: NodeId) -> Vec<NodeId> {
        let up = |&id: &NodeId| Some(self.node(id).parent);
        let mut chain: Vec<NodeId> =
            std::iter::successors(Some(id), up).take_while(|&id| id != ROOT).collect();
        chain.reverse();
        chain
    }

    /// The innermost node whose key or value contains (or touches) a position.
    pub(crate) fn at(&self, position: usize) -> Option<NodeId> {
        let after = self.by_start.partition_point(|&(start, _)| start <= position);
        let mut id = self.by_start.get(after.checked_sub(1)?)?.1;
        loop {
            let node = self.node(id);
            let start = node.key.as_ref().map_or(node.span.start, |k| k.span.start);
            let end = node.key.as_ref().map_or(node.span.end, |k| k.span.end.max(node.span.end));
            if id != ROOT && (start..=end).contains(&position) {
                return Some(id);
            }
            if id == ROOT {
                return None;
            }
            id = node.parent;
        }
    }

    /// The table whose header is the last one at or before a position.
    pub(crate) fn section(&self, position: usize) -> NodeId {
        let after = self.headers.partition_point(|&(start, _)| start <= position);
        after.checked_sub(1).map_or(ROOT, |i| self.headers[i].1)
    }

    /// Whether something was lost in this table or in one that encloses it, so that a missing key proves nothing.
    pub(crate) fn is_damaged(&self, mut id: NodeId) -> bool {
        loop {
            let node = self.node(id);
            if node.damaged {
                return true;
            }
            let bounded = self.headers.binary_search(&(node.span.start, id)).is_ok();
            if id == ROOT || bounded {
                return false;
            }
            id = node.parent;
        }
    }

    /// Adds a parsed value with everything in it and returns its node.
    pub(crate) fn add(
        &mut self,
        parent: NodeId,
        key: Option<Key>,
        index: usize,
        value: Spanned<DeValue<'_>>,
        original: &dyn Fn(usize) -> usize,
    ) -> NodeId {
        let id = self.nodes.len() as NodeId;
        let parsed = value.span();
        // The parser gives a value that is not there the empty span at the start of the file.
        let placeholder = parsed == (0..0) && id != ROOT;
        let span = if placeholder {
            key.as_ref().map_or(0..0, |k| k.span.clone())
        } else {
            original(parsed.start)..original(parsed.end)
        };
        self.push(parent, key, index, span, Value::Invalid);
        if placeholder {
            self.nodes[id as usize].faulty = true;
            return id;
        }
        let value = match value.into_inner() {
            DeValue::String(s) => Value::Text(s.into_owned()),
            DeValue::Integer(i) => Value::Integer(i64::from_str_radix(i.as_str(), i.radix()).ok()),
            DeValue::Float(f) => Value::Float(f.as_str().parse().ok()),
            DeValue::Boolean(b) => Value::Boolean(b),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(elements) => {
                let elements = elements.into_iter().enumerate();
                Value::Array(elements.map(|(i, e)| self.add(id, None, i, e, original)).collect())
            }
            DeValue::Table(entries) => {
                let mut entries: Vec<_> = entries.into_iter().collect();
                entries.sort_by_key(|(key, _)| key.span().start);
                let mut children = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let span = original(key.span().start)..original(key.span().end);
                    let key = Key { name: key.into_inner().into_owned(), span };
                    children.push(self.add(id, Some(key), 0, value, original));
                }
                Value::Table(children)
            }
        };
        self.nodes[id as usize].value = value;
        id
    }

    /// Adds a node whose parent does not know it yet.
    pub(crate) fn push(
        &mut self,
        parent: NodeId,
        key: Option<Key>,
        index: usize,
        span: Range<usize>,
        value: Value,
    ) -> NodeId {
        let id = self.nodes.len() as NodeId;
        let (faulty, faulty_key, damaged) = (false, false, false);
        let origin = Origin::File;
        self.nodes.push(Node { parent, key, index, span, value, origin, faulty, faulty_key, damaged });
        id
    }
}
