//! # Synopsis
//! `Delay(delay [, jitter] [, limit] [, reorder])` lets every packet arrive later.
//!
//! # Ports
//! Input 0 and output 0: packets.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `delay` (1st) | time | ns | required | 0 … 1 h |
//! | `jitter` (2nd) | time | ns | 0 | 0 … `delay` |
//! | `limit` | number | packets | 1,000,000 | 1 … 4,194,304 |
//! | `reorder` | yes, no | | no | |
//!
//! # Behaviour
//! Each packet leaves `delay` after it came, moved by a uniform random time of up to ± `jitter`. Without `reorder` no
//! packet overtakes another: one that would leaves together with its predecessor. A packet that finds `limit` others
//! on the way is dropped (`queue_full`).
//!
//! # Counters
//! Gauge `on_the_way`.
//!
//! # Invariants
//! Without `reorder` order is kept. Without jitter each packet is delayed by exactly `delay`.
//!
//! # Example
//! `FromPort(lan) -> Delay(20 ms, 2 ms) -> ToPort(wan)`
//!
//! # Source
//! None: a delay line.

use super::delay_line::{DelayLine, jittered};
use crate::plumbing::adapter::as_any;
use perhop_element::{
    CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader, TimerId,
};
use perhop_packet::{Batch, DropReason};
use perhop_units::Duration;

/// The longest delay.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(3600);
/// The most packets on the way.
const MAX_PACKETS: u32 = 1 << 22;

/// What a delay is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayConfig {
    /// Mean delay.
    pub delay: Duration,
    /// Greatest deviation to either side, at most `delay`.
    pub jitter: Duration,
    /// Most packets on the way.
    pub limit: u32,
    /// Whether packets may overtake each other.
    pub reorder: bool,
}

/// The element.
#[derive(Debug)]
pub struct Delay {
    config: DelayConfig,
    line: DelayLine,
}

impl Delay {
    /// An empty delay line.
    pub fn new(config: DelayConfig) -> Self {
        Self { config, line: DelayLine::new() }
    }

    /// Changes delay, jitter or limit; packets on the way keep their times.
    pub fn reconfigure(&mut self, config: DelayConfig) {
        self.config = config;
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.line.pop_due(cx.now()) {
            cx.emit(0, packet);
        }
        if let Some(at) = self.line.next_due() {
            cx.timer_at(at);
        }
    }
}

impl Element for Delay {
    fn type_name(&self) -> &'static str {
        "Delay"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            if self.line.len() >= self.config.limit as usize {
                cx.drop(packet, DropReason::QueueFull);
                continue;
            }
            let random = if self.config.jitter == Duration::ZERO { 0 } else { cx.random() };
            let at = cx.now() + jittered(self.config.delay, self.config.jitter, random);
            match self.config.reorder {
                false => self.line.push_in_order(at, packet),
                true => self.line.push_by_time(at, packet),
            }
        }
        self.run(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.run(cx);
    }

    fn held(&self) -> u64 {
        self.line.len() as u64
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.gauge("on_the_way", self.line.len() as u64);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new(std::mem::take(&mut self.line)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.line = *state.downcast::<DelayLine>()?;
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.line.drain(out);
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Delay",
    synopsis: "lets every packet arrive later",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let delay = r.required_in("delay", Some(0), Duration::ZERO..=MAX_DELAY);
        let jitter = r.optional_in("jitter", Some(1), Duration::ZERO, Duration::ZERO..=delay);
        let limit = r.optional_in("limit", None, 1_000_000, 1..=MAX_PACKETS);
        let reorder = r.flag("reorder", false);
        r.finish(Box::new(Delay::new(DelayConfig { delay, jitter, limit, reorder })) as _)
    },
    sample: |rng| {
        let delay = 1 + rng.next_u32() % 50;
        let reorder = if rng.next_u32() & 1 == 0 { "no" } else { "yes" };
        format!("{delay} ms, {} ms, reorder = {reorder}, limit = 100", rng.next_u32() % (delay + 1))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_units::Instant;
    use proptest::prelude::*;

    fn config() -> DelayConfig {
        DelayConfig { delay: Duration(1000), jitter: Duration::ZERO, limit: 1000, reorder: false }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn delays_are_within_bounds_and_order_is_kept(
            gaps in prop::collection::vec(0u64..500, 1..100),
            jitter in 0u64..=1000,
            reorder: bool,
            seed: u64,
        ) {
            let config = DelayConfig { jitter: Duration(jitter), reorder, ..config() };
            let mut bench = Bench::with_seed(Box::new(Delay::new(config)), 1, seed);
            let mut sent = vec![];
            for (i, gap) in gaps.iter().enumerate() {
                bench.run_for(Duration(*gap));
                sent.push(bench.now());
                bench.push(&udp(28 + i as u16));
            }
            bench.run_for(Duration(3000));
            let mut latest = Instant::ZERO;
            let arrived = &bench.sink(0).arrived;
            prop_assert_eq!(arrived.len(), sent.len());
            for (n, (at, packet)) in arrived.iter().enumerate() {
                let i = usize::from(packet.meta().layout.ip_len) - 28;
                let low = sent[i] + Duration(1000 - jitter);
                let high = sent[i] + Duration(1000 + jitter);
                prop_assert!(low <= *at && *at <= high.max(latest));
                prop_assert!(reorder || i == n);
                prop_assert!(!reorder || *at <= high);
                latest = *at;
            }
        }
    }

    #[test]
    fn the_limit_drops_and_only_the_head_is_timed() {
        let mut bench = Bench::new(Delay::new(DelayConfig { limit: 2, ..config() }), 1);
        (0..3).for_each(|_| bench.push(&udp(40)));
        assert_eq!(bench.driver.counters(bench.node).unwrap().drops[DropReason::QueueFull.index()], 1);
        assert_eq!(bench.driver.next_wakeup(), Some(Instant(1000)));
        bench.run_until(Instant(999));
        assert_eq!(bench.arrived(0).len(), 0);
        bench.run_until(Instant(1000));
        assert_eq!(bench.arrived(0).len(), 2);
        assert_eq!(bench.driver.next_wakeup(), None);
    }
}
