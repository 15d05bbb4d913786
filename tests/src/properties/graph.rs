//! The graph language: what is read can be printed and read again.

use perhop_element::{BuildCx, ElementType};
use perhop_graph::lang::{Graph, build, parse};
use perhop_graph::router::registry;
use perhop_packet::PortId;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Elements of a graph that is built, not only parsed.
const MAX_BUILT: usize = 64;

/// A graph without its places in a text.
fn without_places(mut graph: Graph) -> Graph {
    for node in &mut graph.nodes {
        node.offset = 0;
        node.args.offset = 0;
        for arg in &mut node.args.list {
            arg.offset = 0;
        }
    }
    for edge in &mut graph.edges {
        edge.offset = 0;
    }
    graph
}

fn names() -> BuildCx {
    let mut cx = BuildCx::default();
    cx.ports.extend([("lan".to_owned(), PortId(0)), ("wan".to_owned(), PortId(1))]);
    cx
}

/// A graph that parses prints as text that parses to the same graph and prints the same; errors are placed inside the
/// text; and whether it can be built does not depend on which of the two texts is taken.
pub fn language(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let graph = match parse(text) {
        Ok(graph) => graph,
        Err(errors) => {
            assert!(!errors.is_empty());
            let lines = text.matches('\n').count() + 1;
            assert!(errors.iter().all(|e| (1..=lines).contains(&e.line) && e.column >= 1));
            return;
        }
    };
    let printed = graph.to_string();
    let again = match parse(&printed) {
        Ok(again) => again,
        Err(errors) => panic!("{printed:?} does not parse: {errors:?}"),
    };
    assert_eq!(without_places(again.clone()), without_places(graph.clone()), "{printed:?}");
    assert_eq!(again.to_string(), printed);
    // Elements reserve what their arguments say: large numbers would test the machine's memory.
    let large = |value: &str| value.bytes().filter(u8::is_ascii_digit).count() > 6;
    if graph.nodes.len() > MAX_BUILT || graph.nodes.iter().flat_map(|n| &n.args.list).any(|a| large(&a.value))
    {
        return;
    }
    let registry = registry();
    let first = build(text, graph, &registry, &mut names());
    let second = build(&printed, again, &registry, &mut names());
    match (first, second) {
        (Ok(first), Ok(second)) => {
            assert_eq!(first.nodes.len(), second.nodes.len());
            for (a, b) in first.nodes.iter().zip(&second.nodes) {
                let types = (a.element.type_name(), b.element.type_name());
                assert_eq!((&a.name, a.outputs, types.0), (&b.name, b.outputs, types.1));
            }
        }
        (Err(first), Err(second)) => assert_eq!(first.len(), second.len()),
        (Ok(_), Err(errors)) => panic!("built from the text, not from what it prints: {errors:?}"),
        (Err(errors), Ok(_)) => panic!("built from what the text prints, not from itself: {errors:?}"),
    }
}

/// A graph text with one element of every type there is, unconnected, with arguments drawn from `seed`.
pub fn types(seed: u64) -> String {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let declare =
        |t: &ElementType| format!("{} :: {}({});\n", t.name.to_lowercase(), t.name, (t.sample)(&mut rng));
    registry().types().iter().map(declare).collect()
}
