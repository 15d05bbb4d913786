//! The record of one call as its receiver saw it, and what it says about quality.
//!
//! A record keeps one entry a packet, by the packet's index in the call (0 for the first sent), so that every figure
//! is exact, the order of feeding does not matter, and the same record can be reported whole and from an instant on.
//! A packet belongs to a part of the call by the instant at which it was **sent**.
//!
//! Playout: a packet becomes sound if it arrives no later than its sending instant + playout delay, which is that of a buffer
//! that adapts ([`crate::playout`]) or the smallest network delay of the part + depth ([`Playout::Fixed`]). Mouth-to-ear delay
//! Ta = playout delay, averaged over what arrived, + packetisation (one packet interval and the codec's look-ahead). Packets lost
//! or late both count in the E-model; late ones are reported apart.
//!
//! Source: ITU-T G.107 (score), RFC 3550 §6.4.1 (jitter), burst ratio as G.107 clause 7.5 defines it.

use crate::codec::Codec;
use crate::distribution::Distribution;
use crate::emodel::{IpImpairment, ip_rating, mos_from_rating};
use crate::playout::{Playout, PlayoutBuffer};
use crate::rtp_jitter::JitterNs;
use perhop_units::Instant;

/// Number of packets a record takes, 24 MB; at 50 packets a second a call of almost six hours. Later ones are counted as
/// refused.
pub const MAX_PACKETS: u32 = 1 << 20;

/// A packet as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Position in the call, 0 for the first packet sent.
    pub index: u32,
    /// RTP time stamp.
    pub rtp_timestamp: u32,
    /// When it was sent.
    pub sent: Instant,
    /// When it arrived. If that is another clock, delays are what the two show.
    pub arrived: Instant,
}

/// How a call is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoring {
    /// Playout buffer of the receiver.
    pub playout: Playout,
    /// Whether the receiver conceals lost packets (matters for G.711).
    pub concealment: bool,
}

impl Default for Scoring {
    /// A buffer that adapts, with concealment.
    fn default() -> Self {
        Self { playout: Playout::default(), concealment: true }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    sent_ns: u64,
    arrived_ns: u64,
    rtp_timestamp: u32,
}

/// No such instant: the clock would have run for 584 years.
const NEVER: u64 = u64::MAX;
const UNSEEN: Entry = Entry { sent_ns: NEVER, arrived_ns: NEVER, rtp_timestamp: 0 };

/// Everything known of one call in one direction. 24 bytes a packet.
#[derive(Clone, Debug)]
pub struct CallRecord {
    codec: Codec,
    entries: Vec<Entry>,
    duplicates: u64,
    refused: u64,
}

impl CallRecord {
    /// An empty record.
    pub fn new(codec: Codec) -> Self {
        Self { codec, entries: Vec::new(), duplicates: 0, refused: 0 }
    }

    /// The sender's side: packet `index` went out at `at`. Without this a lost packet's sending instant is reckoned
    /// from the one before it, and losses behind the last arrival stay unknown.
    pub fn sent(&mut self, index: u32, at: Instant) {
        if let Some(entry) = self.entry(index) {
            entry.sent_ns = at.as_nanos();
        }
    }

    /// The receiver's side. A second copy is counted and otherwise ignored. An arrival before its sending betrays the
    /// clocks: its delay is negative, and the score takes a negative mouth-to-ear delay for none.
    pub fn received(&mut self, packet: Received) {
        let Some(entry) = self.entry(packet.index) else { return };
        if entry.arrived_ns != NEVER {
            self.duplicates += 1;
            return;
        }
        *entry = Entry {
            sent_ns: packet.sent.as_nanos(),
            arrived_ns: packet.arrived.as_nanos(),
            rtp_timestamp: packet.rtp_timestamp,
        };
    }

    fn entry(&mut self, index: u32) -> Option<&mut Entry> {
        if index >= MAX_PACKETS {
            self.refused += 1;
            return None;
        }
        let position = index as usize;
        if position >= self.entries.len() {
            self.entries.resize(position + 1, UNSEEN);
        }
        self.entries.get_mut(position)
    }

