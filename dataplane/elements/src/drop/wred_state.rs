//! The decision of random early detection at three drop precedences, as a plain structure.

use super::{RedConfig, RedCounts, RedState, RedVerdict};
use perhop_packet::Meta;
use perhop_units::{Bytes, Color, Instant};

/// Drop precedences.
pub const COLORS: usize = 3;

/// Against which average a packet is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Averages {
    /// Of all that waits: weighted RED.
    Total,
    /// Of its own and of better colours: RIO-C.
    Coupled,
    /// Of its own colour: RIO-D.
    Decoupled,
}

/// Parameters of the three precedences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WredConfig {
    /// Of green, yellow and red. Thresholds never rise and probabilities never fall in this order; all else is equal.
    pub curves: [RedConfig; COLORS],
    /// What is averaged.
    pub averages: Averages,
    /// The precedence of an AF code point counts, where a packet has one, instead of its colour.
    pub by_dscp: bool,
}

/// Drop precedence of an AF code point, RFC 2597 §6: `AFx1` is green, `AFx2` yellow, `AFx3` red.
pub fn af_precedence(dscp: u8) -> Option<Color> {
    match (dscp >> 3, dscp & 0b111) {
        (1..=4, 0b010) => Some(Color::Green),
        (1..=4, 0b100) => Some(Color::Yellow),
        (1..=4, 0b110) => Some(Color::Red),
        _ => None,
    }
}

/// The colour by which a packet is judged.
#[inline]
pub(super) fn color_of(meta: &Meta, by_dscp: bool) -> Color {
    if by_dscp && meta.layout.ip_version != 0 {
        af_precedence(meta.layout.tos >> 2).unwrap_or(meta.color)
    } else {
        meta.color
    }
}

/// Averages and counts of the three precedences, and what waits of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WredState {
    pub(super) config: WredConfig,
    pub(super) red: [RedState; COLORS],
    pub(super) waiting: [u64; COLORS],
    /// Packets of each that were offered, and how often they were not simply kept.
    pub(super) fates: [(u64, RedCounts); COLORS],
}

impl WredState {
    /// The average that packets of the `n`-th colour are judged against, rounded down.
    pub fn average(&self, n: usize) -> Bytes {
        self.red[n].average()
    }

    /// The chance by which packets of `color` are chosen at the present averages, with 32 fraction bits, 0 … 2³².
    pub fn probability(&self, color: Color) -> u64 {
        self.red[color as usize].probability()
    }

    /// Decides about an arriving packet of `color` and `len` bytes with overhead. `random` is 32 uniform bits; `capable`:
    /// the packet's transport knows ECN. O(1).
    #[inline]
    pub fn decide(
        &mut self,
        now: Instant,
        color: Color,
        len: Bytes,
        capable: bool,
        random: u32,
    ) -> RedVerdict {
        for n in self.part_of(color) {
            let waiting = self.averaged(n);
            self.red[n].observe(now, waiting);
        }
        self.red[color as usize].judge(len, capable, random)
    }

    /// A packet of `color` has been queued.
    #[inline]
    pub fn taken(&mut self, color: Color, len: Bytes) {
        self.waiting[color as usize] += len.0;
    }

    /// A packet of `color` is no longer in the queue, and did not leave it by being sent.
    pub fn evicted(&mut self, color: Color, len: Bytes) {
        let waiting = &mut self.waiting[color as usize];
        *waiting = waiting.saturating_sub(len.0);
    }

    /// A packet of `color` has left the queue.
    #[inline]
    pub fn left(&mut self, now: Instant, color: Color, len: Bytes) {
        self.evicted(color, len);
        for n in self.part_of(color) {
            if self.averaged(n) == Bytes(0) {
                self.red[n].became_idle(now);
            }
        }
    }

    /// The averages that a packet of `color` is part of.
    fn part_of(&self, color: Color) -> std::ops::Range<usize> {
        let color = color as usize;
        match self.config.averages {
            Averages::Total => 0..COLORS,
            Averages::Coupled => color..COLORS,
            Averages::Decoupled => color..color + 1,
        }
    }

    /// The bytes that the `n`-th average follows.
    fn averaged(&self, n: usize) -> Bytes {
        Bytes(match self.config.averages {
            Averages::Total => self.waiting.iter().sum(),
            Averages::Coupled => self.waiting[..=n].iter().sum(),
            Averages::Decoupled => self.waiting[n],
        })
    }
}

#[cfg(test)]
impl WredState {
    pub(super) fn waiting(&self) -> [u64; COLORS] {
        self.waiting
    }

    /// Itself, having dropped nothing lately.
    pub(super) fn without_counts(mut self) -> Self {
        self.red.iter_mut().for_each(RedState::forget_count);
        self
    }

    pub(super) fn judge(&mut self, color: Color, len: Bytes, random: u32) -> RedVerdict {
        self.red[color as usize].judge(len, false, random)
    }
}
