//! `bench schedule`: a packet into the class tree and one out of it, with every class backlogged or every class held back
//! by its ceiling.
//!
//! Packets come to the classes in a seeded random order, which is neither that of their turns nor that of their places in
//! memory, and each class is told so small a turn that every packet which leaves is of another class than the one before.
//! Each class always holds packets, so the state visited in a round is that of all classes and of all packets. The clock
//! is virtual: with `--throttled` it goes so slowly that each class has tokens for one packet at a time, and every
//! packet sends its class to the timing wheel.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_element::{Budget, Cx, Discipline, Driver, Element, NodeId, PortIndex, TimerId};
use perhop_elements::schedule::{
    Bound, ClassTree, LeafKind, LeafMap, LeafParams, NodeIndex, NodeParams, NodeSpec, TreeLink,
};
use perhop_packet::{Batch, LeafId, Pool};
use perhop_units::{Bytes, Instant, QueueLimit, Rate};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::any::Any;

/// Options of `bench schedule`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Leaf classes; without it 1,000, 4,096 and 100,000
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    classes: Option<u32>,
    /// Every class is held back by its ceiling after each packet; without it both
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    throttled: Option<bool>,
    /// Every class has a guarantee as well
    #[arg(long)]
    guaranteed: bool,
    /// Levels of classes: 1 puts all below the link, with more the leaves lie in groups of 64 at the most, all alike
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    levels: u8,
    /// Packets that wait in each class
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000))]
    backlog: u32,
    /// Packets handed over at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// Seed of the classes' places and of the order of arrivals
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// Frame bytes of every packet.
const FRAME: u32 = 64;
/// Packets a run passes, at least.
const PACKETS: u64 = 2_000_000;
/// Most leaves below one class.
const GROUP: u32 = 64;
/// What all throttled classes together may send: a packet every 64 ns.
const CEILINGS: Rate = Rate(8_000_000_000);

