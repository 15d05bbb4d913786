//! Draws graphs: DAGs with merges and open outputs, now and then with a loop through an element that takes time.

use perhop_element::Registry;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A loop must go through one of these: they let packets out at the pace of a line, or later.
const TAKES_TIME: [&str; 8] = ["AltqCbq", "Delay", "Drr", "Egress", "Hpd", "Link", "Priority", "Shaper"];

/// A graph as text, and what went into it.
pub struct Drawn {
    pub text: String,
    /// One an element, in order of declaration.
    pub types: Vec<&'static str>,
    pub loops: usize,
    pub merges: usize,
    inputs: BTreeSet<&'static str>,
}

impl Drawn {
    /// The graph of `seed`: 4 to 20 elements.
    pub fn new(seed: u64, registry: &Registry) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut below = move |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
        let mut sampler = Pcg64Mcg::seed_from_u64(!seed);
        let types = registry.types();
        let count = 4 + below(17);
        let drawn: Vec<_> = (0..count).map(|_| types[below(types.len())]).collect();
        let mut text = String::new();
        for (i, t) in drawn.iter().enumerate() {
            writeln!(text, "e{i} :: {}({});", t.name, (t.sample)(&mut sampler)).expect("a string takes all");
        }
        let mut graph = Self {
            text,
            types: drawn.iter().map(|t| t.name).collect(),
            loops: 0,
            merges: 0,
            inputs: types
                .iter()
                .filter(|t| t.inputs.range().1 > 0 || t.name == "FromPort")
                .map(|t| t.name)
                .collect(),
        };
        let mut fed = vec![false; count];
        for (i, t) in drawn.iter().enumerate() {
            // Of types with a great many outputs the first few; some stay open.
            for output in 0..t.outputs.range().1.min(5) {
                if below(6) == 0 {
                    continue;
                }
                let back = TAKES_TIME.contains(&t.name) && below(4) == 0;
                let targets = if back { 0..i + 1 } else { i + 1..count };
                let targets: Vec<usize> = targets.filter(|j| drawn[*j].inputs.range().1 > 0).collect();
                let Some(to) = targets.get(below(targets.len())) else { continue };
                let input = below(drawn[*to].inputs.range().1 as usize);
                graph.loops += usize::from(back);
                graph.merges += usize::from(std::mem::replace(&mut fed[*to], true));
                writeln!(graph.text, "e{i} [{output}] -> [{input}] e{to};").expect("a string takes all");
            }
        }
        graph
    }

    /// Whether packets may be given to elements of a type: through the graph, or by the driver's owner.
    pub fn takes_packets(&self, type_name: &str) -> bool {
        self.inputs.contains(type_name)
    }
}
