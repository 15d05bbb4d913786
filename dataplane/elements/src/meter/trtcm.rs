//! # Synopsis
//! `TrTcmMeter(cir, cbs, pir, pbs [, aware] [, outputs])` is the two rate three colour marker.
//!
//! # Ports
//! Input 0: packets. Output 0: all packets, or with `outputs = 3` green at 0, yellow at 1 and red at 2.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `cir` (1st) | rate | bit/s | required | 1 … 10¹² |
//! | `cbs` (2nd) | size | byte | required | 1 … 500,000,000 |
//! | `pir` (3rd) | rate | bit/s | required | `cir` … 10¹² |
//! | `pbs` (4th) | size | byte | required | 1 … 500,000,000 |
//! | `aware` | yes, no | | no | |
//! | `outputs` | number | | 1 | 1 or 3 |
//!
//! # Behaviour
//! Two buckets, both full at the start: P earns `pir` up to `pbs`, C earns `cir` up to `cbs`. A packet that P does
//! not cover is red; one that C does not cover is yellow and charged to P; any other is green and charged to both.
//! With `aware = yes` the colour given before is an upper bound: red stays red, yellow is never charged to C.
//! Length is the IP length, time the packet's `received_at`; each packet of a batch is charged by itself.
//!
//! # Counters
//! `green_packets`, `green_bytes`, `yellow_packets`, `yellow_bytes`, `red_packets`, `red_bytes` (IP length).
//!
//! # Invariants
//! In any interval of length t: green bytes ≤ CIR × t + CBS, green and yellow bytes ≤ PIR × t + PBS. A packet never
//! leaves in a better colour than it came with when `aware`.
//!
//! # Example
//! `FromPort(lan) -> TrTcmMeter(1 Mbit/s, 10 kB, 2 Mbit/s, 20 kB, outputs = 3)`
//!
//! # Source
//! RFC 2698 §3 (metering), §2 (parameters).

use super::adapter::{BURST_RANGE, Meter, MeterElement, RATE_RANGE, read_outputs};
use super::bucket::Bucket;
use perhop_element::{ElementType, PortCount, Reader};
use perhop_units::{Bytes, Color, Instant, Rate, Tokens};

/// Parameters of RFC 2698 §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrTcmConfig {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Peak information rate, at least `cir`.
    pub pir: Rate,
    /// Peak burst size.
    pub pbs: Bytes,
    /// Colour-aware mode.
    pub aware: bool,
}

/// The two rate three colour marker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrTcm {
    committed: Bucket,
    peak: Bucket,
    aware: bool,
}

impl TrTcm {
    /// Both buckets full.
    pub fn new(config: TrTcmConfig) -> Self {
        Self {
            committed: Bucket::new(config.cir, config.cbs),
            peak: Bucket::new(config.pir, config.pbs),
            aware: config.aware,
        }
    }

    /// The colour of a packet of `len` at `now` that came with colour `pre` (ignored when colour-blind). O(1).
    #[inline]
    pub fn meter(&mut self, now: Instant, len: Bytes, pre: Color) -> Color {
        self.committed.refill(now);
        self.peak.refill(now);
        let pre = if self.aware { pre } else { Color::Green };
        let cost = Tokens::from_bytes(len);
        // Which colour comes next cannot be foretold, so nothing here depends on it but what is taken.
        let peak = (pre != Color::Red) & self.peak.covers(cost);
        let committed = peak & (pre == Color::Green) & self.committed.covers(cost);
        self.peak.take(Tokens(cost.0 * i64::from(peak)));
        self.committed.take(Tokens(cost.0 * i64::from(committed)));
        [Color::Red, Color::Yellow, Color::Green][usize::from(peak) + usize::from(committed)]
    }

    /// Continues with what `old` held at `now`, clamped to the own bursts.
    pub fn adopt(&mut self, old: &Self, now: Instant) {
        self.committed.adopt(old.committed, now);
        self.peak.adopt(old.peak, now);
    }
}

impl Meter for TrTcm {
    const TYPE_NAME: &'static str = "TrTcmMeter";
    fn meter(&mut self, now: Instant, len: Bytes, pre: Color, _draw: impl FnOnce() -> u32) -> Color {
        self.meter(now, len, pre)
    }
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.adopt(old, now);
    }
}

/// The element.
pub type TrTcmMeter = MeterElement<TrTcm>;

