//! RACK: loss found by time (RFC 8985 §6).
//!
//! A segment is lost when one that was sent later has arrived, and a round-trip time and the reordering window have passed
//! since it was sent. So a retransmission can be found lost like any other, and reordering costs patience instead of the
//! window: the reordering window is a quarter of the least round-trip time once reordering was seen, and grows with each
//! round in which the peer reports duplicates (RFC 2883).
//!
//! Segments are kept by number, and their transmissions by time: what is settled leaves both, so that an acknowledgment costs
//! what it changes.

use super::DUP_THRESHOLD;
use crate::ranges::Ranges;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};

/// Recoveries for which a wider reordering window stays (§6.2 step 4).
const PERSIST: u8 = 16;

/// A segment that was sent and is not acknowledged in order.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    /// When it was sent last.
    at: Instant,
    retransmitted: bool,
    sacked: bool,
    /// Found lost and not sent again.
    lost: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }

    fn in_flight(&self) -> bool {
        !self.sacked && !self.lost
    }
}

/// What an acknowledgment says besides its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Instant,
    /// When what caused it was sent, by the time-stamp echoed; in whole ms.
    pub(crate) echo: Option<Instant>,
}

/// State of the detection.
#[derive(Debug)]
pub(crate) struct Rack {
    segments: VecDeque<Sent>,
    /// When what was sent, and the number of its first byte; those that are settled leave when their turn comes.
    order: VecDeque<(Instant, u64)>,
    /// First numbers of the segments that are lost.
    lost: BTreeSet<u64>,
    /// Bytes of the segments that are neither acknowledged nor lost.
    pipe: u64,
    /// RACK.xmit_ts and RACK.end_seq: of what was sent last of all that arrived.
    newest: Option<(Instant, u64)>,
    rtt: Duration,
    least_rtt: Duration,
    /// RACK.fack: number behind the highest byte that arrived.
    highest: u64,
    reordering_seen: bool,
    sacked: u32,
    /// RACK.reo_wnd_mult and RACK.reo_wnd_persist.
    quarters: u64,
    persist: u8,
    /// RACK.dsack_round.
    duplicate_round: Option<u64>,
}

