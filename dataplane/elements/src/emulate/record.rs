//! What a network did to packets, told from when they were seen before and after it, to be played by [`super::Emulator`].
//!
//! A packet is known by what networks leave as it is, see [`identity`]. Of packets that look alike, as one and its repetition
//! may, the n-th after belongs to the n-th before if there are as many. If there are fewer nobody can say which are lost: their
//! number counts, their delays do not.
//!
//! Only what both places could have seen counts. A packet that did not come out is lost if it would have been seen there with
//! the least and with the largest known delay: not if it went in before the place behind was watched, or so late that it may
//! be on its way. Likewise a packet is a stranger only if the place in front was watched when it must have gone in.

use super::effects::{MAX_VALUES, Recorded};
use foldhash::quality::FixedState;
use perhop_units::{Duration, Instant, Probability};
use perhop_wire::{Layout, protocol};
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher};
use thiserror::Error;

/// Bytes behind a transport header that count, so that captures which cut packets short at different lengths agree.
const PAYLOAD_BYTES: usize = 16;

/// What a packet is known by: addresses, ports, lengths, the identification of IPv4, and transport header and payload as far as
/// networks do not change them. Not time to live, code point, checksums and the window of TCP, which this router writes
/// itself. `None` for what is not IP. `layout` is that of the frame.
pub fn identity(frame: &[u8], layout: &Layout) -> Option<u64> {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    let l3 = usize::from(layout.l3_offset);
    let behind = match layout.ip_version {
        4 => {
            hasher.write(frame.get(l3 + 2..l3 + 8)?);
            hasher.write(frame.get(l3 + 12..l3 + 20)?);
            l3 + usize::from(frame.get(l3)? & 0xf) * 4
        }
        6 => {
            hasher.write(frame.get(l3 + 4..l3 + 6)?);
            hasher.write(frame.get(l3 + 8..l3 + 40)?);
            l3 + 40
        }
        _ => return None,
    };
    hasher.write_u8(layout.protocol);
    let (l4, payload) = match (layout.l4_offset, layout.payload_offset) {
        (0, _) => (behind, behind),
        (l4, 0) => (usize::from(l4), usize::from(l4)),
        (l4, payload) => (usize::from(l4), usize::from(payload)),
    };
    let end = (l3 + usize::from(layout.ip_len)).min(frame.len());
    // Padding of short frames is of the link.
    let rest = frame.get(l4.min(end)..(payload + PAYLOAD_BYTES).min(end))?;
    let skipped = match layout.protocol {
        _ if layout.l4_offset == 0 => 0..0,
        protocol::TCP => 14..18,
        protocol::UDP => 6..8,
        _ => 2..4,
    };
    for (at, byte) in rest.iter().enumerate() {
        if !skipped.contains(&at) {
            hasher.write_u8(*byte);
        }
    }
    Some(hasher.finish())
}

/// A packet as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// By the clock of the captures, which is one.
    pub at: Instant,
    /// See [`identity`].
    pub identity: u64,
}

/// The packets that were seen at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    seen: Vec<Sighting>,
    /// When the first and the last frame were seen, also ones that do not count.
    watched: Option<(Instant, Instant)>,
}

impl Sightings {
    /// Packets of one place at most: about 1 GB for two.
    pub const MOST: usize = 10_000_000;

    /// Whether there is no room for another packet.
    pub fn is_full(&self) -> bool {
        self.seen.len() >= Self::MOST
    }

    /// A frame was seen, whatever it was: then the place was watched.
    pub fn watched(&mut self, at: Instant) {
        let (first, last) = self.watched.unwrap_or((at, at));
        self.watched = Some((first.min(at), last.max(at)));
    }

    /// A packet was seen that counts. Without effect when it is full.
    pub fn push(&mut self, sighting: Sighting) {
        self.watched(sighting.at);
        if !self.is_full() {
            self.seen.push(sighting);
        }
    }
}

