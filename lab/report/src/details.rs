//! What a page shows beside the result's figures: values over time, distributions, traces of connections.
//!
//! All of it comes out of the recordings of a run, configuration by configuration, and goes into the files of a result
//! directory ([`crate::directory`]), from which a page can be made again.

use crate::result::{AgentResult, GroupResult, LinkResult};
use perhop_units::Duration;

/// Name of the configuration whose groups and links stand on top of a result.
pub const PRODUCT: &str = "product";

/// One configuration of a scenario: the product's or a variant's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigurationDetails {
    /// [`PRODUCT`], or the name of the variant.
    pub name: String,
    /// Figures of every group, of all repetitions together and of each.
    pub groups: Vec<GroupFigures>,
    /// Figures of every link, of all repetitions together and of each.
    pub links: Vec<LinkFigures>,
    /// Values over time of every group in every repetition.
    pub series: Vec<GroupSeries>,
    /// Queues over time in every repetition.
    pub queues: Vec<QueueTrace>,
    /// Distribution of one-way delay of every group of datagrams, repetitions pooled.
    pub delays: Vec<DelayCurve>,
    /// Delays of successive packets of every group of calls.
    pub pairs: Vec<DelayPairs>,
    /// Traced TCP connections.
    pub connections: Vec<ConnectionTrace>,
    /// Figures of TCP connections whose segments are followed.
    pub flows: Vec<FlowFigures>,
    /// Figures of every class that an agent looks after, of all repetitions together and of each.
    pub agents: Vec<AgentFigures>,
    /// What these classes had over time in every repetition.
    pub allocations: Vec<AllocationTrace>,
}

impl ConfigurationDetails {
    /// Figures of a group over all repetitions.
    pub fn pooled(&self, group: &str) -> Option<&GroupFigures> {
        self.groups.iter().find(|figures| figures.repetition.is_none() && figures.result.name == group)
    }

    /// Figures of a group in each repetition, in order.
    pub fn each<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a GroupFigures> {
        self.groups.iter().filter(move |figures| figures.repetition.is_some() && figures.result.name == group)
    }

    /// The first repetition of a group's values over time.
    pub fn first_series(&self, group: &str) -> Option<&GroupSeries> {
        self.series.iter().find(|series| series.group == group)
    }
}

/// Figures of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupFigures {
    /// Repetition from 1; `None`: all together.
    pub repetition: Option<u32>,
    /// What the result has.
    pub result: GroupResult,
    /// Interarrival jitter of RFC 3550 §6.4.1 at every arrival: mean and largest, ms; calls only.
    pub rtp_jitter_ms: Option<(f64, f64)>,
    /// Delay beyond the smallest of the same stream, ms (PDV of RFC 5481 §4.2): 50th, 90th, 99th and 99.9th percentile.
    pub variation_ms: Option<[f64; 4]>,
}

impl GroupFigures {
    /// The surrogate of PSQM for calls, from loss alone (`perhop_quality::psqm`).
    pub fn psqm_surrogate(&self) -> Option<f64> {
        self.result.mos.and(self.result.loss_pct).map(perhop_quality::psqm::surrogate)
    }
}

/// Figures of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkFigures {
    /// Repetition from 1; `None`: all together.
    pub repetition: Option<u32>,
    /// What the result has.
    pub result: LinkResult,
}

/// Figures of a class that an agent looks after.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFigures {
    /// Repetition from 1; `None`: all together.
    pub repetition: Option<u32>,
    /// What the result has.
    pub result: AgentResult,
    /// What was counted inside the window, over all repetitions that the figures are of.
    pub counts: AgentCounts,
}

/// What an agent counted for a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// Allocations raised.
    pub increases: u64,
    /// Allocations lowered.
    pub decreases: u64,
    /// Requests made.
    pub asked: u64,
    /// Requests granted in full.
    pub granted: u64,
    /// Requests granted in part.
    pub partial: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
}

