//! Other configurations of a scenario, as its file orders them.

use crate::result::Variant;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Results of variants by name, in the order of the scenario's file; in JSON an object of that order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variants(Vec<(String, Variant)>);

impl Variants {
    /// The variant of this name.
    pub fn get(&self, name: &str) -> Option<&Variant> {
        self.iter().find(|(of, _)| *of == name).map(|(_, variant)| variant)
    }

    /// All of them, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variant)> {
        self.0.iter().map(|(name, variant)| (name.as_str(), variant))
    }

    /// All of them, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Variant> {
        self.0.iter_mut().map(|(_, variant)| variant)
    }
}

impl FromIterator<(String, Variant)> for Variants {
    fn from_iter<I: IntoIterator<Item = (String, Variant)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl<const N: usize> From<[(String, Variant); N]> for Variants {
    fn from(all: [(String, Variant); N]) -> Self {
        all.into_iter().collect()
    }
}

impl Serialize for Variants {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Variants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Variants;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("variants by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Variants, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Variants(all))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}
