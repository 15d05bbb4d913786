//! `cargo xtask layers`: who may depend on whom, where crates live, and where the bans may be lifted.
//!
//! `apps → host → lab, control, dataplane → core`, and `lab → dataplane, control`. The data plane and the control
//! plane never import each other. All of it is read from `cargo metadata`, so that nothing can be hidden.

use crate::Result;
use crate::finding::Finding;
use crate::metadata::{self, Package};
use crate::tidy::rust::Source;
use crate::tree::Tree;

/// What each layer may depend on, itself included.
const MAY_USE: [(&str, &[&str]); 6] = [
    ("core", &["core"]),
    ("dataplane", &["core", "dataplane"]),
    ("control", &["core", "control"]),
    ("lab", &["core", "dataplane", "control", "lab"]),
    ("host", &["core", "dataplane", "control", "lab", "host"]),
    ("apps", &["core", "dataplane", "control", "lab", "host", "apps", "bench"]),
];
/// Crates about the project instead of in it: they may use everything.
const OUTSIDE: [&str; 3] = ["tests", "xtask", "bench"];
/// Every crate that the house has room for.
const ROOMS: [(&str, &[&str]); 6] = [
    ("core", &["units", "wire", "packet", "ring", "model", "contract", "reason", "config", "quality"]),
    ("dataplane", &["element", "elements", "flows", "abr", "graph", "routerfile"]),
    ("control", &["agent", "allocate", "bandwidth", "tcapi", "cops", "sip", "broker", "policy", "radius"]),
    ("lab", &["tcp", "sim", "traffic", "measure", "scenario", "report"]),
    ("host", &["io", "netlink", "engine", "drive", "labrun", "store", "serve"]),
    ("apps", &["perhop"]),
];
/// Crates that may name the asynchronous runtime.
const TOKIO: [&str; 6] =
    ["host/drive", "host/netlink", "host/serve", "host/store", "host/labrun", "apps/perhop"];
/// The lints behind the clock, thread and socket bans.
const BANS: [&str; 2] = ["disallowed_methods", "disallowed_types"];

/// Everything the layer rules have to say.
///
/// # Errors
/// When git or cargo cannot be asked or a file cannot be read.
pub fn findings() -> Result<Vec<Finding>> {
    let tree = Tree::open()?;
    let packages = metadata::packages()?;
    let mut findings: Vec<Finding> = packages.iter().flat_map(package).collect();
    let roots: Vec<&str> =
        packages.iter().flat_map(|package| &package.targets).map(|target| target.path.as_str()).collect();
    for path in tree.files().filter(|path| path.ends_with(".rs")) {
        if let Some(text) = tree.text(path)? {
            findings.extend(bans(path, &text, roots.contains(&path)));
        }
    }
    Ok(findings)
}

/// Place, name and dependencies of one crate.
fn package(package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.dir);
    let mut findings = vec![];
    if let Some(expected) = expected_name(&package.dir) {
        if package.name != expected {
            let message = format!("package `{}` must be called `{expected}` here", package.name);
            findings.push(Finding::failure(&manifest, 0, message));
        }
    } else {
        findings.push(Finding::failure(
            &manifest,
            0,
            "the house has no room here: see the design of the layers",
        ));
    }
    for dependency in &package.dependencies {
        if let Some(dir) = &dependency.dir {
            let (from, to) = (layer(&package.dir), layer(dir));
            if !may_use(from, to) {
                let message =
                    format!("`{}` is in {from} and may not use `{}` of {to}", package.name, dependency.name);
                findings.push(Finding::failure(&manifest, 0, message));
            }
        } else if is_runtime(&dependency.name) && !dependency.dev && !may_use_runtime(&package.dir) {
            let message = format!("`{}` belongs to {} only", dependency.name, TOKIO.join(", "));
            findings.push(Finding::failure(&manifest, 0, message));
        }
    }
    findings
}

fn layer(dir: &str) -> &str {
    dir.split('/').next().unwrap_or(dir)
}

fn may_use(from: &str, to: &str) -> bool {
    OUTSIDE.contains(&from) || MAY_USE.iter().any(|&(layer, uses)| layer == from && uses.contains(&to))
}

fn is_runtime(name: &str) -> bool {
    name == "tokio" || name.starts_with("tokio-")
}

fn may_use_runtime(dir: &str) -> bool {
    TOKIO.contains(&dir) || OUTSIDE.contains(&layer(dir))
}

/// The name a crate in `dir` must have; `None` when there is no such room.
fn expected_name(dir: &str) -> Option<String> {
    match dir {
        "apps/perhop" => return Some("perhop".to_owned()),
        "xtask" => return Some("xtask".to_owned()),
        "tests" | "bench" => return Some(format!("perhop-{dir}")),
        _ => {}
    }
    let (layer, room) = dir.split_once('/')?;
    let (_, rooms) = ROOMS.iter().find(|(name, _)| *name == layer)?;
    rooms.contains(&room).then(|| format!("perhop-{room}"))
}

