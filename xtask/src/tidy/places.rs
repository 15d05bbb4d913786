//! What belongs to one place only: `unsafe`, lint settings, and nothing at all of the machine this is written on.

use super::rust::Source;
use crate::Result;
use crate::finding::Finding;
use crate::metadata::Package;
use crate::tree::Tree;

/// Directories whose crates may hold `unsafe` code.
const UNSAFE: [&str; 6] = ["core/packet/", "core/ring/", "host/io/", "host/netlink/", "fuzz/", "bench/"];
const FORBID: &str = "#![forbid(unsafe_code)]";
/// Where dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Libraries and programs that could hold `unsafe` code without anybody noticing.
///
/// # Errors
/// When a file cannot be read.
pub fn forbid_unsafe(tree: &Tree, packages: &[Package]) -> Result<Vec<Finding>> {
    let mut findings = vec![];
    let roots = packages.iter().flat_map(|package| &package.targets).filter(|target| target.ships);
    for target in roots.filter(|target| !allows_unsafe(&target.path)) {
        let text = tree.text(&target.path)?.unwrap_or_default();
        if !Source::new(&text).code.lines().any(|line| line.trim() == FORBID) {
            findings.push(Finding::failure(&target.path, 0, format!("the crate root lacks `{FORBID}`")));
        }
    }
    Ok(findings)
}

/// Whether `unsafe` is allowed in this file.
fn allows_unsafe(path: &str) -> bool {
    UNSAFE.iter().any(|dir| path.starts_with(dir))
}

/// Things that do not belong where they are, in any file: this machine's paths, other registries, `unsafe`.
pub fn outside(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = vec![];
    // Spelled in two halves, else this file would find itself.
    let machine_paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    for (number, line) in text.lines().enumerate() {
        if machine_paths.iter().any(|machine| names_path(line, machine)) {
            findings.push(Finding::failure(
                path,
                number + 1,
                "a path of one machine: the project speaks for all",
            ));
        }
        let source = line.strip_prefix("source = \"").and_then(|rest| rest.strip_suffix('"'));
        if path.ends_with("Cargo.lock") && source.is_some_and(|source| source != REGISTRY) {
            findings.push(Finding::failure(path, number + 1, "dependencies come from crates.io only"));
        }
    }
    if path.ends_with(".rs") && !allows_unsafe(path) {
        let source = Source::new(text);
        let first = source.words().find(|&(_, word)| word == "unsafe");
        findings.extend(first.map(|(at, _)| {
            let message =
                format!("`unsafe` lives in {} only", UNSAFE.map(|dir| dir.trim_end_matches('/')).join(", "));
            Finding::failure(path, source.line_of(at) + 1, message)
        }));
    }
    findings
}

/// Whether `line` names an absolute path that begins with `machine` (and not a longer path that contains it).
fn names_path(line: &str, machine: &str) -> bool {
    line.match_indices(machine).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | ')' | '*'))
    })
}

/// A crate that does not inherit the workspace's lints escapes the bans.
pub fn inherits_lints(path: &str, text: &str) -> Option<Finding> {
    // The fuzz targets are a workspace of their own.
    if path.starts_with("fuzz/") || !text.lines().any(|line| line.trim() == "[package]") {
        return None;
    }
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    let inherits = lines.any(|line| line == "workspace = true") || text.contains("lints.workspace = true");
    (!inherits)
        .then(|| Finding::failure(path, 0, "`[lints] workspace = true` is missing: the bans do not reach it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_as_absolute_paths_only() {
        let absolute = format!("see {}x.md", concat!("/wo", "rk/"));
        let inner = format!("target{}x.md", concat!("/wo", "rk/"));
        assert_eq!(outside("a.md", &absolute).len(), 1);
        assert_eq!(outside("a.md", &inner).len(), 0);
    }

    #[test]
    fn unsafe_code_has_its_places() {
        assert_eq!(outside("core/wire/src/lib.rs", "unsafe { x() }").len(), 1);
        assert_eq!(outside("core/packet/src/pool.rs", "unsafe { x() }").len(), 0);
        assert_eq!(outside("core/wire/src/lib.rs", "// unsafe\n#![forbid(unsafe_code)]").len(), 0);
    }

    #[test]
    fn other_registries_are_found() {
        assert_eq!(outside("Cargo.lock", &format!("source = \"{REGISTRY}\"")).len(), 0);
        assert_eq!(outside("Cargo.lock", "source = \"git+https://example.org/x\"").len(), 1);
    }

    #[test]
    fn lints_are_inherited() {
        assert!(
            inherits_lints("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n")
                .is_none()
        );
        assert!(inherits_lints("a/Cargo.toml", "[package]\nedition.workspace = true\n").is_some());
        assert!(inherits_lints("Cargo.toml", "[workspace]\n").is_none());
    }
}