impl FromIterator<Sighting> for Sightings {
    fn from_iter<I: IntoIterator<Item = Sighting>>(sightings: I) -> Self {
        let mut all = Self::default();
        sightings.into_iter().for_each(|sighting| all.push(sighting));
        all
    }
}

/// Why two captures do not tell what a network did.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// There are no IP packets in one of them.
    #[error("no IP packets that count were seen {0} the network")]
    Nothing(&'static str),
    /// They have no packet in common.
    #[error(
        "none of {before} packets before the network is among {after} after it\nAre both captures of the same time, and does nothing between them translate addresses?"
    )]
    NothingInCommon {
        /// Packets before.
        before: u64,
        /// Packets after.
        after: u64,
    },
    /// No packet can be told from others, and fewer came out than went in.
    #[error(
        "{packets} packets went in and {came} came out, but they look alike, so that no delay is known\nCapture packets that differ, or count what came."
    )]
    Alike {
        /// Packets that went in.
        packets: u64,
        /// Those of them that came out.
        came: u64,
    },
    /// All came out before they went in.
    #[error(
        "{packets} packets were seen after the network up to {most} earlier than before it\nSwap the captures, or take both by one clock."
    )]
    Backwards {
        /// How many.
        packets: u64,
        /// By how much at most.
        most: Duration,
    },
    /// Some came out before they went in, and others did not.
    #[error(
        "{packets} packets were seen after the network up to {most} earlier than before it, and {others} later\n\
         These look like captures of both directions: choose one by a rule, such as src 10.0.0.0/24. If not, their clocks differ."
    )]
    BothWays {
        /// How many came out before they went in.
        packets: u64,
        /// By how much at most.
        most: Duration,
        /// How many did not.
        others: u64,
    },
    /// There are more intervals than can be played.
    #[error(
        "{intervals} intervals are more than the {MAX_VALUES} that can be played\nTake intervals of {least} or more."
    )]
    TooMany {
        /// So many.
        intervals: u64,
        /// With these there are few enough.
        least: Duration,
    },
}

/// What a network did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Packets that went in and of which it is known what became of them.
    pub packets: u64,
    /// Those that did not come out while the other side was watched, and may have come before or after that.
    pub unknown: u64,
    /// … and did not come out.
    pub lost: u64,
    /// Those that came out more often than they went in.
    pub copies: u64,
    /// Those that came out before one that had gone in earlier.
    pub overtaking: u64,
    /// Packets that came out and had not gone in although the place in front was watched.
    pub strangers: u64,
    /// Known delays, ascending.
    pub delays: Vec<Duration>,
    /// Mean delay and loss by the time since the first packet; what is as before is left out.
    pub intervals: Vec<Recorded>,
}

/// One interval while it is counted.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    packets: u64,
    lost: u64,
    arrived: u64,
    delay_ns: u128,
}