    /// Second and further copies of packets.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Packets with an index of [`MAX_PACKETS`] or more.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Every packet in order of index: sending instant (reckoned where unknown) and arrival, `None` if lost. Feeds
    /// plots over time.
    pub fn packets(&self) -> impl Iterator<Item = (Instant, Option<Instant>)> + '_ {
        let interval = self.codec.packet_interval().as_nanos();
        let first_known = self
            .entries
            .iter()
            .enumerate()
            .find(|(_, e)| e.sent_ns != NEVER)
            .map(|(i, e)| (i as u64, e.sent_ns));
        let mut next = first_known.map_or(0, |(index, at)| at.saturating_sub(index.saturating_mul(interval)));
        self.entries.iter().map(move |entry| {
            let sent = if entry.sent_ns == NEVER { next } else { entry.sent_ns };
            next = sent.saturating_add(interval);
            (Instant(sent), (entry.arrived_ns != NEVER).then_some(Instant(entry.arrived_ns)))
        })
    }

    /// The whole call. `None` if no packet was sent.
    pub fn whole(&self, scoring: &Scoring) -> Option<CallQuality> {
        self.part(Instant::ZERO, Instant::FAR_FUTURE, scoring)
    }

    /// Only packets sent at `from` or later. `None` if there is none.
    pub fn from_instant(&self, from: Instant, scoring: &Scoring) -> Option<CallQuality> {
        self.part(from, Instant::FAR_FUTURE, scoring)
    }

    /// Packets sent in [`from`, `until`). `None` if there is none. O(n log n).
    pub fn part(&self, from: Instant, until: Instant, scoring: &Scoring) -> Option<CallQuality> {
        let part: Vec<Packet> = self
            .packets()
            .zip(&self.entries)
            .filter(|((sent, _), _)| (from..until).contains(sent))
            .map(|((sent, arrived), entry)| Packet { sent, arrived, rtp_timestamp: entry.rtp_timestamp })
            .collect();
        if part.is_empty() {
            return None;
        }
        Some(self.assess(&part, scoring))
    }

    fn assess(&self, part: &[Packet], scoring: &Scoring) -> CallQuality {
        let delays: Vec<i64> = part.iter().filter_map(Packet::delay_ns).collect();
        let played = playout(part, scoring.playout);
        let received = delays.len() as u64;
        let unheard = played.heard.iter().filter(|heard| !**heard).count() as u64;
        let loss = unheard as f64 / part.len() as f64;
        let burst_ratio = burst_ratio(&played.heard);
        let packetisation = self.codec.packet_interval() + self.codec.look_ahead();
        let delay_ms = played.mouth_to_ear_ns.unwrap_or(0.0) / 1e6 + packetisation.as_millis_f64();
        let rating = ip_rating(&IpImpairment {
            absolute_delay_ms: delay_ms.max(0.0),
            loss_pct: loss * 100.0,
            burst_ratio,
            equipment_impairment: self.codec.equipment_impairment(),
            loss_robustness: self.codec.loss_robustness(scoring.concealment),
        });
        // Of a call of which nothing is heard there is no delay to score, and nothing can be worse.
        let rating = if unheard == part.len() as u64 { rating.min(0.0) } else { rating };
        let jitter = arrival_jitter(part, self.codec.clock_rate_hz());
        CallQuality {
            sent: part.len() as u64,
            received,
            late: unheard.saturating_sub(part.len() as u64 - received),
            burst_ratio,
            mouth_to_ear_ms: played.mouth_to_ear_ns.map(|_| delay_ms),
            rating,
            mos: mos_from_rating(rating),
            variation: delay_variation(&delays),
            jitter,
            delay: Distribution::from_signed_nanos(delays),
        }
    }
}

#[derive(Clone, Copy)]
struct Packet {
    sent: Instant,
    arrived: Option<Instant>,
    rtp_timestamp: u32,
}

impl Packet {
    fn delay_ns(&self) -> Option<i64> {
        self.arrived.map(|arrived| difference_ns(arrived, self.sent))
    }
}

/// From `b` to `a`, negative when `a` is earlier: two clocks may differ by more than a packet takes.
pub fn difference_ns(a: Instant, b: Instant) -> i64 {
    let apart = i64::try_from(a.as_nanos().abs_diff(b.as_nanos())).unwrap_or(i64::MAX);
    if a >= b { apart } else { -apart }
}

/// Mean and maximum of a jitter in ms, over how many values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Sum of the values, ms.
    pub sum_ms: f64,
    /// Largest value, ms.
    pub max_ms: f64,
    /// Number the mean divides by.
    pub count: u64,
}

impl Spread {
    /// The mean, `None` without values.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ms / self.count as f64)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sum_ms += other.sum_ms;
        self.count += other.count;
        self.max_ms = self.max_ms.max(other.max_ms);
    }
}

