//! What receivers add to the round trip by waiting for a second segment before they acknowledge (RFC 1122 §4.2.3.2).
//!
//! The latency of the path is that of an acknowledgment which does not wait, see [`crate::latency`]. But a flow with three
//! segments under way has one of them acknowledged late each time, so the window that its rate needs is larger: by Little's
//! law what is under way is the rate times the mean time until it is acknowledged.
//!
//! Of an acknowledgment of several segments it shows when each of them passed. An acknowledgment of a single segment of a receiver
//! that lately acknowledged two has waited, if it comes much later than those of two do. Both meet the same queues, so their
//! difference does not take queues for waiting, and nothing is added where every segment is acknowledged, or where the
//! queue is longer than is kept.

/// What a wait is at least, µs. Timers of receivers are 40 ms and more; queues let single acknowledgments differ by less.
const LEAST_US: u32 = 20_000;
/// The longest that a receiver may wait, µs (RFC 1122: below half a second).
const MOST_US: u32 = 500_000;
/// Unit of the mean wait, µs.
const UNIT_US: u32 = 16;
/// Unit of how far acknowledgments of two segments are above the latency, µs.
const ABOVE_UNIT_US: u32 = 512;
/// Bits of that in [`Prompt`]. When all are set they are as far above it as can be kept (1.05 s) or farther: by how much another one
/// is later is not known.
const ABOVE_BITS: u32 = 11;
const SATURATED: u16 = (1 << ABOVE_BITS) - 1;
/// After so many of one segment, one after the other, how late those of two are is not known any more: a queue may have changed.
const LATELY: u16 = 16;

/// The mean wait of one direction's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Waiting(u16);

/// How late acknowledgments are that do not wait: the mean of those of two and more segments above the latency, in the lower
/// [`ABOVE_BITS`]; above them how many of one segment have come since, [`LATELY`] at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Prompt(u16);

impl Default for Prompt {
    fn default() -> Self {
        Self::new(0, LATELY)
    }
}

impl Prompt {
    const fn new(above: u16, singles: u16) -> Self {
        Self(singles << ABOVE_BITS | above)
    }

    /// In units of [`ABOVE_UNIT_US`].
    const fn above(self) -> u16 {
        self.0 & SATURATED
    }

    const fn singles(self) -> u16 {
        self.0 >> ABOVE_BITS
    }

    /// An acknowledgment came `above_us` above the latency; it counts by 1/`part`, rounded away from the old value, so that a
    /// queue that is too long to be kept gets there.
    #[inline]
    fn settled(self, above_us: u32, part: i32) -> u16 {
        let (now, known) =
            ((above_us / ABOVE_UNIT_US).min(u32::from(SATURATED)) as i32, i32::from(self.above()));
        let step = (now - known + (now - known).signum() * (part - 1)) / part;
        (known + step) as u16
    }

    /// An acknowledgment of two or more segments.
    #[inline]
    fn several(&mut self, above_us: u32) {
        // What was long ago says nothing of the queue that there is now.
        let part = if self.singles() < LATELY { 4 } else { 1 };
        *self = Self::new(self.settled(above_us, part), 0);
    }

    /// An acknowledgment of one segment: how much later it is than those of two, µs; `None` while that is not known.
    #[inline]
    fn single(&mut self, above_us: u32) -> Option<u32> {
        let known = self.singles() < LATELY && self.above() < SATURATED;
        let later_us = above_us.saturating_sub(u32::from(self.above()) * ABOVE_UNIT_US);
        // It may be a queue that has become longer: then this is how late the next ones of two will be.
        *self = Self::new(self.settled(above_us, 32), (self.singles() + 1).min(LATELY));
        known.then_some(later_us)
    }
}

impl Waiting {
    /// Mean wait, µs; 0 while nothing is known.
    #[inline]
    pub const fn us(self) -> u32 {
        self.0 as u32 * UNIT_US
    }