impl AgentCounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.increases += other.increases;
        self.decreases += other.decreases;
        self.asked += other.asked;
        self.granted += other.granted;
        self.partial += other.partial;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
    }

    /// Name and value of every count, in the order in which tables have them.
    pub fn list(&self) -> [(&'static str, u64); 7] {
        [
            ("increases", self.increases),
            ("decreases", self.decreases),
            ("asked", self.asked),
            ("granted", self.granted),
            ("partial", self.partial),
            ("refused", self.refused),
            ("timed_out", self.timed_out),
        ]
    }
}

/// What a class had over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationTrace {
    /// Name of the class.
    pub class: String,
    /// Repetition from 1.
    pub repetition: u32,
    /// From when on, s since the start of the repetition, and how much, kbit/s; in order of time.
    pub steps: Vec<(f64, f64)>,
}

impl AllocationTrace {
    /// The same steps, or of at most `stretches` stretches of equal length (at least one) those to the smallest, the
    /// largest and the last value of each.
    #[must_use]
    pub fn thinned(&self, stretches: usize) -> Self {
        let whole = Self { steps: Vec::new(), ..self.clone() };
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return whole };
        if self.steps.len() <= 3 * stretches.max(1) {
            return self.clone();
        }
        let length = ((last.0 - first.0) / stretches.max(1) as f64).max(f64::MIN_POSITIVE);
        let stretch = |at: f64| (((at - first.0) / length) as usize).min(stretches.max(1) - 1);
        let of_one = self.steps.chunk_by(|a, b| stretch(a.0) == stretch(b.0));
        let steps = of_one.flat_map(|steps| {
            let by_rate = |a: &usize, b: &usize| steps[*a].1.total_cmp(&steps[*b].1);
            let least = (0..steps.len()).min_by(by_rate).unwrap_or(0);
            let most = (0..steps.len()).max_by(by_rate).unwrap_or(0);
            let mut kept = [least, most, steps.len() - 1];
            kept.sort_unstable();
            let first_of = move |i: &usize| *i == 0 || kept[*i] != kept[*i - 1];
            (0..3).filter(first_of).map(move |i| steps[kept[i]]).collect::<Vec<_>>()
        });
        Self { steps: steps.collect(), ..whole }
    }
}

/// Values of a group over time, in bins of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSeries {
    /// Name of the group.
    pub group: String,
    /// Repetition from 1.
    pub repetition: u32,
    /// Length of a bin.
    pub bin: Duration,
    /// The bins from the start of the repetition.
    pub bins: Vec<GroupBin>,
}

/// What happened to a group in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupBin {
    /// Bits at IP length that arrived, kbit/s.
    pub throughput_kbps: f64,
    /// Datagrams sent in the bin.
    pub sent: u64,
    /// Of these, those that never arrived.
    pub lost: u64,
    /// Smallest, mean and largest one-way delay of those that did, ms.
    pub delay_ms: Option<[f64; 3]>,
}

impl GroupSeries {
    /// The same values in at most `bins` bins (at least one), by joining neighbours. The mean delay weighs by packets.
    #[must_use]
    pub fn thinned(&self, bins: usize) -> Self {
        let join = self.bins.len().div_ceil(bins.max(1)).max(1);
        let joined = self.bins.chunks(join).map(|chunk| {
            let mut whole = GroupBin::default();
            let mut weighed = 0.0;
            for bin in chunk {
                whole.throughput_kbps += bin.throughput_kbps / chunk.len() as f64;
                whole.sent += bin.sent;
                whole.lost += bin.lost;
                if let Some([least, mean, most]) = bin.delay_ms {
                    weighed += mean * bin.sent.saturating_sub(bin.lost) as f64;
                    let [before_least, _, before_most] = whole.delay_ms.unwrap_or([least, mean, most]);
                    whole.delay_ms = Some([least.min(before_least), 0.0, most.max(before_most)]);
                }
            }
            if let Some([least, mean, most]) = &mut whole.delay_ms {
                let received = whole.sent.saturating_sub(whole.lost).max(1);
                *mean = (weighed / received as f64).clamp(*least, *most);
            }
            whole
        });
        Self { bin: self.bin.saturating_mul(join as u64), bins: joined.collect(), ..self.clone_head() }
    }

    fn clone_head(&self) -> Self {
        Self { group: self.group.clone(), repetition: self.repetition, bin: self.bin, bins: Vec::new() }
    }
}

