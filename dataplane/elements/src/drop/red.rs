//! # Synopsis
//! `Red` is the discipline of a FIFO queue with random early detection and ECN marking.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `min` | queue limit | packets (× `mean`), byte or time | required | above 0 |
//! | `max` | queue limit | packets (× `mean`), byte or time | required | above `min` |
//! | `max_p` | probability | | 10 % | 0 … 100 % |
//! | `weight` | number | log₂ of 1/w | 9 | 1 … 16 |
//! | `gentle` | yes, no | | yes | |
//! | `ecn` | yes, no | | yes | |
//! | `byte_mode` | yes, no | | no | |
//! | `mean` | size | byte | 1000 B | 1 … 65,535 |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! Each arriving packet updates the average queue length in bytes. Below `min` it is queued; from there to `max` it
//! is dropped (`red_early`) or, with `ecn` and an ECN-capable transport, marked, with a probability that grows to
//! `max_p`; beyond, with `gentle`, dropped (`red_forced`) with a probability that grows to 1 at twice `max`,
//! otherwise always. Gaps between drops are uniform. While the queue is empty the average decays at the link's rate.
//! The hard bound `limit` holds besides (`queue_full`).
//!
//! # Counters
//! Those of [`crate::queue::fifo`]; `marked`, `early`, `forced`; gauge `average_bytes`.
//!
//! # Invariants
//! Order is kept; the bound holds; with equal random bits two queues decide alike.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = red, min = 5 ms, max = 15 ms, limit = 60 ms)`
//!
//! # Source
//! Floyd and Jacobson, *Random Early Detection Gateways for Congestion Avoidance*, 1993; RFC 2309 §3; the gentle
//! option: Floyd, *Recommendation on using the gentle variant of RED*, 2000; RFC 3168 §7 (ECN). Where the 1993
//! pseudo-code counts the arriving packet itself, this counts packets since the last drop, as its §7 analysis does:
//! gaps are uniform on 1 … 1/p.

use super::{EarlyFifo, EarlyState, RedConfig, RedCounts, RedState, RedVerdict};
use crate::queue::FifoQueue;
use crate::queue::fifo::{FifoConfig, read_config};
use perhop_element::{CounterSink, Cx, Reader};
use perhop_packet::Packet;
use perhop_units::{Bytes, Instant, Probability, QueueLimit, Rate};

/// The discipline.
pub type Red = EarlyFifo<RedState>;

impl EarlyState for RedState {
    type Config = RedConfig;
    const NAME: &'static str = "Red";

    fn new(config: RedConfig) -> Self {
        Self::new(config)
    }

    fn config(&self) -> &RedConfig {
        self.config()
    }

    fn adopt(&mut self, old: &Self) {
        self.adopt(old);
    }

    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, packet: &Packet) -> RedVerdict {
        let capable = packet.meta().layout.is_ecn_capable();
        self.decide(cx.now(), queue.bytes(), queue.cost(packet), capable, cx.random())
    }

    fn left(&mut self, now: Instant, queue: &FifoQueue, _packet: &Packet, _len: Bytes) {
        if queue.is_empty() {
            self.became_idle(now);
        }
    }

    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink) {
        sink.counter("marked", counts.marked);
        sink.counter("early", counts.early);
        sink.counter("forced", counts.forced);
        sink.gauge("average_bytes", self.average().0);
    }
}

/// What a threshold may be, for messages.
pub(super) const THRESHOLD: &str = "packets, a size or a time, as 20 packets, 30 kB or 15 ms";

/// Reads RED's parameters for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (RedConfig, FifoConfig) {
    let queue = read_config(r, None, rate);
    let mean = r.optional_in("mean", None, Bytes(1000), Bytes(1)..=Bytes(65_535));
    let mut threshold = |key| {
        let limit = r.optional(key, None);
        if limit.is_none() && r.text(key, None).is_none() {
            r.fail(key, format!("{key} is missing"), Some(THRESHOLD.to_owned()));
        }
        match limit.unwrap_or(QueueLimit::Packets(1)) {
            QueueLimit::Packets(n) => Bytes(u64::from(n) * mean.0),
            other => other.in_bytes(rate).unwrap_or_default(),
        }
    };
    let (min, max) = (threshold("min"), threshold("max"));
    if r.text("max", None).is_some() && max <= min {
        let allowed = format!("above min, which is {} B here", min.0);
        r.fail("max", format!("max = {} B is not above min", max.0), Some(allowed));
    }
    let red = RedConfig {
        min,
        max,
        max_p: r.optional("max_p", None).unwrap_or(Probability(u32::MAX / 10)),
        weight_log2: r.optional_in("weight", None, 9, 1..=16),
        gentle: r.flag("gentle", true),
        ecn: r.flag("ecn", true),
        byte_mode: r.flag("byte_mode", false),
        mean,
        rate,
    };
    (red, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fifo::laws::{calls, check};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn red_reports_what_it_does(calls in calls(), min in 1u64..4000, span in 1u64..4000, gentle: bool) {
            let rate = Rate::from_mbit(1);
            let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(20_000)), rate, overhead: 4 };
            let red = RedConfig {
                min: Bytes(min),
                max: Bytes(min + span),
                max_p: Probability(u32::MAX / 4),
                weight_log2: 1,
                gentle,
                ecn: true,
                byte_mode: true,
                mean: Bytes(700),
                rate,
            };
            check(Red::new(red, queue), &calls);
        }
    }
}
