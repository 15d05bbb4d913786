//! What holds for any bytes, for tests and for the fuzz target `scenario_file`.

use crate::drawing::draw;
use crate::model::Scenario;
use perhop_config::Settings;

/// Reads any bytes as a scenario file with settings: it is read or refused with at least one error, never a panic, and
/// twice the same. Lines behind the first line that is only `---` are settings; the companions of the file are the file
/// itself. What was read can be drawn.
///
/// # Panics
/// When one of that does not hold.
pub fn scenario_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (text, lines) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let mut settings = Settings::new();
    for line in lines.lines().take(16) {
        // What is no setting is refused by its own error.
        let _ = settings.add(line);
    }
    let companion = |_: &str| Ok(data.to_vec());
    let (loaded, diagnostics) = Scenario::read("any.toml", text, &settings, &companion);
    assert_eq!(loaded.is_some(), !diagnostics.has_errors());
    let (_, again) = Scenario::read("any.toml", text, &settings, &companion);
    assert_eq!(diagnostics.to_string(), again.to_string());
    if let Some(loaded) = loaded {
        for scenario in std::iter::once(&loaded.product).chain(loaded.variants.iter().map(|(_, s)| s)) {
            assert!(!draw(scenario).is_empty());
        }
    }
}
