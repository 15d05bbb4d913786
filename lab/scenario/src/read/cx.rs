//! What all readers of a scenario file share: the file, the list of what is wrong, companion files, known keys.

use crate::model::{Node, NodeIndex};
use perhop_config::{
    Diagnostic, Diagnostics, Document, KnownKeys, Location, Spanned, TableReader, did_you_mean, quoted_list,
};
use std::path::Path;

/// Gives the bytes of a companion file by its path relative to the scenario file, or says why it cannot.
pub type Companions<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

/// The context of the reading of one configuration.
pub(super) struct Cx<'a> {
    pub(super) file: &'a Document,
    pub(super) diagnostics: &'a Diagnostics,
    pub(super) companions: &'a Companions<'a>,
    /// The keys that each table may have.
    pub(super) known: KnownKeys,
}

impl<'a> Cx<'a> {
    pub(super) fn new(
        file: &'a Document,
        diagnostics: &'a Diagnostics,
        companions: &'a Companions<'a>,
    ) -> Self {
        Self { file, diagnostics, companions, known: KnownKeys::default() }
    }

    /// The top-level table.
    pub(super) fn root(&self) -> TableReader<'_> {
        self.file.root(self.diagnostics).remembering(&self.known)
    }

    /// Reports one.
    pub(super) fn push(&self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// An error at a value; subject, key and value are taken from there. `message` is a predicate.
    pub(super) fn error(&self, at: Location, message: impl Into<String>) -> Diagnostic {
        self.file.error(at, message)
    }

    /// A warning at a value.
    pub(super) fn warning(&self, at: Location, message: impl Into<String>) -> Diagnostic {
        self.file.warning(at, message)
    }

    /// Whether an error is already reported at this very value.
    pub(super) fn is_wrong(&self, at: Location) -> bool {
        self.file.is_wrong(at, self.diagnostics)
    }

    /// The value of a key of a table.
    pub(super) fn child(&self, table: Location, key: &str) -> Option<Location> {
        self.file.child(table, key)
    }

    /// Reports that a table is one more than there may be.
    pub(super) fn one_too_many(&self, table: &TableReader<'_>, what: &str, most: usize) {
        let error = self.file.key_error(table.location(), format!("is one {what} too many"));
        self.push(error.allowed(format!("at most {most}")));
    }

    /// A file that the scenario names, as the user can open it: from where the scenario's own name leads.
    pub(super) fn path_of(&self, companion: &str) -> String {
        let folder = Path::new(self.file.file()).parent().unwrap_or(Path::new(""));
        folder.join(companion).display().to_string()
    }

    /// The position of a name among those that there are, or a report with the one that was probably meant. `what` is
    /// what they name, with an article.
    pub(super) fn find<'n>(
        &self,
        given: Spanned<&str>,
        what: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Option<usize> {
        let found = names.clone().position(|name| name == given.value);
        if found.is_none() {
            let error = self.error(given.span, format!("is not {what} of this scenario"));
            let error = error.meant(did_you_mean(given.value, names.clone()));
            self.push(match names.clone().next() {
                None => error.hint("The file declares none"),
                Some(_) => error.allowed(quoted_list(names)),
            });
        }
        found
    }

    /// The node that a name means.
    pub(super) fn node(&self, given: Spanned<&str>, nodes: &[Node]) -> Option<NodeIndex> {
        self.find(given, "a node", nodes.iter().map(|node| node.name.as_str())).map(NodeIndex)
    }
}

/// Puts a value that is given in the place of its default.
pub(super) fn over<T>(default: &mut T, given: Option<Spanned<T>>) {
    if let Some(given) = given {
        *default = given.value;
    }
}
