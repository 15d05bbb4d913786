//! The scenario files of the project: all can be read and run, and a seed gives the same bytes.

use perhop_measure::{Configuration, Experiment};
use perhop_scenario::{Loaded, Scenario, Settings};
use perhop_sim::{Options, run};
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
/// H-7.3, four of H-8.1, H-8.2, four of H-8.3, four of H-8.4 and four beyond; 10 of C-III, 17 of C-IV and 8 of C-V.
const FEWEST: usize = 53;

/// The published measurements, by name, but those over a satellite and those of changes: in seconds they show nothing.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).expect("the folder of scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_short = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".toml") && !name.starts_with("R-") && !name.starts_with("P-")
    };
    let mut files: Vec<PathBuf> = paths.filter(is_short).collect();
    files.sort();
    files
}

/// What users try, as far as a scenario has it.
const TRIED: [&[(&str, &str)]; 2] = [
    &[
        ("link.core.rate", "4Mbit/s"),
        ("link.far.delay", "60ms"),
        ("link.core.queue", "50 packets"),
        ("traffic.voip.calls", "37"),
    ],
    &[
        ("link.core.rate", "50Mbit/s"),
        ("link.core.loss", "1%"),
        ("link.core.jitter", "3ms"),
        ("traffic.voip.calls", "5"),
        ("traffic.voip.codec", "g729"),
    ],
];

/// How long a repetition is, ms: floods of the shortest frames are a tenth as long, because they are the most packets.
fn length_ms(text: &str, seconds: u32) -> u32 {
    if text.contains("\n[traffic.flood]\n") { seconds * 100 } else { seconds * 1000 }
}

/// Reads a file with a repetition of `seconds`, in the middle of which the calls begin, and users who hardly think.
fn read(path: &Path, seconds: u32) -> Loaded {
    read_with(path, seconds, &[])
}

/// The same with what a user sets.
fn read_with(path: &Path, seconds: u32, tried: &[(&str, &str)]) -> Loaded {
    let text = std::fs::read_to_string(path).expect("the file");
    let mut settings = Settings::new();
    let length = length_ms(&text, seconds);
    let warm_up = (length / 4).min(500);
    settings.set("warm_up", format!("{warm_up}ms"));
    settings.set("duration", format!("{}ms", length - warm_up));
    settings.set("repetitions", "1");
    for line in text.lines() {
        let calls = line.strip_prefix("[traffic.voip").and_then(|rest| rest.strip_suffix(']'));
        if let Some(suffix) = calls {
            settings.set(format!("traffic.voip{suffix}.start"), format!("{}ms", seconds * 500));
            settings.set(format!("traffic.voip{suffix}.stop"), format!("{seconds}s"));
        }
        for name in ["video", "sources", "flow"].into_iter().filter(|n| line == format!("[traffic.{n}]")) {
            settings.set(format!("traffic.{name}.stop"), format!("{seconds}s"));
        }
        let pages = line.strip_prefix("[traffic.www").and_then(|rest| rest.strip_suffix(']'));
        if let Some(suffix) = pages {
            settings.set(format!("traffic.www{suffix}.think"), "[\"0s\", \"1s\"]");
        }
    }
    if text.contains("[[node.edge.change]]") {
        settings.set("node.edge.change[1].at", format!("{}ms", length / 2));
    }
    // What the scenario has no section for cannot be set.
    let has = |at: &str| {
        let section: Vec<&str> = at.split('.').take(2).collect();
        text.contains(&format!("[{}]", section.join(".")))
    };
    for (at, value) in tried.iter().filter(|(at, _)| has(at)) {
        settings.set(*at, *value);
    }
    let companions = |name: &str| std::fs::read(Path::new(FOLDER).join(name)).map_err(|e| e.to_string());
    let (loaded, diagnostics) = Scenario::read(&path.display().to_string(), &text, &settings, &companions);
    let warned = diagnostics.to_string();
    assert!(warned.is_empty() || !tried.is_empty(), "{}: {warned}", path.display());
    loaded.unwrap_or_else(|| panic!("{}: {warned}", path.display()))
}

fn experiment(loaded: &Loaded) -> Experiment {
    let configuration = |scenario: &Scenario| {
        let options = Options { seed: scenario.seed, ..Options::default() };
        let recording = run(scenario, &options, |_| true);
        let recording = recording.unwrap_or_else(|error| panic!("{}: {error}", scenario.id));
        Configuration { scenario: scenario.clone(), recordings: vec![recording] }
    };
    Experiment {
        mode: "sim".to_owned(),
        seed: loaded.product.seed,
        changed: Vec::new(),
        product: configuration(&loaded.product),
        variants: loaded.variants.iter().map(|(name, s)| (name.clone(), configuration(s))).collect(),
    }
}

#[test]
fn every_scenario_reads_and_runs_and_finds_its_figures() {
    let files = files();
    assert!(files.len() >= FEWEST, "{} files", files.len());
    for path in files {
        let loaded = read(&path, 2);
        let id = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(loaded.product.id, id, "a scenario is called as its file");
        assert!(loaded.variants.iter().any(|(name, _)| name == "baseline"), "{id} has no baseline");
        let result = experiment(&loaded).result();
        assert!(!result.expect.is_empty(), "{id} expects nothing");
        for expect in &result.expect {
            assert!(expect.ours.is_some(), "{id}: there is no figure {}", expect.metric);
        }
        for group in result.groups.iter().filter(|group| group.name != "total") {
            let sends = group.throughput_kbps.is_some_and(|rate| rate.mean > 0.0);
            assert!(sends, "{id}: nothing arrives of {}", group.name);
        }
    }
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_seed_others() {
    let path = Path::new(FOLDER).join("H-8.1.4.toml");
    let mut loaded = read(&path, 2);
    let bytes = |loaded: &Loaded| serde_json::to_string(&experiment(loaded).result()).expect("a result");
    let first = bytes(&loaded);
    assert!(first == bytes(&loaded), "the same seed gave another result");
    loaded.product.seed += 1;
    loaded.variants.iter_mut().for_each(|(_, scenario)| scenario.seed += 1);
    // The seed itself is in the result.
    let other = bytes(&loaded).replacen("\"seed\":2", "\"seed\":1", 1);
    assert!(first != other, "another seed gave the same result");
}

#[test]
fn what_users_set_runs_in_every_scenario_and_gives_the_same_bytes_twice() {
    for (path, tried) in files().iter().zip(TRIED.iter().cycle()) {
        let loaded = read_with(path, 1, tried);
        let bytes = || serde_json::to_string(&experiment(&loaded).result()).expect("a result");
        assert!(bytes() == bytes(), "{}: {tried:?} gave two results", path.display());
    }
}
