//! # Synopsis
//! `TimedSource(rate [, size] [, count] [, dscp])` sends equal UDP packets at a constant rate;
//! `RandomSource(rate [, count])` sends packets of random kind at random times.
//!
//! # Ports
//! No input. Output 0: packets made here.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s at IP length | required | 1 … 10¹¹ |
//! | `size` (2nd, `TimedSource`) | size | byte at IP length | 200 B | 28 … 1,500 |
//! | `count` | number | packets | 0 = no end | 0 … 2⁶⁴ − 1 |
//! | `dscp` (`TimedSource`) | DSCP | | BE | 0 … 63 |
//!
//! # Behaviour
//! Idle until its owner wakes it once; from then on it wakes itself. `TimedSource` keeps the rate exactly: the
//! remainder of each gap is carried into the next. `RandomSource` draws for each packet length, code point, ECN
//! field, ports and addresses, a gap between 0 and twice the packet's time at `rate`, and one time in 32 damages the
//! frame. Packets are dissected and stamped with the current time. A packet for which the pool has no buffer is
//! skipped; its time passes.
//!
//! # Counters
//! `packets`, `ip_bytes`, `skipped` (no buffer).
//!
//! # Invariants
//! Packets of `TimedSource` in any interval of length t differ from rate × t / size by at most one.
//!
//! # Example
//! `TimedSource(1 Mbit/s, 200 B, dscp = EF) -> Discard()`, `RandomSource(1 Mbit/s, count = 1000) -> Discard()`
//!
//! # Source
//! None: plumbing.

use super::adapter::as_any;
use super::frames::UdpFrame;
use crate::meter::metered_len;
use perhop_element::{
    CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader, TimerId,
};
use perhop_packet::{Batch, Packet};
use perhop_units::{Bytes, Dscp, Duration, Instant, Rate};
use std::ops::RangeInclusive;

const RATES: RangeInclusive<Rate> = Rate(1)..=Rate(100_000_000_000);
const BITS_NS: u128 = 8 * 1_000_000_000;

/// What the two sources share: when the next packet is due and how many are left.
#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: Rate,
    left: Option<u64>,
    next: Option<Instant>,
    /// Remainder of the last gap, in 1/rate ns.
    carry: u64,
    packets: u64,
    ip_bytes: u64,
    skipped: u64,
}

impl Clock {
    fn new(rate: Rate, count: u64) -> Self {
        let left = (count > 0).then_some(count);
        let rate = Rate(rate.0.max(1));
        Self { rate, left, next: None, carry: 0, packets: 0, ip_bytes: 0, skipped: 0 }
    }

    /// Whether a packet is due at `now`. The first call starts the clock.
    fn due(&mut self, now: Instant) -> bool {
        self.left != Some(0) && *self.next.get_or_insert(now) <= now
    }

    /// Exact time `len` takes at the rate; the remainder is carried.
    fn gap(&mut self, len: Bytes) -> Duration {
        let total = u128::from(len.0) * BITS_NS + u128::from(self.carry);
        let rate = u128::from(self.rate.0);
        self.carry = (total % rate) as u64;
        Duration(u64::try_from(total / rate).unwrap_or(u64::MAX))
    }

    fn advance(&mut self, gap: Duration) {
        self.left = self.left.map(|n| n - 1);
        self.next = self.next.map(|t| t + gap);
    }

    fn send(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.packets += 1;
        self.ip_bytes += metered_len(&packet).0;
        cx.emit(0, packet);
    }

    fn rearm(&self, cx: &mut Cx<'_>) {
        if let Some(next) = self.next.filter(|_| self.left != Some(0)) {
            cx.timer_at(next);
        }
    }

    /// Goes on with the own rate when `old` would have sent next; what `old` had sent counts.
    fn adopt(&mut self, old: &Self) {
        self.next = old.next;
        self.left = self.left.map(|count| count.saturating_sub(old.packets + old.skipped));
        (self.packets, self.ip_bytes, self.skipped) = (old.packets, old.ip_bytes, old.skipped);
    }

    fn report(&self, sink: &mut dyn CounterSink) {
        sink.counter("packets", self.packets);
        sink.counter("ip_bytes", self.ip_bytes);
        sink.counter("skipped", self.skipped);
    }
}

