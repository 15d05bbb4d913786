//! The property [`describe::description`](perhop_tests::properties::describe::description).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::describe::description(data));
