//! The thread that forwards packets from memory to memory while another one changes the router.

use super::changes::{Job, Report, Told};
use super::timed::{Stops, Timed, Verdicts, Watchman};
use crate::error::BenchError;
use crate::machine;
use crate::router::{LAN, WAN, port_mac};
use crate::traffic::{Payload, Source};
use perhop_graph::router::{ChangeStep, Worker, WorkerEvent};
use perhop_io::clock;
use perhop_packet::{Batch, DropReason, Packet, Pool};
use perhop_units::Instant;
use perhop_wire::MacAddr;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

/// Bytes of a frame, without FCS.
pub const FRAME: usize = 64;
/// Where a frame carries the number of its packet: its last octets, which nobody but the receiver reads.
const NUMBER: std::ops::Range<usize> = FRAME - 8..FRAME;
/// Bytes of a packet that forwarding touches: its slot and the beginning of its buffer.
const TOUCHED: usize = 256;
/// Turns without new packets until those under way must have left.
const DRAIN_TURNS: usize = 100_000;

/// What is forwarded.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub flows: usize,
    /// Packets handed to the router at a time.
    pub batch: usize,
    pub seed: u64,
}

impl Shape {
    /// Packets that lie about until their buffers are cold.
    fn parked(self) -> usize {
        (2 * machine::last_level_cache() / TOUCHED).div_ceil(self.batch)
    }

    /// A pool with room for what is under way and for those.
    pub fn pool(self) -> Pool {
        Pool::new(self.parked() * self.batch + 4096)
    }
}

/// What the packets' thread is connected with.
pub struct Lines {
    pub jobs: Receiver<Box<Job>>,
    pub told: SyncSender<Told>,
    pub reports: Receiver<Result<Report, BenchError>>,
}

/// The packets' half of the router.
pub struct Packets {
    worker: Worker,
    lines: Lines,
    source: Source,
    pool: Pool,
    /// Packets that have left, until their buffers are cold.
    parked: Vec<Batch>,
    next_parked: usize,
    out: Vec<u8>,
    batch: Batch,
    batch_len: usize,
    events: Vec<WorkerEvent>,
    /// Next frame.
    at: usize,
    entered: u64,
    left: u64,
    refused: u64,
    watchman: Watchman,
    job: Option<Box<Job>>,
    changes: u64,
    stops: Stops,
    order: Vec<u32>,
}

impl Packets {
    /// Frames of so many flows for a worker whose packets are of `pool`.
    pub fn new(worker: Worker, pool: Pool, shape: Shape, lines: Lines) -> Self {
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
        let bytes = 2 * machine::last_level_cache();
        let Shape { flows, batch, seed } = shape;
        let mut order: Vec<u32> = (0..flows as u32).collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        Self {
            worker,
            lines,
            source: Source::new(flows, FRAME, bytes, 0, Payload::Random, seed, macs),
            pool,
            parked: (0..shape.parked()).map(|_| Batch::new()).collect(),
            next_parked: 0,
            out: vec![0; FRAME * Batch::MAX],
            batch: Batch::new(),
            batch_len: batch,
            events: Vec::with_capacity(8192),
            at: 0,
            entered: 0,
            left: 0,
            refused: 0,
            watchman: Watchman::default(),
            job: None,
            changes: 0,
            stops: Stops::default(),
            order,
        }
    }

    /// Frames of a round.
    pub fn count(&self) -> usize {
        self.source.count()
    }

    /// A packet of every flow, in an order of their own: as they lie in memory they do not come later.
    ///
    /// # Errors
    /// Flows without a connection.
    pub fn establish(&mut self) -> Result<(), BenchError> {
        let order = std::mem::take(&mut self.order);
        let before = self.verdicts();
        // The first frames are of one flow each.
        for flows in order.chunks(self.batch_len) {
            let now = clock::monotonic();
            for flow in flows {
                self.enter(now, *flow as usize);
            }
            self.forward(now);
        }
        let made = self.verdicts().since(before).created;
        if made != order.len() as u64 {
            return Err(BenchError::Wrong(format!("{made} of {} flows are known", order.len())));
        }
        self.check(0)
    }

    /// Has control begin to commit changes, or end.
    ///
    /// # Errors
    /// What control says of a change that failed; changes committed and not applied.
    pub fn change(&mut self, on: bool) -> Result<Option<Report>, BenchError> {
        let gone = || BenchError::Wrong("the control thread is gone".to_owned());
        let told = if on { Told::Begin } else { Told::End };
        let sent = self.lines.told.send(told);
        if on {
            self.changes = 0;
            return sent.map(|()| None).map_err(|_| gone());
        }
        let report = loop {
            match self.lines.reports.try_recv() {
                Ok(report) => break report?,
                Err(TryRecvError::Disconnected) => return Err(gone()),
                Err(TryRecvError::Empty) => {
                    self.turn();
                }
            }
        };
        if report.committed != self.changes {
            let Report { committed, .. } = report;
            return Err(BenchError::Wrong(format!(
                "{committed} changes committed, {} applied",
                self.changes
            )));
        }
        Ok(Some(report))
    }

    /// Forwards every frame once, whoever changes the router meanwhile.
    pub fn round(&mut self) {
        let target = self.entered + self.count() as u64;
        while self.entered + self.refused < target {
            self.turn();
        }
    }

