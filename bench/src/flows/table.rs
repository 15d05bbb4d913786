//! The element with the connection table, and the packets that go through it.

use crate::error::BenchError;
use crate::machine;
use crate::router::{LAN, port_mac};
use crate::traffic::{Payload, Source};
use perhop_element::{Cx, Driver, Element, NodeId, PortIndex};
use perhop_flows::classifier::{Action, Classifier, Match, Rule};
use perhop_flows::{Flows, FlowsConfig, Settings};
use perhop_packet::{Batch, ClassId, FilterId, Packet, Pool};
use perhop_units::Instant;
use perhop_wire::{MacAddr, protocol};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::any::Any;
use std::sync::Arc;

/// Bytes of a frame, without FCS.
const FRAME: usize = 64;
/// Packets that are handed over, in batches, between two readings of the clock, which takes as long as some look-ups do. Their
/// headers and metadata together still fit into a second-level cache.
const HANDED: usize = 4 * Batch::MAX;
/// Virtual time in which all flows are put in: none is looked at by then.
const INSERT_NS: u64 = 1_000_000_000;
/// Virtual time in which all flows are seen once more, and in which a round over the frames passes at most: flows must not expire
/// between two of their packets.
const ROUND_NS: u64 = 12_000_000_000;
/// Virtual time a packet, at most.
const PACE_NS: u64 = 20_000;
/// Silence after which a UDP connection is forgotten: the default of the element.
const SILENCE_NS: u64 = 30_000_000_000;
/// After the last packet everything is forgotten by then; a connection is looked at a second too late at most.
const GONE_NS: u64 = 2 * SILENCE_NS;
/// Class of the only filter.
const CLASS: ClassId = ClassId(1);

/// What a part of a measurement took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Processor time, ns.
    pub ns: u64,
    /// Packets or flows.
    pub ops: u64,
    /// Memory allocations.
    pub allocations: u64,
}

impl Took {
    pub fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.ops += other.ops;
        self.allocations += other.allocations;
    }

    pub fn ns_each(&self) -> f64 {
        self.ns as f64 / self.ops.max(1) as f64
    }
}

/// What the element has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets whose verdict was kept and in force.
    pub hits: u64,
    pub created: u64,
    pub expired: u64,
}

impl Counted {
    pub fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            created: self.created - before.created,
            expired: self.expired - before.expired,
        }
    }
}

/// The element, and its packets.
pub struct Table {
    driver: Driver,
    flows: NodeId,
    end: NodeId,
    pool: Pool,
    source: Source,
    flow_count: u32,
    new_per_cent: u32,
    /// Order in which flows are put in, and order in which they are seen once more.
    orders: [Vec<u32>; 2],
    hands: Vec<Batch>,
    batch_len: usize,
    now: Instant,
    pace_ns: u64,
    astray: u64,
}

impl Table {
    /// An empty table with room for `flows` and for what `new_per_cent` new ones add.
    ///
    /// # Errors
    /// The element cannot be set up.
    pub fn new(flows: u32, new_per_cent: u32, batch: u32, seed: u64) -> Result<Self, BenchError> {
        let wrong = |e: &dyn std::fmt::Display| BenchError::Wrong(e.to_string());
        let macs = (MacAddr([2, 0, 0, 0, 3, 1]), port_mac(LAN));
        let bytes = 2 * machine::last_level_cache();
        let source = Source::new(flows as usize, FRAME, bytes, new_per_cent, Payload::Random, seed, macs);
        let pace_ns = (ROUND_NS / source.count() as u64).min(PACE_NS);
        // New flows stay for their silence, until the next look, and until the sweep has come to them.
        let alive = u64::from(flows)
            + u64::from(new_per_cent) * (SILENCE_NS + 2_000_000_000) / (pace_ns * 100)
            + 1_000;
        // A table that is more than three quarters full forgets connections of one packet early.
        let config =
            FlowsConfig { connections: alive as usize * 3 / 2, seed: Some(seed), ..FlowsConfig::default() };
        let classifier = Classifier::build([filter()]).map_err(|e| wrong(&e))?;
        let pool = Pool::new(2 * HANDED);
        let mut driver = Driver::new(pool.clone(), seed);
        let element = Flows::new(config, classifier, Arc::new(Settings::default()));
        let element = driver.add("flows", Box::new(element), 1);
        let end = driver.add("end", Box::new(End::default()), 0);
        driver.connect(element, 0, end, 0).map_err(|e| wrong(&e))?;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let orders = [(); 2].map(|()| {
            let mut order: Vec<u32> = (0..flows).collect();
            order.shuffle(&mut random);
            order
        });
        Ok(Self {
            driver,
            flows: element,
            end,
            pool,
            source,
            flow_count: flows,
            new_per_cent,
            orders,
            hands: (0..HANDED / batch as usize).map(|_| Batch::new()).collect(),
            batch_len: batch as usize,
            now: Instant(1),
            pace_ns,
            astray: 0,
        })
    }

    /// The first packet of every flow, in random order. An operation is a flow.
    pub fn establish(&mut self) -> Took {
        self.each_flow(0, INSERT_NS / u64::from(self.flow_count))
    }

    /// One more packet of every flow, in another order and over a longer time: they do not go as they came. It takes the same time
    /// whatever their number, so that each is looked at as often before it is forgotten.
    pub fn touch(&mut self) {
        self.each_flow(1, ROUND_NS / u64::from(self.flow_count));
    }

    /// A packet of every flow: the first frames are of one flow each.
    fn each_flow(&mut self, which: usize, pace_ns: u64) -> Took {
        let order = std::mem::take(&mut self.orders[which]);
        let took = self.all(order.len(), pace_ns, |at| order[at] as usize);
        self.orders[which] = order;
        took
    }

