//! # Synopsis
//! [`Pump`] holds packets in a discipline and lets them out as fast as a line takes them.
//!
//! # Ports
//! Input 0: packets to queue. Output 0: packets in the discipline's order at the line's pace.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `discipline` | discipline | | required | |
//! | `transmitter` | see [`super::transmitter`] | | unlimited | |
//! | `port` | port | | none | router ports |
//! | `emit` | `start`, `end` | | `start` | |
//!
//! # Behaviour
//! The only element that turns pushing into pulling. What is pushed in goes to the discipline; packets are pulled
//! while the transmitter has room and, when the pump feeds a router port, while that port takes packets. It then
//! sleeps until the transmitter has room again, or until the discipline's next wake-up when nothing may leave yet. A
//! port that was full must wake the pump (its main timer) when it has room. With `emit = end` a packet leaves when its
//! last bit would have left the line (an emulated link), otherwise when its first bit goes (a card does the rest).
//!
//! # Counters
//! `packets`, `bytes` sent; `backlog_packets`, `backlog_bytes` (gauges); `busy_ns`: line time used, so utilisation is
//! its increase over the time elapsed; `rate_bps` (gauge); and those of the discipline.
//!
//! # Invariants
//! Work conserving: the line never idles while the discipline has a packet that may leave. In any interval no more
//! than `rate · (t + catchup + ring_time)` plus one packet leaves.
//!
//! # Example
//! `FromPort(lan) -> shaper :: Shaper(rate = 2 Mbit/s, limit = 50 packets) -> ToPort(wan)`
//!
//! # Source
//! None.

use super::transmitter::Transmitter;
use crate::plumbing::adapter::as_any;
use crate::queue::{LengthRange, MAX_WAITS, ThinnedLog, Wait};
use perhop_element::{Budget, CounterSink, Cx, Discipline, Element, ElementState, PortIndex, TimerId};
use perhop_packet::{Batch, Packet, PortId};
use perhop_units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// When a packet leaves the pump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// When the line starts on it: a card sends it.
    #[default]
    AtStart,
    /// When its last bit has left: an emulated line.
    AtEnd,
}

/// The element.
pub struct Pump {
    type_name: &'static str,
    discipline: Box<dyn Discipline>,
    transmitter: Transmitter,
    port: Option<PortId>,
    emit: Emit,
    /// Packets on an emulated line with the time their last bit leaves.
    on_line: VecDeque<(Instant, Packet)>,
    ready: Batch,
    /// Packets emitted since `emitted_at` that may not have reached the port yet: its room is not smaller by them until
    /// they do, and another batch may come in before.
    under_way: u32,
    emitted_at: Instant,
    /// The rate this pump was made with, when it took over a line of another; in force when it next runs.
    rate_to_come: Option<Rate>,
    packets: u64,
    bytes: u64,
    /// Nobody asks as a rule.
    waits: Option<Box<ThinnedLog<Wait>>>,
    /// Likewise.
    range: Option<LengthRange>,
}

/// What a pump hands to its successor.
struct PumpState {
    discipline_type: &'static str,
    discipline: Option<ElementState>,
    transmitter: Transmitter,
    on_line: VecDeque<(Instant, Packet)>,
    packets: u64,
    bytes: u64,
    waits: Option<Box<ThinnedLog<Wait>>>,
}

/// Most wire bytes of one packet, for sizing pulls.
const LARGEST: u64 = perhop_packet::BUFFER_LEN as u64 + 256;

impl Pump {
    /// A pump of no particular element type.
    pub fn new(discipline: Box<dyn Discipline>, transmitter: Transmitter, port: Option<PortId>) -> Self {
        Self::named("Pump", discipline, transmitter, port)
    }

    /// A pump that graph text calls `type_name`.
    pub fn named(
        type_name: &'static str,
        discipline: Box<dyn Discipline>,
        transmitter: Transmitter,
        port: Option<PortId>,
    ) -> Self {
        Self {
            type_name,
            discipline,
            transmitter,
            port,
            emit: Emit::AtStart,
            on_line: VecDeque::new(),
            ready: Batch::new(),
            under_way: 0,
            emitted_at: Instant::ZERO,
            rate_to_come: None,
            packets: 0,
            bytes: 0,
            waits: None,
            range: None,
        }
    }

