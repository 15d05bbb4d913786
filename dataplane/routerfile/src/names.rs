//! The names that a file declares, so that references can be resolved before everything is read.

use perhop_config::{Spanned, TableReader, did_you_mean};
use perhop_contract::MAX_DEPTH;
use perhop_model::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Names that a message lists at most.
const MAX_LISTED: usize = 12;

/// A table with the name it declares; an empty name was missing or wrong.
pub(super) type Named<'a> = (Spanned<&'a str>, TableReader<'a>);

/// What references can mean.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) ports: BTreeSet<&'a str>,
    pub(super) classes: BTreeSet<&'a str>,
    /// Logical names of leaves: what filters and their like choose.
    pub(super) logical: BTreeSet<&'a str>,
    /// Logical names that only classes with children have, and those of the leaves below them.
    inner: BTreeMap<&'a str, BTreeSet<&'a str>>,
    pub(super) profiles: BTreeSet<&'a str>,
    pub(super) slas: BTreeSet<&'a str>,
    /// Filters that were given a name.
    pub(super) filters: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Logical classes and nothing else.
    pub(super) fn of_classes(classes: impl Iterator<Item = &'a str>) -> Self {
        Self { logical: classes.collect(), ..Self::default() }
    }

    /// Collects the names of tables already found. The logical name of a class is its key `logical`, else what is
    /// behind the last `/` of its name.
    pub(super) fn collect(
        ports: &[Named<'a>],
        classes: &mut [Named<'a>],
        profiles: &[Named<'a>],
        slas: &[Named<'a>],
        filters: &[Named<'a>],
    ) -> Self {
        let set = |list: &[Named<'a>]| list.iter().map(|(n, _)| n.value).filter(|n| !n.is_empty()).collect();
        let mut tree = Vec::with_capacity(classes.len());
        for (name, reader) in classes.iter_mut() {
            let mut text = |key| if reader.is_text(key) { reader.text(key).map(|t| t.value) } else { None };
            let (own, parent) = (text("logical"), text("parent"));
            let logical = own.unwrap_or_else(|| name.value.rsplit('/').next().unwrap_or(name.value));
            tree.push((name.value, logical, parent));
        }
        let (logical, inner) = leaves(&tree);
        Self {
            ports: set(ports),
            classes: set(classes),
            logical,
            inner,
            profiles: set(profiles),
            slas: set(slas),
            filters: set(filters),
        }
    }
}

/// A class's name, its logical name, its parent's name.
type InTree<'a> = (&'a str, &'a str, Option<&'a str>);

/// Logical names of leaves, and by each logical name that no leaf has those of the leaves below. What is in a circle of
/// parents counts as a leaf: the circle is an error of its own.
fn leaves<'a>(tree: &[InTree<'a>]) -> (BTreeSet<&'a str>, BTreeMap<&'a str, BTreeSet<&'a str>>) {
    let by_name: BTreeMap<&str, &InTree<'a>> = tree.iter().map(|class| (class.0, class)).collect();
    let parents: BTreeSet<&str> = tree.iter().filter_map(|class| class.2).collect();
    let mut inner: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
    let mut above = BTreeSet::new();
    for (_, logical, parent) in tree.iter().filter(|class| !parents.contains(class.0)) {
        let mut up = *parent;
        for _ in 0..MAX_DEPTH {
            let Some((name, of_inner, next)) = up.and_then(|name| by_name.get(name)) else { break };
            above.insert(*name);
            inner.entry(of_inner).or_default().insert(logical);
            up = *next;
        }
    }
    let logical: BTreeSet<&str> =
        tree.iter().filter(|c| !above.contains(c.0) && !c.1.is_empty()).map(|c| c.1).collect();
    inner.retain(|name, _| !logical.contains(name));
    (logical, inner)
}

/// A reference to a logical class that packets can be queued in.
pub(super) fn class(reader: &mut TableReader<'_>, key: &'static str, names: &Names<'_>) -> Option<Name> {
    let given = reader.text(key)?;
    let Some(leaves) = names.inner.get(given.value) else {
        return resolve(reader, given, "a class", &names.logical);
    };
    let diagnostic = reader.document().error(given.span, "is a class with children");
    reader.diagnostics().push(
        diagnostic
            .hint("only leaves queue packets. Name one of them")
            .allowed(if reader.diagnostics().is_full() { String::new() } else { list(leaves) }),
    );
    None
}

/// A reference to something the file declares; `what` with an article: `a port`. Reports unknown names with the one
/// that was probably meant.
pub(super) fn reference(
    reader: &mut TableReader<'_>,
    key: &'static str,
    what: &str,
    names: &BTreeSet<&str>,
) -> Option<Name> {
    let given = reader.text(key)?;
    resolve(reader, given, what, names)
}

/// A list of references; unknown ones are reported and left out.
pub(super) fn references(
    reader: &mut TableReader<'_>,
    key: &'static str,
    what: &str,
    names: &BTreeSet<&str>,
) -> Vec<Name> {
    let given = reader.texts(key).map_or(Vec::new(), |list| list.value);
    given.into_iter().filter_map(|g| resolve(reader, g, what, names)).collect()
}

fn resolve(
    reader: &TableReader<'_>,
    given: Spanned<&str>,
    what: &str,
    names: &BTreeSet<&str>,
) -> Option<Name> {
    if names.contains(given.value) {
        // A declared name that is not legal is reported where it is declared.
        return Name::new(given.value).ok();
    }
    let mut diagnostic = reader.document().error(given.span, format!("is not {what} of this file"));
    if !reader.diagnostics().is_full() {
        if let Some(meant) = did_you_mean(given.value, names.iter().copied()) {
            diagnostic = diagnostic.hint(format!("did you mean \"{meant}\"?"));
        }
        diagnostic = match names.len() {
            0 => diagnostic.hint("The file declares none"),
            _ => diagnostic.allowed(list(names)),
        };
    }
    reader.diagnostics().push(diagnostic);
    None
}

fn list(names: &BTreeSet<&str>) -> String {
    let mut shown: Vec<String> = names.iter().take(MAX_LISTED).map(|n| format!("\"{n}\"")).collect();
    if names.len() > MAX_LISTED {
        shown.push(format!("and {} more", names.len() - MAX_LISTED));
    }
    shown.join(", ")
}
