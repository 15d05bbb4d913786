//! The scoreboard of RFC 6675: what has arrived out of order, what counts as lost, what to send next.
//!
//! Update() is [`Scoreboard::update`], IsLost() a boundary found once for each acknowledgment ([`Scoreboard::judge`]):
//! everything not acknowledged below it is lost. SetPipe() is [`Scoreboard::pipe`], and NextSeg() splits into
//! [`Scoreboard::next_lost`] (rule 1), new data (rule 2, the caller's), [`Scoreboard::next_unsure`] (rule 3) and
//! [`Scoreboard::rescue`] (rule 4).

use super::DUP_THRESHOLD;
use crate::ranges::Ranges;
use crate::sequence::near;

/// What a sender knows about the bytes between SND.UNA and SND.NXT.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    sacked: Ranges,
    /// What the last acknowledgment added to it, in order.
    fresh: Vec<(u64, u64)>,
    /// Not acknowledged below this: lost by the SACK rule (§4 IsLost).
    lost_below: u64,
    /// Not acknowledged below this: lost because the timer expired.
    timed_out_below: u64,
    /// HighRxt: number behind the highest byte sent again.
    high_retransmitted: u64,
    /// The rescue of this recovery was sent.
    rescued: bool,
}

impl Scoreboard {
    pub(crate) fn new(ranges: u16) -> Self {
        Self {
            sacked: Ranges::new(ranges),
            fresh: Vec::new(),
            lost_below: 0,
            timed_out_below: 0,
            high_retransmitted: 0,
            rescued: false,
        }
    }

    /// Whether nothing is acknowledged out of order and nothing counts as lost: the pipe is the flight.
    pub(crate) fn is_clear(&self) -> bool {
        self.sacked.is_empty() && self.timed_out_below == 0 && self.high_retransmitted == 0
    }

    /// Takes the blocks of an acknowledgment; blocks that cannot be true are ignored. Returns the bytes newly known.
    pub(crate) fn update(&mut self, una: u64, max: u64, blocks: &[(u32, u32)]) -> u64 {
        let mut new = 0;
        self.fresh.clear();
        for (left, right) in blocks {
            let (left, right) = (near(una, *left), near(una, *right));
            // At or below SND.UNA it is a duplicate's report (RFC 2883) or old; above SND.NXT it is false.
            if una < left && left < right && right <= max {
                let known = self.fresh.len();
                let mut at = left;
                while at < right {
                    let (start, end) = self.sacked.gap_from(at);
                    at = end.unwrap_or(right).min(right);
                    if start < at {
                        self.fresh.push((start, at));
                    }
                }
                match self.sacked.insert(left, right) {
                    Some(bytes) => new += bytes,
                    None => self.fresh.truncate(known),
                }
            }
        }
        self.fresh.sort_unstable();
        new
    }

    /// What the last acknowledgment added, and all that has arrived out of order.
    pub(crate) fn news(&self) -> (&[(u64, u64)], &Ranges) {
        (&self.fresh, &self.sacked)
    }

    /// Forgets what lies below `una`; returns how much of it was known to have arrived.
    pub(crate) fn advance(&mut self, una: u64) -> u64 {
        self.sacked.remove_below(una)
    }

    /// Finds the boundary of IsLost: three ranges, or more than two segments' worth of bytes, are acknowledged above.
    /// O(1) while holes are few.
    pub(crate) fn judge(&mut self, mss: u64) {
        let (mut bytes, mut count) = (0, 0);
        self.lost_below = 0;
        for range in self.sacked.as_slice().iter().rev() {
            bytes += range.1 - range.0;
            count += 1;
            if count >= DUP_THRESHOLD || bytes > u64::from(DUP_THRESHOLD - 1) * mss {
                self.lost_below = range.0;
                return;
            }
        }
    }

    /// Whether the byte at `at`, not acknowledged, counts as lost by the SACK rule.
    pub(crate) fn is_lost(&self, at: u64) -> bool {
        at < self.lost_below
    }

    fn lost_edge(&self) -> u64 {
        self.lost_below.max(self.timed_out_below)
    }

    /// Bytes believed to be in the network between `una` and `max`. O(n) in the number of ranges.
    pub(crate) fn pipe(&self, una: u64, max: u64) -> u64 {
        let lost = self.lost_edge().clamp(una, max);
        let again = self.high_retransmitted.clamp(una, max);
        let in_doubt = (max - lost) - (self.sacked.total() - self.sacked.below(lost));
        let sent_again = if again > una { (again - una) - self.sacked.below(again) } else { 0 };
        in_doubt + sent_again
    }

    /// Fast recovery begins.
    pub(crate) fn enter(&mut self, una: u64) {
        self.high_retransmitted = una;
        self.rescued = false;
    }

    /// The timer expired: everything outstanding is lost. `distrust` forgets what was acknowledged out of order,
    /// because a receiver may renege (RFC 2018 §8).
    pub(crate) fn timed_out(&mut self, una: u64, max: u64, distrust: bool) {
        if distrust {
            self.sacked.clear();
            self.lost_below = 0;
        }
        self.timed_out_below = max;
        self.high_retransmitted = una;
        self.rescued = false;
    }

