//! # Synopsis
//! `SrTcmMeter(cir, cbs, ebs [, aware] [, outputs])` is the single rate three colour marker.
//!
//! # Ports
//! Input 0: packets. Output 0: all packets, or with `outputs = 3` green at 0, yellow at 1 and red at 2.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `cir` (1st) | rate | bit/s | required | 1 … 10¹² |
//! | `cbs` (2nd) | size | byte | required | 1 … 500,000,000 |
//! | `ebs` (3rd) | size | byte | required | 0 … 500,000,000 |
//! | `aware` | yes, no | | no | |
//! | `outputs` | number | | 1 | 1 or 3 |
//!
//! # Behaviour
//! Two buckets, both full at the start. C earns `cir` up to `cbs`; what no longer fits goes to E, up to `ebs`. A
//! packet that C covers is green and charged to C; else one that E covers is yellow and charged to E; else it is
//! red. With `aware = yes` the colour given before is an upper bound. Length is the IP length, time the packet's
//! `received_at`; each packet of a batch is charged by itself.
//!
//! # Counters
//! `green_packets`, `green_bytes`, `yellow_packets`, `yellow_bytes`, `red_packets`, `red_bytes` (IP length).
//!
//! # Invariants
//! In any interval of length t: green bytes ≤ CIR × t + CBS, green and yellow bytes ≤ CIR × t + CBS + EBS.
//!
//! # Example
//! `FromPort(lan) -> SrTcmMeter(1 Mbit/s, 10 kB, 20 kB)`
//!
//! # Source
//! RFC 2697 §3 (metering), §2 (parameters).

use super::adapter::{BURST_RANGE, Meter, MeterElement, RATE_RANGE, read_outputs};
use super::bucket::Bucket;
use perhop_element::{ElementType, PortCount, Reader};
use perhop_units::{Bytes, Color, Instant, Rate, Tokens};

/// Parameters of RFC 2697 §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrTcmConfig {
    /// Committed information rate.
    pub cir: Rate,
    /// Committed burst size.
    pub cbs: Bytes,
    /// Excess burst size.
    pub ebs: Bytes,
    /// Colour-aware mode.
    pub aware: bool,
}

/// The single rate three colour marker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrTcm {
    committed: Bucket,
    /// Earns nothing by itself: it is fed with what the committed bucket cannot hold.
    excess: Bucket,
    aware: bool,
}

impl SrTcm {
    /// Both buckets full.
    pub fn new(config: SrTcmConfig) -> Self {
        Self {
            committed: Bucket::new(config.cir, config.cbs),
            excess: Bucket::new(Rate::ZERO, config.ebs),
            aware: config.aware,
        }
    }

    /// The colour of a packet of `len` at `now` that came with colour `pre` (ignored when colour-blind). O(1).
    #[inline]
    pub fn meter(&mut self, now: Instant, len: Bytes, pre: Color) -> Color {
        let over = self.committed.refill(now);
        self.excess.add(over);
        let pre = if self.aware { pre } else { Color::Green };
        let cost = Tokens::from_bytes(len);
        if pre == Color::Green && self.committed.covers(cost) {
            self.committed.take(cost);
            return Color::Green;
        }
        if pre != Color::Red && self.excess.covers(cost) {
            self.excess.take(cost);
            return Color::Yellow;
        }
        Color::Red
    }

    /// Continues with what `old` held at `now`, clamped to the own bursts.
    pub fn adopt(&mut self, old: &Self, now: Instant) {
        let mut old = *old;
        let over = old.committed.refill(now);
        old.excess.add(over);
        self.committed.adopt(old.committed, now);
        self.excess.adopt(old.excess, now);
    }
}

impl Meter for SrTcm {
    const TYPE_NAME: &'static str = "SrTcmMeter";
    fn meter(&mut self, now: Instant, len: Bytes, pre: Color, _draw: impl FnOnce() -> u32) -> Color {
        self.meter(now, len, pre)
    }
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.adopt(old, now);
    }
}

/// The element.
pub type SrTcmMeter = MeterElement<SrTcm>;