    /// Sets when packets leave.
    #[must_use]
    pub fn emitting(mut self, emit: Emit) -> Self {
        self.emit = emit;
        self
    }

    /// The line.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }

    /// The line, for debits and changes. Wake the pump afterwards.
    pub fn transmitter_mut(&mut self) -> &mut Transmitter {
        &mut self.transmitter
    }

    /// Changes the line's rate for what comes later; zero = unlimited. What has begun keeps its time, as on a line whose
    /// packets are on their way already. Wake the pump afterwards.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate_to_come = None;
        self.transmitter.set_rate(rate);
    }

    /// Changes the line's rate; zero = unlimited. What is on the line goes on at the new rate. Wake the pump afterwards.
    pub fn change_rate(&mut self, now: Instant, rate: Rate) {
        self.rate_to_come = None;
        let (old, new) = (u128::from(self.transmitter.rate().0), u128::from(rate.0));
        for (end, _) in self.on_line.iter_mut().filter(|(end, _)| *end > now) {
            let left = (u128::from(end.since(now).0) * old).checked_div(new).unwrap_or(0);
            *end = now + Duration(u64::try_from(left).unwrap_or(u64::MAX));
        }
        self.transmitter.change_rate(now, rate);
    }

    /// The discipline as its concrete type.
    pub fn discipline<T: Discipline>(&self) -> Option<&T> {
        self.discipline.as_any().downcast_ref()
    }

    /// The discipline as its concrete type, to be edited. Wake the pump afterwards.
    pub fn discipline_mut<T: Discipline>(&mut self) -> Option<&mut T> {
        self.discipline.as_any_mut().downcast_mut()
    }

    /// The port it feeds.
    pub fn port(&self) -> Option<PortId> {
        self.port
    }

    /// Packets and frame bytes sent.
    pub fn sent(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Keeps from now on how long each packet waited, from [`perhop_packet::Meta::received_at`] until it left the
    /// discipline for the line: [`MAX_WAITS`] at most.
    pub fn log_waits(&mut self) {
        self.waits.get_or_insert_with(|| Box::new(ThinnedLog::new(MAX_WAITS)));
    }

    /// The waits kept, in the order of the line; keeps no more.
    pub fn take_waits(&mut self) -> Vec<Wait> {
        self.waits.take().map_or_else(Vec::new, |log| log.into_kept())
    }

    /// Smallest and largest frame bytes that waited since the last call; the first one begins.
    pub fn length_range(&mut self, now: Instant) -> [u64; 2] {
        let bytes = self.discipline.held_bytes();
        self.range.get_or_insert(LengthRange::new(now, bytes)).take(now, bytes)
    }

    /// The same of the discipline's classes, see [`Discipline::length_ranges`].
    pub fn class_length_ranges(&mut self, now: Instant, each: &mut dyn FnMut(&str, [u64; 2])) {
        self.discipline.length_ranges(now, each);
    }

    fn lasted(&mut self, now: Instant) {
        if let Some(range) = &mut self.range {
            range.lasted(now, self.discipline.held_bytes());
        }
    }

    /// Packets the port surely takes besides those under way to it.
    fn port_room(&self, cx: &Cx<'_>) -> u32 {
        let room = self.port.map_or(u32::MAX, |port| cx.port_room(port));
        if self.port.is_none() { room } else { room.saturating_sub(self.under_way) }
    }

    fn count_emitted(&mut self, now: Instant, packets: u32) {
        self.under_way = self.under_way.saturating_add(packets);
        self.emitted_at = now;
    }

    fn deliver_finished(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        while self.on_line.front().is_some_and(|(at, _)| *at <= now)
            && self.port_room(cx) > 0
            && let Some((_, packet)) = self.on_line.pop_front()
        {
            cx.emit(0, packet);
            self.count_emitted(now, 1);
        }
    }

    /// Pulls what may leave now and arms the timer for the rest.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if now > self.emitted_at {
            // All deliveries of an instant are made before the clock goes on.
            self.under_way = 0;
        }
        if let Some(rate) = self.rate_to_come {
            self.change_rate(now, rate);
        }
        self.deliver_finished(cx);
        // What is on an emulated line will need room at its end.
        let mut port_room = self.port_room(cx).saturating_sub(self.on_line.len() as u32);
        loop {
            if !self.transmitter.has_room(now) {
                if self.discipline.held() > 0 {
                    cx.timer_at(self.transmitter.next_room(now));
                }
                break;
            }
            if port_room == 0 {
                if self.under_way > 0 && self.discipline.held() > 0 {
                    // How much room is left shows when they have arrived, still in this instant.
                    cx.timer_at(now);
                }
                break;
            }
            // At most as many packets as surely fit, so that one pull never takes more than the line has time for.
            let fit = (self.transmitter.room_bytes(now) / LARGEST).clamp(1, Batch::MAX as u64) as u32;
            let budget = Budget { bytes: u64::MAX, packets: fit.min(port_room) };
            let _ = self.discipline.dequeue(cx, budget, &mut self.ready);
            if self.ready.is_empty() {
                if let Some(at) = self.discipline.next_wakeup() {
                    cx.timer_at(at);
                }
                break;
            }
            port_room -= (self.ready.len() as u32).min(port_room);
            self.send_ready(cx);
        }
        match self.on_line.front() {
            Some((at, _)) if *at > now => cx.timer_at(*at),
            Some(_) if self.under_way > 0 => cx.timer_at(now),
            _ => {}
        }
    }

    fn send_ready(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.packets += self.ready.len() as u64;
        for packet in self.ready.iter() {
            self.bytes += packet.len() as u64;
        }
        if let Some(waits) = &mut self.waits {
            for packet in self.ready.iter() {
                waits.note(Wait { came: packet.meta().received_at, began: now });
            }
        }
        match self.emit {
            Emit::AtStart => {
                self.count_emitted(now, self.ready.len() as u32);
                for packet in self.ready.iter() {
                    self.transmitter.send(now, packet.len() as u32);
                }
                cx.emit_all(0, &mut self.ready);
            }
            Emit::AtEnd => {
                let mut now_sent = 0;
                for packet in self.ready.drain() {
                    let end = self.transmitter.send(now, packet.len() as u32);
                    if end <= now {
                        cx.emit(0, packet);
                        now_sent += 1;
                    } else {
                        self.on_line.push_back((end, packet));
                    }
                }
                self.count_emitted(now, now_sent);
            }
        }
    }
}

