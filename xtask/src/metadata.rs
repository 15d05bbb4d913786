//! What `cargo metadata` says about the workspace.

use crate::{Result, XtaskError, runner, tree};
use serde_json::Value;
use std::path::Path;

/// A crate of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Directory relative to the root, `core/units`.
    pub dir: String,
    /// Dependencies of all kinds.
    pub dependencies: Vec<Dependency>,
    /// Targets: what cargo compiles as a crate of its own.
    pub targets: Vec<Target>,
}

/// An edge out of a package.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Package name.
    pub name: String,
    /// Directory relative to the root when it is a crate of the workspace.
    pub dir: Option<String>,
    /// Only for tests, examples and benches.
    pub dev: bool,
}

/// A compiled crate root.
#[derive(Clone, Debug)]
pub struct Target {
    /// Path relative to the root of the project.
    pub path: String,
    /// Whether it is a library or a program that ships (not a test, an example or a bench).
    pub ships: bool,
}

/// All crates of the workspace. Needs neither network nor registry.
///
/// # Errors
/// When cargo cannot be asked or answers strangely.
pub fn packages() -> Result<Vec<Package>> {
    let root = tree::root();
    let arguments = ["metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"];
    parse(&runner::output(&runner::cargo(), &arguments, &root)?)
}

fn parse(json: &str) -> Result<Vec<Package>> {
    let value: Value = serde_json::from_str(json)?;
    let root = text(&value, "workspace_root")?;
    array(&value, "packages")?.iter().map(|package| parse_package(package, Path::new(root))).collect()
}

fn parse_package(value: &Value, root: &Path) -> Result<Package> {
    let manifest = Path::new(text(value, "manifest_path")?);
    let dir = manifest.parent().ok_or(XtaskError::MetadataField("manifest_path"))?;
    let dependencies = array(value, "dependencies")?
        .iter()
        .map(|dependency| {
            Ok(Dependency {
                name: text(dependency, "name")?.to_owned(),
                dir: dependency["path"].as_str().map(|path| relative(Path::new(path), root)),
                dev: dependency["kind"].as_str() == Some("dev"),
            })
        })
        .collect::<Result<_>>()?;
    let targets = array(value, "targets")?
        .iter()
        .map(|target| {
            let kinds = array(target, "kind")?;
            let ships = kinds.iter().any(|kind| matches!(kind.as_str(), Some("lib" | "bin" | "proc-macro")));
            Ok(Target { path: relative(Path::new(text(target, "src_path")?), root), ships })
        })
        .collect::<Result<_>>()?;
    Ok(Package { name: text(value, "name")?.to_owned(), dir: relative(dir, root), dependencies, targets })
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn text<'a>(value: &'a Value, field: &'static str) -> Result<&'a str> {
    value[field].as_str().ok_or(XtaskError::MetadataField(field))
}

fn array<'a>(value: &'a Value, field: &'static str) -> Result<&'a Vec<Value>> {
    value[field].as_array().ok_or(XtaskError::MetadataField(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_relative_and_kinds_are_kept() {
        let packages = parse(
            r#"{"workspace_root":"/p","packages":[{"name":"perhop-wire","manifest_path":"/p/core/wire/Cargo.toml",
            "dependencies":[{"name":"perhop-units","kind":null,"path":"/p/core/units"},
                            {"name":"proptest","kind":"dev"}],
            "targets":[{"kind":["lib"],"src_path":"/p/core/wire/src/lib.rs"},
                       {"kind":["test"],"src_path":"/p/core/wire/tests/oracle.rs"}]}]}"#,
        )
        .expect("the text above is metadata");
        assert_eq!(packages[0].dir, "core/wire");
        assert_eq!(packages[0].dependencies[0].dir.as_deref(), Some("core/units"));
        assert!(packages[0].dependencies[1].dev);
        assert!(packages[0].targets[0].ships && !packages[0].targets[1].ships);
        assert!(parse("{}").is_err());
    }
}
