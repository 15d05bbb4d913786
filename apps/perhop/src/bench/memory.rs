//! How much memory a flow and a class take.

use perhop_elements::schedule::ClassTree;
use perhop_flows::{Flows, FlowsConfig};

/// Bytes by which the connection table grows a connection, everything included: measured by the allocator between two
/// tables of different size.
pub fn bytes_per_flow() -> f64 {
    const SMALL: usize = 1 << 15;
    const LARGE: usize = 1 << 17;
    let of = |connections: usize| {
        let before = perhop_bench::allocations();
        let config = FlowsConfig { connections, ..FlowsConfig::default() };
        let flows = Flows::new(config, Default::default(), Default::default());
        let bytes = perhop_bench::allocations().since(before).bytes;
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
