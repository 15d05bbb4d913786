//! `bench load`: how long a large configuration takes from the text of its file to the first packet, and how fast flows are
//! established.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::router::Router;
use crate::turns::Runs;
use perhop_config::Diagnostics;
use perhop_element::{Cx, Driver, Element, PortIndex};
use perhop_flows::classifier::{Action, Classifier, Match, PortRange, Rule};
use perhop_flows::{Flows, FlowsConfig, Settings};
use perhop_graph::router::EdgeOptions;
use perhop_packet::{Batch, ClassId, FilterId, Pool, PortId};
use perhop_routerfile::RouterFile;
use perhop_units::Instant;
use perhop_wire::{build, protocol};
use std::any::Any;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Options of `bench load`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Leaf classes of the file
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    classes: u32,
    /// Filters of the file, each of a customer's prefix and port
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(0..=900_000))]
    filters: u32,
    /// Flows that are established
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    flows: u32,
    #[command(flatten)]
    pub measured: Runs,
}

/// Leaves below one class.
const GROUP: u32 = 250;

/// Measures both.
///
/// # Errors
/// A file that is refused.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    for mut point in [classes(options)?, flows(options)?] {
        point.params.insert("cpu", cpu.into());
        sink.point(&point)?;
    }
    Ok(())
}

/// From the text of the file to a router that has taken it over.
fn classes(options: &Options) -> Result<Point, BenchError> {
    let text = file(options.classes, options.filters);
    let watch = Watch::start();
    let (mut ns, mut read, mut commit, mut total) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.measured.runs {
        let start = machine::thread_time_ns();
        let (file, diagnostics) = RouterFile::read("load.toml", &text);
        let file = file.ok_or_else(|| refused(&diagnostics))?;
        let parsed = machine::thread_time_ns();
        let options_of_edge = EdgeOptions::live(EdgeOptions::DEFAULT_CONNECTIONS);
        let router = Router::with(file.objects, &options_of_edge, Pool::new(4096), 1)?;
        let done = machine::thread_time_ns();
        drop(router);
        let seconds = |from: u64, until: u64| (until - from) as f64 / 1e9;
        read.push(seconds(start, parsed));
        commit.push(seconds(parsed, done));
        total.push(seconds(start, done));
        ns.push((done - start) as f64 / f64::from(options.classes));
    }
    let mut point = Point { bench: "load", op: "class", ..Point::default() };
    point.set_ns(&ns);
    point.params.insert("classes", options.classes.into());
    point.params.insert("filters", options.filters.into());
    for (name, seconds) in [("read", read), ("commit", commit), ("total", total)] {
        point.metrics.insert(name, Metric::new(Spread::of(&seconds), "s"));
    }
    point.metrics.insert("file", Metric::new(Spread::exactly(text.len() as f64), "B"));
    point.warnings = watch.warnings();
    Ok(point)
}

/// The first error and how many there are: they are alike.
fn refused(diagnostics: &Diagnostics) -> BenchError {
    let first = diagnostics.to_string().lines().next().unwrap_or_default().to_owned();
    BenchError::Router(format!("{} errors, the first: {first}", diagnostics.errors()))
}

