//! One direction of a link: a queue, a line, the time on the way, and what may go wrong there.
//!
//! A first-in first-out queue in front of a line needs no events of its own: when a packet comes, the time at which
//! its last bit leaves follows from those before it (Lindley's recursion). So a packet costs one event a link, its
//! arrival at the far end. Random decisions are taken when a packet joins the queue, in that order.

mod chance;
mod course;
mod line;
mod record;

use crate::buffers::Buffers;
use crate::random::Stream;
use chance::Chance;
use course::{Course, Passage};
use line::Line;
use perhop_measure::{LinkRecord, QueueSeries};
use perhop_packet::{DropReason, Packet};
use perhop_scenario::Change;
use perhop_units::{Bytes, Duration, Instant, QueueLimit, Rate};
use record::{Recorder, Start, WayCounters};

/// Place of the packets that take the delay.
const DELAYED: usize = 0;
/// Place of those that skip it.
const EARLY: usize = 1;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Way {
    line: Line,
    limit: QueueLimit,
    chance: Chance,
    up: bool,
    /// Packets in the queue and on their way that take the delay, and those that skip it. The line serves both in the
    /// order of their numbers.
    courses: [Course; 2],
    /// Packets that joined the queue.
    joined: u64,
    queued_bytes: u64,
    recorder: Recorder,
}

impl Way {
    /// A direction as a scenario describes it, with nothing inside.
    pub(crate) fn new(
        described: &perhop_scenario::Way,
        window: (Instant, Instant),
        bin: Duration,
        random: Stream,
    ) -> Self {
        Self {
            line: Line::new(described),
            limit: described.queue,
            chance: Chance::new(described, random),
            up: true,
            courses: [Course::default(), Course::default()],
            joined: 0,
            queued_bytes: 0,
            recorder: Recorder::new(window, bin),
        }
    }

    /// Records the queue's length at this interval; kept if it dropped anything or is `wanted` in any case.
    pub(crate) fn record_queue(&mut self, interval: Duration, wanted: bool) {
        self.recorder.record_queue(interval, wanted);
    }

    /// Counters from the start.
    pub(crate) fn counters(&self) -> &WayCounters {
        &self.recorder.counters
    }

    /// Packets inside.
    pub(crate) fn held(&self) -> u64 {
        self.courses.iter().map(|course| course.passages.len() as u64).sum()
    }

    /// A packet comes, perhaps twice.
    pub(crate) fn offer(&mut self, now: Instant, packet: Packet, buffers: &mut Buffers) {
        self.begin(now);
        self.recorder.counters.offered += 1;
        if !self.up {
            return self.discard(now, packet, DropReason::PortDown);
        }
        let copy = if self.chance.duplicates() { buffers.copy(&packet) } else { None };
        self.join(now, packet);
        if let Some(copy) = copy {
            self.recorder.counters.made += 1;
            self.join(now, copy);
        }
    }

    /// A packet joins the queue or finds it full.
    fn join(&mut self, now: Instant, packet: Packet) {
        let wire = self.line.wire(packet.len());
        if self.is_full(now, u64::from(wire)) {
            return self.discard(now, packet, DropReason::QueueFull);
        }
        self.commit(now, packet, wire);
    }

    /// Whether a packet of `wire` bytes finds no room. The packet on the line is not in the queue.
    fn is_full(&self, now: Instant, wire: u64) -> bool {
        if self.line.free_at(now) <= now {
            return false;
        }
        let limit = match self.limit {
            QueueLimit::Packets(n) => {
                return self.courses.iter().map(Course::waiting).sum::<usize>() >= n as usize;
            }
            QueueLimit::Bytes(n) => n,
            QueueLimit::Time(ns) => Bytes(self.line.rate().bytes_in(ns).get()),
        };
        self.queued_bytes + wire > limit.0
    }

    /// Promises the packet its times.
    fn commit(&mut self, now: Instant, packet: Packet, wire: u32) {
        let (begins, ends) = self.line.promise(now, packet.len() as u32);
        let lost = self.chance.loses();
        let (course, arrives) =
            if self.chance.overtakes() { (EARLY, ends) } else { (DELAYED, ends + self.chance.delay()) };
        let (number, came) = (self.joined, packet.meta().received_at);
        self.joined += 1;
        self.queued_bytes += u64::from(wire);
        self.courses[course].push(Passage { packet, number, came, begins, ends, arrives, wire, lost });
        if begins <= now {
            return self.begin(now);
        }
        self.recorder.length(now, self.queued_bytes);
    }

