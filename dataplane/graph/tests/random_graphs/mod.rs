//! 64 random graphs of every registered element, under random traffic in virtual time: the books of every element
//! balance after every step, whatever it is given and whenever it is woken, and no buffer is lost.

mod draw;
mod frames;
mod world_facts;

use draw::Drawn;
use perhop_abr::Abr;
use perhop_element::{BuildCx, Driver, Element, NodeId, Registry, TimerId};
use perhop_elements::route::{IcmpError, Route};
use perhop_graph::lang::{Built, build, parse};
use perhop_graph::swap::{swap, take_retired};
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::{Duration, Instant};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

const GRAPHS: u64 = 64;
const PORTS: u16 = 4;
/// Steps of a graph: an arrival, a timer, a wake-up without reason.
const STEPS: usize = 600;
const BUFFERS: usize = 1024;

/// Every element type of the house.
pub fn registry() -> Registry {
    perhop_graph::router::registry()
}

/// Four ports and two classes, as samples name them.
pub fn build_cx() -> BuildCx {
    let mut cx = BuildCx::default();
    for n in 0..PORTS {
        cx.ports.insert(format!("p{n}"), PortId(n));
    }
    cx.class("be");
    cx.class("ef");
    cx
}

/// Says which graph it was when a test fails inside.
struct Blame {
    seed: u64,
    text: String,
}

impl Drop for Blame {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} of this graph:\n{}", self.seed, self.text);
        }
    }
}

struct World {
    driver: Driver,
    /// Elements that frames may be given to, and whether they expect raw ones.
    entrances: Vec<(NodeId, bool)>,
    all: Vec<NodeId>,
    now: Instant,
    rng: Pcg64Mcg,
    injected: u64,
}

impl World {
    fn new(seed: u64, pool: &Pool, drawn: &Drawn, built: Built) -> Self {
        let mut driver = Driver::new(pool.clone(), seed);
        driver.set_port_count(PORTS as usize);
        let edges = built.graph.edges.clone();
        let nodes = built.nodes.into_iter();
        let all: Vec<NodeId> = nodes.map(|n| driver.add(&n.name, n.element, n.outputs)).collect();
        for e in &edges {
            driver.connect(all[e.from], e.output, all[e.to], e.input).expect("drawn once");
        }
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
        let mut world = Self { driver, entrances: Vec::new(), all, now: Instant::ZERO, rng, injected: 0 };
        world.find_entrances(drawn);
        world
    }

    fn find_entrances(&mut self, drawn: &Drawn) {
        let named = |at: usize| self.driver.find(&format!("e{at}")).expect("every drawn element runs");
        let icmp = drawn.types.iter().position(|t| *t == "IcmpError").map(named);
        let raw = |t: &str| t == "FromPort" || t == "CheckFrame";
        let takers = drawn.types.iter().enumerate().filter(|(_, t)| drawn.takes_packets(t));
        self.entrances = takers.map(|(at, t)| (named(at), raw(t))).collect();
        self.all = self.driver.ids().collect();
        self.driver.set_icmp(icmp);
    }

