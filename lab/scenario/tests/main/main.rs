//! Scenario files: good ones are taken whole, broken ones are reported whole.

mod anything;
mod broken;
mod good;
mod overrides;

use perhop_config::Diagnostics;
use perhop_scenario::{Loaded, Scenario, Settings};
use std::path::Path;

/// Reads a text whose companions lie in `tests/files`.
fn read(text: &str, settings: &[(&str, &str)]) -> (Option<Loaded>, Diagnostics) {
    let settings: Settings = settings.iter().copied().collect();
    Scenario::read("t.toml", text, &settings, &companion)
}

fn companion(name: &str) -> Result<Vec<u8>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
    std::fs::read(path).map_err(|_| "no such file".to_owned())
}

/// What a text without errors means.
fn good(text: &str, settings: &[(&str, &str)]) -> Loaded {
    let (loaded, diagnostics) = read(text, settings);
    loaded.unwrap_or_else(|| panic!("{diagnostics}"))
}

/// Everything that is said about a text.
fn said(text: &str, settings: &[(&str, &str)]) -> String {
    read(text, settings).1.to_string()
}
