//! The property [`agent_file::reading`](perhop_tests::properties::agent_file::reading).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::agent_file::reading(data));