/// Measures every sweep point.
///
/// # Errors
/// A measurement that contradicts itself, or output that nobody reads.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let throttled = options.throttled.map_or_else(|| vec![false, true], |one| vec![one]);
    for classes in options.classes.map_or_else(|| vec![1_000, 4_096, 100_000], |n| vec![n]) {
        for throttled in throttled.iter().copied() {
            let mut point = measure(options, classes, throttled)?;
            point.params.insert("cpu", cpu.into());
            sink.point(&point)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, classes: u32, throttled: bool) -> Result<Point, BenchError> {
    let before = crate::allocations();
    let mut rig = Rig::new(options, classes, throttled);
    let bytes = crate::allocations().since(before).bytes;
    let packets = PACKETS.max(2 * u64::from(classes));
    rig.pass(packets);
    let watch = Watch::start();
    let (mut ns, mut allocations) = (Vec::new(), 0);
    let (sent_before, stopped_before) = rig.sent_and_stopped();
    for _ in 0..options.measured.runs {
        let before = crate::allocations();
        let start = machine::thread_time_ns();
        let passed = rig.pass(packets);
        ns.push((machine::thread_time_ns() - start) as f64 / passed as f64);
        allocations += crate::allocations().since(before).count;
    }
    let (sent, stopped) = rig.sent_and_stopped();
    let (sent, stopped) = (sent - sent_before, stopped - stopped_before);
    rig.check(classes, options.backlog)?;
    let mut point = Point { bench: "schedule", ..Point::default() };
    point.set_ns(&ns);
    point.allocs_per_op = Some(allocations as f64 / sent as f64);
    let params = [
        ("classes", classes.into()),
        ("throttled", throttled.into()),
        ("guaranteed", options.guaranteed.into()),
        ("levels", options.levels.into()),
        ("batch", options.batch.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let metrics = [
        ("throttled_per_packet", stopped as f64 / sent as f64, "1"),
        ("tree_memory", bytes as f64, "B"),
        ("packets_waiting", f64::from(classes * options.backlog), "packet"),
    ];
    for (name, value, unit) in metrics {
        point.metrics.insert(name, Metric::new(Spread::exactly(value), unit));
    }
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}

/// A tree whose packets come back as soon as they have left, to another class.
struct Rig {
    driver: Driver,
    node: NodeId,
    batch: Batch,
    /// Classes in the order of arrivals.
    arrivals: Vec<u32>,
    next: usize,
    now: Instant,
    /// Virtual time a packet, ns · 2¹⁶.
    pace: u64,
    /// Not yet used part of it.
    fraction: u64,
}

impl Rig {
    fn new(options: &Options, classes: u32, throttled: bool) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(options.seed);
        let specs = classes_of(options, classes, throttled, &mut random);
        let mut arrivals: Vec<u32> =
            specs.iter().filter(|s| s.params.queue.is_some()).map(|s| s.index.0).collect();
        let link = TreeLink {
            rate: Rate::ZERO,
            max_frame: FRAME,
            overhead_bytes: 0,
            framing: perhop_units::Framing::PLAIN,
        };
        let tree = ClassTree::with_classes(link, Instant::ZERO, &specs);
        let waiting = (classes * options.backlog) as usize;
        let pool = Pool::new(waiting + 4 * Batch::MAX);
        let mut driver = Driver::new(pool.clone(), options.seed);
        let node = driver.add("tree", Box::new(Exchange::new(tree, None)), 0);
        // A little less than all classes together may send, so that none ever has tokens to spare.
        let pace = ((u64::from(FRAME) * 8 * 1_000_000_000) << 16) / CEILINGS.0 * 49 / 50;
        let mut rig = Self {
            driver,
            node,
            batch: Batch::new(),
            arrivals: Vec::new(),
            next: 0,
            now: Instant(1),
            pace,
            fraction: 0,
        };
        // Turns begin in this order, packets then come in another.
        arrivals.shuffle(&mut random);
        for _ in 0..options.backlog {
            for leaf in &arrivals {
                let Some(mut packet) = pool.alloc() else { continue };
                packet.resize(FRAME as usize);
                packet.meta_mut().leaf = LeafId(*leaf);
                rig.batch.push(packet);
                if rig.batch.is_full() {
                    rig.driver.push(rig.now, node, 0, &mut rig.batch);
                }
            }
        }
        rig.driver.push(rig.now, node, 0, &mut rig.batch);
        arrivals.shuffle(&mut random);
        rig.arrivals = arrivals;
        rig.exchange().limit = options.batch;
        rig
    }

    fn exchange(&mut self) -> &mut Exchange {
        self.driver.element_mut(self.node).expect("it was put there")
    }

    /// Lets at least `packets` packets pass, and gives how many it were.
    fn pass(&mut self, packets: u64) -> u64 {
        let mut passed = 0;
        let mut idle = 0;
        while passed < packets && idle < 1_000_000 {
            let batch = &mut self.batch;
            let exchange: &mut Exchange = self.driver.element_mut(self.node).expect("it was put there");
            std::mem::swap(batch, &mut exchange.out);
            let count = batch.len() as u64;
            idle = if count == 0 { idle + 1 } else { 0 };
            passed += count;
            for packet in batch.iter_mut() {
                packet.meta_mut().leaf = LeafId(self.arrivals[self.next]);
                self.next += 1;
                if self.next == self.arrivals.len() {
                    self.next = 0;
                }
            }
            let time = self.fraction + self.pace * u64::from(exchange.limit);
            self.fraction = time & 0xffff;
            self.now = Instant(self.now.0 + (time >> 16));
            if batch.is_empty() {
                self.driver.wake(self.now, self.node, TimerId::MAIN);
            } else {
                self.driver.push(self.now, self.node, 0, batch);
            }
        }
        passed
    }

    /// Packets sent and times that a ceiling stopped a class.
    fn sent_and_stopped(&mut self) -> (u64, u64) {
        let tree = &self.exchange().tree;
        tree.iter().filter(|c| c.params.queue.is_some()).fold((0, 0), |(sent, stopped), class| {
            (sent + class.counters.packets, stopped + class.counters.throttled)
        })
    }

    /// Every class still waits: none was ever without a packet for long, and nothing was dropped.
    fn check(&mut self, classes: u32, backlog: u32) -> Result<(), BenchError> {
        let exchange = self.exchange();
        let held = exchange.tree.held() + exchange.out.len() as u64;
        let idle =
            exchange.tree.iter().filter(|c| c.params.queue.is_some() && c.backlog_packets == 0).count();
        if held != u64::from(classes) * u64::from(backlog) || idle > classes as usize / 100 {
            return Err(BenchError::Wrong(format!("{held} packets wait, {idle} classes are without any")));
        }
        Ok(())
    }
}

/// Takes what comes and gives as many packets as may leave.
pub(super) struct Exchange {
    pub tree: ClassTree,
    /// Which leaf a packet goes to; without it the one it names.
    map: Option<LeafMap>,
    /// What has left.
    pub out: Batch,
    /// Packets that may leave at a time, and no more than have come if there is a map.
    pub limit: u32,
}

impl Exchange {
    /// Lets nothing leave until it has a limit.
    pub fn new(tree: ClassTree, map: Option<LeafMap>) -> Self {
        Self { tree, map, out: Batch::new(), limit: 0 }
    }
}

impl Element for Exchange {
    fn type_name(&self) -> &'static str {
        "Exchange"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        let mut limit = self.limit;
        if let Some(map) = &self.map {
            limit = limit.min(batch.len() as u32);
            for packet in batch.iter_mut() {
                let meta = packet.meta_mut();
                meta.leaf = map.find(meta.sla, meta.class).0;
            }
        }
        let _ = self.tree.enqueue(cx, batch);
        self.give(cx, limit);
    }
    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.give(cx, self.limit);
    }
    fn held(&self) -> u64 {
        self.tree.held() + self.out.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Exchange {
    fn give(&mut self, cx: &mut Cx<'_>, packets: u32) {
        if packets > 0 {
            let _ = self.tree.dequeue(cx, Budget { bytes: u64::MAX, packets }, &mut self.out);
        }
    }
}

/// The classes, at random places in memory.
fn classes_of(options: &Options, classes: u32, throttled: bool, random: &mut Pcg64Mcg) -> Vec<NodeSpec> {
    // Classes of each level, and how many of the level below each has.
    let mut above = vec![(classes, 1)];
    // Groups of one size: each gets the same share, so that all leaves do.
    for _ in 1..options.levels {
        let below = above.last().map_or(0, |l| l.0);
        let size = (1..=GROUP).rev().find(|size| below % size == 0).unwrap_or(1);
        above.push((below / size, size));
    }
    let total: u32 = above.iter().map(|l| l.0).sum();
    let mut places: Vec<u32> = (0..total).collect();
    places.shuffle(random);
    let burst = Bytes(2 * u64::from(FRAME));
    let bound = |rate| Some(Bound { rate: Rate(rate), burst });
    let ceiling = CEILINGS.0 / u64::from(classes);
    let queue = LeafParams { limit: QueueLimit::Packets(options.backlog * 8), kind: LeafKind::Fifo };
    let mut specs = Vec::with_capacity(total as usize);
    let mut begin = 0;
    for (level, (count, _)) in above.iter().enumerate() {
        for n in 0..*count {
            let parent = above.get(level + 1).map(|l| NodeIndex(places[(begin + count + n / l.1) as usize]));
            let params = if level > 0 {
                NodeParams::interior(parent)
            } else {
                NodeParams {
                    queue: Some(queue.clone()),
                    ceiling: bound(ceiling).filter(|_| throttled),
                    guarantee: bound(ceiling / 2).filter(|_| options.guaranteed),
                    ..NodeParams::leaf(parent)
                }
            };
            let index = NodeIndex(places[(begin + n) as usize]);
            specs.push(NodeSpec { index, name: "".into(), params });
        }
        begin += count;
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(levels: u8, guaranteed: bool) -> Options {
        let measured = Runs { runs: 1, cpu: None, json: true };
        Options {
            classes: None,
            throttled: None,
            guaranteed,
            levels,
            backlog: 4,
            batch: 32,
            seed: 1,
            measured,
        }
    }

    #[test]
    fn every_class_stays_backlogged_and_each_packet_sends_its_class_to_the_wheel() {
        for (levels, throttled) in [(1, false), (2, true), (3, true)] {
            let options = options(levels, levels == 3);
            let mut rig = Rig::new(&options, 300, throttled);
            rig.pass(3_000);
            let before = rig.sent_and_stopped();
            let allocated = crate::allocations();
            let passed = rig.pass(3_000);
            assert_eq!(crate::allocations().since(allocated).count, 0);
            let after = rig.sent_and_stopped();
            assert!(after.0 - before.0 >= passed - 32);
            assert!(rig.check(300, 4).is_ok());
            let stopped = (after.1 - before.1) as f64 / (after.0 - before.0) as f64;
            assert!(if throttled { stopped > 0.9 } else { stopped == 0.0 }, "{stopped}");
        }
    }
}
