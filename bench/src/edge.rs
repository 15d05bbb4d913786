//! `bench edge`: what a DiffServ edge does with a packet between receiving and sending it, as filters, flows and classes
//! grow.
//!
//! Timed is the way of a parsed packet through the elements of the default graph that do it: the look-up of its flow with
//! the verdict kept there, the two rate three colour marker of its profile, the code point of its colour with the
//! checksum, and a class of its own in the tree with random early detection; and as many packets out of the tree as came
//! in. Reading, parsing and writing frames are not timed (`bench forward` does), and leave headers near as they do in a
//! router. Flows come in seeded random order; frames, flows, classes and waiting packets take more memory than the
//! last-level cache has when there are many. The clock given to the elements is virtual.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::schedule::Exchange;
use crate::turns::Runs;
use perhop_element::{Driver, NodeId};
use perhop_elements::meter::TrTcmConfig;
use perhop_elements::police::{self, Conditioner, ConditionerChange, MeterSpec, ProfileSpec};
use perhop_elements::schedule::{
    ClassTree, LeafKind, LeafMap, LeafParams, NodeIndex, NodeParams, NodeSpec, TreeLink,
};
use perhop_flows::classifier::{Action, Classifier, Match, PortRange, Rule};
use perhop_flows::{Flows, FlowsConfig, Settings};
use perhop_packet::{Batch, ClassId, FilterId, LeafId, Pool, PortId, ProfileId};
use perhop_units::{Bytes, Color, Dscp, Instant, QueueLimit, Rate};
use perhop_wire::{MacAddr, build, protocol};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Options of `bench edge`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent flows; without these three 1,000 flows with 10 filters and 16 classes, 100,000 with 4,096 each, and
    /// 1,000,000 with 100,000 each
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    flows: Option<u32>,
    /// Filters, each with a profile; without it as many as classes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    filters: Option<u32>,
    /// Leaf classes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    classes: Option<u32>,
    /// Per cent of packets that are the first of their flow; without it 0 and 5
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100))]
    new_flows: Option<u32>,
    /// Packets handed over at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// Seed of everything
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// One sweep point.
#[derive(Clone, Copy, Debug)]
struct Case {
    flows: u32,
    filters: u32,
    classes: u32,
    new_per_cent: u32,
}

impl Case {
    /// What the others are compared with.
    const SMALL: Self = Self { flows: 1_000, filters: 10, classes: 16, new_per_cent: 0 };
}

/// Bytes of a frame, without FCS.
const FRAME: usize = 64;
/// Packets that wait in a class on average.
const BACKLOG: u32 = 2;
/// Virtual time in which a round passes, at most: flows must not expire between two of their packets.
const ROUND_NS: u64 = 12_000_000_000;
/// Virtual time a packet, at most.
const PACE_NS: u64 = 20_000;
/// Silence after which a UDP connection is forgotten: the default of the element.
const SILENCE_NS: u64 = 30_000_000_000;
/// The default class.
const OTHERS: ClassId = ClassId(0);

