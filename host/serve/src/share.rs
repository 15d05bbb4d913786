//! How much of something each of many has, so that none can have what the others are to have.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// How many each has.
#[derive(Clone, Debug)]
pub(crate) struct Shares<K>(Arc<Mutex<HashMap<K, u64>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash>(Shares<K>, K);

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// One more for `whom`, unless that has `most` already.
    pub(crate) fn take(&self, whom: K, most: u64) -> Option<Share<K>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(whom.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Share(Self(Arc::clone(&self.0)), whom))
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_so_many_and_no_other_fewer_for_it() {
        let shares = Shares::default();
        let held: Vec<_> = (0..3).map(|_| shares.take("one", 3).expect("a place")).collect();
        assert!(shares.take("one", 3).is_none() && shares.take("other", 3).is_some());
        drop(held);
        assert!(shares.take("one", 3).is_some());
        assert!(shares.0.lock().expect("nobody panicked").is_empty(), "who has gone is forgotten");
    }
}
