//! CAMARA's interfaces as its own scenarios try them, read from its files together with the interface documents; and what
//! the scenarios leave out.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a test talks through sockets and may panic"
)]

mod gherkin;
mod given;
mod more;
mod scenario;
mod schema;
mod then;
mod world;
mod yaml;

use std::collections::BTreeSet;
use std::path::PathBuf;

/// The operations that there are, and the files with their scenarios.
const OPERATIONS: [(&str, &str); 7] = [
    ("createSession", "quality-on-demand-createSession"),
    ("getSession", "quality-on-demand-getSession"),
    ("deleteSession", "quality-on-demand-deleteSession"),
    ("extendQosSessionDuration", "quality-on-demand-extendQosSessionDuration"),
    ("retrieveSessionsByDevice", "quality-on-demand-retrieveSessionsByDevice"),
    ("getQosProfile", "qos-profiles-getQosProfile"),
    ("retrieveQosProfiles", "qos-profiles-retrieveQosProfiles"),
];

/// Scenarios that are not played, and why.
const LEFT_OUT: [(&str, &str); 1] = [(
    "qos_profiles_retrieveQosProfiles_06_device_qos_profiles_not_found",
    "says 200 with nothing where C01.07, given the same, says 422 SERVICE_NOT_APPLICABLE",
)];

/// Where the data of others is; none = it is not here.
fn data(test: &str) -> Option<PathBuf> {
    let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|all| all.split(',').any(|one| one == "data"));
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        assert!(!required, "{test}: PERHOP_TEST_DATA unset");
        eprintln!("SKIPPED {test}: PERHOP_TEST_DATA unset");
        return None;
    };
    Some(PathBuf::from(data).join("camara"))
}

#[test]
fn every_scenario_of_an_operation_that_there_is_passes() {
    let Some(data) = data("every_scenario_of_an_operation_that_there_is_passes") else { return };
    let documents = schema::Documents::read(&data.join("api"));
    let (mut played, mut failed, mut left_out) = (0, Vec::new(), BTreeSet::new());
    for (operation, file) in OPERATIONS {
        let text = std::fs::read_to_string(data.join(format!("tests/{file}.feature"))).unwrap();
        let scenarios = gherkin::read(&text);
        assert!(scenarios.len() > 5, "{file}");
        for scenario in scenarios {
            if let Some((name, _)) = LEFT_OUT.iter().find(|(name, _)| *name == scenario.name) {
                left_out.insert(*name);
                continue;
            }
            played += 1;
            let play = || scenario::play(&documents, operation, &scenario);
            if let Err(why) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(play)) {
                let text = why.downcast_ref::<String>().cloned();
                let text = text.or(why.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
                failed.push(format!("{}: {text}", scenario.name));
            }
        }
    }
    println!("{played} scenarios played, {} left out", left_out.len());
    assert!(failed.is_empty(), "{} of {played} failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(left_out.len(), LEFT_OUT.len(), "what is left out is there");
    assert!(played >= 149, "{played}");
}
