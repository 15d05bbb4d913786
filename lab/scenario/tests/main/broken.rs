//! `tests/broken/NN-name.toml` are files with several errors each. Beside each stands the whole text that is shown
//! (`.expected`; `PERHOP_BLESS=1` writes it anew). Independent of that, comments in the file say where something is
//! wrong: `#@COLUMN severity: words` below a line, or `#@LINE:COLUMN severity: words` anywhere.

use perhop_config::Severity;
use perhop_scenario::{Scenario, Settings};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("readable").path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    files.sort();
    files
}

/// Line, column, severity and some words of a message.
type Claim = (u32, u32, Severity, String);

fn claims(text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut line = 0;
    for (i, content) in text.lines().enumerate() {
        let Some((_, claim)) = content.split_once("#@") else {
            line = i as u32 + 1;
            continue;
        };
        let (place, rest) = claim.split_once(' ').expect("a place, then a severity");
        let (severity, words) = rest.split_once(": ").expect("a severity, then words");
        let severity = if severity == "warning" { Severity::Warning } else { Severity::Error };
        let (line, column) =
            place.split_once(':').map_or((line, place), |(l, c)| (l.parse().expect("a line"), c));
        claims.push((line, column.parse().expect("a column"), severity, words.to_owned()));
    }
    claims
}

#[test]
fn broken_files_are_reported_whole() {
    let bless = std::env::var_os("PERHOP_BLESS").is_some();
    let mut wrong = String::new();
    let files = files();
    assert!(files.len() >= 12, "{}", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let (loaded, diagnostics) = Scenario::read(&name, &text, &Settings::new(), &crate::companion);
        let shown = diagnostics.to_string();
        let list = diagnostics.sorted();
        assert_eq!(loaded.is_some(), !diagnostics.has_errors(), "{name}");
        let mut met = BTreeSet::new();
        for (line, column, severity, words) in claims(&text) {
            let found = list.iter().position(|d| {
                (d.position.line, d.position.column, d.severity) == (line, column, severity)
                    && d.to_string().contains(&words)
            });
            match found {
                Some(found) => {
                    met.insert(found);
                }
                None => {
                    wrong +=
                        &format!("{name}:{line}:{column}: nothing says {words:?} ({severity:?})\n{shown}\n")
                }
            }
        }
        for (i, diagnostic) in list.iter().enumerate().filter(|(i, _)| !met.contains(i)) {
            wrong += &format!("{name}: message {} is not claimed: {diagnostic}\n", i + 1);
        }
        let expected = path.with_extension("expected");
        if bless {
            fs::write(&expected, &shown).expect("writable");
        } else if fs::read_to_string(&expected).unwrap_or_default() != shown {
            wrong += &format!("{name}: not as expected:\n{shown}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whoever reads a message can open the file it names from where the scenario was named.
#[test]
fn files_that_a_scenario_names_are_told_by_a_path_that_leads_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let text = fs::read_to_string(folder.join("10-router.toml")).expect("readable");
    let (_, diagnostics) = Scenario::read("my/net/mine.toml", &text, &Settings::new(), &crate::companion);
    let shown = diagnostics.to_string();
    assert!(shown.starts_with("my/net/ports.toml:2:8: port \"wan\""), "{shown}");
}