/// A queue over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueTrace {
    /// Link it feeds.
    pub link: String,
    /// Which way of the link: 0 from its first end, 1 back.
    pub way: u32,
    /// Name of the queue: the class, or `queue` for a plain one.
    pub queue: String,
    /// Repetition from 1.
    pub repetition: u32,
    /// Length of an interval.
    pub interval: Duration,
    /// The intervals from the start of the repetition.
    pub intervals: Vec<QueueInterval>,
}

/// One interval of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueInterval {
    /// Smallest, largest and last length, bytes.
    pub bytes: [u32; 3],
    /// Packets dropped.
    pub drops: u32,
    /// Borrow counter at its end, cumulative, in the discipline's own unit; `None` where nothing borrows.
    pub borrowed: Option<u64>,
}

impl QueueTrace {
    /// Whether anything ever waited, was dropped or borrowed.
    pub fn is_quiet(&self) -> bool {
        self.intervals.iter().all(|i| i.bytes[1] == 0 && i.drops == 0 && i.borrowed.unwrap_or(0) == 0)
    }

    /// The same values in at most `bins` bins (at least one): extremes of the joined intervals, last length and
    /// counter of the last, drops summed.
    #[must_use]
    pub fn thinned(&self, bins: usize) -> Self {
        let join = self.intervals.len().div_ceil(bins.max(1)).max(1);
        let joined = self.intervals.chunks(join).map(|chunk| {
            let mut whole = chunk[0];
            for interval in &chunk[1..] {
                let [least, most, last] = interval.bytes;
                whole.bytes = [whole.bytes[0].min(least), whole.bytes[1].max(most), last];
                whole.drops = whole.drops.saturating_add(interval.drops);
                whole.borrowed = interval.borrowed.or(whole.borrowed);
            }
            whole
        });
        Self {
            link: self.link.clone(),
            way: self.way,
            queue: self.queue.clone(),
            repetition: self.repetition,
            interval: self.interval.saturating_mul(join as u64),
            intervals: joined.collect(),
        }
    }
}

/// Cumulative distribution of one-way delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelayCurve {
    /// Name of the group.
    pub group: String,
    /// Delay in ms and share of packets at or below it, 0 … 1, both rising.
    pub points: Vec<(f64, f64)>,
}

/// Delays of successive packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelayPairs {
    /// Name of the group.
    pub group: String,
    /// Delay of packet n and of packet n + 1, ms.
    pub points: Vec<(f64, f64)>,
}

/// A TCP connection over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionTrace {
    /// Name of the group.
    pub group: String,
    /// Repetition from 1.
    pub repetition: u32,
    /// Number among the traced connections of the group, from 1.
    pub number: u32,
    /// Samples, in order of time.
    pub samples: Vec<ConnectionState>,
}

/// Figures of one TCP connection in the time that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowFigures {
    /// Name of the group.
    pub group: String,
    /// Repetition from 1.
    pub repetition: u32,
    /// Number of the connection in its group, from 1.
    pub number: u32,
    /// Latency of its path there and back, ms.
    pub latency_ms: Option<f64>,
    /// Payload rate, kbit/s.
    pub goodput_kbps: Option<f64>,
    /// The same as a share of the rate that it is to have, percent.
    pub utilisation_pct: Option<f64>,
    /// Mean and standard deviation of its payload rate in a sliding window of 5 s, kbit/s.
    pub sliding_kbps: Option<(f64, f64)>,
    /// Mean, standard deviation and largest of the delay of its segments beyond the latency of the path, ms.
    pub esdl_ms: Option<[f64; 3]>,
    /// Segments sent for the first time.
    pub segments: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
}

/// State of a connection at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionState {
    /// When, s since the start of the repetition.
    pub at_s: f64,
    /// Congestion window, bytes.
    pub window: u64,
    /// Slow-start threshold, bytes; `None` before the first loss.
    pub threshold: Option<u64>,
    /// Smoothed round-trip time, ms; `None` before the first measurement.
    pub round_trip_ms: Option<f64>,
    /// Payload bytes acknowledged.
    pub acknowledged: u64,
}