    /// Rounds until connections have reached their steady number.
    pub fn reach_steady_number(&mut self) {
        let round_ns = self.source.count() as u64 * self.pace_ns;
        let more = if self.new_per_cent > 0 { SILENCE_NS.div_ceil(round_ns) } else { 0 };
        for _ in 0..1 + more {
            self.round();
        }
    }

    /// Every frame once, with new flows in their places. An operation is a packet.
    pub fn round(&mut self) -> Took {
        self.source.renew();
        self.all(self.source.count(), self.pace_ns, |at| at)
    }

    fn all(&mut self, count: usize, pace_ns: u64, frame: impl Fn(usize) -> usize) -> Took {
        let mut took = Took::default();
        let handed = self.hands.len() * self.batch_len;
        for from in (0..count).step_by(handed) {
            let until = (from + handed).min(count);
            took.add(self.hand_over((from..until).map(&frame), pace_ns));
        }
        took
    }

    /// Parses frames into batches, and has the element take them one after the other.
    fn hand_over(&mut self, frames: impl Iterator<Item = usize>, pace_ns: u64) -> Took {
        let at = self.now;
        for (n, i) in frames.enumerate() {
            let Some(mut packet) = self.pool.packet(self.source.frame(i)) else { break };
            let batch = n / self.batch_len;
            let (meta, frame) = packet.parts_mut();
            // What comes in a batch has come when it is handed over.
            meta.received_at = Instant(at.0 + (batch * self.batch_len) as u64 * pace_ns);
            meta.in_port = LAN;
            if let Ok(layout) = perhop_wire::dissect(frame) {
                (meta.layout, meta.parsed) = (layout, true);
            }
            self.hands[batch].push(packet);
        }
        let allocated = crate::allocations();
        let start = machine::thread_time_ns();
        for batch in self.hands.iter_mut().filter(|batch| !batch.is_empty()) {
            let came = batch.len() as u64;
            self.driver.push(self.now, self.flows, 0, batch);
            if self.driver.next_wakeup().is_some_and(|at| at <= self.now) {
                self.driver.poll(self.now);
            }
            self.now = Instant(self.now.0 + came * pace_ns);
        }
        let ns = machine::thread_time_ns() - start;
        let allocations = crate::allocations().since(allocated).count;
        let mut took = Took { ns, ops: 0, allocations };
        let Some(end) = self.driver.element_mut::<End>(self.end) else { return took };
        for packet in end.packets.drain(..) {
            took.ops += 1;
            self.astray += u64::from(packet.meta().class != CLASS);
            packet.release();
        }
        took
    }

    /// Nothing comes any more, until nothing is known any more. An operation is a flow.
    pub fn age_out(&mut self) -> Took {
        let (before, until) = (self.counted().expired, Instant(self.now.0 + GONE_NS));
        let allocated = crate::allocations();
        let start = machine::thread_time_ns();
        while let Some(at) = self.driver.next_wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.driver.poll(self.now);
        }
        let ns = machine::thread_time_ns() - start;
        let allocations = crate::allocations().since(allocated).count;
        Took { ns, ops: self.counted().expired - before, allocations }
    }

    pub fn counted(&self) -> Counted {
        let counters = self.driver.element_ref::<Flows>(self.flows).map(Flows::flow_counters);
        counters.map_or_else(Counted::default, |c| Counted {
            hits: c.hits,
            created: c.created,
            expired: c.expired,
        })
    }

    /// Connections there are.
    pub fn connections(&self) -> u32 {
        let counted = self.counted();
        (counted.created - counted.expired) as u32
    }

    /// Packets that came out with a class that is not the filter's.
    pub fn astray(&self) -> u64 {
        self.astray
    }

    /// Bytes of memory that frames lie in.
    pub fn frame_bytes(&self) -> usize {
        self.source.bytes()
    }
}

/// All packets meet it.
fn filter() -> Rule {
    Rule {
        id: FilterId(0),
        tier: 0,
        priority: 0,
        name: Arc::from("all"),
        matches: Match {
            dst: "198.18.0.0/15".parse().ok(),
            protocol: Some(protocol::UDP),
            ..Match::default()
        },
        action: Action { class: Some(CLASS), ..Action::default() },
    }
}

/// Keeps what has come out until it is looked at.
struct End {
    packets: Vec<Packet>,
}

impl Default for End {
    fn default() -> Self {
        Self { packets: Vec::with_capacity(HANDED) }
    }
}

impl Element for End {
    fn type_name(&self) -> &'static str {
        "End"
    }
    fn push(&mut self, _cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        self.packets.extend(batch.drain());
    }
    fn held(&self) -> u64 {
        self.packets.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_come_are_known_and_go() {
        let mut table = Table::new(700, 0, 64, 5).unwrap();
        for cycle in 1..=2 {
            assert_eq!(table.establish().ops, 700);
            assert_eq!(table.connections(), 700);
            let before = table.counted();
            table.touch();
            let touched = table.counted().since(before);
            assert_eq!(touched, Counted { hits: 700, created: 0, expired: 0 }, "cycle {cycle}");
            assert_eq!(table.age_out().ops, 700);
            assert_eq!(table.connections(), 0);
        }
        assert_eq!(table.astray(), 0);
    }

    #[test]
    fn nothing_allocates_once_it_runs() {
        let mut table = Table::new(500, 0, 256, 1).unwrap();
        for _ in 0..2 {
            table.establish();
            table.age_out();
        }
        let took = [table.establish(), table.round(), table.age_out()];
        assert_eq!(took.map(|took| took.allocations), [0; 3]);
        assert!(took[1].ops >= 1_000);
    }
}
