//! Counting without holding up packets: a survey is taken in slices, one between two batches.
//!
//! A slice ends with the unit (a port, an element, a few classes) after which its time is spent. Surveys and changes are
//! done one after the other, never interleaved, so a survey sees one generation of the router. Packets pass between its
//! slices: each row is of one instant, and different rows are of instants as far apart as the survey took. A sum over rows
//! may therefore differ from a total that another row gives by what passed meanwhile; a later survey never shows less of a
//! counter than an earlier one.

use crate::accounting::{RawCost, RawTrace};
use crate::forwarder::Step;
use crate::graph_forwarder::element_row;
use crate::report::Row;
use crate::router_forwarder::{Raw, RawAbr, RawClass, RouterForwarder, Wanted};
use perhop_abr::FlowState;
use perhop_element::{CounterSink, Driver, NodeId};
use perhop_elements::schedule::{Egress, NodeIndex};
use perhop_flows::{FlowInfo, FlowTuple, Flows};
use perhop_packet::PortId;
use perhop_units::{Duration, Instant};
use perhop_wire::protocol;
use std::collections::BTreeMap;

/// Time of a slice, to which the unit that ends it adds some µs: together at most 20 µs.
pub(crate) const SLICE: Duration = Duration(12_000);
/// Classes, profiles or connections of one unit.
const UNIT: usize = 16;
/// Places of the TCP rate control's table looked at in one unit; it ends with the first that has flows.
const PLACES: u32 = 8;
/// Traced packets of one unit: they are copied as they are.
const SAMPLES: u64 = 128;
/// Classes that are held in one piece, so that none is copied when there are many.
const PIECE: usize = 256;
/// An element of more classes, profiles or contracts than this is counted without their names and sums.
const LISTED: usize = 16;
/// Slots of a tree that may hold classes.
const SLOTS: u32 = 1 << 20;

/// What is counted, and what becomes of it.
pub(crate) trait Survey<F>: Send {
    /// Units of work until the slice is `spent`.
    fn slice(&mut self, forwarder: &mut F, spent: &mut dyn FnMut() -> bool) -> Step;
    /// All is counted, the rows of ports and machine too; `at` is the end.
    fn finish(self: Box<Self>, at: Instant, rows: Vec<Row>, forwarder: &mut F);
}

/// Takes counters, and gauges only where these are wanted too.
struct Columns<'a> {
    into: &'a mut BTreeMap<String, u64>,
    /// Counters left out: sums over what comes and goes.
    without: &'a [&'a str],
}

impl CounterSink for Columns<'_> {
    fn counter(&mut self, name: &str, value: u64) {
        if !self.without.iter().any(|prefix| name.starts_with(prefix)) {
            self.into.insert(name.to_owned(), value);
        }
    }
    fn gauge(&mut self, _name: &str, _value: u64) {}
}

/// What an element counts, without gauges and without counters of classes, profiles and contracts, which have rows of
/// their own: what is never less than it was, as long as the element is there.
fn monotonic_row(driver: &Driver, id: NodeId, is_long: bool, without: &[&str]) -> Row {
    let mut row = element_row(driver, id, false);
    row.counters.remove("held");
    if !is_long {
        driver.report(id, &mut Columns { into: &mut row.counters, without });
    }
    row
}

/// What of a router to count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) elements: bool,
    pub(crate) classes: bool,
    pub(crate) conditioned: bool,
    /// Connections to look at.
    pub(crate) connections: usize,
    /// Policies of the TCP rate control.
    pub(crate) policies: bool,
    /// Flows of the TCP rate control.
    pub(crate) abr_flows: usize,
    /// What elements cost.
    pub(crate) costs: bool,
    /// The histogram of traced packets, and so many of the latest themselves.
    pub(crate) trace: Option<usize>,
    /// Elements with all they say of themselves, not only with what is monotonic.
    pub(crate) gauges: bool,
}

/// Where a survey of a router stands.
pub(crate) struct Cursor {
    wanted: Wanted,
    left: Scope,
    element: u32,
    port: u16,
    /// Next slot of the port's tree, classes found in it, and how many there were.
    class: (u32, u32, u32),
    conditioned: usize,
    flow: u32,
    looked_at: usize,
    /// Next policy, and next place in the table of the TCP rate control.
    policy: usize,
    place: u32,
    cost: u32,
    /// Numbers of the traced packets that are still to be taken.
    samples: Option<std::ops::Range<u64>>,
    pub(crate) raw: Raw,
    pub(crate) flows: Vec<FlowInfo>,
}

