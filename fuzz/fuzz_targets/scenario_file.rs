//! The property [`scenario_file`](perhop_scenario::properties::scenario_file).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_scenario::properties::scenario_file(data));
