//! # Synopsis
//! `TswTcmMeter(ctr, ptr [, window] [, outputs])` is the time sliding window three colour marker.
//!
//! # Ports
//! Input 0: packets. Output 0: all packets, or with `outputs = 3` green at 0, yellow at 1 and red at 2.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `ctr` (1st) | rate | bit/s | required | 1 … 10¹² |
//! | `ptr` (2nd) | rate | bit/s | required | `ctr` … 10¹² |
//! | `window` (3rd) | time | ns | 1 s | 1 ms … 60 s |
//! | `outputs` | number | | 1 | 1 or 3 |
//!
//! # Behaviour
//! An average rate, `ctr` at the start, follows what arrives: with each packet it becomes (average × window + length) /
//! (time since the packet before + window). Up to `ctr` all packets are green. Above it the share by which the average
//! exceeds `ctr` becomes yellow, and of that what exceeds `ptr` red, each packet by chance, so that a flow's colours
//! come in no bursts. Colours given before are not looked at. Length is the IP length, time the packet's `received_at`.
//!
//! # Counters
//! `green_packets`, `green_bytes`, `yellow_packets`, `yellow_bytes`, `red_packets`, `red_bytes` (IP length).
//!
//! # Invariants
//! Of an average a the chance of green is min(1, ctr / a), of red max(0, 1 − ptr / a), each within 2⁻³².
//!
//! # Example
//! `FromPort(lan) -> TswTcmMeter(1 Mbit/s, 2 Mbit/s, 500 ms, outputs = 3)`
//!
//! # Source
//! RFC 2859 §2.1 (metering), §2.2 (marking), §3 (estimator).

use super::adapter::{Meter, MeterElement, RATE_RANGE, read_outputs};
use perhop_element::{ElementType, PortCount, Reader};
use perhop_units::{Bytes, Color, Duration, Instant, Rate};
use std::ops::RangeInclusive;

/// Windows that can be asked for.
const WINDOW_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// The average is kept in units of 2⁻¹⁶ bit/s.
const FRACTION: u32 = 16;
const NS_PER_S: u128 = 1_000_000_000;

/// Parameters of RFC 2859.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TswTcmConfig {
    /// Committed target rate.
    pub ctr: Rate,
    /// Peak target rate, at least `ctr`.
    pub ptr: Rate,
    /// How far back the average looks, above 0; RFC 2859 calls it AVG_INTERVAL.
    pub window: Duration,
}

/// The time sliding window three colour marker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TswTcm {
    config: TswTcmConfig,
    /// 2⁻¹⁶ bit/s.
    average: u64,
    /// The packet before.
    front: Option<Instant>,
}

impl TswTcm {
    /// The average begins at the committed rate.
    pub fn new(config: TswTcmConfig) -> Self {
        Self { config, average: config.ctr.0 << FRACTION, front: None }
    }

    /// The average rate as of the last packet, rounded down.
    pub fn average(&self) -> Rate {
        Rate(self.average >> FRACTION)
    }

    /// The colour of a packet of `len` at `now`; `random` has 32 uniform bits. A `now` before the last one counts as that.
    /// O(1).
    #[inline]
    pub fn meter(&mut self, now: Instant, len: Bytes, random: u32) -> Color {
        let window = u128::from(self.config.window.as_nanos());
        let since = self.front.map_or(0, |front| u128::from(now.0.saturating_sub(front.0)));
        let inside = u128::from(self.average) * window;
        let new = (u128::from(len.0) * 8 * NS_PER_S) << FRACTION;
        self.average = u64::try_from((inside + new) / (since + window)).unwrap_or(u64::MAX);
        self.front = Some(self.front.map_or(now, |front| front.max(now)));
        // Uniform below the average: the uppermost `ctr` of it is green, the lowest part beyond `ptr` red.
        let drawn = (u128::from(self.average) * u128::from(random) >> 32) as u64;
        let beyond = |rate: Rate| self.average.saturating_sub(rate.0 << FRACTION);
        if drawn < beyond(self.config.ptr) {
            Color::Red
        } else if drawn < beyond(self.config.ctr) {
            Color::Yellow
        } else {
            Color::Green
        }
    }
}

impl Meter for TswTcm {
    const TYPE_NAME: &'static str = "TswTcmMeter";
    fn meter(&mut self, now: Instant, len: Bytes, _pre: Color, draw: impl FnOnce() -> u32) -> Color {
        self.meter(now, len, draw())
    }
    fn adopt(&mut self, old: &Self, _now: Instant) {
        (self.average, self.front) = (old.average, old.front);
    }
}

/// The element.
pub type TswTcmMeter = MeterElement<TswTcm>;

