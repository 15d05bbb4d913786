//! Real time by size and rate alone, for media whose headers say nothing.
//!
//! After the first `skip` packets (J) of a flow: the mean size of the last 15 is at most `size` (K), and more than
//! `rate` (L) packets came within the last second. Two conditions more keep most of what is merely small and frequent
//! out: the intervals are regular (their mean deviation is at most half their mean), and all that has held for two
//! seconds. A flow so recognised is let go when for two seconds its rate stays below 0.8 L or its mean size above 1.25 K.
//!
//! A packet that is plainly neither compressed nor encrypted (the module `content`) begins the two seconds anew: DNS, measured
//! values and padding are small and frequent too.
//!
//! Games and tunnels of interactive traffic pass these tests all the same: no statistics of one flow tell them from speech.
//! Speech that is neither compressed nor encrypted and has no header passes only while nobody is silent. So it is off unless
//! asked for, and what it says carries little confidence.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks" (SplitFirst, CheckAverageLength, Meter), per
//! flow instead of per contract.

use thiserror::Error;

/// Sizes remembered.
const SIZES: usize = 15;
/// Sizes are kept in units of this many bytes, and the rest in so many bits of another word.
const UNIT: u16 = 8;
const REST_BITS: usize = 3;
/// Largest size that is told from larger ones.
const LARGEST: u16 = 2_047;
/// Parts of the second over which packets are counted. One more than a second's is kept: of the oldest, as much as the
/// running one still lacks belongs to the last second.
const PARTS_MS: u32 = 125;
/// How long the conditions must hold, ms.
const HOLD_MS: u32 = 2_000;

/// Limits of the statistical classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistical {
    skip: u8,
    size: u16,
    rate: u16,
}

/// A limit out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StatisticalError {
    /// J.
    #[error("statistics after {0} packets; 15 to 250 are possible")]
    Skip(u32),
    /// K.
    #[error("mean size of at most {0} bytes; 40 to 1500 are possible")]
    Size(u32),
    /// L.
    #[error("rate above {0} packets a second; 5 to 1000 are possible")]
    Rate(u32),
}

impl Default for Statistical {
    /// J = 15, K = 200 bytes, L = 15 packets/s.
    fn default() -> Self {
        Self { skip: 15, size: 200, rate: 15 }
    }
}

impl Statistical {
    /// After `skip` packets (15 … 250): mean IP length at most `size` bytes (40 … 1500), rate above `rate` packets/s
    /// (5 … 1000).
    ///
    /// # Errors
    /// The first value out of range.
    pub fn new(skip: u32, size: u32, rate: u32) -> Result<Self, StatisticalError> {
        let within = |value: u32, range: std::ops::RangeInclusive<u32>| range.contains(&value);
        match () {
            () if !within(skip, 15..=250) => Err(StatisticalError::Skip(skip)),
            () if !within(size, 40..=1500) => Err(StatisticalError::Size(size)),
            () if !within(rate, 5..=1000) => Err(StatisticalError::Rate(rate)),
            () => Ok(Self { skip: skip as u8, size: size as u16, rate: rate as u16 }),
        }
    }
}

/// What is kept of a flow: 44 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Statistics {
    /// Milliseconds, wrapping: last packet, and since when all conditions have held (or, once recognised, failed).
    last_ms: u32,
    since_ms: u32,
    /// Mean interval and mean deviation from it, 1/16 ms.
    interval: u16,
    deviation: u16,
    /// Packets in parts of a second, the running one first.
    parts: [u8; 9],
    /// Seen, saturating.
    packets: u8,
    sizes: [u8; SIZES],
    /// What the sizes are beyond whole units, three bits each.
    rests: [u8; 6],
    holding: bool,
}

/// What a packet did to the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing new.
    Nothing,
    /// It is real time now.
    RealTime,
    /// It no longer is.
    Over,
}

impl Statistics {
    /// Takes a packet of `ip_len` bytes; `recognised` says whether the flow was said to be real time before.
    pub fn observe(&mut self, limits: &Statistical, now_ms: u32, ip_len: u16, recognised: bool) -> Says {
        self.count(now_ms, ip_len);
        if self.packets <= limits.skip {
            return Says::Nothing;
        }
        let (rate, size) = (self.rate(), self.sizes());
        let (most, least) = (u32::from(limits.size) * SIZES as u32, u32::from(limits.rate) * PARTS_MS);
        let condition = if recognised {
            rate * 5 < least * 4 || size * 4 > most * 5
        } else {
            rate > least && size <= most && u32::from(self.deviation) * 2 <= u32::from(self.interval)
        };
        if !condition {
            self.holding = false;
            return Says::Nothing;
        }
        if !self.holding {
            (self.holding, self.since_ms) = (true, now_ms);
        }
        if now_ms.wrapping_sub(self.since_ms) < HOLD_MS {
            return Says::Nothing;
        }
        self.holding = false;
        if recognised { Says::Over } else { Says::RealTime }
    }

    /// A packet that is not media: what held does so no longer.
    pub fn interrupt(&mut self) {
        self.holding = false;
    }

    fn count(&mut self, now_ms: u32, ip_len: u16) {
        if self.packets > 0 {
            let gap = now_ms.wrapping_sub(self.last_ms);
            let steps = (now_ms / PARTS_MS).wrapping_sub(self.last_ms / PARTS_MS).min(9) as usize;
            self.parts.copy_within(..9 - steps, steps);
            self.parts[..steps].fill(0);
            let gap = (gap.min(4_000) * 16) as u16;
            if self.packets == 1 {
                self.interval = gap;
            }
            let off = gap.abs_diff(self.interval);
            self.interval = drift(self.interval, gap);
            self.deviation = drift(self.deviation, off);
        }
        self.remember(usize::from(self.packets) % SIZES, ip_len.min(LARGEST));
        // Wraps to a multiple of the ring, so that positions go on.
        self.packets = if self.packets == 254 { 240 } else { self.packets + 1 };
        self.parts[0] = self.parts[0].saturating_add(1);
        self.last_ms = now_ms;
    }