impl Rack {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::new(),
            order: VecDeque::new(),
            lost: BTreeSet::new(),
            pipe: 0,
            newest: None,
            rtt: Duration::ZERO,
            least_rtt: Duration::MAX,
            highest: 0,
            reordering_seen: false,
            sacked: 0,
            quarters: 1,
            persist: 0,
            duplicate_round: None,
        }
    }

    /// Bytes believed to be in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Whether something is lost and not sent again.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether something has arrived out of order.
    pub(crate) fn has_sacked(&self) -> bool {
        self.sacked > 0
    }

    /// The first segment that is lost, at most `mss` long.
    pub(crate) fn next_lost(&self, mss: u64) -> Option<(u64, u64)> {
        let segment = self.segments.get(self.index(*self.lost.first()?))?;
        Some((segment.start, segment.end.min(segment.start + mss)))
    }

    /// The last segment sent, at most `mss` long: what a tail loss probe repeats.
    pub(crate) fn tail(&self, mss: u64) -> Option<(u64, u64)> {
        let last = self.segments.back()?;
        Some((last.start.max(last.end.saturating_sub(mss)), last.end))
    }

    /// Place of the segment that has a number, or would have it.
    fn index(&self, number: u64) -> usize {
        self.segments.partition_point(|segment| segment.end <= number)
    }

    /// `[start, end)` leaves, for the first time or again.
    pub(crate) fn sent(&mut self, now: Instant, start: u64, end: u64) {
        self.order.push_back((now, start));
        if self.segments.back().is_none_or(|last| last.end <= start) {
            let (retransmitted, sacked, lost) = (false, false, false);
            self.segments.push_back(Sent { start, end, at: now, retransmitted, sacked, lost });
            self.pipe += end - start;
            return;
        }
        self.cut(start);
        self.cut(end);
        let index = self.index(start);
        let Some(segment) = self.segments.get_mut(index) else { return };
        if std::mem::take(&mut segment.lost) {
            self.pipe += segment.len();
            self.lost.remove(&start);
        }
        (segment.at, segment.retransmitted) = (now, true);
    }

    /// Makes two of a segment that a number lies inside.
    fn cut(&mut self, number: u64) {
        let index = self.index(number);
        let Some(segment) = self.segments.get_mut(index).filter(|s| s.start < number && number < s.end)
        else {
            return;
        };
        let behind = Sent { start: number, ..*segment };
        segment.end = number;
        self.segments.insert(index + 1, behind);
        if behind.lost {
            self.lost.insert(number);
        }
        self.sacked += u32::from(behind.sacked);
        let place = self.order.partition_point(|(at, _)| *at <= behind.at);
        self.order.insert(place, (behind.at, number));
    }

    /// Everything below `una` has arrived.
    pub(crate) fn advance(&mut self, arrival: &Arrival, una: u64) {
        self.cut(una);
        while let Some(segment) = self.segments.front().copied().filter(|segment| segment.end <= una) {
            self.segments.pop_front();
            if segment.sacked {
                self.sacked -= 1;
            } else {
                self.settle(arrival, &segment);
            }
        }
    }

    /// `fresh` has arrived out of order, and with it all that `known` has. Data end before `data_end`: a peer does not tell of
    /// a FIN behind a gap.
    pub(crate) fn arrived(
        &mut self,
        arrival: &Arrival,
        (fresh, known): (&[(u64, u64)], &Ranges),
        data_end: u64,
    ) {
        // A segment beyond a gap is not the one whose time-stamp is echoed (RFC 7323 §4.3).
        let arrival = &Arrival { echo: None, ..*arrival };
        for (from, until) in fresh {
            let mut index = self.index(*from);
            while let Some(segment) = self.segments.get_mut(index).filter(|segment| segment.start < *until) {
                let whole =
                    known.containing(segment.start).is_some_and(|range| range.1 >= segment.end.min(data_end));
                if whole && !segment.sacked {
                    let before = *segment;
                    (segment.sacked, segment.lost) = (true, false);
                    self.sacked += 1;
                    self.settle(arrival, &before);
                }
                index += 1;
            }
        }
    }

    /// Books a segment that has arrived (§6.2 steps 1 to 3).
    fn settle(&mut self, arrival: &Arrival, segment: &Sent) {
        if segment.lost {
            self.lost.remove(&segment.start);
        } else {
            self.pipe -= segment.len();
        }
        if segment.end > self.highest {
            self.highest = segment.end;
        } else if segment.end < self.highest && !segment.retransmitted {
            self.reordering_seen = true;
        }
        let rtt = arrival.now.since(segment.at);
        if segment.retransmitted {
            // It may be the first transmission that arrived. Time-stamps are of whole ms.
            let echoed_before =
                arrival.echo.is_some_and(|echo| echo + Duration::from_millis(1) <= segment.at);
            if echoed_before || rtt < self.least_rtt {
                return;
            }
        } else {
            self.least_rtt = self.least_rtt.min(rtt);
        }
        if self.newest.is_none_or(|newest| newest < (segment.at, segment.end)) {
            self.newest = Some((segment.at, segment.end));
            self.rtt = rtt;
        }
    }

    /// The peer reports a duplicate: the window grows once a round (§6.2 step 4).
    pub(crate) fn duplicate(&mut self, una: u64, max: u64) {
        if self.duplicate_round.is_none_or(|round| una >= round) {
            self.duplicate_round = Some(max);
            self.quarters += 1;
            self.persist = PERSIST;
        }
    }

    /// A recovery is over; of those in which the peer `reports` a duplicate with the end none counts (§6.2 step 4).
    pub(crate) fn recovered(&mut self, reports: bool) {
        if reports {
            return;
        }
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    fn reordering_window(&self, smoothed: Option<Duration>, recovering: bool) -> Duration {
        if !self.reordering_seen && (recovering || self.sacked >= DUP_THRESHOLD)
            || self.least_rtt == Duration::MAX
        {
            return Duration::ZERO;
        }
        let window = (Duration(self.least_rtt.as_nanos() / 4)).saturating_mul(self.quarters);
        window.min(smoothed.unwrap_or(window))
    }

    /// Finds what is lost (§6.2 step 5). Returns when to look again, if time alone may show more.
    pub(crate) fn detect(
        &mut self,
        now: Instant,
        smoothed: Option<Duration>,
        recovering: bool,
    ) -> Option<Instant> {
        let newest = self.newest?;
        let patience = self.rtt + self.reordering_window(smoothed, recovering);
        while let Some((at, start)) = self.order.front().copied() {
            let index = self.index(start);
            let segment = self.segments.get_mut(index);
            let Some(segment) = segment.filter(|s| s.at == at && s.start <= start && s.in_flight()) else {
                self.order.pop_front();
                continue;
            };
            if (segment.at, segment.end) >= newest {
                return None;
            }
            if at + patience > now {
                return self.last_before(newest).map(|at| at + patience);
            }
            segment.lost = true;
            self.pipe -= segment.len();
            self.lost.insert(segment.start);
            self.order.pop_front();
        }
        None
    }

    /// When what is in flight and left last before `newest` left.
    fn last_before(&self, newest: (Instant, u64)) -> Option<Instant> {
        let from = self.order.partition_point(|(at, _)| *at <= newest.0);
        let before = self.order.range(..from).rev().find(|(at, start)| {
            let segment = self.segments.get(self.index(*start));
            segment
                .is_some_and(|s| s.at == *at && s.start <= *start && s.in_flight() && (s.at, s.end) < newest)
        });
        before.map(|(at, _)| *at)
    }

    /// The retransmission timer expired (§6.3): the first segment is lost, and all that are older than a round trip and the
    /// reordering window. `distrust` forgets what was acknowledged out of order.
    pub(crate) fn timed_out(&mut self, now: Instant, smoothed: Option<Duration>, distrust: bool) {
        let patience = self.rtt + self.reordering_window(smoothed, true);
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if distrust && std::mem::take(&mut segment.sacked) {
                self.sacked -= 1;
                self.pipe += segment.len();
                self.order.push_back((segment.at, segment.start));
            }
            if segment.in_flight() && (index == 0 || segment.at + patience <= now) {
                segment.lost = true;
                self.pipe -= segment.len();
                self.lost.insert(segment.start);
            }
        }
        if distrust {
            self.order.make_contiguous().sort_unstable();
        }
    }

    /// Nothing was lost after all: what was taken for lost is in flight, and found again if it was.
    pub(crate) fn forgive(&mut self) {
        for start in std::mem::take(&mut self.lost) {
            let index = self.index(start);
            if let Some(segment) = self.segments.get_mut(index) {
                segment.lost = false;
                self.pipe += segment.len();
                self.order.push_back((segment.at, start));
            }
        }
        self.order.make_contiguous().sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Three segments that leave at 0, 10 and 30 ms, of which the last arrives out of order after 100 ms.
    fn with_a_gap() -> Rack {
        let mut rack = Rack::new();
        for (n, ms) in [0, 10, 30].into_iter().enumerate() {
            rack.sent(at(ms), n as u64 * 1000, n as u64 * 1000 + 1000);
        }
        let mut known = Ranges::new(4);
        known.insert(2000, 3000);
        rack.arrived(&Arrival { now: at(130), echo: None }, (&[(2000, 3000)], &known), 3000);
        rack
    }

    #[test]
    fn what_is_not_lost_yet_is_looked_at_again_when_the_last_of_it_is_due() {
        let mut rack = with_a_gap();
        // 100 ms and a quarter: the first is lost after 125 ms, the second 10 ms later (§6.2 step 5).
        assert_eq!(rack.detect(at(130), None, false), Some(at(135)));
        assert_eq!(rack.lost.iter().copied().collect::<Vec<_>>(), [0]);
        assert_eq!(rack.detect(at(135), None, false), None);
        assert_eq!(rack.lost.iter().copied().collect::<Vec<_>>(), [0, 1000]);
    }

    #[test]
    fn the_window_grows_once_a_round_and_shrinks_after_sixteen_recoveries_without_reports() {
        let mut rack = with_a_gap();
        let window = |rack: &Rack| rack.reordering_window(Some(Duration::from_millis(90)), false);
        assert_eq!(window(&rack), Duration::from_millis(25));
        rack.duplicate(0, 3000);
        rack.duplicate(2999, 5000);
        assert_eq!(window(&rack), Duration::from_millis(50), "one round");
        rack.duplicate(3000, 5000);
        assert_eq!(window(&rack), Duration::from_millis(75));
        for _ in 0..15 {
            rack.recovered(false);
            rack.recovered(true);
        }
        assert_eq!(window(&rack), Duration::from_millis(75));
        rack.duplicate(5000, 6000);
        assert_eq!(window(&rack), Duration::from_millis(90), "no more than the smoothed round trip");
        (0..16).for_each(|_| rack.recovered(false));
        assert_eq!(window(&rack), Duration::from_millis(25));
    }
}