impl Conditions {
    /// What the network between two places did, in intervals of `interval` (at least 1 ns). O(n log n).
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn between(before: &Sightings, after: &Sightings, interval: Duration) -> Result<Self, RecordError> {
        let (watched, behind) = (before.watched.unwrap_or_default(), after.watched.unwrap_or_default());
        let (before, after) = (&before.seen[..], &after.seen[..]);
        let interval = interval.0.max(1);
        let begin = before.iter().map(|s| s.at).min().ok_or(RecordError::Nothing("before"))?;
        let end = before.iter().map(|s| s.at).max().unwrap_or(begin);
        if after.is_empty() {
            return Err(RecordError::Nothing("after"));
        }
        let intervals = end.since(begin).0 / interval + 1;
        if intervals > MAX_VALUES as u64 {
            let least = short(end.since(begin).0 / MAX_VALUES as u64 + 1);
            return Err(RecordError::TooMany { intervals, least });
        }
        let mut counted = vec![Interval::default(); intervals as usize];
        let of = |at: Instant| (at.since(begin).0 / interval) as usize;
        let mut all = Self {
            packets: before.len() as u64,
            unknown: 0,
            lost: 0,
            copies: 0,
            overtaking: 0,
            strangers: 0,
            delays: Vec::new(),
            intervals: Vec::new(),
        };
        let seen = by_identity(before, after);
        let mut pairs = Vec::new();
        for (ins, outs) in seen.values() {
            all.copies += if ins.is_empty() { 0 } else { outs.len().saturating_sub(ins.len()) as u64 };
            // Of one that was doubled the first copy counts.
            if ins.len() == outs.len() || ins.len() == 1 {
                pairs.extend(ins.iter().copied().zip(outs.iter().copied()));
            }
        }
        let foreign: usize =
            seen.values().filter(|(ins, _)| ins.is_empty()).map(|(_, outs)| outs.len()).sum();
        if foreign == after.len() {
            return Err(RecordError::NothingInCommon { before: all.packets, after: foreign as u64 });
        }
        in_order(&pairs)?;
        let delays = pairs.iter().map(|(went, came)| came.since(*went));
        let Some((least, most)) = delays.clone().min().zip(delays.max()) else {
            let came = (after.len() - foreign) as u64;
            return Err(RecordError::Alike { packets: all.packets, came });
        };
        for (ins, outs) in seen.values() {
            for (n, at) in ins.iter().enumerate() {
                let is_lost = n >= outs.len();
                if is_lost && (*at + least < behind.0 || *at + most > behind.1) {
                    all.unknown += 1;
                    continue;
                }
                let interval = &mut counted[of(*at)];
                interval.packets += 1;
                interval.lost += u64::from(is_lost);
            }
            let strange = |at: &&Instant| **at >= watched.0 + most && **at <= watched.1 + least;
            all.strangers += if ins.is_empty() { outs.iter().filter(strange).count() as u64 } else { 0 };
        }
        all.lost = counted.iter().map(|i| i.lost).sum();
        all.packets -= all.unknown;
        pairs.sort_unstable();
        let mut latest = Instant::ZERO;
        for (went, came) in &pairs {
            all.overtaking += u64::from(*came < latest);
            latest = latest.max(*came);
            let delay = came.since(*went);
            let interval = &mut counted[of(*went)];
            interval.arrived += 1;
            interval.delay_ns += u128::from(delay.0);
            all.delays.push(delay);
        }
        all.delays.sort_unstable();
        all.intervals = played(&counted, interval);
        Ok(all)
    }

    /// Mean of the known delays; zero without any.
    pub fn mean(&self) -> Duration {
        let sum: u128 = self.delays.iter().map(|d| u128::from(d.0)).sum();
        Duration((sum / self.delays.len().max(1) as u128) as u64)
    }

    /// Their standard deviation.
    pub fn deviation(&self) -> Duration {
        let mean = self.mean().0 as f64;
        let sum: f64 = self.delays.iter().map(|d| (d.0 as f64 - mean) * (d.0 as f64 - mean)).sum();
        Duration(libm::sqrt(sum / self.delays.len().max(1) as f64) as u64)
    }

    /// What it did over time, in words of an entry: `play 0s 20ms 0% play 1s …`. `overtake` if it did not keep the order:
    /// where delays fall, an entry that keeps it holds packets behind those before them.
    pub fn play(&self) -> String {
        let mut words = String::new();
        for Recorded { from, delay, loss } in &self.intervals {
            let loss = percent(f64::from(loss.0) / 4_294_967_296.0);
            let _ = write!(words, "{}play {} {} {loss}", gap(&words), word(*from), word(*delay));
        }
        if self.overtaking > 0 {
            words += " overtake";
        }
        words
    }

