//! `perhop router graph FILE`.

use super::file::{load_on, ports};
use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::text_file::read_text;
use clap::Args;
use perhop_graph::lang::{Graph, GraphError, build, parse};
use perhop_graph::router::{EdgeOptions, RouterPlanner, edge_graph, registry};
use perhop_model::Object;
use perhop_routerfile::overrides::LinkRate;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `perhop router graph`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router graph examples/edge.toml")]
pub struct GraphArgs {
    /// A router file; or a graph text, whose name ends in .graph
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Rate of the link of a port without a rate, as a scenario gives it: PORT=RATE; may be repeated
    #[arg(long = "rate", value_name = "PORT=RATE")]
    rates: Vec<LinkRate>,
    /// One JSON object an element and connection, a line each
    #[arg(long)]
    json: bool,
}

/// Prints it.
///
/// # Errors
/// The file cannot be read or has errors.
pub fn run(args: &GraphArgs) -> Result<Verdict, AppError> {
    let is_graph = args.file.extension().is_some_and(|e| e == "graph");
    let (graph, objects) = if is_graph {
        (check_graph(&args.file)?, Vec::new())
    } else {
        let file = load_on(&args.file, &args.rates)?;
        let options = EdgeOptions::live(file.router.max_flows)
            .with_abr(file.router.abr_connections())
            .with_abr_credit(file.router.abr_credit)
            .with_abr_spread(file.router.abr_spread)
            .with_storm_limit(file.router.storm_limit)
            .with_workers(file.router.workers)
            .with_adaptive(file.router.adaptive);
        let text = edge_graph(&ports(&file), &options);
        // The text was made here, so it can be read; what it names may not be known to this build.
        let graph = parse(&text).map_err(|errors| refuse(&args.file, &errors))?;
        (graph, file.objects)
    };
    let mut out = Output::new();
    if args.json {
        print_json(&mut out, &graph)?;
    } else {
        for object in &objects {
            out.line(comment(object))?;
        }
        if !objects.is_empty() {
            out.line("")?;
        }
        out.text(&graph)?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// A graph text that is right by itself. Ports are those that it names: a router file would tell them.
fn check_graph(path: &Path) -> Result<Graph, AppError> {
    let text = read_text(path, perhop_config::MAX_FILE_BYTES)?;
    let graph = parse(&text).map_err(|errors| refuse(path, &errors))?;
    let mut planner = RouterPlanner::new(Vec::new(), registry());
    let types = planner.registry().clone();
    let cx = planner.build_cx();
    for node in &graph.nodes {
        let named = ["FromPort", "ToPort", "Egress"].contains(&node.type_name.as_str());
        let Some(port) = node.args.find("port", Some(0)).filter(|_| named) else { continue };
        let next = perhop_packet::PortId(cx.ports.len() as u16);
        cx.ports.entry(port.value.clone()).or_insert(next);
    }
    build(&text, graph.clone(), &types, cx).map_err(|errors| refuse(path, &errors))?;
    Ok(graph)
}

fn refuse(path: &Path, errors: &[GraphError]) -> AppError {
    for error in errors {
        progress(format_args!("{}:{error}", path.display()));
    }
    AppError::BadFile { path: path.to_owned(), errors: errors.len() }
}

/// An object in one comment line.
fn comment(object: &Object) -> String {
    format!("// {} {}: {}", object.kind(), object.name, json!(object.spec))
}

fn print_json(out: &mut Output, graph: &Graph) -> Result<(), AppError> {
    for node in &graph.nodes {
        let args: Vec<_> = node.args.list.iter().map(|a| json!({ "key": a.key, "value": a.value })).collect();
        out.json(&json!({ "element": node.name, "type": node.type_name, "args": args }))?;
    }
    for edge in &graph.edges {
        let name = |i: usize| &graph.nodes[i].name;
        out.json(&json!({
            "from": name(edge.from), "output": edge.output, "to": name(edge.to), "input": edge.input
        }))?;
    }
    Ok(())
}
