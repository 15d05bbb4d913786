//! A scenario in a list of scenarios.

use crate::read::Loaded;
use perhop_units::Duration;

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Stable name.
    pub id: String,
    /// One line that says what it shows.
    pub title: String,
    /// Names of its variants, in the order of the file.
    pub variants: Vec<String>,
    /// How many nodes.
    pub nodes: usize,
    /// How many expected values have a target.
    pub targets: usize,
    /// Length of one repetition, warm-up included.
    pub length: Duration,
    /// Repetitions.
    pub repetitions: u32,
}

impl From<&Loaded> for IndexEntry {
    fn from(loaded: &Loaded) -> Self {
        let product = &loaded.product;
        Self {
            id: product.id.clone(),
            title: product.title.clone(),
            variants: loaded.variants.iter().map(|(name, _)| name.clone()).collect(),
            nodes: product.nodes.len(),
            targets: product.expect.iter().filter(|e| e.target.is_some()).count(),
            length: product.length(),
            repetitions: product.repetitions,
        }
    }
}
