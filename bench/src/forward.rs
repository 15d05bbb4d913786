//! `bench forward`: memory to memory through the default edge graph, on one core.
//!
//! What is timed a packet: its frame is copied from memory into a pooled buffer as a port does, the worker forwards it,
//! and the frame is copied out of the port's queue. Frames lie in more memory than the last-level cache holds, and so do
//! the packet buffers unless `--buffers pooled` lets the pool reuse the warmest. The clock given to the worker is
//! virtual, so that flows expire at a steady pace. Time is the processor time of the measuring thread: on a machine that
//! does other things too, what they take is not counted (what they do to the caches is).

use crate::costs::{Elements, clock};
use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::memory::{bytes_per_class, bytes_per_flow};
use crate::report::{Metric, Point, Sink, Spread};
use crate::router::{Detection, LAN, Router, Setup, WAN, port_mac};
use crate::traffic::{MIN_FRAME, Payload, Source};
use perhop_element::{CostConfig, TraceConfig};
use perhop_graph::router::{EdgeOptions, WorkerEvent};
use perhop_packet::{BUFFER_LEN, Batch, HEADROOM, Pool};
use perhop_units::Instant;
use perhop_wire::MacAddr;

/// Options of `bench forward`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent flows; without it 1, 1,000 and 100,000
    #[arg(long)]
    flows: Option<usize>,
    /// Filters, none of which matches; without it 1, 100 and 5,000
    #[arg(long)]
    filters: Option<usize>,
    /// Length of a frame in bytes, without FCS
    #[arg(long, default_value_t = 64)]
    packet: usize,
    /// Per cent of packets that are the first of their flow; without it 0 and 5
    #[arg(long)]
    new_flows: Option<u32>,
    /// Packets handed to the router at a time, 1 to 256
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Packet buffers: rotating through more memory than the cache holds, or the pool's warmest
    #[arg(long, value_enum, default_value_t = Buffers::Rotating)]
    buffers: Buffers,
    /// Measured runs
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Seed of traffic and router
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Processor to run on; the last without it
    #[arg(long)]
    cpu: Option<usize>,
    /// Measures each run again while the router takes the time of elements and packets, and says what that costs
    #[arg(long)]
    profile: bool,
    /// Print one JSON object a sweep point and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Which buffers packets get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Buffers {
    /// Each is used again only when more memory than the last-level cache holds has been used in between.
    Rotating,
    /// The pool gives the buffer that came back last.
    Pooled,
}

impl Buffers {
    fn name(self) -> &'static str {
        match self {
            Self::Rotating => "rotating",
            Self::Pooled => "pooled",
        }
    }
}

/// One sweep point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub flows: usize,
    pub filters: usize,
    pub new_per_cent: u32,
    pub packet: usize,
    pub batch: usize,
    pub buffers: Buffers,
    pub payload: Payload,
    pub detection: Detection,
    /// Virtual time a packet, ns.
    pub pace_ns: u64,
    pub seed: u64,
}

impl Case {
    fn of(options: &Options, flows: usize, filters: usize, new_per_cent: u32) -> Self {
        Self {
            flows,
            filters,
            new_per_cent,
            packet: options.packet,
            batch: options.batch,
            buffers: options.buffers,
            payload: Payload::Random,
            detection: Detection::On,
            pace_ns: PACE_NS,
            seed: options.seed,
        }
    }
}

/// Virtual time a packet: at this pace 5 % new flows keep 75,000 connections alive for their 30 s.
const PACE_NS: u64 = 20_000;
/// Rounds before the measured ones: enough virtual time for connections to reach their steady number.
const WARM_UP_NS: u64 = 35_000_000_000;
/// Bytes of a packet that forwarding touches: its slot and the beginning of its buffer.
const TOUCHED: usize = 256;

/// Most connections of a table.
const MAX_CONNECTIONS: u32 = 1 << 22;

/// Measures every sweep point.
///
/// # Errors
/// Bad options, or a router that cannot be set up.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    check(options)?;
    let cpu = machine::pin_to(options.cpu)?;
    let one_or = |one: Option<usize>, all: &[usize]| one.map_or_else(|| all.to_vec(), |n| vec![n]);
    let new = options.new_flows.map_or_else(|| vec![0, 5], |n| vec![n]);
    for flows in one_or(options.flows, &[1, 1_000, 100_000]) {
        for filters in one_or(options.filters, &[1, 100, 5_000]) {
            for &new_per_cent in &new {
                let case = Case::of(options, flows, filters, new_per_cent);
                sink.point(&measure(options, case, cpu)?)?;
            }
        }
    }
    Ok(())
}

