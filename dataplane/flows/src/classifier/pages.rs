//! A hash table whose copies share what did not change.

use std::sync::Arc;

/// Buckets of one page.
const PAGE: usize = 32;

/// Buckets of entries in shared pages: copying costs one reference a page, changing one entry copies one page. Grown
/// when there are more entries than buckets.
#[derive(Debug)]
pub(crate) struct Pages<E> {
    pages: Vec<Arc<Page<E>>>,
    len: usize,
}

type Page<E> = [Option<Arc<[E]>>; PAGE];

impl<E> Clone for Pages<E> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone(), len: self.len }
    }
}

impl<E: Clone> Default for Pages<E> {
    fn default() -> Self {
        Self { pages: empty(1), len: 0 }
    }
}

impl<E: Clone> Pages<E> {
    /// Entries inside.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bucket of `hash`.
    #[inline]
    pub fn bucket(&self, hash: u64) -> &[E] {
        let (page, at) = self.place(hash);
        self.pages[page][at].as_deref().unwrap_or_default()
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.pages.iter().flat_map(|page| page.iter().flatten()).flat_map(|bucket| bucket.iter())
    }

    /// Adds `entry` in front of the first entry of its bucket that `before` says it precedes. `hash_of` gives the hash
    /// of any entry, for growing.
    pub fn insert(&mut self, entry: E, hash_of: impl Fn(&E) -> u64, before: impl Fn(&E, &E) -> bool) {
        if self.len >= self.pages.len() * PAGE {
            self.grow(&hash_of, &before);
        }
        self.len += 1;
        let hash = hash_of(&entry);
        self.put(entry, hash, &before);
    }

    fn put(&mut self, entry: E, hash: u64, before: &impl Fn(&E, &E) -> bool) {
        let (page, at) = self.place(hash);
        let bucket = &mut Arc::make_mut(&mut self.pages[page])[at];
        let old = bucket.as_deref().unwrap_or_default();
        let split = old.iter().position(|e| before(&entry, e)).unwrap_or(old.len());
        let new = old[..split].iter().cloned().chain([entry]).chain(old[split..].iter().cloned());
        *bucket = Some(new.collect());
    }

    /// Takes the entry of the bucket of `hash` that `is` says it is.
    pub fn remove(&mut self, hash: u64, is: impl Fn(&E) -> bool) -> Option<E> {
        let (page, at) = self.place(hash);
        let found = self.bucket(hash).iter().position(is)?;
        let bucket = &mut Arc::make_mut(&mut self.pages[page])[at];
        let mut rest: Vec<E> = bucket.as_deref().unwrap_or_default().to_vec();
        let entry = rest.remove(found);
        *bucket = (!rest.is_empty()).then(|| rest.into());
        self.len -= 1;
        Some(entry)
    }

    fn grow(&mut self, hash_of: &impl Fn(&E) -> u64, before: &impl Fn(&E, &E) -> bool) {
        let pages = self.pages.len() * 4;
        let old = std::mem::replace(&mut self.pages, empty(pages));
        for entry in old.iter().flat_map(|page| page.iter().flatten()).flat_map(|bucket| bucket.iter()) {
            self.put(entry.clone(), hash_of(entry), before);
        }
    }

    /// Page and bucket of `hash`; the number of pages is a power of two.
    #[inline]
    fn place(&self, hash: u64) -> (usize, usize) {
        let hash = hash as usize;
        ((hash / PAGE) & (self.pages.len() - 1), hash % PAGE)
    }
}

/// Pages without entries: one, shared until it is written to.
fn empty<E>(pages: usize) -> Vec<Arc<Page<E>>> {
    let page = Arc::new([const { None }; PAGE]);
    std::iter::repeat_with(|| Arc::clone(&page)).take(pages).collect()
}
