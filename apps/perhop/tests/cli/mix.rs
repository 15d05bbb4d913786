//! `perhop lab mix`: traffic whose kinds are known, and what detection makes of it.

use super::{Scratch, perhop};
use serde_json::Value;

/// The capture of a mix, given to `realtime classify`, gives the verdicts of `lab mix`, and its labels their kinds.
#[test]
fn a_mix_is_measured_and_its_capture_classifies_alike() {
    let scratch = Scratch::new("lab-mix");
    let capture = scratch.0.join("mix.pcap");
    let capture = capture.to_str().unwrap();
    let ended = perhop(&["lab", "mix", "--flows", "150", "--seed", "11", "--out", capture, "--json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let lines = ended.json();
    let figures = lines.last().unwrap();
    assert_eq!(figures["ok"], true);
    let (flows, media) =
        (figures["flows"].as_u64().unwrap(), figures["media"]["said_media"].as_u64().unwrap());
    assert!(flows >= 150 && media > 20, "{figures}");
    let kinds: u64 = lines.iter().filter_map(|l| l["flows"].as_u64().filter(|_| l["kind"].is_string())).sum();
    assert_eq!(kinds, flows);
    let classified = perhop(&["realtime", "classify", "--json", capture]).json();
    let total = classified.last().unwrap();
    let said = figures["others"]["said_media"].as_u64().unwrap();
    assert_eq!((total["flows"].as_u64(), total["media"].as_u64()), (Some(flows), Some(media + said)));
    let labels = std::fs::read_to_string(format!("{capture}.labels.jsonl")).unwrap();
    let labels: Vec<Value> = labels.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(labels.len() as u64, flows);
    let rows = &classified[..classified.len() - 1];
    assert!(labels.iter().all(|label| rows.iter().any(|row| row["flow"] == label["flow"])));
}

#[test]
fn a_mix_needs_a_place_that_can_be_written() {
    let ended = perhop(&["lab", "mix", "--flows", "1", "--out", "/nonexistent/mix.pcap"]);
    assert!(ended.code == Some(2) || ended.code == Some(3), "{:?}", ended.code);
    assert!(ended.err.contains("/nonexistent/mix.pcap"), "{}", ended.err);
}