fn check(options: &Options) -> Result<(), BenchError> {
    let fail = |text: String| Err(BenchError::Options(text));
    let longest = (BUFFER_LEN - HEADROOM).min(1514);
    if !(MIN_FRAME..=longest).contains(&options.packet) {
        return fail(format!("--packet {} is not in {MIN_FRAME} … {longest}", options.packet));
    }
    if !(1..=Batch::MAX).contains(&options.batch) {
        return fail(format!("--batch {} is not in 1 … {}", options.batch, Batch::MAX));
    }
    if options.flows.is_some_and(|n| !(1..=1_000_000).contains(&n)) {
        return fail("--flows must be in 1 … 1000000".to_owned());
    }
    if options.filters.is_some_and(|n| n > 99_999) {
        return fail("--filters must be in 0 … 99999".to_owned());
    }
    if options.runs == 0 || options.new_flows.is_some_and(|n| n > 100) {
        return fail("--runs must be at least 1 and --new-flows at most 100".to_owned());
    }
    Ok(())
}

/// A router between two memories.
pub(super) struct Rig {
    pub router: Router,
    source: Source,
    pool: Pool,
    /// Packets that have left, until their buffers are cold.
    parked: Vec<Batch>,
    next_parked: usize,
    out: Vec<u8>,
    batch: Batch,
    events: Vec<WorkerEvent>,
    now: Instant,
    batch_len: usize,
    pace_ns: u64,
    sent: u64,
    /// Memory allocations of the measured rounds.
    allocations: u64,
}

impl Rig {
    pub fn new(case: Case) -> Result<Self, BenchError> {
        let beyond_cache = 2 * machine::last_level_cache();
        let parked = match case.buffers {
            Buffers::Rotating => (beyond_cache / TOUCHED).div_ceil(case.batch),
            Buffers::Pooled => 0,
        };
        let alive = case.flows + (case.new_per_cent as usize) * 15_000 + 1_000;
        let connections = u32::try_from(alive * 5 / 4)
            .map_or(MAX_CONNECTIONS, |n| n.next_power_of_two().min(MAX_CONNECTIONS))
            .max(EdgeOptions::DEFAULT_CONNECTIONS);
        let Case { filters, detection, .. } = case;
        let setup = Setup { rate: 100_000_000_000, filters, connections, detection, abr: None };
        let pool = Pool::new(parked * case.batch + 4096);
        let router = Router::new(&setup, pool.clone(), case.seed)?;
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
        let Case { flows, packet, new_per_cent, payload, seed, .. } = case;
        let source = Source::new(flows, packet, beyond_cache, new_per_cent, payload, seed, macs);
        Ok(Self {
            router,
            source,
            pool,
            parked: (0..parked).map(|_| Batch::new()).collect(),
            next_parked: 0,
            out: vec![0; packet * Batch::MAX],
            batch: Batch::new(),
            events: Vec::with_capacity(8192),
            now: Instant::ZERO,
            batch_len: case.batch,
            pace_ns: case.pace_ns,
            sent: 0,
            allocations: 0,
        })
    }

    /// Rounds until connections have reached their steady number.
    pub fn warm_up(&mut self) {
        for _ in 0..WARM_UP_NS.div_ceil(self.source.count() as u64 * self.pace_ns).max(2) {
            self.source.renew();
            self.round();
        }
    }

    /// Forwards every frame of the source once.
    fn round(&mut self) {
        let mut at = 0;
        while at < self.source.count() {
            let until = (at + self.batch_len).min(self.source.count());
            self.turn(at, until);
            at = until;
        }
    }

    /// A round with new flows in their places. Returns ns a packet, of this thread's processor time.
    pub fn timed_round(&mut self) -> Result<f64, BenchError> {
        self.source.renew();
        let (sent, before) = (self.sent, crate::allocations());
        let start = machine::thread_time_ns();
        self.round();
        let took = machine::thread_time_ns() - start;
        self.allocations += crate::allocations().since(before).count;
        let (sent, count) = (self.sent - sent, self.source.count() as u64);
        if sent < count - self.batch_len as u64 {
            return Err(BenchError::Wrong(format!("{sent} of {count} packets came through")));
        }
        Ok(took as f64 / sent as f64)
    }

