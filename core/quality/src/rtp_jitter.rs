//! Interarrival jitter and sequence bookkeeping of a live RTP stream, in constant memory.
//!
//! Source: RFC 3550 Appendix A.1 (extended sequence numbers), A.3 (expected and lost), A.8 (jitter).

use perhop_units::Instant;

/// Interarrival jitter in units of the RTP clock: the integer form of A.8, J += (|D| − J)/16, kept sixteen-fold so
/// that the division loses nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterarrivalJitter {
    transit: Option<u32>,
    scaled: u64,
}

impl InterarrivalJitter {
    /// Feeds a packet: its arrival on the RTP clock (same rate, any origin) and its RTP time stamp, both modulo 2³².
    pub fn update(&mut self, arrival_ticks: u32, rtp_timestamp: u32) {
        let transit = arrival_ticks.wrapping_sub(rtp_timestamp);
        if let Some(previous) = self.transit.replace(transit) {
            let d = u64::from((transit.wrapping_sub(previous) as i32).unsigned_abs());
            self.scaled = self.scaled + d - ((self.scaled + 8) >> 4);
        }
    }

    /// The estimate in RTP time-stamp units, as a receiver report carries it.
    pub fn ticks(&self) -> u32 {
        u32::try_from(self.scaled >> 4).unwrap_or(u32::MAX)
    }
}

/// The same estimator in ns: arrivals on a nanosecond clock, media time from the RTP time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitterNs {
    clock_rate_hz: u32,
    last: Option<(u64, u32)>,
    scaled: u64,
}

impl JitterNs {
    /// An estimator for a stream of this RTP clock rate; a rate of 0 counts as 1.
    pub fn new(clock_rate_hz: u32) -> Self {
        Self { clock_rate_hz: clock_rate_hz.max(1), last: None, scaled: 0 }
    }

    /// Feeds a packet. Time stamps that differ by half their range or more count as running backwards.
    pub fn update(&mut self, arrival: Instant, rtp_timestamp: u32) {
        if let Some((arrived, stamp)) = self.last.replace((arrival.as_nanos(), rtp_timestamp)) {
            let media_ticks = i128::from(rtp_timestamp.wrapping_sub(stamp) as i32);
            let media_ns = media_ticks * 1_000_000_000 / i128::from(self.clock_rate_hz);
            let difference = i128::from(arrival.as_nanos()) - i128::from(arrived) - media_ns;
            // Held far below the overflow of the sixteen-fold sum; such a gap is days long.
            let d = u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX).min(u64::MAX >> 8);
            self.scaled = self.scaled + d - ((self.scaled + 8) >> 4);
        }
    }

    /// The estimate in ns.
    pub fn nanos(&self) -> u64 {
        self.scaled >> 4
    }
}

/// A jump forward of this many packets or more is a restart of the sender, not loss (RFC 3550 A.1 `MAX_DROPOUT`).
pub const MAX_DROPOUT: u16 = 3000;
/// How far behind the highest number a packet may be and still be reordered (RFC 3550 A.1 `MAX_MISORDER`).
pub const MAX_MISORDER: u16 = 100;

/// What a packet's sequence number meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceEvent {
    /// The first packet of the stream.
    First,
    /// The next in order.
    Next,
    /// Further on: this many numbers were skipped and count as lost unless they come late.
    Gap(u16),
    /// A number that was missing arrives behind later ones.
    Late,
    /// A number that had already arrived.
    Duplicate,
    /// Out of every window; counted, otherwise ignored unless the next number follows it.
    Stray,
    /// Two strays in sequence: the sender restarted and counting began again.
    Restart,
}

/// Sequence bookkeeping with extended numbers and a window of the last 128 numbers for late and duplicate packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceTracker {
    highest: Option<u64>,
    base: u64,
    /// Bit i: number `highest − i` has arrived.
    seen: u128,
    stray: Option<u16>,
    /// Expected in earlier incarnations of the sender.
    expected_before: u64,
    received: u64,
    late: u64,
    duplicate: u64,
    strays: u64,
    restarts: u64,
}

impl SequenceTracker {
    /// Feeds the sequence number of a packet.
    pub fn update(&mut self, sequence: u16) -> SequenceEvent {
        let Some(highest) = self.highest else {
            self.start(sequence);
            return SequenceEvent::First;
        };
        let ahead = sequence.wrapping_sub(highest as u16);
        if ahead == 0 {
            self.duplicate += 1;
            return SequenceEvent::Duplicate;
        }
        if ahead < MAX_DROPOUT {
            self.highest = Some(highest + u64::from(ahead));
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.received += 1;
            self.stray = None;
            return if ahead == 1 { SequenceEvent::Next } else { SequenceEvent::Gap(ahead - 1) };
        }
        let behind = ahead.wrapping_neg();
        if behind <= MAX_MISORDER {
            return self.behind(highest, behind);
        }
        self.far(sequence)
    }

    fn start(&mut self, sequence: u16) {
        // One cycle up, so that packets before the first never make the extended number negative.
        let extended = u64::from(sequence) + (1 << 16);
        (self.highest, self.base, self.seen, self.stray) = (Some(extended), extended, 1, None);
        self.received += 1;
    }

    fn behind(&mut self, highest: u64, behind: u16) -> SequenceEvent {
        let bit = 1u128 << behind;
        if self.seen & bit != 0 {
            self.duplicate += 1;
            return SequenceEvent::Duplicate;
        }
        self.seen |= bit;
        self.received += 1;
        self.late += 1;
        // The first packet to arrive need not be the first sent.
        self.base = self.base.min(highest - u64::from(behind));
        SequenceEvent::Late
    }

