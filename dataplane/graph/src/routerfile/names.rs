//! The names that a file declares, so that references can be resolved before everything is read.

use perhop_config::{Spanned, TableReader, did_you_mean};
use perhop_model::Name;
use std::collections::BTreeSet;

/// Names that a message lists at most.
const MAX_LISTED: usize = 12;

/// A table with the name it declares; an empty name was missing or wrong.
pub(super) type Named<'a> = (Spanned<&'a str>, TableReader<'a>);

/// What references can mean.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) ports: BTreeSet<&'a str>,
    pub(super) classes: BTreeSet<&'a str>,
    pub(super) logical: BTreeSet<&'a str>,
    pub(super) profiles: BTreeSet<&'a str>,
    pub(super) slas: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Collects the names of tables already found. The logical name of a class is its key `logical`, else what is
    /// behind the last `/` of its name.
    pub(super) fn collect(
        ports: &[Named<'a>],
        classes: &mut [Named<'a>],
        profiles: &[Named<'a>],
        slas: &[Named<'a>],
    ) -> Self {
        let set = |list: &[Named<'a>]| list.iter().map(|(n, _)| n.value).filter(|n| !n.is_empty()).collect();
        let mut logical = BTreeSet::new();
        for (name, reader) in classes.iter_mut() {
            let own = if reader.is_text("logical") { reader.text("logical").map(|l| l.value) } else { None };
            let name = own.unwrap_or_else(|| name.value.rsplit('/').next().unwrap_or(name.value));
            if !name.is_empty() {
                logical.insert(name);
            }
        }
        Self { ports: set(ports), classes: set(classes), logical, profiles: set(profiles), slas: set(slas) }
    }
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