    /// One turn of a worker's loop: receive, forward, timers, send.
    #[inline]
    fn turn(&mut self, from: usize, until: usize) {
        self.now = Instant(self.now.0 + (until - from) as u64 * self.pace_ns);
        for i in from..until {
            let Some(mut packet) = self.pool.packet(self.source.frame(i)) else { break };
            packet.meta_mut().received_at = self.now;
            self.batch.push(packet);
        }
        let worker = &mut self.router.worker;
        worker.receive(self.now, LAN, &mut self.batch);
        if worker.next_wakeup().is_some_and(|at| at <= self.now) {
            worker.poll(self.now);
        }
        worker.take_events(self.now, &mut self.events);
        self.events.clear();
        worker.local_queue().release_all();
        let Some(queue) = worker.transmit_queue(WAN) else { return };
        let longest = self.out.len() / Batch::MAX;
        let mut room = self.out.chunks_exact_mut(longest);
        for packet in queue.iter() {
            let frame = packet.frame();
            if let Some(place) = room.next() {
                place[..frame.len()].copy_from_slice(frame);
            }
        }
        self.sent += queue.len() as u64;
        match self.parked.get_mut(self.next_parked) {
            Some(place) => {
                place.release_all();
                place.append(queue);
                self.next_parked = (self.next_parked + 1) % self.parked.len();
            }
            None => queue.release_all(),
        }
    }
}

/// Measures one point.
fn measure(options: &Options, case: Case, cpu: usize) -> Result<Point, BenchError> {
    let mut rig = Rig::new(case)?;
    let count = rig.source.count() as u64;
    rig.warm_up();
    let watch = Watch::start();
    let (mut ns, mut rounds) = (Vec::new(), 0);
    let mut profiled = Profiled::default();
    for run in 0..options.runs {
        // Taken in turns, so that neither is always the first.
        let order: &[bool] = match (options.profile, run % 2) {
            (false, _) => &[false],
            (true, 0) => &[false, true],
            (true, _) => &[true, false],
        };
        for with in order {
            let driver = rig.router.worker.driver_mut();
            driver.set_costs(with.then(|| CostConfig::calibrated(clock, CostConfig::EVERY)));
            let (every, keep) = (TraceConfig::EVERY, TraceConfig::KEEP);
            driver.set_trace(with.then_some(TraceConfig { clock, every, keep }));
            let took = rig.timed_round()?;
            rounds += 1;
            if *with {
                profiled.ns.push(took);
                profiled.elements.take(rig.router.worker.driver());
            } else {
                ns.push(took);
            }
        }
    }
    let mut point = Point { bench: "forward", ..Point::default() };
    point.set_ns(&ns);
    point.allocs_per_op = Some(rig.allocations as f64 / (count * rounds) as f64);
    profiled.describe(&mut point, &ns);
    describe(&mut point, options, case, &rig, cpu);
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}

/// The same rounds while the router takes the time of elements and packets.
#[derive(Default)]
struct Profiled {
    ns: Vec<f64>,
    elements: Elements,
}

impl Profiled {
    fn describe(&self, point: &mut Point, plain: &[f64]) {
        if self.ns.is_empty() {
            return;
        }
        let more: Vec<f64> = self.ns.iter().zip(plain).map(|(with, without)| with / without - 1.0).collect();
        let per_cent: Vec<f64> = more.iter().map(|share| share * 100.0).collect();
        point.metrics.insert("profiled_ns", Metric::new(Spread::of(&self.ns), "ns"));
        point.metrics.insert("profile_overhead", Metric::new(Spread::of(&per_cent), "%"));
        self.elements.describe(point);
    }
}

fn describe(point: &mut Point, options: &Options, case: Case, rig: &Rig, cpu: usize) {
    let params = [
        ("flows", case.flows.into()),
        ("filters", case.filters.into()),
        ("new_flows_pct", case.new_per_cent.into()),
        ("packet", options.packet.into()),
        ("batch", options.batch.into()),
        ("buffers", options.buffers.name().into()),
        ("cpu", cpu.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let connections = rig.router.worker.flows().map_or(0, |f| f.flow_counters().created);
    let (leaf, interior) = bytes_per_class();
    let metrics = [
        ("bytes_per_flow", bytes_per_flow(), "B"),
        ("bytes_per_leaf_class", leaf, "B"),
        ("bytes_per_interior_class", interior, "B"),
        ("frame_memory", rig.source.bytes() as f64, "B"),
        ("connections_created", connections as f64, "flow"),
    ];
    for (name, value, unit) in metrics {
        point.metrics.insert(name, Metric::new(Spread::exactly(value), unit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarding_allocates_nothing() {
        let case = Case {
            flows: 1_000,
            filters: 100,
            new_per_cent: 5,
            packet: MIN_FRAME,
            batch: 32,
            buffers: Buffers::Pooled,
            payload: Payload::Random,
            detection: Detection::On,
            pace_ns: PACE_NS,
            seed: 1,
        };
        let mut rig = Rig::new(case).unwrap();
        // Queues and lists reach their lengths.
        rig.timed_round().unwrap();
        rig.allocations = 0;
        rig.timed_round().unwrap();
        assert_eq!(rig.allocations, 0);
    }
}