impl Cursor {
    pub(crate) fn new(scope: Scope, wanted: Wanted) -> Self {
        // Allocated here, on the thread that asks.
        let raw = Raw {
            profiles: Vec::with_capacity(wanted.profiles.len()),
            slas: Vec::with_capacity(wanted.slas.len()),
            realtime: Vec::with_capacity(wanted.realtime.len()),
            trace: RawTrace::new(scope.trace.unwrap_or(0)),
            abr: RawAbr {
                policies: Vec::with_capacity(wanted.abr.len()),
                flows: Vec::with_capacity(scope.abr_flows + 1),
            },
            ..Raw::default()
        };
        let flows = Vec::with_capacity(2 * scope.connections);
        Self {
            wanted,
            left: scope,
            element: 0,
            port: 0,
            class: (0, 0, 0),
            conditioned: 0,
            flow: 0,
            looked_at: 0,
            policy: 0,
            place: 0,
            cost: 0,
            samples: None,
            raw,
            flows,
        }
    }

    /// Whether connections or controlled flows are left that were not looked at. Both are 0 when the end was reached.
    pub(crate) fn has_more(&self) -> bool {
        self.left.connections > 0 || self.left.abr_flows > 0
    }

    pub(crate) fn slice(
        &mut self,
        now: Instant,
        forwarder: &RouterForwarder,
        spent: &mut dyn FnMut() -> bool,
    ) -> Step {
        loop {
            if self.left.elements {
                self.left.elements = self.an_element(forwarder);
            } else if self.left.classes {
                self.left.classes = self.some_classes(forwarder);
            } else if self.left.conditioned {
                self.left.conditioned = self.some_conditioned(forwarder);
            } else if self.left.connections > self.looked_at {
                self.some_flows(now, forwarder);
            } else if self.left.policies {
                self.left.policies = self.some_policies(forwarder);
            } else if self.left.abr_flows > self.raw.abr.flows.len() {
                self.some_abr_flows(now, forwarder);
            } else if self.left.costs {
                self.left.costs = self.a_cost(forwarder);
            } else if let Some(most) = self.left.trace {
                if !self.some_samples(forwarder, most) {
                    self.left.trace = None;
                }
            } else {
                return Step::Done;
            }
            if spent() {
                return Step::More;
            }
        }
    }

    /// `false` when there is no other.
    fn an_element(&mut self, forwarder: &RouterForwarder) -> bool {
        let driver = forwarder.worker().driver();
        let Some(id) = driver.ids().find(|id| id.0 >= self.element) else { return false };
        self.element = id.0 + 1;
        let many = self.wanted.profiles.len() + self.wanted.slas.len() + self.wanted.realtime.len();
        let is_long = match driver.element_ref::<Egress>(id) {
            Some(egress) => egress.tree().classes() as usize > LISTED,
            None => many > LISTED && forwarder.is_conditioner(id),
        };
        let node = NodeId(id.0);
        self.raw.elements.push(if self.left.gauges {
            element_row(driver, node, !is_long)
        } else if driver.element_ref::<Egress>(id).is_some() {
            monotonic_row(driver, node, is_long, &["class."])
        } else if forwarder.is_conditioner(id) {
            monotonic_row(driver, node, is_long, &["profile_", "sla_", "class_"])
        } else {
            monotonic_row(driver, node, is_long, &[])
        });
        true
    }

    /// `false` when there is no other.
    fn a_cost(&mut self, forwarder: &RouterForwarder) -> bool {
        let driver = forwarder.worker().driver();
        let Some(id) = driver.ids().find(|id| id.0 >= self.cost) else { return false };
        self.cost = id.0 + 1;
        self.raw.costs.extend(RawCost::of(driver, id));
        true
    }

    /// `false` when there are no more.
    fn some_samples(&mut self, forwarder: &RouterForwarder, most: usize) -> bool {
        let Some(trace) = forwarder.worker().driver().trace() else { return false };
        let Some(left) = &mut self.samples else {
            self.raw.trace.take_delays(trace);
            let end = trace.departed();
            self.samples = Some(end.saturating_sub(most as u64)..end);
            return true;
        };
        let unit = left.start..(left.start + SAMPLES).min(left.end);
        left.start = unit.end;
        // Those that packets have meanwhile overwritten are passed over.
        self.raw.trace.samples.extend(unit.filter_map(|seq| trace.sample(seq)));
        !left.is_empty()
    }

