//! Which crates a change concerns.

use crate::metadata::Package;
use crate::{Result, runner, tree};
use std::collections::BTreeSet;

/// What has to be linted and tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole workspace.
    All,
    /// These packages, by name; may be empty.
    Packages(Vec<String>),
}

/// The scope of the uncommitted change, or of the last commit when nothing is uncommitted.
///
/// # Errors
/// When git cannot be asked.
pub fn scope(packages: &[Package]) -> Result<Scope> {
    let root = tree::root();
    let mut files = runner::output("git", &["diff", "--name-only", "HEAD"], &root)?;
    files += &runner::output("git", &["ls-files", "--others", "--exclude-standard"], &root)?;
    if files.trim().is_empty() {
        // The first commit has no parent to compare with: everything is new then.
        match runner::output("git", &["diff", "--name-only", "HEAD~1", "HEAD"], &root) {
            Ok(last) => files = last,
            Err(_) => return Ok(Scope::All),
        }
    }
    Ok(scope_of(&files.lines().collect::<Vec<_>>(), packages))
}

fn scope_of(files: &[&str], packages: &[Package]) -> Scope {
    let mut dirs = BTreeSet::new();
    for file in files {
        match packages.iter().find(|package| file.starts_with(&format!("{}/", package.dir))) {
            Some(package) => {
                dirs.insert(package.dir.clone());
            }
            None if is_inert(file) => {}
            None => return Scope::All,
        }
    }
    // Dependants of what changed, until nothing is added.
    loop {
        let more: Vec<String> = packages
            .iter()
            .filter(|package| !dirs.contains(&package.dir))
            .filter(|package| {
                package.dependencies.iter().any(|d| d.dir.as_ref().is_some_and(|dir| dirs.contains(dir)))
            })
            .map(|package| package.dir.clone())
            .collect();
        if more.is_empty() {
            break;
        }
        dirs.extend(more);
    }
    let names = packages.iter().filter(|package| dirs.contains(&package.dir));
    Scope::Packages(names.map(|package| package.name.clone()).collect())
}

/// Files outside the crates that no crate's lints or tests can depend on. Examples and scenarios are read by tests.
fn is_inert(file: &str) -> bool {
    let prose = file.ends_with(".md") || file.starts_with("docs/") || file.starts_with("LICENSE-");
    prose || matches!(file, "Makefile" | "deny.toml" | ".gitignore") || file.starts_with(".ci/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn package(name: &str, dir: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|dir| Dependency { name: (*dir).to_owned(), dir: Some((*dir).to_owned()), dev: false })
            .collect();
        Package { name: name.to_owned(), dir: dir.to_owned(), dependencies, targets: vec![] }
    }

    fn house() -> Vec<Package> {
        vec![
            package("units", "core/units", &[]),
            package("wire", "core/wire", &["core/units"]),
            package("element", "dataplane/element", &["core/wire"]),
            package("elements", "dataplane/elements", &["dataplane/element"]),
            package("traffic", "lab/traffic", &["core/units"]),
        ]
    }

    #[test]
    fn dependants_are_concerned_at_any_distance() {
        let Scope::Packages(names) = scope_of(&["core/wire/src/udp.rs", "README.md"], &house()) else {
            panic!("a crate's own file concerns only some crates");
        };
        assert_eq!(names, ["wire", "element", "elements"]);
    }

    #[test]
    fn a_directory_name_that_is_a_prefix_of_another_is_not_confused() {
        assert_eq!(
            scope_of(&["dataplane/elements/src/lib.rs"], &house()),
            Scope::Packages(vec!["elements".to_owned()])
        );
    }

    #[test]
    fn prose_concerns_no_crate_and_the_lock_file_all() {
        assert_eq!(scope_of(&["docs/sources.md"], &house()), Scope::Packages(vec![]));
        assert_eq!(scope_of(&["Cargo.lock"], &house()), Scope::All);
        assert_eq!(scope_of(&["examples/edge.toml"], &house()), Scope::All);
    }
}
