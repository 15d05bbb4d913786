//! Policies that are broken: everything wrong is reported at once, each at its place, and nothing is taken.
//!
//! A line of `tests/broken/NN-name.toml` with something wrong says so behind `#!`, with words of the message; `#!!` is two. Beside
//! each file stands the whole text that is shown, which `PERHOP_BLESS=1` writes anew.

use perhop_policy::validate::from_toml;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}

#[test]
fn broken_policies_are_reported_whole() {
    assert!(files().len() >= 50);
    for path in files() {
        let text = fs::read_to_string(&path).expect("readable");
        let (policy, diagnostics) = from_toml(&name_of(&path), &text);
        assert!(policy.is_none() && diagnostics.has_errors(), "{}", name_of(&path));
        let expected = path.with_extension("expected");
        if std::env::var_os("PERHOP_BLESS").is_some() {
            fs::write(&expected, diagnostics.to_string()).expect("writable");
        }
        let expected = fs::read_to_string(&expected).expect("readable");
        assert_eq!(diagnostics.to_string(), expected, "{}", name_of(&path));
    }
}

#[test]
fn broken_policies_are_reported_at_their_markers() {
    let mut wrong = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("readable");
        if !text.contains("#!") {
            continue;
        }
        let (_, diagnostics) = from_toml(&name_of(&path), &text);
        let mut found = diagnostics.sorted();
        for (number, line) in (1u32..).zip(text.lines()) {
            let Some((_, marker)) = line.split_once("#!") else { continue };
            let (times, words) = marker.strip_prefix('!').map_or((1, marker), |words| (2, words));
            for _ in 0..times {
                let here = |d: &perhop_config::Diagnostic| {
                    d.position.line == number && d.to_string().contains(words.trim())
                };
                match found.iter().position(here) {
                    Some(at) => drop(found.remove(at)),
                    None => {
                        wrong.push(format!("{}:{number}: not found: {words}\n{diagnostics}", name_of(&path)))
                    }
                }
            }
        }
        wrong.extend(found.iter().map(|d| format!("{}: not marked: {d}", name_of(&path))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