    /// What it did on the whole, in words of an entry: the distribution of its delays by `values` quantiles, 2 to
    /// 4,096, its losses and its copies. `overtake` if it did not keep the order.
    pub fn table(&self, values: usize) -> String {
        let steps = values.clamp(2, MAX_VALUES) - 1;
        let mut words = "table".to_owned();
        for step in 0..=steps {
            let at = (self.delays.len().saturating_sub(1) * step + steps / 2) / steps;
            let _ = write!(words, " {}", word(self.delays.get(at).map_or(Duration::ZERO, |d| rounded(d.0))));
        }
        for (what, count) in [("loss", self.lost), ("duplicate", self.copies)] {
            if count > 0 {
                let _ = write!(words, " {what} {}", percent(count as f64 / self.packets as f64));
            }
        }
        if self.overtaking > 0 {
            words += " overtake";
        }
        words
    }
}

/// Whether no packet of `pairs` (went in, came out) came out before it went in.
fn in_order(pairs: &[(Instant, Instant)]) -> Result<(), RecordError> {
    let backwards = pairs.iter().filter(|(went, came)| came < went);
    let Some(most) = backwards.clone().map(|(went, came)| went.since(*came)).max() else { return Ok(()) };
    let packets = backwards.count() as u64;
    Err(match pairs.len() as u64 - packets {
        0 => RecordError::Backwards { packets, most },
        others => RecordError::BothWays { packets, most, others },
    })
}

/// When packets of each identity were seen, in order.
fn by_identity(
    before: &[Sighting],
    after: &[Sighting],
) -> HashMap<u64, (Vec<Instant>, Vec<Instant>), FixedState> {
    let mut seen: HashMap<u64, (Vec<Instant>, Vec<Instant>), FixedState> = HashMap::default();
    for sighting in before {
        seen.entry(sighting.identity).or_default().0.push(sighting.at);
    }
    for sighting in after {
        seen.entry(sighting.identity).or_default().1.push(sighting.at);
    }
    for (ins, outs) in seen.values_mut() {
        ins.sort_unstable();
        outs.sort_unstable();
    }
    seen
}

/// Intervals that differ from the one before. One of which no delay is known has that of the one before it, or the first
/// known one; one of which nothing is known is as the one before, or as the first of which something is.
fn played(counted: &[Interval], interval: u64) -> Vec<Recorded> {
    let mean = |i: &Interval| (i.arrived > 0).then(|| (i.delay_ns / u128::from(i.arrived)) as u64);
    let mut delay = counted.iter().find_map(mean).map_or(Duration::ZERO, rounded);
    let mut intervals: Vec<Recorded> = Vec::new();
    for (n, i) in counted.iter().enumerate().filter(|(_, i)| i.packets > 0) {
        delay = mean(i).map_or(delay, rounded);
        let loss = match i.lost {
            0 => Probability::ZERO,
            lost if lost == i.packets => Probability::ONE,
            lost => Probability((u128::from(lost) << 32).div_euclid(u128::from(i.packets)) as u32),
        };
        if intervals.last().is_none_or(|last| (last.delay, last.loss) != (delay, loss)) {
            // What is played begins at once.
            let n = if intervals.is_empty() { 0 } else { n as u64 };
            intervals.push(Recorded { from: Duration(n * interval), delay, loss });
        }
    }
    intervals
}

/// At least so many ns, in two digits.
fn short(ns: u64) -> Duration {
    let unit = 10u64.pow(ns.max(1).ilog10().saturating_sub(1));
    Duration(ns.div_ceil(unit).saturating_mul(unit))
}

/// To a microsecond: captures tell no more.
const fn rounded(ns: u64) -> Duration {
    Duration(ns.saturating_add(500) / 1_000 * 1_000)
}

fn gap(words: &str) -> &'static str {
    if words.is_empty() { "" } else { " " }
}

/// As entries have it: without a space.
fn word(time: Duration) -> String {
    time.to_string().replace(' ', "")
}

/// To a thousandth of a percent.
fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