    fn some_classes(&mut self, forwarder: &RouterForwarder) -> bool {
        let port = PortId(self.port);
        if port.index() >= forwarder.port_count() {
            return false;
        }
        let mine = forwarder.worker().egress(port).filter(|egress| !egress.is_away());
        let Some(egress) = mine else { return self.next_port() };
        let tree = egress.tree();
        let (mut slot, mut found, mut total) = self.class;
        if slot == 0 {
            total = tree.classes();
        }
        let end = (slot + UNIT as u32).min(SLOTS);
        while slot < end && found < total {
            if let Some(c) = tree.class(NodeIndex(slot)) {
                found += 1;
                self.raw.push(
                    RawClass {
                        port,
                        leaf: c.index.0,
                        counters: c.counters,
                        backlog: (c.backlog_packets, c.backlog_bytes),
                        draining: c.draining,
                        throttled: c.throttled,
                        bounds: [c.params.guarantee, c.params.ceiling].map(|bound| bound.map(|b| b.rate)),
                    },
                    PIECE,
                );
            }
            slot += 1;
        }
        self.class = (slot, found, total);
        // One that was freed before it was found leaves `found` short.
        if found >= total || slot >= SLOTS { self.next_port() } else { true }
    }

    fn next_port(&mut self) -> bool {
        self.port += 1;
        self.class = (0, 0, 0);
        true
    }

    fn some_conditioned(&mut self, forwarder: &RouterForwarder) -> bool {
        let Some(c) = forwarder.worker().conditioner() else { return false };
        let (raw, wanted) = (&mut self.raw, &self.wanted);
        let (slas, profiles) = (wanted.slas.len(), wanted.profiles.len());
        let total = slas + profiles + wanted.realtime.len();
        let end = (self.conditioned + UNIT).min(total);
        for i in self.conditioned..end {
            if let Some(id) = wanted.slas.get(i) {
                raw.slas.extend(c.sla_counters(*id).map(|n| (*id, n)));
            } else if let Some(id) = wanted.profiles.get(i - slas) {
                raw.profiles.extend(c.profile_counters(*id).map(|n| (*id, n)));
            } else if let Some(id) = wanted.realtime.get(i - slas - profiles) {
                raw.realtime.extend(c.class_counters(*id).map(|n| (*id, n)));
            }
        }
        self.conditioned = end;
        if end == total {
            raw.admission = forwarder.worker().flows().and_then(Flows::admission);
        }
        end < total
    }

    /// `false` when there are no more.
    fn some_policies(&mut self, forwarder: &RouterForwarder) -> bool {
        let Some(abr) = forwarder.worker().abr() else { return false };
        let end = (self.policy + UNIT).min(self.wanted.abr.len());
        let unit = &self.wanted.abr[self.policy..end];
        self.raw.abr.policies.extend(unit.iter().map(|id| (*id, abr.policy_counters(*id))));
        self.policy = end;
        end < self.wanted.abr.len()
    }

    /// Looking up a flow's addresses costs more than finding it.
    fn some_abr_flows(&mut self, now: Instant, forwarder: &RouterForwarder) {
        let Some(abr) = forwarder.worker().abr().filter(|abr| self.place < abr.slots()) else {
            self.left.abr_flows = 0;
            return;
        };
        let flows = forwarder.worker().flows();
        for _ in 0..PLACES.min(abr.slots() - self.place) {
            let found = self.raw.abr.flows.len();
            let here = abr.flows(self.place..self.place + 1);
            self.raw.abr.flows.extend(here.map(|f| (f, flows.and_then(|flows| tuple(flows, now, &f)))));
            self.place += 1;
            if self.raw.abr.flows.len() > found {
                break;
            }
        }
    }

    fn some_flows(&mut self, now: Instant, forwarder: &RouterForwarder) {
        let Some(flows) = forwarder.worker().flows() else {
            self.left.connections = 0;
            return;
        };
        let n = UNIT.min(self.left.connections - self.looked_at);
        let (rows, next) = flows.snapshot(now, self.flow, n);
        // Both directions of a connection stand together.
        self.looked_at += rows.chunk_by(|a, b| a.connection == b.connection).count();
        self.flows.extend(rows);
        match next {
            Some(next) => self.flow = next,
            None => self.left.connections = 0,
        }
    }
}

/// Addresses of a flow, as long as its connection is known.
fn tuple(flows: &Flows, now: Instant, f: &FlowState) -> Option<FlowTuple> {
    let (rows, _) = flows.snapshot(now, f.connection, 1);
    let here = |row: &&FlowInfo| row.connection == f.connection && row.forward != f.reverse;
    rows.iter().find(here).map(|row| row.flow).filter(|tuple| tuple.protocol == protocol::TCP)
}