/// A new packet holding `frame`, dissected and stamped.
fn make(cx: &mut Cx<'_>, frame: &UdpFrame) -> Option<Packet> {
    let mut packet = cx.make()?;
    if !packet.resize(frame.frame_len()) {
        cx.consume(packet);
        return None;
    }
    frame.write(packet.frame_mut());
    dissect(cx, &mut packet);
    Some(packet)
}

fn dissect(cx: &Cx<'_>, packet: &mut Packet) {
    let (meta, bytes) = packet.parts_mut();
    meta.received_at = cx.now();
    let layout = perhop_wire::dissect(bytes);
    meta.parsed = layout.is_ok();
    meta.layout = layout.unwrap_or_default();
}

/// Sends equal packets at a constant rate.
#[derive(Debug)]
pub struct TimedSource {
    clock: Clock,
    frame: UdpFrame,
}

impl TimedSource {
    /// Sends `frame` at `rate` (IP length), `count` times or without end if 0.
    pub fn new(rate: Rate, frame: UdpFrame, count: u64) -> Self {
        Self { clock: Clock::new(rate, count), frame }
    }
}

impl Element for TimedSource {
    fn type_name(&self) -> &'static str {
        "TimedSource"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        refuse(cx, batch);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        for _ in 0..Batch::MAX {
            if !self.clock.due(cx.now()) {
                break;
            }
            match make(cx, &self.frame) {
                Some(packet) => self.clock.send(cx, packet),
                None => self.clock.skipped += 1,
            }
            let gap = self.clock.gap(Bytes(u64::from(self.frame.ip_len)));
            self.clock.advance(gap);
        }
        self.clock.rearm(cx);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.clock.report(sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new(self.clock))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.clock.adopt(&*state.downcast::<Clock>()?);
        Ok(())
    }

    as_any!();
}

/// Sends packets of random kind at random times.
#[derive(Debug)]
pub struct RandomSource {
    clock: Clock,
}

impl RandomSource {
    /// Sends at `rate` on the average, `count` packets or without end if 0.
    pub fn new(rate: Rate, count: u64) -> Self {
        Self { clock: Clock::new(rate, count) }
    }
}

impl Element for RandomSource {
    fn type_name(&self) -> &'static str {
        "RandomSource"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        refuse(cx, batch);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        for _ in 0..Batch::MAX {
            if !self.clock.due(cx.now()) {
                break;
            }
            let frame = random_frame(cx);
            match make(cx, &frame) {
                Some(mut packet) => {
                    if cx.random() < u32::MAX / 32 {
                        damage(cx, &mut packet);
                    }
                    self.clock.send(cx, packet);
                }
                None => self.clock.skipped += 1,
            }
            let mean = self.clock.gap(Bytes(u64::from(frame.ip_len))).0;
            let gap = ((u128::from(mean) * u128::from(cx.random())) >> 31) as u64;
            self.clock.advance(Duration(gap));
        }
        self.clock.rearm(cx);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.clock.report(sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new(self.clock))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.clock.adopt(&*state.downcast::<Clock>()?);
        Ok(())
    }

    as_any!();
}

/// A source takes nothing.
fn refuse(cx: &mut Cx<'_>, batch: &mut Batch) {
    for packet in batch.drain() {
        cx.drop(packet, perhop_packet::DropReason::Discarded);
    }
}

fn random_frame(cx: &mut Cx<'_>) -> UdpFrame {
    let (a, b) = (cx.random(), cx.random());
    let span = u32::from(UdpFrame::MAX_IP_LEN - UdpFrame::MIN_IP_LEN) + 1;
    UdpFrame {
        src: [10, 0, 0, (a & 0xf) as u8],
        dst: [10, (a >> 4 & 3) as u8, 0, (a >> 6 & 0xf) as u8],
        src_port: 5000 + (a >> 10 & 0xf) as u16,
        dst_port: 5000 + (a >> 14 & 0xf) as u16,
        dscp: Dscp::from_octet((a >> 24) as u8),
        ecn: (a >> 22 & 3) as u8,
        ip_len: UdpFrame::MIN_IP_LEN + (b % span) as u16,
    }
}