/// The quality of one call or part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallQuality {
    /// Packets sent.
    pub sent: u64,
    /// Different packets that arrived, in time for playout or not.
    pub received: u64,
    /// Of these, packets that came too late for the playout buffer.
    pub late: u64,
    /// Mean length of runs of unheard packets over the mean length that random loss of the same rate would give; held
    /// at 1 and above.
    pub burst_ratio: f64,
    /// Mouth-to-ear delay Ta in ms; `None` if nothing arrived.
    pub mouth_to_ear_ms: Option<f64>,
    /// Transmission rating R.
    pub rating: f64,
    /// Mean opinion score, 1 … 4.5.
    pub mos: f64,
    /// RFC 3550 jitter, sampled at every arrival.
    pub jitter: Spread,
    /// |delay(n+1) − delay(n)| of successive packets received; the mean divides by the number received.
    pub variation: Spread,
    /// One-way network delay of the packets that arrived.
    pub delay: Distribution,
}

impl CallQuality {
    /// Network loss in percent: sent and never arrived.
    pub fn loss_pct(&self) -> f64 {
        share_pct(self.sent - self.received, self.sent)
    }
}

pub(crate) fn share_pct(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

struct Played {
    /// One flag a packet of the part.
    heard: Vec<bool>,
    /// Playout delay, averaged over the packets that arrived.
    mouth_to_ear_ns: Option<f64>,
}

fn playout(part: &[Packet], playout: Playout) -> Played {
    let mut heard = vec![false; part.len()];
    let mut arrived: Vec<(usize, i64)> =
        part.iter().enumerate().filter_map(|(i, p)| Some((i, p.delay_ns()?))).collect();
    let mut sum = 0i128;
    match playout {
        Playout::Fixed { depth } => {
            let depth = i64::try_from(depth.as_nanos()).unwrap_or(i64::MAX);
            let fastest = arrived.iter().map(|(_, delay)| *delay).min().unwrap_or(0);
            let limit = fastest.saturating_add(depth);
            sum = i128::from(limit) * arrived.len() as i128;
            arrived.iter().for_each(|(i, delay)| heard[*i] = *delay <= limit);
        }
        Playout::Adaptive { least, most } => {
            let mut buffer = PlayoutBuffer::new(least, most);
            arrived.sort_by_key(|(i, _)| part[*i].arrived);
            for (i, delay) in &arrived {
                heard[*i] = buffer.arrives(part[*i].sent, *delay);
                sum += i128::from(buffer.delay_ns());
            }
        }
    }
    let mouth_to_ear_ns = (!arrived.is_empty()).then(|| sum as f64 / arrived.len() as f64);
    Played { heard, mouth_to_ear_ns }
}

/// Mean run of unheard packets × (1 − loss): random loss gives runs of mean 1 / (1 − loss).
fn burst_ratio(heard: &[bool]) -> f64 {
    let lost = heard.iter().filter(|h| !**h).count();
    let runs = heard.chunk_by(|a, b| a == b).filter(|run| !run[0]).count();
    if runs == 0 || lost == heard.len() {
        return 1.0;
    }
    let mean_run = lost as f64 / runs as f64;
    (mean_run * (heard.len() - lost) as f64 / heard.len() as f64).max(1.0)
}

/// RFC 3550 jitter over the packets in order of arrival, sampled at each but the first.
fn arrival_jitter(part: &[Packet], clock_rate_hz: u32) -> Spread {
    let mut arrivals: Vec<(Instant, u32)> =
        part.iter().filter_map(|p| p.arrived.map(|at| (at, p.rtp_timestamp))).collect();
    arrivals.sort_by_key(|(at, _)| *at);
    let mut estimator = JitterNs::new(clock_rate_hz);
    let mut spread = Spread::default();
    for (i, (at, stamp)) in arrivals.into_iter().enumerate() {
        estimator.update(at, stamp);
        if i > 0 {
            let ms = estimator.nanos() as f64 / 1e6;
            spread.add(&Spread { sum_ms: ms, max_ms: ms, count: 1 });
        }
    }
    spread
}

/// Differences of successive delays; N − 1 terms over N packets.
fn delay_variation(delays: &[i64]) -> Spread {
    let mut spread = Spread { count: delays.len() as u64, ..Spread::default() };
    for pair in delays.windows(2) {
        let ms = pair[1].abs_diff(pair[0]) as f64 / 1e6;
        spread.sum_ms += ms;
        spread.max_ms = spread.max_ms.max(ms);
    }
    spread
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
