//! An arbitrary packet graph as a [`Forwarder`]: what an emulated link runs.

use crate::forwarder::Notice;
use crate::forwarder::{Forwarder, Step};
use crate::report::Row;
use perhop_element::{BuildCx, CounterSink, Driver, NodeId};
use perhop_elements::emulate::Link;
use perhop_elements::plumbing::FromPort;
use perhop_elements::queue::Wait;
use perhop_elements::schedule::Pump;
use perhop_graph::lang::{Built, build, parse};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

pub(crate) struct GraphForwarder {
    driver: Driver,
    /// Where each port's frames enter, by [`PortId`].
    entries: Vec<Option<NodeId>>,
    port_count: usize,
    /// Drops of elements that later graphs have put others in the place of, by name and index of the reason.
    past_drops: BTreeMap<String, Vec<u64>>,
}

impl GraphForwarder {
    /// Builds `text` for ports of these names, in the order of their [`PortId`]s. Errors are messages with positions.
    pub(crate) fn new(text: &str, ports: &[String], pool: Pool, seed: u64) -> Result<Self, Vec<String>> {
        let built = Self::build(text, ports)?;
        let mut driver = Driver::new(pool, seed);
        driver.set_port_count(ports.len());
        let mut forwarder =
            Self { driver, entries: Vec::new(), port_count: ports.len(), past_drops: BTreeMap::new() };
        forwarder.install(built);
        Ok(forwarder)
    }

    /// Checks and builds a graph without running it.
    pub(crate) fn build(text: &str, ports: &[String]) -> Result<Built, Vec<String>> {
        let mut cx = BuildCx::default();
        for (i, port) in ports.iter().enumerate() {
            cx.ports.insert(port.clone(), PortId(i as u16));
        }
        let strings = |errors: Vec<perhop_graph::lang::GraphError>| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let graph = parse(text).map_err(strings)?;
        build(text, graph, &perhop_elements::registry(), &mut cx).map_err(strings)
    }

    /// Puts a graph in the place of the running one; elements of the same name and type keep their state.
    fn install(&mut self, built: Built) {
        let old: Vec<(String, NodeId)> =
            self.driver.ids().map(|id| (self.driver.name(id).to_owned(), id)).collect();
        let mut new = Vec::with_capacity(built.nodes.len());
        for mut node in built.nodes {
            let before = old.iter().find(|(name, _)| *name == node.name).map(|(_, id)| *id);
            if let Some(before) = before {
                self.adopt(before, &mut node);
            }
            new.push(self.driver.add(&node.name, node.element, node.outputs));
        }
        for (name, id) in old {
            self.driver.drop_held(id, perhop_packet::DropReason::ClassRemoved);
            if let Some(counters) = self.driver.counters(id) {
                let past = self.past_drops.entry(name).or_default();
                past.resize(counters.drops.len().max(past.len()), 0);
                past.iter_mut().zip(counters.drops.iter()).for_each(|(past, new)| *past += new);
            }
            self.driver.remove(id);
        }
        for edge in &built.graph.edges {
            // Connections were checked when the graph was built.
            let connected = self.driver.connect(new[edge.from], edge.output, new[edge.to], edge.input);
            debug_assert!(connected.is_ok(), "{connected:?}");
        }
        self.entries = vec![None; self.port_count];
        for id in new {
            let port = self.driver.element_ref::<FromPort>(id).map(FromPort::port);
            if let Some(entry) = port.and_then(|p| self.entries.get_mut(p.index())) {
                *entry = Some(id);
            }
            // Whoever adopted packets must look at its timers.
            self.driver.wake(self.driver.now(), id, perhop_element::TimerId::MAIN);
        }
    }

    fn adopt(&mut self, before: NodeId, node: &mut perhop_graph::lang::BuiltNode) {
        let Some(old) = self.driver.element_dyn_mut(before) else { return };
        if old.type_name() != node.element.type_name() || old.version() != node.element.version() {
            return;
        }
        if let Some(state) = old.export_state()
            && let Err(state) = node.element.import_state(state)
        {
            // It does not fit; the old one takes it back and is emptied.
            let _ = old.import_state(state);
        }
    }

    /// The emulated links.
    fn links(&self) -> Vec<NodeId> {
        self.driver.ids().filter(|id| self.driver.element_ref::<Link>(*id).is_some()).collect()
    }

    /// Gauges of the lengths between which queues were since the last sample: `bytes_least` and `bytes_most` of a link, of
    /// a pump `backlog_least` and `backlog_most`, with `_CLASS` behind them for its classes.
    fn sample_lengths(&mut self, now: Instant, sink: &mut dyn CounterSink) {
        let ids: Vec<NodeId> = self.driver.ids().collect();
        for id in ids {
            let name = self.driver.name(id).to_owned();
            let mut both = |what: &str, class: &str, [least, most]: [u64; 2]| {
                sink.gauge(&format!("{name}.{what}_least{class}"), least);
                sink.gauge(&format!("{name}.{what}_most{class}"), most);
            };
            if let Some(link) = self.driver.element_mut::<Link>(id) {
                link.log_waits();
                both("bytes", "", link.length_range(now));
            } else if let Some(pump) = self.driver.element_mut::<Pump>(id) {
                both("backlog", "", pump.length_range(now));
                pump.class_length_ranges(now, &mut |class, range| {
                    both("backlog", &format!("_{class}"), range)
                });
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        element_rows(&self.driver)
    }
}

/// Elements that hold nothing and count what their neighbours count.
const UNRECORDED: [&str; 2] = ["FromPort", "ToPort"];

/// Counters of one element, under `element.counter`. Drops by reason are told apart from it: they go on over a change of
/// the graph.
struct Named<'a> {
    name: &'a str,
    sink: &'a mut dyn CounterSink,
}

impl CounterSink for Named<'_> {
    fn counter(&mut self, name: &str, value: u64) {
        if name.strip_prefix("dropped_").is_some_and(is_reason) {
            return;
        }
        self.sink.counter(&format!("{}.{name}", self.name), value);
    }
}

