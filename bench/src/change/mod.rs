//! `bench change`: what it takes to make a changed set of rules that the packet path can take over at its next batch, and
//! what taking it over costs a worker. With `--under-load` what changes cost the packets of a router that forwards.

mod changes;
mod packets;
mod timed;
mod under_load;

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_flows::classifier::{Action, Match, PortRange, Rule, RuleBook};
use perhop_flows::{Flows, FlowsChange, FlowsConfig};
use perhop_packet::{ClassId, FilterId};
use perhop_units::Instant;
use perhop_wire::protocol;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Options of `bench change`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Filters there are, 1 to 1,000,000
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    filters: u32,
    /// Filters changed at a time; without it 1 and 1,000
    #[arg(long, conflicts_with = "under_load", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: Option<u32>,
    #[command(flatten)]
    loaded: under_load::UnderLoad,
    #[command(flatten)]
    pub measured: Runs,
}

/// Filters changed in a run, at least.
const CHANGES: u32 = 10_000;

/// Measures every sweep point. An operation is one filter inserted or deleted; under load it is a packet.
///
/// # Errors
/// Filters beyond a limit of the classifier; see [`under_load::run`].
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    if options.loaded.under_load {
        let point = under_load::run(&options.loaded, options.filters, &options.measured)?;
        return Ok(sink.point(&point)?);
    }
    let cpu = machine::pin_to(options.measured.cpu)?;
    let wrong = |e: &dyn std::fmt::Display| BenchError::Wrong(e.to_string());
    let start = machine::thread_time_ns();
    let mut book = RuleBook::of((0..options.filters).map(|n| filter(n, n))).map_err(|e| wrong(&e))?;
    let built_s = (machine::thread_time_ns() - start) as f64 / 1e9;
    let config = FlowsConfig { connections: 1_024, ..FlowsConfig::default() };
    let mut worker = Flows::new(config, Arc::clone(book.classifier()), Arc::default());
    let mut next = options.filters;
    for batch in options.batch.map_or_else(|| vec![1, 1_000], |n| vec![n]) {
        let watch = Watch::start();
        let (mut ns, mut pauses, mut longest) = (Vec::new(), Vec::new(), Vec::new());
        // The first run brings the memory near and is not counted.
        for run in 0..=options.measured.runs {
            let steps = CHANGES.div_ceil(batch);
            let (mut took, mut paused, mut most) = (0, 0, 0);
            for _ in 0..steps {
                // Put in and taken out again, so that the set stays as large as it is.
                let ids: Vec<u32> = (next..next + batch).collect();
                next += batch;
                let added: Vec<Rule> = ids.iter().map(|n| filter(*n, n % options.filters)).collect();
                let removed: Vec<FilterId> = ids.iter().map(|n| FilterId(*n)).collect();
                for (added, removed) in [(added, Vec::new()), (Vec::new(), removed)] {
                    let start = machine::thread_time_ns();
                    let changed = book.change(added, &removed).map_err(|e| wrong(&e))?;
                    let made = machine::thread_time_ns();
                    let old = worker.commit(Instant::ZERO, FlowsChange::of_rules(changed));
                    let pause = machine::thread_time_ns() - made;
                    // What was replaced goes back to control, which lets it go.
                    drop(old);
                    took += made - start;
                    paused += pause;
                    most = most.max(pause);
                }
            }
            if run > 0 {
                ns.push(took as f64 / f64::from(2 * steps * batch));
                pauses.push(paused as f64 / f64::from(2 * steps));
                longest.push(most as f64);
            }
        }
        let mut point = Point { bench: "change", op: "filter", ..Point::default() };
        point.set_ns(&ns);
        point.params.insert("batch", batch.into());
        point.params.insert("filters", options.filters.into());
        point.params.insert("cpu", cpu.into());
        let rules = book.classifier();
        let exact = |value: f64, unit| Metric::new(Spread::exactly(value), unit);
        point.metrics.insert("tables", exact(rules.tables().0 as f64, "table"));
        point.metrics.insert("build", exact(built_s, "s"));
        point.metrics.insert("bytes_per_rule", exact(rules.bytes() as f64 / rules.len() as f64, "B"));
        point.metrics.insert("worker_pause", Metric::new(Spread::of(&pauses), "ns"));
        point.metrics.insert("worker_pause_longest", Metric::new(Spread::of(&longest), "ns"));
        point.warnings = watch.warnings();
        point.warn_of_spread();
        sink.point(&point)?;
    }
    Ok(())
}

/// A subscriber's filter: an address, a protocol and a port.
fn filter(id: u32, subscriber: u32) -> Rule {
    let address = Ipv4Addr::from_bits(0x0a00_0000 | (subscriber & 0x00ff_ffff));
    Rule {
        id: FilterId(id),
        tier: 0,
        priority: id,
        name: Arc::from(format!("f{id}")),
        matches: Match {
            dst: Some(IpAddr::V4(address).into()),
            protocol: Some(protocol::UDP),
            dst_ports: Some(PortRange::one(1024 + (id / 7 % 60_000) as u16)),
            ..Match::default()
        },
        action: Action { class: Some(ClassId(1)), ..Action::default() },
    }
}
