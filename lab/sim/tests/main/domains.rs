//! Controllers of domains, and what is reserved of them: the scenarios of the project with all that they expect.

use perhop_measure::{Configuration, Experiment};
use perhop_scenario::{Loaded, Scenario, Settings, catalogue};
use perhop_sim::{Options, run};

fn loaded(name: &str, set: &[(&str, &str)]) -> Loaded {
    let mut settings = Settings::new();
    set.iter().for_each(|(path, value)| settings.set(*path, *value));
    let found = catalogue::shipped(name).expect("a scenario that is built in");
    let (loaded, diagnostics) = found.read(&settings);
    assert!(diagnostics.is_empty(), "{name}: {diagnostics}");
    loaded.expect("a scenario without errors")
}

fn experiment(loaded: &Loaded) -> Experiment {
    let configuration = |scenario: &Scenario| {
        let repetition = |repetition| {
            let options = Options { seed: scenario.seed, repetition, ..Options::default() };
            run(scenario, &options, |_| true).unwrap_or_else(|error| panic!("{}: {error}", scenario.id))
        };
        let recordings = (0..scenario.repetitions).map(repetition).collect();
        Configuration { scenario: scenario.clone(), recordings }
    };
    Experiment {
        mode: "sim".to_owned(),
        seed: loaded.product.seed,
        changed: Vec::new(),
        product: configuration(&loaded.product),
        variants: loaded.variants.iter().map(|(name, s)| (name.clone(), configuration(s))).collect(),
    }
}

/// Runs a scenario whole; each of its targets holds.
fn holds(name: &str) -> Experiment {
    let experiment = experiment(&loaded(name, &[]));
    let result = experiment.result();
    let said: Vec<&String> =
        experiment.product.recordings[0].reserved.iter().flat_map(|record| &record.said).collect();
    for expect in &result.expect {
        let (metric, ours, target) = (&expect.metric, expect.ours, &expect.target);
        assert_eq!(expect.ok, Some(true), "{name}: {metric} is {ours:?}, not {target:?}; {said:#?}");
    }
    assert!(result.warnings.is_empty(), "{name}: {:?}", result.warnings);
    experiment
}

#[test]
fn reserved_calls_outlive_the_controller_and_later_ones_wait_for_the_next() {
    holds("controller-outage");
}

#[test]
fn a_link_that_loses_half_its_rate_costs_the_least_important() {
    holds("half-rate");
}

#[test]
fn an_aggregate_costs_one_question_and_one_change_a_chunk() {
    holds("G-S4.8");
}

#[test]
fn a_chain_of_domains_outlives_lost_messages_and_the_outage_of_one() {
    holds("domain-chain");
}

#[test]
fn a_refusal_names_link_class_asked_and_free() {
    let experiment = holds("demo-reserve");
    let said: Vec<&String> =
        experiment.product.recordings[0].reserved.iter().flat_map(|record| &record.said).collect();
    let refusal = said.iter().find(|text| text.contains("no_capacity")).expect("a refusal");
    assert!(refusal.contains("link west/core, class voice, asked 1.2 Mbit/s, free 800 kbit/s"), "{refusal}");
}

#[test]
fn without_its_reservation_the_same_traffic_loses() {
    let mut loaded = loaded("demo-reserve", &[]);
    loaded.product.reservations.clear();
    let mut experiment = experiment(&loaded);
    experiment.product.scenario.expect.clear();
    let result = experiment.result();
    let lost = result.group("reserved").and_then(|group| group.loss_pct).expect("datagrams");
    assert!(lost > 1.0, "{lost} %");
}
