//! The classes of a tree as graph text gives them: names, parents, and whose packets go to which leaf.

use super::lists::Lists;
use crate::classify::DscpTable;
use crate::plumbing::set_class::is_name;
use perhop_element::{BuildCx, Reader};
use perhop_packet::{ClassId, Packet};

/// Most classes of a tree besides the root.
pub(super) const MAX_CLASSES: usize = 64;
/// What a list of classes may be, for messages.
pub(super) const NAMES: &str = "different names, each 1 to 128 of A-Z a-z 0-9 . _ : / -";

/// In the table of logical classes: none has it.
const NONE: u8 = u8::MAX;

/// Names and parents, parents before children, and the leaf of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeNames {
    pub(super) names: Vec<String>,
    /// Index of the parent; `None`: the root.
    pub(super) parents: Vec<Option<usize>>,
    /// By logical class; [`NONE`]: no leaf has it.
    by_class: Vec<u8>,
    /// The leaf of each code point instead of logical classes.
    dscp: Option<DscpTable>,
    /// Takes packets of classes that no leaf has.
    last: usize,
}

impl TreeNames {
    /// Reads `classes` and `dscp` of leaves alone.
    pub(super) fn read_flat(r: &mut Reader<'_>, cx: &mut BuildCx) -> Self {
        let names = Self::read_names(r);
        let parents = vec![None; names.len()];
        Self::with(r, cx, names, parents)
    }

    /// Reads `classes`, `parent` and `dscp`. Whatever is wrong, at least one leaf is there.
    pub(super) fn read(r: &mut Reader<'_>, cx: &mut BuildCx) -> Self {
        let names = Self::read_names(r);
        let words = Lists { r, count: names.len() }.words("parent");
        let mut parents = vec![None; names.len()];
        for (n, word) in words.iter().enumerate().filter(|(_, word)| *word != "root") {
            parents[n] = names[..n].iter().position(|name| name == word);
            if parents[n].is_none() {
                let message = format!("parent of {}: {word} is not a class before it", names[n]);
                r.fail("parent", message, Some("root, or a class written before".to_owned()));
            }
        }
        Self::with(r, cx, names, parents)
    }

    fn read_names(r: &mut Reader<'_>) -> Vec<String> {
        let text: String = r.required("classes", Some(0), NAMES);
        let count = text.split_whitespace().count();
        if count > MAX_CLASSES {
            let allowed = Some(format!("at most {MAX_CLASSES}"));
            r.fail("classes", format!("{count} classes are too many"), allowed);
        }
        let mut names: Vec<String> = Vec::new();
        for name in text.split_whitespace().take(MAX_CLASSES) {
            if !is_name(name) || name == "root" || names.iter().any(|n| n == name) {
                let allowed = Some(NAMES.to_owned());
                r.fail("classes", format!("{name} is not the name of another class"), allowed);
            }
            names.push(name.to_owned());
        }
        if names.is_empty() {
            names.push(String::new());
        }
        names
    }

    fn with(r: &mut Reader<'_>, cx: &mut BuildCx, names: Vec<String>, parents: Vec<Option<usize>>) -> Self {
        let last = names.len() - 1;
        let mut by_class = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let id = if is_name(name) { cx.class(name) } else { ClassId::NONE };
            if id.is_some() && !parents.contains(&Some(n)) {
                by_class.resize(by_class.len().max(id.index() + 1), NONE);
                by_class[id.index()] = n as u8;
            }
        }
        let mut tree = Self { names, parents, by_class, dscp: None, last };
        tree.dscp = Lists { r, count: tree.len() }.code_points(|n| tree.is_leaf(n));
        tree
    }

    /// Number of classes besides the root.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether a class has no children.
    pub(super) fn is_leaf(&self, class: usize) -> bool {
        !self.parents.contains(&Some(class))
    }

    /// The leaf that takes a packet: by code point, or by logical class, or the last class, which is a leaf.
    pub(super) fn leaf_of(&self, packet: &Packet) -> usize {
        let meta = packet.meta();
        let found = match &self.dscp {
            Some(table) => {
                let tos = (meta.layout.ip_version != 0).then_some(meta.layout.tos);
                table.find(tos).map(usize::from)
            }
            None => self.by_class.get(meta.class.index()).filter(|n| **n != NONE).map(|n| usize::from(*n)),
        };
        found.unwrap_or(self.last)
    }
}
