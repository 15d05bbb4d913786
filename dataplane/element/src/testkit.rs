//! Scripts in virtual time: build a small graph, push frames at given times, look at what comes out.

use crate::{Arg, Args, Cx, Driver, Element, NodeId, PortIndex};
use perhop_packet::{Batch, Packet, Pool};
use perhop_units::{Duration, Instant};
use std::any::Any;

/// Arguments as the graph parser gives them: `key = value` or bare, separated by commas.
pub fn args(text: &str) -> Args {
    let list = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| {
        let offset = part.as_ptr() as usize - text.as_ptr() as usize;
        match part.split_once('=') {
            Some((k, v)) => Arg { key: Some(k.trim().to_owned()), value: v.trim().to_owned(), offset },
            None => Arg { key: None, value: part.trim().to_owned(), offset },
        }
    });
    Args { list: list.collect(), offset: 0 }
}

/// Collects packets with their arrival time, for assertions.
#[derive(Debug, Default)]
pub struct Sink {
    /// Arrival time and packet, in order of arrival.
    pub arrived: Vec<(Instant, Packet)>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        for (_, packet) in self.arrived.drain(..) {
            packet.release();
        }
    }
}

impl Element for Sink {
    fn type_name(&self) -> &'static str {
        "TestSink"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        self.arrived.extend(batch.drain().map(|p| (cx.now(), p)));
    }
    fn held(&self) -> u64 {
        self.arrived.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One element under test with a [`Sink`] on every output, in virtual time. Conservation is checked after every step:
/// what is pushed, and every time that the clock stops at.
pub struct Bench {
    /// The driver.
    pub driver: Driver,
    /// The element under test.
    pub node: NodeId,
    /// One sink an output.
    pub sinks: Vec<NodeId>,
    now: Instant,
}

impl Bench {
    /// Puts `element` on the bench with `outputs` sinks; 4,096 buffers, seed 1.
    pub fn new(element: impl Element, outputs: usize) -> Self {
        Self::with_seed(Box::new(element), outputs, 1)
    }

    /// As [`Bench::new`] with a seed.
    pub fn with_seed(element: Box<dyn Element>, outputs: usize, seed: u64) -> Self {
        let mut driver = Driver::new(Pool::new(4096), seed);
        driver.set_port_count(4);
        let node = driver.add("dut", element, outputs);
        let sinks: Vec<_> =
            (0..outputs).map(|i| driver.add(&format!("sink{i}"), Box::new(Sink::default()), 0)).collect();
        for (i, sink) in sinks.iter().enumerate() {
            driver.connect(node, i as PortIndex, *sink, 0).expect("fresh outputs are free");
        }
        Self { driver, node, sinks, now: Instant::ZERO }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A packet with `frame`, parsed metadata and `received_at` = now.
    pub fn packet(&self, frame: &[u8]) -> Packet {
        let mut packet = self.driver.pool().packet(frame).expect("the bench's pool is large");
        let meta = packet.meta_mut();
        meta.received_at = self.now;
        if let Ok(layout) = perhop_wire::dissect(frame) {
            meta.layout = layout;
            meta.parsed = true;
        }
        packet
    }

    /// Pushes one frame into input 0 now.
    pub fn push(&mut self, frame: &[u8]) {
        let packet = self.packet(frame);
        self.push_packet(0, packet);
    }

    /// Pushes one packet into `input` now.
    pub fn push_packet(&mut self, input: PortIndex, packet: Packet) {
        let mut batch = Batch::new();
        batch.push(packet);
        self.push_batch(input, &mut batch);
    }

    /// Pushes all packets of `batch` into `input` now, at once.
    pub fn push_batch(&mut self, input: PortIndex, batch: &mut Batch) {
        self.driver.push(self.now, self.node, input, batch);
        self.check();
    }

    /// Runs the clock to `at`, waking elements at their times on the way.
    pub fn run_until(&mut self, at: Instant) {
        while let Some(t) = self.driver.next_wakeup().filter(|t| *t <= at) {
            self.now = self.now.max(t);
            self.driver.poll(self.now);
            self.check();
        }
        self.now = self.now.max(at);
    }

    /// Runs the clock by `dt`.
    pub fn run_for(&mut self, dt: Duration) {
        self.run_until(self.now + dt);
    }

    /// Arrival times and frames at output `i` so far.
    pub fn arrived(&self, i: usize) -> Vec<(Instant, Vec<u8>)> {
        self.sink(i).arrived.iter().map(|(t, p)| (*t, p.frame().to_vec())).collect()
    }

    /// The sink at output `i`.
    pub fn sink(&self, i: usize) -> &Sink {
        self.driver.element_ref(self.sinks[i]).expect("sinks are made in new()")
    }

    /// The element under test as its type.
    pub fn element<T: Element>(&mut self) -> &mut T {
        self.driver.element_mut(self.node).expect("the element under test has this type")
    }

    fn check(&self) {
        if let Err(errors) = self.driver.check_conservation() {
            panic!("conservation: {errors:?}");
        }
    }
}
