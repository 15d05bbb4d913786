//! `bench chain`: a chain of elements as the Click router is known by: check the header, classify in four, set the code
//! point, queue, serve in strict order.
//!
//! 1,024 frames that differ in protocol, addresses, ports and length go around from memory to memory; no frame is read
//! in or written out. What a packet has been marked with the last time differs from what it is marked with now, so every
//! pass writes the header. All packets of a batch are queued before the first is taken out again.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_element::{Budget, Cx, Discipline, Driver, Element, NodeId, PortIndex, TimerId};
use perhop_elements::classify::{IpClassifier, Rule};
use perhop_elements::mark::DscpMarker;
use perhop_elements::plumbing::{CheckFrame, SetClass};
use perhop_elements::queue::{Fifo, FifoConfig};
use perhop_elements::schedule::{Bands, Priority};
use perhop_packet::{Batch, ClassId, Pool};
use perhop_units::{Dscp, Instant, QueueLimit, Rate};
use perhop_wire::{MacAddr, build};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::any::Any;

/// Options of `bench chain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Packets handed over at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// Bytes of the longest frame, without FCS; the shortest has 60
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(60..=1514))]
    longest: u32,
    /// Seed of the frames
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// Frames that go around.
const FRAMES: usize = 1024;
/// Times they go around in a run.
const ROUNDS: u64 = 2_000;
/// What the four branches take.
const RULES: [&str; 4] = ["udp dst port 5004-5099", "tcp dst port 443", "icmp", "-"];
/// What they mark, in turns.
const MARKS: [[Dscp; 4]; 2] =
    [[Dscp::EF, Dscp::AF41, Dscp::AF21, Dscp::AF11], [Dscp::VA, Dscp::AF42, Dscp::AF22, Dscp::AF12]];

