//! What elements cost and how long packets take, as rows.

use crate::report::Row;
use perhop_element::{
    CallCost, CostConfig, DelaySample, DelayTrace, Driver, ElementCost, Histogram, NodeId, TraceConfig,
};
use perhop_io::clock;
use std::collections::BTreeMap;

/// How a router takes the measure of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// One call of an element in so many is timed, on average; 1: all.
    pub calls: u32,
    /// One packet in so many is traced from its reception to the port it leaves by, on average; 1: all.
    pub packets: u32,
    /// Traced packets that are kept: the latest.
    pub keep: usize,
}

impl Default for Accounting {
    /// One call in 128, one packet in 256, the latest 65,536 of these.
    fn default() -> Self {
        Self { calls: CostConfig::EVERY, packets: TraceConfig::EVERY, keep: TraceConfig::KEEP }
    }
}

impl Accounting {
    /// Begins to take it, with the machine's clock.
    pub fn start(self, driver: &mut Driver) {
        let clock = || clock::monotonic().as_nanos();
        driver.set_costs(Some(CostConfig::calibrated(clock, self.calls)));
        driver.set_trace(Some(TraceConfig { clock, every: self.packets, keep: self.keep }));
    }
}

/// What one element cost, as it was copied on the packet thread.
pub(crate) struct RawCost {
    name: String,
    type_name: &'static str,
    cost: ElementCost,
}

impl RawCost {
    /// `None` for an element whose costs are not taken.
    pub(crate) fn of(driver: &Driver, id: NodeId) -> Option<Self> {
        let cost = driver.cost(id)?.clone();
        let type_name = driver.element(id)?.type_name();
        Some(Self { name: driver.name(id).to_owned(), type_name, cost })
    }

    fn row(&self, kind: &str, part: &str) -> Row {
        let mut row = Row::new(kind, &format!("{}{part}", self.name));
        row.facts.insert("type".into(), self.type_name.into());
        row
    }

    /// Row of kind `cost`. Times are in ps, because many elements take less than some ns a packet.
    pub(crate) fn cost_row(&self) -> Row {
        let ElementCost { push, wake } = &self.cost;
        let mut row = self.row("cost", "");
        row.counters = [
            ("packets", push.packets),
            ("wakes", wake.calls),
            ("sampled_calls", push.sampled_calls + wake.sampled_calls),
            ("time_us", (self.cost.estimated_ns() / 1e3) as u64),
            ("mean_ps", (self.cost.ns_per_packet() * 1e3) as u64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (name, call) in [("push", push), ("wake", wake)] {
            quantiles(name, call, &mut row.counters);
        }
        row
    }

    /// Rows of kind `histogram`: of pushes and of wakes, if any was timed.
    pub(crate) fn histogram_rows(&self) -> impl Iterator<Item = Row> + '_ {
        let calls = [(".push", &self.cost.push), (".wake", &self.cost.wake)];
        calls.into_iter().filter(|(_, call)| call.histogram.count() > 0).map(|(part, call)| {
            let mut row = self.row("histogram", part);
            fill(&call.histogram, "ps", &mut row);
            row
        })
    }
}

fn quantiles(name: &str, call: &CallCost, counters: &mut BTreeMap<String, u64>) {
    let h = &call.histogram;
    for (what, value) in [("p50", h.quantile(500)), ("p99", h.quantile(990)), ("max", h.max())] {
        counters.insert(format!("{name}_{what}_ps"), value);
    }
}

/// A counter for each bucket that holds something, named after the largest value in it, in order.
fn fill(histogram: &Histogram, unit: &str, row: &mut Row) {
    row.facts.insert("unit".into(), unit.into());
    row.counters = histogram.filled().map(|(upper, n)| (format!("upto_{upper:014}"), n)).collect();
}

/// What a trace says, as it was copied on the packet thread.
#[derive(Default)]
pub(crate) struct RawTrace {
    pub(crate) samples: Vec<DelaySample>,
    delays: Option<Histogram>,
}

impl RawTrace {
    /// With room for the samples wanted.
    pub(crate) fn new(samples: usize) -> Self {
        Self { samples: Vec::with_capacity(samples), delays: None }
    }

    /// Whether packets are traced at all.
    pub(crate) fn is_there(&self) -> bool {
        self.delays.is_some()
    }

    pub(crate) fn take_delays(&mut self, trace: &DelayTrace) {
        self.delays = Some(trace.delays().clone());
    }

    /// Row of kind `histogram` over all traced packets.
    pub(crate) fn histogram_row(&self) -> Option<Row> {
        let delays = self.delays.as_ref().filter(|d| d.count() > 0)?;
        let mut row = Row::new("histogram", "delay");
        fill(delays, "ns", &mut row);
        Some(row)
    }

    /// Rows of kind `delay`, one a packet, in order of departure.
    pub(crate) fn rows<'a>(&'a self, ports: &'a [String]) -> impl Iterator<Item = Row> + 'a {
        self.samples.iter().map(|s| {
            let mut row = Row::new("delay", ports.get(s.port.index()).map_or("", String::as_str));
            row.id = s.seq;
            row.counters = [
                ("received_ns", s.received_at.as_nanos()),
                ("delay_ns", s.delay_ns),
                ("bytes", s.len.into()),
                ("queue_packets", s.queue.into()),
                ("burst_packets", s.burst.into()),
                ("ahead_packets", s.ahead.into()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            row
        })
    }
}