impl ConnectionTrace {
    /// At most about `samples` samples: first and last, and the smallest and largest window of each stretch, so that
    /// no reduction of the window is lost.
    #[must_use]
    pub fn thinned(&self, samples: usize) -> Self {
        let join = (2 * self.samples.len()).div_ceil(samples.max(2)).max(1);
        let kept = if join < 3 {
            self.samples.clone()
        } else {
            let mut kept = Vec::with_capacity(samples + 2);
            kept.extend(self.samples.first());
            for chunk in self.samples.chunks(join) {
                let least = (0..chunk.len()).min_by_key(|i| chunk[*i].window).unwrap_or(0);
                let most = (0..chunk.len()).max_by_key(|i| chunk[*i].window).unwrap_or(0);
                kept.push(chunk[least.min(most)]);
                if least != most {
                    kept.push(chunk[least.max(most)]);
                }
            }
            kept.extend(self.samples.last());
            kept
        };
        Self { group: self.group.clone(), repetition: self.repetition, number: self.number, samples: kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_bins_keep_sums_extremes_and_the_mean_over_packets() {
        let bin = |sent, lost, delay_ms| GroupBin { throughput_kbps: 100.0, sent, lost, delay_ms };
        let series = GroupSeries {
            group: "voip".into(),
            repetition: 1,
            bin: Duration::from_millis(300),
            bins: vec![
                bin(10, 0, Some([1.0, 2.0, 3.0])),
                bin(40, 10, Some([2.0, 6.0, 9.0])),
                GroupBin::default(),
            ],
        };
        let thin = series.thinned(2);
        assert_eq!((thin.bin, thin.bins.len()), (Duration::from_millis(600), 2));
        assert_eq!(thin.bins[0], bin(50, 10, Some([1.0, 5.0, 9.0])));
        assert_eq!(thin.bins[1], GroupBin::default());
        assert_eq!(series.thinned(3), series);
    }

    #[test]
    fn joined_intervals_keep_the_extremes() {
        let interval = |bytes, drops, borrowed| QueueInterval { bytes, drops, borrowed: Some(borrowed) };
        let trace = QueueTrace {
            intervals: vec![interval([0, 5, 2], 1, 3), interval([1, 9, 4], 2, 8), interval([4; 3], 0, 8)],
            interval: Duration::from_millis(10),
            ..QueueTrace::default()
        };
        assert_eq!(trace.thinned(2).intervals, [interval([0, 9, 4], 3, 8), interval([4; 3], 0, 8)]);
        assert!(!trace.is_quiet() && QueueTrace::default().is_quiet());
    }

    #[test]
    fn a_thinned_allocation_keeps_its_extremes_and_its_end() {
        let steps = (0..1000).map(|i| (f64::from(i) / 10.0, if i == 333 { 9e3 } else { f64::from(i % 7) }));
        let trace = AllocationTrace { steps: steps.collect(), ..AllocationTrace::default() };
        let thin = trace.thinned(20);
        assert!(thin.steps.len() <= 60 && thin.steps.len() > 20, "{}", thin.steps.len());
        assert!(thin.steps.contains(&(33.3, 9e3)) && thin.steps.last() == trace.steps.last());
        assert!(thin.steps.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(trace.thinned(334), trace);
        // All at once, and none at all.
        let at_once = AllocationTrace { steps: vec![(1.0, 2.0); 9], ..AllocationTrace::default() };
        assert_eq!(at_once.thinned(0).steps, [(1.0, 2.0); 2]);
        assert!(AllocationTrace::default().thinned(5).steps.is_empty());
    }

    #[test]
    fn a_thinned_window_still_shows_its_reductions() {
        let state = |i: u64| ConnectionState {
            at_s: i as f64,
            window: if i == 700 { 1 } else { 1000 + i },
            ..ConnectionState::default()
        };
        let trace = ConnectionTrace { samples: (0..1000).map(state).collect(), ..ConnectionTrace::default() };
        let thin = trace.thinned(100);
        assert!(thin.samples.len() <= 102, "{}", thin.samples.len());
        assert!(thin.samples.iter().any(|s| s.window == 1) && thin.samples.last() == trace.samples.last());
        assert!(thin.samples.windows(2).all(|pair| pair[0].at_s <= pair[1].at_s));
    }
}
