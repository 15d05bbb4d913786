//! Every file of the fuzz targets' seed corpora, through the same properties.

use perhop_tests::properties::{TARGETS, router_file};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// All corpora together stay small: they are seeds, not results.
const MAX_BYTES: usize = 300_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below `folder`, with their bytes, in order.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("readable").path()).collect();
    paths.sort();
    let mut out = Vec::new();
    for path in paths {
        if path.is_dir() {
            out.extend(files(&path));
        } else {
            let bytes = fs::read(&path).expect("readable");
            out.push((path, bytes));
        }
    }
    out
}

/// Runs `property` over `files` and names the files that break it.
fn replay(property: fn(&[u8]), files: &[(PathBuf, Vec<u8>)]) {
    let broken: Vec<&PathBuf> = files
        .iter()
        .filter(|(_, bytes)| catch_unwind(AssertUnwindSafe(|| property(bytes))).is_err())
        .map(|(path, _)| path)
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn every_seed_keeps_its_property() {
    let mut total = 0;
    for (name, property) in TARGETS {
        if name == "router_file" {
            continue;
        }
        let seeds = files(&root().join("fuzz/corpus").join(name));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        total += seeds.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        replay(property, &seeds);
    }
    assert!(total <= MAX_BYTES, "{total} bytes of seeds");
}

/// The seeds of the router file are the examples and the broken files that its own tests use.
#[test]
fn router_files_good_and_broken_keep_their_property() {
    let examples = files(&root().join("examples"));
    let broken = files(&root().join("dataplane/routerfile/tests/broken"));
    assert!(examples.len() >= 4 && broken.len() >= 20);
    replay(router_file::reading, &examples);
    replay(router_file::reading, &broken);
}

#[test]
fn every_target_has_a_property_and_every_property_a_target() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(root().join(folder)).expect("readable");
        entries
            .map(|e| e.expect("readable").path().file_stem().expect("a name").to_string_lossy().into_owned())
            .collect()
    };
    let properties: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(properties.len(), TARGETS.len());
    assert_eq!(names("fuzz/fuzz_targets"), properties);
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("readable");
    let built = manifest.split("[[bin]]").skip(1).filter_map(|bin| bin.lines().find_map(name_of));
    assert_eq!(built.collect::<BTreeSet<String>>(), properties, "what the manifest builds");
    let mut seeded = names("fuzz/corpus");
    seeded.insert("router_file".to_owned());
    assert_eq!(seeded, properties);
}

/// The value of a line `name = "…"`.
fn name_of(line: &str) -> Option<String> {
    Some(line.strip_prefix("name = \"")?.strip_suffix('"')?.to_owned())
}