    /// Recovery is over.
    pub(crate) fn finish(&mut self, una: u64) {
        self.timed_out_below = 0;
        self.high_retransmitted = 0;
        self.rescued = false;
        if self.sacked.is_empty() || self.lost_below <= una {
            self.lost_below = 0;
        }
    }

    /// NextSeg rule 1: the first lost range not sent again yet, at most `mss` long.
    pub(crate) fn next_lost(&self, una: u64, max: u64, mss: u64) -> Option<(u64, u64)> {
        self.gap_below(self.lost_edge(), una, max, mss)
    }

    /// NextSeg rule 3: as rule 1, without being sure of the loss.
    pub(crate) fn next_unsure(&self, una: u64, max: u64, mss: u64) -> Option<(u64, u64)> {
        let highest = self.sacked.as_slice().last()?.0;
        self.gap_below(highest, una, max, mss)
    }

    /// NextSeg rule 4: once in a recovery, the end of what is outstanding.
    pub(crate) fn rescue(&mut self, una: u64, max: u64, mss: u64) -> Option<(u64, u64)> {
        let highest = self.sacked.as_slice().last().map_or(una, |range| range.1);
        if self.rescued || highest >= max {
            return None;
        }
        self.rescued = true;
        Some((highest.max(max.saturating_sub(mss)), max))
    }

    /// `[.., end)` was sent again.
    pub(crate) fn retransmitted(&mut self, end: u64) {
        self.high_retransmitted = self.high_retransmitted.max(end);
    }

    fn gap_below(&self, edge: u64, una: u64, max: u64, mss: u64) -> Option<(u64, u64)> {
        let from = self.high_retransmitted.max(una);
        if from >= edge {
            return None;
        }
        let (start, end) = self.sacked.gap_from(from);
        let end = end.unwrap_or(max).min(edge).min(start.saturating_add(mss));
        (start < end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u64 = 10;
    const UNA: u64 = 1 << 32;

    fn block(from: u64, to: u64) -> (u32, u32) {
        ((UNA + from) as u32, (UNA + to) as u32)
    }

    /// SetPipe and IsLost as RFC 6675 §4 words them, byte by byte.
    fn slow_pipe(board: &Scoreboard, max: u64) -> u64 {
        let sacked = board.sacked.as_slice();
        let arrived = |at: u64| sacked.iter().any(|range| range.0 <= at && at < range.1);
        let lost = |at: u64| {
            let above = sacked.iter().filter(|range| range.0 > at);
            let bytes: u64 = above.clone().map(|range| range.1 - range.0).sum();
            above.count() >= 3 || bytes > 2 * MSS || at < board.timed_out_below
        };
        let pipe = |at: u64| u64::from(!lost(at)) + u64::from(at < board.high_retransmitted);
        (UNA..max).filter(|at| !arrived(*at)).map(pipe).sum()
    }

    proptest! {
        #[test]
        fn the_pipe_is_that_of_the_definition(
            blocks in proptest::collection::vec((1u64..200, 1u64..40), 0..8), again in 0u64..200, timeout: bool,
        ) {
            let mut board = Scoreboard::new(64);
            for (from, len) in blocks {
                board.update(UNA, UNA + 250, &[block(from, from + len)]);
            }
            board.judge(MSS);
            if timeout {
                board.timed_out(UNA, UNA + 220, false);
            }
            board.retransmitted(UNA + again);
            prop_assert_eq!(board.pipe(UNA, UNA + 250), slow_pipe(&board, UNA + 250));
        }
    }

    #[test]
    fn blocks_that_cannot_be_true_are_ignored() {
        let mut board = Scoreboard::new(8);
        let false_blocks =
            [block(0, 10), block(20, 20), block(30, 25), block(90, 101), (u32::MAX - 9, u32::MAX)];
        assert_eq!(board.update(UNA, UNA + 100, &false_blocks), 0);
        assert_eq!(board.update(UNA, UNA + 100, &[block(90, 100), block(85, 95)]), 15);
    }

    #[test]
    fn the_next_segment_follows_the_four_rules() {
        let mut board = Scoreboard::new(8);
        // 0–10 missing, 10–20 here, 20–30 missing, 30–50 and 60–65 here, 65–80 outstanding.
        board.update(UNA, UNA + 80, &[block(10, 20), block(30, 50), block(60, 65)]);
        board.judge(MSS);
        board.enter(UNA);
        assert!(board.is_lost(UNA) && !board.is_lost(UNA + 20 + 10));
        let mut next = Vec::new();
        while let Some(gap) = board.next_lost(UNA, UNA + 80, MSS) {
            board.retransmitted(gap.1);
            next.push((gap.0 - UNA, gap.1 - UNA));
        }
        assert_eq!(next, [(0, 10), (20, 30)]);
        assert_eq!(board.next_unsure(UNA, UNA + 80, MSS), Some((UNA + 50, UNA + 60)));
        board.retransmitted(UNA + 60);
        assert_eq!(board.next_unsure(UNA, UNA + 80, MSS), None);
        assert_eq!(board.rescue(UNA, UNA + 80, MSS), Some((UNA + 70, UNA + 80)));
        assert_eq!(board.rescue(UNA, UNA + 80, MSS), None);
    }
}
