//! `bench memory`: how much memory a flow and a class take, counted by the allocator.

use crate::error::BenchError;
use crate::machine;
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_elements::schedule::{ClassTree, LeafParams, NodeIndex, NodeParams, NodeSpec, TreeLink};
use perhop_flows::{Flows, FlowsConfig};
use perhop_units::{Instant, Rate};

/// Options of `bench memory`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Leaf classes of the larger tree
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=900_000))]
    classes: u32,
    #[command(flatten)]
    pub measured: Runs,
}

/// Leaves below one class.
const GROUP: u32 = 50;

/// Measures. An operation is a class made.
///
/// # Errors
/// Output that nobody reads.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    let mut ns = Vec::new();
    let mut each = 0.0;
    for _ in 0..options.measured.runs {
        let (few, many) = (idle_tree(options.classes / 10), idle_tree(options.classes));
        each = (many.0 - few.0) as f64 / f64::from(many.1 - few.1);
        ns.push(many.2 as f64 / f64::from(many.1));
    }
    let mut point = Point { bench: "memory", op: "class", ..Point::default() };
    point.set_ns(&ns);
    point.params.extend([("classes", options.classes.into()), ("cpu", cpu.into())]);
    let (leaf, interior) = bytes_per_class();
    let metrics = [
        ("bytes_per_flow", bytes_per_flow()),
        ("bytes_per_idle_class", each),
        ("bytes_per_leaf_class", leaf),
        ("bytes_per_interior_class", interior),
    ];
    for (name, value) in metrics {
        point.metrics.insert(name, Metric::new(Spread::exactly(value), "B"));
    }
    sink.point(&point)?;
    Ok(())
}

/// Bytes that a tree of so many leaves in groups grows a thread's memory by, its classes, and the ns it took to make.
fn idle_tree(leaves: u32) -> (i64, u32, u64) {
    let groups = leaves.div_ceil(GROUP);
    let class = |n: u32| {
        let params = if n < groups {
            NodeParams::interior(None)
        } else {
            let parent = Some(NodeIndex((n - groups) / GROUP));
            NodeParams { queue: Some(LeafParams::default()), ..NodeParams::leaf(parent) }
        };
        NodeSpec { index: NodeIndex(n), name: format!("subscriber/{n:07}").into(), params }
    };
    let before = crate::allocations();
    let start = machine::thread_time_ns();
    // Names are made here and kept by the tree alone.
    let tree = {
        let specs: Vec<NodeSpec> = (0..groups + leaves).map(class).collect();
        ClassTree::with_classes(TreeLink::ethernet(Rate::from_mbit(10_000)), Instant::ZERO, &specs)
    };
    let took = machine::thread_time_ns() - start;
    let bytes = crate::allocations().since(before).bytes;
    drop(tree);
    (bytes, groups + leaves, took)
}

/// Bytes by which the connection table grows a connection, everything included: measured by the allocator between two
/// tables of different size.
pub fn bytes_per_flow() -> f64 {
    const SMALL: usize = 1 << 15;
    const LARGE: usize = 1 << 17;
    let of = |connections: usize| {
        let before = crate::allocations();
        let config = FlowsConfig { connections, ..FlowsConfig::default() };
        let flows = Flows::new(config, Default::default(), Default::default());
        let bytes = crate::allocations().since(before).bytes;
        drop(flows);
        bytes
    };
    (of(LARGE) - of(SMALL)) as f64 / (LARGE - SMALL) as f64
}

/// Bytes of a leaf class and of a class with classes below.
pub fn bytes_per_class() -> (f64, f64) {
    let (leaf, interior) = ClassTree::bytes_per_class();
    (leaf as f64, interior as f64)
}