/// Measures.
///
/// # Errors
/// Packets that are lost, or a branch that none takes.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let mut rig = Rig::new(options)?;
    rig.rounds(ROUNDS / 10, options.batch as usize);
    let watch = Watch::start();
    let mut ns = Vec::new();
    let before = crate::allocations();
    let packets = ROUNDS * FRAMES as u64;
    for _ in 0..options.measured.runs {
        let start = machine::thread_time_ns();
        rig.rounds(ROUNDS, options.batch as usize);
        ns.push((machine::thread_time_ns() - start) as f64 / packets as f64);
    }
    let allocations = crate::allocations().since(before).count;
    rig.check()?;
    let mut point = Point { bench: "chain", ..Point::default() };
    point.set_ns(&ns);
    let all = packets * u64::from(options.measured.runs);
    point.allocs_per_op = Some((allocations as f64 / all as f64 * 1e4).round() / 1e4);
    let params = [
        ("batch", options.batch.into()),
        ("frames", FRAMES.into()),
        ("longest", options.longest.into()),
        ("cpu", cpu.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let rate = Spread::of(&ns.iter().map(|ns| 1e3 / ns).collect::<Vec<_>>());
    point.metrics.insert("packets_per_second", Metric::new(rate, "Mpacket/s"));
    point.warnings = watch.warnings();
    point.warn_of_spread();
    sink.point(&point)?;
    Ok(())
}

/// Two chains that mark differently, used in turns.
struct Rig {
    driver: Driver,
    /// The first element and the queue of each.
    chains: [(NodeId, NodeId); 2],
    waiting: Batch,
    going: Batch,
}

impl Rig {
    fn new(options: &Options) -> Result<Self, BenchError> {
        let pool = Pool::new(FRAMES + Batch::MAX);
        let mut driver = Driver::new(pool.clone(), options.seed);
        let chains = [chain(&mut driver, MARKS[0])?, chain(&mut driver, MARKS[1])?];
        let mut waiting = Batch::new();
        for frame in frames(options) {
            let Some(packet) = pool.packet(&frame) else { continue };
            waiting.push(packet);
        }
        Ok(Self { driver, chains, waiting, going: Batch::new() })
    }

    fn rounds(&mut self, rounds: u64, batch: usize) {
        let now = Instant(1);
        for round in 0..rounds {
            let (first, queue) = self.chains[round as usize % 2];
            while !self.waiting.is_empty() {
                for packet in self.waiting.drain_first(batch) {
                    self.going.push(packet);
                }
                self.driver.push(now, first, 0, &mut self.going);
                self.driver.wake(now, queue, TimerId::MAIN);
            }
            if let Some(queue) = self.driver.element_mut::<Queue>(queue) {
                std::mem::swap(&mut self.waiting, &mut queue.served);
            }
        }
    }

    /// All are there, and every branch has had some.
    fn check(&mut self) -> Result<(), BenchError> {
        let mut marked = [0; 4];
        for packet in self.waiting.iter() {
            let layout =
                perhop_wire::dissect(packet.frame()).map_err(|e| BenchError::Wrong(e.to_string()))?;
            let dscp = Dscp::from_octet(layout.tos);
            let branch = MARKS.iter().find_map(|marks| marks.iter().position(|m| *m == dscp));
            marked[branch.ok_or_else(|| BenchError::Wrong("a packet is not marked".to_owned()))?] += 1;
        }
        if self.waiting.len() != FRAMES || marked.contains(&0) {
            return Err(BenchError::Wrong(format!(
                "{} of {FRAMES} packets are left: {marked:?}",
                self.waiting.len()
            )));
        }
        Ok(())
    }
}

fn chain(driver: &mut Driver, marks: [Dscp; 4]) -> Result<(NodeId, NodeId), BenchError> {
    let wrong = |e: &dyn std::fmt::Display| BenchError::Wrong(e.to_string());
    let rules: Result<Vec<Rule>, _> = RULES.iter().map(|text| text.parse()).collect();
    let rules = rules.map_err(|e| wrong(&e))?;
    let check = driver.add("check", Box::new(CheckFrame::new(false)), 1);
    let classify = driver.add("classify", Box::new(IpClassifier::new(rules)), 4);
    let config = FifoConfig { limit: QueueLimit::Packets(FRAMES as u32), rate: Rate::ZERO, overhead: 0 };
    let band = |class: u32| -> (Vec<ClassId>, Box<dyn Discipline>) {
        (vec![ClassId(class)], Box::new(Fifo::new(config)))
    };
    let priority = Priority::new(Bands::new((0..4).map(band).collect()));
    let queue = driver.add("queue", Box::new(Queue { priority, served: Batch::new() }), 0);
    driver.connect(check, 0, classify, 0).map_err(|e| wrong(&e))?;
    for (branch, dscp) in marks.into_iter().enumerate() {
        let mark = driver.add("mark", Box::new(DscpMarker::fixed(dscp)), 1);
        let class = driver.add("class", Box::new(SetClass::new(ClassId(branch as u32))), 1);
        for (from, output, to) in [(classify, branch as PortIndex, mark), (mark, 0, class), (class, 0, queue)]
        {
            driver.connect(from, output, to, 0).map_err(|e| wrong(&e))?;
        }
    }
    Ok((check, queue))
}

/// Queues what comes, and serves it all when it is woken.
struct Queue {
    priority: Priority,
    served: Batch,
}

impl Element for Queue {
    fn type_name(&self) -> &'static str {
        "Queue"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        let _ = self.priority.enqueue(cx, batch);
    }
    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let budget = Budget { bytes: u64::MAX, packets: Batch::MAX as u32 };
        let _ = self.priority.dequeue(cx, budget, &mut self.served);
    }
    fn held(&self) -> u64 {
        self.priority.held() + self.served.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// As many of each branch as of any other, in random order.
fn frames(options: &Options) -> Vec<Vec<u8>> {
    let mut random = Pcg64Mcg::seed_from_u64(options.seed);
    let macs = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let mut frame = || {
        let (src, dst) = (0x0a00_0000 | random.random_range(1..0x00ff_ffff_u32), random.random::<u32>() >> 1);
        let high = random.random_range(1024..=65_535u16);
        let kind = random.random_range(0..4);
        let (builder, headers) = match kind {
            0 => (build::udp4(src, dst).ports(high, random.random_range(5004..=5099)), 42),
            1 => (build::tcp4(src, dst).ports(high, 443), 54),
            2 => (build::icmp4_echo(src, dst, high, 1), 42),
            _ => (build::udp4(src, dst).ports(high, random.random_range(6_000..=60_000)), 42),
        };
        let payload = vec![0x5a; random.random_range(60..=options.longest as usize) - headers];
        builder.macs(macs.0, macs.1).payload(&payload).build()
    };
    (0..FRAMES).map(|_| frame()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_or_allocated_and_every_branch_has_its_share() {
        let measured = Runs { runs: 1, cpu: None, json: true };
        let options = Options { batch: 32, longest: 200, seed: 1, measured };
        let mut rig = Rig::new(&options).unwrap();
        rig.rounds(3, 32);
        let before = crate::allocations();
        rig.rounds(2, 32);
        assert_eq!(crate::allocations().since(before).count, 0);
        assert!(rig.check().is_ok());
    }
}