    fn far(&mut self, sequence: u16) -> SequenceEvent {
        if self.stray == Some(sequence) {
            self.expected_before = self.expected();
            self.restarts += 1;
            self.start(sequence);
            return SequenceEvent::Restart;
        }
        self.stray = Some(sequence.wrapping_add(1));
        self.strays += 1;
        SequenceEvent::Stray
    }

    /// Extended highest sequence number: cycles in the upper bits (one cycle ahead of RFC 3550's), if any arrived.
    pub fn highest_extended(&self) -> Option<u64> {
        self.highest
    }

    /// Packets that should have arrived: highest − base + 1, over all incarnations (A.3).
    pub fn expected(&self) -> u64 {
        self.expected_before + self.highest.map_or(0, |highest| highest - self.base + 1)
    }

    /// Different packets that arrived; duplicates and strays are not among them.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Expected and not arrived, so far.
    pub fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Packets that arrived behind later ones.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Second and further copies.
    pub fn duplicate(&self) -> u64 {
        self.duplicate
    }

    /// Packets out of every window.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Times the sender began again with another number.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arrivals 160, 200, 120, 160 ticks apart with stamps 160 apart: |D| is 0, 40, 40, 0. By hand from A.8:
    /// 0; 40; 40 + 40 − 3 = 77; 77 − (85 >> 4 = 5) = 72 sixteenths.
    #[test]
    fn jitter_follows_the_appendix_by_hand() {
        let mut jitter = InterarrivalJitter::default();
        let scaled: Vec<u64> = [(0, 0), (160, 160), (360, 320), (480, 480), (640, 640)]
            .into_iter()
            .map(|(arrival, stamp)| {
                jitter.update(arrival, stamp);
                jitter.scaled
            })
            .collect();
        assert_eq!(scaled, [0, 0, 40, 77, 72]);
        assert_eq!(jitter.ticks(), 4);
    }

    #[test]
    fn time_stamps_and_arrivals_wrap_without_a_step() {
        let mut jitter = InterarrivalJitter::default();
        let mut ns = JitterNs::new(8000);
        for i in 0..10u32 {
            jitter.update((u32::MAX - 500).wrapping_add(i * 160), (u32::MAX - 300).wrapping_add(i * 160));
            ns.update(Instant(u64::from(i) * 20_000_000), (u32::MAX - 300).wrapping_add(i * 160));
        }
        assert_eq!((jitter.ticks(), ns.nanos()), (0, 0));
    }

    #[test]
    fn constant_deviation_converges_to_itself() {
        let mut jitter = JitterNs::new(8000);
        for i in 0..400u64 {
            // Every second packet 2 ms late: |D| is always 2 ms.
            jitter.update(Instant(i * 20_000_000 + (i % 2) * 2_000_000), (i * 160) as u32);
        }
        assert!((1_999_000..=2_000_000).contains(&jitter.nanos()), "{}", jitter.nanos());
    }

    #[test]
    fn gaps_late_and_duplicate_packets_are_told_apart() {
        use SequenceEvent::*;
        let mut tracker = SequenceTracker::default();
        let events: Vec<_> =
            [65534, 65535, 2, 0, 0, 2, 3, 65533].into_iter().map(|s| tracker.update(s)).collect();
        assert_eq!(events, [First, Next, Gap(2), Late, Duplicate, Duplicate, Next, Late]);
        assert_eq!((tracker.expected(), tracker.received(), tracker.lost()), (7, 6, 1));
        assert_eq!((tracker.late(), tracker.duplicate()), (2, 2));
    }

    #[test]
    fn a_restart_needs_two_numbers_in_sequence() {
        use SequenceEvent::*;
        let mut tracker = SequenceTracker::default();
        let events: Vec<_> = [10, 11, 30000, 12, 40000, 40001, 40002].map(|s| tracker.update(s)).to_vec();
        assert_eq!(events, [First, Next, Stray, Next, Stray, Restart, Next]);
        assert_eq!((tracker.expected(), tracker.lost(), tracker.restarts(), tracker.strays()), (5, 0, 1, 2));
    }

    proptest! {
        /// Any stream with losses and reordering inside the window: counts agree with a set of all numbers.
        #[test]
        fn counts_agree_with_a_set(start in any::<u16>(), keep in prop::collection::vec(0u8..10, 1..400), swap in 1usize..40) {
            let mut sent: Vec<u16> = Vec::new();
            for (i, k) in keep.iter().enumerate() {
                let number = start.wrapping_add(i as u16);
                for _ in 0..match k { 0 => 0, 1 => 2, _ => 1 } {
                    sent.push(number);
                }
            }
            for i in (0..sent.len().saturating_sub(swap)).step_by(swap + 3) {
                sent.swap(i, i + swap);
            }
            let mut tracker = SequenceTracker::default();
            let mut set = std::collections::BTreeSet::new();
            for number in &sent {
                tracker.update(*number);
                set.insert(number.wrapping_sub(start));
            }
            prop_assert_eq!(tracker.received(), set.len() as u64);
            prop_assert_eq!(tracker.duplicate(), (sent.len() - set.len()) as u64);
            if let (Some(first), Some(last)) = (set.first(), set.last()) {
                prop_assert_eq!(tracker.expected(), u64::from(last - first) + 1);
            }
        }
    }
}