    /// Forwards packets for at least `wall_ns`.
    ///
    /// # Errors
    /// Packets that were lost, left in another order, or with another class.
    pub fn timed(&mut self, wall_ns: u64) -> Result<Timed, BenchError> {
        let (left, changes, verdicts) = (self.left, self.changes, self.verdicts());
        self.stops = Stops::default();
        let allocated = crate::allocations();
        let (wall, start) = (clock::monotonic(), machine::thread_time_ns());
        let mut took = 0;
        while took < wall_ns {
            took = self.turn().since(wall).0;
        }
        let ns = machine::thread_time_ns() - start;
        let timed = Timed {
            packets: self.left - left,
            ns,
            wall_ns: clock::monotonic().since(wall).0,
            allocations: crate::allocations().since(allocated).count,
            changes: self.changes - changes,
            stops: self.stops,
            verdicts: self.verdicts().since(verdicts),
        };
        self.check(timed.verdicts.created)?;
        Ok(timed)
    }

    /// One turn of a packet thread: receive, forward, timers, send, a slice of a change, events. When it began.
    #[inline]
    fn turn(&mut self) -> Instant {
        let now = clock::monotonic();
        for _ in 0..self.batch_len {
            let at = self.at;
            self.at = if at + 1 == self.source.count() { 0 } else { at + 1 };
            self.enter(now, at);
        }
        self.forward(now);
        self.slice(now);
        self.tell(now);
        now
    }

    #[inline]
    fn enter(&mut self, now: Instant, at: usize) {
        let Some(mut packet) = self.pool.packet(self.source.frame(at)) else {
            self.refused += 1;
            return;
        };
        packet.meta_mut().received_at = now;
        self.entered += 1;
        packet.frame_mut()[NUMBER].copy_from_slice(&self.entered.to_be_bytes());
        self.batch.push(packet);
    }

    #[inline]
    fn forward(&mut self, now: Instant) {
        self.worker.receive(now, LAN, &mut self.batch);
        if self.worker.next_wakeup().is_some_and(|at| at <= now) {
            self.worker.poll(now);
        }
        self.worker.local_queue().release_all();
        let Some(queue) = self.worker.transmit_queue(WAN) else { return };
        let mut room = self.out.chunks_exact_mut(FRAME);
        for packet in queue.iter() {
            let frame = packet.frame();
            if let Some(place) = room.next() {
                place[..frame.len()].copy_from_slice(frame);
            }
            self.watchman.look(packet.meta(), number(packet));
        }
        self.left += queue.len() as u64;
        let place = &mut self.parked[self.next_parked];
        place.release_all();
        place.append(queue);
        self.next_parked = (self.next_parked + 1) % self.parked.len();
    }

    /// Does some of the change that it is at.
    #[inline]
    fn slice(&mut self, now: Instant) {
        if self.job.is_none() {
            self.job = self.lines.jobs.try_recv().ok();
        }
        let Some(mut job) = self.job.take() else { return };
        let (wall, start) = (clock::monotonic(), machine::thread_time_ns());
        if self.worker.apply(now, &mut job.change) == ChangeStep::Done {
            self.changes += 1;
            // Where nobody listens any more, the next question finds out.
            let _ = self.lines.told.send(Told::Applied(job));
        } else {
            self.job = Some(job);
        }
        let ns = machine::thread_time_ns() - start;
        self.stops.note(ns, clock::monotonic().since(wall).0);
    }

    /// Tells what control must know.
    #[inline]
    fn tell(&mut self, now: Instant) {
        self.worker.take_events(now, &mut self.events);
        for event in self.events.drain(..) {
            if let WorkerEvent::Freed(freed) = event {
                let _ = self.lines.told.send(Told::Freed(freed));
            }
        }
    }

    fn verdicts(&self) -> Verdicts {
        let counters = self.worker.flows().map(|flows| *flows.flow_counters()).unwrap_or_default();
        Verdicts {
            revalidated: counters.revalidated,
            classified: counters.classified,
            created: counters.created,
        }
    }

    /// Everything that came has left, in order and with its class, and nobody had to be made known again.
    fn check(&mut self, created: u64) -> Result<(), BenchError> {
        for _ in 0..DRAIN_TURNS {
            if self.left == self.entered {
                break;
            }
            self.forward(clock::monotonic());
        }
        let balanced = self.worker.check_conservation();
        balanced.map_err(|errors| BenchError::Wrong(format!("the books do not balance: {errors:?}")))?;
        let lost = self.entered - self.left + self.refused;
        let Watchman { disordered, misplaced, .. } = self.watchman;
        if lost + disordered + misplaced + created == 0 {
            return Ok(());
        }
        Err(BenchError::Wrong(format!(
            "{lost} of {} packets were lost {:?}, {disordered} left behind a later one, {misplaced} had another \
             class, {created} flows had been forgotten",
            self.entered,
            self.drops()
        )))
    }

    fn drops(&self) -> Vec<(String, u64)> {
        let driver = self.worker.driver();
        let counted =
            driver.ids().filter_map(|id| driver.counters(id)).flat_map(|c| c.drops.iter().enumerate());
        counted
            .filter(|(_, n)| **n > 0)
            .map(|(reason, n)| (DropReason::name_of_index(reason).unwrap_or_default(), *n))
            .collect()
    }
}

fn number(packet: &Packet) -> u64 {
    packet.frame()[NUMBER].iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}