pub(super) const TYPE: ElementType = ElementType {
    name: TswTcm::TYPE_NAME,
    synopsis: "time sliding window three colour marker (RFC 2859)",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 3),
    build: |args, _| {
        let mut r = Reader::new(args);
        let ctr = r.required_in("ctr", Some(0), RATE_RANGE);
        let ptr = r.required_in("ptr", Some(1), ctr..=*RATE_RANGE.end());
        let window = r.optional_in("window", Some(2), Duration::from_secs(1), WINDOW_RANGE);
        let split = read_outputs(&mut r);
        let meter = TswTcm::new(TswTcmConfig { ctr, ptr, window });
        r.finish(Box::new(TswTcmMeter::new(meter, split)) as _)
    },
    sample: |rng| {
        let ctr = 1 + rng.next_u32() % 9999;
        format!("{ctr} kbit/s, {} kbit/s, {} ms", ctr * 2, 1 + rng.next_u32() % 2000)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::laws::arrivals;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::{Bench, args};
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    proptest! {
        /// The estimator of RFC 2859 §3 in floating point, and its colours by the same number drawn.
        #[test]
        fn agrees_with_the_rfc(
            ctr in 1_000u64..1_000_000_000,
            extra in 0u64..1_000_000_000,
            window_ms in 1u64..2_000,
            list in arrivals(),
            draws in prop::collection::vec(any::<u32>(), 60),
        ) {
            let (ctr, ptr) = (Rate(ctr), Rate(ctr + extra));
            let window = Duration::from_millis(window_ms);
            let mut meter = TswTcm::new(TswTcmConfig { ctr, ptr, window });
            let (mut average, mut front) = (ctr.0 as f64, list[0].at);
            for (a, draw) in list.iter().zip(draws) {
                let color = meter.meter(Instant(a.at), Bytes(a.len), draw);
                let interval = window_ms as f64 / 1e3;
                let bits = average * interval + a.len as f64 * 8.0;
                average = bits / ((a.at - front) as f64 / 1e9 + interval);
                front = a.at;
                let ours = meter.average().0 as f64;
                prop_assert!((ours - average).abs() <= 2.0 + average * 1e-9, "{ours} {average}");
                let u = f64::from(draw) / f64::from(u32::MAX);
                let red = (1.0 - ptr.0 as f64 / average).max(0.0);
                let not_green = (1.0 - ctr.0 as f64 / average).max(0.0);
                // Next to a limit the two may round to different sides.
                if [red, not_green].iter().all(|limit| (u - limit).abs() > 1e-6) {
                    let expected = if u < red {
                        Color::Red
                    } else if u < not_green {
                        Color::Yellow
                    } else {
                        Color::Green
                    };
                    prop_assert_eq!(color, expected, "u {} red {} not green {}", u, red, not_green);
                }
            }
        }
    }

    /// A steady flow of three times `ctr` and 1.5 times `ptr` gets a third of each colour. χ² with two degrees of freedom,
    /// on seeds that stay: 13.8 is its upper 10⁻³ quantile.
    #[test]
    fn shares_of_a_steady_flow_are_those_of_the_rates() {
        for seed in 0..20 {
            let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
            let config = TswTcmConfig {
                ctr: Rate::from_mbit(1),
                ptr: Rate::from_mbit(2),
                window: Duration::from_secs(1),
            };
            let mut meter = TswTcm::new(config);
            let mut seen = [0u64; 3];
            // 1250 bytes each 10/3 ms are 3 Mbit/s.
            for n in 0..33_000u64 {
                let color = meter.meter(Instant(n * 10_000_000 / 3), Bytes(1250), random.random());
                if n >= 3_000 {
                    seen[color as usize] += 1;
                }
            }
            assert!((2_999_000..3_020_000).contains(&meter.average().0), "{}", meter.average());
            let expected = 10_000.0;
            let chi2: f64 = seen.iter().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
            assert!(chi2 < 13.8, "seed {seed}: {seen:?}, χ² {chi2:.1}");
        }
    }

    #[test]
    fn a_flow_below_its_rate_stays_green_and_a_successor_goes_on() {
        let config =
            TswTcmConfig { ctr: Rate::from_mbit(1), ptr: Rate::from_mbit(1), window: Duration::from_secs(1) };
        let mut old = TswTcm::new(config);
        for n in 0..1000 {
            // 0.8 Mbit/s, and the number drawn that would be the first to be red. At first the average is at the limit.
            let color = old.meter(Instant(n * 10_000_000), Bytes(1000), 0);
            assert!(n < 100 || color == Color::Green, "{n}: {color:?} at {}", old.average());
        }
        let mut new = TswTcm::new(TswTcmConfig { ctr: Rate::from_kbit(100), ..config });
        Meter::adopt(&mut new, &old, Instant(0));
        assert_eq!(new.average(), old.average());
        assert_eq!(new.meter(Instant(10_000_000_000), Bytes(1000), 0), Color::Yellow);
    }

    #[test]
    fn three_outputs_and_settings() {
        let build = |text: &str| (TYPE.build)(&args(text), &mut BuildCx::default());
        for (text, key) in [
            ("1 Mbit/s", "ptr"),
            ("2 Mbit/s, 1 Mbit/s", "ptr"),
            ("1 Mbit/s, 2 Mbit/s, 0 ms", "window"),
            ("1 Mbit/s, 2 Mbit/s, outputs = 2", "outputs"),
        ] {
            let errors = build(text).err().unwrap();
            assert!(format!("{errors:?}").contains(key), "{text}: {errors:?}");
        }
        let mut bench = Bench::with_seed(build("1 kbit/s, 1 kbit/s, 1 ms, outputs = 3").unwrap(), 3, 1);
        for _ in 0..20 {
            bench.push(&udp(1000));
        }
        assert_eq!((0..3).map(|i| bench.sink(i).arrived.len()).sum::<usize>(), 20);
        assert!(bench.sink(2).arrived.len() >= 18, "far above both rates");
    }
}
