//! The property [`abr::rate_control`](perhop_tests::properties::abr::rate_control).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| perhop_tests::properties::abr::rate_control(data));
