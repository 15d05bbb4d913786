//! Times of the elements that the router under test is made of.

use crate::report::{Metric, Point, Spread};
use perhop_element::Driver;

/// The machine's clock for the router under test, ns.
pub fn clock() -> u64 {
    perhop_io::clock::monotonic().as_nanos()
}

/// Elements of the default graph that a packet from `lan` to `wan` passes, in its order, and their metrics.
const WAY: [(&str, &str); 6] = [
    ("in_lan", "in_lan_ns"),
    ("flows", "flows_ns"),
    ("condition", "condition_ns"),
    ("forward", "forward_ns"),
    ("queue_wan", "queue_wan_ns"),
    ("out_wan", "out_wan_ns"),
];

/// ns a packet of each element, of several runs.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    runs: [Vec<f64>; WAY.len()],
}

impl Elements {
    /// Adds what a run has cost.
    pub fn take(&mut self, driver: &Driver) {
        for ((name, _), runs) in WAY.iter().zip(&mut self.runs) {
            let cost = driver.find(name).and_then(|id| driver.cost(id));
            runs.extend(cost.map(perhop_element::ElementCost::ns_per_packet));
        }
    }

    /// Adds one metric an element.
    pub fn describe(&self, point: &mut Point) {
        for ((_, metric), runs) in WAY.iter().zip(&self.runs).filter(|(_, runs)| !runs.is_empty()) {
            point.metrics.insert(metric, Metric::new(Spread::of(runs), "ns"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Detection, Router, Setup};
    use perhop_element::CostConfig;
    use perhop_packet::Pool;

    #[test]
    fn every_element_on_the_way_exists() {
        let setup =
            Setup { rate: 1_000_000_000, filters: 0, connections: 1024, detection: Detection::On, abr: None };
        let mut router = Router::new(&setup, Pool::new(64), 1).expect("the example is valid");
        let driver = router.worker.driver_mut();
        driver.set_costs(Some(CostConfig { clock, clock_ns: 0, every: 1 }));
        let (mut elements, mut point) = (Elements::default(), Point::default());
        elements.take(driver);
        elements.describe(&mut point);
        assert_eq!(point.metrics.len(), WAY.len());
    }
}
