//! Replacing a running graph: who keeps its place, who drains, and that nobody else notices.

mod router;

use crate::random_graphs::{build_cx, registry};
use perhop_element::{Cx, Driver, Element, PortIndex};
use perhop_graph::lang::{Built, BuiltNode, Graph, build, parse};
use perhop_graph::swap::{DRAIN, RETIRED, Swapped, swap, take_retired};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::{Duration, Instant};
use perhop_wire::build::udp4;
use std::any::Any;

fn built(text: &str) -> Built {
    let graph = parse(text).unwrap_or_else(|e| panic!("{e:?}"));
    build(text, graph, &registry(), &mut build_cx()).unwrap_or_else(|e| panic!("{e:?}"))
}

/// A running graph, its clock, and what left by each port.
struct Run {
    driver: Driver,
    now: Instant,
    left: Vec<(Instant, PortId, u32)>,
    pool: Pool,
}

impl Run {
    fn new(text: &str) -> Self {
        let pool = Pool::new(2048);
        let mut driver = Driver::new(pool.clone(), 1);
        driver.set_port_count(4);
        let mut run = Self { driver, now: Instant::ZERO, left: Vec::new(), pool };
        run.swap(text);
        run
    }

    fn swap(&mut self, text: &str) -> Swapped {
        let done = self.swap_built(built(text));
        self.collect();
        done
    }

    fn swap_built(&mut self, built: Built) -> Swapped {
        swap(&mut self.driver, self.now, built, &mut Vec::new())
    }

    fn take_retired(&mut self) -> u64 {
        take_retired(&mut self.driver, self.now, &mut Vec::new())
    }

    /// Packets of 1,000 bytes at IP length, numbered in their payload, into element `name`.
    fn send(&mut self, name: &str, numbers: std::ops::Range<u32>) {
        let id = self.driver.find(name).unwrap_or_else(|| panic!("there is no {name}"));
        let mut batch = Batch::new();
        for n in numbers {
            let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&n.to_be_bytes()).ip_len(1000).build();
            let mut packet = self.pool.packet(&frame).expect("the pool is large");
            let meta = packet.meta_mut();
            meta.received_at = self.now;
            (meta.layout, meta.parsed) = (perhop_wire::dissect(&frame).expect("well formed"), true);
            batch.push(packet);
        }
        self.driver.push(self.now, id, 0, &mut batch);
        self.collect();
    }

    fn collect(&mut self) {
        self.driver.check_conservation().expect("books balance");
        for port in (0..4).map(PortId) {
            let Some(out) = self.driver.transmit_queue(port) else { continue };
            for packet in out.drain() {
                let number = packet.frame()[42..46].try_into().map(u32::from_be_bytes).expect("four bytes");
                self.left.push((self.now, port, number));
                packet.release();
            }
        }
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(at) = self.driver.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.driver.poll(self.now);
            self.collect();
        }
        self.now = end;
        self.take_retired();
        self.collect();
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn by(&self, port: u16) -> Vec<u32> {
        self.left.iter().filter(|(_, p, _)| *p == PortId(port)).map(|(_, _, n)| *n).collect()
    }

    fn names(&self) -> Vec<&str> {
        self.driver.ids().map(|id| self.driver.name(id)).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for id in self.driver.ids().collect::<Vec<_>>() {
            self.driver.drop_held(id, DropReason::GraphReplaced);
        }
    }
}

/// 1 Mbit/s: a packet of [`Run::send`] takes about 8 ms.
const LINE: &str =
    "in :: Counter(); q :: Shaper(1 Mbit/s, limit = 100 packets); out :: ToPort(0); in -> q -> out;";

#[test]
fn a_full_queue_moves_with_its_packets() {
    let mut run = Run::new(LINE);
    run.send("in", 0..150);
    let q = run.driver.find("q").expect("declared");
    let (held, emitted) =
        (run.driver.element(q).expect("live").held(), run.driver.counters(q).expect("live").emitted);
    let done = run.swap(LINE);
    assert_eq!(done, Swapped { moved: 3, ..Swapped::default() });
    assert_eq!((run.driver.find("q"), run.driver.element(q).expect("live").held()), (Some(q), held));
    assert_eq!(run.driver.counters(q).expect("live").emitted, emitted, "books stay");
    run.run_for(Duration::from_secs(2));
    let left = run.by(0);
    assert!(left.is_sorted() && left.len() >= 100 && u64::from(left.len() as u32) == held + emitted);
    let dropped = run.driver.counters(q).expect("live").drops[DropReason::QueueFull.index()];
    assert_eq!(dropped + left.len() as u64, 150);
}

