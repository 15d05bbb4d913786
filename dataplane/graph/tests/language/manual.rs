//! The manual pages of the elements, as far as they are graph text.

use crate::random_graphs::registry;
use perhop_element::BuildCx;
use perhop_graph::lang::{build, parse};
use perhop_packet::PortId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every source file below `dir`.
fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory of this workspace") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// What stands below `# Example` in a module doc.
fn example(source: &str) -> Option<String> {
    let doc = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut lines = doc.map(str::trim).skip_while(|line| *line != "# Example").skip(1).peekable();
    lines.peek()?;
    Some(lines.take_while(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n"))
}

/// The graphs of an example, which are its code: what is between them only separates them.
fn graphs(example: &str) -> Result<Vec<&str>, String> {
    let parts: Vec<&str> = example.split('`').collect();
    let between = parts.iter().step_by(2).find(|t| t.chars().any(|c| c != ',' && !c.is_whitespace()));
    match between {
        Some(words) => Err(format!("{:?} is not graph text", words.trim())),
        None if parts.len() < 3 || parts.len().is_multiple_of(2) => Err("there is no graph".to_owned()),
        None => Ok(parts.into_iter().skip(1).step_by(2).collect()),
    }
}

/// Builds `text` in a router with the ports `lan` and `wan`; the element types it uses.
fn types_of(text: &str) -> Result<Vec<String>, String> {
    let ports = [("lan".to_owned(), PortId(0)), ("wan".to_owned(), PortId(1))].into();
    let mut cx = BuildCx { ports, ..BuildCx::default() };
    let built = parse(text).and_then(|graph| build(text, graph, &registry(), &mut cx));
    let built = built.map_err(|errors| errors.iter().map(|e| format!("{e}\n")).collect::<String>())?;
    Ok(built.graph.nodes.into_iter().map(|node| node.type_name).collect())
}

#[test]
fn every_manual_example_builds() {
    let mut files = Vec::new();
    let dataplane = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    ["abr", "elements", "flows"]
        .iter()
        .for_each(|room| sources(&dataplane.join(room).join("src"), &mut files));
    let (mut shown, mut wrong) = (BTreeSet::new(), Vec::new());
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source file is text");
        let Some(example) = example(&source) else { continue };
        let types = graphs(&example)
            .and_then(|graphs| graphs.into_iter().map(types_of).collect::<Result<Vec<_>, _>>());
        match types {
            Ok(types) => shown.extend(types.into_iter().flatten()),
            Err(why) => wrong.push(format!("{}: {example}\n{why}", file.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let registry = registry();
    let hidden: Vec<_> =
        registry.types().iter().map(|t| t.name).filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "no example has {hidden:?}");
}

#[test]
fn an_example_is_nothing_but_graphs() {
    assert_eq!(graphs("`a :: T; a -> b`,\n`V()`"), Ok(vec!["a :: T; a -> b", "V()"]));
    assert_eq!(graphs("See `V()`."), Err("\"See\" is not graph text".to_owned()));
    assert_eq!(graphs(""), Err("there is no graph".to_owned()));
    assert!(types_of("FromPort(lan) -> Counter").is_err() && types_of("FromPort(dmz) -> Discard()").is_err());
}