    fn remember(&mut self, at: usize, size: u16) {
        self.sizes[at] = (size / UNIT) as u8;
        let mut rests = self.rests();
        rests &= !(u64::from(UNIT - 1) << (at * REST_BITS));
        rests |= u64::from(size % UNIT) << (at * REST_BITS);
        self.rests.copy_from_slice(&rests.to_le_bytes()[..6]);
    }

    fn rests(&self) -> u64 {
        let [a, b, c, d, e, f] = self.rests;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// Packets within the last second, in units of one [`PARTS_MS`]th: as many of the oldest part as it has of its length
    /// in that second.
    fn rate(&self) -> u32 {
        let whole: u32 = self.parts[..8].iter().map(|n| u32::from(*n)).sum();
        whole * PARTS_MS + u32::from(self.parts[8]) * (PARTS_MS - 1 - self.last_ms % PARTS_MS)
    }

    /// Sum of the last sizes, bytes.
    fn sizes(&self) -> u32 {
        let rests = self.rests();
        let rest = |at: usize| (rests >> (at * REST_BITS)) as u32 & u32::from(UNIT - 1);
        self.sizes.iter().enumerate().map(|(at, s)| u32::from(*s) * u32::from(UNIT) + rest(at)).sum()
    }
}

/// `mean` moved a sixteenth of the way to `value`, rounded to nearest.
fn drift(mean: u16, value: u16) -> u16 {
    let (mean, value) = (i32::from(mean), i32::from(value));
    (mean + (value - mean + 8).div_euclid(16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets of `size` bytes every `gap` ms (alternately shorter and longer by `swing`) for `ms`; when what
    /// was said.
    fn run(
        s: &mut Statistics,
        from: u32,
        ms: u32,
        gap: u32,
        swing: u32,
        size: u16,
        known: bool,
    ) -> Option<(u32, Says)> {
        let (mut at, mut odd) = (from, false);
        while at < from + ms {
            match s.observe(&Statistical::default(), at, size, known) {
                Says::Nothing => {}
                said => return Some((at - from, said)),
            }
            at += if odd { gap + swing } else { gap - swing };
            odd = !odd;
        }
        None
    }

    #[test]
    fn small_frequent_and_regular_for_two_seconds() {
        assert!(size_of::<Statistics>() <= 44);
        let said = |gap, swing, size| run(&mut Statistics::default(), 7, 10_000, gap, swing, size, false);
        let (at, what) = said(20, 0, 80).unwrap();
        assert!(what == Says::RealTime && (2_300..2_800).contains(&at), "{at}");
        assert!(said(20, 5, 80).is_some());
        // Too large, too rare, too irregular.
        assert_eq!((said(20, 0, 220), said(70, 0, 80), said(20, 15, 80)), (None, None, None));
    }

    #[test]
    fn it_lasts_through_a_little_and_ends_after_two_seconds_of_more() {
        let mut s = Statistics::default();
        run(&mut s, 0, 5_000, 20, 0, 120, false);
        // 13 packets a second and 230 bytes are within the hysteresis.
        assert_eq!(run(&mut s, 5_000, 10_000, 76, 0, 230, true), None);
        let (at, what) = run(&mut s, 15_000, 10_000, 76, 0, 400, true).unwrap();
        assert!(what == Says::Over && (2_000..4_500).contains(&at), "{at}");
    }

    /// The defaults are met by what they name: encrypted G.711 of 20 ms, 200 bytes of IP, and any rate above 15 a second.
    #[test]
    fn limits_are_exact() {
        let said = |gap: u32, size| run(&mut Statistics::default(), 7, 10_000, gap, 0, size, false).is_some();
        assert_eq!(
            [199, 200, 201, 1_500, 40_000].map(|size| said(20, size)),
            [true, true, false, false, false]
        );
        // Mean sizes of 200 and of 200 1/15 bytes.
        let mixed = |odd: u16| {
            let mut s = Statistics::default();
            let sizes = (0..150).map(|i| {
                if i % 15 < 7 {
                    193
                } else if i % 15 < 14 {
                    207
                } else {
                    odd
                }
            });
            (0..)
                .step_by(20)
                .zip(sizes)
                .any(|(at, size)| s.observe(&Statistical::default(), at, size, false) == Says::RealTime)
        };
        assert_eq!((mixed(200), mixed(201)), (true, false));
        // Packets a second in tenths, at every phase of the parts.
        for (tenths, expected) in
            [(140, false), (145, false), (152, true), (155, true), (165, true), (170, true)]
        {
            for phase in 0..125 {
                let mut s = Statistics::default();
                let said = (0..120).any(|i| {
                    let at = phase + i * 10_000 / tenths;
                    s.observe(&Statistical::default(), at, 80, false) == Says::RealTime
                });
                assert_eq!(said, expected, "{tenths} in 10 s, phase {phase}");
            }
        }
    }

    #[test]
    fn limits_have_ranges() {
        assert_eq!(Statistical::new(15, 200, 15), Ok(Statistical::default()));
        assert_eq!(Statistical::new(14, 200, 15), Err(StatisticalError::Skip(14)));
        assert_eq!(Statistical::new(15, 39, 15), Err(StatisticalError::Size(39)));
        assert_eq!(Statistical::new(15, 200, 1001), Err(StatisticalError::Rate(1001)));
    }
}
