//! A bounded ring between exactly one sender and exactly one receiver.
//!
//! Each end keeps its own index and a copy of the other's, and looks at the other's only when the copy says full or
//! empty: as long as both are busy, a cache line travels once for many items. The two shared indices lie on lines of
//! their own. Indices count up for ever and wrap around; their difference is what the ring holds.

use crate::cell::{Arc, AtomicUsize, Ordering, UnsafeCell};
use std::mem::MaybeUninit;

/// The largest capacity: 2²⁰ items.
pub const MAX_CAPACITY: usize = 1 << 20;

/// On a pair of cache lines of its own: x86 fetches them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    /// Items taken so far. Written by the consumer.
    head: Padded<AtomicUsize>,
    /// Items put so far. Written by the producer.
    tail: Padded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    mask: usize,
}

// SAFETY: a slot is reached by the producer alone while it lies outside head … tail, and by the consumer alone while it
// lies inside; each hands it over by a release store of its index that the other reads with acquire.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above; `&Shared` gives access to slots only through the one producer and the one consumer.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let tail = self.tail.0.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Acquire);
        while head != tail {
            // SAFETY: slots from head to tail hold items, and both ends are gone.
            self.slots[head & self.mask].with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// A ring for at least `capacity` items, rounded up to a power of two and clamped to 2 … [`MAX_CAPACITY`]. All memory is
/// taken here.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.clamp(2, MAX_CAPACITY).next_power_of_two();
    let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let index = || Padded(AtomicUsize::new(0));
    let shared = Arc::new(Shared { head: index(), tail: index(), slots, mask: capacity - 1 });
    let producer = Producer { shared: shared.clone(), tail: 0, head: 0 };
    (producer, Consumer { shared, head: 0, tail: 0 })
}

/// The end that puts.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// As it was when last looked at.
    head: usize,
}

impl<T> std::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("put", &self.tail).finish_non_exhaustive()
    }
}

impl<T: Send> Producer<T> {
    /// Items that fit.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// How many items fit now, as far as that is known without looking at the other end unless it seems fewer than
    /// `wanted`. Never more than do fit.
    #[inline]
    fn room(&mut self, wanted: usize) -> usize {
        let room = self.capacity() - self.tail.wrapping_sub(self.head);
        if room >= wanted {
            return room;
        }
        self.head = self.shared.head.0.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.head)
    }

    /// Puts one item.
    ///
    /// # Errors
    /// The item, when the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        self.write(self.tail, item);
        self.publish(self.tail.wrapping_add(1));
        Ok(())
    }

    /// Puts items as long as there is room and `items` has some; the receiver sees all of them at once. Takes none from
    /// `items` that it does not put. Gives their number.
    #[inline]
    pub fn push_batch(&mut self, items: &mut impl ExactSizeIterator<Item = T>) -> usize {
        let room = self.room(items.len());
        let mut put = 0;
        while put < room {
            let Some(item) = items.next() else { break };
            self.write(self.tail.wrapping_add(put), item);
            put += 1;
        }
        if put > 0 {
            self.publish(self.tail.wrapping_add(put));
        }
        put
    }

    #[inline]
    fn write(&mut self, at: usize, item: T) {
        let slot = &self.shared.slots[at & self.shared.mask];
        // SAFETY: `at` is outside head … tail by the caller's look at `room`, so the consumer does not reach it.
        slot.with_mut(|slot| unsafe { (*slot).write(item) });
    }

    #[inline]
    fn publish(&mut self, tail: usize) {
        self.tail = tail;
        self.shared.tail.0.store(tail, Ordering::Release);
    }

    /// Whether the receiver has taken everything.
    pub fn is_empty(&self) -> bool {
        self.shared.head.0.load(Ordering::Acquire) == self.tail
    }
}

/// The end that takes.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    /// As it was when last looked at.
    tail: usize,
}

impl<T> std::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("taken", &self.head).finish_non_exhaustive()
    }
}

/// Gives slots back that were emptied, whatever becomes of what was in them.
struct Emptied<'c, T>(&'c mut Consumer<T>);

