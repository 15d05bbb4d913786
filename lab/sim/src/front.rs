//! A discipline of the data plane in front of a link: the element that graph text names, in a graph of its own.

use perhop_element::{BuildCx, Driver, NodeId, TimerId};
use perhop_elements::plumbing::FromPort;
use perhop_elements::schedule::Pump;
use perhop_graph::lang::{build, parse};
use perhop_packet::{Batch, DropReason, Packet, Pool, PortId};
use perhop_units::{Instant, Rate};
use std::collections::BTreeMap;

/// The running graph `FromPort(in) -> discipline -> ToPort(out)`.
pub(crate) struct Front {
    driver: Driver,
    entry: NodeId,
    discipline: NodeId,
    batch: Batch,
}

const IN: &str = "in";
const OUT: &str = "out";

impl Front {
    /// Builds the discipline `text`. Errors are messages.
    pub(crate) fn new(text: &str, pool: &Pool, seed: u64) -> Result<Self, String> {
        let text = format!("FromPort({IN}) -> discipline :: {text} -> ToPort({OUT});\n");
        let lines = |errors: Vec<perhop_graph::lang::GraphError>| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let mut cx = BuildCx::default();
        for (i, port) in [IN, OUT].into_iter().enumerate() {
            cx.ports.insert(port.to_owned(), PortId(i as u16));
        }
        let graph = parse(&text).map_err(lines)?;
        let built = build(&text, graph, &perhop_elements::registry(), &mut cx).map_err(lines)?;
        let mut driver = Driver::new(pool.clone(), seed);
        driver.set_port_count(2);
        let mut ids = Vec::with_capacity(built.nodes.len());
        for node in built.nodes {
            ids.push(driver.add(&node.name, node.element, node.outputs));
        }
        for edge in &built.graph.edges {
            driver
                .connect(ids[edge.from], edge.output, ids[edge.to], edge.input)
                .map_err(|e| e.to_string())?;
        }
        let entry = ids.iter().copied().find(|id| driver.element_ref::<FromPort>(*id).is_some());
        let (Some(entry), Some(discipline)) = (entry, driver.find("discipline")) else {
            return Err("the discipline has no input".to_owned());
        };
        Ok(Self { driver, entry, discipline, batch: Batch::new() })
    }

    /// A packet joins.
    pub(crate) fn offer(&mut self, now: Instant, mut packet: Packet) {
        packet.meta_mut().in_port = PortId(0);
        self.batch.push(packet);
        self.driver.push(now, self.entry, 0, &mut self.batch);
    }

    /// Runs timers due at `now`.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.driver.poll(now);
    }

    /// When it must be woken.
    pub(crate) fn next_wakeup(&mut self) -> Option<Instant> {
        self.driver.next_wakeup()
    }

    /// The line behind it has another rate.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        if let Some(pump) = self.driver.element_mut::<Pump>(self.discipline) {
            pump.set_rate(rate);
            self.driver.wake(now, self.discipline, TimerId::MAIN);
        }
    }

    /// The next packet that may go on the line.
    pub(crate) fn released(&mut self) -> Option<Packet> {
        let queue = self.driver.transmit_queue(PortId(1))?;
        if queue.is_empty() { None } else { queue.drain_first(1).next() }
    }

    /// Packets inside.
    pub(crate) fn held(&self) -> u64 {
        self.driver.ids().filter_map(|id| self.driver.element(id)).map(|e| e.held()).sum()
    }

    /// Counters of the discipline.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        let mut counters: Vec<(String, u64)> = Vec::new();
        self.driver.report(self.discipline, &mut counters);
        counters
    }

    /// What the discipline has dropped, by reason.
    pub(crate) fn drops(&self) -> BTreeMap<String, u64> {
        let counters = self.driver.ids().filter_map(|id| self.driver.counters(id));
        let mut drops = BTreeMap::new();
        for (reason, count) in counters.flat_map(|counters| counters.drops.iter().enumerate()) {
            if *count > 0 {
                let name = DropReason::name_of_index(reason).unwrap_or_default();
                *drops.entry(name).or_default() += count;
            }
        }
        drops
    }

    /// Between which lengths the discipline was since the last call, and, by name, its classes.
    pub(crate) fn length_ranges(&mut self, now: Instant) -> Vec<(String, [u64; 2])> {
        let Some(pump) = self.driver.element_mut::<Pump>(self.discipline) else { return Vec::new() };
        let mut ranges = vec![(String::new(), pump.length_range(now))];
        pump.class_length_ranges(now, &mut |class, range| ranges.push((class.to_owned(), range)));
        ranges
    }

    /// What is wrong with the books of its elements, if anything.
    pub(crate) fn check(&self) -> Option<String> {
        let errors = self.driver.check_conservation().err()?;
        Some(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}