/// Cuts the frame short or flips one bit of its headers.
fn damage(cx: &mut Cx<'_>, packet: &mut Packet) {
    let r = cx.random();
    if r & 1 == 0 {
        let len = (r >> 1) as usize % packet.len();
        packet.resize(len.max(1));
    } else if let Some(byte) = packet.frame_mut().get_mut((r >> 4) as usize % 42) {
        *byte ^= 1 << (r >> 1 & 7);
    }
    dissect(cx, packet);
}

pub(super) const TIMED: ElementType = ElementType {
    name: "TimedSource",
    synopsis: "equal UDP packets at a constant rate",
    inputs: PortCount::Exactly(0),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let rate = r.required_in("rate", Some(0), RATES);
        let sizes = Bytes(u64::from(UdpFrame::MIN_IP_LEN))..=Bytes(u64::from(UdpFrame::MAX_IP_LEN));
        let size = r.optional_in("size", Some(1), Bytes(200), sizes);
        let count = r.optional_in("count", None, 0, 0..=u64::MAX);
        let dscp = r.optional("dscp", None).unwrap_or(Dscp::BE);
        let frame = UdpFrame { ip_len: size.0 as u16, dscp, ..UdpFrame::default() };
        r.finish(Box::new(TimedSource::new(rate, frame, count)) as _)
    },
    sample: |rng| format!("{} kbit/s, {} B", 100 + rng.next_u32() % 10_000, 28 + rng.next_u32() % 1473),
};

pub(super) const RANDOM: ElementType = ElementType {
    name: "RandomSource",
    synopsis: "UDP packets of random kind at random times",
    inputs: PortCount::Exactly(0),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let rate = r.required_in("rate", Some(0), RATES);
        let count = r.optional_in("count", None, 0, 0..=u64::MAX);
        r.finish(Box::new(RandomSource::new(rate, count)) as _)
    },
    sample: |rng| format!("{} kbit/s", 100 + rng.next_u32() % 10_000),
};

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::testkit::Bench;

    #[test]
    fn the_rate_is_exact_over_any_time() {
        // 1 Mbit/s of 100-byte packets is 1,250 a second; 7 Mbit/s gives a gap that is no whole number of ns.
        let frame = UdpFrame { ip_len: 100, ..UdpFrame::default() };
        let mut bench = Bench::new(TimedSource::new(Rate::from_mbit(7), frame, 0), 1);
        bench.driver.wake(bench.now(), bench.node, TimerId::MAIN);
        bench.run_until(Instant(100_000_000));
        let arrived = bench.arrived(0);
        assert_eq!(arrived.len(), 876);
        assert_eq!(arrived[875].0, Instant(100_000_000));
    }

    #[test]
    fn random_packets_keep_the_mean_rate_and_are_damaged_now_and_then() {
        let mut bench = Bench::new(RandomSource::new(Rate::from_mbit(10), 2000), 1);
        bench.driver.wake(bench.now(), bench.node, TimerId::MAIN);
        bench.run_until(Instant(10_000_000_000));
        let packets = &bench.sink(0).arrived;
        assert_eq!(packets.len(), 2000);
        let broken = packets.iter().filter(|(_, p)| !p.meta().parsed).count();
        assert!((20..120).contains(&broken), "{broken} of 2000 with seed 1");
        // 2,000 packets of 764 bytes on the average take 1.22 s.
        let last = packets[1999].0.0;
        assert!((1_100_000_000..1_350_000_000).contains(&last), "{last} with seed 1");
    }

    #[test]
    fn a_successor_goes_on_where_the_old_one_stopped() {
        let frame = UdpFrame { ip_len: 125, ..UdpFrame::default() };
        let mut new = TimedSource::new(Rate::from_mbit(1), frame, 10);
        let mut bench = Bench::new(TimedSource::new(Rate::from_mbit(1), frame, 10), 1);
        bench.driver.wake(bench.now(), bench.node, TimerId::MAIN);
        bench.run_until(Instant(2_500_000));
        let state = bench.element::<TimedSource>().export_state().expect("sources have state");
        assert!(new.import_state(state).is_ok());
        assert_eq!((new.clock.packets, new.clock.left), (3, Some(7)));
        assert_eq!(new.clock.next, Some(Instant(3_000_000)));
    }
}