impl<T> Drop for Emptied<'_, T> {
    fn drop(&mut self) {
        self.0.shared.head.0.store(self.0.head, Ordering::Release);
    }
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let mut one = None;
        self.pop_batch(1, |item| one = Some(item));
        one
    }

    /// Hands up to `most` items, oldest first, to `take`; the sender sees the room afterwards. Gives their number.
    #[inline]
    pub fn pop_batch(&mut self, most: usize, mut take: impl FnMut(T)) -> usize {
        if self.tail.wrapping_sub(self.head) < most {
            self.tail = self.shared.tail.0.load(Ordering::Acquire);
        }
        let n = self.tail.wrapping_sub(self.head).min(most);
        if n == 0 {
            return 0;
        }
        let emptied = Emptied(self);
        for _ in 0..n {
            let Emptied(consumer) = &emptied;
            let slot = &consumer.shared.slots[consumer.head & consumer.shared.mask];
            // SAFETY: the slot is inside head … tail, so it holds an item and the producer does not reach it. The head
            // moves past it before anything else happens, so that the item is read once.
            let item = slot.with(|slot| unsafe { (*slot).assume_init_read() });
            emptied.0.head = emptied.0.head.wrapping_add(1);
            take(item);
        }
        drop(emptied);
        n
    }

    /// Whether there is nothing to take now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.shared.tail.0.load(Ordering::Acquire)
    }

    /// Items to take now.
    pub fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_capacity_is_a_power_of_two_within_its_limits() {
        for (asked, given) in [(0, 2), (2, 2), (3, 4), (1000, 1024), (usize::MAX, MAX_CAPACITY)] {
            assert_eq!(ring::<()>(asked).0.capacity(), given, "{asked}");
        }
    }

    #[test]
    fn what_is_left_when_both_ends_are_gone_is_dropped_once() {
        let item = std::sync::Arc::new(());
        let (mut to, mut from) = ring(8);
        for _ in 0..6 {
            to.push(item.clone()).unwrap();
        }
        assert!(from.pop().is_some());
        assert_eq!(std::sync::Arc::strong_count(&item), 6);
        drop(to);
        drop(from);
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    }

    #[test]
    fn a_receiver_that_panics_drops_nothing_twice_and_loses_what_it_was_given() {
        let item = std::sync::Arc::new(());
        let (mut to, mut from) = ring(8);
        for _ in 0..6 {
            to.push(item.clone()).unwrap();
        }
        let mut taken = 0;
        let result = catch_unwind(AssertUnwindSafe(|| {
            from.pop_batch(6, |_| {
                taken += 1;
                assert!(taken < 3, "out of luck");
            })
        }));
        assert!(result.is_err());
        assert_eq!((from.len(), std::sync::Arc::strong_count(&item)), (3, 4));
        drop((to, from));
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    }

    #[test]
    fn a_batch_that_does_not_fit_stays_with_its_owner() {
        let (mut to, mut from) = ring(4);
        let mut items = vec![1, 2, 3, 4, 5, 6].into_iter();
        assert_eq!(to.push_batch(&mut items), 4);
        assert_eq!(items.as_slice(), [5, 6]);
        assert_eq!((to.push(7), from.pop()), (Err(7), Some(1)));
        assert_eq!(to.push_batch(&mut items), 1);
        let mut taken = Vec::new();
        assert_eq!(from.pop_batch(100, |i| taken.push(i)), 4);
        assert_eq!(taken, [2, 3, 4, 5]);
        assert!(to.is_empty() && from.is_empty());
    }

    proptest! {
        /// Whatever is put and taken, the ring is a bounded queue.
        #[test]
        fn a_ring_is_a_bounded_queue(
            capacity in 0usize..20,
            start in prop_oneof![Just(0usize), Just(usize::MAX - 5)],
            steps in prop::collection::vec((any::<bool>(), 0usize..30), 0..60),
        ) {
            let (mut to, mut from) = ring(capacity);
            // Indices that are about to wrap around.
            to.shared.head.0.store(start, Ordering::Relaxed);
            to.shared.tail.0.store(start, Ordering::Relaxed);
            (to.head, to.tail, from.head, from.tail) = (start, start, start, start);
            let (mut model, mut next) = (VecDeque::new(), 0u32);
            for (put, n) in steps {
                if put {
                    let mut items = (next..next + n as u32).collect::<Vec<_>>().into_iter();
                    let done = to.push_batch(&mut items);
                    prop_assert_eq!(done, n.min(to.capacity() - model.len()));
                    model.extend(next..next + done as u32);
                    next += done as u32;
                } else {
                    let mut taken = Vec::new();
                    let done = from.pop_batch(n, |item| taken.push(item));
                    prop_assert_eq!(done, n.min(model.len()));
                    prop_assert_eq!(taken, model.drain(..done).collect::<Vec<_>>());
                }
                prop_assert_eq!((from.len(), from.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