pub(super) const TYPE: ElementType = ElementType {
    name: TrTcm::TYPE_NAME,
    synopsis: "two rate three colour marker (RFC 2698)",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 3),
    build: |args, _| {
        let mut r = Reader::new(args);
        let cir = r.required_in("cir", Some(0), RATE_RANGE);
        let cbs = r.required_in("cbs", Some(1), BURST_RANGE);
        let pir = r.required_in("pir", Some(2), cir..=*RATE_RANGE.end());
        let pbs = r.required_in("pbs", Some(3), BURST_RANGE);
        let aware = r.flag("aware", false);
        let split = read_outputs(&mut r);
        let meter = TrTcm::new(TrTcmConfig { cir, cbs, pir, pbs, aware });
        r.finish(Box::new(TrTcmMeter::new(meter, split)) as _)
    },
    sample: |rng| {
        let cir = 1 + rng.next_u32() % 9999;
        let aware = if rng.next_u32() & 1 == 0 { "no" } else { "yes" };
        format!("{cir} kbit/s, 3000 B, {} kbit/s, 6000 B, aware = {aware}", cir * 2)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::laws::{arrivals, bytes_within_envelope};
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_units::Duration;
    use proptest::prelude::*;

    /// RFC 2698 with levels recomputed from the whole history for each packet, in wide integers.
    struct Oracle {
        config: TrTcmConfig,
        committed: Vec<(u64, i128)>,
        peak: Vec<(u64, i128)>,
    }

    fn level(rate: Rate, burst: Bytes, charges: &[(u64, i128)], at: u64) -> i128 {
        let full = i128::from(burst.0) * 8_000_000_000;
        let mut sum = 0;
        charges.iter().rev().fold(full, |level, (t, c)| {
            sum += c;
            level.min(full + i128::from(rate.0) * i128::from(at - t) - sum)
        })
    }

    impl Oracle {
        fn meter(&mut self, at: u64, len: u64, pre: Color) -> Color {
            let c = &self.config;
            let cost = i128::from(len) * 8_000_000_000;
            let pre = if c.aware { pre } else { Color::Green };
            if pre == Color::Red || level(c.pir, c.pbs, &self.peak, at) < cost {
                return Color::Red;
            }
            self.peak.push((at, cost));
            if pre == Color::Yellow || level(c.cir, c.cbs, &self.committed, at) < cost {
                return Color::Yellow;
            }
            self.committed.push((at, cost));
            Color::Green
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_rfc_and_keeps_both_envelopes(
            cir in 1u64..1_000_000_000,
            extra in 0u64..1_000_000_000,
            cbs in 1u64..20_000,
            pbs in 1u64..20_000,
            aware: bool,
            list in arrivals(),
        ) {
            let (cir, pir) = (Rate(cir), Rate(cir + extra));
            let config = TrTcmConfig { cir, cbs: Bytes(cbs), pir, pbs: Bytes(pbs), aware };
            let mut meter = TrTcm::new(config);
            let mut oracle = Oracle { config, committed: vec![], peak: vec![] };
            let (mut green, mut conforming) = (vec![], vec![]);
            for a in &list {
                let color = meter.meter(Instant(a.at), Bytes(a.len), a.pre);
                prop_assert_eq!(color, oracle.meter(a.at, a.len, a.pre));
                prop_assert!(!aware || color >= a.pre);
                if color == Color::Green {
                    green.push(*a);
                }
                if color != Color::Red {
                    conforming.push(*a);
                }
            }
            prop_assert!(bytes_within_envelope(&green, cir.0, cbs));
            prop_assert!(bytes_within_envelope(&conforming, pir.0, pbs));
        }
    }

    #[test]
    fn script() {
        // 8 kbit/s = 1 byte/ms. Packets of 100 bytes; C holds 100, P holds 200 and earns 2 bytes/ms.
        let text = args("8 kbit/s, 100 B, pir = 16 kbit/s, pbs = 200 B, outputs = 3");
        let element = (TYPE.build)(&text, &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 3, 1);
        let frame = udp(100);
        for _ in 0..3 {
            bench.push(&frame); // green, yellow, red
        }
        bench.run_for(Duration::from_millis(50));
        bench.push(&frame); // P holds 100: yellow
        bench.push(&frame); // red
        bench.run_for(Duration::from_millis(50));
        bench.push(&frame); // C and P hold 100: green
        let counts: Vec<_> = (0..3).map(|i| bench.arrived(i).len()).collect();
        assert_eq!(counts, [2, 2, 2]);
        assert_eq!(bench.sink(1).arrived[0].1.meta().color, Color::Yellow);
        let mut report: Vec<(String, u64)> = vec![];
        bench.driver.report(bench.node, &mut report);
        for (name, value) in
            [("received", 6), ("green_packets", 2), ("yellow_bytes", 200), ("red_bytes", 200)]
        {
            assert!(report.contains(&(name.to_owned(), value)), "{name} in {report:?}");
        }
    }

    #[test]
    fn a_peak_rate_below_the_committed_rate_is_refused() {
        let text = args("2 Mbit/s, 1 kB, 1 Mbit/s, 1 kB");
        let errors = (TYPE.build)(&text, &mut BuildCx::default()).err().unwrap();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].key.as_deref(), Some("pir"));
        assert_eq!(errors[0].allowed.as_deref(), Some("2 Mbit/s to 1 Tbit/s"));
    }
}