/// Attributes of one file that lift the clock, thread and socket bans where they must not, or without saying why.
fn bans(path: &str, text: &str, is_root: bool) -> Vec<Finding> {
    let source = Source::new(text);
    let free = OUTSIDE.contains(&layer(path));
    let may_lift = matches!(layer(path), "host" | "apps");
    let mut findings = vec![];
    for (at, word) in source.words().filter(|(_, word)| matches!(*word, "allow" | "expect")) {
        let before = source.code[..at].trim_end();
        let inner = before.ends_with("#![");
        if !(inner || before.ends_with("#[")) {
            continue;
        }
        let open = at + word.len();
        let close = source.closing(open);
        let attribute = &source.code[open..close];
        let Some(ban) = BANS.into_iter().find(|ban| attribute.contains(ban)) else { continue };
        let line = source.line_of(at) + 1;
        // A test that hands a packet to another thread needs one.
        let test = source.is_test_line(line - 1);
        if !(free || may_lift || test) {
            let message =
                format!("`{ban}` may be lifted in host and apps only: take the time as an argument");
            findings.push(Finding::failure(path, line, message));
        } else if !(free || test || (is_root && inner)) {
            let message = format!("lift `{ban}` for the whole crate in its root, with a reason");
            findings.push(Finding::failure(path, line, message));
        } else if !attribute.contains("reason") {
            findings.push(Finding::failure(
                path,
                line,
                format!("`{ban}` is lifted without a `reason = \"…\"`"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn check(name: &str, dir: &str, dependencies: &[(&str, Option<&str>, bool)]) -> usize {
        let dependencies = dependencies
            .iter()
            .map(|&(name, dir, dev)| Dependency { name: name.to_owned(), dir: dir.map(str::to_owned), dev })
            .collect();
        package(&Package { name: name.to_owned(), dir: dir.to_owned(), dependencies, targets: vec![] }).len()
    }

    #[test]
    fn layers_look_down_only() {
        let cases = [
            ("core", "core", true),
            ("core", "dataplane", false),
            ("dataplane", "control", false),
            ("control", "dataplane", false),
            ("lab", "dataplane", true),
            ("lab", "control", true),
            ("lab", "host", false),
            ("dataplane", "lab", false),
            ("host", "lab", true),
            ("host", "apps", false),
            ("apps", "core", true),
            ("tests", "apps", true),
            ("core", "xtask", false),
        ];
        for (from, to, allowed) in cases {
            assert_eq!(may_use(from, to), allowed, "{from} uses {to}");
        }
    }

    #[test]
    fn a_dependency_upwards_is_found_even_for_tests() {
        let up = Some("lab/traffic");
        assert_eq!(check("perhop-element", "dataplane/element", &[("perhop-traffic", up, false)]), 1);
        assert_eq!(check("perhop-element", "dataplane/element", &[("perhop-traffic", up, true)]), 1);
        assert_eq!(check("perhop-serve", "host/serve", &[("perhop-traffic", up, false)]), 0);
    }

    #[test]
    fn the_runtime_has_its_places() {
        assert_eq!(check("perhop-engine", "host/engine", &[("tokio", None, false)]), 1);
        assert_eq!(check("perhop-io", "host/io", &[("tokio", None, true)]), 0);
        assert_eq!(
            check("perhop-serve", "host/serve", &[("tokio", None, false), ("tokio-stream", None, false)]),
            0
        );
        assert_eq!(check("perhop-flows", "dataplane/flows", &[("tokio-stream", None, false)]), 1);
    }

    #[test]
    fn crates_live_in_their_rooms() {
        assert_eq!(check("perhop-units", "core/units", &[]), 0);
        assert_eq!(check("units", "core/units", &[]), 1);
        assert_eq!(check("perhop-helpers", "core/helpers", &[]), 1);
        assert_eq!(check("perhop", "apps/perhop", &[]), 0);
    }

    #[test]
    fn bans_are_lifted_in_roots_of_host_and_apps_with_a_reason() {
        let with = "#![allow(clippy::disallowed_methods, reason = \"the clock\")]";
        let without = "#![allow(clippy::disallowed_methods)]";
        let outer = "#[expect(clippy::disallowed_types, reason = \"a socket\")]\nfn f() {}";
        assert_eq!(bans("host/io/src/lib.rs", with, true).len(), 0);
        assert_eq!(bans("host/io/src/lib.rs", without, true).len(), 1);
        assert_eq!(bans("host/io/src/ring.rs", with, false).len(), 1);
        assert_eq!(bans("host/io/src/lib.rs", outer, true).len(), 1);
        assert_eq!(bans("core/units/src/lib.rs", with, true).len(), 1);
        assert_eq!(bans("tests/src/lib.rs", outer, true).len(), 0);
        let in_test = format!("#[cfg(test)]\nmod tests {{\n{outer}\n}}\n");
        assert_eq!(bans("core/packet/src/pool.rs", &in_test, false).len(), 0);
        assert_eq!(bans("core/units/src/lib.rs", "// #![allow(clippy::disallowed_methods)]", true).len(), 0);
    }
}