#[test]
fn a_new_configuration_is_in_force_at_once() {
    let mut run = Run::new(&LINE.replace("1 Mbit/s", "10 kbit/s"));
    run.send("in", 0..20);
    run.run_for(Duration::from_millis(10));
    assert_eq!(run.left.len(), 1);
    // 10 kbit/s: the next packet would leave in 0.8 s. 100 Mbit/s send all of them in 2 ms.
    run.swap(&LINE.replace("1 Mbit/s", "100 Mbit/s"));
    run.run_for(Duration::from_secs(1));
    assert_eq!(run.by(0), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_removed_path_drains_through_everything_behind_it() {
    // What drains passes a counter that goes too, and a port that stays.
    let text =
        "in :: Counter(); q :: Shaper(1 Mbit/s, limit = 100 packets); c :: Counter(); out :: ToPort(0);
        in -> q -> c -> out;";
    let mut run = Run::new(text);
    run.send("in", 0..50);
    let done = run.swap("in :: Counter(); out :: ToPort(0); in -> out;");
    assert_eq!((done.moved, done.retired, done.dropped), (2, 2, 0));
    assert_eq!(run.names().iter().filter(|n| n.starts_with(RETIRED)).count(), 2);
    assert!(run.driver.find("q").is_none() && run.driver.find("c").is_none());
    run.send("in", 100..101);
    run.run_for(Duration::from_millis(900));
    let left = run.by(0);
    let old: Vec<u32> = left.iter().copied().filter(|n| *n < 100).collect();
    assert_eq!(old, (0..50).collect::<Vec<_>>());
    assert!(left.contains(&100));
    assert_eq!(run.names(), ["in", "out"]);
}

#[test]
fn what_does_not_drain_in_time_is_dropped_for_its_reason() {
    let mut run = Run::new(&LINE.replace("1 Mbit/s", "100 kbit/s"));
    run.send("in", 0..50);
    let q = run.driver.find("q").expect("declared");
    run.swap("in :: Counter(); out :: ToPort(0); in -> out;");
    let end = run.now + DRAIN;
    run.run_until(Instant(end.as_nanos() - 1));
    let held = run.driver.element(q).expect("still draining").held();
    assert!(held > 30, "{held}");
    run.now = end;
    assert_eq!(run.take_retired(), held);
    assert_eq!((run.left.len() as u64 + held, run.names()), (50, vec!["in", "out"]));
    run.driver.check_conservation().expect("books balance");
}

#[test]
fn an_element_of_another_type_is_another_element() {
    let mut run = Run::new(LINE);
    let other = LINE.replace("q :: Shaper(1 Mbit/s, limit = 100 packets)", "q :: Counter()");
    // The old one drains behind the name.
    run.send("in", 0..10);
    let old = run.driver.find("q");
    let done = run.swap(&other);
    assert_eq!(done, Swapped { moved: 2, reset: 1, retired: 1, ..Swapped::default() });
    assert_ne!(run.driver.find("q"), old);
    run.run_for(Duration::from_millis(500));
    assert_eq!(run.by(0), (0..10).collect::<Vec<_>>());
}

/// Holds everything; its state is of a version, and only good for a taker of the same size.
struct Holder {
    version: u32,
    size: u32,
    held: Batch,
}

impl Element for Holder {
    fn type_name(&self) -> &'static str {
        "Holder"
    }
    fn version(&self) -> u32 {
        self.version
    }
    fn push(&mut self, _cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        self.held.append(batch);
    }
    fn held(&self) -> u64 {
        self.held.len() as u64
    }
    fn export_state(&mut self) -> Option<perhop_element::ElementState> {
        let held = std::mem::take(&mut self.held);
        Some(Box::new((self.size, held)))
    }
    fn import_state(
        &mut self,
        state: perhop_element::ElementState,
    ) -> Result<(), perhop_element::ElementState> {
        let state = state.downcast::<(u32, Batch)>()?;
        if state.0 != self.size {
            return Err(state);
        }
        self.held = state.1;
        Ok(())
    }
    fn drain(&mut self, out: &mut Batch) {
        out.append(&mut self.held);
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn holder(version: u32, size: u32) -> Built {
    let graph: Graph = parse("h :: Holder();").expect("good text");
    let element = Box::new(Holder { version, size, held: Batch::new() });
    Built { graph, nodes: vec![BuiltNode { name: "h".to_owned(), element, outputs: 0 }] }
}

#[test]
fn state_that_does_not_fit_stays_with_its_packets_until_they_are_dropped() {
    let mut run = Run::new("c :: Counter();");
    run.swap_built(holder(1, 5));
    run.send("h", 0..7);
    assert_eq!(run.swap_built(holder(1, 5)).moved, 1);
    let h = run.driver.find("h").expect("declared");
    assert_eq!(run.driver.element(h).expect("live").held(), 7);
    // Alike, and yet the state comes back: it is the old one that keeps it.
    let done = run.swap_built(holder(1, 6));
    assert_eq!((done.reset, done.retired, done.dropped), (1, 1, 0));
    assert_eq!(run.driver.element(h).expect("it drains").held(), 7);
    run.now += DRAIN;
    assert_eq!(run.take_retired(), 7);
    run.collect();
}

#[test]
fn flows_through_untouched_elements_lose_nothing_and_keep_their_order() {
    // One line that every version of the graph has, 80 % loaded; beside it something that comes, goes and changes.
    let beside = [
        "",
        "x :: Counter(); y :: Shaper(1 Mbit/s, limit = 10 packets); z :: ToPort(1); x -> y -> z;",
        "x :: Counter(); z :: ToPort(1); x -> z;",
        "x :: Shaper(2 Mbit/s, limit = 10 packets); z :: ToPort(2); x -> z;",
    ];
    let text = |i: usize| format!("{LINE} {}", beside[i % beside.len()]);
    let mut run = Run::new(&text(0));
    for n in 0..1_000_u32 {
        run.send("in", n..n + 1);
        if run.driver.find("x").is_some() {
            run.send("x", 0..3);
        }
        run.run_for(Duration::from_millis(10));
        if n % 3 == 0 {
            let done = run.swap(&text(n as usize));
            assert!(done.moved >= 3);
        }
    }
    run.run_for(Duration::from_secs(3));
    assert_eq!(run.by(0), (0..1_000).collect::<Vec<_>>());
    // And at the pace of the line: nothing was held up by a swap.
    let late = run.left.iter().filter(|(_, p, _)| *p == PortId(0));
    assert!(
        late.clone()
            .all(|(at, _, n)| at.since(Instant(u64::from(*n) * 10_000_000)) <= Duration::from_millis(1))
    );
    assert!(run.by(1).len() > 100 && run.by(2).len() > 100);
}

#[test]
fn graphs_that_replace_each_other_for_ever_take_no_more_places() {
    let text = |n: u32| {
        let parts = (0..20).map(|i| format!("c{n}x{i} :: Counter(); ")).collect::<String>();
        let path = (0..20).map(|i| format!("c{n}x{i} -> ")).collect::<String>();
        format!(
            "in :: FromPort(p0); {parts} q{n} :: Egress(p1, rate = 1 Mbit/s); out :: ToPort(p1); \
             in -> {path} q{n} -> out;"
        )
    };
    let mut run = Run::new(&text(0));
    for n in 1..100 {
        // 8 ms a packet: the old queue drains while the new graph runs, and then all of the old is gone.
        run.send(&format!("c{}x0", n - 1), n * 10..n * 10 + 10);
        let done = run.swap(&text(n));
        assert_eq!((done.moved, done.retired), (2, 21));
        // Only what drains is looked at again and again: the queue, not the graph.
        assert_eq!(run.driver.draining().len(), 1);
        run.run_for(Duration::from_millis(100));
        assert_eq!(run.driver.draining(), []);
        assert_eq!(run.driver.ids().count(), 23);
    }
    assert_eq!(run.by(1).len(), 990);
    let highest = run.driver.ids().map(|id| id.0).max().expect("elements");
    assert!(highest < 2 * 23 + 1, "{highest}: places of removed elements are used again");
}
