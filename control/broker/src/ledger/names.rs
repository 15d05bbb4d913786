//! Names by number, and numbers by a quick hash.

use std::collections::HashMap;
use std::sync::Arc;

/// Names, each once; numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Names {
    /// The number of a name that is there.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The number of a name, which is added if it is not there.
    pub fn add(&mut self, name: &str) -> u32 {
        if let Some(number) = self.get(name) {
            return number;
        }
        let (number, name): (u32, Arc<str>) = (self.names.len() as u32, name.into());
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> &Arc<str> {
        &self.names[number as usize]
    }
}

/// A hash for numbers that the ledger itself gives out, ascending: nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdHasher(u64);

impl std::hash::Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = perhop_units::mix::spread(self.0 ^ n);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes [`IdHasher`]s.
pub(super) type IdHash = std::hash::BuildHasherDefault<IdHasher>;
