//! From a graph to elements: types, port numbers, arguments.

use super::parse::{nearest, parse};
use super::{Graph, GraphError};
use perhop_element::{BuildCx, Element, Registry};
use perhop_packet::PortId;

/// An element made from its declaration.
pub struct BuiltNode {
    /// Name.
    pub name: String,
    /// The element.
    pub element: Box<dyn Element>,
    /// Outputs it has in this graph.
    pub outputs: usize,
}

/// A graph whose elements are made and whose connections are checked; nothing runs yet.
pub struct Built {
    /// The graph as read.
    pub graph: Graph,
    /// One an element, in the graph's order.
    pub nodes: Vec<BuiltNode>,
}

/// Makes every element of `graph`.
///
/// # Errors
/// Everything wrong with it: unknown types, connections to ports a type does not have, required outputs left open,
/// arguments. `text` is the source, for positions.
pub fn build(
    text: &str,
    graph: Graph,
    registry: &Registry,
    cx: &mut BuildCx,
) -> Result<Built, Vec<GraphError>> {
    let mut errors = Vec::new();
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    // Inputs and outputs that connections use, by element.
    let mut used = vec![(0, 0); graph.nodes.len()];
    for e in &graph.edges {
        used[e.to].0 = used[e.to].0.max(usize::from(e.input) + 1);
        used[e.from].1 = used[e.from].1.max(usize::from(e.output) + 1);
    }
    for (index, decl) in graph.nodes.iter().enumerate() {
        let Some(kind) = registry.find(&decl.type_name) else {
            let near = nearest(&decl.type_name, registry.types().iter().map(|t| t.name));
            let hint = near.map(|n| format!("did you mean {n}?"));
            let message = format!("there is no element type {}", decl.type_name);
            errors.push(GraphError::at(text, decl.offset, message, hint));
            continue;
        };
        let (inputs, outputs) = used[index];
        for (what, n, (_, most)) in
            [("outputs", outputs, kind.outputs.range()), ("inputs", inputs, kind.inputs.range())]
        {
            if n > most as usize {
                let message =
                    format!("{} ({}) has {most} {what}, number {} is used", decl.name, kind.name, n - 1);
                errors.push(GraphError::at(text, decl.offset, message, None));
            }
        }
        match (kind.build)(&decl.args, cx) {
            Ok(element) => {
                let outputs = outputs.max(kind.outputs.range().0 as usize);
                nodes.push(BuiltNode { name: decl.name.clone(), element, outputs });
            }
            Err(found) => errors.extend(found.into_iter().map(|e| {
                let hint = e.allowed.map(|a| format!("allowed: {a}"));
                GraphError::at(text, e.offset, format!("{} ({}): {}", decl.name, kind.name, e.message), hint)
            })),
        }
    }
    if errors.is_empty() {
        return Ok(Built { graph, nodes });
    }
    errors.sort_by_key(|e| (e.line, e.column));
    Err(errors)
}

/// Whether `element`, one type with its arguments, can be made and stand between two ports, as the discipline before a
/// link does.
///
/// # Errors
/// Everything wrong with it, at places in `element`.
pub fn check_between_ports(element: &str, registry: &Registry) -> Result<(), Vec<GraphError>> {
    const BEFORE: &str = "FromPort(in) -> element :: ";
    let text = format!("{BEFORE}{element} -> ToPort(out);\n");
    let mut cx = BuildCx::default();
    for (number, port) in (0..).zip(["in", "out"]) {
        cx.ports.insert(port.to_owned(), PortId(number));
    }
    let built = parse(&text).and_then(|graph| build(&text, graph, registry, &mut cx));
    built.map(drop).map_err(|mut errors| {
        for error in errors.iter_mut().filter(|error| error.line == 1) {
            error.column = error.column.saturating_sub(BEFORE.len()).max(1);
        }
        errors
    })
}