/// Measures the small case, and every sweep point with its ratio to that.
///
/// # Errors
/// Packets that are lost, or rules that are refused.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let base = measure(options, Case::SMALL)?;
    let cases: Vec<(u32, u32, u32)> = match (options.flows, options.filters, options.classes) {
        (None, None, None) => vec![(1_000, 10, 16), (100_000, 4_096, 4_096), (1_000_000, 100_000, 100_000)],
        (flows, filters, classes) => {
            let classes = classes.unwrap_or(4_096);
            vec![(flows.unwrap_or(100_000), filters.unwrap_or(classes), classes)]
        }
    };
    for (flows, filters, classes) in cases {
        for new_per_cent in options.new_flows.map_or_else(|| vec![0, 5], |n| vec![n]) {
            let mut point = measure(options, Case { flows, filters, classes, new_per_cent })?;
            let ratio = point.ns_per_op.median / base.ns_per_op.median;
            point.metrics.insert("ratio_to_small", Metric::new(Spread::exactly(ratio), "1"));
            point.params.insert("cpu", cpu.into());
            sink.point(&point)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, case: Case) -> Result<Point, BenchError> {
    let mut rig = Rig::new(options, case)?;
    // Enough virtual time for connections to reach their steady number.
    let round_ns = rig.frames.count as u64 * rig.pace_ns;
    for _ in 0..1 + if case.new_per_cent > 0 { SILENCE_NS.div_ceil(round_ns) } else { 1 } {
        rig.round();
    }
    rig.allocations = 0;
    let watch = Watch::start();
    let before = rig.flow_counters();
    let ns: Vec<f64> = (0..options.measured.runs).map(|_| rig.round()).collect();
    let after = rig.flow_counters();
    let packets = (rig.frames.count as u64 * u64::from(options.measured.runs)) as f64;
    let new = (after.0 - before.0) as f64 * 100.0 / packets;
    rig.check(case, new, after.1 - before.1)?;
    let mut point = Point { bench: "edge", ..Point::default() };
    point.set_ns(&ns);
    point.allocs_per_op = Some((rig.allocations as f64 / packets * 1e4).round() / 1e4);
    let params = [
        ("flows", case.flows.into()),
        ("filters", case.filters.into()),
        ("classes", case.classes.into()),
        ("new_flows_pct", case.new_per_cent.into()),
        ("batch", options.batch.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    let exact = |value: f64, unit| Metric::new(Spread::exactly(value), unit);
    point.metrics.insert("new_flows", exact(new, "%"));
    for (name, color) in [("green", Color::Green), ("yellow", Color::Yellow), ("red", Color::Red)] {
        let share = rig.colors[color as usize] as f64 * 100.0 / rig.colors.iter().sum::<u64>().max(1) as f64;
        point.metrics.insert(name, exact(share, "%"));
    }
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}

/// The elements, and what goes through them.
struct Rig {
    driver: Driver,
    flows: NodeId,
    tree: NodeId,
    pool: Pool,
    frames: Frames,
    batch: Batch,
    batch_len: usize,
    now: Instant,
    pace_ns: u64,
    /// Packets by the colour they left with.
    colors: [u64; 3],
    lost: u64,
    allocations: u64,
}

impl Rig {
    fn new(options: &Options, case: Case) -> Result<Self, BenchError> {
        let mut random = Pcg64Mcg::seed_from_u64(options.seed);
        let frames = Frames::new(case, &mut random);
        let pace_ns = (ROUND_NS / frames.count as u64).min(PACE_NS);
        let alive = u64::from(case.flows)
            + u64::from(case.new_per_cent) * (SILENCE_NS + ROUND_NS) / (pace_ns * 100)
            + 1_000;
        let pool = Pool::new((case.classes * BACKLOG) as usize + 8 * Batch::MAX);
        let mut driver = Driver::new(pool.clone(), options.seed);
        let wrong = |e: &dyn std::fmt::Display| BenchError::Wrong(e.to_string());
        let classifier =
            Classifier::build((0..case.filters).map(|n| filter(n, case.classes))).map_err(|e| wrong(&e))?;
        // A table that is more than three quarters full forgets connections of one packet early.
        let config = FlowsConfig {
            connections: alive as usize * 3 / 2,
            seed: Some(options.seed),
            ..FlowsConfig::default()
        };
        let settings = Settings { default_class: OTHERS, ..Settings::default() };
        let flows = Flows::new(config, classifier, Arc::new(settings));
        let conditioner = conditioner(case, pace_ns).map_err(|e| wrong(&e))?;
        let tree = exchange(options, case, &mut random);
        let flows = driver.add("flows", Box::new(flows), 1);
        let condition = driver.add("condition", Box::new(conditioner), 1);
        let tree = driver.add("tree", Box::new(tree), 0);
        driver.connect(flows, 0, condition, 0).map_err(|e| wrong(&e))?;
        driver.connect(condition, 0, tree, 0).map_err(|e| wrong(&e))?;
        let batch_len = options.batch as usize;
        let mut rig = Self {
            driver,
            flows,
            tree,
            pool,
            frames,
            batch: Batch::new(),
            batch_len,
            now: Instant(1),
            pace_ns,
            colors: [0; 3],
            lost: 0,
            allocations: 0,
        };
        rig.fill(case);
        Ok(rig)
    }

    /// Puts packets into the classes, straight, until they hold what is to wait.
    fn fill(&mut self, case: Case) {
        for _ in 0..BACKLOG {
            for class in 0..case.classes {
                let Some(mut packet) = self.pool.alloc() else { return };
                packet.resize(FRAME);
                packet.meta_mut().class = ClassId(class);
                self.batch.push(packet);
                if self.batch.is_full() {
                    self.driver.push(self.now, self.tree, 0, &mut self.batch);
                }
            }
        }
        self.driver.push(self.now, self.tree, 0, &mut self.batch);
        self.exchange().limit = u32::MAX;
    }

    fn exchange(&mut self) -> &mut Exchange {
        self.driver.element_mut(self.tree).expect("it was put there")
    }

    /// Lets every frame pass once, with new flows in their places. ns a packet.
    fn round(&mut self) -> f64 {
        self.frames.renew();
        let (mut at, mut took) = (0, 0);
        while at < self.frames.count {
            let until = (at + self.batch_len).min(self.frames.count);
            took += self.turn(at, until);
            at = until;
        }
        took as f64 / self.frames.count as f64
    }

    fn turn(&mut self, from: usize, until: usize) -> u64 {
        self.now = Instant(self.now.0 + (until - from) as u64 * self.pace_ns);
        for i in from..until {
            let Some(mut packet) = self.pool.packet(self.frames.frame(i)) else { break };
            let (meta, frame) = packet.parts_mut();
            meta.received_at = self.now;
            meta.in_port = PortId(0);
            if let Ok(layout) = perhop_wire::dissect(frame) {
                (meta.layout, meta.parsed) = (layout, true);
            }
            self.batch.push(packet);
        }
        let expected = self.batch.len();
        let allocated = crate::allocations();
        let start = machine::thread_time_ns();
        self.driver.push(self.now, self.flows, 0, &mut self.batch);
        if self.driver.next_wakeup().is_some_and(|at| at <= self.now) {
            self.driver.poll(self.now);
        }
        let took = machine::thread_time_ns() - start;
        self.allocations += crate::allocations().since(allocated).count;
        let exchange: &mut Exchange = self.driver.element_mut(self.tree).expect("it was put there");
        for packet in exchange.out.iter() {
            self.colors[packet.meta().color as usize] += 1;
        }
        self.lost += (expected - exchange.out.len()) as u64;
        exchange.out.release_all();
        took
    }

    /// Connections made, and packets whose verdict was kept.
    fn flow_counters(&self) -> (u64, u64) {
        let flows: Option<&Flows> = self.driver.element_ref(self.flows);
        flows.map_or((0, 0), |f| (f.flow_counters().created, f.flow_counters().hits))
    }

    /// The share of new flows is as asked, all others had their verdict, and next to nothing was dropped.
    fn check(&self, case: Case, new: f64, hits: u64) -> Result<(), BenchError> {
        let packets: u64 = self.colors.iter().sum();
        if (new - f64::from(case.new_per_cent)).abs() > 0.5 || hits == 0 || self.lost > packets / 100 {
            return Err(BenchError::Wrong(format!(
                "{new} % are new, {hits} had a verdict, {} of {packets} were lost",
                self.lost
            )));
        }
        Ok(())
    }
}

/// The address that filter `n` is for.
fn served(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(198 << 24 | 18 << 16 | n)
}

/// One of four shapes, each for its own destination, with a class and a profile.
fn filter(n: u32, classes: u32) -> Rule {
    let mut matches = Match { dst: Some(IpAddr::V4(served(n)).into()), ..Match::default() };
    if !n.is_multiple_of(4) {
        matches.protocol = Some(protocol::UDP);
    }
    if n % 4 == 2 {
        matches.dst_ports = Some(PortRange { first: 1024, last: u16::MAX });
    }
    if n % 4 == 3 {
        matches.src = "10.0.0.0/8".parse().ok();
    }
    Rule {
        id: FilterId(n),
        tier: 0,
        priority: n,
        name: Arc::from(format!("f{n}")),
        matches,
        action: Action {
            class: Some(ClassId(n % classes)),
            profile: Some(ProfileId(n)),
            ..Action::default()
        },
    }
}

/// A profile for each filter: half of what it is offered is green, a quarter yellow.
fn conditioner(case: Case, pace_ns: u64) -> Result<Conditioner, police::IdTooLarge> {
    let ip_len = FRAME as u64 - 14;
    let offered = (ip_len * 8 * 1_000_000_000 / pace_ns) as f64 / f64::from(case.filters.min(case.flows));
    let meter = MeterSpec::TrTcm(TrTcmConfig {
        cir: Rate((offered * 0.50) as u64 + 1),
        cbs: Bytes(2 * ip_len),
        pir: Rate((offered * 0.75) as u64 + 1),
        pbs: Bytes(3 * ip_len),
        aware: false,
    });
    let actions = [Dscp::AF11, Dscp::AF12, Dscp::AF13].map(police::Action::Remark);
    let mut change = ConditionerChange::new();
    for n in 0..case.filters {
        change.profile(ProfileId(n), Some(ProfileSpec { meter, actions }))?;
    }
    let mut conditioner = Conditioner::new(OTHERS);
    conditioner.commit(Instant::ZERO, &mut change);
    Ok(conditioner)
}

/// The tree: leaves below the link, at random places in memory. Precedence-aware RED belongs here; it is RED.
fn exchange(options: &Options, case: Case, random: &mut Pcg64Mcg) -> Exchange {
    let mut places: Vec<u32> = (0..case.classes).collect();
    places.shuffle(random);
    let per_class = (options.batch * 64).max(BACKLOG * 64);
    let queue = Some(LeafParams { limit: QueueLimit::Packets(per_class), kind: LeafKind::red() });
    let mut map = LeafMap::new(LeafId::NONE);
    let specs: Vec<NodeSpec> = (0..case.classes)
        .zip(&places)
        .map(|(class, place)| {
            map.insert(None, ClassId(class), LeafId(*place));
            let params = NodeParams { queue: queue.clone(), ..NodeParams::leaf(None) };
            NodeSpec { index: NodeIndex(*place), name: "".into(), params }
        })
        .collect();
    let link = TreeLink {
        rate: Rate::ZERO,
        max_frame: FRAME as u32,
        overhead_bytes: 0,
        framing: perhop_units::Framing::PLAIN,
    };
    let tree = ClassTree::with_classes(link, Instant::ZERO, &specs);
    Exchange::new(tree, Some(map))
}

/// Frames side by side in memory, of flows in random order.
struct Frames {
    memory: Vec<u8>,
    count: usize,
    filters: u32,
    /// Places whose flow is new in every round.
    new_at: Vec<usize>,
    next_new: u32,
    random: Pcg64Mcg,
}

impl Frames {
    fn new(case: Case, random: &mut Pcg64Mcg) -> Self {
        let count = (2 * machine::last_level_cache() / FRAME).max(2 * case.flows as usize);
        let mut frames = Self {
            memory: vec![0; count * FRAME],
            count,
            filters: case.filters,
            new_at: Vec::new(),
            next_new: 0,
            random: Pcg64Mcg::seed_from_u64(random.random()),
        };
        // Each flow occurs equally often; the order is random.
        let mut order: Vec<u32> = (0..count as u32).map(|n| n % case.flows).collect();
        order.shuffle(random);
        for (at, flow) in order.into_iter().enumerate() {
            if random.random_range(0..100) < case.new_per_cent {
                frames.new_at.push(at);
            } else {
                frames.write(at, 10 << 24 | (flow + 1), flow % case.filters, 1024 + (flow % 50_000) as u16);
            }
        }
        frames
    }

    /// Gives every place for new flows a flow not seen for long.
    fn renew(&mut self) {
        for i in 0..self.new_at.len() {
            self.next_new = self.next_new.wrapping_add(1);
            let filter = self.random.random_range(0..self.filters);
            let source = 10 << 24 | 1 << 23 | (self.next_new & 0x7f_ffff);
            let port = self.random.random_range(1024..=65_535);
            self.write(self.new_at[i], source, filter, port);
        }
    }

    fn write(&mut self, at: usize, source: u32, filter: u32, port: u16) {
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), MacAddr([2, 0, 0, 0, 1, 0]));
        let frame = build::udp4(Ipv4Addr::from(source), served(filter))
            .macs(macs.0, macs.1)
            .ports(port, 1024 + (source % 60_000) as u16)
            .payload(&[0x5a; FRAME - 42])
            .build();
        self.memory[at * FRAME..][..FRAME].copy_from_slice(&frame[..FRAME]);
    }

    #[inline]
    fn frame(&self, at: usize) -> &[u8] {
        &self.memory[at * FRAME..][..FRAME]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_verdicts_and_have_all_colours() {
        let measured = Runs { runs: 1, cpu: None, json: true };
        let options = Options {
            flows: None,
            filters: None,
            classes: None,
            new_flows: None,
            batch: 64,
            seed: 1,
            measured,
        };
        let case = Case { flows: 500, filters: 20, classes: 30, new_per_cent: 5 };
        let mut rig = Rig::new(&options, case).unwrap();
        rig.frames.count = 20_000;
        rig.frames.new_at.retain(|at| *at < 20_000);
        rig.round();
        rig.colors = [0; 3];
        let before = rig.flow_counters();
        rig.round();
        let after = rig.flow_counters();
        let new = (after.0 - before.0) as f64 / 200.0;
        assert!(rig.check(case, new, after.1 - before.1).is_ok(), "{new}");
        assert!(rig.colors.iter().all(|n| *n > 1_000), "{:?}", rig.colors);
    }
}