    /// Another graph takes the place of the running one.
    fn replace(&mut self, drawn: &Drawn, built: Built) {
        swap(&mut self.driver, self.now, built, &mut Vec::new());
        self.find_entrances(drawn);
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn pass(&mut self, most_ns: u64) {
        let ns = self.below(most_ns);
        self.now += Duration::from_nanos(ns);
    }

    fn arrival(&mut self) {
        if self.entrances.is_empty() {
            return;
        }
        let at = self.below(self.entrances.len() as u64) as usize;
        let (id, raw) = self.entrances[at];
        let mut batch = Batch::new();
        for _ in 0..=self.below(24) {
            let frame = frames::frame(&mut self.rng);
            let Some(mut packet) = self.driver.pool().packet(&frame) else { break };
            let port = PortId(self.below(u64::from(PORTS)) as u16);
            let meta = packet.meta_mut();
            meta.received_at = self.now;
            meta.in_port = port;
            if !raw && let Ok(layout) = perhop_wire::dissect(&frame) {
                (meta.layout, meta.parsed) = (layout, true);
            }
            batch.push(packet);
        }
        self.injected += batch.len() as u64;
        if !batch.is_empty() {
            self.driver.push(self.now, id, 0, &mut batch);
        }
    }

    fn wake_somebody(&mut self) {
        let at = self.below(self.all.len() as u64) as usize;
        let id = self.all[at];
        let timer = TimerId(self.below(TimerId::COUNT as u64) as u8);
        self.driver.wake(self.now, id, timer);
    }

    /// The kernel says something new, and somebody has other policies for TCP.
    fn news(&mut self) {
        for id in self.all.clone() {
            let facts = world_facts::facts(&mut self.rng);
            // Without an address of its own nobody answers a rejected packet.
            if let (Some(icmp), Some(mut ports)) =
                (self.driver.element_mut::<IcmpError>(id), facts.ports.clone())
            {
                icmp.set_ports(&mut ports);
            }
            if let Some(abr) = self.driver.element_mut::<Abr>(id) {
                let _ = abr.commit(world_facts::policies(&mut self.rng));
            }
            if let Some(route) = self.driver.element_mut::<Route>(id) {
                let mut facts = facts;
                let _ = route.commit(self.now, &mut facts);
                self.driver.wake(self.now, id, TimerId::MAIN);
            }
        }
    }

    /// The world takes what left; a port may be slow or full.
    fn collect(&mut self) {
        for port in (0..PORTS).map(PortId) {
            if let Some(out) = self.driver.transmit_queue(port) {
                out.release_all();
            }
            let room = [u32::MAX, 0, 3][self.below(3) as usize];
            self.driver.set_port_room(port, room);
        }
        self.driver.local_queue().release_all();
    }

    fn check(&self, step: usize) {
        if let Err(errors) = self.driver.check_conservation() {
            panic!("step {step} at {:?}: {errors:?}", self.now);
        }
        assert_eq!(self.driver.left_behind(), 0, "step {step}: packets were left in a batch");
    }

    fn step(&mut self, step: usize) {
        match self.below(9) {
            8 => self.news(),
            0..4 => self.arrival(),
            4 => self.wake_somebody(),
            5 => self.pass(3_000_000),
            _ => match self.driver.next_wakeup() {
                Some(at) if at < Instant::FAR_FUTURE => self.now = self.now.max(at),
                _ => self.pass(2_000_000_000),
            },
        }
        self.check(step);
        self.driver.poll(self.now);
        self.check(step);
        self.collect();
    }
}

impl World {
    /// Everything that still waits is given up by its element when asked, and every buffer comes home.
    fn end(mut self, pool: &Pool) {
        self.all = self.driver.ids().collect();
        for id in self.all.clone() {
            let held = self.driver.element(id).map_or(0, Element::held);
            let dropped = self.driver.drop_held(id, perhop_packet::DropReason::GraphReplaced);
            let left = self.driver.element(id).map_or(0, Element::held);
            assert_eq!((dropped, left), (held, 0), "{}", self.driver.name(id));
        }
        self.check(STEPS);
        drop(self);
        pool.flush_thread_cache();
        let counters = pool.counters();
        let home = (counters.in_depot, counters.leaked);
        assert_eq!(home, (counters.capacity, 0), "buffers that did not come home");
    }
}

fn built(drawn: &Drawn, registry: &Registry) -> Built {
    let graph = parse(&drawn.text).unwrap_or_else(|e| panic!("{e:?}"));
    let again = parse(&graph.to_string()).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(graph.to_string(), again.to_string());
    build(&drawn.text, graph, registry, &mut build_cx()).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Types of elements through which packets went, or that made some.
fn worked(world: &World) -> BTreeSet<&'static str> {
    let busy = |id: &NodeId| world.driver.counters(*id).is_some_and(|c| c.received + c.made > 0);
    let ids = world.driver.ids().filter(busy);
    ids.filter_map(|id| world.driver.element(id)).map(Element::type_name).collect()
}

fn run(seed: u64, registry: &Registry) -> (Drawn, BTreeSet<&'static str>, u64) {
    let drawn = Drawn::new(seed, registry);
    let _blame = Blame { seed, text: drawn.text.clone() };
    let built = built(&drawn, registry);
    let pool = Pool::new(BUFFERS);
    let mut world = World::new(seed, &pool, &drawn, built);
    for step in 0..STEPS {
        world.step(step);
    }
    let (worked, injected) = (worked(&world), world.injected);
    world.end(&pool);
    (drawn, worked, injected)
}

#[test]
fn conservation_holds_for_every_element_in_random_graphs() {
    let registry = registry();
    let (mut seen, mut busy) = (BTreeSet::new(), BTreeSet::new());
    let (mut injected, mut loops, mut merges) = (0, 0, 0);
    for seed in 0..GRAPHS {
        let (drawn, worked, packets) = run(seed, &registry);
        busy.extend(worked);
        injected += packets;
        loops += drawn.loops;
        merges += drawn.merges;
        seen.extend(drawn.types);
    }
    let registered: BTreeSet<&str> = registry.types().iter().map(|t| t.name).collect();
    assert_eq!(seen, registered, "the generator must draw every registered element");
    assert_eq!(busy, registered, "packets must go through every registered element");
    assert!(injected > 50_000 && loops >= 10 && merges >= 64, "{injected} {loops} {merges}");
}

#[test]
fn random_graphs_replace_each_other_under_traffic() {
    let registry = registry();
    for seed in 100..116 {
        let first = Drawn::new(seed, &registry);
        let mut blame = Blame { seed, text: first.text.clone() };
        let pool = Pool::new(BUFFERS);
        let mut world = World::new(seed, &pool, &first, built(&first, &registry));
        for step in 0..STEPS {
            if step % 40 == 39 {
                // One graph in four is the first again: the same types come back under the same names.
                let next = if step % 160 == 39 { seed } else { seed * 1000 + step as u64 };
                let drawn = Drawn::new(next, &registry);
                blame.text = drawn.text.clone();
                world.replace(&drawn, built(&drawn, &registry));
                world.check(step);
            }
            world.step(step);
            take_retired(&mut world.driver, world.now, &mut Vec::new());
            world.all = world.driver.ids().collect();
            world.check(step);
        }
        world.end(&pool);
    }
}