/// First packets of flows, one each, into a connection table that has room for them all; each is compared with the filters.
fn flows(options: &Options) -> Result<Point, BenchError> {
    let watch = Watch::start();
    let (mut ns, mut total) = (Vec::new(), Vec::new());
    let rules: Vec<Rule> = (0..options.filters).map(rule).collect();
    for _ in 0..options.measured.runs {
        let pool = Pool::new(4 * Batch::MAX);
        let mut driver = Driver::new(pool.clone(), 1);
        let classifier =
            Classifier::build(rules.iter().cloned()).map_err(|e| BenchError::Wrong(e.to_string()))?;
        let start = machine::thread_time_ns();
        let config = FlowsConfig { connections: options.flows as usize, ..FlowsConfig::default() };
        let flows = Flows::new(config, classifier, Arc::new(Settings::default()));
        let flows = driver.add("flows", Box::new(flows), 1);
        let end = driver.add("end", Box::new(End), 0);
        driver.connect(flows, 0, end, 0).map_err(|e| BenchError::Wrong(e.to_string()))?;
        let mut took = machine::thread_time_ns() - start;
        let mut batch = Batch::new();
        for n in 0..options.flows {
            // In no order that the filters have.
            let to = n.wrapping_mul(0x9e37_79b1) % options.filters.max(1);
            let (src, dst) = (Ipv4Addr::from(11 << 24 | n), customer(to));
            let frame = build::udp4(src, dst).ports(5000, port(to)).payload(&[0x5a; 22]).build();
            let Some(mut packet) = pool.packet(&frame) else { continue };
            let layout = perhop_wire::dissect(&frame).map_err(|e| BenchError::Wrong(e.to_string()))?;
            let meta = packet.meta_mut();
            (meta.layout, meta.parsed, meta.in_port) = (layout, true, PortId(0));
            batch.push(packet);
            if batch.is_full() || n + 1 == options.flows {
                let start = machine::thread_time_ns();
                driver.push(Instant(1 + u64::from(n)), flows, 0, &mut batch);
                took += machine::thread_time_ns() - start;
            }
        }
        let created = driver.element_ref::<Flows>(flows).map_or(0, |f| f.flow_counters().created);
        if created != u64::from(options.flows) {
            return Err(BenchError::Wrong(format!("{created} of {} flows were established", options.flows)));
        }
        ns.push(took as f64 / f64::from(options.flows));
        total.push(took as f64 / 1e9);
    }
    let mut point = Point { bench: "load", op: "flow", ..Point::default() };
    point.set_ns(&ns);
    point.params.insert("flows", options.flows.into());
    point.params.insert("filters", options.filters.into());
    point.metrics.insert("total", Metric::new(Spread::of(&total), "s"));
    point.warnings = watch.warnings();
    Ok(point)
}

/// Where packets end.
struct End;

impl Element for End {
    fn type_name(&self) -> &'static str {
        "End"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            cx.consume(packet);
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Address of the customer that a filter is for.
fn customer(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(10 << 24 | n)
}

/// Port that a filter is for.
fn port(n: u32) -> u16 {
    5_000 + (n % 1_009) as u16
}

/// What a filter of the file becomes.
fn rule(n: u32) -> Rule {
    let dst_ports = Some(PortRange { first: port(n), last: port(n) });
    let dst = Some(IpAddr::V4(customer(n)).into());
    Rule {
        id: FilterId(n),
        tier: 0,
        priority: n,
        name: Arc::from(format!("f{n}")),
        matches: Match { dst, protocol: Some(protocol::UDP), dst_ports, ..Match::default() },
        action: Action { class: Some(ClassId(n)), ..Action::default() },
    }
}

/// A router file of so many leaves, each with a guarantee and a ceiling, below aggregates of [`GROUP`], and of so many
/// filters, one customer after the other.
fn file(classes: u32, filters: u32) -> String {
    let mut text = String::from(
        "[router]\nname = \"load\"\n\n[[port]]\nname = \"lan\"\n\n[[port]]\nname = \"wan\"\nrate = \"100 Gbit/s\"\n\n\
         [[class]]\nname = \"others\"\nport = \"wan\"\ndefault = true\n",
    );
    let mut add = |lines: std::fmt::Arguments<'_>| {
        let written = text.write_fmt(lines);
        debug_assert!(written.is_ok(), "a string takes everything");
    };
    for group in 0..classes.div_ceil(GROUP) {
        add(format_args!(
            "\n[[class]]\nname = \"area{group}\"\nport = \"wan\"\nguarantee = \"{} kbit/s\"\n",
            GROUP * 100
        ));
        for n in group * GROUP..((group + 1) * GROUP).min(classes) {
            add(format_args!(
                "\n[[class]]\nname = \"area{group}/s{n}\"\nport = \"wan\"\nparent = \"area{group}\"\n\
                 guarantee = \"100 kbit/s\"\nceiling = \"50 Mbit/s\"\n"
            ));
        }
    }
    for n in 0..filters {
        let (leaf, customer, port) = (n % classes, customer(n), port(n));
        add(format_args!(
            "\n[[filter]]\nname = \"f{n}\"\nmatch = {{ dst = \"{customer}/32\", protocol = \"udp\", dst_ports = \"{port}\" }}\n\
             class = \"s{leaf}\"\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_valid_and_flows_are_established() {
        let measured = Runs { runs: 1, cpu: None, json: true };
        let options = Options { classes: 600, filters: 1_000, flows: 1_000, measured };
        classes(&options).expect("a file that is taken");
        flows(&options).expect("all flows");
    }
}