impl Element for Pump {
    fn type_name(&self) -> &'static str {
        self.type_name
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        self.lasted(cx.now());
        let _ = self.discipline.enqueue(cx, batch);
        self.run(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        // A wake-up comes when everything emitted before has been delivered.
        self.under_way = 0;
        self.lasted(cx.now());
        self.run(cx);
    }

    fn held(&self) -> u64 {
        self.discipline.held() + self.on_line.len() as u64
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("packets", self.packets);
        sink.counter("bytes", self.bytes);
        sink.counter("busy_ns", self.transmitter.busy().0);
        sink.gauge("rate_bps", self.transmitter.rate().0);
        sink.gauge("backlog_packets", self.discipline.held());
        sink.gauge("backlog_bytes", self.discipline.held_bytes());
        self.discipline.counters(sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let discipline = self.discipline.export_state()?;
        Some(Box::new(PumpState {
            discipline_type: self.discipline.type_name(),
            discipline: Some(discipline),
            transmitter: self.transmitter,
            on_line: std::mem::take(&mut self.on_line),
            packets: self.packets,
            bytes: self.bytes,
            waits: self.waits.take(),
        }))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = state.downcast::<PumpState>()?;
        if state.discipline_type != self.discipline.type_name() {
            return Err(state);
        }
        if let Some(inner) = state.discipline.take()
            && let Err(inner) = self.discipline.import_state(inner)
        {
            state.discipline = Some(inner);
            return Err(state);
        }
        let rate = self.transmitter.rate();
        self.transmitter.adopt(&state.transmitter);
        self.rate_to_come = (rate != self.transmitter.rate()).then_some(rate);
        self.on_line = std::mem::take(&mut state.on_line);
        self.packets = state.packets;
        self.bytes = state.bytes;
        self.waits = state.waits.take();
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        for (_, packet) in self.on_line.drain(..) {
            out.push(packet);
        }
        self.discipline.drain(out);
    }

    as_any!();
}

impl Drop for Pump {
    fn drop(&mut self) {
        release(&mut self.on_line);
    }
}

impl Drop for PumpState {
    fn drop(&mut self) {
        release(&mut self.on_line);
    }
}

fn release(packets: &mut VecDeque<(Instant, Packet)>) {
    for (_, packet) in packets.drain(..) {
        packet.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use crate::queue::{Fifo, FifoConfig};
    use crate::schedule::TransmitterConfig;
    use perhop_element::testkit::Bench;
    use perhop_units::QueueLimit;

    fn pump(emit: Emit) -> Pump {
        let rate = Rate::from_mbit(8);
        let fifo = Fifo::new(FifoConfig { limit: QueueLimit::Packets(100), rate, overhead: 0 });
        let line = Transmitter::new(TransmitterConfig { rate, ..Default::default() });
        Pump::new(Box::new(fifo), line, None).emitting(emit)
    }

    fn times(bench: &Bench) -> Vec<u64> {
        bench.arrived(0).iter().map(|(t, _)| t.0 / 1000).collect()
    }

    #[test]
    fn packets_leave_at_the_start_or_the_end_of_their_line_time() {
        for (emit, expected) in [(Emit::AtStart, [0, 1000, 2000]), (Emit::AtEnd, [1000, 2000, 3000])] {
            let mut bench = Bench::new(pump(emit), 1);
            for _ in 0..3 {
                bench.push(&udp(986));
            }
            bench.run_for(Duration::from_millis(10));
            assert_eq!(times(&bench), expected);
            let mut counters = Vec::new();
            bench.driver.report(bench.node, &mut counters);
            let find = |name: &str| counters.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            assert_eq!(find("busy_ns"), Some(3_000_000));
            assert_eq!(find("bytes"), Some(3000));
            assert_eq!(find("backlog_packets"), Some(0));
        }
    }

    #[test]
    fn waits_are_kept_when_asked_for_and_move_to_a_successor() {
        for emit in [Emit::AtStart, Emit::AtEnd] {
            let mut bench = Bench::new(pump(emit), 1);
            bench.push(&udp(986));
            bench.run_for(Duration(300));
            bench.element::<Pump>().log_waits();
            for _ in 0..3 {
                let mut packet = bench.packet(&udp(986));
                packet.meta_mut().received_at = Instant(200);
                bench.push_packet(0, packet);
            }
            bench.run_for(Duration::from_micros(1500));
            let state = bench.element::<Pump>().export_state().expect("state");
            let mut next = pump(emit);
            assert!(next.import_state(state).is_ok());
            let began = Instant(1_000_000);
            assert_eq!(next.take_waits(), [Wait { came: Instant(200), began }]);
            assert!(next.take_waits().is_empty(), "nobody asks any more");
            let mut left = Batch::new();
            next.drain(&mut left);
            left.release_all();
        }
    }

    /// The pump, a `ToPort` behind it, and the packets its port got by now.
    fn to_port(pump: Pump, room: u32) -> (Bench, impl Fn(&mut Bench) -> usize) {
        let port = PortId(1);
        let mut bench = Bench::new(pump, 0);
        bench.driver.set_port_count(2);
        bench.driver.set_port_room(port, room);
        let out = bench.driver.add("out", Box::new(crate::plumbing::ToPort::new(port)), 0);
        bench.driver.connect(bench.node, 0, out, 0).expect("it is free");
        (bench, move |bench: &mut Bench| bench.driver.transmit_queue(port).map_or(0, |q| q.len()))
    }

    fn fed(rate: Rate, emit: Emit) -> Pump {
        let fifo = Fifo::new(FifoConfig { limit: QueueLimit::Packets(10_000), rate, overhead: 0 });
        let line = Transmitter::new(TransmitterConfig { rate, ..Default::default() });
        Pump::new(Box::new(fifo), line, Some(PortId(1))).emitting(emit)
    }

    #[test]
    fn a_port_never_gets_more_than_it_has_room_for() {
        let (mut bench, at_port) = to_port(fed(Rate::ZERO, Emit::AtStart), 4);
        // More than a batch: the pump is called again before its first packets have reached the port.
        let mut batch = Batch::new();
        for _ in 0..3 * Batch::MAX {
            batch.push(bench.packet(&udp(986)));
        }
        let (now, node) = (bench.now(), bench.node);
        bench.driver.push(now, node, 0, &mut batch);
        bench.driver.poll(now);
        assert_eq!(at_port(&mut bench), 4);
        let mut seen = 4;
        for room in [0, 1, 7, 3, 0, 300] {
            if let Some(queue) = bench.driver.transmit_queue(PortId(1)) {
                queue.release_all();
            }
            bench.driver.set_port_room(PortId(1), room);
            bench.driver.wake(now, node, TimerId::MAIN);
            bench.push(&udp(986));
            bench.push(&udp(986));
            bench.driver.poll(now);
            assert_eq!(at_port(&mut bench), room as usize);
            seen += room as u64;
        }
        let left = bench.element::<Pump>().held();
        assert_eq!(seen + left, 3 * Batch::MAX as u64 + 12, "nothing is lost behind the queue");
    }

    #[test]
    fn a_full_port_holds_up_the_end_of_an_emulated_line() {
        let (mut bench, at_port) = to_port(fed(Rate::from_mbit(8), Emit::AtEnd), 2);
        for _ in 0..10 {
            bench.push(&udp(986));
        }
        bench.run_for(Duration::from_millis(20));
        assert_eq!(at_port(&mut bench), 2);
        bench.driver.set_port_room(PortId(1), 100);
        let (now, node) = (bench.now(), bench.node);
        bench.driver.wake(now, node, TimerId::MAIN);
        bench.run_for(Duration::from_millis(20));
        assert_eq!(at_port(&mut bench), 10);
    }

    #[test]
    fn a_successor_continues_queue_and_line() {
        let mut bench = Bench::new(pump(Emit::AtEnd), 1);
        for _ in 0..5 {
            bench.push(&udp(986));
        }
        bench.run_for(Duration::from_micros(1500));
        let state = bench.element::<Pump>().export_state().expect("it has state");
        assert_eq!(bench.element::<Pump>().held(), 0);
        let mut next = pump(Emit::AtEnd);
        assert!(next.import_state(state).is_ok());
        assert_eq!(next.held(), 4);
        *bench.element::<Pump>() = next;
        let (now, node) = (bench.now(), bench.node);
        bench.driver.wake(now, node, TimerId::MAIN);
        bench.run_for(Duration::from_millis(10));
        assert_eq!(times(&bench), [1000, 2000, 3000, 4000, 5000]);
    }

    #[test]
    fn a_rate_of_zero_passes_everything_at_once_and_a_new_rate_is_in_force_at_once() {
        let mut bench = Bench::new(pump(Emit::AtStart), 1);
        for _ in 0..4 {
            bench.push(&udp(986));
        }
        bench.element::<Pump>().change_rate(Instant::ZERO, Rate::from_mbit(16));
        let (now, node) = (bench.now(), bench.node);
        bench.driver.wake(now, node, TimerId::MAIN);
        bench.run_for(Duration::from_millis(2));
        assert_eq!(times(&bench), [0, 500, 1000, 1500]);
        let now = bench.now();
        bench.element::<Pump>().change_rate(now, Rate::ZERO);
        bench.push(&udp(986));
        assert_eq!(times(&bench).len(), 5);
    }
}
