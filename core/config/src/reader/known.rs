//! Which keys there could be, after a walk.

use crate::overrides::joined;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The keys that the tables of a file may have, and the tables, for checks of paths.
#[derive(Debug, Default)]
pub struct KnownKeys {
    paths: RefCell<BTreeSet<String>>,
}

impl KnownKeys {
    pub(super) fn add(&self, table: &str, keys: &[&str]) {
        let below = keys.iter().map(|key| joined(table, key));
        self.paths.borrow_mut().extend(below.chain((!table.is_empty()).then(|| table.to_owned())));
    }

    /// Whether a path is that of a key or a table.
    pub fn has(&self, path: &str) -> bool {
        self.paths.borrow().contains(path)
    }

    /// The paths of all keys and tables, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.paths.borrow().iter().cloned().collect()
    }
}
