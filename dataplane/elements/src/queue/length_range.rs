//! Between which lengths a queue was, for whoever looks at it now and then.

use perhop_units::Instant;

/// The smallest and the largest length since somebody looked last. A length that did not last, such as that of a packet
/// which leaves at the instant it came, does not count. O(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRange {
    least: u64,
    most: u64,
    changed: Instant,
}

impl LengthRange {
    /// From `now` on; the queue has `bytes`.
    pub fn new(now: Instant, bytes: u64) -> Self {
        Self { least: bytes, most: bytes, changed: now }
    }

    /// The queue, which has had `bytes` since the last call, is about to change.
    #[inline]
    pub fn lasted(&mut self, now: Instant, bytes: u64) {
        if now > self.changed {
            self.changed = now;
            self.least = self.least.min(bytes);
            self.most = self.most.max(bytes);
        }
    }

    /// Smallest and largest until now; begins anew. The queue has `bytes`.
    pub fn take(&mut self, now: Instant, bytes: u64) -> [u64; 2] {
        self.lasted(now, bytes);
        let Self { least, most, .. } = *self;
        // The length now ends one interval and begins the next.
        *self = Self { changed: self.changed, ..Self::new(now, bytes) };
        [least.min(bytes), most.max(bytes)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lasts_counts_and_what_passes_does_not() {
        let mut range = LengthRange::new(Instant(0), 100);
        // At 5 a packet of 900 comes and leaves at once; at 7 one comes and stays until 9.
        range.lasted(Instant(5), 100);
        range.lasted(Instant(5), 1000);
        range.lasted(Instant(7), 100);
        range.lasted(Instant(9), 600);
        assert_eq!(range.take(Instant(10), 200), [100, 600]);
        assert_eq!(range.take(Instant(20), 200), [200, 200]);
        range.lasted(Instant(25), 200);
        assert_eq!(range.take(Instant(30), 0), [0, 200]);
    }

    proptest! {
        /// Against all lengths at all instants.
        #[test]
        fn it_is_the_range_of_the_lengths_at_all_instants(
            changes in prop::collection::vec((0u64..4, 0u64..50), 1..60),
            looks in prop::collection::btree_set(1u64..120, 1..8),
        ) {
            let mut lengths = vec![7; 1];
            let (mut now, mut length) = (0, 7);
            let mut at = Vec::new();
            for (gap, next) in changes {
                // The length holds from the last change of an instant on.
                lengths.extend(std::iter::repeat_n(length, gap as usize));
                now += gap;
                at.push((now, length));
                length = next;
                lengths[now as usize] = length;
            }
            lengths.extend(std::iter::repeat_n(length, 130));
            let mut range = LengthRange::new(Instant(0), 7);
            let mut changes = at.iter().peekable();
            let mut from = 0;
            for look in looks {
                while let Some((when, before)) = changes.next_if(|(when, _)| *when <= look) {
                    range.lasted(Instant(*when), *before);
                }
                let [least, most] = range.take(Instant(look), lengths[look as usize]);
                let (low, high) = (from.min(look), look);
                let seen = &lengths[low as usize..=high as usize];
                prop_assert!(most >= *seen.iter().max().expect("some") && least <= *seen.iter().min().expect("some"));
                // Nothing but the length before the interval may be beyond.
                let allowed = |n: u64| seen.contains(&n) || n == 7;
                prop_assert!(allowed(most) && allowed(least), "{least} {most} {seen:?}");
                from = look;
            }
        }
    }
}