    /// An acknowledgment of `segments` came `above_us` later than the latency after the newest of them, which they preceded by
    /// `spread_us` on the average. What this one waited with a single segment, µs.
    #[inline]
    pub fn sample(&mut self, prompt: &mut Prompt, segments: u32, above_us: u32, spread_us: u32) -> u32 {
        let segments = segments.clamp(1, 8);
        let waited = match segments {
            1 => prompt.single(above_us).filter(|later_us| *later_us >= LEAST_US).unwrap_or(0),
            _ => {
                prompt.several(above_us);
                spread_us
            }
        };
        let waited = waited.min(MOST_US);
        // Weight 1/32 for each segment; rounded away from the old value, so that it arrives.
        let step = (i64::from(waited / UNIT_US) - i64::from(self.0)) * i64::from(segments);
        let step = if step < 0 { step.div_euclid(32) } else { (step + 31) / 32 };
        self.0 = (i64::from(self.0) + step).clamp(0, i64::from(u16::MAX)) as u16;
        if segments == 1 { waited } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(segments, µs above the latency, µs between first and last)` again and again: the mean wait, µs.
    fn mean(pattern: &[(u32, u32, u32)]) -> u32 {
        let (mut waiting, mut prompt) = (Waiting::default(), Prompt::default());
        for (segments, above, apart) in pattern.iter().cycle().take(600) {
            waiting.sample(&mut prompt, *segments, *above, apart / 2);
        }
        waiting.us()
    }

    #[test]
    fn the_last_of_three_waits_for_the_timer() {
        // A third of all segments is 40 ms late, whatever the queue.
        for queue in [0, 15_000, 150_000, 300_000, 700_000, 980_000] {
            let mean = mean(&[(2, queue, 0), (1, queue + 40_000, 0)]);
            assert!((10_500..=15_000).contains(&mean), "{mean}");
        }
        // Five segments, and a timer of 200 ms.
        let five = mean(&[(2, 5_000, 0), (2, 6_000, 0), (1, 205_000, 0)]);
        assert!((32_000..=42_000).contains(&five), "{five}");
        // Of a queue that lasts longer than is kept no difference is known.
        assert_eq!(mean(&[(2, 2_000_000, 0), (1, 2_040_000, 0)]), 0);
    }

    #[test]
    fn the_first_of_two_waits_for_the_second() {
        // Half of them 30 ms.
        assert!((14_500..=15_500).contains(&mean(&[(2, 9_000, 30_000), (2, 4_000, 30_000)])));
    }

    #[test]
    fn nothing_is_added_where_nobody_waits() {
        assert_eq!(mean(&[(1, 0, 0), (1, 90_000, 0), (1, 30_000, 0)]), 0, "each segment is acknowledged");
        assert_eq!(mean(&[(2, 30_000, 0), (2, 60_000, 0), (4, 20_000, 0)]), 0);
        for queue in [280_000, 700_000, 1_000_000, 2_000_000, 60_000_000] {
            let singles = [(2, queue, 0), (1, queue, 0), (1, queue + 15_000, 0)];
            assert_eq!(mean(&singles), 0, "a queue of {queue} µs");
        }
        let queues_vary = [(2, 30_000, 0), (1, 45_000, 0), (2, 20_000, 0), (1, 25_000, 0)];
        assert_eq!(mean(&queues_vary), 0);
    }

    /// What was read as a wait made windows longer, they the queue, and it the wait, where the queue was longer than is kept.
    #[test]
    fn a_queue_that_grows_beyond_what_is_kept_and_drains_adds_nothing() {
        let (mut waiting, mut prompt) = (Waiting::default(), Prompt::default());
        for queue in (0..3_000).chain((0..3_000).rev()).map(|ms| ms * 1_000) {
            waiting.sample(&mut prompt, 2, queue, 0);
            assert_eq!(waiting.sample(&mut prompt, 1, queue + 5_000, 0), 0, "{queue}");
            assert_eq!(waiting.us(), 0, "{queue}");
        }
    }

    #[test]
    fn a_receiver_that_ceases_to_wait_is_believed() {
        let (mut waiting, mut prompt) = (Waiting::default(), Prompt::default());
        for _ in 0..100 {
            waiting.sample(&mut prompt, 2, 0, 0);
            waiting.sample(&mut prompt, 1, 40_000, 0);
        }
        assert!(waiting.us() > 10_000);
        for _ in 0..1_000 {
            waiting.sample(&mut prompt, 1, 60_000, 0);
        }
        assert_eq!(waiting.us(), 0);
    }

    /// Without any of two segments lately a queue that steps up is not told from a receiver that waits.
    #[test]
    fn a_single_acknowledgment_waits_only_among_those_of_two_segments() {
        for (singles, waited) in [(0, 100_000), (15, 100_000), (16, 0), (1_000, 0)] {
            let (mut waiting, mut prompt) = (Waiting::default(), Prompt::default());
            waiting.sample(&mut prompt, 2, 0, 0);
            for _ in 0..singles {
                assert_eq!(waiting.sample(&mut prompt, 1, 0, 0), 0);
            }
            assert_eq!(waiting.sample(&mut prompt, 1, 100_000, 0), waited, "the one after {singles}");
            // The next two segments say how late those are now, whatever the queue was before.
            if singles > 16 {
                waiting.sample(&mut prompt, 2, 100_000, 0);
                assert_eq!(waiting.sample(&mut prompt, 1, 105_000, 0), 0);
                assert_eq!(waiting.us(), 0);
            }
        }
    }

    #[test]
    fn extremes_stay_in_their_bounds() {
        let (mut waiting, mut prompt) = (Waiting::default(), Prompt::default());
        for segments in [0, 1, 2, u32::MAX] {
            for above in [0, 1, u32::MAX] {
                for spread in [0, 1, u32::MAX] {
                    waiting.sample(&mut prompt, segments, above, spread);
                    assert!(waiting.us() <= MOST_US);
                }
            }
        }
    }
}