pub(super) const TYPE: ElementType = ElementType {
    name: SrTcm::TYPE_NAME,
    synopsis: "single rate three colour marker (RFC 2697)",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 3),
    build: |args, _| {
        let mut r = Reader::new(args);
        let cir = r.required_in("cir", Some(0), RATE_RANGE);
        let cbs = r.required_in("cbs", Some(1), BURST_RANGE);
        let ebs = r.required_in("ebs", Some(2), Bytes(0)..=*BURST_RANGE.end());
        let aware = r.flag("aware", false);
        let split = read_outputs(&mut r);
        let meter = SrTcm::new(SrTcmConfig { cir, cbs, ebs, aware });
        r.finish(Box::new(SrTcmMeter::new(meter, split)) as _)
    },
    sample: |rng| format!("{} kbit/s, 3000 B, {} B", 1 + rng.next_u32() % 9999, rng.next_u32() % 9999),
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

    /// RFC 2697 literally: every time unit one token goes to C, else to E, else nowhere. The time unit is the ns, the
    /// token what one ns earns; both bursts and all lengths are whole numbers of it.
    struct Oracle {
        config: SrTcmConfig,
        at: u64,
        c: u64,
        e: u64,
    }

    impl Oracle {
        /// With a rate of 8·10⁹ bit/s a nanosecond earns exactly one byte.
        fn meter(&mut self, at: u64, len: u64, pre: Color) -> Color {
            while self.at < at && (self.c < self.config.cbs.0 || self.e < self.config.ebs.0) {
                if self.c < self.config.cbs.0 {
                    self.c += 1
                } else {
                    self.e += 1
                }
                self.at += 1;
            }
            self.at = at;
            let pre = if self.config.aware { pre } else { Color::Green };
            if pre == Color::Green && self.c >= len {
                self.c -= len;
                Color::Green
            } else if pre != Color::Red && self.e >= len {
                self.e -= len;
                Color::Yellow
            } else {
                Color::Red
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_rfc_step_by_step(
            cbs in 1u64..5_000,
            ebs in 0u64..5_000,
            aware: bool,
            list in arrivals(),
        ) {
            let cir = Rate(8_000_000_000);
            let config = SrTcmConfig { cir, cbs: Bytes(cbs), ebs: Bytes(ebs), aware };
            let mut meter = SrTcm::new(config);
            let mut oracle = Oracle { config, at: 0, c: cbs, e: ebs };
            for a in &list {
                let at = a.at / 1000;
                let color = meter.meter(Instant(at), Bytes(a.len), a.pre);
                prop_assert_eq!(color, oracle.meter(at, a.len, a.pre));
            }
        }

        #[test]
        fn both_envelopes_hold_in_every_interval(
            cir in 1u64..1_000_000_000,
            cbs in 1u64..20_000,
            ebs in 0u64..20_000,
            list in arrivals(),
        ) {
            let config = SrTcmConfig { cir: Rate(cir), cbs: Bytes(cbs), ebs: Bytes(ebs), aware: false };
            let mut meter = SrTcm::new(config);
            let (mut green, mut conforming) = (vec![], vec![]);
            for a in &list {
                match meter.meter(Instant(a.at), Bytes(a.len), a.pre) {
                    Color::Green => {
                        green.push(*a);
                        conforming.push(*a);
                    }
                    Color::Yellow => conforming.push(*a),
                    Color::Red => {}
                }
            }
            prop_assert!(bytes_within_envelope(&green, cir, cbs));
            prop_assert!(bytes_within_envelope(&conforming, cir, cbs + ebs));
        }
    }

    #[test]
    fn script() {
        let text = args("8 kbit/s, 100 B, 100 B, aware = yes");
        let element = (TYPE.build)(&text, &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 1, 1);
        for pre in [Color::Yellow, Color::Green, Color::Green, Color::Red] {
            let mut packet = bench.packet(&udp(100));
            packet.meta_mut().color = pre;
            bench.push_packet(0, packet);
        }
        bench.run_for(Duration::from_millis(200));
        bench.push(&udp(100)); // C full again
        bench.push(&udp(100)); // and E filled by what C could not hold
        let colors: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().color).collect();
        use Color::{Green, Red, Yellow};
        assert_eq!(colors, [Yellow, Green, Red, Red, Green, Yellow]);
    }
}