    /// Counts as begun what has begun by `now`.
    fn begin(&mut self, now: Instant) {
        while let Some(course) = self.first(Course::first_waiting, |_| 0) {
            let course = &mut self.courses[course];
            let Some(passage) = course.first_waiting().filter(|p| p.begins <= now) else { return };
            let start = Start::of(passage);
            course.begin_first();
            self.queued_bytes -= u64::from(start.wire);
            self.recorder.length(start.begins, self.queued_bytes);
            self.recorder.begins(start);
        }
    }

    /// The course whose packet comes first, by a time and then in the order of the line.
    fn first(
        &self,
        packet: impl Fn(&Course) -> Option<&Passage>,
        time: impl Fn(&Passage) -> u64,
    ) -> Option<usize> {
        let [delayed, early] = &self.courses;
        match (packet(delayed), packet(early)) {
            (Some(_), None) => Some(DELAYED),
            (None, Some(_)) => Some(EARLY),
            (Some(a), Some(b)) => {
                Some(if (time(a), a.number) < (time(b), b.number) { DELAYED } else { EARLY })
            }
            (None, None) => None,
        }
    }

    /// The course whose packet arrives next.
    fn next_course(&self) -> Option<usize> {
        self.first(|course| course.passages.front(), |passage| passage.arrives.as_nanos())
    }

    fn discard(&mut self, now: Instant, packet: Packet, reason: DropReason) {
        self.recorder.dropped(now, reason, 1);
        packet.release();
    }

    /// When the next packet arrives at the far end.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.courses[self.next_course()?].passages.front().map(|p| p.arrives)
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Packet> {
        self.begin(now);
        loop {
            let next = self.next_course()?;
            let course = &mut self.courses[next];
            course.passages.front().filter(|p| p.arrives <= now)?;
            let passage = course.pop()?;
            if passage.lost {
                self.discard(now, passage.packet, DropReason::EmulatedLoss);
                continue;
            }
            self.recorder.counters.delivered += 1;
            return Some(passage.packet);
        }
    }

    /// A node lost packets, for the reason of this index, that this direction brought or that were to leave by it.
    pub(crate) fn lost_at_end(&mut self, reason: usize, packets: u64) {
        self.recorder.lost_at_end(reason, packets);
    }

    /// Applies a change of the scenario.
    pub(crate) fn change(&mut self, now: Instant, change: &Change) {
        self.begin(now);
        if let Some(loss) = change.loss {
            self.chance.set_loss(loss);
        }
        if let Some(delay) = change.delay {
            self.chance.set_delay(delay);
        }
        if let Some(up) = change.up {
            self.up = up;
            if !up {
                self.cut(now);
            }
        }
        if let Some(rate) = change.rate {
            self.set_rate(now, rate);
        }
    }

    /// A partition: what is on the way or waits is gone, and the line with all it was promised.
    fn cut(&mut self, now: Instant) {
        let mut gone = 0;
        for passage in std::mem::take(&mut self.courses).into_iter().flat_map(|course| course.passages) {
            if passage.begins <= now && passage.ends > now {
                self.recorder.broken_off(&passage);
            }
            passage.packet.release();
            gone += 1;
        }
        self.queued_bytes = 0;
        self.line.void(now);
        self.recorder.cut(now);
        self.recorder.dropped(now, DropReason::PortDown, gone);
    }

    /// What has begun keeps its times; what waits gets new ones.
    fn set_rate(&mut self, now: Instant, rate: Rate) {
        // The line is taken until the packet on it has left.
        let free = self.recorder.line_ends().max(now);
        if !self.line.set_rate(rate, free) {
            return;
        }
        let mut waiting: Vec<(usize, Passage)> = Vec::new();
        for (i, course) in self.courses.iter_mut().enumerate() {
            waiting.extend(course.take_waiting().map(|passage| (i, passage)));
        }
        waiting.sort_unstable_by_key(|(_, passage)| passage.number);
        for (course, mut passage) in waiting {
            let on_the_way = passage.arrives.since(passage.ends);
            (passage.begins, passage.ends) = self.line.promise(now, passage.packet.len() as u32);
            passage.arrives = passage.ends + on_the_way;
            self.courses[course].push(passage);
        }
    }

    /// The window begins: what was counted so far does not count.
    pub(crate) fn window_begins(&mut self, now: Instant) {
        self.begin(now);
        self.recorder.window_begins(now);
    }

    /// The window ends: what is counted from now on does not count.
    pub(crate) fn window_ends(&mut self, now: Instant) {
        self.begin(now);
        self.recorder.window_ends(now);
    }

    /// What was recorded.
    pub(crate) fn finish(
        mut self,
        link: usize,
        way: usize,
        end: Instant,
    ) -> (LinkRecord, Option<QueueSeries>) {
        self.begin(end);
        for passage in self.courses.into_iter().flat_map(|course| course.passages) {
            passage.packet.release();
        }
        self.recorder.finish(link, way, end)
    }
}
