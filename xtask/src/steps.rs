//! The two long commands: what they run, in which order, and how they end.

use crate::changed::{self, Scope};
use crate::finding::{self, Finding};
use crate::summary::Counts;
use crate::{Result, layers, metadata, runner, tidy, tree};
use std::path::PathBuf;
use std::time::Instant;

/// Every interleaving of the ring's threads. With a target directory of its own, because the flag concerns every crate.
const RINGS: &str =
    "test --package perhop-ring --test loom --locked --target-dir target/loom -- --show-output";
/// What turns the ring's atomics into models.
const RINGS_FLAGS: [(&str, &str); 1] = [("RUSTFLAGS", "--cfg loom")];
/// How long the soak runs in `ci`.
const SOAK_SECONDS: &str = "60";

/// Runs every check and every test; true when all of them passed.
///
/// # Errors
/// When a tool that is needed is missing.
pub fn ci() -> Result<bool> {
    let mut steps = Steps::new();
    steps.findings("layers", layers::findings)?;
    steps.findings("tidy", tidy::findings)?;
    steps.deny()?;
    steps.cargo("fmt", "fmt --all --check", &[])?;
    steps.cargo("clippy", "clippy --workspace --all-targets --locked --keep-going -- -D warnings", &[])?;
    steps.cargo(
        "rustdoc",
        "doc --workspace --no-deps --locked --keep-going",
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    // --show-output lets the `SKIPPED name: why` lines of passing tests through.
    steps.cargo("tests", "test --workspace --locked --no-fail-fast -- --show-output", &[])?;
    steps.cargo("rings", RINGS, &RINGS_FLAGS)?;
    steps.cargo(
        "soak",
        "test --package perhop-tests --locked soak -- --show-output --skip soak_day",
        &[("PERHOP_SOAK_SECONDS", SOAK_SECONDS)],
    )?;
    Ok(steps.finish())
}

/// Runs the ring's threads in every interleaving; true when all tests passed.
///
/// # Errors
/// When a tool that is needed is missing.
pub fn rings() -> Result<bool> {
    let mut steps = Steps::new();
    steps.cargo("rings", RINGS, &RINGS_FLAGS)?;
    Ok(steps.finish())
}

/// Runs the quick set for what changed; true when all of it passed.
///
/// # Errors
/// When a tool that is needed is missing.
pub fn check() -> Result<bool> {
    let scope = changed::scope(&metadata::packages()?)?;
    let selection = match &scope {
        Scope::All => "--workspace".to_owned(),
        Scope::Packages(names) => {
            names.iter().map(|name| format!("--package {name}")).collect::<Vec<_>>().join(" ")
        }
    };
    let mut steps = Steps::new();
    steps.findings("layers", layers::findings)?;
    steps.findings("tidy", tidy::findings)?;
    steps.deny()?;
    steps.cargo("fmt", "fmt --all --check", &[])?;
    if selection.is_empty() {
        println!("no crate is concerned by the change: no lints, no tests");
    } else {
        steps.cargo("clippy", &format!("clippy {selection} --all-targets --locked -- -D warnings"), &[])?;
        steps.cargo("tests", &format!("test {selection} --locked --no-fail-fast -- --show-output"), &[])?;
    }
    Ok(steps.finish())
}

/// A run of steps, none of which stops the run.
struct Steps {
    root: PathBuf,
    counts: Counts,
    failed: Vec<&'static str>,
}

impl Steps {
    fn new() -> Steps {
        Steps { root: tree::root(), counts: Counts::default(), failed: vec![] }
    }

    fn findings(&mut self, name: &'static str, step: impl Fn() -> Result<Vec<Finding>>) -> Result<()> {
        println!("== {name}");
        let started = Instant::now();
        let ok = finding::print(&step()?);
        self.counts.failed += u64::from(!ok);
        self.done(name, ok, started);
        Ok(())
    }

    /// Licences, origins and doubled versions of what the project is built from. It is a program that not everybody has;
    /// known weaknesses are left out, as asking for them needs the network.
    fn deny(&mut self) -> Result<()> {
        if runner::has_subcommand("deny") {
            return self.cargo("deny", "deny check bans licenses sources", &[]);
        }
        println!(
            "SKIPPED deny: licences and origins of dependencies are NOT checked: `cargo install cargo-deny`"
        );
        let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "deny"));
        if required {
            self.counts.failed += 1;
            self.failed.push("deny");
        } else {
            self.counts.add_skipped_step();
        }
        Ok(())
    }

    fn cargo(&mut self, name: &'static str, arguments: &str, environment: &[(&str, &str)]) -> Result<()> {
        println!("== {name}: cargo {arguments}");
        let started = Instant::now();
        let failed_before = self.counts.failed;
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let ok = runner::cargo_step(&arguments, environment, &self.root, &mut self.counts)?;
        if !ok && self.counts.failed == failed_before {
            // It failed without naming a test: a lint, or tests that do not compile.
            self.counts.failed += 1;
        }
        self.done(name, ok, started);
        Ok(())
    }

    fn done(&mut self, name: &'static str, ok: bool, started: Instant) {
        let verdict = if ok { "ok" } else { "FAILED" };
        println!("== {name}: {verdict} in {:.1} s", started.elapsed().as_secs_f64());
        if !ok {
            self.failed.push(name);
        }
    }

    /// Prints what failed and, as the last line, the counts.
    fn finish(self) -> bool {
        self.counts.failures().iter().for_each(|line| println!("{line}"));
        if !self.failed.is_empty() {
            println!("failed steps: {}", self.failed.join(", "));
        }
        println!("{}", self.counts);
        self.failed.is_empty()
    }
}