/// Whether it is the name of a drop reason.
pub(crate) fn is_reason(name: &str) -> bool {
    (0..).map_while(DropReason::name_of_index).any(|reason| reason == name)
}

/// What every element counts.
pub(crate) fn element_rows(driver: &Driver) -> Vec<Row> {
    driver.ids().map(|id| element_row(driver, id, true)).collect()
}

/// Counters of an element, and which of them are gauges.
#[derive(Default)]
struct Whole {
    counters: BTreeMap<String, u64>,
    gauges: Vec<String>,
}

impl CounterSink for Whole {
    fn counter(&mut self, name: &str, value: u64) {
        self.counters.insert(name.to_owned(), value);
    }
    fn gauge(&mut self, name: &str, value: u64) {
        self.gauges.push(name.to_owned());
        self.counter(name, value);
    }
}

/// What an element counts: with all of its own counters, or only with what the driver counts of every element.
pub(crate) fn element_row(driver: &Driver, id: NodeId, whole: bool) -> Row {
    let mut row = Row::new("element", driver.name(id));
    let Some(element) = driver.element(id) else { return row };
    row.facts.insert("type".into(), element.type_name().into());
    if whole {
        let mut all = Whole::default();
        driver.report(id, &mut all);
        row.counters = all.counters;
        row.gauges.extend(all.gauges);
    } else if let Some(c) = driver.counters(id) {
        for (name, value) in [
            ("received", c.received),
            ("made", c.made),
            ("emitted", c.emitted),
            ("consumed", c.consumed),
            ("dropped", c.dropped),
            ("held", element.held()),
        ] {
            row.counters.insert(name.to_owned(), value);
        }
        for (index, n) in c.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
            let name = DropReason::name_of_index(index);
            row.counters.extend(name.map(|name| (format!("dropped_{name}"), *n)));
        }
    }
    row
}

impl Forwarder for GraphForwarder {
    const BY_STAMP: bool = true;
    type Job = Option<Built>;
    const PRETEND: Duration = Duration::from_secs(1);

    fn pool(&self) -> &Pool {
        self.driver.pool()
    }

    fn receive(&mut self, _now: Instant, port: PortId, batch: &mut Batch) {
        let Some(entry) = self.entries.get(port.index()).copied().flatten() else {
            batch.release_all();
            return;
        };
        let mut one = Batch::new();
        for packet in batch.drain() {
            let at = packet.meta().received_at.max(self.driver.now());
            while let Some(due) = self.driver.next_wakeup().filter(|due| *due <= at) {
                self.driver.poll(due.max(self.driver.now()));
            }
            one.push(packet);
            self.driver.push(at, entry, 0, &mut one);
            one.release_all();
        }
    }

    fn poll(&mut self, now: Instant) -> usize {
        // Time does not go back behind what was received.
        let now = now.max(self.driver.now());
        self.driver.poll(now)
    }

    fn next_wakeup(&mut self) -> Option<Instant> {
        self.driver.next_wakeup()
    }

    fn transmit_queue(&mut self, port: PortId) -> Option<&mut Batch> {
        self.driver.transmit_queue(port)
    }

    fn local_queue(&mut self) -> &mut Batch {
        self.driver.local_queue()
    }

    fn set_port_room(&mut self, _now: Instant, port: PortId, packets: u32) {
        self.driver.set_port_room(port, packets);
    }

    fn sent_by_kernel(&mut self, _now: Instant, _port: PortId, _packets: u64, _bytes: u64) {}
    fn port_down(&mut self, _now: Instant, _port: PortId) {}
    fn port_up(&mut self, _now: Instant, _port: PortId) {}

    fn run(&mut self, _now: Instant, job: &mut Option<Built>) -> Step {
        if let Some(built) = job.take() {
            self.install(built);
        }
        Step::Done
    }

    fn finished(&mut self, _now: Instant, _job: Option<Built>) {}
    /// Ports of an emulated link are not opened again; what is closed is closed here.
    fn notice(&mut self, _notice: Notice) {}

    fn turn_ended(&mut self, _now: Instant) -> bool {
        true
    }

    fn notices_dropped(&self) -> u64 {
        0
    }

    fn sample(&mut self, now: Instant, sink: &mut dyn CounterSink) {
        self.sample_lengths(now.max(self.driver.now()), sink);
        for id in self.driver.ids() {
            let Some(element) = self.driver.element(id) else { continue };
            if UNRECORDED.contains(&element.type_name()) {
                continue;
            }
            let name = self.driver.name(id);
            self.driver.report(id, &mut Named { name, sink });
            let past = self.past_drops.get(name).map_or(&[][..], Vec::as_slice);
            let drops = self.driver.counters(id).map(|counters| counters.drops.iter()).into_iter().flatten();
            for (index, now) in drops.enumerate() {
                let total = now + past.get(index).copied().unwrap_or(0);
                if let (1.., Some(reason)) = (total, DropReason::name_of_index(index)) {
                    sink.counter(&format!("{name}.dropped_{reason}"), total);
                }
            }
        }
    }

    fn take_waits(&mut self) -> Vec<(String, Vec<Wait>)> {
        let links = self.links().into_iter();
        let taken = links.filter_map(|id| {
            let name = self.driver.name(id).to_owned();
            Some((name, self.driver.element_mut::<Link>(id)?.take_waits()))
        });
        taken.collect()
    }
}
