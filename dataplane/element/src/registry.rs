//! The element types a graph text may name.

use crate::{ArgError, Args, BuildCx, Element};
use rand::Rng;

/// How many inputs or outputs a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortCount {
    /// Exactly this many.
    Exactly(u8),
    /// From the first to the second number.
    Between(u8, u8),
}

impl PortCount {
    /// Fewest and most.
    pub const fn range(self) -> (u8, u8) {
        match self {
            Self::Exactly(n) => (n, n),
            Self::Between(a, b) => (a, b),
        }
    }
}

/// Makes an element from its arguments, or says everything that is wrong with them.
pub type BuildFn = fn(&Args, &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>>;

/// One registered element type. One line of registration an element.
#[derive(Clone, Copy)]
pub struct ElementType {
    /// Name in graph text.
    pub name: &'static str,
    /// One sentence.
    pub synopsis: &'static str,
    /// Inputs.
    pub inputs: PortCount,
    /// Outputs.
    pub outputs: PortCount,
    /// Makes one.
    pub build: BuildFn,
    /// Valid arguments drawn at random, for the conservation test over random graphs.
    pub sample: fn(&mut dyn Rng) -> String,
}

/// All element types, sorted by name.
#[derive(Clone, Default)]
pub struct Registry {
    types: Vec<ElementType>,
}

impl Registry {
    /// A registry of `types`; a later type of the same name replaces an earlier.
    pub fn new(types: impl IntoIterator<Item = ElementType>) -> Self {
        let mut registry = Self::default();
        for t in types {
            registry.types.retain(|old| old.name != t.name);
            registry.types.push(t);
        }
        registry.types.sort_by_key(|t| t.name);
        registry
    }
    /// The type called `name`.
    pub fn find(&self, name: &str) -> Option<&ElementType> {
        self.types.binary_search_by_key(&name, |t| t.name).ok().map(|i| &self.types[i])
    }
    /// All types, by name.
    pub fn types(&self) -> &[ElementType] {
        &self.types
    }
}
