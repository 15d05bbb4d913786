//! What a host's rate control has to show, in the rows of `perhop show`.

use super::machine::HostAbr;
use crate::report::Row;
use crate::show::abr::{count_policy, flow_row};
use perhop_element::CounterSink;
use perhop_flows::FlowTuple;
use perhop_model::Kind;
use perhop_units::Instant;
use perhop_wire::protocol;
use serde::{Deserialize, Serialize};

/// Most flows of a page.
const MOST_FLOWS: usize = 10_000;

/// What there is at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPage {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// One row of kind `host`, then the policies (`abr_policy`), then at most 10,000 flows (`abr`).
    pub rows: Vec<Row>,
}

struct Counters<'a>(&'a mut Row);

impl CounterSink for Counters<'_> {
    fn counter(&mut self, name: &str, value: u64) {
        self.0.counters.insert(name.to_owned(), value);
    }
    fn gauge(&mut self, name: &str, value: u64) {
        self.counter(name, value);
    }
}

impl HostPage {
    /// The page of a machine whose queue has this number.
    pub(super) fn of(machine: &HostAbr, queue: u16, now: Instant) -> Self {
        let mut rows = vec![host_row(machine, queue)];
        for (index, policy) in machine.policies().iter().enumerate() {
            let (counters, rate) = machine.policy_counters(index);
            let mut row = Row::new(Kind::AbrPolicy.name(), policy.name.as_str());
            count_policy(&mut row, &counters);
            row.counters.insert("rate_bps".to_owned(), rate.0);
            rows.push(row);
        }
        rows.extend(machine.flows().take(MOST_FLOWS).map(|flow| {
            let policy = machine.policies().get(flow.policy.0 as usize).map_or("", |p| p.name.as_str());
            let tuple = flow.ends.map(|(from, to)| FlowTuple {
                domain: 0,
                vlan: 0,
                protocol: protocol::TCP,
                src: from.ip(),
                src_port: from.port(),
                dst: to.ip(),
                dst_port: to.port(),
            });
            // No table has given it a number.
            Row { id: 0, ..flow_row(policy, &flow, tuple.as_ref()) }
        }));
        Self { at_ns: now.0, rows }
    }
}

fn host_row(machine: &HostAbr, queue: u16) -> Row {
    let mut row = Row::new("host", &format!("queue {queue}"));
    let (connections, waiting) = machine.gauges();
    let counters = machine.counters();
    let mut sink = Counters(&mut row);
    sink.gauge("connections", connections as u64);
    sink.gauge("waiting", waiting as u64);
    for (name, value) in [
        ("packets", counters.packets),
        ("unread", counters.unread),
        ("large", counters.large),
        ("completed", counters.completed),
        ("missed", counters.missed),
    ] {
        sink.counter(name, value);
    }
    machine.abr_counters().report(&mut sink);
    row
}
