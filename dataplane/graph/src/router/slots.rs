//! Dense identifiers of named things.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};

/// Gives names dense numbers and takes them back. A number that was taken back is not given again before
/// [`Slots::release`], and then only when more than [`Slots::REST`] others were freed after it, so that what still
/// refers to it has time to go away.
#[derive(Clone, Debug, Default)]
pub struct Slots<K: Ord> {
    by_name: BTreeMap<K, u32>,
    /// By number.
    names: Vec<Option<K>>,
    free: VecDeque<u32>,
    /// Taken back by the change that is being planned.
    taken: Vec<u32>,
    next: u32,
}

impl<K: Ord + Clone> Slots<K> {
    /// Freed numbers that rest.
    pub const REST: usize = 64;

    /// None given yet, numbers from `first`.
    pub fn from_number(first: u32) -> Self {
        Self {
            by_name: BTreeMap::new(),
            names: Vec::new(),
            free: VecDeque::new(),
            taken: Vec::new(),
            next: first,
        }
    }

    /// The number of `name`.
    pub fn find<Q: Ord + ?Sized>(&self, name: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.by_name.get(name).copied()
    }

    /// New names that can be given numbers below `limit` now.
    pub fn available(&self, limit: u32) -> usize {
        limit.saturating_sub(self.next) as usize + self.free.len().saturating_sub(Self::REST)
    }

    /// The number of `name`, given now if it has none.
    pub fn give(&mut self, name: K) -> u32 {
        if let Some(n) = self.by_name.get(&name) {
            return *n;
        }
        let n = match self.free.pop_front() {
            Some(n) if self.free.len() >= Self::REST => n,
            other => {
                if let Some(n) = other {
                    self.free.push_front(n);
                }
                self.next += 1;
                self.next - 1
            }
        };
        self.by_name.insert(name.clone(), n);
        let place = n as usize;
        if self.names.len() <= place {
            self.names.resize(place + 1, None);
        }
        self.names[place] = Some(name);
        n
    }

    fn forget<Q: Ord + ?Sized>(&mut self, name: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let n = self.by_name.remove(name)?;
        self.names[n as usize] = None;
        Some(n)
    }

    /// Forgets `name`; its number may be given again after [`Slots::release`].
    pub fn take<Q: Ord + ?Sized>(&mut self, name: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let n = self.forget(name)?;
        self.taken.push(n);
        Some(n)
    }

    /// Makes the numbers available that were taken back so far: call it when a change is planned whole, because a
    /// number that one change takes from one thing and gives to another would hand over the state behind it.
    pub fn release(&mut self) {
        self.free.extend(self.taken.drain(..));
    }

    /// Forgets `name` without freeing its number; see [`Slots::free`].
    pub fn retire(&mut self, name: &K) -> Option<u32> {
        self.forget(name)
    }

    /// Makes a retired number available.
    pub fn free(&mut self, n: u32) {
        assert!(n < self.next, "a number is given before it is free");
        self.free.push_back(n);
    }

    /// Names and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&K, u32)> {
        self.by_name.iter().map(|(k, n)| (k, *n))
    }

    /// The name of a number.
    pub fn name_of(&self, n: u32) -> Option<&K> {
        self.names.get(n as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_stable_and_rest_before_they_return() {
        let mut s = Slots::from_number(1);
        assert_eq!((s.give("a"), s.give("b"), s.give("a")), (1, 2, 1));
        s.take(&"a");
        assert_eq!(s.give("c"), 3, "1 rests");
        assert_eq!([0, 1, 2, 3, 4].map(|n| s.name_of(n).copied()), [None, None, Some("b"), Some("c"), None]);
        let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
        let mut s = Slots::default();
        for n in &names {
            s.give(n.as_str());
        }
        for n in &names {
            s.take(&n.as_str());
        }
        assert_eq!(s.give("too early"), 100, "what one change takes it does not give");
        s.release();
        assert_eq!(s.give("again"), 0);
    }
}
