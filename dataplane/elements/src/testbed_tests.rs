//! One element in virtual time whose packets are noted and let go, for tests that send more than a pool holds.

use crate::plumbing::UdpFrame;
use crate::plumbing::adapter::as_any;
use perhop_element::testkit::args;
use perhop_element::{BuildCx, Cx, Driver, Element, NodeId, PortIndex};
use perhop_packet::{Batch, ClassId, Pool};
use perhop_units::{Duration, Instant};

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) at: Instant,
    /// Since it was pushed in.
    pub(crate) waited: Duration,
    pub(crate) class: ClassId,
    /// Frame bytes.
    pub(crate) len: u64,
    pub(crate) tos: u8,
    /// Source port.
    pub(crate) flow: u16,
}

#[derive(Default)]
struct Out(Vec<Gone>);

impl Element for Out {
    fn type_name(&self) -> &'static str {
        "TestOut"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            let meta = packet.meta();
            self.0.push(Gone {
                at: cx.now(),
                waited: cx.now().since(meta.received_at),
                class: meta.class,
                len: packet.len() as u64,
                tos: meta.layout.tos,
                flow: meta.layout.src_port,
            });
            cx.consume(packet);
        }
    }
    as_any!();
}

/// The element, its clock, and what has left it. Ends with a check of conservation.
pub(crate) struct Line {
    driver: Driver,
    node: NodeId,
    out: NodeId,
    now: Instant,
    names: BuildCx,
}

impl Line {
    /// An element of this type from graph text.
    pub(crate) fn new(type_name: &str, text: &str, seed: u64) -> Self {
        let types = crate::types();
        let build = types.iter().find(|t| t.name == type_name).expect("registered").build;
        let mut names = BuildCx::default();
        let element = build(&args(text), &mut names).unwrap_or_else(|e| panic!("{e:?}"));
        let mut driver = Driver::new(Pool::new(16_384), seed);
        let node = driver.add("dut", element, 1);
        let out = driver.add("out", Box::new(Out::default()), 0);
        driver.connect(node, 0, out, 0).expect("free");
        Self { driver, node, out, now: Instant::ZERO, names }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The number of a class that the text names.
    pub(crate) fn class(&mut self, name: &str) -> ClassId {
        self.names.class(name)
    }

    /// Pushes a packet of a class (none: "") in now.
    pub(crate) fn push(&mut self, class: &str, frame: &UdpFrame) {
        let class = if class.is_empty() { ClassId::NONE } else { self.class(class) };
        let frame = frame.to_vec();
        let mut packet = self.driver.pool().packet(&frame).expect("queues are short");
        let meta = packet.meta_mut();
        meta.layout = perhop_wire::dissect(&frame).expect("UDP");
        meta.parsed = true;
        meta.received_at = self.now;
        meta.class = class;
        let mut batch = Batch::new();
        batch.push(packet);
        self.driver.push(self.now, self.node, 0, &mut batch);
    }

    /// The same of a plain frame of `len` bytes, at least 60.
    pub(crate) fn send(&mut self, class: &str, len: u16) {
        self.push(class, &UdpFrame { ip_len: len - 14, ..UdpFrame::default() });
    }

    pub(crate) fn run_until(&mut self, at: Instant) {
        while let Some(next) = self.driver.next_wakeup().filter(|next| *next <= at) {
            self.now = self.now.max(next);
            self.driver.poll(self.now);
        }
        self.now = self.now.max(at);
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// What has left, in order.
    pub(crate) fn gone(&self) -> &[Gone] {
        &self.driver.element_ref::<Out>(self.out).expect("it is one").0
    }

    pub(crate) fn held(&self) -> u64 {
        self.driver.element(self.node).expect("it is there").held()
    }

    pub(crate) fn drops(&self, reason: perhop_packet::DropReason) -> u64 {
        self.driver.counters(self.node).expect("it is there").drops[reason.index()]
    }

    /// Puts another element of this kind in its place, which adopts its state, and wakes it.
    pub(crate) fn replace(&mut self, type_name: &str, text: &str) {
        let types = crate::types();
        let build = types.iter().find(|t| t.name == type_name).expect("registered").build;
        let mut next = build(&args(text), &mut self.names).unwrap_or_else(|e| panic!("{e:?}"));
        let old = self.driver.element_dyn_mut(self.node).expect("it is there");
        let state = old.export_state().expect("it has state");
        assert!(next.import_state(state).is_ok(), "it adopts the state");
        self.driver.replace(self.node, next);
        self.driver.wake(self.now, self.node, perhop_element::TimerId::MAIN);
    }

    /// A counter or gauge.
    pub(crate) fn report(&self, name: &str) -> u64 {
        let mut all: Vec<(String, u64)> = vec![];
        self.driver.report(self.node, &mut all);
        all.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} in {all:?}")).1
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let whole = self.driver.check_conservation();
        self.driver.drop_held(self.node, perhop_packet::DropReason::GraphReplaced);
        if !std::thread::panicking() {
            assert!(whole.is_ok(), "{whole:?}");
        }
    }
}
